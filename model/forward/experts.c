/*
 * Feed-forward blocks of experts: each row goes through a few of many gated products.
 *
 *      router's product | choose, sort by expert | gather, pack | gate, up, activate | pack | down | sum       a barrier at each |
 *
 * The rows of an expert are multiplied together, so its weights are read once for all rows of a pass. Threads share the panels of
 * all experts as one sequence, weighed by the rows that each expert has. A row's results are added in the order of its experts,
 * the shared expert last, so that its bits depend on that row alone.
 */
#include <string.h>

#include "model/forward/worker.h"

/* One expert, or the shared one, with its rows in the buffers. */
typedef struct {
    const pf_linear *gate, *up, *down;
    int32_t n_rows;
    const int32_t *row_of; /* [n_rows] of the pass; NULL: all, in order */
    pf_rows rows;          /* [n_rows, hidden] gathered; NULL data: they are not gathered */
    pf_rows gates, ups;    /* [n_rows, its size] */
    pf_rows result;        /* [n_rows, hidden] */
    char *packed;          /* its left sides */
} expert;

static int32_t count_experts(const pf_worker *w)
{
    const pf_plan *plan = &w->c->model->config.plan;
    return plan->n_experts + (plan->shared_size > 0 ? 1 : 0);
}

static pf_rows rows_from(pf_rows rows, int32_t first)
{
    return (pf_rows){ pf_row(rows, first), rows.stride };
}

static expert shared_expert(const pf_worker *w, const pf_layer *layer, int32_t n_rows)
{
    const pf_context *c = w->c;
    return (expert){ .gate = &layer->shared_gate,
                     .up = &layer->shared_up,
                     .down = &layer->shared_down,
                     .n_rows = n_rows,
                     .gates = c->gate,
                     .ups = c->up,
                     .result = c->experts.shared,
                     .packed = c->input };
}

/* Left sides lie at multiples of the bytes of sixteen rows, as far apart as their rows and one more sixteen each. */
static expert get_expert(const pf_worker *w, const pf_layer *layer, int32_t e, int32_t n_rows)
{
    const pf_expert_buffers *b = &w->c->experts;
    if (e == w->c->model->config.plan.n_experts) return shared_expert(w, layer, n_rows);
    const pf_linear *matrices = &layer->experts[e * PF_EXPERT_MATRICES];
    const int32_t first = b->routing.first[e];
    return (expert){ .gate = &matrices[0],
                     .up = &matrices[1],
                     .down = &matrices[2],
                     .n_rows = b->routing.first[e + 1] - first,
                     .row_of = b->routing.rows + first,
                     .rows = rows_from(b->rows, first),
                     .gates = rows_from(b->gate, first),
                     .ups = rows_from(b->up, first),
                     .result = rows_from(b->rows, first),
                     .packed = (char *)b->input + (size_t)(first / PF_SIXTEEN_ROWS + e) * b->sixteen_bytes };
}

/* ---- the router ---------------------------------------------------------------------------------------------------- */

/* The choice of few rows is not worth sharing. */
enum { SHARED_CHOICE_ROWS = 16 };

void pf_worker_route(pf_worker *w, int32_t layer, const pf_left_side *rows, const void *input)
{
    pf_context *c = w->c;
    const pf_plan *plan = &c->model->config.plan;
    const int32_t n_rows = rows->groups.n_rows;
    pf_multiply(w, &c->model->layers[layer].router, rows, input, c->experts.logits, PF_GEMM_STORE);
    pf_worker_wait(w);
    if (n_rows >= SHARED_CHOICE_ROWS) {
        int32_t begin, end;
        pf_team_share(w->member, n_rows, &begin, &end);
        pf_routing_choose(plan, c->experts.logits, begin, end, &c->experts.routing);
        pf_worker_wait(w);
    } else if (w->member.id == 0) {
        pf_routing_choose(plan, c->experts.logits, 0, n_rows, &c->experts.routing);
    }
    if (w->member.id == 0) pf_routing_sort(plan, n_rows, &c->experts.routing);
    pf_worker_wait(w);
}

/* ---- left sides ---------------------------------------------------------------------------------------------------- */

