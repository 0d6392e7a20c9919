/* Times passes of the verifier. */
#include "bench/stepper.h"

#include <stdlib.h>

#include "base/clock.h"

static const uint64_t ANSWER_LIMIT_NS = 600000000000;

pf_status pf_stepper_open(pf_engine *engine, int32_t max_prompt, const volatile bool *cancel, pf_stepper *out,
                          pf_error *error)
{
    const int32_t n = max_prompt + PF_STEPPER_MAX_ROWS, n_vocab = pf_model_config(pf_engine_model(engine))->vocab_size;
    pf_stepper s = { .prompt = calloc((size_t)n, sizeof *s.prompt) };
    if (!s.prompt) return pf_fail(error, PF_NOMEM, "no memory for %d tokens", n);
    for (int32_t i = 0; i < n; i++) s.prompt[i] = (int32_t)(((int64_t)i * 7919 + 13) % n_vocab);
    const pf_role_options role = { .size = sizeof(pf_role_options), .stop = cancel };
    const pf_status status = pf_engine_verifier(engine, &role, &s.verifier, error);
    if (status != PF_OK) {
        free(s.prompt);
        return status;
    }
    *out = s;
    return PF_OK;
}

void pf_stepper_close(pf_stepper *stepper)
{
    pf_peer_destroy(stepper->verifier);
    free(stepper->prompt);
}

/* Submits, waits for the verdict and records what it committed. */
static pf_status ask(pf_stepper *s, const pf_batch *batch, uint64_t *ns, pf_error *error)
{
    const uint64_t begin_ns = pf_now_ns();
    PF_TRY(pf_peer_submit(s->verifier, batch));
    const pf_batch *answer;
    PF_TRY(pf_peer_collect(s->verifier, begin_ns + ANSWER_LIMIT_NS, &answer, error));
    *ns = pf_now_ns() - begin_ns;
    if (answer->n_refusals > 0) return pf_fail(error, answer->refusals[0].status, "%s", answer->refusals[0].text);
    if (answer->n_verdicts != 1 || answer->verdicts[0].n_tokens < 1)
        return pf_fail(error, PF_INTERNAL, "the verifier answered without a verdict");
    s->committed += answer->verdicts[0].n_tokens;
    return PF_OK;
}

pf_status pf_stepper_begin(pf_stepper *s, int32_t n, uint64_t *ns, pf_error *error)
{
    s->sequence++;
    s->round = 0;
    s->committed = n;
    pf_open open = {
        .sequence = s->sequence,
        .incarnation = 1,
        .tokens = s->prompt,
        .n_tokens = n,
        .method = PF_METHOD_GREEDY,
        .max_draft = PF_STEPPER_MAX_ROWS - 1,
    };
    const pf_batch batch = { .opens = &open, .n_opens = 1 };
    return ask(s, &batch, ns, error);
}

pf_status pf_stepper_step(pf_stepper *s, int32_t n_rows, uint64_t *ns, pf_error *error)
{
    pf_proposal proposal = {
        .sequence = s->sequence,
        .incarnation = 1,
        .round = ++s->round,
        .base = s->committed,
        .tokens = s->prompt,
        .n_tokens = n_rows - 1,
    };
    const pf_batch batch = { .proposals = &proposal, .n_proposals = 1 };
    return ask(s, &batch, ns, error);
}

void pf_stepper_end(pf_stepper *s)
{
    pf_close close = { .sequence = s->sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    (void)!pf_peer_submit(s->verifier, &batch);
    const pf_batch *answer;
    (void)!pf_peer_collect(s->verifier, 0, &answer, NULL);
}
