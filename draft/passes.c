#include "draft/passes.h"

#include <math.h>

#include "base/checked.h"

static const double DECAY = 0.998;        /* of a round's weight: a half after 346 */
static const double DECAY_OTHERS = 0.999; /* of the certainty about a way that is not taken: a half after 693 */
static const double DECAY_TIME = 0.99, DECAY_POSITION = 0.99; /* a half after 69 */
static const double BONUS = 0.5;
static const double MEAN_ROUNDS = 8.0; /* rounds that the mean of all ways counts for among those of one */
static const double LEANS = 2.0;       /* tokens that the mean counts for at each position */
static const double PRIOR = 0.5;       /* acceptance before the first verdicts, which counts for as many */
static const double OUTLIER = 4.0;     /* a stall says nothing about passes */

static void add(double *sum, double decay, double value)
{
    *sum = decay * *sum + value;
}

void pf_passes_observe(pf_passes_records *records, const pf_passes_round *round)
{
    pf_passes_record *r = &records->of[round->how];
    double ns = (double)round->ns;
    if (r->timed > 2.0 && ns > OUTLIER * r->ns / r->timed) ns = OUTLIER * r->ns / r->timed;
    for (int32_t how = PF_PASSES_ONE; how < PF_N_PASSES; how++) {
        if (how == (int32_t)round->how) continue;
        pf_passes_record *other = &records->of[how]; /* the mean stays */
        other->rounds *= DECAY_OTHERS;
        other->committed *= DECAY_OTHERS;
    }
    add(&r->rounds, DECAY, 1.0);
    add(&r->committed, DECAY, round->n_committed);
    add(&r->timed, DECAY_TIME, 1.0);
    add(&r->ns, DECAY_TIME, ns);
    for (int32_t i = 0; i < round->n_judged; i++) {
        add(&r->judged[i], DECAY_POSITION, 1.0);
        add(&r->kept[i], DECAY_POSITION, i < round->n_kept ? 1.0 : 0.0);
    }
}

/* Of all rounds, however they were drafted. */
static double mean_committed(const pf_passes_records *records)
{
    double rounds = 0.0, committed = 0.0;
    for (int32_t how = PF_PASSES_ONE; how < PF_N_PASSES; how++) {
        rounds += records->of[how].rounds;
        committed += records->of[how].committed;
    }
    return committed / rounds;
}

pf_passes pf_passes_choose(const pf_passes_records *records)
{
    pf_passes best = PF_PASSES_ONE;
    double best_bound = 0.0;
    const double mean = mean_committed(records);
    for (int32_t how = PF_PASSES_ONE; how < PF_N_PASSES; how++) {
        const pf_passes_record *r = &records->of[how];
        if (r->rounds < 0.5 || !(r->ns > 0.0)) return (pf_passes)how; /* not tried yet, or by a clock that stood */
        const double tokens = (r->committed + MEAN_ROUNDS * mean) / (r->rounds + MEAN_ROUNDS), ns = r->ns / r->timed;
        const double bound = tokens / ns * (1.0 + BONUS / sqrt(r->rounds));
        if (bound <= best_bound) continue;
        best_bound = bound;
        best = (pf_passes)how;
    }
    return best;
}

double pf_passes_acceptance(const pf_passes_records *records, pf_passes how, int32_t position)
{
    const pf_passes_record *r = &records->of[how];
    double judged = LEANS, kept = LEANS * PRIOR;
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) {
        judged += r->judged[i];
        kept += r->kept[i];
    }
    return (r->kept[position] + LEANS * kept / judged) / (r->judged[position] + LEANS);
}

int32_t pf_passes_length(const pf_passes_records *records, pf_passes how, const pf_goodput *goodput, int32_t n,
                         int32_t n_fed, int32_t most)
{
    if (!(pf_goodput_step_ns(goodput, 1) > 0.0) || !(pf_goodput_pass_ns(goodput, 1) > 0.0))
        return pf_min(PF_PASSES_FIRST, most);
    double tokens = 1.0, reach = 1.0, best = 0.0;
    int32_t chosen = 1;
    for (int32_t k = 1; k <= most; k++) {
        reach *= pf_passes_acceptance(records, how, k - 1);
        tokens += reach;
        double ns = pf_goodput_pass_ns(goodput, n_fed + n * (k - 1)) + pf_goodput_step_ns(goodput, n * (k + 1));
        if (how == PF_PASSES_TWO && k > 1) ns += pf_goodput_pass_ns(goodput, n * (k - 1));
        if (tokens / ns <= best) continue;
        best = tokens / ns;
        chosen = k;
    }
    return chosen;
}
