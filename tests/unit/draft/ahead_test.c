/*
 * Drafting ahead: between a proposal and its verdict the drafter runs any number of passes for likely outcomes. What it proposes is
 * the same, bit for bit, as that of a drafter which does not, and everything that it took is given back.
 */
#include "draft/outcomes.h"
#include "host/sequence_host.h"
#include "tests/support/alloc_count.h"
#include "tests/support/chi_square.h"
#include "tests/support/drafter_bench.h"
#include "tests/support/draw.h"

enum { N_FORKS = 24, K = 4, MANY = 1000 };

static bench open_ahead_bench(int32_t max_sequences, uint64_t seed)
{
    return open_bench((pf_context_config){ .max_sequences = max_sequences, .max_forks = N_FORKS },
                      (pf_model_drafter_config){
                          .max_sequences = max_sequences, .max_draft = 8, .seed = seed, .no_prefix_cache = true });
}

/* At most n passes; how many there were. */
static int32_t work_ahead(const bench *b, int32_t n)
{
    int32_t i = 0;
    while (i < n && pf_peer_work_ahead(b->peer)) i++;
    return i;
}

/* The target of these tests: another model's distribution, or the draft's own. */
typedef struct {
    pf_tiny_side side;
    uint64_t noise;
} target;

static uint32_t next_noise(target *t)
{
    t->noise = t->noise * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(t->noise >> 33);
}

/* The rank-th most probable token behind text [n], by the draft. */
static int32_t likely_token(const target *t, const int32_t *text, int32_t n, int32_t rank)
{
    float p[V];
    pf_tiny_side_distribution(&t->side, &(pf_sampling){ .temperature = 1.0f, .top_p = 1.0f }, text, n, p);
    for (;; rank--) {
        int32_t best = 0;
        for (int32_t i = 1; i < V; i++)
            if (p[i] > p[best]) best = i;
        if (rank == 0) return best;
        p[best] = -1.0f;
    }
}

/* Accepts some of the proposal, then commits a likely token or any. Appends to the text; the verdict's tokens lie there. */
static pf_verdict decide(target *t, const pf_proposal *p, int32_t *text, int32_t *n_text)
{
    pf_verdict verdict = verdict_of(p->sequence, p->round, p->base, text + *n_text, 0);
    verdict.incarnation = p->incarnation;
    verdict.n_accepted = (int32_t)(next_noise(t) % (uint32_t)(p->n_tokens + 1));
    for (int32_t i = 0; i < verdict.n_accepted; i++) text[(*n_text)++] = p->tokens[i];
    const uint32_t kind = next_noise(t) % 8;
    int32_t token = kind == 0 ? (int32_t)(next_noise(t) % V) : likely_token(t, text, *n_text, kind >= 6);
    if (verdict.n_accepted < p->n_tokens && token == p->tokens[verdict.n_accepted])
        token = likely_token(t, text, *n_text, 2);
    text[(*n_text)++] = token;
    verdict.n_tokens = verdict.n_accepted + 1;
    return verdict;
}

static void assert_same_proposal(const pf_proposal *a, const pf_proposal *b)
{
    assert_drafted(a, b->round, b->base, b->tokens, b->n_tokens);
    assert_int_equal(a->declared != NULL, b->declared != NULL);
    for (int32_t i = 0; a->declared && i < a->n_tokens; i++) {
        const size_t n = (size_t)a->declared[i].n;
        assert_int_equal(a->declared[i].n, b->declared[i].n);
        assert_memory_equal(a->declared[i].ids, b->declared[i].ids, n * sizeof(int32_t));
        assert_memory_equal(a->declared[i].probabilities, b->declared[i].probabilities, n * sizeof(float));
    }
}

typedef struct {
    int32_t hits, misses, nones;
} findings;

