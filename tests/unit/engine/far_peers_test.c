/*
 * The generation loop where peers are lost, late, or wrong: a drafter costs speed and never a token, a verifier is waited
 * for, or given up with the reason. Peers that are far are played by tests/support/unreliable_peer.h.
 */
#include "engine/run.h"
#include "tests/support/generating.h"
#include "tests/support/late_peer.h"
#include "tests/support/test.h"
#include "tests/support/unreliable_peer.h"

static const uint64_t MS = 1000 * 1000;

/* Its sessions and peers go by a clock that the peers move. */
static int open_simulated_pair(void **state)
{
    static uint64_t clock_ns;
    clock_ns = 3600 * 1000 * MS;
    (void)open_pair(state);
    ((pair *)*state)->clock_ns = &clock_ns;
    return 0;
}

/* ---- a drafter -------------------------------------------------------------------------------------------------- */

static void a_drafter_that_loses_answers_lies_and_vanishes_changes_no_token(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    int32_t n_reopened = 0, n_fallback = 0, n_rounds = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        unreliable_peer u = unreliable_peer_of(p->drafter, seed, 1 + (int32_t)(seed % 12), p->clock_ns);
        u.only = (mood)(seed % N_MOODS);
        request.draft_len = 1 + (int32_t)(seed % 8);
        generate(p, p->verifier, &u.head, &request, &drafted);
        assert_same_text(&drafted, &p->plain);
        n_reopened += u.n_reopened;
        n_fallback += (int32_t)drafted.result.speculation.fallback_rounds;
        n_rounds += (int32_t)drafted.result.speculation.rounds;
    }
    if (n_reopened == 0 || n_fallback == 0 || n_rounds == 0)
        fail_msg("%d reopenings, %d rounds without a proposal, %d with one: nothing was tried", n_reopened, n_fallback,
                 n_rounds);
}

static void a_drafter_that_is_never_there_is_plain_decoding_and_one_warning(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.gone_for = INT32_MAX;
    p->n_warnings = 0;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    assert_int_equal(drafted.result.speculation.rounds, 0);
    assert_int_equal(drafted.result.speculation.fallback_rounds, N_NEW - 1);
    assert_int_equal(p->n_warnings, 1);
}

/* A drafter that returns has lost the sequence: it gets all of it at once, without a prefix request. */
static void a_drafter_that_returns_costs_no_round_more_than_it_was_away(void **state)
{
    pair *p = *state;
    generated steady, drafted;
    pf_request request = plain_request();
    request.draft_len = 1;
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    generate(p, p->verifier, &u.head, &request, &steady);
    u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.vanish_at = 3;
    u.stays_for = 1;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &steady);
    assert_int_equal(u.n_reopened, 1);
    assert_int_equal(drafted.result.speculation.fallback_rounds, steady.result.speculation.fallback_rounds + 2);
}

static void a_drafter_that_comes_with_the_first_token_is_told_all_at_once(void **state)
{
    pair *p = *state;
    generated steady, drafted;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    generate(p, p->verifier, &u.head, &request, &steady);
    u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.gone_for = 1; /* as the prompt begins to be computed */
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &steady);
    assert_int_equal(drafted.result.speculation.fallback_rounds, steady.result.speculation.fallback_rounds);
}

/* All but the last round's, which is the end. */
static void a_drafter_is_told_what_was_accepted_of_it(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    generate(p, p->verifier, &u.head, &request, &out);
    const int32_t n_accepted = (int32_t)out.result.speculation.accepted;
    assert_true(n_accepted > request.draft_len);
    assert_in_range(u.n_accepted, n_accepted - request.draft_len, n_accepted);
}

