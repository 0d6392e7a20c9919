/* Fuzzes the tokenizer of a GGUF file: it encodes a text and the ids are in the vocabulary, or it is refused with a sentence. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tokenizer/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const pf_tokenizer *t)
{
    static const char text[] = "a b ab <s> \xC3\xA9\n 12";
    pf_tokens ids = { 0 };
    if (pf_tokenizer_encode(t, text, sizeof text - 1, true, NULL, &ids) == PF_OK)
        for (int32_t i = 0; i < ids.n; i++)
            if (ids.ids[i] < 0 || ids.ids[i] >= pf_tokenizer_vocab_size(t)) abort();
    pf_tokens_clear(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/pf-gguf-tokenizer-fuzz-XXXXXX.gguf";
    const int descriptor = mkstemps(path, 5);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size || close(descriptor) != 0) abort();
    pf_tokenizer *t = NULL;
    pf_error error = { .text = "" };
    if (pf_tokenizer_open(path, &t, &error) == PF_OK) {
        encode(t);
        pf_tokenizer_close(t);
    } else if (!error.text[0]) {
        abort();
    }
    unlink(path);
    return 0;
}
