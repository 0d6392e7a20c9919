#include <stdlib.h>

#include "base/file.h"
#include "model/forward/context.h"
#include "model/weights/weights.h"
#include "tests/support/alloc_count.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

static char directory[PF_TINY_PATH];

static pf_status load_on(const pf_topology *machine, pf_dtype dtype, pf_isa isa, int32_t n_threads, pf_model **out,
                         pf_error *error)
{
    pf_team *team;
    PF_TRY(pf_team_create(n_threads, NULL, 0, &team, error));
    const pf_model_options options = { .dtype = dtype, .isa = isa, .team = team, .machine = machine };
    const pf_status status = pf_model_load(directory, &options, out, error);
    pf_team_destroy(team);
    return status;
}

static pf_status load_as(pf_dtype dtype, pf_isa isa, int32_t n_threads, pf_model **out, pf_error *error)
{
    return load_on(NULL, dtype, isa, n_threads, out, error);
}

/* Machines with a cache that holds every model here, and with a cache of unknown size. */
static const pf_topology CACHE_OF_1_GB = { .n_cores = 1, .l3_bytes = 1 << 30, .memory_bytes = (size_t)1 << 40 };
static const pf_topology NO_CACHE = { .n_cores = 1, .memory_bytes = (size_t)1 << 40 };

/* Loads, and expects a refusal with a sentence that contains `part`. */
static void assert_refused(pf_status expected, const char *part)
{
    pf_model *model = NULL;
    pf_error error = { 0 };
    assert_status(load_as(PF_DTYPE_AUTO, PF_ISA_SCALAR, 1, &model, &error), expected);
    assert_null(model);
    assert_says(error, part);
    assert_says(error, directory);
}

/* The logits after three tokens. */
static void logits_of(const pf_model *model, float *out)
{
    pf_team *team;
    pf_context *context;
    pf_error error;
    pf_kv_seq seq;
    const int32_t tokens[] = { 5, 9, 3 };
    const pf_context_config config = { .max_sequences = 1, .max_rows = 4, .max_logit_rows = 1, .kv_type = PF_TYPE_F32 };
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    assert_ok(pf_context_create(model, team, &config, &context, &error), error);
    assert_int_equal(pf_kv_acquire(pf_context_kv(context), &seq), PF_OK);
    assert_int_equal(pf_context_prefill(context, seq, tokens, 3, true), PF_OK);
    memcpy(out, pf_context_logits(context, 0), (size_t)pf_context_n_vocab(context) * sizeof *out);
    pf_context_destroy(context);
    pf_team_destroy(team);
}

/* ---- tensors of a file --------------------------------------------------------------------------------------- */

static void a_missing_tensor_is_named(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ 0 }, directory);
    pf_temp_edit(directory, "model.safetensors", "model.layers.1.mlp.up_proj.weight",
                 "model.layers.1.mlp.op_proj.weight");
    assert_refused(PF_FORMAT, "\"model.layers.1.mlp.up_proj.weight\"");
    pf_tiny_model_remove(directory);
}

/* Removes "model." from the names of the tensors, and pads the header with spaces. */
static void drop_prefix(void)
{
    char path[PF_TINY_PATH + 64], *data;
    size_t n_bytes;
    uint64_t header_bytes;
    pf_error error;
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_ok(pf_file_read(path, 1 << 24, &data, &n_bytes, &error), error);
    memcpy(&header_bytes, data, sizeof header_bytes);
    char *out = data + 8, *end = data + 8 + header_bytes;
    for (const char *in = out; in < end;) {
        *out++ = *in++;
        if (in[-1] == '"' && (size_t)(end - in) > 6 && memcmp(in, "model.", 6) == 0) in += 6;
    }
    memset(out, ' ', (size_t)(end - out));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n_bytes, f), n_bytes);
    assert_int_equal(fclose(f), 0);
    free(data);
}

/* The warnings of a load. */
typedef struct {
    char text[512];
    int n;
} warnings;

static void note_warning(void *user, const char *sentence)
{
    warnings *w = user;
    w->n++;
    snprintf(w->text, sizeof w->text, "%s", sentence);
}

static pf_status load_by(const pf_load_policy *policy, pf_model **out, pf_error *error)
{
    pf_team *team;
    PF_TRY(pf_team_create(1, NULL, 0, &team, error));
    const pf_model_options options = { .dtype = PF_DTYPE_F32, .isa = PF_ISA_SCALAR, .team = team, .policy = *policy };
    const pf_status status = pf_model_load(directory, &options, out, error);
    pf_team_destroy(team);
    return status;
}

