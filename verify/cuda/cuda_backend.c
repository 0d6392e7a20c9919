/*
 * The forward backend: sequences are pages of the device's cache, a pass is rows in pinned memory and one launch.
 *
 * A pass is queued and not waited for: the call that reads a result waits. The host's tables are those after the last
 * pass that was queued; the device comes to them in the order of the stream.
 *
 * If queuing fails, what was queued is waited for and the sequences are cut back. If waiting fails, the device is lost: no pass
 * runs from then on.
 */
#include "verify/cuda/cuda_backend.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "verify/cuda/cuda_device.h"
#include "verify/cuda/cuda_draws.h"
#include "verify/cuda/cuda_pass.h"
#include "verify/cuda/page_tables.h"

struct pf_cuda_backend {
    pf_checkpoint checkpoint; /* read while it is opened; then its config */
    pf_cuda_options options;  /* resolved */
    pf_kernels kernels;
    cudaStream_t stream;
    pf_cuda_weights weights;
    pf_cuda_pass pass;
    pf_cuda_draws draws;
    pf_page_tables *pages;
    int32_t *tables; /* those of the device, once it has run all that is queued */
    void *device_moves;
    pf_cuda_stage stages[PF_CUDA_STAGES];
    pf_cuda_stage *stage; /* of the last pass */
    int32_t n_logit_rows; /* of the last pass */
    bool is_running;      /* the last pass has not been waited for */
    bool has_logits;      /* they are on the host: on request */
    bool is_lost;
    pf_stop *stop;
    pf_error refusal;
};

/* ---- moves ------------------------------------------------------------------------------------------------------ */

static pf_status wait_for_device(pf_cuda_backend *b)
{
    const cudaError_t waited = cudaStreamSynchronize(b->stream);
    b->is_running = false;
    if (waited == cudaSuccess) return PF_OK;
    b->is_lost = true;
    return pf_cuda_fail(&b->refusal, waited, "a pass");
}

/* The stage that the last pass did not use. Its own copies may be queued still. */
static pf_cuda_stage *next_stage(pf_cuda_backend *b)
{
    return b->stage == &b->stages[0] ? &b->stages[1] : &b->stages[0];
}

static pf_status wait_for_stage(pf_cuda_backend *b, const pf_cuda_stage *stage)
{
    const cudaError_t waited = cudaEventSynchronize(stage->sent);
    if (waited == cudaSuccess) return PF_OK;
    b->is_lost = true;
    return pf_cuda_fail(&b->refusal, waited, "a pass");
}

/* The moves that are due. Once they are queued they must not be queued again. */
static cudaError_t queue_moves(pf_cuda_backend *b, const pf_cuda_stage *stage)
{
    int32_t n;
    const int32_t *moves = pf_page_tables_moves(b->pages, &n);
    const pf_cuda_cache cache = pf_cuda_pass_cache(&b->pass, 0);
    if (n == 0) return cudaSuccess;
    const size_t n_bytes = (size_t)n * 2 * sizeof *moves;
    memcpy(stage->moves, moves, n_bytes);
    cudaError_t status = cudaMemcpyAsync(b->device_moves, stage->moves, n_bytes, cudaMemcpyHostToDevice, b->stream);
    if (status == cudaSuccess)
        status = pf_cuda_launch_move(&cache, pf_cuda_pass_layer_elements(&b->pass), b->checkpoint.config.n_layers,
                                     b->device_moves, n, b->stream);
    if (status == cudaSuccess) pf_page_tables_clear_moves(b->pages);
    return status;
}

/* Before a call that adds moves. */
static pf_status make_room(pf_cuda_backend *b)
{
    if (pf_page_tables_has_room(b->pages)) return PF_OK;
    pf_cuda_stage *stage = next_stage(b);
    PF_TRY(wait_for_stage(b, stage));
    const cudaError_t queued = queue_moves(b, stage);
    PF_TRY(wait_for_device(b));
    return queued == cudaSuccess ? PF_OK : pf_cuda_fail(&b->refusal, queued, "the moves of the cache");
}

