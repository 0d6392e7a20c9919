/* What a request says of single tokens: which are allowed, and that it wants their log-probabilities. Neither depends on drafts. */
#include <math.h>

#include "engine/engine.h"
#include "tests/support/generating.h"
#include "tests/support/test.h"
#include "tests/support/unreliable_peer.h"

static const pf_sampling WARM = { .temperature = 0.9f, .top_p = 0.95f, .seed = 11 };

/* A grammar: the token at each place is one of every third id, another third from place to place. */
typedef struct {
    int32_t text[CONTEXT];
    int32_t n_text; /* committed */
    int32_t n_calls, n_with_path;
    bool allows_none, is_wrong;
    pf_token_logprobs logprobs[CONTEXT];
    int32_t n_logprobs;
} grammar;

static bool is_allowed(int32_t place, int32_t id)
{
    return (id + place) % 3 == 0;
}

static void allow(void *user, const int32_t *text, int32_t n_text, const int32_t *path, int32_t n_path, uint32_t *mask,
                  int32_t n_ids)
{
    grammar *g = user;
    g->n_calls++;
    g->n_with_path += n_path > 0;
    g->is_wrong |= n_text > CONTEXT || n_ids < VOCAB || (n_path > 0 && !path);
    for (int32_t i = 0; i < n_text && i < g->n_text; i++) g->is_wrong |= text[i] != g->text[i];
    for (int32_t i = 0; i < (n_ids + 31) / 32; i++) g->is_wrong |= mask[i] != 0;
    for (int32_t id = 0; id < n_ids && !g->allows_none; id++)
        if (is_allowed(n_text + n_path, id)) mask[id / 32] |= 1u << id % 32;
}

static bool take_token(void *user, int32_t token, bool drafted)
{
    (void)drafted;
    grammar *g = user;
    g->text[g->n_text++] = token;
    return true;
}

static void take_logprobs(void *user, const pf_token_logprobs *logprobs)
{
    grammar *g = user;
    g->is_wrong |= g->n_logprobs != g->n_text; /* before the token */
    g->logprobs[g->n_logprobs++] = *logprobs;
}

static pf_request constrained_request(grammar *g)
{
    pf_request request = plain_request();
    *g = (grammar){ 0 };
    request.rules.allow = allow;
    request.rules.allow_user = g;
    request.on_token = take_token;
    request.user = g;
    request.ignore_eos = true;
    return request;
}

static void assert_constrained(const grammar *g)
{
    assert_false(g->is_wrong);
    assert_true(g->n_calls > 0);
    assert_int_equal(g->n_text, N_NEW);
    for (int32_t i = 0; i < g->n_text; i++) assert_true(is_allowed(i, g->text[i]));
}

static void allowed_tokens_alone_are_chosen_and_a_draft_drafts_among_them(void **state)
{
    pair *p = *state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_COUPLED, PF_METHOD_REJECTION };
    for (size_t m = 0; m < PF_COUNT(methods); m++) {
        grammar plain, drafted;
        generated plainly, out;
        pf_request request = constrained_request(&plain);
        request.method = methods[m];
        if (methods[m] != PF_METHOD_GREEDY) request.sampling = WARM;
        generate(p, p->verifier, NULL, &request, &plainly);
        assert_constrained(&plain);
        assert_int_equal(plain.n_with_path, 0);

        request.rules.allow_user = request.user = &drafted;
        drafted = (grammar){ 0 };
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_constrained(&drafted);
        assert_true(drafted.n_with_path > 0);
        if (methods[m] != PF_METHOD_REJECTION) assert_same_text(&out, &plainly);
        /* The draft is the target: inside the grammar nearly all that it proposes is accepted. */
        const pf_speculation *s = &out.result.speculation;
        assert_true(s->drafted > 0);
        assert_true(methods[m] == PF_METHOD_REJECTION ? s->accepted * 2 > s->drafted : s->accepted == s->drafted);
    }
}

static void a_far_draft_drafts_without_the_grammar_and_the_text_is_the_same(void **state)
{
    pair *p = *state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_COUPLED, PF_METHOD_REJECTION };
    for (size_t m = 0; m < PF_COUNT(methods); m++) {
        grammar plain, drafted;
        generated plainly, out;
        pf_request request = constrained_request(&plain);
        request.method = methods[m];
        if (methods[m] != PF_METHOD_GREEDY) request.sampling = WARM;
        generate(p, p->verifier, NULL, &request, &plainly);
        unreliable_peer far = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
        request.rules.allow_user = request.user = &drafted;
        drafted = (grammar){ 0 };
        generate(p, p->verifier, &far.head, &request, &out);
        assert_constrained(&drafted);
        if (methods[m] != PF_METHOD_REJECTION) assert_same_text(&out, &plainly);
        assert_true(out.result.speculation.drafted > 0);
        assert_true(out.result.speculation.accepted < out.result.speculation.drafted);
    }
}

static void a_hub_asks_the_grammar_of_each_session(void **state)
{
    pair *p = *state;
    grammar plain, shared;
    generated plainly, out;
    pf_error error = { 0 };
    pf_request request = constrained_request(&plain);
    generate(p, p->verifier, NULL, &request, &plainly);

    pf_hub_options options = PF_INIT(pf_hub_options);
    options.verifier = p->verifier;
    options.drafter = p->drafter;
    pf_hub *hub;
    pf_session_options peers = PF_INIT(pf_session_options);
    pf_session *session;
    assert_ok(pf_hub_create(&options, &hub, &error), error);
    assert_ok(pf_hub_verifier(hub, &peers.verifier, &error), error);
    assert_ok(pf_hub_drafter(hub, &peers.drafter, &error), error);
    assert_ok(pf_session_create(&peers, &session, &error), error);
    request = constrained_request(&shared);
    request.logprobs = 3;
    request.on_logprobs = take_logprobs;
    assert_ok(run(session, &request, &out, &error), error);
    assert_constrained(&shared);
    assert_same_text(&out, &plainly);
    assert_int_equal(shared.n_logprobs, N_NEW);
    for (int32_t i = 0; i < N_NEW; i++) assert_int_equal(shared.logprobs[i].token, shared.text[i]);
    pf_session_destroy(session);
    pf_peer_destroy(peers.drafter);
    pf_peer_destroy(peers.verifier);
    pf_hub_destroy(hub);
}

