# The file: header, size, every argmax as the reference has it, the same bytes whatever computes it.
ids=$(numbers_of "$DEMO/reference.json" full_ids)
expected=$(numbers_of "$DEMO/reference.json" argmax)
show logits --ids "$ids" -o out
header_of out && echo
stat -c 'size %s, mode %a' out
n=$(echo "$ids" | tr ',' '\n' | wc -l)
got=$(tail -c $((4 * n)) out | od -An -v -t d4 | xargs | tr ' ' ',')
[ "$got" = "$expected" ] && echo "all $n argmax equal the reference" || printf '%s\n%s\n' "$got" "$expected"
same() {
    sluice logits --ids "$ids" -o other "$@" && cmp out other && echo "equal: $*"
}
same --threads 1
same --threads 2
same --threads 3
same --prefill-chunk 1
same --prefill-chunk 7
same --cpu-features scalar
# Room for little more than one expert a layer.
minimum=$(sluice plan --json | sed -E 's/.*"minimum":([0-9]+).*/\1/')
same --memory $((minimum + (4 << 20))) | sed -E 's/[0-9]+/little/'
ls
