/* Requests that keep their sequence: the next one has the text of a fresh session, and computes only what is new. */
#include <string.h>

#include "engine/engine.h"
#include "tests/support/generating.h"
#include "tests/support/test.h"
#include "tests/support/unreliable_peer.h"

enum { N_TURNS = 5, N_ANSWER = 12 };

/* Prompts as a chat makes them: each goes on from the tokens before; then one that diverges early, and the same again. */
typedef struct {
    int32_t tokens[CONTEXT];
    int32_t n;
} turn;

static turn next_turn(int32_t number, const turn *before, const generated *answer)
{
    static const int32_t said[] = { 5, 17, 3, 99, 42 };
    turn next = *before;
    if (number == N_TURNS - 2) next.n = 3;
    if (number == N_TURNS - 1) return next;
    if (number > 0 && number < N_TURNS - 2) {
        memcpy(next.tokens + next.n, answer->tokens, (size_t)answer->result.n_tokens * sizeof *answer->tokens);
        next.n += answer->result.n_tokens;
    }
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) next.tokens[next.n++] = (said[i] + number) % VOCAB;
    return next;
}

/* Tokens that both turns begin with, where the earlier one was answered; the last token of a prompt is always computed. */
static int32_t count_shared(const turn *now, const turn *before, const generated *answer)
{
    int32_t all[CONTEXT], n = before->n, shared = 0;
    memcpy(all, before->tokens, (size_t)n * sizeof *all);
    memcpy(all + n, answer->tokens, (size_t)answer->result.n_tokens * sizeof *all);
    n += answer->result.n_tokens - 1; /* no pass has read the last one */
    while (shared < n && shared < now->n - 1 && all[shared] == now->tokens[shared]) shared++;
    return shared;
}

static pf_request ask(const turn *now, const pf_request *by)
{
    pf_request request = *by;
    request.prompt = now->tokens;
    request.n_prompt = now->n;
    request.max_new_tokens = N_ANSWER;
    return request;
}

/* A chat in one session beside the same turns in sessions of their own. reuses: -1 each time, or what is shared. */
static void assert_chat_equals_fresh_sessions(pair *p, pf_peer *verifier, pf_peer *drafter, const pf_request *by)
{
    pf_error error = { 0 };
    turn now = { .n = 0 };
    static generated kept, fresh[N_TURNS];
    turn turns[N_TURNS];
    for (int32_t i = 0; i < N_TURNS; i++) {
        turns[i] = now = next_turn(i, &now, i > 0 ? &fresh[i - 1] : NULL);
        const pf_request request = ask(&now, by);
        generate(p, p->verifier, drafter == NULL ? NULL : p->drafter, &request, &fresh[i]);
        assert_int_equal(fresh[i].result.reused_tokens, 0);
    }
    pf_session *session = open_session(p, verifier, drafter);
    for (int32_t i = 0; i < N_TURNS; i++) {
        pf_request request = ask(&turns[i], by);
        request.keep_sequence = true;
        assert_ok(run(session, &request, &kept, &error), error);
        assert_same_text(&kept, &fresh[i]);
        const int32_t shared = i == 0 ? 0 : count_shared(&turns[i], &turns[i - 1], &fresh[i - 1]);
        if (verifier == p->verifier) assert_int_equal(kept.result.reused_tokens, shared);
        assert_true(i == 0 || shared >= 3);
    }
    pf_session_destroy(session);
}

static void a_chat_has_the_text_of_fresh_sessions(void **state)
{
    pair *p = *state;
    pf_request request = plain_request();
    for (int drafts = 0; drafts < 2; drafts++) {
        pf_peer *drafter = drafts ? p->drafter : NULL;
        request.sampling.temperature = 0.0f;
        request.method = PF_METHOD_GREEDY;
        assert_chat_equals_fresh_sessions(p, p->verifier, drafter, &request);
        request.sampling.temperature = 0.9f;
        request.method = PF_METHOD_COUPLED;
        assert_chat_equals_fresh_sessions(p, p->verifier, drafter, &request);
        request.method = PF_METHOD_REJECTION;
        assert_chat_equals_fresh_sessions(p, p->verifier, drafter, &request);
        request.method = PF_METHOD_BLOCK;
        assert_chat_equals_fresh_sessions(p, p->verifier, drafter, &request);
    }
}

static void a_near_drafter_reads_only_what_is_new(void **state)
{
    pair *p = *state;
    pf_error error = { 0 };
    pf_request request = plain_request();
    static generated first, second;
    turn now = { .n = 0 };
    now = next_turn(0, &now, NULL);
    request = ask(&now, &request);
    request.keep_sequence = true;
    pf_session *session = open_session(p, p->verifier, p->drafter);
    assert_ok(run(session, &request, &first, &error), error);
    now = next_turn(1, &now, &first);
    request = ask(&now, &request);
    request.keep_sequence = true;
    assert_ok(run(session, &request, &second, &error), error);
    assert_true(second.result.speculation.accepted > 0);
    assert_int_equal(second.result.reused_tokens, now.n - 5 - 1);
    pf_session_destroy(session);
}

