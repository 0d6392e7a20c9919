#include "proto/codec.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pilotfish.pb-c.h"

#include "proto/bump.h"

typedef Pilotfish__V1__Batch wire_batch;
typedef Pilotfish__V1__Open wire_open;
typedef Pilotfish__V1__SamplingParameters wire_sampling;
typedef Pilotfish__V1__Limits wire_limits;
typedef Pilotfish__V1__Close wire_close;
typedef Pilotfish__V1__Proposal wire_proposal;
typedef Pilotfish__V1__Declared wire_declared;
typedef Pilotfish__V1__Verdict wire_verdict;
typedef Pilotfish__V1__PrefixRequest wire_prefix_request;
typedef Pilotfish__V1__Refusal wire_refusal;
typedef Pilotfish__V1__Timing wire_timing;

enum {
    /* Wire to memory: a packed id of one byte becomes an int32_t; nothing that is well-formed grows more ... */
    GROWTH = 4,
    /* ... but for the structs, which the limits of messages.h bound: declared distributions are most of them. */
    STRUCT_BYTES = PF_MAX_BATCH_SEQUENCES * (PF_MAX_DRAFT_TOKENS * 128 + 2048),
    DECLARED_HASH = 2 * PF_MAX_DECLARED,
};

struct pf_codec {
    size_t max_message_bytes;
    int32_t n_vocab; /* 0: not known */
    pf_bump in, out;
    pf_batch batch; /* the last one decoded */
    pf_misfits misfits;
};

pf_status pf_codec_create(size_t max_message_bytes, int32_t n_vocab, pf_codec **out)
{
    if (max_message_bytes < 1 || max_message_bytes > PF_MAX_MESSAGE_BYTES || n_vocab < 0) return PF_INVALID;
    pf_codec *codec = calloc(1, sizeof *codec);
    if (!codec) return PF_NOMEM;
    codec->max_message_bytes = max_message_bytes;
    codec->n_vocab = n_vocab;
    codec->in.size = GROWTH * max_message_bytes + STRUCT_BYTES;
    codec->out.size = STRUCT_BYTES;
    codec->in.bytes = malloc(codec->in.size);
    codec->out.bytes = malloc(codec->out.size);
    if (!codec->in.bytes || !codec->out.bytes) {
        pf_codec_destroy(codec);
        return PF_NOMEM;
    }
    *out = codec;
    return PF_OK;
}

void pf_codec_destroy(pf_codec *codec)
{
    if (!codec) return;
    free(codec->in.bytes);
    free(codec->out.bytes);
    free(codec);
}

/* ---- encoding: mirror in protobuf-c's structs, then pack ------------------------------------------------------- */

static bool within(int32_t n, int32_t max)
{
    return n >= 0 && n <= max;
}

