/*
 * Reads benchmark prompts: Spec-Bench's question.jsonl ({"category": ..., "turns": [...]}, one object a line), or a
 * text file of one prompt a line.
 */
#ifndef PF_BENCH_PROMPTS_H
#define PF_BENCH_PROMPTS_H

#include <stddef.h>

#include "base/status.h"

typedef struct {
    char *category; /* "" when the line names none */
    char **turns;   /* [n_turns] NUL-terminated; of a text file any other bytes, of JSON UTF-8 */
    size_t n_turns; /* at least 1 */
    size_t line;    /* of the file, from 1 */
} pf_prompt;

typedef struct {
    pf_prompt *items;
    size_t n;
} pf_prompts;

/* Reads at most `limit` prompts from a NUL-terminated text [n_bytes]; blank lines are skipped, and so is a byte order mark.
 * A text with a first line that begins with { is JSONL. Errors name `path`.
 * PF_LIMIT: more than 16 MiB in a line of JSON, or more than a million prompts.  PF_FORMAT: names the line; or the text has a
 * NUL, or is one JSON array.  PF_INVALID: no prompt.  PF_NOMEM.  The caller frees *out with pf_prompts_clear. */
PF_MUST_USE pf_status pf_prompts_parse(const char *path, const char *text, size_t n_bytes, size_t limit,
                                       pf_prompts *out, pf_error *error);

/* PF_INVALID: two prompts of a category have the same turns, which inflates what is measured; the sentence names `path` and both lines.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_prompts_check_repeats(const char *path, const pf_prompts *prompts, pf_error *error);
void pf_prompts_clear(pf_prompts *prompts); /* zeroed is fine */

#endif
