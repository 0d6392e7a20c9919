/* Bytes to a batch: unpacked into the arena, checked, and pointed at. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "proto/codec_parts.h"
#include "proto/drafter_names.h"

static pf_status check_tokens(const pf_codec_place *at, const char *field, const int32_t *tokens, size_t n, size_t low,
                              size_t high)
{
    PF_TRY(pf_codec_check_count(at, field, n, low, high));
    const int32_t last = at->n_vocab > 0 ? at->n_vocab - 1 : INT32_MAX;
    for (size_t i = 0; i < n; i++) PF_TRY(pf_codec_check_entry(at, field, i, tokens[i], 0, last));
    return PF_OK;
}

static pf_status check_real(const pf_codec_place *at, const char *field, float value, float low, float high)
{
    if (isfinite(value) && value >= low && value <= high) return PF_OK;
    return pf_codec_refuse(at, PF_FORMAT, field, "is %g, expected %g to %g", (double)value, (double)low, (double)high);
}

static pf_status take_sampling(const pf_codec_place *at, const pf_wire_sampling *wire, pf_sampling *out)
{
    *out = (pf_sampling){ 0 }; /* proto3 has no presence: what is absent is off */
    if (!wire) return PF_OK;
    PF_TRY(check_real(at, "sampling.temperature", wire->temperature, 0.0f, 1e6f));
    PF_TRY(pf_codec_check_range(at, "sampling.top_k", wire->top_k, 0, INT32_MAX));
    PF_TRY(check_real(at, "sampling.top_p", wire->top_p, 0.0f, 1.0f));
    PF_TRY(check_real(at, "sampling.min_p", wire->min_p, 0.0f, 1.0f));
    PF_TRY(check_real(at, "sampling.typical_p", wire->typical_p, 0.0f, 1.0f));
    out->temperature = wire->temperature;
    out->top_k = wire->top_k;
    out->top_p = wire->top_p;
    out->min_p = wire->min_p;
    out->typical_p = wire->typical_p;
    out->seed = wire->seed;
    return PF_OK;
}

static pf_status take_penalties(const pf_codec_place *at, const pf_wire_sampling *wire, pf_logit_rules *out)
{
    PF_TRY(check_real(at, "sampling.repetition_penalty", wire->repetition_penalty, 0.0f, 1000.0f));
    PF_TRY(check_real(at, "sampling.presence_penalty", wire->presence_penalty, -2.0f, 2.0f));
    PF_TRY(check_real(at, "sampling.frequency_penalty", wire->frequency_penalty, -2.0f, 2.0f));
    out->repetition_penalty = wire->repetition_penalty;
    out->presence_penalty = wire->presence_penalty;
    out->frequency_penalty = wire->frequency_penalty;
    return PF_OK;
}

static pf_status take_biases(const pf_codec_place *at, const pf_wire_rules *wire, pf_logit_rules *out)
{
    PF_TRY(check_tokens(at, "rules.bias_ids", wire->bias_ids, wire->n_bias_ids, 0, PF_MAX_LOGIT_BIASES));
    PF_TRY(pf_codec_check_count(at, "rules.biases", wire->n_biases, wire->n_bias_ids, wire->n_bias_ids));
    for (size_t i = 0; i < wire->n_biases; i++)
        if (!(wire->biases[i] < INFINITY))
            return pf_codec_refuse(at, PF_FORMAT, "rules.biases", "[%zu] is %g, expected a number, or minus infinity",
                                   i, (double)wire->biases[i]);
    out->bias_ids = wire->bias_ids;
    out->biases = wire->biases;
    out->n_biases = (int32_t)wire->n_biases;
    return PF_OK;
}

/* Without LogitRules the whole open is prompt. */
static pf_status take_rules(const pf_codec_place *at, const pf_wire_open *wire, pf_logit_rules *out)
{
    *out = (pf_logit_rules){ .n_prompt = (int32_t)wire->n_tokens };
    if (wire->sampling) PF_TRY(take_penalties(at, wire->sampling, out));
    if (!wire->rules) return PF_OK;
    PF_TRY(pf_codec_check_range(at, "rules.min_tokens", wire->rules->min_tokens, 0, INT32_MAX));
    PF_TRY(pf_codec_check_range(at, "rules.n_prompt", wire->rules->n_prompt, 0, (int64_t)wire->n_tokens));
    out->min_tokens = wire->rules->min_tokens;
    out->n_prompt = wire->rules->n_prompt;
    return take_biases(at, wire->rules, out);
}

