#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "model/config/config.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

/* A small Llama. The argument adds fields: "\"key\": value," */
#define LLAMA(more) LLAMA_WITH(more, "256", "1e-5")
#define LLAMA_WITH(more, positions, eps)                                                                    \
    "{" more "\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"vocab_size\": 100,"   \
    "\"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": 4," \
    "\"max_position_embeddings\": " positions ", \"rms_norm_eps\": " eps "}"

static pf_status parse(const char *text, pf_config *out, pf_error *error)
{
    return pf_config_parse("config.json", text, strlen(text), NULL, 0, NULL, out, error);
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

/* The warnings of a load, one per line. */
typedef struct {
    char text[1024];
    int n;
} warnings;

static void note_warning(void *user, const char *sentence)
{
    warnings *w = user;
    w->n++;
    snprintf(w->text + strlen(w->text), sizeof w->text - strlen(w->text), "%s\n", sentence);
}

static warnings warnings_of(const char *text, const char *generation)
{
    warnings w = { .n = 0 };
    const pf_load_policy policy = { .warn = note_warning, .warn_user = &w };
    pf_config c;
    pf_error error = { 0 };
    assert_ok(pf_config_parse("config.json", text, strlen(text), generation, generation ? strlen(generation) : 0,
                              &policy, &c, &error),
              error);
    return w;
}

static pf_status parse_strictly(const char *text, const char *generation, pf_error *error)
{
    const pf_load_policy policy = { .strict = true };
    pf_config c;
    return pf_config_parse("config.json", text, strlen(text), generation, generation ? strlen(generation) : 0, &policy,
                           &c, error);
}

static void assert_warned(const char *text, const char *part)
{
    const warnings w = warnings_of(text, NULL);
    assert_int_equal(w.n, 1);
    if (!strstr(w.text, part)) fail_msg("warning without \"%s\": %s", part, w.text);
    pf_error error = { 0 };
    assert_status(parse_strictly(text, NULL, &error), PF_UNSUPPORTED);
    assert_says(error, part);
}

static void dimensions_are_read_and_defaults_filled_in(void **state)
{
    (void)state;
    const pf_config c = parsed(LLAMA(""));
    assert_string_equal(pf_architecture_name(c.architecture), "LlamaForCausalLM");
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
    assert_true(c.norm_eps == 1e-5f);
    assert_false(c.tied_embeddings || pf_config_has_bias(&c, PF_TENSOR_Q) || pf_config_has_bias(&c, PF_TENSOR_UP));
    assert_int_equal(c.ropes[0].type, PF_ROPE_DEFAULT);
    assert_true(c.ropes[0].theta == 10000.0);
    assert_int_equal(c.n_eos, 0);
}

static void explicit_fields_override_defaults(void **state)
{
    (void)state;
    const pf_config c = parsed(LLAMA("\"num_key_value_heads\": 2, \"head_dim\": 24, \"tie_word_embeddings\": true,"
                                     "\"attention_bias\": true, \"mlp_bias\": true, \"rope_theta\": 500000,"
                                     "\"bos_token_id\": 1, \"eos_token_id\": [2, 3, 2],"));
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(c.head_dim, 24); /* 4 * 24 differs from hidden_size, which is allowed */
    assert_true(c.tied_embeddings && pf_config_has_bias(&c, PF_TENSOR_Q) && pf_config_has_bias(&c, PF_TENSOR_UP));
    assert_true(c.ropes[0].theta == 500000.0);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[1], 3);
    assert_true(pf_config_has_bias(&c, PF_TENSOR_O) && pf_config_has_bias(&c, PF_TENSOR_DOWN));
    assert_false(pf_config_has_bias(&c, PF_TENSOR_HEAD));
}

static void generation_config_replaces_the_end_ids(void **state)
{
    (void)state;
    static const char config[] = LLAMA("\"bos_token_id\": 1, \"eos_token_id\": 2,");
    static const char lists[] = "{\"eos_token_id\": [7, 8], \"bos_token_id\": 5, \"temperature\": 0.6}";
    pf_config c;
    pf_error error = { 0 };
    assert_ok(pf_config_parse("config.json", config, strlen(config), lists, strlen(lists), NULL, &c, &error), error);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[0], 7);
    assert_ok(pf_config_parse("config.json", config, strlen(config), "{}", 2, NULL, &c, &error), error);
    assert_int_equal(c.n_eos, 0);
    static const char wrong[] = LLAMA("\"eos_token_id\": \"2\","); /* transformers checks the type too */
    assert_status(pf_config_parse("config.json", wrong, strlen(wrong), lists, strlen(lists), NULL, &c, &error),
                  PF_FORMAT);
    assert_says(error, "config.json: eos_token_id is \"2\"");
}

