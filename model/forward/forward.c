/*
 * The forward pass: from the embedded rows of a pass to logits. One path for prefill, decode and verification.
 *
 * Every thread of the pass runs it and computes its share: of the panels of a product, of the heads of attention. Between two
 * phases that read what others wrote stands a barrier; nothing else waits.
 */
#include <string.h>

#include "kernels/lines.h"
#include "model/forward/worker.h"

/* ---- lines that pass from core to core (kernels/lines.h), where rows are a single tile ----------------------------- */

static bool passes_lines(const pf_worker *w, int32_t n_rows)
{
    return n_rows <= w->gemm->tile_rows && pf_worker_has_company(w);
}

/* Column j of the packed left side of n_rows rows. */
static const char *packed_column(const pf_worker *w, int32_t n_rows, int32_t j)
{
    return (const char *)w->c->columns + (size_t)j * (size_t)n_rows * (size_t)w->gemm->packed_value_bytes;
}

static void claim_columns(const pf_worker *w, int32_t n_rows, pf_range mine)
{
    if (passes_lines(w, n_rows))
        pf_lines_claim_bytes(packed_column(w, n_rows, mine.begin), packed_column(w, n_rows, mine.end));
}

static void fetch_columns(const pf_worker *w, int32_t n_rows, int32_t k, pf_range mine)
{
    if (!passes_lines(w, n_rows)) return;
    pf_lines_fetch_bytes(packed_column(w, n_rows, 0), packed_column(w, n_rows, mine.begin));
    pf_lines_fetch_bytes(packed_column(w, n_rows, mine.end), packed_column(w, n_rows, k));
}

void pf_worker_claim_residual(const pf_worker *w, int32_t n_rows)
{
    const pf_rows x = w->c->x;
    if (passes_lines(w, n_rows)) pf_lines_claim(x.data, x.stride, n_rows, w->residual.begin, w->residual.end);
}

static void fetch_residual(const pf_worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    const pf_rows x = w->c->x;
    pf_lines_fetch(x.data, x.stride, n_rows, 0, w->residual.begin);
    pf_lines_fetch(x.data, x.stride, n_rows, w->residual.end, w->c->model->config.hidden_size);
}

/* ---- the left side of a product ------------------------------------------------------------------------------------ */

static const void *await_input(const pf_worker *w, const pf_left_side *a)
{
    if (a->shared) pf_worker_wait(w);
    return pf_left_side_input(w, a);
}

/* Norm the rows of x and pack them, each tile while it is in the cache. */
static const void *norm_and_pack(const pf_worker *w, const pf_left_side *a, const float *weight)
{
    const int32_t hidden = w->c->model->config.hidden_size;
    fetch_residual(w, a->groups.n_rows);
    for (int32_t t = a->tile_begin; t < a->tile_end; t++) {
        pf_left_side_norm(w, a, t, weight);
        pf_left_side_pack(w, a, t, t + 1, pf_left_side_normed(w, a), hidden);
    }
    return await_input(w, a);
}

static const void *pack(const pf_worker *w, const pf_left_side *a, pf_rows rows, int32_t k)
{
    pf_left_side_pack(w, a, a->tile_begin, a->tile_end, rows, k);
    return await_input(w, a);
}

/* ---- the pass ------------------------------------------------------------------------------------------------------ */

static void multiply_qkv(pf_worker *w, const pf_linear *qkv, const pf_left_side *rows, const void *input)
{
    if (w->c->heads_apart) {
        pf_multiply_own_heads(w, qkv, rows, input);
        return;
    }
    pf_multiply(w, qkv, rows, input, w->c->qkv, PF_GEMM_STORE);
    pf_worker_wait(w);
}

/* After the last attention only the rows with wanted logits go on: move them to the front, each member its columns.
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
            float *row = pf_row(kept[k].rows, i);
            const float *from = pf_row(kept[k].rows, c->logit_rows[i]);
            memmove(row + begin, from + begin, (size_t)(end - begin) * sizeof *row);
        }
    }
    pf_worker_wait(w);
}

/* The first half of a layer: attention joins the residual. After the last attention only the rows with wanted logits go
 * on; false: there are none. */
