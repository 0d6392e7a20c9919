#include "model/head/bounded_head.h"

#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = PF_BOUNDED_ROWS, /* and twice as many of int8 */
    IN_VAIN_OF = 4,              /* more than a quarter of all panels anew */
    PAUSE = 64,                  /* passes */
};

_Static_assert((int)PF_BOUNDS_BLOCK == (int)PF_GEMM_PANEL, "a mark stands for a panel");

/* ---- a pass ---------------------------------------------------------------------------------------------------------- */

bool pf_bounded_head_is_for(const pf_context *context)
{
    return context->model->head_kind == PF_HEAD_BOUNDED && context->n_logit_rows > 0 &&
           context->n_logit_rows <= MOST_ROWS && context->bounded.pause == 0;
}

/* A member's columns of the head, and how many of them may be the best token. */
typedef struct {
    pf_panels panels;
    int32_t first, n;
} columns;

static columns share_columns(const pf_context *c, pf_member member)
{
    columns mine;
    pf_team_share(member, c->model->head.weights.n_panels, &mine.panels.begin, &mine.panels.end);
    mine.first = mine.panels.begin * PF_GEMM_PANEL;
    const int32_t end = mine.panels.end * PF_GEMM_PANEL, last = end < c->best_of ? end : c->best_of;
    mine.n = last > mine.first ? last - mine.first : 0;
    return mine;
}

/* The rows in two parts each, all the first ones and behind them all the others, packed; and their norms. */
static void pack_parts(const pf_context *c, const pf_bounded_member *mine, pf_rows normed, int32_t n_rows, float *norms)
{
    const pf_model *m = c->model;
    const int32_t k = m->config.hidden_size;
    const pf_gemm *gemm = pf_model_coarse_gemm(m);
    const pf_rows parts = mine->parts;
    for (int32_t i = 0; i < n_rows; i++) {
        float *whole = parts.data + (size_t)i * parts.stride, *rest = whole + (size_t)n_rows * parts.stride;
        norms[i] =
            m->kernels.bounds.split(normed.data + (size_t)i * normed.stride, k, m->act == PF_ACT_BF16, whole, rest);
    }
    gemm->pack(mine->input, parts.data, parts.stride, 2 * n_rows, k, 0, pf_gemm_tiles(gemm->tile_rows, 2 * n_rows));
}

/* Coarse logits of this member's columns, and how low the largest may be as far as it sees. */
static void find_floors(const pf_context *c, pf_member member, const columns *mine, int32_t n_rows, const float *norms)
{
    const pf_model *m = c->model;
    const pf_rows coarse = c->bounded.coarse;
    pf_model_coarse_gemm(m)->multiply(&m->coarse_head.weights, c->members[member.id].bounded.input, 2 * n_rows,
                                      mine->panels.begin, mine->panels.end, coarse.data, coarse.stride, PF_GEMM_STORE,
                                      c->members[member.id].gemm);
    for (int32_t i = 0; i < n_rows; i++) {
        float *row = coarse.data + (size_t)i * coarse.stride + mine->first;
        c->bounded.told[member.id].floors[i] = m->kernels.bounds.floor(row, row + (size_t)n_rows * coarse.stride,
                                                                       m->head_error + mine->first, norms[i], mine->n);
    }
}

/* How low the largest of row i may be, as far as anybody sees. */
static float lowest(const pf_context *c, pf_member member, int32_t i)
{
    float floor = -INFINITY;
    for (int32_t id = 0; id < member.n_threads; id++) {
        const float theirs = c->bounded.told[id].floors[i];
        if (theirs > floor) floor = theirs;
    }
    return floor;
}

/* Tokens come in their order: of equals the first one stays. */
static void keep_better(pf_best *best, pf_best other)
{
    if (other.token >= 0 && (best->token < 0 || other.logit > best->logit)) *best = other;
}

/* The best of columns [first, first + n) joins the best that this member has seen. */
static void see_best(const pf_context *c, pf_member member, int32_t i, int32_t first, int32_t n)
{
    const float *logits = c->logits.data + (size_t)i * c->logits.stride + first;
    const int32_t token = c->model->kernels.argmax(logits, n);
    if (token >= 0) keep_better(&c->bounded.told[member.id].best[i], (pf_best){ first + token, logits[token] });
}

/* The panels that some row asks for, one run of them after the other. */
static void multiply_marked(const pf_context *c, pf_member member, const columns *mine, const void *input,
                            int32_t n_rows)
{
    const pf_model *m = c->model;
    const uint8_t *marks = c->bounded.marks;
    pf_bounded_told *told = &c->bounded.told[member.id];
    told->n_anew = 0;
    for (int32_t i = 0; i < n_rows; i++) told->best[i].token = -1;
    for (int32_t p = mine->panels.begin, end; p < mine->panels.end; p = end) {
        for (end = p + 1; end < mine->panels.end && marks[end] == marks[p];) end++;
        if (!marks[p]) continue;
        pf_model_head_gemm(m)->multiply(&m->head.weights, input, n_rows, p, end, c->logits.data, c->logits.stride,
                                        PF_GEMM_STORE, c->members[member.id].gemm);
        const int32_t first = p * PF_GEMM_PANEL, last = end * PF_GEMM_PANEL;
        for (int32_t i = 0; i < n_rows; i++)
            see_best(c, member, i, first, (last < c->best_of ? last : c->best_of) - first);
        told->n_anew += end - p;
    }
}

void pf_bounded_head_run(const pf_context *c, pf_member member, pf_rows normed, const void *input, int32_t n_rows)
{
    const columns mine = share_columns(c, member);
    float norms[MOST_ROWS];
    pack_parts(c, &c->members[member.id].bounded, normed, n_rows, norms);
    find_floors(c, member, &mine, n_rows, norms);
    memset(c->bounded.marks + mine.panels.begin, 0, (size_t)(mine.panels.end - mine.panels.begin));
    pf_team_barrier(member);
    for (int32_t i = 0; i < n_rows; i++)
        c->model->kernels.bounds.mark(c->bounded.marks + mine.panels.begin,
                                      c->bounded.coarse.data + (size_t)i * c->bounded.coarse.stride + mine.first,
                                      c->model->head_error + mine.first, norms[i], lowest(c, member, i), mine.n);
    multiply_marked(c, member, &mine, input, n_rows);
}

int32_t pf_bounded_head_best(const pf_context *context, int32_t i)
{
    pf_best best = { .token = -1 };
    for (int32_t id = 0; id < context->n_members; id++) keep_better(&best, context->bounded.told[id].best[i]);
    return best.token;
}

void pf_bounded_head_note(pf_context *context)
{
    if (context->bounded.pause > 0) context->bounded.pause--;
    if (context->best_of == 0) return;
    int32_t n_anew = 0;
    for (int32_t id = 0; id < context->n_members; id++) n_anew += context->bounded.told[id].n_anew;
    if (n_anew > context->model->head.weights.n_panels / IN_VAIN_OF) context->bounded.pause = PAUSE;
}
