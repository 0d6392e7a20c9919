#include "model/forward/pass_kernels.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "model/forward/worker.h"

/* ---- running ------------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_context *context;
    pf_pass_kernel kernel;
    int32_t n_passes;
    uint32_t matrices;
    pf_read_fn *read;
} job;

static uint64_t time_by_members(const pf_context *c, pf_team_fn *fn, job *arg)
{
    const uint64_t begin_ns = pf_now_ns();
    pf_context_run_members(c, fn, arg);
    return pf_now_ns() - begin_ns;
}

/* One kernel of a pass, as a thread runs it. */
typedef struct {
    pf_worker w;
    pf_pass_kernel kernel;
    pf_left_side all, wanted; /* rows: of the pass, and those with wanted logits */
} piece;

/* NULL: the plan has no such norm. */
static void norm(const piece *p, const pf_left_side *rows, const pf_norm_weights *weights)
{
    for (int32_t t = rows->tile_begin; weights != NULL && t < rows->tile_end; t++)
        pf_left_side_norm(&p->w, rows, t, p->w.x, weights);
}

/* What a block has given joins the residual. */
static void join(piece *p, const pf_left_side *rows, const pf_norm_weights *weights)
{
    pf_worker *w = &p->w;
    if (!w->c->joins_late) return;
    w->late[0] = (pf_late_join){ w->c->results[0], weights };
    w->n_late = 1;
    for (int32_t t = rows->tile_begin; t < rows->tile_end; t++)
        pf_left_side_join(w, rows, t, pf_left_side_joined(w, rows));
    w->n_late = 0;
}

static const pf_norm_weights *input_norm(const piece *p, const pf_norm_weights *weights)
{
    return p->w.c->model->config.plan.pre_norm ? weights : NULL;
}

static void norm_layer(piece *p, const pf_layer *layer, const pf_left_side *rows)
{
    const bool one_norm = p->w.c->model->config.plan.one_norm;
    norm(p, &p->all, input_norm(p, &layer->attention_norm));
    join(p, &p->all, &layer->attention_post);
    norm(p, rows, input_norm(p, one_norm ? &layer->attention_norm : &layer->mlp_norm));
    join(p, rows, &layer->mlp_post);
}

static void pack_normed(const piece *p, const pf_left_side *rows)
{
    const int32_t hidden = p->w.c->model->config.hidden_size;
    for (int32_t t = rows->tile_begin; t < rows->tile_end; t++)
        pf_left_side_pack(&p->w, rows, t, t + 1, pf_left_side_normed(&p->w, rows), hidden);
}

/* columns: those that this thread packs; into `packed`, or NULL: rows are packed as wholes. */
static void pack(const piece *p, const pf_left_side *rows, pf_rows from, int32_t k, void *packed, pf_range columns)
{
    if (packed != NULL)
        pf_left_side_pack_columns(&p->w, packed, from, pf_left_side_all(rows), k, columns);
    else
        pf_left_side_pack(&p->w, rows, rows->tile_begin, rows->tile_end, from, k);
}

static void multiply_share(const piece *p, const pf_linear *linear, const pf_left_side *rows, const void *input,
                           pf_rows out, pf_gemm_mode mode)
{
    pf_multiply_part(&p->w, linear, (pf_product_part){ pf_left_side_all(rows), pf_share_of(&p->w, linear) }, input, out,
                     mode);
}

/* The product that a block ends with. */
static void join_product(const piece *p, const pf_linear *linear, const pf_left_side *rows, const void *input)
{
    const pf_context *c = p->w.c;
    multiply_share(p, linear, rows, input, c->joins_late ? c->results[0] : c->x,
                   c->joins_late ? PF_GEMM_STORE : PF_GEMM_ADD);
}

static void multiply_qkv(const piece *p, const pf_linear *qkv)
{
    const void *input = pf_left_side_input(&p->w, &p->all);
    if (p->w.c->heads_apart)
        pf_multiply_own_heads(&p->w, qkv, &p->all, input);
    else
        multiply_share(p, qkv, &p->all, input, p->w.c->qkv, PF_GEMM_STORE);
}

static void attend(const piece *p, int32_t layer)
{
    const pf_context *c = p->w.c;
    for (int32_t s = 0; s < c->n_spans; s++) {
        const pf_pass_span *span = &c->spans[s];
        const pf_range items = pf_attend_items(&p->w, span);
        if (items.begin >= items.end) continue;
        if (p->kernel == PF_PASS_ROPE) pf_attend_rope(&p->w, span, layer, items);
        if (p->kernel == PF_PASS_ATTN_STORE) pf_attend_store(&p->w, span, layer, items);
        if (p->kernel == PF_PASS_ATTN) pf_attend_span(&p->w, span, layer, items);
    }
}

