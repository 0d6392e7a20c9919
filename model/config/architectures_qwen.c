/* Rows of Qwen. */
#include "model/config/architecture_rows.h"

#define LAYER "model.layers.%d."

#define QWEN_EXPERTS                                                                                           \
    [PF_TENSOR_ROUTER] = { LAYER "mlp.gate" }, [PF_TENSOR_EXPERT_GATE] = { LAYER "mlp.experts.%e.gate_proj" }, \
    [PF_TENSOR_EXPERT_UP] = { LAYER "mlp.experts.%e.up_proj" },                                                \
    [PF_TENSOR_EXPERT_DOWN] = { LAYER "mlp.experts.%e.down_proj" }
#define QWEN_HEAD_NORMS \
    [PF_TENSOR_Q_NORM] = { LAYER "self_attn.q_norm" }, [PF_TENSOR_K_NORM] = { LAYER "self_attn.k_norm" }

static pf_status read_experts(pf_reader *r, pf_config *c)
{
    PF_TRY(pf_key_bool(r, "norm_topk_prob", &c->plan.normalises_experts));
    return pf_config_read_experts(r, c);
}

static pf_status read_qwen2_moe(pf_reader *r, pf_config *c)
{
    c->plan.shared_size = 5632;
    PF_TRY(pf_key_int(r, "shared_expert_intermediate_size", 1, PF_MAX_INTERMEDIATE, &c->plan.shared_size));
    return read_experts(r, c);
}

static const char *const OF_TRAINING[] = { "output_router_logits", "router_aux_loss_coef", NULL };

static const pf_architecture ROWS[] = {
    {
        .classes = { "Qwen2ForCausalLM" },
        .model_types = { "qwen2" },
        .defaults = { [PF_KEY_POSITIONS] = 32768, [PF_KEY_KV_HEADS] = 32, [PF_KEY_WINDOW] = 4096 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .windows = PF_WINDOWS_LAST,
        .window_switch = true,
        .biases = { PF_ALWAYS(PF_QKV) },
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER) },
    },
    {
        .classes = { "Qwen3ForCausalLM" },
        .model_types = { "qwen3" },
        .defaults = { [PF_KEY_POSITIONS] = 32768,
                      [PF_KEY_KV_HEADS] = 32,
                      [PF_KEY_HEAD_DIM] = 128,
                      [PF_KEY_WINDOW] = 4096 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .windows = PF_WINDOWS_LAST,
        .window_switch = true,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .plan = { PF_LLAMA_PLAN, .head_norm = PF_HEAD_NORM_SHARED },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER), QWEN_HEAD_NORMS },
    },
    {
        .classes = { "Qwen2MoeForCausalLM" },
        .model_types = { "qwen2_moe" },
        .keys = { [PF_KEY_EXPERTS] = { "num_experts" } },
        .defaults = { [PF_KEY_POSITIONS] = 32768,
                      [PF_KEY_KV_HEADS] = 16,
                      [PF_KEY_WINDOW] = 4096,
                      [PF_KEY_EXPERTS] = 60,
                      [PF_KEY_EXPERTS_USED] = 4,
                      [PF_KEY_EXPERT_SIZE] = 1408 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .windows = PF_WINDOWS_EVEN_FIRST,
        .window_switch = true,
        .sparse_layers = true,
        .biases = { { "qkv_bias", true, PF_QKV } },
        .ignored = OF_TRAINING,
        .read = read_qwen2_moe,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER),
                     QWEN_EXPERTS, [PF_TENSOR_SHARED_ROUTER] = { LAYER "mlp.shared_expert_gate" },
                     [PF_TENSOR_SHARED_GATE] = { LAYER "mlp.shared_expert.gate_proj" },
                     [PF_TENSOR_SHARED_UP] = { LAYER "mlp.shared_expert.up_proj" },
                     [PF_TENSOR_SHARED_DOWN] = { LAYER "mlp.shared_expert.down_proj" } },
    },
    {
        .classes = { "Qwen3MoeForCausalLM" },
        .model_types = { "qwen3_moe" },
        .keys = { [PF_KEY_EXPERTS] = { "num_experts" } },
        .defaults = { [PF_KEY_POSITIONS] = 32768,
                      [PF_KEY_KV_HEADS] = 4,
                      [PF_KEY_WINDOW] = 4096,
                      [PF_KEY_EXPERTS] = 128,
                      [PF_KEY_EXPERTS_USED] = 8,
                      [PF_KEY_EXPERT_SIZE] = 768 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .windows = PF_WINDOWS_ALL,
        .window_switch = true,
        .sparse_layers = true,
        .biases = { { "attention_bias", false, PF_QKVO } },
        .ignored = OF_TRAINING,
        .read = read_experts,
        .plan = { PF_LLAMA_PLAN, .head_norm = PF_HEAD_NORM_SHARED },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_LAYER(LAYER), QWEN_HEAD_NORMS, QWEN_EXPERTS },
    },
};

const pf_architecture_list pf_qwen_architectures = PF_LIST(ROWS);
