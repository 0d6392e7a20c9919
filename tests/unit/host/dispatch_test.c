/* Many streams on one peer, without a network: which stream gets which answer. */
#include <stdbool.h>

#include "base/clock.h"
#include "host/dispatch.h"
#include "tests/support/test.h"

enum { MAX = 8, LONGEST = 64, MS = 1000 * 1000, SILENCE_NS = 50 * MS };

/* A peer that remembers what it was told and answers what the test put down. */
typedef struct {
    pf_peer head;
    pf_open opens[MAX];
    pf_close closes[MAX];
    pf_verdict verdicts[MAX];
    int32_t n_opens, n_closes, n_verdicts;
    int32_t n_entries, most_entries; /* between two answers */
    pf_batch answer;
    bool has_answer;
    int32_t n_busy; /* answers with nothing in them, before any other */
    uint64_t owed;  /* the sequence that it says it will answer for */
    pf_status submit_status, collect_status;
} script_peer;

static pf_status script_submit(pf_peer *peer, const pf_batch *batch)
{
    script_peer *s = (script_peer *)peer;
    if (s->submit_status != PF_OK) return s->submit_status;
    s->n_entries += batch->n_opens + batch->n_verdicts;
    if (s->n_entries > s->most_entries) s->most_entries = s->n_entries;
    for (int32_t i = 0; i < batch->n_opens; i++) s->opens[s->n_opens++ % MAX] = batch->opens[i];
    for (int32_t i = 0; i < batch->n_closes; i++) s->closes[s->n_closes++] = batch->closes[i];
    for (int32_t i = 0; i < batch->n_verdicts; i++) s->verdicts[s->n_verdicts++] = batch->verdicts[i];
    return PF_OK;
}

static pf_status script_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)deadline_ns;
    (void)error;
    script_peer *s = (script_peer *)peer;
    s->n_entries = 0;
    if (s->n_busy > 0) {
        static const pf_batch at_work = { 0 };
        s->n_busy--;
        *out = &at_work;
        return PF_OK;
    }
    if (!s->has_answer) return s->collect_status;
    s->has_answer = false;
    *out = &s->answer;
    return PF_OK;
}

static int32_t n_owes_asked; /* how often */

static bool script_owes(const pf_peer *peer, uint64_t sequence)
{
    n_owes_asked++;
    return sequence == ((const script_peer *)peer)->owed;
}

static pf_status script_check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    (void)peer;
    if (open->n_tokens <= LONGEST) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED, "%d tokens are too many", open->n_tokens);
}

static const pf_peer_ops SCRIPT = { .submit = script_submit, .collect = script_collect };
static const pf_peer_ops TELLING = { .submit = script_submit, .collect = script_collect, .owes = script_owes };
static const pf_peer_ops CHOOSY = { .submit = script_submit,
                                    .collect = script_collect,
                                    .check_open = script_check_open };

/* What was sent to a stream: a stream is one of these. */
typedef struct {
    pf_proposal proposals[MAX];
    pf_prefix_request prefix_requests[MAX];
    pf_refusal refusals[MAX];
    int32_t n_batches, n_proposals, n_prefix_requests, n_refusals;
    uint64_t queue_ns;
} mailbox;

static void post(void *user, void *stream, const pf_batch *batch)
{
    (void)user;
    mailbox *m = stream;
    m->n_batches++;
    m->queue_ns = batch->timing.queue_ns;
    for (int32_t i = 0; i < batch->n_proposals; i++) m->proposals[m->n_proposals++] = batch->proposals[i];
    for (int32_t i = 0; i < batch->n_prefix_requests; i++)
        m->prefix_requests[m->n_prefix_requests++] = batch->prefix_requests[i];
    for (int32_t i = 0; i < batch->n_refusals; i++) m->refusals[m->n_refusals++] = batch->refusals[i];
}

typedef struct {
    script_peer peer;
    pf_dispatch *dispatch;
    mailbox a, b;
    int32_t looks_left; /* before it is enough */
} fixture;