static pf_status take_typical(const pf_codec_place *at, const pf_wire_typical *wire, pf_typical *out)
{
    if (!wire) return PF_OK;
    PF_TRY(check_real(at, "typical.epsilon", wire->epsilon, 0.0f, 1.0f));
    PF_TRY(check_real(at, "typical.delta", wire->delta, 0.0f, 1.0f));
    *out = (pf_typical){ .epsilon = wire->epsilon, .delta = wire->delta };
    return PF_OK;
}

static pf_status check_method(const pf_codec_place *at, int32_t method)
{
    if (method == 0) return pf_codec_refuse(at, PF_FORMAT, "method", "is missing");
    if (method >= PF_METHOD_GREEDY && method <= PF_METHOD_TRAVERSAL) return PF_OK;
    return pf_codec_refuse(at, PF_UNSUPPORTED, "method", "is %d, but this version has %d to %d", (int)method,
                           PF_METHOD_GREEDY, PF_METHOD_TRAVERSAL);
}

/* Rounds are counted on from here: so far below the largest number that they never come to begin again at 0. */
static pf_status check_next_round(const pf_codec_place *at, uint64_t next_round)
{
    if (next_round <= INT64_MAX) return PF_OK;
    return pf_codec_refuse(at, PF_FORMAT, "next_round", "is %llu, expected 0 to %lld", (unsigned long long)next_round,
                           (long long)INT64_MAX);
}

/* Ranges of ids: each begins above the end of the one before. They may lie past the vocabulary. */
static pf_status check_excluded(const pf_codec_place *at, const int32_t *ends, size_t n)
{
    PF_TRY(pf_codec_check_count(at, "excluded", n, 0, (size_t)2 * PF_MAX_EXCLUDED));
    if (n % 2 != 0) return pf_codec_refuse(at, PF_FORMAT, "excluded", "has %zu entries, expected an even number", n);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && ends[i - 1] == INT32_MAX)
            return pf_codec_refuse(at, PF_FORMAT, "excluded", "has entries behind %d", INT32_MAX);
        PF_TRY(pf_codec_check_entry(at, "excluded", i, ends[i], i == 0 ? 0 : ends[i - 1] + 1, INT32_MAX));
    }
    return PF_OK;
}

static pf_status take_drafter(const pf_codec_place *at, const char *wire, char out[PF_DRAFTER_NAME_BYTES])
{
    if (wire[0] == '\0') return PF_OK;
    PF_TRY(pf_codec_check_text(at, "drafter", wire, PF_DRAFTER_NAME_BYTES - 1));
    if (!pf_drafter_name_is_valid(wire))
        return pf_codec_refuse(at, PF_FORMAT, "drafter", "is no name, expected letters, digits, - and _");
    strcpy(out, wire);
    return PF_OK;
}

static pf_status take_open(const pf_codec_place *at, const pf_wire_open *wire, pf_open *out)
{
    *out = (pf_open){ 0 }; /* what is not on the wire */
    if (!wire->limits) return pf_codec_refuse(at, PF_FORMAT, "limits", "is missing");
    PF_TRY(check_next_round(at, wire->next_round));
    PF_TRY(check_tokens(at, "tokens", wire->tokens, wire->n_tokens, 1, PF_MAX_PROMPT_TOKENS));
    PF_TRY(check_method(at, (int32_t)wire->method));
    PF_TRY(pf_codec_check_range(at, "limits.max_draft", wire->limits->max_draft, 1, PF_MAX_DRAFT_TOKENS));
    PF_TRY(pf_codec_check_range(at, "limits.max_declared", wire->limits->max_declared, 0, PF_MAX_DECLARED));
    PF_TRY(pf_codec_check_range(at, "limits.max_tokens", wire->limits->max_tokens, 0, INT32_MAX));
    PF_TRY(pf_codec_check_range(at, "limits.siblings", wire->limits->siblings, 0, PF_SIBLINGS_THAT_PAY));
    PF_TRY(check_tokens(at, "stop_tokens", wire->stop_tokens, wire->n_stop_tokens, 0, PF_MAX_STOP_TOKENS));
    PF_TRY(check_excluded(at, wire->excluded, wire->n_excluded));
    PF_TRY(take_sampling(at, wire->sampling, &out->sampling));
    PF_TRY(take_rules(at, wire, &out->rules));
    PF_TRY(pf_codec_check_range(at, "logprobs", wire->logprobs, 0, 1 + PF_MAX_LOGPROBS));
    out->logprobs = wire->logprobs;
    PF_TRY(take_typical(at, wire->typical, &out->typical));
    PF_TRY(take_drafter(at, wire->drafter, out->drafter));
    out->sequence = wire->sequence;
    out->incarnation = wire->incarnation;
    out->next_round = wire->next_round;
    out->tokens = wire->tokens;
    out->n_tokens = (int32_t)wire->n_tokens;
    out->method = (pf_method)wire->method;
    out->max_draft = wire->limits->max_draft;
    out->adaptive_draft = wire->limits->adaptive_draft;
    out->trees = wire->limits->trees;
    out->siblings = wire->limits->siblings;
    out->max_declared = wire->limits->max_declared;
    out->max_tokens = wire->limits->max_tokens;
    out->stop_tokens = wire->stop_tokens;
    out->n_stop_tokens = (int32_t)wire->n_stop_tokens;
    out->excluded = wire->excluded;
    out->n_excluded = (int32_t)(wire->n_excluded / 2);
    return PF_OK;
}

