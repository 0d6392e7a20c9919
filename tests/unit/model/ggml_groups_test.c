#include <stdlib.h>

#include "base/file.h"
#include "kernels/kernels.h"
#include "model/files/exact_groups.h"
#include "tests/support/test.h"

/* The blocks of a type and their elements, as tests/golden/make_ggml_blocks_golden.py writes them. */
typedef struct {
    char *file;
    pf_tensor tensor; /* [1, n] */
    int32_t n;
    const float *elements;
} golden;

static golden open_golden(uint32_t type)
{
    const pf_ggml_type_info *info = pf_ggml_type_get(type);
    golden g;
    char path[128];
    size_t n_file;
    uint32_t n_blocks;
    pf_error error = { 0 };
    snprintf(path, sizeof path, "tests/golden/ggml_blocks/%s.bin", info->name);
    assert_ok(pf_file_read(path, 1 << 20, &g.file, &n_file, &error), error);
    memcpy(&n_blocks, g.file, sizeof n_blocks);
    const size_t n_bytes = n_blocks * (size_t)info->block_bytes;
    g.n = (int32_t)n_blocks * info->block_elements;
    g.tensor = (pf_tensor){ .name = "t",
                            .n_dimensions = 2,
                            .shape = { 1, g.n },
                            .data = (const uint8_t *)g.file + 4,
                            .data_bytes = n_bytes,
                            .blocks = (pf_ggml_type)type,
                            .groups = pf_exact_groups_of_blocks((pf_ggml_type)type) };
    float *elements = malloc((size_t)g.n * sizeof *elements);
    assert_non_null(elements);
    memcpy(elements, g.file + 4 + n_bytes, (size_t)g.n * sizeof *elements);
    g.elements = elements;
    return g;
}

static void close_golden(golden *g)
{
    free(g->file);
    free((void *)(uintptr_t)g->elements);
}

static void fill_row(const void *user, int32_t row, int32_t k, int32_t n, pf_group_piece *out)
{
    const pf_tensor *tensor = user;
    tensor->groups->fill(tensor, row, k, n, out);
}

/* Packs the row as column `before` of a matrix with these groups, and compares what it stands for. */
static void check_packed(const golden *g, const pf_group_format *groups, const char *what)
{
    enum { COPIES = 35 };
    pf_gemm_weights w;
    size_t bytes;
    pf_kernels kernels;
    pf_error error = { 0 };
    assert_ok(pf_kernels_select(PF_ISA_SCALAR, &kernels, &error), error);
    assert_int_equal(pf_gemm_plan_exact(groups, COPIES, g->n, &w, &bytes), PF_OK);
    w.panels = aligned_alloc(64, bytes);
    float *out = malloc((size_t)g->n * sizeof *out);
    assert_non_null(w.panels);
    assert_non_null(out);
    pf_gemm_source sources[COPIES];
    for (int i = 0; i < COPIES; i++)
        sources[i] = (pf_gemm_source){
            .n_rows = 1, .fill = fill_row, .fill_user = &g->tensor, .groups = g->tensor.groups->format
        };
    assert_true(kernels.pack_weights(&w, sources, COPIES, 0, w.n_panels));
    for (int32_t row = 0; row < COPIES; row++) {
        pf_gemm_unpack_row(&w, row, out);
        for (int32_t i = 0; i < g->n; i++)
            if (memcmp(&out[i], &g->elements[i], sizeof *out) != 0)
                fail_msg("%s: row %d, element %d is %a, expected %a", what, row, i, (double)out[i],
                         (double)g->elements[i]);
    }
    free(out);
    free(w.panels);
}

static void packed_blocks_stand_for_the_elements_of_the_gguf_package(void **state)
{
    (void)state;
    int n = 0;
    for (uint32_t type = 0; type < PF_N_GGML_TYPES; type++) {
        const pf_exact_groups *groups = pf_exact_groups_of_blocks((pf_ggml_type)type);
        if (groups == NULL) continue;
        golden g = open_golden(type);
        check_packed(&g, &groups->format, pf_ggml_type_get(type)->name);
        close_golden(&g);
        n++;
    }
    assert_int_equal(n, 14);
}

static void two_types_stacked_stand_for_the_same_elements(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < PF_N_GGML_TYPES; type++) {
        const pf_exact_groups *groups = pf_exact_groups_of_blocks((pf_ggml_type)type);
        if (groups == NULL) continue;
        golden g = open_golden(type);
        for (uint32_t other = 0; other < PF_N_GGML_TYPES; other++) {
            const pf_exact_groups *others = pf_exact_groups_of_blocks((pf_ggml_type)other);
            if (others == NULL) continue;
            const pf_group_format both = pf_group_format_of_both(&groups->format, &others->format);
            char what[64];
            snprintf(what, sizeof what, "%s beside %s", pf_ggml_type_get(type)->name, pf_ggml_type_get(other)->name);
            check_packed(&g, &both, what);
        }
        close_golden(&g);
    }
}

static void elements_that_are_numbers_have_no_groups(void **state)
{
    (void)state;
    assert_null(pf_exact_groups_of_blocks(PF_GGML_F32));
    assert_null(pf_exact_groups_of_blocks(PF_GGML_BF16));
    assert_null(pf_exact_groups_of_blocks((pf_ggml_type)1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_blocks_stand_for_the_elements_of_the_gguf_package),
        cmocka_unit_test(two_types_stacked_stand_for_the_same_elements),
        cmocka_unit_test(elements_that_are_numbers_have_no_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
