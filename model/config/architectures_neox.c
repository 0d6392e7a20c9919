/* Rows of GPT-NeoX and of the architectures that fuse queries, keys and values as it does. */
#include "model/config/architecture_rows.h"

#define NEOX "gpt_neox.layers.%d."

static pf_status read_neox(pf_reader *r, pf_config *c)
{
    return pf_key_bool(r, "use_parallel_residual", &c->plan.parallel);
}

static const pf_architecture ROWS[] = {
    {
        .classes = { "GPTNeoXForCausalLM" },
        .model_types = { "gpt_neox" },
        .keys = { [PF_KEY_EPS] = { "layer_norm_eps" },
                  [PF_KEY_THETA] = { "rotary_emb_base", "rope_theta" },
                  [PF_KEY_ROTARY_FACTOR] = { "rotary_pct", "partial_rotary_factor" } },
        .defaults = { [PF_KEY_POSITIONS] = 2048 },
        .eps = 1e-5,
        .rope_theta = 1e4,
        .rotary_factor = 0.25,
        .biases = { PF_ALWAYS(PF_NORMS | PF_PLAIN_MLP), { "attention_bias", true, PF_QKVO } },
        .read = read_neox,
        .plan = { .norm = PF_NORM_LAYER,
                  .pre_norm = true,
                  .final_norm = true,
                  .parallel = true,
                  .activation = PF_ACTIVATION_GELU,
                  .positions = PF_POSITIONS_ROTARY },
        .tensors = { [PF_TENSOR_EMBEDDING] = { "gpt_neox.embed_in" },
                     [PF_TENSOR_FINAL_NORM] = { "gpt_neox.final_layer_norm" },
                     [PF_TENSOR_HEAD] = { "embed_out" },
                     PF_LLAMA_NORMS(NEOX),
                     PF_FUSED_QKV(NEOX "attention.query_key_value", PF_LAYOUT_QKV_GROUPS),
                     [PF_TENSOR_O] = { NEOX "attention.dense" },
                     [PF_TENSOR_UP] = { NEOX "mlp.dense_h_to_4h" },
                     [PF_TENSOR_DOWN] = { NEOX "mlp.dense_4h_to_h" } },
    },
};

const pf_architecture_list pf_neox_architectures = PF_LIST(ROWS);