/* ---- sequences -------------------------------------------------------------------------------------------------- */

static pf_status acquire(void *state, int64_t *out)
{
    return pf_page_tables_acquire(((pf_cuda_backend *)state)->pages, out);
}

static pf_status fork_sequence(void *state, int64_t sequence, int32_t length, int64_t *out)
{
    return pf_page_tables_fork(((pf_cuda_backend *)state)->pages, sequence, length, out);
}

static void release(void *state, int64_t sequence)
{
    pf_page_tables_release(((pf_cuda_backend *)state)->pages, sequence);
}

static int32_t length_of(const void *state, int64_t sequence)
{
    return pf_page_tables_length(((const pf_cuda_backend *)state)->pages, sequence);
}

static int32_t reachable(const void *state, int64_t sequence, int32_t wanted)
{
    return length_of(state, sequence) < 0 ? -1 : wanted;
}

static pf_status truncate_sequence(void *state, int64_t sequence, int32_t length)
{
    return pf_page_tables_truncate(((pf_cuda_backend *)state)->pages, sequence, length);
}

static pf_status keep(void *state, int64_t sequence, int32_t length, const int32_t *rows, int32_t n_rows)
{
    pf_cuda_backend *b = state;
    if (b->is_lost) return PF_UNAVAILABLE;
    PF_TRY(make_room(b));
    return pf_page_tables_keep(b->pages, sequence, length, rows, n_rows);
}

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

static bool is_tree(const pf_span *span)
{
    for (int32_t i = 0; span->parents && i < span->n_tokens; i++)
        if (span->parents[i] < -1 || span->parents[i] >= i) return false;
    return true;
}

static bool is_span(const pf_cuda_backend *b, const pf_span *spans, int32_t at)
{
    const pf_span *span = &spans[at];
    const int32_t n_vocab = b->checkpoint.config.vocab_size;
    if (length_of(b, span->sequence) < 0 || span->n_tokens < 1) return false;
    if (span->n_logits < 0 || span->n_logits > span->n_tokens) return false;
    if (span->best_of < 0 || span->best_of > n_vocab || !is_tree(span)) return false;
    for (int32_t i = 0; i < span->n_tokens; i++)
        if (span->tokens[i] < 0 || span->tokens[i] >= n_vocab) return false;
    for (int32_t i = 0; i < at; i++)
        if (spans[i].sequence == span->sequence) return false;
    return true;
}

static pf_status check_spans(const pf_cuda_backend *b, const pf_span *spans, int32_t n)
{
    int64_t n_rows = 0;
    if (n < 0 || n > b->options.max_sequences) return PF_INVALID;
    for (int32_t i = 0; i < n; i++) {
        if (!is_span(b, spans, i)) return PF_INVALID;
        n_rows += spans[i].n_tokens;
    }
    return n_rows <= b->options.max_rows ? PF_OK : PF_INVALID;
}

static void undo_all(pf_cuda_backend *b, const pf_span *spans, int32_t n)
{
    while (n > 0) pf_page_tables_undo(b->pages, spans[--n].sequence);
}

static pf_status extend_all(pf_cuda_backend *b, const pf_span *spans, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const pf_status status = pf_page_tables_extend(b->pages, spans[i].sequence, spans[i].n_tokens);
        if (status == PF_OK) continue;
        undo_all(b, spans, i);
        return status;
    }
    return PF_OK;
}

