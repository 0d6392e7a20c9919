/*
 * The model of a draft in the vocabulary of a target: rows are the draft's own behind the pieces of the text, by ids of the target.
 *
 * The reference is the draft itself, given the pieces (tests/support/tiny_side.h).
 */
#include "model/backend/mapped_backend.h"

#include <math.h>

#include "model/backend/cpu_backend.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"

/* Ids of the target: 0 and 1 are 100 and 7 of the draft; 2 is 3 40 41; 3 is 5 6; 4 is 9. 2 and 3 have no counterpart. */
enum { N = 5, V = 128 };
static const int32_t DRAFT_OF[N] = { 100, 7, -1, -1, 9 };
static const int32_t ENDS[N] = { 1, 2, 5, 7, 8 };
static const int32_t PIECES[] = { 100, 7, 3, 40, 41, 5, 6, 9 };
static const pf_token_map MAP = {
    .n_target = N, .n_shared = 3, .draft_of = DRAFT_OF, .ends = ENDS, .pieces = PIECES, .longest = 3
};
static const pf_tiny_model MODEL = { .seed = 31 };

typedef struct {
    pf_tiny_side side;
    pf_mapped_backend *mapped;
    pf_forward_backend backend;
} rig;

static rig open_rig(pf_context_config config)
{
    rig r = { .side = pf_tiny_side_open(&MODEL, 1, &config) };
    const pf_forward_backend inner = pf_cpu_backend(r.side.context);
    pf_error error = { 0 };
    assert_ok(pf_mapped_backend_create(&inner, &MAP, &r.mapped, &error), error);
    r.backend = pf_mapped_backend_as_backend(r.mapped);
    return r;
}

static void close_rig(rig *r)
{
    pf_mapped_backend_destroy(r->mapped);
    pf_tiny_side_close(&r->side);
}

/* The draft's logits behind text [n] of the target, by passes of the draft's own. */
static void define(rig *r, const int32_t *text, int32_t n, float *out)
{
    int32_t pieces[64], n_pieces = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = text[i] > 0 ? ENDS[text[i] - 1] : 0; j < ENDS[text[i]]; j++) pieces[n_pieces++] = PIECES[j];
    const pf_forward_backend inner = pf_cpu_backend(r->side.context);
    int64_t sequence;
    assert_int_equal(pf_forward_acquire(&inner, &sequence), PF_OK);
    for (int32_t i = 0; i < n_pieces; i++) {
        const pf_span span = { .sequence = sequence, .tokens = pieces + i, .n_tokens = 1, .n_logits = 1 };
        assert_int_equal(pf_forward_run(&inner, &span, 1), PF_OK);
    }
    const float *row = pf_forward_logits(&inner, 0);
    for (int32_t id = 0; id < N; id++) out[id] = DRAFT_OF[id] >= 0 ? row[DRAFT_OF[id]] : -INFINITY;
    pf_forward_release(&inner, sequence);
}

static void run(rig *r, int64_t sequence, const int32_t *tokens, int32_t n, int32_t n_logits)
{
    const pf_span span = { .sequence = sequence, .tokens = tokens, .n_tokens = n, .n_logits = n_logits };
    assert_int_equal(pf_forward_run(&r->backend, &span, 1), PF_OK);
}

static void assert_row(rig *r, int32_t row, const float *expected)
{
    assert_memory_equal(pf_forward_logits(&r->backend, row), expected, N * sizeof *expected);
}

static const int32_t TEXT[] = { 0, 2, 1, 3, 4, 2, 0, 1, 1, 3 };
enum { N_TEXT = 10 };

static void check_rows(pf_context_config config)
{
    rig r = open_rig(config);
    float expected[N_TEXT][N];
    for (int32_t i = 0; i < N_TEXT; i++) define(&r, TEXT, i + 1, expected[i]);
    for (int32_t cut = 1; cut <= N_TEXT; cut++) { /* in two runs */
        int64_t sequence;
        assert_int_equal(pf_forward_acquire(&r.backend, &sequence), PF_OK);
        run(&r, sequence, TEXT, cut, cut);
        for (int32_t i = 0; i < cut; i++) assert_row(&r, i, expected[i]);
        assert_int_equal(pf_forward_length(&r.backend, sequence), cut);
        if (cut < N_TEXT) {
            pf_alloc_count_reset();
            run(&r, sequence, TEXT + cut, N_TEXT - cut, 1);
            assert_int_equal(pf_alloc_count(), 0);
            assert_row(&r, 0, expected[N_TEXT - 1]);
        }
        pf_forward_release(&r.backend, sequence);
    }
    close_rig(&r);
}

static void rows_are_the_drafts_behind_the_pieces(void **state)
{
    (void)state;
    check_rows((pf_context_config){ .max_sequences = 3 });
}

