#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "model/config/config.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

/* A small Llama, with more fields put in by the macro's argument: "\"key\": value," */
#define LLAMA(more) LLAMA_WITH(more, "256", "1e-5")
#define LLAMA_WITH(more, positions, eps)                                                                    \
    "{" more "\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 100,"   \
    "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": 4," \
    "\"max_position_embeddings\": " positions ", \"rms_norm_eps\": " eps "}"

static pf_status parse(const char *text, pf_config *out, pf_error *error)
{
    return pf_config_parse("config.json", text, strlen(text), NULL, 0, out, error);
}

static pf_config parsed(const char *text)
{
    pf_config c;
    pf_error error = { 0 };
    assert_ok(parse(text, &c, &error), error);
    return c;
}

static void assert_refused(const char *text, pf_status status, const char *part)
{
    pf_config c = { .vocab_size = -7 };
    pf_error error = { 0 };
    assert_status(parse(text, &c, &error), status);
    assert_says(error, part);
    assert_says(error, "config.json");
    assert_int_equal(c.vocab_size, -7); /* untouched */
}

static void dimensions_are_read_and_defaults_filled_in(void **state)
{
    (void)state;
    const pf_config c = parsed(LLAMA(""));
    assert_int_equal(c.architecture, PF_ARCH_LLAMA);
    assert_int_equal(c.vocab_size, 100);
    assert_int_equal(c.hidden_size, 64);
    assert_int_equal(c.intermediate_size, 96);
    assert_int_equal(c.n_layers, 3);
    assert_int_equal(c.n_heads, 4);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.rotary_dim, 16);
    assert_int_equal(c.max_position, 256);
    assert_int_equal(c.max_context, 256);
    assert_true(c.rms_eps == 1e-5f);
    assert_false(c.tied_embeddings || c.attention_bias || c.mlp_bias);
    assert_int_equal(c.rope.type, PF_ROPE_DEFAULT);
    assert_true(c.rope.theta == 10000.0);
    assert_int_equal(c.n_eos, 0);
}

static void explicit_fields_go_before_defaults(void **state)
{
    (void)state;
    const pf_config c = parsed(LLAMA("\"num_key_value_heads\": 2, \"head_dim\": 24, \"tie_word_embeddings\": true,"
                                     "\"attention_bias\": true, \"mlp_bias\": true, \"rope_theta\": 500000,"
                                     "\"bos_token_id\": 1, \"eos_token_id\": [2, 3, 2],"));
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(c.head_dim, 24); /* 4 * 24 is not hidden_size, and need not be */
    assert_true(c.tied_embeddings && c.attention_bias && c.mlp_bias);
    assert_true(c.rope.theta == 500000.0);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[1], 3);
    assert_true(pf_config_has_bias(&c, PF_TENSOR_O) && pf_config_has_bias(&c, PF_TENSOR_DOWN));
    assert_false(pf_config_has_bias(&c, PF_TENSOR_HEAD));
}

static void generation_config_has_the_only_word_on_ids(void **state)
{
    (void)state;
    static const char config[] = LLAMA("\"bos_token_id\": 1, \"eos_token_id\": 2,");
    static const char lists[] = "{\"eos_token_id\": [7, 8], \"bos_token_id\": 5, \"temperature\": 0.6}";
    pf_config c;
    pf_error error = { 0 };
    assert_ok(pf_config_parse("config.json", config, strlen(config), lists, strlen(lists), &c, &error), error);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[0], 7);
    assert_ok(pf_config_parse("config.json", config, strlen(config), "{}", 2, &c, &error), error);
    assert_int_equal(c.n_eos, 0);
    static const char wrong[] = LLAMA("\"eos_token_id\": \"2\","); /* transformers looks at its type all the same */
    assert_status(pf_config_parse("config.json", wrong, strlen(wrong), lists, strlen(lists), &c, &error), PF_FORMAT);
    assert_says(error, "config.json: eos_token_id is \"2\"");
}

