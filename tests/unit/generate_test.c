/*
 * The generation loop over tiny random models: the text is the verifier's alone, whatever becomes of the drafter.
 * Peers that are far are played by tests/support/unreliable_peer.h.
 */
#include "engine/pilotfish.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"
#include "tests/support/unreliable_peer.h"

enum { CONTEXT = 160, N_NEW = 60, VOCAB = 128 };
static const int32_t PROMPT[] = { 5, 17, 3, 99, 42 };

/* ---- two engines ------------------------------------------------------------------------------------------------ */

typedef struct {
    pf_engine *target, *draft;
    pf_peer *verifier, *drafter;
    int32_t n_warnings;
    pf_error warning; /* the last: its text */
} pair;

static pf_engine *open_engine(const pf_tiny_model *model, pf_engine *threads_of)
{
    char directory[PF_TINY_PATH];
    pf_error error = { 0 };
    pf_tiny_model_create(model, directory);
    const pf_engine_options options = { .kv_type = PF_N_TYPES,
                                        .isa = pf_cpu_best_isa(),
                                        .n_threads = 2,
                                        .threads_of = threads_of,
                                        .max_context = CONTEXT };
    pf_engine *engine = NULL;
    assert_ok(pf_engine_open(directory, &options, &engine, &error), error);
    pf_tiny_model_remove(directory);
    return engine;
}

/* The draft is the target itself: it is always right, unless a wrapper makes it lie. */
static int open_pair(void **state)
{
    static pair p;
    pf_error error = { 0 };
    p = (pair){ 0 };
    p.target = open_engine(&(pf_tiny_model){ .seed = 1 }, NULL);
    p.draft = open_engine(&(pf_tiny_model){ .seed = 1 }, p.target);
    assert_ok(pf_engine_verifier(p.target, 0, &p.verifier, &error), error);
    assert_ok(pf_engine_drafter(p.draft, 0, &p.drafter, &error), error);
    *state = &p;
    return 0;
}

static int close_pair(void **state)
{
    pair *p = *state;
    pf_peer_destroy(p->drafter);
    pf_peer_destroy(p->verifier);
    pf_engine_close(p->draft);
    pf_engine_close(p->target);
    return 0;
}

static void on_warning(void *user, const char *sentence)
{
    pair *p = user;
    p->n_warnings++;
    pf_error_set(&p->warning, PF_OK, "%s", sentence);
}

static const uint64_t LIMIT_NS = 200000000; /* of a verifier's silence and absence: four looks */

static pf_session *open_session(pair *p, pf_peer *verifier, pf_peer *drafter, bool far)
{
    const pf_session_options options = { .verifier = verifier,
                                         .drafter = drafter,
                                         .drafter_is_far = far && drafter != p->drafter,
                                         .verifier_is_far = far && verifier != p->verifier,
                                         .max_context = CONTEXT,
                                         .verdict_limit_ns = LIMIT_NS,
                                         .return_limit_ns = LIMIT_NS,
                                         .warn = on_warning,
                                         .warn_user = p };
    pf_session *session = NULL;
    pf_error error = { 0 };
    assert_ok(pf_session_create(&options, &session, &error), error);
    return session;
}

typedef struct {
    int32_t tokens[CONTEXT];
    pf_result result;
} text;

static pf_request plain_request(void)
{
    return (pf_request){ .prompt = PROMPT,
                         .n_prompt = PF_COUNT(PROMPT),
                         .max_new_tokens = N_NEW,
                         .sampling = { .top_p = 1.0f, .seed = 77 },
                         .draft_len = 4 };
}

static pf_status run(pf_session *session, const pf_request *request, text *out, pf_error *error)
{
    out->result = (pf_result){ .tokens = out->tokens, .capacity = CONTEXT };
    return pf_generate(session, request, &out->result, error);
}