/* Of 22 pieces. */
static void a_run_takes_the_passes_that_its_pieces_need(void **state)
{
    (void)state;
    for (int32_t n = 10; n <= 22; n++) {
        check_rows((pf_context_config){ .max_sequences = 3, .max_rows = n });
        check_rows((pf_context_config){ .max_sequences = 3, .max_rows = 22, .max_logit_rows = n });
    }
}

/* What does not fit in the cache after some passes leaves the sequence as it was. */
static void a_pass_that_fails_takes_back_those_before_it(void **state)
{
    (void)state;
    enum { MANY = 24 };
    rig r = open_rig((pf_context_config){ .max_sequences = 2, .kv_sequences = 1, .max_tokens = 64, .max_rows = 4 });
    int32_t text[MANY];
    float expected[N];
    int64_t a, b;
    define(&r, TEXT, 4, expected);
    for (int32_t i = 0; i < MANY; i++) text[i] = 3; /* of two pieces */
    assert_int_equal(pf_forward_acquire(&r.backend, &a), PF_OK);
    assert_int_equal(pf_forward_acquire(&r.backend, &b), PF_OK);
    const pf_span fills = { .sequence = a, .tokens = text, .n_tokens = 4 };
    for (int32_t i = 0; i < 6; i++) assert_int_equal(pf_forward_run(&r.backend, &fills, 1), PF_OK);
    const pf_span span = { .sequence = b, .tokens = text, .n_tokens = MANY, .n_logits = 1 };
    assert_int_equal(pf_forward_run(&r.backend, &span, 1), PF_LIMIT);
    assert_int_equal(pf_forward_length(&r.backend, b), 0);
    assert_int_equal(pf_forward_length(&r.backend, a), 24);
    run(&r, b, TEXT, 4, 1);
    assert_row(&r, 0, expected);
    close_rig(&r);
}

static void sequences_of_a_pass_have_their_rows_in_order(void **state)
{
    (void)state;
    rig r = open_rig((pf_context_config){ .max_sequences = 4 });
    float first[N], second[2][N];
    define(&r, TEXT, 4, first);
    define(&r, TEXT + 1, 2, second[0]);
    define(&r, TEXT + 1, 3, second[1]);
    int64_t a, b;
    assert_int_equal(pf_forward_acquire(&r.backend, &a), PF_OK);
    assert_int_equal(pf_forward_acquire(&r.backend, &b), PF_OK);
    const pf_span spans[] = { { .sequence = a, .tokens = TEXT, .n_tokens = 4, .n_logits = 1 },
                              { .sequence = b, .tokens = TEXT + 1, .n_tokens = 3, .n_logits = 2 } };
    assert_int_equal(pf_forward_run(&r.backend, spans, 2), PF_OK);
    assert_row(&r, 0, first);
    assert_row(&r, 1, second[0]);
    assert_row(&r, 2, second[1]);
    close_rig(&r);
}

static void truncate_and_fork_go_back_to_the_end_of_a_token(void **state)
{
    (void)state;
    rig r = open_rig((pf_context_config){ .max_sequences = 4 });
    for (int32_t n = 0; n <= N_TEXT; n++) {
        int64_t sequence, fork;
        assert_int_equal(pf_forward_acquire(&r.backend, &sequence), PF_OK);
        run(&r, sequence, TEXT, N_TEXT, 0);
        assert_int_equal(pf_forward_reachable(&r.backend, sequence, n), n);
        assert_int_equal(pf_forward_fork(&r.backend, sequence, n, &fork), PF_OK);
        assert_int_equal(pf_forward_truncate(&r.backend, sequence, n), PF_OK);
        int32_t text[N_TEXT + 2];
        memcpy(text, TEXT, sizeof TEXT);
        text[n] = 2;
        text[n + 1] = 4;
        float expected[N];
        define(&r, text, n + 2, expected);
        run(&r, sequence, text + n, 2, 1);
        assert_row(&r, 0, expected);
        run(&r, fork, text + n, 2, 1);
        assert_row(&r, 0, expected);
        assert_int_equal(pf_forward_length(&r.backend, fork), n + 2);
        pf_forward_release(&r.backend, fork);
        pf_forward_release(&r.backend, sequence);
    }
    close_rig(&r);
}

