#include "model/head/bounded_head.h"

#include <math.h>
#include <string.h>

enum {
    MOST_ROWS = PF_BOUNDED_ROWS, /* and twice as many of int8 */
    IN_VAIN_OF = 4,              /* more than a quarter of all panels anew */
    PAUSE = 64,                  /* passes */
};

_Static_assert((int)PF_BOUNDS_BLOCK == (int)PF_GEMM_PANEL, "a mark stands for a panel");

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    const pf_model *model;
    const volatile bool *cancel;
} measure_job;

void pf_bounded_head_sums(const pf_model *m, int32_t panel, pf_head_sums out[PF_GEMM_PANEL])
{
    enum { BLOCK = PF_GEMM_BLOCK_K * PF_GEMM_PANEL };
    float w[BLOCK], q[BLOCK];
    double off[PF_GEMM_PANEL] = { 0.0 }, weight[PF_GEMM_PANEL] = { 0.0 };
    const int32_t k = m->config.hidden_size;
    for (int32_t begin = 0; begin < k; begin += PF_GEMM_BLOCK_K) {
        const int32_t n = k - begin < PF_GEMM_BLOCK_K ? k - begin : PF_GEMM_BLOCK_K;
        pf_gemm_unpack_block(&m->head.weights, panel, begin / PF_GEMM_BLOCK_K, w);
        pf_gemm_unpack_block(&m->coarse_head.weights, panel, begin / PF_GEMM_BLOCK_K, q);
        for (int32_t i = 0; i < n * PF_GEMM_PANEL; i += PF_GEMM_PANEL)
            for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
                const double value = (double)w[i + j], apart = (double)q[i + j] - value;
                off[j] += apart * apart;
                weight[j] += value * value;
            }
    }
    for (int32_t j = 0; j < PF_GEMM_PANEL; j++) out[j] = (pf_head_sums){ off[j], weight[j] };
}

pf_head_sums pf_bounded_head_sums_of_row(const pf_model *m, int32_t row, float *w, float *q)
{
    pf_head_sums sums = { 0.0, 0.0 };
    pf_gemm_unpack_row(&m->head.weights, row, w);
    pf_gemm_unpack_row(&m->coarse_head.weights, row, q);
    for (int32_t i = 0; i < m->config.hidden_size; i++) {
        const double value = (double)w[i], apart = (double)q[i] - value;
        sums.off += apart * apart;
        sums.weight += value * value;
    }
    return sums;
}

/* error[i] of the header, rounded up. */
static float error_of(pf_head_sums sums, int32_t k)
{
    const double off = sqrt(sums.off), weight = sqrt(sums.weight);
    if (!(weight <= 0x1p60) || !(off <= 0x1p60)) return INFINITY;
    const double grain = 1.001 * sqrt(k) / (254.0 * 254.0), of_floats = (k + 64.0) * 0x1p-23;
    const double error = off * (1.0 + grain + of_floats) + weight * (grain + of_floats);
    return (float)((error + k * 0x1p-80 * fmax(1.0, weight)) * (1.0 + 0x1p-20));
}

static void measure_share(pf_member member, void *arg)
{
    const measure_job *job = arg;
    const pf_model *m = job->model;
    pf_head_sums sums[PF_GEMM_PANEL];
    int32_t begin, end;
    pf_team_share(member, m->head.weights.n_panels, &begin, &end);
    for (int32_t p = begin; p < end && !pf_is_told(job->cancel); p++) {
        const int32_t first = p * PF_GEMM_PANEL, left = m->config.vocab_size - first;
        pf_bounded_head_sums(m, p, sums);
        for (int32_t j = 0; j < PF_GEMM_PANEL && j < left; j++)
            m->head_error[first + j] = error_of(sums[j], m->config.hidden_size);
    }
}

size_t pf_bounded_head_measured_bytes(const pf_model *model)
{
    return model->head_kind != PF_HEAD_BOUNDED ? 0
                                               : (size_t)model->config.vocab_size * (size_t)model->config.hidden_size;
}

pf_status pf_bounded_head_measure(pf_model *model, pf_team *team, pf_walk *walk, pf_error *error)
{
    measure_job job = { model, walk->cancel };
    pf_team_run(team, measure_share, &job);
    PF_TRY(pf_walk_check(walk, error));
    pf_walk_on(walk, pf_bounded_head_measured_bytes(model));
    return PF_OK;
}

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
