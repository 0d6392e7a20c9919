/*
 * The filters run on the probabilities before any is cut, as weights: top-k, top-p, min-p and typical-p each set some to 0, and one
 * factor at the end makes a distribution again. Sums of weights are in double: 150,000 floats lose more than a rare
 * token's share.
 */
#include "model/sampling/sampling.h"

#include <math.h>
#include <string.h>

/* The largest of a distribution, and room to find them; in the caller's scratch. */
typedef struct {
    void *search;
    float *values;
    int32_t *ids;
} selection;

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

/* Of weights [n] those whose value is at least the threshold. Without a branch, as all walks over a vocabulary here: which
 * weights go is as good as random. Chosen as bits, since clang makes a branch of floats that are not what is compared. */
static void keep_at_least(float *weights, const float *values, int32_t n, float threshold)
{
    for (int32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &weights[i], sizeof bits);
        bits = values[i] < threshold ? 0 : bits;
        memcpy(&weights[i], &bits, sizeof bits);
    }
}

/* By the logits: two that differ may weigh the same, where it is hot or far below the best. */
static void keep_top_k(const pf_kernels *kernels, const float *logits, float *weights, int32_t n, int32_t k,
                       void *scratch)
{
    const selection s = selection_in(scratch, n);
    if (kernels->top(logits, n, k, -INFINITY, s.ids, s.values, s.search) < k) return;
    float least = s.values[0];
    for (int32_t i = 1; i < k; i++) least = fminf(least, s.values[i]);
    keep_at_least(weights, logits, n, least);
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

static void scale_to_one(float *values, int32_t n)
{
    const double share = 1.0 / sum_of(values, n);
    for (int32_t i = 0; i < n; i++) values[i] = (float)((double)values[i] * share);
}

/* Of weights [n], 0 to 1, those of at least `least`, packed. Returns their number. */
static int32_t pack_at_least(float *out, const float *weights, int32_t n, float least)
{
    int32_t n_out = 0;
    for (int32_t i = 0; i < n; i++) {
        out[n_out] = weights[i];
        n_out += weights[i] >= least;
    }
    return n_out;
}

/* Floats from 0 to below 2 are in the order of their 30 bits, read as a number of three digits. */
enum { DIGIT_BITS = 10, N_DIGITS = 1 << DIGIT_BITS, N_PLACES = 3 };

static uint32_t digit_of(float weight, int place)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits >> (N_PLACES - 1 - place) * DIGIT_BITS & (N_DIGITS - 1);
}

/* The digit at a place that the boundary has, all of whose first ones the keys `left` have: what lies above it weighs less than
 * `target`, with it as much. *above grows by what lies above it; where rounding leaves all below the target, the least. */
static uint32_t find_digit(const float *left, const float *weights, int32_t n_left, int place, double target,
                           double *above)
{
    double mass[N_DIGITS] = { 0.0 };
    for (int32_t i = 0; i < n_left; i++) mass[digit_of(left[i], place)] += (double)weights[i];
    double before = *above;
    uint32_t last = 0;
    for (uint32_t d = N_DIGITS; d-- > 0;) {
        if (!(mass[d] > 0.0)) continue;
        last = d;
        *above = before;
        before += mass[d];
        if (before >= target) break;
    }
    return last;
}

/* The least weight of the smallest set of largest weights [n_left] that weighs `target`, and what is larger than it
 * together: digit by digit, a radix selection by mass. `left` is packed to the weights that equal it. Returns their number. */
static int32_t find_boundary(float *left, int32_t n_left, double target, double *mass_above)
{
    *mass_above = 0.0;
    for (int place = 0; place < N_PLACES; place++) {
        const uint32_t digit = find_digit(left, left, n_left, place, target, mass_above);
        int32_t n = 0;
        for (int32_t i = 0; i < n_left; i++) {
            left[n] = left[i];
            n += digit_of(left[i], place) == digit;
        }
        n_left = n;
    }
    return n_left;
}

/* Of weights [n] those of the k largest logits; of equal ones the lowest ids. */
static void keep_best(const pf_kernels *kernels, const float *logits, float *weights, int32_t n, int32_t k,
                      void *scratch)
{
    const selection s = selection_in(scratch, n);
    const int32_t n_best = kernels->top(logits, n, k, -INFINITY, s.ids, s.values, s.search);
    for (int32_t i = 0; i < n_best; i++) s.values[i] = weights[s.ids[i]];
    memset(weights, 0, (size_t)n * sizeof *weights);
    for (int32_t i = 0; i < n_best; i++) weights[s.ids[i]] = s.values[i];
}

static int32_t count_positive(const float *weights, int32_t n)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) count += weights[i] > 0.0f;
    return count;
}

/* Keep the smallest set of largest weights whose mass reaches top_p; the others become 0. Where equal weights straddle the
 * boundary the largest logits stay, of equal ones the lowest ids; transformers leaves the latter to an unstable sort. */
static void keep_top_p(const pf_kernels *kernels, const float *logits, float *weights, int32_t n, float top_p,
                       void *scratch)
{
    float *left = scratch;
    const double all = sum_of(weights, n), target = (double)top_p * all;
    /* Those that weigh less than the n-th part of what is not needed are, together, not needed. */
    const float least = (float)((all - target) / n * 0.999);
    double mass; /* of what is larger than the boundary: of those equal to it, as many as are needed, at least one */
    const int32_t n_equal = find_boundary(left, pack_at_least(left, weights, n, least), target, &mass);
    const float boundary = left[0];
    keep_at_least(weights, weights, n, boundary);

    int32_t n_needed = 1;
    for (mass += (double)boundary; mass < target && n_needed < n_equal; n_needed++) mass += (double)boundary;
    if (n_equal == n_needed) return;
    keep_best(kernels, logits, weights, n, count_positive(weights, n) - (n_equal - n_needed), scratch);
}

