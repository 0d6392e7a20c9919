/*
 * The state machine of a stream: its claims one by one, then both sides in a simulated network that loses, repeats
 * and reorders messages, and in which either side's memory can vanish.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "proto/idmap.h"
#include "proto/stream.h"
#include "tests/support/test.h"

enum { SEQ = 7, PROMPT = 5 };

/* ---- the answering side ------------------------------------------------------------------------------------------ */

static pf_stream_answerer *answerer_with(uint32_t incarnation, uint64_t round, int32_t committed)
{
    pf_stream_answerer *a;
    assert_int_equal(pf_stream_answerer_create(2, &a), PF_OK);
    int32_t slot;
    const pf_open open = { .sequence = SEQ, .incarnation = incarnation, .next_round = round, .n_tokens = committed };
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_CURRENT);
    return a;
}

/* As the proposal that comes next says. */
static int32_t committed_length(const pf_stream_answerer *a)
{
    pf_proposal p = { 0 };
    pf_stream_answerer_propose(a, 0, &p);
    return p.base;
}

static pf_fence hear_verdict(pf_stream_answerer *a, uint32_t incarnation, uint64_t round, int32_t base, int32_t n,
                             pf_prefix_request *request)
{
    int32_t slot;
    const pf_verdict v = { .sequence = SEQ, .incarnation = incarnation, .round = round, .base = base, .n_tokens = n };
    return pf_stream_answerer_on_verdict(a, &v, &slot, request);
}

static void a_verdict_moves_the_committed_length_and_the_proposal_continues_it(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(1, 0, PROMPT);
    pf_prefix_request request;
    assert_int_equal(hear_verdict(a, 1, 0, PROMPT, 1, &request), PF_FENCE_CURRENT);
    assert_int_equal(hear_verdict(a, 1, 1, PROMPT + 1, 3, &request), PF_FENCE_CURRENT);
    pf_proposal p = { 0 };
    pf_stream_answerer_propose(a, 0, &p);
    assert_int_equal(p.sequence, SEQ);
    assert_int_equal(p.incarnation, 1);
    assert_int_equal(p.round, 2);
    assert_int_equal(p.base, PROMPT + 4);
    pf_stream_answerer_destroy(a);
}

static void late_and_repeated_verdicts_are_stale(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(3, 4, 20);
    pf_prefix_request request;
    assert_int_equal(hear_verdict(a, 3, 4, 20, 2, &request), PF_FENCE_CURRENT);
    assert_int_equal(hear_verdict(a, 3, 4, 20, 2, &request), PF_FENCE_STALE);
    assert_int_equal(hear_verdict(a, 3, 3, 18, 2, &request), PF_FENCE_STALE);
    assert_int_equal(hear_verdict(a, 2, 5, 22, 2, &request), PF_FENCE_STALE);
    assert_int_equal(committed_length(a), 22);
    pf_stream_answerer_destroy(a);
}

static void what_is_ahead_asks_for_the_prefix(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(1, 0, PROMPT);
    pf_prefix_request r = { 0 };
    assert_int_equal(hear_verdict(a, 1, 1, PROMPT + 1, 1, &r), PF_FENCE_MISSING); /* a round is missing */
    assert_int_equal(r.sequence, SEQ);
    assert_int_equal(r.incarnation, 1);
    assert_int_equal(r.known, PROMPT);
    assert_int_equal(hear_verdict(a, 2, 0, PROMPT, 1, &r), PF_FENCE_MISSING); /* an open is missing */
    assert_int_equal(r.incarnation, 2);
    assert_int_equal(r.known, 0);
    assert_int_equal(hear_verdict(a, 1, 0, PROMPT + 1, 1, &r), PF_FENCE_MISSING); /* the lengths disagree */

    int32_t slot = 99;
    const pf_verdict unknown = { .sequence = 8, .incarnation = 1, .round = 3, .base = 9, .n_tokens = 1 };
    assert_int_equal(pf_stream_answerer_on_verdict(a, &unknown, &slot, &r), PF_FENCE_MISSING);
    assert_int_equal(r.sequence, 8);
    assert_int_equal(r.known, 0);
    assert_int_equal(slot, -1);
    pf_stream_answerer_destroy(a);
}

static void a_reopening_needs_a_higher_incarnation(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(2, 0, PROMPT);
    pf_open open = { .sequence = SEQ, .incarnation = 2, .next_round = 9, .n_tokens = 50 };
    int32_t slot;
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_STALE);
    open.incarnation = 1;
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_STALE);
    assert_int_equal(committed_length(a), PROMPT);
    open.incarnation = 3;
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_CURRENT);
    assert_int_equal(slot, 0);
    assert_int_equal(committed_length(a), 50);
    pf_prefix_request request;
    assert_int_equal(hear_verdict(a, 3, 9, 50, 1, &request), PF_FENCE_CURRENT);
    pf_stream_answerer_destroy(a);
}