/* A model cut down from a larger one keeps its ids; transformers loads it, and no text ever has them. */
static void ids_past_the_vocabulary_stand_for_none(void **state)
{
    (void)state;
    static const char config[] = LLAMA("\"bos_token_id\": 128000, \"eos_token_id\": [128001, 99, 100, -1],");
    pf_config c;
    pf_error error = { 0 };
    assert_ok(pf_config_parse("config.json", config, strlen(config), NULL, 0, &c, &error), error);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos_ids[0], 99);
}

static void what_transformers_writes_beside_is_passed_over(void **state)
{
    (void)state;
    (void)parsed(LLAMA("\"torch_dtype\": \"bfloat16\", \"dtype\": \"bfloat16\", \"use_cache\": true,"
                       "\"initializer_range\": 0.02, \"transformers_version\": \"5.0.0\", \"_name_or_path\": \"x\","
                       "\"attention_dropout\": 0.0, \"pretraining_tp\": 2, \"hidden_act\": \"silu\","
                       "\"quantization_config\": null, \"sliding_window\": null, \"never_heard_of\": null,"
                       "\"rope_scaling\": null, \"layer_types\": [\"full_attention\", \"full_attention\"],"));
}

/* Of SmolLM2's config.json, as it is published, and of others. */
static void what_published_models_have_beside_is_passed_over(void **state)
{
    (void)state;
    (void)parsed(LLAMA("\"is_llama_config\": true, \"rope_interleaved\": false, \"rope_scaling\": null,"
                       "\"transformers.js_config\": {\"kv_cache_dtype\": {\"q4f16\": \"float16\"}},"
                       "\"neftune_noise_alpha\": 0.0, \"use_sdpa\": true, \"alibi\": false,"
                       "\"hidden_dropout_prob\": 0.1, \"max_window_layers\": 28, \"use_sliding_window\": false,"
                       "\"type_vocab_size\": 16, \"max_new_tokens\": 20, \"use_flash_attention_2\": true,"));
    (void)parsed(LLAMA("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 16.0, \"finetuned\": true,"
                       "\"original_max_position_embeddings\": 4096},"));
}

static void a_field_that_could_change_the_result_is_refused_by_name(void **state)
{
    (void)state;
    assert_refused(LLAMA("\"rope_interleaved\": true,"), PF_UNSUPPORTED, "rope_interleaved is true");
    assert_refused(LLAMA("\"is_causal\": false,"), PF_UNSUPPORTED, "is_causal is false");
    assert_refused(LLAMA("\"hidden_act\": \"gelu\","), PF_UNSUPPORTED, "hidden_act is \"gelu\"");
    assert_refused(LLAMA("\"quantization_config\": {\"bits\": 4},"), PF_UNSUPPORTED, "quantization_config");
    assert_refused(LLAMA("\"sliding_window\": 4096,"), PF_UNSUPPORTED, "sliding_window");
    assert_refused(LLAMA("\"logit_scale\": 0.5,"), PF_UNSUPPORTED, "logit_scale");
    assert_refused(LLAMA("\"layer_types\": [\"sliding_attention\"],"), PF_UNSUPPORTED, "layer_types[0]");
    assert_refused(LLAMA("\"layer_types\": \"sliding_attention\","), PF_FORMAT, "layer_types must be a list");
    assert_refused(LLAMA("\"partial_rotary_factor\": 0.5,"), PF_UNSUPPORTED, "partial_rotary_factor");
    assert_refused(LLAMA("\"rope_scaling\": {\"type\": \"mrope\"},"), PF_UNSUPPORTED,
                   "rope_scaling: type is \"mrope\", which is not known (known: default, linear");
    assert_refused(LLAMA("\"rope_scaling\": {\"rope_type\": \"mrope\"},"), PF_UNSUPPORTED,
                   "rope_scaling: rope_type is \"mrope\"");
    assert_refused(LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"mrope_section\": [1]},"),
                   PF_UNSUPPORTED, "rope_scaling: the field mrope_section");
}

