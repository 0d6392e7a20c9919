/* A bounded head: the best token and its logit are the full head's, bit by bit, whatever the weights are; how far off its
 * coarse logits are; where it steps aside; what it needs, and what it takes. */
#include <math.h>
#include <stdlib.h>

#include "model/head/bounded_head.h"
#include "model/forward/pass.h"
#include "tests/support/test.h"
#include "tests/support/threading.h"
#include "tests/support/tiny_model.h"

enum { MOST_ROWS = PF_BOUNDED_ROWS, N_PASSES = 12, PAUSE = 64 };

static char directory[PF_TINY_PATH];
static pf_isa isa; /* of the models that are loaded */

/* ---- two contexts of one model, with either head ------------------------------------------------------------------- */

typedef struct {
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv_seq sequence;
} rig;

static pf_status load(pf_dtype dtype, pf_head head, pf_backend backend, pf_team *team, pf_model **out, pf_error *error)
{
    const pf_model_options options = { .dtype = dtype, .backend = backend, .head = head, .isa = isa, .team = team };
    return pf_model_load(directory, &options, out, error);
}

static rig open_rig(pf_dtype dtype, pf_head head, int32_t n_threads)
{
    rig r;
    pf_error error;
    assert_ok(pf_test_team_create(n_threads, &r.team, &error), error);
    assert_ok(load(dtype, head, PF_BACKEND_AUTO, r.team, &r.model, &error), error);
    const pf_context_config config = {
        .max_sequences = 2, .max_rows = 2 * MOST_ROWS, .max_logit_rows = 2 * MOST_ROWS, .kv_type = PF_TYPE_F32
    };
    assert_ok(pf_context_create(r.model, r.team, &config, &r.context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(r.context), &r.sequence), PF_OK);
    return r;
}

static void close_rig(rig *r)
{
    pf_context_destroy(r->context);
    pf_model_release(r->model);
    pf_team_destroy(r->team);
}

static void run(rig *r, int32_t first_token, int32_t n_rows, int32_t best_of)
{
    int32_t tokens[2 * MOST_ROWS];
    for (int32_t i = 0; i < n_rows; i++) tokens[i] = (first_token + i * 71) % pf_context_n_vocab(r->context);
    const pf_span span = { r->sequence, tokens, n_rows, n_rows, NULL, best_of };
    assert_int_equal(pf_context_forward(r->context, &span, 1), PF_OK);
}

static int32_t panels_computed(const rig *r)
{
    int32_t n = 0;
    for (int32_t id = 0; id < r->context->n_members; id++) n += r->context->head.shares[id].n_computed;
    return n;
}

/* The best of each row, and its logit. */
static void assert_same_best(rig *full, const rig *bounded, int32_t n_rows, int32_t best_of)
{
    for (int32_t i = 0; i < n_rows; i++) {
        const float *logits = pf_context_logits(full->context, i);
        const int32_t best = pf_model_kernels(full->model)->argmax(logits, best_of);
        assert_int_equal(pf_context_best(full->context, i, best_of), best);
        assert_int_equal(pf_context_best(bounded->context, i, best_of), best);
        assert_int_equal(pf_context_find_invalid(bounded->context, i, best_of),
                         pf_context_find_invalid(full->context, i, best_of));
        const pf_rows computed = bounded->context->logits;
        if (best >= 0)
            assert_memory_equal(&computed.data[(size_t)i * computed.stride + (size_t)best], &logits[best],
                                sizeof *logits);
    }
}

/* Passes of one row and more over the model in `directory`. Returns the share of panels that were computed computed. */
static double compare_heads(pf_dtype dtype, int32_t n_threads)
{
    rig full = open_rig(dtype, PF_HEAD_FULL, n_threads), bounded = open_rig(dtype, PF_HEAD_BOUNDED, n_threads);
    const int32_t n_vocab = pf_context_n_vocab(full.context), n_panels = bounded.model->head.full.weights.n_panels;
    const int32_t best_of[] = { n_vocab, n_vocab - 1, n_vocab < 33 ? n_vocab : 33, 1 };
    double computed = 0.0;
    for (int32_t pass = 0; pass < N_PASSES; pass++) {
        const int32_t n_rows = pass % MOST_ROWS + 1, of = best_of[pass % 3 == 2 ? pass / 3 % 4 : 0];
        bounded.context->head.pause = 0;
        run(&full, pass * 13, n_rows, 0);
        run(&bounded, pass * 13, n_rows, of);
        assert_int_equal(full.context->head.best_of, 0);
        assert_int_equal(bounded.context->head.best_of, of);
        assert_same_best(&full, &bounded, n_rows, of);
        computed += (double)panels_computed(&bounded) / n_panels / N_PASSES;
    }
    close_rig(&full);
    close_rig(&bounded);
    return computed;
}