static bool attention_half(pf_worker *w, int32_t l, pf_left_side *rows)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[l];
    const int32_t n_rows = rows->groups.n_rows;
    const bool drops_rows = l == m->config.n_layers - 1 && c->n_logit_rows < c->n_rows;
    const bool heads_by_columns = w->by_columns && c->heads_apart && !drops_rows;
    w->attended = heads_by_columns ? pf_worker_apart(c->attended, c->n_rows, w->heads, w->member.id) : c->attended;

    const void *input = norm_and_pack(w, rows, layer->attention_norm.weight);
    if (heads_by_columns) claim_columns(w, n_rows, w->heads);
    multiply_qkv(w, &layer->qkv, rows, input);
    pf_worker_claim_residual(w, n_rows);
    pf_worker_attend(w, l);
    if (heads_by_columns) pf_left_side_pack_columns(w, w->attended, pf_left_side_all(rows), m->q_dim, w->heads);
    pf_worker_wait(w);

    if (drops_rows) {
        if (c->n_logit_rows == 0) return false;
        keep_logit_rows(w);
        *rows = pf_left_side_of(w, c->n_logit_rows, true);
    }
    if (heads_by_columns) fetch_columns(w, n_rows, m->q_dim, w->heads);
    input = heads_by_columns ? c->columns : pack(w, rows, c->attended, m->q_dim);
    pf_multiply(w, &layer->o, rows, input, c->x, PF_GEMM_ADD);
    pf_worker_wait(w);
    return true;
}

/* The second half: the gated product joins the residual. */
static void gated_half(pf_worker *w, const pf_layer *layer, const pf_left_side *rows)
{
    const pf_context *c = w->c;
    const int32_t n_rows = rows->groups.n_rows, intermediate = c->model->config.intermediate_size;
    const void *input = norm_and_pack(w, rows, layer->mlp_norm.weight);
    const pf_range mine = pf_columns_of(&layer->gate, pf_share_of(w, &layer->gate));
    if (w->by_columns) claim_columns(w, n_rows, mine);
    pf_multiply_gated(w, layer, rows, input, mine);
    pf_worker_wait(w);

    if (w->by_columns) fetch_columns(w, n_rows, intermediate, mine);
    input = w->by_columns ? c->columns : pack(w, rows, c->gate, intermediate);
    pf_multiply(w, &layer->down, rows, input, c->x, PF_GEMM_ADD);
    pf_worker_wait(w);
}

/* From the residual of n_rows rows to their logits, or to the best tokens alone. */
static void run_head(pf_worker *w, int32_t n_rows)
{
    pf_context *c = w->c;
    const pf_lm_head *head = &c->model->head;
    w->gemm = pf_head_gemm(head);
    const pf_left_side rows = pf_left_side_of(w, n_rows, true);
    const void *input = norm_and_pack(w, &rows, c->model->final_norm.weight);
    const pf_head_rows of_head = { .member = w->member,
                                   .n_rows = n_rows,
                                   .normed = pf_left_side_normed(w, &rows),
                                   .input = input,
                                   .logits = c->logits,
                                   .scratch = w->mine->gemm };
    if (pf_head_gives_best(&c->head)) {
        pf_head_find_best(head, &c->head, &of_head);
        return;
    }
    pf_multiply(w, &head->full, &rows, input, c->logits, PF_GEMM_STORE);
    if (!pf_head_refines(head)) return;
    pf_worker_wait(w);
    pf_head_refine(head, &of_head);
}

void pf_context_run_pass(pf_member member, void *context)
{
    pf_context *c = context;
    const pf_model *m = c->model;
    pf_worker w = pf_worker_of(c, member);
    pf_left_side rows = pf_left_side_of(&w, c->n_rows, true);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        if (member.id == 0 && c->stop) c->given_up = pf_stop_is_due(c->stop);
        if (!attention_half(&w, l, &rows) || c->given_up) return;
        gated_half(&w, &m->layers[l], &rows);
    }
    run_head(&w, rows.groups.n_rows);
}
