/*
 * What characters and properties mean under (?i), where Oniguruma and PCRE2 differ: some characters fold to several (the
 * sharp s is "ss"), and a class is folded as a whole.
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

/* The characters that c folds to; how many. */
size_t pf_fold_case(int32_t c, int32_t out[PF_MAX_FOLDED]);

/* Whether a character from `first` to `last` folds to several. */
bool pf_folds_to_several(int32_t first, int32_t last);

/* Whether the end of n folded characters is what one character folds to. */
bool pf_ends_as_folded(const int32_t *folded, size_t n);

/* Whether a property [n] tells the cases of letters apart. */
bool pf_is_of_case(const char *property, size_t n);

/* Whether letters have it, or have it not, that fold to several characters. */
bool pf_has_folding_letters(const char *property, size_t n, bool negated);

/* What else matches a class that has the property, as items of a class for PCRE2: "" mostly. */
const char *pf_folded_beside(const char *property, size_t n);

#endif
