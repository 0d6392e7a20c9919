/*
 * The forward pass: from the embedded rows of a pass to logits. One path for prefill, decode and verification.
 *
 * Every member of the team runs it and computes its share: of the panels of a product, of the heads of attention. With many
 * rows it goes on to panels that another has not begun. Between two phases that read what others wrote stands a barrier;
 * nothing else waits.
 *
 * The left sides of products are prepared in one of three ways, with the same bits:
 *
 *   by columns   what attention and the activation give is packed by the member that made it, out of its own cache. The
 *                others then read half the bytes, in one piece. Not where a row has a scale, for which all of it counts.
 *   by all       rows of a single tile, a decode step or the verification of a draft, are normed and packed by every
 *                member for itself: repeating it is cheaper than waiting for it.
 *   by tiles     more rows are normed and packed tile by tile, each by one member, and then all wait.
 */
#include <string.h>

#include "model/bounded_head.h"

/* A member's part of something: columns of a product, items of attention. Empty when end <= begin. */
typedef struct {
    int32_t begin, end;
} range;

/* A member at work on the pass at hand. */
typedef struct {
    pf_context *c;
    const pf_kernels *kernels;
    const pf_gemm *gemm;
    pf_member member;
    const pf_member_scratch *mine;
    bool by_columns;  /* a product's left side can be packed by columns */
    pf_panels qkv[3]; /* those of its heads, of Q, K and V, where heads are apart */
    pf_rows q, k, v;  /* where they go */
    pf_rows attended; /* what attention gives */
    range heads;      /* the columns of `attended` that its heads make, where heads are apart */
    range residual;   /* its columns, where rows are few: O and DOWN add to them */
    int32_t phase;    /* the next whose panels are taken in pieces */
} worker;

/* Rows to be multiplied: how they are cut into tiles and who prepares them. */
typedef struct {
    int32_t n_rows;
    bool shared;                  /* more than one tile: each is prepared by one member */
    int32_t tile_begin, tile_end; /* this member's */
    int32_t row_begin, row_end;   /* the rows of those tiles */
} left_side;

/* All kernels are called, and members wait for each other; but not while one is measured alone (pass_kernels.h). */
static bool is_whole(const worker *w)
{
    return w->c->calls == PF_ALL_PASS_KERNELS;
}
static bool calls(const worker *w, pf_pass_kernel kernel)
{
    return (w->c->calls >> kernel & 1) != 0;
}
static void wait_for_all(const worker *w)
{
    if (is_whole(w)) pf_team_barrier(w->member);
}

static left_side plan_left_side(const worker *w, int32_t n_rows)
{
    const int32_t n_tiles = pf_gemm_tiles(w->gemm->tile_rows, n_rows);
    left_side a = { .n_rows = n_rows, .shared = n_tiles > 1, .tile_begin = 0, .tile_end = n_tiles };
    if (a.shared) pf_team_share(w->member, n_tiles, &a.tile_begin, &a.tile_end);
    a.row_begin = pf_gemm_tile_row(n_tiles, n_rows, a.tile_begin);
    a.row_end = pf_gemm_tile_row(n_tiles, n_rows, a.tile_end);
    return a;
}

/* Pack `rows` as the left side of a product over k. */
static const void *pack(const worker *w, pf_pass_kernel kernel, const left_side *a, pf_rows rows, int32_t k)
{
    void *input = a->shared ? w->c->input : w->mine->input;
    if (a->tile_begin < a->tile_end && calls(w, kernel))
        w->gemm->pack(input, rows.data, rows.stride, a->n_rows, k, a->tile_begin, a->tile_end);
    if (a->shared) wait_for_all(w);
    return input;
}

/* A part of the columns of `rows`, apart from the `before` ones before it: row behind row, an odd number of lines again, in
 * lines that nobody else has business with and no other core's prefetching runs into. Column j of row i is at
 * data + i * stride + j. */
