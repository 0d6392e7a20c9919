/*
 * A thread's part of attention: norms and rotates queries and keys, stores keys and values, and attends to all of them.
 *
 * An item is a row of a key head. A thread has the items of its own heads where heads are apart, otherwise a share of all
 * items, or with many rows chunks of them; then attention waits until all keys are stored. Where few rows follow many
 * positions, and there are more threads than key heads, threads share the keys as well, segment by segment, and join the
 * partial results.
 */
#include <math.h>

#include "model/forward/worker.h"

/* The items of one span among some of the pass's, which are numbered span after span. */
static pf_range items_of_span(const pf_worker *w, const pf_pass_span *span, pf_range items)
{
    const int32_t n_kv_heads = w->c->model->config.n_kv_heads;
    const int32_t first = n_kv_heads * span->first_row, n = n_kv_heads * span->n_rows;
    return (pf_range){ items.begin > first ? items.begin - first : 0, items.end - first < n ? items.end - first : n };
}

/* The rows of this thread's heads, or its share of the pass's items. */
pf_range pf_attend_items(const pf_worker *w, const pf_pass_span *span)
{
    const int32_t n_kv_heads = w->c->model->config.n_kv_heads;
    pf_range mine;
    if (w->c->heads_apart) {
        pf_team_share(w->member, n_kv_heads, &mine.begin, &mine.end);
        return (pf_range){ mine.begin * span->n_rows, mine.end * span->n_rows };
    }
    pf_team_share(w->member, n_kv_heads * w->c->n_rows, &mine.begin, &mine.end);
    return items_of_span(w, span, mine);
}

static pf_attn_pages pages_of(const pf_worker *w, const pf_pass_span *span, int32_t layer)
{
    const pf_kv_view view = pf_kv_layer(w->c->kv, span->sequence, layer);
    return (pf_attn_pages){ .key_pages = view.key_pages,
                            .value_pages = view.value_pages,
                            .page_tokens = pf_kv_get_config(w->c->kv)->page_tokens,
                            .n_kv_heads = w->c->model->config.n_kv_heads,
                            .head_dim = w->c->model->config.head_dim };
}

static float *keys_of(const pf_worker *w, const pf_pass_span *span)
{
    return pf_row(w->k, span->first_row) + w->c->model->q_dim;
}

static float *values_of(const pf_worker *w, const pf_pass_span *span)
{
    return pf_row(w->v, span->first_row) + w->c->model->q_dim + w->c->model->kv_dim;
}

static void clip(float *x, size_t stride, int32_t n_rows, int32_t n_columns, float most)
{
    for (int32_t i = 0; i < n_rows; i++, x += stride)
        for (int32_t j = 0; j < n_columns; j++) x[j] = x[j] > most ? most : x[j] < -most ? -most : x[j];
}

static void norm_columns(const pf_worker *w, float *x, const float *weight, const float *bias, int32_t n_rows,
                         int32_t n_columns, size_t stride)
{
    const pf_config *config = &w->c->model->config;
    if (config->plan.head_norm_kind == PF_NORM_LAYER)
        w->kernels->layernorm(x, x, weight, bias, n_rows, n_columns, stride, config->norm_eps);
    else
        w->kernels->rmsnorm(x, x, weight, n_rows, n_columns, stride, config->norm_eps);
}

/* Each head by itself. */
static void norm_heads(const pf_worker *w, pf_rows x, const pf_norm_weights *norm, int32_t n_rows, int32_t first_head,
                       int32_t n_heads)
{
    const pf_config *config = &w->c->model->config;
    const size_t head_dim = (size_t)config->head_dim;
    for (int32_t h = 0; h < n_heads; h++) {
        const size_t at = config->plan.head_norm == PF_HEAD_NORM_EACH ? (size_t)(first_head + h) * head_dim : 0;
        norm_columns(w, x.data + (size_t)h * head_dim, norm->weight ? norm->weight + at : NULL,
                     norm->bias ? norm->bias + at : NULL, n_rows, config->head_dim, x.stride);
    }
}

