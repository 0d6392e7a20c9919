/*
 * What characters are: the questions that added tokens and normalizers ask, as Hugging Face's library
 * answers them.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_CHARACTERS_H
#define PF_TOKENIZER_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

/* Unicode's White_Space. */
bool pf_is_white_space(int32_t c);

/* Word characters as Rust's regex has them: Alphabetic, marks, decimal digits, connectors, joiners. */
bool pf_is_word(int32_t c);

/* Marks, those later than Unicode 9 not: the library's tables are of that. */
bool pf_is_mark(int32_t c);

/* The one character that is the lower case of c; U+0130's, which is two, is its first. */
int32_t pf_lower_case(int32_t c);

#endif
