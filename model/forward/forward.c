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

/* Column j of a packed left side of n_rows rows. */
static const char *packed_column(const pf_worker *w, const void *packed, int32_t n_rows, int32_t j)
{
    return (const char *)packed + (size_t)j * (size_t)n_rows * (size_t)w->gemm->packed_value_bytes;
}

static void claim_columns(const pf_worker *w, const void *packed, int32_t n_rows, pf_range mine)
{
    if (passes_lines(w, n_rows))
        pf_lines_claim_bytes(packed_column(w, packed, n_rows, mine.begin), packed_column(w, packed, n_rows, mine.end));
}

static void fetch_columns(const pf_worker *w, const void *packed, int32_t n_rows, int32_t k, pf_range mine)
{
    if (!passes_lines(w, n_rows)) return;
    pf_lines_fetch_bytes(packed_column(w, packed, n_rows, 0), packed_column(w, packed, n_rows, mine.begin));
    pf_lines_fetch_bytes(packed_column(w, packed, n_rows, mine.end), packed_column(w, packed, n_rows, k));
}

/* Where the next product of a block goes. */
static pf_rows result_of_block(const pf_worker *w)
{
    return w->c->joins_late ? w->c->results[w->n_late] : w->c->x;
}

void pf_worker_claim_residual(const pf_worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    const pf_rows to = result_of_block(w);
    pf_lines_claim(to.data, to.stride, n_rows, w->residual.begin, w->residual.end);
}

/* The lines that others have written. */
static void fetch_residual(const pf_worker *w, int32_t n_rows)
{
    if (!passes_lines(w, n_rows)) return;
    const pf_rows x = w->n_late > 0 ? w->late[w->n_late - 1].rows : w->x;
    pf_lines_fetch(x.data, x.stride, n_rows, 0, w->residual.begin);
    pf_lines_fetch(x.data, x.stride, n_rows, w->residual.end, w->c->model->config.hidden_size);
}

/* ---- the left side of a product ------------------------------------------------------------------------------------ */

static const void *await_input(const pf_worker *w, const pf_left_side *a)
{
    if (a->shared) pf_worker_wait(w);
    return pf_left_side_input(w, a);
}

/* Norm the rows of x, which late results join first, and pack them, each tile while it is in the cache. norm NULL: pack x. */
static const void *norm_and_pack(pf_worker *w, const pf_left_side *a, const pf_norm_weights *norm)
{
    const int32_t hidden = w->c->model->config.hidden_size;
    const pf_rows x = w->n_late > 0 ? pf_left_side_joined(w, a) : w->x;
    const pf_rows packed = norm != NULL ? pf_left_side_normed(w, a) : x;
    fetch_residual(w, a->groups.n_rows);
    for (int32_t t = a->tile_begin; t < a->tile_end; t++) {
        if (w->n_late > 0) pf_left_side_join(w, a, t, x);
        if (norm != NULL) pf_left_side_norm(w, a, t, x, norm);
        pf_left_side_pack(w, a, t, t + 1, packed, hidden);
    }
    w->x = x;
    w->n_late = 0;
    return await_input(w, a);
}

static const void *pack(const pf_worker *w, const pf_left_side *a, pf_rows rows, int32_t k)
{
    pf_left_side_pack(w, a, a->tile_begin, a->tile_end, rows, k);
    return await_input(w, a);
}

/* ---- the pass ------------------------------------------------------------------------------------------------------ */

static void multiply_qkv(pf_worker *w, int32_t l, const pf_left_side *rows, const void *input)
{
    const pf_linear *qkv = &w->c->model->layers[l].qkv;
    if (w->c->heads_apart) {
        pf_multiply_own_heads(w, qkv, rows, input);
        return;
    }
    pf_multiply(w, qkv, rows, input, w->c->qkv, PF_GEMM_STORE);
    pf_worker_wait(w);
    if (w->c->model->config.plan.head_norm != PF_HEAD_NORM_WHOLE) return;
    pf_attend_norm_whole(w, l);
    pf_worker_wait(w);
}

/* After the last attention only the rows with wanted logits go on: move them to the front, each member its columns; all
 * columns of a residual stream that is its own. A row moves forward or stays, so in order none is overwritten before it has
 * moved. */
static void keep_logit_rows(const pf_worker *w)
{
    const pf_context *c = w->c;
    const struct {
        pf_rows rows;
        int32_t n_columns;
        bool is_own;
    } kept[] = { { w->x, c->model->config.hidden_size, w->x.data != c->x.data },
                 { c->attended, c->model->q_dim, false } };
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        int32_t begin = 0, end = kept[k].n_columns;
        if (!kept[k].is_own) pf_team_share(w->member, kept[k].n_columns, &begin, &end);
        for (int32_t i = 0; i < c->n_logit_rows; i++) {
            float *row = pf_row(kept[k].rows, i);
            const float *from = pf_row(kept[k].rows, c->logit_rows[i]);
            memmove(row + begin, from + begin, (size_t)(end - begin) * sizeof *row);
        }
    }
    pf_worker_wait(w);
}

