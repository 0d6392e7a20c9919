/*
 * Measures the verifications of a drafter's proposals for draft/goodput.h: those whose verdicts come in one batch are one step of the
 * target, and share its time.
 *
 *      proposals leave --> the last of them ... verification ... --> the batch of verdicts comes
 *                          |<------------- away ------------------->|
 *
 * The sender of the verdicts may say what of that time was the verification, and what it waited for prompts; the rest is what a round takes
 * besides. Where it says nothing, all of it counts as the verification.
 *
 * Internal to draft/. Threads: one at a time.
 */
#ifndef PF_DRAFT_JUDGED_STEP_H
#define PF_DRAFT_JUDGED_STEP_H

#include "draft/goodput.h"
#include "host/sequence_host.h"

/* Zero: there is none. */
typedef struct {
    uint64_t submit;  /* the batch of the verdicts: the host's n_submits */
    int32_t n_rows;   /* that it verified; 0: there is none */
    int32_t n_tokens; /* that it committed */
    uint64_t left_ns, back_ns;
    pf_timing told;
} pf_judged_step;

/* A verdict has come, in the host's latest batch, on a proposal of n_sent tokens that left at left_ns. One of an earlier batch ends the step. */
void pf_judged_step_add(pf_judged_step *step, const pf_host *host, pf_goodput *goodput, const pf_verdict *verdict,
                        int32_t n_sent, uint64_t left_ns);

/* All its verdicts have come: tells the goodput of it, where there is one. */
void pf_judged_step_end(pf_judged_step *step, pf_goodput *goodput);

#endif
