#include "tests/kernels/kernel_test.h"

enum { N_POSITIONS = 40, ROWS = 5, HEADS = 3 };

static void the_definition_turns_pairs_by_the_angle(void **state)
{
    (void)state;
    /* position 1 turns the first pair by 90 degrees and leaves the second; element 4 is not rotated */
    const float cosine[] = { 1, 1, 0, 1 }, sine[] = { 0, 0, 1, 0 };
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    pf_rope_table table = { .cos = cosine, .sin = sine, .rot_dim = 4 };
    const int32_t position = 1;
    float split[] = { 1, 2, 3, 4, 5 }, interleaved[] = { 1, 2, 3, 4, 5 };
    kernels.rope(split, 5, 1, 1, 5, &position, &table);
    assert_same_floats("half-split", split, (float[]){ -3, 2, 1, 4, 5 }, 5);
    table.interleaved = true;
    kernels.rope(interleaved, 5, 1, 1, 5, &position, &table);
    assert_same_floats("interleaved", interleaved, (float[]){ -2, 1, 3, 4, 5 }, 5);
}

static void check(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 37 };
    for (int32_t head_dim = 2; head_dim <= 130; head_dim += 4)
        for (int form = 0; form < 4; form++) {
            const int32_t rot_dim = form & 1 ? head_dim : head_dim / 4 * 2;
            const size_t stride = (size_t)(HEADS * head_dim) + 3, floats = ROWS * stride - 3;
            const size_t angles = (size_t)(N_POSITIONS * rot_dim / 2);
            pf_guard cosine = pf_guard_alloc(angles * sizeof(float), 4),
                     sine = pf_guard_alloc(angles * sizeof(float), 4);
            pf_guard x = pf_guard_alloc(floats * sizeof(float), 4), y = pf_guard_alloc(floats * sizeof(float), 4);
            test_fill(&rng, cosine.data, angles);
            test_fill(&rng, sine.data, angles);
            for (size_t i = 0; i < floats; i++) ((float *)x.data)[i] = i % 7 ? test_float(&rng) : test_extreme(&rng);
            memcpy(y.data, x.data, x.bytes);
            const int32_t positions[ROWS] = { N_POSITIONS - 1, 0, 7, 7, 20 };
            const pf_rope_table table = {
                .cos = cosine.data, .sin = sine.data, .rot_dim = rot_dim, .interleaved = form & 2
            };
            kernel->fn.rope(x.data, stride, ROWS, HEADS, head_dim, positions, &table);
            definition->fn.rope(y.data, stride, ROWS, HEADS, head_dim, positions, &table);
            assert_same_floats(kernel->name, x.data, y.data, floats);
            pf_guard_free(&cosine);
            pf_guard_free(&sine);
            pf_guard_free(&x);
            pf_guard_free(&y);
        }
}

static void all_sizes_and_both_styles_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ROPE, check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_turns_pairs_by_the_angle),
        cmocka_unit_test(all_sizes_and_both_styles_equal_the_definition_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
