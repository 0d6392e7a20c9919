/* The metadata of GGUF files become the plans that the architectures of llama.cpp have. */
#include "model/config/config.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

static pf_temp_dir dir;

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

static void put_int(gguf_writer *w, const char *architecture, const char *name, int64_t value)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", architecture, name);
    gguf_put_int(w, key, PF_GGUF_U32, value);
}

/* Metadata of a model with heads of 8, and its embedding. */
static void put_model(gguf_writer *w, const char *architecture, int64_t n_layers, int64_t hidden, int64_t n_heads)
{
    static const uint8_t zeros[16 * 64 * 4];
    char key[96];
    gguf_put_string(w, "general.architecture", architecture);
    put_int(w, architecture, "block_count", n_layers);
    put_int(w, architecture, "embedding_length", hidden);
    put_int(w, architecture, "feed_forward_length", 48);
    put_int(w, architecture, "context_length", 256);
    put_int(w, architecture, "attention.head_count", n_heads);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", architecture);
    gguf_put_f32(w, key, 1e-5f);
    gguf_put_tensor(w, "token_embd.weight", PF_GGML_F32, (const int64_t[]){ 16, 64 }, 2, zeros, sizeof zeros);
}

static pf_status load(gguf_writer *w, pf_config *out, pf_error *error)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_bytes bytes = { .data = NULL };
    gguf_print(w, 3, &bytes);
    pf_temp_write(&dir, "model.gguf", bytes.data, bytes.n);
    pf_bytes_clear(&bytes);
    gguf_writer_clear(w);
    *w = (gguf_writer){ .n_keys = 0 };
    return pf_config_load(pf_temp_path(&dir, "model.gguf", path), NULL, out, error);
}

static pf_config must_load(gguf_writer *w)
{
    pf_config config;
    pf_error error = { 0 };
    assert_ok(load(w, &config, &error), error);
    return config;
}

static void a_baichuan_of_40_layers_has_alibi_and_one_of_32_rope(void **state)
{
    (void)state;
    gguf_writer w = { .n_keys = 0 };
    put_model(&w, "baichuan", 40, 64, 8);
    pf_config config = must_load(&w);
    assert_int_equal(config.plan.positions, PF_POSITIONS_ALIBI);
    assert_int_equal(config.max_position, 256);
    put_model(&w, "baichuan", 32, 64, 8);
    config = must_load(&w);
    assert_int_equal(config.plan.positions, PF_POSITIONS_ROTARY);
    assert_false(config.plan.normalised_head);
}

static void the_largest_gemmas_scale_queries_by_the_hidden_size(void **state)
{
    (void)state;
    static const struct {
        const char *architecture;
        int64_t n_layers;
        float expected; /* 1 / sqrt(64 / 4), 1 / sqrt(8) */
    } cases[] = {
        { "gemma2", 46, 0.25f }, { "gemma2", 26, 0.35355339f }, { "gemma3", 62, 0.25f }, { "gemma3", 46, 0.35355339f }
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        gguf_writer w = { .n_keys = 0 };
        put_model(&w, cases[i].architecture, cases[i].n_layers, 64, 4);
        put_int(&w, cases[i].architecture, "attention.key_length", 8);
        const pf_config config = must_load(&w);
        assert_float_equal(config.plan.attention_scale, cases[i].expected, 1e-7);
        assert_int_equal(config.plan.norm, PF_NORM_RMS);
    }
}

/* Classes of transformers have other defaults for some of these. */
static void absent_keys_have_the_defaults_of_llama_cpp(void **state)
{
    (void)state;
    static const char *const architectures[] = { "gpt-oss", "smollm3", "command-r", "gemma3", "qwen3", "mistral3" };
    for (size_t i = 0; i < PF_COUNT(architectures); i++) {
        gguf_writer w = { .n_keys = 0 };
        put_model(&w, architectures[i], 4, 64, 8);
        if (i == 0) {
            put_int(&w, "gpt-oss", "expert_count", 4);
            put_int(&w, "gpt-oss", "expert_used_count", 2);
        }
        const pf_config config = must_load(&w);
        assert_float_equal(config.ropes[0].theta, 10000.0, 0.0);
        assert_int_equal(config.n_kv_heads, 8);
        assert_int_equal(config.head_dim, 8);
        assert_int_equal(config.rotary_dim, 8);
        for (int32_t layer = 0; layer < 4; layer++) assert_int_equal(pf_config_layer(&config, layer)->window, 0);
    }
}

static void a_part_of_a_head_is_rotated_in_whole_dimensions(void **state)
{
    (void)state;
    for (int32_t n = 2; n <= 98; n += 2) { /* 49 / 98 and the like round down as floats */
        gguf_writer w = { .n_keys = 0 };
        put_model(&w, "phi3", 2, 98, 1);
        put_int(&w, "phi3", "rope.dimension_count", n);
        assert_int_equal(must_load(&w).rotary_dim, n);
    }
}

static void assert_refused(gguf_writer *w, const char *part)
{
    pf_config config;
    pf_error error = { 0 };
    const pf_status status = load(w, &config, &error);
    assert_true(status == PF_FORMAT || status == PF_UNSUPPORTED);
    assert_says(error, part);
    assert_says(error, "model.gguf");
}

static void numbers_that_are_out_of_range_are_refused(void **state)
{
    (void)state;
    gguf_writer w = { .n_keys = 0 };
    put_model(&w, "qwen2", 0, 64, 8);
    assert_refused(&w, "num_hidden_layers is 0");
    put_model(&w, "qwen2", 2, 0, 8);
    assert_refused(&w, "hidden_size is 0");
    put_model(&w, "qwen2", 2, 64, 0);
    assert_refused(&w, "num_attention_heads is 0");
    put_model(&w, "granite", 2, 4, 8);
    assert_refused(&w, "head");
    put_model(&w, "gemma2", INT32_MAX, 64, 8);
    assert_refused(&w, "num_hidden_layers");
    put_model(&w, "qwen2", 1LL << 31, 64, 8);
    assert_refused(&w, "qwen2.block_count is 2147483648");
    put_model(&w, "qwen3moe", 2, 64, 8);
    assert_refused(&w, "qwen3moe.expert_count");
    put_model(&w, "qwen3moe", 2, 64, 8);
    put_int(&w, "qwen3moe", "expert_count", 4);
    put_int(&w, "qwen3moe", "expert_used_count", 0);
    assert_refused(&w, "num_experts_per_tok is 0");
    put_model(&w, "phi3", 2, 64, 8);
    put_int(&w, "phi3", "rope.dimension_count", 9);
    assert_refused(&w, "phi3.rope.dimension_count is 9, expected 1 to 8");
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(a_baichuan_of_40_layers_has_alibi_and_one_of_32_rope),
        T(the_largest_gemmas_scale_queries_by_the_hidden_size),
        T(absent_keys_have_the_defaults_of_llama_cpp),
        T(a_part_of_a_head_is_rotated_in_whole_dimensions),
        T(numbers_that_are_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