static pf_rows apart(pf_rows rows, int32_t n_rows, range columns, int32_t before)
{
    const size_t begin = (size_t)columns.begin, width = (size_t)(columns.end - columns.begin);
    const size_t between = (size_t)before * (PF_APART_FLOATS + (size_t)n_rows * PF_LINE_FLOATS);
    return (pf_rows){ rows.data + between + (size_t)(n_rows - 1) * begin, width | PF_LINE_FLOATS };
}

/* Pack the columns of a product's left side that this member has made. */
static void pack_columns(const worker *w, pf_pass_kernel kernel, pf_rows rows, int32_t n_rows, int32_t k, range columns)
{
    if (columns.begin < columns.end && calls(w, kernel))
        w->gemm->pack_columns(w->c->columns, rows.data, rows.stride, n_rows, k, columns.begin, columns.end);
}

/* ---- lines that pass from core to core, where rows are a single tile ----------------------------------------------
 *
 * A member that writes a line which others have read waits until they have given it up; one that reads what another has
 * just written waits for it. Without a cache in common either takes as long as a multiplication of hundreds of
 * weights, and a product comes upon one such line after the other: so they are asked for, all at once. */

typedef struct {
    const char *begin, *end;
} lines;

static bool passes_lines(const worker *w, int32_t n_rows)
{
    return w->member.n_threads > 1 && n_rows <= w->gemm->tile_rows && is_whole(w);
}

/* Columns of the packed left side. */
static lines packed(const worker *w, int32_t n_rows, range columns)
{
    const size_t column_bytes = (size_t)n_rows * (size_t)w->gemm->packed_value_bytes;
    const char *data = w->c->columns;
    return (lines){ data + (size_t)columns.begin * column_bytes, data + (size_t)columns.end * column_bytes };
}

/* Those of some columns of the residual. */
static lines residual(const worker *w, int32_t row, range columns)
{
    const float *x = w->c->x.data + (size_t)row * w->c->x.stride;
    return (lines){ (const char *)(x + columns.begin), (const char *)(x + columns.end) };
}

/* A function that only prefetches has no effect in gcc's eyes, which drops the calls of it: hence the empty asm. */
#define PF_KEEP_PREFETCHES() __asm__ volatile("")

/* To be written: long before it is, but not before the others have read what is there. */
static void claim(lines mine)
{
    for (const char *at = mine.begin; at < mine.end; at += 64) __builtin_prefetch(at, 1);
    PF_KEEP_PREFETCHES();
}

/* What others have just written. */
static void fetch(lines theirs)
{
    for (const char *at = theirs.begin; at < theirs.end; at += 64) __builtin_prefetch(at, 0);
    PF_KEEP_PREFETCHES();
}

static void claim_columns(const worker *w, int32_t n_rows, range mine)
{
    if (passes_lines(w, n_rows)) claim(packed(w, n_rows, mine));
}

static void fetch_columns(const worker *w, int32_t n_rows, int32_t k, range mine)
{
    if (!passes_lines(w, n_rows)) return;
    fetch(packed(w, n_rows, (range){ 0, mine.begin }));
    fetch(packed(w, n_rows, (range){ mine.end, k }));
}

static void claim_residual(const worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    for (int32_t i = 0; i < n_rows; i++) claim(residual(w, i, w->residual));
}

static void fetch_residual(const worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    const int32_t n = w->c->model->config.hidden_size;
    for (int32_t i = 0; i < n_rows; i++) {
        fetch(residual(w, i, (range){ 0, w->residual.begin }));
        fetch(residual(w, i, (range){ w->residual.end, n }));
    }
}

static pf_rows normed_rows(const worker *w, const left_side *a)
{
    return a->shared ? w->c->normed : w->mine->normed;
}

/* Norm the rows of x and pack them. */
static const void *norm_and_pack(const worker *w, const left_side *a, const float *weight)
{
    const pf_config *config = &w->c->model->config;
    const pf_rows x = w->c->x, normed = normed_rows(w, a);
    const size_t first = (size_t)a->row_begin * x.stride;
    fetch_residual(w, a->n_rows);
    if (a->row_begin < a->row_end && calls(w, PF_PASS_NORM))
        w->kernels->rmsnorm(normed.data + first, x.data + first, weight, a->row_end - a->row_begin, config->hidden_size,
                            x.stride, config->rms_eps);
    return pack(w, PF_PASS_PACK_NORMED, a, normed, config->hidden_size);
}

