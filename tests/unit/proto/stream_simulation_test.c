/*
 * Both sides of a stream in a simulated network that loses, repeats and reorders messages, and in which either side's
 * memory can vanish: whatever happens, the text is the one that the target would write.
 */
#include <stdbool.h>

#include "proto/stream.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { PROMPT = 5, N_SEQ = 3, N_TOKENS = 60, N_WIRE = 256, K = 4, MAX_STEPS = 200000 };

/* The text that the target would write: every token follows from sequence and position alone. */
static int32_t reference(uint64_t sequence, int32_t position)
{
    uint64_t rng = sequence * 1000003u + (uint64_t)position;
    return (int32_t)(draw(&rng) % 5);
}

typedef enum { SAY_OPEN, SAY_VERDICT, SAY_PROPOSAL, SAY_PREFIX, SAY_CLOSE } saying_kind;

typedef struct {
    saying_kind kind;
    bool to_owner;
    pf_open open;
    pf_verdict verdict;
    pf_proposal proposal;
    pf_prefix_request prefix;
    int32_t tokens[N_TOKENS + PROMPT + 8];
} saying;

typedef struct {
    uint64_t rng;
    bool faulty;
    saying wire[N_WIRE];
    int n_wire;
    long n_current, n_stale, n_missing, n_reopened;
} world;

static bool chance(world *w, unsigned percent)
{
    return w->faulty && draw(&w->rng) % 100 < percent;
}

static void put_on_wire(world *w, const saying *s)
{
    if (chance(w, 15)) return; /* lost */
    if (w->n_wire == N_WIRE) return;
    w->wire[w->n_wire++] = *s;
    if (chance(w, 15) && w->n_wire < N_WIRE) w->wire[w->n_wire++] = *s; /* repeated */
}

static bool take_from_wire(world *w, saying *out)
{
    if (w->n_wire == 0) return false;
    const int at = chance(w, 40) ? (int)(draw(&w->rng) % (uint64_t)w->n_wire) : 0; /* reordered */
    *out = w->wire[at];
    memmove(&w->wire[at], &w->wire[at + 1], (size_t)(w->n_wire - at - 1) * sizeof w->wire[0]);
    w->n_wire--;
    return true;
}

typedef struct {
    int32_t tokens[N_TOKENS + PROMPT + 16];
    int32_t n;
} text;

/* The drafting worker: what it believes to be committed, by slot. */
typedef struct {
    pf_stream_answerer *stream;
    text known[N_SEQ];
} worker;

static void start_worker(worker *k)
{
    pf_stream_answerer_destroy(k->stream);
    assert_int_equal(pf_stream_answerer_create(N_SEQ, &k->stream), PF_OK);
}

static void worker_hears(world *w, worker *k, saying *s)
{
    int32_t slot;
    saying reply = { .to_owner = true };
    if (s->kind == SAY_CLOSE) {
        (void)pf_stream_answerer_on_close(k->stream, &(pf_close){ s->open.sequence }, &slot);
    } else if (s->kind == SAY_OPEN) {
        if (pf_stream_answerer_on_open(k->stream, &s->open, &slot) != PF_FENCE_CURRENT) return;
        memcpy(k->known[slot].tokens, s->tokens, (size_t)s->open.n_tokens * sizeof *s->tokens);
        k->known[slot].n = s->open.n_tokens;
    } else {
        const pf_fence fence = pf_stream_answerer_on_verdict(k->stream, &s->verdict, &slot, &reply.prefix);
        w->n_stale += fence == PF_FENCE_STALE;
        if (fence == PF_FENCE_MISSING) {
            w->n_missing++;
            reply.kind = SAY_PREFIX;
            put_on_wire(w, &reply);
        }
        if (fence != PF_FENCE_CURRENT) return;
        text *t = &k->known[slot];
        memcpy(t->tokens + t->n, s->tokens, (size_t)s->verdict.n_tokens * sizeof *s->tokens);
        t->n += s->verdict.n_tokens;
        reply.kind = SAY_PROPOSAL;
        pf_stream_answerer_propose(k->stream, slot, &reply.proposal);
        assert_int_equal(t->n, reply.proposal.base);
        reply.proposal.n_tokens = K;
        /* The proof of what it stands on: the whole text that it believes in, then guesses, some of them wrong. */
        memcpy(reply.tokens, t->tokens, (size_t)t->n * sizeof *t->tokens);
        for (int32_t i = 0; i < K && t->n + i < N_TOKENS + PROMPT; i++)
            reply.tokens[t->n + i] = draw(&w->rng) % 4 ? reference(reply.proposal.sequence, t->n + i) : -1;
        put_on_wire(w, &reply);
    }
}

