/* Rows of GPT-2 and of what descends from it: GPT-BigCode, StarCoder 2, GPT-J, CodeGen, MOSS, OPT. */
#include "model/config/architecture_rows.h"

#define H "transformer.h.%d."

#define GPT_KEYS                                                                                                    \
    [PF_KEY_HIDDEN] = { "n_embd" }, [PF_KEY_INTERMEDIATE] = { "n_inner" }, [PF_KEY_LAYERS] = { "n_layer" },         \
    [PF_KEY_HEADS] = { "n_head" }, [PF_KEY_POSITIONS] = { "n_positions" }, [PF_KEY_EPS] = { "layer_norm_epsilon" }, \
    [PF_KEY_ACTIVATION] = { "activation_function" }
#define GPT_PLAN .norm = PF_NORM_LAYER, .pre_norm = true, .final_norm = true
#define GPT_ENDS                                                                                    \
    [PF_TENSOR_EMBEDDING] = { "transformer.wte" }, [PF_TENSOR_FINAL_NORM] = { "transformer.ln_f" }, \
    [PF_TENSOR_HEAD] = { "lm_head" }
#define GPT2_LAYER(qkv_layout, is_transposed)                                                                 \
    [PF_TENSOR_POSITIONS] = { "transformer.wpe" }, [PF_TENSOR_ATTENTION_NORM] = { H "ln_1" },                 \
    [PF_TENSOR_Q] = { H "attn.c_attn", qkv_layout, is_transposed },                                           \
    [PF_TENSOR_K] = { H "attn.c_attn", qkv_layout, is_transposed },                                           \
    [PF_TENSOR_V] = { H "attn.c_attn", qkv_layout, is_transposed },                                           \
    [PF_TENSOR_O] = { H "attn.c_proj", PF_LAYOUT_PLAIN, is_transposed }, [PF_TENSOR_MLP_NORM] = { H "ln_2" }, \
    [PF_TENSOR_UP] = { H "mlp.c_fc", PF_LAYOUT_PLAIN, is_transposed },                                        \
    [PF_TENSOR_DOWN] = { H "mlp.c_proj", PF_LAYOUT_PLAIN, is_transposed }
#define GPTJ_LAYER                                                                    \
    [PF_TENSOR_ATTENTION_NORM] = { H "ln_1" }, [PF_TENSOR_O] = { H "attn.out_proj" }, \
    [PF_TENSOR_UP] = { H "mlp.fc_in" }, [PF_TENSOR_DOWN] = { H "mlp.fc_out" }
/* All of a row but its names, its q, k and v, and the keys that are left out. */
#define GPTJ_NUMBERS                                                                                        \
    .keys = { GPT_KEYS }, .defaults = { [PF_KEY_POSITIONS] = 2048 }, .intermediate_factor = 4, .eps = 1e-5, \
    .rope_theta = 1e4, .rotary_dim_key = "rotary_dim", .rotary_dim = 64,                                    \
    .biases = { PF_ALWAYS(PF_NORMS | PF_PLAIN_MLP | PF_ROLE(HEAD)) },                                       \
    .plan = { GPT_PLAN,                                                                                     \
              .parallel = true,                                                                             \
              .one_norm = true,                                                                             \
              .activation = PF_ACTIVATION_GELU_TANH,                                                        \
              .rope_interleaved = true,                                                                     \
              .positions = PF_POSITIONS_ROTARY }

/* How attention is computed, in which precision; old names of the number of positions. */
static const char *const IGNORED[] = {
    "n_ctx",
    "reorder_and_upcast_attn",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "inference_runner",
    "validate_runner_input",
    "pre_allocate_kv_cache",
    "pad_key_length",
    NULL,
};
/* The names of StarCoder 1, which the class of 2 does not read. */
static const char *const STARCODER2_IGNORED[] = {
    "activation_function",
    "layer_norm_epsilon",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "mlp_type",
    "norm_type",
    NULL,
};
static const pf_fixed_key GPT2_FIXED[] = {
    { "scale_attn_by_inverse_layer_idx", { "false" } },
    { NULL, { NULL } },
};
static const pf_fixed_key MOSS_FIXED[] = {
    { "wbits", { "32" } }, /* others are quantised files */
    { NULL, { NULL } },
};
static const char *const MOSS_IGNORED[] = { "n_ctx", "groupsize", NULL };

