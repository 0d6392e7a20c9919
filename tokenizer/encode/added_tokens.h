/*
 * Added tokens are cut out of a text before anything else looks at it: leftmost first, of those the longest, and what
 * they say of the spaces around them is obeyed.
 *
 * Internal to tokenizer/. Immutable once finished.
 */
#ifndef PF_TOKENIZER_ADDED_TOKENS_H
#define PF_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PF_MAX_ADDED_TOKEN_BYTES = 4096,
    PF_ADDED_WINDOW = 1024, /* places that a walk looks at together; how far tokens reach behind them comes on top */
};

/* What tokenizer.json says of an added token. */
typedef struct {
    bool single_word; /* not where a word character touches it */
    bool lstrip;      /* takes the white space before it along */
    bool rstrip;      /* and behind it */
    bool normalized;  /* is looked for in the normalised text */
    bool special;
} pf_added_flags;

typedef struct pf_added_matcher pf_added_matcher;

PF_MUST_USE pf_status pf_added_matcher_create(pf_added_matcher **out);
void pf_added_matcher_destroy(pf_added_matcher *m); /* NULL is fine */

/* Look for text [n_bytes, at least 1 and at most PF_MAX_ADDED_TOKEN_BYTES], valid UTF-8, as token `id`; the first to
 * say a text keeps it. is_ignored: it is found before a shorter one, and then is text like any other. PF_NOMEM. */
PF_MUST_USE pf_status pf_added_matcher_add(pf_added_matcher *m, const char *text, size_t n_bytes, int32_t id,
                                           pf_added_flags flags, bool is_ignored);

/* Once all are added, before the first walk. PF_NOMEM. */
PF_MUST_USE pf_status pf_added_matcher_finish(pf_added_matcher *m);

/* A part of the text: a token, or what lies between tokens (id is -1). */
typedef struct {
    size_t begin, end;
    int32_t id;
} pf_added_part;

/* Walks a text from part to part. Zero it, then fill in the first three. */
typedef struct {
    const char *text; /* valid UTF-8 */
    size_t n_bytes;
    const volatile bool *cancel; /* or NULL: set from outside, it ends the walk with PF_CANCELLED */
    size_t scanned;              /* where the search goes on */
    size_t covered;              /* where the next part begins */
    size_t run_begin, run_end;   /* white space that was stripped to the right of a token */
    size_t window_begin, window_end;
    int32_t window[PF_ADDED_WINDOW]; /* for each of its places the longest token that begins there; -1: none */
    bool has_pending;
    pf_added_part pending;
} pf_added_walk;

/* The next part; an empty one is the end. PF_CANCELLED. */
PF_MUST_USE pf_status pf_added_matcher_next(const pf_added_matcher *m, pf_added_walk *walk, pf_added_part *out);

#endif