/* Fills the rows of a span from `first` on. Returns the tokens that its deepest row sees. */
static int32_t fill_span(pf_cuda_backend *b, const pf_span *span, int32_t first)
{
    const pf_cuda_input *in = &b->stage->in;
    const int32_t base = length_of(b, span->sequence) - span->n_tokens, place = pf_page_tables_place(span->sequence);
    int32_t deepest = 0;
    for (int32_t i = 0; i < span->n_tokens; i++) {
        const int32_t row = first + i, parent = span->parents ? span->parents[i] : i - 1;
        in->tokens[row] = span->tokens[i];
        in->tables[row] = place;
        in->bases[row] = base;
        in->firsts[row] = first;
        in->parents[row] = span->parents ? parent : PF_CUDA_CHAIN;
        in->depths[row] = parent < 0 ? 0 : in->depths[first + parent] + 1;
        if (in->depths[row] > deepest) deepest = in->depths[row];
    }
    for (int32_t i = 0; i < span->n_logits; i++) {
        in->logit_row[b->n_logit_rows] = first + span->n_tokens - span->n_logits + i;
        in->best_of[b->n_logit_rows++] = span->best_of > 0 ? span->best_of : b->checkpoint.config.vocab_size;
    }
    return base + deepest + 1;
}

/* The tables of the pass's sequences that have changed. */
static cudaError_t queue_tables(pf_cuda_backend *b, const pf_span *spans, int32_t n)
{
    const size_t width = (size_t)b->pass.table_pages, n_bytes = width * sizeof *b->tables;
    for (int32_t i = 0; i < n; i++) {
        const int32_t place = pf_page_tables_place(spans[i].sequence);
        if (!pf_page_tables_take_change(b->pages, place)) continue;
        int32_t *staged = b->stage->tables + (size_t)place * width;
        memcpy(staged, b->tables + (size_t)place * width, n_bytes);
        const cudaError_t status = cudaMemcpyAsync(b->pass.page_tables + (size_t)place * width, staged, n_bytes,
                                                   cudaMemcpyHostToDevice, b->stream);
        if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
}

static cudaError_t queue_pass(pf_cuda_backend *b, const pf_span *spans, int32_t n, int32_t n_tokens)
{
    cudaError_t status = queue_moves(b, b->stage);
    if (status == cudaSuccess) status = queue_tables(b, spans, n);
    return status == cudaSuccess ? pf_cuda_pass_queue(&b->pass, b->stage, n_tokens, b->n_logit_rows > 0) : status;
}

/* Every table is sent again where one may not have arrived. */
static pf_status fail_pass(pf_cuda_backend *b, const pf_span *spans, int32_t n, cudaError_t queued)
{
    const pf_status waited = wait_for_device(b);
    b->n_logit_rows = 0;
    b->has_logits = false;
    undo_all(b, spans, n);
    for (int32_t i = 0; i < n; i++) pf_page_tables_mark_changed(b->pages, pf_page_tables_place(spans[i].sequence));
    return waited != PF_OK ? waited : pf_cuda_fail(&b->refusal, queued, "a pass");
}

/* Fills the stage with the rows of all spans. Returns the tokens that the longest of them sees. */
static int32_t fill_stage(pf_cuda_backend *b, const pf_span *spans, int32_t n)
{
    int32_t n_rows = 0, n_tokens = 0;
    b->n_logit_rows = 0;
    b->has_logits = false;
    for (int32_t i = 0; i < n; i++) {
        const int32_t n_seen = fill_span(b, &spans[i], n_rows);
        if (n_seen > n_tokens) n_tokens = n_seen;
        n_rows += spans[i].n_tokens;
    }
    b->stage->in.counts[0] = n_rows;
    b->stage->in.counts[1] = b->n_logit_rows;
    return n_tokens;
}

static pf_status run(void *state, const pf_span *spans, int32_t n)
{
    pf_cuda_backend *b = state;
    pf_cuda_stage *stage = next_stage(b);
    if (b->is_lost) return PF_UNAVAILABLE;
    PF_TRY(check_spans(b, spans, n));
    if (n == 0) return PF_OK;
    if (b->stop && pf_stop_is_due(b->stop)) return PF_CANCELLED;
    b->refusal = (pf_error){ 0 };
    PF_TRY(make_room(b));
    PF_TRY(wait_for_stage(b, stage));
    PF_TRY(extend_all(b, spans, n));
    b->stage = stage;
    const cudaError_t queued = queue_pass(b, spans, n, fill_stage(b, spans, n));
    if (queued != cudaSuccess) return fail_pass(b, spans, n, queued);
    b->is_running = true;
    for (int32_t i = 0; i < n; i++) pf_page_tables_commit(b->pages, spans[i].sequence);
    return PF_OK;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

/* Whether the results of the last pass are there. */
static bool has_results(pf_cuda_backend *b)
{
    return !b->is_lost && (!b->is_running || wait_for_device(b) == PF_OK);
}

/* All rows of the pass. Where the device fails they hold no number, and no pass runs from then on. */
static void fetch_logits(pf_cuda_backend *b)
{
    const size_t n = (size_t)b->n_logit_rows * (size_t)b->checkpoint.config.vocab_size;
    if (b->has_logits) return;
    b->has_logits = true;
    const cudaError_t queued =
        cudaMemcpyAsync(b->pass.out_logits, b->pass.logits, n * sizeof(float), cudaMemcpyDeviceToHost, b->stream);
    if (wait_for_device(b) == PF_OK && queued == cudaSuccess) return;
    if (!b->is_lost) (void)!pf_cuda_fail(&b->refusal, queued, "the copy of logits");
    b->is_lost = true;
    for (size_t i = 0; i < n; i++) b->pass.out_logits[i] = NAN;
}

static float *logits(void *state, int32_t row)
{
    pf_cuda_backend *b = state;
    assert(row >= 0 && row < b->n_logit_rows);
    fetch_logits(b);
    return b->pass.out_logits + (size_t)row * (size_t)b->checkpoint.config.vocab_size;
}

/* Whether the device's choice is what is asked for: of as many logits, and the caller has not had the row to write over it. */
static bool is_chosen(const pf_cuda_backend *b, int32_t row, int32_t n)
{
    assert(row >= 0 && row < b->n_logit_rows);
    return !b->has_logits && b->stage->in.best_of[row] == n;
}

/* For operations that read a result: waiting for it and fetching it change none. */
static pf_cuda_backend *backend_of(const void *state)
{
    return (pf_cuda_backend *)(uintptr_t)state;
}

static int32_t best(const void *state, int32_t row, int32_t best_of)
{
    pf_cuda_backend *b = backend_of(state);
    if (!has_results(b)) return -1;
    return is_chosen(b, row, best_of) ? b->pass.out[row] : b->kernels.argmax(logits(b, row), best_of);
}

static int32_t find_invalid(const void *state, int32_t row, int32_t n)
{
    pf_cuda_backend *b = backend_of(state);
    if (!has_results(b)) return 0;
    return is_chosen(b, row, n) ? b->pass.out[b->pass.n_rows + row] : b->kernels.find_invalid(logits(b, row), n);
}

static bool asks(const pf_draw *draws, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (draws[i].kind != PF_DRAW_NONE) return true;
    return false;
}

/* The rows of the draws are filled while the pass runs; both are waited for together. */
static pf_status draw(void *state, const pf_draw *draws, int32_t n, pf_drawn *out)
{
    pf_cuda_backend *b = state;
    if (b->is_lost) return PF_UNAVAILABLE;
    assert(n <= b->n_logit_rows);
    b->refusal = (pf_error){ 0 };
    const bool any = asks(draws, n);
    const cudaError_t queued = any ? pf_cuda_draws_queue(&b->draws, draws, n, b->pass.logits, b->stream) : cudaSuccess;
    PF_TRY(wait_for_device(b));
    if (queued != cudaSuccess) return pf_cuda_fail(&b->refusal, queued, "the draw of tokens");
    if (any) pf_cuda_draws_read(&b->draws, n, out);
    return PF_OK;
}

static const char *refusal(const void *state)
{
    return ((const pf_cuda_backend *)state)->refusal.text;
}

static void share(void *state, pf_team_fn *fn, void *arg)
{
    (void)state;
    fn((pf_member){ .n_threads = 1 }, arg);
}

static void set_stop(void *state, pf_stop *stop)
{
    ((pf_cuda_backend *)state)->stop = stop;
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
    .logits = logits,
    .best = best,
    .find_invalid = find_invalid,
    .draw = draw,
    .refusal = refusal,
    .share = share,
    .set_stop = set_stop,
};

pf_forward_backend pf_cuda_forward_backend(pf_cuda_backend *b)
{
    return (pf_forward_backend){ .ops = &ops,
                                 .state = b,
                                 .limits = { .max_tokens = b->options.max_tokens,
                                             .max_sequences = b->options.max_sequences,
                                             .max_rows = b->options.max_rows,
                                             .max_logit_rows = b->options.max_rows,
                                             .n_vocab = b->checkpoint.config.vocab_size,
                                             .n_threads = 1 },
                                 .kernels = &b->kernels };
}

const char *pf_cuda_backend_refusal(const pf_cuda_backend *b)
{
    return b->refusal.text;
}

const pf_config *pf_cuda_backend_config(const pf_cuda_backend *b)
{
    return &b->checkpoint.config;
}

int64_t pf_cuda_backend_parameter_count(const pf_cuda_backend *b)
{
    return b->checkpoint.n_parameters;
}

size_t pf_cuda_backend_weight_bytes(const pf_cuda_backend *b)
{
    return b->weights.n_bytes;
}

size_t pf_cuda_backend_cache_bytes(const pf_cuda_backend *b)
{
    const size_t elements = (size_t)pf_cuda_pass_layer_elements(&b->pass);
    return elements * (size_t)b->checkpoint.config.n_layers * sizeof(uint16_t);
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static pf_status check_option(const char *path, const char *name, int32_t value, int32_t least, int32_t most,
                              pf_error *error)
{
    if (value >= least && value <= most) return PF_OK;
    return pf_fail(error, PF_INVALID, "%s: %s of the CUDA backend is %d, expected %d to %d", path, name, value, least,
                   most);
}

/* Zeros become what they stand for. */
static pf_status resolve(pf_cuda_backend *b, const char *path, pf_error *error)
{
    pf_cuda_options *o = &b->options;
    const int32_t longest = b->checkpoint.config.max_context;
    if (o->max_tokens == 0) o->max_tokens = pf_min(longest, PF_CUDA_DEFAULT_CONTEXT);
    if (o->max_sequences == 0) o->max_sequences = 1;
    if (o->kv_sequences == 0) o->kv_sequences = o->max_sequences;
    if (o->max_rows == 0) o->max_rows = PF_CUDA_DEFAULT_ROWS;
    if (o->segment_tokens == 0) o->segment_tokens = PF_CUDA_DEFAULT_SEGMENT;
    PF_TRY(check_option(path, "max_tokens", o->max_tokens, 1, longest, error));
    PF_TRY(check_option(path, "max_sequences", o->max_sequences, 1, 1 << 16, error));
    PF_TRY(check_option(path, "kv_sequences", o->kv_sequences, 1, o->max_sequences, error));
    PF_TRY(check_option(path, "kv_pages", o->kv_pages, 0, INT32_MAX, error));
    PF_TRY(check_option(path, "segment_tokens", o->segment_tokens, 1, 1 << 20, error));
    return check_option(path, "max_rows", o->max_rows, 1, PF_CUDA_MOST_ROWS, error);
}

static pf_status make_pages(pf_cuda_backend *b, pf_error *error)
{
    const pf_cuda_options *o = &b->options;
    const size_t n_entries = (size_t)o->max_sequences * (size_t)b->pass.table_pages;
    b->tables = calloc(n_entries, sizeof *b->tables);
    if (!b->tables) return pf_fail(error, PF_NOMEM, "no memory for the tables of %d pages", b->pass.n_pages);
    const pf_page_tables_config config = { .max_sequences = o->max_sequences,
                                           .max_tokens = o->max_tokens,
                                           .n_pages = b->pass.n_pages,
                                           .max_rows = o->max_rows,
                                           .tables = b->tables };
    PF_TRY(pf_page_tables_create(&config, &b->pages, error));
    const size_t n_moves = (size_t)pf_page_tables_capacity(b->pages);
    for (int32_t i = 0; i < PF_CUDA_STAGES; i++)
        PF_TRY(pf_cuda_stage_create(&b->stages[i], o->max_rows, n_entries, n_moves, error));
    b->stage = &b->stages[0];
    return pf_cuda_allocate(&b->device_moves, n_moves * 2 * sizeof(int32_t), "the moves of the cache", error);
}

static pf_status set_up(pf_cuda_backend *b, const char *path, pf_error *error)
{
    const pf_cuda_options *o = &b->options;
    PF_TRY(pf_cuda_device_open(o->device, error));
    PF_TRY(pf_checkpoint_open(path, &o->policy, o->cancel, &b->checkpoint, error));
    PF_TRY(pf_cuda_check_plan(path, &b->checkpoint.config, error));
    PF_TRY(resolve(b, path, error));
    PF_TRY(pf_kernels_select(o->isa, &b->kernels, error));
    PF_CUDA_TRY(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "the making of a stream", error);
    PF_TRY(pf_cuda_weights_load(&b->checkpoint, o, b->stream, &b->weights, error));
    const int64_t width = pf_page_tables_width(o->max_tokens),
                  n_pages = o->kv_pages > 0 ? o->kv_pages : width * o->kv_sequences;
    if (n_pages > INT32_MAX / PF_PAGE_TOKENS) return pf_fail(error, PF_LIMIT, "%s: the cache has too many pages", path);
    b->pass.config = &b->checkpoint.config;
    b->pass.weights = &b->weights;
    b->pass.stream = b->stream;
    b->pass.n_rows = o->max_rows;
    b->pass.max_tokens = o->max_tokens;
    b->pass.segment_tokens = o->segment_tokens;
    b->pass.n_pages = (int32_t)n_pages;
    b->pass.table_pages = (int32_t)width;
    PF_TRY(pf_cuda_pass_create(&b->pass, o->max_sequences, !o->without_graphs, error));
    PF_TRY(pf_cuda_draws_create(&b->draws, o->max_rows, b->checkpoint.config.vocab_size, error));
    return make_pages(b, error);
}

pf_status pf_cuda_backend_open(const char *path, const pf_cuda_options *options, pf_cuda_backend **out, pf_error *error)
{
    pf_cuda_backend *b = calloc(1, sizeof *b);
    if (!b) return pf_fail(error, PF_NOMEM, "%s: no memory for the CUDA backend", path);
    b->options = *options;
    const pf_status status = set_up(b, path, error);
    b->options.progress = NULL;
    if (status == PF_OK)
        *out = b;
    else
        pf_cuda_backend_close(b);
    return status;
}

void pf_cuda_backend_close(pf_cuda_backend *b)
{
    if (!b) return;
    if (b->stream) (void)cudaStreamSynchronize(b->stream);
    pf_cuda_draws_destroy(&b->draws);
    pf_cuda_pass_destroy(&b->pass);
    pf_cuda_weights_destroy(&b->weights);
    pf_page_tables_destroy(b->pages);
    for (int32_t i = 0; i < PF_CUDA_STAGES; i++) pf_cuda_stage_destroy(&b->stages[i]);
    free(b->tables);
    (void)cudaFree(b->device_moves);
    if (b->stream) (void)cudaStreamDestroy(b->stream);
    pf_checkpoint_close(&b->checkpoint);
    free(b);
}