/* Loads with one warning that contains `part`; a strict load is refused with the same sentence. */
static pf_model *load_with_warning(const char *part)
{
    pf_model *model = NULL;
    pf_error error = { 0 };
    warnings w = { .n = 0 };
    const pf_load_policy lenient = { .warn = note_warning, .warn_user = &w }, strict = { .strict = true };
    assert_status(load_by(&strict, &model, &error), PF_UNSUPPORTED);
    assert_null(model);
    assert_says(error, part);
    assert_ok(load_by(&lenient, &model, &error), error);
    assert_int_equal(w.n, 1);
    if (!strstr(w.text, part)) fail_msg("warning without \"%s\": %s", part, w.text);
    return model;
}

static void a_file_may_hold_more_layers_than_the_model(void **state)
{
    (void)state;
    pf_error error;
    float whole[128], first[128];
    pf_model *model;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 7, .tied = true }, directory);
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &model, &error), error);
    logits_of(model, whole);
    pf_model_release(model);
    pf_temp_edit(directory, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    model = load_with_warning("9 tensors of the files are not used: model.layers.1.");
    assert_int_equal(pf_model_config(model)->n_layers, 1);
    logits_of(model, first);
    pf_model_release(model);
    assert_memory_not_equal(first, whole, sizeof whole);
    pf_tiny_model_remove(directory);
}

static void tensors_of_absent_parts_are_reported_and_unused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "v_head.weight",
        "v_head.summary.weight",
        "value_head.0.weight",
        "score.weight",
        "classifier.bias",
        "model.layers.0.self_attn.rotary_emb.cos_cached",
        "model.rotary_emb.sin_cached",
        "model.layers.1.self_attn.masked_bias",
        "model.layers.2.input_layernorm.weight",
        "medusa_head.0.weight",
        "mtp.norm.weight",
        "model.vision_tower.norm.weight",
        "something_else.weight",
    };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char part[160];
        pf_tiny_model_create(&(pf_tiny_model){ .extra = names[i] }, directory);
        snprintf(part, sizeof part, "1 tensor of the files is not used: %s", names[i]);
        pf_model_release(load_with_warning(part));
        pf_tiny_model_remove(directory);
    }
}

static void extra_tensors_of_existing_parts_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.1.mlp.down_proj.bias",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.0.post_feedforward_layernorm.weight",
        "model.layers.1.mlp.experts.0.up_proj.weight",
        "lm_head.bias",
        "model.norm.bias",
        "model.embed_positions.weight",
        "model.embed_norm.weight",
        "model.embed_tokens.scale",
        "model.layers.0.self_attn.q_proj.lora_A.weight",
        "base_model.model.lm_head.lora_B.weight",
        "model.anything.weight",
        "embed_positions.weight",
        "norm.bias",
        "layers.1.self_attn.k_norm.weight",
        "model.layers.0.self_attn.bias",
        "model.layers.x.weight",
    };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char part[160];
        pf_tiny_model_create(&(pf_tiny_model){ .extra = names[i] }, directory);
        snprintf(part, sizeof part, "tensor \"%s\" is no part of a LlamaForCausalLM", names[i]);
        assert_refused(PF_UNSUPPORTED, part);
        pf_tiny_model_remove(directory);
    }
}

/* Names without their first component, as LlamaModel.save_pretrained writes them. */
static void a_base_model_is_read_without_the_prefix_of_its_names(void **state)
{
    (void)state;
    pf_error error;
    float expected[128], found[128];
    pf_model *model;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 3, .tied = true, .attention_bias = true }, directory);
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &model, &error), error);
    logits_of(model, expected);
    pf_model_release(model);
    drop_prefix();
    pf_temp_edit(directory, "config.json", "LlamaForCausalLM", "LlamaModel");
    model = load_with_warning("LlamaModel, and is read as LlamaForCausalLM");
    logits_of(model, found);
    assert_memory_equal(found, expected, sizeof expected);
    pf_model_release(model);
    pf_temp_edit(directory, "config.json", "\"attention_bias\": true", "\"attention_bias\": false");
    assert_refused(PF_UNSUPPORTED, "tensor \"layers.0.self_attn.q_proj.bias\"");
    pf_temp_edit(directory, "config.json", "\"attention_bias\": false", "\"attention_bias\": true");
    pf_temp_edit(directory, "config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    assert_refused(PF_FORMAT,
                   "no tensor \"lm_head.weight\", and config.json does not tie the LM head to the embedding");
    pf_tiny_model_remove(directory);
}

