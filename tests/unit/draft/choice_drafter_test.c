/* A choice of drafters: each sequence has the one that its open names. */
#include <string.h>

#include "tests/support/alloc_count.h"
#include "tests/support/choice_rig.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

static const pf_drafts_by ALL[] = { PF_DRAFTS_BY_MODEL, PF_DRAFTS_BY_SUFFIX, PF_DRAFTS_BY_CASCADE, PF_DRAFTS_BY_NGRAM };
static const pf_drafts_by LOOKUPS[] = { PF_DRAFTS_BY_SUFFIX, PF_DRAFTS_BY_NGRAM };

static rig_sequence named(uint64_t sequence, bool repeats, const char *drafter)
{
    rig_sequence t = rig_open_text(sequence, repeats);
    strcpy(t.open.drafter, drafter);
    return t;
}

/* What is proposed for a fresh text: the model's token, or nothing that a lookup finds. */
static void assert_model(const pf_proposal *p)
{
    assert_int_equal(p->n_tokens, 4);
    assert_int_equal(p->tokens[0], MODEL_TOKEN);
}

static void a_sequence_has_the_drafter_that_its_open_names(void **state)
{
    (void)state;
    choice_rig r;
    rig_make(&r, 8, ALL, PF_COUNT(ALL));
    rig_sequence model = named(1, true, "model"), suffix = named(2, false, "suffix"),
                 cascade = named(3, false, "cascade"), ngram = named(4, true, "ngram"), unnamed = named(5, true, "");
    pf_proposal p = rig_commit_period(&r, &model, 1, RIG_MS);
    assert_model(&p);
    p = rig_commit_fresh(&r, &suffix, 1, RIG_MS);
    assert_int_equal(p.n_tokens, 0);
    p = rig_commit_fresh(&r, &cascade, 1, RIG_MS); /* finds nothing, so the model drafts */
    assert_model(&p);
    p = rig_commit_period(&r, &ngram, 1, RIG_MS);
    assert_int_equal(p.n_tokens, 4);
    assert_int_equal(p.tokens[0], 100 + ngram.base % 4);
    p = rig_commit_period(&r, &unnamed, 1, RIG_MS); /* the first that is offered */
    assert_model(&p);
    assert_int_equal(r.model->n_told, 3); /* of those that have it, and no other */
    rig_sequence sure = named(6, true, "cascade");
    p = rig_commit_period(&r, &sure, 1, RIG_MS);
    assert_int_equal(p.tokens[0], 100 + sure.base % 4);
    assert_int_equal(r.model->n_told, 4);
    assert_int_equal(r.model->n_asked, 3);
    rig_end(&r);
}

static void a_batch_is_divided_among_the_drafters_of_its_sequences(void **state)
{
    (void)state;
    enum { N = 8 };
    static const char *const names[] = { "model", "suffix", "cascade", "ngram" };
    const int32_t next = 100;
    choice_rig r;
    rig_make(&r, N, ALL, PF_COUNT(ALL));
    pf_open opens[N];
    pf_verdict verdicts[N];
    for (int32_t i = 0; i < N; i++) {
        opens[i] = named((uint64_t)i + 1, true, names[i % 4]).open;
        verdicts[i] =
            (pf_verdict){ .sequence = (uint64_t)i + 1, .incarnation = 1, .base = 64, .tokens = &next, .n_tokens = 1 };
    }
    const pf_batch batch = { .opens = opens, .n_opens = N, .verdicts = verdicts, .n_verdicts = N };
    assert_status(pf_peer_submit(r.choice, &batch), PF_OK);
    for (uint64_t i = 1; i <= N; i++) assert_true(pf_peer_owes(r.choice, i));
    for (int32_t part = 0; part < 2; part++) { /* first what was looked up */
        const pf_batch *answer;
        assert_status(pf_peer_collect(r.choice, 0, &answer, NULL), PF_OK);
        assert_int_equal(answer->n_proposals, part == 0 ? 6 : 2);
        for (int32_t i = 0; i < answer->n_proposals; i++) {
            const pf_proposal *p = &answer->proposals[i];
            assert_int_equal(p->sequence % 4 == 1, part);
            assert_int_equal(p->tokens[0], part ? MODEL_TOKEN : 101);
        }
    }
    const pf_batch *answer;
    assert_status(pf_peer_collect(r.choice, 0, &answer, NULL), PF_CANCELLED);
    rig_end(&r);
}

