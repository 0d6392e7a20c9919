/* Choosing among patterns. */
#include "bench/reader.h"

#include "bench/statistics.h"

const pf_read_pattern *pf_reader_choose(pf_reader_fn *read_ns, void *user)
{
    enum { ROUNDS = 5 };
    double ns[PF_N_READS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < PF_N_READS; i++) ns[i][round] = (double)read_ns(user, pf_read_patterns[i].read);
    int best = 0;
    for (int i = 1; i < PF_N_READS; i++)
        if (pf_percentile(ns[i], ROUNDS, 0.5) < pf_percentile(ns[best], ROUNDS, 0.5)) best = i;
    return &pf_read_patterns[best];
}
