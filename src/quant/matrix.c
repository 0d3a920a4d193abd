/* Sizes of rows in the stored number formats. Overflow cannot happen: cols is 32 bits wide and a size_t
 * has 64 on every platform that is supported. */
#include "quant/matrix.h"

const char *quant_kind_name(enum quant_kind kind)
{
    switch (kind) {
    case QUANT_F32:
        return "f32";
    case QUANT_INT8_ROW:
        return "int8 row";
    case QUANT_INT4_ROW:
        return "int4 row";
    case QUANT_INT4_GROUP:
        return "int4 group";
    }
    return "unknown";
}

size_t quant_row_bytes(enum quant_kind kind, uint32_t cols)
{
    switch (kind) {
    case QUANT_F32:
        return (size_t)cols * sizeof(float);
    case QUANT_INT8_ROW:
        return cols;
    case QUANT_INT4_ROW:
    case QUANT_INT4_GROUP:
        return ((size_t)cols + 1) / 2;
    }
    return 0;
}

size_t quant_row_scales(enum quant_kind kind, uint32_t cols, uint32_t group)
{
    switch (kind) {
    case QUANT_F32:
        return 0;
    case QUANT_INT8_ROW:
    case QUANT_INT4_ROW:
        return 1;
    case QUANT_INT4_GROUP:
        return group == 0 ? 0 : ((size_t)cols + group - 1) / group;
    }
    return 0;
}
