/* GGUF files of every block type, held exactly: logits beside those of the same numbers in F32. */
#include <math.h>
#include <stdlib.h>

#include "model/files/exact_groups.h"
#include "model/files/ggml_blocks.h"
#include "model/forward/context.h"
#include "tests/support/draw.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

enum { VOCAB = 160, N_TOKENS = 9, HIDDEN = 256, INNER = 512, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 64, LAYERS = 2 };

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

/* ---- files ---- */

/* Where blocks of a type have their F16 scale and minimum; -1: none. */
static void find_scales(pf_ggml_type type, int at[2])
{
    at[0] = type == PF_GGML_Q2_K ? 80 : type == PF_GGML_Q3_K ? 108 : type == PF_GGML_Q6_K ? 208 : 0;
    const bool has_minimum = type == PF_GGML_Q4_1 || type == PF_GGML_Q5_1 || type == PF_GGML_Q2_K ||
                             type == PF_GGML_Q4_K || type == PF_GGML_Q5_K;
    at[1] = has_minimum ? at[0] + 2 : -1;
}

/* The scale with which random bits of a type stand for weights of about 0.05. */
static float scale_of(pf_ggml_type type)
{
    switch (type) {
    case PF_GGML_Q8_0:
    case PF_GGML_Q8_K:
    case PF_GGML_IQ4_NL: return 0.0008f;
    case PF_GGML_Q2_K: return 0.004f;
    case PF_GGML_Q3_K: return 0.001f;
    case PF_GGML_Q4_K: return 0.0003f;
    case PF_GGML_Q5_K: return 0.00015f;
    case PF_GGML_Q6_K: return 0.00004f;
    case PF_GGML_IQ4_XS: return 0.00005f;
    default: return 0.008f;
    }
}

static void draw_block(pf_ggml_type type, uint64_t *rng, uint8_t *block)
{
    const float sign = draw(rng) % 2 ? -1.0f : 1.0f, scale = scale_of(type) * sign;
    int at[2];
    for (int32_t i = 0; i < pf_ggml_type_get(type)->block_bytes; i++) block[i] = (uint8_t)(draw(rng) >> 40);
    find_scales(type, at);
    if (type == PF_GGML_F16 || type == PF_GGML_BF16) { /* an element */
        const float f = sign * 0.01f * (float)(1 + draw(rng) % 7);
        const uint16_t element = type == PF_GGML_F16 ? pf_f16_from_f32(f) : pf_bf16_from_f32(f);
        memcpy(block, &element, sizeof element);
        return;
    }
    if (type == PF_GGML_MXFP4) {
        block[0] = (uint8_t)(120 + draw(rng) % 3);
        return;
    }
    if (type == PF_GGML_Q8_K) {
        memcpy(block, &scale, sizeof scale);
        return;
    }
    const uint16_t d = pf_f16_from_f32(scale), m = pf_f16_from_f32(-7.0f * scale);
    memcpy(block + at[0], &d, sizeof d);
    if (at[1] >= 0) memcpy(block + at[1], &m, sizeof m);
}

/* Puts a matrix of random blocks, the same for the same name and type. */
static void put_matrix(gguf_writer *w, const char *name, int64_t rows, int64_t columns, pf_ggml_type type, bool widened)
{
    const pf_ggml_type_info *info = pf_ggml_type_get(type);
    const int64_t shape[] = { rows, columns };
    const size_t n = (size_t)(rows * columns), n_blocks = n / (size_t)info->block_elements;
    uint8_t *blocks = malloc(n_blocks * (size_t)info->block_bytes);
    float *values = malloc(n * sizeof *values);
    uint64_t rng = 7;
    assert_non_null(blocks);
    assert_non_null(values);
    for (const char *c = name; *c; c++) rng = rng * 31 + (uint64_t)*c;
    for (size_t b = 0; b < n_blocks; b++) draw_block(type, &rng, blocks + b * (size_t)info->block_bytes);
    pf_ggml_to_f32(type, blocks, n, values);
    if (widened)
        gguf_put_tensor(w, name, PF_GGML_F32, shape, 2, values, n * sizeof *values);
    else
        gguf_put_tensor(w, name, type, shape, 2, blocks, n_blocks * (size_t)info->block_bytes);
    free(values);
    free(blocks);
}

static void put_norm(gguf_writer *w, const char *name)
{
    static const int64_t shape[] = { HIDDEN };
    float ones[HIDDEN];
    for (int i = 0; i < HIDDEN; i++) ones[i] = 1.0f;
    gguf_put_tensor(w, name, PF_GGML_F32, shape, 1, ones, sizeof ones);
}

