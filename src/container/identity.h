/* The identity of a container: 128 bits over config.json and every shard's name, header and size. Sidecars carry it,
 * so that the history or sessions of one model are never used with another. */
#ifndef SLUICE_CONTAINER_IDENTITY_H
#define SLUICE_CONTAINER_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "os/file.h"

struct identity;

/* Starts with the bytes of dir/config.json. */
sluice_status identity_open(struct identity **out, const char *dir, sluice_error *err);
void identity_add_shard(struct identity *identity, const char *name, const char *header, size_t header_len,
                        uint64_t file_size);
void identity_digest(const struct identity *identity, uint8_t digest[16]);
void identity_close(struct identity **identity); /* safe on NULL */

#endif
