/*
 * Matches added tokens in a text: the leftmost match, of those the longest, with the flags for white space and word
 * borders around it.
 *
 * Internal to tokenizer/. Immutable after pf_added_matcher_finish.
 */
#ifndef PF_TOKENIZER_ADDED_TOKENS_H
#define PF_TOKENIZER_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PF_MAX_ADDED_TOKEN_BYTES = 4096,
    PF_ADDED_WINDOW = 1024, /* positions that a walk matches at once */
};

/* The flags of an added token in tokenizer.json. */
typedef struct {
    bool single_word; /* no match next to a word character */
    bool lstrip;      /* includes the white space before it */
    bool rstrip;      /* includes the white space after it */
    bool normalized;  /* is matched in the normalized text */
    bool special;
} pf_added_flags;

typedef struct pf_added_matcher pf_added_matcher;

PF_MUST_USE pf_status pf_added_matcher_create(pf_added_matcher **out);
void pf_added_matcher_destroy(pf_added_matcher *m); /* NULL is fine */

/* Adds text [n_bytes, 1 to PF_MAX_ADDED_TOKEN_BYTES], valid UTF-8, as token `id`. A text that was added before keeps its
 * id. is_ignored: it hides shorter tokens, but its match is plain text. PF_NOMEM. */
PF_MUST_USE pf_status pf_added_matcher_add(pf_added_matcher *m, const char *text, size_t n_bytes, int32_t id,
                                           pf_added_flags flags, bool is_ignored);

/* Call it after the last token is added and before the first walk. PF_NOMEM. */
PF_MUST_USE pf_status pf_added_matcher_finish(pf_added_matcher *m);

/* A part of the text: a token, or text between tokens (id is -1). */
typedef struct {
    size_t begin, end;
    int32_t id;
} pf_added_part;

/* Iterates over the parts of a text. Zero it, then set the first three fields. */
typedef struct {
    const char *text; /* valid UTF-8 */
    size_t n_bytes;
    const volatile bool *cancel; /* or NULL; once true, the walk ends with PF_CANCELLED */
    size_t scanned;              /* where the search continues */
    size_t covered;              /* where the next part begins */
    size_t run_begin, run_end;   /* the last run of white space that rstrip found */
    size_t window_begin, window_end;
    int32_t window[PF_ADDED_WINDOW]; /* the longest token that begins at each position; -1: none */
    bool has_pending;
    pf_added_part pending;
} pf_added_walk;

/* The next part; an empty part marks the end. PF_CANCELLED. */
PF_MUST_USE pf_status pf_added_matcher_next(const pf_added_matcher *m, pf_added_walk *walk, pf_added_part *out);

#endif
