#include <stdlib.h>

#include "base/file.h"
#include "model/files/ggml_blocks.h"
#include "tests/support/test.h"

/* tests/golden/make_ggml_blocks_golden.py describes the files. */
static void check_golden(uint32_t type, const pf_ggml_type_info *info)
{
    char path[128], *file;
    size_t n_file;
    uint32_t n_blocks;
    pf_error error = { 0 };
    snprintf(path, sizeof path, "tests/golden/ggml_blocks/%s.bin", info->name);
    assert_ok(pf_file_read(path, 1 << 20, &file, &n_file, &error), error);
    memcpy(&n_blocks, file, sizeof n_blocks);
    const size_t n = n_blocks * (size_t)info->block_elements, n_bytes = n_blocks * (size_t)info->block_bytes;
    assert_int_equal(n_file, 4 + n_bytes + 4 * n);
    uint8_t *blocks = malloc(n_bytes); /* of exactly its size, for AddressSanitizer */
    float *out = malloc(n * sizeof *out);
    assert_non_null(blocks);
    assert_non_null(out);
    memcpy(blocks, file + 4, n_bytes);
    pf_ggml_to_f32((pf_ggml_type)type, blocks, n, out);
    for (size_t i = 0; i < n; i++) {
        float expected;
        memcpy(&expected, file + 4 + n_bytes + 4 * i, sizeof expected);
        if (memcmp(&expected, &out[i], sizeof expected) != 0)
            fail_msg("%s: element %zu is %a, expected %a", info->name, i, (double)out[i], (double)expected);
    }
    free(out);
    free(blocks);
    free(file);
}

static void elements_equal_those_of_the_gguf_package(void **state)
{
    (void)state;
    int n = 0;
    for (uint32_t type = 0; type < PF_N_GGML_TYPES; type++) {
        if (!pf_ggml_is_readable((pf_ggml_type)type)) continue;
        check_golden(type, pf_ggml_type_get(type));
        n++;
    }
    assert_int_equal(n, 17);
}

static void types_without_a_definition_here_are_not_readable(void **state)
{
    (void)state;
    assert_false(pf_ggml_is_readable((pf_ggml_type)16)); /* IQ2_XXS */
    assert_false(pf_ggml_is_readable((pf_ggml_type)4));  /* removed from the format */
    assert_false(pf_ggml_is_readable((pf_ggml_type)1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_equal_those_of_the_gguf_package),
        cmocka_unit_test(types_without_a_definition_here_are_not_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
