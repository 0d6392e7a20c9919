/* Rows of the architectures that differ from a Llama in their norms: StableLM, OLMo, Cohere. */
#include "model/config/architecture_rows.h"

#define LAYER "model.layers.%d."

#define POST_NORMS                                                                              \
    [PF_TENSOR_ATTENTION_POST] = { LAYER "post_attention_layernorm" }, [PF_TENSOR_MLP_POST] = { \
        LAYER "post_feedforward_layernorm"                                                      \
    }
#define HEAD_NORMS [PF_TENSOR_Q_NORM] = { LAYER "self_attn.q_norm" }, [PF_TENSOR_K_NORM] = { LAYER "self_attn.k_norm" }

/* Head norms that a key switches on. */
static pf_status read_head_norms(pf_reader *r, pf_config *c, const char *key)
{
    bool exist = false;
    PF_TRY(pf_key_bool(r, key, &exist));
    c->plan.head_norm = exist ? PF_HEAD_NORM_EACH : PF_HEAD_NORM_NONE;
    c->plan.has[PF_TENSOR_Q_NORM] = c->plan.has[PF_TENSOR_K_NORM] = exist;
    return PF_OK;
}

static pf_status read_stablelm(pf_reader *r, pf_config *c)
{
    bool is_parallel = false;
    PF_TRY(pf_key_bool(r, "use_parallel_residual", &is_parallel));
    c->plan.parallel = c->plan.one_norm = is_parallel;
    c->plan.has[PF_TENSOR_MLP_NORM] = !is_parallel;
    return read_head_norms(r, c, "qk_layernorm");
}

static pf_status read_olmo(pf_reader *r, pf_config *c)
{
    return pf_key_float(r, "clip_qkv", 1e-6, 1e9, &c->plan.qkv_clip);
}

static pf_status read_cohere2(pf_reader *r, pf_config *c)
{
    c->plan.logit_scale = 0.0625f;
    return pf_key_float(r, "logit_scale", 1e-9, 1e9, &c->plan.logit_scale);
}

static pf_status read_cohere(pf_reader *r, pf_config *c)
{
    PF_TRY(read_cohere2(r, c));
    return read_head_norms(r, c, "use_qk_norm");
}

static const pf_fixed_key STABLELM_FIXED[] = {
    { "rotary_scaling_factor", { "1.0", "1" } },
    { NULL, { NULL } },
};
/* What the first files of Cohere 2 say in words, and the class of transformers does not read. */
static const pf_fixed_key COHERE2_FIXED[] = {
    { "position_embedding_type", { "\"rope_gptj\"" } },
    { "order_of_interleaved_layers", { "\"local_attn_first\"" } },
    { "use_embedding_sharing", { "true" } },
    { "use_gated_activation", { "true" } },
    { "use_parallel_block", { "true" } },
    { "use_parallel_embedding", { "false" } },
    { "rotary_pct", { "1.0", "1" } },
    { NULL, { NULL } },
};
static const char *const COHERE2_IGNORED[] = { "layer_switch", "cache_implementation", "_sliding_window_pattern",
                                               NULL };

#define COHERE_PLAN                                                                                                 \
    .norm = PF_NORM_LAYER, .head_norm_kind = PF_NORM_LAYER, .pre_norm = true, .final_norm = true, .parallel = true, \
    .one_norm = true, .gated = true, .activation = PF_ACTIVATION_SILU, .positions = PF_POSITIONS_ROTARY,            \
    .rope_interleaved = true
#define COHERE_TENSORS                        \
    PF_LLAMA_ENDS, PF_LLAMA_ATTENTION(LAYER), \
        PF_LLAMA_MLP(LAYER), [PF_TENSOR_ATTENTION_NORM] = { LAYER "input_layernorm" }

static const pf_architecture ROWS[] = {
    {
        .classes = { "StableLmForCausalLM", "StableLMEpochForCausalLM" },
        .model_types = { "stablelm", "stablelm_epoch" },
        .keys = { [PF_KEY_EPS] = { "layer_norm_eps", "norm_eps" },
                  [PF_KEY_ROTARY_FACTOR] = { "partial_rotary_factor", "rope_pct" } },
        .defaults = { [PF_KEY_POSITIONS] = 4096, [PF_KEY_KV_HEADS] = 32 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .rotary_factor = 0.25,
        .biases = { PF_ALWAYS(PF_NORMS), { "use_qkv_bias", false, PF_QKV } },
        .fixed = STABLELM_FIXED,
        .read = read_stablelm,
        .plan = { .norm = PF_NORM_LAYER,
                  .head_norm_kind = PF_NORM_LAYER,
                  .pre_norm = true,
                  .final_norm = true,
                  .gated = true,
                  .activation = PF_ACTIVATION_SILU,
                  .positions = PF_POSITIONS_ROTARY },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER),
                     [PF_TENSOR_Q_NORM] = { LAYER "self_attn.q_layernorm.norms.%h", .per_head = true },
                     [PF_TENSOR_K_NORM] = { LAYER "self_attn.k_layernorm.norms.%h", .per_head = true } },
    },
    {
        .classes = { "OlmoForCausalLM" },
        .model_types = { "olmo" },
        .keys = { [PF_KEY_EPS] = { "" } },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .read = read_olmo,
        .plan = { .norm = PF_NORM_LAYER,
                  .pre_norm = true,
                  .final_norm = true,
                  .gated = true,
                  .activation = PF_ACTIVATION_SILU,
                  .positions = PF_POSITIONS_ROTARY },
        .tensors = { [PF_TENSOR_EMBEDDING] = { "model.embed_tokens" },
                     [PF_TENSOR_HEAD] = { "lm_head" },
                     PF_LLAMA_ATTENTION(LAYER),
                     PF_LLAMA_MLP(LAYER) },
    },
    {
        .classes = { "Olmo2ForCausalLM" },
        .model_types = { "olmo2" },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .plan = { .norm = PF_NORM_RMS,
                  .head_norm = PF_HEAD_NORM_WHOLE,
                  .post_norm = true,
                  .final_norm = true,
                  .gated = true,
                  .activation = PF_ACTIVATION_SILU,
                  .positions = PF_POSITIONS_ROTARY },
        .tensors = { PF_LLAMA_ENDS, POST_NORMS, HEAD_NORMS, PF_LLAMA_ATTENTION(LAYER), PF_LLAMA_MLP(LAYER) },
    },
    {
        .classes = { "CohereForCausalLM" },
        .model_types = { "cohere" },
        .keys = { [PF_KEY_EPS] = { "layer_norm_eps" } },
        .defaults = { [PF_KEY_POSITIONS] = 8192 },
        .eps = 1e-5,
        .rope_theta = 5e5,
        .tied_embeddings = true,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .read = read_cohere,
        .plan = { COHERE_PLAN },
        .tensors = { COHERE_TENSORS, HEAD_NORMS },
    },
    {
        .classes = { "Cohere2ForCausalLM" },
        .model_types = { "cohere2" },
        .keys = { [PF_KEY_EPS] = { "layer_norm_eps" } },
        .defaults = { [PF_KEY_POSITIONS] = 8192, [PF_KEY_WINDOW] = 4096 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .tied_embeddings = true,
        .windows = PF_WINDOWS_INTERVAL,
        .window_interval = 4,
        .ropes_in_windows_only = true,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .fixed = COHERE2_FIXED,
        .ignored = COHERE2_IGNORED,
        .read = read_cohere2,
        .plan = { COHERE_PLAN },
        .tensors = { COHERE_TENSORS },
    },
};

const pf_architecture_list pf_norm_architectures = PF_LIST(ROWS);
