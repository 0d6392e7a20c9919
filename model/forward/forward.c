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

#include "model/head/bounded_head.h"
#include "model/forward/row_groups.h"
#include "model/forward/worker.h"

/* Rows to be multiplied: how they are cut into groups and tiles, and who prepares them. */
typedef struct {
    pf_row_groups groups;
    bool shared;                  /* more than one tile: each is prepared by one member */
    int32_t group_tiles;          /* of each group but the last */
    int32_t tile_begin, tile_end; /* this member's, numbered through all groups */
} left_side;

static left_side plan_left_side(const pf_worker *w, int32_t n_rows)
{
    const pf_model *m = w->c->model;
    const int32_t tile_rows = w->gemm->tile_rows;
    left_side a = { .groups = pf_row_groups_one(n_rows) };
    if (pf_worker_is_whole(w) && m->onednn == NULL)
        a.groups = pf_row_groups_of(n_rows, m->config.hidden_size, w->member.n_threads);
    a.group_tiles = pf_gemm_tiles(tile_rows, a.groups.group_rows);
    a.tile_end = pf_row_groups_tiles(&a.groups, tile_rows);
    a.shared = a.tile_end > 1;
    if (a.shared) pf_team_share(w->member, a.tile_end, &a.tile_begin, &a.tile_end);
    return a;
}

static float *row_of(pf_rows rows, int32_t row)
{
    return rows.data + (size_t)row * rows.stride;
}

/* Where there is one group: where heads are apart (pass.c), or shares are not taken in pieces. */
static pf_row_group all_rows(const left_side *a)
{
    return pf_row_groups_get(&a->groups, 0);
}

/* The first row of tile t; behind the last, their number. */
static int32_t tile_row(const pf_worker *w, const left_side *a, int32_t t)
{
    if (!a->shared) return t * a->groups.n_rows; /* divisions are dear in a small draft's pass */
    return pf_row_groups_tile_row(&a->groups, w->gemm->tile_rows, t);
}

static void *input_of(const pf_worker *w, const left_side *a)
{
    return a->shared ? w->c->input : w->mine->input;
}

static const void *await_input(const pf_worker *w, const left_side *a)
{
    if (a->shared) pf_worker_wait(w);
    return input_of(w, a);
}

/* Pack some tiles of `rows` as those of the left side of a product over k. */
static void pack_tiles(const pf_worker *w, const left_side *a, int32_t tile_begin, int32_t tile_end, pf_rows rows,
                       int32_t k)
{
    char *input = input_of(w, a);
    for (int32_t g = 0; g < a->groups.n_groups; g++) {
        const pf_row_group group = pf_row_groups_get(&a->groups, g);
        const int32_t first = g * a->group_tiles;
        const int32_t begin = tile_begin > first ? tile_begin - first : 0;
        const int32_t end = tile_end - first < a->group_tiles ? tile_end - first : a->group_tiles;
        if (begin < end)
            w->gemm->pack(input + pf_row_group_at(group, k), row_of(rows, group.first_row), rows.stride, group.n_rows,
                          k, begin, end);
    }
}

/* This member's tiles, and then those of all. */
static const void *pack(const pf_worker *w, pf_pass_kernel kernel, const left_side *a, pf_rows rows, int32_t k)
{
    if (pf_worker_calls(w, kernel)) pack_tiles(w, a, a->tile_begin, a->tile_end, rows, k);
    return await_input(w, a);
}

/* A part of the columns of `rows`, apart from the `before` ones before it: row behind row, an odd number of lines again where
 * the width is whole lines, in lines that nobody else has business with and no other core's prefetching runs into. Column j of
 * row i is at data + i * stride + j. */
static pf_rows apart(pf_rows rows, int32_t n_rows, pf_range columns, int32_t before)
{
    const size_t begin = (size_t)columns.begin, width = (size_t)(columns.end - columns.begin);
    const size_t between = (size_t)before * (PF_APART_FLOATS + (size_t)n_rows * PF_LINE_FLOATS);
    return (pf_rows){ rows.data + between + (size_t)(n_rows - 1) * begin, width | PF_LINE_FLOATS };
}

/* Pack the columns of a product's left side that this member has made, of a group of rows. */
static void pack_columns(const pf_worker *w, pf_pass_kernel kernel, pf_rows rows, pf_row_group group, int32_t k,
                         pf_range columns)
{
    if (columns.begin < columns.end && pf_worker_calls(w, kernel))
        w->gemm->pack_columns((char *)w->c->columns + pf_row_group_at(group, k), row_of(rows, group.first_row),
                              rows.stride, group.n_rows, k, columns.begin, columns.end);
}

