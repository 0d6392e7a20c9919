/* The generation loop over tiny random models: its text, its end, and what it refuses. Peers that fail: far_peers_test.c. */
#include "base/clock.h"
#include "engine/run.h"
#include "tests/support/alloc_count.h"
#include "tests/support/generating.h"
#include "tests/support/test.h"
#include "tests/support/unreliable_peer.h"

/* ---- the text --------------------------------------------------------------------------------------------------- */

static void greedy_text_is_the_plain_text_at_every_draft_length(void **state)
{
    pair *p = *state;
    generated drafted;
    pf_request request = plain_request();
    int64_t n_accepted = 0, n_refused = 0;
    for (request.draft_len = 0; request.draft_len <= 8; request.draft_len++) { /* 0: the drafter chooses */
        unreliable_peer u = unreliable_peer_of(p->drafter, 7, 6, p->clock_ns);
        u.only = LIE;
        generate(p, p->verifier, &u.head, &request, &drafted);
        assert_same_text(&drafted, &p->plain);
        int64_t n_accepted_to = 0;
        for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) n_accepted_to += drafted.result.speculation.accepted_to[i];
        assert_int_equal(n_accepted_to, drafted.result.speculation.accepted);
        n_accepted += drafted.result.speculation.accepted;
        n_refused += drafted.result.speculation.drafted - drafted.result.speculation.accepted;
    }
    if (n_accepted == 0 || n_refused == 0)
        fail_msg("%lld tokens accepted, %lld refused: nothing was tried", (long long)n_accepted, (long long)n_refused);
}

static void coupled_text_is_the_plain_text_of_its_seed(void **state)
{
    pair *p = *state;
    generated plain, drafted;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        pf_request request = plain_request();
        request.sampling = (pf_sampling){ .temperature = 0.9f, .top_k = 40, .top_p = 0.95f, .seed = seed };
        request.method = PF_METHOD_COUPLED;
        generate(p, p->verifier, NULL, &request, &plain);
        generate(p, p->verifier, p->drafter, &request, &drafted);
        assert_same_text(&drafted, &plain);
    }
}

static void sampled_text_depends_on_the_seed_only(void **state)
{
    pair *p = *state;
    generated out[3];
    const uint64_t seeds[] = { 0, 1, 0 };
    for (int i = 0; i < 3; i++) {
        pf_request request = plain_request();
        request.sampling = (pf_sampling){ .temperature = 1.0f, .top_p = 1.0f, .seed = seeds[i] };
        generate(p, p->verifier, p->drafter, &request, &out[i]);
    }
    assert_same_text(&out[0], &out[2]);
    assert_memory_not_equal(out[0].tokens, out[1].tokens, N_NEW * sizeof *out[0].tokens);
}

/* The embedding is the head, so one id has a logit of NaN in every row. */
static void invalid_logits_are_one_warning_a_request_and_model(void **state)
{
    (void)state;
    enum { NAN_ID = 7 };
    pair p = { 0 };
    pf_error error = { 0 };
    const pf_tiny_model model = { .seed = 1, .tied = true, .nan_token = NAN_ID };
    p.target = open_engine(&model, NULL);
    p.draft = open_engine(&model, p.target);
    assert_ok(pf_engine_verifier(p.target, NULL, &p.verifier, &error), error);
    assert_ok(pf_engine_drafter(p.draft, NULL, &p.drafter, &error), error);
    for (int drawn = 0; drawn < 2; drawn++) {
        pf_request request = plain_request();
        if (drawn) request.sampling.temperature = 1.0f;
        p.n_warnings = 0;
        generate(&p, p.verifier, NULL, &request, &p.plain);
        assert_int_equal(p.plain.result.invalid_rows, N_NEW);
        assert_int_equal(p.n_warnings, 1);
        assert_non_null(strstr(p.warning.text, "NaN or infinity in 60 rows of logits; the first is the row after "
                                               "position 4, at id 7"));
        for (int32_t i = 0; i < N_NEW; i++) assert_int_not_equal(p.plain.tokens[i], NAN_ID);

        generated drafted;
        generate(&p, p.verifier, p.drafter, &request, &drafted);
        assert_int_equal(p.n_warnings, 3); /* the target's and the draft's */
        assert_non_null(strstr(p.warning.text, "the draft "));
        assert_non_null(strstr(p.warning.text, "after position 5, at id 7"));
        assert_in_range(drafted.result.invalid_rows, N_NEW, 3 * N_NEW);
    }
    close_pair((void *[]){ &p });
}

