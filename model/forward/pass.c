/*
 * Checks a pass, so that forward.c cannot fail, plans it, and runs it on threads of the team.
 */
#include "model/forward/worker.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

/* ---- before it --------------------------------------------------------------------------------------------------- */

/* Everything that can be checked before the cache is touched. */
static pf_status check_spans(const pf_context *c, const pf_span *spans, int32_t n_spans)
{
    if (n_spans < 0 || n_spans > c->config.max_sequences + c->config.max_forks) return PF_INVALID;
    int32_t rows_left = c->config.max_rows, logit_rows_left = c->config.max_logit_rows;
    for (int32_t s = 0; s < n_spans; s++) {
        const pf_span *span = &spans[s];
        if (span->n_tokens < 1 || span->n_tokens > rows_left) return PF_INVALID;
        if (span->n_logits < 0 || span->n_logits > span->n_tokens || span->n_logits > logit_rows_left)
            return PF_INVALID;
        rows_left -= span->n_tokens;
        logit_rows_left -= span->n_logits;
        if (pf_kv_length(c->kv, span->sequence) < 0) return PF_INVALID;
        if (span->best_of < 0 || span->best_of > c->model->config.vocab_size) return PF_INVALID;
        for (int32_t other = 0; other < s; other++)
            if (spans[other].sequence == span->sequence) return PF_INVALID;
        for (int32_t i = 0; i < span->n_tokens; i++) {
            if (span->tokens[i] < 0 || span->tokens[i] >= c->model->config.vocab_size) return PF_INVALID;
            if (span->parents != NULL && (span->parents[i] < -1 || span->parents[i] >= i)) return PF_INVALID;
        }
    }
    return PF_OK;
}

static void cut_to(pf_context *c, pf_kv_seq sequence, int32_t length)
{
    const pf_status cut = pf_kv_truncate(c->kv, sequence, length);
    assert(cut == PF_OK);
    (void)cut;
}

static void roll_back(pf_context *c, const pf_span *spans, int32_t n_spans)
{
    for (int32_t s = 0; s < n_spans; s++)
        cut_to(c, spans[s].sequence, pf_kv_length(c->kv, spans[s].sequence) - spans[s].n_tokens);
}

