#include "draft/outcomes.h"

#include <math.h>

static const double DECAY = 0.99; /* of an observation's weight: a half after 69 */

/* What is assumed before anything is learnt, and counts for so many observations: of the last, none of the candidates. */
static const double PRIOR = 8.0;
static const double PRIOR_CORRECTION[PF_OUTCOME_CANDIDATES + 1] = { 0.40, 0.15, 0.08, 0.05, 0.32 };
static const double PRIOR_BONUS[PF_OUTCOME_CANDIDATES + 1] = { 0.65, 0.12, 0.05, 0.03, 0.15 };

/* ---- rows ------------------------------------------------------------------------------------------------------ */

/* Insertion: descending scores, of equals the lowest id first. */
static void sort(int32_t *ids, float *scores, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        const int32_t id = ids[i];
        const float score = scores[i];
        int32_t j = i;
        for (; j > 0 && (scores[j - 1] < score || (scores[j - 1] == score && ids[j - 1] > id)); j--) {
            ids[j] = ids[j - 1];
            scores[j] = scores[j - 1];
        }
        ids[j] = id;
        scores[j] = score;
    }
}

static int32_t take_out(int32_t token, int32_t *ids, float *scores, int32_t n)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == token) continue;
        ids[kept] = ids[i];
        scores[kept++] = scores[i];
    }
    return kept;
}

void pf_outcome_row_fill(pf_outcome_row *row, int32_t drafted, float drafted_score, int32_t *ids, float *scores,
                         int32_t n)
{
    n = take_out(drafted, ids, scores, n);
    sort(ids, scores, n);
    row->n = n < PF_OUTCOME_CANDIDATES ? n : PF_OUTCOME_CANDIDATES;
    if (drafted >= 0)
        row->margin = n > 0 ? drafted_score - scores[0] : INFINITY;
    else
        row->margin = n > 1 ? scores[0] - scores[1] : INFINITY;
    float sum = 0.0f;
    for (int32_t i = 0; i < row->n; i++) {
        row->ids[i] = ids[i];
        row->weights[i] = expf(scores[i] - scores[0]);
        if (!(row->weights[i] >= 0.0f)) row->weights[i] = 0.0f; /* of two infinities */
        sum += row->weights[i];
    }
    for (int32_t i = 0; i < row->n; i++) row->weights[i] = sum > 0.0f ? row->weights[i] / sum : 1.0f / (float)row->n;
}

int32_t pf_outcome_row_find(const pf_outcome_row *row, int32_t token)
{
    for (int32_t i = 0; i < row->n; i++)
        if (row->ids[i] == token) return i;
    return PF_OUTCOME_CANDIDATES;
}

/* ---- shares ---------------------------------------------------------------------------------------------------- */

static double share_of(const double *counts, const double *prior, int32_t rank)
{
    double total = PRIOR;
    for (int32_t i = 0; i <= PF_OUTCOME_CANDIDATES; i++) total += counts[i];
    return (counts[rank] + PRIOR * prior[rank]) / total;
}

void pf_outcome_shares_observe(pf_outcome_shares *shares, bool is_bonus, int32_t rank)
{
    double *counts = is_bonus ? shares->bonus : shares->correction;
    for (int32_t i = 0; i <= PF_OUTCOME_CANDIDATES; i++) counts[i] = DECAY * counts[i] + (i == rank ? 1.0 : 0.0);
}

/* ---- the ranking ----------------------------------------------------------------------------------------------- */

static double correction_share(const pf_outcome_shares *shares, const pf_outcome_row *row, int32_t rank)
{
    const double none = share_of(shares->correction, PRIOR_CORRECTION, PF_OUTCOME_CANDIDATES);
    const double by_rank = share_of(shares->correction, PRIOR_CORRECTION, rank);
    return 0.5 * (by_rank + (1.0 - none) * (double)row->weights[rank]);
}

/* Into the first `most` places of out [n], which are in order of probability. Returns how many there are. */
static int32_t insert(pf_outcome *out, int32_t n, int32_t most, pf_outcome outcome)
{
    int32_t i = n < most ? n : most;
    if (i == most && (most == 0 || out[most - 1].probability >= outcome.probability)) return i;
    if (i == most) i--;
    const int32_t n_after = i + 1;
    for (; i > 0 && out[i - 1].probability < outcome.probability; i--) out[i] = out[i - 1];
    out[i] = outcome;
    return n_after;
}

int32_t pf_outcomes_rank(const pf_outcome_shares *shares, const pf_outcome_row *rows, const double *acceptance,
                         int32_t n, int32_t n_bonus, int32_t most, pf_outcome *out)
{
    int32_t n_out = 0;
    double reach = 1.0;
    for (int32_t i = 0; i < n; i++) {
        const double rejected = reach * (1.0 - acceptance[i]);
        for (int32_t j = 0; j < rows[i].n; j++)
            n_out = insert(out, n_out, most, (pf_outcome){ i, j, rejected * correction_share(shares, &rows[i], j) });
        reach *= acceptance[i];
    }
    for (int32_t j = 0; j < n_bonus && j < PF_OUTCOME_CANDIDATES; j++)
        n_out = insert(out, n_out, most, (pf_outcome){ n, j, reach * share_of(shares->bonus, PRIOR_BONUS, j) });
    return n_out;
}