static void count(findings *f, const pf_proposal *p)
{
    f->hits += p->ahead == PF_AHEAD_HIT;
    f->misses += p->ahead == PF_AHEAD_MISS;
    f->nones += p->ahead == PF_AHEAD_NONE;
}

/* Both drafters get the same verdicts; one works ahead for so many passes, below 0: any number. */
static findings play(pf_open open, int32_t n_passes, uint64_t noise)
{
    findings f = { 0 };
    bench plain = open_plain_bench(), ahead = open_ahead_bench(1, 1);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), noise };
    int32_t text[MAX_TOKENS + K + 2];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    int32_t n_text = N_PROMPT + 1;
    (void)work_ahead(&ahead, 1); /* from here on it knows that there is time for it */
    const pf_proposal *expected = begin_drafting(&plain, open, 77), *p = begin_drafting(&ahead, open, 77);
    while (n_text < MAX_TOKENS - K - 2) {
        assert_same_proposal(p, expected);
        pf_verdict verdict = decide(&t, p, text, &n_text);
        (void)work_ahead(&ahead, n_passes >= 0 ? n_passes : (int32_t)(next_noise(&t) % (K + 3)));
        assert_same_proposal(p, expected); /* it stays as it was */
        const pf_batch batch = { .verdicts = &verdict, .n_verdicts = 1 };
        expected = ask_proposal(&plain, batch);
        p = ask_proposal(&ahead, batch);
        count(&f, p);
    }
    pf_tiny_side_close(&t.side);
    close_bench(&plain);
    close_bench(&ahead);
    return f;
}

static findings play_often(pf_open open, int32_t n_passes)
{
    findings all = { 0 };
    for (uint64_t noise = 1; noise <= 6; noise++) {
        const findings f = play(open, n_passes, noise);
        all.hits += f.hits;
        all.misses += f.misses;
        all.nones += f.nones;
    }
    return all;
}

static pf_open open_of(pf_method method)
{
    pf_open open = near_peer_open(1);
    open.max_draft = K;
    open.method = method;
    if (method != PF_METHOD_GREEDY) open.sampling = (pf_sampling){ .temperature = 1.2f, .top_p = 0.95f, .seed = 9 };
    if (method == PF_METHOD_REJECTION) open.max_declared = 16;
    return open;
}

static void proposals_are_the_same_as_without_drafting_ahead(void **state)
{
    (void)state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_COUPLED, PF_METHOD_REJECTION };
    for (size_t i = 0; i < PF_COUNT(methods); i++) {
        const findings complete = play_often(open_of(methods[i]), MANY);
        assert_true(complete.hits >= 20);
        assert_true(complete.misses >= 10);
        const findings any = play_often(open_of(methods[i]), -1); /* also a verdict between two passes of a branch */
        assert_true(any.hits >= 10);
        const findings none = play_often(open_of(methods[i]), 0);
        assert_int_equal(none.hits + none.misses, 0);
    }
}

static void a_hit_is_answered_without_a_pass(void **state)
{
    (void)state;
    bench b = open_ahead_bench(1, 1);
    (void)work_ahead(&b, 1);
    const pf_proposal *p = begin_drafting(&b, open_of(PF_METHOD_GREEDY), 77);
    assert_int_equal(work_ahead(&b, MANY), K + 1); /* the bonus has its row in the first */
    assert_int_equal(work_ahead(&b, MANY), 0);
    int32_t text[N_PROMPT + 1 + K + 1];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    memcpy(text + N_PROMPT + 1, p->tokens, K * sizeof *text);
    pf_tiny_side side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 });
    pf_tiny_side_decode(&side, &GREEDY, text, N_PROMPT + 1 + K, 1, text + N_PROMPT + 1 + K);
    pf_tiny_side_close(&side);
    pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, text + N_PROMPT + 1, K + 1);
    verdict.n_accepted = K;
    const uint64_t before = pf_model_drafter_counts(b.peer).n_rows;
    p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(p->ahead, PF_AHEAD_HIT);
    assert_int_equal(p->n_tokens, K);
    assert_int_equal(pf_model_drafter_counts(b.peer).n_rows, before);
    close_bench(&b);
}