static void a_full_table_says_so_and_a_close_makes_room(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(1, 0, PROMPT);
    pf_open open = { .sequence = 8, .incarnation = 1, .n_tokens = 1 };
    int32_t slot;
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_CURRENT);
    open.sequence = 9;
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_FULL);
    assert_int_equal(slot, -1);
    assert_int_equal(pf_stream_answerer_on_close(a, &(pf_close){ .sequence = 4 }, &slot), PF_FENCE_STALE);
    assert_int_equal(pf_stream_answerer_on_close(a, &(pf_close){ .sequence = SEQ }, &slot), PF_FENCE_CURRENT);
    assert_int_equal(slot, 0);
    assert_int_equal(pf_stream_answerer_on_open(a, &open, &slot), PF_FENCE_CURRENT);
    assert_int_equal(slot, 0);
    pf_stream_answerer_destroy(a);
}

static void a_proposal_is_judged_once(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(1, 0, PROMPT);
    pf_verdict v;
    pf_stream_answerer_commit(a, 0, 1, &v);
    assert_int_equal(v.round, 0);
    assert_int_equal(v.base, PROMPT);
    pf_proposal p = { .sequence = SEQ, .incarnation = 1, .round = 1, .base = PROMPT + 1, .n_tokens = 4 };
    int32_t slot;
    pf_prefix_request request;
    assert_int_equal(pf_stream_answerer_on_proposal(a, &p, &slot, &request), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_answerer_on_proposal(a, &p, &slot, &request), PF_FENCE_STALE);
    pf_stream_answerer_commit(a, slot, 5, &v);
    assert_int_equal(v.round, 1);
    assert_int_equal(pf_stream_answerer_on_proposal(a, &p, &slot, &request), PF_FENCE_STALE);
    p.round = 3;
    assert_int_equal(pf_stream_answerer_on_proposal(a, &p, &slot, &request), PF_FENCE_MISSING);
    assert_int_equal(request.known, PROMPT + 6);
    pf_stream_answerer_destroy(a);
}

static void a_length_that_would_overflow_is_dropped(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(1, 0, INT32_MAX - 3);
    pf_prefix_request request;
    assert_int_equal(hear_verdict(a, 1, 0, INT32_MAX - 3, 4, &request), PF_FENCE_STALE);
    assert_int_equal(hear_verdict(a, 1, 0, INT32_MAX - 3, -1, &request), PF_FENCE_STALE);
    pf_stream_answerer_destroy(a);
}

/* ---- the owner's side -------------------------------------------------------------------------------------------- */

static pf_stream_owner *owner_opened(void)
{
    pf_stream_owner *o;
    assert_int_equal(pf_stream_owner_create(2, &o), PF_OK);
    assert_int_equal(pf_stream_owner_begin(o, SEQ, PROMPT), PF_OK);
    assert_true(pf_stream_owner_due(o, SEQ));
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    assert_int_equal(open.incarnation, 1);
    assert_int_equal(open.next_round, 0);
    assert_int_equal(n, PROMPT);
    assert_false(pf_stream_owner_due(o, SEQ));
    return o;
}

static void a_proposal_is_current_once_and_only_for_its_round(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_verdict v;
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 1, &v), PF_OK);
    assert_int_equal(v.round, 0);
    assert_int_equal(v.base, PROMPT);
    pf_proposal p = { .sequence = SEQ, .incarnation = 1, .round = 1, .base = PROMPT + 1, .n_tokens = 2 };
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_STALE);
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 3, &v), PF_OK);
    assert_int_equal(v.base, PROMPT + 1);
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_STALE);
    p.round = 2;
    p.base = PROMPT + 1;
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_NONSENSE);
    p.round = 5;
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_NONSENSE);
    p.incarnation = 2;
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_NONSENSE);
    pf_stream_owner_end(o, SEQ);
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_STALE);
    pf_stream_owner_destroy(o);
}

static void a_prefix_request_reopens_once(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_verdict v;
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 1, &v), PF_OK);
    const pf_prefix_request r = { .sequence = SEQ, .incarnation = 1 };
    assert_int_equal(pf_stream_owner_on_prefix_request(o, &r), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_owner_on_prefix_request(o, &r), PF_FENCE_STALE);
    assert_true(pf_stream_owner_due(o, SEQ));
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    assert_int_equal(open.incarnation, 2);
    assert_int_equal(open.next_round, 1);
    assert_int_equal(n, PROMPT + 1);
    assert_int_equal(pf_stream_owner_on_prefix_request(o, &r), PF_FENCE_STALE);
    pf_stream_owner_lost(o);
    assert_true(pf_stream_owner_due(o, SEQ));
    pf_stream_owner_destroy(o);
}

