#include "draft/judged_step.h"

void pf_judged_step_end(pf_judged_step *step, pf_goodput *goodput)
{
    if (step->n_rows == 0) return;
    const uint64_t away_ns = step->back_ns - step->left_ns, told_ns = step->told.compute_ns;
    const uint64_t verify_ns = told_ns > 0 && told_ns < away_ns ? told_ns : away_ns, rest_ns = away_ns - verify_ns;
    const uint64_t waited_ns = step->told.queue_ns < rest_ns ? step->told.queue_ns : rest_ns;
    pf_goodput_observe_step(goodput, step->n_rows, verify_ns, rest_ns - waited_ns);
    pf_goodput_observe_tokens(goodput, step->n_tokens, away_ns - waited_ns);
    step->n_rows = 0;
}

void pf_judged_step_add(pf_judged_step *step, const pf_host *host, pf_goodput *goodput, const pf_verdict *verdict,
                        int32_t n_sent, uint64_t left_ns)
{
    if (step->submit != host->n_submits) {
        pf_judged_step_end(step, goodput);
        *step = (pf_judged_step){ .submit = host->n_submits, .back_ns = pf_host_now_ns(host), .told = host->told };
    }
    step->n_rows += n_sent + 1;
    step->n_tokens += verdict->n_tokens;
    if (left_ns > step->left_ns) step->left_ns = left_ns;
}