static range columns_of(const pf_linear *linear, pf_panels panels)
{
    const int32_t n = linear->weights.n, end = panels.end * PF_GEMM_PANEL;
    return (range){ panels.begin * PF_GEMM_PANEL, end < n ? end : n };
}

/* Columns of out = input * W^T + bias, or of out += that. */
static void multiply_panels(const worker *w, const pf_linear *linear, pf_panels panels, const void *input,
                            int32_t n_rows, pf_rows out, pf_gemm_mode mode)
{
    if (panels.begin < panels.end)
        w->gemm->multiply(&linear->weights, input, n_rows, panels.begin, panels.end, out.data, out.stride, mode,
                          w->mine->gemm);

    const range columns = columns_of(linear, panels);
    if (linear->bias != NULL)
        for (int32_t i = 0; i < n_rows; i++)
            for (int32_t j = columns.begin; j < columns.end; j++)
                out.data[(size_t)i * out.stride + (size_t)j] += linear->bias[j];
}

static pf_panels share_of(const worker *w, const pf_linear *linear)
{
    pf_panels mine;
    pf_team_share(w->member, linear->weights.n_panels, &mine.begin, &mine.end);
    return mine;
}

/* The panels of a phase, as a member comes by them: with few rows its share, once; with many piece after piece of it, and then
 * of the others' (base/pieces.h). */
typedef struct {
    const pf_linear *linear;
    bool in_pieces;
    int32_t phase;
    pf_pieces_cut cut;
    bool share_is_taken;
} panels_left;

/* A share that is not much more than the least piece, of a small model, is not cut. */
enum { IN_PIECES_ROWS = 32, PIECE_MULTIPLIES = 1 << 25, PIECES_OF_A_SHARE = 2 };

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static bool takes_pieces(const worker *w, int32_t n_rows)
{
    return n_rows >= IN_PIECES_ROWS && w->member.n_threads > 1 && is_whole(w);
}

static int32_t begin_phase(worker *w)
{
    pf_pieces_begin(w->c->pieces, w->member, w->phase);
    return w->phase++;
}

/* It takes a tenth of a millisecond, and is half of the panels that are best multiplied in one call, `group`: each call brings
 * the rows through the caches again, in the time of a panel where they are as long as DOWN's. A quarter of them where
 * a share has but a few. */
static int32_t least_piece(const pf_linear *linear, int32_t n_rows, int32_t share, int32_t group)
{
    const int64_t panel_multiplies = (int64_t)n_rows * PF_GEMM_PANEL * linear->weights.k;
    const int32_t panels = larger(share / 4 < group / 2 ? share / 4 : group / 2, group / 4);
    return larger((int32_t)(PIECE_MULTIPLIES / panel_multiplies) + 1, panels);
}

static panels_left begin_panels(worker *w, const pf_linear *linear, int32_t n_rows, int32_t group)
{
    const int32_t n_panels = linear->weights.n_panels, share = n_panels / w->member.n_threads;
    panels_left left = { .linear = linear };
    if (!takes_pieces(w, n_rows)) return left;
    if (w->c->model->onednn != NULL) return left; /* its matrices are cut once, into shares */
    const int32_t least = least_piece(linear, n_rows, share, group);
    left.in_pieces = share >= PIECES_OF_A_SHARE * least;
    if (!left.in_pieces) return left;
    left.cut = (pf_pieces_cut){ .total = n_panels, .run = n_panels, .least = least, .most = larger(least, group) };
    left.phase = begin_phase(w);
    return left;
}

static bool next_panels(const worker *w, panels_left *left, pf_panels *out)
{
    if (left->in_pieces)
        return pf_pieces_take(w->c->pieces, w->member, left->phase, &left->cut, &out->begin, &out->end);
    if (left->share_is_taken) return false;
    left->share_is_taken = true;
    *out = share_of(w, left->linear);
    return out->begin < out->end;
}

