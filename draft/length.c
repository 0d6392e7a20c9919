#include "draft/length.h"

static const double DECAY_TIME = 0.99, DECAY_TEXT = 0.95; /* of a round's weight: a half after 69, and after 14 */
static const double DECAY_MARGIN = 0.995;                 /* of a token's, among those of like margin */
static const double INHERITED = 25.0;                     /* rounds that the times of the sequence before count for */
static const double FRESH = 0.2;                          /* rounds of a length, by their weight, that need no trial */
static const double LINE = 4.0;                           /* rounds at each length that the line counts for */
static const double BEFORE = 6.0;                         /* tokens that the acceptance of long ago counts for */
static const double MEAN = 4.0;                           /* tokens that it counts for among those of like margin */
static const pf_length_share PRIOR = { 3.0, 2.0, 0.4 };   /* acceptance before the first verdicts */
static const double OUTLIER = 4.0;                        /* a stall says nothing about a length */
static const float MARGIN_STEP = 0.3f;                    /* nats */
static const double CAUTION = 3.0;                        /* of a second choice's price; see length.h */
static const double LEAST_GAIN = 0.01; /* tokens: rows that seem to cost nothing still cost a drafter */
/* Lengths of the first rounds, so that there is something to weigh by: a verifier's time goes in steps, which no line through
 * two lengths shows. With what another sequence measured the last two are tried again, if that was long ago. */
enum { TRIALS = 4, TRIALS_INHERITED = 2 };
static const int32_t TRIED[TRIALS] = { PF_LENGTH_FIRST, 1, 3, 2 };

/* ---- time ------------------------------------------------------------------------------------------------------ */

/* Least squares over all lengths. */
static pf_length_line fit(const pf_length *l)
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
    if (n == 0.0) return (pf_length_line){ 0 };
    pf_length_line f = { .rounds = n, .mean_k = sum_k / n, .mean_v = sum_v / n };
    const double variance = sum_kk / n - f.mean_k * f.mean_k;
    if (variance > 0.01) f.slope = (sum_kv / n - f.mean_k * f.mean_v) / variance;
    if (f.slope < 0.0) f.slope = 0.0; /* more rows never cost less: that was noise */
    return f;
}

static double token_ns(const pf_length *l)
{
    return l->n_drafted > 0.0 ? l->drafted_ns / l->n_drafted : 0.0;
}

static double away_ns(const pf_length *l, int32_t k)
{
    const pf_length_line *f = &l->line;
    const double on_line = f->mean_v + f->slope * (k - f->mean_k), v = on_line > 0.0 ? on_line : f->mean_v;
    return (l->away[k].ns + LINE * v) / (l->away[k].rounds + LINE);
}

static double round_ns(const pf_length *l, int32_t k)
{
    return k * token_ns(l) + away_ns(l, k);
}

/* ---- acceptance ------------------------------------------------------------------------------------------------ */

double pf_length_acceptance(const pf_length *l)
{
    const double before = (l->before.kept + PRIOR.kept) / (l->before.judged + PRIOR.judged);
    return (l->n_kept + BEFORE * before) / (l->n_judged + BEFORE);
}

double pf_length_second(const pf_length *l)
{
    return (l->before.second + PRIOR.second) / (l->before.judged + PRIOR.judged);
}

static int32_t stretch_of(float margin)
{
    if (!(margin >= 0.0f)) return 0; /* no number is none */
    const float at = 1.0f + margin / MARGIN_STEP;
    return at < (float)PF_LENGTH_MARGINS ? (int32_t)at : PF_LENGTH_MARGINS - 1;
}

/* A share of tokens of like margin, leaning on what it is of all. */
static double leaning(double count, double judged, double mean)
{
    return (count + MEAN * mean) / (judged + MEAN);
}

static double acceptance_at(const pf_length *l, float margin, double mean)
{
    const pf_length_share *like = &l->by_margin[stretch_of(margin)];
    return leaning(like->kept, like->judged, mean);
}

double pf_length_acceptance_at(const pf_length *l, float margin)
{
    return acceptance_at(l, margin, pf_length_acceptance(l));
}

/* The share of tokens of like margin that were refused, and whose second choice stood in their place. */
static double second_at(const pf_length *l, float margin)
{
    const pf_length_share *like = &l->by_margin[stretch_of(margin)];
    return leaning(like->second, like->judged, pf_length_second(l));
}

/* ---- what the drafter calls ------------------------------------------------------------------------------------ */

static void inherit_times(pf_length *length)
{
    if (length->line.rounds <= INHERITED) return;
    const double share = INHERITED / length->line.rounds;
    length->n_drafted *= share;
    length->drafted_ns *= share;
    length->n_committed *= share;
    length->committed_ns *= share;
    for (int32_t k = 1; k <= PF_MAX_DRAFT_TOKENS; k++) {
        length->away[k].rounds *= share;
        length->away[k].ns *= share;
    }
    length->line.rounds = INHERITED;
}

