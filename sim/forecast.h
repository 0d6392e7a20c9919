/*
 * What a pair would give: the speed-up of a deployment that is not there, simulated without faults (sim/scenario.h), beside what
 * the formulas allow.
 *
 *      length    L = (1 - a^(k+1)) / (1 - a)       tokens a round (Leviathan et al. arXiv:2211.17192, section 3.1)
 *      in turns  L * v / (v + k d + r)             the draft waits for the verdict, the verdict for the draft
 *      ahead     L * v / max(v + r, (k+1) d + r)   every proposal is there when the verdict comes
 *
 * a: acceptance of a draft token; k: draft tokens a round; v, d: a pass of the target, of the draft; r: a round trip between the
 * engine, which has the target, and its draft worker. A batch of n sequences shares passes on both sides. The simulation has a draft
 * whose second choice is the target's token after half of the rejections.
 */
#ifndef PF_SIM_FORECAST_H
#define PF_SIM_FORECAST_H

#include "sim/scenario.h"

typedef struct {
    uint64_t draft_ns, verify_ns, round_trip_ns; /* verify_ns: at least 1 */
    double acceptance;
    int32_t batch;     /* sequences at the same time */
    int32_t draft_len; /* 0: the drafter chooses */
    uint64_t seed;
} pf_forecast_point;

typedef struct {
    double plain_tokens_per_s, tokens_per_s; /* of all sequences, of virtual time */
    double speedup;
    double speedup_ahead;              /* where the worker drafts ahead */
    double bound, ahead_bound;         /* by the formulas; with draft_len 0 at the best length */
    int32_t best_len;                  /* with which the formula in turns is largest, 0 included */
    pf_speculation speculation, ahead; /* without and with */
} pf_forecast;

/* PF_INVALID, PF_NOMEM: as pf_scenario_run. */
PF_MUST_USE pf_status pf_forecast_run(const pf_forecast_point *point, pf_forecast *out, pf_error *error);

/* The formulas. draft_len: at least 0. */
double pf_forecast_length(double acceptance, int32_t draft_len);
double pf_forecast_in_turns(const pf_forecast_point *point, int32_t draft_len);
double pf_forecast_ahead(const pf_forecast_point *point, int32_t draft_len);

#endif