/* The kernel's calls in a feed-forward block without experts. */
static void run_in_block(piece *p, const pf_layer *layer, const pf_left_side *rows)
{
    const pf_context *c = p->w.c;
    const bool gated = c->model->config.plan.gated;
    void *packed = p->w.by_columns ? c->gated_columns : NULL;
    const void *input = pf_left_side_input(&p->w, rows);
    const pf_range columns = pf_columns_of(&layer->up, pf_share_of(&p->w, &layer->up));
    pf_rows gate = c->gate, up = c->up;
    if (p->w.by_columns) {
        gate = pf_worker_apart(gate, rows->groups.n_rows, columns, p->w.member.id);
        up = pf_worker_apart(up, rows->groups.n_rows, columns, p->w.member.id);
    }
    switch (p->kernel) {
    case PF_PASS_GATE_UP:
        if (gated) multiply_share(p, &layer->gate, rows, input, gate, PF_GEMM_STORE);
        multiply_share(p, &layer->up, rows, input, gated ? up : gate, PF_GEMM_STORE);
        break;
    case PF_PASS_SWIGLU: pf_activate_part(&p->w, gate, up, pf_left_side_all(rows), columns); break;
    case PF_PASS_PACK_GATED: pack(p, rows, gate, layer->down.weights.k, packed, columns); break;
    case PF_PASS_DOWN: join_product(p, &layer->down, rows, packed != NULL ? packed : input); break;
    default: break;
    }
}

/* And in one of experts. */
static void run_in_experts(piece *p, const pf_layer *layer, int32_t n_rows)
{
    const pf_gemm *gemm = p->w.gemm;
    if (p->kernel == PF_PASS_ROUTER) {
        p->w.gemm = &p->w.kernels->gemm[PF_FORMAT_F32][PF_ACT_F32];
        const pf_left_side rows = pf_left_side_of(&p->w, n_rows, false);
        multiply_share(p, &layer->router, &rows, pf_left_side_input(&p->w, &rows), p->w.c->experts.logits,
                       PF_GEMM_STORE);
        p->w.gemm = gemm;
    }
    if (p->kernel == PF_PASS_EXPERTS) pf_worker_multiply_experts(&p->w, layer, n_rows);
}

/* The kernel's calls in one layer. After the last attention only the wanted rows go on. */
static void run_in_layer(piece *p, int32_t l)
{
    const pf_context *c = p->w.c;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[l];
    const bool is_last = l == m->config.n_layers - 1, drops_rows = is_last && c->n_logit_rows < c->n_rows;
    const bool by_columns = p->w.by_columns && c->heads_apart && !drops_rows;
    const pf_left_side *rows = drops_rows ? &p->wanted : &p->all;
    void *packed = by_columns ? c->attended_columns : NULL;
    p->w.attended = by_columns ? pf_worker_apart(c->attended, c->n_rows, p->w.heads, p->w.member.id) : c->attended;
    switch (p->kernel) {
    case PF_PASS_NORM: norm_layer(p, layer, rows); break;
    case PF_PASS_PACK_NORMED:
        pack_normed(p, &p->all);
        pack_normed(p, rows);
        break;
    case PF_PASS_QKV: multiply_qkv(p, &layer->qkv); break;
    case PF_PASS_ROPE:
        if (m->config.plan.head_norm == PF_HEAD_NORM_WHOLE) pf_attend_norm_whole(&p->w, l);
        attend(p, l);
        break;
    case PF_PASS_ATTN_STORE:
    case PF_PASS_ATTN: attend(p, l); break;
    case PF_PASS_PACK_ATTENDED: pack(p, rows, p->w.attended, m->q_dim, packed, p->w.heads); break;
    case PF_PASS_O: join_product(p, &layer->o, rows, packed != NULL ? packed : pf_left_side_input(&p->w, rows)); break;
    default:
        if (pf_config_layer(&m->config, l)->experts)
            run_in_experts(p, layer, rows->groups.n_rows);
        else
            run_in_block(p, layer, rows);
        break;
    }
}