/* The arrays of a batch are only read, but protobuf-c's structs have no const. */
static void *unconst(const void *p)
{
    union {
        const void *in;
        void *out;
    } u = { .in = p };
    return u.out;
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

static pf_status mirror_opens(pf_bump *bump, const pf_batch *batch, wire_batch *wire)
{
    typedef struct {
        wire_open open;
        wire_sampling sampling;
        wire_limits limits;
    } whole;
    void **table;
    whole *items = mirror_array(bump, batch->n_opens, sizeof *items, &table);
    wire->opens = (wire_open **)table;
    wire->n_opens = (size_t)batch->n_opens;
    for (int32_t i = 0; items && i < batch->n_opens; i++) {
        const pf_open *o = &batch->opens[i];
        if (!within(o->n_tokens, PF_MAX_PROMPT_TOKENS) || !within(o->n_stop_tokens, PF_MAX_STOP_TOKENS))
            return PF_LIMIT;
        whole *w = &items[i];
        pilotfish__v1__sampling_parameters__init(&w->sampling);
        w->sampling.temperature = o->sampling.temperature;
        w->sampling.top_k = o->sampling.top_k;
        w->sampling.top_p = o->sampling.top_p;
        w->sampling.min_p = o->sampling.min_p;
        w->sampling.seed = o->sampling.seed;
        pilotfish__v1__limits__init(&w->limits);
        w->limits.max_draft = o->max_draft;
        w->limits.adaptive_draft = o->adaptive_draft;
        w->limits.max_declared = o->max_declared;
        w->limits.max_tokens = o->max_tokens;
        pilotfish__v1__open__init(&w->open);
        w->open.sequence = o->sequence;
        w->open.incarnation = o->incarnation;
        w->open.next_round = o->next_round;
        w->open.n_tokens = (size_t)o->n_tokens;
        w->open.tokens = unconst(o->tokens);
        w->open.sampling = &w->sampling;
        w->open.method = (Pilotfish__V1__Method)o->method;
        w->open.limits = &w->limits;
        w->open.n_stop_tokens = (size_t)o->n_stop_tokens;
        w->open.stop_tokens = unconst(o->stop_tokens);
    }
    return PF_OK;
}

static void mirror_closes(pf_bump *bump, const pf_batch *batch, wire_batch *wire)
{
    void **table;
    wire_close *items = mirror_array(bump, batch->n_closes, sizeof *items, &table);
    wire->closes = (wire_close **)table;
    wire->n_closes = (size_t)batch->n_closes;
    for (int32_t i = 0; items && i < batch->n_closes; i++) {
        pilotfish__v1__close__init(&items[i]);
        items[i].sequence = batch->closes[i].sequence;
    }
}

static pf_status mirror_declared(pf_bump *bump, const pf_proposal *p, wire_proposal *wire)
{
    void **table;
    wire_declared *items = mirror_array(bump, p->n_tokens, sizeof *items, &table);
    wire->declared = (wire_declared **)table;
    wire->n_declared = (size_t)p->n_tokens;
    for (int32_t i = 0; items && i < p->n_tokens; i++) {
        const pf_declared *d = &p->declared[i];
        if (!within(d->n, PF_MAX_DECLARED)) return PF_LIMIT;
        pilotfish__v1__declared__init(&items[i]);
        items[i].n_ids = items[i].n_probabilities = (size_t)d->n;
        items[i].ids = unconst(d->ids);
        items[i].probabilities = unconst(d->probabilities);
    }
    return PF_OK;
}

static pf_status mirror_proposals(pf_bump *bump, const pf_batch *batch, wire_batch *wire)
{
    void **table;
    wire_proposal *items = mirror_array(bump, batch->n_proposals, sizeof *items, &table);
    wire->proposals = (wire_proposal **)table;
    wire->n_proposals = (size_t)batch->n_proposals;
    for (int32_t i = 0; items && i < batch->n_proposals; i++) {
        const pf_proposal *p = &batch->proposals[i];
        if (!within(p->n_tokens, PF_MAX_DRAFT_TOKENS)) return PF_LIMIT;
        wire_proposal *w = &items[i];
        pilotfish__v1__proposal__init(w);
        w->sequence = p->sequence;
        w->incarnation = p->incarnation;
        w->round = p->round;
        w->base_length = p->base;
        w->n_tokens = (size_t)p->n_tokens;
        w->tokens = unconst(p->tokens);
        if (p->parents) {
            w->n_parents = (size_t)p->n_tokens;
            w->parents = unconst(p->parents);
        }
        if (p->declared) PF_TRY(mirror_declared(bump, p, w));
    }
    return PF_OK;
}

static pf_status mirror_verdicts(pf_bump *bump, const pf_batch *batch, wire_batch *wire)
{
    void **table;
    wire_verdict *items = mirror_array(bump, batch->n_verdicts, sizeof *items, &table);
    wire->verdicts = (wire_verdict **)table;
    wire->n_verdicts = (size_t)batch->n_verdicts;
    for (int32_t i = 0; items && i < batch->n_verdicts; i++) {
        const pf_verdict *v = &batch->verdicts[i];
        if (!within(v->n_tokens, PF_MAX_VERDICT_TOKENS)) return PF_LIMIT;
        wire_verdict *w = &items[i];
        pilotfish__v1__verdict__init(w);
        w->sequence = v->sequence;
        w->incarnation = v->incarnation;
        w->round = v->round;
        w->base_length = v->base;
        w->n_tokens = (size_t)v->n_tokens;
        w->tokens = unconst(v->tokens);
        w->n_accepted = v->n_accepted;
        w->finish = (Pilotfish__V1__Finish)v->finish;
    }
    return PF_OK;
}

static void mirror_prefix_requests(pf_bump *bump, const pf_batch *batch, wire_batch *wire)
{
    void **table;
    wire_prefix_request *items = mirror_array(bump, batch->n_prefix_requests, sizeof *items, &table);
    wire->prefix_requests = (wire_prefix_request **)table;
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

static pf_status mirror_refusals(pf_bump *bump, const pf_batch *batch, wire_batch *wire)
{
    void **table;
    wire_refusal *items = mirror_array(bump, batch->n_refusals, sizeof *items, &table);
    wire->refusals = (wire_refusal **)table;
    wire->n_refusals = (size_t)batch->n_refusals;
    for (int32_t i = 0; items && i < batch->n_refusals; i++) {
        const pf_refusal *r = &batch->refusals[i];
        if (strnlen(r->text, PF_MAX_REFUSAL_BYTES + 1) > PF_MAX_REFUSAL_BYTES) return PF_LIMIT;
        pilotfish__v1__refusal__init(&items[i]);
        items[i].sequence = r->sequence;
        items[i].incarnation = r->incarnation;
        items[i].reason = reason_of(r->status);
        items[i].text = unconst(r->text);
    }
    return PF_OK;
}

static pf_status mirror(pf_bump *bump, const pf_batch *batch, wire_batch *wire, wire_timing *timing)
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

size_t pf_codec_batch_bytes(pf_codec *codec, const pf_batch *batch)
{
    wire_batch wire;
    wire_timing timing;
    if (mirror(&codec->out, batch, &wire, &timing) != PF_OK) return 0;
    return pilotfish__v1__batch__get_packed_size(&wire);
}

pf_status pf_codec_encode_batch(pf_codec *codec, const pf_batch *batch, uint8_t *out, size_t capacity, size_t *n_bytes)
{
    wire_batch wire;
    wire_timing timing;
    PF_TRY(mirror(&codec->out, batch, &wire, &timing));
    const size_t n = pilotfish__v1__batch__get_packed_size(&wire);
    if (n > capacity || n > codec->max_message_bytes) return PF_LIMIT;
    *n_bytes = pilotfish__v1__batch__pack(&wire, out);
    return PF_OK;
}

/* ---- decoding: unpack into the arena, check, and point --------------------------------------------------------- */

/* Where in the batch a field is, for the sentence. */
typedef struct {
    const char *kind;
    size_t index;
    int32_t n_vocab;
    pf_error *error;
} place;

static pf_status refuse(const place *at, pf_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static pf_status refuse(const place *at, pf_status status, const char *field, const char *format, ...)
{
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const char *gap = what[0] == '[' ? "" : " "; /* an entry of the field */
    return pf_fail(at->error, status, "%s[%zu].%s%s%s", at->kind, at->index, field, gap, what);
}

static pf_status check_range(const place *at, const char *field, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high) return PF_OK;
    return refuse(at, PF_FORMAT, field, "is %lld, expected %lld to %lld", (long long)value, (long long)low,
                  (long long)high);
}

static pf_status check_count(const place *at, const char *field, size_t n, size_t low, size_t high)
{
    if (n >= low && n <= high) return PF_OK;
    return refuse(at, PF_FORMAT, field, "has %zu entries, expected %zu to %zu", n, low, high);
}

static pf_status check_tokens(const place *at, const char *field, const int32_t *tokens, size_t n, size_t low,
                              size_t high)
{
    PF_TRY(check_count(at, field, n, low, high));
    const int32_t last = at->n_vocab > 0 ? at->n_vocab - 1 : INT32_MAX;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] > last)
            return refuse(at, PF_FORMAT, field, "[%zu] is %d, expected 0 to %d", i, (int)tokens[i], (int)last);
    return PF_OK;
}

