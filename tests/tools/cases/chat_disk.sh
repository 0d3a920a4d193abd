# A disk that fails in the middle of a conversation ends that answer with the reason; the next one works.
clone model
shard=$(own_shard model out-00003.safetensors)
# Few slots, so that experts have to be read again for every answer.
minimum=$(sluice plan -m model --context 512 --json | sed -E 's/.*"minimum":([0-9]+).*/\1/')
mkfifo lines
sluice chat -m model --context 512 --memory "$minimum" <lines >out 2>err &
exec 8>lines
echo 'What does happy mean?' >&8
wait_for_line out # the whole answer: its end of line comes last
size=$(stat -c %s "$shard")
truncate -s $(($(header_length "$shard") + 8)) "$shard"
echo 'What is a dog?' >&8
wait_for err 'sluice: '
tail -c +$((1 + $(stat -c %s "$shard"))) "$DEMO/out-00003.safetensors" >>"$shard"
printf '/reset\nWhat does happy mean?\n/quit\n' >&8
exec 8>&-
wait $!
echo "status $?"
# Which of its experts is missed first is a matter of time.
sed -E 's/^/! /; s/tensor model\.layers\.3\.mlp\.experts\.[0-9.a-z_]+/tensor .../; s/expert [0-9]+ of layer 3/expert N of layer 3/' err
# The answer in between ends wherever the missing expert was needed.
head -n 1 out
tail -n 1 out
