# A config that contradicts itself or the tensors.
refuse() { show run --quiet -p a -m "$1"; }
change() { # change NAME SED-EXPRESSION
    clone "$1"
    cp "$1/config.json" before
    sed -i -E "$2" "$1/config.json"
    cmp -s before "$1/config.json" && echo "nothing changed"
    refuse "$1"
}
change more_experts 's/("n_routed_experts":) 32/\1 31/'
change fewer_experts 's/("n_routed_experts":) 32/\1 33/'
change more_layers 's/("num_hidden_layers":) 9/\1 8/'
change fewer_layers 's/("num_hidden_layers":) 9/\1 10/'
change top_k 's/("num_experts_per_tok":) 4/\1 33/'
change no_top_k 's/("num_experts_per_tok":) 4/\1 0/'
change hidden 's/("hidden_size":) 256/\1 512/'
change vocab 's/("vocab_size":) 4096/\1 4097/'
change heads 's/("num_attention_heads":) 8/\1 9/'
change huge 's/("hidden_size":) 256/\1 4294967296/'
change groups 's/("n_group":) 1/\1 2/'
change negative 's/("kv_lora_rank":) 64/\1 -64/'
change text 's/("kv_lora_rank":) 64/\1 "64"/'
change other 's/"glm_moe_dsa"/"llama"/'
change no_field '/"q_lora_rank"/d'
change twice 's/("q_lora_rank": 128,)/\1 \1/'
clone no_config
rm no_config/config.json
refuse no_config
clone config_text
echo 'hello' >config_text/config.json
refuse config_text
clone config_deep
head -c 100000 /dev/zero | tr '\0' '[' >config_deep/config.json
refuse config_deep
clone tokenizer_text
echo '{' >tokenizer_text/tokenizer.json
refuse tokenizer_text
