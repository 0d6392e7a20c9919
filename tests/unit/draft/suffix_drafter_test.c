/* The suffix drafter by itself, with verdicts that the test makes up. */
#include "draft/suffix_drafter.h"

#include "draft/lookup_odds.h"
#include "draft/suffix_corpus.h"
#include "tests/support/alloc_count.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

enum { V = 20000, MAX_TOKENS = 8192, MAX_DRAFT = 16 };

static pf_peer *make_drafter(int32_t max_sequences, size_t corpus_bytes)
{
    const pf_model_info target = { .model_id = "target", .vocab_size = V, .max_context = MAX_TOKENS, .max_draft = 4 };
    const pf_suffix_drafter_config config = { .max_sequences = max_sequences,
                                              .max_draft = MAX_DRAFT,
                                              .corpus_bytes = corpus_bytes };
    pf_peer *drafter;
    pf_error error = { 0 };
    assert_ok(pf_suffix_drafter_create(&target, &config, &drafter, &error), error);
    return drafter;
}

static pf_open open_of(uint64_t sequence, uint64_t client, const int32_t *prompt, int32_t n)
{
    pf_open open = near_peer_open(sequence);
    open.tokens = prompt;
    open.n_tokens = n;
    open.client = client;
    return open;
}

/* What is proposed behind these tokens, the last of which is a verdict's. */
static pf_proposal propose_behind(pf_peer *drafter, pf_open open)
{
    const int32_t n = --open.n_tokens;
    pf_verdict verdict = {
        .sequence = open.sequence, .incarnation = open.incarnation, .base = n, .tokens = &open.tokens[n], .n_tokens = 1
    };
    const pf_batch *answer =
        near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 0);
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->proposals[0].base, n + 1);
    assert_null(answer->proposals[0].declared);
    return answer->proposals[0];
}

static void end(pf_peer *drafter, uint64_t sequence)
{
    pf_close close = { sequence };
    assert_null(near_peer_ask(drafter, (pf_batch){ .closes = &close, .n_closes = 1 }));
}

/* A request of a client, with an output that is committed in one verdict. */
static void run_request(pf_peer *drafter, uint64_t sequence, uint64_t client, const int32_t *output, int32_t n)
{
    static const int32_t prompt[] = { V - 1 };
    pf_open open = open_of(sequence, client, prompt, 1);
    pf_verdict verdict = { .sequence = sequence, .incarnation = 1, .base = 1, .tokens = output, .n_tokens = n };
    assert_non_null(
        near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 }));
    end(drafter, sequence);
}

static void assert_tokens(const pf_proposal *p, const int32_t *tokens, int32_t n)
{
    assert_int_equal(p->n_tokens, n);
    for (int32_t i = 0; i < n; i++) assert_int_equal(p->tokens[i], tokens[i]);
}

static void the_most_frequent_continuation_of_the_longest_suffix_is_proposed(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, 0);
    const struct {
        int32_t tokens[20], n, expected[4], n_expected;
    } cases[] = {
        { { 1, 2, 3, 4, 5, 6, 2, 3 }, 8, { 4, 5, 6, 2 }, 4 },
        /* a longer suffix counts before a more frequent one */
        { { 1, 2, 3, 7, 8, 9, 3, 5, 6, 4, 3, 5, 6, 1, 2, 3 }, 16, { 7, 8, 9, 3 }, 4 },
        /* of one suffix the more frequent continuation, though it is not the latest */
        { { 2, 3, 4, 9, 2, 3, 4, 8, 2, 3, 5, 7, 1, 2, 3 }, 15, { 4, 8, 2, 3 }, 4 },
        { { 5, 5, 5, 5, 5 }, 5, { 5, 5, 5, 5 }, 4 }, /* a period goes on past the end */
        { { 1, 2, 3, 4 }, 4, { 0 }, 0 },             /* nothing occurred before */
        { { 7 }, 1, { 0 }, 0 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_proposal p = propose_behind(drafter, open_of(1, 0, cases[i].tokens, cases[i].n));
        assert_tokens(&p, cases[i].expected, cases[i].n_expected);
        end(drafter, 1);
    }
    pf_peer_destroy(drafter);
}

/* Of 32 tokens, each of which has been followed by many others once. */
static void an_improbable_continuation_is_not_proposed(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, 0);
    int32_t tokens[81];
    for (int32_t i = 0; i < 40; i++) {
        tokens[2 * i] = 7;
        tokens[2 * i + 1] = 100 + i;
    }
    tokens[80] = 7;
    assert_int_equal(propose_behind(drafter, open_of(1, 0, tokens, 81)).n_tokens, 0);
    pf_peer_destroy(drafter);
}