static void generate(pair *p, pf_peer *verifier, pf_peer *drafter, const pf_request *request, text *out)
{
    pf_error error = { 0 };
    pf_session *session = open_session(p, verifier, drafter, true);
    assert_ok(run(session, request, out, &error), error);
    pf_session_destroy(session);
}

static void assert_same_text(const text *a, const text *b)
{
    assert_int_equal(a->result.n_tokens, b->result.n_tokens);
    assert_memory_equal(a->tokens, b->tokens, (size_t)b->result.n_tokens * sizeof *b->tokens);
    assert_int_equal(a->result.finish, b->result.finish);
}

/* ---- the text --------------------------------------------------------------------------------------------------- */

static void greedy_text_is_the_plain_text_at_every_draft_length(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    int64_t n_accepted = 0, n_refused = 0;
    for (request.draft_len = 0; request.draft_len <= 8; request.draft_len++) { /* 0: the drafter chooses */
        unreliable_peer u = unreliable_peer_of(p->drafter, 7, 6);
        u.only = LIE;
        generate(p, p->verifier, &u.head, &request, &drafted);
        assert_same_text(&drafted, &plain);
        n_accepted += drafted.result.speculation.accepted;
        n_refused += drafted.result.speculation.drafted - drafted.result.speculation.accepted;
    }
    if (n_accepted == 0 || n_refused == 0)
        fail_msg("%lld tokens accepted, %lld refused: nothing was tried", (long long)n_accepted, (long long)n_refused);
}

static void coupled_text_is_the_plain_text_of_its_seed(void **state)
{
    pair *p = *state;
    text plain, drafted;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        pf_request request = plain_request();
        request.sampling = (pf_sampling){ .temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = seed };
        request.method = PF_METHOD_COUPLED;
        generate(p, p->verifier, NULL, &request, &plain);
        generate(p, p->verifier, p->drafter, &request, &drafted);
        assert_same_text(&drafted, &plain);
    }
}

static void a_drafter_that_loses_answers_lies_and_vanishes_changes_no_token(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    int32_t n_reopened = 0, n_fallback = 0, n_rounds = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        unreliable_peer u = unreliable_peer_of(p->drafter, seed, 1 + (int32_t)(seed % 12));
        u.only = (mood)(seed % N_MOODS);
        request.draft_len = 1 + (int32_t)(seed % 8);
        generate(p, p->verifier, &u.head, &request, &drafted);
        assert_same_text(&drafted, &plain);
        n_reopened += u.n_reopened;
        n_fallback += (int32_t)drafted.result.speculation.fallback_rounds;
        n_rounds += (int32_t)drafted.result.speculation.rounds;
    }
    if (n_reopened == 0 || n_fallback == 0 || n_rounds == 0)
        fail_msg("%d reopenings, %d rounds without a proposal, %d with one: nothing was tried", n_reopened, n_fallback,
                 n_rounds);
}

static void a_verifier_that_vanishes_and_returns_changes_no_token(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    for (int32_t at = 1; at <= 12; at++) {
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
        u.vanish_at = at;
        generate(p, &u.head, p->drafter, &request, &drafted);
        assert_same_text(&drafted, &plain);
        assert_int_equal(u.n_reopened, 1);
    }
}

static void a_drafter_that_is_never_there_is_plain_decoding_and_one_warning(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0);
    u.gone_for = INT32_MAX;
    p->n_warnings = 0;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &plain);
    assert_int_equal(drafted.result.speculation.rounds, 0);
    assert_int_equal(drafted.result.speculation.fallback_rounds, N_NEW - 1);
    assert_int_equal(p->n_warnings, 1);
}

