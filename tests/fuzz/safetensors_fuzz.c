/*
 * Fuzzes model.safetensors: it is opened and every byte of every tensor is read, or it is refused with a sentence. Input that
 * begins with { is an index and two shards instead: the text of the index, then for each shard the number of zeros that are its
 * data and the text of its header. A NUL ends a text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/files/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_FILES = 4 };
static const char *const FILES[N_FILES] = { "model.safetensors", "model.safetensors.index.json", "a", "b" };

static uint32_t read_all(const pf_safetensors *set)
{
    uint32_t sum = 0;
    for (int32_t i = 0; i < pf_safetensors_count(set); i++) {
        pf_tensor t;
        if (pf_safetensors_find(set, pf_safetensors_name(set, i), &t, NULL) != PF_OK) continue;
        for (size_t k = 0; k < t.data_bytes; k++) sum += t.data[k];
    }
    return sum;
}

static void write_file(const char *dir, const char *name, const void *head, size_t n_head, const void *text,
                       size_t n_text, size_t n_zeros)
{
    static const uint8_t zeros[256];
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(head, 1, n_head, file) != n_head || fwrite(text, 1, n_text, file) != n_text ||
        fwrite(zeros, 1, n_zeros, file) != n_zeros || fclose(file) != 0)
        abort();
}

/* The bytes before the next NUL, or to the end. */
static size_t next_text(const uint8_t **at, const uint8_t *stop, const uint8_t **text)
{
    const uint8_t *nul = *at < stop ? memchr(*at, '\0', (size_t)(stop - *at)) : NULL;
    const size_t n = (size_t)((nul ? nul : stop) - *at);
    *text = *at;
    *at += n + (nul != NULL);
    return n;
}

static void write_shards(const char *dir, const uint8_t *data, size_t size)
{
    const uint8_t *at = data, *stop = data + size, *text;
    size_t n = next_text(&at, stop, &text);
    write_file(dir, FILES[1], "", 0, text, n, 0);
    for (int i = 2; i < N_FILES; i++) {
        const size_t n_zeros = at < stop ? *at++ : 0;
        n = next_text(&at, stop, &text);
        const uint8_t head[8] = { n & 0xFF, n >> 8 & 0xFF, n >> 16 & 0xFF };
        write_file(dir, FILES[i], head, sizeof head, text, n, n_zeros);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/pf-safetensors-fuzz-XXXXXX", path[sizeof dir + 32];
    if (!mkdtemp(dir)) abort();
    if (size > 1 && data[0] == '{' && data[1] != 0) /* not a plausible header length of a small file */
        write_shards(dir, data, size);
    else
        write_file(dir, FILES[0], "", 0, data, size, 0);

    pf_safetensors *set = NULL;
    pf_error error = { .text = "" };
    volatile uint32_t sum = 0;
    if (pf_safetensors_open(dir, NULL, &set, &error) == PF_OK) {
        sum = read_all(set);
        pf_safetensors_close(set);
    } else if (!error.text[0]) {
        abort();
    }
    (void)sum;
    for (int i = 0; i < N_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, FILES[i]);
        unlink(path);
    }
    rmdir(dir);
    return 0;
}
