/* Rows of Phi: 1 and 2, which have parallel blocks and LayerNorm, and 3 and 4, a Llama with fused products. */
#include "model/config/architecture_rows.h"

#define LAYER "model.layers.%d."

static const pf_fixed_key PHI_FIXED[] = {
    { "qk_layernorm", { "false" } },
    { NULL, { NULL } },
};
static const pf_fixed_key PHI3_FIXED[] = {
    { "attention_bias", { "false" } },
    { NULL, { NULL } },
};

static const pf_architecture ROWS[] = {
    {
        .classes = { "PhiForCausalLM" },
        .model_types = { "phi" },
        .keys = { [PF_KEY_EPS] = { "layer_norm_eps" } },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .rotary_factor = 0.5,
        .biases = { PF_ALWAYS(PF_ROLE(ATTENTION_NORM) | PF_ROLE(FINAL_NORM) | PF_QKVO | PF_PLAIN_MLP | PF_ROLE(HEAD)) },
        .fixed = PHI_FIXED,
        .plan = { .norm = PF_NORM_LAYER,
                  .pre_norm = true,
                  .final_norm = true,
                  .parallel = true,
                  .one_norm = true,
                  .activation = PF_ACTIVATION_GELU_TANH,
                  .positions = PF_POSITIONS_ROTARY },
        .tensors = { [PF_TENSOR_EMBEDDING] = { "model.embed_tokens" },
                     [PF_TENSOR_FINAL_NORM] = { "model.final_layernorm" },
                     [PF_TENSOR_HEAD] = { "lm_head" },
                     [PF_TENSOR_ATTENTION_NORM] = { LAYER "input_layernorm" },
                     PF_LLAMA_QKV(LAYER),
                     [PF_TENSOR_O] = { LAYER "self_attn.dense" },
                     [PF_TENSOR_UP] = { LAYER "mlp.fc1" },
                     [PF_TENSOR_DOWN] = { LAYER "mlp.fc2" } },
    },
    {
        .classes = { "Phi3ForCausalLM" },
        .model_types = { "phi3" },
        .defaults = { [PF_KEY_POSITIONS] = 4096 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .rotary_factor = 1.0,
        .original_positions = 4096,
        .scales_by_longrope = true,
        .fixed = PHI3_FIXED,
        .windows = PF_WINDOWS_ALL,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS(LAYER), PF_FUSED_QKV(LAYER "self_attn.qkv_proj", PF_LAYOUT_QKV),
                     [PF_TENSOR_O] = { LAYER "self_attn.o_proj" },
                     [PF_TENSOR_GATE] = { LAYER "mlp.gate_up_proj", PF_LAYOUT_GATE_UP },
                     [PF_TENSOR_UP] = { LAYER "mlp.gate_up_proj", PF_LAYOUT_GATE_UP },
                     [PF_TENSOR_DOWN] = { LAYER "mlp.down_proj" } },
    },
};

const pf_architecture_list pf_phi_architectures = PF_LIST(ROWS);
