/* See checker.h. */
#include "kernels/checker.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/cpu.h"

#define MARKER_BITS 0xDEADBEEFu /* a finite float of no meaning */

struct version versions[VERSION_COUNT] = {
    {.name = "c", .features = 0},
    {.name = "avx2", .features = CPU_AVX2},
};

static uint64_t random_seed;
static uint64_t random_state;
static char current[256]; /* "kernel version: case" */
static char crash_line[400];
static size_t crash_len;

/* ---- frame ---- */

void checker_init(uint64_t seed)
{
    random_seed = seed;
    random_state = seed;
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        struct version *version = &versions[i];
        version->available = (version->features & ~cpu_features()) == 0;
        if (version->available) {
            kernel_table_init(&version->table, version->features);
            version->available = strcmp(version->table.name, version->name) == 0;
        }
        if (!version->available) {
            printf("SKIPPED %s: not in this processor or build\n", version->name);
        }
    }
}

/* Only what a signal handler may do: the line was written beforehand. */
static void on_crash(int signal_number)
{
    (void)signal_number;
    _exit(write(STDERR_FILENO, crash_line, crash_len) < 0 ? 2 : 1);
}

void checker_enter(const char *kernel, const char *version, const char *format, ...)
{
    int len = snprintf(current, sizeof current, "%s %s: ", kernel, version);
    va_list args;
    va_start(args, format);
    vsnprintf(current + len, sizeof current - (size_t)len, format, args);
    va_end(args);
    int crash =
        snprintf(crash_line, sizeof crash_line, "CRASH in %s, seed %llu\n", current, (unsigned long long)random_seed);
    crash_len = (size_t)crash < sizeof crash_line ? (size_t)crash : sizeof crash_line;
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
}

static uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void check_equal(const float *expected, const float *actual, size_t n)
{
    if (memcmp(expected, actual, n * sizeof *expected) == 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        bool both_nan = isnan(expected[i]) && isnan(actual[i]);
        if (float_bits(expected[i]) != float_bits(actual[i]) && !both_nan) {
            fail_msg("%s: element %zu of %zu is %a (%08x), reference %a (%08x); seed %llu", current, i, n,
                     (double)actual[i], float_bits(actual[i]), (double)expected[i], float_bits(expected[i]),
                     (unsigned long long)random_seed);
        }
    }
}

/* ---- randomness ---- */

/* splitmix64 */
uint64_t random_bits(void)
{
    random_state += 0x9E3779B97F4A7C15u;
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t random_below(size_t n)
{
    return (size_t)(random_bits() % n);
}

float random_float(void)
{
    return (float)(int32_t)(random_bits() >> 40) * 0x1p-23f - 1.0f;
}

static float random_tiny(void)
{
    static const float tiny[] = {0.0f,      -0.0f,      0x1p-149f, -0x1p-149f,        0x1p-126f,       -0x1.8p-127f,
                                 0x1p-106f, -0x1p-106f, 0x1p-107f, -0x1.fffffep-107f, 0x1.000002p-106f};
    if (random_below(3) == 0) {
        return tiny[random_below(sizeof tiny / sizeof *tiny)];
    }
    return ldexpf(random_float(), -106 - (int)random_below(44));
}

static float random_of(enum fill fill)
{
    float plain = random_float();
    float sign = random_bits() & 1 ? 1.0f : -1.0f;
    switch (fill) {
    case FILL_WIDE:
        return ldexpf(plain, (int)random_below(250) - 125);
    case FILL_TINY:
        return random_below(3) ? plain : random_tiny();
    case FILL_DENORMAL:
        return random_tiny();
    case FILL_CANCEL:
        return ldexpf(plain, (int)random_below(60));
    case FILL_HUGE:
        return sign * (random_below(2) ? 0x1.fffffep+127f : 0x1p+120f * (plain + 2.0f));
    case FILL_INFINITE:
        return random_below(20) ? plain : sign * INFINITY;
    case FILL_ZERO:
        return sign * 0.0f;
    case FILL_ANYTHING:
        return random_below(50) ? random_of((enum fill)random_below(FILL_ANYTHING)) : NAN;
    case FILL_PLAIN:
    case FILL_COUNT:
        break;
    }
    return plain;
}

void fill_floats(float *x, size_t n, enum fill fill)
{
    for (size_t i = 0; i < n; i++) {
        bool repeat = fill == FILL_CANCEL && i % 10 >= 5;
        x[i] = repeat ? -x[i - 5] : random_of(fill);
    }
}

void fill_bytes(void *data, size_t n)
{
    uint8_t *bytes = data;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)random_bits();
    }
}

/* ---- guarded memory ---- */

struct guarded guarded_alloc(size_t size, enum guard_side side)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (size + page - 1) / page * page;
    struct guarded guarded = {.size = size, .map_size = inner + 2 * page};
    guarded.map = mmap(NULL, guarded.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(guarded.map != MAP_FAILED);
    char *usable = (char *)guarded.map + page;
    if (inner > 0) {
        assert_int_equal(mprotect(usable, inner, PROT_READ | PROT_WRITE), 0);
    }
    guarded.data = side == GUARD_AFTER ? usable + inner - size : usable;
    return guarded;
}

void guarded_free(struct guarded *guarded)
{
    if (guarded->map) {
        munmap(guarded->map, guarded->map_size);
    }
    memset(guarded, 0, sizeof *guarded);
}

struct guarded guarded_floats(size_t n, enum guard_side side, enum fill fill)
{
    struct guarded guarded = guarded_alloc(n * sizeof(float), side);
    fill_floats(guarded.data, n, fill);
    return guarded;
}

struct guarded guarded_output(size_t n, enum guard_side side)
{
    struct guarded guarded = guarded_alloc(n * sizeof(float), side);
    uint32_t marker = MARKER_BITS;
    for (size_t i = 0; i < n; i++) {
        memcpy((char *)guarded.data + i * sizeof marker, &marker, sizeof marker);
    }
    return guarded;
}

struct test_matrix test_matrix_make(enum quant_kind kind, uint32_t rows, uint32_t cols, uint32_t group,
                                    enum guard_side side, enum fill fill)
{
    struct test_matrix test = {0};
    size_t bytes = rows * quant_row_bytes(kind, cols);
    test.weights = guarded_alloc(bytes, side);
    if (kind == QUANT_F32) {
        fill_floats(test.weights.data, (size_t)rows * cols, fill);
    } else {
        fill_bytes(test.weights.data, bytes);
        test.scales = guarded_floats(rows * quant_row_scales(kind, cols, group), side, fill);
    }
    test.matrix = (struct quant_matrix){.kind = kind,
                                        .rows = rows,
                                        .cols = cols,
                                        .group = kind == QUANT_INT4_GROUP ? group : 0,
                                        .weights = test.weights.data,
                                        .scales = test.scales.data};
    return test;
}

void test_matrix_free(struct test_matrix *test)
{
    guarded_free(&test->weights);
    guarded_free(&test->scales);
}