static pf_status read_gpt2(pf_reader *r, pf_config *c)
{
    bool scales = true;
    PF_TRY(pf_key_bool(r, "scale_attn_weights", &scales));
    if (!scales) c->plan.attention_scale = 1.0f;
    return PF_OK;
}

static bool has_one_key(const json_t *root)
{
    return !json_is_false(json_object_get(root, "multi_query"));
}

static pf_status read_bigcode(pf_reader *r, pf_config *c)
{
    bool has_one = true;
    PF_TRY(pf_key_bool(r, "multi_query", &has_one));
    c->n_kv_heads = has_one ? 1 : c->n_heads;
    return read_gpt2(r, c);
}

#define BIGCODE(layout)                                                                                        \
    .classes = { "GPTBigCodeForCausalLM" }, .model_types = { "gpt_bigcode" }, .keys = { GPT_KEYS },            \
    .defaults = { [PF_KEY_POSITIONS] = 1024 }, .intermediate_factor = 4, .eps = 1e-5, .tied_embeddings = true, \
    .biases = { PF_ALWAYS(PF_NORMS | PF_QKVO | PF_PLAIN_MLP) }, .ignored = IGNORED, .read = read_bigcode,      \
    .plan = { GPT_PLAN, .activation = PF_ACTIVATION_GELU_TANH, .positions = PF_POSITIONS_LEARNT },             \
    .tensors = { GPT_ENDS, GPT2_LAYER(layout, false) }

/* OPT-350m has embeddings of another size, projected to the hidden one and back, and norms behind the blocks; then there is no
 * last norm. */
static pf_status read_opt(pf_reader *r, pf_config *c)
{
    pf_plan *plan = &c->plan;
    bool is_before = true, is_last_removed = false, is_affine = true;
    PF_TRY(pf_key_int(r, "word_embed_proj_dim", 1, PF_MAX_HIDDEN, &c->embedding_size));
    PF_TRY(pf_key_bool(r, "do_layer_norm_before", &is_before));
    PF_TRY(pf_key_bool(r, "_remove_final_layer_norm", &is_last_removed));
    PF_TRY(pf_key_bool(r, "layer_norm_elementwise_affine", &is_affine));
    plan->pre_norm = is_before;
    plan->residual_norm = !is_before;
    plan->final_norm = is_before && !is_last_removed;
    plan->has[PF_TENSOR_FINAL_NORM] = plan->final_norm && is_affine;
    plan->has[PF_TENSOR_ATTENTION_NORM] = plan->has[PF_TENSOR_MLP_NORM] = is_before && is_affine;
    plan->has[PF_TENSOR_ATTENTION_POST] = plan->has[PF_TENSOR_MLP_POST] = !is_before && is_affine;
    plan->has[PF_TENSOR_PROJECT_IN] = plan->has[PF_TENSOR_PROJECT_OUT] = c->embedding_size != c->hidden_size;
    return PF_OK;
}

#define OPT "model.decoder."

