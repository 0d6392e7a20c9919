/* Measures the crossover by alternating reads and bursts of multiplies. */
#include "bench/crossover.h"

#include <math.h>

#include "base/stop.h"
#include "bench/bare_read.h"
#include "bench/peak.h"

enum { ROUNDS = 12, BURST_NS = 2 * 1000 * 1000, MEMORY_BYTES = 32 << 20 };

pf_status pf_crossover_measure(pf_engine *engine, const volatile bool *cancel, int32_t *out, pf_error *error)
{
    const pf_model *model = pf_engine_model(engine);
    const pf_format format = pf_model_format(model);
    const pf_kernel *product = pf_model_kernels(model)->chosen_gemm[format][pf_model_act(model)];
    const pf_burst burst = product ? pf_peak_burst_of(product) : (pf_burst){ 0 };
    *out = 1;
    if (!burst.run) return PF_OK; /* a scalar definition: each row takes as long as the first */

    pf_team *team = pf_engine_team(engine);
    pf_bare_read memory;
    PF_TRY(pf_bare_read_create(team, MEMORY_BYTES, &memory, error));
    double gbps = 0.0, gops = 0.0; /* the best samples: other processes on the machine only lower them */
    for (int i = 0; i < ROUNDS && !pf_is_told(cancel); i++) {
        pf_bare_read_flush(&memory);
        gbps = fmax(gbps, MEMORY_BYTES / (double)pf_bare_read_ns(&memory, pf_read_patterns[0].read));
        gops = fmax(gops, pf_peak_measure(burst, team, BURST_NS));
    }
    pf_bare_read_destroy(&memory);
    if (pf_is_told(cancel)) return PF_CANCELLED;
    const double rows = pf_format_get(format)->bits / 8.0 * (gops / 2.0) / gbps;
    if (rows > 1.0) *out = (int32_t)fmin(rows, 1e6);
    return PF_OK;
}
