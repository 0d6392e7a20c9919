/* The figures of generation, as JSON and as lines for people. */
#ifndef PF_CLI_FIGURES_H
#define PF_CLI_FIGURES_H

#include <jansson.h>

#include "engine/pilotfish.h"

/* The object `speculation` of the command line's contract. Shares and rates of 0/0 are null. */
json_t *pf_json_speculation(const pf_speculation *speculation);

/* One line on stderr. */
void pf_figures_print_speculation(const pf_speculation *speculation);

const char *pf_method_name(pf_method method); /* "greedy", ...: a static string */

#endif