/* The product that a block ends with joins the residual: at once, or when x is read next. */
static void join_product(pf_worker *w, const pf_linear *linear, const pf_left_side *rows, const void *input,
                         const pf_norm_weights *norm)
{
    const bool is_late = w->c->joins_late;
    const pf_rows to = result_of_block(w);
    pf_multiply(w, linear, rows, input, to, is_late ? PF_GEMM_STORE : PF_GEMM_ADD);
    if (is_late) w->late[w->n_late++] = (pf_late_join){ to, norm };
    pf_worker_wait(w);
}

static const pf_norm_weights *input_norm(const pf_worker *w, const pf_norm_weights *norm)
{
    return w->c->model->config.plan.pre_norm ? norm : NULL;
}

/* The first half of a block of attention: what O multiplies. After the last attention only the rows with wanted logits go on;
 * false: there are none. heads_by_columns: it is packed already. */
static bool attend(pf_worker *w, int32_t l, pf_left_side *rows, bool *heads_by_columns)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const int32_t n_rows = rows->groups.n_rows;
    const bool drops_rows = l == m->config.n_layers - 1 && c->n_logit_rows < c->n_rows;
    const bool by_columns = w->by_columns && c->heads_apart && !drops_rows;
    w->attended = by_columns ? pf_worker_apart(c->attended, c->n_rows, w->heads, w->member.id) : c->attended;
    *heads_by_columns = by_columns;

    const void *input = norm_and_pack(w, rows, input_norm(w, &m->layers[l].attention_norm));
    if (by_columns) claim_columns(w, c->attended_columns, n_rows, w->heads);
    multiply_qkv(w, l, rows, input);
    pf_worker_claim_residual(w, n_rows);
    pf_worker_attend(w, l);
    if (by_columns)
        pf_left_side_pack_columns(w, c->attended_columns, w->attended, pf_left_side_all(rows), m->q_dim, w->heads);
    pf_worker_wait(w);

    if (!drops_rows) return true;
    if (c->n_logit_rows == 0) return false;
    keep_logit_rows(w);
    *rows = pf_left_side_of(w, c->n_logit_rows, true);
    return true;
}

/* The second half: attention joins the residual. */
static void join_attention(pf_worker *w, int32_t l, const pf_left_side *rows, bool heads_by_columns)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[l];
    if (heads_by_columns) fetch_columns(w, c->attended_columns, rows->groups.n_rows, m->q_dim, w->heads);
    const void *input = heads_by_columns ? c->attended_columns : pack(w, rows, c->attended, m->q_dim);
    join_product(w, &layer->o, rows, input, &layer->attention_post);
}

/* The first half of a feed-forward block: what DOWN multiplies. */
static void activate(pf_worker *w, const pf_layer *layer, const pf_left_side *rows, const pf_norm_weights *norm)
{
    const pf_context *c = w->c;
    const void *input = norm_and_pack(w, rows, norm);
    const pf_range mine = pf_columns_of(&layer->up, pf_share_of(w, &layer->up));
    if (w->by_columns) claim_columns(w, c->gated_columns, rows->groups.n_rows, mine);
    pf_multiply_gated(w, layer, rows, input, mine);
    pf_worker_wait(w);
}

/* The second half: it joins the residual. */
static void join_activated(pf_worker *w, const pf_layer *layer, const pf_left_side *rows)
{
    const pf_context *c = w->c;
    const int32_t n_rows = rows->groups.n_rows, intermediate = layer->down.weights.k;
    const pf_range mine = pf_columns_of(&layer->up, pf_share_of(w, &layer->up));
    if (w->by_columns) fetch_columns(w, c->gated_columns, n_rows, intermediate, mine);
    const void *input = w->by_columns ? c->gated_columns : pack(w, rows, c->gate, intermediate);
    join_product(w, &layer->down, rows, input, &layer->mlp_post);
}

/* A feed-forward block of experts, in halves likewise. The router's product is in F32. */
static void run_experts(pf_worker *w, int32_t l, int32_t n_rows, const pf_norm_weights *norm)
{
    const pf_gemm *gemm = w->gemm;
    w->gemm = &w->kernels->gemm[PF_FORMAT_F32][PF_ACT_F32];
    const pf_left_side rows = pf_left_side_of(w, n_rows, true);
    const void *input = norm_and_pack(w, &rows, norm);
    const pf_rows normed = norm != NULL ? pf_left_side_normed(w, &rows) : w->x;
    pf_worker_route(w, l, &rows, input);
    w->gemm = gemm;
    pf_worker_run_experts(w, l, n_rows, normed);
}

