#include "draft/lookup_odds.h"

static const double ALL = 4.0, OWN = 6.0; /* tokens that the prior counts for, and that all texts count for */
static const float MOST = 64.0f;          /* tokens of a cell, before it is halved */
static const double CERTAIN = 0.995;

pf_lookup_cell pf_lookup_cell_of(int32_t length, int32_t count, int32_t n_ended)
{
    static const int32_t lengths[PF_LOOKUP_LENGTHS - 1] = { 1, 2, 3, 5, 8, 15, 31 };
    static const double frequencies[PF_LOOKUP_FREQUENCIES - 1] = { 0.15, 0.4, 0.7, 0.95 };
    const double frequency = (double)count / n_ended;
    pf_lookup_cell cell = { 0, 0 };
    while (cell.length < PF_LOOKUP_LENGTHS - 1 && length > lengths[cell.length]) cell.length++;
    while (cell.frequency < PF_LOOKUP_FREQUENCIES - 1 && frequency > frequencies[cell.frequency]) cell.frequency++;
    return cell;
}

static double towards(const pf_lookup_odds *odds, pf_lookup_cell cell, double before, double weight)
{
    const pf_lookup_share *share = &odds->cells[cell.length][cell.frequency];
    return ((double)share->kept + weight * before) / ((double)share->judged + weight);
}

double pf_lookup_chance(const pf_lookup_odds *own, const pf_lookup_odds *all, int32_t length, int32_t count,
                        int32_t n_ended)
{
    const pf_lookup_cell cell = pf_lookup_cell_of(length, count, n_ended);
    const double frequency = count < n_ended ? (double)count / n_ended : 1.0;
    const double before = frequency * length / (length + 1.0);
    const double chance = towards(own, cell, towards(all, cell, before, ALL), OWN);
    return chance < CERTAIN ? chance : CERTAIN;
}

void pf_lookup_observe(pf_lookup_odds *odds, pf_lookup_cell cell, bool is_kept)
{
    pf_lookup_share *share = &odds->cells[cell.length][cell.frequency];
    if (share->judged >= MOST) {
        share->judged /= 2.0f;
        share->kept /= 2.0f;
    }
    share->judged += 1.0f;
    share->kept += is_kept ? 1.0f : 0.0f;
}
