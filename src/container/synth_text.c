/* The JSON files of a random container.
 *
 * The tokenizer is the smallest that is whole: 256 tokens, one a byte, no merges, and the special tokens of the
 * model's chat form behind them. Byte-level BPE spells bytes as characters that print: those that do not by
 * themselves get the code points from 256 on. */
#include "container/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define FIRST_SPECIAL 256

static const struct {
    const char *text;
    bool special;
    bool eos;
} special_tokens[] = {
    {"<|endoftext|>", true, true},      {"[MASK]", true, false},        {"[gMASK]", true, false},
    {"[sMASK]", true, false},           {"<sop>", true, false},         {"<eop>", true, false},
    {"<|system|>", true, false},        {"<|user|>", true, true},       {"<|assistant|>", true, false},
    {"<|observation|>", true, true},    {"<think>", false, false},      {"</think>", false, false},
    {"<tool_call>", false, false},      {"</tool_call>", false, false}, {"<tool_response>", false, false},
    {"</tool_response>", false, false}, {"<arg_key>", false, false},    {"</arg_key>", false, false},
    {"<arg_value>", false, false},      {"</arg_value>", false, false},
};

#define N_SPECIAL (sizeof(special_tokens) / sizeof(special_tokens[0]))

void synth_set_eos(struct model_config *config)
{
    config->n_eos = 0;
    for (uint32_t i = 0; i < N_SPECIAL; i++) {
        if (special_tokens[i].eos) {
            config->eos_token_id[config->n_eos++] = FIRST_SPECIAL + i;
        }
    }
}

/* ---- Tokenizer --------------------------------------------------------------------------------------- */

static const char pre_tokenizer_regex[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static bool prints_itself(unsigned byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* {"!": 33, ...}: each byte's spelling, its id the byte itself. NULL when memory is out. */
static json_t *make_vocab(void)
{
    json_t *vocab = json_object();
    unsigned others = 0;
    for (unsigned byte = 0; byte < 256 && vocab != NULL; byte++) {
        unsigned code = prints_itself(byte) ? byte : 256 + others++;
        char spelling[3] = {(char)code, '\0', '\0'};
        if (code >= 0x80) { /* two bytes of UTF-8 reach to 0x7FF */
            spelling[0] = (char)(0xC0 | code >> 6);
            spelling[1] = (char)(0x80 | (code & 0x3F));
        }
        if (json_object_set_new(vocab, spelling, json_integer(byte)) != 0) {
            json_decref(vocab);
            return NULL;
        }
    }
    return vocab;
}

static json_t *make_added_tokens(void)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < N_SPECIAL && list != NULL; i++) {
        json_t *token = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", FIRST_SPECIAL + i, "content",
                                  special_tokens[i].text, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                                  "special", special_tokens[i].special);
        if (json_array_append_new(list, token) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *make_byte_level(bool decoder)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", decoder, "trim_offsets", decoder,
                     "use_regex", decoder);
}

static json_t *make_tokenizer(void)
{
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pre_tokenizer_regex,
                              "behavior", "Isolated", "invert", 0);
    json_t *pre_tokenizer =
        json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, make_byte_level(false));
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:[]}", "type", "BPE", "dropout",
                              "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                              "byte_fallback", 0, "ignore_merges", 0, "vocab", make_vocab(), "merges");
    return json_pack("{s:s, s:n, s:n, s:o, s:n, s:o, s:o, s:o, s:o}", "version", "1.0", "truncation", "padding",
                     "added_tokens", make_added_tokens(), "normalizer", "pre_tokenizer", pre_tokenizer,
                     "post_processor", make_byte_level(false), "decoder", make_byte_level(true), "model", model);
}

/* ---- Configuration ----------------------------------------------------------------------------------- */

static json_t *make_eos(const struct model_config *config)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < config->n_eos; i++) {
        json_array_append_new(list, json_integer(config->eos_token_id[i]));
    }
    return list;
}