/* Packs some tiles of an expert's rows. */
typedef void pack_fn(const pf_worker *w, const expert *x, pf_rows normed, int32_t tile_begin, int32_t tile_end);

static void pack_rows(const pf_worker *w, const expert *x, pf_rows rows, int32_t k, int32_t tile_begin,
                      int32_t tile_end)
{
    w->gemm->pack(x->packed, rows.data, rows.stride, x->n_rows, k, tile_begin, tile_end);
}

static void gather_and_pack(const pf_worker *w, const expert *x, pf_rows normed, int32_t tile_begin, int32_t tile_end)
{
    const int32_t hidden = x->up->weights.k, n_tiles = pf_gemm_tiles(w->gemm->tile_rows, x->n_rows);
    if (x->row_of == NULL) {
        pack_rows(w, x, normed, hidden, tile_begin, tile_end);
        return;
    }
    const int32_t end = pf_gemm_tile_row(n_tiles, x->n_rows, tile_end);
    for (int32_t i = pf_gemm_tile_row(n_tiles, x->n_rows, tile_begin); i < end; i++)
        memcpy(pf_row(x->rows, i), pf_row(normed, x->row_of[i]), (size_t)hidden * sizeof(float));
    pack_rows(w, x, x->rows, hidden, tile_begin, tile_end);
}

static void pack_activated(const pf_worker *w, const expert *x, pf_rows normed, int32_t tile_begin, int32_t tile_end)
{
    (void)normed;
    pack_rows(w, x, x->gates, x->down->weights.k, tile_begin, tile_end);
}

/* This thread's share of the tiles of all experts. */
static void pack_share(const pf_worker *w, const pf_layer *layer, int32_t n_rows, pf_rows normed, pack_fn *pack)
{
    const int32_t n_experts = count_experts(w), tile_rows = w->gemm->tile_rows;
    int32_t n_tiles = 0, begin, end;
    for (int32_t e = 0; e < n_experts; e++) n_tiles += pf_gemm_tiles(tile_rows, get_expert(w, layer, e, n_rows).n_rows);
    pf_team_share(w->member, n_tiles, &begin, &end);
    for (int32_t e = 0, first = 0; e < n_experts; e++) {
        const expert x = get_expert(w, layer, e, n_rows);
        const int32_t n = pf_gemm_tiles(tile_rows, x.n_rows);
        const int32_t from = begin > first ? begin - first : 0, to = end - first < n ? end - first : n;
        if (from < to) pack(w, &x, normed, from, to);
        first += n;
    }
}

/* ---- products ------------------------------------------------------------------------------------------------------ */

typedef void multiply_fn(const pf_worker *w, const expert *x, pf_panels panels);

static void multiply_up(const pf_worker *w, const expert *x, pf_panels panels)
{
    const bool gated = w->c->model->config.plan.gated;
    const pf_product_part part = { { 0, x->n_rows }, panels };
    if (gated) pf_multiply_part(w, x->gate, part, x->packed, x->gates, PF_GEMM_STORE);
    pf_multiply_part(w, x->up, part, x->packed, gated ? x->ups : x->gates, PF_GEMM_STORE);
    pf_activate_part(w, x->gates, x->ups, part.rows, pf_columns_of(x->up, panels));
}

static void multiply_down(const pf_worker *w, const expert *x, pf_panels panels)
{
    pf_multiply_part(w, x->down, (pf_product_part){ { 0, x->n_rows }, panels }, x->packed, x->result, PF_GEMM_STORE);
}

/* A panel takes as long as memory needs for it, or as the multiplications of its rows: in rows. */
static int64_t panel_cost(const expert *x)
{
    enum { FETCH_ROWS = 8 };
    return x->n_rows > 0 ? x->n_rows + FETCH_ROWS : 0;
}

static int32_t panels_of(const expert *x, multiply_fn *multiply)
{
    return multiply == multiply_down ? x->down->weights.n_panels : x->up->weights.n_panels;
}

/* The panels of an expert that begin before `cost`, where the expert's first one begins at `first`. */
static int32_t panels_before(int64_t cost, int64_t first, int64_t of_panel, int32_t n_panels)
{
    const int64_t n = cost <= first ? 0 : (cost - first + of_panel - 1) / of_panel;
    return n < n_panels ? (int32_t)n : n_panels;
}

