/* The input is a tokenizer.json, then a NUL, then a text. A text without a tokenizer is one for the tokenizer at hand:
 * all bytes, a few merges, the pattern of Llama 3, in which any text comes back byte for byte. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer.h"
#include "model/tokenizer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char LLAMA3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
    "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+";

static pf_tokenizer *make_tokenizer(void)
{
    static char text[16384];
    size_t n =
        (size_t)snprintf(text, sizeof text,
                         "{\"added_tokens\":[{\"id\":0,\"content\":\"<|x|>\",\"special\":true}],"
                         "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                         "\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":"
                         "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},\"decoder\":{\"type\":"
                         "\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"ab\":256,\"abab\":257,\"aa\":258",
                         LLAMA3);
    for (int b = 0, next = 256; b < 256; b++) {
        const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        n += (size_t)snprintf(text + n, sizeof text - n, ",\"\\u%04x\":%d", printable ? b : next++, b);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "},\"merges\":[\"a b\",\"ab ab\",\"a a\"]}}");
    pf_tokenizer *t = NULL;
    if (pf_tokenizer_parse(text, n, NULL, 0, &t, NULL) != PF_OK) abort();
    return t;
}

/* Encode, and decode what comes of it. must_return: into the same bytes. */
static void there_and_back(const pf_tokenizer *t, const uint8_t *text, size_t n, bool must_return)
{
    pf_tokens tokens = { 0 };
    size_t at = 0;
    if (pf_tokenizer_encode(t, (const char *)text, n, false, &tokens) == PF_OK) {
        for (int32_t i = 0; i < tokens.n; i++) {
            const char *bytes;
            size_t n_bytes;
            if (pf_tokenizer_decode_token(t, tokens.ids[i], &bytes, &n_bytes) != PF_OK) abort();
            if (must_return && (n_bytes > n - at || memcmp(bytes, text + at, n_bytes) != 0)) abort();
            at += n_bytes;
        }
        if (must_return && at != n) abort();
    } else if (must_return) {
        abort();
    }
    pf_tokens_clear(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size && data[0] == '{' ? memchr(data, '\0', size) : NULL;
    pf_tokenizer *t = NULL;
    pf_error error;
    if (!end) {
        t = make_tokenizer();
        there_and_back(t, data, size, true);
    } else if (pf_tokenizer_parse((const char *)data, (size_t)(end - data), NULL, 0, &t, &error) == PF_OK) {
        uint8_t fingerprint[32];
        pf_tokenizer_fingerprint(t, fingerprint);
        there_and_back(t, end + 1, size - (size_t)(end - data) - 1, false);
    }
    pf_tokenizer_close(t);
    return 0;
}
