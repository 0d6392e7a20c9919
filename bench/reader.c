/* Choosing among patterns. */
#include "bench/reader.h"

#include "bench/statistics.h"

void pf_reader_choose(pf_reader_fn *read_ns, void *user, const pf_read_pattern **fastest, int n)
{
    enum { ROUNDS = 5 };
    double share[PF_N_READS][ROUNDS], median[PF_N_READS];
    for (int round = 0; round < ROUNDS; round++) {
        double all_ns = 0.0;
        for (int i = 0; i < PF_N_READS; i++)
            all_ns += share[i][round] = (double)read_ns(user, pf_read_patterns[i].read);
        for (int i = 0; i < PF_N_READS; i++) share[i][round] /= all_ns;
    }
    for (int i = 0; i < PF_N_READS; i++) median[i] = pf_percentile(share[i], ROUNDS, 0.5);
    for (int place = 0; place < n; place++) {
        int best = 0;
        for (int i = 1; i < PF_N_READS; i++)
            if (median[i] < median[best]) best = i;
        fastest[place] = &pf_read_patterns[best];
        median[best] = 2.0; /* more than any share */
    }
}