static void a_file_written_in_f16_says_that_it_is_to_be_used_so(void **state)
{
    (void)state;
    assert_false(parsed(LLAMA("\"dtype\": \"float16\",")).kept_in_f16);
    assert_false(parsed(LLAMA("\"pilotfish_dtype\": null,")).kept_in_f16);
    assert_true(parsed(LLAMA("\"pilotfish_dtype\": \"f16\",")).kept_in_f16);
    assert_refused(LLAMA("\"pilotfish_dtype\": \"f8\","), PF_UNSUPPORTED, "pilotfish_dtype is f8, only \"f16\"");
    assert_refused(LLAMA("\"pilotfish_dtype\": 16,"), PF_UNSUPPORTED, "pilotfish_dtype is no string");
}

static void a_quantised_file_names_its_format_and_nothing_that_contradicts_it(void **state)
{
    (void)state;
    pf_config c = parsed(LLAMA(""));
    assert_false(c.quantized);
    c = parsed(LLAMA("\"quantization_config\": {\"quant_method\": \"pilotfish\", \"format\": \"int4-asym-g128\","
                     "\"version\": 2, \"bits\": 4, \"group_size\": 128, \"zero_point\": true},"));
    assert_true(c.quantized);
    assert_int_equal(c.format, PF_FORMAT_INT4_ASYM_G128);

#define OURS(rest) LLAMA("\"quantization_config\": {\"quant_method\": \"pilotfish\", " rest "},")
#define GROUPS     "\"format\": \"int4\", \"version\": 2"
    assert_refused(LLAMA("\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4},"), PF_UNSUPPORTED,
                   "gptq");
    assert_refused(LLAMA("\"quantization_config\": 4,"), PF_UNSUPPORTED, "quantization_config");
    assert_refused(OURS("\"bits\": 4"), PF_FORMAT, "quantization_config: format is absent");
    assert_refused(OURS("\"format\": \"int5\""), PF_UNSUPPORTED, "int4-asym-channel");
    assert_refused(OURS("\"format\": \"bf16\""), PF_FORMAT, "bf16");
    assert_refused(OURS("\"format\": \"auto\""), PF_FORMAT, "auto");
    assert_refused(OURS(GROUPS ", \"bits\": 8"), PF_FORMAT, "quantization_config: bits is 8, expected 4");
    assert_refused(OURS(GROUPS ", \"group_size\": 128"), PF_FORMAT, "group_size");
    assert_refused(OURS(GROUPS ", \"zero_point\": true"), PF_FORMAT, "quantization_config: zero_point");
    assert_refused(OURS(GROUPS ", \"rotated\": true"), PF_UNSUPPORTED, "quantization_config: the field rotated");
}

static void groups_are_of_the_second_version_and_the_rest_of_the_first(void **state)
{
    (void)state;
    assert_int_equal(parsed(OURS(GROUPS)).format, PF_FORMAT_INT4_G32);
    assert_int_equal(parsed(OURS("\"format\": \"int8\"")).format, PF_FORMAT_INT8);
    assert_int_equal(parsed(OURS("\"format\": \"int4-asym-channel\", \"version\": 1")).format,
                     PF_FORMAT_INT4_ASYM_CHANNEL);
    assert_refused(OURS("\"format\": \"int4-g128\""), PF_UNSUPPORTED, "int4-g128 was written by an earlier version");
    assert_refused(OURS("\"format\": \"int4-asym\", \"version\": 1"), PF_UNSUPPORTED, "quantize the original again");
    assert_refused(OURS("\"format\": \"int4\", \"version\": 3"), PF_UNSUPPORTED,
                   "version is 3, expected 2: int4 was written by a later version of pilotfish");
    assert_refused(OURS("\"format\": \"int4\", \"version\": 0"), PF_FORMAT, "version is 0");
    assert_refused(OURS("\"format\": \"int4\", \"version\": \"2\""), PF_FORMAT, "version");
    assert_refused(OURS("\"format\": \"int8\", \"version\": 2"), PF_UNSUPPORTED, "version is 2");
#undef GROUPS
#undef OURS
}