/* ---- typical-p --------------------------------------------------------------------------------------------------- */

/* e^H of weights [n], which are probabilities of the logits at this temperature, some of them cut to 0, and *sum of them: with
 * log w = (logit - top) / temperature + log w(top), H needs no logarithm a token. 0: the entropy is no number. */
static double perplexity_of(const float *weights, const float *logits, int32_t n, float temperature, double *sum)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (weights[i] > weights[best]) best = i;
    double total = 0.0, moment = 0.0;
    for (int32_t i = 0; i < n; i++) {
        if (!(weights[i] > 0.0f)) continue;
        total += (double)weights[i];
        moment += (double)weights[i] * ((double)logits[i] - (double)logits[best]);
    }
    *sum = total;
    const double perplexity = total / (double)weights[best] * exp(-moment / ((double)temperature * total));
    return isfinite(perplexity) ? perplexity : 0.0;
}

/* min(p e^H, 1 / (p e^H)) of a weight, with scale = e^H / sum. */
static float nearness_of(float weight, double scale)
{
    const double ratio = (double)weight * scale;
    return (float)(ratio <= 1.0 ? ratio : 1.0 / ratio);
}

/* The least of keys [n] above which less than `target` weighs: as find_boundary, for keys that are not the weights. */
static float find_nearest(float *keys, float *weights, int32_t n, double target)
{
    double mass_above = 0.0;
    for (int place = 0; place < N_PLACES; place++) {
        const uint32_t digit = find_digit(keys, weights, n, place, target, &mass_above);
        int32_t n_left = 0;
        for (int32_t i = 0; i < n; i++) {
            const float key = keys[i];
            keys[n_left] = key;
            weights[n_left] = weights[i];
            n_left += digit_of(key, place) == digit;
        }
        n = n_left;
    }
    return keys[0];
}

/* Where the largest logit is infinite all that is left weighs the same, and stays. */
static void keep_typical_p(const pf_sampling *sampling, const float *logits, float *weights, int32_t n, void *scratch)
{
    float *keys = scratch, *left = keys + n;
    double sum;
    const double perplexity = perplexity_of(weights, logits, n, sampling->temperature, &sum);
    if (!(perplexity > 0.0)) return;
    const double scale = perplexity / sum;
    int32_t n_left = 0;
    for (int32_t i = 0; i < n; i++) {
        keys[n_left] = nearness_of(weights[i], scale);
        left[n_left] = weights[i];
        n_left += weights[i] > 0.0f;
    }
    const float least = find_nearest(keys, left, n_left, (double)sampling->typical_p * sum);
    for (int32_t i = 0; i < n; i++)
        if (nearness_of(weights[i], scale) < least) weights[i] = 0.0f;
}

/* ---- the distribution ------------------------------------------------------------------------------------------ */

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

static bool cuts_typical(const pf_sampling *sampling)
{
    return sampling->typical_p > 0.0f && sampling->typical_p < 1.0f;
}

pf_status pf_sampling_distribution(const pf_sampling *sampling, const pf_kernels *kernels, const float *logits,
                                   int32_t n_vocab, float *probabilities, void *scratch)
{
    if (sampling->temperature == 0.0f) return one_hot_at_the_best(kernels, logits, n_vocab, probabilities);

    const float top = kernels->softmax(probabilities, logits, n_vocab, sampling->temperature);
    if (top == -INFINITY) return PF_INTERNAL;

    const bool cut_k = sampling->top_k > 0 && sampling->top_k < n_vocab;
    const bool cut_p = cuts_mass(sampling);
    const bool cut_min = sampling->min_p > 0.0f;
    const bool cut_typical = cuts_typical(sampling);
    if (!cut_k && !cut_p && !cut_min && !cut_typical) return PF_OK;

    if (cut_k) keep_top_k(kernels, logits, probabilities, n_vocab, sampling->top_k, scratch);
    if (cut_p) keep_top_p(kernels, logits, probabilities, n_vocab, sampling->top_p, scratch);
    if (cut_min) {
        const float best = probabilities[kernels->argmax(probabilities, n_vocab)]; /* no filter removes it */
        keep_at_least(probabilities, probabilities, n_vocab, sampling->min_p * best);
    }
    if (cut_typical) keep_typical_p(sampling, logits, probabilities, n_vocab, scratch);
    scale_to_one(probabilities, n_vocab);
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
    scale_to_one(values, n_kept);
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
    const bool cut_k = sampling->top_k > 0 && sampling->top_k < max_entries;
    const int32_t wanted = cut_k ? sampling->top_k : max_entries;
    if (sampling->temperature == 0.0f || cuts_mass(sampling) || cuts_typical(sampling)) {
        PF_TRY(pf_sampling_distribution(sampling, kernels, logits, n_vocab, probabilities, scratch));
        const int32_t n = kernels->top(probabilities, n_vocab, wanted, 0.0f, ids, values, scratch);
        *n_entries = keep_entries(ids, values, n, 0.0f);
        return PF_OK;
    }
    const int32_t n = kernels->top(logits, n_vocab, wanted, -INFINITY, ids, values, scratch);
    if (n == 0) return PF_INTERNAL;
    (void)kernels->softmax(values, values, n, sampling->temperature);
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