/* One stream, which knows every sequence by the drafter's number. */
static bool own(void *user, uint64_t sequence, void **stream, uint64_t *number)
{
    *stream = user;
    *number = sequence;
    return true;
}

/* The proposal of a plain drafter, which one that is sent on arrival must equal; NULL: it cannot be sent. */
static bool compare_sent(void *user, const pf_batch *batch)
{
    if (!user) return false;
    assert_int_equal(batch->n_proposals, 1);
    assert_int_equal(batch->proposals[0].ahead, PF_AHEAD_HIT);
    assert_same_proposal(&batch->proposals[0], user);
    return true;
}

/* What a server does with a verdict that arrives: whether it was answered at once. */
static bool arrive(const bench *b, pf_verdict *verdict, const pf_proposal *expected)
{
    pf_proposal copy = expected ? *expected : (pf_proposal){ 0 };
    pf_prepared_answers *prepared = pf_host_prepared(b->peer);
    const pf_batch batch = { .verdicts = verdict, .n_verdicts = 1 };
    assert_int_equal(pf_prepared_answer(prepared, &copy, &batch, compare_sent, &copy), 0); /* of another stream */
    pf_alloc_count_reset();
    const int32_t n = pf_prepared_answer(prepared, (const void *)b, &batch, compare_sent, expected ? &copy : NULL);
    assert_int_equal(pf_alloc_count(), 0);
    return n == 1;
}

/* Passes for a part of the time that the branches need, or for all; then the verdict arrives, and the drafter is given it later. */
static findings play_on_arrival(pf_open open, uint64_t noise, int32_t *n_sent)
{
    findings f = { 0 };
    bench plain = open_plain_bench(), ahead = open_ahead_bench(1, 1);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), noise };
    pf_prepared_answers *prepared = pf_host_prepared(ahead.peer);
    pf_prepared_listen(prepared, own, &ahead);
    int32_t text[MAX_TOKENS + K + 2];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    int32_t n_text = N_PROMPT + 1;
    (void)work_ahead(&ahead, 1);
    const pf_proposal *expected = begin_drafting(&plain, open, 77), *p = begin_drafting(&ahead, open, 77);
    while (n_text < MAX_TOKENS - K - 2) {
        assert_same_proposal(p, expected);
        pf_verdict verdict = decide(&t, p, text, &n_text);
        (void)work_ahead(&ahead, next_noise(&t) % 2 ? MANY : K);
        const pf_batch batch = { .verdicts = &verdict, .n_verdicts = 1 };
        expected = ask_proposal(&plain, batch);
        const bool is_sent = arrive(&ahead, &verdict, expected);
        *n_sent += is_sent;
        (void)work_ahead(&ahead, (int32_t)(next_noise(&t) % 2)); /* the pass that was running */
        assert_int_equal(pf_prepared_claim(prepared, verdict.sequence, verdict.round), is_sent);
        p = ask_proposal(&ahead, batch);
        if (is_sent) assert_int_equal(p->ahead, PF_AHEAD_HIT);
        count(&f, p);
    }
    pf_tiny_side_close(&t.side);
    close_bench(&plain);
    close_bench(&ahead);
    return f;
}

static void a_proposal_that_is_sent_on_arrival_is_the_one_that_the_drafter_makes(void **state)
{
    (void)state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_COUPLED, PF_METHOD_REJECTION };
    for (size_t i = 0; i < PF_COUNT(methods); i++) {
        int32_t n_sent = 0, n_hits = 0;
        for (uint64_t noise = 1; noise <= 4; noise++)
            n_hits += play_on_arrival(open_of(methods[i]), noise, &n_sent).hits;
        assert_true(n_sent >= 10);
        assert_true(n_hits >= n_sent);
    }
}

