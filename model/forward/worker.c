/* What a thread knows about its part before a pass begins. */
#include "model/forward/worker.h"

pf_rows pf_worker_apart(pf_rows rows, int32_t n_rows, pf_range columns, int32_t before)
{
    const size_t begin = (size_t)columns.begin, width = (size_t)(columns.end - columns.begin);
    const size_t between = (size_t)before * (PF_APART_FLOATS + (size_t)n_rows * PF_LINE_FLOATS);
    return (pf_rows){ rows.data + between + (size_t)(n_rows - 1) * begin, width | PF_LINE_FLOATS };
}

/* Apart, where each thread computes its own heads. */
static void place_qkv(pf_worker *w)
{
    pf_rows *const places[] = { &w->q, &w->k, &w->v };
    for (int32_t i = 0; i < 3; i++)
        *places[i] = w->c->heads_apart
                         ? pf_worker_apart(w->c->qkv, w->c->n_rows, pf_columns_of(&w->c->model->layers->qkv, w->qkv[i]),
                                           i * w->member.n_threads + w->member.id)
                         : w->c->qkv;
}

static pf_range attended_columns(const pf_worker *w)
{
    const pf_config *config = &w->c->model->config;
    const int32_t head_columns = config->n_heads / config->n_kv_heads * config->head_dim;
    int32_t begin, end;
    pf_team_share(w->member, config->n_kv_heads, &begin, &end);
    return (pf_range){ begin * head_columns, end * head_columns };
}

pf_worker pf_worker_of(pf_context *c, pf_member member)
{
    const pf_model *m = c->model;
    pf_worker w = {
        .c = c, .kernels = &m->kernels, .gemm = pf_model_gemm(m), .member = member, .mine = &c->members[member.id]
    };
    w.by_columns = w.gemm->pack_columns != NULL;
    if (c->heads_apart) pf_model_qkv_share(m, member, w.qkv);
    w.heads = attended_columns(&w);
    w.residual = pf_columns_of(&m->layers->o, pf_share_of(&w, &m->layers->o));
    w.attended = c->attended;
    w.x = c->x;
    place_qkv(&w);
    return w;
}
