/* Small random containers for tests, and ways to spoil them.
 *
 * sample_make writes one into a fresh temporary directory. A shard can be loaded as (header JSON, data), changed and
 * saved again; config fields can be set from JSON text. Whatever cannot be done aborts: it is the test's own fault. A
 * test links sample.c and uses the container module. */
#ifndef SLUICE_TESTS_SAMPLE_H
#define SLUICE_TESTS_SAMPLE_H

#include <jansson.h>
#include <stddef.h>

#include "container/container.h"
#include "support/temp_dir.h"

/* hidden 64, experts 4 x 32 top 2, 4 layers of which 1 dense, vocabulary 512, one scale a row, MTP layer. About
 * 200 KB in five shards, two experts straddling two of them. */
struct synth_geometry sample_geometry(void);

/* A container in a new directory. geometry NULL means sample_geometry(). temp_dir_remove(dir) removes it. */
void sample_make(struct temp_dir *dir, const struct synth_geometry *geometry);

/* A new directory with copies of the files of another one (no sub-directories). */
void sample_copy(struct temp_dir *dir, const char *from);

/* ---- Shards ---------------------------------------------------------------------------------------- */

struct sample_shard {
    char path[512];
    json_t *header;
    unsigned char *data; /* after the header */
    size_t len;
};

void sample_shard_load(struct sample_shard *shard, const struct temp_dir *dir, const char *name);
/* The shard that holds the tensor. */
void sample_shard_find(struct sample_shard *shard, const struct temp_dir *dir, const char *tensor);
/* Writes header and data back and releases the shard. */
void sample_shard_save(struct sample_shard *shard);
void sample_shard_free(struct sample_shard *shard);

/* The tensor's object in the header; its bytes. */
json_t *sample_tensor(struct sample_shard *shard, const char *tensor);
unsigned char *sample_tensor_data(struct sample_shard *shard, const char *tensor, size_t *len);

/* ---- Whole changes, saved at once ------------------------------------------------------------------ */

void sample_remove_tensor(const struct temp_dir *dir, const char *tensor);
void sample_rename_tensor(const struct temp_dir *dir, const char *tensor, const char *name);
/* Removes every tensor whose name contains the text. */
void sample_remove_tensors(const struct temp_dir *dir, const char *text);
/* Sets a field of the tensor's header entry ("dtype", "shape", "data_offsets") from JSON text. */
void sample_set_header(const struct temp_dir *dir, const char *tensor, const char *field, const char *json);
/* Adds an empty-handed tensor (F32, no elements) of that name to the first shard. */
void sample_add_tensor(const struct temp_dir *dir, const char *name);
/* Replaces element i of an F32 tensor. */
void sample_set_value(const struct temp_dir *dir, const char *tensor, size_t i, float value);
/* Sets (or with json NULL removes) a field of config.json; "a.b" means field b of object a. */
void sample_set_config(const struct temp_dir *dir, const char *field, const char *json);

#endif