/* The types of a model's tensors. */
typedef struct {
    pf_ggml_type embedding, head; /* head PF_GGML_F32: tied */
    pf_ggml_type q, k, v, gate, others;
} types;

static types all_of(pf_ggml_type type)
{
    return (types){ type, PF_GGML_F32, type, type, type, type, type };
}

static void put_layer(gguf_writer *w, int layer, const types *t, bool widened)
{
    char name[64];
#define PUT(WORD, ROWS, COLUMNS, TYPE)                            \
    snprintf(name, sizeof name, "blk.%d." WORD ".weight", layer); \
    put_matrix(w, name, ROWS, COLUMNS, TYPE, widened)
    PUT("attn_q", HEADS * HEAD_DIM, HIDDEN, t->q);
    PUT("attn_k", KV_HEADS * HEAD_DIM, HIDDEN, t->k);
    PUT("attn_v", KV_HEADS * HEAD_DIM, HIDDEN, t->v);
    PUT("attn_output", HIDDEN, HEADS * HEAD_DIM, t->others);
    PUT("ffn_gate", INNER, HIDDEN, t->gate);
    PUT("ffn_up", INNER, HIDDEN, t->others);
    PUT("ffn_down", HIDDEN, INNER, t->others);
#undef PUT
    snprintf(name, sizeof name, "blk.%d.attn_norm.weight", layer);
    put_norm(w, name);
    snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", layer);
    put_norm(w, name);
}

static const char *write_model(const types *t, bool widened, const char *name, char path[PF_TEMP_PATH_BYTES])
{
    static const struct {
        const char *key;
        int32_t value;
    } sizes[] = { { "llama.context_length", 512 },
                  { "llama.embedding_length", HIDDEN },
                  { "llama.block_count", LAYERS },
                  { "llama.feed_forward_length", INNER },
                  { "llama.attention.head_count", HEADS },
                  { "llama.attention.head_count_kv", KV_HEADS },
                  { "llama.rope.dimension_count", HEAD_DIM },
                  { "llama.vocab_size", VOCAB },
                  { "tokenizer.ggml.eos_token_id", 2 } };
    gguf_writer w = { .n_keys = 0 };
    pf_bytes out = { .data = NULL };
    gguf_put_string(&w, "general.architecture", "llama");
    for (size_t i = 0; i < PF_COUNT(sizes); i++) gguf_put_int(&w, sizes[i].key, PF_GGUF_U32, sizes[i].value);
    gguf_put_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_put_f32(&w, "llama.rope.freq_base", 10000.0f);
    put_matrix(&w, "token_embd.weight", VOCAB, HIDDEN, t->embedding, widened);
    if (t->head != PF_GGML_F32) put_matrix(&w, "output.weight", VOCAB, HIDDEN, t->head, widened);
    put_norm(&w, "output_norm.weight");
    for (int l = 0; l < LAYERS; l++) put_layer(&w, l, t, widened);
    gguf_print(&w, 3, &out);
    pf_temp_write(&dir, name, out.data, out.n);
    pf_bytes_clear(&out);
    gguf_writer_clear(&w);
    return pf_temp_path(&dir, name, path);
}

/* ---- logits ---- */

static pf_status load_acting(const char *path, pf_dtype dtype, pf_activations activations, pf_team *team,
                             pf_model **out, pf_error *error)
{
    const pf_model_options options = {
        .dtype = dtype, .activations = activations, .isa = pf_cpu_best_isa(), .team = team
    };
    return pf_model_load(path, &options, out, error);
}

static pf_status load(const char *path, pf_dtype dtype, pf_team *team, pf_model **out, pf_error *error)
{
    return load_acting(path, dtype, PF_ACTIVATIONS_AUTO, team, out, error);
}

/* Logits of all tokens, fed `at_once` at a time by n_threads. */
static void compute_acting(const char *path, pf_dtype dtype, pf_activations activations, int32_t n_threads,
                           int32_t at_once, float *out)
{
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    pf_context *context;
    pf_kv_seq seq;
    assert_ok(pf_team_create(n_threads, NULL, 0, &team, &error), error);
    assert_ok(load_acting(path, dtype, activations, team, &model, &error), error);
    assert_int_equal(pf_model_dtype(model), dtype);
    const pf_context_config config = {
        .max_tokens = 64, .max_sequences = 1, .max_rows = 64, .max_logit_rows = 64, .kv_type = PF_TYPE_F32
    };
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    for (int32_t i = 0; i < N_TOKENS; i += at_once) {
        const int32_t n = N_TOKENS - i < at_once ? N_TOKENS - i : at_once;
        const pf_span span = { seq, TOKENS + i, n, n, NULL, 0 };
        assert_int_equal(pf_context_forward(context, &span, 1), PF_OK);
        for (int32_t r = 0; r < n; r++)
            memcpy(out + (i + r) * VOCAB, pf_context_logits(context, r), VOCAB * sizeof *out);
    }
    pf_context_destroy(context);
    pf_model_release(model);
    pf_team_destroy(team);
}

