/* A batch to bytes: mirrored in protobuf-c's structs, then packed. */
#include <string.h>

#include "base/sampling_parameters.h"
#include "proto/codec_parts.h"

static bool within(int32_t n, int32_t max)
{
    return n >= 0 && n <= max;
}

/* `n` structs of `size` bytes and the array of pointers to them that protobuf-c wants; NULL when n is 0 or the arena
 * is too small (then `refused` is set). */
static void *mirror_array(pf_bump *bump, int32_t n, size_t size, void ***pointers)
{
    *pointers = NULL;
    if (n == 0) return NULL;
    void **table = pf_bump_take(bump, (size_t)n * sizeof *table);
    uint8_t *items = pf_bump_take(bump, (size_t)n * size);
    if (!table || !items) return NULL;
    for (int32_t i = 0; i < n; i++) table[i] = items + (size_t)i * size;
    *pointers = table;
    return items;
}

static pf_status mirror_opens(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire)
{
    typedef struct {
        pf_wire_open open;
        pf_wire_sampling sampling;
        pf_wire_limits limits;
        pf_wire_rules rules;
        pf_wire_typical typical;
    } whole;
    void **table;
    whole *items = mirror_array(bump, batch->n_opens, sizeof *items, &table);
    wire->opens = (pf_wire_open **)table;
    wire->n_opens = (size_t)batch->n_opens;
    for (int32_t i = 0; items && i < batch->n_opens; i++) {
        const pf_open *o = &batch->opens[i];
        if (!within(o->n_tokens, PF_MAX_PROMPT_TOKENS) || !within(o->n_stop_tokens, PF_MAX_STOP_TOKENS) ||
            !within(o->n_excluded, PF_MAX_EXCLUDED) || !within(o->rules.n_biases, PF_MAX_LOGIT_BIASES) ||
            strnlen(o->drafter, sizeof o->drafter) == sizeof o->drafter)
            return PF_LIMIT;
        whole *w = &items[i];
        pilotfish__v1__sampling_parameters__init(&w->sampling);
        w->sampling.temperature = o->sampling.temperature;
        w->sampling.top_k = o->sampling.top_k;
        w->sampling.top_p = o->sampling.top_p;
        w->sampling.min_p = o->sampling.min_p;
        w->sampling.typical_p = o->sampling.typical_p;
        w->sampling.seed = o->sampling.seed;
        w->sampling.repetition_penalty = o->rules.repetition_penalty;
        w->sampling.presence_penalty = o->rules.presence_penalty;
        w->sampling.frequency_penalty = o->rules.frequency_penalty;
        pilotfish__v1__logit_rules__init(&w->rules);
        w->rules.n_bias_ids = w->rules.n_biases = (size_t)o->rules.n_biases;
        w->rules.bias_ids = pf_codec_unconst(o->rules.bias_ids);
        w->rules.biases = pf_codec_unconst(o->rules.biases);
        w->rules.min_tokens = o->rules.min_tokens;
        w->rules.n_prompt = o->rules.n_prompt;
        pilotfish__v1__limits__init(&w->limits);
        w->limits.max_draft = o->max_draft;
        w->limits.adaptive_draft = o->adaptive_draft;
        w->limits.trees = o->trees;
        w->limits.siblings = o->siblings;
        w->limits.max_declared = o->max_declared;
        w->limits.max_tokens = o->max_tokens;
        pilotfish__v1__open__init(&w->open);
        w->open.sequence = o->sequence;
        w->open.incarnation = o->incarnation;
        w->open.next_round = o->next_round;
        w->open.n_tokens = (size_t)o->n_tokens;
        w->open.tokens = pf_codec_unconst(o->tokens);
        w->open.sampling = &w->sampling;
        w->open.method = (Pilotfish__V1__Method)o->method;
        w->open.limits = &w->limits;
        w->open.n_stop_tokens = (size_t)o->n_stop_tokens;
        w->open.stop_tokens = pf_codec_unconst(o->stop_tokens);
        w->open.n_excluded = 2 * (size_t)o->n_excluded;
        w->open.excluded = pf_codec_unconst(o->excluded);
        if (pf_logit_rules_are_active(&o->rules)) w->open.rules = &w->rules;
        pilotfish__v1__typical__init(&w->typical);
        w->typical.epsilon = o->typical.epsilon;
        w->typical.delta = o->typical.delta;
        if (o->method == PF_METHOD_TYPICAL) w->open.typical = &w->typical;
        w->open.logprobs = o->logprobs;
        w->open.drafter = pf_codec_unconst(o->drafter);
    }
    return PF_OK;
}

static void mirror_closes(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire)
{
    void **table;
    pf_wire_close *items = mirror_array(bump, batch->n_closes, sizeof *items, &table);
    wire->closes = (pf_wire_close **)table;
    wire->n_closes = (size_t)batch->n_closes;
    for (int32_t i = 0; items && i < batch->n_closes; i++) {
        pilotfish__v1__close__init(&items[i]);
        items[i].sequence = batch->closes[i].sequence;
    }
}

