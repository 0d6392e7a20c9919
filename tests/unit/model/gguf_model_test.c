/* A model in a GGUF file computes what the same model in safetensors does. */
#include <math.h>
#include <stdlib.h>

#include "model/files/ggml_blocks.h"
#include "model/files/quantize.h"
#include "model/files/safetensors.h"
#include "model/forward/context.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

enum { VOCAB = 128, N_TOKENS = 9, HEAD_DIM = 16, HEADS = 4, KV_HEADS = 2 };

static pf_temp_dir dir;
static const int32_t TOKENS[N_TOKENS] = { 1, 5, 9, 100, 3, 77, 42, 8, 127 };

static int make_dir(void **state)
{
    (void)state;
    pf_temp_dir_make(&dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    pf_temp_dir_remove(&dir);
    return 0;
}

/* ---- conversion, as llama.cpp's converter does it ---- */

/* "model.layers.1.self_attn.q_proj.weight" to "blk.1.attn_q.weight". */
static void rename_tensor(const char *name, char out[96])
{
    static const char *const words[][2] = { { "model.embed_tokens", "token_embd" },
                                            { "model.norm", "output_norm" },
                                            { "lm_head", "output" },
                                            { "input_layernorm", "attn_norm" },
                                            { "post_attention_layernorm", "ffn_norm" },
                                            { "self_attn.q_proj", "attn_q" },
                                            { "self_attn.k_proj", "attn_k" },
                                            { "self_attn.v_proj", "attn_v" },
                                            { "self_attn.o_proj", "attn_output" },
                                            { "mlp.gate_proj", "ffn_gate" },
                                            { "mlp.up_proj", "ffn_up" },
                                            { "mlp.down_proj", "ffn_down" } };
    for (size_t i = 0; i < PF_COUNT(words); i++) {
        const char *at = strstr(name, words[i][0]);
        int layer = 0;
        if (at == NULL) continue;
        const char *part = at + strlen(words[i][0]);
        /* NOLINTNEXTLINE(cert-err34-c): the names are those of this file */
        if (sscanf(name, "model.layers.%d.", &layer) == 1)
            snprintf(out, 96, "blk.%d.%s%s", layer, words[i][1], part);
        else
            snprintf(out, 96, "%s%s", words[i][1], part);
        return;
    }
    fail_msg("no name for %s", name);
}

/* The rows of each head in pairs: row i + j * HEAD_DIM / 2 becomes row 2 i + j. */
static void pair_rows(float *values, int64_t rows, int64_t columns)
{
    float *copy = malloc((size_t)(rows * columns) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, values, (size_t)(rows * columns) * sizeof *copy);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t head = row / HEAD_DIM * HEAD_DIM, i = row % HEAD_DIM % (HEAD_DIM / 2),
                      j = row % HEAD_DIM / (HEAD_DIM / 2);
        memcpy(values + (head + 2 * i + j) * columns, copy + row * columns, (size_t)columns * sizeof *copy);
    }
    free(copy);
}

/* Rounds n values to Q8_0 blocks. */
static uint8_t *round_to_blocks(const float *values, size_t n)
{
    uint8_t *blocks = malloc(n / 32 * 34);
    assert_non_null(blocks);
    for (size_t b = 0; b < n / 32; b++) {
        float largest = 0.0f;
        for (size_t i = 0; i < 32; i++) largest = fmaxf(largest, fabsf(values[b * 32 + i]));
        const uint16_t d = pf_f16_from_f32(largest / 127.0f);
        memcpy(blocks + b * 34, &d, sizeof d);
        for (size_t i = 0; i < 32; i++) {
            const float q = largest > 0.0f ? values[b * 32 + i] / pf_f16_to_f32(d) : 0.0f;
            blocks[b * 34 + 2 + i] = (uint8_t)(int8_t)lrintf(fminf(fmaxf(q, -127.0f), 127.0f));
        }
    }
    return blocks;
}

typedef enum { AS_IT_IS, BLOCKS, BLOCKS_WIDENED } conversion;

static void put(gguf_writer *w, const pf_tensor *t, conversion how)
{
    char name[96];
    const int64_t rows = t->shape[0], columns = t->n_dimensions == 2 ? t->shape[1] : 1;
    const size_t n = (size_t)(rows * columns);
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++) values[i] = pf_tensor_element(t->data, t->type, i);
    rename_tensor(t->name, name);
    if (strstr(name, "attn_q.") || strstr(name, "attn_k.")) pair_rows(values, rows, columns);
    if (t->n_dimensions == 2 && how != AS_IT_IS) {
        uint8_t *blocks = round_to_blocks(values, n);
        pf_ggml_to_f32(PF_GGML_Q8_0, blocks, n, values);
        if (how == BLOCKS) gguf_put_tensor(w, name, PF_GGML_Q8_0, t->shape, 2, blocks, n / 32 * 34);
        free(blocks);
    }
    if (t->n_dimensions == 1 || how != BLOCKS)
        gguf_put_tensor(w, name, PF_GGML_F32, t->shape, t->n_dimensions, values, n * sizeof *values);
    free(values);
}