static void what_exceeds_the_draft_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    rig r = open_rig((pf_context_config){ .max_sequences = 2, .max_tokens = 16 });
    static const int32_t long_text[] = { 2, 2, 2, 2, 2, 2 }, unknown[] = { 0, N }, negative[] = { -1 };
    int64_t sequence;
    assert_int_equal(pf_forward_acquire(&r.backend, &sequence), PF_OK);
    run(&r, sequence, TEXT, 2, 1);
    const pf_span spans[] = { { .sequence = sequence, .tokens = long_text, .n_tokens = 6 }, /* 4 + 18 pieces */
                              { .sequence = sequence, .tokens = unknown, .n_tokens = 2 },
                              { .sequence = sequence, .tokens = negative, .n_tokens = 1 } };
    for (size_t i = 0; i < PF_COUNT(spans); i++) {
        assert_int_equal(pf_forward_run(&r.backend, &spans[i], 1), PF_INVALID);
        assert_int_equal(pf_forward_length(&r.backend, sequence), 2);
    }
    float expected[N];
    define(&r, TEXT, 3, expected);
    run(&r, sequence, TEXT + 2, 1, 1);
    assert_row(&r, 0, expected);
    assert_int_equal(pf_forward_truncate(&r.backend, sequence, 4), PF_INVALID);
    close_rig(&r);
}

static void a_pass_with_too_few_rows_for_a_token_is_refused(void **state)
{
    (void)state;
    pf_tiny_side side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ .max_sequences = 1, .max_rows = 2 });
    const pf_forward_backend inner = pf_cpu_backend(side.context);
    pf_mapped_backend *mapped = NULL;
    pf_error error = { 0 };
    assert_int_equal(pf_mapped_backend_create(&inner, &MAP, &mapped, &error), PF_INVALID);
    assert_non_null(strstr(error.text, "is 3 of the draft"));
    pf_tiny_side_close(&side);
}

static void a_mask_is_fed_as_the_drafts_and_has_no_logit(void **state)
{
    (void)state;
    enum { MASK = 77, ROWS = 3 };
    static const int32_t text[] = { 0, 2, N, N }, pieces[] = { 100, 3, 40, 41, MASK, MASK };
    rig r = open_rig((pf_context_config){ .max_sequences = 3 });
    const pf_forward_backend inner = pf_cpu_backend(r.side.context);
    assert_false(r.backend.limits.takes_mask);
    int64_t sequence;
    assert_int_equal(pf_forward_acquire(&r.backend, &sequence), PF_OK);
    const pf_span span = { .sequence = sequence, .tokens = text, .n_tokens = 4, .n_logits = ROWS };
    assert_int_equal(pf_forward_run(&r.backend, &span, 1), PF_INVALID); /* the draft has none */
    pf_forward_release(&r.backend, sequence);
    pf_mapped_backend_destroy(r.mapped);

    pf_token_map map = MAP;
    map.has_mask = true;
    map.mask = MASK;
    pf_error error = { 0 };
    assert_ok(pf_mapped_backend_create(&inner, &map, &r.mapped, &error), error);
    r.backend = pf_mapped_backend_as_backend(r.mapped);
    assert_true(r.backend.limits.takes_mask && r.backend.limits.n_vocab == N);
    float expected[ROWS][N];
    assert_int_equal(pf_forward_acquire(&inner, &sequence), PF_OK);
    for (int32_t i = 0; i < 6; i++) {
        const pf_span one = { .sequence = sequence, .tokens = pieces + i, .n_tokens = 1, .n_logits = 1 };
        assert_int_equal(pf_forward_run(&inner, &one, 1), PF_OK);
        const float *row = pf_forward_logits(&inner, 0);
        for (int32_t id = 0; id < N && i >= 3; id++)
            expected[i - 3][id] = DRAFT_OF[id] >= 0 ? row[DRAFT_OF[id]] : -INFINITY;
    }
    pf_forward_release(&inner, sequence);
    assert_int_equal(pf_forward_acquire(&r.backend, &sequence), PF_OK);
    run(&r, sequence, text, 4, ROWS);
    for (int32_t i = 0; i < ROWS; i++) assert_row(&r, i, expected[i]);
    assert_int_equal(pf_forward_truncate(&r.backend, sequence, 2), PF_OK);
    const int32_t beyond = N + 1;
    const pf_span none = { .sequence = sequence, .tokens = &beyond, .n_tokens = 1, .n_logits = 1 };
    assert_int_equal(pf_forward_run(&r.backend, &none, 1), PF_INVALID);
    run(&r, sequence, text + 2, 1, 1);
    assert_row(&r, 0, expected[1]); /* the rows behind it are as they were */
    pf_forward_release(&r.backend, sequence);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_drafts_behind_the_pieces),
        cmocka_unit_test(a_run_takes_the_passes_that_its_pieces_need),
        cmocka_unit_test(a_pass_that_fails_takes_back_those_before_it),
        cmocka_unit_test(sequences_of_a_pass_have_their_rows_in_order),
        cmocka_unit_test(truncate_and_fork_go_back_to_the_end_of_a_token),
        cmocka_unit_test(what_exceeds_the_draft_is_refused_and_changes_nothing),
        cmocka_unit_test(a_pass_with_too_few_rows_for_a_token_is_refused),
        cmocka_unit_test(a_mask_is_fed_as_the_drafts_and_has_no_logit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