/* And its calls at the head. */
static void run_in_head(piece *p)
{
    const pf_context *c = p->w.c;
    const pf_lm_head *head = &c->model->head;
    p->w.gemm = pf_head_gemm(head);
    const pf_left_side rows = pf_left_side_of(&p->w, c->n_logit_rows, false);
    const pf_head_rows of_head = { .member = p->w.member,
                                   .n_rows = c->n_logit_rows,
                                   .normed = pf_left_side_normed(&p->w, &rows),
                                   .logits = c->logits };
    if (p->kernel == PF_PASS_NORM && c->model->config.plan.final_norm) norm(p, &rows, &c->model->final_norm);
    if (p->kernel == PF_PASS_PACK_NORMED) pack_normed(p, &rows);
    if (p->kernel == PF_PASS_HEAD)
        multiply_share(p, &head->full, &rows, pf_left_side_input(&p->w, &rows), c->logits, PF_GEMM_STORE);
    if (p->kernel == PF_PASS_RESCORE) pf_head_refine(head, &of_head);
}

static void repeat_kernel(pf_member member, void *arg)
{
    const job *j = arg;
    pf_context *c = j->context;
    for (int32_t i = 0; i < j->n_passes; i++) {
        piece p = { .w = pf_worker_of(c, member), .kernel = j->kernel };
        p.all = pf_left_side_of(&p.w, c->n_rows, false);
        p.wanted = pf_left_side_of(&p.w, c->n_logit_rows > 0 ? c->n_logit_rows : 1, false);
        for (int32_t l = 0; l < c->model->config.n_layers; l++) run_in_layer(&p, l);
        if (c->n_logit_rows > 0) run_in_head(&p);
    }
}

static void repeat_read(pf_member member, void *arg)
{
    const job *j = arg;
    for (int32_t i = 0; i < j->n_passes; i++) {
        const uint64_t sum = pf_model_read_share(j->context->model, member, j->matrices, j->read);
        __asm__ volatile("" : : "r"(sum)); /* so that it is made */
    }
}

int32_t pf_pass_members(const pf_context *context)
{
    return context->n_members;
}

uint64_t pf_pass_run_alone(pf_context *context, pf_pass_kernel kernel, int32_t n_passes)
{
    if (kernel == PF_PASS_SWIGLU)
        memset(context->gate.data, 0, (size_t)context->n_rows * context->gate.stride * sizeof *context->gate.data);
    return time_by_members(context, repeat_kernel,
                           &(job){ .context = context, .kernel = kernel, .n_passes = n_passes });
}

static uint32_t matrices_of(pf_pass_kernel kernel)
{
    switch (kernel) {
    case PF_PASS_QKV: return 1u << PF_MATRIX_QKV;
    case PF_PASS_O: return 1u << PF_MATRIX_O;
    case PF_PASS_GATE_UP: return 1u << PF_MATRIX_GATE | 1u << PF_MATRIX_UP;
    case PF_PASS_DOWN: return 1u << PF_MATRIX_DOWN;
    case PF_PASS_HEAD: return 1u << PF_MATRIX_HEAD;
    default: return 0;
    }
}

uint64_t pf_pass_read_alone(pf_context *context, pf_pass_kernel kernel, pf_read_fn *read, int32_t n_passes)
{
    job j = { .context = context, .n_passes = n_passes, .matrices = matrices_of(kernel), .read = read };
    return time_by_members(context, repeat_read, &j);
}

/* ---- describing ------------------------------------------------------------------------------------------------------- */

static const char *const names[PF_N_PASS_KERNELS] = {
    [PF_PASS_NORM] = "norm",
    [PF_PASS_PACK_NORMED] = "pack normed",
    [PF_PASS_QKV] = "qkv",
    [PF_PASS_ROPE] = "rope",
    [PF_PASS_ATTN_STORE] = "store",
    [PF_PASS_ATTN] = "attention",
    [PF_PASS_PACK_ATTENDED] = "pack attended",
    [PF_PASS_O] = "o",
    [PF_PASS_GATE_UP] = "gate, up",
    [PF_PASS_SWIGLU] = "activation",
    [PF_PASS_PACK_GATED] = "pack gated",
    [PF_PASS_DOWN] = "down",
    [PF_PASS_ROUTER] = "router",
    [PF_PASS_EXPERTS] = "experts",
    [PF_PASS_HEAD] = "head",
    [PF_PASS_RESCORE] = "rescore",
};

/* The first key that a row at a position sees in a layer. */
static int32_t first_key(const pf_context *c, int32_t layer, int32_t position)
{
    const pf_attn_args args = { .window = pf_config_layer(&c->model->config, layer)->window };
    return pf_attn_first_key(&args, position);
}

/* Pairs of a query row and a key that it sees: the mean of all layers. */
static double seen_keys(const pf_context *c)
{
    const int32_t n_layers = c->model->config.n_layers;
    double seen = 0.0;
    for (int32_t l = 0; l < n_layers; l++)
        for (int32_t i = 0; i < c->n_rows; i++) seen += c->positions[i] - first_key(c, l, c->positions[i]) + 1.0;
    return seen / n_layers;
}

