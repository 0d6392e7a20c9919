/* Rows of the architectures that are a Llama with other windows, rotations, names or scales. */
#include "model/config/architecture_rows.h"

#define LAYER "model.layers.%d."

/* Granite multiplies at four places. The logits are divided. */
static pf_status read_granite(pf_reader *r, pf_config *c)
{
    double logits_scaling = 1.0;
    c->plan.attention_scale = 1.0f; /* the default of the class, not 1 / sqrt(head_dim) */
    PF_TRY(pf_key_float(r, "attention_multiplier", -1e6, 1e6, &c->plan.attention_scale));
    PF_TRY(pf_key_float(r, "embedding_multiplier", -1e6, 1e6, &c->plan.embedding_scale));
    PF_TRY(pf_key_float(r, "residual_multiplier", -1e6, 1e6, &c->plan.residual_scale));
    PF_TRY(pf_key_double(r, "logits_scaling", 1e-6, 1e6, &logits_scaling));
    c->plan.logit_scale = (float)(1.0 / logits_scaling);
    return PF_OK;
}

static const pf_architecture ROWS[] = {
    {
        .classes = { "LlamaForCausalLM", "YiForCausalLM" },
        .model_types = { "llama", "Yi" },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .biases = { { "attention_bias", false, PF_QKVO }, { "mlp_bias", false, PF_GATED_MLP } },
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "MistralForCausalLM" },
        .model_types = { "mistral" },
        .defaults = { [PF_KEY_POSITIONS] = 131072, [PF_KEY_KV_HEADS] = 8, [PF_KEY_WINDOW] = 4096 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .windows = PF_WINDOWS_ALL,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "MinistralForCausalLM" },
        .model_types = { "ministral" },
        .defaults = { [PF_KEY_POSITIONS] = 131072, [PF_KEY_KV_HEADS] = 8, [PF_KEY_WINDOW] = 4096 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .windows = PF_WINDOWS_TYPES,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "Ministral3ForCausalLM" },
        .model_types = { "ministral3" },
        .defaults = { [PF_KEY_POSITIONS] = 262144, [PF_KEY_KV_HEADS] = 8, [PF_KEY_HEAD_DIM] = 128 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .needs_rope_dict = true,
        .grows_queries = true,
        .windows = PF_WINDOWS_ALL,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "SmolLM3ForCausalLM" },
        .model_types = { "smollm3" },
        .defaults = { [PF_KEY_POSITIONS] = 32768, [PF_KEY_KV_HEADS] = 4 },
        .eps = 1e-6,
        .rope_theta = 2e6,
        .tied_embeddings = true,
        .windows = PF_WINDOWS_NOPE,
        .window_switch = true,
        .nope_interval = 4,
        .biases = { { "attention_bias", false, PF_QKVO }, { "mlp_bias", false, PF_GATED_MLP } },
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "GraniteForCausalLM" },
        .model_types = { "granite" },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .biases = { { "attention_bias", false, PF_QKVO }, { "mlp_bias", false, PF_GATED_MLP } },
        .read = read_granite,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
};

const pf_architecture_list pf_llama_architectures = PF_LIST(ROWS);
