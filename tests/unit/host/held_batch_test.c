/* Copies of messages in a client's mailbox, and batches of several clients made one. */
#include <stdlib.h>

#include "host/held_batch.h"
#include "host/merged_peer.h"
#include "tests/support/test.h"

enum { ROOM = 8 };

typedef struct {
    pf_arena arena;
    pf_held_batch held;
} mailbox;

static void open_mailbox(mailbox *m)
{
    static const pf_held_room room = { .open_tokens = ROOM, .draft_tokens = ROOM, .max_declared = 2 };
    pf_arena measure = pf_arena_measure();
    pf_held_lay_out(&m->held, &room, &measure);
    assert_int_equal(pf_arena_create(measure.used, &m->arena), PF_OK);
    m->held = (pf_held_batch){ 0 };
    pf_held_lay_out(&m->held, &room, &m->arena);
    assert_true(m->arena.used <= m->arena.size);
}

static pf_proposal proposal_of(uint64_t sequence, const int32_t *tokens, int32_t n)
{
    return (pf_proposal){ .sequence = sequence, .incarnation = 1, .tokens = tokens, .n_tokens = n };
}

static void what_a_message_points_to_is_copied(void **state)
{
    (void)state;
    mailbox m;
    open_mailbox(&m);
    int32_t tokens[] = { 4, 5 }, parents[] = { -1, -1 }, ids[] = { 4, 6 };
    float probabilities[] = { 0.75f, 0.25f };
    const pf_declared declared[] = { { ids, probabilities, 2 }, { ids, probabilities, 1 } };
    pf_proposal p = proposal_of(3, tokens, 2);
    p.parents = parents;
    p.declared = declared;
    assert_true(pf_held_add(&m.held, &(pf_batch){ .proposals = &p, .n_proposals = 1, .timing = { .compute_ns = 9 } }));
    tokens[1] = parents[1] = ids[1] = 99;
    probabilities[1] = 0.0f;
    const pf_proposal *kept = &m.held.batch.proposals[0];
    assert_int_equal(kept->tokens[1], 5);
    assert_int_equal(kept->parents[1], -1);
    assert_int_equal(kept->declared[0].ids[1], 6);
    assert_true(kept->declared[0].probabilities[1] == 0.25f);
    assert_int_equal(kept->declared[1].n, 1);
    assert_true(m.held.batch.timing.compute_ns == 9);
    pf_held_clear(&m.held);
    assert_true(pf_held_is_empty(&m.held));
    pf_arena_destroy(&m.arena);
}

static void biases_of_an_open_are_copied(void **state)
{
    (void)state;
    mailbox m;
    open_mailbox(&m);
    const int32_t token = 1;
    int32_t ids[] = { 4, 9 };
    float biases[] = { 0.5f, -2.0f };
    pf_open open = {
        .sequence = 1, .tokens = &token, .n_tokens = 1, .rules = { .bias_ids = ids, .biases = biases, .n_biases = 2 }
    };
    assert_true(pf_held_add(&m.held, &(pf_batch){ .opens = &open, .n_opens = 1 }));
    ids[1] = 0;
    biases[1] = 0.0f;
    const pf_logit_rules *held = &m.held.batch.opens[0].rules;
    assert_int_equal(held->n_biases, 2);
    assert_int_equal(held->bias_ids[1], 9);
    assert_true(held->biases[0] == 0.5f && held->biases[1] == -2.0f);
    pf_held_clear(&m.held);
    open.rules.n_biases = PF_MAX_LOGIT_BIASES + 1;
    assert_false(pf_held_add(&m.held, &(pf_batch){ .opens = &open, .n_opens = 1 }));
    pf_arena_destroy(&m.arena);
}

