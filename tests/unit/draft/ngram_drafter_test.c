/* The n-gram drafter by itself, with verdicts that the test makes up. */
#include "draft/ngram_drafter.h"

#include "host/sequence_host.h"
#include "tests/support/alloc_count.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

enum { V = 128, MAX_TOKENS = 64, MAX_DRAFT = 16 };

static pf_peer *make_drafter(int32_t max_sequences)
{
    const pf_model_info target = { .model_id = "target", .vocab_size = V, .max_context = MAX_TOKENS, .max_draft = 4 };
    pf_peer *drafter;
    pf_error error = { 0 };
    assert_ok(pf_ngram_drafter_create(&target, max_sequences, MAX_DRAFT, (pf_stop){ 0 }, &drafter, &error), error);
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

/* ---- the length that is chosen ------------------------------------------------------------------------------------- */

enum { MOST_TEXTS = 8, ROUNDS = 40 };

/* Texts of few different tokens, and a target whose verification takes so long, by rows; on a simulated clock. */
typedef struct {
    pf_peer *drafter;
    uint64_t now_ns, rng;
    uint64_t verify_ns, row_ns;
    int32_t n, n_alphabet;
    pf_open opens[MOST_TEXTS];
    int32_t prompts[MOST_TEXTS][8];
    int32_t base[MOST_TEXTS], next[MOST_TEXTS][2];
    int32_t n_rows; /* of the verification that is to come */
} target_rig;

static int32_t draw(target_rig *r, int32_t text, int32_t position)
{
    if (r->n_alphabet == 0) return 1 + (text + position) % 3; /* a period: a lookup is always right */
    r->rng = r->rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return 1 + (int32_t)((r->rng >> 33) % (uint64_t)r->n_alphabet);
}

static void open_texts(target_rig *r, int32_t n)
{
    const pf_model_info target = { .model_id = "target", .vocab_size = V, .max_context = 4096, .max_draft = 4 };
    pf_error error = { 0 };
    assert_ok(pf_ngram_drafter_create(&target, MOST_TEXTS, MAX_DRAFT, (pf_stop){ .clock_ns = &r->now_ns }, &r->drafter,
                                      &error),
              error);
    r->n = r->n_rows = n;
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < 8; k++) r->prompts[i][k] = draw(r, i, k);
        r->opens[i] = open_of((uint64_t)i + 1, r->prompts[i], 8);
        r->opens[i].adaptive_draft = true;
        r->opens[i].max_draft = PF_NGRAM_ADAPTIVE_DRAFT;
        r->base[i] = 8;
    }
}

/* A round of all texts, of which no proposed token is accepted unless they have a period. How many tokens were proposed then. */
static int32_t take_round(target_rig *r, uint64_t round, bool accepts)
{
    static int32_t sent[MOST_TEXTS];
    pf_verdict verdicts[MOST_TEXTS];
    int32_t tokens[MOST_TEXTS][MAX_DRAFT + 1], n_proposed = 0;
    const uint64_t took_ns = r->verify_ns + (uint64_t)r->n_rows * r->row_ns;
    r->now_ns += took_ns;
    for (int32_t i = 0; i < r->n; i++) {
        const int32_t n = 1 + (accepts && round > 0 ? sent[i] : 0);
        for (int32_t k = 0; k < n; k++) tokens[i][k] = draw(r, i, r->base[i] + k);
        verdicts[i] = verdict_of(&r->opens[i], round, r->base[i], tokens[i], n);
        verdicts[i].n_accepted = n - 1;
        r->base[i] += n;
    }
    const pf_batch batch = { .opens = r->opens,
                             .n_opens = round == 0 ? r->n : 0,
                             .verdicts = verdicts,
                             .n_verdicts = r->n,
                             .timing.compute_ns = took_ns };
    const pf_batch *answer = near_peer_ask(r->drafter, batch);
    assert_non_null(answer);
    assert_int_equal(answer->n_proposals, r->n);
    for (int32_t i = 0; i < r->n; i++) {
        sent[answer->proposals[i].sequence - 1] = answer->proposals[i].n_tokens;
        n_proposed += answer->proposals[i].n_tokens;
    }
    r->n_rows = r->n + n_proposed;
    return n_proposed;
}

/* Tokens that were proposed in the second half of the rounds. */
static int32_t count_proposed(target_rig *r, int32_t n, bool accepts)
{
    int32_t n_proposed = 0;
    open_texts(r, n);
    for (int32_t i = 0; i < ROUNDS; i++) {
        const int32_t more = take_round(r, (uint64_t)i, accepts);
        if (i >= ROUNDS / 2) n_proposed += more;
    }
    return n_proposed;
}

static void a_length_that_is_chosen_pays_for_the_rows_of_all_sequences(void **state)
{
    (void)state;
    target_rig dear = { .verify_ns = 100000, .row_ns = 50000, .n_alphabet = 3 };
    assert_true(count_proposed(&dear, MOST_TEXTS, false) <= MOST_TEXTS * ROUNDS / 8); /* but now and then one */
    assert_true(pf_host_rests_until_ns(dear.drafter) > 0);
    pf_peer_destroy(dear.drafter);
    target_rig cheap = { .verify_ns = 100000, .row_ns = 10 };
    assert_true(count_proposed(&cheap, MOST_TEXTS, true) >= MOST_TEXTS * ROUNDS / 2 * PF_NGRAM_ADAPTIVE_DRAFT);
    assert_int_equal(pf_host_rests_until_ns(cheap.drafter), 0);
    pf_peer_destroy(cheap.drafter);
}

static void more_sequences_get_shorter_proposals(void **state)
{
    (void)state;
    target_rig alone = { .verify_ns = 400000, .row_ns = 20000, .n_alphabet = 2 };
    target_rig many = alone;
    const int32_t of_one = count_proposed(&alone, 1, false), of_all = count_proposed(&many, MOST_TEXTS, false);
    pf_peer_destroy(alone.drafter);
    pf_peer_destroy(many.drafter);
    if (of_all >= MOST_TEXTS * of_one) fail_msg("%d tokens of %d texts, %d of one", of_all, MOST_TEXTS, of_one);
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
        cmocka_unit_test(a_length_that_is_chosen_pays_for_the_rows_of_all_sequences),
        cmocka_unit_test(more_sequences_get_shorter_proposals),
        cmocka_unit_test(an_open_that_cannot_be_served_is_refused_by_name),
        cmocka_unit_test(an_unknown_sequence_is_asked_for),
        cmocka_unit_test(a_round_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