static void a_branch_that_is_not_complete_is_not_sent(void **state)
{
    (void)state;
    bench b = open_ahead_bench(1, 1);
    pf_prepared_listen(pf_host_prepared(b.peer), own, &b);
    (void)work_ahead(&b, 1);
    (void)begin_drafting(&b, open_of(PF_METHOD_GREEDY), 77);
    assert_int_equal(work_ahead(&b, K - 1), K - 1);
    assert_false(pf_prepared_any(pf_host_prepared(b.peer)));
    assert_int_equal(work_ahead(&b, 1), 1);
    assert_true(pf_prepared_any(pf_host_prepared(b.peer)));
    end_drafting(&b, 1);
    assert_false(pf_prepared_any(pf_host_prepared(b.peer)));
    close_bench(&b);
}

/* Chosen by a verdict that the drafter has not been given yet, while another sequence finds the cache full. */
static void a_full_cache_keeps_the_branch_that_was_sent(void **state)
{
    (void)state;
    enum { FORKS = 4 };
    bench plain = open_plain_bench();
    const pf_kv_config sizes = kv_config_of(open_plain_bench());
    bench b = open_bench((pf_context_config){ .max_sequences = 2,
                                              .max_forks = FORKS,
                                              .kv_budget_bytes = (1 + FORKS) * pf_kv_page_bytes(&sizes) },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 8, .no_prefix_cache = true });
    pf_prepared_answers *prepared = pf_host_prepared(b.peer);
    pf_prepared_listen(prepared, own, &b);
    (void)work_ahead(&b, 1);
    pf_open open = open_of(PF_METHOD_GREEDY);
    (void)begin_drafting(&plain, open, 77);
    const pf_proposal *p = begin_drafting(&b, open, 77);
    assert_true(work_ahead(&b, MANY) >= K);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 1 };
    int32_t text[N_PROMPT + 2];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    text[N_PROMPT + 1] = likely_token(&t, text, N_PROMPT + 1, 1);
    assert_int_not_equal(text[N_PROMPT + 1], p->tokens[0]);
    pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, text + N_PROMPT + 1, 1);
    const pf_batch batch = { .verdicts = &verdict, .n_verdicts = 1 };
    const pf_proposal *expected = ask_proposal(&plain, batch);
    assert_true(arrive(&b, &verdict, expected));
    open.sequence = 2;
    (void)begin_drafting(&b, open, 78);
    assert_true(pf_prepared_claim(prepared, 1, 1));
    const uint64_t before = pf_model_drafter_counts(b.peer).n_rows;
    p = ask_proposal(&b, batch);
    assert_int_equal(p->ahead, PF_AHEAD_HIT);
    assert_same_proposal(p, expected);
    assert_int_equal(pf_model_drafter_counts(b.peer).n_rows, before);
    pf_tiny_side_close(&t.side);
    close_bench(&plain);
    close_bench(&b);
}

static void fewer_tokens_than_were_drafted_ahead_are_proposed_where_fewer_are_wanted(void **state)
{
    (void)state;
    bench plain = open_plain_bench(), b = open_ahead_bench(1, 1);
    (void)work_ahead(&b, 1);
    (void)begin_drafting(&plain, open_of(PF_METHOD_GREEDY), 77);
    const pf_proposal *p = begin_drafting(&b, open_of(PF_METHOD_GREEDY), 77);
    (void)work_ahead(&b, MANY);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 1 };
    int32_t text[N_PROMPT + 2], n_accepted = 0;
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    text[N_PROMPT + 1] = likely_token(&t, text, N_PROMPT + 1, 1);
    assert_int_not_equal(text[N_PROMPT + 1], p->tokens[0]);
    pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, text + N_PROMPT + 1, 1);
    verdict.n_accepted = n_accepted;
    verdict.next_draft = 2;
    p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(p->ahead, PF_AHEAD_HIT);
    assert_int_equal(p->n_tokens, 2);
    assert_same_proposal(p, ask_proposal(&plain, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }));
    assert_true(work_ahead(&b, 1) == 1); /* for what follows the two */
    const int32_t any[] = { 3 };
    assert_same_proposal(commit(&b, 2, N_PROMPT + 2, any, 1), commit(&plain, 2, N_PROMPT + 2, any, 1));
    pf_tiny_side_close(&t.side);
    close_bench(&plain);
    close_bench(&b);
}

