/* Norms, activations, sums and rope: every length around the register widths, hostile values, results in
 * place of inputs where the interface allows it. */
#include "kernels/checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/checker.h"

#define VECTOR_COUNT 3 /* inputs of a case */

/* Up to three input vectors of n floats and two results. */
struct vectors {
    size_t n;
    struct guarded in[VECTOR_COUNT];
    struct guarded expected;
    struct guarded actual;
};

static struct vectors vectors_make(size_t n, enum fill fill)
{
    struct vectors v = {.n = n};
    enum guard_side side = random_below(4) ? GUARD_AFTER : GUARD_BEFORE;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        v.in[i] = guarded_floats(n, side, i == 0 || random_below(2) ? fill : FILL_PLAIN);
    }
    v.expected = guarded_output(n, side);
    v.actual = guarded_output(n, side);
    return v;
}

static void vectors_free(struct vectors *v)
{
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        guarded_free(&v->in[i]);
    }
    guarded_free(&v->expected);
    guarded_free(&v->actual);
}

/* A kernel as the checker calls it: reads v->in, result to out, which holds a copy of in[0] beforehand. */
typedef void (*vector_kernel)(const struct kernel_table *table, const struct vectors *v, float *out);

static void check_vectors(const char *name, struct vectors *v, vector_kernel kernel)
{
    size_t bytes = v->n * sizeof(float);
    memcpy(v->expected.data, v->in[0].data, bytes);
    kernel(REFERENCE, v, v->expected.data);
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].available) {
            memcpy(v->actual.data, v->in[0].data, bytes);
            checker_enter(name, versions[i].name, "n %zu", v->n);
            kernel(&versions[i].table, v, v->actual.data);
            check_equal(v->expected.data, v->actual.data, v->n);
        }
    }
}

static void for_each_length(const char *name, size_t multiple, vector_kernel kernel)
{
    for (size_t i = 0; i <= 100; i++) {
        struct vectors v = vectors_make(i * multiple, i % 3 ? FILL_PLAIN : (enum fill)(i / 3 % FILL_COUNT));
        check_vectors(name, &v, kernel);
        vectors_free(&v);
    }
    for (int fill = 0; fill < FILL_COUNT; fill++) {
        struct vectors v = vectors_make(776, (enum fill)fill);
        check_vectors(name, &v, kernel);
        vectors_free(&v);
    }
}

static void run_rmsnorm(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->rmsnorm(v->in[0].data, v->in[1].data, v->n, 1e-5f, out);
}

static void run_rmsnorm_in_place(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->rmsnorm(out, v->in[1].data, v->n, 1e-5f, out);
}

static void run_layernorm(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->layernorm(v->in[0].data, v->in[1].data, v->in[2].data, v->n, 1e-6f, out);
}

static void run_layernorm_in_place(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->layernorm(out, v->in[1].data, v->in[2].data, v->n, 1e-6f, out);
}

void check_norms(void **state)
{
    (void)state;
    for_each_length("rmsnorm", 1, run_rmsnorm);
    for_each_length("rmsnorm in place", 1, run_rmsnorm_in_place);
    for_each_length("layernorm", 1, run_layernorm);
    for_each_length("layernorm in place", 1, run_layernorm_in_place);
}

static void run_sigmoid(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->sigmoid(out, v->n);
}

static void run_silu_mul(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->silu_mul(v->in[0].data, v->in[1].data, v->n, out);
}

static void run_silu_mul_in_place(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->silu_mul(out, v->in[1].data, v->n, out);
}

static void run_silu_mul_over_up(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->silu_mul(v->in[1].data, out, v->n, out);
}

/* The exponential over its whole range, through the kernels that hold it. */
static void check_activation_range(void)
{
    enum { COUNT = 4096 };
    for (size_t round = 0; round < 40; round++) {
        struct vectors v = vectors_make(COUNT, FILL_PLAIN);
        float *x = v.in[0].data;
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t bits = (uint32_t)random_bits();
            x[i] = random_float() * 110.0f;
            if (round % 2) {
                memcpy(&x[i], &bits, sizeof bits);
            }
        }
        check_vectors("sigmoid", &v, run_sigmoid);
        check_vectors("silu_mul", &v, run_silu_mul);
        vectors_free(&v);
    }
}

void check_activations(void **state)
{
    (void)state;
    for_each_length("sigmoid", 1, run_sigmoid);
    for_each_length("silu_mul", 1, run_silu_mul);
    for_each_length("silu_mul over gate", 1, run_silu_mul_in_place);
    for_each_length("silu_mul over up", 1, run_silu_mul_over_up);
    check_activation_range();
}

static void run_add(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->add(out, v->in[1].data, v->n);
}

static void run_add_scaled(const struct kernel_table *table, const struct vectors *v, float *out)
{
    table->add_scaled(out, v->in[1].data, 0.3f, v->n);
}

void check_sums(void **state)
{
    (void)state;
    for_each_length("add", 1, run_add);
    for_each_length("add_scaled", 1, run_add_scaled);
}

/* The inputs hold cosines and sines in their last halves, so that both end at the guard page. */
static void run_rope(const struct kernel_table *table, const struct vectors *v, float *out)
{
    const float *cosine = (const float *)v->in[1].data + v->n / 2;
    const float *sine = (const float *)v->in[2].data + v->n / 2;
    table->rope(out, cosine, sine, v->n / 2);
}

void check_rope(void **state)
{
    (void)state;
    for_each_length("rope", 2, run_rope);
}
