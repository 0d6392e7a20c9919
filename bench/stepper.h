/*
 * Runs and times single passes of one sequence at an engine's own verifier: generation without a drafter. Acceptance and argmax
 * are included: a step of one row is a plain decode step of pf_generate.
 */
#ifndef PF_BENCH_STEPPER_H
#define PF_BENCH_STEPPER_H

#include "engine/engine.h"

enum { PF_STEPPER_MAX_ROWS = 16 }; /* of a pass after the prefill */

typedef struct {
    pf_peer *verifier;
    uint64_t sequence;
    uint64_t round;
    int32_t committed; /* tokens of the current sequence */
    int32_t *prompt;   /* [max_prompt + PF_STEPPER_MAX_ROWS] arbitrary ids, the same for every run */
} pf_stepper;

/* Takes the engine's one role. cancel, or NULL: set from outside, every call ends with PF_CANCELLED. PF_NOMEM, and as
 * pf_engine_verifier. The caller ends it with pf_stepper_close, before the engine. */
PF_MUST_USE pf_status pf_stepper_open(pf_engine *engine, int32_t max_prompt, const volatile bool *cancel,
                                      pf_stepper *out, pf_error *error);
void pf_stepper_close(pf_stepper *stepper); /* zeroed is fine */

/* Open a sequence with a prompt of n tokens: a prefill, and the first token. Errors are the verifier's. */
PF_MUST_USE pf_status pf_stepper_begin(pf_stepper *stepper, int32_t n, uint64_t *ns, pf_error *error);

/* A pass over n_rows rows: the last committed token and n_rows - 1 arbitrary draft tokens. At least one token is committed. */
PF_MUST_USE pf_status pf_stepper_step(pf_stepper *stepper, int32_t n_rows, uint64_t *ns, pf_error *error);

void pf_stepper_end(pf_stepper *stepper); /* the sequence */

#endif
