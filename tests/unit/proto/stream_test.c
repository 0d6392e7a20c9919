/* The state machine of a stream, its claims one by one; what they come to on a bad wire is stream_simulation_test's. */
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

static void a_message_ahead_requests_the_prefix(void **state)
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

static void a_full_table_is_reported_and_a_close_frees_a_slot(void **state)
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
    assert_int_equal(hear_verdict(a, 1, 0, INT32_MAX - 3, 3, &request), PF_FENCE_CURRENT); /* just not */
    pf_stream_answerer_destroy(a);
}

static void a_verdict_has_as_many_tokens_as_a_round_can_commit(void **state)
{
    (void)state;
    pf_stream_answerer *a = answerer_with(1, 0, PROMPT);
    pf_prefix_request request;
    assert_int_equal(hear_verdict(a, 1, 0, PROMPT, -1, &request), PF_FENCE_STALE);
    assert_int_equal(hear_verdict(a, 1, 0, PROMPT, PF_MAX_VERDICT_TOKENS + 1, &request), PF_FENCE_STALE);
    assert_int_equal(hear_verdict(a, 1, 0, PROMPT, PF_MAX_VERDICT_TOKENS, &request), PF_FENCE_CURRENT);
    assert_int_equal(hear_verdict(a, 1, 1, PROMPT + PF_MAX_VERDICT_TOKENS, 0, &request), PF_FENCE_CURRENT);
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
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_PROTOCOL_VIOLATION);
    p.round = 5;
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_PROTOCOL_VIOLATION);
    p.incarnation = 2;
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_PROTOCOL_VIOLATION);
    pf_stream_owner_end(o, SEQ);
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_STALE);
    pf_stream_owner_destroy(o);
}

/* A second incarnation, in round 1, which begins at PROMPT + 1 and whose proposal is asked for. */
static pf_stream_owner *owner_reopened(void)
{
    pf_stream_owner *o = owner_opened();
    pf_open open;
    int32_t n;
    pf_verdict v;
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 1, &v), PF_OK);
    assert_int_equal(v.incarnation, 2);
    return o;
}

/* A message that is current but for one of its fences. */
static const struct {
    uint32_t incarnation;
    uint64_t round;
    int32_t base;
    pf_fence fence;
} fenced_off[] = {
    { 1, 1, PROMPT + 1, PF_FENCE_STALE },
    { 3, 1, PROMPT + 1, PF_FENCE_PROTOCOL_VIOLATION },
    { 2, 0, PROMPT + 1, PF_FENCE_STALE },
    { 2, 2, PROMPT + 1, PF_FENCE_PROTOCOL_VIOLATION },
    { 2, 1, PROMPT + 2, PF_FENCE_PROTOCOL_VIOLATION },
};

static void each_fence_of_a_proposal_keeps_it_out_by_itself(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_reopened();
    pf_proposal p = { .sequence = SEQ, .n_tokens = 2 };
    for (size_t i = 0; i < PF_COUNT(fenced_off); i++) {
        p.incarnation = fenced_off[i].incarnation;
        p.round = fenced_off[i].round;
        p.base = fenced_off[i].base;
        if (pf_stream_owner_on_proposal(o, &p) != fenced_off[i].fence) fail_msg("case %zu", i);
    }
    p = (pf_proposal){ .sequence = SEQ, .incarnation = 2, .round = 1, .base = PROMPT + 1, .n_tokens = 2 };
    pf_stream_owner_lost(o);
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_STALE); /* its sender is gone */
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    p.incarnation = 3;
    assert_int_equal(pf_stream_owner_on_proposal(o, &p), PF_FENCE_STALE); /* the new peer was not asked */
    pf_stream_owner_destroy(o);
}

static void each_fence_of_a_verdict_keeps_it_out_by_itself(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_reopened();
    pf_verdict v = { .sequence = SEQ, .n_tokens = 1 };
    for (size_t i = 0; i < PF_COUNT(fenced_off); i++) {
        v.incarnation = fenced_off[i].incarnation;
        v.round = fenced_off[i].round;
        v.base = fenced_off[i].base;
        if (pf_stream_owner_on_verdict(o, &v) != fenced_off[i].fence) fail_msg("case %zu", i);
    }
    v = (pf_verdict){ .sequence = SEQ, .incarnation = 2, .round = 1, .base = PROMPT + 1, .n_tokens = 1 };
    assert_int_equal(pf_stream_owner_give_up(o, SEQ), PF_OK);
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_STALE);
    pf_stream_owner_destroy(o);
}

static void a_prefix_request_reopens_once(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_verdict v;
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 1, &v), PF_OK);
    const pf_prefix_request r = { .sequence = SEQ, .incarnation = 1 }, ahead = { .sequence = SEQ, .incarnation = 2 };
    assert_int_equal(pf_stream_owner_on_prefix_request(o, &ahead), PF_FENCE_PROTOCOL_VIOLATION);
    assert_false(pf_stream_owner_due(o, SEQ));
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

