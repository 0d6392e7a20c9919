/* The n-gram drafter by itself, with verdicts that the test makes up. */
#include "draft/ngram_drafter.h"

#include "tests/support/alloc_count.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

enum { V = 128, MAX_TOKENS = 64, MAX_DRAFT = 16 };

static pf_peer *make_drafter(int32_t max_sequences)
{
    const pf_model_info target = { .model_id = "target", .vocab_size = V, .max_context = MAX_TOKENS, .max_draft = 4 };
    pf_peer *drafter;
    pf_error error = { 0 };
    assert_ok(pf_ngram_drafter_create(&target, max_sequences, MAX_DRAFT, &drafter, &error), error);
    return drafter;
}

static pf_open open_of(uint64_t sequence, const int32_t *prompt, int32_t n)
{
    pf_open open = near_peer_open(sequence);
    open.tokens = prompt;
    open.n_tokens = n;
    return open;
}

static pf_verdict verdict_of(const pf_open *open, uint64_t round, int32_t base, const int32_t *tokens, int32_t n)
{
    return (pf_verdict){ .sequence = open->sequence,
                         .incarnation = open->incarnation,
                         .round = round,
                         .base = base,
                         .tokens = tokens,
                         .n_tokens = n };
}

/* Open with the first n - 1 tokens and commit the last: what is proposed then. */
static const pf_proposal *propose_behind(pf_peer *drafter, pf_open open)
{
    const int32_t n = --open.n_tokens;
    pf_verdict verdict = verdict_of(&open, 0, n, &open.tokens[n], 1);
    const pf_batch *answer =
        near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 0);
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->proposals[0].base, n + 1);
    assert_null(answer->proposals[0].declared);
    assert_null(answer->proposals[0].parents);
    return &answer->proposals[0];
}

static void end(pf_peer *drafter, uint64_t sequence)
{
    pf_close close = { sequence };
    assert_null(near_peer_ask(drafter, (pf_batch){ .closes = &close, .n_closes = 1 }));
}

static void assert_proposed(const pf_proposal *p, const int32_t *tokens, int32_t n)
{
    assert_int_equal(p->n_tokens, n);
    for (int32_t i = 0; i < n; i++) assert_int_equal(p->tokens[i], tokens[i]);
}

static void the_continuation_of_the_longest_suffix_is_proposed(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1);
    const struct {
        int32_t tokens[12], n, expected[4], n_expected;
    } cases[] = {
        { { 1, 2, 3, 4, 5, 6, 2, 3 }, 8, { 4, 5, 6, 2 }, 4 },
        /* a longer suffix counts before a later one */
        { { 1, 2, 3, 7, 8, 9, 3, 5, 6, 1, 2, 3 }, 12, { 7, 8, 9, 3 }, 4 },
        /* of two occurrences as long the later one counts */
        { { 2, 3, 4, 9, 2, 3, 5, 9, 1, 2, 3 }, 11, { 5, 9, 1, 2 }, 4 },
        /* four tokens are looked at, and no more: the later occurrence of 2 3 4 5 */
        { { 1, 2, 3, 4, 5, 7, 2, 3, 4, 5, 8, 9 }, 12, { 0 }, 0 },
        { { 5, 5, 5 }, 3, { 5, 5, 5, 5 }, 4 }, /* a period goes on past the end */
        { { 1, 2, 1, 2 }, 4, { 1, 2, 1, 2 }, 4 },
        { { 1, 2, 3, 4 }, 4, { 0 }, 0 }, /* nothing occurred before */
        { { 7 }, 1, { 0 }, 0 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_open open = open_of(1, cases[i].tokens, cases[i].n);
        assert_proposed(propose_behind(drafter, open), cases[i].expected, cases[i].n_expected);
        end(drafter, 1);
    }
    pf_peer_destroy(drafter);
}

static void no_more_than_four_tokens_of_the_suffix_are_compared(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1);
    /* 1 2 3 4 5 -> 90 matches five tokens; the later 9 2 3 4 5 -> 91 matches four, as many as are compared. */
    const int32_t tokens[] = { 1, 2, 3, 4, 5, 90, 9, 2, 3, 4, 5, 91, 1, 2, 3, 4, 5 };
    const int32_t expected[] = { 91, 1, 2, 3 };
    assert_proposed(propose_behind(drafter, open_of(1, tokens, PF_COUNT(tokens))), expected, 4);
    pf_peer_destroy(drafter);
}

static void the_length_follows_the_request_and_the_room(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1);
    int32_t same[MAX_TOKENS + 1];
    for (int32_t i = 0; i <= MAX_TOKENS; i++) same[i] = 5;
    const struct {
        int32_t n, max_draft, max_tokens, expected;
        bool adaptive;
    } cases[] = {
        { 8, 1, 0, 1, false },
        { 8, 64, 0, MAX_DRAFT, false },
        { 8, 64, 0, PF_NGRAM_ADAPTIVE_DRAFT, true },
        { 8, 4, 11, 2, false }, /* the target adds one of its own */
        { 8, 4, 8, 0, false },
        { MAX_TOKENS, 4, 0, 1, false },
        { MAX_TOKENS + 1, 4, 0, 0, false }, /* the context is full */
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_open open = open_of(1, same, cases[i].n);
        open.max_draft = cases[i].max_draft;
        open.max_tokens = cases[i].max_tokens;
        open.adaptive_draft = open.trees = cases[i].adaptive;
        pf_verdict verdict = verdict_of(&open, 0, --open.n_tokens, same, 1);
        const pf_batch *answer =
            near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
        assert_int_equal(answer->n_proposals, 1);
        assert_int_equal(answer->proposals[0].n_tokens, cases[i].expected);
        end(drafter, 1);
    }
    pf_peer_destroy(drafter);
}

