/* What the versions of the kernels share: their prototypes and the frame of the activation buffer.
 *
 * Prepared input rows are independent of each other: row i lies at act + i * kernel_act_stride(), a
 * header first, its values behind it in the order that suits the version. The values are padded to whole
 * lane rounds, so a row takes the same room in every version. */
#ifndef SLUICE_KERNELS_INTERNAL_H
#define SLUICE_KERNELS_INTERNAL_H

#include "kernels/kernels.h"

#define KERNEL_LANES 32       /* lanes of the row dot product */
#define KERNEL_WORD_COLS 8    /* int4 columns in a 32-bit word */
#define KERNEL_INT4_ROUND 256 /* columns of one round over the lanes, int4 */
#define KERNEL_LANE_ROUND 32  /* the same for int8 and f32 */

/* Below it a non-zero value scaled by 2^-16 may lose bits, and the row takes the plain path. */
#define KERNEL_TINY 0x1p-106f

struct kernel_act_row {
    uint32_t plain; /* 1: some value is non-zero and below KERNEL_TINY, values are not pre-scaled */
    uint32_t unused[15];
    float values[]; /* 64-byte aligned like the row */
};

/* Bytes from one prepared row to the next. */
size_t kernel_act_stride(enum quant_kind kind, size_t cols);

#define KERNEL_PROTOTYPE(name, result, args) result kernel_##name##_c args;
KERNEL_LIST(KERNEL_PROTOTYPE)
#undef KERNEL_PROTOTYPE

#if defined(KERNEL_HAVE_AVX2)
#define KERNEL_PROTOTYPE(name, result, args) result kernel_##name##_avx2 args;
KERNEL_LIST(KERNEL_PROTOTYPE)
#undef KERNEL_PROTOTYPE
#endif

#endif
