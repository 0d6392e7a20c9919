/* Each row is summed in ascending order of k, so that the errors do not depend on the number of threads. */
#include "model/weights/head_errors.h"

#include <math.h>

typedef struct {
    const pf_model *model;
    const volatile bool *cancel;
} measure_job;

void pf_head_errors_of_panel(const pf_model *m, int32_t panel, pf_head_sums out[PF_GEMM_PANEL])
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

pf_head_sums pf_head_errors_of_row(const pf_model *m, int32_t row, float *w, float *q)
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

/* error[i] as the header derives it, rounded up. */
static float error_of(pf_head_sums sums, int32_t k)
{
    const double off = sqrt(sums.off), weight = sqrt(sums.weight);
    if (!(weight <= 0x1p60) || !(off <= 0x1p60)) return INFINITY;
    const double grain = 1.001 * sqrt(k) / (254.0 * 254.0), of_rounding = (k + 64.0) * 0x1p-23;
    const double error = off * (1.0 + grain + of_rounding) + weight * (grain + of_rounding);
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
        pf_head_errors_of_panel(m, p, sums);
        for (int32_t j = 0; j < PF_GEMM_PANEL && j < left; j++)
            m->head_error[first + j] = error_of(sums[j], m->config.hidden_size);
    }
}

size_t pf_head_errors_bytes(const pf_model *model)
{
    return model->head_kind != PF_HEAD_BOUNDED ? 0
                                               : (size_t)model->config.vocab_size * (size_t)model->config.hidden_size;
}

pf_status pf_head_errors_measure(pf_model *model, pf_team *team, pf_walk *walk, pf_error *error)
{
    measure_job job = { model, walk->cancel };
    pf_team_run(team, measure_share, &job);
    PF_TRY(pf_walk_check(walk, error));
    pf_walk_on(walk, pf_head_errors_bytes(model));
    return PF_OK;
}
