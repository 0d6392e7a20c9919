/* Runs passes that take as long as a larger model's would. */
#ifndef PF_MODEL_SIMULATED_PASS_H
#define PF_MODEL_SIMULATED_PASS_H

#include "model/backend/forward_backend.h"

typedef struct {
    uint64_t ns;   /* a pass takes at least this long; 0: no clock is read */
    int32_t rows;  /* and as long again for each so many rows, which share one read of the weights; 0: all do */
    pf_stop *stop; /* ends the wait; its clock is the one that is read */
} pf_simulated_pass;

/* As pf_forward_run, and then a wait. */
PF_MUST_USE pf_status pf_simulated_run(const pf_simulated_pass *pass, const pf_forward_backend *backend,
                                       const pf_span *spans, int32_t n_spans);

#endif
