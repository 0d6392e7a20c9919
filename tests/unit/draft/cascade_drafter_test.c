/* The cascade over a model drafter that the test makes up, by a clock that the test sets. */
#include "draft/cascade_drafter.h"

#include <stdlib.h>

#include "host/sequence_host.h"
#include "tests/support/alloc_count.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

enum { V = 20000, MAX_TOKENS = 1024, MODEL_TOKEN = 77, MS = 1000000 };

/* ---- a model ------------------------------------------------------------------------------------------------------- */

/* Proposes MODEL_TOKEN as often as it is asked for, in so much time. */
typedef struct {
    pf_host host;
    uint64_t *clock_ns, pass_ns;
    int32_t n_asked, n_told; /* verdicts with a proposal, and all */
    int32_t limit;           /* of sequences' ids: those from it on are refused */
    int32_t n_ahead;         /* passes ahead, of which there is one */
} stub_model;

static pf_status follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    stub_model *m = (stub_model *)host;
    (void)s;
    m->n_told++;
    m->n_asked += verdict->next_draft != PF_NO_DRAFT;
    return PF_OK;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of the hosts' function */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    (void)host;
    (void)n_tokens;
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    stub_model *m = (stub_model *)host;
    pf_proposal proposal;
    *m->clock_ns += m->pass_ns;
    s->n_drafted = pf_host_draft_room(host, s);
    for (int32_t i = 0; i < s->n_drafted; i++) s->tokens[s->n_committed + i] = MODEL_TOKEN;
    pf_host_begin_proposal(host, s, &proposal);
    proposal.tokens = s->tokens + s->n_committed;
    proposal.n_tokens = s->n_drafted;
    pf_host_propose(host, s, &proposal);
    return true;
}

static pf_status check_open(const pf_host *host, const pf_open *open, pf_error *error)
{
    const stub_model *m = (const stub_model *)host;
    if (m->limit == 0 || open->sequence < (uint64_t)m->limit) return PF_OK;
    return pf_fail(error, PF_LIMIT, "the stub takes no more");
}

static bool work_ahead(pf_host *host)
{
    return ((stub_model *)host)->n_ahead++ == 0;
}

static const pf_host_role stub_role = { .name = "stub",
                                        .model = "stub",
                                        .check_open = check_open,
                                        .follow = follow,
                                        .turn = turn,
                                        .add = add,
                                        .work_ahead = work_ahead };

typedef struct {
    pf_peer *cascade;
    stub_model *model;
    uint64_t clock_ns;
} rig;

static void make_rig(rig *r, int32_t max_sequences)
{
    const pf_model_info info = {
        .model_id = "stub", .vocab_size = V, .max_context = MAX_TOKENS, .max_sequences = max_sequences
    };
    const pf_host_config host = {
        .max_sequences = max_sequences, .max_draft = 8, .max_tokens = MAX_TOKENS, .n_vocab = V, .info = &info
    };
    *r = (rig){ .clock_ns = 1 };
    pf_peer *model, *lookup;
    pf_error error = { 0 };
    r->model = calloc(1, sizeof *r->model);
    assert_non_null(r->model);
    r->model->clock_ns = &r->clock_ns;
    assert_ok(pf_host_create(&r->model->host, &stub_role, &host, &model, &error), error);
    const pf_stop stop = { .clock_ns = &r->clock_ns };
    const pf_suffix_drafter_config config = { .max_sequences = max_sequences, .max_draft = 8, .stop = stop };
    assert_ok(pf_suffix_drafter_create(&info, &config, &lookup, &error), error);
    assert_ok(pf_cascade_drafter_create(lookup, model, stop, &r->cascade, &error), error);
}

/* ---- a text -------------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_open open;
    uint64_t round;
    int32_t base;
} text;

/* A prompt of a period, so long that a lookup is sure of it, or of tokens that never come again. */
static text open_text(uint64_t sequence, bool repeats)
{
    static int32_t periodic[64], fresh[64];
    for (int32_t i = 0; i < 64; i++) {
        periodic[i] = 100 + i % 4;
        fresh[i] = 1000 + i;
    }
    pf_open open = near_peer_open(sequence);
    open.tokens = repeats ? periodic : fresh;
    open.n_tokens = 64;
    return (text){ .open = open, .base = 64 };
}