/* Of each kind: the committed texts go on, and the pages are free once all are closed. */
static void branches_give_their_pages_back(void **state)
{
    (void)state;
    bench b = open_ahead_bench(3, 1);
    const pf_kv *kv = pf_context_kv(b.side.context);
    const size_t n_free = pf_kv_free_pages(kv);
    (void)work_ahead(&b, 1);
    for (uint64_t sequence = 1; sequence <= 3; sequence++) {
        pf_open open = open_of(PF_METHOD_GREEDY);
        open.sequence = sequence;
        (void)begin_drafting(&b, open, 70 + (int32_t)sequence);
    }
    assert_true(work_ahead(&b, 3) == 3);
    end_drafting(&b, 1); /* closed while branches are drafted */
    pf_open open = open_of(PF_METHOD_GREEDY);
    open.sequence = 2;
    open.incarnation = 2;
    (void)begin_drafting(&b, open, 90); /* opened again */
    (void)work_ahead(&b, MANY);
    end_drafting(&b, 2);
    const int32_t token = 5;
    pf_verdict verdict = verdict_of(3, 1, N_PROMPT + 1, &token, 1);
    verdict.finish = PF_FINISH_LENGTH; /* ended by a verdict */
    assert_null(ask(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }));
    assert_int_equal(work_ahead(&b, MANY), 0);
    end_drafting(&b, 3);
    assert_int_equal(pf_kv_free_pages(kv), n_free);
    close_bench(&b);
}

/* A page for a sequence and for each of its branches: another sequence takes that of a branch. */
static void a_full_cache_takes_the_pages_of_branches(void **state)
{
    (void)state;
    enum { FORKS = 3 };
    bench plain = open_plain_bench();
    const pf_kv_config sizes = kv_config_of(open_plain_bench());
    bench b = open_bench((pf_context_config){ .max_sequences = 2,
                                              .max_forks = FORKS,
                                              .kv_budget_bytes = (1 + FORKS) * pf_kv_page_bytes(&sizes) },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 8, .no_prefix_cache = true });
    (void)work_ahead(&b, 1);
    pf_open open = open_of(PF_METHOD_GREEDY);
    (void)begin_drafting(&b, open, 77);
    assert_true(work_ahead(&b, MANY) >= K);
    assert_int_equal(pf_kv_free_pages(pf_context_kv(b.side.context)), 0);
    open.sequence = 2;
    assert_same_proposal(begin_drafting(&b, open, 78), begin_drafting(&plain, open, 78));
    close_bench(&plain);
    close_bench(&b);
}

static void nothing_is_drafted_ahead_while_a_proposal_is_due(void **state)
{
    (void)state;
    bench b = open_ahead_bench(2, 1);
    (void)work_ahead(&b, 1);
    (void)begin_drafting(&b, open_of(PF_METHOD_GREEDY), 77);
    pf_open open = open_of(PF_METHOD_GREEDY);
    open.sequence = 2;
    const int32_t token = 5;
    pf_verdict verdict = verdict_of(2, 0, N_PROMPT, &token, 1);
    const pf_batch batch = { .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 };
    assert_status(pf_peer_submit(b.peer, &batch), PF_OK);
    assert_false(pf_peer_work_ahead(b.peer));
    const pf_batch *answer;
    pf_error error = { 0 };
    assert_ok(pf_peer_collect(b.peer, UINT64_MAX, &answer, &error), error);
    assert_true(pf_peer_work_ahead(b.peer));
    close_bench(&b);
}

