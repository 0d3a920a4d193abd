/* How fast tokens come, against what memory allows.
 *
 * Every run decodes the same tokens after the same prompt, so after one unmeasured run the experts they
 * need are resident if the store is large enough; if not, the figures are those of reading from disk. Tokens
 * are sampled at temperature 1 with a fixed seed: greedy decoding may end in a loop that needs few experts. Runs
 * alternate with streaming reads by as many threads. The ratio compares the time of a token with the time
 * in which those threads could read the bytes that a token touches. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/stream.h"
#include "engine/engine.h"
#include "model/graph.h"

#define GIGA 1e9

struct decode_bench {
    const struct bench_decode_options *options;
    sluice_engine *engine;
    sluice_session *session;
    uint32_t *tokens;      /* [prompt_tokens + tokens + 1]: the prompt, then what was decoded */
    double *seconds;       /* [runs] of all tokens of a run */
    double *stream_speeds; /* [runs] bytes a second */
};

/* ---- Bytes a token touches ------------------------------------------------------------------------- */

static double vector_bytes(const struct stored_vector *vector)
{
    return (double)vector->n * sizeof(float);
}

static double mlp_bytes(const struct stored_mlp *mlp)
{
    return (double)(stored_matrix_bytes(&mlp->gate) + stored_matrix_bytes(&mlp->up) + stored_matrix_bytes(&mlp->down));
}

static double attention_bytes(const struct stored_layer *layer)
{
    double bytes = (double)(stored_matrix_bytes(&layer->q_a_proj) + stored_matrix_bytes(&layer->q_b_proj) +
                            stored_matrix_bytes(&layer->kv_a_proj_with_mqa) + stored_matrix_bytes(&layer->kv_b_proj) +
                            stored_matrix_bytes(&layer->o_proj));

    bytes += vector_bytes(&layer->input_layernorm) + vector_bytes(&layer->post_attention_layernorm) +
             vector_bytes(&layer->q_a_layernorm) + vector_bytes(&layer->kv_a_layernorm);
    if (layer->has_indexer) {
        bytes += (double)(stored_matrix_bytes(&layer->indexer.wq_b) + stored_matrix_bytes(&layer->indexer.wk) +
                          stored_matrix_bytes(&layer->indexer.weights_proj));
    }
    return bytes;
}

/* The cache a token reads with `positions` before it. */
static double cache_bytes(const struct container *container, const struct stored_layer *layer, double positions)
{
    const struct model_config *config = &container->config;
    double row = (double)(config->kv_lora_rank + config->qk_rope_head_dim) * sizeof(float);
    double chosen = container->has_indexer ? fmin(positions, config->index_topk) : positions;
    double keys = layer->has_indexer ? positions * config->index_head_dim * sizeof(float) : 0;

    return chosen * row + keys;
}

static double token_bytes(const struct container *container, double positions)
{
    const struct model_config *config = &container->config;
    double bytes = (double)stored_matrix_bytes(&container->lm_head) + vector_bytes(&container->norm) +
                   (double)stored_matrix_bytes(&container->embed_tokens) / config->vocab_size;

    for (uint32_t i = 0; i < config->num_hidden_layers; i++) {
        const struct stored_layer *layer = &container->layers[i];
        bytes += attention_bytes(layer) + cache_bytes(container, layer, positions) + mlp_bytes(&layer->mlp);
        if (layer->sparse) {
            bytes += (double)stored_matrix_bytes(&layer->router) + vector_bytes(&layer->e_score_correction_bias) +
                     config->num_experts_per_tok * mlp_bytes(&layer->experts[0]);
        }
    }
    return bytes;
}

/* ---- Runs ------------------------------------------------------------------------------------------ */

/* Any fixed sequence does; this one spreads over the vocabulary. */
static void prompt_fill(uint32_t *tokens, uint32_t n, uint32_t vocab_size)
{
    uint64_t state = 1;

    for (uint32_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (uint32_t)((state >> 33) % vocab_size);
    }
}