static void a_directory_without_config_json_is_refused_with_its_contents(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ 0 }, directory);
    char path[PF_TINY_PATH + 32];
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_int_equal(remove(path), 0);
    assert_refused(PF_UNAVAILABLE, "there is no config.json; model.safetensors is there without it");
    pf_tiny_model_remove(directory);
}

static void a_denied_bias_is_refused_by_name(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ .attention_bias = true }, directory);
    pf_temp_edit(directory, "config.json", "\"attention_bias\": true", "\"attention_bias\": false");
    assert_refused(PF_UNSUPPORTED, ".bias\"");
    pf_tiny_model_remove(directory);
}

static void a_tensor_of_another_shape_is_named_with_both_shapes(void **state)
{
    (void)state;
    const struct {
        const char *from, *to, *tensor, *found, *expected;
    } cases[] = {
        { "\"intermediate_size\": 96", "\"intermediate_size\": 97", "gate_proj", "[96, 64]", "[97, 64]" },
        { "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 1", "k_proj", "[32, 64]", "[16, 64]" },
        { "\"vocab_size\": 128", "\"vocab_size\": 129", "embed_tokens", "[128, 64]", "[129, 64]" },
        { "\"hidden_size\": 64", "\"hidden_size\": 60", "embed_tokens", "[128, 64]", "[128, 60]" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tiny_model_create(&(pf_tiny_model){ 0 }, directory);
        pf_temp_edit(directory, "config.json", cases[i].from, cases[i].to);
        assert_refused(PF_FORMAT, cases[i].tensor);
        assert_refused(PF_FORMAT, cases[i].found);
        assert_refused(PF_FORMAT, cases[i].expected);
        pf_tiny_model_remove(directory);
    }
}

/* As in transformers 5: the tensors of the files override tie_word_embeddings. */
static void rotary_buffers_are_ignored_and_a_different_head_overrides_tying(void **state)
{
    (void)state;
    pf_error error;
    pf_model *untied, *said_to_be_tied;
    float expected[128], found[128];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 3, .rotary_buffers = true }, directory);
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &untied, &error), error);
    pf_tiny_model_remove(directory);
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 3, .rotary_buffers = true }, directory);
    pf_temp_edit(directory, "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &said_to_be_tied, &error), error);
    pf_tiny_model_remove(directory);
    assert_false(pf_model_config(said_to_be_tied)->tied_embeddings);
    logits_of(untied, expected);
    logits_of(said_to_be_tied, found);
    assert_memory_equal(found, expected, sizeof expected);
    pf_model_release(untied);
    pf_model_release(said_to_be_tied);
}