void pf_length_begin(pf_length *length, const pf_length *before)
{
    *length = *before;
    length->n_judged = length->n_kept = 0.0;
    inherit_times(length);
    if (length->n_trials <= TRIALS_INHERITED) return;
    length->n_trials = TRIALS_INHERITED;
    while (length->n_trials < TRIALS && length->away[TRIED[length->n_trials]].rounds >= FRESH) length->n_trials++;
}

static void count(double *sum, double decay, double value)
{
    *sum = decay * *sum + value;
}

static void count_share(pf_length_share *share, double decay, double judged, double kept, double second)
{
    count(&share->judged, decay, judged);
    count(&share->kept, decay, kept);
    count(&share->second, decay, second);
}

static void observe_time(pf_length *l, const pf_length_round *round)
{
    const int32_t n_rows = round->n_drawn + round->n_branches;
    double drafted = (double)round->draft_ns, away = (double)round->away_ns;
    if (l->line.rounds > 1.0) {
        const double limit_drafted = OUTLIER * token_ns(l) * round->n_drawn, limit_away = OUTLIER * away_ns(l, n_rows);
        if (drafted > limit_drafted) drafted = limit_drafted;
        if (away > limit_away) away = limit_away;
    }
    for (int32_t k = 1; k <= PF_MAX_DRAFT_TOKENS; k++) {
        count(&l->away[k].rounds, DECAY_TIME, k == n_rows ? 1.0 : 0.0);
        count(&l->away[k].ns, DECAY_TIME, k == n_rows ? away : 0.0);
    }
    l->line = fit(l);
    count(&l->n_drafted, DECAY_TIME, round->n_drawn);
    count(&l->drafted_ns, DECAY_TIME, drafted);
    count(&l->n_committed, DECAY_TIME, round->n_committed);
    count(&l->committed_ns, DECAY_TIME, drafted + away);
}

void pf_length_observe(pf_length *l, const float *margins, const pf_length_round *round)
{
    if (l->n_trials < TRIALS) l->n_trials++;
    observe_time(l, round);
    const int32_t n_kept = round->n_kept, n_judged = n_kept < round->n_drawn ? n_kept + 1 : n_kept;
    const double second = n_kept < n_judged && round->second_right ? 1.0 : 0.0;
    count_share(&l->before, DECAY_TIME, n_judged, n_kept, second);
    count(&l->n_judged, DECAY_TEXT, n_judged);
    count(&l->n_kept, DECAY_TEXT, n_kept);
    for (int32_t i = 0; i < n_judged; i++)
        count_share(&l->by_margin[stretch_of(margins[i])], DECAY_MARGIN, 1.0, i < n_kept ? 1.0 : 0.0,
                    i < n_kept ? 0.0 : second);
}

void pf_length_observe_late(pf_length *l, float margin)
{
    count_share(&l->before, DECAY_TIME, 1.0, 1.0, 0.0);
    count(&l->n_judged, DECAY_TEXT, 1.0);
    count(&l->n_kept, DECAY_TEXT, 1.0);
    count_share(&l->by_margin[stretch_of(margin)], DECAY_MARGIN, 1.0, 1.0, 0.0);
}

static int32_t find_greatest(const double *values, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

static double rate_of(const pf_length *l)
{
    return l->committed_ns > 0.0 ? l->n_committed / l->committed_ns : 0.0;
}

bool pf_length_goes_on(const pf_length *l, const float *margins, int32_t n_drawn, int32_t max_draft)
{
    if (n_drawn == 0 || n_drawn >= max_draft) return n_drawn == 0;
    if (l->n_trials < TRIALS) return n_drawn < TRIED[l->n_trials];
    const double a = pf_length_acceptance(l), rate = rate_of(l);
    double reach = 1.0, gain = 0.0;
    for (int32_t i = 0; i < n_drawn; i++) reach *= acceptance_at(l, margins[i], a);
    const double spent = round_ns(l, n_drawn);
    for (int32_t j = n_drawn + 1; j <= max_draft; j++) {
        reach *= a;
        gain += reach;
        const double price = rate * (round_ns(l, j) - spent);
        if (gain > price) return true;
        if (gain + reach * a / (1.0 - a) < price) return false; /* nor will any longer one */
    }
    return false;
}

double pf_length_row_price(const pf_length *l)
{
    return l->n_trials < TRIALS ? -1.0 : CAUTION * rate_of(l) * l->line.slope;
}

int32_t pf_length_branches(const pf_length *l, const float *margins, int32_t n_drawn, int32_t max_draft, int32_t *at)
{
    const double a = pf_length_acceptance(l), price = pf_length_row_price(l);
    if (price < 0.0) return 0;
    double gain[PF_MAX_DRAFT_TOKENS], reach = 1.0;
    for (int32_t i = 0; i < n_drawn; i++) {
        gain[i] = reach * second_at(l, margins[i]);
        reach *= acceptance_at(l, margins[i], a);
    }
    int32_t n = 0;
    while (n < n_drawn && n_drawn + n < max_draft) {
        const int32_t best = find_greatest(gain, n_drawn);
        if (gain[best] <= LEAST_GAIN || gain[best] <= price) break;
        gain[best] = 0.0;
        at[n++] = best;
    }
    return n;
}
