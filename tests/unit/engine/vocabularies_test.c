/* A draft whose vocabulary differs from the target's: what it is told, what is refused, and that the text stays. */
#include <stdlib.h>
#include <string.h>

#include "engine/run.h"
#include "tests/support/generating.h"
#include "tests/support/test.h"

/* ---- a peer with texts -------------------------------------------------------------------------------------------- */

/* Passes all on to a model of ids alone, and says of itself what the test wants. */
typedef struct {
    pf_peer head;
    pf_peer *inner;
    pf_model_info info;
    pf_vocab_texts texts;
    int32_t renamed; /* from this id on, in steps of `step`, texts are others; -1: none */
    int32_t step;
    bool is_away; /* its info cannot be had */
    int32_t n_opens;
    int32_t excluded[2 * PF_MAX_EXCLUDED], n_excluded; /* of the last open */
    int32_t n_stops;
    int32_t most_told;             /* the largest id that it was told of */
    int32_t n_proposed[2 * VOCAB]; /* how often, by id */
} worded_peer;

static const char *token(const void *user, int32_t id, size_t *n_bytes)
{
    static char text[2][16];
    static int at;
    const worded_peer *w = user;
    const bool other = w->renamed >= 0 && id >= w->renamed && (id - w->renamed) % w->step == 0;
    at = !at;
    *n_bytes = (size_t)snprintf(text[at], sizeof text[at], "%c%d", other ? 'x' : 't', (int)id);
    return text[at];
}

static void note(worded_peer *w, const int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] > w->most_told) w->most_told = tokens[i];
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    worded_peer *w = (worded_peer *)peer;
    for (int32_t i = 0; i < batch->n_opens; i++) {
        const pf_open *open = &batch->opens[i];
        w->n_opens++;
        note(w, open->tokens, open->n_tokens);
        note(w, open->stop_tokens, open->n_stop_tokens);
        w->n_excluded = open->n_excluded;
        w->n_stops = open->n_stop_tokens;
        for (int32_t k = 0; k < 2 * open->n_excluded; k++) w->excluded[k] = open->excluded[k];
    }
    for (int32_t i = 0; i < batch->n_verdicts; i++) note(w, batch->verdicts[i].tokens, batch->verdicts[i].n_tokens);
    return pf_peer_submit(w->inner, batch);
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    worded_peer *w = (worded_peer *)peer;
    const pf_status status = pf_peer_collect(w->inner, deadline_ns, out, error);
    for (int32_t i = 0; status == PF_OK && i < (*out)->n_proposals; i++)
        for (int32_t k = 0; k < (*out)->proposals[i].n_tokens; k++) w->n_proposed[(*out)->proposals[i].tokens[k]]++;
    return status;
}

static pf_status tell_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    const worded_peer *w = (const worded_peer *)peer;
    if (w->is_away) return pf_fail(error, PF_UNAVAILABLE, "connection refused");
    *out = w->info;
    return PF_OK;
}

static void destroy(pf_peer *peer)
{
    (void)peer;
}

static const pf_peer_ops OPS = { .submit = submit, .collect = collect, .info = tell_info, .destroy = destroy };

/* fingerprint: equal ones say that nothing differs. */
static void give_words(worded_peer *w, pf_peer *inner, uint8_t fingerprint, int32_t renamed, int32_t step)
{
    memset(w, 0, sizeof *w);
    pf_error error;
    w->head.ops = &OPS;
    w->inner = inner;
    w->renamed = renamed;
    w->step = step;
    assert_ok(pf_peer_info(inner, &w->info, &error), error);
    w->info.vocab_fingerprint[0] = fingerprint;
    w->texts = (pf_vocab_texts){ token, w };
    w->info.texts = &w->texts;
    pf_vocab_hash(&w->info);
}

static void be_far(worded_peer *w)
{
    w->info.texts = NULL;
}

/* ---- a pair with texts -------------------------------------------------------------------------------------------- */

typedef struct {
    pf_engine *engine;
    pf_peer *drafter;
    worded_peer target, draft;
} differing;

/* The draft has n_ids, and is the target itself where these are as many. */
static void open_differing(differing *d, const pair *p, int32_t n_ids, int32_t renamed, int32_t step)
{
    pf_error error = { 0 };
    d->engine = open_engine(&(pf_tiny_model){ .seed = 1, .vocab = n_ids }, NULL);
    assert_ok(pf_engine_drafter(d->engine, NULL, &d->drafter, &error), error);
    give_words(&d->target, p->verifier, 1, -1, 1);
    give_words(&d->draft, d->drafter, 2, renamed, step);
}

