#include "draft/length.h"

static const double DECAY_TIME = 0.99, DECAY_TEXT = 0.95;  /* of a round's weight: a half after 69, and after 14 */
static const double INHERITED = 25.0;                      /* rounds that the times of the sequence before count for */
static const double LINE = 4.0;                            /* rounds at each length that the line counts for */
static const double BEFORE = 6.0;                          /* tokens that the acceptance of long ago counts for */
static const double PRIOR_KEPT = 2.0, PRIOR_REFUSED = 1.0; /* and before the first verdicts */
static const double OUTLIER = 4.0;                         /* a stall says nothing about a length */
enum { TRIALS = 4, TRIALS_INHERITED = 2 }; /* rounds of the first length, to have two points of the line */

/* v(k) = mean_v + slope * (k - mean_k), by least squares over all lengths. */
typedef struct {
    double rounds, mean_k, mean_v, slope;
} line;

static line fit(const pf_length *l)
{
    double n = 0.0, sum_k = 0.0, sum_kk = 0.0, sum_v = 0.0, sum_kv = 0.0;
    for (int32_t k = 1; k <= PF_MAX_DRAFT_TOKENS; k++) {
        const pf_length_time *t = &l->away[k];
        n += t->rounds;
        sum_k += t->rounds * k;
        sum_kk += t->rounds * k * k;
        sum_v += t->ns;
        sum_kv += t->ns * k;
    }
    if (n == 0.0) return (line){ 0 };
    line f = { .rounds = n, .mean_k = sum_k / n, .mean_v = sum_v / n };
    const double variance = sum_kk / n - f.mean_k * f.mean_k;
    if (variance > 0.01) f.slope = (sum_kv / n - f.mean_k * f.mean_v) / variance;
    if (f.slope < 0.0) f.slope = 0.0; /* more rows never cost less: that was noise */
    return f;
}

static double expected_away_ns(const pf_length *l, const line *f, int32_t k)
{
    const double on_line = f->mean_v + f->slope * (k - f->mean_k), v = on_line > 0.0 ? on_line : f->mean_v;
    return (l->away[k].ns + LINE * v) / (l->away[k].rounds + LINE);
}

static double token_ns(const pf_length *l)
{
    return l->n_drafted > 0.0 ? l->drafted_ns / l->n_drafted : 0.0;
}

/* The share of draft tokens that are kept, of those that are judged: lately, with the weight of long ago behind it. */
static double acceptance(const pf_length *l)
{
    const double kept = l->n_kept_before + PRIOR_KEPT, before = kept / (kept + l->n_refused_before + PRIOR_REFUSED);
    return (l->n_kept + BEFORE * before) / (l->n_kept + l->n_refused + BEFORE);
}

void pf_length_begin(pf_length *length, const pf_length *before)
{
    *length = *before;
    length->n_kept = length->n_refused = 0.0;
    if (length->n_trials > TRIALS_INHERITED) length->n_trials = TRIALS_INHERITED;
    const double rounds = fit(before).rounds;
    if (rounds <= INHERITED) return;
    const double share = INHERITED / rounds;
    length->n_drafted *= share;
    length->drafted_ns *= share;
    for (int32_t k = 1; k <= PF_MAX_DRAFT_TOKENS; k++) {
        length->away[k].rounds *= share;
        length->away[k].ns *= share;
    }
}

static void count(double *sum, double decay, double value)
{
    *sum = decay * *sum + value;
}

void pf_length_observe(pf_length *l, int32_t n_draft, int32_t n_accepted, uint64_t draft_ns, uint64_t away_ns)
{
    const double refused = n_accepted < n_draft ? 1.0 : 0.0;
    double drafted = (double)draft_ns, away = (double)away_ns;
    const line f = fit(l);
    if (f.rounds > 1.0) {
        const double limit_drafted = OUTLIER * token_ns(l) * n_draft,
                     limit_away = OUTLIER * expected_away_ns(l, &f, n_draft);
        if (drafted > limit_drafted) drafted = limit_drafted;
        if (away > limit_away) away = limit_away;
    }
    for (int32_t k = 1; k <= PF_MAX_DRAFT_TOKENS; k++) {
        count(&l->away[k].rounds, DECAY_TIME, k == n_draft ? 1.0 : 0.0);
        count(&l->away[k].ns, DECAY_TIME, k == n_draft ? away : 0.0);
    }
    if (l->n_trials < TRIALS) l->n_trials++;
    count(&l->n_drafted, DECAY_TIME, n_draft);
    count(&l->drafted_ns, DECAY_TIME, drafted);
    count(&l->n_kept_before, DECAY_TIME, n_accepted);
    count(&l->n_refused_before, DECAY_TIME, refused);
    count(&l->n_kept, DECAY_TEXT, n_accepted);
    count(&l->n_refused, DECAY_TEXT, refused);
}

int32_t pf_length_next(const pf_length *l, int32_t max_draft)
{
    if (l->n_trials < TRIALS) return max_draft < PF_LENGTH_FIRST ? max_draft : PF_LENGTH_FIRST;
    const line f = fit(l);
    const double a = acceptance(l), c = token_ns(l);
    double tokens = 1.0, power = 1.0, best_rate = 0.0;
    int32_t best = 1;
    for (int32_t k = 1; k <= max_draft; k++) {
        power *= a;
        tokens += power;
        const double rate = tokens / (k * c + expected_away_ns(l, &f, k));
        if (rate > best_rate) {
            best_rate = rate;
            best = k;
        }
    }
    return best;
}