static void a_drafter_that_is_gone_is_warned_of_with_the_reason_once_for_each_kind(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0);
    pf_session *session = open_session(p, p->verifier, &u.head, true);
    const struct {
        pf_status status;
        const char *reason, *warning;
        int32_t n_warnings;
    } cases[] = {
        { PF_UNAVAILABLE, "far:1: the cable is cut",
          "the draft worker is gone (far:1: the cable is cut); decoding goes on without it", 1 },
        { PF_UNAVAILABLE, "far:1: nobody answers", "", 0 }, /* known */
        { PF_UNSUPPORTED, "far:1: another model is there now",
          "the draft worker is gone (far:1: another model is there now); decoding goes on without it", 1 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        (void)pf_fail(&u.why, cases[i].status, "%s", cases[i].reason);
        u.gone_for = INT32_MAX;
        p->n_warnings = 0;
        pf_error_set(&p->warning, PF_OK, "%s", "");
        pf_error error = { 0 };
        assert_ok(run(session, &request, &drafted, &error), error);
        assert_same_text(&drafted, &plain);
        assert_int_equal(p->n_warnings, cases[i].n_warnings);
        assert_string_equal(p->warning.text, cases[i].warning);
    }
    u.gone_for = 0;
    pf_error error = { 0 };
    assert_ok(run(session, &request, &drafted, &error), error);
    assert_string_equal(p->warning.text, "the draft worker is back");
    assert_true(drafted.result.speculation.accepted > 0);
    pf_session_destroy(session);
}

static void a_drafter_that_comes_late_with_another_vocabulary_is_warned_of_and_not_asked(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0);
    u.is_unmet = true;
    pf_session *session = open_session(p, p->verifier, &u.head, true);
    assert_string_equal(p->warning.text, "nobody answers");
    u.is_unmet = false;
    u.vocab = VOCAB + 2;
    pf_error error = { 0 };
    for (int i = 0; i < 2; i++) {
        assert_ok(run(session, &request, &drafted, &error), error);
        assert_same_text(&drafted, &plain);
        assert_int_equal(drafted.result.speculation.rounds, 0);
        assert_says(p->warning, "130 tokens");
    }
    pf_session_destroy(session);
}

static void a_proposal_out_of_the_vocabulary_never_reaches_a_far_verifier(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer liar = unreliable_peer_of(p->drafter, 1, 0), verifier = unreliable_peer_of(p->verifier, 2, 0);
    liar.out_of_vocabulary = true;
    generate(p, &verifier.head, &liar.head, &request, &drafted);
    assert_same_text(&drafted, &plain);
    assert_int_equal(drafted.result.speculation.drafted, 0);
    assert_int_equal(drafted.result.speculation.fallback_rounds, N_NEW - 1);
}

static void a_drafter_that_is_far_behind_is_left_alone_until_it_takes_more(void **state)
{
    pair *p = *state;
    text plain, drafted;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0);
    u.full_for = 10;
    p->n_warnings = 0;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &plain);
    assert_int_equal(p->n_warnings, 0);
    assert_int_equal(u.full_for, 0);
    assert_int_equal(u.n_reopened, 1); /* with all that it has missed */
    assert_int_equal(drafted.result.speculation.fallback_rounds, 10);
    assert_true(drafted.result.speculation.rounds > 4);
}

static void a_drafter_that_never_keeps_the_sequence_is_plain_decoding(void **state)
{
    pair *p = *state;
    text plain, out;
    const pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0);
    u.knows_nothing = true;
    generate(p, p->verifier, &u.head, &request, &out);
    assert_same_text(&out, &plain);
    assert_int_equal(out.result.speculation.fallback_rounds, N_NEW - 1);
}

static void a_peer_that_says_it_computed_for_longer_than_it_was_away_took_no_time_to_reach(void **state)
{
    pair *p = *state;
    text out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0);
    u.boasts_ns = (uint64_t)3600 * 1000000000;
    generate(p, p->verifier, &u.head, &request, &out);
    assert_true(out.result.speculation.n_rpc > 0);
    for (int64_t i = 0; i < out.result.speculation.n_rpc; i++) assert_int_equal(out.result.speculation.rpc_us[i], 0);
}

/* ---- a far verifier's absence and silence ----------------------------------------------------------------------- */

