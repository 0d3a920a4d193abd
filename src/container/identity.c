/* XXH3, 128 bits. Every variable part is preceded by its length, so that no two containers feed the same bytes. */
#include "container/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"

#define CONFIG_BYTES_MAX ((uint64_t)4 << 20)
#define PATH_BYTES 4096

struct identity {
    XXH3_state_t *state;
};

static void add_number(struct identity *identity, uint64_t number)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(number >> (8 * i));
    }
    XXH3_128bits_update(identity->state, bytes, sizeof(bytes));
}

static void add_bytes(struct identity *identity, const void *bytes, size_t len)
{
    add_number(identity, len);
    XXH3_128bits_update(identity->state, bytes, len);
}

static sluice_status add_file(struct identity *identity, const struct os_file *file, sluice_error *err)
{
    if (file->size > CONFIG_BYTES_MAX) {
        return error_set(err, SLUICE_FORMAT, "%s: too large for a configuration", file->path);
    }
    void *bytes = mem_zalloc((size_t)file->size + 1, 1);
    if (bytes == NULL) {
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory to read it", file->path);
    }
    sluice_status status = os_file_read_at(file, bytes, (size_t)file->size, 0, err);
    if (status == SLUICE_OK) {
        add_bytes(identity, bytes, (size_t)file->size);
    }
    free(bytes);
    return status;
}

static sluice_status add_config(struct identity *identity, const char *dir, sluice_error *err)
{
    char path[PATH_BYTES];
    if (snprintf(path, sizeof(path), "%s/config.json", dir) >= (int)sizeof(path)) {
        return error_set(err, SLUICE_INVALID, "%s: path too long", dir);
    }
    struct os_file file;
    TRY(os_file_open(&file, path, false, err));
    sluice_status status = add_file(identity, &file, err);
    os_file_close(&file);
    return status;
}

sluice_status identity_open(struct identity **out, const char *dir, sluice_error *err)
{
    struct identity *identity = mem_zalloc(1, sizeof(*identity));
    XXH3_state_t *state = XXH3_createState();
    if (identity == NULL || state == NULL) {
        free(identity);
        XXH3_freeState(state);
        return error_set(err, SLUICE_NO_MEMORY, "%s: no memory to identify it", dir);
    }
    identity->state = state;
    XXH3_128bits_reset(state);
    sluice_status status = add_config(identity, dir, err);
    if (status != SLUICE_OK) {
        identity_close(&identity);
        return status;
    }
    *out = identity;
    return SLUICE_OK;
}

void identity_add_shard(struct identity *identity, const char *name, const char *header, size_t header_len,
                        uint64_t file_size)
{
    add_bytes(identity, name, strlen(name));
    add_bytes(identity, header, header_len);
    add_number(identity, file_size);
}

void identity_digest(const struct identity *identity, uint8_t digest[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(identity->state));
    memcpy(digest, canonical.digest, sizeof(canonical.digest));
}

void identity_close(struct identity **identity)
{
    if (*identity != NULL) {
        XXH3_freeState((*identity)->state);
        free(*identity);
        *identity = NULL;
    }
}