static void a_close_removes_earlier_messages_of_its_sequence_alone(void **state)
{
    (void)state;
    mailbox m;
    open_mailbox(&m);
    const int32_t first[] = { 1 }, second[] = { 2 }, third[] = { 3 };
    pf_open open = { .sequence = 1, .incarnation = 1, .tokens = first, .n_tokens = 1 };
    pf_verdict v[] = { { .sequence = 1, .tokens = first, .n_tokens = 1 },
                       { .sequence = 2, .tokens = second, .n_tokens = 1 } };
    pf_proposal p[] = { proposal_of(1, first, 1), proposal_of(2, second, 1) };
    pf_close close = { .sequence = 1 };
    assert_true(pf_held_add(&m.held, &(pf_batch){ .opens = &open, .n_opens = 1, .verdicts = v, .n_verdicts = 2 }));
    assert_true(pf_held_add(&m.held, &(pf_batch){ .proposals = p, .n_proposals = 2 }));
    assert_true(pf_held_add(&m.held, &(pf_batch){ .closes = &close, .n_closes = 1 }));
    assert_int_equal(m.held.batch.n_opens, 0);
    assert_int_equal(m.held.batch.n_closes, 1);
    assert_int_equal(m.held.batch.n_proposals, 1);
    p[0] = proposal_of(3, third, 1);
    v[0] = (pf_verdict){ .sequence = 3, .tokens = third, .n_tokens = 1 };
    assert_true(pf_held_add(&m.held, &(pf_batch){ .verdicts = v, .n_verdicts = 1, .proposals = p, .n_proposals = 1 }));
    assert_int_equal(m.held.batch.verdicts[0].tokens[0], 2);
    assert_int_equal(m.held.batch.verdicts[1].tokens[0], 3);
    assert_int_equal(m.held.batch.proposals[0].tokens[0], 2); /* each message keeps an array of its own */
    assert_int_equal(m.held.batch.proposals[1].tokens[0], 3);
    pf_arena_destroy(&m.arena);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    mailbox m;
    open_mailbox(&m);
    const int32_t tokens[ROOM + 1] = { 1 };
    pf_open longest = { .sequence = 1, .tokens = tokens, .n_tokens = ROOM }, other = longest, longer = longest;
    other.sequence = 2;
    longer.n_tokens = ROOM + 1;
    pf_close close = { .sequence = 1 };
    assert_false(pf_held_add(&m.held, &(pf_batch){ .opens = &longer, .n_opens = 1 }));
    assert_true(pf_held_is_empty(&m.held));
    assert_true(pf_held_add(&m.held, &(pf_batch){ .opens = &longest, .n_opens = 1 }));
    assert_false(pf_held_add(&m.held, &(pf_batch){ .opens = &other, .n_opens = 1 }));
    assert_true(pf_held_add(&m.held, &(pf_batch){ .closes = &close, .n_closes = 1, .opens = &other, .n_opens = 1 }));
    assert_int_equal(m.held.batch.opens[0].sequence, 2);
    pf_proposal p = proposal_of(2, tokens, -1);
    assert_false(pf_held_add(&m.held, &(pf_batch){ .proposals = &p, .n_proposals = 1 }));
    const pf_declared wide[] = { { NULL, NULL, 3 } };
    p = proposal_of(2, tokens, 1);
    p.declared = wide;
    assert_false(pf_held_add(&m.held, &(pf_batch){ .proposals = &p, .n_proposals = 1 }));
    pf_arena_destroy(&m.arena);
}

/* ---- merging ----------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_peer head;
    int32_t n_submits, n_verdicts, n_opens;
    uint64_t step_ns, queue_ns, deadline_ns;
} counting_peer;

static pf_status count_submit(pf_peer *peer, const pf_batch *batch)
{
    counting_peer *c = (counting_peer *)peer;
    c->n_submits++;
    c->n_verdicts += batch->n_verdicts;
    c->n_opens += batch->n_opens;
    c->step_ns = batch->timing.compute_ns;
    c->queue_ns = batch->timing.queue_ns;
    return PF_OK;
}

static pf_status count_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)out, (void)error;
    ((counting_peer *)peer)->deadline_ns = deadline_ns;
    return PF_CANCELLED;
}

static const pf_peer_ops COUNTING = { .submit = count_submit, .collect = count_collect };

static void batches_between_two_collects_are_submitted_as_one(void **state)
{
    (void)state;
    counting_peer inner = { .head.ops = &COUNTING };
    pf_peer *merged = NULL;
    const pf_batch *answer;
    pf_error error = { 0 };
    assert_int_equal(pf_merged_peer_create(&inner.head, &merged), PF_OK);
    pf_verdict verdicts[PF_MAX_BATCH_SEQUENCES] = { { .sequence = 1 } };
    for (uint64_t ns = 5; ns <= 7; ns++) {
        const pf_batch batch = { .verdicts = verdicts, .n_verdicts = 2, .timing.compute_ns = ns % 7 };
        assert_int_equal(pf_peer_submit(merged, &batch), PF_OK);
    }
    assert_int_equal(inner.n_submits, 0);
    assert_status(pf_peer_collect(merged, UINT64_MAX, &answer, &error), PF_CANCELLED);
    assert_int_equal(inner.n_submits, 1);
    assert_int_equal(inner.n_verdicts, 6);
    assert_true(inner.step_ns == 6); /* the longest step */
    assert_true(inner.deadline_ns == 0);
    pf_merged_peer_set_step(merged, (pf_timing){ .compute_ns = 11, .queue_ns = 3 });
    const pf_batch full = { .verdicts = verdicts, .n_verdicts = PF_MAX_BATCH_SEQUENCES };
    assert_int_equal(pf_peer_submit(merged, &full), PF_OK);
    assert_int_equal(pf_peer_submit(merged, &full), PF_OK); /* no room: the first goes at once */
    assert_int_equal(inner.n_submits, 2);
    assert_true(inner.step_ns == 11 && inner.queue_ns == 3);
    pf_peer_destroy(merged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_message_points_to_is_copied),
        cmocka_unit_test(biases_of_an_open_are_copied),
        cmocka_unit_test(a_close_removes_earlier_messages_of_its_sequence_alone),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(batches_between_two_collects_are_submitted_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