static void a_verifier_that_does_not_return_is_given_up_with_the_reason(void **state)
{
    pair *p = *state;
    for (int32_t at = 0; at < 3; at++) { /* before the request, in its prefill, and later */
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
        u.vanish_at = at;
        u.stays_away = true;
        if (at == 0) u.gone_for = INT32_MAX;
        pf_session *session = open_session(p, &u.head, NULL, true);
        text out;
        pf_error error = { 0 };
        const pf_request request = plain_request();
        assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
        assert_string_equal(error.text,
                            "the verifier is gone and has not come back within 0.2 s: far:1: the cable is cut");
        assert_int_equal(out.result.n_tokens, at < 2 ? 0 : 1);
        pf_session_destroy(session);
    }
}

static void a_verifier_that_returns_only_to_vanish_is_given_up_as_soon(void **state)
{
    pair *p = *state;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 16);
    u.only = VANISH;
    u.stays_for = 3; /* looks of 20 ms */
    pf_session *session = open_session(p, &u.head, NULL, true);
    text out;
    pf_error error = { 0 };
    const pf_request request = plain_request();
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_says(error, "has not come back within 0.2 s");
    assert_in_range(u.n_reopened, 1, 12);
    pf_session_destroy(session);
}

static void a_verifier_that_answers_between_its_absences_has_its_time_anew(void **state)
{
    pair *p = *state;
    text plain, out;
    const pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 4);
    u.only = VANISH;
    u.stays_for = 6; /* looks of 20 ms: more than half of the limit */
    generate(p, &u.head, p->drafter, &request, &out);
    assert_same_text(&out, &plain);
    assert_in_range(u.n_reopened, 2, N_NEW);
}

static void a_verifier_that_was_restarted_between_two_requests_serves_the_second(void **state)
{
    pair *p = *state;
    text plain, out;
    const pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
    pf_session *session = open_session(p, &u.head, p->drafter, true);
    pf_error error = { 0 };
    for (int i = 0; i < 2; i++) {
        assert_ok(run(session, &request, &out, &error), error);
        assert_same_text(&out, &plain);
        u.gone_for = 3;
    }
    pf_session_destroy(session);
}

static void a_verifier_at_work_is_waited_for_while_it_gives_signs_of_life(void **state)
{
    pair *p = *state;
    text plain, out;
    const pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
    u.computes = 20; /* looks: five times the limit */
    u.sign_at = 3;
    generate(p, &u.head, p->drafter, &request, &out);
    assert_same_text(&out, &plain);

    u.sign_at = 0;
    pf_session *session = open_session(p, &u.head, p->drafter, true);
    pf_error error = { 0 };
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_string_equal(error.text, "the verifier has said nothing for 0.2 s, expected a verdict or a sign of life");
    assert_int_equal(u.n_looks, LIMIT_NS / 50000000);
    pf_session_destroy(session);
}

static void a_process_that_was_stopped_does_not_blame_the_verifier(void **state)
{
    pair *p = *state;
    text plain, out;
    const pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
    u.computes = 1;
    u.sleeps_us = (uint32_t)(2 * LIMIT_NS / 1000);
    generate(p, &u.head, p->drafter, &request, &out);
    assert_same_text(&out, &plain);
}

