#include "draft/length.h"

static const double DECAY = 0.95;
static const double PRIOR_KEPT = 2.0, PRIOR_REFUSED = 1.0; /* before the first verdicts weigh more */
static const double OUTLIER = 4.0;                         /* a stall says nothing about a length */
enum { ROUNDS_BEFORE_CHOICE = 4 };

static double expected_ns(const pf_length *l, double k)
{
    const double mean_k = l->sum_k / l->weight, mean_v = l->sum_v / l->weight;
    const double variance = l->sum_kk / l->weight - mean_k * mean_k;
    double slope = variance > 0.01 ? (l->sum_kv / l->weight - mean_k * mean_v) / variance : 0.0;
    if (slope < 0.0) slope = 0.0; /* more rows never cost less: that was noise */
    const double v = mean_v + slope * (k - mean_k);
    return v > 0.0 ? v : mean_v;
}

void pf_length_observe(pf_length *l, int32_t n_draft, int32_t n_accepted, uint64_t draft_ns, uint64_t away_ns)
{
    const double k = n_draft;
    double v = (double)away_ns, c = (double)draft_ns / k;
    if (l->weight > 1.0) {
        const double limit_v = OUTLIER * expected_ns(l, k), limit_c = OUTLIER * l->token_ns;
        if (v > limit_v) v = limit_v;
        if (c > limit_c) c = limit_c;
    }
    l->token_ns = l->weight == 0.0 ? c : DECAY * l->token_ns + (1.0 - DECAY) * c;
    l->weight = DECAY * l->weight + 1.0;
    l->sum_k = DECAY * l->sum_k + k;
    l->sum_kk = DECAY * l->sum_kk + k * k;
    l->sum_v = DECAY * l->sum_v + v;
    l->sum_kv = DECAY * l->sum_kv + k * v;
    l->n_kept = DECAY * l->n_kept + n_accepted;
    l->n_refused = DECAY * l->n_refused + (n_accepted < n_draft ? 1.0 : 0.0);
}

int32_t pf_length_next(const pf_length *l, int32_t max_draft)
{
    if (l->weight < 1.0 + (ROUNDS_BEFORE_CHOICE - 1) * DECAY * DECAY)
        return max_draft < PF_LENGTH_FIRST ? max_draft : PF_LENGTH_FIRST;
    const double kept = l->n_kept + PRIOR_KEPT, a = kept / (kept + l->n_refused + PRIOR_REFUSED);
    double tokens = 1.0, power = 1.0, best_rate = 0.0;
    int32_t best = 1;
    for (int32_t k = 1; k <= max_draft; k++) {
        power *= a;
        tokens += power;
        const double rate = tokens / ((double)k * l->token_ns + expected_ns(l, (double)k));
        if (rate > best_rate) {
            best_rate = rate;
            best = k;
        }
    }
    return best;
}
