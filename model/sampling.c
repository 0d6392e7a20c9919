/*
 * The filters run on the probabilities before any is cut, as weights: top-k, top-p and min-p each set some to 0, and one
 * division at the end makes a distribution again. Sums of weights are in double: 150,000 floats lose more than a rare
 * token's share.
 */
#include "model/sampling.h"

#include <math.h>
#include <string.h>

/* The largest of a distribution, and room to find them; in the caller's scratch. */
typedef struct {
    void *search;
    float *values;
    int32_t *ids;
} selection;

pf_status pf_sampling_check(const pf_sampling *sampling, pf_error *error)
{
    if (!(sampling->temperature >= 0.0f) || !isfinite(sampling->temperature))
        return pf_fail(error, PF_INVALID, "temperature is %g, expected a finite number, 0 or more",
                       (double)sampling->temperature);
    if (sampling->top_k < 0)
        return pf_fail(error, PF_INVALID, "top_k is %d, expected 0 (off) or more", sampling->top_k);
    if (!(sampling->top_p >= 0.0f && sampling->top_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "top_p is %g, expected 0 (off) to 1 (off)", (double)sampling->top_p);
    if (!(sampling->min_p >= 0.0f && sampling->min_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "min_p is %g, expected 0 (off) to 1", (double)sampling->min_p);
    return PF_OK;
}

/* What pf_top_fn needs, then values [n_vocab], then ids [n_vocab]. */
static selection selection_in(void *scratch, int32_t n_vocab)
{
    float *values = (float *)((char *)scratch + pf_top_scratch_bytes(n_vocab));
    return (selection){ .search = scratch, .values = values, .ids = (int32_t *)(values + n_vocab) };
}

size_t pf_sampling_scratch_bytes(int32_t n_vocab)
{
    return pf_top_scratch_bytes(n_vocab) + (size_t)n_vocab * (sizeof(float) + sizeof(int32_t));
}

/* ---- filters --------------------------------------------------------------------------------------------------- */

static void keep_at_least(float *weights, int32_t n, float threshold)
{
    for (int32_t i = 0; i < n; i++)
        if (weights[i] < threshold) weights[i] = 0.0f;
}

static void keep_top_k(const pf_kernels *kernels, float *weights, int32_t n, int32_t k, void *scratch)
{
    const selection s = selection_in(scratch, n);
    if (kernels->top(weights, n, k, 0.0f, s.ids, s.values, s.search) < k) return;
    float least = s.values[0];
    for (int32_t i = 1; i < k; i++) least = fminf(least, s.values[i]);
    keep_at_least(weights, n, least);
}

/* In eight partial sums: one would wait for each addition before the next. */
static double sum_of(const float *values, int32_t n)
{
    enum { N_SUMS = 8 };
    double sums[N_SUMS] = { 0.0 };
    int32_t i = 0;
    for (; i + N_SUMS <= n; i += N_SUMS)
        for (int32_t j = 0; j < N_SUMS; j++) sums[j] += (double)values[i + j];
    for (; i < n; i++) sums[i % N_SUMS] += (double)values[i];
    double sum = 0.0;
    for (int32_t j = 0; j < N_SUMS; j++) sum += sums[j];
    return sum;
}

/* Split values [n] into those above the pivot, in front, and the others. Sums the front. Returns its size. */
static int32_t split_above(float *values, int32_t n, float pivot, double *front_sum)
{
    int32_t n_front = 0;
    *front_sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        const float value = values[i];
        if (!(value > pivot)) continue;
        values[i] = values[n_front];
        values[n_front++] = value;
        *front_sum += (double)value;
    }
    return n_front;
}

static float median_of_three(float a, float b, float c)
{
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}

/* The least weight of the smallest set of largest weights [n_left] that weighs `target`, and what is larger than it
 * together: a selection by mass, as quickselect is by rank. `left` is reordered. */
static float find_boundary(float *left, int32_t n_left, double target, double *mass_above)
{
    /* Invariant: the boundary is among left[0 .. n_left), and all that is larger than those weighs `above`. */
    double above = 0.0;
    float boundary = 0.0f;
    while (n_left > 0) {
        boundary = median_of_three(left[0], left[n_left / 2], left[n_left - 1]);
        double front_sum;
        const int32_t n_front = split_above(left, n_left, boundary, &front_sum);
        if (n_front > 0 && above + front_sum >= target) {
            n_left = n_front;
            continue;
        }
        int32_t n_equal = 0, n_back = 0;
        for (int32_t i = n_front; i < n_left; i++) {
            if (left[i] == boundary)
                n_equal++;
            else
                left[n_back++] = left[i];
        }
        above += front_sum;
        const double missing = target - above;
        if (n_back == 0 || missing <= (double)boundary * n_equal) break;
        above += (double)boundary * n_equal;
        n_left = n_back;
    }
    *mass_above = above;
    return boundary;
}

/* Keep the smallest set of largest weights whose mass reaches top_p; the others become 0. Where equal weights straddle the
 * boundary the lowest ids stay; transformers leaves that to an unstable sort. */
static void keep_top_p(float *weights, int32_t n, float top_p, void *scratch)
{
    float *left = scratch;
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i++)
        if (weights[i] > 0.0f) left[n_left++] = weights[i];
    const double target = (double)top_p * sum_of(weights, n);
    double mass; /* of what is larger than the boundary: of those equal to it, as many as are needed, at least one */
    const float boundary = find_boundary(left, n_left, target, &mass);

    int32_t n_equal = 0;
    for (int32_t i = 0; i < n; i++) {
        if (weights[i] > boundary) continue;
        if (weights[i] == boundary && (n_equal == 0 || mass < target)) {
            mass += (double)boundary;
            n_equal++;
            continue;
        }
        weights[i] = 0.0f;
    }
}