static void far_peers_that_fail_change_no_token(void **state)
{
    pair *p = *state;
    pf_request request = plain_request();
    int32_t n_reopened = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        unreliable_peer u = unreliable_peer_of(p->drafter, seed, 1 + (int32_t)(seed % 8), p->clock_ns);
        u.only = (mood)(seed % N_MOODS);
        assert_chat_equals_fresh_sessions(p, p->verifier, &u.head, &request);
        n_reopened += u.n_reopened;
        if (u.only == LIE) continue;
        unreliable_peer v = unreliable_peer_of(p->verifier, seed, 0, p->clock_ns);
        assert_chat_equals_fresh_sessions(p, &v.head, p->drafter, &request);
        assert_true(v.n_reopened >= N_TURNS - 1); /* each later turn opens the sequence again */
    }
    assert_true(n_reopened > 0);
}

static bool set_after_four(void *user, int32_t token, bool drafted)
{
    int32_t *left = user;
    (void)token;
    (void)drafted;
    return --*left > 0;
}

static void a_turn_that_was_cut_short_is_reused_too(void **state)
{
    pair *p = *state;
    pf_error error = { 0 };
    pf_request request = plain_request();
    static generated cut, after, fresh;
    int32_t left = 4;
    bool cancel = true;
    turn now = { .n = 0 };
    now = next_turn(0, &now, NULL);
    pf_session *session = open_session(p, p->verifier, p->drafter);
    request = ask(&now, &request);
    request.keep_sequence = true;
    request.cancel = &cancel;
    assert_status(run(session, &request, &cut, &error), PF_CANCELLED);
    request.cancel = NULL;
    request.on_token = set_after_four;
    request.user = &left;
    assert_ok(run(session, &request, &cut, &error), error);
    assert_int_equal(cut.result.finish, PF_FINISH_STOP);
    request.on_token = NULL;
    now = next_turn(1, &now, &cut);
    request = ask(&now, &request);
    request.keep_sequence = true;
    assert_ok(run(session, &request, &after, &error), error);
    assert_in_range(after.result.reused_tokens, 5 + 4 - 1, 5 + 4);
    pf_session_destroy(session);
    request.keep_sequence = false;
    generate(p, p->verifier, p->drafter, &request, &fresh);
    assert_same_text(&after, &fresh);
}

/* The engines have room for one sequence. */
static void a_kept_sequence_takes_its_place_until_it_is_let_go(void **state)
{
    pair *p = *state;
    pf_error error = { 0 };
    static generated out;
    pf_request keeps = plain_request(), plain = keeps;
    keeps.keep_sequence = true;
    pf_session *a = open_session(p, p->verifier, p->drafter), *b = open_session(p, p->verifier, p->drafter);
    assert_ok(run(a, &keeps, &out, &error), error);
    assert_status(run(b, &plain, &out, &error), PF_LIMIT);
    assert_ok(run(a, &plain, &out, &error), error); /* it does not keep it */
    assert_ok(run(b, &keeps, &out, &error), error);
    assert_same_text(&out, &p->plain);
    assert_status(run(a, &plain, &out, &error), PF_LIMIT);
    pf_session_destroy(b);
    assert_ok(run(a, &plain, &out, &error), error);
    assert_same_text(&out, &p->plain);
    pf_session_destroy(a);
}

static void a_request_that_is_refused_leaves_what_is_kept(void **state)
{
    pair *p = *state;
    pf_error error = { 0 };
    static generated out;
    static const int32_t unknown[] = { VOCAB };
    pf_request request = plain_request();
    request.keep_sequence = true;
    pf_session *session = open_session(p, p->verifier, NULL);
    assert_ok(run(session, &request, &out, &error), error);
    pf_request wrong = request;
    wrong.prompt = unknown;
    wrong.n_prompt = 1;
    assert_status(run(session, &wrong, &out, &error), PF_INVALID);
    assert_int_equal(out.result.reused_tokens, 0);
    assert_ok(run(session, &request, &out, &error), error);
    assert_int_equal(out.result.reused_tokens, N_PLAIN_PROMPT - 1);
    assert_same_text(&out, &p->plain);
    pf_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_has_the_text_of_fresh_sessions),
        cmocka_unit_test(a_near_drafter_reads_only_what_is_new),
        cmocka_unit_test(far_peers_that_fail_change_no_token),
        cmocka_unit_test(a_turn_that_was_cut_short_is_reused_too),
        cmocka_unit_test(a_kept_sequence_takes_its_place_until_it_is_let_go),
        cmocka_unit_test(a_request_that_is_refused_leaves_what_is_kept),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