static void the_best_token_equals_that_of_a_full_head(void **state)
{
    (void)state;
    static const pf_tiny_model models[] = {
        { .vocab = 2000, .seed = 1, .type = PF_TYPE_BF16 },
        { .vocab = 2000, .seed = 2, .tied = true },
        { .vocab = 45, .hidden = 40, .seed = 3 },
        { .vocab = 20, .hidden = 8, .seed = 4 },
        { .vocab = 3001, .hidden = 200, .seed = 5, .type = PF_TYPE_BF16 },
    };
    static const pf_dtype dtypes[] = { PF_DTYPE_BF16, PF_DTYPE_F32, PF_DTYPE_BF16_12 };
    /* By AVX2 three rows are a tile, and more are shared. */
    for (isa = PF_ISA_SCALAR; isa <= pf_cpu_best_isa(); isa++) {
        for (size_t m = 0; m < PF_COUNT(models); m++) {
            pf_tiny_model_create(&models[m], directory);
            for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
                const double computed = compare_heads(dtypes[(m + (size_t)n_threads) % PF_COUNT(dtypes)], n_threads);
                if (models[m].vocab >= 2000) assert_true(computed < 0.3); /* most of it was left out */
            }
            pf_tiny_model_remove(directory);
        }
    }
    isa = pf_cpu_best_isa();
}

/* ---- extreme heads ----------------------------------------------------------------------------------------------- */

enum { VOCAB = 500, HIDDEN = 64 };

/* Change row i of the head, which is the file's last tensor, in F32. NULL: no row. */
typedef void row_fn(int32_t i, float row[HIDDEN]);