static void begin(fixture *f, int32_t max_sequences)
{
    memset(f, 0, sizeof *f);
    f->peer.head.ops = &SCRIPT;
    f->peer.collect_status = PF_CANCELLED;
    assert_int_equal(
        pf_dispatch_create(PF_SERVICE_DRAFTER, &f->peer.head, max_sequences, SILENCE_NS, post, f, &f->dispatch), PF_OK);
}

static void say(fixture *f, mailbox *stream, const pf_batch *batch)
{
    pf_error error;
    const uint64_t waited_ns = stream == &f->b ? 5 : 3;
    assert_ok(pf_dispatch_submit(f->dispatch, stream, batch, NULL, waited_ns, &error), error);
}

static void say_open(fixture *f, mailbox *stream, uint64_t sequence)
{
    pf_open open = { .sequence = sequence, .incarnation = 1 };
    say(f, stream, &(pf_batch){ .opens = &open, .n_opens = 1 });
}

static void say_close(fixture *f, mailbox *stream, uint64_t sequence)
{
    pf_close close = { .sequence = sequence };
    say(f, stream, &(pf_batch){ .closes = &close, .n_closes = 1 });
}

static void collect(fixture *f)
{
    pf_error error;
    assert_ok(pf_dispatch_collect(f->dispatch, NULL, &error), error);
}

/* The peer's next answer is these refusals. */
static void refuse(fixture *f, pf_refusal *refusals, int32_t n)
{
    f->peer.answer = (pf_batch){ .refusals = refusals, .n_refusals = n };
    f->peer.has_answer = true;
    collect(f);
}

static void one_answer_for_two_streams_is_split(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    say_open(&f, &f.b, 1);
    say_open(&f, &f.a, 2);
    assert_int_equal(f.peer.n_opens, 3);
    assert_int_not_equal(f.peer.opens[0].sequence, f.peer.opens[1].sequence);

    pf_proposal proposals[] = { { .sequence = f.peer.opens[0].sequence, .round = 10 },
                                { .sequence = f.peer.opens[1].sequence, .round = 11 },
                                { .sequence = f.peer.opens[2].sequence, .round = 12 } };
    pf_prefix_request prefix = { .sequence = f.peer.opens[1].sequence, .known = 3 };
    f.peer.answer =
        (pf_batch){ .proposals = proposals, .n_proposals = 3, .prefix_requests = &prefix, .n_prefix_requests = 1 };
    f.peer.has_answer = true;
    collect(&f);
    assert_int_equal(f.a.n_batches, 1);
    assert_int_equal(f.a.n_proposals, 2);
    assert_int_equal(f.a.proposals[0].sequence, 1);
    assert_int_equal(f.a.proposals[0].round, 10);
    assert_int_equal(f.a.proposals[1].sequence, 2);
    assert_int_equal(f.a.n_prefix_requests, 0);
    assert_int_equal(f.b.n_batches, 1);
    assert_int_equal(f.b.n_proposals, 1);
    assert_int_equal(f.b.proposals[0].round, 11);
    assert_int_equal(f.b.prefix_requests[0].sequence, 1);
    assert_int_equal(f.b.prefix_requests[0].known, 3);
    assert_int_equal(f.b.queue_ns, 5); /* the longest that any of the three waited */
    pf_dispatch_destroy(f.dispatch);
}

static void an_answer_for_the_previous_sequence_of_a_slot_is_dropped(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1);
    say_open(&f, &f.a, 1);
    say_close(&f, &f.a, 1);
    say_open(&f, &f.b, 1); /* the same slot, the same number */
    pf_proposal late = { .sequence = f.peer.opens[0].sequence };
    f.peer.answer = (pf_batch){ .proposals = &late, .n_proposals = 1 };
    f.peer.has_answer = true;
    collect(&f);
    assert_int_equal(f.a.n_batches + f.b.n_batches, 0);
    pf_dispatch_destroy(f.dispatch);
}