/* Sequences of all methods, whose branches share the passes. */
static void branches_of_many_sequences_share_the_passes(void **state)
{
    (void)state;
    enum { N = 4 };
    bench plain = open_plain_bench(), b = open_ahead_bench(N, 1);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 3 };
    (void)work_ahead(&b, 1);
    int32_t texts[N][MAX_TOKENS + K + 2], n_texts[N];
    pf_open opens[N];
    pf_verdict verdicts[N];
    findings f = { 0 };
    for (int32_t i = 0; i < N; i++) {
        opens[i] = open_of(i % 2 ? PF_METHOD_GREEDY : i == 0 ? PF_METHOD_REJECTION : PF_METHOD_COUPLED);
        opens[i].sequence = (uint64_t)i + 1;
        memcpy(texts[i], PROMPT, sizeof PROMPT);
        texts[i][N_PROMPT] = 70 + i;
        n_texts[i] = N_PROMPT + 1;
        verdicts[i] = verdict_of(opens[i].sequence, 0, N_PROMPT, &texts[i][N_PROMPT], 1);
    }
    pf_batch batch = { .opens = opens, .n_opens = N, .verdicts = verdicts, .n_verdicts = N };
    for (int32_t round = 0; round < 16; round++) {
        const pf_batch *expected = ask(&plain, batch), *answer = ask(&b, batch);
        assert_int_equal(answer->n_proposals, N);
        const uint64_t n_before = pf_model_drafter_counts(b.peer).n_rows;
        const int32_t n_passes = work_ahead(&b, MANY);
        assert_true(n_passes <= K + 1);
        assert_true(pf_model_drafter_counts(b.peer).n_rows > n_before + (uint64_t)n_passes);
        for (int32_t i = 0; i < N; i++) {
            assert_same_proposal(&answer->proposals[i], &expected->proposals[i]);
            count(&f, &answer->proposals[i]);
            verdicts[i] = decide(&t, &answer->proposals[i], texts[i], &n_texts[i]);
        }
        batch = (pf_batch){ .verdicts = verdicts, .n_verdicts = N };
    }
    assert_true(f.hits >= 8);
    pf_tiny_side_close(&t.side);
    close_bench(&plain);
    close_bench(&b);
}

static void a_round_with_drafting_ahead_allocates_nothing(void **state)
{
    (void)state;
    bench b = open_ahead_bench(1, 1);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 5 };
    (void)work_ahead(&b, 1);
    int32_t text[MAX_TOKENS + K + 2];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    int32_t n_text = N_PROMPT + 1;
    const pf_proposal *p = begin_drafting(&b, open_of(PF_METHOD_REJECTION), 77);
    (void)work_ahead(&b, MANY);
    while (n_text < MAX_TOKENS - K - 2) {
        pf_verdict verdict = decide(&t, p, text, &n_text);
        pf_alloc_count_reset();
        p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        (void)work_ahead(&b, MANY);
        assert_int_equal(pf_alloc_count(), 0);
    }
    pf_tiny_side_close(&t.side);
    close_bench(&b);
}