static void make_head(row_fn *make)
{
    char path[PF_TINY_PATH + 32];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = VOCAB, .hidden = HIDDEN, .seed = 7 }, directory);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    float row[HIDDEN];
    assert_int_equal(fseek(file, -(long)(VOCAB * sizeof row), SEEK_END), 0);
    for (int32_t i = 0; i < VOCAB; i++) {
        for (int32_t d = 0; d < HIDDEN; d++) row[d] = (float)((i * 31 + d * 17) % 101 - 50) / 50.0f;
        if (make != NULL) make(i, row);
        assert_int_equal(fwrite(row, sizeof row, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

/* All rows are one row, but for a part in 256 of some values: what INT8 cannot tell apart. */
static void nearly_equal(int32_t i, float row[HIDDEN])
{
    for (int32_t d = 0; d < HIDDEN; d++)
        row[d] = (1.0f + (float)(d % 7) / 8.0f) * ((i >> d % 9 & 1) ? 1.0f : 1.0078125f) * (d % 2 ? 1.0f : -1.0f);
}

static void equal(int32_t i, float row[HIDDEN])
{
    (void)i;
    for (int32_t d = 0; d < HIDDEN; d++) row[d] = (float)d / 64.0f;
}

static void with_no_numbers(int32_t i, float row[HIDDEN])
{
    static const float strange[] = { NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, 0x1p61f, 0.0f };
    if (i % 50 == 7) row[i % HIDDEN] = strange[i / 50 % 8];
}

static void all_infinite(int32_t i, float row[HIDDEN])
{
    (void)i;
    for (int32_t d = 0; d < HIDDEN; d++) row[d] = d == 3 ? INFINITY : row[d];
}

static void tiny(int32_t i, float row[HIDDEN])
{
    (void)i;
    for (int32_t d = 0; d < HIDDEN; d++) row[d] *= 1e-37f;
}

static void of_all_sizes(int32_t i, float row[HIDDEN])
{
    for (int32_t d = 0; d < HIDDEN; d++) row[d] = ldexpf(row[d], i % 60 - 30);
}

static void with_one_large_value(int32_t i, float row[HIDDEN])
{
    row[i % HIDDEN] *= 1000.0f; /* INT8 leaves nothing of the others */
}

/* The row that the head is multiplied with first, which does not depend on the head. */
static float first_x[HIDDEN];

static void find_first_x(void)
{
    make_head(NULL);
    rig r = open_rig(PF_DTYPE_F32, PF_HEAD_BOUNDED, 1);
    run(&r, 0, 4, VOCAB);
    memcpy(first_x, r.context->head.scratch[0].parts.data, sizeof first_x);
    close_rig(&r);
    pf_tiny_model_remove(directory);
}

/* Large, but on the way to it the sum goes below all numbers, and stays there. */
static void falling_below_all_numbers(int32_t i, float row[HIDDEN])
{
    for (int32_t d = 0; d < HIDDEN && i == 9; d++) row[d] = copysignf(3e38f, first_x[d]) * (d < 8 ? -1.0f : 1.0f);
}

static void the_best_token_is_exact_for_extreme_weights(void **state)
{
    (void)state;
    row_fn *const makers[] = { nearly_equal, equal,        with_no_numbers,      all_infinite,
                               tiny,         of_all_sizes, with_one_large_value, falling_below_all_numbers };
    find_first_x();
    for (size_t m = 0; m < PF_COUNT(makers); m++) {
        make_head(makers[m]);
        (void)compare_heads(PF_DTYPE_F32, 1 + (int32_t)m % 2);
        (void)compare_heads(PF_DTYPE_BF16, 1 + (int32_t)m % 3);
        pf_tiny_model_remove(directory);
    }
}

/* ---- how far off -------------------------------------------------------------------------------------------------- */

/* The largest error of a coarse logit by its bound; in *n_others the rows whose best coarse logit is not the best. */
static double worst_error(pf_dtype dtype, int32_t *n_others)
{
    rig full = open_rig(dtype, PF_HEAD_FULL, 2), bounded = open_rig(dtype, PF_HEAD_BOUNDED, 2);
    const pf_kernels *kernels = pf_model_kernels(full.model);
    const pf_context *c = bounded.context;
    double worst = 0.0;
    *n_others = 0;
    for (int32_t pass = 0; pass < N_PASSES; pass++) {
        bounded.context->head.pause = 0;
        run(&full, pass * 5, 4, 0);
        run(&bounded, pass * 5, 4, VOCAB);
        for (int32_t i = 0; i < 4; i++) {
            const float *x = c->head.scratch[0].parts.data + (size_t)i * c->head.scratch[0].parts.stride;
            const float *coarse = c->head.coarse.data + (size_t)i * c->head.coarse.stride;
            const float *exact = pf_context_logits(full.context, i);
            double norm = 0.0;
            for (int32_t d = 0; d < HIDDEN; d++) norm += (double)x[d] * (double)x[d];
            for (int32_t v = 0; v < VOCAB; v++)
                worst = fmax(worst, fabs((double)coarse[v] - (double)exact[v]) /
                                        (sqrt(norm) * (double)bounded.model->head.error[v]));
            *n_others += kernels->argmax(coarse, VOCAB) != kernels->argmax(exact, VOCAB);
        }
    }
    close_rig(&full);
    close_rig(&bounded);
    return worst;
}

/* INT8 loses nothing of it: what is off is the row that it is multiplied with. */
static void held_by_int8(int32_t i, float row[HIDDEN])
{
    for (int32_t d = 0; d < HIDDEN; d++) row[d] = (float)((i * 37 + d * 59) % 255 - 127) / 64.0f;
    row[i % HIDDEN] = 127.0f / 64.0f;
}

/* What INT8 loses of it lies along that row: then what Cauchy and Schwarz say is nearly so. */
static void along_x(int32_t i, float row[HIDDEN])
{
    float largest = 0.0f;
    for (int32_t d = 0; d < HIDDEN; d++) largest = fmaxf(largest, fabsf(first_x[d]));
    for (int32_t d = 0; d < HIDDEN; d++)
        row[d] = ((float)((i * 7 + d * 5) % 101 - 50) + 0.49f * first_x[d] / largest) / 64.0f;
    row[i % HIDDEN] = 127.0f / 64.0f; /* so a step is 1 / 64 */
}

static void errors_of_coarse_logits_are_within_their_bounds(void **state)
{
    (void)state;
    static const struct {
        row_fn *make;
        double at_least,
            at_most; /* of its bound the largest error is: none is beyond it, and it is not much too wide */
    } heads[] = { { NULL, 0.3, 1.0 },         { nearly_equal, 0.3, 1.0 }, { with_one_large_value, 0.3, 1.0 },
                  { of_all_sizes, 0.3, 1.0 }, { along_x, 0.9, 1.0 },      { held_by_int8, 0.05, 0.2 } };
    find_first_x();
    for (size_t h = 0; h < PF_COUNT(heads); h++) {
        int32_t n_others;
        make_head(heads[h].make);
        const double of_bf16 = worst_error(PF_DTYPE_BF16, &n_others), of_f32 = worst_error(PF_DTYPE_F32, &n_others);
        if (fmax(of_bf16, of_f32) > heads[h].at_most || fmin(of_bf16, of_f32) < heads[h].at_least)
            fail_msg("head %zu: errors of %g and %g of their bounds", h, of_bf16, of_f32);
        if (heads[h].make == nearly_equal) assert_true(n_others > N_PASSES); /* the second look was needed */
        pf_tiny_model_remove(directory);
    }
}

/* Blocks of twelve bits that are patched, and the first of each panel raw. */
static void hard_for_twelve_bits(int32_t i, float row[HIDDEN])
{
    row[i % HIDDEN] *= 0x1p40f;
    for (int32_t d = 0; d < 16; d++) row[d] = ldexpf(row[d], i % 60 - 30);
}

static void assert_same_sums(const pf_model *m)
{
    const int32_t k = m->config.hidden_size;
    float *rows = malloc(2 * (size_t)k * sizeof *rows);
    assert_non_null(rows);
    for (int32_t i = 0; i < m->config.vocab_size; i++) {
        pf_head_sums sums[PF_GEMM_PANEL];
        const pf_head_sums expected = pf_bounded_head_sums_of_row(&m->head, i, rows, rows + k);
        pf_bounded_head_sums(&m->head, i / PF_GEMM_PANEL, sums);
        assert_memory_equal(&sums[i % PF_GEMM_PANEL], &expected, sizeof expected);
        if (expected.weight < 0x1p120 && expected.off < 0x1p120)
            assert_true((double)m->head.error[i] > sqrt(expected.off) &&
                        (double)m->head.error[i] <= 1.1 * sqrt(expected.off) + 0.1 * sqrt(expected.weight) + 0x1p-60);
    }
    free(rows);
}

static void sums_of_a_panel_are_those_of_its_rows(void **state)
{
    (void)state;
    static const pf_dtype dtypes[] = { PF_DTYPE_F32, PF_DTYPE_BF16, PF_DTYPE_BF16_12 };
    row_fn *const makers[] = { NULL, hard_for_twelve_bits, with_no_numbers };
    for (size_t t = 0; t < PF_COUNT(dtypes); t++)
        for (size_t m = 0; m <= PF_COUNT(makers); m++) {
            if (m < PF_COUNT(makers))
                make_head(makers[m]);
            else
                pf_tiny_model_create(&(pf_tiny_model){ .vocab = 45, .hidden = 42, .seed = 3 }, directory);
            rig r = open_rig(dtypes[t], PF_HEAD_BOUNDED, 2);
            assert_int_equal(r.model->dtype, dtypes[t]);
            assert_same_sums(r.model);
            close_rig(&r);
            pf_tiny_model_remove(directory);
        }
}

/* ---- where it steps aside ------------------------------------------------------------------------------------------ */

static void assert_all_logits(rig *full, rig *bounded, int32_t n_rows)
{
    assert_int_equal(bounded->context->head.best_of, 0);
    for (int32_t i = 0; i < n_rows; i++)
        assert_memory_equal(pf_context_logits(bounded->context, i), pf_context_logits(full->context, i),
                            (size_t)pf_context_n_vocab(full->context) * sizeof(float));
}

static void spans_that_want_more_than_the_best_token_get_all_logits(void **state)
{
    (void)state;
    make_head(NULL);
    rig full = open_rig(PF_DTYPE_BF16, PF_HEAD_FULL, 2), bounded = open_rig(PF_DTYPE_BF16, PF_HEAD_BOUNDED, 2);
    run(&full, 3, 5, 0);
    run(&bounded, 3, 5, 0);
    assert_all_logits(&full, &bounded, 5);
    run(&full, 9, MOST_ROWS + 1, 0); /* more rows than it is for */
    run(&bounded, 9, MOST_ROWS + 1, VOCAB);
    assert_all_logits(&full, &bounded, MOST_ROWS + 1);

    pf_kv_seq other_full, other; /* one asks for the best, and another one for all, or among others */
    assert_int_equal(pf_kv_acquire(pf_context_kv(full.context), &other_full), PF_OK);
    assert_int_equal(pf_kv_acquire(pf_context_kv(bounded.context), &other), PF_OK);
    const int32_t token = 77;
    for (int32_t asked = 0; asked < 2; asked++) {
        const pf_span both_full[] = { { full.sequence, &token, 1, 1, NULL, 0 }, { other_full, &token, 1, 1, NULL, 0 } };
        const int32_t others = asked * 9;
        for (int turned = 0; turned < 2; turned++) {
            const pf_span both[] = { { bounded.sequence, &token, 1, 1, NULL, turned ? others : VOCAB },
                                     { other, &token, 1, 1, NULL, turned ? VOCAB : others } };
            assert_int_equal(pf_context_forward(full.context, both_full, 2), PF_OK);
            assert_int_equal(pf_context_forward(bounded.context, both, 2), PF_OK);
            assert_all_logits(&full, &bounded, 2);
        }
    }
    const pf_span none_of_one[] = { { bounded.sequence, &token, 1, 1, NULL, VOCAB }, { other, &token, 1, 0, NULL, 0 } };
    assert_int_equal(pf_context_forward(bounded.context, none_of_one, 2), PF_OK);
    assert_int_equal(bounded.context->head.best_of, VOCAB); /* a span without logits does not count */
    close_rig(&full);
    close_rig(&bounded);
    pf_tiny_model_remove(directory);
}

static void bounds_that_exclude_little_pause(void **state)
{
    (void)state;
    make_head(equal);
    rig r = open_rig(PF_DTYPE_BF16, PF_HEAD_BOUNDED, 2);
    for (int32_t pass = 0; pass < PAUSE + 3; pass++) {
        run(&r, 1, 1, VOCAB);
        assert_int_equal(r.context->head.best_of, pass % (PAUSE + 1) == 0 ? VOCAB : 0);
        if (pass == 0) assert_int_equal(panels_computed(&r), r.model->head.full.weights.n_panels);
    }
    close_rig(&r);
    pf_tiny_model_remove(directory);
}

/* ---- what it takes ------------------------------------------------------------------------------------------------ */

static void count_heads(void *user, const pf_model_tensor *tensor)
{
    if (strstr(tensor->name, "lm_head") == NULL) return;
    ++*(int32_t *)user;
    if (strstr(tensor->format, "int8") != NULL)
        assert_true(strstr(tensor->reason, "bounded") != NULL && strstr(tensor->kernel, "int8") != NULL);
}

static void watch(void *user, size_t done, size_t total)
{
    assert_true(done <= total);
    *(bool *)user = done == total;
}

static void a_step_reads_the_coarse_head_and_both_are_listed(void **state)
{
    (void)state;
    make_head(NULL);
    rig full = open_rig(PF_DTYPE_BF16, PF_HEAD_FULL, 1), bounded = open_rig(PF_DTYPE_BF16, PF_HEAD_BOUNDED, 1);
    const size_t less = pf_model_step_bytes(full.model) - pf_model_step_bytes(bounded.model);
    assert_true(less > VOCAB * HIDDEN * 9 / 10 && less < VOCAB * HIDDEN);
    int32_t n_full = 0, n_bounded = 0;
    pf_model_visit_tensors(full.model, count_heads, &n_full);
    pf_model_visit_tensors(bounded.model, count_heads, &n_bounded);
    assert_int_equal(n_full, 1);
    assert_int_equal(n_bounded, 2);
    close_rig(&full);
    close_rig(&bounded);

    rig small = open_rig(PF_DTYPE_AUTO, PF_HEAD_AUTO, 1);
    assert_int_equal(small.model->head.kind, PF_HEAD_FULL); /* all of it lies in the cache */
    bool is_done = false;
    pf_error error;
    pf_model *model;
    const pf_model_options options = { .dtype = PF_DTYPE_BF16,
                                       .head = PF_HEAD_BOUNDED,
                                       .isa = isa,
                                       .team = small.team,
                                       .progress = watch,
                                       .progress_user = &is_done };
    assert_ok(pf_model_load(directory, &options, &model, &error), error);
    assert_true(is_done);
    pf_model_release(model);
    close_rig(&small);
    pf_tiny_model_remove(directory);
}

/* Tells to end it once nothing is left but the measuring. */
typedef struct {
    int32_t n_told;
    volatile bool told;
} teller;

static void tell(void *user, size_t done, size_t total)
{
    teller *t = user;
    if (total - done != VOCAB * HIDDEN) return;
    t->told = true;
    t->n_told++;
}

static void measuring_counts_as_progress_and_can_be_cancelled(void **state)
{
    (void)state;
    make_head(NULL);
    pf_team *team;
    pf_error error = { 0 };
    pf_model *model = NULL;
    assert_ok(pf_test_team_create(2, &team, &error), error);
    teller t = { 0 };
    const pf_model_options options = { .dtype = PF_DTYPE_BF16,
                                       .head = PF_HEAD_BOUNDED,
                                       .isa = isa,
                                       .team = team,
                                       .progress = tell,
                                       .progress_user = &t,
                                       .cancel = &t.told };
    assert_status(pf_model_load(directory, &options, &model, &error), PF_CANCELLED);
    assert_says(error, "while it was loaded");
    assert_int_equal(t.n_told, 1);
    assert_null(model);
    pf_team_destroy(team);
    pf_tiny_model_remove(directory);
}

static void a_bounded_head_refuses_integers_f16_and_onednn(void **state)
{
    (void)state;
    static const struct {
        pf_dtype dtype;
        pf_backend backend;
    } refused[] = { { PF_DTYPE_INT8, PF_BACKEND_AUTO },
                    { PF_DTYPE_INT4, PF_BACKEND_AUTO },
                    { PF_DTYPE_F16, PF_BACKEND_AUTO },
                    { PF_DTYPE_BF16, PF_BACKEND_ONEDNN } };
    make_head(NULL);
    pf_team *team;
    pf_error error;
    assert_ok(pf_test_team_create(1, &team, &error), error);
    for (size_t i = 0; i < PF_COUNT(refused); i++) {
        pf_model *model = NULL;
        error = (pf_error){ 0 };
        assert_status(load(refused[i].dtype, PF_HEAD_BOUNDED, refused[i].backend, team, &model, &error),
                      PF_UNSUPPORTED);
        assert_null(model);
        assert_says(error, "bounded head");
        assert_says(error, directory);
    }
    pf_team_destroy(team);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    isa = pf_cpu_best_isa();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_token_equals_that_of_a_full_head),
        cmocka_unit_test(the_best_token_is_exact_for_extreme_weights),
        cmocka_unit_test(errors_of_coarse_logits_are_within_their_bounds),
        cmocka_unit_test(sums_of_a_panel_are_those_of_its_rows),
        cmocka_unit_test(spans_that_want_more_than_the_best_token_get_all_logits),
        cmocka_unit_test(bounds_that_exclude_little_pause),
        cmocka_unit_test(a_step_reads_the_coarse_head_and_both_are_listed),
        cmocka_unit_test(measuring_counts_as_progress_and_can_be_cancelled),
        cmocka_unit_test(a_bounded_head_refuses_integers_f16_and_onednn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
