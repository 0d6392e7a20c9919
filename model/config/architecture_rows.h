/* Shortens the rows of architectures: the names and constants that many of them share. Internal to model/config. */
#ifndef PF_MODEL_ARCHITECTURE_ROWS_H
#define PF_MODEL_ARCHITECTURE_ROWS_H

#include "model/config/config_parts.h"

#define PF_LIST(rows)                                    \
    {                                                    \
        (rows), (int32_t)(sizeof(rows) / sizeof *(rows)) \
    }

/* Roles that have a bias together. */
#define PF_QKV       (PF_ROLE(Q) | PF_ROLE(K) | PF_ROLE(V))
#define PF_QKVO      (PF_QKV | PF_ROLE(O))
#define PF_GATED_MLP (PF_ROLE(GATE) | PF_ROLE(UP) | PF_ROLE(DOWN))
#define PF_PLAIN_MLP (PF_ROLE(UP) | PF_ROLE(DOWN))
#define PF_NORMS     (PF_ROLE(ATTENTION_NORM) | PF_ROLE(MLP_NORM) | PF_ROLE(FINAL_NORM))
#define PF_ALWAYS(roles)    \
    {                       \
        NULL, true, (roles) \
    }

/* The blocks of a Llama: gated, each behind an RMSNorm. */
#define PF_LLAMA_PLAN                                                                                           \
    .norm = PF_NORM_RMS, .pre_norm = true, .final_norm = true, .gated = true, .activation = PF_ACTIVATION_SILU, \
    .positions = PF_POSITIONS_ROTARY

/* Names of tensors. `layer` is the prefix of those of a layer. */
#define PF_LLAMA_ENDS                                                                            \
    [PF_TENSOR_EMBEDDING] = { "model.embed_tokens" }, [PF_TENSOR_FINAL_NORM] = { "model.norm" }, \
    [PF_TENSOR_HEAD] = { "lm_head" }
#define PF_LLAMA_QKV(layer)                                                                     \
    [PF_TENSOR_Q] = { layer "self_attn.q_proj" }, [PF_TENSOR_K] = { layer "self_attn.k_proj" }, \
    [PF_TENSOR_V] = { layer "self_attn.v_proj" }
#define PF_LLAMA_ATTENTION(layer) PF_LLAMA_QKV(layer), [PF_TENSOR_O] = { layer "self_attn.o_proj" }
#define PF_LLAMA_NORMS(layer)                                                                \
    [PF_TENSOR_ATTENTION_NORM] = { layer "input_layernorm" }, [PF_TENSOR_MLP_NORM] = { layer \
                                                                                       "post_attention_layernorm" }
#define PF_LLAMA_MLP(layer)                                                                 \
    [PF_TENSOR_GATE] = { layer "mlp.gate_proj" }, [PF_TENSOR_UP] = { layer "mlp.up_proj" }, \
    [PF_TENSOR_DOWN] = { layer "mlp.down_proj" }
#define PF_LLAMA_LAYER(layer) PF_LLAMA_NORMS(layer), PF_LLAMA_ATTENTION(layer), PF_LLAMA_MLP(layer)
#define PF_FUSED_QKV(name, layout) \
    [PF_TENSOR_Q] = { name, layout }, [PF_TENSOR_K] = { name, layout }, [PF_TENSOR_V] = { name, layout }

#endif