static void a_full_table_refuses_and_a_close_in_the_same_batch_makes_room(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1);
    say_open(&f, &f.a, 1);
    say_open(&f, &f.b, 4);
    assert_int_equal(f.b.n_refusals, 1);
    assert_int_equal(f.b.refusals[0].sequence, 4);
    assert_int_equal(f.b.refusals[0].status, PF_LIMIT);
    assert_string_equal(f.b.refusals[0].text, "1 sequence is open, more are not taken");
    pf_close close = { .sequence = 1 };
    pf_open open = { .sequence = 2, .incarnation = 1 };
    say(&f, &f.a, &(pf_batch){ .closes = &close, .n_closes = 1, .opens = &open, .n_opens = 1 });
    assert_int_equal(f.a.n_refusals, 0);
    assert_int_equal(f.peer.n_opens, 2);
    assert_int_equal(pf_dispatch_open_sequences(f.dispatch), 1);
    pf_dispatch_destroy(f.dispatch);
}

static void an_open_that_cannot_be_served_takes_no_slot(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1);
    f.peer.head.ops = &CHOOSY;
    pf_open opens[] = { { .sequence = 1, .incarnation = 7, .n_tokens = LONGEST + 1 },
                        { .sequence = 2, .incarnation = 1, .n_tokens = LONGEST + 2 },
                        { .sequence = 3, .incarnation = 1, .n_tokens = LONGEST } };
    say(&f, &f.a, &(pf_batch){ .opens = opens, .n_opens = 3 });
    assert_int_equal(f.a.n_refusals, 2);
    assert_int_equal(f.a.refusals[0].sequence, 1);
    assert_int_equal(f.a.refusals[0].incarnation, 7);
    assert_int_equal(f.a.refusals[0].status, PF_UNSUPPORTED);
    assert_string_equal(f.a.refusals[0].text, "65 tokens are too many");
    assert_int_equal(f.a.refusals[1].sequence, 2);
    assert_string_equal(f.a.refusals[1].text, "66 tokens are too many");
    assert_int_equal(f.peer.n_opens, 1);
    assert_int_equal(f.peer.opens[0].n_tokens, LONGEST);

    /* Nor is a long idle sequence evicted for it. */
    collect(&f);
    pf_wait_until(pf_now_ns() + SILENCE_NS);
    pf_open open = { .sequence = 1, .incarnation = 1, .n_tokens = LONGEST + 1 };
    say(&f, &f.b, &(pf_batch){ .opens = &open, .n_opens = 1 });
    assert_int_equal(f.b.n_refusals, 1);
    assert_int_equal(f.b.refusals[0].status, PF_UNSUPPORTED);
    assert_int_equal(f.peer.n_closes, 0);
    pf_dispatch_destroy(f.dispatch);
}

static void opens_that_cannot_be_served_block_no_other_stream(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 2);
    f.peer.head.ops = &CHOOSY;
    for (uint64_t i = 1; i <= MAX; i++) {
        pf_open open = { .sequence = i, .incarnation = 1, .n_tokens = LONGEST + 1 };
        say(&f, &f.b, &(pf_batch){ .opens = &open, .n_opens = 1 });
        if (i <= 2) say_open(&f, &f.a, i);
    }
    assert_int_equal(f.a.n_refusals, 0);
    assert_int_equal(f.b.n_refusals, MAX);
    assert_int_equal(pf_dispatch_open_sequences(f.dispatch), 2);
    assert_false(pf_dispatch_has_sequences(f.dispatch, &f.b));

    /* What is open already is its peer's to refuse, and to end. */
    pf_open again = { .sequence = 1, .incarnation = 2, .n_tokens = LONGEST + 1 };
    say(&f, &f.a, &(pf_batch){ .opens = &again, .n_opens = 1 });
    assert_int_equal(f.a.n_refusals, 0);
    assert_int_equal(f.peer.n_opens, 3);
    pf_dispatch_destroy(f.dispatch);
}

