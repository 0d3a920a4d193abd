/* Register tiles of the batched weight product: a few weight rows by a few input rows, one lane vector.
 *
 * A tile advances its dot products by the rounds of one run. The accumulators come from memory and
 * return to it, which changes no bit. Weights are either unpacked to floats beforehand, which pays when
 * several tiles of input rows share them, or unpacked in registers ("direct"). */
#ifndef SLUICE_KERNELS_AVX2_TILE_H
#define SLUICE_KERNELS_AVX2_TILE_H

#include "kernels/avx2_matmul.h"

#define TILE_ROWS 3     /* weight rows of the widest tile of unpacked weights */
#define TILE_ROWS_MAX 4 /* of any tile */
#define TILE_INPUTS 4   /* input rows of the widest tile */

#define BLOCK_INPUTS 16 /* input rows that share an unpacked weight */
#define CHUNK_STEPS 64  /* most steps of a run; a multiple of the 8 steps of an int4 round */
#define CHUNK_ROUNDS (CHUNK_STEPS / KERNEL_WORD_COLS)

/* Floats from one weight row to the next in the scratch memory of a block. */
#define UNPACKED_STRIDE (CHUNK_STEPS * VECTOR)
#define SCALES_STRIDE (CHUNK_ROUNDS * KERNEL_LANES)
#define SUM_STRIDE (BLOCK_INPUTS * VECTOR)

struct tile {
    const uint8_t *packed; /* direct: [rows], packed_stride bytes apart, at the lane vector */
    size_t packed_stride;
    const float *weights; /* unpacked: [rows][steps][8], rows UNPACKED_STRIDE apart */
    const float *scales;  /* grouped: [rows][rounds], rows SCALES_STRIDE and rounds 32 apart */
    const float *x;       /* [inputs][steps][8], inputs x_stride apart */
    size_t x_stride;
    size_t rounds;
    float *sum; /* [rows][inputs][8], rows SUM_STRIDE apart */
};

typedef void (*tile_function)(const struct tile *t);

/* The tile over unpacked weights for 1..TILE_ROWS rows and 1..TILE_INPUTS inputs. */
tile_function tile_unpacked(enum quant_kind kind, size_t rows, size_t inputs);

/* Weight rows of a direct tile of 2..TILE_INPUTS inputs; the tile exists for so many rows and for one. */
size_t tile_direct_rows(size_t inputs);
tile_function tile_direct(enum quant_kind kind, size_t rows, size_t inputs);

#endif
