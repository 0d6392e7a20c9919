/* A head in two looks: the best logits are the full head's within rounding, the others near them; what it needs, and what
 * it takes. */
#include <math.h>
#include <stdlib.h>

#include "kernels/gemm/onednn/gemm_onednn.h"
#include "model/forward/context.h"
#include "model/files/quantize.h"
#include "tests/support/test.h"
#include "tests/support/threading.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 1000, HIDDEN = 64, N_ROWS = 24, N_BEST = 8 };

static char directory[PF_TINY_PATH];

static pf_status load(const char *from, pf_dtype dtype, pf_head head, pf_backend backend, pf_team *team, pf_model **out,
                      pf_error *error)
{
    const pf_model_options options = {
        .dtype = dtype, .backend = backend, .head = head, .isa = pf_cpu_best_isa(), .team = team
    };
    return pf_model_load(from, &options, out, error);
}

/* Logits of N_ROWS tokens: [N_ROWS, vocab]; the caller frees them. */
static float *logits_of(int32_t vocab, pf_dtype dtype, pf_head head, size_t *step_bytes)
{
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_error error;
    pf_kv_seq seq;
    assert_ok(pf_test_team_create(2, &team, &error), error);
    assert_ok(load(directory, dtype, head, PF_BACKEND_AUTO, team, &model, &error), error);
    const pf_context_config config = {
        .max_sequences = 1, .max_rows = N_ROWS, .max_logit_rows = N_ROWS, .kv_type = PF_TYPE_BF16
    };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    int32_t tokens[N_ROWS];
    for (int32_t i = 0; i < N_ROWS; i++) tokens[i] = (i * 71 + 5) % vocab;
    const pf_span span = { seq, tokens, N_ROWS, N_ROWS, NULL, 0 };
    assert_int_equal(pf_context_forward(context, &span, 1), PF_OK);
    const size_t n = (size_t)vocab;
    float *logits = malloc(sizeof(float) * N_ROWS * n);
    assert_non_null(logits);
    for (int32_t i = 0; i < N_ROWS; i++)
        memcpy(logits + (size_t)i * n, pf_context_logits(context, i), n * sizeof(float));
    *step_bytes = pf_model_step_bytes(model);
    pf_context_destroy(context);
    pf_model_release(model);
    pf_team_destroy(team);
    return logits;
}

static int32_t best_of(const float *logits)
{
    int32_t best = 0;
    for (int32_t v = 1; v < VOCAB; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

static void the_best_logits_equal_those_of_a_full_head_and_the_others_are_near(void **state)
{
    (void)state;
    static const pf_dtype dtypes[] = { PF_DTYPE_BF16, PF_DTYPE_INT8 };
    for (int tied = 0; tied < 2; tied++) {
        pf_tiny_model_create(&(pf_tiny_model){ .vocab = VOCAB, .hidden = HIDDEN, .tied = tied, .seed = 12 }, directory);
        for (size_t d = 0; d < PF_COUNT(dtypes); d++) {
            size_t full_bytes, screened_bytes;
            const double near = dtypes[d] == PF_DTYPE_BF16 ? 0.01 : 0.03; /* what 8 bits change by themselves */
            float *full = logits_of(VOCAB, dtypes[d], PF_HEAD_FULL, &full_bytes);
            float *screened = logits_of(VOCAB, dtypes[d], PF_HEAD_SCREENED, &screened_bytes);
            for (int32_t i = 0; i < N_ROWS; i++) {
                const float *a = full + (size_t)i * VOCAB, *b = screened + (size_t)i * VOCAB;
                double scale = 0.0, coarse = 0.0;
                for (int32_t v = 0; v < VOCAB; v++) scale = fmax(scale, fabs((double)a[v]));
                int32_t n_near = 0;
                for (int32_t v = 0; v < VOCAB; v++) {
                    const double apart = fabs((double)a[v] - (double)b[v]) / scale;
                    coarse = fmax(coarse, apart);
                    n_near += apart < near;
                }
                assert_int_equal(best_of(b), best_of(a));
                assert_true(fabs((double)a[best_of(a)] - (double)b[best_of(a)]) < near * scale);
                assert_true(coarse > 0.02 && coarse < 0.3); /* four bits were here, and nothing worse */
                assert_true(n_near >= N_BEST);
            }
            /* of each weight of the head a step reads half a byte and a part of a scale, not two bytes or one and a part */
            const double less = (double)(full_bytes - screened_bytes) / (VOCAB * HIDDEN);
            const double plain = dtypes[d] == PF_DTYPE_BF16 ? 2.0 : 1.0;
            assert_true(less > plain - 0.6 && less < plain - 0.45);
            free(full);
            free(screened);
        }
        pf_tiny_model_remove(directory);
    }
}

/* Of no more than eight, all are among the best: none is left out, not the last one either. */
static void all_logits_of_a_small_vocabulary_are_rescored(void **state)
{
    (void)state;
    size_t bytes;
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = N_BEST, .hidden = HIDDEN, .seed = 12 }, directory);
    float *full = logits_of(N_BEST, PF_DTYPE_BF16, PF_HEAD_FULL, &bytes);
    float *screened = logits_of(N_BEST, PF_DTYPE_BF16, PF_HEAD_SCREENED, &bytes);
    double scale = 0.0;
    for (int32_t i = 0; i < N_ROWS * N_BEST; i++) scale = fmax(scale, fabs((double)full[i]));
    for (int32_t i = 0; i < N_ROWS * N_BEST; i++)
        assert_true(fabs((double)full[i] - (double)screened[i]) < 0.01 * scale);
    free(full);
    free(screened);
    pf_tiny_model_remove(directory);
}