/* The comparison may read as much as the whole load. */
static void comparing_the_head_with_the_embedding_can_be_cancelled(void **state)
{
    (void)state;
    static const volatile bool described = true;
    for (int both = 0; both < 2; both++) {
        pf_team *team;
        pf_model *model = NULL;
        pf_error error = { 0 };
        pf_tiny_model_create(&(pf_tiny_model){ .seed = 3 }, directory);
        if (both)
            pf_temp_edit(directory, "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
        assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
        const pf_model_options options = { .team = team, .cancel = &described };
        assert_status(pf_model_load(directory, &options, &model, &error), PF_CANCELLED);
        assert_null(model);
        assert_says(error, both ? "compared with its embedding" : "while it was loaded");
        pf_team_destroy(team);
        pf_tiny_model_remove(directory);
    }
}

/* transformers 5 accepts either name for the one matrix. */
static void a_tied_embedding_may_have_the_name_of_the_head(void **state)
{
    (void)state;
    pf_error error;
    pf_model *usual, *other;
    float expected[128], found[128];
    const pf_tiny_model tied = { .seed = 3, .tied = true };
    pf_tiny_model_create(&tied, directory);
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &usual, &error), error);
    pf_temp_edit(directory, "model.safetensors", "\"model.embed_tokens.weight\"", "\"lm_head.weight\"           ");
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &other, &error), error);
    logits_of(usual, expected);
    logits_of(other, found);
    assert_memory_equal(found, expected, sizeof expected);
    pf_model_release(usual);
    pf_model_release(other);
    pf_tiny_model_remove(directory);

    pf_tiny_model_create(&tied, directory);
    pf_temp_edit(directory, "model.safetensors", "\"model.embed_tokens.weight\"", "\"model.embed_tokens.weighs\"");
    assert_refused(PF_FORMAT, "no tensor \"model.embed_tokens.weight\"");
    pf_tiny_model_remove(directory);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static void auto_dtype_depends_on_the_file(void **state)
{
    (void)state;
    pf_error error;
    const struct {
        pf_type file;
        pf_dtype asked, resolved;
    } cases[] = {
        { PF_TYPE_F32, PF_DTYPE_AUTO, PF_DTYPE_F32 },   { PF_TYPE_F16, PF_DTYPE_AUTO, PF_DTYPE_BF16 },
        { PF_TYPE_BF16, PF_DTYPE_AUTO, PF_DTYPE_BF16 }, { PF_TYPE_F16, PF_DTYPE_F16, PF_DTYPE_F16 },
        { PF_TYPE_F32, PF_DTYPE_BF16, PF_DTYPE_BF16 },  { PF_TYPE_BF16, PF_DTYPE_F32, PF_DTYPE_F32 },
        { PF_TYPE_F16, PF_DTYPE_INT8, PF_DTYPE_INT8 },  { PF_TYPE_F32, PF_DTYPE_INT4, PF_DTYPE_INT4 },
        { PF_TYPE_BF16, PF_DTYPE_F16, PF_DTYPE_F16 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_model *model;
        pf_tiny_model_create(&(pf_tiny_model){ .type = cases[i].file }, directory);
        assert_ok(load_as(cases[i].asked, PF_ISA_SCALAR, 1, &model, &error), error);
        assert_int_equal(pf_model_dtype(model), cases[i].resolved);
        pf_model_release(model);
        pf_tiny_model_remove(directory);
    }
}

/* Spreads the magnitudes of all BF16 numbers of the file over the whole range. */
static void spread_magnitudes(void)
{
    char path[PF_TINY_PATH + 64], *data;
    size_t n_bytes;
    uint64_t header_bytes;
    pf_error error;
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_ok(pf_file_read(path, 1 << 24, &data, &n_bytes, &error), error);
    memcpy(&header_bytes, data, sizeof header_bytes);
    uint16_t value = 0;
    for (size_t at = 8 + header_bytes; at < n_bytes; at += sizeof value) {
        value = (uint16_t)(value * 5 + 0x1235);
        const uint16_t finite = (value & 0x7F80) == 0x7F80 ? value & 0x3FFF : value;
        memcpy(data + at, &finite, sizeof finite);
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n_bytes, f), n_bytes);
    assert_int_equal(fclose(f), 0);
    free(data);
}

static void say_reason(void *user, const pf_model_tensor *tensor)
{
    if (strstr(tensor->name, "down_proj") != NULL) snprintf(user, 256, "%s", tensor->reason);
}

/* The kind of head that AUTO takes for the model in twelve bits on a machine with a tiny cache. */
static pf_head head_of_twelve(void)
{
    pf_error error;
    pf_model *model;
    const pf_topology machine = { .n_cores = 1, .l3_bytes = 1024, .memory_bytes = (size_t)1 << 40 };
    assert_ok(load_on(&machine, PF_DTYPE_BF16_12, PF_ISA_SCALAR, 1, &model, &error), error);
    const pf_head kind = model->head.kind;
    pf_model_release(model);
    return kind;
}