/* ---- lines that pass from core to core, where rows are a single tile ----------------------------------------------
 *
 * A member that writes a line which others have read waits until they have given it up; one that reads what another has
 * just written waits for it. Without a cache in common either takes as long as a multiplication of hundreds of
 * weights, and a product comes upon one such line after the other: so they are asked for, all at once. */

typedef struct {
    const char *begin, *end;
} lines;

static bool passes_lines(const pf_worker *w, int32_t n_rows)
{
    return n_rows <= w->gemm->tile_rows && pf_worker_has_company(w);
}

/* Columns of the packed left side. */
static lines packed(const pf_worker *w, int32_t n_rows, pf_range columns)
{
    const size_t column_bytes = (size_t)n_rows * (size_t)w->gemm->packed_value_bytes;
    const char *data = w->c->columns;
    return (lines){ data + (size_t)columns.begin * column_bytes, data + (size_t)columns.end * column_bytes };
}

/* Those of some columns of the residual. */
static lines residual(const pf_worker *w, int32_t row, pf_range columns)
{
    const float *x = row_of(w->c->x, row);
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

static void claim_columns(const pf_worker *w, int32_t n_rows, pf_range mine)
{
    if (passes_lines(w, n_rows)) claim(packed(w, n_rows, mine));
}

static void fetch_columns(const pf_worker *w, int32_t n_rows, int32_t k, pf_range mine)
{
    if (!passes_lines(w, n_rows)) return;
    fetch(packed(w, n_rows, (pf_range){ 0, mine.begin }));
    fetch(packed(w, n_rows, (pf_range){ mine.end, k }));
}

static void claim_residual(const pf_worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    for (int32_t i = 0; i < n_rows; i++) claim(residual(w, i, w->residual));
}

static void fetch_residual(const pf_worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    const int32_t n = w->c->model->config.hidden_size;
    for (int32_t i = 0; i < n_rows; i++) {
        fetch(residual(w, i, (pf_range){ 0, w->residual.begin }));
        fetch(residual(w, i, (pf_range){ w->residual.end, n }));
    }
}

static pf_rows normed_rows(const pf_worker *w, const left_side *a)
{
    return a->shared ? w->c->normed : w->mine->normed;
}

/* Norm the rows of x and pack them, a tile after the other: it is packed while it is in the cache. */
static const void *norm_and_pack(const pf_worker *w, const left_side *a, const float *weight)
{
    const pf_config *config = &w->c->model->config;
    const pf_rows x = w->c->x, normed = normed_rows(w, a);
    fetch_residual(w, a->groups.n_rows);
    for (int32_t t = a->tile_begin; t < a->tile_end; t++) {
        const int32_t row = tile_row(w, a, t), end = tile_row(w, a, t + 1);
        if (pf_worker_calls(w, PF_PASS_NORM))
            w->kernels->rmsnorm(row_of(normed, row), row_of(x, row), weight, end - row, config->hidden_size, x.stride,
                                config->rms_eps);
        if (pf_worker_calls(w, PF_PASS_PACK_NORMED)) pack_tiles(w, a, t, t + 1, normed, config->hidden_size);
    }
    return await_input(w, a);
}

static pf_range columns_of(const pf_linear *linear, pf_panels panels)
{
    const int32_t n = linear->weights.n, end = panels.end * PF_GEMM_PANEL;
    return (pf_range){ panels.begin * PF_GEMM_PANEL, end < n ? end : n };
}

/* Some panels of a product, for a group of rows. */
typedef struct {
    pf_row_group rows;
    pf_panels panels;
} part;

/* Columns of out = input * W^T + bias, or of out += that. */
static void multiply_part(const pf_worker *w, const pf_linear *linear, part p, const void *input, pf_rows out,
                          pf_gemm_mode mode)
{
    float *c = row_of(out, p.rows.first_row);
    if (p.panels.begin < p.panels.end)
        w->gemm->multiply(&linear->weights, (const char *)input + pf_row_group_at(p.rows, linear->weights.k),
                          p.rows.n_rows, p.panels.begin, p.panels.end, c, out.stride, mode, w->mine->gemm);

    const pf_range columns = columns_of(linear, p.panels);
    if (linear->bias != NULL)
        for (int32_t i = 0; i < p.rows.n_rows; i++)
            for (int32_t j = columns.begin; j < columns.end; j++)
                c[(size_t)i * out.stride + (size_t)j] += linear->bias[j];
}

static pf_panels share_of(const pf_worker *w, const pf_linear *linear)
{
    pf_panels mine;
    pf_team_share(w->member, linear->weights.n_panels, &mine.begin, &mine.end);
    return mine;
}

/* The parts of a product, as a member comes by them: piece after piece of its share of the panels, and then of the others'
 * (base/chunks.h); its share at once where that is short. Pieces are cut from the panels for the first group of rows, then for
 * the next. */
typedef struct {
    const pf_linear *linear;
    const left_side *rows;
    bool in_chunks;
    int32_t phase;
    pf_chunks_cut cut;
    bool share_is_taken;
} parts_left;

enum { PIECE_MULTIPLIES = 1 << 25, FEW_ROWS_BYTES = 1 << 18, FEW_ROWS_CHUNKS = 16 };

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* It takes a tenth of a millisecond, and is half of the panels that are best multiplied in one call, `group`: each call brings
 * the rows through the caches again, in the time of a panel where they are as long as DOWN's. A quarter of them where
 * a share has but a few. */
static int32_t min_chunk(const pf_linear *linear, int32_t n_rows, int32_t share, int32_t group)
{
    const int64_t panel_multiplies = (int64_t)n_rows * PF_GEMM_PANEL * linear->weights.k;
    const int32_t panels = larger(share / 4 < group / 2 ? share / 4 : group / 2, group / 4);
    return larger((int32_t)(PIECE_MULTIPLIES / panel_multiplies) + 1, panels);
}

/* Few rows take as long as memory needs for the panels: a quarter of a megabyte at least, 10 to 40 us, since a call takes 1 us
 * until memory is at its pace. An even number: tiles of 16 rows go through two panels at once. */
static int32_t least_of_few_rows(const pf_linear *linear, int32_t share)
{
    const int32_t panels = (int32_t)(FEW_ROWS_BYTES / linear->weights.panel_bytes) + 1;
    return (larger(panels, share / FEW_ROWS_CHUNKS) + 1) / 2 * 2;
}

/* One product is not cut into pieces where a share is not much more than the least, as of a small model. */
static parts_left begin_parts(pf_worker *w, const pf_linear *linear, const left_side *rows, int32_t group)
{
    parts_left left = { .linear = linear, .rows = rows };
    if (!pf_worker_has_company(w)) return left;
    if (w->c->model->onednn != NULL) return left; /* its matrices are cut once, into shares */
    const int32_t n_panels = linear->weights.n_panels, n_groups = rows->groups.n_groups;
    const int32_t total = n_panels * n_groups, share = total / w->member.n_threads;
    const bool few = rows->groups.n_rows < PF_CHUNKED_ROWS;
    const int32_t least =
        few ? least_of_few_rows(linear, share) : min_chunk(linear, rows->groups.group_rows, share, group);
    left.in_chunks = n_groups > 1 || share >= PF_CHUNKS_PER_SHARE * least;
    if (!left.in_chunks) return left;
    left.cut = (pf_chunks_cut){ total, n_panels, least, few ? larger(least, share) : larger(least, group) };
    left.phase = pf_worker_begin_phase(w);
    return left;
}

static bool next_part(const pf_worker *w, parts_left *left, part *out)
{
    int32_t begin, end;
    if (left->in_chunks) {
        if (!pf_chunks_take(w->c->pieces, w->member, left->phase, &left->cut, &begin, &end)) return false;
        const int32_t g = begin / left->cut.run, first = g * left->cut.run;
        *out = (part){ pf_row_groups_get(&left->rows->groups, g), { begin - first, end - first } };
        return true;
    }
    if (left->share_is_taken) return false;
    left->share_is_taken = true;
    *out = (part){ all_rows(left->rows), share_of(w, left->linear) };
    return out->panels.begin < out->panels.end;
}

static void multiply(pf_worker *w, pf_pass_kernel kernel, const pf_linear *linear, const left_side *rows,
                     const void *input, pf_rows out, pf_gemm_mode mode)
{
    if (!pf_worker_calls(w, kernel)) return;
    parts_left left = begin_parts(w, linear, rows, w->gemm->group_panels);
    for (part p; next_part(w, &left, &p);) multiply_part(w, linear, p, input, out, mode);
}

/* Some columns of what DOWN multiplies: gate and up, activated, and packed where that goes by columns. */
static void multiply_gated_part(const pf_worker *w, const pf_layer *layer, part p, const void *input, pf_rows gate,
                                pf_rows up)
{
    const pf_range columns = columns_of(&layer->gate, p.panels);
    if (pf_worker_calls(w, PF_PASS_GATE_UP)) {
        multiply_part(w, &layer->gate, p, input, gate, PF_GEMM_STORE);
        multiply_part(w, &layer->up, p, input, up, PF_GEMM_STORE);
    }
    claim_residual(w, p.rows.n_rows);
    float *gates = row_of(gate, p.rows.first_row) + columns.begin;
    if (pf_worker_calls(w, PF_PASS_SWIGLU))
        w->kernels->swiglu(gates, gate.stride, gates, row_of(up, p.rows.first_row) + columns.begin, gate.stride,
                           p.rows.n_rows, columns.end - columns.begin);
    if (w->by_columns)
        pack_columns(w, PF_PASS_PACK_GATED, gate, p.rows, w->c->model->config.intermediate_size, columns);
}

/* The same where gate and up are one call: members' columns are then nowhere but in the packed rows. */
static void multiply_gated_at_once(const pf_worker *w, const pf_layer *layer, part p, const void *input)
{
    const int32_t k = layer->gate.weights.k;
    const pf_rows gate = w->c->gate;
    const pf_gemm_gated out = { w->kernels->swiglu,
                                (char *)w->c->columns + pf_row_group_at(p.rows, layer->down.weights.k),
                                row_of(gate, p.rows.first_row), gate.stride };
    w->gemm->multiply_gated(&layer->gate.weights, &layer->up.weights, (const char *)input + pf_row_group_at(p.rows, k),
                            p.rows.n_rows, p.panels.begin, p.panels.end, &out, w->mine->gemm);
}

static bool gates_at_once(const pf_worker *w, const pf_layer *layer, int32_t n_rows)
{
    return pf_gemm_gates_at_once(w->gemm, n_rows) && pf_worker_is_whole(w) && layer->gate.bias == NULL &&
           layer->up.bias == NULL;
}

/* `mine`: the columns of this member's share. */
static void multiply_gated(pf_worker *w, const pf_layer *layer, const left_side *rows, const void *input, pf_range mine)
{
    const int32_t n_rows = rows->groups.n_rows;
    parts_left left = begin_parts(w, &layer->gate, rows, w->gemm->group_panels / 2);
    pf_rows gate = w->c->gate, up = w->c->up;
    if (w->by_columns && !left.in_chunks) {
        gate = apart(gate, n_rows, mine, w->member.id);
        up = apart(up, n_rows, mine, w->member.id);
    }
    const bool at_once = gates_at_once(w, layer, n_rows);
    for (part p; next_part(w, &left, &p);)
        if (at_once)
            multiply_gated_at_once(w, layer, p, input);
        else
            multiply_gated_part(w, layer, p, input, gate, up);
    if (at_once) claim_residual(w, n_rows);
}

/* Apart, where each member computes its own heads. */
static void place_qkv(pf_worker *w)
{
    pf_rows *const places[] = { &w->q, &w->k, &w->v };
    for (int32_t i = 0; i < 3; i++)
        *places[i] = w->c->heads_apart
                         ? apart(w->c->qkv, w->c->n_rows, columns_of(&w->c->model->layers->qkv, w->qkv[i]),
                                 i * w->member.n_threads + w->member.id)
                         : w->c->qkv;
}

/* Queries, keys and values: those of this member's heads, or its part of all, and then they are awaited. */
static void multiply_qkv(pf_worker *w, const pf_linear *qkv, const left_side *rows, const void *input)
{
    if (!w->c->heads_apart) {
        multiply(w, PF_PASS_QKV, qkv, rows, input, w->c->qkv, PF_GEMM_STORE);
        pf_worker_wait(w);
        return;
    }
    const pf_rows out[] = { w->q, w->k, w->v };
    for (int32_t i = 0; i < 3 && pf_worker_calls(w, PF_PASS_QKV); i++)
        multiply_part(w, qkv, (part){ all_rows(rows), w->qkv[i] }, input, out[i], PF_GEMM_STORE);
}

/* ---- the pass -------------------------------------------------------------------------------------------------- */

/* After the last attention only the rows whose logits are wanted go on: move them to the front, each member its columns.
 * A row moves forward or stays, so in order none is overwritten before it has moved. */
static void keep_logit_rows(const pf_worker *w)
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
            float *row = row_of(kept[k].rows, i);
            const float *from = row_of(kept[k].rows, c->logit_rows[i]);
            memmove(row + begin, from + begin, (size_t)(end - begin) * sizeof *row);
        }
    }
    pf_worker_wait(w);
}