/* Whether ids [n], none negative, has one twice. Whatever they are it costs the same: each is compared with all before it, four at
 * a time, where a table would have ids that its author chose to meet in one place. */
static bool has_twice(const int32_t *ids, size_t n)
{
    int32_t twice = 0; /* as wide as an id: a vector of either holds as many */
    for (size_t i = 0; i < n; i += 4) {
        int32_t four[4];
        for (size_t k = 0; k < 4; k++) four[k] = i + k < n ? ids[i + k] : -1 - (int32_t)k;
        for (size_t j = 0; j < i; j++)
            twice |= (ids[j] == four[0]) | (ids[j] == four[1]) | (ids[j] == four[2]) | (ids[j] == four[3]);
        for (size_t k = 1; k < 4; k++)
            for (size_t j = 0; j < k; j++) twice |= four[j] == four[k];
    }
    return twice;
}

static pf_status take_declared(const pf_codec_place *at, const pf_wire_declared *wire, int32_t token, pf_declared *out)
{
    PF_TRY(check_tokens(at, "declared.ids", wire->ids, wire->n_ids, 1, PF_MAX_DECLARED));
    PF_TRY(pf_codec_check_count(at, "declared.probabilities", wire->n_probabilities, wire->n_ids, wire->n_ids));
    if (has_twice(wire->ids, wire->n_ids)) return pf_codec_refuse(at, PF_FORMAT, "declared.ids", "has an id twice");

    double sum = 0.0;
    bool holds_token = false;
    for (size_t i = 0; i < wire->n_ids; i++) {
        const float p = wire->probabilities[i];
        if (!(p > 0.0f && p <= 1.0f)) /* NaN fails both */
            return pf_codec_refuse(at, PF_FORMAT, "declared.probabilities", "has %g, expected above 0 to 1", (double)p);
        sum += (double)p;
        holds_token |= wire->ids[i] == token;
    }
    if (fabs(sum - 1.0) > 1e-3)
        return pf_codec_refuse(at, PF_FORMAT, "declared.probabilities", "sum to %.6f, expected 1 within 0.001", sum);
    if (!holds_token)
        return pf_codec_refuse(at, PF_FORMAT, "declared.ids", "lack %d, which was drawn from them", (int)token);
    *out = (pf_declared){ .ids = wire->ids, .probabilities = wire->probabilities, .n = (int32_t)wire->n_ids };
    return PF_OK;
}

/* A later version may find something else. */
static pf_ahead take_ahead(int32_t wire)
{
    return wire == PF_AHEAD_HIT || wire == PF_AHEAD_MISS ? (pf_ahead)wire : PF_AHEAD_NONE;
}

