/*
 * A thread's part of a product: its share of the panels, or with much work chunk after chunk, of its own share first and then of
 * what another has not begun.
 */
#include <math.h>

#include "kernels/lines.h"
#include "model/forward/worker.h"

pf_range pf_columns_of(const pf_linear *linear, pf_panels panels)
{
    const int32_t n = linear->weights.n, end = panels.end * PF_GEMM_PANEL;
    return (pf_range){ panels.begin * PF_GEMM_PANEL, end < n ? end : n };
}

void pf_multiply_part(const pf_worker *w, const pf_linear *linear, pf_product_part p, const void *input, pf_rows out,
                      pf_gemm_mode mode)
{
    float *c = pf_row(out, p.rows.first_row);
    if (p.panels.begin < p.panels.end)
        w->gemm->multiply(&linear->weights, (const char *)input + pf_row_group_at(p.rows, linear->weights.k),
                          p.rows.n_rows, p.panels.begin, p.panels.end, c, out.stride, mode, w->mine->gemm);

    const pf_range columns = pf_columns_of(linear, p.panels);
    if (linear->bias != NULL)
        for (int32_t i = 0; i < p.rows.n_rows; i++)
            for (int32_t j = columns.begin; j < columns.end; j++)
                c[(size_t)i * out.stride + (size_t)j] += linear->bias[j];
}

pf_panels pf_share_of(const pf_worker *w, const pf_linear *linear)
{
    pf_panels mine;
    pf_team_share(w->member, linear->weights.n_panels, &mine.begin, &mine.end);
    return mine;
}

/* The parts of a product that a thread takes: chunk after chunk of its share of the panels, and then of the others'
 * (base/chunks.h), or its share at once where that is short. Chunks are cut from the panels for the first group of rows, then
 * for the next group. */
typedef struct {
    const pf_linear *linear;
    const pf_left_side *rows;
    bool in_chunks;
    int32_t phase;
    pf_chunks_cut cut;
    bool share_is_taken;
} parts_left;

enum { CHUNK_MULTIPLIES = 1 << 25, FEW_ROWS_BYTES = 1 << 18, FEW_ROWS_CHUNKS = 16 };

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* A chunk takes a tenth of a millisecond, and has half of the panels that are best multiplied in one call, `group`: each call
 * brings the rows through the caches again, which takes the time of a panel where rows are as long as DOWN's. A quarter of the
 * group where a share has few panels. */
static int32_t min_chunk(const pf_linear *linear, int32_t n_rows, int32_t share, int32_t group)
{
    const int64_t panel_multiplies = (int64_t)n_rows * PF_GEMM_PANEL * linear->weights.k;
    const int32_t panels = larger(share / 4 < group / 2 ? share / 4 : group / 2, group / 4);
    return larger((int32_t)(CHUNK_MULTIPLIES / panel_multiplies) + 1, panels);
}

/* Few rows take as long as memory needs for the panels. A chunk has at least a quarter of a megabyte, 10 to 40 us, because a
 * call takes 1 us to reach the full rate of memory. An even number: tiles of 16 rows go through two panels at once. */
static int32_t min_chunk_of_few_rows(const pf_linear *linear, int32_t share)
{
    const int32_t panels = (int32_t)(FEW_ROWS_BYTES / linear->weights.panel_bytes) + 1;
    return (larger(panels, share / FEW_ROWS_CHUNKS) + 1) / 2 * 2;
}

/* A product is not cut into chunks where a share is not much more than the least chunk, as of a small model. */
static parts_left begin_parts(pf_worker *w, const pf_linear *linear, const pf_left_side *rows, int32_t group)
{
    parts_left left = { .linear = linear, .rows = rows };
    if (!pf_worker_has_company(w)) return left;
    if (w->gemm->by_shares) return left;
    const int32_t n_panels = linear->weights.n_panels, n_groups = rows->groups.n_groups;
    const int32_t total = n_panels * n_groups, share = total / w->member.n_threads;
    const bool few = rows->groups.n_rows < PF_CHUNKED_ROWS;
    const int32_t least =
        few ? min_chunk_of_few_rows(linear, share) : min_chunk(linear, rows->groups.group_rows, share, group);
    left.in_chunks = n_groups > 1 || share >= PF_CHUNKS_PER_SHARE * least;
    if (!left.in_chunks) return left;
    left.cut = (pf_chunks_cut){ total, n_panels, least, few ? larger(least, share) : larger(least, group) };
    left.phase = pf_worker_begin_phase(w);
    return left;
}

static bool next_part(const pf_worker *w, parts_left *left, pf_product_part *out)
{
    int32_t begin, end;
    if (left->in_chunks) {
        if (!pf_chunks_take(w->c->chunks, w->member, left->phase, &left->cut, &begin, &end)) return false;
        const int32_t g = begin / left->cut.run, first = g * left->cut.run;
        *out = (pf_product_part){ pf_row_groups_get(&left->rows->groups, g), { begin - first, end - first } };
        return true;
    }
    if (left->share_is_taken) return false;
    left->share_is_taken = true;
    *out = (pf_product_part){ pf_left_side_all(left->rows), pf_share_of(w, left->linear) };
    return out->panels.begin < out->panels.end;
}

void pf_multiply(pf_worker *w, const pf_linear *linear, const pf_left_side *rows, const void *input, pf_rows out,
                 pf_gemm_mode mode)
{
    parts_left left = begin_parts(w, linear, rows, w->gemm->group_panels);
    for (pf_product_part p; next_part(w, &left, &p);) pf_multiply_part(w, linear, p, input, out, mode);
}