/* The first half of a layer: what its rows attend to joins the residual. Behind the last attention only the rows whose logits
 * are wanted go on; false: there are none. */
static bool attention_half(pf_worker *w, int32_t l, left_side *rows)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[l];
    const int32_t n_rows = rows->groups.n_rows;
    const bool drops_rows = l == m->config.n_layers - 1 && c->n_logit_rows < c->n_rows;
    const bool heads_by_columns = w->by_columns && c->heads_apart && !drops_rows;
    w->attended = heads_by_columns ? apart(c->attended, c->n_rows, w->heads, w->member.id) : c->attended;

    const void *input = norm_and_pack(w, rows, layer->attention_norm);
    if (heads_by_columns) claim_columns(w, n_rows, w->heads);
    multiply_qkv(w, &layer->qkv, rows, input);
    claim_residual(w, n_rows);
    pf_worker_attend(w, l);
    if (heads_by_columns) pack_columns(w, PF_PASS_PACK_ATTENDED, w->attended, all_rows(rows), m->q_dim, w->heads);
    pf_worker_wait(w);

    if (drops_rows) {
        if (c->n_logit_rows == 0) return false;
        keep_logit_rows(w);
        *rows = plan_left_side(w, c->n_logit_rows);
    }
    if (heads_by_columns) fetch_columns(w, n_rows, m->q_dim, w->heads);
    input = heads_by_columns ? c->columns : pack(w, PF_PASS_PACK_ATTENDED, rows, c->attended, m->q_dim);
    multiply(w, PF_PASS_O, &layer->o, rows, input, c->x, PF_GEMM_ADD);
    pf_worker_wait(w);
    return true;
}