static pf_status check_real(const place *at, const char *field, float value, float low, float high)
{
    if (isfinite(value) && value >= low && value <= high) return PF_OK;
    return refuse(at, PF_FORMAT, field, "is %g, expected %g to %g", (double)value, (double)low, (double)high);
}

static pf_status check_neutral(const place *at, const char *field, float value, float neutral)
{
    if (value == 0.0f || value == neutral) return PF_OK;
    return refuse(at, PF_UNSUPPORTED, field, "is %g, but this version has no penalties: expected %g", (double)value,
                  (double)neutral);
}

static pf_status take_sampling(const place *at, const wire_sampling *wire, pf_sampling *out)
{
    *out = (pf_sampling){ 0 }; /* proto3 has no presence: what is absent is off */
    if (!wire) return PF_OK;
    PF_TRY(check_real(at, "sampling.temperature", wire->temperature, 0.0f, 1e6f));
    PF_TRY(check_range(at, "sampling.top_k", wire->top_k, 0, INT32_MAX));
    PF_TRY(check_real(at, "sampling.top_p", wire->top_p, 0.0f, 1.0f));
    PF_TRY(check_real(at, "sampling.min_p", wire->min_p, 0.0f, 1.0f));
    PF_TRY(check_neutral(at, "sampling.repetition_penalty", wire->repetition_penalty, 1.0f));
    PF_TRY(check_neutral(at, "sampling.presence_penalty", wire->presence_penalty, 0.0f));
    PF_TRY(check_neutral(at, "sampling.frequency_penalty", wire->frequency_penalty, 0.0f));
    out->temperature = wire->temperature;
    out->top_k = wire->top_k;
    out->top_p = wire->top_p;
    out->min_p = wire->min_p;
    out->seed = wire->seed;
    return PF_OK;
}

