/* What the tests of kernels share: every kernel that this machine can run, numbers to feed it, equality of bits. */
#ifndef PF_TESTS_KERNEL_TEST_H
#define PF_TESTS_KERNEL_TEST_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "tests/support/draw.h"
#include "tests/support/guard.h"
#ifdef PF_TEST_AMX
#include "kernels/implementations.h"
#endif

/* Run check(kernel, definition) for each kernel of an operation, the definition itself included. */
typedef void check_fn(const pf_kernel *kernel, const pf_kernel *definition);

#ifdef PF_TEST_AMX
/* The amx class has no rows of its own in the table: no machine would choose them. */
static const pf_kernel amx_definitions[] = {
    { .op = PF_OP_GEMM,
      .format = PF_FORMAT_BF16,
      .act = PF_ACT_BF16,
      .name = "pf_gemm_bf16_amx_ref",
      .arithmetic = "even and odd apart in 32 of k, denormals kept",
      .fn.gemm = { .tile_rows = 1, .pack = pf_gemm_pack_bf16_ref, .multiply = pf_gemm_bf16_amx_ref } },
    { .op = PF_OP_ATTN,
      .type = PF_TYPE_BF16,
      .name = "pf_attn_bf16_amx_ref",
      .arithmetic = "even and odd apart in 32 of d or positions, denormals kept",
      .fn.attn = pf_attn_bf16_amx_ref },
};
enum { N_AMX_DEFINITIONS = sizeof amx_definitions / sizeof *amx_definitions };
#endif

static inline const pf_kernel *definition_of(const pf_kernel *kernel)
{
#ifdef PF_TEST_AMX
    for (int32_t i = 0; i < N_AMX_DEFINITIONS; i++)
        if (pf_kernel_same_task(kernel, &amx_definitions[i])) return &amx_definitions[i];
#endif
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++)
        if (pf_kernel_same_task(&all[i], kernel) && all[i].isa == PF_ISA_SCALAR) return &all[i];
    fail_msg("%s has no scalar definition", kernel->name);
    return NULL;
}

static inline void for_each_kernel(pf_op op, check_fn *check)
{
    int32_t n, n_checked = 0;
    const pf_kernel *all = pf_kernels_all(&n);
    const pf_isa best = pf_cpu_best_isa();
    const uint32_t features = pf_cpu_features();
#ifdef PF_TEST_AMX /* only the rows that need it, and what they are measured by */
    if (best < PF_ISA_AMX) skip();
    for (int32_t i = 0; i < N_AMX_DEFINITIONS; i++)
        if (amx_definitions[i].op == op) check(&amx_definitions[i], &amx_definitions[i]);
#endif
    for (int32_t i = 0; i < n; i++) {
#ifdef PF_TEST_AMX
        if (all[i].isa != PF_ISA_AMX) continue;
#else
        if (all[i].isa == PF_ISA_AMX) continue; /* its sums are of a class of their own */
#endif
        if (all[i].op != op || all[i].isa > best || (all[i].features & ~features) != 0) continue;
        check(&all[i], definition_of(&all[i]));
        n_checked++;
    }
    assert_true(n_checked > 0);
}

/* The same numbers in every run. */
typedef struct {
    uint64_t state;
} test_rng;

static inline uint32_t test_bits(test_rng *rng)
{
    return (uint32_t)(draw(&rng->state) >> 32);
}

/* Uniform in [-1, 1). */
static inline float test_float(test_rng *rng)
{
    return (float)(int32_t)test_bits(rng) * 0x1p-31f;
}

/* Below n. */
static inline int32_t test_below(test_rng *rng, int32_t n)
{
    return (int32_t)(test_bits(rng) % (uint32_t)n);
}

static inline void test_fill(test_rng *rng, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = test_float(rng);
}

/* Any bits there are, and the values at which things break, in about equal parts. */
static inline float test_extreme(test_rng *rng)
{
    static const float special[] = { 0.0f,       -0.0f,           INFINITY,         -INFINITY,
                                     NAN,        0x1p-149f,       -0x1p-149f,       0x1p-126f,
                                     -0x1p-130f, 0x1.fffffep127f, -0x1.fffffep127f, 1.0f,
                                     -1.0f,      88.7f,           -103.9f,          1e-20f };
    const int32_t n = (int32_t)(sizeof special / sizeof *special);
    const uint32_t bits = test_bits(rng);
    if (bits & 1) return special[test_below(rng, n)];
    const uint32_t any = test_bits(rng);
    float f;
    memcpy(&f, &any, sizeof f);
    return f;
}

/* The largest multiplier that a group with this zero may have. */
static inline int32_t test_most_multiplier(int32_t zero)
{
    const int32_t most = 127 / (zero > 7 ? zero : 15 - zero);
    return most < 15 ? most : 15;
}

/* Any head that a format may have, each zero and each of its multipliers as likely; 0 where it has none. */
static inline uint8_t test_head(test_rng *rng, pf_format format)
{
    const pf_format_info *info = pf_format_get(format);
    const int32_t zero = info->has_zeros ? test_below(rng, 16) : 7 + test_below(rng, 2);
    if (info->group) return (uint8_t)(test_below(rng, test_most_multiplier(zero) + 1) << 4 | zero);
    return (uint8_t)(info->has_zeros ? zero : 0);
}

/* Integers [N, K] of a format with scales of nine bits and more: of their products many lie half way between two bf16, or,
 * in a third of the columns, are none, or zero. */
enum { TEST_INTEGERS_N = 45, TEST_INTEGERS_K = 256, TEST_INTEGERS_GROUPS = TEST_INTEGERS_K / 32 };

typedef struct {
    uint8_t q[TEST_INTEGERS_N * TEST_INTEGERS_K], heads[TEST_INTEGERS_N * TEST_INTEGERS_GROUPS];
    uint32_t scales[TEST_INTEGERS_N]; /* f32 */
} test_integers;

static inline pf_gemm_source test_odd_integers(pf_format format, test_integers *x)
{
    static const uint32_t bits[] = { 0x3F808000, 0x3F818000, 0xBF808000, 0x3F80C000, 0x7F800000, 0xFF800000,
                                     0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x00000000, 0x80000000 };
    enum { N_NUMBERS = 4, N_BITS = sizeof bits / sizeof *bits };
    test_rng rng = { 29 };
    for (size_t i = 0; i < sizeof x->q; i++) x->q[i] = (uint8_t)test_bits(&rng);
    for (size_t i = 0; i < sizeof x->heads; i++) x->heads[i] = test_head(&rng, format);
    for (size_t n = 0; n < TEST_INTEGERS_N; n++)
        x->scales[n] =
            bits[n % 3 == 0 ? N_NUMBERS + n / 3 % (N_BITS - N_NUMBERS) : (size_t)test_below(&rng, N_NUMBERS)];
    return (pf_gemm_source){ .data = x->q,
                             .n_rows = TEST_INTEGERS_N,
                             .stride = TEST_INTEGERS_K,
                             .scales = x->scales,
                             .heads = pf_gemm_has_heads(format) ? x->heads : NULL };
}

static inline uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The same bits; one NaN is as good as another. */
static inline bool same_float(float a, float b)
{
    return bits_of(a) == bits_of(b) || (isnan(a) && isnan(b));
}

/* Fails at the first element that differs, saying where. */
static inline void assert_same_floats(const char *what, const float *got, const float *expected, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!same_float(got[i], expected[i]))
            fail_msg("%s: element %zu is %a (%08x), expected %a (%08x)", what, i, (double)got[i], bits_of(got[i]),
                     (double)expected[i], bits_of(expected[i]));
}

#endif