static pf_status take_proposal(const pf_codec_place *at, pf_bump *bump, const pf_wire_proposal *wire, pf_proposal *out)
{
    const size_t n = wire->n_tokens;
    PF_TRY(check_tokens(at, "tokens", wire->tokens, n, 0, PF_MAX_DRAFT_TOKENS));
    if (wire->n_parents) PF_TRY(pf_codec_check_count(at, "parents", wire->n_parents, n, n));
    if (wire->n_declared) PF_TRY(pf_codec_check_count(at, "declared", wire->n_declared, n, n));
    for (size_t i = 0; i < wire->n_parents; i++)
        PF_TRY(pf_codec_check_entry(at, "parents", i, wire->parents[i], -1, (int32_t)i - 1));

    pf_declared *declared = NULL;
    if (wire->n_declared) {
        declared = pf_bump_take(bump, n * sizeof *declared);
        if (!declared) return pf_codec_refuse(at, PF_LIMIT, "declared", "takes more memory than a batch may");
    }
    for (size_t i = 0; i < wire->n_declared; i++)
        PF_TRY(take_declared(at, wire->declared[i], wire->tokens[i], &declared[i]));

    *out = (pf_proposal){
        .sequence = wire->sequence,
        .incarnation = wire->incarnation,
        .round = wire->round,
        .base = wire->base_length,
        .tokens = wire->tokens,
        .n_tokens = (int32_t)n,
        .parents = wire->n_parents ? wire->parents : NULL,
        .declared = declared,
        .ahead = take_ahead((int32_t)wire->ahead),
        .passes = wire->passes > 0 && wire->passes <= PF_MAX_DRAFT_TOKENS ? wire->passes : 0,
    };
    return PF_OK;
}

static pf_status check_logprobs(const pf_codec_place *at, const char *field, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(values[i] <= 0.0f))
            return pf_codec_refuse(at, PF_FORMAT, field, "[%zu] is %g, expected at most 0", i, (double)values[i]);
    return PF_OK;
}

/* Of the tokens [n] of a verdict. */
static pf_status take_logprobs(const pf_codec_place *at, pf_bump *bump, const pf_wire_logprobs *wire,
                               const int32_t *tokens, size_t n, const pf_token_logprobs **out)
{
    PF_TRY(pf_codec_check_count(at, "logprobs.logprobs", wire->n_logprobs, n, n));
    PF_TRY(pf_codec_check_count(at, "logprobs.counts", wire->n_counts, n, n));
    PF_TRY(check_logprobs(at, "logprobs.logprobs", wire->logprobs, n));
    size_t n_top = 0;
    for (size_t i = 0; i < n; i++) {
        PF_TRY(pf_codec_check_entry(at, "logprobs.counts", i, wire->counts[i], 0, PF_MAX_LOGPROBS));
        n_top += (size_t)wire->counts[i];
    }
    PF_TRY(check_tokens(at, "logprobs.top", wire->top, wire->n_top, n_top, n_top));
    PF_TRY(pf_codec_check_count(at, "logprobs.top_logprobs", wire->n_top_logprobs, n_top, n_top));
    PF_TRY(check_logprobs(at, "logprobs.top_logprobs", wire->top_logprobs, n_top));
    pf_token_logprobs *taken = pf_bump_take(bump, n * sizeof *taken);
    if (!taken) return pf_codec_refuse(at, PF_LIMIT, "logprobs", "takes more memory than a batch may");
    for (size_t i = 0, first = 0; i < n; i++) {
        const size_t count = (size_t)wire->counts[i];
        taken[i] = (pf_token_logprobs){ .token = tokens[i], .logprob = wire->logprobs[i], .n_top = (int32_t)count };
        if (count > 0) {
            memcpy(taken[i].top, wire->top + first, count * sizeof *taken[i].top);
            memcpy(taken[i].top_logprobs, wire->top_logprobs + first, count * sizeof *taken[i].top_logprobs);
        }
        first += count;
    }
    *out = taken;
    return PF_OK;
}