static void an_unknown_architecture_is_named_with_those_known(void **state)
{
    (void)state;
    assert_refused("{\"architectures\": [\"MambaForCausalLM\"], \"model_type\": \"mamba\"}", PF_UNSUPPORTED,
                   "MambaForCausalLM is not known (known: LlamaForCausalLM)");
    assert_refused("{\"model_type\": \"mamba\"}", PF_UNSUPPORTED, "mamba");
    assert_refused("{}", PF_FORMAT, "LlamaForCausalLM");
    assert_refused("{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"gpt2\"}", PF_FORMAT, "model_type");
    assert_refused("{\"architectures\": 7}", PF_FORMAT, "architectures");
}

static void model_type_alone_names_an_architecture(void **state)
{
    (void)state;
#define SAYS(named)                                                                                            \
    "{" named "\"model_type\": \"llama\", \"vocab_size\": 100, \"hidden_size\": 64, \"num_hidden_layers\": 3," \
    "\"intermediate_size\": 96, \"num_attention_heads\": 4, \"max_position_embeddings\": 256, \"rms_norm_eps\": 1e-5}"
    (void)parsed(SAYS(""));
    (void)parsed(SAYS("\"architectures\": null,"));
    (void)parsed(SAYS("\"architectures\": [],"));
    (void)parsed(SAYS("\"architectures\": [\"LLaMAForCausalLM\"],"));
    assert_refused(SAYS("\"architectures\": [\"LlamaForCausalLM\", \"LlamaModel\"],"), PF_FORMAT, "a list of one name");
    assert_refused(SAYS("\"architectures\": [7],"), PF_FORMAT, "a list of one name");
#undef SAYS
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        { LLAMA("\"num_key_value_heads\": 3,"), "num_key_value_heads is 3" },
        { LLAMA("\"num_key_value_heads\": 0,"), "num_key_value_heads" },
        { LLAMA("\"num_key_value_heads\": 8,"), "num_key_value_heads" },
        { LLAMA("\"head_dim\": 15,"), "head_dim is 15" },
        { LLAMA("\"head_dim\": 1000000000000,"), "head_dim" },
        { LLAMA("\"rope_theta\": -1,"), "rope_theta" },
        { LLAMA("\"rope_theta\": 0.5,"), "rope_theta is 0.5, expected a number from 1 to 1e+15" },
        { LLAMA("\"rope_theta\": 1.0, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4},"),
          "rope_scaling: rope_theta is 1, expected 1.000001 or more for yarn" },
        { LLAMA("\"rope_theta\": \"big\","), "rope_theta" },
        { LLAMA("\"eos_token_id\": \"</s>\","), "eos_token_id is" },
        { LLAMA("\"eos_token_id\": [2, 1.5],"), "eos_token_id is 1.5" },
        { LLAMA("\"bos_token_id\": 1.5,"), "bos_token_id is 1.5, expected an integer" },
        { LLAMA("\"rope_scaling\": {\"type\": \"linear\"},"), "rope_scaling: factor is absent" },
        { LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0},"), "rope_scaling: factor is 0" },
        { LLAMA("\"rope_parameters\": {\"rope_type\": \"linear\"},"), "rope_parameters: factor is absent" },
        { LLAMA("\"rope_parameters\": {\"rope_theta\": 0},"), "rope_parameters: rope_theta is 0" },
        { LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"yarn\"},"),
          "rope_scaling: rope_type is \"yarn\" and type \"linear\", expected one or the same twice" },
        { LLAMA("\"rope_scaling\": [1],"), "rope_scaling" },
        { LLAMA("\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8},"),
          "rope_scaling: low_freq_factor is absent" },
        { LLAMA("\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [1]},"),
          "rope_scaling: short_factor" },
        { "{\"model_type\": \"llama\"}", "vocab_size" },
        { "{\"model_type\": \"llama\", \"vocab_size\": 99999999999}", "vocab_size" },
        { "[]", "object" },
        { "{", "line 1" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_refused(cases[i].text, PF_FORMAT, cases[i].part);
}

