#include "model/backend/mapped_backend.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"

enum { MAX_LOGIT_ROWS = 64 /* of a run */ };

/* A sequence of the model, and where the pieces of each target's token end. */
typedef struct {
    bool is_used;
    int64_t inner;
    int32_t n;     /* tokens of the target */
    int32_t *ends; /* [max_tokens] */
} sequence;

/* A pass of the model, as it is filled. */
typedef struct {
    int32_t n_spans, n_pieces, n_logits;
    int32_t first_row, n_rows;      /* of the run: whose logits come out of this pass */
    int32_t row_of[MAX_LOGIT_ROWS]; /* [n_rows] the row of the pass that has them */
} inner_pass;

struct pf_mapped_backend {
    pf_forward_backend inner;
    pf_forward_limits limits; /* in tokens of the target */
    const pf_token_map *map;
    sequence *sequences; /* [n_sequences] by handle */
    int32_t n_sequences;
    int32_t *ends;   /* [n_sequences, max_tokens] */
    int32_t *pieces; /* [inner max_rows] of a pass */
    pf_span *spans;  /* [n_sequences] */
    inner_pass pass; /* of pieces and spans */
    float *logits;   /* [max_logit_rows, n_target] */
};

static sequence *at(const void *state, int64_t handle)
{
    return &((const pf_mapped_backend *)state)->sequences[handle];
}

/* Pieces of the first n tokens. */
static int32_t end_of(const sequence *s, int32_t n)
{
    return n > 0 ? s->ends[n - 1] : 0;
}

/* The pieces of a token, or of the mask. */
static int32_t find_pieces(const pf_token_map *map, int32_t token, const int32_t **pieces)
{
    const int32_t begin = token > 0 ? map->ends[token - 1] : 0;
    if (token == map->n_target) {
        *pieces = &map->mask;
        return 1;
    }
    *pieces = map->pieces + begin;
    return map->ends[token] - begin;
}

/* ---- sequences ----------------------------------------------------------------------------------------------------- */

static sequence *find_free(pf_mapped_backend *m, int64_t *handle)
{
    for (int32_t i = 0; i < m->n_sequences; i++)
        if (!m->sequences[i].is_used) {
            *handle = i;
            return &m->sequences[i];
        }
    return NULL;
}

static pf_status acquire(void *state, int64_t *out)
{
    pf_mapped_backend *m = state;
    int64_t handle;
    sequence *s = find_free(m, &handle);
    if (!s) return PF_LIMIT;
    PF_TRY(pf_forward_acquire(&m->inner, &s->inner));
    s->is_used = true;
    s->n = 0;
    *out = handle;
    return PF_OK;
}

static pf_status fork_sequence(void *state, int64_t of, int32_t length, int64_t *out)
{
    pf_mapped_backend *m = state;
    const sequence *from = at(m, of);
    int64_t handle;
    sequence *s = find_free(m, &handle);
    if (!s) return PF_LIMIT;
    if (length < 0 || length > from->n) return PF_INVALID;
    PF_TRY(pf_forward_fork(&m->inner, from->inner, end_of(from, length), &s->inner));
    s->is_used = true;
    s->n = length;
    for (int32_t i = 0; i < length; i++) s->ends[i] = from->ends[i];
    *out = handle;
    return PF_OK;
}

static void release(void *state, int64_t handle)
{
    sequence *s = at(state, handle);
    pf_forward_release(&((pf_mapped_backend *)state)->inner, s->inner);
    s->is_used = false;
}

static int32_t length(const void *state, int64_t handle)
{
    return at(state, handle)->n;
}

/* The model may not reach the end of a token's pieces: then an earlier token, until it reaches one. */
static int32_t reachable(const void *state, int64_t handle, int32_t wanted)
{
    const pf_mapped_backend *m = state;
    const sequence *s = at(state, handle);
    int32_t n = pf_min(wanted, s->n);
    while (n > 0) {
        const int32_t reached = pf_forward_reachable(&m->inner, s->inner, end_of(s, n));
        if (reached == end_of(s, n)) break;
        do n--;
        while (n > 0 && end_of(s, n) > reached);
    }
    return n;
}

static pf_status truncate_sequence(void *state, int64_t handle, int32_t n)
{
    sequence *s = at(state, handle);
    if (n < 0 || n > s->n) return PF_INVALID;
    PF_TRY(pf_forward_truncate(&((pf_mapped_backend *)state)->inner, s->inner, end_of(s, n)));
    s->n = n;
    return PF_OK;
}

/* A chain is kept from its begin on: trees are not fed. */
static pf_status keep(void *state, int64_t handle, int32_t n, const int32_t *rows, int32_t n_rows)
{
    for (int32_t i = 0; i < n_rows; i++)
        if (rows[i] != i) return PF_INVALID;
    return n < 0 || n_rows > at(state, handle)->n - n ? PF_INVALID : truncate_sequence(state, handle, n + n_rows);
}