/* A model cut down from a larger one keeps its ids. transformers loads it, and no text contains them. */
static void ids_beyond_the_vocabulary_are_ignored(void **state)
{
    (void)state;
    static const char config[] = LLAMA("\"bos_token_id\": 128000, \"eos_token_id\": [128001, 99, 100, -1],");
    pf_config c;
    pf_error error = { 0 };
    assert_ok(pf_config_parse("config.json", config, strlen(config), NULL, 0, NULL, &c, &error), error);
    assert_int_equal(c.n_eos, 1);
    assert_int_equal(c.eos_ids[0], 99);
}

static void inert_keys_of_transformers_are_ignored(void **state)
{
    (void)state;
    (void)parsed(LLAMA("\"torch_dtype\": \"bfloat16\", \"dtype\": \"bfloat16\", \"use_cache\": true,"
                       "\"initializer_range\": 0.02, \"transformers_version\": \"5.0.0\", \"_name_or_path\": \"x\","
                       "\"attention_dropout\": 0.0, \"pretraining_tp\": 2, \"hidden_act\": \"silu\","
                       "\"quantization_config\": null, \"sliding_window\": null, \"never_heard_of\": null,"
                       "\"rope_scaling\": null, \"layer_types\": [\"full_attention\", \"full_attention\"],"));
}

/* Keys of SmolLM2's published config.json, and of others. */
static void inert_keys_of_published_models_are_ignored(void **state)
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
    assert_refused(LLAMA("\"hidden_act\": \"tanh\","), PF_UNSUPPORTED,
                   "hidden_act is \"tanh\", which is not known (known: silu");
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

static void harmless_unknown_keys_are_listed_in_one_warning(void **state)
{
    (void)state;
    assert_warned(LLAMA("\"custom_pipelines\": {}, \"seq_length\": 2048, \"language\": \"en\","),
                  "config.json: 3 keys are not known and not read: custom_pipelines, seq_length, language");
    assert_warned(LLAMA("\"license\": \"mit\","), "1 key is not known and not read: license");
    assert_int_equal(warnings_of(LLAMA("\"torch_dtype\": \"float16\", \"never_heard_of\": null,"), NULL).n, 0);
    pf_error error = { 0 };
    assert_ok(parse_strictly(LLAMA("\"torch_dtype\": \"float16\", \"never_heard_of\": null,"), NULL, &error), error);
}

/* A long list of keys is truncated to one line. */
static void a_warning_shows_the_first_keys_of_many(void **state)
{
    (void)state;
    char text[8192] = "";
    for (int i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "\"a_note_of_some_length_%d\": \"x\",", i);
    char whole[16384];
    snprintf(whole, sizeof whole, "{%s%s", text, &LLAMA("")[1]);
    const warnings w = warnings_of(whole, NULL);
    assert_int_equal(w.n, 1);
    assert_non_null(strstr(w.text, "100 keys are not known and not read: a_note_of_some_length_0, "));
    assert_non_null(strstr(w.text, ", ..."));
}

