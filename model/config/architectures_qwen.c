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

/* Qwen 1. Its intermediate_size counts gate and up together. The two ways in which attention and rotation change with the
 * length of a text, use_logn_attn and use_dynamic_ntk, have no effect up to seq_length: no session is longer. */
static pf_status read_qwen(pf_reader *r, pf_config *c)
{
    bool changes_by_length = true, lacks_biases = true;
    PF_TRY(pf_key_bool(r, "use_logn_attn", &changes_by_length));
    PF_TRY(pf_key_bool(r, "use_dynamic_ntk", &changes_by_length));
    r->context_limit = 8192.0;
    PF_TRY(pf_config_read_positions(r->doc, "seq_length", &r->context_limit, r->error));
    (void)pf_key_find(r, "seq_length");
    if (c->intermediate_size % 2 != 0)
        return pf_fail(r->error, PF_FORMAT, "%s: intermediate_size is %d, expected an even number: gate and up",
                       r->doc->name, c->intermediate_size);
    c->intermediate_size /= 2;
    PF_TRY(pf_key_bool(r, "no_bias", &lacks_biases));
    for (int role = 0; role < PF_N_TENSOR_ROLES && !lacks_biases; role++)
        if ((PF_QKVO | PF_GATED_MLP) & (1u << role)) c->plan.has_bias[role] = true;
    return PF_OK;
}

/* In which precision or by which kernel the same is computed. */
static const char *const QWEN_IGNORED[] = {
    "onnx_safe", "bf16", "fp16", "fp32", "use_cache_quantization", "use_cache_kernel", "softmax_in_fp32", NULL
};

static const char *const OF_TRAINING[] = { "output_router_logits", "router_aux_loss_coef", NULL };

#define H "transformer.h.%d."

static const pf_architecture ROWS[] = {
    {
        .classes = { "QWenLMHeadModel" },
        .model_types = { "qwen" },
        .keys = { [PF_KEY_HIDDEN] = { "n_embd" },
                  [PF_KEY_INTERMEDIATE] = { "ffn_hidden_size" },
                  [PF_KEY_LAYERS] = { "n_layer" },
                  [PF_KEY_HEADS] = { "n_head" },
                  [PF_KEY_HEAD_DIM] = { "kv_channels" },
                  [PF_KEY_POSITIONS] = { "n_positions" },
                  [PF_KEY_EPS] = { "layer_norm_epsilon" },
                  [PF_KEY_THETA] = { "rotary_emb_base" },
                  [PF_KEY_ROTARY_FACTOR] = { "rotary_pct" } },
        .defaults = { [PF_KEY_POSITIONS] = 8192, [PF_KEY_HEAD_DIM] = 128 },
        .eps = 1e-6,
        .rope_theta = 1e4,
        .rotary_factor = 1.0,
        .biases = { PF_ALWAYS(PF_QKV) },
        .ignored = QWEN_IGNORED,
        .read = read_qwen,
        .plan = { PF_LLAMA_PLAN },
        .tensors = { [PF_TENSOR_EMBEDDING] = { "transformer.wte" },
                     [PF_TENSOR_FINAL_NORM] = { "transformer.ln_f" },
                     [PF_TENSOR_HEAD] = { "lm_head" },
                     [PF_TENSOR_ATTENTION_NORM] = { H "ln_1" },
                     PF_FUSED_QKV(H "attn.c_attn", PF_LAYOUT_QKV),
                     [PF_TENSOR_O] = { H "attn.c_proj" },
                     [PF_TENSOR_MLP_NORM] = { H "ln_2" },
                     [PF_TENSOR_GATE] = { H "mlp.w2" },
                     [PF_TENSOR_UP] = { H "mlp.w1" },
                     [PF_TENSOR_DOWN] = { H "mlp.c_proj" } },
    },
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
