#include "draft/length.h"

static const double DECAY_TIME = 0.99, DECAY_TEXT = 0.95; /* of a round's weight: a half after 69, and after 14 */
static const double DECAY_MARGIN = 0.995;                 /* of a token's, among those of like margin */
static const double INHERITED = 25.0;                     /* rounds that the times of the sequence before count for */
static const double LINE = 4.0;                           /* rounds at each length that the line counts for */
static const double BEFORE = 6.0;                         /* tokens that the acceptance of long ago counts for */
static const double MEAN = 4.0;                           /* tokens that it counts for among those of like margin */
static const pf_length_share PRIOR = { 3.0, 2.0 };        /* acceptance before the first verdicts */
static const double OUTLIER = 4.0;                        /* a stall says nothing about a length */
static const float MARGIN_STEP = 0.3f;                    /* nats */
/* Rounds of the first length, so that there is something to weigh by; with what another sequence measured fewer are left. */
enum { TRIALS = 4, TRIALS_INHERITED = 2 };

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

/* The share that is kept of draft tokens that are judged: lately, with the weight of long ago behind it. */
static double acceptance(const pf_length *l)
{
    const double before = (l->before.kept + PRIOR.kept) / (l->before.judged + PRIOR.judged);
    return (l->lately.kept + BEFORE * before) / (l->lately.judged + BEFORE);
}

static int32_t stretch_of(float margin)
{
    if (!(margin >= 0.0f)) return 0; /* no number is none */
    const float at = 1.0f + margin / MARGIN_STEP;
    return at < (float)PF_LENGTH_MARGINS ? (int32_t)at : PF_LENGTH_MARGINS - 1;
}

static double acceptance_at(const pf_length *l, float margin, double mean)
{
    const pf_length_share *like = &l->by_margin[stretch_of(margin)];
    return (like->kept + MEAN * mean) / (like->judged + MEAN);
}

/* ---- what the drafter calls ------------------------------------------------------------------------------------ */

void pf_length_begin(pf_length *length, const pf_length *before)
{
    *length = *before;
    length->lately = (pf_length_share){ 0 };
    if (length->n_trials > TRIALS_INHERITED) length->n_trials = TRIALS_INHERITED;
    if (before->line.rounds <= INHERITED) return;
    const double share = INHERITED / before->line.rounds;
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

static void count(double *sum, double decay, double value)
{
    *sum = decay * *sum + value;
}

static void count_share(pf_length_share *share, double decay, double judged, double kept)
{
    count(&share->judged, decay, judged);
    count(&share->kept, decay, kept);
}

static void observe_time(pf_length *l, int32_t n_draft, int32_t n_accepted, double drafted, double away)
{
    if (l->line.rounds > 1.0) {
        const double limit_drafted = OUTLIER * token_ns(l) * n_draft, limit_away = OUTLIER * away_ns(l, n_draft);
        if (drafted > limit_drafted) drafted = limit_drafted;
        if (away > limit_away) away = limit_away;
    }
    for (int32_t k = 1; k <= PF_MAX_DRAFT_TOKENS; k++) {
        count(&l->away[k].rounds, DECAY_TIME, k == n_draft ? 1.0 : 0.0);
        count(&l->away[k].ns, DECAY_TIME, k == n_draft ? away : 0.0);
    }
    l->line = fit(l);
    count(&l->n_drafted, DECAY_TIME, n_draft);
    count(&l->drafted_ns, DECAY_TIME, drafted);
    count(&l->n_committed, DECAY_TIME, n_accepted + 1);
    count(&l->committed_ns, DECAY_TIME, drafted + away);
}

void pf_length_observe(pf_length *l, const float *margins, int32_t n_draft, int32_t n_accepted, uint64_t draft_ns,
                       uint64_t away_ns)
{
    if (l->n_trials < TRIALS) l->n_trials++;
    observe_time(l, n_draft, n_accepted, (double)draft_ns, (double)away_ns);
    const int32_t n_judged = n_accepted < n_draft ? n_accepted + 1 : n_draft;
    count_share(&l->before, DECAY_TIME, n_judged, n_accepted);
    count_share(&l->lately, DECAY_TEXT, n_judged, n_accepted);
    for (int32_t i = 0; i < n_judged; i++)
        count_share(&l->by_margin[stretch_of(margins[i])], DECAY_MARGIN, 1.0, i < n_accepted ? 1.0 : 0.0);
}

bool pf_length_goes_on(const pf_length *l, const float *margins, int32_t n_drawn, int32_t max_draft)
{
    if (n_drawn == 0 || n_drawn >= max_draft) return n_drawn == 0;
    if (l->n_trials < TRIALS) return n_drawn < PF_LENGTH_FIRST;
    const double a = acceptance(l), rate = l->committed_ns > 0.0 ? l->n_committed / l->committed_ns : 0.0;
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