static void rejected_tokens_leave_no_trace(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1);
    const int32_t prompt[] = { 1, 2, 3, 4, 5, 6, 2, 3 };
    const pf_open open = open_of(1, prompt, PF_COUNT(prompt));
    assert_int_equal(propose_behind(drafter, open)->n_tokens, 4); /* 4 5 6 2 */
    const int32_t kept[] = { 4, 9, 2, 3 };                        /* 4 was accepted, 9 2 3 are the target's */
    for (int32_t i = 0, base = PF_COUNT(prompt); i < 3; i++) {
        const int32_t n = i == 0 ? 2 : 1;
        pf_verdict verdict = verdict_of(&open, (uint64_t)i + 1, base, &kept[i == 0 ? 0 : i + 1], n);
        verdict.n_accepted = n - 1;
        base += n;
        const pf_batch *answer = near_peer_ask(drafter, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        assert_int_equal(answer->n_proposals, 1);
        if (i == 2) assert_proposed(&answer->proposals[0], kept, 4); /* 2 3 -> 4 9 2 3: of the text, not of 5 6 */
    }
    pf_peer_destroy(drafter);
}

static void sequences_of_one_batch_are_answered_together_and_independently(void **state)
{
    (void)state;
    enum { N = 8 };
    pf_peer *drafter = make_drafter(N);
    int32_t prompts[N][4];
    pf_open opens[N];
    pf_verdict verdicts[N];
    for (int32_t i = 0; i < N; i++) {
        for (int32_t j = 0; j < 4; j++) prompts[i][j] = 10 * i + j % 2;
        opens[i] = open_of((uint64_t)i + 1, prompts[i], 3);
        verdicts[i] = verdict_of(&opens[i], 0, 3, &prompts[i][3], 1);
    }
    const pf_batch batch = { .opens = opens, .n_opens = N, .verdicts = verdicts, .n_verdicts = N };
    const pf_batch *answer = near_peer_ask(drafter, batch);
    assert_int_equal(answer->n_proposals, N);
    for (int32_t i = 0; i < N; i++) {
        const int32_t expected[] = { 10 * i, 10 * i + 1, 10 * i, 10 * i + 1 };
        assert_int_equal(answer->proposals[i].sequence, i + 1);
        assert_proposed(&answer->proposals[i], expected, 4);
    }
    pf_open one_more = open_of(N + 1, prompts[0], 3);
    answer = near_peer_ask(drafter, (pf_batch){ .opens = &one_more, .n_opens = 1 });
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].status, PF_LIMIT);
    pf_peer_destroy(drafter);
}

static void an_open_that_cannot_be_served_is_refused_by_name(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(2);
    const int32_t unknown[] = { 3, V }, fine[] = { 3, 4 };
    int32_t same[MAX_TOKENS + 1] = { 0 };
    pf_open opens[] = { open_of(1, unknown, 2), open_of(2, same, MAX_TOKENS + 1), open_of(3, fine, 2),
                        open_of(4, fine, 2) };
    opens[2].max_draft = 0;
    opens[3].method = (pf_method)9;
    const char *says[] = { "token 1 of the prompt is 128", "65 tokens", "max_draft is 0", "method 9" };
    for (size_t i = 0; i < PF_COUNT(opens); i++) {
        const pf_batch *answer = near_peer_ask(drafter, (pf_batch){ .opens = &opens[i], .n_opens = 1 });
        assert_int_equal(answer->n_refusals, 1);
        assert_non_null(strstr(answer->refusals[0].text, says[i]));
    }
    pf_open open = open_of(5, fine, 2);
    pf_verdict verdict = verdict_of(&open, 0, 2, &unknown[1], 1);
    const pf_batch *answer =
        near_peer_ask(drafter, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->n_proposals, 0);
    pf_peer_destroy(drafter);
}

static void an_unknown_sequence_is_asked_for(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1);
    const int32_t token = 5;
    const pf_open open = open_of(1, &token, 1);
    pf_verdict verdict = verdict_of(&open, 3, 9, &token, 1);
    const pf_batch *answer = near_peer_ask(drafter, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(answer->n_prefix_requests, 1);
    assert_int_equal(answer->n_proposals, 0);
    pf_peer_destroy(drafter);
}

static void a_round_allocates_nothing(void **state)
{
    (void)state;
    pf_peer *drafter = make_drafter(1);
    const int32_t prompt[] = { 1, 2, 3, 1, 2 };
    const pf_open open = open_of(1, prompt, PF_COUNT(prompt));
    assert_true(pf_alloc_count() > 0); /* the counter counts */
    pf_alloc_count_reset();
    assert_int_equal(propose_behind(drafter, open)->n_tokens, 4);
    for (int32_t i = 0; i < 8; i++) {
        pf_verdict verdict = verdict_of(&open, (uint64_t)i + 1, 5 + i, &prompt[i % 3], 1);
        assert_int_equal(near_peer_ask(drafter, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 })->n_proposals, 1);
    }
    end(drafter, 1);
    assert_int_equal(pf_alloc_count(), 0);
    pf_peer_destroy(drafter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_continuation_of_the_longest_suffix_is_proposed),
        cmocka_unit_test(no_more_than_four_tokens_of_the_suffix_are_compared),
        cmocka_unit_test(the_length_follows_the_request_and_the_room),
        cmocka_unit_test(rejected_tokens_leave_no_trace),
        cmocka_unit_test(sequences_of_one_batch_are_answered_together_and_independently),
        cmocka_unit_test(an_open_that_cannot_be_served_is_refused_by_name),
        cmocka_unit_test(an_unknown_sequence_is_asked_for),
        cmocka_unit_test(a_round_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
