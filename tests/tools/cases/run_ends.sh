# Why an answer ends: a stop string, -n, a full context; and prompts that cannot be.
show run --chat -p "$QUESTION" --stop ' or ' --stop 'joy'
show run --chat -p "$QUESTION" --stop ' or ' --json
show run --chat -p "$QUESTION" -n 5
show run --chat -p "$QUESTION" -n 5 --quiet
show run --chat -p "$QUESTION" --context 20
show run --chat -p "$QUESTION" --context 20 --json
show run --chat -p "$QUESTION" --context 12
show run --chat -p "$QUESTION" --context 11
show run --ids 1,2,3 --context 2
show run --ids 1,4095 -n 1
show run --ids 1,4096
show run --ids 4294967295
show run --ids 4294967296
: >empty
show run -f empty
show run -f missing
show run -f .
feed 'a\xffb' run -f -
feed 'a\0b' run --chat -f -
show run -p a --context 3000
printf 'a\xffb' >latin
show run -f latin
show run -f latin --chat
sluice run -p a --chat --system $'caf\xe9' 2>&1
show tokenize -f latin