static void a_drafter_that_is_not_offered_is_refused_with_what_is(void **state)
{
    (void)state;
    choice_rig r;
    rig_make(&r, 2, LOOKUPS, PF_COUNT(LOOKUPS));
    pf_open open = named(7, true, "model").open;
    pf_error error = { 0 };
    assert_status(pf_peer_check_open(r.choice, &open, &error), PF_UNSUPPORTED);
    assert_says(error, "drafter is model, but what is offered is suffix, ngram");
    const pf_batch *answer = near_peer_ask(r.choice, (pf_batch){ .opens = &open, .n_opens = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, 7);
    assert_int_equal(answer->refusals[0].status, PF_UNSUPPORTED);
    assert_string_equal(answer->refusals[0].text, error.text);

    pf_model_info info;
    assert_ok(pf_peer_info(r.choice, &info, &error), error);
    assert_int_equal(info.n_drafters, 2);
    assert_string_equal(info.drafters[0], "suffix");
    assert_string_equal(info.drafters[1], "ngram");
    rig_end(&r);
}

static void a_lookup_that_refuses_a_sequence_is_heard(void **state)
{
    (void)state;
    choice_rig r;
    rig_make(&r, 2, LOOKUPS, PF_COUNT(LOOKUPS));
    rig_sequence t = named(1, true, "ngram");
    t.open.max_draft = 0;
    const pf_batch *answer = near_peer_ask(r.choice, (pf_batch){ .opens = &t.open, .n_opens = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].status, PF_INVALID);
    const int32_t token = 5;
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .base = 64, .tokens = &token, .n_tokens = 1 };
    answer = near_peer_ask(r.choice, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }); /* it is closed there */
    assert_non_null(answer);
    assert_int_equal(answer->n_prefix_requests, 1);
    rig_end(&r);
}

static void a_sequence_that_is_opened_again_may_have_another_drafter(void **state)
{
    (void)state;
    static const char *const names[] = { "model", "suffix", "cascade", "ngram", "cascade", "model" };
    choice_rig r;
    rig_make(&r, 1, ALL, PF_COUNT(ALL)); /* one place: what is left must be closed */
    for (uint32_t i = 0; i < PF_COUNT(names); i++) {
        rig_sequence t = named(1, false, names[i]);
        t.open.incarnation = i + 1;
        const int32_t n_told = r.model->n_told;
        const pf_proposal p = rig_commit_fresh(&r, &t, 1, RIG_MS);
        const bool by_model = strcmp(names[i], "model") == 0 || strcmp(names[i], "cascade") == 0;
        assert_int_equal(p.n_tokens, by_model ? 4 : 0);
        assert_int_equal(r.model->n_told - n_told, by_model);
    }
    pf_open open = named(1, false, "of-others").open;
    open.incarnation = 9;
    const pf_batch *answer = near_peer_ask(r.choice, (pf_batch){ .opens = &open, .n_opens = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 1);
    rig_sequence next = named(2, false, "model"); /* the place is free */
    const pf_proposal p = rig_commit_fresh(&r, &next, 1, RIG_MS);
    assert_model(&p);
    rig_end(&r);
}

static void more_sequences_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    choice_rig r;
    rig_make(&r, 1, ALL, PF_COUNT(ALL));
    pf_open opens[] = { named(1, true, "suffix").open, named(2, true, "model").open };
    const pf_batch *answer = near_peer_ask(r.choice, (pf_batch){ .opens = opens, .n_opens = 2 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, 2);
    assert_int_equal(answer->refusals[0].status, PF_LIMIT);
    rig_end(&r);
}

static void figures_are_those_of_its_model(void **state)
{
    (void)state;
    choice_rig r;
    pf_model_figures figures = { .n_passes = 7 };
    rig_make(&r, 1, ALL, PF_COUNT(ALL));
    assert_ptr_equal(pf_peer_model(r.choice), &r.model->host.peer);
    assert_true(pf_host_get_figures(r.choice, &figures));
    assert_int_equal(figures.n_passes, 0); /* the stub counts none */
    rig_end(&r);
    rig_make(&r, 1, LOOKUPS, PF_COUNT(LOOKUPS));
    assert_null(pf_peer_model(r.choice));
    assert_false(pf_host_get_figures(r.choice, &figures));
    rig_end(&r);
}

static void a_round_allocates_nothing(void **state)
{
    (void)state;
    choice_rig r;
    rig_make(&r, 2, ALL, PF_COUNT(ALL));
    rig_sequence a = named(1, true, "suffix"), b = named(2, true, "ngram");
    pf_alloc_count_reset();
    for (int32_t i = 0; i < 10; i++) {
        (void)rig_commit_period(&r, &a, 3, RIG_MS);
        (void)rig_commit_fresh(&r, &b, 2, RIG_MS);
    }
    assert_int_equal(pf_alloc_count(), 0);
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_has_the_drafter_that_its_open_names),
        cmocka_unit_test(a_batch_is_divided_among_the_drafters_of_its_sequences),
        cmocka_unit_test(a_drafter_that_is_not_offered_is_refused_with_what_is),
        cmocka_unit_test(a_lookup_that_refuses_a_sequence_is_heard),
        cmocka_unit_test(a_sequence_that_is_opened_again_may_have_another_drafter),
        cmocka_unit_test(more_sequences_than_there_is_room_for_are_refused),
        cmocka_unit_test(figures_are_those_of_its_model),
        cmocka_unit_test(a_round_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