static pf_status take_verdict(const pf_codec_place *at, pf_bump *bump, const pf_wire_verdict *wire, pf_verdict *out)
{
    const pf_token_logprobs *logprobs = NULL;
    PF_TRY(pf_codec_check_range(at, "finish", wire->finish, PF_FINISH_NONE, PF_FINISH_EOS));
    const size_t least = wire->finish == PILOTFISH__V1__FINISH__FINISH_NONE ? 1 : 0;
    PF_TRY(check_tokens(at, "tokens", wire->tokens, wire->n_tokens, least, PF_MAX_VERDICT_TOKENS));
    PF_TRY(pf_codec_check_range(at, "n_accepted", wire->n_accepted, 0, (int64_t)wire->n_tokens));
    const bool is_bounded = wire->wanted_case == PILOTFISH__V1__VERDICT__WANTED_MAX_DRAFT;
    if (is_bounded) PF_TRY(pf_codec_check_range(at, "max_draft", wire->max_draft, 0, PF_MAX_DRAFT_TOKENS));
    if (wire->logprobs && wire->n_tokens > 0)
        PF_TRY(take_logprobs(at, bump, wire->logprobs, wire->tokens, wire->n_tokens, &logprobs));
    *out = (pf_verdict){
        .sequence = wire->sequence,
        .incarnation = wire->incarnation,
        .round = wire->round,
        .base = wire->base_length,
        .tokens = wire->tokens,
        .n_tokens = (int32_t)wire->n_tokens,
        .n_accepted = wire->n_accepted,
        .finish = (pf_finish)wire->finish,
        .next_draft = !is_bounded            ? 0
                      : wire->max_draft == 0 ? PF_NO_DRAFT
                                             : wire->max_draft,
        .propose_within_us = wire->propose_within_us,
        .logprobs = logprobs,
    };
    return PF_OK;
}

static pf_status status_of(Pilotfish__V1__Refusal__Reason reason)
{
    if (reason == PILOTFISH__V1__REFUSAL__REASON__LIMIT) return PF_LIMIT;
    if (reason == PILOTFISH__V1__REFUSAL__REASON__UNSUPPORTED) return PF_UNSUPPORTED;
    return PF_INVALID;
}

static pf_status take_refusal(const pf_codec_place *at, const pf_wire_refusal *wire, pf_refusal *out)
{
    PF_TRY(pf_codec_check_text(at, "text", wire->text, PF_MAX_REFUSAL_BYTES));
    pf_utf8_make_printable(wire->text, '?'); /* an empty one is protobuf-c's constant */
    *out = (pf_refusal){
        .sequence = wire->sequence,
        .incarnation = wire->incarnation,
        .status = status_of(wire->reason),
        .text = *wire->text ? wire->text : "no reason given", /* it ends a sentence */
    };
    return PF_OK;
}

/* An array for n entries of a kind, or NULL when n is 0. */
static pf_status entries(pf_bump *bump, pf_error *error, const char *kind, size_t n, size_t size, void **out)
{
    *out = NULL;
    if (n > PF_MAX_BATCH_SEQUENCES)
        return pf_fail(error, PF_FORMAT, "%s has %zu entries, expected at most %d", kind, n, PF_MAX_BATCH_SEQUENCES);
    if (n == 0) return PF_OK;
    *out = pf_bump_take(bump, n * size);
    return *out ? PF_OK : pf_fail(error, PF_LIMIT, "%s takes more memory than a batch may", kind);
}

/* One batch being decoded. */
typedef struct {
    pf_codec *codec;
    const pf_wire_batch *wire;
    pf_batch batch;
    bool in_parts; /* a part that does not fit is set aside; else it fails the batch */
    pf_refusal *rejected;
    int32_t n_rejected, n_rejected_proposals, n_rejected_verdicts;
    pf_error error; /* of what was checked last */
} taking;

/* What names the round that a part is about. One that has none is of no sequence: its sender is broken. */
static pf_status check_fences(const pf_codec_place *at, uint32_t incarnation, uint64_t round, uint64_t first_round,
                              int64_t base)
{
    PF_TRY(pf_codec_check_range(at, "incarnation", incarnation, 1, UINT32_MAX));
    if (round < first_round) return pf_codec_refuse(at, PF_FORMAT, "round", "is 0, expected 1 or more");
    return pf_codec_check_range(at, "base_length", base, 0, INT32_MAX - PF_MAX_VERDICT_TOKENS);
}

/* Count a part that is taken. One that does not fit, for the reason in t->error, is set aside: its sequence alone is to pay. */
static pf_status settle(taking *t, pf_status status, uint64_t sequence, uint32_t incarnation, int32_t *n_taken)
{
    pf_bump *bump = &t->codec->in;
    if (status == PF_OK) {
        ++*n_taken;
        return PF_OK;
    }
    if (!t->in_parts || bump->refused) return status;
    if (!t->rejected) t->rejected = pf_bump_take(bump, (size_t)3 * PF_MAX_BATCH_SEQUENCES * sizeof *t->rejected);
    char *text = pf_bump_take(bump, PF_MAX_REFUSAL_BYTES + 1);
    if (!t->rejected || !text)
        return pf_fail(&t->error, PF_LIMIT, "what does not fit takes more memory than a batch may");
    snprintf(text, PF_MAX_REFUSAL_BYTES + 1, "%s", t->error.text);
    t->rejected[t->n_rejected++] = (pf_refusal){
        .sequence = sequence,
        .incarnation = incarnation,
        .status = status == PF_UNSUPPORTED ? PF_UNSUPPORTED : PF_INVALID,
        .text = text,
    };
    return PF_OK;
}