/* The first token of a branch, where the verdict chose it, is distributed as it is declared. */
static void a_hit_is_drawn_from_what_it_declares(void **state)
{
    (void)state;
    enum { N = 6, TRIALS = 12000 };
    bench b = open_ahead_bench(1, 7);
    (void)work_ahead(&b, 1);
    int64_t counts[N] = { 0 }, n_hits = 0;
    int32_t ids[N];
    double q[N];
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 5 };
    int32_t text[N_PROMPT + 2];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    const int32_t token = likely_token(&t, text, N_PROMPT + 1, 0);
    pf_tiny_side_close(&t.side);
    for (int32_t trial = 0; trial < TRIALS; trial++) {
        pf_open open = sampled_open(1, N);
        open.max_draft = 1;
        const pf_proposal *p = begin_drafting(&b, open, 77);
        const bool is_rejected = p->tokens[0] != token;
        (void)work_ahead(&b, 1);
        pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, &token, 1);
        p = is_rejected ? ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }) : NULL;
        if (p && p->ahead == PF_AHEAD_HIT) {
            for (int32_t j = 0; j < N; j++) {
                if (n_hits == 0) {
                    ids[j] = p->declared[0].ids[j];
                    q[j] = (double)p->declared[0].probabilities[j];
                }
                assert_int_equal(p->declared[0].ids[j], ids[j]);
                counts[j] += p->tokens[0] == ids[j];
            }
            n_hits++;
        }
        end_drafting(&b, 1);
    }
    assert_true(n_hits > TRIALS / 4);
    const double tail = pf_chi_square_test(counts, q, N, n_hits);
    if (tail < PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: not drawn from what is declared", tail);
    close_bench(&b);
}

/* Second choices and lengths of its own: the chain is the draft's greedy text all the same. */
static void an_adaptive_proposal_is_the_drafts_own_text(void **state)
{
    (void)state;
    bench b = open_ahead_bench(1, 1);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 11 };
    (void)work_ahead(&b, 1);
    findings f = { 0 };
    int32_t text[MAX_TOKENS + 16], chain[8];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    int32_t n_text = N_PROMPT + 1;
    pf_open open = open_of(PF_METHOD_GREEDY);
    open.max_draft = 8;
    open.adaptive_draft = open.trees = true;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    while (n_text < MAX_TOKENS - 12) {
        int32_t n_chain = 0;
        while (n_chain < p->n_tokens && (!p->parents || p->parents[n_chain] == n_chain - 1)) n_chain++;
        pf_tiny_side_decode(&t.side, &GREEDY, text, n_text, n_chain, chain);
        assert_memory_equal(p->tokens, chain, (size_t)n_chain * sizeof *chain);
        pf_proposal judged = *p;
        judged.n_tokens = n_chain;
        pf_verdict verdict = decide(&t, &judged, text, &n_text);
        (void)work_ahead(&b, (int32_t)(next_noise(&t) % 12));
        p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        count(&f, p);
    }
    assert_true(f.hits >= 3);
    pf_tiny_side_close(&t.side);
    close_bench(&b);
}

static void a_sequence_has_no_more_branches_than_it_may_have(void **state)
{
    (void)state;
    for (int32_t most = 1; most <= 4; most++) {
        bench b = open_bench((pf_context_config){ .max_sequences = 1, .max_forks = N_FORKS },
                             (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 8, .ahead_branches = most });
        (void)work_ahead(&b, 1);
        (void)begin_drafting(&b, open_of(PF_METHOD_GREEDY), 77);
        const uint64_t before = pf_model_drafter_counts(b.peer).n_rows;
        assert_int_equal(work_ahead(&b, 1), 1);
        assert_in_range(pf_model_drafter_counts(b.peer).n_rows - before, 1, most);
        close_bench(&b);
    }
}