static void join_experts(pf_worker *w, int32_t l, int32_t n_rows)
{
    const bool is_late = w->c->joins_late;
    const pf_rows to = result_of_block(w);
    pf_worker_sum_experts(w, n_rows, to, is_late ? PF_GEMM_STORE : PF_GEMM_ADD);
    if (is_late) w->late[w->n_late++] = (pf_late_join){ to, &w->c->model->layers[l].mlp_post };
    pf_worker_wait(w);
}

/* Attention joins the residual before the feed-forward block reads it, or in parallel plans behind that. False: no row goes on. */
static bool run_layer(pf_worker *w, int32_t l, pf_left_side *rows)
{
    const pf_plan *plan = &w->c->model->config.plan;
    const pf_layer *layer = &w->c->model->layers[l];
    const bool has_experts = pf_config_layer(&w->c->model->config, l)->experts;
    const pf_norm_weights *norm = input_norm(w, plan->one_norm ? &layer->attention_norm : &layer->mlp_norm);
    bool heads_by_columns;
    if (!attend(w, l, rows, &heads_by_columns) || w->c->given_up) return false;
    if (!plan->parallel) join_attention(w, l, rows, heads_by_columns);
    if (has_experts)
        run_experts(w, l, rows->groups.n_rows, norm);
    else
        activate(w, layer, rows, norm);
    if (plan->parallel) join_attention(w, l, rows, heads_by_columns);
    if (has_experts)
        join_experts(w, l, rows->groups.n_rows);
    else
        join_activated(w, layer, rows);
    return true;
}

/* ---- both ends ----------------------------------------------------------------------------------------------------- */

/* The embedded rows become the residual stream where they are shorter or longer than it. */
static void project_embedding(pf_worker *w, const pf_left_side *rows)
{
    const pf_context *c = w->c;
    int32_t begin, end;
    const void *input = pack(w, rows, c->embedded, c->model->config.embedding_size);
    pf_multiply(w, &c->model->project_in, rows, input, c->x, PF_GEMM_STORE);
    pf_worker_wait(w);
    pf_team_share(w->member, c->n_rows, &begin, &end);
    pf_context_finish_embedding(c, begin, end);
    pf_worker_wait(w);
}

/* What the head multiplies, packed for it; *normed: the same rows. */
static const void *head_input(pf_worker *w, pf_left_side *rows, int32_t n_rows, pf_rows *normed)
{
    const pf_context *c = w->c;
    const pf_model *m = c->model;
    const pf_norm_weights *norm = m->config.plan.final_norm ? &m->final_norm : NULL;
    const bool projects = m->project_out.weights.n > 0;
    if (projects) {
        *rows = pf_left_side_of(w, n_rows, true);
        pf_multiply(w, &m->project_out, rows, norm_and_pack(w, rows, norm), c->projected, PF_GEMM_STORE);
        pf_worker_wait(w);
    }
    w->gemm = pf_head_gemm(&m->head);
    *rows = pf_left_side_of(w, n_rows, true);
    if (projects) {
        *normed = c->projected;
        return pack(w, rows, c->projected, m->config.embedding_size);
    }
    const void *input = norm_and_pack(w, rows, norm);
    *normed = norm != NULL ? pf_left_side_normed(w, rows) : w->x;
    return input;
}

/* From the residual of n_rows rows to their logits, or to the best tokens alone. */
static void run_head(pf_worker *w, int32_t n_rows)
{
    pf_context *c = w->c;
    const pf_model *m = c->model;
    pf_left_side rows;
    pf_rows normed;
    const void *input = head_input(w, &rows, n_rows, &normed);
    const pf_head_rows of_head = { .member = w->member,
                                   .n_rows = n_rows,
                                   .normed = normed,
                                   .input = input,
                                   .logits = c->logits,
                                   .scratch = w->mine->gemm };
    if (pf_head_gives_best(&c->head)) {
        pf_head_find_best(&m->head, &c->head, &of_head);
        return;
    }
    pf_multiply_logits(w, &rows, input);
    if (!pf_head_refines(&m->head)) return;
    pf_worker_wait(w);
    pf_head_refine(&m->head, &of_head);
    if (!pf_plan_changes_logits(&m->config.plan)) return;
    int32_t begin, end;
    pf_team_share(w->member, n_rows, &begin, &end); /* as pf_head_refine shares them */
    for (int32_t i = begin; i < end; i++) pf_finish_logits(&m->config.plan, pf_row(c->logits, i), m->config.vocab_size);
}

void pf_context_run_pass(pf_member member, void *context)
{
    pf_context *c = context;
    const pf_model *m = c->model;
    pf_worker w = pf_worker_of(c, member);
    pf_left_side rows = pf_left_side_of(&w, c->n_rows, true);
    if (m->project_in.weights.n > 0) project_embedding(&w, &rows);
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        if (member.id == 0 && c->stop) c->given_up = pf_stop_is_due(c->stop);
        if (!run_layer(&w, l, &rows)) return;
    }
    run_head(&w, rows.groups.n_rows);
}