static void a_drafter_that_is_gone_is_warned_of_with_the_reason_once_for_each_kind(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    pf_session *session = open_session(p, p->verifier, &u.head);
    const struct {
        pf_status status;
        const char *reason, *warning;
        int32_t n_warnings;
    } cases[] = {
        { PF_UNAVAILABLE, "far:1: the cable is cut",
          "the draft worker is gone (far:1: the cable is cut); decoding goes on without it", 1 },
        { PF_UNAVAILABLE, "far:1: no answer", "", 0 }, /* known */
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
        assert_same_text(&drafted, &p->plain);
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

static void a_drafter_that_comes_and_goes_is_warned_of_three_times(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    pf_session *session = open_session(p, p->verifier, &u.head);
    p->n_warnings = 0;
    pf_error error = { 0 };
    for (int i = 0; i < 20; i++) {
        u.gone_for = i % 2 ? 0 : INT32_MAX;
        assert_ok(run(session, &request, &drafted, &error), error);
        assert_same_text(&drafted, &p->plain);
    }
    assert_int_equal(p->n_warnings, 5); /* and twice that it is back */
    assert_says(p->warning, "decoding goes on without it while it comes and goes, which is not reported again");
    *p->clock_ns += 61 * 1000 * MS; /* of peace */
    u.gone_for = INT32_MAX;
    assert_ok(run(session, &request, &drafted, &error), error);
    assert_int_equal(p->n_warnings, 6);
    assert_string_equal(p->warning.text,
                        "the draft worker is gone (far:1: the cable is cut); decoding goes on without it");
    pf_session_destroy(session);
}

static void opens_carry_the_parameters_of_the_request(void **state)
{
    pair *p = *state;
    generated out;
    static const int32_t stop_tokens[] = { VOCAB - 1, VOCAB - 2 };
    static const struct {
        pf_method method;
        float temperature;
        int32_t draft_len;
        bool judges_chains;
        pf_method expected;
        bool trees, declares;
        uint64_t seed; /* that far peers get: with shared noise only */
    } cases[] = {
        { 0, 0.0f, 0, false, PF_METHOD_GREEDY, true, false, 0 },
        { 0, 0.0f, 4, true, PF_METHOD_GREEDY, false, false, 0 },
        { PF_METHOD_COUPLED, 0.0f, 4, false, PF_METHOD_GREEDY, true, false, 0 }, /* there is nothing to draw */
        { PF_METHOD_COUPLED, 1.0f, 0, false, PF_METHOD_COUPLED, true, false, 77 },
        { 0, 1.0f, 4, false, PF_METHOD_REJECTION, true, true, 0 },
        { PF_METHOD_BLOCK, 1.0f, 4, false, PF_METHOD_BLOCK, true, true, 0 },
        { PF_METHOD_TRAVERSAL, 1.0f, 4, false, PF_METHOD_TRAVERSAL, true, true, 0 },
        { PF_METHOD_TYPICAL, 1.0f, 4, false, PF_METHOD_TYPICAL, true, false, 0 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_request request = plain_request();
        request.method = cases[i].method;
        request.sampling.temperature = cases[i].temperature;
        request.draft_len = cases[i].draft_len;
        request.stop_tokens = stop_tokens;
        request.n_stop_tokens = 2;
        unreliable_peer peers[] = { unreliable_peer_of(p->verifier, 1, 0, p->clock_ns),
                                    unreliable_peer_of(p->drafter, 1, 0, p->clock_ns) };
        peers[0].judges_chains = cases[i].judges_chains;
        generate(p, &peers[0].head, &peers[1].head, &request, &out);
        for (size_t k = 0; k < PF_COUNT(peers); k++) {
            const pf_open *open = &peers[k].open;
            assert_int_equal(open->method, cases[i].expected);
            assert_int_equal(open->adaptive_draft, cases[i].draft_len == 0);
            assert_int_equal(open->max_draft, cases[i].draft_len ? cases[i].draft_len : PF_DEFAULT_MAX_DRAFT);
            assert_int_equal(open->trees, cases[i].trees);
            assert_int_equal(open->max_declared > 0, cases[i].declares);
            assert_int_equal(open->sampling.seed, cases[i].seed);
            assert_int_equal(open->max_tokens, N_PLAIN_PROMPT + N_NEW);
            assert_ptr_equal(open->stop_tokens, stop_tokens);
            assert_int_equal(open->n_stop_tokens, 2);
        }
    }
}

/* A near one has to be. */
static void a_drafter_that_is_not_there_when_the_session_begins_is_told_of_once(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.is_unmet = true;
    u.gone_for = INT32_MAX;
    (void)pf_fail(&u.why, PF_UNSUPPORTED, "another protocol");
    p->n_warnings = 0;
    generate(p, p->verifier, &u.head, &request, &out);
    assert_same_text(&out, &p->plain);
    assert_int_equal(p->n_warnings, 1);
    assert_string_equal(p->warning.text, "no answer");

    u.head.is_far = false;
    const pf_session_options near = {
        .size = sizeof(pf_session_options), .verifier = p->verifier, .drafter = &u.head, .max_context = CONTEXT
    };
    pf_session *session = NULL;
    pf_error error = { 0 };
    assert_status(pf_session_create(&near, &session, &error), PF_UNAVAILABLE);
    assert_says(error, "no answer");
    assert_null(session);
}

static void a_drafter_that_comes_late_is_asked_once_what_it_is(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.is_unmet = true;
    pf_session *session = open_session(p, p->verifier, &u.head);
    u.is_unmet = false;
    pf_error error = { 0 };
    assert_ok(run(session, &request, &out, &error), error);
    assert_same_text(&out, &p->plain);
    assert_true(out.result.speculation.rounds > 1);
    assert_int_equal(u.n_infos, 2); /* the first time in vain */
    pf_session_destroy(session);
}

static void a_drafter_that_comes_late_with_another_vocabulary_is_warned_of_and_not_asked(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.is_unmet = true;
    pf_session *session = open_session(p, p->verifier, &u.head);
    assert_string_equal(p->warning.text, "no answer");
    u.is_unmet = false;
    u.vocab = VOCAB + 2;
    pf_error error = { 0 };
    uint64_t first = 0;
    for (int i = 0; i < 2; i++) {
        assert_ok(run(session, &request, &drafted, &error), error);
        assert_same_text(&drafted, &p->plain);
        assert_int_equal(drafted.result.speculation.rounds, 0);
        assert_says(p->warning, "130 tokens");
        if (i == 0) first = u.open.sequence;
        assert_int_equal(u.open.sequence, first); /* nor is it told of a second */
    }
    pf_session_destroy(session);
}

static void a_drafter_that_comes_late_and_lacks_what_is_asked_for_is_warned_of_and_not_asked_again(void **state)
{
    pair *p = *state;
    static const char *const says[] = {
        "the draft worker cannot draft as it is asked: drafter is suffix, but what is offered is model",
        "the draft worker cannot draft as it is asked: drafter is suffix, but pf-tiny-"
    };
    for (int32_t is_old = 0; is_old < 2; is_old++) {
        generated out;
        pf_request request = plain_request();
        request.drafter = "suffix";
        unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
        u.is_unmet = true;
        u.is_old = is_old == 1;
        pf_session *session = open_session(p, p->verifier, &u.head);
        u.is_unmet = false;
        p->n_warnings = 0;
        pf_error error = { 0 };
        assert_ok(run(session, &request, &out, &error), error);
        assert_same_text(&out, &p->plain);
        assert_int_equal(out.result.speculation.rounds, 0);
        if (strncmp(p->warning.text, says[is_old], strlen(says[is_old])) != 0)
            fail_msg("\"%s\", expected \"%s\"", p->warning.text, says[is_old]);
        assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED); /* now it is known */
        request.drafter = "";
        assert_ok(run(session, &request, &out, &error), error);
        assert_true(out.result.speculation.rounds > 0);
        pf_session_destroy(session);
    }
}

static void a_proposal_out_of_the_vocabulary_never_reaches_a_far_verifier(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer liar = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns),
                    verifier = unreliable_peer_of(p->verifier, 2, 0, p->clock_ns);
    liar.out_of_vocabulary = true;
    generate(p, &verifier.head, &liar.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    assert_int_equal(drafted.result.speculation.drafted, 0);
    assert_int_equal(drafted.result.speculation.fallback_rounds, N_NEW - 1);
    assert_says(p->warning, "violates the protocol: a token that its vocabulary does not have");
}

static void a_distribution_out_of_the_vocabulary_never_reaches_a_far_verifier(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    request.sampling = (pf_sampling){ .temperature = 1.0f, .top_p = 1.0f, .seed = 5 };
    unreliable_peer liar = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns),
                    verifier = unreliable_peer_of(p->verifier, 2, 0, p->clock_ns);
    liar.declares_unknown = true;
    generate(p, &verifier.head, &liar.head, &request, &drafted);
    assert_int_equal(drafted.result.n_tokens, N_NEW);
    assert_int_equal(drafted.result.speculation.drafted, 0);
    assert_int_equal(verifier.n_declared, 0);
    assert_says(p->warning, "violates the protocol: a token that its vocabulary does not have");
}

/* Nor is it waited for, round after round. */
static void a_drafter_that_proposes_for_what_was_not_asked_is_warned_of_once_and_not_asked_again(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    for (int i = 0; i < 2; i++) {
        unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
        if (i == 0) u.rounds_ahead = 1;
        if (i == 1) u.tokens_ahead = 1;
        p->n_warnings = 0;
        pf_session *session = open_session(p, p->verifier, &u.head);
        pf_error error = { 0 };
        for (int32_t request_no = 1; request_no <= 2; request_no++) {
            assert_ok(run(session, &request, &drafted, &error), error);
            assert_same_text(&drafted, &p->plain);
            assert_int_equal(drafted.result.speculation.rounds, 0);
            assert_int_equal(u.n_answers, request_no);
        }
        pf_session_destroy(session);
        assert_int_equal(p->n_warnings, 1); /* not one for each request */
        assert_says(p->warning, "violates the protocol");
    }
}

static void a_drafter_that_refuses_is_warned_of_once_for_each_kind_of_refusal(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    static const struct {
        pf_status refuses_as;
        int32_t n_warnings; /* by then */
    } cases[] = { { PF_LIMIT, 1 }, { PF_LIMIT, 1 }, { PF_UNSUPPORTED, 2 }, { PF_LIMIT, 2 }, { PF_UNSUPPORTED, 2 } };
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    pf_session *session = open_session(p, p->verifier, &u.head);
    p->n_warnings = 0;
    for (int32_t i = 0; i < (int32_t)PF_COUNT(cases); i++) {
        pf_error error = { 0 };
        u.refuses_as = cases[i].refuses_as;
        assert_ok(run(session, &request, &drafted, &error), error);
        assert_same_text(&drafted, &p->plain);
        assert_int_equal(p->n_warnings, cases[i].n_warnings);
        assert_int_equal(u.n_answers, i + 1); /* nor is it asked again for that text */
    }
    assert_says(p->warning, "the draft worker refuses the sequence: reason 0 of answer 3; decoding goes on without it");
    pf_session_destroy(session);
}

static void proposals_are_no_longer_than_the_verifier_takes(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    request.draft_len = 8;
    unreliable_peer verifier = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    verifier.takes = 2;
    generate(p, &verifier.head, p->drafter, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    const pf_speculation *s = &drafted.result.speculation;
    assert_true(s->rounds > 0 && s->drafted <= 2 * s->rounds && s->accepted > s->rounds);
    verifier.takes = -1;
    generate(p, &verifier.head, p->drafter, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    assert_int_equal(s->rounds + s->drafted, 0);
    assert_int_equal(verifier.open.max_draft, 1); /* the least that an open can say */
    unreliable_peer drafter = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    generate(p, &verifier.head, &drafter.head, &request, &drafted);
    assert_int_equal(drafter.open.sequence, 0); /* nor is anybody asked */
}

static void draft_distributions_are_no_larger_than_either_peer_supports(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    request.sampling = (pf_sampling){ .temperature = 1.0f, .top_p = 1.0f, .seed = 5 };
    static const struct {
        int32_t verifier, drafter, most; /* 0: the truth, which is 256; -1: none, of a drafter: it says nothing */
        bool lies;
    } cases[] = { { 0, 0, 64, false }, { 16, 0, 16, false }, { 0, 8, 8, false },
                  { -1, 0, 0, false }, { 0, -1, 64, false }, { 16, 0, 0, true } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        unreliable_peer verifier = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns),
                        drafter = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
        verifier.declares = cases[i].verifier;
        drafter.declares = cases[i].drafter;
        drafter.ignore_limits = cases[i].lies;
        generate(p, &verifier.head, &drafter.head, &request, &out);
        assert_int_equal(out.result.n_tokens, N_NEW);
        assert_true(out.result.speculation.rounds > 0);
        assert_int_equal(verifier.n_declared, cases[i].most);
        if (!cases[i].lies) assert_int_equal(drafter.open.max_declared, cases[i].most);
        assert_int_equal(verifier.open.max_declared, drafter.open.max_declared);
    }
}

static void what_is_proposed_beyond_what_was_asked_is_not_counted(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    request.draft_len = 1;
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.ignore_limits = true;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    const pf_speculation *s = &drafted.result.speculation;
    assert_true(s->rounds > 0);
    assert_int_equal(s->drafted, s->rounds);
    assert_int_equal(s->reached[1], 0);
}

static void a_drafter_that_is_far_behind_is_left_alone_until_it_takes_more(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.full_for = 10;
    p->n_warnings = 0;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    assert_int_equal(p->n_warnings, 0);
    assert_int_equal(u.full_for, 0);
    assert_int_equal(u.n_reopened, 1); /* with all that it has missed */
    assert_int_equal(drafted.result.speculation.fallback_rounds, 10);
    assert_true(drafted.result.speculation.rounds > 4);
}

/* Something to read at every look, and never a proposal. */
static unreliable_peer endless_peer_of(const pair *p)
{
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.computes = INT32_MAX;
    u.sign_at = 1;
    return u;
}

static void reading_late_answers_of_a_flooding_drafter_is_bounded(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = endless_peer_of(p);
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    assert_int_equal(drafted.result.speculation.rounds, 0);
}

/* 2 ms each. */
static void reading_slow_late_answers_is_bounded_in_time(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    unreliable_peer u = endless_peer_of(p);
    u.sleeps_us = 2000;
    generate(p, p->verifier, &u.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    assert_true(drafted.result.speculation.fallback_rounds > 4);
    assert_in_range(u.n_looks, 1, 16 * drafted.result.speculation.fallback_rounds); /* 10 of them in the one wait */
}

/* 130 ms for one token of a target that takes 40 ms: a round with a proposal takes as long as four without, and commits two. */
static void a_far_drafter_that_does_not_pay_is_left_alone(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    request.draft_len = 1;
    late_peer verifier = late_peer_of(p->verifier, 40 * MS, p->clock_ns),
              drafter = late_peer_of(p->drafter, 130 * MS, p->clock_ns);
    generate(p, &verifier.head, &drafter.head, &request, &drafted);
    assert_same_text(&drafted, &p->plain);
    const pf_speculation *s = &drafted.result.speculation;
    if (s->fallback_rounds < 8) fail_msg("%d rounds without a proposal; expected 8 at least", (int)s->fallback_rounds);
}

/* Wrong for so long that it is not waited for, and right then: its answers show it, late as they are. */
static void a_far_drafter_that_begins_to_pay_is_waited_for_again(void **state)
{
    pair *p = *state;
    generated plain, drafted;
    pf_request request = plain_request();
    request.draft_len = 8;
    request.max_new_tokens = 120;
    generate(p, p->verifier, NULL, &request, &plain);
    late_peer verifier = late_peer_of(p->verifier, 40 * MS, p->clock_ns),
              drafter = late_peer_of(p->drafter, 130 * MS, p->clock_ns);
    drafter.n_wrong = 12;
    generate(p, &verifier.head, &drafter.head, &request, &drafted);
    assert_same_text(&drafted, &plain);
    const pf_speculation *s = &drafted.result.speculation;
    if (s->accepted < 24) fail_msg("%d tokens accepted; expected 24 at least", (int)s->accepted);
    if (s->fallback_rounds < 8) fail_msg("%d rounds without a proposal; expected 8 at least", (int)s->fallback_rounds);
}

/* Ten plain steps of the target pass until a proposal of 24 tokens is there: the first of them are what the target has decided by
 * then, and the rest is proposed. */
static void the_rest_of_a_late_proposal_is_proposed(void **state)
{
    pair *p = *state;
    generated plain, drafted;
    pf_request request = plain_request();
    request.draft_len = 24;
    request.max_new_tokens = 120;
    generate(p, p->verifier, NULL, &request, &plain);
    late_peer verifier = late_peer_of(p->verifier, 40 * MS, p->clock_ns),
              drafter = late_peer_of(p->drafter, 400 * MS, p->clock_ns);
    generate(p, &verifier.head, &drafter.head, &request, &drafted);
    assert_same_text(&drafted, &plain);
    const pf_speculation *s = &drafted.result.speculation;
    if (s->accepted < 30) fail_msg("%d tokens accepted; expected 30 at least", (int)s->accepted);
}

/* Four verifications are what it is waited for, of which an eighth is for the way. One that is not waited for may take its time. */
static void a_far_drafter_is_told_how_long_a_verification_takes_and_when_a_proposal_is_of_no_use(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    request.draft_len = 1;
    late_peer verifier = late_peer_of(p->verifier, 40 * MS, p->clock_ns),
              drafter = late_peer_of(p->drafter, 0, p->clock_ns);
    generate(p, &verifier.head, &drafter.head, &request, &drafted);
    assert_in_range(drafter.told.compute_ns, 40 * MS, 50 * MS);
    assert_in_range(drafter.within_us, 4 * 40 * 1000 * 7 / 8, 4 * 50 * 1000 * 7 / 8);
    drafter.delay_ns = 130 * MS; /* does not pay */
    generate(p, &verifier.head, &drafter.head, &request, &drafted);
    assert_int_equal(drafter.within_us, 0);
}

/* Not for as long as it has draft_wait, which is 160 ms here and seconds with a slow target. */
static void a_cancelled_request_does_not_wait_for_a_far_drafter(void **state)
{
    pair *p = *state;
    generated out;
    bool cancel = false;
    pf_request request = plain_request();
    request.draft_len = 1;
    request.max_new_tokens = 8;
    late_peer verifier = late_peer_of(p->verifier, 40 * MS, p->clock_ns),
              drafter = late_peer_of(p->drafter, 0, p->clock_ns);
    pf_session *session = open_session(p, &verifier.head, &drafter.head);
    pf_error error = { 0 };
    assert_ok(run(session, &request, &out, &error), error);
    assert_true(out.result.speculation.rounds > 2);
    assert_in_range(drafter.longest_wait_ns, 1, 50 * MS);
    request.cancel = &cancel;
    drafter.cancels = &cancel;
    assert_status(run(session, &request, &out, &error), PF_CANCELLED);
    assert_int_equal(out.result.n_tokens, 1);
    assert_int_equal(verifier.n, 0); /* nothing more was asked of it */
    pf_session_destroy(session);
}

static void a_drafter_that_never_keeps_the_sequence_is_plain_decoding(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.knows_nothing = true;
    generate(p, p->verifier, &u.head, &request, &out);
    assert_same_text(&out, &p->plain);
    assert_int_equal(out.result.speculation.fallback_rounds, N_NEW - 1);
    assert_true(u.n_reopened > N_NEW / 2);
    assert_true(out.result.decode_ns < N_NEW * MS); /* nor is waited for what cannot come */
}

static void an_empty_proposal_is_a_round_without_one(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.empties = 3;
    generate(p, p->verifier, &u.head, &request, &out);
    assert_same_text(&out, &p->plain);
    assert_int_equal(out.result.speculation.fallback_rounds, 3);
}

static void a_peer_that_says_it_computed_for_longer_than_it_was_away_took_no_time_to_reach(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    const uint64_t boasts_ns[] = { (uint64_t)3600 * 1000000000, UINT64_MAX / 2, UINT64_MAX };
    for (size_t b = 0; b < PF_COUNT(boasts_ns); b++) {
        u.boasts_ns = boasts_ns[b];
        const uint64_t begin_ns = *p->clock_ns;
        generate(p, p->verifier, &u.head, &request, &out);
        const uint64_t took_ns = *p->clock_ns - begin_ns;
        const pf_speculation *s = &out.result.speculation;
        assert_true(s->n_rpc > 0);
        assert_true(s->draft_ns > 0 && s->draft_ns <= took_ns);
        for (int64_t i = 0; i < s->n_rpc; i++) assert_int_equal(s->rpc_us[i], 0);
    }
    u.boasts_ns = 30 * 1000; /* of the 100 us that each answer takes */
    generate(p, p->verifier, &u.head, &request, &out);
    const pf_speculation *s = &out.result.speculation;
    assert_true(s->n_rpc > 1);
    assert_int_equal(s->draft_ns, u.boasts_ns * (uint64_t)s->n_rpc);
    for (int64_t i = 0; i < s->n_rpc; i++) assert_int_equal(s->rpc_us[i], 70);
}

/* ---- a verifier ------------------------------------------------------------------------------------------------- */

static void a_verifier_that_vanishes_and_returns_changes_no_token(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    for (int32_t at = 1; at <= 12; at++) {
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        u.vanish_at = at;
        generate(p, &u.head, p->drafter, &request, &drafted);
        assert_same_text(&drafted, &p->plain);
        assert_int_equal(u.n_reopened, 1);
        assert_int_equal(drafted.result.speculation.fallback_rounds, at > 1); /* the proposal is lost with it */
    }
}

static void a_verifier_that_does_not_return_is_given_up_with_the_reason(void **state)
{
    pair *p = *state;
    for (int32_t at = 0; at < 3; at++) { /* before the request, in its prefill, and later */
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        u.vanish_at = at;
        u.stays_away = true;
        if (at == 0) u.gone_for = INT32_MAX;
        pf_session *session = open_session(p, &u.head, NULL);
        generated out;
        pf_error error = { 0 };
        const pf_request request = plain_request();
        assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
        assert_string_equal(error.text,
                            "the verifier is gone and has not come back within 0.2 s: far:1: the cable is cut");
        assert_int_equal(out.result.n_tokens, at < 2 ? 0 : 1);
        assert_in_range(INT32_MAX - u.gone_for, 2, 13); /* looks, 20 ms apart */
        pf_session_destroy(session);
    }
}

static void a_verifier_has_5_s_to_return_and_60_s_to_answer_by_default(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    for (int silent = 0; silent < 2; silent++) {
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        if (silent) u.computes = INT32_MAX;
        if (!silent) u.gone_for = INT32_MAX;
        const pf_session_options options = { .size = sizeof options, .verifier = &u.head, .max_context = CONTEXT };
        u.head.is_far = true;
        pf_session *session = NULL;
        pf_error error = { 0 };
        assert_ok(pf_session_create(&options, &session, &error), error);
        pf_session_set_clock(session, p->clock_ns);
        assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
        assert_says(error, silent ? "has said nothing for 60 s" : "has not come back within 5 s");
        pf_session_destroy(session);
    }
}

static void a_cancelled_request_does_not_wait_for_a_verifier_to_return(void **state)
{
    pair *p = *state;
    const volatile bool told = true;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.gone_for = INT32_MAX;
    pf_session *session = open_session(p, &u.head, NULL);
    generated out;
    pf_error error = { 0 };
    pf_request request = plain_request();
    request.cancel = &told;
    assert_status(run(session, &request, &out, &error), PF_CANCELLED);
    pf_session_destroy(session);
}

static void a_verifier_that_returns_only_to_vanish_is_given_up_as_soon(void **state)
{
    pair *p = *state;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 16, p->clock_ns);
    u.only = VANISH;
    u.stays_for = 3; /* looks of 20 ms */
    pf_session *session = open_session(p, &u.head, NULL);
    generated out;
    pf_error error = { 0 };
    const pf_request request = plain_request();
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_says(error, "has not come back within 0.2 s");
    assert_in_range(u.n_reopened, 1, 12);
    pf_session_destroy(session);
}

static void an_answer_resets_the_return_limit_of_a_verifier(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 4, p->clock_ns);
    u.only = VANISH;
    u.stays_for = 6; /* looks of 20 ms: more than half of the limit */
    generate(p, &u.head, p->drafter, &request, &out);
    assert_same_text(&out, &p->plain);
    assert_in_range(u.n_reopened, 2, N_NEW);
}

static void a_verifier_that_was_restarted_between_two_requests_serves_the_second(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    pf_session *session = open_session(p, &u.head, p->drafter);
    pf_error error = { 0 };
    for (int i = 0; i < 2; i++) {
        assert_ok(run(session, &request, &out, &error), error);
        assert_same_text(&out, &p->plain);
        u.gone_for = 3;
    }
    pf_session_destroy(session);
}

/* A request is cancelled while its prompt is read: its first token arrives while another request waits for its own. */
static void two_sessions_of_one_peer_take_no_answers_of_each_other(void **state)
{
    pair *p = *state;
    generated out;
    bool cancel = false;
    static const int32_t prompt[N_PLAIN_PROMPT] = { 7, 7, 7, 1, 9 };
    pf_request first = plain_request(), second = first;
    first.prompt = prompt;
    first.cancel = &cancel;
    for (int wire = 0; wire < 2; wire++) { /* at one end of it the verifier, at one the drafter */
        late_peer late = late_peer_of(wire ? p->drafter : p->verifier, 0, p->clock_ns);
        pf_peer *verifier = wire ? p->verifier : &late.head, *drafter = wire ? &late.head : NULL;
        pf_session *a = open_session(p, verifier, drafter), *b = open_session(p, verifier, drafter);
        pf_error error = { 0 };
        late.cancels = &cancel;
        cancel = false;
        first.n_prompt =
            N_PLAIN_PROMPT - wire; /* so that a proposal violates the protocol, and a verdict commits a token */
        assert_status(run(a, &first, &out, &error), PF_CANCELLED);
        assert_int_equal(late.n, 1);
        late.cancels = NULL;
        p->n_warnings = 0;
        assert_ok(run(b, &second, &out, &error), error);
        assert_same_text(&out, &p->plain);
        assert_int_equal(p->n_warnings, 0);
        pf_session_destroy(a);
        pf_session_destroy(b);
    }
}

/* The proposal of a request that was cancelled arrives a tenth of the way into the wait for the next one's. */
static void an_answer_to_an_earlier_request_of_a_kept_sequence_is_not_counted(void **state)
{
    pair *p = *state;
    generated out;
    bool cancel = false;
    pf_error error = { 0 };
    pf_request request = plain_request();
    late_peer late = late_peer_of(p->drafter, MS, p->clock_ns);
    pf_session *session = open_session(p, p->verifier, &late.head);
    late.cancels = &cancel;
    request.cancel = &cancel;
    request.keep_sequence = true;
    const uint64_t begin_ns = *p->clock_ns;
    assert_status(run(session, &request, &out, &error), PF_CANCELLED);
    assert_int_equal(late.n, 1);
    late.cancels = NULL;
    cancel = false;
    request.max_new_tokens = 2;
    *p->clock_ns = begin_ns + MS * 9 / 10;
    p->n_warnings = 0;
    assert_ok(run(session, &request, &out, &error), error);
    assert_memory_equal(out.tokens, p->plain.tokens, 2 * sizeof *out.tokens);
    assert_int_equal(p->n_warnings, 0);
    assert_true(session->draft_wait.latency_ns >= (double)MS);
    pf_session_destroy(session);
}

static void reading_the_prompt_is_no_round(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    request.max_new_tokens = 1;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    generate(p, &u.head, p->drafter, &request, &out);
    assert_true(out.result.prefill_ns > 0);
    assert_int_equal(out.result.speculation.n_rpc, 0);
    assert_int_equal(out.result.speculation.verify_ns, 0);
}

static void a_verifier_at_work_is_waited_for_while_it_gives_signs_of_life(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.computes = 20; /* looks: five times the limit */
    u.sign_at = 3;
    generate(p, &u.head, p->drafter, &request, &out);
    assert_same_text(&out, &p->plain);

    u.sign_at = 0;
    pf_session *session = open_session(p, &u.head, p->drafter);
    pf_error error = { 0 };
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_string_equal(error.text, "the verifier has said nothing for 0.2 s, expected a verdict or a sign of life");
    assert_int_equal(u.n_looks, LIMIT_NS / 50000000);
    pf_session_destroy(session);
}

static void a_verifier_that_is_silent_and_then_lost_time_and_again_is_given_up_as_silent(void **state)
{
    pair *p = *state;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 16, p->clock_ns);
    u.only = VANISH;
    u.stays_for = 1;
    u.computes = 3; /* looks: less than the limit */
    pf_session *session = open_session(p, &u.head, p->drafter);
    generated out;
    pf_error error = { 0 };
    const pf_request request = plain_request();
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_string_equal(error.text, "the verifier has said nothing for 0.2 s, expected a verdict or a sign of life");
    assert_int_equal(u.n_reopened, 1);
    pf_session_destroy(session);
}