static void a_valid_model_is_not_warned_of(void **state)
{
    pair *p = *state;
    generated out;
    const pf_request request = plain_request();
    p->n_warnings = 0;
    generate(p, p->verifier, p->drafter, &request, &out);
    assert_int_equal(p->n_warnings, 0);
    assert_int_equal(out.result.invalid_rows, 0);
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
    generated out;
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

/* Along its longest path, and besides. */
static void tree_tokens_are_counted_as_drafted_or_branches(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    request.draft_len = 0; /* as trees come */
    unreliable_peer u = unreliable_peer_of(p->drafter, 1, 0, p->clock_ns);
    u.siblings = 3;
    generate(p, p->verifier, &u.head, &request, &out);
    assert_same_text(&out, &p->plain);
    const pf_speculation *s = &out.result.speculation;
    assert_true(s->rounds > 0);
    assert_int_equal(s->branches, 3 * s->rounds);
    assert_in_range(s->drafted, s->rounds, 2 * s->rounds);
    assert_int_equal(s->drafted, s->reached[0] + s->reached[1]);
}

static void the_result_has_the_times(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    const uint64_t begin_ns = pf_now_ns();
    generate(p, p->verifier, p->drafter, &request, &out);
    const pf_result *r = &out.result;
    assert_true(r->prefill_ns > 0 && r->first_token_ns >= r->prefill_ns && r->decode_ns > 0);
    assert_true(r->first_token_ns + r->decode_ns <= pf_now_ns() - begin_ns);
    assert_true(r->speculation.draft_ns > 0 && r->speculation.verify_ns > 0);
    assert_true(r->speculation.draft_ns + r->speculation.verify_ns <= r->decode_ns);
    assert_int_equal(r->speculation.n_rpc, 0); /* both are near */
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
        generated out;
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_int_equal(l.n, N_NEW);
        assert_int_equal(l.n_allocations, 0);

        l.n = 0;
        static uint64_t clock_ns = 1;
        p->clock_ns = &clock_ns;
        unreliable_peer drafter = unreliable_peer_of(p->drafter, 3, 4, p->clock_ns),
                        verifier = unreliable_peer_of(p->verifier, 1, 0, p->clock_ns);
        verifier.vanish_at = 9;
        p->n_warnings = 0;
        generate(p, &verifier.head, &drafter.head, &request, &out);
        assert_int_equal(l.n, N_NEW);
        assert_int_equal(l.n_allocations, 0); /* peers that are lost are told of without any, too */
        assert_true(p->n_warnings > 1);
        p->clock_ns = NULL;
    }
}

static void a_callback_that_returns_false_ends_the_text(void **state)
{
    pair *p = *state;
    for (int32_t n = 1; n < 10; n++) {
        listener l = { .stop_at = n };
        pf_request request = plain_request();
        request.on_token = listen_until;
        request.user = &l;
        generated out;
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_int_equal(out.result.n_tokens, n);
        assert_int_equal(out.result.finish, PF_FINISH_STOP);
        assert_in_range(out.result.speculation.accepted, 0, n - 1); /* what was not kept does not count */
    }
}

static void a_stop_token_is_the_last_and_is_kept(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    int32_t at = 7;
    for (int32_t i = 0; i < at; i++)
        if (p->plain.tokens[i] == p->plain.tokens[at]) at = i; /* its first occurrence */
    request.stop_tokens = &p->plain.tokens[at];
    request.n_stop_tokens = 1;
    generate(p, p->verifier, p->drafter, &request, &out);
    assert_int_equal(out.result.n_tokens, at + 1);
    assert_int_equal(out.result.finish, PF_FINISH_EOS);
}

/* The text's own end before the caller's, and that before the length. */
static void of_several_reasons_to_end_the_first_is_reported(void **state)
{
    pair *p = *state;
    const struct {
        bool eos, stop;
        pf_finish finish;
    } cases[] = { { true, true, PF_FINISH_EOS }, { true, false, PF_FINISH_EOS }, { false, true, PF_FINISH_STOP } };
    const int32_t stop_tokens[] = { VOCAB - 1, p->plain.tokens[0] };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        listener l = { .stop_at = cases[i].stop ? 1 : 0 };
        pf_request request = plain_request();
        request.max_new_tokens = 1;
        request.on_token = listen_until;
        request.user = &l;
        request.stop_tokens = stop_tokens;
        request.n_stop_tokens = cases[i].eos ? 2 : 1;
        generated out;
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_int_equal(out.result.n_tokens, 1);
        assert_int_equal(out.result.finish, cases[i].finish);
    }
}