static void weights_that_do_not_fit_twelve_bits_are_held_as_bf16(void **state)
{
    (void)state;
    pf_error error;
    pf_model *asked, *plain;
    char reason[256] = "";
    pf_tiny_model_create(&(pf_tiny_model){ .type = PF_TYPE_BF16, .hidden = 192, .vocab = 112 }, directory);
    assert_ok(load_as(PF_DTYPE_BF16_12, PF_ISA_SCALAR, 2, &asked, &error), error);
    assert_int_equal(pf_model_dtype(asked), PF_DTYPE_BF16_12);
    pf_model_release(asked);
    assert_int_equal(head_of_twelve(), PF_HEAD_FULL);

    spread_magnitudes();
    assert_int_equal(head_of_twelve(), PF_HEAD_BOUNDED); /* it saves more than in twelve bits */
    assert_ok(load_as(PF_DTYPE_BF16, PF_ISA_SCALAR, 1, &plain, &error), error);
    assert_ok(load_as(PF_DTYPE_BF16_12, PF_ISA_SCALAR, 2, &asked, &error), error);
    assert_int_equal(pf_model_dtype(asked), PF_DTYPE_BF16);
    assert_int_equal(pf_model_format(asked), PF_FORMAT_BF16);
    assert_int_equal(pf_model_packed_bytes(asked), pf_model_packed_bytes(plain));
    assert_memory_equal(asked->arena.base, plain->arena.base, plain->arena.used);
    pf_model_visit_tensors(asked, say_reason, reason);
    assert_non_null(strstr(reason, "bf16-12 has no room"));
    pf_model_release(asked);
    pf_model_release(plain);
    pf_tiny_model_remove(directory);
}

static void f16_weights_are_held_exactly(void **state)
{
    (void)state;
    pf_error error;
    pf_model *as_f16, *as_f32;
    float a[128], b[128];
    pf_tiny_model_create(&(pf_tiny_model){ .type = PF_TYPE_F16 }, directory);
    assert_ok(load_as(PF_DTYPE_F16, PF_ISA_SCALAR, 1, &as_f16, &error), error);
    assert_ok(load_as(PF_DTYPE_F32, PF_ISA_SCALAR, 1, &as_f32, &error), error);
    logits_of(as_f16, a);
    logits_of(as_f32, b);
    assert_memory_equal(a, b, sizeof a);
    pf_model_release(as_f16);
    pf_model_release(as_f32);
    pf_tiny_model_remove(directory);
}

static void assert_panels_equal(const pf_linear *a, const pf_linear *b)
{
    assert_int_equal(a->weights.panel_bytes, b->weights.panel_bytes);
    assert_memory_equal(a->weights.panels, b->weights.panels, (size_t)a->weights.n_panels * a->weights.panel_bytes);
}

static void other_weights_are_rounded_to_f16(void **state)
{
    (void)state;
    pf_error error;
    pf_model *from_f16, *from_f32;
    pf_tiny_model_create(&(pf_tiny_model){ .type = PF_TYPE_F16 }, directory);
    assert_ok(load_as(PF_DTYPE_F16, pf_cpu_best_isa(), 1, &from_f16, &error), error);
    pf_tiny_model_remove(directory);
    pf_tiny_model_create(&(pf_tiny_model){ .type = PF_TYPE_F32 }, directory); /* the same numbers before rounding */
    assert_ok(load_as(PF_DTYPE_F16, pf_cpu_best_isa(), 2, &from_f32, &error), error);
    const pf_config *c = pf_model_config(from_f32);
    assert_memory_equal(from_f16->embedding, from_f32->embedding,
                        (size_t)c->vocab_size * (size_t)c->hidden_size * sizeof(float));
    assert_panels_equal(&from_f16->head.full, &from_f32->head.full);
    for (int32_t l = 0; l < c->n_layers; l++)
        for (int i = 0; i < PF_N_LAYER_MATRICES; i++)
            assert_panels_equal(pf_layer_matrix(&from_f16->layers[l], i), pf_layer_matrix(&from_f32->layers[l], i));
    pf_model_release(from_f16);
    pf_model_release(from_f32);
    pf_tiny_model_remove(directory);
}