/* Appends one token to the context of n tokens. Where the model would end, another token is forced on it. */
static sluice_status token_decode(struct decode_bench *bench, size_t n, uint32_t vocab_size, sluice_error *err)
{
    uint32_t token;

    TRY(sluice_session_next(bench->session, &token, err));
    if (!sluice_engine_is_eos(bench->engine, token)) {
        bench->tokens[n] = token;
        return SLUICE_OK;
    }
    bench->tokens[n] = (token + 1) % vocab_size;
    return sluice_session_sync(bench->session, bench->tokens, n + 1, err);
}

static sluice_status run_once(struct decode_bench *bench, uint32_t vocab_size, double *seconds, sluice_error *err)
{
    const struct bench_decode_options *options = bench->options;
    sluice_sampling sampling;

    sluice_sampling_init(&sampling);
    sampling.temperature = 1;
    TRY(sluice_session_set_sampling(bench->session, &sampling, err));
    TRY(sluice_session_sync(bench->session, bench->tokens, options->prompt_tokens, err));
    TRY(token_decode(bench, options->prompt_tokens, vocab_size, err)); /* the prompt's logits give the first one */
    double start = clock_seconds();
    for (uint32_t i = 1; i <= options->tokens; i++) {
        TRY(token_decode(bench, options->prompt_tokens + i, vocab_size, err));
    }
    *seconds = clock_seconds() - start;
    return SLUICE_OK;
}

static void counts_add_difference(sluice_stats *total, const sluice_stats *before, const sluice_stats *after)
{
    total->expert_hits += after->expert_hits - before->expert_hits;
    total->expert_misses += after->expert_misses - before->expert_misses;
    total->bytes_read += after->bytes_read - before->bytes_read;
    total->disk_wait_seconds += after->disk_wait_seconds - before->disk_wait_seconds;
}

/* The spine is what every token reads, and is in memory already. */
static double stream_measure(const sluice_engine *engine)
{
    const struct os_pages *spine = &engine->model->spine.memory;

    return bench_stream_measure(engine->pool, spine->data, spine->size);
}

/* One unmeasured run, then the runs; `total` counts what the measured ones did, their prompts' ends included. */
static sluice_status runs_measure(struct decode_bench *bench, uint32_t vocab_size, sluice_stats *total,
                                  sluice_error *err)
{
    double unmeasured;

    prompt_fill(bench->tokens, bench->options->prompt_tokens, vocab_size);
    TRY(run_once(bench, vocab_size, &unmeasured, err));
    for (uint32_t i = 0; i < bench->options->runs; i++) {
        sluice_stats before, after;
        bench->stream_speeds[i] = stream_measure(bench->engine);
        sluice_engine_get_stats(bench->engine, &before);
        TRY(run_once(bench, vocab_size, &bench->seconds[i], err));
        sluice_engine_get_stats(bench->engine, &after);
        counts_add_difference(total, &before, &after);
    }
    return SLUICE_OK;
}

/* ---- Report ---------------------------------------------------------------------------------------- */

