/* The exponential's accuracy and edges, the activations built on it, and the sizes of stored rows. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "quant/exp.h"
#include "quant/matrix.h"

/* Distance of `value` from the exact result in units of its last place there. */
static double ulp_error(float value, double exact)
{
    int exponent = ilogb(exact);
    double ulp = ldexp(1.0, (exponent < -126 ? -126 : exponent) - 23);
    return fabs((double)value - exact) / ulp;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void check_exp_at(float x)
{
    double exact = exp((double)x);
    float value = quant_exp(x);
    if (exact > 0x1.fffffefffffffp+127) {
        assert_true(value == INFINITY);
    } else {
        double error = ulp_error(value, exact);
        if (!(error < 1.0)) {
            fail_msg("exp(%a) = %a is off by %g ulp", (double)x, (double)value, error);
        }
    }
}

static void test_exp_accuracy(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x42D80000u; bits += 1999) { /* up to 108 */
        check_exp_at(float_of(bits));
        check_exp_at(-float_of(bits));
    }
}

static void test_exp_underflow_and_overflow(void **state)
{
    (void)state;
    for (float x = -104.5f; x < -86.0f; x += 0x1p-11f) {
        check_exp_at(x);
    }
    for (float x = 88.0f; x < 90.0f; x += 0x1p-14f) {
        check_exp_at(x);
    }
    assert_true(quant_exp(-104.0f) == 0.0f);
    assert_true(quant_exp(-0x1.9fe368p+6f) == 0x1p-149f); /* the last that does not round to 0 */
    assert_true(quant_exp(88.72283f) < INFINITY);
    assert_true(quant_exp(88.72284f) == INFINITY);
}

static void test_exp_edges(void **state)
{
    (void)state;
    assert_true(quant_exp(0.0f) == 1.0f);
    assert_true(quant_exp(-0.0f) == 1.0f);
    assert_true(quant_exp(0x1p-149f) == 1.0f);
    assert_true(quant_exp(INFINITY) == INFINITY);
    assert_true(quant_exp(-INFINITY) == 0.0f && !signbit(quant_exp(-INFINITY)));
    assert_true(quant_exp(0x1.fffffep+127f) == INFINITY);
    assert_true(quant_exp(-0x1.fffffep+127f) == 0.0f);
    assert_true(isnan(quant_exp(NAN)));
    assert_true(isnan(quant_exp(-NAN)));
}

static void test_exp_is_monotonic(void **state)
{
    (void)state;
    float last = 0.0f;
    for (float x = -104.0f; x < 89.0f; x += 0x1p-9f) {
        float value = quant_exp(x);
        assert_true(value >= last);
        last = value;
    }
}

static void test_sigmoid(void **state)
{
    (void)state;
    assert_true(quant_sigmoid(0.0f) == 0.5f);
    assert_true(quant_sigmoid(INFINITY) == 1.0f);
    assert_true(quant_sigmoid(-INFINITY) == 0.0f);
    assert_true(isnan(quant_sigmoid(NAN)));
    for (float x = -60.0f; x < 60.0f; x += 0.0371f) {
        double exact = 1.0 / (1.0 + exp(-(double)x));
        assert_true(fabs((double)quant_sigmoid(x) - exact) <= 2e-7 * exact);
        exact = (double)x * exact * 0.75;
        assert_true(fabs((double)quant_silu_mul(x, 0.75f) - exact) <= 4e-7 * fabs(exact));
    }
}

static void test_row_sizes(void **state)
{
    (void)state;
    assert_int_equal(quant_row_bytes(QUANT_F32, 7), 28);
    assert_int_equal(quant_row_bytes(QUANT_INT8_ROW, 7), 7);
    assert_int_equal(quant_row_bytes(QUANT_INT4_ROW, 8), 4);
    assert_int_equal(quant_row_bytes(QUANT_INT4_GROUP, 6144), 3072);
    assert_int_equal(quant_row_bytes(QUANT_F32, UINT32_MAX), 4 * (uint64_t)UINT32_MAX);
    assert_int_equal(quant_row_bytes(QUANT_INT4_ROW, UINT32_MAX), (uint64_t)UINT32_MAX / 2 + 1);
    assert_int_equal(quant_row_scales(QUANT_F32, 64, 0), 0);
    assert_int_equal(quant_row_scales(QUANT_INT8_ROW, 64, 0), 1);
    assert_int_equal(quant_row_scales(QUANT_INT4_ROW, 64, 0), 1);
    assert_int_equal(quant_row_scales(QUANT_INT4_GROUP, 64, 32), 2);
    assert_int_equal(quant_row_scales(QUANT_INT4_GROUP, 72, 32), 3);
    assert_int_equal(quant_row_scales(QUANT_INT4_GROUP, 72, 0), 0);
    assert_int_equal(quant_row_scales(QUANT_INT4_GROUP, UINT32_MAX, UINT32_MAX), 1);
}

static void test_kind_names(void **state)
{
    (void)state;
    assert_string_equal(quant_kind_name(QUANT_F32), "f32");
    assert_string_equal(quant_kind_name(QUANT_INT8_ROW), "int8 row");
    assert_string_equal(quant_kind_name(QUANT_INT4_ROW), "int4 row");
    assert_string_equal(quant_kind_name(QUANT_INT4_GROUP), "int4 group");
    assert_string_equal(quant_kind_name((enum quant_kind)77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_accuracy), cmocka_unit_test(test_exp_underflow_and_overflow),
        cmocka_unit_test(test_exp_edges),    cmocka_unit_test(test_exp_is_monotonic),
        cmocka_unit_test(test_sigmoid),      cmocka_unit_test(test_row_sizes),
        cmocka_unit_test(test_kind_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