static size_t kv_positions(const pf_context *c)
{
    const int32_t n_layers = c->model->config.n_layers;
    size_t n = 0;
    for (int32_t l = 0; l < n_layers; l++)
        for (int32_t s = 0; s < c->n_spans; s++) {
            const pf_pass_span *span = &c->spans[s];
            n += (size_t)(span->position + span->n_rows - first_key(c, l, span->position));
        }
    return n / (size_t)n_layers;
}

/* The first layer that has experts, or has not; -1: there is none. */
static int32_t find_layer(const pf_config *config, bool experts)
{
    for (int32_t l = 0; l < config->n_layers; l++)
        if (pf_config_layer(config, l)->experts == experts) return l;
    return -1;
}

static int32_t count_layers(const pf_config *config, bool experts)
{
    int32_t n = 0;
    for (int32_t l = 0; l < config->n_layers; l++) n += pf_config_layer(config, l)->experts == experts;
    return n;
}

/* Rows of n values, each read or written so many times as f32; by a kernel of the registry that is not a product. */
static void describe_rows(const pf_context *c, pf_op op, pf_type type, int32_t n, size_t n_times, pf_pass_part *part)
{
    part->op = pf_op_name(op);
    part->kernel = c->model->kernels.chosen[op][type];
    part->bytes = (size_t)c->n_rows * (size_t)n * n_times * sizeof(float);
    snprintf(part->shape, sizeof part->shape, "%dx%d", c->n_rows, n);
}

/* Read as f32, written as the product takes it: half a value in bf16, a quarter in int8. */
static void describe_pack(const pf_context *c, int32_t n_rows, int32_t k, pf_pass_part *part)
{
    static const size_t bytes[PF_N_ACTS] = { [PF_ACT_F32] = 4, [PF_ACT_BF16] = 2, [PF_ACT_INT8] = 1 };
    part->op = "pack";
    part->kernel = c->model->kernels.chosen_gemm[c->model->format][c->model->act];
    part->bytes = (size_t)n_rows * (size_t)k * (sizeof(float) + bytes[c->model->act]);
    snprintf(part->shape, sizeof part->shape, "%dx%d", n_rows, k);
}

static void describe_product(int32_t n_rows, const pf_linear *linear, const pf_kernel *kernel, pf_pass_part *part)
{
    const pf_gemm_weights *w = &linear->weights;
    part->op = pf_op_name(PF_OP_GEMM);
    part->kernel = kernel;
    part->bytes = pf_linear_panel_bytes(linear);
    part->operations = 2.0 * n_rows * w->n * w->k;
    part->has_weights = true;
    snprintf(part->shape, sizeof part->shape, "%dx%dx%d", n_rows, w->n, w->k);
}

static void describe_store(const pf_context *c, pf_pass_part *part)
{
    const pf_type type = c->config.kv_type;
    describe_rows(c, PF_OP_ATTN_STORE, type, 2 * c->model->kv_dim, 1, part);
    part->bytes += (size_t)c->n_rows * 2 * (size_t)c->model->kv_dim * pf_type_bytes(type);
}

static void describe_attention(const pf_context *c, pf_pass_part *part)
{
    const pf_type type = c->config.kv_type;
    part->op = pf_op_name(PF_OP_ATTN);
    part->kernel = c->model->kernels.chosen[PF_OP_ATTN][type];
    part->bytes = kv_positions(c) * 2 * (size_t)c->model->kv_dim * pf_type_bytes(type);
    part->operations = 4.0 * seen_keys(c) * c->model->q_dim;
    snprintf(part->shape, sizeof part->shape, "%dx%zu keys", c->n_rows, kv_positions(c));
}

static void describe_norm(const pf_context *c, pf_pass_part *part)
{
    const pf_plan *plan = &c->model->config.plan;
    const int32_t of_layer = (plan->pre_norm ? 2 : 0) + (plan->post_norm || plan->residual_norm ? 2 : 0);
    part->n_calls = of_layer * c->model->config.n_layers + (plan->final_norm ? 1 : 0);
    describe_rows(c, plan->norm == PF_NORM_LAYER ? PF_OP_LAYERNORM : PF_OP_RMSNORM, PF_TYPE_F32,
                  c->model->config.hidden_size, 2, part);
}

