#include "sim/synthetic.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"

enum { N_VOCAB = PF_SYNTHETIC_VOCAB };
static const float STANDS_OUT = 6.0f; /* nats above the largest noise: of temperature 1 most of the mass */
static const float SECOND = 3.0f;     /* likewise of a second choice */

typedef struct {
    bool is_used;
    int32_t length;
    uint64_t *hashes; /* [max_tokens] of the tokens up to each position */
} sequence;

struct pf_synthetic {
    pf_synthetic_config config;
    pf_kernels kernels;
    sequence *sequences; /* [max_sequences + max_forks] */
    uint64_t *hashes;    /* [max_sequences + max_forks, max_tokens] */
    uint64_t *rows;      /* [max_rows] hashes of the span in hand */
    float *logits;       /* [max_logit_rows, N_VOCAB] */
    pf_stop *stop;
    pf_synthetic_counts counts;
};

static int32_t n_places(const pf_synthetic *s)
{
    return s->config.max_sequences + s->config.max_forks;
}

static bool is_sequence(const pf_synthetic *s, int64_t id)
{
    return id >= 0 && id < n_places(s) && s->sequences[id].is_used;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

static pf_status acquire(void *state, int64_t *out)
{
    pf_synthetic *s = state;
    for (int32_t i = 0; i < n_places(s); i++)
        if (!s->sequences[i].is_used) {
            s->sequences[i].is_used = true;
            s->sequences[i].length = 0;
            s->counts.n_sequences++;
            *out = i;
            return PF_OK;
        }
    return PF_LIMIT;
}

static bool has_room(const pf_synthetic *s, int32_t n)
{
    return s->config.max_held == 0 || s->counts.n_held + n <= s->config.max_held;
}

static pf_status fork_sequence(void *state, int64_t from, int32_t length, int64_t *out)
{
    pf_synthetic *s = state;
    if (!is_sequence(s, from) || length < 0 || length > s->sequences[from].length) return PF_INVALID;
    if (!has_room(s, length)) return PF_LIMIT;
    PF_TRY(acquire(state, out));
    memcpy(s->sequences[*out].hashes, s->sequences[from].hashes, (size_t)length * sizeof(uint64_t));
    s->sequences[*out].length = length;
    s->counts.n_held += length;
    return PF_OK;
}

static void release(void *state, int64_t id)
{
    pf_synthetic *s = state;
    if (!is_sequence(s, id)) return;
    s->counts.n_held -= s->sequences[id].length;
    s->counts.n_sequences--;
    s->sequences[id].is_used = false;
}

static int32_t length_of(const void *state, int64_t id)
{
    const pf_synthetic *s = state;
    return is_sequence(s, id) ? s->sequences[id].length : 0;
}

static int32_t reachable(const void *state, int64_t id, int32_t wanted)
{
    return pf_min(wanted, length_of(state, id));
}

static pf_status truncate_sequence(void *state, int64_t id, int32_t length)
{
    pf_synthetic *s = state;
    if (!is_sequence(s, id) || length < 0 || length > s->sequences[id].length) return PF_INVALID;
    s->counts.n_held -= s->sequences[id].length - length;
    s->sequences[id].length = length;
    return PF_OK;
}

static pf_status keep(void *state, int64_t id, int32_t length, const int32_t *rows, int32_t n_rows)
{
    pf_synthetic *s = state;
    if (!is_sequence(s, id) || length < 0 || length > s->sequences[id].length) return PF_INVALID;
    sequence *q = &s->sequences[id];
    for (int32_t i = 0; i < n_rows; i++)
        if (rows[i] < (i > 0 ? rows[i - 1] + 1 : 0) || rows[i] >= q->length - length) return PF_INVALID;
    for (int32_t i = 0; i < n_rows; i++) q->hashes[length + i] = q->hashes[length + rows[i]];
    return truncate_sequence(state, id, length + n_rows);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

/* The what-th uniform number behind these tokens. */
static double uniform(const pf_synthetic *s, uint64_t hash, uint64_t what)
{
    return (double)(pf_hash_pair(s->config.seed, hash, what) >> 11) * 0x1p-53;
}

/* Makes tokens stand out behind these tokens. */
static void raise_choices(const pf_synthetic *s, uint64_t hash, float *logits)
{
    const int32_t target = (int32_t)(pf_hash_pair(s->config.seed, hash, 1) % N_VOCAB);
    if (!s->config.is_draft || uniform(s, hash, 2) < s->config.acceptance) {
        logits[target] += STANDS_OUT;
        return;
    }
    const int32_t other = 1 + (int32_t)(pf_hash_pair(s->config.seed, hash, 3) % (N_VOCAB - 1));
    logits[(target + other) % N_VOCAB] += STANDS_OUT;
    if (uniform(s, hash, 4) < s->config.second) logits[target] += SECOND;
}

static void compute_row(const pf_synthetic *s, uint64_t hash, float *logits)
{
    for (int32_t v = 0; v < N_VOCAB; v++)
        logits[v] = (float)(pf_hash_pair(s->config.seed, hash, 16 + (uint64_t)v) >> 40) * 0x1p-24f;
    raise_choices(s, hash, logits);
}

static pf_status check_spans(const pf_synthetic *s, const pf_span *spans, int32_t n)
{
    int32_t n_rows = 0, n_logits = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!is_sequence(s, spans[i].sequence) || spans[i].n_tokens < 1 || spans[i].n_logits > spans[i].n_tokens ||
            spans[i].n_tokens > s->config.max_tokens - length_of(s, spans[i].sequence))
            return PF_INVALID;
        n_rows += spans[i].n_tokens;
        n_logits += spans[i].n_logits;
        if (n_rows > s->config.max_rows || n_logits > s->config.max_logit_rows) return PF_INVALID;
    }
    return has_room(s, n_rows) ? PF_OK : PF_LIMIT;
}

