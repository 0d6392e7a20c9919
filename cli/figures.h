/* The figures of generation, as JSON and as lines for people. */
#ifndef PF_CLI_FIGURES_H
#define PF_CLI_FIGURES_H

#include <jansson.h>

#include "include/pilotfish.h"

/* The object `speculation` of the command line's contract. Shares and rates of 0/0 are null. */
json_t *pf_json_speculation(const pf_speculation *speculation);

/* A number for people, "-" where it is none: of so many decimals, or of a rate one, two of less than 10, three of less than 1.
 * It lasts as long as the expression that makes it. */
typedef struct {
    char text[32];
} pf_figure;
pf_figure pf_figure_fixed(double value, int decimals);
pf_figure pf_figure_rate(double rate);

/* One line on stderr. */
void pf_figures_print_speculation(const pf_speculation *speculation);

const char *pf_method_name(pf_method method); /* "greedy", ...: a static string */

#endif
