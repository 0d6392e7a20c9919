/* A model.safetensors of any bytes: opened, every tensor found, every byte of it read. Never a fault. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/pf-safetensors-fuzz-XXXXXX", path[sizeof dir + 32];
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();

    pf_safetensors *set = NULL;
    volatile uint32_t sum = 0;
    if (pf_safetensors_open(dir, &set, NULL) == PF_OK) {
        sum = read_all(set);
        pf_safetensors_close(set);
    }
    (void)sum;
    unlink(path);
    rmdir(dir);
    return 0;
}
