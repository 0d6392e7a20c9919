/* Ranks read patterns. */
#include "bench/reader.h"

#include "base/stop.h"
#include "bench/statistics.h"

enum { ROUNDS = 5 };

/* Measures each pattern's share of a round's time. False: cancelled during the round. */
static bool run_round(pf_reader_fn *read_ns, void *user, const volatile bool *cancel, double out[PF_N_READS])
{
    double all_ns = 0.0;
    for (int i = 0; i < PF_N_READS; i++) {
        if (pf_is_told(cancel)) return false;
        all_ns += out[i] = (double)read_ns(user, pf_read_patterns[i].read);
    }
    for (int i = 0; i < PF_N_READS; i++) out[i] /= all_ns;
    return true;
}

void pf_reader_choose(pf_reader_fn *read_ns, void *user, const volatile bool *cancel, const pf_read_pattern **fastest,
                      int n)
{
    double share[ROUNDS][PF_N_READS], median[PF_N_READS];
    size_t n_rounds = 0;
    while (n_rounds < ROUNDS && run_round(read_ns, user, cancel, share[n_rounds])) n_rounds++;
    for (int i = 0; i < PF_N_READS; i++) {
        double of_pattern[ROUNDS];
        for (size_t round = 0; round < n_rounds; round++) of_pattern[round] = share[round][i];
        median[i] = n_rounds > 0 ? pf_percentile(of_pattern, n_rounds, 0.5) : 1.0;
    }
    for (int place = 0; place < n; place++) {
        int best = 0;
        for (int i = 1; i < PF_N_READS; i++)
            if (median[i] < median[best]) best = i;
        fastest[place] = &pf_read_patterns[best];
        median[best] = 2.0; /* more than any share */
    }
}
