/* A pass with all kernels but one left out: that the one does what it does in the pass, and that nothing stays behind. */
#include <stdlib.h>

#include "model/forward/pass_kernels.h"
#include "tests/support/test.h"
#include "tests/support/threading.h"
#include "tests/support/tiny_model.h"

enum { BEFORE = 11, MAX_ROWS = 20, VOCAB = 97 };

typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv_seq sequence;
    int32_t n_rows;
    float logits[MAX_ROWS * VOCAB]; /* of the pass */
} rig;

static char directory[PF_TINY_PATH];

static void copy_logits(rig *r)
{
    for (int32_t i = 0; i < r->n_rows; i++)
        memcpy(r->logits + (size_t)i * VOCAB, pf_context_logits(r->context, i), VOCAB * sizeof(float));
}

static void assert_same_logits(const rig *r, const char *when)
{
    for (int32_t i = 0; i < r->n_rows; i++)
        if (memcmp(r->logits + (size_t)i * VOCAB, pf_context_logits(r->context, i), VOCAB * sizeof(float)) != 0)
            fail_msg("%s, %s, %d rows by %d members: row %d differs from the pass", when,
                     pf_dtype_name(pf_model_dtype(r->model)), r->n_rows, pf_pass_members(r->context), i);
}

static void run_pass(const rig *r)
{
    int32_t tokens[MAX_ROWS];
    for (int32_t i = 0; i < r->n_rows; i++) tokens[i] = (i * 29 + 3) % VOCAB;
    const pf_span span = { r->sequence, tokens, r->n_rows, r->n_rows, NULL, 0 };
    assert_int_equal(pf_kv_truncate(pf_context_kv(r->context), r->sequence, BEFORE), PF_OK);
    assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
}

static void set_up(rig *r, pf_dtype dtype, int32_t n_threads, int32_t n_rows)
{
    pf_error error;
    *r = (rig){ .n_rows = n_rows };
    assert_ok(pf_test_team_create(n_threads, &r->team, &error), error);
    const pf_model_options options = { .dtype = dtype, .isa = pf_cpu_best_isa(), .team = r->team };
    assert_ok(pf_model_load(directory, &options, &r->model, &error), error);
    const pf_context_config config = { .max_tokens = BEFORE + MAX_ROWS,
                                       .max_sequences = 1,
                                       .max_rows = MAX_ROWS,
                                       .max_logit_rows = MAX_ROWS,
                                       .kv_type = pf_context_default_kv_type(r->model) };
    assert_ok(pf_context_create(r->model, r->team, &config, &r->context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(r->context), &r->sequence), PF_OK);
    int32_t tokens[BEFORE];
    for (int32_t i = 0; i < BEFORE; i++) tokens[i] = (i * 31 + 17) % VOCAB;
    assert_int_equal(pf_context_prefill(r->context, r->sequence, tokens, BEFORE, false), PF_OK);
    run_pass(r);
    copy_logits(r);
}

static void tear_down(rig *r)
{
    pf_context_destroy(r->context);
    pf_model_release(r->model);
    pf_team_destroy(r->team);
}

/* For one row, some, and more than a tile has; two members with a key head each, and sharing one. */
static void for_all(void (*claim)(rig *r))
{
    static const pf_dtype dtypes[] = { PF_DTYPE_BF16, PF_DTYPE_INT8 };
    static const int32_t rows[] = { 1, 5, MAX_ROWS };
    for (int32_t kv_heads = 1; kv_heads <= 2; kv_heads++) {
        pf_tiny_model_create(&(pf_tiny_model){ .vocab = VOCAB, .kv_heads = kv_heads, .head_dim = 32, .seed = 8 },
                             directory);
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
                for (int32_t n_threads = 1; n_threads <= 2; n_threads++) {
                    rig r;
                    set_up(&r, dtypes[d], n_threads, rows[m]);
                    claim(&r);
                    tear_down(&r);
                }
        pf_tiny_model_remove(directory);
    }
}

static void check_logits(rig *r)
{
    for (pf_pass_kernel kernel = 0; kernel < PF_N_PASS_KERNELS; kernel++)
        if (kernel != PF_PASS_HEAD) (void)pf_pass_run_alone(r->context, kernel, 2);
    (void)pf_pass_run_alone(r->context, PF_N_PASS_KERNELS, 2);
    assert_same_logits(r, "behind the others");

    run_pass(r); /* the others have left other left sides */
    for (int32_t i = 0; i < r->n_rows; i++) memset(pf_context_logits(r->context, i), 0, VOCAB * sizeof(float));
    (void)pf_pass_run_alone(r->context, PF_PASS_HEAD, 2);
    assert_same_logits(r, "by the head alone");
}

static void only_the_head_kernel_writes_logits(void **state)
{
    (void)state;
    for_all(check_logits);
}

static void check_next_pass(rig *r)
{
    for (pf_pass_kernel kernel = 0; kernel <= PF_N_PASS_KERNELS; kernel++) {
        (void)pf_pass_run_alone(r->context, kernel, 3);
        memset(pf_context_logits(r->context, 0), 0, VOCAB * sizeof(float));
        run_pass(r);
        assert_same_logits(r, "the next pass");
    }
}

static void a_pass_after_a_single_kernel_gives_the_same_logits(void **state)
{
    (void)state;
    for_all(check_next_pass);
}

static void check_parts(rig *r)
{
    const pf_kernels *kernels = pf_model_kernels(r->model);
    const pf_config *config = pf_model_config(r->model);
    const int32_t n_layers = config->n_layers;
    size_t bytes = 0;
    for (pf_pass_kernel kernel = 0; kernel < PF_N_PASS_KERNELS; kernel++) {
        const pf_pass_part part = pf_pass_describe(r->context, kernel);
        if (kernel == PF_PASS_RESCORE || part.n_calls == 0) continue;
        assert_ptr_equal(part.kernel, pf_kernels_chosen(kernels, part.kernel));
        assert_true(part.bytes > 0 && part.n_calls >= 1 && strtol(part.shape, NULL, 10) == r->n_rows);
        if (part.has_weights) bytes += (size_t)part.n_calls * part.bytes;
    }
    const size_t norms = (size_t)(2 * n_layers + 1) * (size_t)config->hidden_size * sizeof(float);
    assert_int_equal(bytes + norms, pf_model_step_bytes(r->model));
    assert_int_equal(pf_pass_describe(r->context, PF_PASS_GATE_UP).n_calls, 2 * n_layers);
    assert_int_equal(pf_pass_describe(r->context, PF_PASS_HEAD).n_calls, 1);
    assert_int_equal(pf_pass_describe(r->context, PF_PASS_RESCORE).n_calls, 0);
    assert_int_equal(pf_pass_describe(r->context, PF_PASS_EXPERTS).n_calls, 0);
}

static void the_described_weights_are_those_of_a_step(void **state)
{
    (void)state;
    for_all(check_parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_head_kernel_writes_logits),
        cmocka_unit_test(a_pass_after_a_single_kernel_gives_the_same_logits),
        cmocka_unit_test(the_described_weights_are_those_of_a_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