static json_t *make_schedule(const struct model_config *config)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        json_array_append_new(list, json_string(config->index_full[i] ? "full" : "shared"));
    }
    return list;
}

static int set_sizes(json_t *json, const struct model_config *c)
{
    const struct {
        const char *name;
        uint32_t value;
    } fields[] = {
        {"vocab_size", c->vocab_size},
        {"hidden_size", c->hidden_size},
        {"intermediate_size", c->intermediate_size},
        {"moe_intermediate_size", c->moe_intermediate_size},
        {"num_hidden_layers", c->num_hidden_layers},
        {"first_k_dense_replace", c->first_k_dense_replace},
        {"num_nextn_predict_layers", c->num_nextn_predict_layers},
        {"num_attention_heads", c->num_attention_heads},
        {"num_key_value_heads", c->num_attention_heads},
        {"q_lora_rank", c->q_lora_rank},
        {"kv_lora_rank", c->kv_lora_rank},
        {"qk_nope_head_dim", c->qk_nope_head_dim},
        {"qk_rope_head_dim", c->qk_rope_head_dim},
        {"v_head_dim", c->v_head_dim},
        {"n_routed_experts", c->n_routed_experts},
        {"num_experts_per_tok", c->num_experts_per_tok},
        {"n_shared_experts", c->n_shared_experts},
        {"index_n_heads", c->index_n_heads},
        {"index_head_dim", c->index_head_dim},
        {"index_topk", c->index_topk},
        {"max_position_embeddings", c->max_position_embeddings},
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        failed |= json_object_set_new(json, fields[i].name, json_integer(fields[i].value));
    }
    return failed;
}

static json_t *make_config(const struct model_config *config)
{
    json_t *json = json_pack("{s:s, s:[s], s:s, s:s, s:s, s:i, s:i, s:b, s:b, s:b}", "model_type", "glm_moe_dsa",
                             "architectures", "GlmMoeDsaForCausalLM", "hidden_act", "silu", "scoring_func", "sigmoid",
                             "topk_method", "noaux_tc", "n_group", 1, "topk_group", 1, "norm_topk_prob",
                             config->norm_topk_prob, "attention_bias", 0, "tie_word_embeddings", 0);
    json_t *rest =
        json_pack("{s:f, s:f, s:{s:s, s:f}, s:o, s:o}", "rms_norm_eps", 1e-5, "routed_scaling_factor",
                  (double)config->routed_scaling_factor, "rope_parameters", "rope_type", "default", "rope_theta",
                  config->rope_theta, "indexer_types", make_schedule(config), "eos_token_id", make_eos(config));
    if (json == NULL || rest == NULL || set_sizes(json, config) != 0 || json_object_update(json, rest) != 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(rest);
    return json;
}

static json_t *make_generation_config(const struct model_config *config)
{
    return json_pack("{s:o, s:b}", "eos_token_id", make_eos(config), "do_sample", 0);
}

/* ---- Writing ----------------------------------------------------------------------------------------- */

/* Writes and releases the object. */
static sluice_status write_json(const char *dir, const char *name, json_t *json, sluice_error *err)
{
    char path[4096];
    int len = snprintf(path, sizeof(path), "%s/%s", dir, name);
    char *text = json == NULL ? NULL : json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
    json_decref(json);
    sluice_status status;
    if (text == NULL || len >= (int)sizeof(path)) {
        status = error_set(err, SLUICE_NO_MEMORY, "%s: no memory to write %s", dir, name);
    } else {
        status = synth_write_bytes(path, text, strlen(text), err);
    }
    free(text);
    return status;
}

sluice_status synth_write_texts(const char *dir, const struct model_config *config, sluice_error *err)
{
    TRY(write_json(dir, "tokenizer.json", make_tokenizer(), err));
    TRY(write_json(dir, "generation_config.json", make_generation_config(config), err));
    return write_json(dir, "config.json", make_config(config), err);
}
