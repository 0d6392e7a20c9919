/*
 * Rewrites a regular expression from Oniguruma with Ruby's syntax, in which tokenizer.json has it, to PCRE2, so that it
 * matches the same text. What cannot be rewritten is refused by name.
 *
 * Differences that are rewritten: \s \w \b \d \h \v and their negations (other sets of characters); (?m) means "dot matches
 * a line end"; ^ and $ match at every line (compile with PCRE2_MULTILINE); {n,m}+ repeats and is not possessive; {,n} is
 * {0,n}; \uHHHH; POSIX brackets; classes with properties under (?i), which folds them as a whole.
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

/* *out: the pattern for PCRE2, NUL-terminated; free it with free(). newer: properties include the characters that PCRE2 may
 * not know (newer_characters.h). Such a pattern is slower; on a text without these characters both forms match alike. Some
 * constructs are refused only with `newer`.
 * PF_UNSUPPORTED: the sentence names `name` (the pattern's name in errors) and the construct, or the result is longer than
 * PCRE2 can compile. PF_LIMIT: the pattern is too long. PF_NOMEM. */
PF_MUST_USE pf_status pf_regex_from_oniguruma(const char *name, const char *pattern, size_t n_bytes, bool newer,
                                              char **out, size_t *out_bytes, pf_error *error);

#endif