static void a_stopped_process_does_not_time_out_the_verifier(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.computes = 1;
    u.sleeps_us = (uint32_t)(2 * LIMIT_NS / 1000);
    generate(p, &u.head, p->drafter, &request, &out);
    assert_same_text(&out, &p->plain);
}

static void a_verdict_that_does_not_fit_is_refused(void **state)
{
    pair *p = *state;
    const struct {
        bool too_many, another, none;
        uint64_t rounds_ahead;
        uint32_t incarnations_ahead;
        int32_t tokens_ahead, adds;
        const char *says;
    } cases[] = {
        { .too_many = true, .says = "of them accepted: expected the accepted ones as they were proposed" },
        { .another = true, .says = "of them accepted: expected the accepted ones as they were proposed" },
        { .none = true,
          .says = "tokens, 0 of them accepted: expected the accepted ones as they were proposed, and one" },
        { .adds = VOCAB, .says = "the verifier committed token " },
        { .adds = -1, .says = "the verifier committed token -1, the vocabulary has " },
        { .rounds_ahead = 7, .says = "the verifier gave a verdict of round 7, expected round 0" },
        { .incarnations_ahead = 1, .says = "the verifier gave a verdict of incarnation 2, expected 1" },
        { .tokens_ahead = 2, .says = "the verifier gave a verdict at token 7, expected 5" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        u.accept_too_many = cases[i].too_many;
        u.accept_another = cases[i].another;
        u.accept_none = cases[i].none;
        u.rounds_ahead = cases[i].rounds_ahead;
        u.incarnations_ahead = cases[i].incarnations_ahead;
        u.tokens_ahead = cases[i].tokens_ahead;
        u.adds = cases[i].adds;
        pf_session *session = open_session(p, &u.head, p->drafter);
        generated out;
        pf_error error = { 0 };
        const pf_request request = plain_request();
        assert_status(run(session, &request, &out, &error), PF_FORMAT);
        assert_says(error, cases[i].says);
        pf_session_destroy(session);
    }
}

static void a_refusal_of_the_verifier_ends_the_request_with_its_sentence(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    const struct {
        pf_status refuses_as, fails_as;
        const char *says;
    } cases[] = {
        { PF_UNSUPPORTED, PF_OK, "the verifier refuses the sequence: reason 0 of answer 1" },
        { PF_OK, PF_LIMIT, "the verifier did not take the sequence: limit" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        u.refuses_as = cases[i].refuses_as;
        u.fails_as = cases[i].fails_as;
        pf_session *session = open_session(p, &u.head, p->drafter);
        pf_error error = { 0 };
        assert_status(run(session, &request, &out, &error), i == 0 ? PF_UNSUPPORTED : PF_LIMIT);
        assert_string_equal(error.text, cases[i].says);
        pf_session_destroy(session);
    }
}

/* A near peer is not waited for. */
static void a_near_peer_that_takes_nothing_ends_the_request(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    for (int drafts = 0; drafts < 2; drafts++) {
        unreliable_peer u = unreliable_peer_of(drafts ? p->drafter : p->verifier, 1, 0, p->clock_ns);
        u.fails_as = PF_UNAVAILABLE;
        const pf_session_options options = { .size = sizeof(pf_session_options),
                                             .verifier = drafts ? p->verifier : &u.head,
                                             .drafter = drafts ? &u.head : NULL,
                                             .max_context = CONTEXT };
        pf_session *session = NULL;
        pf_error error = { 0 };
        assert_ok(pf_session_create(&options, &session, &error), error);
        pf_session_set_clock(session, p->clock_ns);
        assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
        assert_says(error, drafts ? "the drafter took no verdict" : "the verifier did not take the sequence");
        pf_session_destroy(session);
    }
}

static void a_refusal_of_what_was_open_before_refuses_nothing(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    unreliable_peer verifier = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns),
                    drafter = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    verifier.refuses_late = drafter.refuses_late = 1;
    p->n_warnings = 0;
    generate(p, &verifier.head, &drafter.head, &request, &out);
    assert_same_text(&out, &p->plain);
    assert_int_equal(p->n_warnings, 0);
    assert_true(out.result.speculation.accepted > 0);
}

typedef struct {
    int32_t n_calls, n_read;
} prompt_reader;

static void note_prompt(void *user, int32_t n_read)
{
    prompt_reader *r = user;
    r->n_calls++;
    r->n_read = n_read;
}

/* And of no other: a text that is read again is not its prompt. */
static void prompt_progress_is_reported_with_each_empty_answer(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    prompt_reader reader = { 0 };
    request.on_prompt = note_prompt;
    request.user = &reader;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.computes = 3;
    u.sign_at = 1;
    u.unread = 2;
    u.vanish_at = 4;
    generate(p, &u.head, NULL, &request, &out);
    assert_same_text(&out, &p->plain);
    assert_int_equal(u.n_reopened, 1);
    assert_int_equal(reader.n_calls, 3);
    assert_int_equal(reader.n_read, N_PLAIN_PROMPT - 2);
}

/* Nor is it asked: one that knows no better might judge by another. */
static void a_method_that_the_verifier_does_not_speak_is_refused_by_name(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.methods = 1u << PF_METHOD_GREEDY | 1u << PF_METHOD_REJECTION;
    pf_session *session = open_session(p, &u.head, p->drafter);
    request.method = PF_METHOD_COUPLED;
    request.sampling.temperature = 1.0f;
    pf_error error = { 0 };
    assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "does not judge by the method coupled");
    assert_int_equal(u.open.sequence, 0);
    request.method = (pf_method)(PF_METHOD_TRAVERSAL + 1);
    assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "there is no method 7, expected 0 to 6");
    request.method = PF_METHOD_REJECTION;
    assert_ok(run(session, &request, &out, &error), error);
    pf_session_destroy(session);
    request.method = PF_METHOD_COUPLED;
    u.methods = UINT32_MAX;
    generate(p, &u.head, p->drafter, &request, &out); /* it may be asked */
}

