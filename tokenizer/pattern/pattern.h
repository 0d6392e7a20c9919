/*
 * What a part of tokenizer.json looks for in a text: {"String": ...}, or {"Regex": ...} in Oniguruma's syntax
 * (regex_syntax.h), which PCRE2 runs.
 *
 * Time and memory are bounded: a search is given few steps at first and more on demand up to a limit, a text has a deadline,
 * and a budget says how much longer it may be made, so that a hostile file ends in PF_LIMIT; the ways back that a search
 * keeps may take 256 MiB, then it ends in PF_NOMEM.
 *
 * Internal to tokenizer/. A pattern is immutable; the searcher belongs to one thread.
 */
#ifndef PF_TOKENIZER_PATTERN_H
#define PF_TOKENIZER_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

typedef struct pf_pattern pf_pattern;

/* From the field "pattern" of `part`.
 * PF_FORMAT, PF_UNSUPPORTED (a construct that is not known), PF_NOMEM. Ended with pf_pattern_destroy. */
PF_MUST_USE pf_status pf_pattern_read(const pf_json *doc, const json_t *part, pf_pattern **out, pf_error *error);

/* The same of a regular expression, and of a text as it is. */
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

/* Working memory and budget for texts of n_bytes in all. cancel, or NULL: set from outside, it ends the searches with
 * PF_CANCELLED. PF_NOMEM. */
PF_MUST_USE pf_status pf_searcher_create(size_t n_bytes, const volatile bool *cancel, pf_searcher **out);
void pf_searcher_destroy(pf_searcher *searcher); /* NULL is fine */

/* The flag that it was created with. */
const volatile bool *pf_searcher_cancel(const pf_searcher *searcher);

/* Take n_more bytes, by which a text is about to be made longer, from the budget. PF_LIMIT: there are not so many left. */
PF_MUST_USE pf_status pf_searcher_grow(pf_searcher *searcher, size_t n_more);

/* *out = text [n_bytes, valid UTF-8] cut into what the pattern matches and what lies between. An empty match counts,
 * except right behind the match before it; of an empty text nothing is found. PF_LIMIT: it takes too long. PF_NOMEM, see
 * above, too. */
PF_MUST_USE pf_status pf_pattern_find_all(const pf_pattern *pattern, pf_searcher *searcher, const char *text,
                                          size_t n_bytes, pf_text_ranges *out);

#endif