static const pf_architecture ROWS[] = {
    {
        .classes = { "GPT2LMHeadModel" },
        .model_types = { "gpt2" },
        .keys = { GPT_KEYS },
        .defaults = { [PF_KEY_POSITIONS] = 1024 },
        .intermediate_factor = 4,
        .eps = 1e-5,
        .tied_embeddings = true,
        .biases = { PF_ALWAYS(PF_NORMS | PF_QKVO | PF_PLAIN_MLP) },
        .fixed = GPT2_FIXED,
        .ignored = IGNORED,
        .read = read_gpt2,
        .plan = { GPT_PLAN, .activation = PF_ACTIVATION_GELU_TANH, .positions = PF_POSITIONS_LEARNT },
        .tensors = { GPT_ENDS, GPT2_LAYER(PF_LAYOUT_QKV, true) },
    },
    { .matches = has_one_key, BIGCODE(PF_LAYOUT_QKV) },
    { BIGCODE(PF_LAYOUT_QKV_GROUPS) },
    {
        .classes = { "Starcoder2ForCausalLM" },
        .model_types = { "starcoder2" },
        .keys = { [PF_KEY_EPS] = { "norm_epsilon" } },
        .defaults = { [PF_KEY_POSITIONS] = 4096, [PF_KEY_KV_HEADS] = 2 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .tied_embeddings = true,
        .windows = PF_WINDOWS_ALL,
        .biases = { PF_ALWAYS(PF_NORMS), { "use_bias", true, PF_QKVO | PF_PLAIN_MLP } },
        .ignored = STARCODER2_IGNORED,
        .plan = { GPT_PLAN, .activation = PF_ACTIVATION_GELU_TANH, .positions = PF_POSITIONS_ROTARY },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS("model.layers.%d."),
                     PF_LLAMA_ATTENTION("model.layers.%d."), [PF_TENSOR_UP] = { "model.layers.%d.mlp.c_fc" },
                     [PF_TENSOR_DOWN] = { "model.layers.%d.mlp.c_proj" } },
    },
    {
        .classes = { "GPTJForCausalLM" },
        .model_types = { "gptj" },
        GPTJ_NUMBERS,
        .ignored = IGNORED,
        .tensors = { GPT_ENDS, GPTJ_LAYER, [PF_TENSOR_Q] = { H "attn.q_proj" }, [PF_TENSOR_K] = { H "attn.k_proj" },
                     [PF_TENSOR_V] = { H "attn.v_proj" } },
    },
    {
        .classes = { "CodeGenForCausalLM", "MossForCausalLM" },
        .model_types = { "codegen", "moss" },
        GPTJ_NUMBERS,
        .fixed = MOSS_FIXED,
        .ignored = MOSS_IGNORED,
        .tensors = { GPT_ENDS, GPTJ_LAYER, PF_FUSED_QKV(H "attn.qkv_proj", PF_LAYOUT_QVK_QUARTERS) },
    },
    {
        .classes = { "OPTForCausalLM" },
        .model_types = { "opt" },
        .keys = { [PF_KEY_INTERMEDIATE] = { "ffn_dim" },
                  [PF_KEY_EPS] = { "" },
                  [PF_KEY_ACTIVATION] = { "activation_function" } },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-5,
        .tied_embeddings = true,
        .biases = { PF_ALWAYS(PF_NORMS | PF_ROLE(ATTENTION_POST) | PF_ROLE(MLP_POST)),
                    { "enable_bias", true, PF_QKVO | PF_PLAIN_MLP } },
        .read = read_opt,
        .plan = { .norm = PF_NORM_LAYER,
                  .activation = PF_ACTIVATION_RELU,
                  .positions = PF_POSITIONS_LEARNT,
                  .position_offset = 2 },
        .tensors = { [PF_TENSOR_EMBEDDING] = { OPT "embed_tokens" },
                     [PF_TENSOR_POSITIONS] = { OPT "embed_positions" },
                     [PF_TENSOR_PROJECT_IN] = { OPT "project_in" },
                     [PF_TENSOR_PROJECT_OUT] = { OPT "project_out" },
                     [PF_TENSOR_FINAL_NORM] = { OPT "final_layer_norm" },
                     [PF_TENSOR_HEAD] = { "lm_head" },
                     [PF_TENSOR_ATTENTION_NORM] = { OPT "layers.%d.self_attn_layer_norm" },
                     PF_LLAMA_QKV(OPT "layers.%d."),
                     [PF_TENSOR_O] = { OPT "layers.%d.self_attn.out_proj" },
                     [PF_TENSOR_ATTENTION_POST] = { OPT "layers.%d.self_attn_layer_norm" },
                     [PF_TENSOR_MLP_NORM] = { OPT "layers.%d.final_layer_norm" },
                     [PF_TENSOR_UP] = { OPT "layers.%d.fc1" },
                     [PF_TENSOR_DOWN] = { OPT "layers.%d.fc2" },
                     [PF_TENSOR_MLP_POST] = { OPT "layers.%d.final_layer_norm" } },
    },
};

const pf_architecture_list pf_gpt_architectures = PF_LIST(ROWS);
