/*
 * Fuzzes the loader with a model directory: a config.json and, after a NUL, its model.safetensors, original or written by
 * `pilotfish quantize`, or a GGUF file. The model is loaded and runs a pass, or is refused with a sentence. No weights, scales or group parameters
 * may cause a fault, and a token drawn from the logits must be in the vocabulary.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/forward/context.h"
#include "model/sampling/sampling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_TOKENS = 3 };

static void require(int condition)
{
    if (!condition) abort();
}

static void write_file(const char *path, const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    require(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

/* Writes the weights with a header padded so that the file ends at a page boundary: a read past the end faults. */
static void write_weights(const char *path, const uint8_t *data, size_t size)
{
    enum { PAGE = 4096 };
    uint64_t header = 0;
    if (size >= sizeof header) memcpy(&header, data, sizeof header);
    if (size < sizeof header || header > size - sizeof header) {
        write_file(path, data, size);
        return;
    }
    const size_t n = sizeof header + (size_t)header, pad = (PAGE - size % PAGE) % PAGE;
    uint8_t *padded = malloc(size + pad);
    require(padded != NULL);
    header += pad;
    memcpy(padded, data, n);
    memcpy(padded, &header, sizeof header);
    memset(padded + n, ' ', pad);
    memcpy(padded + n + pad, data + n, size - n);
    write_file(path, padded, size + pad);
    free(padded);
}

static void draw(pf_context *context)
{
    const pf_model *model = pf_context_model(context);
    const int32_t n_vocab = pf_context_n_vocab(context);
    const pf_sampling sampling = { .temperature = 0.8f, .top_k = 5, .top_p = 0.9f };
    float *probabilities = malloc((size_t)n_vocab * sizeof *probabilities);
    void *scratch = malloc(pf_sampling_scratch_bytes(n_vocab));
    require(probabilities && scratch);
    const float *logits = pf_context_logits(context, 0);
    if (pf_sampling_distribution(&sampling, pf_model_kernels(model), logits, n_vocab, probabilities, scratch) ==
        PF_OK) {
        const int32_t id = pf_sampling_draw_entry(probabilities, n_vocab, 0.5f);
        require(id >= 0 && id < n_vocab);
    }
    free(scratch);
    free(probabilities);
}

static void run_pass(const pf_model *model, pf_team *team)
{
    const pf_config *c = pf_model_config(model);
    const int32_t tokens[N_TOKENS] = { 0, c->vocab_size - 1, c->vocab_size / 2 };
    const int32_t n = c->max_context < N_TOKENS ? c->max_context : N_TOKENS;
    const pf_context_config config = { .max_tokens = n,
                                       .max_sequences = 1,
                                       .max_rows = n,
                                       .max_logit_rows = 1,
                                       .kv_type = pf_context_default_kv_type(model) };
    pf_context *context = NULL;
    pf_kv_seq sequence;
    if (pf_context_create(model, team, &config, &context, NULL) != PF_OK) return;
    require(pf_kv_acquire(pf_context_kv(context), &sequence) == PF_OK);
    const pf_span span = { .sequence = sequence, .tokens = tokens, .n_tokens = n, .n_logits = 1 };
    require(pf_context_forward(context, &span, 1) == PF_OK);
    draw(context);
    pf_context_destroy(context);
}

/* Warnings are one printable line. */
static void check_warning(void *user, const char *sentence)
{
    (void)user;
    require(sentence[0] != '\0' && strchr(sentence, '\n') == NULL);
}

static void load_and_run(const char *directory)
{
    pf_team *team = NULL;
    pf_model *model = NULL;
    pf_error error = { .text = "" };
    require(pf_team_create(1, NULL, 0, &team, NULL) == PF_OK);
    const pf_model_options options = { .isa = pf_cpu_best_isa(), .team = team, .policy = { .warn = check_warning } };
    if (pf_model_load(directory, &options, &model, &error) == PF_OK) {
        run_pass(model, team);
        pf_model_release(model);
    } else {
        require(error.text[0] != '\0');
    }
    pf_team_destroy(team);
}

static void load_gguf(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/pf-checkpoint-fuzz-XXXXXX.gguf";
    const int descriptor = mkstemps(path, 5);
    require(descriptor >= 0 && close(descriptor) == 0);
    write_file(path, data, size);
    load_and_run(path);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4 && memcmp(data, "GGUF", 4) == 0) {
        load_gguf(data, size);
        return 0;
    }
    const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
    if (!end) return 0;
    const size_t n = (size_t)(end - data);
    char dir[] = "/tmp/pf-checkpoint-fuzz-XXXXXX", config[sizeof dir + 32], weights[sizeof dir + 32];
    require(mkdtemp(dir) != NULL);
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    write_file(config, data, n);
    write_weights(weights, end + 1, size - n - 1);
    load_and_run(dir);
    unlink(config);
    unlink(weights);
    rmdir(dir);
    return 0;
}
