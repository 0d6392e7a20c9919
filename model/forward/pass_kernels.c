/* The pass with all kernels but one left out, and what there is to say of each. */
#include "model/forward/pass_kernels.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "model/forward/pass.h"

/* ---- running ------------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_context *context;
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

static void repeat_pass(pf_member member, void *arg)
{
    const job *j = arg;
    for (int32_t i = 0; i < j->n_passes; i++) pf_context_run_pass(member, j->context);
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
    context->calls = kernel < PF_N_PASS_KERNELS ? 1u << kernel : 0;
    const uint64_t ns = time_by_members(context, repeat_pass, &(job){ .context = context, .n_passes = n_passes });
    context->calls = PF_ALL_PASS_KERNELS;
    return ns;
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

/* ---- telling ------------------------------------------------------------------------------------------------------- */

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
    [PF_PASS_HEAD] = "head",
    [PF_PASS_RESCORE] = "rescore",
};

/* Pairs of a query row and a key that it sees. */
static double seen_keys(const pf_context *c)
{
    double seen = 0.0;
    for (int32_t i = 0; i < c->n_rows; i++) seen += c->positions[i] + 1.0;
    return seen;
}

static size_t kv_positions(const pf_context *c)
{
    size_t n = 0;
    for (int32_t s = 0; s < c->n_spans; s++) n += (size_t)c->spans[s].position + (size_t)c->spans[s].n_rows;
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

static void describe_product(const pf_context *c, int32_t n_rows, const pf_linear *linear, pf_pass_part *part)
{
    const pf_gemm_weights *w = &linear->weights;
    part->op = pf_op_name(PF_OP_GEMM);
    part->kernel = pf_model_product(c->model, linear);
    part->bytes = (size_t)w->n_panels * w->panel_bytes;
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

pf_pass_part pf_pass_describe(const pf_context *context, pf_pass_kernel kernel)
{
    const pf_context *c = context;
    const pf_model *m = c->model;
    const pf_layer *layer = &m->layers[0];
    const int32_t n = c->n_rows, hidden = m->config.hidden_size, intermediate = m->config.intermediate_size;
    pf_pass_part part = { .name = names[kernel], .n_calls = m->config.n_layers };
    switch (kernel) {
    case PF_PASS_NORM:
        part.n_calls = 2 * m->config.n_layers + 1;
        describe_rows(c, PF_OP_RMSNORM, PF_TYPE_F32, hidden, 2, &part);
        break;
    case PF_PASS_PACK_NORMED:
        part.n_calls = 2 * m->config.n_layers + 1;
        describe_pack(c, n, hidden, &part);
        break;
    case PF_PASS_QKV: describe_product(c, n, &layer->qkv, &part); break;
    case PF_PASS_ROPE: describe_rows(c, PF_OP_ROPE, PF_TYPE_F32, m->q_dim + m->kv_dim, 2, &part); break;
    case PF_PASS_ATTN_STORE: describe_store(c, &part); break;
    case PF_PASS_ATTN: describe_attention(c, &part); break;
    case PF_PASS_PACK_ATTENDED: describe_pack(c, n, m->q_dim, &part); break;
    case PF_PASS_O: describe_product(c, n, &layer->o, &part); break;
    case PF_PASS_GATE_UP:
        part.n_calls = 2 * m->config.n_layers;
        describe_product(c, n, &layer->gate, &part);
        break;
    case PF_PASS_SWIGLU: describe_rows(c, PF_OP_SWIGLU, PF_TYPE_F32, intermediate, 3, &part); break;
    case PF_PASS_PACK_GATED: describe_pack(c, n, intermediate, &part); break;
    case PF_PASS_DOWN: describe_product(c, n, &layer->down, &part); break;
    case PF_PASS_HEAD:
        part.n_calls = 1;
        describe_product(c, c->n_logit_rows, &m->head, &part);
        break;
    case PF_PASS_RESCORE:
        part.n_calls = m->head_kind == PF_HEAD_SCREENED ? c->n_logit_rows : 0;
        part.op = pf_op_name(PF_OP_RESCORE);
        part.kernel = m->kernels.chosen[PF_OP_RESCORE][PF_TYPE_BF16];
        part.bytes = (size_t)m->config.vocab_size * sizeof(float);
        snprintf(part.shape, sizeof part.shape, "1x%d", m->config.vocab_size);
        break;
    case PF_N_PASS_KERNELS: break;
    }
    return part;
}