static void a_longer_match_gives_a_longer_proposal(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, 0);
    int32_t n_before = 0;
    for (int32_t length = 1; length <= 4; length++) {
        int32_t tokens[64];
        for (int32_t i = 0; i < 40; i++) tokens[i] = 100 + i;
        for (int32_t i = 0; i < length; i++) tokens[40 + i] = 104 + i - length + 1;
        pf_open open = open_of(1, 0, tokens, 40 + length);
        open.max_draft = MAX_DRAFT;
        const int32_t n = propose_behind(drafter, open).n_tokens;
        assert_true(n <= PF_SUFFIX_FACTOR * length);
        assert_true(n > n_before || n == MAX_DRAFT);
        n_before = n;
        end(drafter, 1);
    }
    pf_peer_destroy(drafter);
}

static void second_choices_are_proposed_where_trees_are_judged(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, 0);
    /* 8 9 1 2 is followed by 3 three times and by 4 twice */
    const int32_t tokens[] = { 8,  9, 1, 2, 3, 20, 8,  9, 1, 2, 4, 21, 8,  9, 1, 2, 3,
                               22, 8, 9, 1, 2, 4,  23, 8, 9, 1, 2, 3,  24, 8, 9, 1, 2 };
    for (int32_t trees = 0; trees < 2; trees++) {
        pf_open open = open_of(1, 0, tokens, PF_COUNT(tokens));
        open.max_draft = 8;
        open.adaptive_draft = true;
        open.trees = trees;
        const pf_proposal p = propose_behind(drafter, open);
        assert_true(p.n_tokens > 0);
        assert_int_equal(p.tokens[0], 3);
        if (!trees) assert_null(p.parents);
        int32_t n_first = 0;
        for (int32_t i = 0; trees && i < p.n_tokens; i++) {
            assert_true(p.parents[i] < i);
            n_first += p.parents[i] < 0;
        }
        assert_int_equal(n_first, trees ? 2 : 0);
        end(drafter, 1);
    }
    pf_peer_destroy(drafter);
}

static void excluded_ids_are_not_proposed(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, 0);
    const int32_t tokens[] = { 1, 2, 3, 4, 5, 6, 2, 3 }, excluded[] = { 5, 6 };
    pf_open open = open_of(1, 0, tokens, PF_COUNT(tokens));
    open.excluded = excluded;
    open.n_excluded = 1;
    const pf_proposal p = propose_behind(drafter, open);
    assert_tokens(&p, (int32_t[]){ 4 }, 1);
    pf_peer_destroy(drafter);
}

/* ---- earlier outputs ----------------------------------------------------------------------------------------------- */

static const int32_t OUTPUT[] = { 11, 12, 13, 14, 15, 16 };

static void outputs_of_earlier_requests_are_looked_up(void **state)
{
    (void)state;
    const int32_t prompt[] = { 30, 12, 13 };
    for (int32_t keeps = 0; keeps < 2; keeps++) {
        pf_peer *drafter = make_drafter(1, keeps ? PF_SUFFIX_CORPUS_LEAST_BYTES : 0);
        run_request(drafter, 1, 5, OUTPUT, PF_COUNT(OUTPUT));
        const pf_proposal p = propose_behind(drafter, open_of(2, 5, prompt, PF_COUNT(prompt)));
        assert_tokens(&p, &OUTPUT[3], keeps ? 3 : 0);
        pf_peer_destroy(drafter);
    }
}

static void prompts_of_earlier_requests_are_not(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, PF_SUFFIX_CORPUS_LEAST_BYTES);
    propose_behind(drafter, open_of(1, 5, OUTPUT, PF_COUNT(OUTPUT)));
    end(drafter, 1);
    const int32_t prompt[] = { 30, 12, 13 };
    assert_int_equal(propose_behind(drafter, open_of(2, 5, prompt, PF_COUNT(prompt))).n_tokens, 0);
    pf_peer_destroy(drafter);
}

static void outputs_of_another_client_are_never_proposed(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(2, 1 << 20);
    const int32_t prompt[] = { 30, 12, 13 };
    run_request(drafter, 1, 5, OUTPUT, PF_COUNT(OUTPUT));
    for (uint64_t client = 0; client < 10; client++) {
        const pf_proposal p = propose_behind(drafter, open_of(2, client, prompt, PF_COUNT(prompt)));
        assert_int_equal(p.n_tokens, client == 5 ? 3 : 0);
        end(drafter, 2);
    }
    pf_peer_destroy(drafter);
}

