/*
 * Regular expressions of tokenizer.json are written for Oniguruma with Ruby's syntax. This rewrites one for PCRE2 so
 * that it matches the same text, and refuses by name what it cannot.
 *
 * What differs, and is rewritten:  \s \w \b \d \h \v and their negations (other sets of characters)  |  (?m) is "dot
 * matches a line end"  |  ^ and $ are at every line (compile with PCRE2_MULTILINE)  |  {n,m}+ repeats, it is not
 * possessive  |  {,n} is {0,n}  |  \uHHHH  |  POSIX brackets  |  classes of properties under
 * (?i), which folds them as a whole.
 * Source: Oniguruma 6.9, doc/RE and doc/SYNTAX.md; pcre2pattern(3).
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_REGEX_SYNTAX_H
#define PF_TOKENIZER_REGEX_SYNTAX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { PF_MAX_PATTERN_BYTES = 1 << 16 };

/* *out: the pattern for PCRE2, NUL-terminated; the caller frees it with free(). newer: properties have the characters that
 * PCRE2 may not know (newer_characters.h), which makes the pattern slower; a text that holds none is matched alike without,
 * but what cannot be written with them is refused with them alone.
 * PF_UNSUPPORTED: the sentence names `name` (what stands for the pattern) and the construct, or it becomes longer than PCRE2
 * can take. PF_LIMIT: too long as it is. PF_NOMEM. */
PF_MUST_USE pf_status pf_regex_from_oniguruma(const char *name, const char *pattern, size_t n_bytes, bool newer,
                                              char **out, size_t *out_bytes, pf_error *error);

#endif
