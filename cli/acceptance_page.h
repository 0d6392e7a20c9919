/* What the parts of the page of `bench acceptance` share: figures of its JSON document, text, and names of runs. Internal to
 * cli/acceptance_report.c and cli/acceptance_plots.c. */
#ifndef PF_CLI_ACCEPTANCE_PAGE_H
#define PF_CLI_ACCEPTANCE_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    PF_PAGE_COLORS = 6,  /* --c0 and up, in the style of the page */
    PF_PAGE_SERIES = 12, /* runs that the plots show, at most: each color twice */
};

/* Escaped for HTML; NULL: nothing. */
void pf_page_text(FILE *f, const char *text);

/* NaN: it is null or absent. */
double pf_page_number(const json_t *object, const char *key);

/* Whether a setting, or a fact, is not the same in all runs. */
bool pf_page_varies(const json_t *runs, const char *key);

/* "suffix, length 4": the length, and of the drafter, the method and the temperature what varies. */
void pf_page_name(FILE *f, const json_t *runs, const json_t *run);

#endif
