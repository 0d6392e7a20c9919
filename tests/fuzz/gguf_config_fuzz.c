/*
 * Fuzzes the metadata of a GGUF file: they become a configuration whose tensors have names and shapes, or are refused with a
 * sentence of one line.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) abort();
}

/* Every role of a configuration has a name and rows within its tensor. */
static pf_status check_tensor(void *user, pf_tensor_id id, const char *part, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    const pf_config *config = user;
    (void)error;
    pf_config_tensor_name(config, id, part, name);
    const pf_row_map map = pf_config_rows(config, id.role);
    require(name[0] != '\0' && strlen(name) < sizeof name);
    require(map.first >= 0 && map.block_rows >= 1 && map.n_blocks >= 1 && map.file_rows >= map.block_rows);
    require((int64_t)map.first + (int64_t)(map.n_blocks - 1) * map.stride + map.block_rows <= map.file_rows);
    return PF_OK;
}

static void check(pf_config *config)
{
    static float frequencies[PF_MAX_HEAD_DIM / 2];
    float scale;
    require(config->gguf && config->plan.norm != PF_NORM_RMS_PLUS_ONE);
    require(isfinite(config->plan.attention_scale) && config->rotary_dim <= config->head_dim);
    for (int32_t i = 0; i < config->n_ropes; i++)
        pf_rope_frequencies(config, i, config->max_context, frequencies, &scale);
    if (config->n_layers <= 8 && config->plan.n_experts <= 8)
        require(pf_config_visit_tensors(config, check_tensor, config, NULL) == PF_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pf_config config;
    char dir[] = "/tmp/pf-gguf-fuzz-XXXXXX", path[sizeof dir + 32];
    require(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    FILE *file = fopen(path, "wb");
    require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    pf_error error = { .text = "" };
    const pf_status status = pf_config_load(path, NULL, &config, &error);
    unlink(path);
    rmdir(dir);
    if (status == PF_OK)
        check(&config);
    else
        require(error.text[0] != '\0' && strchr(error.text, '\n') == NULL);
    return 0;
}