static pf_status check_method(const place *at, int32_t method)
{
    if (method == 0) return refuse(at, PF_FORMAT, "method", "is missing");
    if (method >= PF_METHOD_GREEDY && method <= PF_METHOD_COUPLED) return PF_OK;
    return refuse(at, PF_UNSUPPORTED, "method", "is %d, but this version has %d to %d", (int)method, PF_METHOD_GREEDY,
                  PF_METHOD_COUPLED);
}

static pf_status take_open(const place *at, const wire_open *wire, pf_open *out)
{
    if (!wire->limits) return refuse(at, PF_FORMAT, "limits", "is missing");
    PF_TRY(check_tokens(at, "tokens", wire->tokens, wire->n_tokens, 1, PF_MAX_PROMPT_TOKENS));
    PF_TRY(check_method(at, (int32_t)wire->method));
    PF_TRY(check_range(at, "limits.max_draft", wire->limits->max_draft, 1, PF_MAX_DRAFT_TOKENS));
    PF_TRY(check_range(at, "limits.max_declared", wire->limits->max_declared, 0, PF_MAX_DECLARED));
    PF_TRY(check_range(at, "limits.max_tokens", wire->limits->max_tokens, 0, INT32_MAX));
    PF_TRY(check_tokens(at, "stop_tokens", wire->stop_tokens, wire->n_stop_tokens, 0, PF_MAX_STOP_TOKENS));
    PF_TRY(take_sampling(at, wire->sampling, &out->sampling));
    out->sequence = wire->sequence;
    out->incarnation = wire->incarnation;
    out->next_round = wire->next_round;
    out->tokens = wire->tokens;
    out->n_tokens = (int32_t)wire->n_tokens;
    out->method = (pf_method)wire->method;
    out->max_draft = wire->limits->max_draft;
    out->adaptive_draft = wire->limits->adaptive_draft;
    out->max_declared = wire->limits->max_declared;
    out->max_tokens = wire->limits->max_tokens;
    out->stop_tokens = wire->stop_tokens;
    out->n_stop_tokens = (int32_t)wire->n_stop_tokens;
    return PF_OK;
}

/* Whether ids [n] has one twice; n at most PF_MAX_DECLARED. */
static bool has_twice(const int32_t *ids, size_t n)
{
    int32_t seen[DECLARED_HASH];
    memset(seen, 0xff, sizeof seen); /* -1: no id */
    for (size_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)ids[i] * 2654435761u >> 16 & (DECLARED_HASH - 1);
        while (seen[at] >= 0 && seen[at] != ids[i]) at = (at + 1) & (DECLARED_HASH - 1);
        if (seen[at] == ids[i]) return true;
        seen[at] = ids[i];
    }
    return false;
}

