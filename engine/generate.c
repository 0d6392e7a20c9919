/*
 * The generation loop: a drafter proposes tokens, a verifier decides; either may be in this process or across the wire.
 *
 *      open ---> verdict 0 ---> [ proposal ---> verdict ] ... ---> close
 *
 * Invariants: the verifier alone decides the committed tokens. A drafter that is late, gone or wrong costs at most the wait
 * that engine/draft_wait.h allows, and the round is decoded plainly. Nothing is allocated between the first token and the
 * last. A session runs one request at a time.
 */
#include "engine/generation.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/sampling_parameters.h"
#include "engine/roles.h"
#include "engine/run.h"
#include "engine/versioned.h"

#include "model/sampling/sampling.h"
#include "proto/drafter_names.h"
#include "proto/tree.h"

static void count_round(pf_speculation *s, const pf_proposal *proposal, int32_t n_kept)
{
    if (!proposal) {
        s->fallback_rounds++;
        return;
    }
    s->rounds++;
    const int32_t depth = pf_tree_depth(proposal->parents, proposal->n_tokens);
    s->drafted += depth;
    s->branches += proposal->n_tokens - depth;
    s->accepted += n_kept;
    for (int32_t i = 0; i < depth; i++) {
        s->reached[i]++;
        if (i < n_kept) s->accepted_to[i]++;
    }
}

static bool is_stop_token(const pf_request *request, int32_t token)
{
    for (int32_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token) return true;
    return false;
}

/* Commits a verdict's tokens until the request ends. Returns how many were kept; *finish is the reason to end, or
 * PF_FINISH_NONE. */
static int32_t commit(pf_run *r, const pf_verdict *v, pf_finish *finish)
{
    pf_session *s = r->session;
    pf_result *out = r->result;
    *finish = PF_FINISH_NONE;
    r->last_base = s->n_committed;
    r->last_accepted = r->proposes_late ? 0 : v->n_accepted; /* of what the drafter proposed for this round */
    int32_t n = 0;
    while (n < v->n_tokens && *finish == PF_FINISH_NONE) {
        const int32_t token = v->tokens[n];
        s->committed[s->n_committed++] = token;
        if (out->tokens) out->tokens[out->n_tokens] = token;
        out->n_tokens++;
        if (r->request->on_logprobs && v->logprobs) r->request->on_logprobs(r->request->user, &v->logprobs[n]);
        const bool wants_more =
            !r->request->on_token || r->request->on_token(r->request->user, token, n < v->n_accepted);
        n++;
        if (is_stop_token(r->request, token))
            *finish = PF_FINISH_EOS;
        else if (!wants_more)
            *finish = PF_FINISH_STOP;
        else if (s->n_committed >= r->max_tokens)
            *finish = PF_FINISH_LENGTH;
    }
    if (*finish == PF_FINISH_NONE) *finish = v->finish;
    return n;
}

/* Tokens of the prompt that the verifier has read in an earlier request, as it says right after the open. */
static int64_t count_reused(const pf_run *r)
{
    if (!r->continues) return 0;
    const int32_t backlog = pf_peer_backlog(r->session->options.verifier);
    return backlog < 0 ? -1 : r->request->n_prompt - pf_min(backlog, r->request->n_prompt);
}

static pf_status first_token(pf_run *r, pf_finish *finish)
{
    const uint64_t begin_ns = pf_session_now_ns(r->session);
    pf_run_announce(r);
    PF_TRY(pf_run_reach_verifier(r));
    r->result->reused_tokens = count_reused(r);
    const pf_proposal *none = NULL;
    const pf_verdict *verdict;
    PF_TRY(pf_run_await_verdict(r, &none, &verdict));
    if (r->request->logprobs > 0 && !verdict->logprobs && verdict->n_tokens > 0)
        return pf_fail(r->error, PF_UNSUPPORTED,
                       "the verifier, %s, gives no log-probabilities, which the request wants",
                       r->session->verifier_info.model_id);
    const int32_t n_cached = pf_hub_cached_tokens(r->session->options.verifier);
    if (n_cached >= 0) r->result->reused_tokens = n_cached;
    r->result->prefill_ns = pf_session_now_ns(r->session) - begin_ns;
    r->result->speculation = (pf_speculation){ 0 };
    (void)commit(r, verdict, finish);
    r->result->first_token_ns = pf_session_now_ns(r->session) - begin_ns;
    return PF_OK;
}