/* The engine: commits what the reference says, as far as a current proposal agrees, and one more. */
typedef struct {
    pf_stream_owner *stream;
    text committed[N_SEQ];
    bool has_proposal[N_SEQ];
    saying proposal[N_SEQ];
} engine;

static void engine_hears(world *w, engine *e, const saying *s)
{
    if (s->kind == SAY_PREFIX) {
        (void)pf_stream_owner_on_prefix_request(e->stream, &s->prefix);
        return;
    }
    const uint64_t sequence = s->proposal.sequence;
    const pf_fence fence = pf_stream_owner_on_proposal(e->stream, &s->proposal);
    assert_int_not_equal(fence, PF_FENCE_PROTOCOL_VIOLATION); /* this worker is honest */
    if (fence != PF_FENCE_CURRENT) return;
    const text *t = &e->committed[sequence];
    assert_int_equal(s->proposal.base, t->n);
    assert_memory_equal(s->tokens, t->tokens, (size_t)t->n * sizeof *t->tokens); /* it stands on the true text */
    e->has_proposal[sequence] = true;
    e->proposal[sequence] = *s;
    w->n_current++;
}

static void engine_round(world *w, engine *e, uint64_t sequence)
{
    text *t = &e->committed[sequence];
    if (pf_stream_owner_due(e->stream, sequence)) {
        saying open = { .kind = SAY_OPEN };
        assert_int_equal(pf_stream_owner_open(e->stream, sequence, &open.open, &open.open.n_tokens), PF_OK);
        assert_int_equal(open.open.n_tokens, t->n);
        memcpy(open.tokens, t->tokens, (size_t)t->n * sizeof *t->tokens);
        w->n_reopened += open.open.incarnation > 1;
        put_on_wire(w, &open);
    }
    int32_t n = 0;
    const saying *p = &e->proposal[sequence];
    while (e->has_proposal[sequence] && n < K && p->tokens[t->n + n] == reference(sequence, t->n + n)) n++;
    n++;
    saying verdict = { .kind = SAY_VERDICT };
    for (int32_t i = 0; i < n; i++) verdict.tokens[i] = reference(sequence, t->n + i);
    assert_int_equal(pf_stream_owner_commit(e->stream, sequence, n, &verdict.verdict), PF_OK);
    assert_int_equal(verdict.verdict.base, t->n);
    verdict.verdict.n_tokens = n;
    memcpy(t->tokens + t->n, verdict.tokens, (size_t)n * sizeof *t->tokens);
    t->n += n;
    e->has_proposal[sequence] = false;
    put_on_wire(w, &verdict);
}

static void assert_reference(uint64_t seed, const text committed[N_SEQ])
{
    for (uint64_t s = 0; s < N_SEQ; s++)
        for (int32_t i = 0; i < committed[s].n; i++)
            if (committed[s].tokens[i] != reference(s, i))
                fail_msg("seed %llu: sequence %llu differs at %d", (unsigned long long)seed, (unsigned long long)s, i);
}

/* Many runs must have been through all of it, and speculation must have survived. */
static void check_with_faults(world (*run)(uint64_t seed, bool faults))
{
    long n_current = 0, n_stale = 0, n_missing = 0, n_reopened = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        const world w = run(seed, true);
        n_current += w.n_current;
        n_stale += w.n_stale;
        n_missing += w.n_missing;
        n_reopened += w.n_reopened;
    }
    assert_true(n_current > 300 && n_stale > 300 && n_missing > 300 && n_reopened > 300);
}

