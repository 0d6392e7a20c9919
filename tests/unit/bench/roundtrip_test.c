/* Round trips with a worker that is not honest: proposals that none may make are failures, times that none can have taken are
 * bounded. */
#include "base/clock.h"
#include "bench/roundtrip.h"
#include "tests/support/test.h"

#include <math.h>

enum { VOCAB = 100, DRAFT_LEN = 2 };

/* Answers each verdict with a message without proposals, and then one with the same tokens. One sequence at a time. */
typedef struct {
    pf_peer head;
    int32_t tokens[PF_MAX_DRAFT_TOKENS];
    uint64_t boasts_ns; /* what it says it computed for each message */
    bool is_ready;
    bool is_terse;                     /* no message without proposals: each round is one message, however slow it is */
    bool repeats;                      /* each proposal is in its message twice */
    bool is_mute;                      /* once it has answered to the prompt */
    uint64_t wait_ns;                  /* of the bench with it; 0: as it has */
    uint64_t prompt_ns, busy_until_ns; /* how long it reads that */
    pf_proposal proposals[2];
    pf_batch answer;
} worker;

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    worker *w = (worker *)peer;
    if (batch->n_verdicts == 0) return PF_OK;
    w->busy_until_ns = batch->n_opens > 0 ? pf_now_ns() + w->prompt_ns : w->is_mute ? UINT64_MAX : 0;
    const pf_verdict *v = &batch->verdicts[0];
    w->proposals[0].sequence = v->sequence;
    w->proposals[0].round = v->round + 1;
    w->proposals[1] = w->proposals[0];
    return PF_OK;
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)error;
    worker *w = (worker *)peer;
    if (w->busy_until_ns > deadline_ns) {
        pf_wait_until(deadline_ns);
        return PF_CANCELLED;
    }
    w->answer = (pf_batch){ .proposals = w->proposals,
                            .n_proposals = w->is_ready ? 1 + w->repeats : 0,
                            .timing = { .compute_ns = w->boasts_ns } };
    w->is_ready = w->is_terse || !w->is_ready;
    *out = &w->answer;
    return PF_OK;
}

static pf_status info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)peer;
    (void)error;
    *out = (pf_model_info){
        .vocab_size = VOCAB, .max_context = 1000, .max_sequences = 1, .max_draft = DRAFT_LEN, .max_declared = 1
    };
    return PF_OK;
}

static const pf_peer_ops OPS = { .submit = submit, .collect = collect, .info = info };

static pf_status run(worker *w, pf_roundtrip *out, pf_error *error)
{
    const pf_roundtrip_plan plan = {
        .n_rounds = 20, .n_sequences = 1, .draft_len = DRAFT_LEN, .context = 100, .wait_ns = w->wait_ns
    };
    const pf_roundtrip_watch no_watch = { 0 };
    const pf_status status = pf_bench_roundtrip(&w->head, &plan, &no_watch, out, error);
    assert_int_equal(out->n_rounds, status == PF_OK ? plan.n_rounds : 0);
    return status;
}

static pf_status measure(int32_t n_tokens, int32_t last_token, pf_error *error)
{
    worker w = { .head.ops = &OPS };
    w.tokens[n_tokens - 1] = last_token;
    w.proposals[0] = (pf_proposal){ .incarnation = 1, .tokens = w.tokens, .n_tokens = n_tokens };
    pf_roundtrip out = { 0 };
    return run(&w, &out, error);
}

static void what_was_asked_for_is_measured(void **state)
{
    (void)state;
    pf_error error = { 0 };
    for (int32_t n_tokens = 1; n_tokens <= DRAFT_LEN; n_tokens++)
        assert_ok(measure(n_tokens, VOCAB - 1, &error), error);
}

static void an_impossible_compute_time_is_not_added_up(void **state)
{
    (void)state;
    worker w = { .head.ops = &OPS, .boasts_ns = (uint64_t)1 << 63 }; /* twice that is 0 */
    w.proposals[0] = (pf_proposal){ .incarnation = 1, .tokens = w.tokens, .n_tokens = 1 };
    pf_roundtrip out = { 0 };
    pf_error error = { 0 };
    assert_ok(run(&w, &out, &error), error);
    assert_true(out.compute_p50_us > 0.0 && out.compute_p50_us <= out.round_p50_us);
}

static void a_proposal_that_comes_twice_is_one(void **state)
{
    (void)state;
    worker w = { .head.ops = &OPS, .repeats = true };
    w.proposals[0] = (pf_proposal){ .incarnation = 1, .tokens = w.tokens, .n_tokens = DRAFT_LEN };
    pf_roundtrip out = { 0 };
    pf_error error = { 0 };
    assert_ok(run(&w, &out, &error), error);
    assert_true(fabs(out.tokens_per_s / out.per_s - DRAFT_LEN) < 1e-9);
}

static void a_worker_is_waited_for_while_it_reads_a_prompt_and_given_up_where_it_says_nothing(void **state)
{
    (void)state;
    for (int is_mute = 0; is_mute <= 1; is_mute++) {
        worker w = { .head.ops = &OPS,
                     .is_ready = true,
                     .is_terse = true,
                     .is_mute = is_mute > 0,
                     .wait_ns = 50 * 1000 * 1000,
                     .prompt_ns = 400 * 1000 * 1000 };
        w.proposals[0] = (pf_proposal){ .incarnation = 1, .tokens = w.tokens, .n_tokens = DRAFT_LEN };
        pf_roundtrip out = { 0 };
        pf_error error = { 0 };
        assert_status(run(&w, &out, &error), is_mute ? PF_UNAVAILABLE : PF_OK);
        if (is_mute) assert_says(error, "the worker has not answered for 0.05 s");
    }
}

static void a_token_out_of_the_vocabulary_is_a_failure_that_names_it(void **state)
{
    (void)state;
    pf_error error = { 0 };
    const int32_t unknown[] = { VOCAB, -1, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < PF_COUNT(unknown); i++) {
        char named[64];
        snprintf(named, sizeof named, "proposes token %d, its vocabulary has 100", unknown[i]);
        assert_status(measure(DRAFT_LEN, unknown[i], &error), PF_FORMAT);
        assert_says(error, named);
    }
}

static void more_tokens_than_were_asked_for_are_a_failure(void **state)
{
    (void)state;
    pf_error error = { 0 };
    assert_status(measure(DRAFT_LEN + 1, 0, &error), PF_FORMAT);
    assert_says(error, "proposes 3 tokens, 2 were asked for at most");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for_is_measured),
        cmocka_unit_test(an_impossible_compute_time_is_not_added_up),
        cmocka_unit_test(a_proposal_that_comes_twice_is_one),
        cmocka_unit_test(a_worker_is_waited_for_while_it_reads_a_prompt_and_given_up_where_it_says_nothing),
        cmocka_unit_test(a_token_out_of_the_vocabulary_is_a_failure_that_names_it),
        cmocka_unit_test(more_tokens_than_were_asked_for_are_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