/* Appends a span, and writes its logits from row *n_logits on. */
static void run_span(pf_synthetic *s, const pf_span *span, int32_t *n_logits)
{
    sequence *q = &s->sequences[span->sequence];
    const uint64_t root = q->length > 0 ? q->hashes[q->length - 1] : s->config.seed;
    for (int32_t i = 0; i < span->n_tokens; i++) {
        const int32_t parent = span->parents ? span->parents[i] : i - 1;
        s->rows[i] = pf_hash_pair(s->config.seed, parent < 0 ? root : s->rows[parent], (uint64_t)span->tokens[i]);
        if (i < span->n_tokens - span->n_logits) continue;
        compute_row(s, s->rows[i], s->logits + (ptrdiff_t)(*n_logits)++ * N_VOCAB);
    }
    memcpy(q->hashes + q->length, s->rows, (size_t)span->n_tokens * sizeof *s->rows);
    q->length += span->n_tokens;
    s->counts.n_held += span->n_tokens;
}

static pf_status run(void *state, const pf_span *spans, int32_t n)
{
    pf_synthetic *s = state;
    if (s->stop && pf_stop_is_due(s->stop)) return PF_CANCELLED;
    PF_TRY(check_spans(s, spans, n));
    int32_t n_logits = 0;
    for (int32_t i = 0; i < n; i++) run_span(s, &spans[i], &n_logits);
    return PF_OK;
}

static float *row_of(void *state, int32_t row)
{
    return ((pf_synthetic *)state)->logits + (ptrdiff_t)row * N_VOCAB;
}

static int32_t best(const void *state, int32_t row, int32_t best_of)
{
    const float *logits = ((const pf_synthetic *)state)->logits + (ptrdiff_t)row * N_VOCAB;
    int32_t first = 0;
    for (int32_t v = 1; v < pf_min(best_of, N_VOCAB); v++)
        if (logits[v] > logits[first]) first = v;
    return first;
}

