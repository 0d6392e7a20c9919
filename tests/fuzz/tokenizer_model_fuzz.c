/*
 * Fuzzes the readers of tokenizer.model and of tiktoken files: the tokenizer encodes a text and its ids are in the vocabulary, or
 * the file is refused with a sentence. The length of the file chooses the class.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/files/sentencepiece_tokenizer.h"
#include "tokenizer/files/tiktoken.h"
#include "tokenizer/tokenizer_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const pf_tokenizer *t)
{
    static const char text[] = "a b  ab <s> \xC3\xA9\n 12 \xFF\xEF\xBC\xA1\xCC\x81 the";
    pf_tokens ids = { 0 };
    if (pf_tokenizer_encode(t, text, sizeof text - 1, true, NULL, &ids) == PF_OK)
        for (int32_t i = 0; i < ids.n; i++)
            if (ids.ids[i] < 0 || ids.ids[i] >= pf_tokenizer_vocab_size(t)) abort();
    pf_tokens_clear(&ids);
}

static pf_status make_document(const uint8_t *data, size_t size, pf_tokenizer_files *files, pf_json *doc,
                               pf_error *error)
{
    files->ranked = pf_tiktoken_is_file((const char *)data, size);
    if (!files->ranked) return pf_sentencepiece_document("fuzz.model", data, size, files, doc, error);
    return pf_tiktoken_document("fuzz.tiktoken", (const char *)data, size, size % 2 == 0, files, doc, error);
}

static void read_and_use(const uint8_t *data, size_t size, const char *config_text)
{
    pf_json doc = { 0 }, config = { 0 };
    pf_error error = { .text = "" };
    pf_tokenizer_files files = { .tokenizer = &doc, .config = &config };
    pf_tokenizer *t = calloc(1, sizeof *t);
    if (!t || pf_json_parse("config", config_text, strlen(config_text), 4096, &config, NULL) != PF_OK) abort();
    pf_status status = make_document(data, size, &files, &doc, &error);
    if (status == PF_OK) status = pf_tokenizer_read_documents(&files, t, &error);
    if (status == PF_OK)
        encode(t);
    else if (!error.text[0])
        abort();
    pf_tokenizer_close(t);
    pf_json_close(&doc);
    pf_json_close(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const configs[] = {
        "{}",
        "{\"tokenizer_class\": \"LlamaTokenizer\", \"legacy\": false}",
        "{\"tokenizer_class\": \"GemmaTokenizer\"}",
        "{\"tokenizer_class\": \"InternLMTokenizer\", \"add_eos_token\": true}",
        "{\"tokenizer_class\": \"ChatGLMTokenizer\", \"added_tokens_decoder\": {\"5\": {\"content\": \"[gMASK]\"}}}",
    };
    read_and_use(data, size, configs[size % (sizeof configs / sizeof *configs)]);
    return 0;
}