void pf_attend_norm_whole(const pf_worker *w, int32_t layer)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_layer *weights = &m->layers[layer];
    const float most = m->config.plan.qkv_clip;
    int32_t begin, end;
    pf_team_share(w->member, c->n_rows, &begin, &end);
    if (begin == end) return;
    float *q = pf_row(c->qkv, begin), *k = q + m->q_dim;
    if (most > 0.0f) clip(q, c->qkv.stride, end - begin, m->q_dim + 2 * m->kv_dim, most);
    norm_columns(w, q, weights->q_norm.weight, weights->q_norm.bias, end - begin, m->q_dim, c->qkv.stride);
    norm_columns(w, k, weights->k_norm.weight, weights->k_norm.bias, end - begin, m->kv_dim, c->qkv.stride);
}

/* Rows of one key head, its queries and its value. */
typedef struct {
    pf_rows q, k, v;
    int32_t n_rows, kv_head;
    const int32_t *positions;
} head_rows;

/* Positions below query_growth_step have the factor 1. */
static void grow_queries(const pf_plan *plan, const head_rows *rows, int32_t n_columns)
{
    for (int32_t i = 0; i < rows->n_rows; i++) {
        const int32_t steps = rows->positions[i] / plan->query_growth_step;
        const float factor = 1.0f + plan->query_growth * logf(1.0f + (float)steps);
        float *q = rows->q.data + (size_t)i * rows->q.stride;
        for (int32_t j = 0; j < n_columns; j++) q[j] *= factor;
    }
}

/* What comes before the rotation, but norms of whole rows. */
static void prepare_heads(const pf_worker *w, int32_t layer, const head_rows *rows)
{
    const pf_model *m = w->c->model;
    const pf_config *config = &m->config;
    const pf_plan *plan = &config->plan;
    const int32_t group = config->n_heads / config->n_kv_heads, n = rows->n_rows;
    const bool is_done = plan->head_norm == PF_HEAD_NORM_WHOLE;
    if (plan->qkv_clip > 0.0f && !is_done) {
        clip(rows->q.data, rows->q.stride, n, group * config->head_dim, plan->qkv_clip);
        clip(rows->k.data, rows->k.stride, n, config->head_dim, plan->qkv_clip);
        clip(rows->v.data, rows->v.stride, n, config->head_dim, plan->qkv_clip);
    }
    if (plan->head_norm != PF_HEAD_NORM_NONE && !is_done) {
        norm_heads(w, rows->q, &m->layers[layer].q_norm, n, rows->kv_head * group, group);
        norm_heads(w, rows->k, &m->layers[layer].k_norm, n, rows->kv_head, 1);
    }
    if (plan->query_growth > 0.0f) grow_queries(plan, rows, group * config->head_dim);
}

void pf_attend_rope(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items)
{
    const pf_context *c = w->c;
    const pf_config *config = &c->model->config;
    const int32_t group = config->n_heads / config->n_kv_heads, head_dim = config->head_dim;
    const int32_t rope = config->plan.positions == PF_POSITIONS_ROTARY ? pf_config_layer(config, layer)->rope : -1;
    float *q_rows = pf_row(w->q, span->first_row), *k_rows = keys_of(w, span), *v_rows = values_of(w, span);
    for (int32_t item = items.begin; item < items.end;) { /* one key head after the other */
        const int32_t head = item / span->n_rows, row = item % span->n_rows;
        const int32_t left = span->n_rows - row, n = left < items.end - item ? left : items.end - item;
        const size_t kv_column = (size_t)head * (size_t)head_dim;
        const head_rows rows = {
            .q = { q_rows + (size_t)row * w->q.stride + (size_t)group * kv_column, w->q.stride },
            .k = { k_rows + (size_t)row * w->k.stride + kv_column, w->k.stride },
            .v = { v_rows + (size_t)row * w->v.stride + kv_column, w->v.stride },
            .n_rows = n,
            .kv_head = head,
            .positions = c->positions + span->first_row + row,
        };
        if (c->prepares_heads) prepare_heads(w, layer, &rows);
        if (rope >= 0) {
            w->kernels->rope(rows.q.data, rows.q.stride, n, group, head_dim, rows.positions, &c->ropes[rope]);
            w->kernels->rope(rows.k.data, rows.k.stride, n, 1, head_dim, rows.positions, &c->ropes[rope]);
        }
        item += n;
    }
}