/* The second: the gated product joins the residual. */
static void gated_half(pf_worker *w, const pf_layer *layer, const left_side *rows)
{
    const pf_context *c = w->c;
    const int32_t n_rows = rows->groups.n_rows, intermediate = c->model->config.intermediate_size;
    const void *input = norm_and_pack(w, rows, layer->mlp_norm);
    const pf_range mine = columns_of(&layer->gate, share_of(w, &layer->gate));
    if (w->by_columns) claim_columns(w, n_rows, mine);
    multiply_gated(w, layer, rows, input, mine);
    pf_worker_wait(w);

    if (w->by_columns) fetch_columns(w, n_rows, intermediate, mine);
    input = w->by_columns ? c->columns : pack(w, PF_PASS_PACK_GATED, rows, c->gate, intermediate);
    multiply(w, PF_PASS_DOWN, &layer->down, rows, input, c->x, PF_GEMM_ADD);
    pf_worker_wait(w);
}

/* A member's share of the rows: their best logits anew. */
static void rescore(const pf_worker *w, const left_side *rows)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_rows normed = normed_rows(w, rows);
    int32_t begin, end;
    pf_team_share(w->member, rows->groups.n_rows, &begin, &end);
    for (int32_t i = begin; i < end && pf_worker_calls(w, PF_PASS_RESCORE); i++)
        w->kernels->rescore(row_of(c->logits, i), m->config.vocab_size, row_of(normed, i), m->head_rows,
                            m->config.hidden_size);
}

/* From the residual of n_rows rows to their logits. */
static void run_head(pf_worker *w, int32_t n_rows)
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
    multiply(w, PF_PASS_HEAD, &m->head, &rows, input, c->logits, PF_GEMM_STORE);
    if (m->head_kind != PF_HEAD_SCREENED) return;
    pf_worker_wait(w);
    rescore(w, &rows);
}

static pf_range attended_columns(const pf_worker *w)
{
    const pf_config *config = &w->c->model->config;
    const int32_t head_columns = config->n_heads / config->n_kv_heads * config->head_dim;
    int32_t begin, end;
    pf_team_share(w->member, config->n_kv_heads, &begin, &end);
    return (pf_range){ begin * head_columns, end * head_columns };
}

void pf_context_run_pass(pf_member member, void *context)
{
    pf_context *c = context;
    const pf_model *m = c->model;
    pf_worker w = {
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
    run_head(&w, rows.groups.n_rows);
}