static void a_grammar_that_allows_nothing_ends_the_request(void **state)
{
    pair *p = *state;
    grammar g;
    pf_request request = constrained_request(&g);
    g.allows_none = true;
    pf_session *session = open_session(p, p->verifier, NULL);
    generated out;
    pf_error error = { 0 };
    assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "hold no number");
    pf_session_destroy(session);
}

/* ---- log-probabilities -------------------------------------------------------------------------------------------- */

static void collect_from(pair *p, pf_peer *verifier, pf_peer *drafter, const pf_request *like, grammar *g,
                         generated *out)
{
    pf_request request = *like;
    *g = (grammar){ 0 };
    request.logprobs = 1 + 4;
    request.on_logprobs = take_logprobs;
    request.on_token = take_token;
    request.user = g;
    generate(p, verifier, drafter, &request, out);
    assert_false(g->is_wrong);
    assert_int_equal(g->n_logprobs, out->result.n_tokens);
}

static void collect(pair *p, pf_peer *drafter, const pf_request *like, grammar *g, generated *out)
{
    collect_from(p, p->verifier, drafter, like, g, out);
}

static void collect_far(pair *p, const pf_request *like, grammar *g, generated *out)
{
    unreliable_peer far = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    collect_from(p, &far.head, p->drafter, like, g, out);
}

static void assert_sound(const pf_token_logprobs *l, int32_t token, bool is_greedy)
{
    double sum = 0.0;
    assert_int_equal(l->token, token);
    assert_true(l->logprob <= 0.0f && l->logprob > -INFINITY);
    assert_int_equal(l->n_top, 4);
    if (is_greedy) assert_int_equal(l->top[0], token);
    for (int32_t i = 0; i < l->n_top; i++) {
        sum += exp((double)l->top_logprobs[i]);
        if (i > 0) assert_true(l->top_logprobs[i] <= l->top_logprobs[i - 1]);
        if (l->top[i] == token) assert_true(l->top_logprobs[i] == l->logprob);
    }
    assert_true(sum > 0.0 && sum <= 1.0 + 1e-5);
}

static void log_probabilities_are_the_same_with_any_draft_and_change_no_text(void **state)
{
    pair *p = *state;
    for (int32_t kind = 0; kind < 3; kind++) {
        pf_request request = plain_request(); /* greedy; coupled; greedy with penalties */
        if (kind == 1) request.sampling = WARM;
        if (kind == 1) request.method = PF_METHOD_COUPLED;
        if (kind == 2) request.rules.repetition_penalty = 1.3f;
        generated without, plainly, out;
        grammar plain, drafted, far;
        generate(p, p->verifier, NULL, &request, &without);
        collect(p, NULL, &request, &plain, &plainly);
        assert_same_text(&plainly, &without);
        collect(p, p->drafter, &request, &drafted, &out);
        assert_same_text(&out, &plainly);
        assert_true(out.result.speculation.accepted > 0);
        collect_far(p, &request, &far, &out);
        assert_same_text(&out, &plainly);
        for (int32_t i = 0; i < plain.n_logprobs; i++) {
            assert_sound(&plain.logprobs[i], plainly.tokens[i], kind != 1);
            assert_memory_equal(&plain.logprobs[i], &drafted.logprobs[i], sizeof plain.logprobs[i]);
            assert_memory_equal(&plain.logprobs[i], &far.logprobs[i], sizeof plain.logprobs[i]);
        }
    }
}

static void what_a_verifier_of_another_process_cannot_do_is_refused(void **state)
{
    pair *p = *state;
    unreliable_peer far = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
    far.is_old = true;
    pf_session *session = open_session(p, &far.head, NULL);
    generated out;
    grammar g;
    pf_error error = { 0 };
    pf_request request = constrained_request(&g);
    assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "which tokens are allowed");
    request = plain_request();
    request.logprobs = 1;
    assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "gives no log-probabilities");
    request = plain_request();
    request.sampling = (pf_sampling){ .temperature = 1.0f, .typical_p = 0.5f };
    assert_status(run(session, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "does not apply typical_p");
    request.sampling.typical_p = 1.0f; /* off */
    assert_ok(run(session, &request, &out, &error), error);
    request.logprobs = PF_MAX_LOGPROBS + 2;
    assert_status(run(session, &request, &out, &error), PF_INVALID);
    assert_says(error, "expected 0 to 20");
    pf_session_destroy(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed_tokens_alone_are_chosen_and_a_draft_drafts_among_them),
        cmocka_unit_test(a_far_draft_drafts_without_the_grammar_and_the_text_is_the_same),
        cmocka_unit_test(a_hub_asks_the_grammar_of_each_session),
        cmocka_unit_test(a_grammar_that_allows_nothing_ends_the_request),
        cmocka_unit_test(log_probabilities_are_the_same_with_any_draft_and_change_no_text),
        cmocka_unit_test(what_a_verifier_of_another_process_cannot_do_is_refused),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