static void multiply(worker *w, pf_pass_kernel kernel, const pf_linear *linear, const void *input, int32_t n_rows,
                     pf_rows out, pf_gemm_mode mode)
{
    if (!calls(w, kernel)) return;
    panels_left left = begin_panels(w, linear, n_rows, w->gemm->group_panels);
    for (pf_panels panels; next_panels(w, &left, &panels);)
        multiply_panels(w, linear, panels, input, n_rows, out, mode);
}

/* Some columns of what DOWN multiplies: gate and up, activated, and packed where that goes by columns. */
static void multiply_gated_panels(const worker *w, const pf_layer *layer, pf_panels panels, const void *input,
                                  int32_t n_rows, pf_rows gate, pf_rows up)
{
    const range columns = columns_of(&layer->gate, panels);
    if (calls(w, PF_PASS_GATE_UP)) {
        multiply_panels(w, &layer->gate, panels, input, n_rows, gate, PF_GEMM_STORE);
        multiply_panels(w, &layer->up, panels, input, n_rows, up, PF_GEMM_STORE);
    }
    claim_residual(w, n_rows);
    if (calls(w, PF_PASS_SWIGLU))
        w->kernels->swiglu(gate.data + columns.begin, gate.stride, gate.data + columns.begin, up.data + columns.begin,
                           gate.stride, n_rows, columns.end - columns.begin);
    if (w->by_columns)
        pack_columns(w, PF_PASS_PACK_GATED, gate, n_rows, w->c->model->config.intermediate_size, columns);
}

/* Whether gate and up are one call. Members' columns are then nowhere but in the packed rows. */
static bool gates_at_once(const worker *w, const pf_layer *layer, int32_t n_rows)
{
    return w->gemm->multiply_gated != NULL && n_rows > w->gemm->tile_rows && is_whole(w) && layer->gate.bias == NULL &&
           layer->up.bias == NULL;
}

/* `mine`: the columns of this member's share. */
static void multiply_gated(worker *w, const pf_layer *layer, const void *input, int32_t n_rows, range mine)
{
    panels_left left = begin_panels(w, &layer->gate, n_rows, w->gemm->group_panels / 2);
    pf_rows gate = w->c->gate, up = w->c->up;
    if (w->by_columns && !left.in_pieces) {
        gate = apart(gate, n_rows, mine, w->member.id);
        up = apart(up, n_rows, mine, w->member.id);
    }
    const pf_gemm_gated out = { w->kernels->swiglu, w->c->columns, gate.data, gate.stride };
    const bool at_once = gates_at_once(w, layer, n_rows);
    for (pf_panels panels; next_panels(w, &left, &panels);)
        if (at_once)
            w->gemm->multiply_gated(&layer->gate.weights, &layer->up.weights, input, n_rows, panels.begin, panels.end,
                                    &out, w->mine->gemm);
        else
            multiply_gated_panels(w, layer, panels, input, n_rows, gate, up);
}

/* Apart, where each member computes its own heads. */
static void place_qkv(worker *w)
{
    pf_rows *const places[] = { &w->q, &w->k, &w->v };
    for (int32_t i = 0; i < 3; i++)
        *places[i] = w->c->heads_apart
                         ? apart(w->c->qkv, w->c->n_rows, columns_of(&w->c->model->layers->qkv, w->qkv[i]),
                                 i * w->member.n_threads + w->member.id)
                         : w->c->qkv;
}

/* Queries, keys and values: those of this member's heads, or its part of all, and then they are awaited. */
static void multiply_qkv(worker *w, const pf_linear *qkv, const void *input, int32_t n_rows)
{
    if (!w->c->heads_apart) {
        multiply(w, PF_PASS_QKV, qkv, input, n_rows, w->c->qkv, PF_GEMM_STORE);
        wait_for_all(w);
        return;
    }
    const pf_rows out[] = { w->q, w->k, w->v };
    for (int32_t i = 0; i < 3 && calls(w, PF_PASS_QKV); i++)
        multiply_panels(w, qkv, w->qkv[i], input, n_rows, out[i], PF_GEMM_STORE);
}

