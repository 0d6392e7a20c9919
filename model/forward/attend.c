/*
 * A member's part of attention: queries and keys turned, keys and values stored, and all of them attended to.
 *
 * Its items are the rows of its own heads, where heads are apart; else a share of the pass's, or with many rows pieces of them,
 * and then those who attend wait for those who store. Where few rows stand behind many positions, and members are more than key
 * heads, they share the keys as well, segment by segment, and then join what comes of these.
 */
#include "model/forward/worker.h"

/* Of some of the pass's items, which are the spans' one after the other, those of one span. */
static pf_range items_of_span(const pf_worker *w, const pf_pass_span *span, pf_range items)
{
    const int32_t n_kv_heads = w->c->model->config.n_kv_heads;
    const int32_t first = n_kv_heads * span->first_row, n = n_kv_heads * span->n_rows;
    return (pf_range){ items.begin > first ? items.begin - first : 0, items.end - first < n ? items.end - first : n };
}

/* This member's items of one span: the rows of its heads, or what its share of the pass's items has of them. */
static pf_range span_items(const pf_worker *w, const pf_pass_span *span)
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

/* Turn the queries and keys of some items by their positions, and store the keys with their values. */
static void rope_and_store(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items)
{
    const pf_context *c = w->c;
    const pf_config *config = &c->model->config;
    const int32_t group = config->n_heads / config->n_kv_heads, head_dim = config->head_dim;
    const size_t first = (size_t)span->first_row;
    float *q_rows = w->q.data + first * w->q.stride;
    float *k_rows = w->k.data + first * w->k.stride + c->model->q_dim;
    const float *v_rows = w->v.data + first * w->v.stride + c->model->q_dim + c->model->kv_dim;
    const int32_t *positions = c->positions + span->first_row;

    for (int32_t item = items.begin;
         item < items.end && pf_worker_calls(w, PF_PASS_ROPE);) { /* one key head after the other */
        const int32_t head = item / span->n_rows, row = item % span->n_rows;
        const int32_t left = span->n_rows - row, n = left < items.end - item ? left : items.end - item;
        float *q = q_rows + (size_t)row * w->q.stride + (size_t)head * (size_t)group * (size_t)head_dim;
        float *k = k_rows + (size_t)row * w->k.stride + (size_t)head * (size_t)head_dim;
        w->kernels->rope(q, w->q.stride, n, group, head_dim, positions + row, &c->rope);
        w->kernels->rope(k, w->k.stride, n, 1, head_dim, positions + row, &c->rope);
        item += n;
    }

    const pf_attn_store_args args = { .pages = pages_of(w, span, layer),
                                      .k = k_rows,
                                      .v = v_rows,
                                      .stride = w->k.stride, /* and of v */
                                      .n_rows = span->n_rows,
                                      .position = span->position };
    if (pf_worker_calls(w, PF_PASS_ATTN_STORE))
        w->kernels->attn_store[c->config.kv_type](&args, items.begin, items.end);
}

static pf_attn_args attention_of(const pf_worker *w, const pf_pass_span *span, int32_t layer)
{
    const pf_context *c = w->c;
    return (pf_attn_args){ .pages = pages_of(w, span, layer),
                           .q = w->q.data + (size_t)span->first_row * w->q.stride,
                           .q_stride = w->q.stride,
                           .out = w->attended.data + (size_t)span->first_row * w->attended.stride,
                           .out_stride = w->attended.stride,
                           .n_rows = span->n_rows,
                           .n_heads = c->model->config.n_heads,
                           .position = span->position,
                           .scale = c->attention_scale,
                           .parents = span->parents };
}

static void attend_span(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items)
{
    const pf_attn_args args = attention_of(w, span, layer);
    if (pf_worker_calls(w, PF_PASS_ATTN))
        w->kernels->attn[w->c->config.kv_type](&args, items.begin, items.end, w->mine->attention);
}

/* ---- keys that are shared ------------------------------------------------------------------------------------------ */

/* How long the slowest member takes, in lines times keys: few lines take as long as sixteen. */
static int64_t work_of(int64_t n_lines, int64_t n_keys)
{
    return (n_lines > 16 ? n_lines : 16) * n_keys;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Whether units, of which each has all rows but one segment, are sooner done than items, of which each has one row but all
 * keys. Two barriers more, and parts that are written and joined, have their price. */
static bool units_pay(const pf_config *config, const pf_attn_args *args, int32_t n_threads)
{
    enum { PRICE = 4096 };
    const int64_t group = config->n_heads / config->n_kv_heads, n_segments = pf_attn_segments(args);
    const int64_t n_items = ceil_div((int64_t)config->n_kv_heads * args->n_rows, n_threads);
    const int64_t n_units = ceil_div(config->n_kv_heads * n_segments, n_threads);
    const int64_t whole = work_of(n_items * group, args->position + args->n_rows);
    const int64_t shared = n_units * work_of(args->n_rows * group, PF_ATTN_SEGMENT);
    return shared + shared / 2 + PRICE < whole;
}

/* One sequence alone: those of several are items enough. */
static bool shares_keys(const pf_worker *w)
{
    const pf_context *c = w->c;
    const pf_config *config = &c->model->config;
    if (c->n_attention_parts == 0 || c->heads_apart || !pf_worker_has_company(w)) return false;
    if (c->n_spans != 1 || c->n_rows > PF_SHARED_KEYS_ROWS) return false;
    const pf_attn_args args = attention_of(w, &c->spans[0], 0);
    const int32_t n_segments = pf_attn_segments(&args);
    const size_t n_lines = (size_t)config->n_heads * (size_t)c->n_rows;
    if (n_lines * (size_t)n_segments * pf_attn_part_floats(config->head_dim) > c->n_attention_parts) return false;
    return units_pay(config, &args, w->member.n_threads);
}

/* Keys and values have been stored, and all know of it. */
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
    const pf_range items = span_items(w, &c->spans[0]);
    args.step = PF_ATTN_JOIN;
    attend(&args, items.begin, items.end, w->mine->attention);
}

/* ---- many rows ----------------------------------------------------------------------------------------------------- */

/* So many lines, heads of a group times rows, go over the keys together; a piece is some such. */
enum { ATTEND_LINES = 64, ATTEND_LEAST = 2, ATTEND_MOST = 8 };

/* With many rows of heads that are not apart: later rows see more keys, and a share of rows is not one of the work. */
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
    while (pf_chunks_take(c->pieces, w->member, phase, cut, &units.begin, &units.end))
        for (int32_t s = 0; s < c->n_spans; s++) {
            const pf_range items = items_of_span(w, &c->spans[s], (pf_range){ units.begin * unit, units.end * unit });
            if (items.begin < items.end) attend_span(w, &c->spans[s], layer, items);
        }
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

void pf_worker_attend(pf_worker *w, int32_t layer)
{
    const pf_context *c = w->c;
    pf_chunks_cut cut;
    int32_t unit = 1;
    const bool in_chunks = attends_in_chunks(w, &cut, &unit), keys_shared = shares_keys(w);
    for (int32_t s = 0; s < c->n_spans; s++) {
        const pf_range items = span_items(w, &c->spans[s]);
        if (items.begin < items.end) rope_and_store(w, &c->spans[s], layer, items);
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
        const pf_range items = span_items(w, &c->spans[s]);
        if (items.begin < items.end) attend_span(w, &c->spans[s], layer, items);
    }
}
