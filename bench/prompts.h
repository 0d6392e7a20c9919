/*
 * Prompts to measure with: Spec-Bench's question.jsonl ({"category": ..., "turns": [...]}, one object a line), or a
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
} pf_prompt;

typedef struct {
    pf_prompt *items;
    size_t n;
} pf_prompts;

/* At most `limit` prompts of a text [n_bytes], which has a NUL behind it; lines of spaces and tabs alone are passed over. One
 * whose first line begins with { is JSONL. A mark of byte order before it is no part of it. The sentences call it `path`.
 * PF_LIMIT (more than 16 MiB in a line of JSON, than a million prompts).  PF_FORMAT: names the line; or there is a NUL, or all
 * of it is one JSON array.  PF_INVALID: there is no prompt in it.  PF_NOMEM.  End *out with pf_prompts_clear. */
PF_MUST_USE pf_status pf_prompts_parse(const char *path, const char *text, size_t n_bytes, size_t limit,
                                       pf_prompts *out, pf_error *error);
void pf_prompts_clear(pf_prompts *prompts); /* zeroed is fine */

#endif
