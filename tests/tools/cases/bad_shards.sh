# Damaged shards: lengths, headers, offsets.
refuse() { show run --quiet -p a -m "$1"; }

clone cut
truncate -s -1000 "$(own_shard cut out-00004.safetensors)"
refuse cut

clone stub
printf 'abc' >"$(own_shard stub out-00004.safetensors)"
refuse stub

clone nothing
: >"$(own_shard nothing out-00004.safetensors)"
refuse nothing

clone long_header
file=$(own_shard long_header out-00004.safetensors)
poke "$file" 0 '\xff\xff\xff\xff\xff\xff\xff\x7f'
refuse long_header

clone no_json
file=$(own_shard no_json out-00004.safetensors)
poke "$file" 8 'hello'
refuse no_json

clone no_object
echo '[1,2,3]' | set_header "$(own_shard no_object out-00004.safetensors)"
refuse no_object

clone deep
{ head -c 100000 /dev/zero | tr '\0' '['; head -c 100000 /dev/zero | tr '\0' ']'; } |
    set_header "$(own_shard deep out-00004.safetensors)"
refuse deep

clone overlap
edit_header "$(own_shard overlap out-00004.safetensors)" \
    's/("model.layers.4.post_attention_layernorm.weight":\{[^}]*"data_offsets":)\[[0-9]+,[0-9]+\]/\1[0,1024]/'
refuse overlap

clone outside
edit_header "$(own_shard outside out-00004.safetensors)" \
    's/("model.layers.4.input_layernorm.weight":\{[^}]*"data_offsets":)\[[0-9]+,[0-9]+\]/\1[100000000,100001024]/'
refuse outside

clone backwards
edit_header "$(own_shard backwards out-00004.safetensors)" \
    's/("model.layers.4.input_layernorm.weight":\{[^}]*"data_offsets":)\[([0-9]+),([0-9]+)\]/\1[\3,\2]/'
refuse backwards

clone overflow
edit_header "$(own_shard overflow out-00004.safetensors)" \
    's/("model.layers.4.input_layernorm.weight":\{[^}]*"shape":)\[[0-9]+\]/\1[4294967296,4294967296,4]/'
refuse overflow

clone negative
edit_header "$(own_shard negative out-00004.safetensors)" \
    's/("model.layers.4.input_layernorm.weight":\{[^}]*"shape":)\[[0-9]+\]/\1[-256]/'
refuse negative

clone gap
rm gap/out-00005.safetensors
refuse gap