/* ---- attention ------------------------------------------------------------------------------------------------- */

/* Of some of the pass's items, which are the spans' one after the other, those of one span. */
static range items_of_span(const worker *w, const pf_pass_span *span, range items)
{
    const int32_t n_kv_heads = w->c->model->config.n_kv_heads;
    const int32_t first = n_kv_heads * span->first_row, n = n_kv_heads * span->n_rows;
    return (range){ items.begin > first ? items.begin - first : 0, items.end - first < n ? items.end - first : n };
}

/* This member's items of one span: the rows of its heads, or what its share of the pass's items has of them. */
static range span_items(const worker *w, const pf_pass_span *span)
{
    const int32_t n_kv_heads = w->c->model->config.n_kv_heads;
    range mine;
    if (w->c->heads_apart) {
        pf_team_share(w->member, n_kv_heads, &mine.begin, &mine.end);
        return (range){ mine.begin * span->n_rows, mine.end * span->n_rows };
    }
    pf_team_share(w->member, n_kv_heads * w->c->n_rows, &mine.begin, &mine.end);
    return items_of_span(w, span, mine);
}

static pf_attn_pages pages_of(const worker *w, const pf_pass_span *span, int32_t layer)
{
    const pf_kv_view view = pf_kv_layer(w->c->kv, span->sequence, layer);
    return (pf_attn_pages){ .key_pages = view.key_pages,
                            .value_pages = view.value_pages,
                            .page_tokens = pf_kv_get_config(w->c->kv)->page_tokens,
                            .n_kv_heads = w->c->model->config.n_kv_heads,
                            .head_dim = w->c->model->config.head_dim };
}