/* ---- descriptions -------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t n;
    size_t bytes, embedding_bytes;
    bool fused, has_reasons, has_embedding;
} described;

static void remember(void *user, const pf_model_tensor *tensor)
{
    described *t = user;
    t->n++;
    t->bytes += tensor->bytes;
    if (strstr(tensor->name, "embed_tokens") && strstr(tensor->kernel, "lookup")) {
        t->has_embedding = true;
        t->embedding_bytes = tensor->bytes;
    }
    if (strcmp(tensor->name, "model.layers.1.self_attn.q_proj+k_proj+v_proj.weight") == 0)
        t->fused = tensor->rows == 64 + 32 + 32 && tensor->columns == 64;
    t->has_reasons &= tensor->reason[0] != '\0' && tensor->format[0] != '\0' && tensor->kernel[0] != '\0';
}

static void every_byte_of_a_step_is_accounted_for(void **state)
{
    (void)state;
    pf_error error;
    pf_model *model;
    const pf_tiny_model shapes[] = { { .attention_bias = true, .mlp_bias = true },
                                     { .tied = true, .type = PF_TYPE_BF16 },
                                     { .tied = true, .type = PF_TYPE_BF16 } };
    const pf_topology *machines[] = { &NO_CACHE, &NO_CACHE, &CACHE_OF_1_GB };
    const size_t rows[] = { 128 * 64 * 4, 0,
                            128 * 64 * 2 }; /* without a known cache only the head's panels hold them */
    for (size_t s = 0; s < PF_COUNT(shapes); s++) {
        pf_tiny_model_create(&shapes[s], directory);
        assert_ok(load_on(machines[s], PF_DTYPE_AUTO, pf_cpu_best_isa(), 1, &model, &error), error);
        described t = { .has_reasons = true };
        pf_model_visit_tensors(model, remember, &t);
        assert_int_equal(t.n, 1 + 2 * 7 + 2);
        assert_true(t.fused && t.has_reasons);
        assert_true(t.has_embedding);
        assert_int_equal(t.embedding_bytes, rows[s]);
        assert_int_equal(pf_model_step_bytes(model), t.bytes - t.embedding_bytes);
        assert_true(pf_model_packed_bytes(model) >= t.bytes);

        int64_t parameters = 128 * 64 * (shapes[s].tied ? 1 : 2) + 64;
        parameters += 2 * (2 * 64 + (64 + 32 + 32) * 64 + 64 * 64 + 3 * 96 * 64);
        if (shapes[s].attention_bias) parameters += 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64);
        assert_int_equal(pf_model_parameter_count(model), parameters);
        pf_model_release(model);
        pf_tiny_model_remove(directory);
    }
}

/* Rows are rounded as the format rounds: F32 exactly, BF16 to nearest. Integers exist only as the panels of the head. */
static void a_tied_embedding_gives_the_rows_of_the_file(void **state)
{
    (void)state;
    enum { V = 128, H = 64 };
    static float tied[V * H], apart[V * H];
    const pf_type files[] = { PF_TYPE_F32, PF_TYPE_BF16, PF_TYPE_F16 };
    const pf_dtype dtypes[] = { PF_DTYPE_F32, PF_DTYPE_BF16, PF_DTYPE_BF16_12 };
    int32_t tokens[V];
    pf_error error;
    for (int32_t i = 0; i < V; i++) tokens[i] = (i * 37 + 5) % V;
    for (size_t f = 0; f < PF_COUNT(files); f++)
        for (size_t d = 0; d < PF_COUNT(dtypes); d++) {
            enum { APART, TIED, TIED_IN_CACHE, N };
            size_t bytes[N];
            for (int t = 0; t < N; t++) {
                pf_model *model;
                pf_tiny_model_create(&(pf_tiny_model){ .type = files[f], .tied = t != APART }, directory);
                assert_ok(load_on(t == TIED_IN_CACHE ? &CACHE_OF_1_GB : &NO_CACHE, dtypes[d], PF_ISA_SCALAR, 2, &model,
                                  &error),
                          error);
                pf_model_embed(model, tokens, V, t == APART ? apart : tied, H);
                if (t != APART) assert_memory_equal(tied, apart, sizeof tied);
                assert_int_equal(model->embedding == NULL, t == TIED);
                bytes[t] = pf_model_packed_bytes(model);
                pf_model_release(model);
                pf_tiny_model_remove(directory);
            }
            assert_int_equal(bytes[APART] - bytes[TIED], V * H * (dtypes[d] == PF_DTYPE_F32 ? 4 : 2));
            assert_int_equal(bytes[TIED_IN_CACHE], bytes[APART]);
        }
}

static void a_tied_embedding_of_integers_equals_the_panels_of_the_head(void **state)
{
    (void)state;
    enum { V = 128, H = 64 };
    float row[H], expected[H];
    pf_error error;
    for (int f = PF_FORMAT_INT8; f < PF_N_FORMATS; f++) {
        pf_model *model;
        pf_tiny_model_create(&(pf_tiny_model){ .tied = true }, directory);
        assert_ok(load_on(&CACHE_OF_1_GB, pf_dtype_of((pf_format)f), PF_ISA_SCALAR, 2, &model, &error), error);
        assert_null(model->embedding);
        for (int32_t token = 0; token < V; token += 9) {
            pf_model_embed(model, &token, 1, row, H);
            pf_gemm_unpack_row(&model->head.full.weights, token, expected);
            assert_memory_equal(row, expected, sizeof row);
        }
        pf_model_release(model);
        pf_tiny_model_remove(directory);
    }
}