static void a_cancelled_request_keeps_what_it_has(void **state)
{
    pair *p = *state;
    listener l = { .stop_at = 5 };
    pf_request request = plain_request();
    request.on_token = listen;
    request.user = &l;
    request.cancel = &l.cancel;
    pf_session *session = open_session(p, p->verifier, p->drafter);
    generated out;
    pf_error error = { 0 };
    assert_status(run(session, &request, &out, &error), PF_CANCELLED);
    assert_says(error, "the request was cancelled");
    assert_in_range(out.result.n_tokens, 5, N_NEW - 1);
    assert_int_equal(out.result.finish, PF_FINISH_NONE);
    request.cancel = NULL;
    request.on_token = NULL;
    assert_ok(run(session, &request, &out, &error), error); /* the session serves on */
    assert_int_equal(out.result.n_tokens, N_NEW);
    pf_session_destroy(session);
}

/* And is not called silent. */
static void stopping_a_near_verifier_ends_the_request(void **state)
{
    (void)state;
    listener l = { .stop_at = 5 };
    pair p = { .target = open_engine(&(pf_tiny_model){ .seed = 1 }, NULL) };
    pf_error error = { 0 };
    assert_ok(pf_engine_verifier(p.target, &(pf_role_options){ .size = sizeof(pf_role_options), .stop = &l.cancel },
                                 &p.verifier, &error),
              error);
    pf_session *session = open_session(&p, p.verifier, NULL);
    pf_request request = plain_request();
    request.on_token = listen;
    request.user = &l;
    generated out;
    assert_status(run(session, &request, &out, &error), PF_CANCELLED);
    assert_says(error, "told to stop");
    assert_int_equal(out.result.n_tokens, 5);
    pf_session_destroy(session);
    (void)close_pair(&(void *){ &p });
}

static void a_full_context_ends_the_text(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    request.max_new_tokens = CONTEXT;
    generate(p, p->verifier, p->drafter, &request, &out);
    assert_int_equal(out.result.n_tokens, CONTEXT - N_PLAIN_PROMPT);
    assert_int_equal(out.result.finish, PF_FINISH_LENGTH);
}

static void a_verifier_whose_context_is_full_ends_the_text(void **state)
{
    pair *p = *state;
    const pf_session_options options = { .size = sizeof(pf_session_options),
                                         .verifier = p->verifier,
                                         .max_context = CONTEXT + 9 };
    pf_session *session = NULL;
    pf_error error = { 0 };
    assert_ok(pf_session_create(&options, &session, &error), error);
    pf_request request = plain_request();
    request.max_new_tokens = CONTEXT;
    generated out;
    assert_ok(run(session, &request, &out, &error), error);
    assert_int_equal(out.result.n_tokens, CONTEXT - N_PLAIN_PROMPT + 1); /* the last one is not fed */
    assert_int_equal(out.result.finish, PF_FINISH_LENGTH);
    pf_session_destroy(session);
}

static void a_request_may_go_to_every_limit(void **state)
{
    pair *p = *state;
    generated out;
    pf_request request = plain_request();
    int32_t stop_tokens[PF_MAX_STOP_TOKENS];
    for (int32_t i = 0; i < PF_MAX_STOP_TOKENS; i++) stop_tokens[i] = VOCAB + i;
    request.stop_tokens = stop_tokens;
    request.n_stop_tokens = PF_MAX_STOP_TOKENS;
    request.draft_len = PF_MAX_DRAFT_TOKENS;
    generate(p, p->verifier, p->drafter, &request, &out);
    assert_same_text(&out, &p->plain);
    request.draft_len++;
    generate(p, p->verifier, NULL, &request, &out); /* no drafter */
    assert_same_text(&out, &p->plain);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static void an_impossible_request_is_refused_with_a_sentence(void **state)
{
    pair *p = *state;
    static const int32_t beyond[] = { 1, VOCAB };
    static int32_t longer[CONTEXT];
    pf_request none = plain_request(), high = none, over = none, zero = none, room = none, far = none, less = none,
               hot = none, ends = none, few = none;
    none.n_prompt = 0;
    high.prompt = beyond, high.n_prompt = 2;
    over.prompt = longer, over.n_prompt = CONTEXT;
    zero.max_new_tokens = -1;
    room.max_new_tokens = CONTEXT + 1;
    far.draft_len = PF_MAX_DRAFT_TOKENS + 1;
    less.draft_len = -1;
    ends.n_stop_tokens = PF_MAX_STOP_TOKENS + 1;
    few.n_stop_tokens = -1;
    hot.sampling.temperature = -1.0f;
    const struct {
        const pf_request *request;
        const char *sentence;
    } cases[] = { { &none, "prompt is empty" },
                  { &high, "token 1 of the prompt is 128, expected 0 to 127" },
                  { &over, "160 tokens" },
                  { &zero, "-1 new tokens" },
                  { &far, "draft length of 65" },
                  { &hot, "temperature" },
                  { &room, "161 new tokens with room for 160" },
                  { &less, "draft length of -1" },
                  { &ends, "65 stop tokens" },
                  { &few, "-1 stop tokens" } };
    pf_session *session = open_session(p, p->verifier, p->drafter);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        generated out;
        pf_error error = { 0 };
        assert_status(run(session, cases[i].request, &out, &error), PF_INVALID);
        assert_says(error, cases[i].sentence);
    }
    pf_error error = { 0 }; /* nor is anything left of what the result was before */
    pf_result result = { .size = sizeof(pf_result),
                         .n_tokens = 3,
                         .finish = PF_FINISH_EOS,
                         .prefill_ns = 1,
                         .first_token_ns = 1,
                         .decode_ns = 1,
                         .speculation.rounds = 1 };
    const pf_result nothing = { .size = sizeof nothing };
    assert_status(pf_generate(session, &none, &result, &error), PF_INVALID);
    assert_memory_equal(&result, &nothing, sizeof nothing);
    pf_session_destroy(session);
}