/* By a clock of its own: a pass takes 1 ms, and the verdict comes after AWAY_MS. */
static void a_pass_that_a_verdict_would_wait_for_is_not_begun(void **state)
{
    (void)state;
    enum { MS = 1000 * 1000, ROUNDS = 6 };      /* fewer than the first block of a trial */
    static const int32_t away_ms[] = { 2, 50 }; /* two passes end before the verdict; all do */
    for (size_t i = 0; i < PF_COUNT(away_ms); i++) {
        uint64_t clock_ns = 1;
        bench b = open_bench((pf_context_config){ .max_sequences = 1, .max_forks = N_FORKS },
                             (pf_model_drafter_config){ .max_sequences = 1,
                                                        .max_draft = 8,
                                                        .ahead_if_it_pays = true,
                                                        .simulate_token_ns = MS,
                                                        .stop.clock_ns = &clock_ns });
        (void)work_ahead(&b, 1);
        target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 3 };
        int32_t text[MAX_TOKENS + K + 2], n_text = N_PROMPT + 1;
        memcpy(text, PROMPT, sizeof PROMPT);
        text[N_PROMPT] = 77;
        const pf_proposal *p = begin_drafting(&b, open_of(PF_METHOD_GREEDY), 77);
        for (int32_t round = 0; round < ROUNDS; round++) {
            const uint64_t due_ns = clock_ns + (uint64_t)away_ms[i] * MS;
            const int32_t n_passes = work_ahead(&b, MANY);
            if (round > 1) assert_in_range(n_passes, i == 0 ? 1 : K + 1, i == 0 ? 3 : K + 1);
            if (clock_ns < due_ns) clock_ns = due_ns;
            pf_verdict verdict = decide(&t, p, text, &n_text);
            p = ask_proposal(
                &b,
                (pf_batch){ .verdicts = &verdict, .n_verdicts = 1, .timing.compute_ns = (uint64_t)away_ms[i] * MS });
        }
        pf_tiny_side_close(&t.side);
        close_bench(&b);
    }
}

/* Rounds take longer by it, as on cores that the target needs. */
static void nothing_is_drafted_ahead_where_rounds_are_slower_by_it(void **state)
{
    (void)state;
    enum { MS = 1000 * 1000, ROUNDS = 60 };
    uint64_t clock_ns = 1;
    bench b =
        open_bench((pf_context_config){ .max_sequences = 1, .max_forks = N_FORKS },
                   (pf_model_drafter_config){
                       .max_sequences = 1, .max_draft = 8, .ahead_if_it_pays = true, .stop.clock_ns = &clock_ns });
    (void)work_ahead(&b, 1);
    target t = { pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ 0 }), 3 };
    int32_t text[MAX_TOKENS], n_text = N_PROMPT + 1, n_with = 0;
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    pf_open open = open_of(PF_METHOD_GREEDY);
    open.max_draft = 1;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    for (int32_t round = 0; round < ROUNDS; round++) {
        const bool has_worked = work_ahead(&b, MANY) > 0;
        n_with += has_worked;
        clock_ns += (has_worked ? UINT64_C(30) : UINT64_C(20)) * MS;
        pf_verdict verdict = decide(&t, p, text, &n_text);
        p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    }
    assert_in_range(n_with, 6, 30);
    assert_int_equal(work_ahead(&b, MANY), 0);
    pf_tiny_side_close(&t.side);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_same_as_without_drafting_ahead),
        cmocka_unit_test(a_proposal_that_is_sent_on_arrival_is_the_one_that_the_drafter_makes),
        cmocka_unit_test(a_branch_that_is_not_complete_is_not_sent),
        cmocka_unit_test(a_full_cache_keeps_the_branch_that_was_sent),
        cmocka_unit_test(a_hit_is_answered_without_a_pass),
        cmocka_unit_test(fewer_tokens_than_were_drafted_ahead_are_proposed_where_fewer_are_wanted),
        cmocka_unit_test(branches_give_their_pages_back),
        cmocka_unit_test(a_full_cache_takes_the_pages_of_branches),
        cmocka_unit_test(nothing_is_drafted_ahead_while_a_proposal_is_due),
        cmocka_unit_test(branches_of_many_sequences_share_the_passes),
        cmocka_unit_test(a_round_with_drafting_ahead_allocates_nothing),
        cmocka_unit_test(a_hit_is_drawn_from_what_it_declares),
        cmocka_unit_test(an_adaptive_proposal_is_the_drafts_own_text),
        cmocka_unit_test(a_sequence_has_no_more_branches_than_it_may_have),
        cmocka_unit_test(a_pass_that_a_verdict_would_wait_for_is_not_begun),
        cmocka_unit_test(nothing_is_drafted_ahead_where_rounds_are_slower_by_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