static pf_status generate(pf_run *r)
{
    pf_finish finish;
    PF_TRY(first_token(r, &finish));
    const uint64_t begin_ns = pf_session_now_ns(r->session);
    pf_status status = PF_OK;
    while (finish == PF_FINISH_NONE && status == PF_OK) {
        const pf_proposal *proposal;
        const pf_verdict *verdict;
        status = pf_run_ask_drafter(r, &proposal);
        if (status == PF_OK) status = pf_run_decide(r, &proposal, &verdict);
        if (status == PF_OK) {
            const int32_t n_accepted = verdict->n_accepted, n_kept = commit(r, verdict, &finish);
            count_round(&r->result->speculation, proposal, n_accepted < n_kept ? n_accepted : n_kept);
        }
        r->result->decode_ns = pf_session_now_ns(r->session) - begin_ns;
    }
    r->result->finish = finish;
    return status;
}

/* The one that the request names, or the drafter's default. */
static void name_drafter(const pf_run *r)
{
    const pf_session *s = r->session;
    const char *named = r->request->drafter, *first = s->drafter_info.n_drafters > 0 ? s->drafter_info.drafters[0] : "";
    if (!s->options.drafter || r->request->no_speculation) return;
    snprintf(r->result->drafter, sizeof r->result->drafter, "%s", named && named[0] ? named : first);
}

static void warn_of_invalid_logits(pf_run *r, pf_peer *peer, const char *role, const pf_model_info *info, bool is_told)
{
    pf_invalid_logits invalid;
    char sentence[PF_INVALID_LOGITS_TEXT_BYTES];
    pf_peer_take_invalid_logits(peer, &invalid);
    r->result->invalid_rows += invalid.n_rows;
    if (invalid.n_rows == 0 || is_told) return;
    pf_invalid_logits_print(&invalid, role, info->model_id, sentence);
    pf_session_warn(r->session, sentence);
}

/* One warning a request of each model of this process; a target that refuses the sequence for its logits has told where. */
static void count_invalid_logits(pf_run *r, pf_status status)
{
    const pf_session *s = r->session;
    warn_of_invalid_logits(r, s->options.verifier, "target", &s->verifier_info, status == PF_UNSUPPORTED);
    if (s->options.drafter) warn_of_invalid_logits(r, s->options.drafter, "draft", &s->drafter_info, false);
}

/* Of a far drafter that is not there yet it shows when it is. */
static pf_status check_drafter(const pf_session *s, const pf_request *q, pf_error *error)
{
    if (!q->drafter || q->drafter[0] == '\0' || q->no_speculation) return PF_OK;
    if (!s->options.drafter)
        return pf_fail(error, PF_UNSUPPORTED, "drafter is %.40s, but the session has no drafter", q->drafter);
    if (!s->drafter_is_known && pf_drafter_name_is_valid(q->drafter)) return PF_OK;
    return pf_drafter_names_check(&s->drafter_info, q->drafter, error);
}

