# After a failure nothing is left, and what was there before is untouched.
echo before >out
show logits --ids 1,5000 -o out
show logits --ids 1,2,3 --context 2 -o out
show logits --ids 1 -o nowhere/out
show logits --ids 1 -o .
show logits --ids 1 -o /dev/full
(
    ulimit -f 16
    show logits --ids 1,2,3 -o out
)
ls
cat out
mkdir -m 555 closed
[ "$(id -u)" = 0 ] && printf '$ sluice logits --ids 1 -o closed/out\n! sluice: closed/out: Permission denied\n= 1\n' ||
    show logits --ids 1 -o closed/out
umask 027
show logits --ids 1 -o out
stat -c 'mode %a' out
