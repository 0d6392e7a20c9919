/* The cascade over a model drafter that the test makes up, by a clock that the test sets. */
#include "tests/support/alloc_count.h"
#include "tests/support/choice_rig.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

static void make_rig(choice_rig *r, int32_t max_sequences)
{
    rig_make(r, max_sequences, (const pf_drafts_by[]){ PF_DRAFTS_BY_CASCADE }, 1);
}

/* ---- claims -------------------------------------------------------------------------------------------------------- */

static void a_sure_lookup_is_sent_and_the_model_is_not_asked(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 1);
    rig_sequence t = rig_open_text(1, true);
    const pf_proposal p = rig_commit_period(&r, &t, 1, RIG_MS);
    assert_int_equal(p.n_tokens, 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(p.tokens[i], 100 + (t.base + i) % 4);
    assert_int_equal(r.model->n_told, 1); /* it follows the text all the same */
    assert_int_equal(r.model->n_asked, 0);
    assert_false(pf_peer_owes(r.choice, 1));
    rig_end(&r);
}

static void where_nothing_is_found_the_model_proposes(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 1);
    rig_sequence t = rig_open_text(1, false);
    const pf_proposal p = rig_commit_fresh(&r, &t, 1, RIG_MS);
    assert_int_equal(p.n_tokens, 4);
    assert_int_equal(p.tokens[0], MODEL_TOKEN);
    assert_int_equal(r.model->n_asked, 1);
    rig_end(&r);
}

/* A text that repeats now and then; a model of which four tokens are always accepted, and which takes so long. How many of the last
 * rounds with a lookup that half of them were looked up. */
static int64_t count_lookups(uint64_t pass_ns, int32_t n_by_model, int32_t n_by_lookup)
{
    choice_rig r;
    make_rig(&r, 1);
    r.model->pass_ns = pass_ns;
    rig_sequence t = rig_open_text(1, true);
    pf_proposal p = rig_commit_period(&r, &t, 1, RIG_MS);
    int64_t n_before = 0;
    for (int32_t i = 0; i < 90; i++) {
        if (i == 50) n_before = pf_choice_drafter_counts(r.choice).n_lookups;
        const bool by_model = p.n_tokens > 0 && p.tokens[0] == MODEL_TOKEN;
        /* of what is looked up so much is right, before the text goes on in its period */
        p = i % 4 == 0 ? rig_commit_fresh(&r, &t, 1, 10 * RIG_MS)
                       : rig_commit_period(&r, &t, 1 + (by_model ? n_by_model : n_by_lookup), 10 * RIG_MS);
    }
    const int64_t n = pf_choice_drafter_counts(r.choice).n_lookups - n_before;
    rig_end(&r);
    return n;
}

static void a_round_goes_to_the_one_that_commits_more_in_its_time(void **state)
{
    (void)state;
    const int64_t of_slow = count_lookups(40 * RIG_MS, 4, 4), of_fast = count_lookups(0, 8, 1);
    if (of_slow < 20) fail_msg("%lld of 40 rounds were looked up where the model is slow", (long long)of_slow);
    if (of_fast > 10)
        fail_msg("%lld of 40 rounds were looked up where the model is fast and better", (long long)of_fast);
}

static void sequences_of_a_batch_are_divided(void **state)
{
    (void)state;
    enum { N = 6 };
    choice_rig r;
    make_rig(&r, N);
    pf_open opens[N];
    pf_verdict verdicts[N];
    const int32_t next[2] = { 5000, 100 };
    for (int32_t i = 0; i < N; i++) {
        opens[i] = rig_open_text((uint64_t)i + 1, i % 2).open;
        verdicts[i] = (pf_verdict){
            .sequence = (uint64_t)i + 1, .incarnation = 1, .base = 64, .tokens = &next[i % 2], .n_tokens = 1
        };
    }
    const pf_batch batch = { .opens = opens, .n_opens = N, .verdicts = verdicts, .n_verdicts = N };
    assert_ok(pf_peer_submit(r.choice, &batch), (pf_error){ 0 });
    for (uint64_t i = 1; i <= N; i++) assert_true(pf_peer_owes(r.choice, i));
    for (int32_t part = 0; part < 2; part++) { /* first what was looked up */
        const pf_batch *answer;
        assert_ok(pf_peer_collect(r.choice, 0, &answer, NULL), (pf_error){ 0 });
        assert_int_equal(answer->n_proposals, N / 2);
        for (int32_t i = 0; i < N / 2; i++) {
            assert_int_equal(answer->proposals[i].sequence % 2, part);
            assert_int_equal(answer->proposals[i].tokens[0] == MODEL_TOKEN, part);
        }
    }
    rig_end(&r);
}

