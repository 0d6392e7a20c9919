#include "draft/siblings.h"

#include "model/sampling/sampling.h"

static const double DECAY = 0.99; /* of a sibling's weight: a half after 69 */
static const double PRIOR_JUDGED = 4.0;
static const double PRIOR_KEPT[PF_MAX_SIBLINGS] = { 1.2, 0.8, 0.6, 0.4 };
static const double LEAST_GAIN = 0.01; /* tokens: a row that seems to cost nothing still has a price */
enum { RETRY_PROPOSALS = 16 };

/* ---- what they give ------------------------------------------------------------------------------------------------ */

double pf_sibling_share(const pf_sibling_shares *shares, int32_t rank)
{
    return (shares->kept[rank] + PRIOR_KEPT[rank]) / (shares->judged[rank] + PRIOR_JUDGED);
}

void pf_siblings_observe(pf_sibling_shares *shares, int32_t n, bool is_kept)
{
    for (int32_t rank = 0; rank < n; rank++) {
        shares->judged[rank] = DECAY * shares->judged[rank] + 1.0;
        shares->kept[rank] = DECAY * shares->kept[rank] + (is_kept && rank == n - 1 ? 1.0 : 0.0);
    }
}

static int32_t find_greatest(const double *values, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

int32_t pf_siblings_choose(pf_sibling_shares *shares, const double *acceptance, int32_t n, double price, int32_t most,
                           int32_t *at)
{
    double open[PF_MAX_DRAFT_TOKENS], gain[PF_MAX_DRAFT_TOKENS], reach = 1.0;
    int32_t ranks[PF_MAX_DRAFT_TOKENS] = { 0 }, n_chosen = 0;
    for (int32_t i = 0; i < n; i++) {
        open[i] =
            reach * (1.0 - acceptance[i]); /* P(neither it nor a sibling before is accepted, where it is judged) */
        gain[i] = open[i] * pf_sibling_share(shares, 0);
        reach *= acceptance[i];
    }
    const bool tries = shares->n_without >= RETRY_PROPOSALS;
    while (n_chosen < most && price >= 0.0) {
        const int32_t best = find_greatest(gain, n);
        const bool pays = gain[best] > LEAST_GAIN && gain[best] > price;
        if (!pays && !(tries && n_chosen == 0)) break;
        at[n_chosen++] = best;
        open[best] *= 1.0 - pf_sibling_share(shares, ranks[best]++);
        gain[best] = ranks[best] < PF_MAX_SIBLINGS ? open[best] * pf_sibling_share(shares, ranks[best]) : 0.0;
    }
    shares->n_without = n_chosen > 0 ? 0 : shares->n_without + 1;
    return n_chosen;
}

/* ---- the draw ------------------------------------------------------------------------------------------------------ */

static bool is_among(const int32_t *tokens, int32_t n, int32_t token)
{
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] == token) return true;
    return false;
}

bool pf_sibling_draw(const pf_declared *of, const int32_t *before, int32_t n_before, float uniform, int32_t *ids,
                     float *probabilities, pf_declared *declared, int32_t *token)
{
    double left = 0.0;
    int32_t n = 0;
    for (int32_t i = 0; i < of->n; i++) {
        if (is_among(before, n_before, of->ids[i]) || !(of->probabilities[i] > 0.0f)) continue;
        ids[n] = of->ids[i];
        probabilities[n++] = of->probabilities[i];
        left += (double)of->probabilities[i];
    }
    if (n == 0) return false;
    for (int32_t i = 0; i < n; i++) probabilities[i] = (float)((double)probabilities[i] / left);
    *declared = (pf_declared){ ids, probabilities, n };
    *token = ids[pf_sampling_draw_entry(probabilities, n, uniform)];
    return true;
}