void pf_attend_store(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items)
{
    const pf_context *c = w->c;
    const pf_attn_store_args args = { .pages = pages_of(w, span, layer),
                                      .k = keys_of(w, span),
                                      .v = values_of(w, span),
                                      .stride = w->k.stride, /* and of v */
                                      .n_rows = span->n_rows,
                                      .position = span->position };
    w->kernels->attn_store[c->config.kv_type](&args, items.begin, items.end);
}

static pf_attn_args attention_of(const pf_worker *w, const pf_pass_span *span, int32_t layer)
{
    const pf_context *c = w->c;
    const pf_plan *plan = &c->model->config.plan;
    return (pf_attn_args){ .pages = pages_of(w, span, layer),
                           .q = w->q.data + (size_t)span->first_row * w->q.stride,
                           .q_stride = w->q.stride,
                           .out = w->attended.data + (size_t)span->first_row * w->attended.stride,
                           .out_stride = w->attended.stride,
                           .n_rows = span->n_rows,
                           .n_heads = c->model->config.n_heads,
                           .position = span->position,
                           .scale = plan->attention_scale,
                           .parents = span->parents,
                           .window = pf_config_layer(&c->model->config, layer)->window,
                           .softcap = plan->attention_softcap,
                           .slopes = c->slopes,
                           .sinks = c->model->layers[layer].sinks };
}

void pf_attend_span(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items)
{
    const pf_attn_args args = attention_of(w, span, layer);
    w->kernels->attn[w->c->config.kv_type](&args, items.begin, items.end, w->mine->attention);
}

/* ---- keys that are shared ------------------------------------------------------------------------------------------ */