static void tensors_have_the_names_of_the_files(void **state)
{
    (void)state;
    const pf_config c = { .architecture = PF_ARCH_LLAMA };
    char name[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(&c, PF_TENSOR_EMBEDDING, 0, "weight", name);
    assert_string_equal(name, "model.embed_tokens.weight");
    pf_config_tensor_name(&c, PF_TENSOR_HEAD, 0, "weight", name);
    assert_string_equal(name, "lm_head.weight");
    pf_config_tensor_name(&c, PF_TENSOR_MLP_NORM, 12, "weight", name);
    assert_string_equal(name, "model.layers.12.post_attention_layernorm.weight");
    pf_config_tensor_name(&c, PF_TENSOR_Q, 0, "bias", name);
    assert_string_equal(name, "model.layers.0.self_attn.q_proj.bias");
}

static void a_session_may_grow_as_far_as_scaling_reaches(void **state)
{
    (void)state;
    pf_config c = parsed(LLAMA("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4},"));
    assert_int_equal(c.max_context, 1024);
    c = parsed(LLAMA("\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4,"
                     "\"original_max_position_embeddings\": 128},"));
    assert_int_equal(c.max_context, 512);
    c = parsed(LLAMA("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2},"));
    assert_int_equal(c.max_context, 512);
    c = parsed(LLAMA("\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1,"
                     "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 64},"));
    assert_int_equal(c.max_context, 256);
}

/* As transformers has it: which looks at the number when somebody comes so far. */
static void more_positions_than_a_context_can_have_are_as_many_as_it_can(void **state)
{
    (void)state;
    pf_config c = parsed(LLAMA_WITH("", "268435457", "1e-5"));
    assert_int_equal(c.max_position, PF_MAX_POSITIONS);
    assert_int_equal(c.max_context, PF_MAX_POSITIONS);
    c = parsed(LLAMA_WITH("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4},", "9223372036854775807", "1e-5"));
    assert_int_equal(c.max_position, PF_MAX_POSITIONS);
    assert_int_equal(c.max_context, PF_MAX_POSITIONS);
}

static void nothing_need_be_added_below_the_root_of_a_norm(void **state)
{
    (void)state;
    assert_true(parsed(LLAMA_WITH("", "256", "0")).rms_eps == 0.0f);
    assert_true(parsed(LLAMA_WITH("", "256", "1e-50")).rms_eps == 0.0f);
}

/* One vector of transformers: two ulps are PyTorch's vector pow and libm's. */
static void check_frequencies(const json_t *item, size_t index)
{
    char *text = json_dumps(json_object_get(item, "config"), 0);
    const pf_config c = parsed(text);
    free(text);

    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    pf_rope_frequencies(&c, (int32_t)json_integer_value(json_object_get(item, "context")), inv_freq, &scale);
    const json_t *expected = json_object_get(item, "inv_freq");
    assert_int_equal(json_array_size(expected), c.rotary_dim / 2);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const double want = json_number_value(json_array_get(expected, i));
        if (!(fabs((double)inv_freq[i] - want) <= 2.5e-7 * want))
            fail_msg("case %zu (%s): inv_freq[%zu] is %.9g, expected %.9g", index, pf_rope_type_name(c.rope.type), i,
                     (double)inv_freq[i], want);
    }
    const double want = json_number_value(json_object_get(item, "attention_scale"));
    if (!(fabs((double)scale - want) <= 1e-7 * fabs(want)))
        fail_msg("case %zu: attention_scale is %.9g, expected %.9g", index, (double)scale, want);
}