static pf_status check_request(const pf_session *s, const pf_request *q, const pf_result *result, pf_error *error)
{
    if (q->n_prompt < 1 || !q->prompt)
        return pf_fail(error, PF_INVALID, "the prompt is empty, expected at least one token");
    if (s->options.max_context < 2)
        return pf_fail(error, PF_INVALID,
                       "the context is %d, expected at least 2: a token of the prompt, and a new one",
                       s->options.max_context);
    if (q->n_prompt >= s->options.max_context)
        return pf_fail(error, PF_INVALID, "the prompt has %d tokens, expected at most %d: the context is %d",
                       q->n_prompt, s->options.max_context - 1, s->options.max_context);
    const int32_t n_ids = pf_model_ids(&s->verifier_info);
    const int32_t unknown = pf_count_known(q->prompt, q->n_prompt, n_ids);
    if (unknown < q->n_prompt)
        return pf_fail(error, PF_INVALID, "token %d of the prompt is %d, expected 0 to %d", unknown, q->prompt[unknown],
                       n_ids - 1);
    if (q->max_new_tokens < 1 || (result->tokens && result->capacity < q->max_new_tokens))
        return pf_fail(error, PF_INVALID, "%d new tokens with room for %d, expected at least 1, and room for all",
                       q->max_new_tokens, result->capacity);
    if (s->options.drafter && (q->draft_len < 0 || q->draft_len > PF_MAX_DRAFT_TOKENS))
        return pf_fail(error, PF_INVALID, "a draft length of %d, expected 1 to %d, or 0 for auto", q->draft_len,
                       PF_MAX_DRAFT_TOKENS);
    if (q->n_stop_tokens < 0 || (q->n_stop_tokens > 0 && !q->stop_tokens) || q->n_stop_tokens > PF_MAX_STOP_TOKENS)
        return pf_fail(error, PF_INVALID, "%d stop tokens, expected at most %d", q->n_stop_tokens, PF_MAX_STOP_TOKENS);
    PF_TRY(check_drafter(s, q, error));
    PF_TRY(pf_sampling_check(&q->sampling, error));
    if (q->siblings < PF_NO_SIBLINGS || q->siblings > PF_SIBLINGS_THAT_PAY)
        return pf_fail(error, PF_INVALID, "%d siblings of a token, expected %d to %d", q->siblings, PF_NO_SIBLINGS,
                       PF_SIBLINGS_THAT_PAY);
    PF_TRY(pf_typical_check(&q->typical, error));
    PF_TRY(pf_logit_rules_check(&q->rules, n_ids, error));
    if (pf_logit_rules_are_active(&q->rules) && !s->verifier_info.applies_rules)
        return pf_fail(
            error, PF_UNSUPPORTED,
            "the verifier, %s, does not apply penalties, logit biases and min_tokens, which the request needs",
            s->verifier_info.model_id);
    if (q->sampling.typical_p > 0.0f && q->sampling.typical_p < 1.0f && !s->verifier_info.applies_typical_p)
        return pf_fail(error, PF_UNSUPPORTED, "the verifier, %s, does not apply typical_p, which the request needs",
                       s->verifier_info.model_id);
    if (q->logprobs < 0 || q->logprobs > 1 + PF_MAX_LOGPROBS)
        return pf_fail(error, PF_INVALID, "log-probabilities of %d likeliest tokens, expected 0 to %d", q->logprobs - 1,
                       PF_MAX_LOGPROBS);
    if (s->options.verifier->is_far && q->logprobs > 0 && !s->verifier_info.gives_logprobs)
        return pf_fail(error, PF_UNSUPPORTED, "the verifier, %s, gives no log-probabilities, which the request wants",
                       s->verifier_info.model_id);
    if (s->options.verifier->is_far && q->rules.allow)
        return pf_fail(
            error, PF_UNSUPPORTED,
            "the request says which tokens are allowed, which a verifier of another process does not ask: the target "
            "must run in this one");
    return PF_OK;
}

static pf_method resolve_method(const pf_request *q)
{
    if (q->sampling.temperature == 0.0f) return PF_METHOD_GREEDY;
    return q->method ? q->method : PF_METHOD_REJECTION;
}