/* ---- passes -------------------------------------------------------------------------------------------------------- */

/* Sets where the tokens of a span end. PF_INVALID: it is malformed, or too long. */
static pf_status check_span(pf_mapped_backend *m, const pf_span *span)
{
    const pf_token_map *map = m->map;
    sequence *s = at(m, span->sequence);
    if (span->parents || span->best_of > 0 || span->n_tokens < 1 || span->n_logits > span->n_tokens ||
        span->n_tokens > m->limits.max_tokens - s->n)
        return PF_INVALID;
    for (int32_t i = 0; i < span->n_tokens; i++) {
        const int32_t token = span->tokens[i];
        if (token < 0 || token >= map->n_target + map->has_mask) return PF_INVALID;
        const int32_t *pieces;
        s->ends[s->n + i] = end_of(s, s->n + i) + find_pieces(map, token, &pieces);
        if (s->ends[s->n + i] > m->inner.limits.max_tokens) return PF_INVALID;
    }
    return PF_OK;
}

static void copy_logits(pf_mapped_backend *m, int32_t inner_row, int32_t row)
{
    const float *from = pf_forward_logits(&m->inner, inner_row);
    float *to = m->logits + (size_t)row * (size_t)m->map->n_target;
    for (int32_t id = 0; id < m->map->n_target; id++) {
        const int32_t draft_id = m->map->draft_of[id];
        to[id] = draft_id >= 0 ? from[draft_id] : -INFINITY;
    }
}

/* Runs the pass, takes its logits, and begins another. */
static pf_status end_pass(pf_mapped_backend *m)
{
    inner_pass *p = &m->pass;
    PF_TRY(pf_forward_run(&m->inner, m->spans, p->n_spans));
    for (int32_t i = 0; i < p->n_rows; i++) copy_logits(m, p->row_of[i], p->first_row + i);
    *p = (inner_pass){ .first_row = p->first_row + p->n_rows };
    return PF_OK;
}

/* Adds the pieces of a token to the pass, or to the next where there is no room. The logits of a span's rows are its last ones: so a
 * token behind one that asks has those of all its pieces. */
static pf_status add_token(pf_mapped_backend *m, int64_t inner_sequence, int32_t token, bool is_first, bool asks)
{
    inner_pass *p = &m->pass;
    const int32_t *pieces, n = find_pieces(m->map, token, &pieces);
    pf_span *part = is_first ? NULL : &m->spans[p->n_spans - 1];
    int32_t n_logits = !asks ? 0 : part && part->n_logits > 0 ? n : 1;
    if (n > m->inner.limits.max_rows - p->n_pieces || n_logits > m->inner.limits.max_logit_rows - p->n_logits) {
        PF_TRY(end_pass(m));
        part = NULL;
        n_logits = asks;
    }
    if (!part) {
        part = &m->spans[p->n_spans++];
        *part = (pf_span){ .sequence = inner_sequence, .tokens = m->pieces + p->n_pieces };
    }
    for (int32_t i = 0; i < n; i++) m->pieces[p->n_pieces++] = pieces[i];
    part->n_tokens += n;
    part->n_logits += n_logits;
    p->n_logits += n_logits;
    if (asks) p->row_of[p->n_rows++] = p->n_logits - 1;
    return PF_OK;
}

static pf_status run_passes(pf_mapped_backend *m, const pf_span *spans, int32_t n_spans)
{
    m->pass = (inner_pass){ .n_spans = 0 };
    for (int32_t i = 0; i < n_spans; i++)
        for (int32_t j = 0; j < spans[i].n_tokens; j++)
            PF_TRY(add_token(m, at(m, spans[i].sequence)->inner, spans[i].tokens[j], j == 0,
                             j >= spans[i].n_tokens - spans[i].n_logits));
    return end_pass(m);
}

/* After a failure: what earlier passes have fed is taken back, to an earlier token where layers keep a state. */
static void restore(pf_mapped_backend *m, int64_t handle)
{
    sequence *s = at(m, handle);
    s->n = reachable(m, handle, s->n);
    const pf_status status = pf_forward_truncate(&m->inner, s->inner, end_of(s, s->n));
    (void)status; /* it is reachable */
}

static pf_status run(void *state, const pf_span *spans, int32_t n_spans)
{
    pf_mapped_backend *m = state;
    int32_t n_logits = 0;
    if (n_spans < 1 || n_spans > m->n_sequences) return PF_INVALID;
    for (int32_t i = 0; i < n_spans; i++) {
        PF_TRY(check_span(m, &spans[i]));
        n_logits += spans[i].n_logits;
    }
    if (n_logits > m->limits.max_logit_rows) return PF_INVALID;
    const pf_status status = run_passes(m, spans, n_spans);
    for (int32_t i = 0; i < n_spans; i++)
        if (status == PF_OK)
            at(m, spans[i].sequence)->n += spans[i].n_tokens;
        else
            restore(m, spans[i].sequence);
    return status;
}

