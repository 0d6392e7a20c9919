/*
 * Searches text for a pattern of tokenizer.json: {"String": ...}, or {"Regex": ...} in Oniguruma's syntax (regex_syntax.h),
 * which runs on PCRE2.
 *
 * Time and memory are bounded, so that a hostile file ends in an error. A search has a limit of steps, a text a deadline and
 * a budget for the bytes that steps add to it: PF_LIMIT. The backtracking memory of a search may take 256 MiB: PF_NOMEM.
 *
 * Internal to tokenizer/. A pattern is immutable; a searcher is used by one thread.
 */
#ifndef PF_TOKENIZER_PATTERN_H
#define PF_TOKENIZER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

typedef struct pf_pattern pf_pattern;

/* Reads the field "pattern" of `part`.
 * PF_FORMAT, PF_UNSUPPORTED (an unknown construct), PF_NOMEM. Free it with pf_pattern_destroy. */
PF_MUST_USE pf_status pf_pattern_read(const pf_json *doc, const json_t *part, pf_pattern **out, pf_error *error);

/* The same for a regular expression, and for a literal text. */
PF_MUST_USE pf_status pf_pattern_of_regex(const pf_json *doc, const char *regex, size_t n_bytes, pf_pattern **out,
                                          pf_error *error);
PF_MUST_USE pf_status pf_pattern_of_text(const pf_json *doc, const char *text, size_t n_bytes, pf_pattern **out,
                                         pf_error *error);
void pf_pattern_destroy(pf_pattern *pattern); /* NULL is fine */

/* A range of a text, and whether a pattern matched it. */
typedef struct {
    size_t begin, end;
    bool matched;
} pf_text_range;

/* Growing array; zero it before first use, free its items. */
typedef struct {
    pf_text_range *items;
    size_t n, capacity;
} pf_text_ranges;

PF_MUST_USE pf_status pf_text_ranges_push(pf_text_ranges *ranges, pf_text_range item); /* PF_NOMEM */

typedef struct pf_searcher pf_searcher;

/* Working memory and limits for texts of n_bytes in total. cancel, or NULL: once it is true searches end with PF_CANCELLED.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_searcher_create(size_t n_bytes, const volatile bool *cancel, pf_searcher **out);
void pf_searcher_destroy(pf_searcher *searcher); /* NULL is fine */

/* The cancel flag that was passed to pf_searcher_create. */
const volatile bool *pf_searcher_cancel(const pf_searcher *searcher);

/* Takes n_more bytes, about to be added to a text, from the budget. PF_LIMIT: fewer are left. */
PF_MUST_USE pf_status pf_searcher_grow(pf_searcher *searcher, size_t n_more);

/* How many bytes are left in the budget. */
size_t pf_searcher_growth_left(const pf_searcher *searcher);

/* *out: text [n_bytes, valid UTF-8] cut into matches and the ranges between them. An empty match counts, except right after
 * the previous match; an empty text has no ranges. PF_LIMIT: it takes too long. PF_NOMEM: also see above. */
PF_MUST_USE pf_status pf_pattern_find_all(const pf_pattern *pattern, pf_searcher *searcher, const char *text,
                                          size_t n_bytes, pf_text_ranges *out);

#endif
