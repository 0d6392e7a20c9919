/* The host with a role that computes nothing and writes down what it is asked for. */
#include "host/sequence_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/alloc_count.h"
#include "tests/support/near_peer.h"
#include "tests/support/test.h"

enum { CHUNK = 10, MAX_SEQUENCES = 4, MANY = 1000, N_VOCAB = 128 };

/* A drafter whose prompts are longer than CHUNK tokens have to be read in chunks, and whose proposals are one token. */
typedef struct {
    pf_host host;
    int32_t n_read[MANY];
    bool refuses_to_acquire;
    int32_t room; /* sequences that add() takes before run() */
    int32_t n_added;
} fake;

static char calls[256];
static bool is_silent;

static void note(char what, int32_t slot)
{
    const size_t n = strlen(calls);
    if (is_silent) return;
    assert_true(n + 3 < sizeof calls);
    snprintf(calls + n, sizeof calls - n, "%c%d", what, slot);
}

static pf_status acquire(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    (void)open;
    if (((fake *)host)->refuses_to_acquire) return PF_LIMIT;
    note('a', s->slot);
    ((fake *)host)->n_read[s->slot] = 0;
    return PF_OK;
}

static void release(pf_host *host, pf_host_sequence *s)
{
    (void)host;
    note('r', s->slot);
}

static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    const int32_t unread = s->n_committed - ((const fake *)host)->n_read[s->slot];
    if (!s->is_due) return PF_HOST_IDLE;
    *n_tokens = CHUNK;
    return unread > CHUNK ? PF_HOST_CHUNK : unread > 1 ? PF_HOST_END : PF_HOST_READY;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    fake *f = (fake *)host;
    if (f->room > 0 && f->n_added == f->room) return false;
    f->n_added++;
    note('p', s->slot);
    f->n_read[s->slot] = s->n_committed;
    pf_proposal proposal;
    pf_host_begin_proposal(host, s, &proposal);
    proposal.tokens = s->tokens;
    proposal.n_tokens = 1;
    pf_host_propose(host, s, &proposal);
    return true;
}

static void run(pf_host *host)
{
    if (((fake *)host)->n_added > 0) note('!', ((fake *)host)->n_added);
    ((fake *)host)->n_added = 0;
}

static void feed(pf_host *host, pf_host_sequence *s, int32_t n_tokens)
{
    note('f', s->slot);
    ((fake *)host)->n_read[s->slot] += n_tokens;
    if (host->config.stop.clock_ns) *host->config.stop.clock_ns += 10;
}

static const pf_host_role role = { .name = "fake",
                                   .model = "fake",
                                   .acquire = acquire,
                                   .release = release,
                                   .turn = turn,
                                   .add = add,
                                   .run = run,
                                   .feed = feed };

static fake *make_fake(pf_host_config config, pf_peer **peer)
{
    fake *f = calloc(1, sizeof *f);
    pf_error error = { 0 };
    assert_non_null(f);
    *calls = '\0';
    if (config.max_sequences == 0) config.max_sequences = MAX_SEQUENCES;
    config.max_draft = 4;
    config.max_tokens = N_VOCAB;
    config.n_vocab = N_VOCAB;
    assert_ok(pf_host_create(&f->host, &role, &config, peer, &error), error);
    return f;
}

/* Open these sequences and ask for a proposal of each. n_prompts: of their tokens. */
static void ask_of(pf_peer *peer, const uint64_t *sequences, const int32_t *n_prompts, int32_t n)
{
    static const int32_t prompt[N_VOCAB];
    pf_open opens[MAX_SEQUENCES];
    pf_verdict verdicts[MAX_SEQUENCES];
    for (int32_t i = 0; i < n; i++) {
        opens[i] = near_peer_open(sequences[i]);
        opens[i].tokens = prompt;
        opens[i].n_tokens = n_prompts[i] - 1;
        verdicts[i] = (pf_verdict){
            .sequence = sequences[i], .incarnation = 1, .base = n_prompts[i] - 1, .tokens = prompt, .n_tokens = 1
        };
    }
    const pf_batch batch = { .opens = opens, .n_opens = n, .verdicts = verdicts, .n_verdicts = n };
    assert_status(pf_peer_submit(peer, &batch), PF_OK);
}

static const pf_batch *collect(pf_peer *peer)
{
    const pf_batch *answer;
    pf_error error = { 0 };
    const pf_status status = pf_peer_collect(peer, UINT64_MAX, &answer, &error);
    if (status == PF_CANCELLED) return NULL;
    assert_ok(status, error);
    return answer;
}

