/* Rows of the architectures whose layers all have experts. */
#include "model/config/architecture_rows.h"

#define LAYER "model.layers.%d."

/* The clamps and the gain of gpt-oss's activation are constants of the kernel; "silu" is what its files call it. */
static pf_status read_gpt_oss(pf_reader *r, pf_config *c)
{
    if (c->plan.activation != PF_ACTIVATION_SILU)
        return pf_fail(r->error, PF_UNSUPPORTED,
                       "%s: hidden_act is not \"silu\", the only one that is known for gpt-oss", r->doc->name);

    c->plan.activation = PF_ACTIVATION_CLAMPED_SWIGLU;
    return pf_config_read_experts(r, c);
}

static const pf_fixed_key GPT_OSS_FIXED[] = {
    { "swiglu_alpha", { "1.702" } },
    { "swiglu_limit", { "7.0", "7" } },
    { NULL, { NULL } },
};

static const char *const OF_TRAINING[] = { "output_router_logits", "router_aux_loss_coef", "router_jitter_noise",
                                           "initial_context_length", NULL };

static const pf_architecture ROWS[] = {
    {
        .classes = { "MixtralForCausalLM" },
        .model_types = { "mixtral" },
        .keys = { [PF_KEY_EXPERTS] = { "num_local_experts", "num_experts" } },
        .defaults = { [PF_KEY_POSITIONS] = 131072,
                      [PF_KEY_KV_HEADS] = 8,
                      [PF_KEY_EXPERTS] = 8,
                      [PF_KEY_EXPERTS_USED] = 2 },
        .eps = 1e-5,
        .rope_theta = 1e6,
        .windows = PF_WINDOWS_ALL,
        .ignored = OF_TRAINING,
        .read = pf_config_read_experts,
        .plan = { PF_LLAMA_PLAN, .normalises_experts = true },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS(LAYER),
                     PF_LLAMA_ATTENTION(LAYER), [PF_TENSOR_ROUTER] = { LAYER "block_sparse_moe.gate" },
                     [PF_TENSOR_EXPERT_GATE] = { LAYER "block_sparse_moe.experts.%e.w1" },
                     [PF_TENSOR_EXPERT_UP] = { LAYER "block_sparse_moe.experts.%e.w3" },
                     [PF_TENSOR_EXPERT_DOWN] = { LAYER "block_sparse_moe.experts.%e.w2" } },
    },
    {
        .classes = { "GptOssForCausalLM" },
        .model_types = { "gpt_oss" },
        .keys = { [PF_KEY_EXPERTS] = { "num_local_experts", "num_experts" },
                  [PF_KEY_EXPERTS_USED] = { "num_experts_per_tok", "experts_per_token" } },
        .defaults = { [PF_KEY_POSITIONS] = 131072,
                      [PF_KEY_KV_HEADS] = 8,
                      [PF_KEY_HEAD_DIM] = 64,
                      [PF_KEY_WINDOW] = 128,
                      [PF_KEY_EXPERTS] = 128,
                      [PF_KEY_EXPERTS_USED] = 4 },
        .eps = 1e-5,
        .rope_theta = 150000.0,
        .needs_rope_dict = true,
        .windows = PF_WINDOWS_INTERVAL,
        .window_interval = 2,
        .biases = { { "attention_bias", true, PF_QKVO },
                    PF_ALWAYS(PF_ROLE(ROUTER) | PF_ROLE(EXPERT_GATE) | PF_ROLE(EXPERT_UP) | PF_ROLE(EXPERT_DOWN)) },
        .fixed = GPT_OSS_FIXED,
        .ignored = OF_TRAINING,
        .read = read_gpt_oss,
        .plan = { PF_LLAMA_PLAN, .normalises_experts = true, .softmax_of_chosen = true },
        .tensors = { PF_LLAMA_ENDS, PF_LLAMA_NORMS(LAYER),
                     PF_LLAMA_ATTENTION(LAYER), [PF_TENSOR_SINKS] = { LAYER "self_attn.sinks", .bare = true },
                     [PF_TENSOR_ROUTER] = { LAYER "mlp.router" },
                     [PF_TENSOR_EXPERT_GATE] = { LAYER "mlp.experts.gate_up_proj", PF_LAYOUT_GATE_UP_PAIRS,
                                                 .transposed = true, .stacked = true, .bare = true },
                     [PF_TENSOR_EXPERT_UP] = { LAYER "mlp.experts.gate_up_proj", PF_LAYOUT_GATE_UP_PAIRS,
                                               .transposed = true, .stacked = true, .bare = true },
                     [PF_TENSOR_EXPERT_DOWN] = { LAYER "mlp.experts.down_proj", PF_LAYOUT_PLAIN, .transposed = true,
                                                 .stacked = true, .bare = true } },
    },
};

const pf_architecture_list pf_moe_architectures = PF_LIST(ROWS);
