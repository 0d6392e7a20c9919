/*
 * Replaces characters by the table of a SentencePiece model ("precompiled_charsmap"), as the normalizer Precompiled does.
 *
 *      n_trie (u32)  |  a double array of u32 [n_trie bytes]  |  replacements, UTF-8, each ended by a NUL
 *
 * The trie maps a text to the offset of its replacement. Two rules are in use. By grapheme (Hugging Face): a grapheme cluster
 * of less than six bytes is replaced as a whole by the replacement of its shortest prefix in the trie; without one, and in longer
 * clusters, each character is replaced by itself. By the longest match (SentencePiece): the longest text of the trie that begins
 * here is replaced.
 *
 * Source: spm_precompiled 0.1 and SentencePiece's normalizer.cc for the rules; darts-clone for the array.
 *
 * Internal to tokenizer/. Immutable. A table that is damaged gives fewer replacements; no read leaves it.
 */
#ifndef PF_TOKENIZER_CHARSMAP_H
#define PF_TOKENIZER_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

typedef struct pf_charsmap pf_charsmap;

typedef enum { PF_CHARSMAP_BY_GRAPHEME, PF_CHARSMAP_BY_LONGEST } pf_charsmap_rule;

/* Copies data [n]. PF_FORMAT: the parts do not fit into it, or the replacements are not UTF-8. PF_NOMEM. */
PF_MUST_USE pf_status pf_charsmap_create(const uint8_t *data, size_t n, pf_charsmap_rule rule, pf_charsmap **out);
void pf_charsmap_destroy(pf_charsmap *map); /* NULL is fine */

/* Appends text [n], valid UTF-8, with its replacements. *n_first: of the input, how many leading bytes belong to the first
 * character of a whole text; then of the output. cancel, or NULL: once it is true the call returns PF_CANCELLED. PF_NOMEM;
 * PF_LIMIT: the output is longer than n_most. */
PF_MUST_USE pf_status pf_charsmap_append(const pf_charsmap *map, const char *text, size_t n, size_t *n_first,
                                         size_t n_most, const volatile bool *cancel, pf_bytes *out);

#endif