static world run_drafter(uint64_t seed, bool faulty)
{
    world w = { .rng = seed, .faulty = faulty };
    worker k = { .stream = NULL };
    engine e = { .stream = NULL };
    start_worker(&k);
    assert_int_equal(pf_stream_owner_create(N_SEQ, &e.stream), PF_OK);
    for (uint64_t s = 0; s < N_SEQ; s++) {
        for (int32_t i = 0; i < PROMPT; i++) e.committed[s].tokens[i] = reference(s, i);
        e.committed[s].n = PROMPT;
        assert_int_equal(pf_stream_owner_begin(e.stream, s, PROMPT), PF_OK);
    }
    bool done = false;
    for (int step = 0; !done; step++) {
        if (step == MAX_STEPS) fail_msg("seed %llu: the run does not end", (unsigned long long)seed);
        if (chance(&w, 1)) start_worker(&k); /* it was killed and restarted */
        if (chance(&w, 1)) {                 /* the stream broke */
            w.n_wire = 0;
            pf_stream_owner_lost(e.stream);
        }
        saying s;
        if (draw(&w.rng) % 2 && take_from_wire(&w, &s)) {
            if (s.to_owner)
                engine_hears(&w, &e, &s);
            else
                worker_hears(&w, &k, &s);
            continue;
        }
        const uint64_t sequence = draw(&w.rng) % N_SEQ;
        /* Wait for a proposal while something is under way, but not for ever: the wire may have eaten it. */
        if (!e.has_proposal[sequence] && w.n_wire && draw(&w.rng) % 8) continue;
        if (e.committed[sequence].n < N_TOKENS) engine_round(&w, &e, sequence);
        done = true;
        for (uint64_t i = 0; i < N_SEQ; i++) done &= e.committed[i].n >= N_TOKENS;
    }
    assert_reference(seed, e.committed);
    pf_stream_owner_destroy(e.stream);
    pf_stream_answerer_destroy(k.stream);
    return w;
}

static void proposals_continue_the_committed_text_under_any_faults_of_the_wire(void **state)
{
    (void)state;
    check_with_faults(run_drafter);
}

static void without_faults_nothing_is_reopened_or_missing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const world w = run_drafter(seed, false);
        assert_int_equal(w.n_missing, 0);
        assert_int_equal(w.n_reopened, 0);
        assert_true(w.n_current > N_SEQ * 8);
    }
}

/* The other way round: the target answers, and decides. */
typedef struct {
    pf_stream_answerer *stream;
    text committed[N_SEQ];
} target;

static void target_commits(world *w, target *g, int32_t slot, uint64_t sequence, const saying *proposal)
{
    text *t = &g->committed[slot];
    saying reply = { .kind = SAY_VERDICT, .to_owner = true };
    int32_t n = 0;
    if (proposal)
        while (n < proposal->proposal.n_tokens && proposal->tokens[n] == reference(sequence, t->n + n)) n++;
    reply.verdict.n_accepted = n++;
    pf_stream_answerer_commit(g->stream, slot, n, &reply.verdict);
    assert_int_equal(reply.verdict.base, t->n);
    for (int32_t i = 0; i < n; i++) t->tokens[t->n + i] = reply.tokens[i] = reference(sequence, t->n + i);
    t->n += n;
    reply.verdict.n_tokens = n;
    put_on_wire(w, &reply);
}

static void target_hears(world *w, target *g, const saying *s)
{
    int32_t slot;
    if (s->kind == SAY_OPEN) {
        if (pf_stream_answerer_on_open(g->stream, &s->open, &slot) != PF_FENCE_CURRENT) return;
        memcpy(g->committed[slot].tokens, s->tokens, (size_t)s->open.n_tokens * sizeof *s->tokens);
        g->committed[slot].n = s->open.n_tokens;
        target_commits(w, g, slot, s->open.sequence, NULL);
        return;
    }
    saying reply = { .kind = SAY_PREFIX, .to_owner = true };
    const pf_fence fence = pf_stream_answerer_on_proposal(g->stream, &s->proposal, &slot, &reply.prefix);
    if (fence == PF_FENCE_MISSING) put_on_wire(w, &reply);
    w->n_missing += fence == PF_FENCE_MISSING;
    w->n_stale += fence == PF_FENCE_STALE;
    if (fence == PF_FENCE_CURRENT) target_commits(w, g, slot, s->proposal.sequence, s);
}