static void harmless_unknown_keys_load(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"custom_pipelines\": {\"text\": {\"impl\": \"a.B\", \"pt\": [\"AutoModel\"], \"tf\": []}}",
        "\"summary_use_proj\": true",
        "\"summary_first_dropout\": 0.1",
        "\"max_seq_len\": 4096",
        "\"n_ctx\": 2048",
        "\"n_positions\": 2048",
        "\"language\": [\"en\", \"de\"]",
        "\"tags\": []",
        "\"author\": \"me\"",
        "\"eos_token\": \"</s>\"",
        "\"image_token_id\": 7",
        "\"base_model\": \"meta-llama/Llama-3\"",
        "\"is_composition\": false",
        "\"use_something\": false",
        "\"attn_implementation_internal\": \"sdpa\"",
        "\"ffn_dropout\": 0.1",
        "\"layerdrop_dropout\": 0.5",
        "\"router_aux_loss_coef\": 0.01",
        "\"training_args\": {\"lr\": 1}",
        "\"init_std\": 0.02",
        "\"initializer_factor\": 2.0",
        "\"model_version\": 3",
        "\"train_batch_size\": 8",
        "\"pretrained_steps\": 100000",
        "\"tensor_parallel_degree\": 8",
        "\"padded_vocab_size\": 128",
        "\"chat_template\": \"{{ x }}\"",
        "\"properties\": \"a\"",
        "\"quantized_by\": \"a user\"",
        "\"kv_dtype\": \"fp8\"",
        /* looks like arithmetic, and is switched off or neutral */
        "\"attention_multiplier\": 1.0",
        "\"residual_multiplier\": 1",
        "\"embedding_multiplier\": 1.0",
        "\"logits_scaling\": 1.0",
        "\"logit_scale\": 1",
        "\"rotary_pct\": 1.0",
        "\"use_alibi\": false",
        "\"final_logit_softcapping\": 0.0",
        "\"attention_window\": 0",
        "\"num_local_experts\": 0",
        "\"rope_type\": \"default\"",
        "\"norm_type\": \"RMSNorm\"",
        "\"activation_function\": \"silu\"",
        "\"position_embedding_type\": \"rope\"",
        "\"attention_type\": \"full\"",
        "\"layer_norm_eps\": 1e-5",
        "\"rope_base\": 10000.0, \"rope_theta\": 10000",
        "\"no_rope_layers\": []",
        "\"clip_qkv\": null",
        "\"parallel_residual\": false",
        "\"moe_layers\": []",
        "\"sliding_window\": 4096, \"use_sliding_window\": false",
    };
    for (size_t i = 0; i < PF_COUNT(keys); i++) {
        char text[1024];
        pf_config c;
        pf_error error = { 0 };
        snprintf(text, sizeof text, "{%s,%s", keys[i], &LLAMA("")[1]);
        if (parse(text, &c, &error) != PF_OK) fail_msg("%s: %s", keys[i], error.text);
    }
}

static void keys_that_look_like_arithmetic_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"attention_multiplier\": 0.5",
        "\"residual_multiplier\": 0.22",
        "\"logits_scaling\": 8",
        "\"logit_scale\": 0.0625",
        "\"scale_emb\": 12",
        "\"scale_depth\": 1.4",
        "\"embedding_multiplier\": 12.0",
        "\"query_pre_attn_scalar\": 256",
        "\"final_logit_softcapping\": 30.0",
        "\"attn_logit_softcapping\": 50.0",
        "\"attention_window\": 128",
        "\"sliding_window\": 4096",
        "\"sliding_window_pattern\": 6",
        "\"rope_scaling_factor\": 2",
        "\"rotary_pct\": 0.25",
        "\"rotary_dim\": 8",
        "\"rotary_emb_base\": 500000",
        "\"rope_local_base_freq\": 10000.0",
        "\"use_alibi\": true",
        "\"alibi_bias_max\": 8",
        "\"position_embedding_type\": \"alibi\"",
        "\"rope_type\": \"yarn\"",
        "\"norm_type\": \"layernorm\"",
        "\"qk_layernorm\": true",
        "\"use_post_norm\": true",
        "\"layer_norm_eps\": 1e-12",
        "\"norm_epsilon\": 0.1",
        "\"lm_head_bias\": true",
        "\"use_bias\": true",
        "\"attention_out_bias\": true",
        "\"mask_type\": \"prefix\"",
        "\"prefix_mask\": [1, 2]",
        "\"num_experts\": 8",
        "\"num_local_experts\": 8",
        "\"num_experts_per_tok\": 2",
        "\"num_experts_per_token\": 2",
        "\"divide_logits_by\": 4",
        "\"lambda_init\": 0.8",
        "\"moe_intermediate_size\": 64",
        "\"n_routed_experts\": 64",
        "\"use_parallel_residual\": true",
        "\"parallel_attn\": true",
        "\"activation_function\": \"gelu\"",
        "\"hidden_activation\": \"gelu_pytorch_tanh\"",
        "\"attention_type\": \"local\"",
        "\"attention_types\": [\"global\", \"local\"]",
        "\"clip_qkv\": 8.0",
        "\"kv_lora_rank\": 512",
        "\"no_rope_layers\": [1, 0]",
        "\"attention_chunk_size\": 8192",
        "\"num_meta_tokens\": 128",
        "\"use_bidirectional_attention\": true",
        "\"causal\": false",
        "\"use_rope\": false",
        "\"scale_attn_weights\": false",
        "\"attn_temperature_tuning\": true",
        "\"partial_rotary\": 0.5",
        "\"mlp_type\": \"moe\"",
        "\"hc_mult\": 4",
        "\"cross_attention_layers\": [3]",
        "\"rope_parameters_local\": {\"rope_theta\": 1}",
        "\"quantization\": \"int4\"",
        "\"compression_config\": {\"bits\": 4}",
        "\"layer_group_size\": 2",
        "\"ssm_state_size\": 16",
        "\"never_heard_of\": 7",
        "\"never_heard_of\": true",
        "\"never_heard_of\": {\"a_scale\": 2}",
        "\"never_heard_of\": [0.5]",
    };
    for (size_t i = 0; i < PF_COUNT(keys); i++) {
        char text[1024], name[64];
        pf_config c;
        pf_error error = { 0 };
        snprintf(text, sizeof text, "{%s,%s", keys[i], &LLAMA("")[1]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(keys[i] + 1, "\""), keys[i] + 1);
        if (parse(text, &c, &error) != PF_UNSUPPORTED) fail_msg("%s is not refused", keys[i]);
        assert_says(error, name);
    }
}

