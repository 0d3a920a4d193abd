/* Reading a part of a tensor. Private to the module. */
#ifndef SLUICE_CONTAINER_READ_H
#define SLUICE_CONTAINER_READ_H

#include "container/container.h"

/* Elements [first, first + n) of a tensor that is not U8, as F32; SLUICE_NUMERIC naming an element that is not
 * finite. The range must lie inside the tensor. */
sluice_status read_f32_range(const struct container *container, const struct tensor_ref *ref, uint64_t first, size_t n,
                             float *dst, sluice_error *err);

#endif
