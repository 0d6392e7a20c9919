/*
 * Runs a fuzz target without a fuzzer: on every file of the folder that is named, and on simple damage of each (cut
 * short, bits turned, bytes set to extremes). What once crashed is kept in that folder, and stays mended.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/support/draw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { DAMAGES_A_FILE = 300, MOST_BYTES = 1 << 20 };

/* Run a copy of exactly its size, so that AddressSanitizer sees a read past its end. */
static void run(const char *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy) abort();
    memcpy(copy, data, bytes);
    (void)LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
}

static void run_damaged(char *data, size_t bytes, uint64_t *rng)
{
    static const uint8_t extremes[] = { 0x00, 0x7F, 0x80, 0xFF };
    const size_t at = draw(rng) % bytes;
    const char kept = data[at];
    switch (draw(rng) % 3) {
    case 0: run(data, at); return;
    case 1: data[at] = (char)(data[at] ^ 1 << draw(rng) % 8); break;
    default: data[at] = (char)extremes[draw(rng) % sizeof extremes]; break;
    }
    run(data, bytes);
    data[at] = kept;
}

static int run_file(const char *path, uint64_t *rng)
{
    char *data;
    size_t bytes;
    pf_error error;
    if (pf_file_read(path, MOST_BYTES, &data, &bytes, &error) != PF_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    run(data, bytes);
    for (int i = 0; i < DAMAGES_A_FILE && bytes > 0; i++) run_damaged(data, bytes, rng);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        fprintf(stderr, "usage: %s FOLDER, which must be there\n", argv[0]);
        return 2;
    }
    uint64_t rng = 1;
    int n_files = 0, failed = 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        failed |= run_file(path, &rng);
        n_files++;
    }
    closedir(folder);
    printf("%d files, each damaged %d times\n", n_files, DAMAGES_A_FILE);
    return failed || n_files == 0;
}