static float *logits(void *state, int32_t row)
{
    pf_mapped_backend *m = state;
    return m->logits + (size_t)row * (size_t)m->map->n_target;
}

static int32_t best(const void *state, int32_t row, int32_t best_of)
{
    const pf_mapped_backend *m = state;
    return m->inner.kernels->argmax(m->logits + (size_t)row * (size_t)m->map->n_target, best_of);
}

static int32_t find_invalid(const void *state, int32_t row, int32_t n)
{
    const pf_mapped_backend *m = state;
    const float *of = m->logits + (size_t)row * (size_t)m->map->n_target;
    for (int32_t id = 0; id < n; id++)
        if (isnan(of[id]) || (isinf(of[id]) && of[id] > 0.0f)) return id;
    return -1;
}

static const char *refusal(const void *state)
{
    return pf_forward_refusal(&((const pf_mapped_backend *)state)->inner);
}

static void share(void *state, pf_team_fn *fn, void *arg)
{
    pf_forward_share(&((pf_mapped_backend *)state)->inner, fn, arg);
}

static void set_stop(void *state, pf_stop *stop)
{
    pf_forward_set_stop(&((pf_mapped_backend *)state)->inner, stop);
}

static void count_pages(const void *state, int64_t *n_pages, int64_t *n_used)
{
    const pf_forward_backend *inner = &((const pf_mapped_backend *)state)->inner;
    *n_pages = *n_used = 0;
    if (inner->ops->pages) inner->ops->pages(inner->state, n_pages, n_used);
}

static const pf_forward_ops ops = {
    .acquire = acquire,
    .fork = fork_sequence,
    .release = release,
    .length = length,
    .reachable = reachable,
    .truncate = truncate_sequence,
    .keep = keep,
    .run = run,
    .logits = logits,
    .best = best,
    .find_invalid = find_invalid,
    .refusal = refusal,
    .share = share,
    .set_stop = set_stop,
    .pages = count_pages,
};

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static pf_status allocate(pf_mapped_backend *m)
{
    const size_t n = (size_t)m->n_sequences, n_tokens = (size_t)m->limits.max_tokens;
    m->sequences = calloc(n, sizeof *m->sequences);
    m->ends = calloc(n * n_tokens, sizeof *m->ends);
    m->pieces = calloc((size_t)m->inner.limits.max_rows, sizeof *m->pieces);
    m->spans = calloc(n, sizeof *m->spans);
    m->logits = calloc((size_t)m->limits.max_logit_rows * (size_t)m->map->n_target, sizeof *m->logits);
    if (!m->sequences || !m->ends || !m->pieces || !m->spans || !m->logits) return PF_NOMEM;
    for (size_t i = 0; i < n; i++) m->sequences[i].ends = m->ends + i * n_tokens;
    return PF_OK;
}

pf_status pf_mapped_backend_create(const pf_forward_backend *inner, const pf_token_map *map, pf_mapped_backend **out,
                                   pf_error *error)
{
    pf_forward_limits limits = inner->limits;
    limits.n_vocab = map->n_target;
    limits.takes_mask = map->has_mask;
    limits.max_logit_rows = pf_min(MAX_LOGIT_ROWS, limits.max_logit_rows);
    if (limits.max_rows < map->longest)
        return pf_fail(error, PF_INVALID, "a token of the target is %d of the draft, whose passes have %d rows",
                       map->longest, limits.max_rows);
    pf_mapped_backend *m = calloc(1, sizeof *m);
    if (!m) return pf_fail(error, PF_NOMEM, "no memory for a map of vocabularies");
    *m = (pf_mapped_backend){
        .inner = *inner, .limits = limits, .map = map, .n_sequences = limits.max_sequences + limits.max_forks
    };
    if (allocate(m) != PF_OK) {
        pf_mapped_backend_destroy(m);
        return pf_fail(error, PF_NOMEM, "no memory for sequences of two vocabularies");
    }
    *out = m;
    return PF_OK;
}

void pf_mapped_backend_destroy(pf_mapped_backend *m)
{
    if (!m) return;
    free(m->logits);
    free(m->spans);
    free(m->pieces);
    free(m->ends);
    free(m->sequences);
    free(m);
}

pf_forward_backend pf_mapped_backend_as_backend(pf_mapped_backend *m)
{
    return (pf_forward_backend){ .ops = &ops, .state = m, .limits = m->limits, .kernels = m->inner.kernels };
}
