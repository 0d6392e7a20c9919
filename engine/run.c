/* What both links of a request have in common. */
#include "engine/run.h"

#include <stdio.h>

#include "base/checked.h"
#include "base/stop.h"
#include "engine/roles.h"

/* Ids of a declared distribution. More accept a little more of a flat draft, and cost selecting and sending: with the
 * bundled pair 64 is faster than 256 at temperatures 0.7 and 1 (docs/data/gains.csv). */
enum { N_DECLARED = 64 };

static pf_status restart(pf_run *r)
{
    pf_session *s = r->session;
    uint64_t round;
    r->sequence = s->kept_sequence;
    r->continues = true;
    r->drafter_has_it = s->drafter_keeps_it;
    s->kept_sequence = 0;
    PF_TRY(pf_stream_owner_restart(s->to_verifier, r->sequence, s->n_committed));
    PF_TRY(pf_stream_owner_restart(s->to_drafter, r->sequence, s->n_committed));
    return pf_stream_owner_expects(s->to_drafter, r->sequence, &round, &r->first_incarnation);
}

pf_status pf_run_begin(pf_run *r)
{
    pf_session *s = r->session;
    if (s->kept_sequence != 0) return restart(r);
    r->sequence = pf_peer_new_sequence(s->options.verifier, s->options.drafter);
    PF_TRY(pf_stream_owner_begin(s->to_verifier, r->sequence, s->n_committed));
    return pf_stream_owner_begin(s->to_drafter, r->sequence, s->n_committed);
}

void pf_run_end(pf_run *r, bool keeps)
{
    pf_session *s = r->session;
    s->kept_sequence = r->sequence;
    s->drafter_keeps_it = r->drafter_has_it;
    const bool asks = r->request->rules.allow != NULL; /* for a sequence that stays open it could be asked later */
    if (!keeps || asks) pf_session_drop_sequence(s);
    if (!asks) return;
    pf_hub_settle(s->options.verifier); /* the request's callback is called no more */
    if (s->options.drafter) pf_hub_settle(s->options.drafter);
}

void pf_session_drop_sequence(pf_session *s)
{
    if (s->kept_sequence == 0) return;
    pf_close close = { .sequence = s->kept_sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    pf_stream_owner_end(s->to_verifier, s->kept_sequence);
    pf_stream_owner_end(s->to_drafter, s->kept_sequence);
    (void)!pf_peer_submit(s->options.verifier, &batch);
    if (s->drafter_keeps_it) (void)!pf_peer_submit(s->options.drafter, &batch);
    s->kept_sequence = 0;
}

/* pf_open.siblings: of a drafter that draws them, for a verifier that judges them. */
static int32_t choose_siblings(const pf_run *r)
{
    const pf_session *s = r->session;
    const int32_t asked = r->request->siblings;
    const bool is_coupled = r->method == PF_METHOD_COUPLED && asked == PF_SIBLINGS_THAT_PAY;
    const bool draws = r->request->sampling.temperature > 0.0f && (is_coupled || pf_run_max_declared(r) > 0);
    return draws && asked > 0 && s->verifier_info.judges_trees && s->drafter_info.draws_siblings ? asked : 0;
}

int32_t pf_run_max_draft(const pf_run *r)
{
    const int32_t siblings = choose_siblings(r), beside = siblings <= PF_MAX_SIBLINGS ? siblings : 0;
    const int32_t asked = pf_min(r->request->draft_len * (1 + beside), PF_MAX_DRAFT_TOKENS);
    const int32_t wanted = asked > 0 ? asked : PF_DEFAULT_MAX_DRAFT;
    return pf_min(wanted, r->session->verifier_info.max_draft);
}

int32_t pf_run_max_declared(const pf_run *r)
{
    const pf_session *s = r->session;
    if (r->method != PF_METHOD_REJECTION && r->method != PF_METHOD_BLOCK && r->method != PF_METHOD_TRAVERSAL) return 0;
    const int32_t judged = pf_min(N_DECLARED, s->verifier_info.max_declared);
    const int32_t spoken = s->drafter_info.max_declared; /* 0: it does not say, or is not known */
    return spoken > 0 ? pf_min(judged, spoken) : judged;
}

/* A far peer gets the seed only where the method shares the noise (DESIGN, invariant 7). */
pf_status pf_run_make_open(const pf_run *r, pf_stream_owner *link, bool far, pf_open *open)
{
    const pf_request *q = r->request;
    const int32_t longest = pf_run_max_draft(r);
    *open = (pf_open){
        .tokens = r->session->committed,
        .sampling = q->sampling,
        .method = r->method,
        .max_draft = longest > 0 ? longest : 1, /* a verifier that takes no proposal: the drafter is not asked */
        .adaptive_draft = q->draft_len == 0,
        .trees = r->session->verifier_info.judges_trees && q->siblings != PF_NO_SIBLINGS,
        .siblings = choose_siblings(r),
        .max_declared = pf_run_max_declared(r),
        .max_tokens = r->max_tokens,
        .stop_tokens = q->stop_tokens,
        .n_stop_tokens = q->n_stop_tokens,
        .client = q->client,
        .rules = q->rules,
        .typical = q->typical,
    };
    open->rules.n_prompt = q->n_prompt;
    if (far) open->rules.allow = NULL;
    if (!far && q->drafter) snprintf(open->drafter, sizeof open->drafter, "%s", q->drafter); /* figures of a hub */
    if (far && r->method != PF_METHOD_COUPLED) open->sampling.seed = 0;
    return pf_stream_owner_open(link, r->sequence, open, &open->n_tokens);
}

bool pf_run_is_cancelled(const pf_run *r)
{
    return pf_is_told(r->request->cancel) || pf_is_told(r->session->cancel);
}

pf_status pf_run_submit(pf_run *r, pf_peer *peer, const pf_batch *batch)
{
    r->asked_ns = pf_session_now_ns(r->session);
    return pf_peer_submit(peer, batch);
}

void pf_run_count_answer(pf_run *r, const pf_batch *answer, bool far, uint64_t *compute_ns)
{
    pf_speculation *s = &r->result->speculation;
    const uint64_t away_ns = pf_session_now_ns(r->session) - r->asked_ns;
    const uint64_t peer_ns = answer->timing.compute_ns < away_ns ? answer->timing.compute_ns : away_ns;
    *compute_ns += peer_ns;
    if (far) s->rpc_us[s->n_rpc++ % PF_RPC_SAMPLES] = (uint32_t)((away_ns - peer_ns) / 1000);
}