/* This thread's share of the panels of all experts. */
static void multiply_share(const pf_worker *w, const pf_layer *layer, int32_t n_rows, multiply_fn *multiply)
{
    const int32_t n_experts = count_experts(w);
    const int64_t id = w->member.id, n_threads = w->member.n_threads;
    int64_t total = 0, first = 0;
    for (int32_t e = 0; e < n_experts; e++) {
        const expert x = get_expert(w, layer, e, n_rows);
        total += panels_of(&x, multiply) * panel_cost(&x);
    }
    const int64_t begin = total * id / n_threads, end = total * (id + 1) / n_threads;
    for (int32_t e = 0; e < n_experts; e++) {
        const expert x = get_expert(w, layer, e, n_rows);
        const int32_t n_panels = panels_of(&x, multiply);
        const int64_t cost = panel_cost(&x);
        if (cost == 0) continue;
        const pf_panels mine = { panels_before(begin, first, cost, n_panels),
                                 panels_before(end, first, cost, n_panels) };
        if (mine.begin < mine.end) multiply(w, &x, mine);
        first += n_panels * cost;
    }
}

void pf_worker_multiply_experts(const pf_worker *w, const pf_layer *layer, int32_t n_rows)
{
    multiply_share(w, layer, n_rows, multiply_up);
    multiply_share(w, layer, n_rows, multiply_down);
}

size_t pf_worker_expert_bytes(const pf_context *c, const pf_layer *layer)
{
    const int32_t *first = c->experts.routing.first;
    size_t bytes = pf_linear_panel_bytes(&layer->shared_gate) + pf_linear_panel_bytes(&layer->shared_up) +
                   pf_linear_panel_bytes(&layer->shared_down);
    for (int32_t e = 0; e < c->model->config.plan.n_experts; e++)
        for (int32_t i = 0; i < PF_EXPERT_MATRICES && first[e] < first[e + 1]; i++)
            bytes += pf_linear_panel_bytes(&layer->experts[e * PF_EXPERT_MATRICES + i]);
    return bytes;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------- */

void pf_worker_run_experts(pf_worker *w, int32_t layer, int32_t n_rows, pf_rows normed)
{
    const pf_layer *l = &w->c->model->layers[layer];
    pack_share(w, l, n_rows, normed, gather_and_pack);
    pf_worker_wait(w);
    multiply_share(w, l, n_rows, multiply_up);
    pf_worker_wait(w);
    pack_share(w, l, n_rows, normed, pack_activated);
    pf_worker_wait(w);
    multiply_share(w, l, n_rows, multiply_down);
    pf_worker_wait(w);
}

static void add_weighted(float *sum, const float *result, float weight, int32_t n)
{
    for (int32_t j = 0; j < n; j++) sum[j] += weight * result[j];
}

/* Some columns of what the experts of a row give, weighed. */
static void sum_row(const pf_worker *w, int32_t row, int32_t column, int32_t n, float *sum)
{
    const pf_expert_buffers *b = &w->c->experts;
    const pf_plan *plan = &w->c->model->config.plan;
    const size_t first = (size_t)row * (size_t)plan->n_experts_used;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (size_t i = first; i < first + (size_t)plan->n_experts_used; i++)
        add_weighted(sum, pf_row(b->rows, b->routing.places[i]) + column, b->routing.weights[i], n);
    if (plan->shared_size > 0) add_weighted(sum, pf_row(b->shared, row) + column, b->routing.shared[row], n);
}

void pf_worker_sum_experts(const pf_worker *w, int32_t n_rows, pf_rows to, pf_gemm_mode mode)
{
    enum { BLOCK = 256 };
    float sum[BLOCK];
    for (int32_t i = 0; i < n_rows; i++)
        for (int32_t column = w->residual.begin; column < w->residual.end; column += BLOCK) {
            const int32_t left = w->residual.end - column, n = left < BLOCK ? left : BLOCK;
            float *out = pf_row(to, i) + column;
            sum_row(w, i, column, n, sum);
            for (int32_t j = 0; j < n; j++) out[j] = mode == PF_GEMM_ADD ? out[j] + sum[j] : sum[j];
        }
}