/* Commits tokens, which takes `ns` of the target, and returns what is proposed next. */
static pf_proposal commit(rig *r, text *t, const int32_t *tokens, int32_t n, uint64_t ns)
{
    pf_verdict verdict = { .sequence = t->open.sequence,
                           .incarnation = t->open.incarnation,
                           .round = t->round,
                           .base = t->base,
                           .tokens = tokens,
                           .n_tokens = n,
                           .n_accepted = n - 1 };
    const pf_batch batch = { .opens = &t->open, .n_opens = t->round == 0, .verdicts = &verdict, .n_verdicts = 1 };
    r->clock_ns += ns;
    const pf_batch *answer = near_peer_ask(r->cascade, batch);
    assert_non_null(answer);
    assert_int_equal(answer->n_proposals, 1);
    t->round++;
    t->base += n;
    assert_int_equal(answer->proposals[0].round, t->round);
    assert_int_equal(answer->proposals[0].base, t->base);
    return answer->proposals[0];
}

static pf_proposal commit_period(rig *r, text *t, int32_t n, uint64_t ns)
{
    int32_t tokens[16];
    for (int32_t i = 0; i < n; i++) tokens[i] = 100 + (t->base + i) % 4;
    return commit(r, t, tokens, n, ns);
}

static pf_proposal commit_fresh(rig *r, text *t, int32_t n, uint64_t ns)
{
    int32_t tokens[16];
    for (int32_t i = 0; i < n; i++) tokens[i] = 5000 + t->base + i;
    return commit(r, t, tokens, n, ns);
}

static void end(rig *r)
{
    pf_peer_destroy(r->cascade);
}

/* ---- claims -------------------------------------------------------------------------------------------------------- */

static void a_sure_lookup_is_sent_and_the_model_is_not_asked(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 1);
    text t = open_text(1, true);
    const pf_proposal p = commit_period(&r, &t, 1, MS);
    assert_int_equal(p.n_tokens, 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(p.tokens[i], 100 + (t.base + i) % 4);
    assert_int_equal(r.model->n_told, 1); /* it follows the text all the same */
    assert_int_equal(r.model->n_asked, 0);
    assert_false(pf_peer_owes(r.cascade, 1));
    end(&r);
}

static void where_nothing_is_found_the_model_proposes(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 1);
    text t = open_text(1, false);
    const pf_proposal p = commit_fresh(&r, &t, 1, MS);
    assert_int_equal(p.n_tokens, 4);
    assert_int_equal(p.tokens[0], MODEL_TOKEN);
    assert_int_equal(r.model->n_asked, 1);
    end(&r);
}

/* A text that repeats now and then; a model of which four tokens are always accepted, and which takes so long. How many of the last
 * rounds with a lookup that half of them were looked up. */
static int64_t count_lookups(uint64_t pass_ns, int32_t n_by_model, int32_t n_by_lookup)
{
    rig r;
    make_rig(&r, 1);
    r.model->pass_ns = pass_ns;
    text t = open_text(1, true);
    pf_proposal p = commit_period(&r, &t, 1, MS);
    int64_t n_before = 0;
    for (int32_t i = 0; i < 90; i++) {
        if (i == 50) n_before = pf_cascade_drafter_counts(r.cascade).n_lookups;
        const bool by_model = p.n_tokens > 0 && p.tokens[0] == MODEL_TOKEN;
        /* of what is looked up so much is right, before the text goes on in its period */
        p = i % 4 == 0 ? commit_fresh(&r, &t, 1, 10 * MS)
                       : commit_period(&r, &t, 1 + (by_model ? n_by_model : n_by_lookup), 10 * MS);
    }
    const int64_t n = pf_cascade_drafter_counts(r.cascade).n_lookups - n_before;
    end(&r);
    return n;
}

static void a_round_goes_to_the_one_that_commits_more_in_its_time(void **state)
{
    (void)state;
    const int64_t of_slow = count_lookups(40 * MS, 4, 4), of_fast = count_lookups(0, 8, 1);
    if (of_slow < 20) fail_msg("%lld of 40 rounds were looked up where the model is slow", (long long)of_slow);
    if (of_fast > 10)
        fail_msg("%lld of 40 rounds were looked up where the model is fast and better", (long long)of_fast);
}

