/* The figures of a run of `bench acceptance`, as JSON and as lines of a table. */
#ifndef PF_CLI_ACCEPTANCE_FIGURES_H
#define PF_CLI_ACCEPTANCE_FIGURES_H

#include <jansson.h>

#include "bench/acceptance.h"
#include "cli/options.h"

/* An entry of `runs` in the command line's contract; NULL: out of memory. */
json_t *pf_acceptance_json(const pf_options *options, pf_drafter_kind drafter, const pf_acceptance_setting *setting,
                           const pf_acceptance_run *run);

/* Its line, of the first run the head of the table before, and its predictions (--what-if). */
void pf_acceptance_print(pf_out *out, bool is_first, const pf_options *options, pf_drafter_kind drafter,
                         const pf_acceptance_setting *setting, const pf_acceptance_run *run);

/* Pairs of a name and a value: what was measured, on what, when. NULL: out of memory. */
json_t *pf_acceptance_facts(const pf_options *options);

#endif
