/* Writes the runs of `bench acceptance` as one HTML page with plots, which needs nothing besides itself: no script, no other file. */
#ifndef PF_CLI_ACCEPTANCE_REPORT_H
#define PF_CLI_ACCEPTANCE_REPORT_H

#include <jansson.h>

#include "base/status.h"

/* Whether the page can be written there, before a measurement that takes minutes: the file is made where there is none.
 * PF_UNAVAILABLE: as below. */
PF_MUST_USE pf_status pf_acceptance_report_check(const char *path, pf_error *error);

/* runs: the array of the command's JSON document, one at least. title: of the page, any UTF-8. facts: pairs of a name and a value, what
 * was measured on what.
 * PF_UNAVAILABLE: the file cannot be written; the sentence names it. */
PF_MUST_USE pf_status pf_acceptance_report_write(const char *path, const char *title, const json_t *facts,
                                                 const json_t *runs, pf_error *error);

#endif
