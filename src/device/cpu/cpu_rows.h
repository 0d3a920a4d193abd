/* Handing out weight rows to threads.
 *
 * The unit of work is an output row of a weight matrix. The rows of every matrix of a job form one list, so that a
 * job of many small matrices is balanced like one of a single large matrix, and one row of activations keeps
 * all threads busy. A chunk of the list is cut at matrix borders by rows_clip. */
#ifndef SLUICE_DEVICE_CPU_CPU_ROWS_H
#define SLUICE_DEVICE_CPU_CPU_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#define ROWS_GRAIN_MIN 16 /* 16 floats are a cache line: threads rarely share one */
#define ROWS_GRAIN_MAX 64

/* Rows of a chunk: at least eight chunks a thread while they stay worth a handover. */
static inline size_t rows_grain(size_t rows, unsigned threads)
{
    size_t grain = rows / ((size_t)threads * 8) / ROWS_GRAIN_MIN * ROWS_GRAIN_MIN;
    if (grain < ROWS_GRAIN_MIN) {
        return ROWS_GRAIN_MIN;
    }
    return grain > ROWS_GRAIN_MAX ? ROWS_GRAIN_MAX : grain;
}

/* The part of chunk [begin, end) that lies in the matrix whose rows are [first, first + rows) of the list, as rows
 * [*row_begin, *row_end) of the matrix. False when there is none. */
static inline bool rows_clip(size_t begin, size_t end, size_t first, size_t rows, size_t *row_begin, size_t *row_end)
{
    size_t low = begin > first ? begin : first;
    size_t high = end < first + rows ? end : first + rows;
    if (low >= high) {
        return false;
    }
    *row_begin = low - first;
    *row_end = high - first;
    return true;
}

#endif
