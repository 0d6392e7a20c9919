/*
 * Lists the characters on which Hugging Face's library and PCRE2 or utf8proc disagree because of their Unicode versions. The
 * library's regular expressions have Unicode 16, PCRE2 of Debian 12 has 14, and the library's tables of marks and
 * punctuation are older than both. With newer versions of PCRE2 and utf8proc the additions have no effect.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_NEWER_CHARACTERS_H
#define PF_TOKENIZER_NEWER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tokenizer/unicode/character_bytes.h"

/* Iterates over the ranges that have `property` [n] (a general category, or the name of a property or script in PCRE2) in
 * the library's regular expressions and may lack it in PCRE2; for C and Cn, over the ranges that lost it. Start with
 * *at = 0. False: no more. */
bool pf_newer_next(const char *property, size_t n, size_t *at, pf_character_range *out);

/* Whether a valid UTF-8 text contains a character of any of those ranges. */
bool pf_has_newer(const char *text, size_t n_bytes);

/* Whether `name` [n] equals `known`, ignoring case and underscores. */
bool pf_is_property(const char *known, const char *name, size_t n);

/* Whether the property is C or Cn, which lose characters when new ones are assigned. */
bool pf_newer_is_unassigned(const char *property, size_t n);

/* The general category of a character that may be newer than utf8proc; "" for any other. */
const char *pf_newer_category(int32_t c);

/* Whether c is in one of n sorted ranges. */
bool pf_is_in_ranges(const pf_character_range *ranges, size_t n, int32_t c);

/* Whether c is a mark that the library's own table lacks. */
bool pf_is_newer_mark(int32_t c);

/* Punctuation that the library's own table lacks, as items of a character class. */
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