static int32_t find_invalid(const void *state, int32_t row, int32_t n)
{
    (void)state;
    (void)row;
    (void)n;
    return -1;
}

static void share(void *state, pf_team_fn *fn, void *arg)
{
    (void)state;
    fn((pf_member){ .n_threads = 1 }, arg);
}

static void set_stop(void *state, pf_stop *stop)
{
    ((pf_synthetic *)state)->stop = stop;
}

static const pf_forward_ops ops = {
    .acquire = acquire,
    .fork = fork_sequence,
    .release = release,
    .length = length_of,
    .reachable = reachable,
    .truncate = truncate_sequence,
    .keep = keep,
    .run = run,
    .logits = row_of,
    .best = best,
    .find_invalid = find_invalid,
    .share = share,
    .set_stop = set_stop,
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static pf_status make_memory(pf_synthetic *s)
{
    const size_t n_sequences = (size_t)n_places(s), n_tokens = (size_t)s->config.max_tokens;
    s->sequences = calloc(n_sequences, sizeof *s->sequences);
    s->hashes = calloc(n_sequences, n_tokens * sizeof *s->hashes);
    s->rows = calloc((size_t)s->config.max_rows, sizeof *s->rows);
    s->logits = calloc((size_t)s->config.max_logit_rows, N_VOCAB * sizeof *s->logits);
    if (!s->sequences || !s->hashes || !s->rows || !s->logits) return PF_NOMEM;
    for (size_t i = 0; i < n_sequences; i++) s->sequences[i].hashes = s->hashes + i * n_tokens;
    return PF_OK;
}

pf_status pf_synthetic_create(const pf_synthetic_config *config, pf_synthetic **out, pf_error *error)
{
    if (config->max_tokens < 1 || config->max_sequences < 1 || config->max_rows < 1 || config->max_logit_rows < 1 ||
        config->max_forks < 0 || !(config->acceptance >= 0.0 && config->acceptance <= 1.0) ||
        !(config->second >= 0.0 && config->second <= 1.0))
        return pf_fail(
            error, PF_INVALID,
            "a synthetic model of %d tokens, %d sequences, %d forks, %d rows and %d with logits, acceptance %g, second "
            "choices %g: expected limits of at least 1, or 0 forks, and 0 to 1",
            config->max_tokens, config->max_sequences, config->max_forks, config->max_rows, config->max_logit_rows,
            config->acceptance, config->second);
    pf_synthetic *s = calloc(1, sizeof *s);
    if (!s) return pf_fail(error, PF_NOMEM, "no memory for a synthetic model");
    s->config = *config;
    pf_status status = make_memory(s);
    if (status != PF_OK) (void)pf_fail(error, status, "no memory for a synthetic model");
    if (status == PF_OK) status = pf_kernels_select(PF_ISA_SCALAR, &s->kernels, error);
    if (status != PF_OK) {
        pf_synthetic_destroy(s);
        return status;
    }
    *out = s;
    return PF_OK;
}

void pf_synthetic_destroy(pf_synthetic *s)
{
    if (!s) return;
    free(s->logits);
    free(s->rows);
    free(s->hashes);
    free(s->sequences);
    free(s);
}

pf_forward_backend pf_synthetic_backend(pf_synthetic *s)
{
    return (pf_forward_backend){ .ops = &ops,
                                 .state = s,
                                 .limits = { .max_tokens = s->config.max_tokens,
                                             .max_sequences = s->config.max_sequences,
                                             .max_rows = s->config.max_rows,
                                             .max_logit_rows = s->config.max_logit_rows,
                                             .max_forks = s->config.max_forks,
                                             .n_vocab = N_VOCAB,
                                             .n_threads = 1 },
                                 .kernels = &s->kernels };
}

pf_synthetic_counts pf_synthetic_count(const pf_synthetic *s)
{
    return s->counts;
}