static pf_status take_opens(taking *t)
{
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "opens", t->wire->n_opens, sizeof *t->batch.opens, &p));
    t->batch.opens = p;
    for (size_t i = 0; i < t->wire->n_opens; i++) {
        const pf_wire_open *o = t->wire->opens[i];
        const pf_codec_place at = { "opens", i, t->codec->n_vocab, &t->error };
        PF_TRY(check_fences(&at, o->incarnation, 0, 0, 0));
        const pf_status status = take_open(&at, o, &t->batch.opens[t->batch.n_opens]);
        PF_TRY(settle(t, status, o->sequence, o->incarnation, &t->batch.n_opens));
    }
    return PF_OK;
}

static pf_status take_closes(taking *t)
{
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "closes", t->wire->n_closes, sizeof *t->batch.closes, &p));
    t->batch.closes = p;
    t->batch.n_closes = (int32_t)t->wire->n_closes;
    for (size_t i = 0; i < t->wire->n_closes; i++)
        t->batch.closes[i] = (pf_close){ .sequence = t->wire->closes[i]->sequence };
    return PF_OK;
}

static pf_status take_proposals(taking *t)
{
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "proposals", t->wire->n_proposals, sizeof *t->batch.proposals, &p));
    t->batch.proposals = p;
    for (size_t i = 0; i < t->wire->n_proposals; i++) {
        const pf_wire_proposal *o = t->wire->proposals[i];
        const pf_codec_place at = { "proposals", i, t->codec->n_vocab, &t->error };
        PF_TRY(check_fences(&at, o->incarnation, o->round, 1, o->base_length));
        const pf_status status = take_proposal(&at, &t->codec->in, o, &t->batch.proposals[t->batch.n_proposals]);
        PF_TRY(settle(t, status, o->sequence, o->incarnation, &t->batch.n_proposals));
    }
    t->n_rejected_proposals = (int32_t)t->wire->n_proposals - t->batch.n_proposals;
    return PF_OK;
}

static pf_status take_verdicts(taking *t)
{
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "verdicts", t->wire->n_verdicts, sizeof *t->batch.verdicts, &p));
    t->batch.verdicts = p;
    for (size_t i = 0; i < t->wire->n_verdicts; i++) {
        const pf_wire_verdict *o = t->wire->verdicts[i];
        const pf_codec_place at = { "verdicts", i, t->codec->n_vocab, &t->error };
        PF_TRY(check_fences(&at, o->incarnation, o->round, 0, o->base_length));
        const pf_status status = take_verdict(&at, &t->codec->in, o, &t->batch.verdicts[t->batch.n_verdicts]);
        PF_TRY(settle(t, status, o->sequence, o->incarnation, &t->batch.n_verdicts));
    }
    t->n_rejected_verdicts = (int32_t)t->wire->n_verdicts - t->batch.n_verdicts;
    return PF_OK;
}

static pf_status take_prefix_requests(taking *t)
{
    pf_batch *batch = &t->batch;
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "prefix_requests", t->wire->n_prefix_requests,
                   sizeof *batch->prefix_requests, &p));
    batch->prefix_requests = p;
    batch->n_prefix_requests = (int32_t)t->wire->n_prefix_requests;
    for (size_t i = 0; i < t->wire->n_prefix_requests; i++) {
        const pf_wire_prefix_request *r = t->wire->prefix_requests[i];
        PF_TRY(pf_codec_check_range(&(pf_codec_place){ "prefix_requests", i, 0, &t->error }, "known", r->known, 0,
                                    INT32_MAX));
        batch->prefix_requests[i] =
            (pf_prefix_request){ .sequence = r->sequence, .incarnation = r->incarnation, .known = r->known };
    }
    return PF_OK;
}

static pf_status take_refusals(taking *t)
{
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "refusals", t->wire->n_refusals, sizeof *t->batch.refusals, &p));
    t->batch.refusals = p;
    t->batch.n_refusals = (int32_t)t->wire->n_refusals;
    for (size_t i = 0; i < t->wire->n_refusals; i++)
        PF_TRY(take_refusal(&(pf_codec_place){ "refusals", i, 0, &t->error }, t->wire->refusals[i],
                            &t->batch.refusals[i]));
    return PF_OK;
}

