/* That the multiply-adds that a benchmark counts are those that a pass asks of its kernels. */
#include <stdatomic.h>

#include "bench/operations.h"
#include "model/forward/context.h"
#include "model/weights/weights.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 128, MAX_TOKENS = 64, CHUNK = 24 };

/* The kernels count and then do their work: the team's members all add. */
static _Atomic long n_multiply_adds;
static pf_gemm_multiply_fn *multiply;
static pf_attn_fn *attend;

static void counting_multiply(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                              int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const long end = (long)panel_end * PF_GEMM_PANEL < w->n ? (long)panel_end * PF_GEMM_PANEL : w->n;
    n_multiply_adds += m * (end - (long)panel_begin * PF_GEMM_PANEL) * w->k;
    multiply(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

static void counting_attend(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    for (int32_t item = item_begin; item < item_end; item++) {
        const long keys = pf_attn_position(args, item % args->n_rows) + 1;
        n_multiply_adds += 2 * keys * group * args->pages.head_dim; /* scores, and the values' sum */
    }
    attend(args, item_begin, item_end, scratch);
}

typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv_seq sequence;
    int32_t tokens[MAX_TOKENS];
} rig;

static void set_up(rig *r, const char *directory, int32_t n_threads)
{
    pf_error error;
    *r = (rig){ 0 };
    for (int32_t i = 0; i < MAX_TOKENS; i++) r->tokens[i] = (i * 29 + 3) % VOCAB;
    assert_ok(pf_team_create(n_threads, NULL, 0, &r->team, &error), error);
    const pf_model_options options = { .dtype = PF_DTYPE_F32, .isa = pf_cpu_best_isa(), .team = r->team };
    assert_ok(pf_model_load(directory, &options, &r->model, &error), error);
    pf_gemm *gemm = &r->model->kernels.gemm[r->model->format][r->model->act];
    multiply = gemm->multiply;
    gemm->multiply = counting_multiply;
    attend = r->model->kernels.attn[PF_TYPE_F32];
    r->model->kernels.attn[PF_TYPE_F32] = counting_attend;
    const pf_context_config config = {
        .max_tokens = MAX_TOKENS, .max_sequences = 1, .max_rows = CHUNK, .max_logit_rows = CHUNK, .kv_type = PF_TYPE_F32
    };
    assert_ok(pf_context_create(r->model, r->team, &config, &r->context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(r->context), &r->sequence), PF_OK);
}

static void tear_down(rig *r)
{
    pf_context_destroy(r->context);
    pf_model_release(r->model);
    pf_team_destroy(r->team);
}

static void assert_counted(const rig *r, int32_t n_before, int32_t n_rows, int32_t n_logits)
{
    const double counted = pf_pass_operations(pf_model_config(r->model), n_before, n_rows, n_logits);
    if (counted != 2.0 * (double)n_multiply_adds)
        fail_msg("%d rows behind %d, %d logits: %.0f operations counted, %.0f asked of the kernels", n_rows, n_before,
                 n_logits, counted, 2.0 * (double)n_multiply_adds);
    n_multiply_adds = 0;
}

/* A prompt in chunks, logits of its last row alone; then a verification, a step, and rows of which some have logits. */
static void check_passes(const char *directory, int32_t n_threads)
{
    rig r;
    set_up(&r, directory, n_threads);
    n_multiply_adds = 0;
    const int32_t n_prompt = CHUNK + 7;
    assert_int_equal(pf_context_prefill(r.context, r.sequence, r.tokens, n_prompt, true), PF_OK);
    assert_counted(&r, 0, n_prompt, 1);

    static const int32_t passes[][2] = { { 5, 5 }, { 1, 1 }, { 6, 2 }, { 3, 0 } };
    int32_t n_before = n_prompt;
    for (size_t i = 0; i < PF_COUNT(passes); i++) {
        const pf_span span = { r.sequence, r.tokens + n_before, passes[i][0], passes[i][1], NULL, 0 };
        assert_int_equal(pf_context_forward(r.context, &span, 1), PF_OK);
        assert_counted(&r, n_before, passes[i][0], passes[i][1]);
        n_before += passes[i][0];
    }
    tear_down(&r);
}

static void a_pass_is_counted_as_it_runs(void **state)
{
    (void)state;
    static const pf_tiny_model models[] = {
        { .layers = 1, .seed = 1 },
        { .layers = 3, .kv_heads = 1, .seed = 2 },
        { .heads = 6, .kv_heads = 3, .head_dim = 20, .intermediate = 50, .seed = 3 }
    };
    for (size_t i = 0; i < PF_COUNT(models); i++) {
        char directory[PF_TINY_PATH];
        pf_tiny_model_create(&models[i], directory);
        for (int32_t n_threads = 1; n_threads <= 2; n_threads++) check_passes(directory, n_threads);
        pf_tiny_model_remove(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_pass_is_counted_as_it_runs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
