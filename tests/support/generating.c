#include "tests/support/generating.h"

#include "engine/run.h"
#include "tests/support/test.h"

static const int32_t PROMPT[N_PLAIN_PROMPT] = { 5, 17, 3, 99, 42 };

pf_engine *open_engine(const pf_tiny_model *model, pf_engine *threads_of)
{
    char directory[PF_TINY_PATH];
    pf_error error = { 0 };
    pf_tiny_model_create(model, directory);
    const pf_engine_options options = {
        .size = sizeof(pf_engine_options), .n_threads = 1, .threads_of = threads_of, .max_context = CONTEXT
    };
    pf_engine *engine = NULL;
    assert_ok(pf_engine_open(directory, &options, &engine, &error), error);
    pf_tiny_model_remove(directory);
    return engine;
}

int open_pair(void **state)
{
    static pair p;
    pf_error error = { 0 };
    p = (pair){ 0 };
    p.target = open_engine(&(pf_tiny_model){ .seed = 1 }, NULL);
    p.draft = open_engine(&(pf_tiny_model){ .seed = 1 }, p.target);
    assert_ok(pf_engine_verifier(p.target, NULL, &p.verifier, &error), error);
    assert_ok(pf_engine_drafter(p.draft, NULL, &p.drafter, &error), error);
    const pf_request request = plain_request();
    generate(&p, p.verifier, NULL, &request, &p.plain);
    *state = &p;
    return 0;
}

int close_pair(void **state)
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

static pf_session *open_waiting(pair *p, pf_peer *verifier, pf_peer *drafter, uint64_t return_limit_ns)
{
    const pf_session_options options = { .size = sizeof options,
                                         .verifier = verifier,
                                         .drafter = drafter,
                                         .max_context = CONTEXT,
                                         .verdict_limit_ns = LIMIT_NS,
                                         .return_limit_ns = return_limit_ns,
                                         .warn = on_warning,
                                         .warn_user = p };
    if (verifier != p->verifier) verifier->is_far = true;
    if (drafter && drafter != p->drafter) drafter->is_far = true;
    pf_session *session = NULL;
    pf_error error = { 0 };
    assert_ok(pf_session_create(&options, &session, &error), error);
    pf_session_set_clock(session, p->clock_ns);
    return session;
}

pf_session *open_session(pair *p, pf_peer *verifier, pf_peer *drafter)
{
    return open_waiting(p, verifier, drafter, LIMIT_NS);
}

pf_request plain_request(void)
{
    return (pf_request){ .size = sizeof(pf_request),
                         .prompt = PROMPT,
                         .n_prompt = N_PLAIN_PROMPT,
                         .max_new_tokens = N_NEW,
                         .sampling = { .top_p = 1.0f, .seed = 77 },
                         .ignore_eos = true,
                         .draft_len = 4 };
}

pf_status run(pf_session *session, const pf_request *request, generated *out, pf_error *error)
{
    out->result = (pf_result){ .size = sizeof(pf_result), .tokens = out->tokens, .capacity = CONTEXT };
    return pf_generate(session, request, &out->result, error);
}

void generate(pair *p, pf_peer *verifier, pf_peer *drafter, const pf_request *request, generated *out)
{
    pf_error error = { 0 };
    pf_session *session = open_waiting(p, verifier, drafter, 0);
    assert_ok(run(session, request, out, &error), error);
    pf_session_destroy(session);
}

void assert_same_text(const generated *a, const generated *b)
{
    assert_int_equal(a->result.n_tokens, b->result.n_tokens);
    assert_memory_equal(a->tokens, b->tokens, (size_t)b->result.n_tokens * sizeof *b->tokens);
    assert_int_equal(a->result.finish, b->result.finish);
}