static void a_restart_begins_at_round_0_and_makes_all_that_was_said_before_it_stale(void **state)
{
    (void)state;
    enum { OTHER_PROMPT = 3 };
    pf_stream_owner *o = owner_opened();
    pf_verdict v = { 0 };
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 1, &v), PF_OK);
    assert_int_equal(pf_stream_owner_restart(o, SEQ, OTHER_PROMPT), PF_OK);
    assert_true(pf_stream_owner_due(o, SEQ));
    const pf_proposal late = { .sequence = SEQ, .incarnation = 1, .round = 1, .base = PROMPT + 1, .n_tokens = 2 };
    const pf_prefix_request request = { .sequence = SEQ, .incarnation = 1 };
    for (int opened = 0; opened < 2; opened++) {
        assert_int_equal(pf_stream_owner_on_proposal(o, &late), PF_FENCE_STALE);
        assert_int_equal(pf_stream_owner_on_prefix_request(o, &request), PF_FENCE_STALE);
        if (!opened) assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    }
    assert_true(open.incarnation > 1);
    assert_int_equal(open.next_round, 0);
    assert_int_equal(n, OTHER_PROMPT);
    assert_int_equal(pf_stream_owner_restart(o, SEQ, -1), PF_INVALID);
    assert_int_equal(pf_stream_owner_restart(o, SEQ + 1, OTHER_PROMPT), PF_INVALID);
    pf_stream_owner_destroy(o);
}

static void a_verdict_has_its_accepted_tokens_and_one_more(void **state)
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
        pf_finish finish;
    } wrong[] = {
        { 4, 2, PROMPT + 1, PF_FINISH_NONE },  { 4, 3, PROMPT + 1, PF_FINISH_NONE },
        { 3, 3, PROMPT + 1, PF_FINISH_EOS },   { 0, 0, PROMPT + 1, PF_FINISH_NONE },
        { 0, -1, PROMPT + 1, PF_FINISH_NONE }, { -1, -1, PROMPT + 1, PF_FINISH_LENGTH },
        { 1, 2, PROMPT + 1, PF_FINISH_EOS },   { 3, 2, PROMPT, PF_FINISH_NONE },
        { 3, 0, PROMPT + 1, PF_FINISH_NONE },  { 2, 0, PROMPT + 1, PF_FINISH_LENGTH },
        { 3, 1, PROMPT + 1, PF_FINISH_EOS },   { 2, 2, PROMPT + 1, PF_FINISH_NONE },
    };
    for (size_t i = 0; i < PF_COUNT(wrong); i++) {
        v.finish = wrong[i].finish;
        v.n_tokens = wrong[i].n_tokens;
        v.n_accepted = wrong[i].n_accepted;
        v.base = wrong[i].base;
        if (pf_stream_owner_on_verdict(o, &v) != PF_FENCE_PROTOCOL_VIOLATION) fail_msg("case %zu passes for sense", i);
    }
    v.finish = PF_FINISH_NONE;
    v.n_tokens = 3;
    v.n_accepted = 2;
    v.base = PROMPT + 1;
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_STALE);
    pf_stream_owner_destroy(o);
}

/* One that a stop token cuts may end with an accepted token; one that was asked for past the end has none. */
static void a_verdict_that_finishes_may_have_fewer_tokens(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_proposal p;
    assert_int_equal(pf_stream_owner_propose(o, SEQ, 2, &p), PF_OK);
    pf_verdict v = { .sequence = SEQ, .incarnation = 1, .base = PROMPT, .n_tokens = 2, .n_accepted = 2 };
    v.finish = PF_FINISH_EOS;
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_owner_propose(o, SEQ, 0, &p), PF_OK); /* nothing was drafted */
    v = (pf_verdict){ .sequence = SEQ, .incarnation = 1, .round = 1, .base = PROMPT + 2, .finish = PF_FINISH_LENGTH };
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_CURRENT);
    uint64_t round = 0;
    uint32_t incarnation = 0;
    assert_int_equal(pf_stream_owner_expects(o, SEQ, &round, &incarnation), PF_OK);
    assert_int_equal(round, 2);
    assert_int_equal(incarnation, 1);
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 0, &v), PF_OK);
    pf_stream_owner_destroy(o);
}

static void a_proposal_can_be_accepted_only_in_its_round_and_incarnation(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_reopened();
    pf_verdict v = {
        .sequence = SEQ, .incarnation = 3, .round = 1, .base = PROMPT + 1, .n_tokens = 2, .n_accepted = 1
    };
    pf_proposal p;
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_propose(o, SEQ, 2, &p), PF_OK);
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_PROTOCOL_VIOLATION);
    assert_int_equal(pf_stream_owner_propose(o, SEQ, 2, &p), PF_OK);
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_CURRENT);
    v.round = 2;
    v.base = PROMPT + 3;
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_PROTOCOL_VIOLATION);
    pf_stream_owner_destroy(o);
}

