/* See fixture.h. */
#include "experts/fixture.h"

#include <stdlib.h>
#include <string.h>

struct shard_writer {
    FILE *file;
    uint64_t offset;
};

static void check(bool condition, const char *what)
{
    if (!condition) {
        perror(what);
        abort();
    }
}

static void write_bytes(struct shard_writer *writer, const void *data, size_t len)
{
    check(fwrite(data, 1, len, writer->file) == len, "fixture: write");
    writer->offset += len;
}

static void write_padding(struct shard_writer *writer, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        write_bytes(writer, "\xEE", 1);
    }
}

static enum quant_kind kind_of(const struct fixture_options *options, uint32_t expert, int matrix)
{
    static const enum quant_kind mix[] = {QUANT_INT4_ROW, QUANT_INT8_ROW, QUANT_INT4_GROUP, QUANT_F32};
    if (options->kind != FIXTURE_MIXED) {
        return (enum quant_kind)options->kind;
    }
    return mix[(expert + (uint32_t)matrix * (expert / 4)) % 4];
}

static void make_matrix(struct quant_matrix *out, const struct fixture_options *options, uint32_t expert, int matrix,
                        uint64_t *seed)
{
    enum quant_kind kind = kind_of(options, expert, matrix);
    uint32_t rows = matrix == 0 ? options->hidden : options->intermediate;
    uint32_t cols = matrix == 0 ? options->intermediate : options->hidden;
    reference_matrix_make(out, kind, rows, cols, kind == QUANT_INT4_GROUP ? 16 : 0, seed);
}

/* down, gate, up: the canonical order. */
static struct stored_matrix *stored_matrix(struct stored_mlp *expert, size_t i)
{
    struct stored_matrix *const matrices[] = {&expert->down, &expert->gate, &expert->up};
    return matrices[i];
}

static const struct quant_matrix *weights_matrix(const struct expert_weights *expert, size_t i)
{
    const struct quant_matrix *const matrices[] = {&expert->down, &expert->gate, &expert->up};
    return matrices[i];
}

static void describe(struct expert_fixture *fixture, uint32_t layer, uint32_t expert, size_t i)
{
    static const char *const roles[] = {"down", "gate", "up"};
    const struct quant_matrix *w = weights_matrix(fixture_expert(fixture, layer, expert), i);
    struct stored_matrix *matrix = stored_matrix(&fixture->container.layers[layer].experts[expert], i);
    char *name = fixture->names[fixture->n_names++], *scales_name = fixture->names[fixture->n_names++];
    snprintf(name, sizeof fixture->names[0], "model.layers.%u.mlp.experts.%u.%s_proj.weight", layer, expert, roles[i]);
    snprintf(scales_name, sizeof fixture->names[0], "model.layers.%u.mlp.experts.%u.%s_proj.weight.qs", layer, expert,
             roles[i]);
    *matrix = (struct stored_matrix){.kind = w->kind, .rows = w->rows, .cols = w->cols, .group = w->group};
    matrix->weights = (struct tensor_ref){.name = name,
                                          .dtype = w->kind == QUANT_F32 ? DTYPE_F32 : DTYPE_U8,
                                          .bytes = w->rows * quant_row_bytes(w->kind, w->cols)};
    matrix->scales = (struct tensor_ref){
        .name = scales_name,
        .dtype = DTYPE_F32,
        .bytes = w->scales == NULL ? 0 : w->rows * quant_row_scales(w->kind, w->cols, w->group) * sizeof(float)};
}

/* Tensor i of all experts' scales or weights, in order: shards get equal runs of it. */
static void write_tensor(struct expert_fixture *fixture, struct shard_writer *writer, uint32_t shard, size_t i,
                         bool scales)
{
    const struct fixture_options *options = &fixture->options;
    uint32_t layer = options->dense + (uint32_t)(i / 3 / options->experts), expert = i / 3 % options->experts;
    struct stored_matrix *matrix = stored_matrix(&fixture->container.layers[layer].experts[expert], i % 3);
    const struct quant_matrix *w = weights_matrix(fixture_expert(fixture, layer, expert), i % 3);
    struct tensor_ref *tensor = scales ? &matrix->scales : &matrix->weights;
    if (tensor->bytes == 0) {
        return;
    }
    tensor->shard = shard;
    tensor->offset = writer->offset;
    write_bytes(writer, scales ? (const void *)w->scales : w->weights, tensor->bytes);
    write_padding(writer, options->gap);
}

