# The statistics: which figures there are, and what must hold between them.
question() { sluice run --chat -p "$QUESTION" "$@" 2>stats >answer; }
figure() { sed -E "s/.*\"$1\":([0-9.e+-]+).*/\1/" stats; }

question --stats=json --threads 2
sed -E 's/:[0-9.e+-]+/:N/g; s/"reader":"[^"]*"/"reader":"..."/' stats
echo "prefill $(figure prefill_tokens), decode $(figure decode_tokens), threads $(figure threads)"
echo "experts asked for: $(($(figure expert_hits) + $(figure expert_misses)))"
[ "$(figure bytes_read)" -gt 0 ] && echo 'experts were read'
question --stats
sed -E 's/f32 on cpu .*/.../; s/read by .*,/read by ...,/' stats | hide_numbers
question --quiet
cat stats
# Less memory: more reads, the same answer, and never more than planned.
if [ -z "$SLUICE_SANITIZED$SLUICE_EMULATED" ]; then
    limit=$(sluice plan --json | sed -E 's/.*"minimum":([0-9]+).*/\1/')
    question --stats=json --memory "$limit"
    cat answer
    [ "$(figure planned_bytes)" -le "$limit" ] && echo 'the plan is inside the limit'
    [ "$(figure peak_rss_bytes)" -le "$(figure planned_bytes)" ] && echo 'the peak is inside the plan'
else
    printf '%s\n' 'As an adjective, happy means enjoying or showing or marked by joy or pleasure. It can also mean marked by good fortune.' \
        'the plan is inside the limit' 'the peak is inside the plan'
fi