static void proposer_speaks(world *w, engine *e, uint64_t sequence)
{
    text *t = &e->committed[sequence];
    saying s = { .kind = SAY_OPEN };
    if (pf_stream_owner_due(e->stream, sequence)) {
        assert_int_equal(pf_stream_owner_open(e->stream, sequence, &s.open, &s.open.n_tokens), PF_OK);
        assert_int_equal(s.open.n_tokens, t->n);
        memcpy(s.tokens, t->tokens, (size_t)t->n * sizeof *t->tokens);
        w->n_reopened += s.open.incarnation > 1;
    } else {
        s.kind = SAY_PROPOSAL;
        assert_int_equal(pf_stream_owner_propose(e->stream, sequence, K, &s.proposal), PF_OK);
        s.proposal.n_tokens = K;
        for (int32_t i = 0; i < K; i++) s.tokens[i] = draw(&w->rng) % 4 ? reference(sequence, t->n + i) : -1;
    }
    put_on_wire(w, &s);
}

static void proposer_hears(world *w, engine *e, const saying *s, bool *answered)
{
    if (s->kind == SAY_PREFIX) {
        if (pf_stream_owner_on_prefix_request(e->stream, &s->prefix) == PF_FENCE_CURRENT)
            answered[s->prefix.sequence] = true;
        return;
    }
    const pf_fence fence = pf_stream_owner_on_verdict(e->stream, &s->verdict);
    assert_int_not_equal(fence, PF_FENCE_PROTOCOL_VIOLATION);
    if (fence != PF_FENCE_CURRENT) return;
    text *t = &e->committed[s->verdict.sequence];
    memcpy(t->tokens + t->n, s->tokens, (size_t)s->verdict.n_tokens * sizeof *s->tokens);
    t->n += s->verdict.n_tokens;
    answered[s->verdict.sequence] = true;
    w->n_current++;
}

static world run_verifier(uint64_t seed, bool faulty)
{
    world w = { .rng = seed, .faulty = faulty };
    target g = { .stream = NULL };
    engine e = { .stream = NULL };
    bool answered[N_SEQ];
    int waited[N_SEQ] = { 0 };
    assert_int_equal(pf_stream_answerer_create(N_SEQ, &g.stream), PF_OK);
    assert_int_equal(pf_stream_owner_create(N_SEQ, &e.stream), PF_OK);
    for (uint64_t s = 0; s < N_SEQ; s++) {
        for (int32_t i = 0; i < PROMPT; i++) e.committed[s].tokens[i] = reference(s, i);
        e.committed[s].n = PROMPT;
        answered[s] = true;
        assert_int_equal(pf_stream_owner_begin(e.stream, s, PROMPT), PF_OK);
    }
    bool done = false;
    for (int step = 0; !done; step++) {
        if (step == MAX_STEPS) fail_msg("seed %llu: the run does not end", (unsigned long long)seed);
        if (chance(&w, 1)) {
            pf_stream_answerer_destroy(g.stream);
            assert_int_equal(pf_stream_answerer_create(N_SEQ, &g.stream), PF_OK);
        }
        saying s;
        if (take_from_wire(&w, &s)) {
            if (s.to_owner)
                proposer_hears(&w, &e, &s, answered);
            else
                target_hears(&w, &g, &s);
        }
        done = true;
        for (uint64_t i = 0; i < N_SEQ; i++) {
            if (e.committed[i].n >= N_TOKENS) continue;
            done = false;
            if (!answered[i] && ++waited[i] > 60) { /* an answer that had to come has not */
                assert_int_equal(pf_stream_owner_give_up(e.stream, i), PF_OK);
                answered[i] = true;
            }
            if (!answered[i]) continue;
            answered[i] = false;
            waited[i] = 0;
            proposer_speaks(&w, &e, i);
        }
    }
    assert_reference(seed, e.committed);
    pf_stream_owner_destroy(e.stream);
    pf_stream_answerer_destroy(g.stream);
    return w;
}

static void the_text_equals_the_reference_under_any_faults_of_the_wire(void **state)
{
    (void)state;
    check_with_faults(run_verifier);
    const world calm = run_verifier(1, false);
    assert_int_equal(calm.n_missing + calm.n_reopened + calm.n_stale, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_continue_the_committed_text_under_any_faults_of_the_wire),
        cmocka_unit_test(without_faults_nothing_is_reopened_or_missing),
        cmocka_unit_test(the_text_equals_the_reference_under_any_faults_of_the_wire),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