static void settings_of_generate_that_change_greedy_text_are_reported(void **state)
{
    (void)state;
    static const char usual[] = "{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.9, \"top_k\": 50,"
                                "\"repetition_penalty\": 1.0, \"no_repeat_ngram_size\": 0, \"num_beams\": 1,"
                                "\"max_length\": 4096, \"chat_format\": \"chatml\", \"length_penalty\": 0.5,"
                                "\"bad_words_ids\": null, \"transformers_version\": \"4.40.0\"}";
    assert_int_equal(warnings_of(LLAMA(""), usual).n, 0);
    static const char *const changing[] = { "\"repetition_penalty\": 1.1", "\"no_repeat_ngram_size\": 3",
                                            "\"suppress_tokens\": [7]",    "\"bad_words_ids\": [[1]]",
                                            "\"min_new_tokens\": 5",       "\"num_beams\": 4",
                                            "\"guidance_scale\": 1.5",     "\"forced_eos_token_id\": 2" };
    for (size_t i = 0; i < PF_COUNT(changing); i++) {
        char text[128], name[64];
        pf_error error = { 0 };
        snprintf(text, sizeof text, "{%s}", changing[i]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(changing[i] + 1, "\""), changing[i] + 1);
        const warnings w = warnings_of(LLAMA(""), text);
        assert_int_equal(w.n, 1);
        assert_non_null(strstr(w.text, name));
        assert_status(parse_strictly(LLAMA(""), text, &error), PF_UNSUPPORTED);
        assert_says(error, name);
    }
}

static void pilotfish_dtype_marks_a_file_to_be_used_as_f16(void **state)
{
    (void)state;
    assert_false(parsed(LLAMA("\"dtype\": \"float16\",")).kept_in_f16);
    assert_false(parsed(LLAMA("\"pilotfish_dtype\": null,")).kept_in_f16);
    assert_true(parsed(LLAMA("\"pilotfish_dtype\": \"f16\",")).kept_in_f16);
    assert_refused(LLAMA("\"pilotfish_dtype\": \"f8\","), PF_UNSUPPORTED, "pilotfish_dtype is f8, only \"f16\"");
    assert_refused(LLAMA("\"pilotfish_dtype\": 16,"), PF_UNSUPPORTED, "pilotfish_dtype is no string");
}

static void a_quantised_file_must_name_a_consistent_format(void **state)
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
    c = parsed(LLAMA("\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4},"));
    assert_false(c.quantized);
    assert_int_equal(c.quantization.scheme, PF_SCHEME_GPTQ);
    assert_refused(LLAMA("\"quantization_config\": {\"quant_method\": \"hqq\", \"bits\": 4},"), PF_UNSUPPORTED,
                   "quantization_config: quant_method is hqq");
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

static void formats_with_groups_have_version_2(void **state)
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
                   "MambaForCausalLM is not known (known: llama, mistral, ");
    assert_refused("{\"model_type\": \"mamba\"}", PF_UNSUPPORTED, "mamba");
    assert_refused("{}", PF_FORMAT, "(known: llama, ");
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
    (void)parsed(SAYS("\"architectures\": \"LlamaForCausalLM\","));
    assert_refused(SAYS("\"architectures\": [7],"), PF_FORMAT, "a list of names");
    assert_refused(SAYS("\"architectures\": {},"), PF_FORMAT, "a list of names");
}

