#include "model/backend/simulated_pass.h"

#include "base/clock.h"

static uint64_t duration_ns(const pf_simulated_pass *pass, const pf_span *spans, int32_t n_spans)
{
    int32_t n_rows = 0;
    for (int32_t i = 0; i < n_spans; i++) n_rows += spans[i].n_tokens;
    const int32_t n_reads = pass->rows > 0 ? n_rows / pass->rows : 1;
    return pass->ns * (uint64_t)(n_reads > 1 ? n_reads : 1);
}

pf_status pf_simulated_run(const pf_simulated_pass *pass, const pf_forward_backend *backend, const pf_span *spans,
                           int32_t n_spans)
{
    if (pass->ns == 0) return pf_forward_run(backend, spans, n_spans);
    const uint64_t end_ns = pf_clock_now_ns(pass->stop->clock_ns) + duration_ns(pass, spans, n_spans);
    const pf_status status = pf_forward_run(backend, spans, n_spans);
    pf_stop_or_wait(pass->stop, end_ns);
    return status;
}