typedef struct {
    const char *format, *reason;
    bool seen;
} wanted_tensor;

static void look(void *user, const pf_model_tensor *tensor)
{
    wanted_tensor *w = user;
    if (strstr(tensor->name, "down_proj") == NULL) return;
    if (strncmp(tensor->format, w->format, strlen(w->format)) != 0 || tensor->format[strlen(w->format)] != ' ')
        fail_msg("%s is said to be %s", w->format, tensor->format);
    if (strstr(tensor->reason, w->reason) == NULL) fail_msg("\"%s\" does not say %s", tensor->reason, w->reason);
    w->seen = true;
}

static void each_tensor_is_described_with_format_kernel_and_reason(void **state)
{
    (void)state;
    pf_error error;
    pf_model *model;
    pf_tiny_model_create(&(pf_tiny_model){ .type = PF_TYPE_BF16 }, directory);
    for (int d = 0; d < PF_N_DTYPES; d++) {
        if (d == PF_DTYPE_F16 || d == PF_DTYPE_EXACT) continue;
        assert_ok(load_as((pf_dtype)d, pf_cpu_best_isa(), 1, &model, &error), error);
        wanted_tensor w = { .format = pf_dtype_name(pf_model_dtype(model)),
                            .reason = d == PF_DTYPE_AUTO ? "the file's matrices are in bf16" : "asked for" };
        pf_model_visit_tensors(model, look, &w);
        assert_true(w.seen);
        if (pf_format_is_integer(pf_model_format(model))) {
            w.reason = "with activations in int8 (the default)";
            pf_model_visit_tensors(model, look, &w);
        }
        pf_model_release(model);
    }
    pf_tiny_model_remove(directory);
}

static uint64_t sum_words(const void *bytes, size_t n_bytes)
{
    const uint64_t *words = bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < n_bytes / sizeof *words; i++) sum += words[i];
    return sum;
}

static void a_bare_read_gives_the_same_sum_on_any_number_of_threads(void **state)
{
    (void)state;
    pf_error error;
    pf_model *model;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 3, .rotary_buffers = true }, directory);
    assert_ok(load_as(PF_DTYPE_AUTO, PF_ISA_SCALAR, 2, &model, &error), error);
    uint64_t sums[3];
    for (int32_t n = 1; n <= 3; n++) {
        pf_team *team;
        assert_ok(pf_team_create(n, NULL, 0, &team, &error), error);
        sums[n - 1] = pf_model_read_weights(model, team, sum_words);
        pf_team_destroy(team);
    }
    assert_true(sums[0] != 0 && sums[0] == sums[1] && sums[0] == sums[2]);
    pf_model_release(model);
    pf_tiny_model_remove(directory);
}

typedef struct {
    size_t done, total;
    int32_t n;
} seen;

static void watch(void *user, size_t done, size_t total)
{
    seen *s = user;
    assert_true(done >= s->done && done <= total && (s->n == 0 || total == s->total));
    *s = (seen){ done, total, s->n + 1 };
}

static void progress_reaches_its_total(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        pf_tiny_model_create(&(pf_tiny_model){ .tied = tied, .attention_bias = true }, directory);
        seen s = { 0 };
        pf_error error;
        pf_team *team;
        pf_model *model;
        assert_ok(pf_team_create(2, NULL, 0, &team, &error), error);
        const pf_model_options options = { .isa = PF_ISA_SCALAR, .team = team, .progress = watch, .progress_user = &s };
        assert_ok(pf_model_load(directory, &options, &model, &error), error);
        assert_true(s.n > 10);
        assert_int_equal(s.done, s.total);
        assert_int_equal(s.total, 4 * (size_t)pf_model_parameter_count(model));
        pf_model_release(model);
        pf_team_destroy(team);
        pf_tiny_model_remove(directory);
    }
}

/* A line of /proc/self/status, in KiB. */
static size_t status_kib(const char *field)
{
    FILE *f = fopen("/proc/self/status", "re");
    assert_non_null(f);
    char line[256];
    unsigned long long kib = 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0) kib = strtoull(line + strlen(field) + 1, NULL, 10);
    fclose(f);
    return (size_t)kib;
}