/* The drafter is not asked: if it does not support the method it refuses the sequence, which costs speed only. */
static pf_status check_method(const pf_session *s, pf_method method, pf_error *error)
{
    static const char *const names[] = { "", "greedy", "rejection", "block", "coupled", "typical", "traversal" };
    const uint32_t spoken = s->verifier_info.methods;
    if ((uint32_t)method >= sizeof names / sizeof *names)
        return pf_fail(error, PF_UNSUPPORTED, "there is no method %d, expected 0 to %d", (int)method,
                       (int)PF_METHOD_TRAVERSAL);
    if (spoken == 0 || spoken >> method & 1) return PF_OK; /* 0: it does not say */
    return pf_fail(error, PF_UNSUPPORTED, "the verifier, %s, does not judge by the method %s, which the request needs",
                   s->verifier_info.model_id, names[method]);
}

/* What zero stands for. */
static pf_request resolve(const pf_session *session, const pf_request *given, const pf_result *result)
{
    pf_request q = *given;
    if (q.max_new_tokens == 0)
        q.max_new_tokens = result->tokens ? result->capacity : pf_session_new_tokens(session, &q);
    if (!q.ignore_eos && !q.stop_tokens && q.n_stop_tokens == 0) {
        q.stop_tokens = session->verifier_info.ends;
        q.n_stop_tokens = session->verifier_info.n_ends;
    }
    return q;
}

pf_status pf_session_check_result(const pf_result *result, pf_error *error)
{
    if (result->size >= sizeof *result) return PF_OK;
    return pf_fail(error, PF_INVALID, "pf_result.size is %zu, expected at least %zu (PF_INIT sets it)", result->size,
                   sizeof *result);
}

int32_t pf_session_new_tokens(const pf_session *session, const pf_request *request)
{
    const int32_t room = session->options.max_context - request->n_prompt, wanted = request->max_new_tokens;
    const int32_t n = wanted > 0 && wanted < room ? wanted : room;
    return n > 0 ? n : 0;
}

pf_status pf_session_generate(pf_session *session, const pf_request *given, pf_result *result, pf_error *error)
{
    result->n_tokens = 0;
    result->finish = PF_FINISH_NONE;
    result->prefill_ns = result->first_token_ns = result->decode_ns = 0;
    result->invalid_rows = 0;
    result->reused_tokens = 0;
    result->drafter[0] = '\0';
    result->speculation = (pf_speculation){ 0 };
    const pf_request resolved = resolve(session, given, result), *request = &resolved;
    PF_TRY(check_request(session, request, result, error));
    const pf_method method = resolve_method(request);
    PF_TRY(check_method(session, method, error));

    const int32_t room = session->options.max_context - request->n_prompt;
    pf_run r = {
        .session = session,
        .request = request,
        .method = method,
        .result = result,
        .error = error,
        .max_tokens = request->n_prompt + (request->max_new_tokens < room ? request->max_new_tokens : room),
    };
    memcpy(session->committed, request->prompt, (size_t)request->n_prompt * sizeof *request->prompt);
    session->n_committed = request->n_prompt;
    PF_TRY(pf_run_begin(&r));
    const pf_status status = generate(&r);
    name_drafter(&r);
    pf_run_end(&r, request->keep_sequence && (status == PF_OK || status == PF_CANCELLED));
    count_invalid_logits(&r, status);
    if (status == PF_CANCELLED && pf_run_is_cancelled(&r))
        return pf_fail(error, status, "the request was cancelled, %d of %d tokens were made", result->n_tokens,
                       request->max_new_tokens);
    return status;
}

pf_status pf_generate(pf_session *session, const pf_request *request, pf_result *result, pf_error *error)
{
    pf_request given;
    PF_TRY(pf_session_check_result(result, error));
    PF_TRY(pf_versioned_copy("pf_request", request, &given, sizeof given, error));
    if (pf_queue_is_busy(session->queue))
        return pf_fail(error, PF_INVALID, "the session has a generation under way, expected none");
    return pf_session_generate(session, &given, result, error);
}