static void the_output_of_a_kept_sequence_counts_when_it_is_opened_again(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(2, PF_SUFFIX_CORPUS_LEAST_BYTES);
    const int32_t prompt[] = { 30, 12, 13 }, first[] = { 50 };
    pf_open open = open_of(1, 5, first, 1);
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .base = 1, .tokens = OUTPUT, .n_tokens = PF_COUNT(OUTPUT) };
    assert_non_null(
        near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 }));
    open.incarnation = 2;
    open.tokens = prompt;
    open.n_tokens = 1;
    (void)near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1 });
    const pf_proposal p = propose_behind(drafter, open_of(2, 5, prompt, PF_COUNT(prompt)));
    assert_tokens(&p, &OUTPUT[3], 3);
    pf_peer_destroy(drafter);
}

/* ---- verdicts ------------------------------------------------------------------------------------------------------ */

/* A period that goes on, round by round, and one in which every proposal is wrong. */
static void what_verdicts_show_changes_what_is_expected(void **state)
{
    (void)state;
    double expected[2];
    for (int32_t is_right = 0; is_right < 2; is_right++) {
        pf_peer *drafter = make_drafter(1, 0);
        static int32_t prompt[1000];
        for (int32_t i = 0; i < 1000; i++) prompt[i] = i;
        pf_open open = open_of(1, 0, prompt, 1000);
        open.max_draft = 1;
        /* Each round commits a token of the prompt, behind which a match of one token has one continuation. */
        for (int32_t i = 0; i < 40; i++) {
            const int32_t tokens[2] = { is_right ? prompt[20 * i - 20 * (i > 0) + 1] : 5000 + i, prompt[20 * i] };
            const int32_t n = i == 0 ? 1 : 2;
            pf_verdict verdict = { .sequence = 1,
                                   .incarnation = 1,
                                   .round = (uint64_t)i,
                                   .base = 1000 + (i == 0 ? 0 : 2 * i - 1),
                                   .tokens = i == 0 ? &tokens[1] : tokens,
                                   .n_tokens = n,
                                   .n_accepted = i > 0 && is_right };
            const pf_batch batch = { .opens = &open, .n_opens = i == 0, .verdicts = &verdict, .n_verdicts = 1 };
            const pf_batch *answer = near_peer_ask(drafter, batch);
            assert_int_equal(answer->n_proposals, 1);
            if (answer->proposals[0].n_tokens == 0) break;
            assert_int_equal(answer->proposals[0].tokens[0], prompt[20 * i + 1]);
            expected[is_right] = pf_suffix_drafter_expects(drafter, 1);
        }
        pf_peer_destroy(drafter);
    }
    assert_true(expected[1] > 0.7);
    assert_true(expected[0] < 0.25);
}

static void the_odds_follow_what_was_accepted(void **state)
{
    (void)state;
    pf_lookup_odds own = { 0 }, all = { 0 };
    assert_true(pf_lookup_chance(&own, &all, 1, 1, 1) < 0.51);
    assert_true(pf_lookup_chance(&own, &all, 16, 3, 3) > 0.9);
    assert_true(pf_lookup_chance(&own, &all, 4, 1, 2) < pf_lookup_chance(&own, &all, 4, 2, 2));
    const pf_lookup_cell cell = pf_lookup_cell_of(4, 2, 2);
    const double before = pf_lookup_chance(&own, &all, 4, 2, 2), other = pf_lookup_chance(&own, &all, 40, 2, 2);
    for (int32_t i = 0; i < 40; i++) pf_lookup_observe(&all, cell, false);
    assert_true(pf_lookup_chance(&own, &all, 4, 2, 2) < before / 4);
    for (int32_t i = 0; i < 1000; i++) pf_lookup_observe(&own, cell, true);
    const double after = pf_lookup_chance(&own, &all, 4, 2, 2);
    assert_true(after > 0.85 && after < 1.0);
    assert_true(pf_lookup_chance(&own, &all, 40, 2, 2) == other);
}

/* ---- the rest of a peer -------------------------------------------------------------------------------------------- */

