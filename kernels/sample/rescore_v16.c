/* A second look in vectors of sixteen: 64 blocks are the lanes of four vectors. */
#include <math.h>

#include "kernels/vec/v16.h"

enum { VECTORS = PF_RESCORE_BLOCKS / 16 };

/* The maxima of the blocks. A NaN loses. */
PF_V16 void rescore_maxima(const float *logits, int32_t n, pf_v16 maxima[VECTORS])
{
    for (int v = 0; v < VECTORS; v++) maxima[v] = pf_v16_set(-INFINITY);
    int32_t i = 0;
    for (; i + PF_RESCORE_BLOCKS <= n; i += PF_RESCORE_BLOCKS)
        for (int v = 0; v < VECTORS; v++) maxima[v] = pf_v16_max(pf_v16_load(logits + i + v * 16), maxima[v]);
    for (int v = 0; v < VECTORS && i < n; v++, i += 16)
        maxima[v] = pf_v16_max(pf_v16_load_first_or(logits + i, n - i, pf_v16_set(-INFINITY)), maxima[v]);
}

/* The one that seven are above, and it or its equals are no more than the eighth. */
PF_V16 float rescore_bound(const pf_v16 maxima[VECTORS])
{
    float values[PF_RESCORE_BLOCKS];
    for (int v = 0; v < VECTORS; v++) pf_v16_store(values + v * 16, maxima[v]);
    for (int32_t b = 0; b < PF_RESCORE_BLOCKS; b++) {
        const pf_v16 candidate = pf_v16_set(values[b]);
        int32_t n_above = 0, n_equal = 0;
        for (int v = 0; v < VECTORS; v++) {
            n_above += __builtin_popcount(pf_v16_bits(pf_v16_above(maxima[v], candidate)));
            n_equal += __builtin_popcount(pf_v16_bits(pf_v16_equal(maxima[v], candidate)));
        }
        if (n_above < PF_RESCORE_RANK && PF_RESCORE_RANK <= n_above + n_equal) return values[b];
    }
    return -INFINITY; /* not met: some value has each rank */
}

PF_V16 uint32_t rescore_reaching(pf_v16 logits, pf_v16 bound)
{
    return pf_v16_bits(pf_v16_above(logits, bound)) | pf_v16_bits(pf_v16_equal(logits, bound));
}

/* The first that reach the bound, at most PF_RESCORE_MOST; how many. */
PF_V16 int32_t rescore_find(const float *logits, int32_t n, float bound, int32_t *ids)
{
    const pf_v16 vbound = pf_v16_set(bound);
    int32_t n_found = 0;
    for (int32_t i = 0; i < n; i += PF_RESCORE_BLOCKS) {
        if (i + PF_RESCORE_BLOCKS <= n) {
            pf_v16 largest = pf_v16_set(-INFINITY);
            for (int v = 0; v < VECTORS; v++) largest = pf_v16_max(pf_v16_load(logits + i + v * 16), largest);
            if (rescore_reaching(largest, vbound) == 0) continue;
        }
        for (int32_t at = i; at < n && at < i + PF_RESCORE_BLOCKS; at += 16) {
            uint32_t reaching = rescore_reaching(pf_v16_load_first_or(logits + at, n - at, pf_v16_set(NAN)), vbound);
            for (; reaching; reaching &= reaching - 1) {
                ids[n_found++] = at + __builtin_ctz(reaching);
                if (n_found == PF_RESCORE_MOST) return n_found;
            }
        }
    }
    return n_found;
}

/* The logits of some tokens, whose sums do not wait for each other. */
PF_V16 void rescore_some(float *logits, const float *x, const uint16_t *rows, int32_t n_cols, const int32_t *ids,
                         const int n_ids)
{
    const int32_t whole = n_cols / 16 * 16, tail = n_cols - whole;
    pf_v16 lanes[4];
    const uint16_t *row[4];
    for (int i = 0; i < n_ids; i++) {
        lanes[i] = pf_v16_set(0.0f);
        row[i] = rows + (size_t)ids[i] * (size_t)n_cols;
    }
    for (int32_t d = 0; d < whole; d += 16) {
        const pf_v16 v = pf_v16_load(x + d);
        for (int i = 0; i < n_ids; i++) lanes[i] = pf_v16_fma(v, pf_v16_load_bf16(row[i] + d), lanes[i]);
    }
    for (int i = 0; i < n_ids; i++) {
        if (tail) {
            float rest[16] = { 0 };
            for (int32_t d = 0; d < tail; d++) rest[d] = pf_bf16_to_f32(row[i][whole + d]);
            /* -0 times 0 changes no sum */
            lanes[i] =
                pf_v16_fma(pf_v16_load_first_or(x + whole, tail, pf_v16_set(-0.0f)), pf_v16_load(rest), lanes[i]);
        }
        logits[ids[i]] = pf_v16_tree_sum(lanes[i]);
    }
}

PF_V16 void rescore_row(float *logits, int32_t n, const float *x, const uint16_t *rows, int32_t n_cols)
{
    pf_v16 maxima[VECTORS];
    int32_t ids[PF_RESCORE_MOST];
    rescore_maxima(logits, n, maxima);
    const int32_t n_ids = rescore_find(logits, n, rescore_bound(maxima), ids);
    int32_t i = 0;
    for (; i + 4 <= n_ids; i += 4) rescore_some(logits, x, rows, n_cols, ids + i, 4);
    for (; i < n_ids; i++) rescore_some(logits, x, rows, n_cols, ids + i, 1);
}

void PF_FOR_ISA(pf_rescore_bf16)(float *logits, int32_t n, const float *x, const uint16_t *rows, int32_t n_cols)
{
    rescore_row(logits, n, x, rows, n_cols);
}