/* ---- the distribution ------------------------------------------------------------------------------------------ */

/* Colder than any difference of two logits can tell; its reciprocal is still a number. */
static const float COLDEST = 1e-30f;

static pf_status one_hot_at_the_best(const pf_kernels *kernels, const float *logits, int32_t n, float *probabilities)
{
    const int32_t best = kernels->argmax(logits, n);
    if (best < 0 || logits[best] == -INFINITY) return PF_INTERNAL;
    memset(probabilities, 0, (size_t)n * sizeof *probabilities);
    probabilities[best] = 1.0f;
    return PF_OK;
}

static bool cuts_mass(const pf_sampling *sampling)
{
    return sampling->top_p > 0.0f && sampling->top_p < 1.0f;
}

pf_status pf_sampling_distribution(const pf_sampling *sampling, const pf_kernels *kernels, const float *logits,
                                   int32_t n_vocab, float *probabilities, void *scratch)
{
    if (sampling->temperature == 0.0f) return one_hot_at_the_best(kernels, logits, n_vocab, probabilities);

    const float top = kernels->softmax(probabilities, logits, n_vocab, fmaxf(sampling->temperature, COLDEST));
    if (top == -INFINITY) return PF_INTERNAL;

    const bool cut_k = sampling->top_k > 0 && sampling->top_k < n_vocab;
    const bool cut_p = cuts_mass(sampling);
    const bool cut_min = sampling->min_p > 0.0f;
    if (!cut_k && !cut_p && !cut_min) return PF_OK;

    if (cut_k) keep_top_k(kernels, probabilities, n_vocab, sampling->top_k, scratch);
    if (cut_p) keep_top_p(probabilities, n_vocab, sampling->top_p, scratch);
    if (cut_min) {
        const float best = probabilities[kernels->argmax(probabilities, n_vocab)]; /* no filter removes it */
        keep_at_least(probabilities, n_vocab, sampling->min_p * best);
    }
    const double sum = sum_of(probabilities, n_vocab);
    for (int32_t i = 0; i < n_vocab; i++) probabilities[i] = (float)((double)probabilities[i] / sum);
    return PF_OK;
}

/* ---- the few most probable --------------------------------------------------------------------------------------- */

/* Drop the entries below a threshold and those of no weight, and make the rest sum to 1. Returns their number. */
static int32_t keep_entries(int32_t *ids, float *values, int32_t n, float threshold)
{
    int32_t n_kept = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!(values[i] > 0.0f) || values[i] < threshold) continue;
        ids[n_kept] = ids[i];
        values[n_kept++] = values[i];
    }
    const double sum = sum_of(values, n_kept);
    for (int32_t i = 0; i < n_kept; i++) values[i] = (float)((double)values[i] / sum);
    return n_kept;
}

static float largest_of(const float *values, int32_t n)
{
    float best = values[0];
    for (int32_t i = 1; i < n; i++) best = fmaxf(best, values[i]);
    return best;
}

pf_status pf_sampling_shortlist(const pf_sampling *sampling, const pf_kernels *kernels, const float *logits,
                                int32_t n_vocab, int32_t max_entries, int32_t *ids, float *values, int32_t *n_entries,
                                float *probabilities, void *scratch)
{
    if (sampling->temperature == 0.0f || cuts_mass(sampling)) {
        PF_TRY(pf_sampling_distribution(sampling, kernels, logits, n_vocab, probabilities, scratch));
        const int32_t n = kernels->top(probabilities, n_vocab, max_entries, 0.0f, ids, values, scratch);
        *n_entries = keep_entries(ids, values, n, 0.0f);
        return PF_OK;
    }
    const bool cut_k = sampling->top_k > 0 && sampling->top_k < max_entries;
    const int32_t wanted = cut_k ? sampling->top_k : max_entries;
    const int32_t n = kernels->top(logits, n_vocab, wanted, -INFINITY, ids, values, scratch);
    if (n == 0) return PF_INTERNAL;
    (void)kernels->softmax(values, values, n, fmaxf(sampling->temperature, COLDEST));
    *n_entries = keep_entries(ids, values, n, sampling->min_p * largest_of(values, n));
    return PF_OK;
}

int32_t pf_sampling_draw_entry(const float *values, int32_t n, float uniform)
{
    double sum = 0.0;
    int32_t last = 0;
    for (int32_t i = 0; i < n && sum <= (double)uniform; i++) {
        if (!(values[i] > 0.0f)) continue;
        sum += (double)values[i];
        last = i;
    }
    return last;
}