/* Of the first n, the one about a sequence, or NULL. */
static pf_refusal *find_rejected(const taking *t, int32_t n, uint64_t sequence)
{
    for (int32_t i = 0; i < n; i++)
        if (t->rejected[i].sequence == sequence) return &t->rejected[i];
    return NULL;
}

/* Whether a refusal ends what is about that incarnation of a sequence. */
static bool is_refused(const taking *t, uint64_t sequence, uint32_t incarnation)
{
    const pf_refusal *rejected = find_rejected(t, t->n_rejected, sequence);
    return rejected && incarnation <= rejected->incarnation;
}

/* One refusal a sequence, of its last incarnation that has one (its owner drops what is about an earlier one), and nothing else
 * about that or those before it: a prefix request could only bring it back. */
static void drop_rejected(taking *t)
{
    pf_batch *b = &t->batch;
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_rejected; i++) {
        const pf_refusal *rejected = &t->rejected[i];
        pf_refusal *kept = find_rejected(t, n, rejected->sequence);
        if (!kept)
            t->rejected[n++] = *rejected;
        else if (rejected->incarnation > kept->incarnation)
            *kept = *rejected;
    }
    t->n_rejected = n;

#define PF_KEEP(kind)                      \
    const int32_t n_##kind = b->n_##kind;  \
    b->n_##kind = 0;                       \
    for (int32_t i = 0; i < n_##kind; i++) \
        if (!is_refused(t, b->kind[i].sequence, b->kind[i].incarnation)) b->kind[b->n_##kind++] = b->kind[i];
    PF_KEEP(opens)
    PF_KEEP(proposals)
    PF_KEEP(verdicts)
#undef PF_KEEP
}

static pf_status take_batch(taking *t)
{
    PF_TRY(take_opens(t));
    PF_TRY(take_closes(t));
    PF_TRY(take_proposals(t));
    PF_TRY(take_verdicts(t));
    PF_TRY(take_prefix_requests(t));
    PF_TRY(take_refusals(t));
    if (t->n_rejected > 0) drop_rejected(t);
    if (t->wire->timing)
        t->batch.timing =
            (pf_timing){ .compute_ns = t->wire->timing->compute_ns, .queue_ns = t->wire->timing->queue_ns };
    return PF_OK;
}

static pf_status unpack(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_wire_batch **out,
                        pf_error *error)
{
    if (n_bytes > codec->max_message_bytes)
        return pf_fail(error, PF_LIMIT, "a batch of %zu bytes, at most %zu are taken", n_bytes,
                       codec->max_message_bytes);
    pf_bump_reset(&codec->in);
    ProtobufCAllocator allocator = pf_bump_allocator(&codec->in);
    *out = pilotfish__v1__batch__unpack(&allocator, n_bytes, bytes);
    if (!*out && codec->in.refused)
        return pf_fail(error, PF_LIMIT, "a batch of %zu bytes that unpacks to more than %zu", n_bytes, codec->in.size);
    if (!*out) return pf_fail(error, PF_FORMAT, "%zu bytes that are not a pilotfish.v1.Batch", n_bytes);
    return PF_OK;
}

/* rejected NULL: whole or not at all. */
static pf_status decode(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                        const pf_rejected **rejected, pf_error *error)
{
    taking t = { .codec = codec, .in_parts = rejected != NULL };
    PF_TRY(unpack(codec, bytes, n_bytes, &t.wire, error));
    const pf_status status = take_batch(&t);
    if (status != PF_OK) {
        if (error) *error = t.error;
        return status;
    }
    codec->batch = t.batch;
    *out = &codec->batch;
    if (!rejected) return PF_OK;
    codec->rejected = (pf_rejected){ t.rejected, t.n_rejected, t.n_rejected_proposals, t.n_rejected_verdicts };
    *rejected = &codec->rejected;
    return PF_OK;
}

pf_status pf_codec_decode_batch(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                                pf_error *error)
{
    return decode(codec, bytes, n_bytes, out, NULL, error);
}

pf_status pf_codec_decode_parts(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                                const pf_rejected **rejected, pf_error *error)
{
    return decode(codec, bytes, n_bytes, out, rejected, error);
}