/* transformers selects by model_type. */
static void other_names_for_the_same_decoder_load(void **state)
{
    (void)state;
    assert_int_equal(warnings_of(SAYS("\"architectures\": [\"LlamaForCausalLM\", \"LlamaModel\"],"), NULL).n, 0);
    assert_int_equal(warnings_of(SAYS("\"architectures\": [\"FooForCausalLM\", \"LlamaForCausalLM\"],"), NULL).n, 0);
    assert_warned(SAYS("\"architectures\": [\"LlamaModel\"],"), "LlamaModel, and is read as LlamaForCausalLM");
    assert_warned(SAYS("\"architectures\": [\"LlamaForSequenceClassification\"],"), "LlamaForSequenceClassification");
    assert_refused(SAYS("\"architectures\": [\"FooForCausalLM\"],"), PF_UNSUPPORTED, "FooForCausalLM is not known");
    assert_refused("{\"architectures\": [\"LlamaModel\"], \"model_type\": \"mamba\"}", PF_FORMAT, "model_type");
#undef SAYS
}

/* transformers takes values that are false in Python for an absent dictionary. */
static void a_false_rope_scaling_is_none(void **state)
{
    (void)state;
    static const char *const texts[] = {
        LLAMA("\"rope_scaling\": false,"),
        LLAMA("\"rope_scaling\": {},"),
        LLAMA("\"rope_scaling\": [],"),
        LLAMA("\"rope_scaling\": 0,"),
        LLAMA("\"rope_scaling\": \"\","),
        LLAMA("\"rope_parameters\": false,"),
        LLAMA("\"rope_scaling\": false, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0},"),
        LLAMA("\"rope_scaling\": null, \"rope_parameters\": null, \"num_key_value_heads\": null, \"head_dim\": null,"),
    };
    for (size_t i = 0; i < PF_COUNT(texts); i++) {
        const pf_config c = parsed(texts[i]);
        assert_int_equal(c.ropes[0].type, PF_ROPE_DEFAULT);
        assert_true(c.ropes[0].theta == 10000.0);
    }
    assert_refused(LLAMA("\"rope_scaling\": true,"), PF_FORMAT, "rope_scaling");
    assert_refused(LLAMA("\"rope_scaling\": 2,"), PF_FORMAT, "rope_scaling");
    assert_refused(LLAMA("\"rope_scaling\": \"linear\","), PF_FORMAT, "rope_scaling");
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

static void tensor_names_are_those_of_transformers(void **state)
{
    (void)state;
    const pf_config c = parsed(LLAMA(""));
    char name[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(&c, (pf_tensor_id){ .role = PF_TENSOR_EMBEDDING }, "weight", name);
    assert_string_equal(name, "model.embed_tokens.weight");
    pf_config_tensor_name(&c, (pf_tensor_id){ .role = PF_TENSOR_HEAD }, "weight", name);
    assert_string_equal(name, "lm_head.weight");
    pf_config_tensor_name(&c, (pf_tensor_id){ PF_TENSOR_MLP_NORM, 12, 0 }, "weight", name);
    assert_string_equal(name, "model.layers.12.post_attention_layernorm.weight");
    pf_config_tensor_name(&c, (pf_tensor_id){ .role = PF_TENSOR_Q }, "bias", name);
    assert_string_equal(name, "model.layers.0.self_attn.q_proj.bias");
}

static void rope_scaling_extends_the_longest_context(void **state)
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

/* As in transformers, which uses the number only in sessions that reach it. */
static void max_position_is_capped(void **state)
{
    (void)state;
    pf_config c = parsed(LLAMA_WITH("", "268435457", "1e-5"));
    assert_int_equal(c.max_position, PF_MAX_POSITIONS);
    assert_int_equal(c.max_context, PF_MAX_POSITIONS);
    c = parsed(LLAMA_WITH("\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4},", "9223372036854775807", "1e-5"));
    assert_int_equal(c.max_position, PF_MAX_POSITIONS);
    assert_int_equal(c.max_context, PF_MAX_POSITIONS);
}

static void rms_norm_eps_may_be_zero(void **state)
{
    (void)state;
    assert_true(parsed(LLAMA_WITH("", "256", "0")).norm_eps == 0.0f);
    assert_true(parsed(LLAMA_WITH("", "256", "1e-50")).norm_eps == 0.0f);
}

/* One vector of transformers. PyTorch's vector pow and libm differ by up to two ulps. */
static void check_frequencies(const json_t *item, size_t index)
{
    char *text = json_dumps(json_object_get(item, "config"), 0);
    const pf_config c = parsed(text);
    free(text);

    float inv_freq[PF_MAX_HEAD_DIM / 2], scale;
    pf_rope_frequencies(&c, 0, (int32_t)json_integer_value(json_object_get(item, "context")), inv_freq, &scale);
    const json_t *expected = json_object_get(item, "inv_freq");
    assert_int_equal(json_array_size(expected), c.rotary_dim / 2);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const double want = json_number_value(json_array_get(expected, i));
        if (!(fabs((double)inv_freq[i] - want) <= 2.5e-7 * want))
            fail_msg("case %zu (%s): inv_freq[%zu] is %.9g, expected %.9g", index, pf_rope_type_name(c.ropes[0].type),
                     i, (double)inv_freq[i], want);
    }
    const double want = json_number_value(json_object_get(item, "attention_scale"));
    if (!(fabs((double)scale - want) <= 1e-7 * fabs(want)))
        fail_msg("case %zu: attention_scale is %.9g, expected %.9g", index, (double)scale, want);
}

static void frequencies_equal_transformers_for_every_scaling(void **state)
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
static void a_theta_of_one_rotates_all_dimensions_alike(void **state)
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
        pf_rope_frequencies(&c, 0, 16, inv_freq, &scale);
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
    assert_status(pf_config_load(dir.path, NULL, &c, &error), PF_UNAVAILABLE);
    assert_says(error, "config.json");

    pf_temp_write(&dir, "config.json", LLAMA("\"eos_token_id\": 2,"), strlen(LLAMA("\"eos_token_id\": 2,")));
    assert_ok(pf_config_load(dir.path, NULL, &c, &error), error);
    assert_int_equal(c.eos_ids[0], 2);
    pf_temp_write(&dir, "generation_config.json", "{\"eos_token_id\": 9}", 19);
    assert_ok(pf_config_load(dir.path, NULL, &c, &error), error);
    assert_int_equal(c.eos_ids[0], 9);
    pf_temp_write(&dir, "generation_config.json", "{\"eos", 5);
    assert_status(pf_config_load(dir.path, NULL, &c, &error), PF_FORMAT);
    assert_says(error, "generation_config.json");
    pf_temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dimensions_are_read_and_defaults_filled_in),
        cmocka_unit_test(explicit_fields_override_defaults),
        cmocka_unit_test(generation_config_replaces_the_end_ids),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_ignored),
        cmocka_unit_test(inert_keys_of_transformers_are_ignored),
        cmocka_unit_test(inert_keys_of_published_models_are_ignored),
        cmocka_unit_test(a_field_that_could_change_the_result_is_refused_by_name),
        cmocka_unit_test(harmless_unknown_keys_are_listed_in_one_warning),
        cmocka_unit_test(a_warning_shows_the_first_keys_of_many),
        cmocka_unit_test(harmless_unknown_keys_load),
        cmocka_unit_test(keys_that_look_like_arithmetic_are_refused_by_name),
        cmocka_unit_test(settings_of_generate_that_change_greedy_text_are_reported),
        cmocka_unit_test(pilotfish_dtype_marks_a_file_to_be_used_as_f16),
        cmocka_unit_test(a_quantised_file_must_name_a_consistent_format),
        cmocka_unit_test(formats_with_groups_have_version_2),
        cmocka_unit_test(an_unknown_architecture_is_named_with_those_known),
        cmocka_unit_test(model_type_alone_names_an_architecture),
        cmocka_unit_test(other_names_for_the_same_decoder_load),
        cmocka_unit_test(a_false_rope_scaling_is_none),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(tensor_names_are_those_of_transformers),
        cmocka_unit_test(rope_scaling_extends_the_longest_context),
        cmocka_unit_test(max_position_is_capped),
        cmocka_unit_test(rms_norm_eps_may_be_zero),
        cmocka_unit_test(frequencies_equal_transformers_for_every_scaling),
        cmocka_unit_test(a_theta_of_one_rotates_all_dimensions_alike),
        cmocka_unit_test(a_directory_without_config_json_is_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
