/*
 * Creates tokenizers for tests: byte-level BPE with the 256 bytes as ids 0 to 255, and given parts of tokenizer.json. A
 * failure here fails the test.
 */
#ifndef PF_TESTS_SUPPORT_SMALL_TOKENIZER_H
#define PF_TESTS_SUPPORT_SMALL_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    const char *top;    /* fields of the file: "\"x\": y," */
    const char *pre;    /* the pre_tokenizer; NULL: ByteLevel without a pattern */
    const char *model;  /* fields of the model */
    const char *vocab;  /* ",\"ab\":256" */
    const char *merges; /* "\"a b\"" */
} parts;

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SPLIT(pattern)                                                                                              \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}," \
    "\"behavior\": \"Isolated\", \"invert\": false}," BYTE_LEVEL "]}"

/* The text of the file; the caller frees it. */
char *build(parts p);

/* config: the text of tokenizer_config.json, or NULL. The caller closes the tokenizer. */
pf_tokenizer *open_text(const char *text, const char *config);
pf_tokenizer *open_parts(parts p);

/* The caller clears the tokens. */
pf_tokens encode_bytes(const pf_tokenizer *t, const char *text, size_t n, bool add_special);
pf_tokens encode(const pf_tokenizer *t, const char *text); /* without added special tokens */

/* The text of the tokens; the caller clears it. */
pf_bytes decode(const pf_tokenizer *t, const pf_tokens *tokens);

void assert_ids(const pf_tokenizer *t, const char *text, const int32_t *ids, int32_t n);

#endif
