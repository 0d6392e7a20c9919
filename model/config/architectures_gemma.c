/* Rows of Gemma: norms with 1 + w, embeddings scaled by the root of their size, GELU, and from 2 on norms behind the blocks. */
#include <math.h>

#include "model/config/architecture_rows.h"

#define LAYER         "model.layers.%d."
#define WRAPPED       "language_model."
#define WRAPPED_LAYER "language_model.model.layers.%d."

#define GEMMA_PLAN                                                                                              \
    .norm = PF_NORM_RMS_PLUS_ONE, .head_norm_kind = PF_NORM_RMS_PLUS_ONE, .pre_norm = true, .final_norm = true, \
    .gated = true, .activation = PF_ACTIVATION_GELU_TANH, .positions = PF_POSITIONS_ROTARY
#define GEMMA_FOUR_NORMS(layer)                                        \
    [PF_TENSOR_ATTENTION_NORM] = { layer "input_layernorm" },          \
    [PF_TENSOR_ATTENTION_POST] = { layer "post_attention_layernorm" }, \
    [PF_TENSOR_MLP_NORM] = { layer "pre_feedforward_layernorm" },      \
    [PF_TENSOR_MLP_POST] = { layer "post_feedforward_layernorm" }
#define GEMMA_HEAD_NORMS(layer) \
    [PF_TENSOR_Q_NORM] = { layer "self_attn.q_norm" }, [PF_TENSOR_K_NORM] = { layer "self_attn.k_norm" }

static pf_status read_gemma(pf_reader *r, pf_config *c)
{
    (void)r;
    c->plan.embedding_scale = (float)sqrt((double)c->hidden_size);
    return PF_OK;
}

/* A soft cap that is absent has the default of its class; null switches it off. */
static pf_status read_softcap(pf_reader *r, const char *key, float by_default, float *out)
{
    *out = json_is_null(json_object_get(r->doc->root, key)) ? 0.0f : by_default;
    return pf_key_float(r, key, 1e-6, 1e9, out);
}

static pf_status read_scales(pf_reader *r, pf_config *c, float attention_softcap, float logit_softcap)
{
    double scalar = 256.0;
    PF_TRY(pf_key_double(r, "query_pre_attn_scalar", 1e-6, 1e9, &scalar));
    c->plan.attention_scale = (float)(1.0 / sqrt(scalar));
    PF_TRY(read_softcap(r, "attn_logit_softcapping", attention_softcap, &c->plan.attention_softcap));
    PF_TRY(read_softcap(r, "final_logit_softcapping", logit_softcap, &c->plan.logit_softcap));
    return read_gemma(r, c);
}

static pf_status read_gemma2(pf_reader *r, pf_config *c)
{
    return read_scales(r, c, 50.0f, 30.0f);
}

static pf_status read_gemma3(pf_reader *r, pf_config *c)
{
    return read_scales(r, c, 0.0f, 0.0f);
}

static const pf_fixed_key FIXED[] = {
    { "use_bidirectional_attention", { "false" } },
    { NULL, { NULL } },
};
/* How the cache of transformers 4 was chosen. */
static const char *const OF_CACHES[] = { "cache_implementation", "_sliding_window_pattern", NULL };

#define GEMMA3_NUMBERS                                                                                        \
    .keys = { [PF_KEY_ACTIVATION] = { "hidden_activation", "hidden_act" } },                                  \
    .defaults = { [PF_KEY_VOCAB] = 262208, [PF_KEY_HIDDEN] = 2304,      [PF_KEY_INTERMEDIATE] = 9216,         \
                  [PF_KEY_LAYERS] = 26,    [PF_KEY_HEADS] = 8,          [PF_KEY_KV_HEADS] = 4,                \
                  [PF_KEY_HEAD_DIM] = 256, [PF_KEY_POSITIONS] = 131072, [PF_KEY_WINDOW] = 4096 },             \
    .eps = 1e-6, .rope_theta = 1e6, .two_ropes = true, .local_theta = 1e4, .tied_embeddings = true,           \
    .windows = PF_WINDOWS_INTERVAL, .window_interval = 6, .biases = { { "attention_bias", false, PF_QKVO } }, \
    .fixed = FIXED, .ignored = OF_CACHES, .read = read_gemma3,                                                \
    .plan = { GEMMA_PLAN, .post_norm = true, .head_norm = PF_HEAD_NORM_SHARED }

static const pf_architecture ROWS[] = {
    {
        .classes = { "GemmaForCausalLM" },
        .model_types = { "gemma" },
        .keys = { [PF_KEY_ACTIVATION] = { "hidden_activation", "hidden_act" } },
        .defaults = { [PF_KEY_POSITIONS] = 8192, [PF_KEY_KV_HEADS] = 16, [PF_KEY_HEAD_DIM] = 256 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .tied_embeddings = true,
        .gelu_is_tanh = true,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .fixed = FIXED,
        .read = read_gemma,
        .plan = { GEMMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "Gemma2ForCausalLM" },
        .model_types = { "gemma2" },
        .keys = { [PF_KEY_ACTIVATION] = { "hidden_activation", "hidden_act" },
                  [PF_KEY_WINDOW] = { "sliding_window", "sliding_window_size" } },
        .defaults = { [PF_KEY_POSITIONS] = 8192,
                      [PF_KEY_KV_HEADS] = 4,
                      [PF_KEY_HEAD_DIM] = 256,
                      [PF_KEY_WINDOW] = 4096 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .tied_embeddings = true,
        .windows = PF_WINDOWS_INTERVAL,
        .window_interval = 2,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .fixed = FIXED,
        .ignored = OF_CACHES,
        .read = read_gemma2,
        .plan = { GEMMA_PLAN, .post_norm = true },
        .tensors = { PF_LLAMA_ENDS, GEMMA_FOUR_NORMS(LAYER), PF_LLAMA_ATTENTION(LAYER), PF_LLAMA_MLP(LAYER) },
    },
    {
        .classes = { "Gemma3ForCausalLM" },
        .model_types = { "gemma3_text" },
        GEMMA3_NUMBERS,
        .tensors = { PF_LLAMA_ENDS, GEMMA_FOUR_NORMS(LAYER), PF_LLAMA_ATTENTION(LAYER), GEMMA_HEAD_NORMS(LAYER),
                     PF_LLAMA_MLP(LAYER) },
    },
    {
        .classes = { "Gemma3ForConditionalGeneration" },
        .model_types = { "gemma3" },
        .in_text_config = true,
        GEMMA3_NUMBERS,
        .tensors = { [PF_TENSOR_EMBEDDING] = { WRAPPED "model.embed_tokens" },
                     [PF_TENSOR_FINAL_NORM] = { WRAPPED "model.norm" },
                     [PF_TENSOR_HEAD] = { WRAPPED "lm_head" },
                     GEMMA_FOUR_NORMS(WRAPPED_LAYER),
                     PF_LLAMA_ATTENTION(WRAPPED_LAYER),
                     GEMMA_HEAD_NORMS(WRAPPED_LAYER),
                     PF_LLAMA_MLP(WRAPPED_LAYER) },
    },
};

const pf_architecture_list pf_gemma_architectures = PF_LIST(ROWS);
