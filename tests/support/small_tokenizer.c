#include "tests/support/small_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer_parts.h"

/* The 256 byte characters, with ids 0 to 255 in order of the byte. */
static void put_alphabet(char *out, size_t size)
{
    size_t used = 0;
    int next = 256;
    for (int b = 0; b < 256; b++) {
        const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        used += (size_t)snprintf(out + used, size - used, "%s\"\\u%04x\":%d", b ? "," : "", printable ? b : next++, b);
    }
}

static const char * or (const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

char *build(parts p)
{
    enum { SIZE = 65536 };
    static char alphabet[8192];
    char *out = malloc(SIZE);
    assert_non_null(out);
    put_alphabet(alphabet, sizeof alphabet);
    const int n = snprintf(out, SIZE,
                           "{%s \"pre_tokenizer\": %s, \"decoder\": {\"type\": \"ByteLevel\"},"
                           "\"model\": {%s \"type\": \"BPE\", \"vocab\": {%s%s}, \"merges\": [%s]}}",
                           or (p.top, ""), or (p.pre, BYTE_LEVEL), or (p.model, ""), alphabet, or (p.vocab, ""),
                           or (p.merges, ""));
    assert_true(n > 0 && n < SIZE);
    return out;
}

pf_tokenizer *open_text(const char *text, const char *config)
{
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    assert_ok(pf_tokenizer_parse(text, strlen(text), config, config ? strlen(config) : 0, &t, &error), error);
    return t;
}

pf_tokenizer *open_parts(parts p)
{
    char *text = build(p);
    pf_tokenizer *t = open_text(text, NULL);
    free(text);
    return t;
}

pf_tokens encode_bytes(const pf_tokenizer *t, const char *text, size_t n, bool add_special)
{
    pf_tokens out = { 0 };
    assert_status(pf_tokenizer_encode(t, text, n, add_special, NULL, &out), PF_OK);
    return out;
}

pf_tokens encode(const pf_tokenizer *t, const char *text)
{
    return encode_bytes(t, text, strlen(text), false);
}

pf_bytes decode(const pf_tokenizer *t, const pf_tokens *tokens)
{
    pf_bytes out = { .data = NULL };
    pf_detokenizer *d;
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    for (int32_t i = 0; i < tokens->n; i++) assert_status(pf_detokenizer_push(d, tokens->ids[i], &out), PF_OK);
    assert_status(pf_detokenizer_finish(d, &out), PF_OK);
    pf_detokenizer_destroy(d);
    return out;
}

void assert_ids(const pf_tokenizer *t, const char *text, const int32_t *ids, int32_t n)
{
    pf_tokens got = encode(t, text);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.ids, ids, (size_t)n * sizeof *ids);
    pf_tokens_clear(&got);
}
