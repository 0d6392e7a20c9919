/*
 * A simulated deployment: engines with sessions, a draft worker, a verifier, and the lines between them, in virtual time. Sessions,
 * drafter, verifier, sequence hosts, caches and the codec are the real code; models are synthetic (sim/synthetic.h), lines are
 * simulated (sim/wire.h).
 *
 *      engine 0 .. n-1    session -> line -> worker (drafter: step of draft_ns a pass)
 *                         session -> line -> verifier (verify_ns a pass, all sequences of a pass together)
 *
 * It has two uses. With faults it checks what must hold whatever happens: the text is that of plain decoding, nothing is stuck, and
 * the caches of both servers are empty at the end. Without, it predicts what a pair gives: tokens a second of virtual time.
 */
#ifndef PF_SIM_SCENARIO_H
#define PF_SIM_SCENARIO_H

#include "include/pilotfish.h"
#include "sim/wire.h"

typedef struct {
    uint64_t seed;
    int32_t n_engines;            /* each with one session: sequences that decode at the same time */
    int32_t n_requests;           /* of each, one after another */
    int32_t n_prompt, n_new;      /* tokens of a request; with varied up to so many */
    bool varied;                  /* lengths, shared prompts, kept sequences and cancelled requests are drawn */
    bool is_plain;                /* no drafter */
    uint64_t draft_ns, verify_ns; /* of a pass */
    double acceptance;            /* of a draft token, greedy */
    double second;                /* where it is rejected, how often the target's is the draft's second choice */
    bool drafts_ahead;
    int32_t draft_len; /* 0: the drafter chooses */
    pf_method method;  /* greedy, rejection, coupled */
    pf_wire_line to_worker, to_verifier;
    uint64_t worker_restart_ns, verifier_restart_ns; /* as in pf_wire_server_config; 0: never */
    uint64_t down_ns;
    uint64_t gather_ns; /* likewise, of the verifier: an engine that steps all its sequences together */
    int32_t max_held;   /* of either cache, tokens; 0: no limit */
} pf_scenario;

typedef struct {
    int64_t n_requests, n_cancelled; /* that have ended */
    int64_t n_tokens;
    int64_t n_warnings;
    int64_t n_wrong;  /* texts that differ from plain decoding; not counted under rejection */
    int64_t n_failed; /* requests with another status than OK and cancelled */
    pf_error first_failure;
    int32_t n_left; /* sequences that the caches of both servers still had when nothing was open */
    bool is_stuck;  /* requests that did not end within the time limit */
    uint64_t elapsed_ns;
    pf_speculation speculation;
    pf_wire_counts worker, verifier;
} pf_scenario_result;

/* Nanoseconds of virtual time that a scenario may take: more is stuck. */
#define PF_SCENARIO_LIMIT_NS (UINT64_C(3600) * 1000 * 1000 * 1000)

/* PF_INVALID: a field is out of range.  PF_NOMEM. Else what was found is in *out. */
PF_MUST_USE pf_status pf_scenario_run(const pf_scenario *scenario, pf_scenario_result *out, pf_error *error);

/* A scenario with faults and sizes that are drawn from the seed. */
pf_scenario pf_scenario_of_seed(uint64_t seed);

/* Whether what must hold did; where not, *what says what [capacity]. */
bool pf_scenario_holds(const pf_scenario *scenario, const pf_scenario_result *result, char *what, size_t capacity);

#endif