static void compute(const char *path, pf_dtype dtype, int32_t n_threads, int32_t at_once, float *out)
{
    compute_acting(path, dtype, PF_ACTIVATIONS_AUTO, n_threads, at_once, out);
}

/* The root of the squares of the differences over that of the logits. */
static double relative_error(const float *got, const float *expected)
{
    double difference = 0.0, size = 0.0;
    for (int i = 0; i < N_TOKENS * VOCAB; i++) {
        const double d = (double)got[i] - (double)expected[i];
        difference += d * d;
        size += (double)expected[i] * (double)expected[i];
    }
    return sqrt(difference / size);
}

static void check_types(const types *t, const char *what)
{
    static float exact[N_TOKENS * VOCAB], wide[N_TOKENS * VOCAB], again[N_TOKENS * VOCAB];
    char one[PF_TEMP_PATH_BYTES], two[PF_TEMP_PATH_BYTES];
    write_model(t, false, "blocks.gguf", one);
    write_model(t, true, "wide.gguf", two);
    compute(one, PF_DTYPE_EXACT, 1, N_TOKENS, exact);
    compute(two, PF_DTYPE_F32, 1, N_TOKENS, wide);
    const double error = relative_error(exact, wide);
    if (!(error < 0.03)) fail_msg("%s: the logits differ by %g of their size", what, error);
    compute(one, PF_DTYPE_F32, 1, N_TOKENS, again);
    assert_memory_equal(again, wide, sizeof wide);
    compute(one, PF_DTYPE_EXACT, 2, 4, again);
    if (memcmp(again, exact, sizeof exact) != 0) fail_msg("%s: logits depend on rows or threads", what);
    compute_acting(one, PF_DTYPE_EXACT, PF_ACTIVATIONS_F32, 1, N_TOKENS, again);
    if (memcmp(again, wide, sizeof wide) != 0) fail_msg("%s: F32 activations do not give the logits of f32", what);
    compute_acting(one, PF_DTYPE_EXACT, PF_ACTIVATIONS_F32, 2, 4, again);
    if (memcmp(again, wide, sizeof wide) != 0) fail_msg("%s: with F32 activations logits depend on rows", what);
}

static void every_block_type_gives_the_logits_of_f32_within_the_rounding_of_activations(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < PF_N_GGML_TYPES; type++) {
        if (pf_exact_groups_of_blocks((pf_ggml_type)type) == NULL) continue;
        const types t = all_of((pf_ggml_type)type);
        check_types(&t, pf_ggml_type_get(type)->name);
    }
}

static void files_of_several_types_give_them_too(void **state)
{
    (void)state;
    static const types files[] = {
        /* embedding, head, q, k, v, gate, others: as Q4_K_M files have them, and any others */
        { PF_GGML_Q4_K, PF_GGML_Q6_K, PF_GGML_Q4_K, PF_GGML_Q4_K, PF_GGML_Q6_K, PF_GGML_Q4_K, PF_GGML_Q6_K },
        { PF_GGML_Q6_K, PF_GGML_F32, PF_GGML_Q4_0, PF_GGML_Q8_0, PF_GGML_Q5_1, PF_GGML_Q4_1, PF_GGML_Q4_0 },
        { PF_GGML_Q8_0, PF_GGML_Q6_K, PF_GGML_IQ4_XS, PF_GGML_MXFP4, PF_GGML_Q2_K, PF_GGML_Q3_K, PF_GGML_Q5_0 },
        { PF_GGML_F16, PF_GGML_Q8_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0 },
        { PF_GGML_Q4_0, PF_GGML_F16, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0 },
        { PF_GGML_BF16, PF_GGML_F32, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0, PF_GGML_Q4_0 },
    };
    for (size_t i = 0; i < PF_COUNT(files); i++) check_types(&files[i], "several types");
}

/* ---- what is chosen ---- */

typedef struct {
    const char *name, *says;
    bool seen;
} wanted_reason;