static void put_metadata(gguf_writer *w)
{
    static const struct {
        const char *key;
        int32_t value;
    } sizes[] = { { "llama.context_length", 512 },
                  { "llama.embedding_length", 64 },
                  { "llama.block_count", 2 },
                  { "llama.feed_forward_length", 96 },
                  { "llama.attention.head_count", HEADS },
                  { "llama.attention.head_count_kv", KV_HEADS },
                  { "llama.rope.dimension_count", HEAD_DIM },
                  { "llama.vocab_size", VOCAB },
                  { "tokenizer.ggml.eos_token_id", 2 } };
    gguf_put_string(w, "general.architecture", "llama");
    for (size_t i = 0; i < PF_COUNT(sizes); i++) gguf_put_int(w, sizes[i].key, PF_GGUF_U32, sizes[i].value);
    gguf_put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_put_f32(w, "llama.rope.freq_base", 10000.0f);
}

static void save(gguf_writer *w, const char *name)
{
    pf_bytes out = { .data = NULL };
    gguf_print(w, 3, &out);
    pf_temp_write(&dir, name, out.data, out.n);
    pf_bytes_clear(&out);
    gguf_writer_clear(w);
}

static void put_all(gguf_writer *w, const char *directory, conversion how)
{
    pf_safetensors *set = NULL;
    pf_error error = { 0 };
    assert_ok(pf_safetensors_open(directory, NULL, &set, &error), error);
    for (int32_t i = 0; i < pf_safetensors_count(set); i++) {
        pf_tensor t;
        assert_ok(pf_safetensors_find(set, pf_safetensors_name(set, i), &t, &error), error);
        put(w, &t, how);
    }
    pf_safetensors_close(set);
}

static void convert(const char *directory, conversion how, const char *name)
{
    gguf_writer w = { .n_keys = 0 };
    put_metadata(&w);
    put_all(&w, directory, how);
    save(&w, name);
}

/* ---- logits ---- */

static pf_status load(const char *path, pf_team *team, pf_model **out, pf_error *error)
{
    const pf_model_options options = { .dtype = PF_DTYPE_F32, .isa = pf_cpu_best_isa(), .team = team };
    return pf_model_load(path, &options, out, error);
}

static void compute(const char *path, float out[N_TOKENS * VOCAB])
{
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv_seq seq;
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    assert_ok(load(path, team, &model, &error), error);
    const pf_context_config config = {
        .max_tokens = 64, .max_sequences = 1, .max_rows = 64, .max_logit_rows = 64, .kv_type = PF_TYPE_F32
    };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    const pf_span prompt = { seq, TOKENS, N_TOKENS, N_TOKENS, NULL, 0 };
    assert_int_equal(pf_context_forward(context, &prompt, 1), PF_OK);
    for (int32_t i = 0; i < N_TOKENS; i++) memcpy(out + i * VOCAB, pf_context_logits(context, i), VOCAB * sizeof *out);
    pf_context_destroy(context);
    pf_model_release(model);
    pf_team_destroy(team);
}

static void assert_same_logits(const char *one, const char *two)
{
    float a[N_TOKENS * VOCAB], b[N_TOKENS * VOCAB];
    compute(one, a);
    compute(two, b);
    assert_memory_equal(a, b, sizeof a);
}

static const char *path_of(const char *name, char path[PF_TEMP_PATH_BYTES])
{
    return pf_temp_path(&dir, name, path);
}

static void a_gguf_file_gives_the_logits_of_the_directory(void **state)
{
    (void)state;
    static const pf_tiny_model models[] = { { .seed = 1 },
                                            { .seed = 2, .tied = true },
                                            { .seed = 3, .attention_bias = true } };
    for (size_t i = 0; i < PF_COUNT(models); i++) {
        char directory[PF_TINY_PATH], path[PF_TEMP_PATH_BYTES];
        pf_tiny_model_create(&models[i], directory);
        convert(directory, AS_IT_IS, "model.gguf");
        assert_same_logits(directory, path_of("model.gguf", path));
        pf_tiny_model_remove(directory);
    }
}

