# Tensors that are missing, of the wrong shape or dtype, or there twice.
refuse() { show run --quiet -p a -m "$1"; }
change() { # change NAME SHARD SED-EXPRESSION
    clone "$1"
    edit_header "$(own_shard "$1" "$2")" "$3"
    refuse "$1"
}

change missing out-00004.safetensors 's/"model.layers.4.self_attn.o_proj.weight":/"model.layers.4.self_attn.o_proj.other":/'
change missing_scale out-00004.safetensors 's/"model.layers.4.self_attn.o_proj.weight.qs":/"model.layers.4.self_attn.o_proj.other.qs":/'
change missing_norm out-00000.safetensors 's/"model.norm.weight":/"model.nerm.weight":/'
change flat out-00004.safetensors 's/("model.layers.4.input_layernorm.weight":\{[^}]*"shape":)\[256\]/\1[16,16]/'
change bias out-00004.safetensors \
    's/"model.layers.4.input_layernorm.weight":(\{[^}]*\})(.*)"model.layers.4.mlp.gate.e_score_correction_bias":(\{[^}]*\})/"model.layers.4.input_layernorm.weight":\3\2"model.layers.4.mlp.gate.e_score_correction_bias":\1/'
change router out-00004.safetensors 's/("model.layers.4.mlp.gate.weight":\{[^}]*"shape":)\[32,256\]/\1[256,32]/'
change dtype out-00004.safetensors 's/("model.layers.4.input_layernorm.weight":\{[^}]*"dtype":)"F32"/\1"I32"/'
change unknown_dtype out-00004.safetensors 's/("model.layers.4.input_layernorm.weight":\{[^}]*"dtype":)"F32"/\1"F31"/'
change in_one_shard out-00004.safetensors 's/"model.layers.4.self_attn.o_proj.weight":/"model.layers.4.self_attn.q_a_proj.weight":/'
change in_two_shards out-00004.safetensors 's/"model.layers.4.self_attn.o_proj.weight":/"model.layers.5.self_attn.o_proj.weight":/'
change expert out-00004.safetensors 's/"model.layers.4.mlp.experts.7.up_proj.weight":/"model.layers.4.mlp.experts.7.up_prej.weight":/'