static pf_status mirror_declared(pf_bump *bump, const pf_proposal *p, pf_wire_proposal *wire)
{
    void **table;
    pf_wire_declared *items = mirror_array(bump, p->n_tokens, sizeof *items, &table);
    wire->declared = (pf_wire_declared **)table;
    wire->n_declared = (size_t)p->n_tokens;
    for (int32_t i = 0; items && i < p->n_tokens; i++) {
        const pf_declared *d = &p->declared[i];
        if (!within(d->n, PF_MAX_DECLARED)) return PF_LIMIT;
        pilotfish__v1__declared__init(&items[i]);
        items[i].n_ids = items[i].n_probabilities = (size_t)d->n;
        items[i].ids = pf_codec_unconst(d->ids);
        items[i].probabilities = pf_codec_unconst(d->probabilities);
    }
    return PF_OK;
}

static pf_status mirror_proposals(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire)
{
    void **table;
    pf_wire_proposal *items = mirror_array(bump, batch->n_proposals, sizeof *items, &table);
    wire->proposals = (pf_wire_proposal **)table;
    wire->n_proposals = (size_t)batch->n_proposals;
    for (int32_t i = 0; items && i < batch->n_proposals; i++) {
        const pf_proposal *p = &batch->proposals[i];
        if (!within(p->n_tokens, PF_MAX_DRAFT_TOKENS)) return PF_LIMIT;
        pf_wire_proposal *w = &items[i];
        pilotfish__v1__proposal__init(w);
        w->sequence = p->sequence;
        w->incarnation = p->incarnation;
        w->round = p->round;
        w->base_length = p->base;
        w->n_tokens = (size_t)p->n_tokens;
        w->tokens = pf_codec_unconst(p->tokens);
        w->ahead = (Pilotfish__V1__Ahead)p->ahead;
        w->passes = p->passes;
        if (p->parents) {
            w->n_parents = (size_t)p->n_tokens;
            w->parents = pf_codec_unconst(p->parents);
        }
        if (p->declared) PF_TRY(mirror_declared(bump, p, w));
    }
    return PF_OK;
}

/* Token after token in one array of each field. */
static pf_status mirror_logprobs(pf_bump *bump, const pf_verdict *v, pf_wire_logprobs **out)
{
    const size_t n = (size_t)v->n_tokens;
    size_t n_top = 0;
    for (size_t i = 0; i < n; i++) {
        if (!within(v->logprobs[i].n_top, PF_MAX_LOGPROBS)) return PF_LIMIT;
        n_top += (size_t)v->logprobs[i].n_top;
    }
    pf_wire_logprobs *wire = pf_bump_take(bump, sizeof *wire);
    float *logprobs = pf_bump_take(bump, n * sizeof *logprobs);
    float *values = pf_bump_take(bump, n_top * sizeof *values);
    int32_t *counts = pf_bump_take(bump, n * sizeof *counts);
    int32_t *ids = pf_bump_take(bump, n_top * sizeof *ids);
    if (!wire || !logprobs || !values || !counts || !ids) return PF_LIMIT;
    pilotfish__v1__logprobs__init(wire);
    for (size_t i = 0; i < n; i++) {
        const pf_token_logprobs *of = &v->logprobs[i];
        logprobs[i] = of->logprob;
        counts[i] = of->n_top;
        if (of->n_top == 0) continue;
        memcpy(ids + wire->n_top, of->top, (size_t)of->n_top * sizeof *ids);
        memcpy(values + wire->n_top, of->top_logprobs, (size_t)of->n_top * sizeof *values);
        wire->n_top += (size_t)of->n_top;
    }
    wire->n_logprobs = wire->n_counts = n;
    wire->n_top_logprobs = wire->n_top;
    wire->logprobs = logprobs;
    wire->counts = counts;
    wire->top = ids;
    wire->top_logprobs = values;
    *out = wire;
    return PF_OK;
}

static pf_status mirror_verdicts(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire)
{
    void **table;
    pf_wire_verdict *items = mirror_array(bump, batch->n_verdicts, sizeof *items, &table);
    wire->verdicts = (pf_wire_verdict **)table;
    wire->n_verdicts = (size_t)batch->n_verdicts;
    for (int32_t i = 0; items && i < batch->n_verdicts; i++) {
        const pf_verdict *v = &batch->verdicts[i];
        if (!within(v->n_tokens, PF_MAX_VERDICT_TOKENS)) return PF_LIMIT;
        pf_wire_verdict *w = &items[i];
        pilotfish__v1__verdict__init(w);
        w->sequence = v->sequence;
        w->incarnation = v->incarnation;
        w->round = v->round;
        w->base_length = v->base;
        w->n_tokens = (size_t)v->n_tokens;
        w->tokens = pf_codec_unconst(v->tokens);
        w->n_accepted = v->n_accepted;
        w->finish = (Pilotfish__V1__Finish)v->finish;
        if (v->next_draft != 0) {
            w->wanted_case = PILOTFISH__V1__VERDICT__WANTED_MAX_DRAFT;
            w->max_draft = v->next_draft == PF_NO_DRAFT ? 0 : v->next_draft;
        }
        w->propose_within_us = v->propose_within_us;
        if (v->logprobs && v->n_tokens > 0) PF_TRY(mirror_logprobs(bump, v, &w->logprobs));
    }
    return PF_OK;
}

