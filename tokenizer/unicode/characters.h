/*
 * Classifies characters for added tokens and normalizers, as Hugging Face's library does.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_CHARACTERS_H
#define PF_TOKENIZER_CHARACTERS_H

#include <stdbool.h>
#include <stdint.h>

/* Unicode's White_Space. */
bool pf_is_white_space(int32_t c);

/* Word characters of Rust's regex: Alphabetic, marks, decimal digits, connectors, joiners. */
bool pf_is_word(int32_t c);

/* Marks up to Unicode 9, the version of the library's table. */
bool pf_is_mark(int32_t c);

/* The lower case of c; for U+0130, which has two characters, the first. */
int32_t pf_lower_case(int32_t c);

#endif