/* The time of the slowest thread, in lines times keys. Few lines take as long as sixteen. */
static int64_t work_of(int64_t n_lines, int64_t n_keys)
{
    return (n_lines > 16 ? n_lines : 16) * n_keys;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Whether units, of all rows and one segment each, take less time than items, of one row and all keys each. PRICE and the half
 * stand for two more barriers and for the parts that are written and joined. */
static bool units_pay(const pf_config *config, const pf_attn_args *args, int32_t n_threads)
{
    enum { PRICE = 4096 };
    const int64_t group = config->n_heads / config->n_kv_heads, n_segments = pf_attn_segments(args);
    const int64_t n_items = ceil_div((int64_t)config->n_kv_heads * args->n_rows, n_threads);
    const int64_t n_units = ceil_div(config->n_kv_heads * n_segments, n_threads);
    const int64_t n_keys = args->position + args->n_rows - pf_attn_first_key(args, args->position);
    const int64_t whole = work_of(n_items * group, n_keys);
    const int64_t shared = n_units * work_of(args->n_rows * group, PF_ATTN_SEGMENT);
    return shared + shared / 2 + PRICE < whole;
}

/* Of one sequence alone: several have enough items. */
static bool shares_keys(const pf_worker *w, int32_t layer)
{
    const pf_context *c = w->c;
    const pf_config *config = &c->model->config;
    if (c->n_attention_parts == 0 || c->heads_apart || !pf_worker_has_company(w)) return false;
    if (c->n_spans != 1 || c->n_rows > PF_SHARED_KEYS_ROWS) return false;
    const pf_attn_args args = attention_of(w, &c->spans[0], layer);
    const int32_t n_segments = pf_attn_segments(&args);
    const size_t n_lines = (size_t)config->n_heads * (size_t)c->n_rows;
    if (n_lines * (size_t)n_segments * pf_attn_part_floats(config->head_dim) > c->n_attention_parts) return false;
    return units_pay(config, &args, w->member.n_threads);
}

/* After a barrier behind the storing of keys and values. */
static void attend_to_shared_keys(const pf_worker *w, int32_t layer)
{
    const pf_context *c = w->c;
    pf_attn_args args = attention_of(w, &c->spans[0], layer);
    pf_attn_fn *const attend = w->kernels->attn[c->config.kv_type];
    pf_range units;
    args.parts = c->attention_parts;
    args.step = PF_ATTN_PART;
    pf_team_share(w->member, args.pages.n_kv_heads * pf_attn_segments(&args), &units.begin, &units.end);
    attend(&args, units.begin, units.end, w->mine->attention);
    pf_worker_wait(w);
    const pf_range items = pf_attend_items(w, &c->spans[0]);
    args.step = PF_ATTN_JOIN;
    attend(&args, items.begin, items.end, w->mine->attention);
}

/* ---- many rows ----------------------------------------------------------------------------------------------------- */

/* Lines, heads of a group times rows, that go over the keys together, and how many such a chunk has. */
enum { ATTEND_LINES = 64, ATTEND_LEAST = 2, ATTEND_MOST = 8 };

/* With many rows, where heads are not apart: later rows see more keys, so equal shares of rows are not equal work. */
static bool attends_in_chunks(const pf_worker *w, pf_chunks_cut *cut, int32_t *unit)
{
    const pf_config *config = &w->c->model->config;
    if (w->c->heads_apart || w->c->n_rows < PF_CHUNKED_ROWS || !pf_worker_has_company(w)) return false;
    const int32_t group = config->n_heads / config->n_kv_heads;
    *unit = group < ATTEND_LINES ? ATTEND_LINES / group : 1;
    const int32_t total = (config->n_kv_heads * w->c->n_rows + *unit - 1) / *unit;
    *cut = (pf_chunks_cut){ .total = total, .run = total, .least = ATTEND_LEAST, .most = ATTEND_MOST };
    return total / w->member.n_threads >= PF_CHUNKS_PER_SHARE * ATTEND_LEAST;
}

static void attend_in_chunks(pf_worker *w, int32_t layer, const pf_chunks_cut *cut, int32_t unit)
{
    const pf_context *c = w->c;
    const int32_t phase = pf_worker_begin_phase(w);
    pf_range units;
    while (pf_chunks_take(c->chunks, w->member, phase, cut, &units.begin, &units.end))
        for (int32_t s = 0; s < c->n_spans; s++) {
            const pf_range items = items_of_span(w, &c->spans[s], (pf_range){ units.begin * unit, units.end * unit });
            if (items.begin < items.end) pf_attend_span(w, &c->spans[s], layer, items);
        }
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

void pf_worker_attend(pf_worker *w, int32_t layer)
{
    const pf_context *c = w->c;
    pf_chunks_cut cut;
    int32_t unit = 1;
    const bool in_chunks = attends_in_chunks(w, &cut, &unit), keys_shared = shares_keys(w, layer);
    for (int32_t s = 0; s < c->n_spans; s++) {
        const pf_range items = pf_attend_items(w, &c->spans[s]);
        if (items.begin >= items.end) continue;
        pf_attend_rope(w, &c->spans[s], layer, items);
        pf_attend_store(w, &c->spans[s], layer, items);
    }
    if (c->split_heads || in_chunks || keys_shared) pf_worker_wait(w);
    if (keys_shared) {
        attend_to_shared_keys(w, layer);
        return;
    }
    if (in_chunks) {
        attend_in_chunks(w, layer, &cut, unit);
        return;
    }
    for (int32_t s = 0; s < c->n_spans; s++) {
        const pf_range items = pf_attend_items(w, &c->spans[s]);
        if (items.begin < items.end) pf_attend_span(w, &c->spans[s], layer, items);
    }
}