static void an_owner_rejects_lengths_beyond_the_limits_of_a_message(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_proposal p;
    assert_int_equal(pf_stream_owner_propose(o, SEQ, PF_MAX_DRAFT_TOKENS, &p), PF_OK);
    assert_int_equal(pf_stream_owner_propose(o, SEQ, PF_MAX_DRAFT_TOKENS + 1, &p), PF_INVALID);
    assert_int_equal(pf_stream_owner_propose(o, SEQ, -1, &p), PF_INVALID);
    pf_verdict v;
    assert_int_equal(pf_stream_owner_commit(o, SEQ, PF_MAX_VERDICT_TOKENS, &v), PF_OK);
    assert_int_equal(pf_stream_owner_commit(o, SEQ, PF_MAX_VERDICT_TOKENS + 1, &v), PF_INVALID);
    assert_int_equal(pf_stream_owner_commit(o, SEQ, -1, &v), PF_INVALID);

    assert_int_equal(pf_stream_owner_begin(o, 8, INT32_MAX - 1), PF_OK);
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_open(o, 8, &open, &n), PF_OK);
    assert_int_equal(pf_stream_owner_commit(o, 8, 1, &v), PF_OK);
    assert_int_equal(pf_stream_owner_commit(o, 8, 1, &v), PF_INVALID);
    v = (pf_verdict){ .sequence = 8, .incarnation = 1, .round = 1, .base = INT32_MAX, .n_tokens = 1 };
    assert_int_equal(pf_stream_owner_on_verdict(o, &v), PF_FENCE_PROTOCOL_VIOLATION);
    pf_stream_owner_destroy(o);
}

static void a_refusal_is_of_the_incarnation_that_it_names(void **state)
{
    (void)state;
    pf_stream_owner *o = owner_opened();
    pf_stream_owner_lost(o);
    pf_open open;
    int32_t n;
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_OK);
    assert_int_equal(open.incarnation, 2);
    assert_int_equal(pf_stream_owner_on_refusal(o, &(pf_refusal){ SEQ, 1, PF_LIMIT, "" }), PF_FENCE_STALE);
    assert_int_equal(pf_stream_owner_on_refusal(o, &(pf_refusal){ SEQ, 2, PF_LIMIT, "" }), PF_FENCE_CURRENT);
    assert_int_equal(pf_stream_owner_on_refusal(o, &(pf_refusal){ SEQ, 3, PF_LIMIT, "" }), PF_FENCE_PROTOCOL_VIOLATION);
    assert_int_equal(pf_stream_owner_on_refusal(o, &(pf_refusal){ SEQ + 1, 2, PF_LIMIT, "" }), PF_FENCE_STALE);
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
    assert_int_equal(pf_stream_owner_begin(o, 9, 0), PF_OK);
    pf_proposal p;
    assert_int_equal(pf_stream_owner_propose(o, 9, 1, &p), PF_INVALID); /* not opened yet */
    pf_open open;
    pf_verdict v;
    int32_t n;
    uint64_t round;
    uint32_t incarnation;
    assert_int_equal(pf_stream_owner_open(o, SEQ, &open, &n), PF_INVALID); /* ended */
    assert_int_equal(pf_stream_owner_commit(o, SEQ, 1, &v), PF_INVALID);
    assert_int_equal(pf_stream_owner_expects(o, SEQ, &round, &incarnation), PF_INVALID);
    assert_int_equal(pf_stream_owner_give_up(o, SEQ), PF_INVALID);
    pf_stream_owner_destroy(NULL);
    pf_stream_answerer_destroy(NULL);
    pf_stream_owner_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_moves_the_committed_length_and_the_proposal_continues_it),
        cmocka_unit_test(late_and_repeated_verdicts_are_stale),
        cmocka_unit_test(a_message_ahead_requests_the_prefix),
        cmocka_unit_test(a_reopening_needs_a_higher_incarnation),
        cmocka_unit_test(a_full_table_is_reported_and_a_close_frees_a_slot),
        cmocka_unit_test(a_proposal_is_judged_once),
        cmocka_unit_test(a_length_that_would_overflow_is_dropped),
        cmocka_unit_test(a_verdict_has_as_many_tokens_as_a_round_can_commit),
        cmocka_unit_test(a_proposal_is_current_once_and_only_for_its_round),
        cmocka_unit_test(each_fence_of_a_proposal_keeps_it_out_by_itself),
        cmocka_unit_test(each_fence_of_a_verdict_keeps_it_out_by_itself),
        cmocka_unit_test(a_prefix_request_reopens_once),
        cmocka_unit_test(a_restart_begins_at_round_0_and_makes_all_that_was_said_before_it_stale),
        cmocka_unit_test(a_verdict_has_its_accepted_tokens_and_one_more),
        cmocka_unit_test(a_verdict_that_finishes_may_have_fewer_tokens),
        cmocka_unit_test(a_proposal_can_be_accepted_only_in_its_round_and_incarnation),
        cmocka_unit_test(an_owner_rejects_lengths_beyond_the_limits_of_a_message),
        cmocka_unit_test(a_refusal_is_of_the_incarnation_that_it_names),
        cmocka_unit_test(ids_in_use_and_full_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
