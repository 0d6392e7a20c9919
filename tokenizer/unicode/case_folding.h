/*
 * Answers questions on case folding under (?i), where Oniguruma and PCRE2 differ: some characters fold to several (the sharp
 * s to "ss"), and Oniguruma folds a class as a whole.
 * Source: Unicode's CaseFolding.txt, status F; Oniguruma 6.9, doc/RE.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_CASE_FOLDING_H
#define PF_TOKENIZER_CASE_FOLDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PF_MAX_FOLDED = 3 };

/* Writes the characters that c folds to; returns their number. */
size_t pf_fold_case(int32_t c, int32_t out[PF_MAX_FOLDED]);

/* Whether any character from `first` to `last` folds to several. */
bool pf_folds_to_several(int32_t first, int32_t last);

/* Whether the last of n folded characters are the folding of one character. */
bool pf_ends_as_folded(const int32_t *folded, size_t n);

/* Whether property [n] depends on the case of letters. */
bool pf_is_of_case(const char *property, size_t n);

/* Whether the property, or its negation, contains letters that fold to several characters. */
bool pf_has_folding_letters(const char *property, size_t n, bool negated);

/* The further characters that a folded class with this property matches, as class items for PCRE2; often "". */
const char *pf_folded_beside(const char *property, size_t n);

#endif