static void a_verdict_that_does_not_fit_is_refused(void **state)
{
    pair *p = *state;
    const struct {
        bool too_many, another;
        uint64_t rounds_ahead;
        int32_t tokens_ahead;
        const char *says;
    } cases[] = {
        { .too_many = true, .says = "of them accepted: expected the accepted ones as they were proposed" },
        { .another = true, .says = "of them accepted: expected the accepted ones as they were proposed" },
        { .rounds_ahead = 7, .says = "the verifier gave a verdict of round 7, expected round 0" },
        { .tokens_ahead = 2, .says = "the verifier gave a verdict at token 7, expected 5" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
        u.accept_too_many = cases[i].too_many;
        u.accept_another = cases[i].another;
        u.rounds_ahead = cases[i].rounds_ahead;
        u.tokens_ahead = cases[i].tokens_ahead;
        pf_session *session = open_session(p, &u.head, p->drafter, true);
        text out;
        pf_error error = { 0 };
        const pf_request request = plain_request();
        assert_status(run(session, &request, &out, &error), PF_FORMAT);
        assert_says(error, cases[i].says);
        pf_session_destroy(session);
    }
}

static void a_verifier_that_never_keeps_the_sequence_is_given_up(void **state)
{
    pair *p = *state;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
    u.knows_nothing = true;
    pf_session *session = open_session(p, &u.head, p->drafter, true);
    text out;
    pf_error error = { 0 };
    const pf_request request = plain_request();
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_says(error, "lost the sequence 50 times");
    pf_session_destroy(session);
}

static void a_verifier_that_knows_no_end_is_cut_off_all_the_same(void **state)
{
    pair *p = *state;
    text plain, out;
    pf_request request = plain_request();
    for (request.max_new_tokens = 2; request.max_new_tokens < 10; request.max_new_tokens++) {
        generate(p, p->verifier, NULL, &request, &plain);
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
        u.ignore_limits = true;
        generate(p, &u.head, p->drafter, &request, &out);
        assert_same_text(&out, &plain);
    }
    /* At the context's end its last verdict has a token too many. */
    request.max_new_tokens = CONTEXT;
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0);
    u.ignore_limits = true;
    for (request.draft_len = 1; request.draft_len <= 5; request.draft_len++) {
        generate(p, &u.head, p->drafter, &request, &out);
        assert_same_text(&out, &plain);
    }
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t n, n_drafted, stop_at;
    uint64_t n_allocations;
    bool cancel;
} listener;

static bool listen(void *user, int32_t token, bool drafted)
{
    (void)token;
    listener *l = user;
    if (l->n == 0) pf_alloc_count_reset();
    l->n_allocations = pf_alloc_count();
    l->n++;
    l->n_drafted += drafted;
    if (l->stop_at == l->n) l->cancel = true;
    return true;
}

static void every_token_is_accounted_for(void **state)
{
    pair *p = *state;
    text out;
    pf_request request = plain_request();
    listener l;
    request.on_token = listen;
    request.user = &l;
    for (request.max_new_tokens = 1; request.max_new_tokens <= 12; request.max_new_tokens++) {
        l = (listener){ 0 };
        generate(p, p->verifier, p->drafter, &request, &out);
        const pf_speculation *s = &out.result.speculation;
        assert_int_equal(out.result.n_tokens, request.max_new_tokens);
        assert_int_equal(out.result.finish, PF_FINISH_LENGTH);
        const int64_t n = 1 + s->rounds + s->fallback_rounds + s->accepted;
        assert_in_range(n, request.max_new_tokens, request.max_new_tokens + 1); /* the last round may be cut */
        assert_int_equal(s->fallback_rounds, 0);
        assert_int_equal(s->reached[0], s->rounds);
        int64_t n_accepted = 0;
        for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) n_accepted += s->accepted_to[i];
        assert_int_equal(n_accepted, s->accepted);
        assert_int_equal(l.n, request.max_new_tokens);
        assert_int_equal(l.n_drafted, s->accepted);
    }
}

static bool listen_until(void *user, int32_t token, bool drafted)
{
    (void)listen(user, token, drafted);
    return !((listener *)user)->cancel;
}

static void nothing_is_allocated_between_the_first_token_and_the_last(void **state)
{
    pair *p = *state;
    const pf_sampling ways[] = { { .top_p = 1.0f }, { .temperature = 1.0f, .top_k = 50, .top_p = 0.9f, .seed = 3 } };
    for (size_t i = 0; i < PF_COUNT(ways); i++) {
        listener l = { 0 };
        pf_request request = plain_request();
        request.sampling = ways[i];
        request.on_token = listen;
        request.user = &l;
        text out;
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_int_equal(l.n, N_NEW);
        assert_int_equal(l.n_allocations, 0);

        l.n = 0;
        unreliable_peer drafter = unreliable_peer_of(p->drafter, 3, 4),
                        verifier = unreliable_peer_of(p->verifier, 1, 0);
        verifier.vanish_at = 9;
        p->n_warnings = 0;
        generate(p, &verifier.head, &drafter.head, &request, &out);
        assert_int_equal(l.n, N_NEW);
        assert_int_equal(l.n_allocations, 0); /* peers that are lost are told of without any, too */
        assert_true(p->n_warnings > 1);
    }
}