static pf_status take_declared(const place *at, const wire_declared *wire, int32_t token, pf_declared *out)
{
    PF_TRY(check_tokens(at, "declared.ids", wire->ids, wire->n_ids, 1, PF_MAX_DECLARED));
    PF_TRY(check_count(at, "declared.probabilities", wire->n_probabilities, wire->n_ids, wire->n_ids));
    if (has_twice(wire->ids, wire->n_ids)) return refuse(at, PF_FORMAT, "declared.ids", "has an id twice");

    double sum = 0.0;
    bool holds_token = false;
    for (size_t i = 0; i < wire->n_ids; i++) {
        const float p = wire->probabilities[i];
        if (!(p > 0.0f && p <= 1.0f)) /* NaN fails both */
            return refuse(at, PF_FORMAT, "declared.probabilities", "has %g, expected above 0 to 1", (double)p);
        sum += (double)p;
        holds_token |= wire->ids[i] == token;
    }
    if (fabs(sum - 1.0) > 1e-3)
        return refuse(at, PF_FORMAT, "declared.probabilities", "sum to %.6f, expected 1 within 0.001", sum);
    if (!holds_token) return refuse(at, PF_FORMAT, "declared.ids", "lack %d, which was drawn from them", (int)token);
    *out = (pf_declared){ .ids = wire->ids, .probabilities = wire->probabilities, .n = (int32_t)wire->n_ids };
    return PF_OK;
}

static pf_status take_proposal(const place *at, pf_bump *bump, const wire_proposal *wire, pf_proposal *out)
{
    const size_t n = wire->n_tokens;
    PF_TRY(check_tokens(at, "tokens", wire->tokens, n, 0, PF_MAX_DRAFT_TOKENS));
    if (wire->n_parents) PF_TRY(check_count(at, "parents", wire->n_parents, n, n));
    if (wire->n_declared) PF_TRY(check_count(at, "declared", wire->n_declared, n, n));
    for (size_t i = 0; i < wire->n_parents; i++)
        PF_TRY(check_range(at, "parents", wire->parents[i], -1, (int64_t)i - 1));

    pf_declared *declared = NULL;
    if (wire->n_declared) {
        declared = pf_bump_take(bump, n * sizeof *declared);
        if (!declared) return refuse(at, PF_LIMIT, "declared", "takes more memory than a batch may");
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
    };
    return PF_OK;
}

static pf_status take_verdict(const place *at, const wire_verdict *wire, pf_verdict *out)
{
    PF_TRY(check_range(at, "finish", wire->finish, PF_FINISH_NONE, PF_FINISH_EOS));
    const size_t least = wire->finish == PILOTFISH__V1__FINISH__FINISH_NONE ? 1 : 0;
    PF_TRY(check_tokens(at, "tokens", wire->tokens, wire->n_tokens, least, PF_MAX_VERDICT_TOKENS));
    PF_TRY(check_range(at, "n_accepted", wire->n_accepted, 0, (int64_t)wire->n_tokens));
    *out = (pf_verdict){
        .sequence = wire->sequence,
        .incarnation = wire->incarnation,
        .round = wire->round,
        .base = wire->base_length,
        .tokens = wire->tokens,
        .n_tokens = (int32_t)wire->n_tokens,
        .n_accepted = wire->n_accepted,
        .finish = (pf_finish)wire->finish,
    };
    return PF_OK;
}

/* Text that a stranger wrote may reach a terminal: no control characters. The empty string is protobuf-c's constant. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

static pf_status status_of(Pilotfish__V1__Refusal__Reason reason)
{
    if (reason == PILOTFISH__V1__REFUSAL__REASON__LIMIT) return PF_LIMIT;
    if (reason == PILOTFISH__V1__REFUSAL__REASON__UNSUPPORTED) return PF_UNSUPPORTED;
    return PF_INVALID;
}

static pf_status take_refusal(const place *at, const wire_refusal *wire, pf_refusal *out)
{
    PF_TRY(check_count(at, "text", strlen(wire->text), 0, PF_MAX_REFUSAL_BYTES));
    make_printable(wire->text);
    *out = (pf_refusal){
        .sequence = wire->sequence,
        .incarnation = wire->incarnation,
        .status = status_of(wire->reason),
        .text = wire->text,
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
    const wire_batch *wire;
    pf_batch batch;
    bool in_parts; /* a part that does not fit is set aside; else it fails the batch */
    pf_refusal *misfits;
    int32_t n_misfits, n_misfit_proposals, n_misfit_verdicts;
    pf_error error; /* of what was checked last */
} taking;