static void sequences_of_a_batch_are_divided(void **state)
{
    (void)state;
    enum { N = 6 };
    rig r;
    make_rig(&r, N);
    pf_open opens[N];
    pf_verdict verdicts[N];
    const int32_t next[2] = { 5000, 100 };
    for (int32_t i = 0; i < N; i++) {
        opens[i] = open_text((uint64_t)i + 1, i % 2).open;
        verdicts[i] = (pf_verdict){
            .sequence = (uint64_t)i + 1, .incarnation = 1, .base = 64, .tokens = &next[i % 2], .n_tokens = 1
        };
    }
    const pf_batch batch = { .opens = opens, .n_opens = N, .verdicts = verdicts, .n_verdicts = N };
    assert_ok(pf_peer_submit(r.cascade, &batch), (pf_error){ 0 });
    for (uint64_t i = 1; i <= N; i++) assert_true(pf_peer_owes(r.cascade, i));
    for (int32_t part = 0; part < 2; part++) { /* first what was looked up */
        const pf_batch *answer;
        assert_ok(pf_peer_collect(r.cascade, 0, &answer, NULL), (pf_error){ 0 });
        assert_int_equal(answer->n_proposals, N / 2);
        for (int32_t i = 0; i < N / 2; i++) {
            assert_int_equal(answer->proposals[i].sequence % 2, part);
            assert_int_equal(answer->proposals[i].tokens[0] == MODEL_TOKEN, part);
        }
    }
    end(&r);
}

static void a_sequence_that_the_model_refuses_is_refused(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 4);
    r.model->limit = 2;
    pf_open opens[] = { open_text(1, true).open, open_text(2, true).open };
    const pf_batch *answer = near_peer_ask(r.cascade, (pf_batch){ .opens = opens, .n_opens = 2 });
    assert_non_null(answer);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, 2);
    assert_status(pf_peer_check_open(r.cascade, &opens[1], NULL), PF_LIMIT);
    end(&r);
}

static void a_verdict_for_what_is_unknown_gets_one_prefix_request(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 1);
    const int32_t token = 5;
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .round = 3, .base = 9, .tokens = &token, .n_tokens = 1 };
    const pf_batch *answer = near_peer_ask(r.cascade, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_prefix_requests, 1);
    assert_int_equal(answer->n_proposals, 0);
    end(&r);
}

static void a_sequence_that_is_closed_is_owed_nothing(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 1);
    text t = open_text(1, true);
    const int32_t token = 100;
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .base = 64, .tokens = &token, .n_tokens = 1 };
    const pf_batch batch = { .opens = &t.open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 };
    assert_ok(pf_peer_submit(r.cascade, &batch), (pf_error){ 0 });
    pf_close close = { 1 };
    assert_null(near_peer_ask(r.cascade, (pf_batch){ .closes = &close, .n_closes = 1 }));
    text again = open_text(2, false); /* the place is free */
    assert_int_equal(commit_fresh(&r, &again, 1, MS).tokens[0], MODEL_TOKEN);
    end(&r);
}

static void a_round_allocates_nothing(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 1);
    text t = open_text(1, true);
    pf_alloc_count_reset();
    for (int32_t i = 0; i < 20; i++) (void)(i % 3 ? commit_period(&r, &t, 3, MS) : commit_fresh(&r, &t, 2, MS));
    assert_int_equal(pf_alloc_count(), 0);
    end(&r);
}

static void the_model_drafts_ahead_while_no_lookup_waits(void **state)
{
    (void)state;
    rig r;
    make_rig(&r, 1);
    text t = open_text(1, true);
    (void)commit_period(&r, &t, 1, MS);
    const int32_t token = 100 + t.base % 4;
    pf_verdict verdict = {
        .sequence = 1, .incarnation = 1, .round = 1, .base = t.base, .tokens = &token, .n_tokens = 1
    };
    assert_status(pf_peer_submit(r.cascade, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    assert_false(pf_peer_work_ahead(r.cascade));
    assert_int_equal(r.model->n_ahead, 0);
    const pf_batch *answer;
    pf_error error = { 0 };
    assert_ok(pf_peer_collect(r.cascade, UINT64_MAX, &answer, &error), error);
    assert_true(pf_peer_work_ahead(r.cascade));
    assert_false(pf_peer_work_ahead(r.cascade));
    end(&r);
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