/* Resets VmHWM, the highest resident size. */
static bool forget_highest_size(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "we");
    if (f == NULL) return false;
    const bool written = fputs("5", f) >= 0;
    return fclose(f) == 0 && written;
}

static void loading_does_not_keep_the_file_resident(void **state)
{
    (void)state;
    enum { SLACK_KIB = 12 << 10 }; /* two chunks of 2 MiB, huge pages, the overhead of a sanitizer */
    pf_error error;
    pf_team *team;
    pf_model *model;
    pf_tiny_model_create(&(pf_tiny_model){ .type = PF_TYPE_BF16, .tied = true, .hidden = 512, .vocab = 40000 },
                         directory);
    assert_ok(pf_team_create(2, NULL, 0, &team, &error), error);
    if (!forget_highest_size()) skip();
    const size_t before = status_kib("VmRSS");
    const pf_model_options options = { .dtype = PF_DTYPE_INT4, .isa = pf_cpu_best_isa(), .team = team };
    assert_ok(pf_model_load(directory, &options, &model, &error), error);
    const size_t took = status_kib("VmHWM") - before, packed = pf_model_packed_bytes(model) >> 10;
    if (took > packed * 115 / 100 + SLACK_KIB)
        fail_msg("loading took %zu KiB for %zu KiB of weights", took, packed); /* the file is 40 MiB long */
    pf_model_release(model);
    pf_team_destroy(team);
    pf_tiny_model_remove(directory);
}

static void every_failed_allocation_is_a_status(void **state)
{
    (void)state;
    pf_tiny_model_create(&(pf_tiny_model){ 0 }, directory);
    pf_error error = { 0 };
    pf_team *team;
    assert_ok(pf_team_create(1, NULL, 0, &team, &error), error);
    const pf_model_options options = { .isa = PF_ISA_SCALAR, .team = team };
    const pf_context_config config = { .max_sequences = 2, .max_rows = 4, .max_logit_rows = 1, .kv_type = PF_TYPE_F32 };
    bool was_refused = true;
    int64_t n = 0;
    for (; was_refused; n++) {
        pf_model *model = NULL;
        pf_context *context = NULL;
        pf_alloc_refuse_after(n);
        const pf_status loaded = pf_model_load(directory, &options, &model, &error);
        const pf_status created = loaded == PF_OK ? pf_context_create(model, team, &config, &context, &error) : loaded;
        was_refused = pf_alloc_refuse_after(-1);
        pf_context_destroy(context);
        pf_model_release(model);
        if (created != PF_OK && created != PF_NOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)n, pf_status_name(created), error.text);
    }
    assert_true(n > 5);
    pf_team_destroy(team);
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(a_file_may_hold_more_layers_than_the_model),
        cmocka_unit_test(tensors_of_absent_parts_are_reported_and_unused),
        cmocka_unit_test(extra_tensors_of_existing_parts_are_refused),
        cmocka_unit_test(a_base_model_is_read_without_the_prefix_of_its_names),
        cmocka_unit_test(a_directory_without_config_json_is_refused_with_its_contents),
        cmocka_unit_test(a_denied_bias_is_refused_by_name),
        cmocka_unit_test(a_tensor_of_another_shape_is_named_with_both_shapes),
        cmocka_unit_test(rotary_buffers_are_ignored_and_a_different_head_overrides_tying),
        cmocka_unit_test(comparing_the_head_with_the_embedding_can_be_cancelled),
        cmocka_unit_test(a_tied_embedding_may_have_the_name_of_the_head),
        cmocka_unit_test(auto_dtype_depends_on_the_file),
        cmocka_unit_test(weights_that_do_not_fit_twelve_bits_are_held_as_bf16),
        cmocka_unit_test(f16_weights_are_held_exactly),
        cmocka_unit_test(other_weights_are_rounded_to_f16),
        cmocka_unit_test(every_byte_of_a_step_is_accounted_for),
        cmocka_unit_test(a_tied_embedding_gives_the_rows_of_the_file),
        cmocka_unit_test(a_tied_embedding_of_integers_equals_the_panels_of_the_head),
        cmocka_unit_test(each_tensor_is_described_with_format_kernel_and_reason),
        cmocka_unit_test(a_bare_read_gives_the_same_sum_on_any_number_of_threads),
        cmocka_unit_test(progress_reaches_its_total),
        cmocka_unit_test(loading_does_not_keep_the_file_resident),
        cmocka_unit_test(every_failed_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