/* ---- what there is to tell --------------------------------------------------------------------------------------- */

typedef struct {
    int32_t n_rows, n_heads;
    size_t row_bytes;
} told;

static void remember(void *user, const pf_model_tensor *tensor)
{
    told *t = user;
    if (strstr(tensor->kernel, "lookup")) {
        t->n_rows++;
        t->row_bytes += tensor->bytes;
        assert_true(strstr(tensor->format, "bf16 rows") != NULL);
    }
    if (strstr(tensor->format, "int4-channel")) {
        t->n_heads++;
        assert_non_null(strstr(tensor->reason, "screened"));
        assert_true(strstr(tensor->kernel, "int4") != NULL || strstr(tensor->kernel, "gemm_integers_int8") != NULL);
        assert_int_equal(tensor->rows, VOCAB);
    }
}

typedef struct {
    size_t done, total;
} seen;

static void watch(void *user, size_t done, size_t total)
{
    assert_true(done <= total);
    *(seen *)user = (seen){ done, total };
}

static void rows_are_listed_and_counted_once_in_the_progress(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        pf_tiny_model_create(&(pf_tiny_model){ .vocab = VOCAB, .hidden = HIDDEN, .tied = tied }, directory);
        pf_team *team;
        pf_model *model;
        pf_error error;
        seen s = { 0 };
        assert_ok(pf_test_team_create(1, &team, &error), error);
        const pf_model_options options = { .dtype = PF_DTYPE_INT8,
                                           .head = PF_HEAD_SCREENED,
                                           .isa = pf_cpu_best_isa(),
                                           .team = team,
                                           .progress = watch,
                                           .progress_user = &s };
        assert_ok(pf_model_load(directory, &options, &model, &error), error);
        assert_true(s.total > 0 && s.done == s.total);
        told t = { 0 };
        pf_model_visit_tensors(model, remember, &t);
        assert_int_equal(t.n_heads, 1);
        assert_int_equal(t.n_rows, tied ? 1 : 2); /* the embedding, and the head's where that is another tensor */
        assert_int_equal(t.row_bytes, (size_t)t.n_rows * VOCAB * HIDDEN * 2);
        pf_model_release(model);
        pf_team_destroy(team);
        pf_tiny_model_remove(directory);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static void assert_refused(const char *from, pf_dtype dtype, pf_backend backend, const char *part)
{
    pf_team *team;
    pf_model *model = NULL;
    pf_error error = { 0 };
    assert_ok(pf_test_team_create(1, &team, &error), error);
    assert_status(load(from, dtype, PF_HEAD_SCREENED, backend, team, &model, &error), PF_UNSUPPORTED);
    assert_null(model);
    assert_says(error, part);
    assert_says(error, from);
    pf_team_destroy(team);
}

static void a_screened_head_refuses_f32_f16_onednn_and_quantised_files(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ 0 }, directory);
    assert_refused(directory, PF_DTYPE_F32, PF_BACKEND_AUTO, "these are f32");
    assert_refused(directory, PF_DTYPE_F16, PF_BACKEND_AUTO, "these are f16");
    assert_refused(directory, PF_DTYPE_BF16, PF_BACKEND_ONEDNN, "oneDNN");

    char quantised[PF_TINY_PATH + 16];
    snprintf(quantised, sizeof quantised, "%s-int8", directory);
    pf_team *team;
    pf_error error;
    pf_model_quantize_result result;
    assert_ok(pf_test_team_create(1, &team, &error), error);
    const pf_model_quantize_options how = { .dtype = PF_DTYPE_INT8, .team = team };
    assert_ok(pf_model_quantize(directory, quantised, &how, &result, &error), error);
    pf_team_destroy(team);
    assert_refused(quantised, PF_DTYPE_AUTO, PF_BACKEND_AUTO, "quantised to int8");
    pf_tiny_model_remove(quantised);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_logits_equal_those_of_a_full_head_and_the_others_are_near),
        cmocka_unit_test(all_logits_of_a_small_vocabulary_are_rescored),
        cmocka_unit_test(rows_are_listed_and_counted_once_in_the_progress),
        cmocka_unit_test(a_screened_head_refuses_f32_f16_onednn_and_quantised_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
