/*
 * Characters that Hugging Face's library knows and PCRE2 or utf8proc may not yet, and the other way round: its regular
 * expressions have Unicode 16, Debian 12's PCRE2 has 14, and its own tables of marks and of punctuation are older than both.
 * With newer libraries what is added here is there already.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_NEWER_CHARACTERS_H
#define PF_TOKENIZER_NEWER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokenizer/unicode/character_bytes.h"

/* The ranges that have `property` [n] (a general category, or a property or script by the name that PCRE2 takes) in the
 * library's regular expressions and may lack it in PCRE2; where it is C or Cn, those that have lost it. Begin with *at = 0.
 * false: no more. */
bool pf_newer_next(const char *property, size_t n, size_t *at, pf_character_range *out);

/* Whether valid UTF-8 holds any character of those ranges. */
bool pf_has_newer(const char *text, size_t n_bytes);

/* Whether `name` [n] is that name, in capitals or not, with any underscores. */
bool pf_is_property(const char *known, const char *name, size_t n);

/* Whether it is C or Cn, which lose characters as others are given them. */
bool pf_newer_is_unassigned(const char *property, size_t n);

/* The general category of a character that may be newer than utf8proc; of any other "". */
const char *pf_newer_category(int32_t c);

/* Whether c is in one of n ranges, which are in order. */
bool pf_is_in_ranges(const pf_character_range *ranges, size_t n, int32_t c);

/* Marks that the library's own table does not have. */
bool pf_is_newer_mark(int32_t c);

/* The same of punctuation, as items of a character class. */
/* clang-format off */
#define PF_NEWER_PUNCTUATION \
    "\\x{61D}\\x{9FD}\\x{A76}\\x{C77}\\x{C84}\\x{1B4E}-\\x{1B4F}\\x{1B7D}-\\x{1B7F}\\x{2E43}-\\x{2E4F}" \
    "\\x{2E52}-\\x{2E5D}\\x{10D6E}\\x{10EAD}\\x{10F55}-\\x{10F59}\\x{10F86}-\\x{10F89}\\x{113D4}-\\x{113D5}" \
    "\\x{113D7}-\\x{113D8}\\x{1144B}-\\x{1144F}\\x{1145A}-\\x{1145B}\\x{1145D}\\x{11660}-\\x{1166C}\\x{116B9}" \
    "\\x{1183B}\\x{11944}-\\x{11946}\\x{119E2}\\x{11A3F}-\\x{11A46}\\x{11A9A}-\\x{11A9C}\\x{11A9E}-\\x{11AA2}" \
    "\\x{11B00}-\\x{11B09}\\x{11BE1}\\x{11C41}-\\x{11C45}\\x{11C70}-\\x{11C71}\\x{11EF7}-\\x{11EF8}" \
    "\\x{11F43}-\\x{11F4F}\\x{11FFF}\\x{12FF1}-\\x{12FF2}\\x{16D6D}-\\x{16D6F}\\x{16E97}-\\x{16E9A}\\x{16FE2}" \
    "\\x{1E5FF}\\x{1E95E}-\\x{1E95F}"
/* clang-format on */

#endif