/* Turn the queries and keys of some items by their positions, and store the keys with their values. */
static void rope_and_store(const worker *w, const pf_pass_span *span, int32_t layer, range items)
{
    const pf_context *c = w->c;
    const pf_config *config = &c->model->config;
    const int32_t group = config->n_heads / config->n_kv_heads, head_dim = config->head_dim;
    const size_t first = (size_t)span->first_row;
    float *q_rows = w->q.data + first * w->q.stride;
    float *k_rows = w->k.data + first * w->k.stride + c->model->q_dim;
    const float *v_rows = w->v.data + first * w->v.stride + c->model->q_dim + c->model->kv_dim;
    const int32_t *positions = c->positions + span->first_row;

    for (int32_t item = items.begin; item < items.end && calls(w, PF_PASS_ROPE);) { /* one key head after the other */
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
    if (calls(w, PF_PASS_ATTN_STORE)) w->kernels->attn_store[c->config.kv_type](&args, items.begin, items.end);
}

static void attend_span(const worker *w, const pf_pass_span *span, int32_t layer, range items)
{
    const pf_context *c = w->c;
    const pf_attn_args args = { .pages = pages_of(w, span, layer),
                                .q = w->q.data + (size_t)span->first_row * w->q.stride,
                                .q_stride = w->q.stride,
                                .out = w->attended.data + (size_t)span->first_row * w->attended.stride,
                                .out_stride = w->attended.stride,
                                .n_rows = span->n_rows,
                                .n_heads = c->model->config.n_heads,
                                .position = span->position,
                                .scale = c->attention_scale,
                                .parents = span->parents };
    if (calls(w, PF_PASS_ATTN)) w->kernels->attn[c->config.kv_type](&args, items.begin, items.end, w->mine->attention);
}

static range attended_columns(const worker *w)
{
    const pf_config *config = &w->c->model->config;
    const int32_t head_columns = config->n_heads / config->n_kv_heads * config->head_dim;
    int32_t begin, end;
    pf_team_share(w->member, config->n_kv_heads, &begin, &end);
    return (range){ begin * head_columns, end * head_columns };
}

/* So many lines, heads of a group times rows, go over the keys together; a piece is some such. */
enum { ATTEND_LINES = 64, ATTEND_LEAST = 2, ATTEND_MOST = 8 };

/* With many rows of heads that are not apart: later rows see more keys, and a share of rows is not one of the work. */
static bool attends_in_pieces(const worker *w, pf_pieces_cut *cut, int32_t *unit)
{
    const pf_config *config = &w->c->model->config;
    if (w->c->heads_apart || !takes_pieces(w, w->c->n_rows)) return false;
    *unit = larger(ATTEND_LINES * config->n_kv_heads / config->n_heads, 1);
    const int32_t total = (config->n_kv_heads * w->c->n_rows + *unit - 1) / *unit;
    *cut = (pf_pieces_cut){ .total = total, .run = total, .least = ATTEND_LEAST, .most = ATTEND_MOST };
    return total / w->member.n_threads >= PIECES_OF_A_SHARE * ATTEND_LEAST;
}

static void attend_in_pieces(worker *w, int32_t layer, const pf_pieces_cut *cut, int32_t unit)
{
    const pf_context *c = w->c;
    const int32_t phase = begin_phase(w);
    range units;
    while (pf_pieces_take(c->pieces, w->member, phase, cut, &units.begin, &units.end))
        for (int32_t s = 0; s < c->n_spans; s++) {
            const range items = items_of_span(w, &c->spans[s], (range){ units.begin * unit, units.end * unit });
            if (items.begin < items.end) attend_span(w, &c->spans[s], layer, items);
        }
}

/* Append the new keys and values to the cache, and attend to all there are. */
static void attend(worker *w, int32_t layer)
{
    const pf_context *c = w->c;
    pf_pieces_cut cut;
    int32_t unit;
    const bool in_pieces = attends_in_pieces(w, &cut, &unit);
    for (int32_t s = 0; s < c->n_spans; s++) {
        const range items = span_items(w, &c->spans[s]);
        if (items.begin < items.end) rope_and_store(w, &c->spans[s], layer, items);
    }
    if (c->split_heads || in_pieces) wait_for_all(w);
    if (in_pieces) {
        attend_in_pieces(w, layer, &cut, unit);
        return;
    }
    for (int32_t s = 0; s < c->n_spans; s++) {
        const range items = span_items(w, &c->spans[s]);
        if (items.begin < items.end) attend_span(w, &c->spans[s], layer, items);
    }
}

/* ---- the pass -------------------------------------------------------------------------------------------------- */

/* After the last attention only the rows whose logits are wanted go on: move them to the front, each member its columns.
 * A row moves forward or stays, so in order none is overwritten before it has moved. */
static void keep_logit_rows(const worker *w)
{
    const pf_context *c = w->c;
    const struct {
        pf_rows rows;
        int32_t n_columns;
    } kept[] = { { c->x, c->model->config.hidden_size }, { c->attended, c->model->q_dim } };
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        int32_t begin, end;
        pf_team_share(w->member, kept[k].n_columns, &begin, &end);
        for (int32_t i = 0; i < c->n_logit_rows; i++) {
            float *row = kept[k].rows.data + (size_t)i * kept[k].rows.stride;
            const float *from = kept[k].rows.data + (size_t)c->logit_rows[i] * kept[k].rows.stride;
            memmove(row + begin, from + begin, (size_t)(end - begin) * sizeof *row);
        }
    }
    wait_for_all(w);
}

/* The first half of a layer: what its rows attend to joins the residual. Behind the last attention only the rows whose logits
 * are wanted go on; false: there are none. */