static void close_differing(differing *d)
{
    pf_peer_destroy(d->drafter);
    pf_engine_close(d->engine);
}

static void on_warning(void *user, const char *sentence)
{
    pair *p = user;
    p->n_warnings++;
    pf_error_set(&p->warning, PF_OK, "%s", sentence);
}

static pf_status begin(pair *p, differing *d, bool drafter_is_far, pf_session **out, pf_error *error)
{
    p->n_warnings = 0;
    p->warning = (pf_error){ 0 };
    if (drafter_is_far) be_far(&d->draft);
    d->draft.head.is_far = drafter_is_far;
    const pf_session_options options = { .size = sizeof options,
                                         .verifier = &d->target.head,
                                         .drafter = &d->draft.head,
                                         .max_context = CONTEXT,
                                         .warn = on_warning,
                                         .warn_user = p };
    return pf_session_create(&options, out, error);
}

static void assert_drafts(pair *p, differing *d, bool drafter_is_far, const pf_request *request, const generated *plain)
{
    pf_session *session = NULL;
    pf_error error = { 0 };
    generated out;
    assert_ok(begin(p, d, drafter_is_far, &session, &error), error);
    assert_ok(run(session, request, &out, &error), error);
    assert_same_text(&out, plain);
    assert_true(out.result.speculation.rounds > 0);
    pf_session_destroy(session);
}

/* ---- what fits ---------------------------------------------------------------------------------------------------- */

static void a_draft_with_fewer_ids_is_told_of_those_that_it_has(void **state)
{
    pair *p = *state;
    static const int32_t prompt[] = { 5, 126, 3, 127, 42 };
    differing d;
    generated plain;
    pf_request request = plain_request();
    request.prompt = prompt;
    generate(p, p->verifier, NULL, &request, &plain);
    bool commits_unknown = false;
    for (int32_t i = 0; i < plain.result.n_tokens; i++) commits_unknown |= plain.tokens[i] >= 120;
    assert_true(commits_unknown);
    static const int32_t stop = VOCAB - 3; /* no token of the draft, and none of the text */
    request.stop_tokens = &stop;
    request.n_stop_tokens = 1;
    for (int i = 0; i < 2; i++) {
        open_differing(&d, p, 120, -1, 1);
        assert_drafts(p, &d, i == 1, &request, &plain);
        assert_true(d.draft.most_told < 120);
        assert_int_equal(d.draft.n_stops, 0);
        assert_int_equal(d.draft.n_excluded, 0);
        assert_int_equal(p->n_warnings, 1);
        assert_says(p->warning, "8 of 128 ids differ; the first is 120: no token in the draft, ");
        assert_says(p->warning, "\"t120\" in the target");
        close_differing(&d);
    }
}

static void a_draft_with_more_ids_never_proposes_them(void **state)
{
    pair *p = *state;
    differing d;
    const pf_request request = plain_request();
    for (int i = 0; i < 2; i++) {
        open_differing(&d, p, VOCAB + 9, -1, 1);
        assert_drafts(p, &d, i == 1, &request, &p->plain);
        assert_int_equal(d.draft.n_excluded, 1);
        assert_int_equal(d.draft.excluded[0], VOCAB);
        assert_int_equal(d.draft.excluded[1], VOCAB + 9);
        for (int32_t id = VOCAB; id < VOCAB + 9; id++) assert_int_equal(d.draft.n_proposed[id], 0);
        close_differing(&d);
    }
}

static void a_renamed_token_is_never_proposed(void **state)
{
    pair *p = *state;
    differing d;
    const pf_request request = plain_request();
    const int32_t renamed = p->plain.tokens[1]; /* that the draft, the target itself, would propose */
    for (int i = 0; i < 2; i++) {
        open_differing(&d, p, VOCAB, renamed, VOCAB);
        assert_drafts(p, &d, i == 1, &request, &p->plain);
        assert_int_equal(d.draft.n_excluded, 1);
        assert_int_equal(d.draft.excluded[0], renamed);
        assert_int_equal(d.draft.n_proposed[renamed], 0);
        assert_int_equal(p->n_warnings, 1);
        assert_says(p->warning, "1 of 128 ids differ");
        close_differing(&d);
    }
}

