# The decode bench says everything it should; what it measures is nobody's verdict.
sluice bench decode --runs 2 -n 3 --prompt-tokens 4 --threads 1 >out 2>err
echo "status $?"
cat err
sed -E 's/"(cpu_kernels|reader)":"[^"]*"/"\1":"..."/g; s/by [^,]*,/by ...,/' out | hide_numbers
show bench decode --context 4