static bool attention_half(worker *w, int32_t l, left_side *rows)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[l];
    const bool drops_rows = l == m->config.n_layers - 1 && c->n_logit_rows < c->n_rows;
    const bool heads_by_columns = w->by_columns && c->heads_apart && !drops_rows;
    w->attended = heads_by_columns ? apart(c->attended, c->n_rows, w->heads, w->member.id) : c->attended;

    const void *input = norm_and_pack(w, rows, layer->attention_norm);
    if (heads_by_columns) claim_columns(w, rows->n_rows, w->heads);
    multiply_qkv(w, &layer->qkv, input, rows->n_rows);
    claim_residual(w, rows->n_rows);
    attend(w, l);
    if (heads_by_columns) pack_columns(w, PF_PASS_PACK_ATTENDED, w->attended, rows->n_rows, m->q_dim, w->heads);
    wait_for_all(w);

    if (drops_rows) {
        if (c->n_logit_rows == 0) return false;
        keep_logit_rows(w);
        *rows = plan_left_side(w, c->n_logit_rows);
    }
    if (heads_by_columns) fetch_columns(w, rows->n_rows, m->q_dim, w->heads);
    input = heads_by_columns ? c->columns : pack(w, PF_PASS_PACK_ATTENDED, rows, c->attended, m->q_dim);
    multiply(w, PF_PASS_O, &layer->o, input, rows->n_rows, c->x, PF_GEMM_ADD);
    wait_for_all(w);
    return true;
}

/* The second: the gated product joins the residual. */
static void gated_half(worker *w, const pf_layer *layer, const left_side *rows)
{
    const pf_context *c = w->c;
    const int32_t intermediate = c->model->config.intermediate_size;
    const void *input = norm_and_pack(w, rows, layer->mlp_norm);
    const range mine = columns_of(&layer->gate, share_of(w, &layer->gate));
    if (w->by_columns) claim_columns(w, rows->n_rows, mine);
    multiply_gated(w, layer, input, rows->n_rows, mine);
    wait_for_all(w);

    if (w->by_columns) fetch_columns(w, rows->n_rows, intermediate, mine);
    input = w->by_columns ? c->columns : pack(w, PF_PASS_PACK_GATED, rows, c->gate, intermediate);
    multiply(w, PF_PASS_DOWN, &layer->down, input, rows->n_rows, c->x, PF_GEMM_ADD);
    wait_for_all(w);
}

/* A member's share of the rows: their best logits anew. */
static void rescore(const worker *w, const left_side *rows)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_rows normed = normed_rows(w, rows);
    int32_t begin, end;
    pf_team_share(w->member, rows->n_rows, &begin, &end);
    for (int32_t i = begin; i < end && calls(w, PF_PASS_RESCORE); i++)
        w->kernels->rescore(c->logits.data + (size_t)i * c->logits.stride, m->config.vocab_size,
                            normed.data + (size_t)i * normed.stride, m->head_rows, m->config.hidden_size);
}

/* From the residual of n_rows rows to their logits. */
static void run_head(worker *w, int32_t n_rows)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    w->gemm = pf_model_head_gemm(m);
    const left_side rows = plan_left_side(w, n_rows);
    const void *input = norm_and_pack(w, &rows, m->final_norm);
    if (c->best_of > 0) {
        pf_bounded_head_run(w->c, w->member, normed_rows(w, &rows), input, n_rows);
        return;
    }
    multiply(w, PF_PASS_HEAD, &m->head, input, n_rows, c->logits, PF_GEMM_STORE);
    if (m->head_kind != PF_HEAD_SCREENED) return;
    wait_for_all(w);
    rescore(w, &rows);
}

void pf_context_run_pass(pf_member member, void *context)
{
    pf_context *c = context;
    const pf_model *m = c->model;
    worker w = {
        .c = c, .kernels = &m->kernels, .gemm = pf_model_gemm(m), .member = member, .mine = &c->members[member.id]
    };
    w.by_columns = w.gemm->pack_columns != NULL;
    if (c->heads_apart) pf_model_qkv_share(m, member, w.qkv);
    w.heads = attended_columns(&w);
    w.residual = columns_of(&m->layers->o, share_of(&w, &m->layers->o));
    place_qkv(&w);

    left_side rows = plan_left_side(&w, c->n_rows);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        if (member.id == 0 && c->stop) c->given_up = pf_stop_is_due(c->stop);
        if (!attention_half(&w, l, &rows) || c->given_up) return;
        gated_half(&w, &m->layers[l], &rows);
    }
    run_head(&w, rows.n_rows);
}