static int double_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts; the middle one, or the mean of the two. */
static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, double_compare);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static void report(FILE *out, struct decode_bench *bench, const sluice_stats *total)
{
    const struct bench_decode_options *options = bench->options;
    sluice_engine_info info;
    double all_seconds = 0;

    sluice_engine_get_info(bench->engine, &info);
    for (uint32_t i = 0; i < options->runs; i++) {
        all_seconds += bench->seconds[i];
    }
    double token_seconds = median(bench->seconds, options->runs) / options->tokens;
    double fastest = options->tokens / bench->seconds[0];
    double slowest = options->tokens / bench->seconds[options->runs - 1];
    double stream = median(bench->stream_speeds, options->runs);
    double touched = token_bytes(bench->engine->container, options->prompt_tokens + options->tokens / 2.0);
    double ratio = touched / stream / token_seconds;
    double acquired = (double)(total->expert_hits + total->expert_misses);
    double hit_rate = acquired > 0 ? (double)total->expert_hits / acquired : 0;
    double disk = (double)total->bytes_read / all_seconds / GIGA;
    uint64_t measured = (uint64_t)options->runs * options->tokens;

    fprintf(out, "decode       %.3f tokens/s, median of %" PRIu32 " runs of %" PRIu32 " (%.3f .. %.3f)\n",
            1 / token_seconds, options->runs, options->tokens, slowest, fastest);
    fprintf(out, "memory       a token touches %.1f MB; %" PRIu32 " threads read %.2f GB/s: %.3f of that limit\n",
            touched / 1e6, info.threads, stream / GIGA, ratio);
    fprintf(out, "experts      %.1f %% hits in %" PRIu64 " slots\n", 100 * hit_rate, info.expert_slots);
    fprintf(out, "disk         %.1f MB a token, %.3f GB/s by %s, waited %.0f %% of the time\n",
            (double)total->bytes_read / 1e6 / (double)measured, disk, info.reader,
            100 * total->disk_wait_seconds / all_seconds);
    fprintf(out,
            "{\"bench\":\"decode\",\"tokens_per_s\":%.6g,\"slowest\":%.6g,\"fastest\":%.6g,\"runs\":%" PRIu32
            ",\"tokens\":%" PRIu32 ",\"prompt_tokens\":%" PRIu32 ",\"threads\":%" PRIu32
            ",\"bytes_touched_per_token\":%.0f,\"stream_bytes_per_s\":%.6g,\"stream_ratio\":%.4g,\"hit_rate\":%.6g"
            ",\"expert_slots\":%" PRIu64 ",\"bytes_read\":%" PRIu64 ",\"disk_gb_per_s\":%.4g,\"disk_wait_s\":%.4g"
            ",\"planned_bytes\":%" PRIu64 ",\"cpu_kernels\":\"%s\",\"reader\":\"%s\"}\n",
            1 / token_seconds, slowest, fastest, options->runs, options->tokens, options->prompt_tokens, info.threads,
            touched, stream, ratio, hit_rate, info.expert_slots, total->bytes_read, disk, total->disk_wait_seconds,
            info.planned_bytes, info.cpu_kernels, info.reader);
}

/* ---- The bench ------------------------------------------------------------------------------------- */

static sluice_status bench_check(const struct bench_decode_options *options, const sluice_engine_info *info,
                                 sluice_error *err)
{
    uint64_t needed = (uint64_t)options->prompt_tokens + options->tokens + 1;

    if (options->prompt_tokens == 0 || options->tokens == 0 || options->runs == 0) {
        return error_set(err, SLUICE_INVALID, "a bench needs at least one prompt token, one token and one run");
    }
    if (needed > info->context) {
        return error_set(err, SLUICE_CONTEXT_FULL,
                         "prompt and answer have %" PRIu64 " tokens, the context holds %" PRIu32, needed,
                         info->context);
    }
    return SLUICE_OK;
}

static sluice_status bench_prepare(struct decode_bench *bench, sluice_error *err)
{
    const struct bench_decode_options *options = bench->options;

    bench->tokens = mem_zalloc((size_t)options->prompt_tokens + options->tokens + 1, sizeof *bench->tokens);
    bench->seconds = mem_zalloc(options->runs, sizeof *bench->seconds);
    bench->stream_speeds = mem_zalloc(options->runs, sizeof *bench->stream_speeds);
    if (bench->tokens == NULL || bench->seconds == NULL || bench->stream_speeds == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "no memory for the bench");
    }
    return sluice_session_open(&bench->session, bench->engine, err);
}

sluice_status bench_decode(FILE *out, sluice_engine *engine, const struct bench_decode_options *options,
                           sluice_error *err)
{
    struct decode_bench bench = {.options = options, .engine = engine};
    sluice_stats total = {0};
    sluice_engine_info info;

    sluice_engine_get_info(engine, &info);
    TRY(bench_check(options, &info, err));
    sluice_status status = bench_prepare(&bench, err);
    if (status == SLUICE_OK) {
        status = runs_measure(&bench, info.vocab_size, &total, err);
    }
    if (status == SLUICE_OK) {
        report(out, &bench, &total);
    }
    sluice_session_close(&bench.session);
    free(bench.stream_speeds);
    free(bench.seconds);
    free(bench.tokens);
    return status;
}
