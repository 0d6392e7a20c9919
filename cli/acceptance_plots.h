/* Draws the plots of the page of `bench acceptance` as SVG: speed-ups by category, and acceptance by position. */
#ifndef PF_CLI_ACCEPTANCE_PLOTS_H
#define PF_CLI_ACCEPTANCE_PLOTS_H

#include <jansson.h>
#include <stdio.h>

/* The key of colors and two figures. runs: of the JSON document, one at least; of more than PF_PAGE_SERIES the first ones. */
void pf_acceptance_plots_write(FILE *f, const json_t *runs);

#endif
