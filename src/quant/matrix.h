/* The number formats of stored weights, and a view of one weight matrix in memory. */
#ifndef SLUICE_QUANT_MATRIX_H
#define SLUICE_QUANT_MATRIX_H

#include <stddef.h>
#include <stdint.h>

enum quant_kind {
    QUANT_F32,        /* plain binary32, no scales */
    QUANT_INT8_ROW,   /* signed bytes, w = q * scale[row] */
    QUANT_INT4_ROW,   /* two a byte, low nibble = even column, w = (nibble - 8) * scale[row] */
    QUANT_INT4_GROUP, /* as INT4_ROW with scale[row][column / group] */
};

/* A borrowed view: rows x cols weights, row-major. weights need 4-byte alignment for int4 and f32. */
struct quant_matrix {
    enum quant_kind kind;
    uint32_t rows;
    uint32_t cols;       /* divisible by 8 for int4 */
    uint32_t group;      /* columns a scale covers, a multiple of 8; 0 unless INT4_GROUP */
    const void *weights; /* [rows][cols], packed as the kind says */
    const float *scales; /* INT8_ROW, INT4_ROW: [rows]; INT4_GROUP: [rows][ceil(cols / group)]; F32: NULL */
};

/* The three matrices of a SwiGLU block: an expert in a slot, a shared expert, a dense MLP. */
struct expert_weights {
    struct quant_matrix gate; /* [intermediate][hidden] */
    struct quant_matrix up;   /* [intermediate][hidden] */
    struct quant_matrix down; /* [hidden][intermediate] */
};

const char *quant_kind_name(enum quant_kind kind);           /* "f32", "int8 row", "int4 row", "int4 group" */
size_t quant_row_bytes(enum quant_kind kind, uint32_t cols); /* bytes of one row of weights */
size_t quant_row_scales(enum quant_kind kind, uint32_t cols, uint32_t group); /* scales of one row */

#endif
