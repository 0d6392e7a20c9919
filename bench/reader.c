/* Choosing among patterns. */
#include "bench/reader.h"

const pf_read_pattern *pf_reader_choose(pf_reader_fn *read_ns, void *user)
{
    enum { ROUNDS = 3 };
    const pf_read_pattern *best = &pf_read_patterns[0];
    uint64_t best_ns = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PF_N_READS; i++) {
            const uint64_t ns = read_ns(user, pf_read_patterns[i].read);
            if (ns >= best_ns) continue;
            best_ns = ns;
            best = &pf_read_patterns[i];
        }
    }
    return best;
}