static void write_shard(struct expert_fixture *fixture, uint32_t shard)
{
    const struct fixture_options *options = &fixture->options;
    size_t n = (size_t)(options->layers - options->dense) * options->experts * 3;
    size_t begin = n * shard / options->shards, end = n * (shard + 1) / options->shards;
    char name[32];
    snprintf(name, sizeof name, "out-%05u.raw", shard);
    const char *path = temp_dir_path(&fixture->dir, name);
    struct shard_writer writer = {.file = fopen(path, "wb")};
    check(writer.file != NULL, path);
    write_padding(&writer, options->skew);
    for (int scales = 1; scales >= 0; scales--) {
        for (size_t i = begin; i < end; i++) {
            write_tensor(fixture, &writer, shard, i, scales == 1);
        }
    }
    check(fclose(writer.file) == 0, path);
    check(os_file_open(&fixture->shards[shard], path, true, NULL) == SLUICE_OK, path);
}

void fixture_make(struct expert_fixture *out, const struct fixture_options *options)
{
    uint64_t seed = 99;
    *out = (struct expert_fixture){.options = *options};
    check(temp_dir_make(&out->dir) == 0, "fixture: directory");
    struct container *container = &out->container;
    container->config.num_hidden_layers = options->layers;
    container->config.first_k_dense_replace = options->dense;
    container->config.n_routed_experts = options->experts;
    container->config.num_experts_per_tok = options->k;
    container->config.hidden_size = options->hidden;
    container->config.moe_intermediate_size = options->intermediate;
    container->shards = out->shards;
    container->n_shards = options->shards;
    container->layers = calloc(options->layers, sizeof *container->layers);
    size_t n = (size_t)options->layers * options->experts;
    out->weights = calloc(n, sizeof *out->weights);
    out->names = calloc(n * 6, sizeof *out->names);
    for (uint32_t layer = options->dense; layer < options->layers; layer++) {
        container->layers[layer].sparse = true;
        container->layers[layer].experts = calloc(options->experts, sizeof *container->layers[layer].experts);
        for (uint32_t expert = 0; expert < options->experts; expert++) {
            struct expert_weights *w = &out->weights[layer * options->experts + expert];
            make_matrix(&w->down, options, expert, 0, &seed);
            make_matrix(&w->gate, options, expert, 1, &seed);
            make_matrix(&w->up, options, expert, 2, &seed);
            for (size_t i = 0; i < 3; i++) {
                describe(out, layer, expert, i);
            }
        }
    }
    for (uint32_t shard = 0; shard < options->shards; shard++) {
        write_shard(out, shard);
    }
}

void fixture_free(struct expert_fixture *fixture)
{
    const struct fixture_options *options = &fixture->options;
    for (uint32_t layer = options->dense; layer < options->layers; layer++) {
        for (uint32_t expert = 0; expert < options->experts; expert++) {
            struct expert_weights *w = &fixture->weights[layer * options->experts + expert];
            reference_matrix_free(&w->down);
            reference_matrix_free(&w->gate);
            reference_matrix_free(&w->up);
        }
        free(fixture->container.layers[layer].experts);
    }
    for (uint32_t shard = 0; shard < options->shards; shard++) {
        os_file_close(&fixture->shards[shard]);
    }
    free(fixture->container.layers);
    free(fixture->weights);
    free(fixture->names);
    temp_dir_remove(&fixture->dir);
}

const struct expert_weights *fixture_expert(const struct expert_fixture *fixture, uint32_t layer, uint32_t expert)
{
    return &fixture->weights[layer * fixture->options.experts + expert];
}

const struct stored_mlp *fixture_stored(const struct expert_fixture *fixture, uint32_t layer, uint32_t expert)
{
    return &fixture->container.layers[layer].experts[expert];
}

void fixture_poke(const struct expert_fixture *fixture, uint32_t shard, uint64_t offset, const void *data, size_t len)
{
    FILE *file = fopen(fixture->shards[shard].path, "r+b");
    check(file != NULL && fseek(file, (long)offset, SEEK_SET) == 0 && fwrite(data, 1, len, file) == len,
          "fixture: poke");
    check(fclose(file) == 0, "fixture: poke");
}

static bool same_matrix(const struct quant_matrix *view, const struct quant_matrix *expected)
{
    size_t bytes = expected->rows * quant_row_bytes(expected->kind, expected->cols);
    size_t n_scales = expected->rows * quant_row_scales(expected->kind, expected->cols, expected->group);
    if (view->kind != expected->kind || view->rows != expected->rows || view->cols != expected->cols ||
        view->group != expected->group || (uintptr_t)view->weights % 4 != 0 || (uintptr_t)view->scales % 4 != 0 ||
        (view->scales == NULL) != (expected->scales == NULL)) {
        return false;
    }
    return memcmp(view->weights, expected->weights, bytes) == 0 &&
           (expected->scales == NULL || memcmp(view->scales, expected->scales, n_scales * sizeof(float)) == 0);
}

bool fixture_same(const struct expert_weights *view, const struct expert_weights *expected)
{
    return same_matrix(&view->down, &expected->down) && same_matrix(&view->gate, &expected->gate) &&
           same_matrix(&view->up, &expected->up);
}