/* Extends every sequence, or none. */
static pf_status extend_all(pf_context *c, const pf_span *spans, int32_t n_spans)
{
    for (int32_t s = 0; s < n_spans; s++) {
        const pf_status status = pf_kv_extend(c->kv, spans[s].sequence, spans[s].n_tokens);
        if (status == PF_OK) continue;
        roll_back(c, spans, s);
        return status;
    }
    return PF_OK;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The positions of the rows of a span. */
static void place_rows(const pf_span *span, int32_t position, int32_t *positions)
{
    for (int32_t i = 0; i < span->n_tokens; i++) {
        const int32_t parent = span->parents != NULL ? span->parents[i] : i - 1;
        positions[i] = parent < 0 ? position : positions[parent] + 1;
    }
}

/* The best_of that all spans with logits have in common; 0: they differ, or some want logits. */
static int32_t common_best_of(const pf_span *spans, int32_t n_spans)
{
    int32_t best_of = 0;
    for (int32_t s = 0; s < n_spans; s++) {
        if (spans[s].n_logits == 0) continue;
        if (spans[s].best_of == 0 || (best_of != 0 && spans[s].best_of != best_of)) return 0;
        best_of = spans[s].best_of;
    }
    return best_of;
}

/* Lists the rows of the pass, their positions and the wanted logits. The cache has been extended. */
static void plan_pass(pf_context *c, const pf_span *spans, int32_t n_spans)
{
    c->n_spans = n_spans;
    c->n_rows = 0;
    c->n_logit_rows = 0;
    for (int32_t s = 0; s < n_spans; s++) {
        const int32_t n = spans[s].n_tokens;
        const int32_t position = pf_kv_length(c->kv, spans[s].sequence) - n;
        c->spans[s] = (pf_pass_span){ spans[s].sequence, c->n_rows, n, position, spans[s].parents };
        memcpy(c->tokens + c->n_rows, spans[s].tokens, (size_t)n * sizeof *c->tokens);
        place_rows(&spans[s], position, c->positions + c->n_rows);
        for (int32_t i = n - spans[s].n_logits; i < n; i++) c->logit_rows[c->n_logit_rows++] = c->n_rows + i;
        c->n_rows += n;
    }
    c->given_up = false;
    pf_head_plan(&c->model->head, &c->head, c->n_logit_rows, common_best_of(spans, n_spans));
}

/* ---- its threads ------------------------------------------------------------------------------------------------- */

/* Whether some thread's share of attention ends inside a key head's rows, so that two threads store keys that one of them
 * reads. A span of one row has no inside. */
static bool shares_split_heads(const pf_context *c)
{
    const int32_t n_kv_heads = c->model->config.n_kv_heads;
    int32_t s = 0;
    for (int32_t id = 1; id < c->n_members; id++) {
        int32_t begin, end;
        pf_team_share((pf_member){ c->team, id, c->n_members }, n_kv_heads * c->n_rows, &begin, &end);
        while (begin >= n_kv_heads * (c->spans[s].first_row + c->spans[s].n_rows)) s++;
        if ((begin - n_kv_heads * c->spans[s].first_row) % c->spans[s].n_rows != 0) return true;
    }
    return false;
}

/* How the threads share the heads, and where they must wait. Heads of many rows are balanced between more than two threads
 * instead of kept apart. */
static void plan_threads(pf_context *c, int32_t n_members)
{
    c->n_members = n_members;
    c->heads_apart = c->model->config.plan.head_norm != PF_HEAD_NORM_WHOLE &&
                     pf_model_heads_divide(c->model, n_members) && (n_members <= 2 || c->n_rows < PF_CHUNKED_ROWS);
    c->split_heads = !c->heads_apart && shares_split_heads(c);
    pf_chunks_reset(c->chunks, c->n_members);
}

/* Looking up rows of the embedding touches a cache line or two for every value where the embedding is the head. The rows of a
 * prompt are worth sharing; those of a decode step are not worth waking a thread. */
enum { SHARED_EMBEDDING_ROWS = 32 };

static void scale_rows(pf_rows rows, int32_t begin, int32_t end, int32_t n_columns, float scale)
{
    for (int32_t i = begin; i < end; i++)
        for (int32_t j = 0; j < n_columns; j++) pf_row(rows, i)[j] *= scale;
}

static void add_position(const pf_model *m, int32_t position, float *x)
{
    const int32_t hidden = m->config.hidden_size;
    const size_t first = ((size_t)position + (size_t)m->config.plan.position_offset) * (size_t)hidden;
    if (m->row_type == PF_TYPE_F32)
        for (int32_t j = 0; j < hidden; j++) x[j] += ((const float *)m->positions)[first + (size_t)j];
    else
        for (int32_t j = 0; j < hidden; j++)
            x[j] += pf_bf16_to_f32(((const uint16_t *)m->positions)[first + (size_t)j]);
}

void pf_context_finish_embedding(const pf_context *c, int32_t begin, int32_t end)
{
    const pf_model *m = c->model;
    if (begin >= end) return;
    if (m->positions != NULL)
        for (int32_t i = begin; i < end; i++) add_position(m, c->positions[i], pf_row(c->x, i));
    if (m->config.plan.has[PF_TENSOR_EMBEDDING_NORM])
        pf_model_norm(m, pf_row(c->x, begin), pf_row(c->x, begin), &m->embedding_norm, end - begin,
                      m->config.hidden_size, c->x.stride);
}

static void embed_rows(const pf_context *c, int32_t begin, int32_t end)
{
    const pf_model *m = c->model;
    const float scale = m->config.plan.embedding_scale;
    pf_model_embed(m, c->tokens + begin, end - begin, c->embedded.data + (size_t)begin * c->embedded.stride,
                   c->embedded.stride);
    if (scale != 1.0f) scale_rows(c->embedded, begin, end, m->config.embedding_size, scale);
    if (m->project_in.weights.n == 0) pf_context_finish_embedding(c, begin, end);
}

static void embed_share(pf_member member, void *context)
{
    const pf_context *c = context;
    int32_t begin, end;
    pf_team_share(member, c->n_rows, &begin, &end);
    embed_rows(c, begin, end);
}

void pf_context_run_members(const pf_context *context, pf_team_fn *fn, void *arg)
{
    pf_team_run_some(context->team, context->n_members, fn, arg);
}

static void run_pass(pf_context *c, int32_t n_members)
{
    plan_threads(c, n_members);
    if (c->n_rows < SHARED_EMBEDDING_ROWS)
        embed_rows(c, 0, c->n_rows);
    else
        pf_context_run_members(c, embed_share, c);
    pf_context_run_members(c, pf_context_run_pass, c);
    pf_head_end(&c->model->head, &c->head, c->n_members);
}

/* Run the pass on the number of threads that its measured times suggest. */
static void run_planned(pf_context *c)
{
    pf_thread_count *count = &c->thread_count;
    const int32_t n_members = pf_thread_count_next(count, c->n_rows);
    pf_team_pin(c->team, !pf_thread_count_is_contended(count));
    if (pf_thread_count_is_fixed(count)) {
        run_pass(c, n_members);
        return;
    }
    if (n_members == 1) pf_team_unpin_caller(c->team); /* another process may compute on the caller's core */
    const uint64_t begin_ns = pf_now_ns();
    run_pass(c, n_members);
    pf_thread_count_note(count, c->n_rows, pf_now_ns() - begin_ns, pf_team_held_up_ns(c->team));
}

pf_status pf_context_forward(pf_context *context, const pf_span *spans, int32_t n_spans)
{
    PF_TRY(check_spans(context, spans, n_spans));
    if (n_spans == 0) return PF_OK;
    PF_TRY(extend_all(context, spans, n_spans));
    plan_pass(context, spans, n_spans);
    run_planned(context);
    if (!context->given_up) return PF_OK;
    roll_back(context, spans, n_spans);
    return PF_CANCELLED;
}

pf_status pf_context_prefill(pf_context *context, pf_kv_seq sequence, const int32_t *tokens, int32_t n_tokens,
                             bool want_logits)
{
    const int32_t before = pf_kv_length(context->kv, sequence), max_rows = context->config.max_rows;
    if (before < 0 || n_tokens < 1) return PF_INVALID;
    if (n_tokens > context->config.max_tokens - before) return PF_LIMIT;
    pf_status status = PF_OK;
    for (int32_t done = 0, n; done < n_tokens && status == PF_OK; done += n) {
        n = n_tokens - done < max_rows ? n_tokens - done : max_rows;
        const bool is_last = done + n == n_tokens;
        const pf_span span = { sequence, tokens + done, n, is_last && want_logits ? 1 : 0, NULL, 0 };
        status = pf_context_forward(context, &span, 1);
    }
    if (status != PF_OK) cut_to(context, sequence, before);
    return status;
}

int32_t pf_context_best(const pf_context *context, int32_t i, int32_t best_of)
{
    assert(i >= 0 && i < context->n_logit_rows);
    assert(!pf_head_gives_best(&context->head) || context->head.best_of == best_of);
    if (pf_head_gives_best(&context->head)) return pf_head_best(&context->head, context->n_members, i);
    return context->model->kernels.argmax(context->logits.data + (size_t)i * context->logits.stride, best_of);
}

int32_t pf_context_find_invalid(const pf_context *context, int32_t i, int32_t n)
{
    assert(i >= 0 && i < context->n_logit_rows);
    assert(!pf_head_gives_best(&context->head) || context->head.best_of == n);
    if (pf_head_gives_best(&context->head)) return pf_head_find_invalid(&context->head, context->n_members, i);
    return context->model->kernels.find_invalid(context->logits.data + (size_t)i * context->logits.stride, n);
}

float *pf_context_logits(pf_context *context, int32_t i)
{
    assert(i >= 0 && i < context->n_logit_rows && !pf_head_gives_best(&context->head));
    return context->logits.data + (size_t)i * context->logits.stride;
}
