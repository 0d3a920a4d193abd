# Every argmax of every reference set.
for set in basic dsa grouped wide; do
    reference=$DATA_SETS/$set/reference.json
    ids=$(numbers_of "$reference" full_ids)
    sluice logits --quiet -m "$DATA_SETS/$set" --ids "$ids" -o out
    n=$(echo "$ids" | tr ',' '\n' | wc -l)
    got=$(tail -c $((4 * n)) out | od -An -v -t d4 | xargs | tr ' ' ',')
    [ "$got" = "$(numbers_of "$reference" argmax)" ] && echo "$set: all $n argmax equal" || echo "$set: different"
    # Greedy continuation, as far as the model does not end it.
    prompt=$(numbers_of "$reference" prompt_ids)
    rest=${ids#"$prompt",}
    answer=$(sluice run --quiet -m "$DATA_SETS/$set" --ids "$prompt" -n "$(echo "$rest" | tr ',' '\n' | wc -l)")
    case "$rest," in
    "$answer,"*) echo "$set: $(echo "$answer" | tr ',' '\n' | wc -l) of $(echo "$rest" | tr ',' '\n' | wc -l) continued tokens equal" ;;
    *) printf '%s\n' "$set: different" "$answer" "$rest" ;;
    esac
done