static void prompts_are_read_a_chunk_each_in_turn(void **state)
{
    (void)state;
    pf_peer *peer;
    (void)make_fake((pf_host_config){ 0 }, &peer);
    ask_of(peer, (uint64_t[]){ 1, 2 }, (int32_t[]){ 31, 31 }, 2);
    assert_int_equal(collect(peer)->n_proposals, 1);
    assert_string_equal(calls, "a0a1f0f1f0f1f0p0!1");
    assert_int_equal(collect(peer)->n_proposals, 1);
    pf_peer_destroy(peer);
}

static void a_ready_sequence_goes_before_a_prompt_but_only_once_in_a_row(void **state)
{
    (void)state;
    pf_peer *peer;
    (void)make_fake((pf_host_config){ 0 }, &peer);
    ask_of(peer, (uint64_t[]){ 1, 2 }, (int32_t[]){ 101, 1 }, 2);
    const int32_t token = 5;
    for (uint64_t round = 1; round <= 3; round++) {
        assert_int_equal(collect(peer)->proposals[0].sequence, 2);
        pf_verdict verdict = {
            .sequence = 2, .incarnation = 1, .round = round, .base = (int32_t)round, .tokens = &token, .n_tokens = 1
        };
        assert_status(pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    }
    assert_string_equal(calls, "a0a1p1!1f0p1!1p1!1");
    pf_peer_destroy(peer);
}

static void what_prompts_take_of_an_answers_time_is_known(void **state)
{
    (void)state;
    pf_peer *peer;
    uint64_t clock_ns = 1000;
    const int32_t token = 5;
    (void)make_fake((pf_host_config){ .stop = { .clock_ns = &clock_ns } }, &peer);
    ask_of(peer, (uint64_t[]){ 1, 2 }, (int32_t[]){ 101, 1 }, 2);
    (void)collect(peer);
    assert_true(pf_host_read_ns(peer) == 0);
    pf_verdict verdict = { .sequence = 2, .incarnation = 1, .round = 1, .base = 1, .tokens = &token, .n_tokens = 1 };
    assert_status(pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    assert_int_equal(collect(peer)->timing.compute_ns, 10);
    assert_string_equal(calls, "a0a1p1!1f0p1!1");
    assert_true(pf_host_read_ns(peer) == 10);
    pf_peer_destroy(peer);
}

static void ends_of_prompts_share_a_pass_with_as_many_as_fit(void **state)
{
    (void)state;
    pf_peer *peer;
    fake *f = make_fake((pf_host_config){ 0 }, &peer);
    f->room = 2;
    ask_of(peer, (uint64_t[]){ 1, 2, 3 }, (int32_t[]){ 5, 5, 5 }, 3);
    assert_int_equal(collect(peer)->n_proposals, 2);
    assert_int_equal(collect(peer)->n_proposals, 1);
    assert_string_equal(calls, "a0a1a2p0p1!2p2!1");
    pf_peer_destroy(peer);
}

static void ready_sequences_that_do_not_fit_run_in_parts_and_are_answered_together(void **state)
{
    (void)state;
    pf_peer *peer;
    fake *f = make_fake((pf_host_config){ 0 }, &peer);
    f->room = 2;
    ask_of(peer, (uint64_t[]){ 1, 2, 3 }, (int32_t[]){ 1, 1, 1 }, 3);
    assert_int_equal(collect(peer)->n_proposals, 3);
    assert_string_equal(calls, "a0a1a2p0p1!2p2!1");
    assert_null(collect(peer));
    pf_peer_destroy(peer);
}

static void past_the_deadline_an_empty_answer_comes_back_and_the_next_call_goes_on(void **state)
{
    (void)state;
    pf_peer *peer;
    uint64_t clock_ns = 1000;
    (void)make_fake((pf_host_config){ .stop.clock_ns = &clock_ns }, &peer);
    ask_of(peer, (uint64_t[]){ 1 }, (int32_t[]){ 41 }, 1);
    const pf_batch *answer;
    pf_error error = { 0 };
    assert_ok(pf_peer_collect(peer, 1015, &answer, &error), error);
    assert_int_equal(answer->n_proposals, 0);
    assert_int_equal(answer->timing.compute_ns, 20);
    assert_string_equal(calls, "a0f0f0");
    assert_true(pf_peer_owes(peer, 1));
    assert_int_equal(pf_peer_backlog(peer), -1); /* this role does not say */
    assert_int_equal(collect(peer)->n_proposals, 1);
    assert_false(pf_peer_owes(peer, 1));
    pf_peer_destroy(peer);
}

static void an_answer_takes_the_time_that_is_asked_for(void **state)
{
    (void)state;
    pf_peer *peer;
    uint64_t clock_ns = 1000;
    (void)make_fake((pf_host_config){ .stop.clock_ns = &clock_ns, .least_answer_ns = 500 }, &peer);
    ask_of(peer, (uint64_t[]){ 1 }, (int32_t[]){ 1 }, 1);
    assert_int_equal(collect(peer)->timing.compute_ns, 500);
    assert_int_equal(clock_ns, 1500);
    pf_peer_destroy(peer);
}

static void what_was_acquired_is_released_once_and_what_was_not_never(void **state)
{
    (void)state;
    pf_peer *peer;
    fake *f = make_fake((pf_host_config){ 0 }, &peer);
    ask_of(peer, (uint64_t[]){ 1, 2 }, (int32_t[]){ 1, 1 }, 2);
    assert_int_equal(collect(peer)->n_proposals, 2);
    *calls = '\0';
    f->refuses_to_acquire = true;
    ask_of(peer, (uint64_t[]){ 3 }, (int32_t[]){ 1 }, 1);
    const pf_batch *answer = collect(peer);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].status, PF_LIMIT);
    assert_string_equal(calls, "");
    pf_close close = { 1 };
    assert_status(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    assert_status(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    assert_string_equal(calls, "r0");
    pf_peer_destroy(peer); /* sequence 2 is open */
    assert_string_equal(calls, "r0r1");
}

static void a_verdict_past_the_context_leaves_the_sequence_full(void **state)
{
    (void)state;
    pf_peer *peer;
    fake *f = make_fake((pf_host_config){ 0 }, &peer);
    ask_of(peer, (uint64_t[]){ 1 }, (int32_t[]){ N_VOCAB - 1 }, 1);
    assert_int_equal(collect(peer)->n_proposals, 1);
    const pf_host_sequence *s = &f->host.sequences[0];
    assert_int_equal(pf_host_draft_room(&f->host, s), 2); /* the last one is not fed */
    const int32_t tokens[2] = { 0 };
    pf_verdict verdict = {
        .sequence = 1, .incarnation = 1, .round = 1, .base = N_VOCAB - 1, .tokens = tokens, .n_tokens = 2
    };
    assert_status(pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    assert_true(s->is_full);
    assert_int_equal(s->n_committed, N_VOCAB - 1);
    assert_int_equal(pf_host_draft_room(&f->host, s), 0);
    pf_peer_destroy(peer);
}

static void limits_out_of_range_are_named_and_nothing_is_left_behind(void **state)
{
    (void)state;
    const struct {
        pf_host_config config;
        const char *says;
    } cases[] = {
        { { .max_sequences = 0, .max_draft = 1, .max_tokens = 1 }, "max_sequences is 0" },
        { { .max_sequences = PF_MAX_OPEN_SEQUENCES + 1, .max_draft = 1, .max_tokens = 1 }, "max_sequences is 4097" },
        { { .max_sequences = 1, .max_draft = 0, .max_tokens = 1 }, "max_draft is 0" },
        { { .max_sequences = 1, .max_draft = 65, .max_tokens = 1 }, "max_draft is 65" },
        { { .max_sequences = 1, .max_draft = 1, .max_tokens = 0 }, "max_tokens is 0" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_peer *peer = NULL;
        pf_error error = { 0 };
        fake *f = calloc(1, sizeof *f);
        assert_status(pf_host_create(&f->host, &role, &cases[i].config, &peer, &error), PF_INVALID);
        assert_non_null(strstr(error.text, cases[i].says));
        assert_null(peer);
    }
}

/* Opens sequences 1 to MANY with a verdict each; collects the answers as they come, or none. */
static void open_many(pf_peer *peer, bool collects)
{
    for (uint64_t first = 1; first <= MANY; first += MAX_SEQUENCES) {
        static const int32_t prompts[MAX_SEQUENCES] = { 1, 1, 1, 1 };
        uint64_t sequences[MAX_SEQUENCES];
        for (uint64_t i = 0; i < MAX_SEQUENCES; i++) sequences[i] = first + i;
        ask_of(peer, sequences, prompts, MAX_SEQUENCES);
        if (collects) assert_int_equal(collect(peer)->n_proposals, MAX_SEQUENCES);
    }
}

/* How often the role is asked for its turn in a round of one sequence. */
static uint64_t turns_of_a_round(fake *f, pf_peer *peer, uint64_t sequence, uint64_t round)
{
    const int32_t token = 5;
    const uint64_t before = f->host.n_turns;
    pf_verdict verdict = {
        .sequence = sequence, .incarnation = 1, .round = round, .base = (int32_t)round, .tokens = &token, .n_tokens = 1
    };
    assert_status(pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    assert_int_equal(collect(peer)->proposals[0].sequence, sequence);
    assert_null(collect(peer));
    pf_invalid_logits invalid;
    pf_peer_take_invalid_logits(peer, &invalid);
    assert_false(pf_peer_work_ahead(peer));
    return f->host.n_turns - before;
}

static void idle_sequences_are_not_looked_at(void **state)
{
    (void)state;
    is_silent = true;
    pf_peer *few, *many;
    fake *f = make_fake((pf_host_config){ 0 }, &few), *m = make_fake((pf_host_config){ .max_sequences = MANY }, &many);
    ask_of(few, (uint64_t[]){ 1 }, (int32_t[]){ 1 }, 1);
    assert_int_equal(collect(few)->n_proposals, 1);
    open_many(many, true);
    (void)turns_of_a_round(f, few, 1, 1);
    (void)turns_of_a_round(m, many, 1, 1);
    const uint64_t alone = turns_of_a_round(f, few, 1, 2);
    assert_true(alone > 0 && alone < 8);
    assert_int_equal(turns_of_a_round(m, many, 1, 2), alone);
    assert_int_equal(turns_of_a_round(m, many, 900, 1), alone);
    pf_peer_destroy(few);
    pf_peer_destroy(many);
    is_silent = false;
}

static void more_sequences_than_an_answer_takes_are_answered_in_turn(void **state)
{
    (void)state;
    is_silent = true;
    pf_peer *peer;
    (void)make_fake((pf_host_config){ .max_sequences = MANY }, &peer);
    open_many(peer, false);
    uint64_t next = 1;
    for (const pf_batch *answer; (answer = collect(peer)) != NULL;) {
        assert_true(answer->n_proposals <= PF_MAX_BATCH_SEQUENCES);
        for (int32_t i = 0; i < answer->n_proposals; i++) assert_int_equal(answer->proposals[i].sequence, next++);
    }
    assert_int_equal(next, MANY + 1);
    pf_peer_destroy(peer);
    is_silent = false;
}

static void a_round_allocates_nothing(void **state)
{
    (void)state;
    pf_peer *peer;
    (void)make_fake((pf_host_config){ 0 }, &peer);
    assert_true(pf_alloc_count() > 0); /* the counter counts */
    pf_alloc_count_reset();
    ask_of(peer, (uint64_t[]){ 1, 2 }, (int32_t[]){ 31, 1 }, 2);
    assert_int_equal(collect(peer)->n_proposals, 1);
    assert_int_equal(collect(peer)->n_proposals, 1);
    assert_int_equal(pf_alloc_count(), 0);
    pf_peer_destroy(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_read_a_chunk_each_in_turn),
        cmocka_unit_test(a_ready_sequence_goes_before_a_prompt_but_only_once_in_a_row),
        cmocka_unit_test(what_prompts_take_of_an_answers_time_is_known),
        cmocka_unit_test(ends_of_prompts_share_a_pass_with_as_many_as_fit),
        cmocka_unit_test(ready_sequences_that_do_not_fit_run_in_parts_and_are_answered_together),
        cmocka_unit_test(past_the_deadline_an_empty_answer_comes_back_and_the_next_call_goes_on),
        cmocka_unit_test(an_answer_takes_the_time_that_is_asked_for),
        cmocka_unit_test(what_was_acquired_is_released_once_and_what_was_not_never),
        cmocka_unit_test(a_verdict_past_the_context_leaves_the_sequence_full),
        cmocka_unit_test(limits_out_of_range_are_named_and_nothing_is_left_behind),
        cmocka_unit_test(idle_sequences_are_not_looked_at),
        cmocka_unit_test(more_sequences_than_an_answer_takes_are_answered_in_turn),
        cmocka_unit_test(a_round_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
