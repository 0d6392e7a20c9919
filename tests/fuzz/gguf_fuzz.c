/*
 * Fuzzes a GGUF file: it is opened, every value is read through each getter and every byte of every tensor is read, or it is
 * refused with a sentence.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const KEYS[] = {
    "general.architecture", "general.alignment", "tokenizer.ggml.tokens", "a", "b", "c"
};

static uint32_t read_array(pf_gguf_array array)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < array.n; i++) {
        int64_t integer = 0;
        double number = 0.0;
        if (array.kind == PF_GGUF_STRING) {
            const pf_gguf_string s = pf_gguf_next_string(&array);
            for (size_t k = 0; k < s.n_bytes; k++) sum += (uint8_t)s.text[k];
        } else if (pf_gguf_array_int(&array, i, 0, INT64_MAX, &integer, NULL) != PF_OK) {
            sum += pf_gguf_array_number(&array, i, &number, NULL) == PF_OK && number > 0.0;
        }
        sum += (uint32_t)integer;
    }
    return sum;
}

static uint32_t read_values(const pf_gguf *g)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        int64_t integer = 0;
        double number = 0.0;
        bool flag = false;
        pf_gguf_string text = { "", 0 };
        pf_gguf_array array = { .n = 0 };
        sum += pf_gguf_get_int(g, KEYS[i], true, 0, INT64_MAX, &integer, NULL) == PF_OK;
        sum += pf_gguf_get_number(g, KEYS[i], true, 0.0, 1e300, &number, NULL) == PF_OK;
        sum += pf_gguf_get_bool(g, KEYS[i], true, &flag, NULL) == PF_OK;
        sum += pf_gguf_get_string(g, KEYS[i], true, &text, NULL) == PF_OK;
        for (size_t k = 0; k < text.n_bytes; k++) sum += (uint8_t)text.text[k];
        if (pf_gguf_get_array(g, KEYS[i], true, &array, NULL) == PF_OK) sum += read_array(array);
    }
    return sum;
}

static uint32_t read_tensors(const pf_gguf *g)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < pf_gguf_n_tensors(g); i++) {
        const pf_gguf_tensor *t = pf_gguf_tensor_at(g, i);
        if (pf_gguf_find_tensor(g, t->name) != t) abort();
        for (size_t k = 0; k < t->data_bytes; k++) sum += t->data[k];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/pf-gguf-fuzz-XXXXXX", path[sizeof dir + 32];
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();

    pf_gguf *g = NULL;
    pf_error error = { .text = "" };
    volatile uint32_t sum = 0;
    if (pf_gguf_open(path, &g, &error) == PF_OK) {
        sum = read_values(g) + read_tensors(g);
        pf_gguf_close(g);
    } else if (!error.text[0]) {
        abort();
    }
    (void)sum;
    unlink(path);
    rmdir(dir);
    return 0;
}
