/* Fuzzes reading, encoding and decoding. The input is a tokenizer.json, a NUL and a text. A text that begins with "{" is
 * first another document, up to a second NUL, which is used as tokenizer_config.json and special_tokens_map.json. With an
 * empty tokenizer.json the text goes to a built-in tokenizer (all bytes, a few merges, the pattern of Llama 3), which must
 * return it byte for byte. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

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

/* The text that the tokens from n_prompt on add to the others. */
static void decode(const pf_tokenizer *t, const pf_tokens *tokens, int32_t n_prompt, pf_bytes *out)
{
    pf_detokenizer *d;
    if (pf_detokenizer_create(t, &d) != PF_OK) abort();
    pf_status status = pf_detokenizer_skip_prompt(d, tokens->ids, n_prompt);
    for (int32_t i = n_prompt; status == PF_OK && i < tokens->n; i++)
        status = pf_detokenizer_push(d, tokens->ids[i], out);
    if (status == PF_OK) status = pf_detokenizer_finish(d, out);
    if (status != PF_OK && status != PF_LIMIT) abort();
    pf_detokenizer_destroy(d);
}

/* Encode and decode. must_return: the bytes must be equal. */
static void there_and_back(const pf_tokenizer *t, const uint8_t *text, size_t n, bool must_return)
{
    pf_tokens tokens = { 0 };
    pf_bytes back = { 0 }, continuation = { 0 };
    if (pf_tokenizer_encode(t, (const char *)text, n, false, NULL, &tokens) == PF_OK) {
        decode(t, &tokens, 0, &back);
        decode(t, &tokens, tokens.n / 2, &continuation);
        if (must_return && continuation.n > back.n) abort();
        if (must_return && (back.n != n || (n > 0 && memcmp(back.data, text, n) != 0))) abort();
    } else if (must_return) {
        abort();
    }
    pf_bytes_clear(&continuation);
    pf_bytes_clear(&back);
    pf_tokens_clear(&tokens);
}

static pf_status read_documents(const char *text, size_t n, const char *beside, size_t n_beside, pf_tokenizer *t)
{
    pf_json doc = { 0 }, other = { 0 };
    pf_error error;
    pf_status status = pf_json_parse("tokenizer.json", text, n, PF_MAX_TOKENIZER_BYTES, &doc, &error);
    if (status == PF_OK && beside)
        status =
            pf_json_parse("tokenizer_config.json", beside, n_beside, PF_MAX_TOKENIZER_CONFIG_BYTES, &other, &error);
    const pf_json *view = beside ? &other : NULL;
    const pf_tokenizer_files files = { .tokenizer = &doc, .config = view, .special_map = view };
    if (status == PF_OK) status = pf_tokenizer_read_documents(&files, t, &error);
    pf_json_close(&other);
    pf_json_close(&doc);
    return status;
}

static void read_and_use(const uint8_t *data, size_t size, const uint8_t *end)
{
    const uint8_t *text = end + 1, *stop = data + size;
    const uint8_t *second = text < stop && *text == '{' ? memchr(text, '\0', (size_t)(stop - text)) : NULL;
    pf_tokenizer *t = calloc(1, sizeof *t);
    if (!t) abort();
    if (read_documents((const char *)data, (size_t)(end - data), second ? (const char *)text : NULL,
                       second ? (size_t)(second - text) : 0, t) == PF_OK) {
        uint8_t fingerprint[32];
        if (second) text = second + 1;
        if (pf_tokenizer_fingerprint(t, pf_tokenizer_vocab_size(t), fingerprint, NULL) != PF_OK) abort();
        there_and_back(t, text, (size_t)(stop - text), false);
    }
    pf_tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size && data[0] == '{' ? memchr(data, '\0', size) : NULL;
    if (end) {
        read_and_use(data, size, end);
    } else {
        pf_tokenizer *t = make_tokenizer();
        there_and_back(t, data, size, true);
        pf_tokenizer_close(t);
    }
    return 0;
}