/* Of a feed-forward block without experts. */
static void describe_block(const pf_context *c, pf_pass_kernel kernel, pf_pass_part *part)
{
    const pf_model *m = c->model;
    const pf_plan *plan = &m->config.plan;
    const pf_kernel *product = m->kernels.chosen_gemm[m->format][m->act];
    const int32_t l = find_layer(&m->config, false), n = c->n_rows, intermediate = m->config.intermediate_size;
    part->n_calls = count_layers(&m->config, false);
    if (l < 0) return;
    if (kernel == PF_PASS_GATE_UP) {
        part->n_calls *= plan->gated ? 2 : 1;
        describe_product(n, &m->layers[l].up, product, part);
    }
    if (kernel == PF_PASS_SWIGLU) {
        describe_rows(c, plan->gated ? PF_OP_GATED : PF_OP_ACTIVATE, PF_TYPE_F32, intermediate, plan->gated ? 3 : 2,
                      part);
        part->kernel = (plan->gated ? m->kernels.chosen_gated : m->kernels.chosen_activate)[plan->activation];
    }
    if (kernel == PF_PASS_PACK_GATED) describe_pack(c, n, intermediate, part);
    if (kernel == PF_PASS_DOWN) describe_product(n, &m->layers[l].down, product, part);
}

/* Of the experts that the last layer has chosen. */
static void describe_experts(const pf_context *c, pf_pass_kernel kernel, pf_pass_part *part)
{
    const pf_model *m = c->model;
    const pf_plan *plan = &m->config.plan;
    const int32_t l = find_layer(&m->config, true), matrices = plan->gated ? 3 : 2;
    part->n_calls = count_layers(&m->config, true);
    if (l < 0) return;
    const pf_layer *layer = &m->layers[l];
    if (kernel == PF_PASS_ROUTER) {
        describe_product(c->n_rows, &layer->router, m->kernels.chosen_gemm[PF_FORMAT_F32][PF_ACT_F32], part);
        part->has_weights = false; /* they are not read by pf_pass_read_alone */
        return;
    }
    part->op = pf_op_name(PF_OP_GEMM);
    part->kernel = m->kernels.chosen_gemm[m->format][m->act];
    part->bytes = pf_worker_expert_bytes(c, layer);
    part->operations = 2.0 * c->n_rows * matrices * m->config.hidden_size *
                       ((double)plan->n_experts_used * plan->expert_size + plan->shared_size);
    snprintf(part->shape, sizeof part->shape, "%dx%dx%dx%d", c->n_rows, plan->n_experts_used, plan->expert_size,
             m->config.hidden_size);
}

pf_pass_part pf_pass_describe(const pf_context *context, pf_pass_kernel kernel)
{
    const pf_context *c = context;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[0];
    const int32_t n = c->n_rows;
    const pf_kernel *product = m->kernels.chosen_gemm[m->format][m->act];
    pf_pass_part part = { .name = names[kernel], .n_calls = m->config.n_layers };
    switch (kernel) {
    case PF_PASS_NORM: describe_norm(c, &part); break;
    case PF_PASS_PACK_NORMED:
        part.n_calls = 2 * m->config.n_layers + 1;
        describe_pack(c, n, m->config.hidden_size, &part);
        break;
    case PF_PASS_QKV: describe_product(n, &layer->qkv, product, &part); break;
    case PF_PASS_ROPE: describe_rows(c, PF_OP_ROPE, PF_TYPE_F32, m->q_dim + m->kv_dim, 2, &part); break;
    case PF_PASS_ATTN_STORE: describe_store(c, &part); break;
    case PF_PASS_ATTN: describe_attention(c, &part); break;
    case PF_PASS_PACK_ATTENDED: describe_pack(c, n, m->q_dim, &part); break;
    case PF_PASS_O: describe_product(n, &layer->o, product, &part); break;
    case PF_PASS_GATE_UP:
    case PF_PASS_SWIGLU:
    case PF_PASS_PACK_GATED:
    case PF_PASS_DOWN: describe_block(c, kernel, &part); break;
    case PF_PASS_ROUTER:
    case PF_PASS_EXPERTS: describe_experts(c, kernel, &part); break;
    case PF_PASS_HEAD:
        part.n_calls = 1;
        describe_product(c->n_logit_rows, &m->head.full, pf_head_product(&m->head, &m->head.full), &part);
        break;
    case PF_PASS_RESCORE:
        part.n_calls = pf_head_refines(&m->head) ? c->n_logit_rows : 0;
        part.op = pf_op_name(PF_OP_RESCORE);
        part.kernel = m->kernels.chosen[PF_OP_RESCORE][PF_TYPE_BF16];
        part.bytes = (size_t)m->config.vocab_size * sizeof(float);
        snprintf(part.shape, sizeof part.shape, "1x%d", m->config.vocab_size);
        break;
    case PF_N_PASS_KERNELS: break;
    }
    return part;
}