static void a_sequence_that_the_model_refuses_is_refused(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 4);
    r.model->limit = 2;
    pf_open opens[] = { rig_open_text(1, true).open, rig_open_text(2, true).open };
    const pf_batch *answer = near_peer_ask(r.choice, (pf_batch){ .opens = opens, .n_opens = 2 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, 2);
    assert_status(pf_peer_check_open(r.choice, &opens[1], NULL), PF_LIMIT);
    rig_end(&r);
}

static void a_verdict_for_what_is_unknown_gets_one_prefix_request(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 1);
    const int32_t token = 5;
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .round = 3, .base = 9, .tokens = &token, .n_tokens = 1 };
    const pf_batch *answer = near_peer_ask(r.choice, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_prefix_requests, 1);
    assert_int_equal(answer->n_proposals, 0);
    rig_end(&r);
}

static void a_sequence_that_is_closed_is_owed_nothing(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 1);
    rig_sequence t = rig_open_text(1, true);
    const int32_t token = 100;
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .base = 64, .tokens = &token, .n_tokens = 1 };
    const pf_batch batch = { .opens = &t.open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 };
    assert_ok(pf_peer_submit(r.choice, &batch), (pf_error){ 0 });
    pf_close close = { 1 };
    assert_null(near_peer_ask(r.choice, (pf_batch){ .closes = &close, .n_closes = 1 }));
    rig_sequence again = rig_open_text(2, false); /* the place is free */
    assert_int_equal(rig_commit_fresh(&r, &again, 1, RIG_MS).tokens[0], MODEL_TOKEN);
    rig_end(&r);
}

static void a_round_allocates_nothing(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 1);
    rig_sequence t = rig_open_text(1, true);
    pf_alloc_count_reset();
    for (int32_t i = 0; i < 20; i++)
        (void)(i % 3 ? rig_commit_period(&r, &t, 3, RIG_MS) : rig_commit_fresh(&r, &t, 2, RIG_MS));
    assert_int_equal(pf_alloc_count(), 0);
    rig_end(&r);
}

static void the_model_drafts_ahead_while_no_lookup_waits(void **state)
{
    (void)state;
    choice_rig r;
    make_rig(&r, 1);
    rig_sequence t = rig_open_text(1, true);
    (void)rig_commit_period(&r, &t, 1, RIG_MS);
    const int32_t token = 100 + t.base % 4;
    pf_verdict verdict = {
        .sequence = 1, .incarnation = 1, .round = 1, .base = t.base, .tokens = &token, .n_tokens = 1
    };
    assert_status(pf_peer_submit(r.choice, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    assert_false(pf_peer_work_ahead(r.choice));
    assert_int_equal(r.model->n_ahead, 0);
    const pf_batch *answer;
    pf_error error = { 0 };
    assert_ok(pf_peer_collect(r.choice, UINT64_MAX, &answer, &error), error);
    assert_true(pf_peer_work_ahead(r.choice));
    assert_false(pf_peer_work_ahead(r.choice));
    rig_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sure_lookup_is_sent_and_the_model_is_not_asked),
        cmocka_unit_test(where_nothing_is_found_the_model_proposes),
        cmocka_unit_test(a_round_goes_to_the_one_that_commits_more_in_its_time),
        cmocka_unit_test(sequences_of_a_batch_are_divided),
        cmocka_unit_test(a_sequence_that_the_model_refuses_is_refused),
        cmocka_unit_test(a_verdict_for_what_is_unknown_gets_one_prefix_request),
        cmocka_unit_test(a_sequence_that_is_closed_is_owed_nothing),
        cmocka_unit_test(a_round_allocates_nothing),
        cmocka_unit_test(the_model_drafts_ahead_while_no_lookup_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
