/* The definition of a second look. */
#include <math.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"

static float bound_of(const float *logits, int32_t n)
{
    float maxima[PF_RESCORE_BLOCKS];
    for (int32_t b = 0; b < PF_RESCORE_BLOCKS; b++) {
        maxima[b] = -INFINITY;
        for (int32_t i = b; i < n; i += PF_RESCORE_BLOCKS)
            if (logits[i] > maxima[b]) maxima[b] = logits[i];
    }
    for (int32_t rank = 1;; rank++) { /* the largest, rank after rank */
        int32_t best = 0;
        for (int32_t b = 1; b < PF_RESCORE_BLOCKS; b++)
            if (maxima[b] > maxima[best]) best = b;
        if (rank == PF_RESCORE_RANK) return maxima[best];
        maxima[best] = -INFINITY;
    }
}

static float dot(const float *x, const uint16_t *row, int32_t n_cols)
{
    float lane[PF_LANES] = { 0 };
    for (int32_t d = 0; d < n_cols; d++) lane[d % PF_LANES] = fmaf(x[d], pf_bf16_to_f32(row[d]), lane[d % PF_LANES]);
    return pf_tree_sum(lane);
}

void pf_rescore_bf16_ref(float *logits, int32_t n, const float *x, const uint16_t *rows, int32_t n_cols)
{
    const float bound = bound_of(logits, n);
    for (int32_t i = 0, n_done = 0; i < n && n_done < PF_RESCORE_MOST; i++) {
        if (!(logits[i] >= bound)) continue;
        logits[i] = dot(x, rows + (size_t)i * (size_t)n_cols, n_cols);
        n_done++;
    }
}