static void a_caller_that_has_enough_gets_no_more(void **state)
{
    pair *p = *state;
    for (int32_t n = 1; n < 10; n++) {
        listener l = { .stop_at = n };
        pf_request request = plain_request();
        request.on_token = listen_until;
        request.user = &l;
        text out;
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_int_equal(out.result.n_tokens, n);
        assert_int_equal(out.result.finish, PF_FINISH_STOP);
        assert_in_range(out.result.speculation.accepted, 0, n - 1); /* what was not kept does not count */
    }
}

static void a_stop_token_is_the_last_and_is_kept(void **state)
{
    pair *p = *state;
    text plain, out;
    pf_request request = plain_request();
    generate(p, p->verifier, NULL, &request, &plain);
    int32_t at = 7;
    for (int32_t i = 0; i < at; i++)
        if (plain.tokens[i] == plain.tokens[at]) at = i; /* its first occurrence */
    request.stop_tokens = &plain.tokens[at];
    request.n_stop_tokens = 1;
    generate(p, p->verifier, p->drafter, &request, &out);
    assert_int_equal(out.result.n_tokens, at + 1);
    assert_int_equal(out.result.finish, PF_FINISH_EOS);
}

static void a_cancelled_request_keeps_what_it_has(void **state)
{
    pair *p = *state;
    listener l = { .stop_at = 5 };
    pf_request request = plain_request();
    request.on_token = listen;
    request.user = &l;
    request.cancel = &l.cancel;
    pf_session *session = open_session(p, p->verifier, p->drafter, true);
    text out;
    pf_error error = { 0 };
    assert_status(run(session, &request, &out, &error), PF_CANCELLED);
    assert_in_range(out.result.n_tokens, 5, N_NEW - 1);
    assert_int_equal(out.result.finish, PF_FINISH_NONE);
    request.cancel = NULL;
    request.on_token = NULL;
    assert_ok(run(session, &request, &out, &error), error); /* the session serves on */
    assert_int_equal(out.result.n_tokens, N_NEW);
    pf_session_destroy(session);
}

static void a_full_context_ends_the_text(void **state)
{
    pair *p = *state;
    text out;
    pf_request request = plain_request();
    request.max_new_tokens = CONTEXT;
    generate(p, p->verifier, p->drafter, &request, &out);
    assert_int_equal(out.result.n_tokens, CONTEXT - PF_COUNT(PROMPT));
    assert_int_equal(out.result.finish, PF_FINISH_LENGTH);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void a_request_that_cannot_be_is_refused_in_a_sentence(void **state)
{
    pair *p = *state;
    static const int32_t beyond[] = { 1, VOCAB };
    static int32_t longer[CONTEXT];
    pf_request none = plain_request(), high = none, over = none, zero = none, far = none, hot = none;
    none.n_prompt = 0;
    high.prompt = beyond, high.n_prompt = 2;
    over.prompt = longer, over.n_prompt = CONTEXT;
    zero.max_new_tokens = 0;
    far.draft_len = PF_MAX_DRAFT_TOKENS + 1;
    hot.sampling.temperature = -1.0f;
    const struct {
        const pf_request *request;
        const char *sentence;
    } cases[] = { { &none, "prompt is empty" },   { &high, "token 1 of the prompt is 128, expected 0 to 127" },
                  { &over, "160 tokens" },        { &zero, "0 new tokens" },
                  { &far, "draft length of 65" }, { &hot, "temperature" } };
    pf_session *session = open_session(p, p->verifier, p->drafter, true);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        text out;
        pf_error error = { 0 };
        assert_status(run(session, cases[i].request, &out, &error), PF_INVALID);
        assert_says(error, cases[i].sentence);
    }
    pf_session_destroy(session);
}