static void coupled_sampling_is_the_plain_text_with_unshared_ids(void **state)
{
    pair *p = *state;
    differing d;
    generated plain;
    pf_request request = plain_request();
    request.sampling = (pf_sampling){ .temperature = 1.0f, .top_p = 1.0f, .seed = 5 };
    request.method = PF_METHOD_COUPLED;
    generate(p, p->verifier, NULL, &request, &plain);
    static const int32_t sizes[] = { 120, VOCAB, VOCAB + 9 };
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        open_differing(&d, p, sizes[i], plain.tokens[1], VOCAB);
        assert_drafts(p, &d, false, &request, &plain);
        close_differing(&d);
    }
}

static void equal_fingerprints_compare_nothing_and_exclude_nothing(void **state)
{
    pair *p = *state;
    differing d;
    const pf_request request = plain_request();
    open_differing(&d, p, VOCAB, 0, 1); /* every token differs, and is not compared */
    d.draft.info.vocab_fingerprint[0] = 1;
    assert_drafts(p, &d, false, &request, &p->plain);
    assert_int_equal(p->n_warnings, 0);
    assert_int_equal(d.draft.n_excluded, 0);
    close_differing(&d);
}

static void a_worker_that_comes_late_is_opened_again_with_what_it_excludes(void **state)
{
    pair *p = *state;
    differing d;
    generated out;
    const pf_request request = plain_request();
    pf_session *session = NULL;
    pf_error error = { 0 };
    open_differing(&d, p, VOCAB, p->plain.tokens[1], VOCAB);
    d.draft.is_away = true;
    assert_ok(begin(p, &d, true, &session, &error), error);
    d.draft.is_away = false;
    assert_ok(run(session, &request, &out, &error), error);
    assert_same_text(&out, &p->plain);
    assert_true(out.result.speculation.rounds > 0);
    assert_int_equal(d.draft.n_opens, 2);
    assert_int_equal(d.draft.n_excluded, 1);
    assert_says(p->warning, "1 of 128 ids differ");
    pf_session_destroy(session);
    close_differing(&d);
}

/* ---- what does not ------------------------------------------------------------------------------------------------ */

static void too_few_equal_ids_are_refused_by_number(void **state)
{
    pair *p = *state;
    differing d;
    pf_session *session = NULL;
    pf_error error = { 0 };
    open_differing(&d, p, VOCAB, 0, 1);
    assert_status(begin(p, &d, false, &session, &error), PF_INVALID);
    assert_says(error,
                "share 0.0 % of their vocabularies, expected at least 90 %: 128 of 128 ids differ; the first is 0");
    assert_null(session);
    close_differing(&d);

    open_differing(&d, p, 116, 0, VOCAB); /* 13 of 128 differ: 89.8 % */
    assert_status(begin(p, &d, false, &session, &error), PF_INVALID);
    assert_says(error, "share 89.8 %");
    close_differing(&d);

    open_differing(&d, p, 116, -1, 1); /* 12: 90.6 % */
    assert_ok(begin(p, &d, false, &session, &error), error);
    pf_session_destroy(session);
    close_differing(&d);
}

static void a_worker_that_does_not_fit_costs_no_request(void **state)
{
    pair *p = *state;
    differing d;
    generated out;
    const pf_request request = plain_request();
    for (int i = 0; i < 3; i++) { /* it is there, it comes late, it does not say which ids it has */
        pf_session *session = NULL;
        pf_error error = { 0 };
        open_differing(&d, p, VOCAB, 0, 1);
        d.draft.is_away = i == 1;
        if (i == 2) d.draft.info.n_vocab_hashes = 0;
        assert_ok(begin(p, &d, true, &session, &error), error);
        d.draft.is_away = false;
        assert_ok(run(session, &request, &out, &error), error);
        assert_same_text(&out, &p->plain);
        assert_int_equal(out.result.speculation.rounds, 0);
        assert_int_equal(p->n_warnings, i == 1 ? 3 : 1); /* late: it is not there, it is back */
        assert_says(p->warning, i == 2 ? "which ids they share cannot be told" : "share 0.0 % of their vocabularies");
        assert_says(p->warning, "; decoding goes on without it");
        pf_session_destroy(session);
        close_differing(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_draft_with_fewer_ids_is_told_of_those_that_it_has),
        cmocka_unit_test(a_draft_with_more_ids_never_proposes_them),
        cmocka_unit_test(a_renamed_token_is_never_proposed),
        cmocka_unit_test(coupled_sampling_is_the_plain_text_with_unshared_ids),
        cmocka_unit_test(equal_fingerprints_compare_nothing_and_exclude_nothing),
        cmocka_unit_test(a_worker_that_comes_late_is_opened_again_with_what_it_excludes),
        cmocka_unit_test(too_few_equal_ids_are_refused_by_number),
        cmocka_unit_test(a_worker_that_does_not_fit_costs_no_request),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