static void frequencies_are_those_of_transformers_for_every_scaling(void **state)
{
    (void)state;
    json_error_t why;
    json_t *cases = json_load_file("tests/golden/config/rope.json", 0, &why);
    assert_non_null(cases);
    assert_true(json_array_size(cases) >= 22);
    for (size_t i = 0; i < json_array_size(cases); i++) check_frequencies(json_array_get(cases, i), i);
    json_decref(cases);
}

/* As in transformers. */
static void a_base_of_one_turns_all_dimensions_alike(void **state)
{
    (void)state;
    static const char *const texts[] = {
        LLAMA("\"rope_theta\": 1.0,"),
        LLAMA("\"rope_parameters\": {\"rope_theta\": 1},"),
        LLAMA("\"rope_theta\": 1, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4},"),
    };
    for (size_t i = 0; i < PF_COUNT(texts); i++) {
        float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
        const pf_config c = parsed(texts[i]);
        pf_rope_frequencies(&c, 16, inv_freq, &scale);
        for (int32_t k = 0; k < c.rotary_dim / 2; k++) assert_true(inv_freq[k] == 1.0f);
    }
}

static void a_directory_without_config_json_is_unavailable(void **state)
{
    (void)state;
    pf_temp_dir dir;
    pf_config c;
    pf_error error = { 0 };
    pf_temp_dir_make(&dir);
    assert_status(pf_config_load(dir.path, &c, &error), PF_UNAVAILABLE);
    assert_says(error, "config.json");

    pf_temp_write(&dir, "config.json", LLAMA("\"eos_token_id\": 2,"), strlen(LLAMA("\"eos_token_id\": 2,")));
    assert_ok(pf_config_load(dir.path, &c, &error), error);
    assert_int_equal(c.eos_ids[0], 2);
    pf_temp_write(&dir, "generation_config.json", "{\"eos_token_id\": 9}", 19);
    assert_ok(pf_config_load(dir.path, &c, &error), error);
    assert_int_equal(c.eos_ids[0], 9);
    pf_temp_write(&dir, "generation_config.json", "{\"eos", 5);
    assert_status(pf_config_load(dir.path, &c, &error), PF_FORMAT);
    assert_says(error, "generation_config.json");
    pf_temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dimensions_are_read_and_defaults_filled_in),
        cmocka_unit_test(explicit_fields_go_before_defaults),
        cmocka_unit_test(generation_config_has_the_only_word_on_ids),
        cmocka_unit_test(ids_past_the_vocabulary_stand_for_none),
        cmocka_unit_test(what_transformers_writes_beside_is_passed_over),
        cmocka_unit_test(what_published_models_have_beside_is_passed_over),
        cmocka_unit_test(a_field_that_could_change_the_result_is_refused_by_name),
        cmocka_unit_test(a_file_written_in_f16_says_that_it_is_to_be_used_so),
        cmocka_unit_test(a_quantised_file_names_its_format_and_nothing_that_contradicts_it),
        cmocka_unit_test(groups_are_of_the_second_version_and_the_rest_of_the_first),
        cmocka_unit_test(an_unknown_architecture_is_named_with_those_known),
        cmocka_unit_test(model_type_alone_names_an_architecture),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(tensors_have_the_names_of_the_files),
        cmocka_unit_test(a_session_may_grow_as_far_as_scaling_reaches),
        cmocka_unit_test(more_positions_than_a_context_can_have_are_as_many_as_it_can),
        cmocka_unit_test(nothing_need_be_added_below_the_root_of_a_norm),
        cmocka_unit_test(frequencies_are_those_of_transformers_for_every_scaling),
        cmocka_unit_test(a_base_of_one_turns_all_dimensions_alike),
        cmocka_unit_test(a_directory_without_config_json_is_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