static void two_vocabularies_are_refused_with_both_named(void **state)
{
    pair *p = *state;
    pf_error error = { 0 };
    pf_engine *other = open_engine(&(pf_tiny_model){ .vocab = 130 }, NULL);
    pf_peer *drafter;
    assert_ok(pf_engine_drafter(other, 0, &drafter, &error), error);
    const pf_session_options options = { .verifier = p->verifier, .drafter = drafter, .max_context = CONTEXT };
    pf_session *session = NULL;
    assert_status(pf_session_create(&options, &session, &error), PF_INVALID);
    assert_says(error, "130 tokens");
    assert_says(error, "128 tokens");
    assert_null(session);
    pf_peer_destroy(drafter);
    pf_engine_close(other);
}

static void an_engine_plays_one_role(void **state)
{
    pair *p = *state;
    pf_peer *second = NULL;
    pf_error error = { 0 };
    assert_status(pf_engine_drafter(p->target, 0, &second, &error), PF_INVALID);
    assert_null(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_text_is_the_plain_text_at_every_draft_length),
        cmocka_unit_test(coupled_text_is_the_plain_text_of_its_seed),
        cmocka_unit_test(a_drafter_that_loses_answers_lies_and_vanishes_changes_no_token),
        cmocka_unit_test(a_verifier_that_vanishes_and_returns_changes_no_token),
        cmocka_unit_test(a_drafter_that_is_never_there_is_plain_decoding_and_one_warning),
        cmocka_unit_test(a_drafter_that_is_gone_is_warned_of_with_the_reason_once_for_each_kind),
        cmocka_unit_test(a_drafter_that_comes_late_with_another_vocabulary_is_warned_of_and_not_asked),
        cmocka_unit_test(a_proposal_out_of_the_vocabulary_never_reaches_a_far_verifier),
        cmocka_unit_test(a_drafter_that_is_far_behind_is_left_alone_until_it_takes_more),
        cmocka_unit_test(a_drafter_that_never_keeps_the_sequence_is_plain_decoding),
        cmocka_unit_test(a_peer_that_says_it_computed_for_longer_than_it_was_away_took_no_time_to_reach),
        cmocka_unit_test(a_verifier_that_does_not_return_is_given_up_with_the_reason),
        cmocka_unit_test(a_verifier_that_returns_only_to_vanish_is_given_up_as_soon),
        cmocka_unit_test(a_verifier_that_answers_between_its_absences_has_its_time_anew),
        cmocka_unit_test(a_verifier_that_was_restarted_between_two_requests_serves_the_second),
        cmocka_unit_test(a_verifier_at_work_is_waited_for_while_it_gives_signs_of_life),
        cmocka_unit_test(a_process_that_was_stopped_does_not_blame_the_verifier),
        cmocka_unit_test(a_verdict_that_does_not_fit_is_refused),
        cmocka_unit_test(a_verifier_that_never_keeps_the_sequence_is_given_up),
        cmocka_unit_test(a_verifier_that_knows_no_end_is_cut_off_all_the_same),
        cmocka_unit_test(every_token_is_accounted_for),
        cmocka_unit_test(nothing_is_allocated_between_the_first_token_and_the_last),
        cmocka_unit_test(a_caller_that_has_enough_gets_no_more),
        cmocka_unit_test(a_stop_token_is_the_last_and_is_kept),
        cmocka_unit_test(a_cancelled_request_keeps_what_it_has),
        cmocka_unit_test(a_full_context_ends_the_text),
        cmocka_unit_test(a_request_that_cannot_be_is_refused_in_a_sentence),
        cmocka_unit_test(two_vocabularies_are_refused_with_both_named),
        cmocka_unit_test(an_engine_plays_one_role),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