static void a_verifier_that_never_keeps_the_sequence_is_given_up(void **state)
{
    pair *p = *state;
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.knows_nothing = true;
    pf_session *session = open_session(p, &u.head, p->drafter);
    generated out;
    pf_error error = { 0 };
    const pf_request request = plain_request();
    const uint64_t begin_ns = *p->clock_ns;
    assert_status(run(session, &request, &out, &error), PF_UNAVAILABLE);
    assert_says(error, "lost the sequence 50 times");
    assert_true(*p->clock_ns - begin_ns > 900 * MS); /* a restart may take so long */
    pf_session_destroy(session);
}

static void a_text_ends_where_the_verifier_ignores_stop_tokens(void **state)
{
    pair *p = *state;
    generated plain, out;
    pf_request request = plain_request();
    for (request.max_new_tokens = 2; request.max_new_tokens < 10; request.max_new_tokens++) {
        generate(p, p->verifier, NULL, &request, &plain);
        unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        u.ignore_limits = true;
        generate(p, &u.head, p->drafter, &request, &out);
        assert_same_text(&out, &plain);
    }
    for (int at = 0; at < 2; at++) {
        int32_t stop_tokens[] = { VOCAB - 1, VOCAB - 1 };
        stop_tokens[at] = p->plain.tokens[5];
        request.stop_tokens = stop_tokens;
        request.n_stop_tokens = 2;
        generate(p, p->verifier, NULL, &request, &plain);
        assert_int_equal(plain.result.finish, PF_FINISH_EOS);
        for (request.draft_len = 1; request.draft_len <= 5; request.draft_len++) {
            unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
            u.ignore_limits = true;
            generate(p, &u.head, p->drafter, &request, &out);
            assert_same_text(&out, &plain);
        }
    }
    request.n_stop_tokens = 0;
    /* At the context's end its last verdict has a token too many. */
    request.max_new_tokens = CONTEXT;
    generate(p, p->verifier, NULL, &request, &plain);
    unreliable_peer u = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    u.ignore_limits = true;
    for (request.draft_len = 1; request.draft_len <= 5; request.draft_len++) {
        generate(p, &u.head, p->drafter, &request, &out);
        assert_same_text(&out, &plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drafter_that_loses_answers_lies_and_vanishes_changes_no_token),
        cmocka_unit_test(a_drafter_that_is_never_there_is_plain_decoding_and_one_warning),
        cmocka_unit_test(a_drafter_that_returns_costs_no_round_more_than_it_was_away),
        cmocka_unit_test(a_drafter_that_comes_with_the_first_token_is_told_all_at_once),
        cmocka_unit_test(a_drafter_is_told_what_was_accepted_of_it),
        cmocka_unit_test(a_drafter_that_is_gone_is_warned_of_with_the_reason_once_for_each_kind),
        cmocka_unit_test(a_drafter_that_comes_and_goes_is_warned_of_three_times),
        cmocka_unit_test(opens_carry_the_parameters_of_the_request),
        cmocka_unit_test(a_drafter_that_is_not_there_when_the_session_begins_is_told_of_once),
        cmocka_unit_test(a_drafter_that_comes_late_is_asked_once_what_it_is),
        cmocka_unit_test(a_drafter_that_comes_late_with_another_vocabulary_is_warned_of_and_not_asked),
        cmocka_unit_test(a_drafter_that_proposes_for_what_was_not_asked_is_warned_of_once_and_not_asked_again),
        cmocka_unit_test(a_drafter_that_refuses_is_warned_of_once_for_each_kind_of_refusal),
        cmocka_unit_test(proposals_are_no_longer_than_the_verifier_takes),
        cmocka_unit_test(draft_distributions_are_no_larger_than_either_peer_supports),
        cmocka_unit_test(what_is_proposed_beyond_what_was_asked_is_not_counted),
        cmocka_unit_test(a_drafter_that_comes_late_and_lacks_what_is_asked_for_is_warned_of_and_not_asked_again),
        cmocka_unit_test(a_proposal_out_of_the_vocabulary_never_reaches_a_far_verifier),
        cmocka_unit_test(a_distribution_out_of_the_vocabulary_never_reaches_a_far_verifier),
        cmocka_unit_test(a_drafter_that_is_far_behind_is_left_alone_until_it_takes_more),
        cmocka_unit_test(reading_late_answers_of_a_flooding_drafter_is_bounded),
        cmocka_unit_test(reading_slow_late_answers_is_bounded_in_time),
        cmocka_unit_test(a_far_drafter_that_does_not_pay_is_left_alone),
        cmocka_unit_test(a_far_drafter_that_begins_to_pay_is_waited_for_again),
        cmocka_unit_test(the_rest_of_a_late_proposal_is_proposed),
        cmocka_unit_test(a_far_drafter_is_told_how_long_a_verification_takes_and_when_a_proposal_is_of_no_use),
        cmocka_unit_test(a_cancelled_request_does_not_wait_for_a_far_drafter),
        cmocka_unit_test(an_empty_proposal_is_a_round_without_one),
        cmocka_unit_test(a_drafter_that_never_keeps_the_sequence_is_plain_decoding),
        cmocka_unit_test(a_peer_that_says_it_computed_for_longer_than_it_was_away_took_no_time_to_reach),
        cmocka_unit_test(a_verifier_that_vanishes_and_returns_changes_no_token),
        cmocka_unit_test(a_verifier_that_does_not_return_is_given_up_with_the_reason),
        cmocka_unit_test(a_verifier_has_5_s_to_return_and_60_s_to_answer_by_default),
        cmocka_unit_test(a_cancelled_request_does_not_wait_for_a_verifier_to_return),
        cmocka_unit_test(a_verifier_that_returns_only_to_vanish_is_given_up_as_soon),
        cmocka_unit_test(an_answer_resets_the_return_limit_of_a_verifier),
        cmocka_unit_test(a_verifier_that_was_restarted_between_two_requests_serves_the_second),
        cmocka_unit_test(two_sessions_of_one_peer_take_no_answers_of_each_other),
        cmocka_unit_test(an_answer_to_an_earlier_request_of_a_kept_sequence_is_not_counted),
        cmocka_unit_test(reading_the_prompt_is_no_round),
        cmocka_unit_test(a_verifier_at_work_is_waited_for_while_it_gives_signs_of_life),
        cmocka_unit_test(a_verifier_that_is_silent_and_then_lost_time_and_again_is_given_up_as_silent),
        cmocka_unit_test(a_stopped_process_does_not_time_out_the_verifier),
        cmocka_unit_test(a_verdict_that_does_not_fit_is_refused),
        cmocka_unit_test(a_refusal_of_the_verifier_ends_the_request_with_its_sentence),
        cmocka_unit_test(a_near_peer_that_takes_nothing_ends_the_request),
        cmocka_unit_test(a_refusal_of_what_was_open_before_refuses_nothing),
        cmocka_unit_test(prompt_progress_is_reported_with_each_empty_answer),
        cmocka_unit_test(a_method_that_the_verifier_does_not_speak_is_refused_by_name),
        cmocka_unit_test(a_verifier_that_never_keeps_the_sequence_is_given_up),
        cmocka_unit_test(a_text_ends_where_the_verifier_ignores_stop_tokens),
    };
    return cmocka_run_group_tests(tests, open_simulated_pair, close_pair);
}