static void a_session_without_room_for_a_token_is_refused(void **state)
{
    pair *p = *state;
    const pf_session_options cases[] = {
        { .size = sizeof(pf_session_options), .verifier = p->verifier, .max_context = -1 },
        { .size = sizeof(pf_session_options), .verifier = p->verifier, .max_context = PF_MAX_PROMPT_TOKENS + 1 },
        { .size = sizeof(pf_session_options), .verifier = NULL, .max_context = CONTEXT }
    };
    pf_session *session = NULL;
    pf_error error = { 0 };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        assert_status(pf_session_create(&cases[i], &session, &error), PF_INVALID);
        assert_says(error, "a session needs a verifier, and a context of 1 to 1048576 tokens or 0");
        assert_null(session);
    }
    pf_session_options least = cases[0];
    least.max_context = PF_MAX_PROMPT_TOKENS;
    assert_ok(pf_session_create(&least, &session, &error), error);
    pf_session_destroy(session);
    least.max_context = 1;
    assert_ok(pf_session_create(&least, &session, &error), error);
    const pf_request request = plain_request();
    generated out;
    assert_status(run(session, &request, &out, &error), PF_INVALID);
    assert_says(error, "the context is 1, expected at least 2");
    pf_session_destroy(session);
}

static void two_vocabularies_are_refused_with_both_named(void **state)
{
    pair *p = *state;
    pf_error error = { 0 };
    pf_engine *other = open_engine(&(pf_tiny_model){ .vocab = 130 }, NULL);
    pf_peer *drafter;
    assert_ok(pf_engine_drafter(other, NULL, &drafter, &error), error);
    const pf_session_options options = {
        .size = sizeof(pf_session_options), .verifier = p->verifier, .drafter = drafter, .max_context = CONTEXT
    };
    pf_session *session = NULL;
    assert_status(pf_session_create(&options, &session, &error), PF_INVALID);
    assert_says(error, "130 tokens");
    assert_says(error, "128 tokens");
    assert_null(session);
    pf_peer_destroy(drafter);
    pf_engine_close(other);
}

static void fingerprints_that_differ_in_their_last_byte_are_shown_to_differ(void **state)
{
    (void)state;
    pf_model_info drafter = { .vocab_size = 4096, .vocab_fingerprint = { [0] = 0x2A, [31] = 0x01 } };
    pf_model_info verifier = { .vocab_size = 4096, .vocab_fingerprint = { [0] = 0x2A, [31] = 0xF0 } };
    memset(drafter.model_id, 'd', sizeof drafter.model_id - 1);
    memset(verifier.model_id, 'v', sizeof verifier.model_id - 1);
    pf_error error = { 0 }, warning;
    pf_vocab_match match;
    assert_status(pf_session_check_vocabularies(&drafter, &verifier, &match, &warning, &error), PF_INVALID);
    assert_says(error, "2a00");
    assert_says(error, "0001, against 4096 tokens, fingerprint 2a00");
    assert_says(error, "00f0");
    memset(drafter.vocab_fingerprint, 0, sizeof drafter.vocab_fingerprint); /* it names none: the size counts */
    assert_ok(pf_session_check_vocabularies(&drafter, &verifier, &match, &warning, &error), error);
    drafter.vocab_size++;
    assert_status(pf_session_check_vocabularies(&drafter, &verifier, &match, &warning, &error), PF_INVALID);
}