void pf_finish_logits(const pf_plan *plan, float *logits, int32_t n)
{
    for (int32_t i = 0; i < n; i++) logits[i] *= plan->logit_scale;
    if (plan->logit_softcap == 0.0f) return;
    for (int32_t i = 0; i < n; i++) logits[i] = plan->logit_softcap * tanhf(logits[i] / plan->logit_softcap);
}

void pf_multiply_logits(pf_worker *w, const pf_left_side *rows, const void *input)
{
    const pf_lm_head *head = &w->c->model->head;
    const pf_plan *plan = &w->c->model->config.plan;
    const bool finishes = pf_plan_changes_logits(plan) && !pf_head_refines(head);
    const pf_rows logits = w->c->logits;
    parts_left left = begin_parts(w, &head->full, rows, w->gemm->group_panels);
    for (pf_product_part p; next_part(w, &left, &p);) {
        pf_multiply_part(w, &head->full, p, input, logits, PF_GEMM_STORE);
        if (!finishes) continue;
        const pf_range columns = pf_columns_of(&head->full, p.panels);
        for (int32_t i = 0; i < p.rows.n_rows; i++)
            pf_finish_logits(plan, pf_row(logits, p.rows.first_row + i) + columns.begin, columns.end - columns.begin);
    }
}

void pf_multiply_own_heads(const pf_worker *w, const pf_linear *qkv, const pf_left_side *rows, const void *input)
{
    const pf_rows out[] = { w->q, w->k, w->v };
    for (int32_t i = 0; i < 3; i++)
        pf_multiply_part(w, qkv, (pf_product_part){ pf_left_side_all(rows), w->qkv[i] }, input, out[i], PF_GEMM_STORE);
}

/* ---- gate and up --------------------------------------------------------------------------------------------------- */

void pf_activate_part(const pf_worker *w, pf_rows gate, pf_rows up, pf_row_group rows, pf_range columns)
{
    const pf_plan *plan = &w->c->model->config.plan;
    const int32_t n_columns = columns.end - columns.begin;
    float *gates = pf_row(gate, rows.first_row) + columns.begin;
    if (plan->gated)
        w->kernels->gated[plan->activation](gates, gate.stride, gates, pf_row(up, rows.first_row) + columns.begin,
                                            gate.stride, rows.n_rows, n_columns);
    else
        w->kernels->activate[plan->activation](gates, gate.stride, gates, gate.stride, rows.n_rows, n_columns);
}

static void multiply_gated_part(const pf_worker *w, const pf_layer *layer, pf_product_part p, const void *input,
                                pf_rows gate, pf_rows up)
{
    const pf_plan *plan = &w->c->model->config.plan;
    const pf_range columns = pf_columns_of(&layer->up, p.panels);
    if (plan->gated) pf_multiply_part(w, &layer->gate, p, input, gate, PF_GEMM_STORE);
    pf_multiply_part(w, &layer->up, p, input, plan->gated ? up : gate, PF_GEMM_STORE);
    pf_worker_claim_residual(w, p.rows.n_rows);
    pf_activate_part(w, gate, up, p.rows, columns);
    if (w->by_columns) pf_left_side_pack_columns(w, w->c->gated_columns, gate, p.rows, layer->down.weights.k, columns);
}

/* The same where gate and up are one call: threads' columns are then nowhere but in the packed rows. */
static void multiply_gated_at_once(const pf_worker *w, const pf_layer *layer, pf_product_part p, const void *input)
{
    const int32_t k = layer->gate.weights.k;
    const pf_rows gate = w->c->gate;
    const pf_gemm_gated out = { w->kernels->gated[w->c->model->config.plan.activation],
                                (char *)w->c->gated_columns + pf_row_group_at(p.rows, layer->down.weights.k),
                                pf_row(gate, p.rows.first_row), gate.stride };
    w->gemm->multiply_gated(&layer->gate.weights, &layer->up.weights, (const char *)input + pf_row_group_at(p.rows, k),
                            p.rows.n_rows, p.panels.begin, p.panels.end, &out, w->mine->gemm);
}

static bool gates_at_once(const pf_worker *w, const pf_layer *layer, int32_t n_rows)
{
    return w->c->model->config.plan.gated && pf_gemm_gates_at_once(w->gemm, n_rows) && layer->gate.bias == NULL &&
           layer->up.bias == NULL;
}

void pf_multiply_gated(pf_worker *w, const pf_layer *layer, const pf_left_side *rows, const void *input, pf_range mine)
{
    const int32_t n_rows = rows->groups.n_rows;
    parts_left left = begin_parts(w, &layer->up, rows, w->gemm->group_panels / 2);
    pf_rows gate = w->c->gate, up = w->c->up;
    if (w->by_columns && !left.in_chunks) {
        gate = pf_worker_apart(gate, n_rows, mine, w->member.id);
        up = pf_worker_apart(up, n_rows, mine, w->member.id);
    }
    const bool at_once = gates_at_once(w, layer, n_rows);
    for (pf_product_part p; next_part(w, &left, &p);)
        if (at_once)
            multiply_gated_at_once(w, layer, p, input);
        else
            multiply_gated_part(w, layer, p, input, gate, up);
    if (at_once) pf_worker_claim_residual(w, n_rows);
}