static void a_long_prompt_is_read_in_parts_and_others_are_answered_between(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(2, 0);
    static int32_t prompt[MAX_TOKENS];
    for (int32_t i = 0; i < MAX_TOKENS; i++) prompt[i] = i % 5000;
    const int32_t short_prompt[] = { 1, 2, 3, 1, 2 };
    pf_open opens[] = { open_of(1, 0, prompt, MAX_TOKENS - 1), open_of(2, 0, short_prompt, 4) };
    pf_verdict verdicts[] = {
        { .sequence = 1, .incarnation = 1, .base = MAX_TOKENS - 1, .tokens = &prompt[MAX_TOKENS - 1], .n_tokens = 1 },
        { .sequence = 2, .incarnation = 1, .base = 4, .tokens = &short_prompt[4], .n_tokens = 1 },
    };
    const pf_batch batch = { .opens = opens, .n_opens = 2, .verdicts = verdicts, .n_verdicts = 2 };
    const pf_batch *answer;
    assert_ok(pf_peer_submit(drafter, &batch), (pf_error){ 0 });
    assert_int_equal(pf_peer_backlog(drafter), MAX_TOKENS + 5);
    assert_ok(pf_peer_collect(drafter, 0, &answer, NULL), (pf_error){ 0 });
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->proposals[0].sequence, 2);
    assert_int_equal(pf_peer_backlog(drafter), MAX_TOKENS);
    assert_ok(pf_peer_collect(drafter, UINT64_MAX, &answer, NULL), (pf_error){ 0 });
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->proposals[0].sequence, 1);
    assert_int_equal(answer->proposals[0].tokens[0], MAX_TOKENS % 5000);
    pf_peer_destroy(drafter);
}

static void a_text_that_is_opened_again_is_read_as_a_new_one(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, 0);
    const int32_t first[] = { 1, 2, 3, 4, 9 }, longer[] = { 1, 2, 3, 4, 9, 2, 3 }, other[] = { 5, 6, 7, 5, 6 };
    propose_behind(drafter, open_of(1, 0, first, 5));
    pf_open open = open_of(1, 0, longer, 7);
    open.incarnation = 2;
    pf_proposal p = propose_behind(drafter, open);
    assert_tokens(&p, (int32_t[]){ 4, 9, 2, 3 }, 4);
    open = open_of(1, 0, other, 5);
    open.incarnation = 3;
    p = propose_behind(drafter, open);
    assert_tokens(&p, (int32_t[]){ 7, 5, 6, 7 }, 4);
    pf_peer_destroy(drafter);
}

static void a_corpus_that_is_too_small_is_refused(void **state)
{
    (void)state;
    const pf_model_info target = { .vocab_size = V, .max_context = 64 };
    const pf_suffix_drafter_config config = { .max_sequences = 1, .max_draft = 4, .corpus_bytes = 1000 };
    pf_peer *drafter = NULL;
    pf_error error = { 0 };
    assert_status(pf_suffix_drafter_create(&target, &config, &drafter, &error), PF_INVALID);
    assert_non_null(strstr(error.text, "1000 bytes"));
    assert_null(drafter);
}

static void a_round_allocates_nothing(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1, PF_SUFFIX_CORPUS_LEAST_BYTES);
    const int32_t prompt[] = { 1, 2, 3, 1, 2 };
    const pf_open open = open_of(1, 0, prompt, PF_COUNT(prompt));
    assert_true(pf_alloc_count() > 0); /* the counter counts */
    pf_alloc_count_reset();
    assert_true(propose_behind(drafter, open).n_tokens > 0);
    for (int32_t i = 0; i < 8; i++) {
        pf_verdict verdict = { .sequence = 1,
                               .incarnation = 1,
                               .round = (uint64_t)i + 1,
                               .base = 5 + i,
                               .tokens = &prompt[i % 3],
                               .n_tokens = 1 };
        assert_int_equal(near_peer_ask(drafter, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 })->n_proposals, 1);
    }
    end(drafter, 1);
    assert_int_equal(pf_alloc_count(), 0);
    pf_peer_destroy(drafter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_continuation_of_the_longest_suffix_is_proposed),
        cmocka_unit_test(an_improbable_continuation_is_not_proposed),
        cmocka_unit_test(a_longer_match_gives_a_longer_proposal),
        cmocka_unit_test(second_choices_are_proposed_where_trees_are_judged),
        cmocka_unit_test(excluded_ids_are_not_proposed),
        cmocka_unit_test(outputs_of_earlier_requests_are_looked_up),
        cmocka_unit_test(prompts_of_earlier_requests_are_not),
        cmocka_unit_test(outputs_of_another_client_are_never_proposed),
        cmocka_unit_test(the_output_of_a_kept_sequence_counts_when_it_is_opened_again),
        cmocka_unit_test(what_verdicts_show_changes_what_is_expected),
        cmocka_unit_test(the_odds_follow_what_was_accepted),
        cmocka_unit_test(a_long_prompt_is_read_in_parts_and_others_are_answered_between),
        cmocka_unit_test(a_text_that_is_opened_again_is_read_as_a_new_one),
        cmocka_unit_test(a_corpus_that_is_too_small_is_refused),
        cmocka_unit_test(a_round_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
