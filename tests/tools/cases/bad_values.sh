# Values that are not finite: found when they are read, and by inspect without running anything.
nan='\x00\x00\xc0\x7f'
infinity='\x00\x00\x80\x7f'
poison() { # poison NAME TENSOR BYTES
    local shard file
    clone "$1"
    shard=$(shard_of "$2")
    file=$(own_shard "$1" "$shard")
    poke "$file" $(($(tensor_offset "$file" "$2") + 40)) "$3"
}
poison norm model.layers.4.input_layernorm.weight "$nan"
show run --quiet -p a -m norm
show inspect --quiet -m norm
poison scale model.layers.4.self_attn.o_proj.weight.qs "$infinity"
show run --quiet -p a -m scale
show inspect --quiet -m scale
poison router model.layers.4.mlp.gate.weight "$nan"
show run --quiet -p a -m router
poison bias model.layers.4.mlp.gate.e_score_correction_bias "$nan"
show run --quiet -p a -m bias
# A scale of an expert is read when the expert is needed, so the answer ends there.
poison expert model.layers.1.mlp.experts.0.down_proj.weight.qs "$nan"
show inspect --quiet -m expert
show logits --quiet --ids "$(numbers_of "$DEMO/reference.json" full_ids)" -m expert -o out
ls