static void a_verdict_cannot_accept_more_than_was_proposed(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_verdict v = { .sequence = SEQ, .incarnation = 1, .round = 0, .base = PROMPT, .n_tokens = 1 };
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_CURRENT);
    pf_proposal p;
    assert_int_equal(pf_stream_owner_propose(o, SEQ, 2, &p), PF_OK);
    assert_int_equal(p.round, 1);
    assert_int_equal(p.base, PROMPT + 1);
    v = (pf_verdict){ .sequence = SEQ, .incarnation = 1, .round = 1, .base = PROMPT + 1 };
    const struct {
        int32_t n_tokens, n_accepted, base;
    } wrong[] = { { 4, 2, PROMPT + 1 },  { 3, 3, PROMPT + 1 }, { 0, 0, PROMPT + 1 },
                  { 1, -1, PROMPT + 1 }, { 1, 2, PROMPT + 1 }, { 3, 2, PROMPT } };
    for (size_t i = 0; i < PF_COUNT(wrong); i++) {
        v.n_tokens = wrong[i].n_tokens;
        v.n_accepted = wrong[i].n_accepted;
        v.base = wrong[i].base;
        if (pf_stream_owner_on_verdict(o, &v) != PF_FENCE_NONSENSE) fail_msg("case %zu passes for sense", i);
    }
    v.n_tokens = 3;
    v.n_accepted = 2;
    v.base = PROMPT + 1;
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_STALE);
    pf_stream_owner_destroy(o);
}

static void ids_in_use_and_full_tables_are_refused(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    assert_int_equal(pf_stream_owner_begin(o, SEQ, 1), PF_INVALID);
    assert_int_equal(pf_stream_owner_begin(o, 8, -1), PF_INVALID);
    assert_int_equal(pf_stream_owner_begin(o, 8, 1), PF_OK);
    assert_int_equal(pf_stream_owner_begin(o, 9, 1), PF_LIMIT);
    pf_stream_owner_end(o, SEQ);
    assert_int_equal(pf_stream_owner_begin(o, 9, 1), PF_OK);
    pf_proposal p;
    assert_int_equal(pf_stream_owner_propose(o, 9, 1, &p), PF_INVALID); /* not opened yet */
    pf_stream_owner_destroy(o);
}

/* ---- the map underneath ------------------------------------------------------------------------------------------ */

static uint64_t draw(uint64_t *rng) /* splitmix64 */
{
    uint64_t z = (*rng += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void a_map_agrees_with_a_list_after_any_inserts_and_removals(void **state)
{
    (void)state;
    enum { MAX = 37, IDS = 60 };
    pf_idmap *map;
    assert_int_equal(pf_idmap_create(MAX, &map), PF_OK);
    int32_t slot_of[IDS];
    for (int i = 0; i < IDS; i++) slot_of[i] = -1;
    uint64_t rng = 3;
    for (int step = 0; step < 20000; step++) {
        const uint64_t id = draw(&rng) % IDS;
        const int32_t slot = pf_idmap_find(map, id % 3, id);
        assert_int_equal(slot, slot_of[id]);
        if (slot >= 0) {
            assert_int_equal(pf_idmap_remove(map, id % 3, id), slot);
            slot_of[id] = -1;
        } else if (pf_idmap_count(map) == MAX) {
            assert_int_equal(pf_idmap_insert(map, id % 3, id), -1);
        } else {
            slot_of[id] = pf_idmap_insert(map, id % 3, id);
            assert_in_range(slot_of[id], 0, MAX - 1);
            for (uint64_t other = 0; other < IDS; other++)
                if (other != id) assert_int_not_equal(slot_of[other], slot_of[id]);
        }
    }
    pf_idmap_destroy(map);
    assert_int_equal(pf_idmap_create(0, &map), PF_INVALID);
}

/* ---- the simulator ----------------------------------------------------------------------------------------------- */

enum { N_SEQ = 3, N_TOKENS = 60, N_WIRE = 256, K = 4, MAX_STEPS = 200000 };

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
    assert_int_not_equal(fence, PF_FENCE_NONSENSE); /* this worker is honest */
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

static void a_drafters_proposals_stand_on_the_committed_text_whatever_the_wire_does(void **state)
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
    assert_int_not_equal(fence, PF_FENCE_NONSENSE);
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

static void a_verifiers_text_is_the_references_whatever_the_wire_does(void **state)
{
    (void)state;
    check_with_faults(run_verifier);
    const world calm = run_verifier(1, false);
    assert_int_equal(calm.n_missing + calm.n_reopened + calm.n_stale, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_moves_the_committed_length_and_the_proposal_continues_it),
        cmocka_unit_test(late_and_repeated_verdicts_are_stale),
        cmocka_unit_test(what_is_ahead_asks_for_the_prefix),
        cmocka_unit_test(a_reopening_needs_a_higher_incarnation),
        cmocka_unit_test(a_full_table_says_so_and_a_close_makes_room),
        cmocka_unit_test(a_proposal_is_judged_once),
        cmocka_unit_test(a_length_that_would_overflow_is_dropped),
        cmocka_unit_test(a_proposal_is_current_once_and_only_for_its_round),
        cmocka_unit_test(a_prefix_request_reopens_once),
        cmocka_unit_test(a_verdict_cannot_accept_more_than_was_proposed),
        cmocka_unit_test(ids_in_use_and_full_tables_are_refused),
        cmocka_unit_test(a_map_agrees_with_a_list_after_any_inserts_and_removals),
        cmocka_unit_test(a_drafters_proposals_stand_on_the_committed_text_whatever_the_wire_does),
        cmocka_unit_test(without_faults_nothing_is_reopened_or_missing),
        cmocka_unit_test(a_verifiers_text_is_the_references_whatever_the_wire_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
