/* The frame of the kernel checker: versions, guarded memory, inputs, comparison, crash reports.
 *
 * Every kernel of every version that this processor can run is compared with the C reference bit for bit
 * (any NaN equals any NaN). Buffers end or begin at a page that cannot be touched, outputs are compared
 * as a whole with what lies around them, and a crash names the kernel, the version, the case and the
 * seed. */
#ifndef SLUICE_TESTS_KERNELS_CHECKER_H
#define SLUICE_TESTS_KERNELS_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* ---- versions ---- */

struct version {
    const char *name;
    uint32_t features;
    bool available;
    struct kernel_table table;
};

#define VERSION_COUNT 2
extern struct version versions[VERSION_COUNT]; /* the first is the reference */
#define REFERENCE (&versions[0].table)

/* Fills the versions, prints a SKIPPED line for each that this processor lacks. */
void checker_init(uint64_t seed);

/* Names what runs now, for crash and mismatch reports, and takes over SIGSEGV and SIGBUS. */
void checker_enter(const char *kernel, const char *version, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- randomness ---- */

uint64_t random_bits(void);
size_t random_below(size_t n); /* n > 0 */
float random_float(void);      /* in [-1, 1) */

/* What a buffer of floats is filled with. */
enum fill {
    FILL_PLAIN,    /* [-1, 1) */
    FILL_WIDE,     /* any finite exponent */
    FILL_TINY,     /* denormals, values around 2^-106, both zeros, among plain ones */
    FILL_DENORMAL, /* only such values */
    FILL_CANCEL,   /* each value comes again with the other sign: sums of what rounding left over */
    FILL_HUGE,     /* the largest values, both signs */
    FILL_INFINITE, /* some infinities */
    FILL_ZERO,     /* both zeros */
    FILL_ANYTHING, /* all of these and NaN */
    FILL_COUNT
};
void fill_floats(float *x, size_t n, enum fill fill);
void fill_bytes(void *data, size_t n);

/* ---- guarded memory ---- */

enum guard_side { GUARD_AFTER, GUARD_BEFORE };

struct guarded {
    void *data; /* ends at, or begins at, a page without access */
    size_t size;
    void *map;
    size_t map_size;
};

/* `size` bytes with the guard page directly at one end. Aborts the test when memory is out. */
struct guarded guarded_alloc(size_t size, enum guard_side side);
void guarded_free(struct guarded *guarded);

/* n floats of a fill. */
struct guarded guarded_floats(size_t n, enum guard_side side, enum fill fill);
/* n floats of one marker value that no kernel computes: outputs, so that stray writes show. */
struct guarded guarded_output(size_t n, enum guard_side side);

/* A random matrix of the kind with its own guarded weights and scales. */
struct test_matrix {
    struct quant_matrix matrix;
    struct guarded weights;
    struct guarded scales;
};
struct test_matrix test_matrix_make(enum quant_kind kind, uint32_t rows, uint32_t cols, uint32_t group,
                                    enum guard_side side, enum fill fill);
void test_matrix_free(struct test_matrix *test);

/* ---- verdict ---- */

/* Fails the test unless both hold the same bits; says where and in which case. */
void check_equal(const float *expected, const float *actual, size_t n);

#endif