static void look(void *user, const pf_model_tensor *tensor)
{
    wanted_reason *w = user;
    if (strncmp(tensor->name, w->name, strlen(w->name)) != 0) return;
    if (strstr(tensor->reason, w->says) == NULL && strstr(tensor->format, w->says) == NULL)
        fail_msg("%s: %s, %s: no word of %s", tensor->name, tensor->format, tensor->reason, w->says);
    w->seen = true;
}

static void check_reason(const pf_model *model, const char *name, const char *says)
{
    wanted_reason w = { name, says, false };
    pf_model_visit_tensors(model, look, &w);
    if (!w.seen) fail_msg("no tensor %s", name);
}

static void info_says_what_holds_the_blocks_of_each_tensor(void **state)
{
    (void)state;
    const types t = {
        PF_GGML_Q5_0, PF_GGML_Q6_K, PF_GGML_Q4_K, PF_GGML_Q4_K, PF_GGML_Q6_K, PF_GGML_Q4_1, PF_GGML_Q4_0
    };
    char path[PF_TEMP_PATH_BYTES];
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    write_model(&t, false, "model.gguf", path);
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    assert_ok(load(path, PF_DTYPE_EXACT, team, &model, &error), error);
    check_reason(model, "token_embd", "8 bits in groups of 32: f16 scales");
    check_reason(model, "token_embd", "it has Q5_0");
    check_reason(model, "blk.0.attn_q", "8 bits in groups of 16: integer scales, f16 for 256, minima");
    check_reason(model, "blk.0.attn_q", "it has several types");
    check_reason(model, "blk.0.ffn_gate", "4 bits in groups of 32: f16 scales, minima");
    check_reason(model, "blk.0.ffn_down", "it has Q4_0");
    check_reason(model, "output.weight", "it has Q6_K");
    pf_model_release(model);
    pf_team_destroy(team);
}

static void a_small_model_has_f32_activations_by_default_and_info_says_why(void **state)
{
    (void)state;
    const types t = all_of(PF_GGML_Q4_0);
    char path[PF_TEMP_PATH_BYTES];
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    write_model(&t, false, "model.gguf", path);
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    assert_ok(load(path, PF_DTYPE_AUTO, team, &model, &error), error);
    assert_int_equal(pf_model_dtype(model), PF_DTYPE_EXACT);
    assert_int_equal(pf_model_act(model), PF_ACT_F32);
    check_reason(model, "blk.0.ffn_down",
                 "activations are in f32 (int8 costs a model of less than 250 million weights too much)");
    pf_model_release(model);
    pf_team_destroy(team);
}

static void a_matrix_of_numbers_among_the_layers_makes_it_f32_and_says_which(void **state)
{
    (void)state;
    types t = all_of(PF_GGML_Q4_0);
    char path[PF_TEMP_PATH_BYTES];
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    t.v = PF_GGML_F16;
    write_model(&t, false, "model.gguf", path);
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    assert_ok(load(path, PF_DTYPE_AUTO, team, &model, &error), error);
    assert_int_equal(pf_model_dtype(model), PF_DTYPE_F32);
    check_reason(model, "blk.0.ffn_down", "\"blk.0.attn_v.weight\" has no groups of integers");
    pf_model_release(model);
    assert_status(load(path, PF_DTYPE_EXACT, team, &model, &error), PF_UNSUPPORTED);
    assert_says(error, "as exact it cannot be loaded: tensor \"blk.0.attn_v.weight\" has no groups of integers");
    pf_team_destroy(team);
}

static void heads_that_need_numbers_are_refused(void **state)
{
    (void)state;
    const types t = all_of(PF_GGML_Q4_0);
    char path[PF_TEMP_PATH_BYTES];
    pf_error error = { 0 };
    pf_team *team;
    pf_model *model;
    write_model(&t, false, "model.gguf", path);
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    pf_model_options options = {
        .isa = pf_cpu_best_isa(), .team = team, .dtype = PF_DTYPE_EXACT, .head = PF_HEAD_BOUNDED
    };
    assert_status(pf_model_load(path, &options, &model, &error), PF_UNSUPPORTED);
    assert_says(error, "a bounded head is for weights in f32 or bf16");
    options.head = PF_HEAD_SCREENED;
    assert_status(pf_model_load(path, &options, &model, &error), PF_UNSUPPORTED);
    assert_says(error, "these are exact");
    pf_team_destroy(team);
}

#define T(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_block_type_gives_the_logits_of_f32_within_the_rounding_of_activations),
        T(files_of_several_types_give_them_too),
        T(info_says_what_holds_the_blocks_of_each_tensor),
        T(a_small_model_has_f32_activations_by_default_and_info_says_why),
        T(a_matrix_of_numbers_among_the_layers_makes_it_f32_and_says_which),
        T(heads_that_need_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