static void a_refused_sequence_is_closed_and_others_stay(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    say_open(&f, &f.a, 2);
    pf_refusal refusal = { f.peer.opens[0].sequence, 1, PF_LIMIT, "too long" };
    refuse(&f, &refusal, 1);
    assert_int_equal(f.a.refusals[0].sequence, 1);
    assert_int_equal(pf_dispatch_open_sequences(f.dispatch), 1);
    pf_verdict verdict = { .sequence = 1, .incarnation = 1 };
    say(&f, &f.a, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(f.a.n_prefix_requests, 1);
    assert_int_equal(f.peer.n_verdicts, 0);
    pf_dispatch_destroy(f.dispatch);
}

/* Two batches before the peer is asked: to it the second opens the sequence again, and nothing would ever close it. */
static void a_sequence_that_is_opened_again_before_its_refusal_is_closed_at_the_peer(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    say_open(&f, &f.a, 1);
    assert_int_equal(f.peer.n_opens, 2);
    const uint64_t internal = f.peer.opens[0].sequence;
    pf_refusal refusals[] = { { internal, 1, PF_LIMIT, "too long" }, { internal, 1, PF_LIMIT, "too long" } };
    refuse(&f, refusals, 2);
    assert_int_equal(f.a.n_refusals, 2);
    assert_int_equal(f.peer.n_closes, 1);
    assert_int_equal(f.peer.closes[0].sequence, internal);
    pf_dispatch_end_stream(f.dispatch, &f.a);
    assert_int_equal(f.peer.n_closes, 1);
    pf_dispatch_destroy(f.dispatch);
}

/* Its owner could not know of the refusal yet, and is answered for what it said last. */
static void a_refusal_ends_no_later_incarnation(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    const uint64_t internal = f.peer.opens[0].sequence;
    pf_open again = { .sequence = 1, .incarnation = 2 };
    say(&f, &f.a, &(pf_batch){ .opens = &again, .n_opens = 1 });
    pf_refusal refusal = { internal, 1, PF_LIMIT, "too long" };
    refuse(&f, &refusal, 1);
    assert_int_equal(f.a.n_refusals, 1);
    assert_int_equal(f.peer.n_closes, 0);
    assert_int_equal(pf_dispatch_open_sequences(f.dispatch), 1);

    const pf_refusal stale = { 1, 1, PF_INVALID, "verdicts[0].n_accepted is -1" };
    pf_error error;
    assert_ok(pf_dispatch_submit(f.dispatch, &f.a, &(pf_batch){ .n_opens = 0 },
                                 &(pf_rejected){ .refusals = &stale, .n = 1 }, 0, &error),
              error);
    assert_int_equal(f.a.n_refusals, 2);
    assert_int_equal(f.peer.n_closes, 0);
    pf_dispatch_destroy(f.dispatch);
}

/* An owner sends a worker the open and the verdict of its prompt together. */
static void a_refused_sequence_is_not_asked_for(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1);
    say_open(&f, &f.b, 1);
    pf_open open = { .sequence = 4, .incarnation = 1 };
    pf_verdict verdict = { .sequence = 4, .incarnation = 1 };
    say(&f, &f.a, &(pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(f.a.n_refusals, 1);
    assert_int_equal(f.a.n_prefix_requests, 0);
    pf_dispatch_destroy(f.dispatch);
}

static void a_stream_cannot_name_a_sequence_of_another(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    pf_verdict verdicts[] = { { .sequence = 1, .incarnation = 1 },
                              { .sequence = f.peer.opens[0].sequence, .incarnation = 1 } };
    say(&f, &f.b, &(pf_batch){ .verdicts = verdicts, .n_verdicts = 2 });
    say_close(&f, &f.b, 1);
    assert_int_equal(f.peer.n_verdicts, 0);
    assert_int_equal(f.peer.n_closes, 0);
    assert_int_equal(f.b.n_prefix_requests, 2);
    pf_dispatch_end_stream(f.dispatch, &f.b);
    assert_int_equal(f.peer.n_closes, 0);
    pf_dispatch_end_stream(f.dispatch, &f.a);
    assert_int_equal(f.peer.n_closes, 1);
    assert_int_equal(f.peer.closes[0].sequence, f.peer.opens[0].sequence);
    pf_dispatch_destroy(f.dispatch);
}

static bool is_last(void *user)
{
    return --((fixture *)user)->looks_left == 0;
}

static void a_collect_that_stops_early_leaves_the_rest_for_a_later_one(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    f.peer.n_busy = 5;
    f.looks_left = 3;
    pf_error error;
    assert_ok(pf_dispatch_collect(f.dispatch, is_last, &error), error);
    assert_int_equal(f.peer.n_busy, 2);
    assert_int_equal(f.a.n_batches, 0); /* nothing that a stream is to hear */
    collect(&f);                        /* without another submit */
    assert_int_equal(f.peer.n_busy, 0);
    /* Behind an answer that a stream receives it is asked too: many prompts give one after the other. */
    say_open(&f, &f.a, 2);
    pf_proposal proposal = { .sequence = f.peer.opens[1].sequence, .round = 1 };
    f.peer.answer = (pf_batch){ .proposals = &proposal, .n_proposals = 1 };
    f.peer.has_answer = true;
    f.looks_left = 1;
    assert_ok(pf_dispatch_collect(f.dispatch, is_last, &error), error);
    assert_int_equal(f.a.n_proposals, 1);
    assert_true(pf_dispatch_is_behind(f.dispatch));
    collect(&f);
    assert_false(pf_dispatch_is_behind(f.dispatch));
    f.peer.n_busy = 1;
    collect(&f); /* and then nothing is due */
    assert_int_equal(f.peer.n_busy, 1);
    pf_dispatch_destroy(f.dispatch);
}

static void a_peer_has_no_more_to_answer_than_its_answer_holds(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    static pf_open opens[PF_MAX_BATCH_SEQUENCES];
    for (uint32_t i = 0; i < PF_MAX_BATCH_SEQUENCES; i++) opens[i] = (pf_open){ .sequence = 1, .incarnation = i + 1 };
    const int32_t n_opens[] = { 200, 56, 1, 256, 1, 200, 57 };
    int32_t n = 0;
    for (size_t i = 0; i < sizeof n_opens / sizeof *n_opens; i++) {
        for (int32_t k = 0; k < n_opens[i]; k++) opens[k].sequence = 1; /* what was said is rewritten */
        say(&f, i % 2 ? &f.a : &f.b, &(pf_batch){ .opens = opens, .n_opens = n_opens[i] });
        n += n_opens[i];
        assert_int_equal(f.peer.n_opens, n);
    }
    assert_int_equal(f.peer.most_entries, PF_MAX_BATCH_SEQUENCES);
    pf_dispatch_destroy(f.dispatch);
}

static void say_verdict(fixture *f, mailbox *stream, uint64_t sequence)
{
    pf_verdict verdict = { .sequence = sequence, .incarnation = 1 };
    say(f, stream, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
}

/* The peer proposes for the i-th sequence that it was told of, and has nothing more to say. */
static void answer(fixture *f, int i)
{
    pf_proposal proposal = { .sequence = f->peer.opens[i].sequence };
    f->peer.answer = (pf_batch){ .proposals = &proposal, .n_proposals = 1 };
    f->peer.has_answer = true;
    collect(f);
}

static void an_idle_sequence_is_evicted(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 2);
    say_open(&f, &f.a, 1);
    say_open(&f, &f.a, 2);
    collect(&f);
    say_open(&f, &f.b, 1); /* neither has been silent for long */
    assert_int_equal(f.b.n_refusals, 1);
    pf_wait_until(pf_now_ns() + SILENCE_NS);
    say_verdict(&f, &f.a, 1);
    collect(&f); /* and the peer answers nothing */
    say_open(&f, &f.b, 1);
    assert_int_equal(f.b.n_refusals, 1);
    assert_int_equal(f.peer.n_closes, 1);
    assert_int_equal(f.peer.closes[0].sequence, f.peer.opens[1].sequence);
    say_verdict(&f, &f.a, 2); /* the stream that lost it is told to open it again */
    assert_int_equal(f.a.n_prefix_requests, 1);
    assert_int_equal(f.a.prefix_requests[0].sequence, 2);
    pf_dispatch_destroy(f.dispatch);
}

static void a_sequence_that_waits_for_its_answer_is_not_evicted(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 1);
    say_open(&f, &f.a, 1);
    say_verdict(&f, &f.a, 1);
    pf_wait_until(pf_now_ns() + SILENCE_NS);
    say_open(&f, &f.b, 1);
    assert_int_equal(f.b.n_refusals, 1);
    answer(&f, 0);
    say_open(&f, &f.b, 1); /* it has only just had it */
    assert_int_equal(f.b.n_refusals, 2);
    pf_wait_until(pf_now_ns() + SILENCE_NS);
    say_open(&f, &f.b, 1);
    assert_int_equal(f.b.n_refusals, 2);
    pf_dispatch_destroy(f.dispatch);
}

/* A peer that is never done, with others' prompts. */
static void an_idle_sequence_is_evicted_while_others_wait_for_answers(void **state)
{
    (void)state;
    fixture f;
    pf_error error;
    begin(&f, 2);
    f.peer.head.ops = &TELLING;
    f.peer.n_busy = INT32_MAX;
    say_open(&f, &f.a, 1);
    say_open(&f, &f.b, 1);
    f.peer.owed = f.peer.opens[0].sequence;
    f.looks_left = 1;
    assert_ok(pf_dispatch_collect(f.dispatch, is_last, &error), error);
    assert_true(pf_dispatch_is_behind(f.dispatch));
    assert_true(pf_dispatch_owes(f.dispatch, &f.a));
    assert_false(pf_dispatch_owes(f.dispatch, &f.b));
    pf_wait_until(pf_now_ns() + SILENCE_NS);
    say_open(&f, &f.b, 2);
    assert_int_equal(f.b.n_refusals, 0);
    assert_int_equal(f.peer.n_closes, 1);
    assert_int_equal(f.peer.closes[0].sequence, f.peer.opens[1].sequence);
    f.peer.n_busy = 0;
    collect(&f);
    assert_false(pf_dispatch_owes(f.dispatch, &f.a));
    pf_dispatch_destroy(f.dispatch);
}

static void the_peer_is_not_asked_of_idle_sequences(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    f.peer.head.ops = &TELLING;
    for (uint64_t i = 1; i <= MAX; i++) say_open(&f, &f.a, i);
    collect(&f);
    assert_false(pf_dispatch_owes(f.dispatch, &f.a));
    assert_true(pf_dispatch_has_sequences(f.dispatch, &f.a));
    pf_verdict verdict = { .sequence = 3, .incarnation = 1, .tokens = &(int32_t){ 5 }, .n_tokens = 1 };
    say(&f, &f.a, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    n_owes_asked = 0;
    assert_false(pf_dispatch_owes(f.dispatch, &f.a)); /* the peer says that it owes nothing */
    assert_int_equal(n_owes_asked, 1);
    collect(&f);
    assert_false(pf_dispatch_owes(f.dispatch, &f.a));
    for (uint64_t i = 1; i <= MAX; i++) say_close(&f, &f.a, i);
    assert_false(pf_dispatch_has_sequences(f.dispatch, &f.a));
    pf_dispatch_destroy(f.dispatch);
}

static void an_invalid_answer_is_refused_and_closed_at_the_peer(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    say_open(&f, &f.a, 2);
    say_open(&f, &f.b, 1);
    const pf_refusal refusals[] = { { 1, 3, PF_INVALID, "verdicts[0].n_accepted is -1" },
                                    { 7, 1, PF_UNSUPPORTED, "no penalties" } };
    const pf_rejected rejected = { .refusals = refusals, .n = 2, .n_verdicts = 1 };
    pf_verdict verdict = { .sequence = 2, .incarnation = 1 };
    pf_error error;
    assert_ok(pf_dispatch_submit(f.dispatch, &f.a, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }, &rejected, 0,
                                 &error),
              error);
    assert_int_equal(f.a.n_refusals, 2);
    assert_int_equal(f.a.refusals[0].sequence, 1);
    assert_int_equal(f.a.refusals[0].incarnation, 3);
    assert_int_equal(f.a.refusals[1].sequence, 7);
    assert_int_equal(f.a.refusals[1].status, PF_UNSUPPORTED);
    assert_int_equal(f.b.n_refusals, 0);
    assert_int_equal(f.peer.n_closes, 1);
    assert_int_equal(f.peer.closes[0].sequence, f.peer.opens[0].sequence);
    assert_int_equal(f.peer.n_verdicts, 1); /* another sequence of the stream goes on */
    assert_int_equal(pf_dispatch_open_sequences(f.dispatch), 2);

    /* A proposal does not go to a drafter, whatever else is wrong with it. */
    const pf_rejected astray = { .refusals = refusals, .n = 1, .n_proposals = 1 };
    assert_status(pf_dispatch_submit(f.dispatch, &f.a, &(pf_batch){ .n_opens = 0 }, &astray, 0, &error), PF_FORMAT);
    assert_int_equal(f.a.n_refusals, 2);
    pf_dispatch_destroy(f.dispatch);
}

static void a_peer_that_fails_is_reported(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MAX);
    say_open(&f, &f.a, 1);
    f.peer.collect_status = PF_INTERNAL;
    pf_error error;
    assert_status(pf_dispatch_collect(f.dispatch, NULL, &error), PF_INTERNAL);
    f.peer.submit_status = PF_LIMIT;
    pf_open open = { .sequence = 2, .incarnation = 1 };
    assert_status(pf_dispatch_submit(f.dispatch, &f.a, &(pf_batch){ .opens = &open, .n_opens = 1 }, NULL, 0, &error),
                  PF_LIMIT);
    pf_dispatch_destroy(f.dispatch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_answer_for_two_streams_is_split),
        cmocka_unit_test(an_answer_for_the_previous_sequence_of_a_slot_is_dropped),
        cmocka_unit_test(a_full_table_refuses_and_a_close_in_the_same_batch_makes_room),
        cmocka_unit_test(an_open_that_cannot_be_served_takes_no_slot),
        cmocka_unit_test(opens_that_cannot_be_served_block_no_other_stream),
        cmocka_unit_test(a_refused_sequence_is_closed_and_others_stay),
        cmocka_unit_test(a_sequence_that_is_opened_again_before_its_refusal_is_closed_at_the_peer),
        cmocka_unit_test(a_refusal_ends_no_later_incarnation),
        cmocka_unit_test(a_refused_sequence_is_not_asked_for),
        cmocka_unit_test(a_stream_cannot_name_a_sequence_of_another),
        cmocka_unit_test(a_collect_that_stops_early_leaves_the_rest_for_a_later_one),
        cmocka_unit_test(a_peer_has_no_more_to_answer_than_its_answer_holds),
        cmocka_unit_test(an_idle_sequence_is_evicted),
        cmocka_unit_test(a_sequence_that_waits_for_its_answer_is_not_evicted),
        cmocka_unit_test(an_idle_sequence_is_evicted_while_others_wait_for_answers),
        cmocka_unit_test(the_peer_is_not_asked_of_idle_sequences),
        cmocka_unit_test(an_invalid_answer_is_refused_and_closed_at_the_peer),
        cmocka_unit_test(a_peer_that_fails_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