/* What names the round that a part is about. One that has none is of no sequence: its sender is broken. */
static pf_status check_fences(const place *at, uint32_t incarnation, uint64_t round, uint64_t first_round, int64_t base)
{
    PF_TRY(check_range(at, "incarnation", incarnation, 1, UINT32_MAX));
    if (round < first_round) return refuse(at, PF_FORMAT, "round", "is 0, expected 1 or more");
    return check_range(at, "base_length", base, 0, INT32_MAX - PF_MAX_VERDICT_TOKENS);
}

/* The part does not fit, for the reason in t->error: its sequence alone is to pay for it. */
static pf_status set_aside(taking *t, pf_status status, uint64_t sequence, uint32_t incarnation)
{
    pf_bump *bump = &t->codec->in;
    if (!t->in_parts || bump->refused) return status;
    if (!t->misfits) t->misfits = pf_bump_take(bump, (size_t)3 * PF_MAX_BATCH_SEQUENCES * sizeof *t->misfits);
    char *text = pf_bump_take(bump, PF_MAX_REFUSAL_BYTES + 1);
    if (!t->misfits || !text)
        return pf_fail(&t->error, PF_LIMIT, "what does not fit takes more memory than a batch may");
    snprintf(text, PF_MAX_REFUSAL_BYTES + 1, "%s", t->error.text);
    t->misfits[t->n_misfits++] = (pf_refusal){
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
        const wire_open *o = t->wire->opens[i];
        const place at = { "opens", i, t->codec->n_vocab, &t->error };
        PF_TRY(check_fences(&at, o->incarnation, 0, 0, 0));
        const pf_status status = take_open(&at, o, &t->batch.opens[t->batch.n_opens]);
        if (status == PF_OK)
            t->batch.n_opens++;
        else
            PF_TRY(set_aside(t, status, o->sequence, o->incarnation));
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
        const wire_proposal *o = t->wire->proposals[i];
        const place at = { "proposals", i, t->codec->n_vocab, &t->error };
        PF_TRY(check_fences(&at, o->incarnation, o->round, 1, o->base_length));
        const pf_status status = take_proposal(&at, &t->codec->in, o, &t->batch.proposals[t->batch.n_proposals]);
        if (status == PF_OK) {
            t->batch.n_proposals++;
        } else {
            PF_TRY(set_aside(t, status, o->sequence, o->incarnation));
            t->n_misfit_proposals++;
        }
    }
    return PF_OK;
}

static pf_status take_verdicts(taking *t)
{
    void *p;
    PF_TRY(entries(&t->codec->in, &t->error, "verdicts", t->wire->n_verdicts, sizeof *t->batch.verdicts, &p));
    t->batch.verdicts = p;
    for (size_t i = 0; i < t->wire->n_verdicts; i++) {
        const wire_verdict *o = t->wire->verdicts[i];
        const place at = { "verdicts", i, t->codec->n_vocab, &t->error };
        PF_TRY(check_fences(&at, o->incarnation, o->round, 0, o->base_length));
        const pf_status status = take_verdict(&at, o, &t->batch.verdicts[t->batch.n_verdicts]);
        if (status == PF_OK) {
            t->batch.n_verdicts++;
        } else {
            PF_TRY(set_aside(t, status, o->sequence, o->incarnation));
            t->n_misfit_verdicts++;
        }
    }
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
        const wire_prefix_request *r = t->wire->prefix_requests[i];
        PF_TRY(check_range(&(place){ "prefix_requests", i, 0, &t->error }, "known", r->known, 0, INT32_MAX));
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
        PF_TRY(take_refusal(&(place){ "refusals", i, 0, &t->error }, t->wire->refusals[i], &t->batch.refusals[i]));
    return PF_OK;
}

static bool is_misfit(const taking *t, int32_t n, uint64_t sequence)
{
    for (int32_t i = 0; i < n; i++)
        if (t->misfits[i].sequence == sequence) return true;
    return false;
}

/* One refusal a sequence, and nothing else about it: a prefix request could only bring it back. */
static void drop_misfits(taking *t)
{
    pf_batch *b = &t->batch;
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_misfits; i++)
        if (!is_misfit(t, n, t->misfits[i].sequence)) t->misfits[n++] = t->misfits[i];
    t->n_misfits = n;