static void blocks_give_the_logits_of_their_elements(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH], one[PF_TEMP_PATH_BYTES], two[PF_TEMP_PATH_BYTES];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 4 }, directory);
    convert(directory, BLOCKS, "blocks.gguf");
    convert(directory, BLOCKS_WIDENED, "wide.gguf");
    assert_same_logits(path_of("blocks.gguf", one), path_of("wide.gguf", two));
    pf_tiny_model_remove(directory);
}

static void rope_divisors_are_those_of_longrope(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH], path[PF_TEMP_PATH_BYTES];
    static const float divisors[HEAD_DIM / 2] = { 1, 1, 1, 1.5f, 2, 4, 8, 8 };
    static const int64_t shape[] = { HEAD_DIM / 2 };
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 5,
                                           .rope_scaling = "{\"rope_type\": \"longrope\", \"factor\": 1.0, "
                                                           "\"short_factor\": [1, 1, 1, 1.5, 2, 4, 8, 8], "
                                                           "\"long_factor\": [1, 1, 1, 1.5, 2, 4, 8, 8]}" },
                         directory);
    gguf_writer w = { .n_keys = 0 };
    put_metadata(&w);
    put_all(&w, directory, AS_IT_IS);
    gguf_put_tensor(&w, "rope_freqs.weight", PF_GGML_F32, shape, 1, divisors, sizeof divisors);
    save(&w, "model.gguf");
    assert_same_logits(directory, path_of("model.gguf", path));
    pf_tiny_model_remove(directory);
}

static void assert_refused(gguf_writer *w, pf_status status, const char *part)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_error error = { 0 };
    pf_model *model = NULL;
    pf_team *team;
    save(w, "model.gguf");
    *w = (gguf_writer){ .n_keys = 0 };
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    assert_status(load(path_of("model.gguf", path), team, &model, &error), status);
    assert_says(error, part);
    assert_says(error, "model.gguf");
    pf_team_destroy(team);
}

static void files_that_cannot_be_computed_are_refused(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    static const int64_t shape[] = { 64 };
    static const uint8_t zeros[256 * 4];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 6 }, directory);
    gguf_writer w = { .n_keys = 0 };
    gguf_put_string(&w, "general.architecture", "of-tomorrow");
    assert_refused(&w, PF_UNSUPPORTED, "general.architecture is \"of-tomorrow\"");
    put_metadata(&w);
    assert_refused(&w, PF_FORMAT, "token_embd.weight");
    put_metadata(&w);
    put_all(&w, directory, AS_IT_IS);
    gguf_put_int(&w, "llama.attention.sliding_window", PF_GGUF_U32, 64);
    assert_refused(&w, PF_UNSUPPORTED, "llama.attention.sliding_window");
    put_metadata(&w);
    put_all(&w, directory, AS_IT_IS);
    gguf_put_int(&w, "llama.expert_count", PF_GGUF_U32, 8);
    assert_refused(&w, PF_UNSUPPORTED, "llama.expert_count");
    put_metadata(&w);
    put_all(&w, directory, AS_IT_IS);
    gguf_put_tensor(&w, "blk.0.attn_q_norm.weight", PF_GGML_F32, shape, 1, zeros, 256);
    assert_refused(&w, PF_UNSUPPORTED, "blk.0.attn_q_norm.weight");
    put_metadata(&w);
    put_all(&w, directory, AS_IT_IS);
    gguf_put_string(&w, "llama.rope.scaling.type", "spiral");
    assert_refused(&w, PF_UNSUPPORTED, "rope.scaling.type is \"spiral\"");
    put_metadata(&w);
    gguf_put_tensor(&w, "token_embd.weight", 16, (const int64_t[]){ 1, 256 }, 2, zeros, 66); /* IQ2_XXS */
    assert_refused(&w, PF_UNSUPPORTED, "IQ2_XXS");
    pf_tiny_model_remove(directory);
}

static void a_gguf_file_is_not_quantised_again(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH], from[PF_TEMP_PATH_BYTES], to[PF_TEMP_PATH_BYTES];
    pf_error error = { 0 };
    pf_team *team;
    pf_model_quantize_result result;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 7 }, directory);
    convert(directory, AS_IT_IS, "model.gguf");
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    const pf_model_quantize_options options = { .dtype = PF_DTYPE_INT8, .team = team };
    assert_status(pf_model_quantize(path_of("model.gguf", from), path_of("out", to), &options, &result, &error),
                  PF_UNSUPPORTED);
    assert_says(error, "GGUF");
    pf_team_destroy(team);
    pf_tiny_model_remove(directory);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(a_gguf_file_gives_the_logits_of_the_directory),
        T(blocks_give_the_logits_of_their_elements),
        T(rope_divisors_are_those_of_longrope),
        T(files_that_cannot_be_computed_are_refused),
        T(a_gguf_file_is_not_quantised_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