static void mirror_prefix_requests(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire)
{
    void **table;
    pf_wire_prefix_request *items = mirror_array(bump, batch->n_prefix_requests, sizeof *items, &table);
    wire->prefix_requests = (pf_wire_prefix_request **)table;
    wire->n_prefix_requests = (size_t)batch->n_prefix_requests;
    for (int32_t i = 0; items && i < batch->n_prefix_requests; i++) {
        pilotfish__v1__prefix_request__init(&items[i]);
        items[i].sequence = batch->prefix_requests[i].sequence;
        items[i].incarnation = batch->prefix_requests[i].incarnation;
        items[i].known = batch->prefix_requests[i].known;
    }
}

static Pilotfish__V1__Refusal__Reason reason_of(pf_status status)
{
    if (status == PF_LIMIT) return PILOTFISH__V1__REFUSAL__REASON__LIMIT;
    if (status == PF_UNSUPPORTED) return PILOTFISH__V1__REFUSAL__REASON__UNSUPPORTED;
    return PILOTFISH__V1__REFUSAL__REASON__INVALID;
}

static pf_status mirror_refusals(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire)
{
    void **table;
    pf_wire_refusal *items = mirror_array(bump, batch->n_refusals, sizeof *items, &table);
    wire->refusals = (pf_wire_refusal **)table;
    wire->n_refusals = (size_t)batch->n_refusals;
    for (int32_t i = 0; items && i < batch->n_refusals; i++) {
        const pf_refusal *r = &batch->refusals[i];
        if (strnlen(r->text, PF_MAX_REFUSAL_BYTES + 1) > PF_MAX_REFUSAL_BYTES) return PF_LIMIT;
        pilotfish__v1__refusal__init(&items[i]);
        items[i].sequence = r->sequence;
        items[i].incarnation = r->incarnation;
        items[i].reason = reason_of(r->status);
        items[i].text = pf_codec_unconst(r->text);
    }
    return PF_OK;
}

static pf_status mirror(pf_bump *bump, const pf_batch *batch, pf_wire_batch *wire, pf_wire_timing *timing)
{
    const int32_t counts[] = { batch->n_opens,    batch->n_closes,          batch->n_proposals,
                               batch->n_verdicts, batch->n_prefix_requests, batch->n_refusals };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!within(counts[i], PF_MAX_BATCH_SEQUENCES)) return PF_LIMIT;

    pf_bump_reset(bump);
    pilotfish__v1__batch__init(wire);
    PF_TRY(mirror_opens(bump, batch, wire));
    mirror_closes(bump, batch, wire);
    PF_TRY(mirror_proposals(bump, batch, wire));
    PF_TRY(mirror_verdicts(bump, batch, wire));
    mirror_prefix_requests(bump, batch, wire);
    PF_TRY(mirror_refusals(bump, batch, wire));
    if (batch->timing.compute_ns || batch->timing.queue_ns) {
        pilotfish__v1__timing__init(timing);
        timing->compute_ns = batch->timing.compute_ns;
        timing->queue_ns = batch->timing.queue_ns;
        wire->timing = timing;
    }
    return bump->refused ? PF_LIMIT : PF_OK;
}

pf_status pf_codec_measure_batch(pf_codec *codec, const pf_batch *batch, size_t *n_bytes)
{
    PF_TRY(mirror(&codec->out, batch, &codec->mirrored, &codec->mirrored_timing));
    const size_t n = pilotfish__v1__batch__get_packed_size(&codec->mirrored);
    if (n > codec->max_message_bytes) return PF_LIMIT;
    *n_bytes = n;
    return PF_OK;
}

void pf_codec_pack_batch(const pf_codec *codec, uint8_t *out)
{
    (void)pilotfish__v1__batch__pack(&codec->mirrored, out);
}

pf_status pf_codec_encode_batch(pf_codec *codec, const pf_batch *batch, uint8_t *out, size_t capacity, size_t *n_bytes)
{
    size_t n;
    PF_TRY(pf_codec_measure_batch(codec, batch, &n));
    if (n > capacity) return PF_LIMIT;
    pf_codec_pack_batch(codec, out);
    *n_bytes = n;
    return PF_OK;
}
