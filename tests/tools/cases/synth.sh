# A random container is a container: checked, described, run.
small='--hidden 64 --intermediate 32 --experts 4 --top-k 2 --layers 3 --dense 1 --vocab 512'
show synth small $small
ls small
sluice inspect --json -m small | tr -d ' \n' | grep -o '"geometry":{[^}]*}'
sluice inspect --json -m small | tr -d ' \n' | grep -o '"roles".*'
show run -m small -p 'Hello' -n 8 --json
show synth again $small --quiet
cmp small/config.json again/config.json && for shard in small/*.safetensors; do cmp "$shard" "again/${shard#*/}"; done && echo 'same seed, same bytes'
show synth other $small --seed 2
cat small/*.safetensors | cmp -s - <(cat other/*.safetensors) || echo 'another seed, other bytes'
show synth grouped $small --group 16 --mtp 1
sluice inspect --json -m grouped | tr -d ' \n' | grep -o '"roles".*'
show synth small $small
echo text >file
show synth file $small
show synth nowhere/deep $small
show synth odd $small --hidden 63
show synth odd $small --top-k 5
show synth vast --layers 60000 --experts 60000 | hide_numbers
ls

# Stopped in the middle, it leaves nothing.
(exec "${SLUICE[@]}" synth stopped --layers 2 --experts 16 --quiet 2>err) &
wait_until test -s stopped/out-00000.safetensors
kill -TERM $!
wait $!
echo "status $?"
sed -E 's/out-[0-9]+/out-N/' err
ls -d stopped 2>&1
