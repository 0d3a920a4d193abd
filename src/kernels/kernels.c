/* Choosing versions: the reference fills the table, then each instruction set that the mask grants
 * replaces what it has. This file is compiled without any instruction-set flag. */
#include "kernels/kernels.h"

#include <stdint.h>

#include "base/alloc.h"
#include "kernels/internal.h"
#include "os/cpu.h"

void kernel_table_init(struct kernel_table *table, uint32_t features)
{
#define KERNEL_USE(name, result, args) table->name = kernel_##name##_c;
    KERNEL_LIST(KERNEL_USE)
#undef KERNEL_USE
    table->name = "c";
#if defined(KERNEL_HAVE_AVX2)
    if (features & CPU_AVX2) {
#define KERNEL_USE(name, result, args) table->name = kernel_##name##_avx2;
        KERNEL_LIST(KERNEL_USE)
#undef KERNEL_USE
        table->name = "avx2";
    }
#endif
    (void)features;
}

size_t kernel_act_stride(enum quant_kind kind, size_t cols)
{
    size_t round = KERNEL_LANE_ROUND;
    if (kind == QUANT_INT4_ROW || kind == QUANT_INT4_GROUP) {
        round = KERNEL_INT4_ROUND;
    }
    size_t padded = (cols + round - 1) / round * round;
    return sizeof(struct kernel_act_row) + padded * sizeof(float);
}

size_t kernel_act_bytes(enum quant_kind kind, size_t cols, size_t m)
{
    size_t bytes;
    if (cols > UINT32_MAX || !size_mul(kernel_act_stride(kind, cols), m, &bytes)) {
        return SIZE_MAX / 64 * 64;
    }
    return bytes;
}