/* Texts "0", "1", ...; from `changed` on each with another byte before it. */
static const char *numbered_text(const void *user, int32_t id, size_t *n_bytes)
{
    static char text[16];
    *n_bytes = (size_t)snprintf(text, sizeof text, "%s%d", id >= *(const int32_t *)user ? "x" : "", id);
    return text;
}

static void a_target_of_another_engine_is_compared_by_its_texts(void **state)
{
    (void)state;
    enum { N = 1000 };
    const int32_t drafts_differ_from = N, targets_differ_from = N - 40;
    const pf_vocab_texts of_draft = { numbered_text, &drafts_differ_from };
    const pf_vocab_texts equal = { numbered_text, &drafts_differ_from },
                         differing = { numbered_text, &targets_differ_from };
    pf_model_info drafter = { .vocab_size = N, .vocab_fingerprint = { 1 }, .texts = &of_draft };
    pf_vocab_hash(&drafter);
    drafter.texts = NULL; /* a far one */
    int32_t excluded[2 * PF_MAX_EXCLUDED], n_excluded = -1;
    pf_error error = { 0 }, warning;

    pf_model_info target = { .vocab_size = N, .texts = &equal };
    assert_ok(pf_vocabulary_match(&drafter, &target, excluded, &n_excluded, &warning, &error), error);
    assert_int_equal(n_excluded, 0);
    assert_string_equal(warning.text, "");
    target.texts = &differing;
    assert_ok(pf_vocabulary_match(&drafter, &target, excluded, &n_excluded, &warning, &error), error);
    assert_int_equal(n_excluded, 1);
    assert_int_equal(excluded[0], N - 40);
    assert_int_equal(excluded[1], N);
    assert_non_null(strstr(warning.text, "40 of 1000 ids differ"));
    target.vocab_size = N + 200; /* 240 of 1200 */
    assert_status(pf_vocabulary_match(&drafter, &target, excluded, &n_excluded, &warning, &error), PF_INVALID);
    assert_says(error, "80.0 %");
    target.vocab_size = 0;
    assert_status(pf_vocabulary_match(&drafter, &target, excluded, &n_excluded, &warning, &error), PF_INVALID);
}

static void an_engine_plays_one_role(void **state)
{
    pair *p = *state;
    pf_peer *second = NULL;
    pf_error error = { 0 };
    assert_status(pf_engine_drafter(p->target, NULL, &second, &error), PF_INVALID);
    assert_null(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_text_is_the_plain_text_at_every_draft_length),
        cmocka_unit_test(coupled_text_is_the_plain_text_of_its_seed),
        cmocka_unit_test(sampled_text_depends_on_the_seed_only),
        cmocka_unit_test(invalid_logits_are_one_warning_a_request_and_model),
        cmocka_unit_test(a_valid_model_is_not_warned_of),
        cmocka_unit_test(every_token_is_accounted_for),
        cmocka_unit_test(tree_tokens_are_counted_as_drafted_or_branches),
        cmocka_unit_test(the_result_has_the_times),
        cmocka_unit_test(nothing_is_allocated_between_the_first_token_and_the_last),
        cmocka_unit_test(a_callback_that_returns_false_ends_the_text),
        cmocka_unit_test(a_stop_token_is_the_last_and_is_kept),
        cmocka_unit_test(of_several_reasons_to_end_the_first_is_reported),
        cmocka_unit_test(a_cancelled_request_keeps_what_it_has),
        cmocka_unit_test(stopping_a_near_verifier_ends_the_request),
        cmocka_unit_test(a_full_context_ends_the_text),
        cmocka_unit_test(a_verifier_whose_context_is_full_ends_the_text),
        cmocka_unit_test(a_request_may_go_to_every_limit),
        cmocka_unit_test(an_impossible_request_is_refused_with_a_sentence),
        cmocka_unit_test(a_session_without_room_for_a_token_is_refused),
        cmocka_unit_test(two_vocabularies_are_refused_with_both_named),
        cmocka_unit_test(fingerprints_that_differ_in_their_last_byte_are_shown_to_differ),
        cmocka_unit_test(a_target_of_another_engine_is_compared_by_its_texts),
        cmocka_unit_test(an_engine_plays_one_role),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