#define PF_KEEP(kind)                      \
    const int32_t n_##kind = b->n_##kind;  \
    b->n_##kind = 0;                       \
    for (int32_t i = 0; i < n_##kind; i++) \
        if (!is_misfit(t, n, b->kind[i].sequence)) b->kind[b->n_##kind++] = b->kind[i];
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
    if (t->n_misfits > 0) drop_misfits(t);
    if (t->wire->timing)
        t->batch.timing =
            (pf_timing){ .compute_ns = t->wire->timing->compute_ns, .queue_ns = t->wire->timing->queue_ns };
    return PF_OK;
}

static pf_status unpack(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const wire_batch **out, pf_error *error)
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

/* misfits NULL: whole or not at all. */
static pf_status decode(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                        const pf_misfits **misfits, pf_error *error)
{
    taking t = { .codec = codec, .in_parts = misfits != NULL };
    PF_TRY(unpack(codec, bytes, n_bytes, &t.wire, error));
    const pf_status status = take_batch(&t);
    if (status != PF_OK) {
        if (error) *error = t.error;
        return status;
    }
    codec->batch = t.batch;
    *out = &codec->batch;
    if (!misfits) return PF_OK;
    codec->misfits = (pf_misfits){ t.misfits, t.n_misfits, t.n_misfit_proposals, t.n_misfit_verdicts };
    *misfits = &codec->misfits;
    return PF_OK;
}

pf_status pf_codec_decode_batch(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                                pf_error *error)
{
    return decode(codec, bytes, n_bytes, out, NULL, error);
}

pf_status pf_codec_decode_parts(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                                const pf_misfits **misfits, pf_error *error)
{
    return decode(codec, bytes, n_bytes, out, misfits, error);
}

/* ---- model info ------------------------------------------------------------------------------------------------ */

enum { INFO_ARENA_BYTES = 16 * 1024 };

pf_status pf_codec_encode_info(const pf_model_info *info, uint8_t *out, size_t capacity, size_t *n_bytes)
{
    static const uint8_t none[sizeof info->vocab_fingerprint];
    Pilotfish__V1__Method methods[32];
    wire_limits limits = PILOTFISH__V1__LIMITS__INIT;
    limits.max_draft = info->max_draft;
    limits.max_declared = info->max_declared;

    Pilotfish__V1__ModelInfo wire = PILOTFISH__V1__MODEL_INFO__INIT;
    wire.protocol_version = info->protocol_version;
    if (strnlen(info->model_id, sizeof info->model_id) == sizeof info->model_id) return PF_INVALID;
    wire.model_id = unconst(info->model_id);
    wire.vocab_size = info->vocab_size;
    if (memcmp(info->vocab_fingerprint, none, sizeof none) != 0) {
        wire.vocab_fingerprint.data = unconst(info->vocab_fingerprint);
        wire.vocab_fingerprint.len = sizeof info->vocab_fingerprint;
    }
    wire.max_context = info->max_context;
    wire.max_sequences = info->max_sequences;
    wire.limits = &limits;
    wire.methods = methods;
    for (uint32_t m = 0; m < 32; m++)
        if (info->methods & 1u << m) methods[wire.n_methods++] = (Pilotfish__V1__Method)m;

    if (pilotfish__v1__model_info__get_packed_size(&wire) > capacity) return PF_LIMIT;
    *n_bytes = pilotfish__v1__model_info__pack(&wire, out);
    return PF_OK;
}

static pf_status take_info(const Pilotfish__V1__ModelInfo *wire, pf_model_info *out, pf_error *error)
{
    if (wire->protocol_version != PF_PROTOCOL_VERSION)
        return pf_fail(error, PF_UNSUPPORTED, "the peer speaks version %u of the protocol, this is version %d",
                       wire->protocol_version, PF_PROTOCOL_VERSION);
    const place at = { "model_info", 0, 0, error };
    if (!wire->limits) return refuse(&at, PF_FORMAT, "limits", "is missing");
    pf_model_info info = { .protocol_version = wire->protocol_version };
    PF_TRY(check_count(&at, "model_id", strlen(wire->model_id), 0, sizeof info.model_id - 1));
    PF_TRY(check_range(&at, "vocab_size", wire->vocab_size, 1, INT32_MAX));
    PF_TRY(check_range(&at, "max_context", wire->max_context, 1, INT32_MAX));
    PF_TRY(check_range(&at, "max_sequences", wire->max_sequences, 1, INT32_MAX));
    PF_TRY(check_range(&at, "limits.max_draft", wire->limits->max_draft, 0, PF_MAX_DRAFT_TOKENS));
    PF_TRY(check_range(&at, "limits.max_declared", wire->limits->max_declared, 0, PF_MAX_DECLARED));
    const size_t n_fingerprint = wire->vocab_fingerprint.len;
    if (n_fingerprint != 0 && n_fingerprint != sizeof info.vocab_fingerprint)
        return refuse(&at, PF_FORMAT, "vocab_fingerprint", "has %zu bytes, expected 0 or 32", n_fingerprint);

    strcpy(info.model_id, wire->model_id);
    make_printable(info.model_id);
    if (n_fingerprint) memcpy(info.vocab_fingerprint, wire->vocab_fingerprint.data, n_fingerprint);
    info.vocab_size = wire->vocab_size;
    info.max_context = wire->max_context;
    info.max_sequences = wire->max_sequences;
    info.max_draft = wire->limits->max_draft;
    info.max_declared = wire->limits->max_declared;
    for (size_t i = 0; i < wire->n_methods; i++) { /* a newer peer may speak methods that have no bit here */
        const uint32_t method = (uint32_t)wire->methods[i];
        if (method > 0 && method < 32) info.methods |= 1u << method;
    }
    *out = info;
    return PF_OK;
}

pf_status pf_codec_decode_info(const uint8_t *bytes, size_t n_bytes, pf_model_info *out, pf_error *error)
{
    if (n_bytes > PF_MAX_INFO_BYTES)
        return pf_fail(error, PF_LIMIT, "a model info of %zu bytes, at most %d are taken", n_bytes, PF_MAX_INFO_BYTES);
    max_align_t memory[INFO_ARENA_BYTES / sizeof(max_align_t)];
    pf_bump bump = { .bytes = (uint8_t *)memory, .size = sizeof memory };
    ProtobufCAllocator allocator = pf_bump_allocator(&bump);
    const Pilotfish__V1__ModelInfo *wire = pilotfish__v1__model_info__unpack(&allocator, n_bytes, bytes);
    if (!wire) return pf_fail(error, PF_FORMAT, "%zu bytes that are not a pilotfish.v1.ModelInfo", n_bytes);
    return take_info(wire, out, error);
}

pf_status pf_codec_encode_info_request(uint8_t *out, size_t capacity, size_t *n_bytes)
{
    Pilotfish__V1__GetModelInfoRequest wire = PILOTFISH__V1__GET_MODEL_INFO_REQUEST__INIT;
    wire.protocol_version = PF_PROTOCOL_VERSION;
    if (pilotfish__v1__get_model_info_request__get_packed_size(&wire) > capacity) return PF_LIMIT;
    *n_bytes = pilotfish__v1__get_model_info_request__pack(&wire, out);
    return PF_OK;
}

pf_status pf_codec_decode_info_request(const uint8_t *bytes, size_t n_bytes, uint32_t *protocol_version,
                                       pf_error *error)
{
    if (n_bytes > PF_MAX_INFO_BYTES)
        return pf_fail(error, PF_LIMIT, "a request of %zu bytes, at most %d are taken", n_bytes, PF_MAX_INFO_BYTES);
    max_align_t memory[INFO_ARENA_BYTES / sizeof(max_align_t)];
    pf_bump bump = { .bytes = (uint8_t *)memory, .size = sizeof memory };
    ProtobufCAllocator allocator = pf_bump_allocator(&bump);
    const Pilotfish__V1__GetModelInfoRequest *wire =
        pilotfish__v1__get_model_info_request__unpack(&allocator, n_bytes, bytes);
    if (!wire) return pf_fail(error, PF_FORMAT, "%zu bytes that are not a GetModelInfoRequest", n_bytes);
    *protocol_version = wire->protocol_version;
    return PF_OK;
}
