/*
 * The layer plan: what a model computes, as data. An architecture's row (architectures.c) and config.json fill it in; loading,
 * memory, `info`, quantisation, the forward pass (model/forward/forward.c) and its naive definition (forward_ref.c) read it.
 *
 *      x = embedding[token] * embedding_scale;  x = PROJECT_IN x if that exists;  x = x + positions[p + position_offset] if learnt;
 *      x = norm(x) if the role EMBEDDING_NORM exists
 *      every layer, two blocks:
 *          attention:   a = pre_norm ? norm(x) : x
 *                       q, k, v = Q a, K a, V a (+ biases), clipped to +-qkv_clip
 *                       q, k = head norm (head_norm), q times its growth, then rotated by the table of the layer, if it has one
 *                       s[t] = attention_scale * q . k[t], capped by attention_softcap, + slope * (t - p), t > p - window
 *                       r = O softmax(s, sink) v (+ bias)
 *          feed-forward: m = pre_norm ? norm(x) : x          parallel: of the x before attention; one_norm: m is a
 *                       r = DOWN (gated ? act(GATE m) * UP m : act(UP m)) (+ biases), or the experts' weighted sum of that
 *          each joins:  x = x + residual_scale * (post_norm ? norm(r) : r);   x = norm(x) if residual_norm
 *      logits = softcap(logit_scale * HEAD norm(x))          PROJECT_OUT before HEAD if that exists
 *
 * Norms, products and roles that a plan does not have cost nothing.
 */
#ifndef PF_MODEL_PLAN_H
#define PF_MODEL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/act/activation.h"

/* The role of a tensor. The comment gives the shape of what the pass multiplies, [out, in], however the file has it. */
typedef enum {
    PF_TENSOR_EMBEDDING,      /* [vocab_size, embedding_size] */
    PF_TENSOR_POSITIONS,      /* [n_positions, hidden_size] learnt positions, only looked up */
    PF_TENSOR_EMBEDDING_NORM, /* [hidden_size] */
    PF_TENSOR_PROJECT_IN,     /* [hidden_size, embedding_size] */
    PF_TENSOR_PROJECT_OUT,    /* [embedding_size, hidden_size] */
    PF_TENSOR_FINAL_NORM,     /* [hidden_size] */
    PF_TENSOR_HEAD,           /* as EMBEDDING; not read with tied_embeddings, or the only name of both (checkpoint.h) */
    PF_TENSOR_ATTENTION_NORM, /* [hidden_size]; this and all below: one a layer */
    PF_TENSOR_Q,              /* [n_heads * head_dim, hidden_size] */
    PF_TENSOR_K,              /* [n_kv_heads * head_dim, hidden_size] */
    PF_TENSOR_V,              /* as K */
    PF_TENSOR_Q_NORM,         /* [head_dim], or [n_heads * head_dim] (pf_head_norm) */
    PF_TENSOR_K_NORM,         /* [head_dim], or [n_kv_heads * head_dim] */
    PF_TENSOR_SINKS,          /* [n_heads] */
    PF_TENSOR_O,              /* [hidden_size, n_heads * head_dim] */
    PF_TENSOR_ATTENTION_POST, /* [hidden_size] the norm of what attention gives, or of the residual behind it */
    PF_TENSOR_MLP_NORM,       /* [hidden_size] */
    PF_TENSOR_GATE,           /* [intermediate_size, hidden_size] */
    PF_TENSOR_UP,             /* as GATE */
    PF_TENSOR_DOWN,           /* [hidden_size, intermediate_size] */
    PF_TENSOR_ROUTER,         /* [n_experts, hidden_size] */
    PF_TENSOR_EXPERT_GATE,    /* [expert_size, hidden_size]; one an expert */
    PF_TENSOR_EXPERT_UP,      /* as EXPERT_GATE */
    PF_TENSOR_EXPERT_DOWN,    /* [hidden_size, expert_size] */
    PF_TENSOR_SHARED_ROUTER,  /* [1, hidden_size] the gate of the shared expert: a sigmoid */
    PF_TENSOR_SHARED_GATE,    /* [shared_size, hidden_size] */
    PF_TENSOR_SHARED_UP,      /* as SHARED_GATE */
    PF_TENSOR_SHARED_DOWN,    /* [hidden_size, shared_size] */
    PF_TENSOR_MLP_POST,       /* [hidden_size] as ATTENTION_POST */
    PF_N_TENSOR_ROLES,
    PF_FIRST_LAYER_ROLE = PF_TENSOR_ATTENTION_NORM,
} pf_tensor_role;

/* One tensor of the plan. layer: 0 where the role is not one of a layer; expert: 0 where it is not one of an expert, and the
 * head where there is a tensor a head. */
typedef struct {
    pf_tensor_role role;
    int32_t layer, expert;
} pf_tensor_id;

static inline bool pf_role_is_of_expert(pf_tensor_role role)
{
    return role >= PF_TENSOR_EXPERT_GATE && role <= PF_TENSOR_EXPERT_DOWN;
}

/* How the rows of a role lie in the file's tensor. */
typedef enum {
    PF_LAYOUT_PLAIN,      /* they are its rows */
    PF_LAYOUT_QKV,        /* all of Q, then of K, then of V */
    PF_LAYOUT_QKV_GROUPS, /* for each key head: its queries, its key, its value (GPT-NeoX, BLOOM, Falcon, InternLM2) */
    PF_LAYOUT_QVK_QUARTERS,  /* four times: a quarter of Q, of V, of K (CodeGen, MOSS) */
    PF_LAYOUT_GATE_UP,       /* all of GATE, then of UP */
    PF_LAYOUT_UP_GATE,       /* all of UP, then of GATE */
    PF_LAYOUT_GATE_UP_PAIRS, /* a row of GATE, a row of UP, ... (gpt-oss) */
} pf_tensor_layout;

/* Where a role is found in the files of an architecture. */
typedef struct {
    const char *
        name; /* without ".weight"; %d: the layer, %e: the expert, %h: the head. NULL: the architecture has no such tensor */
    pf_tensor_layout layout;
    bool transposed; /* the file has [in, out] (GPT-2's Conv1D) */
    bool stacked;    /* one tensor holds all experts, outermost (gpt-oss) */
    bool per_head;   /* a norm of heads: one tensor a head, %h in the name (StableLM 2) */
    bool bare;       /* the weight has no ".weight" behind its name, the bias "_bias" */
} pf_tensor_pattern;

typedef enum {
    PF_NORM_RMS,          /* x / rms(x) * w */
    PF_NORM_RMS_PLUS_ONE, /* x / rms(x) * (1 + w): Gemma */
    PF_NORM_LAYER,        /* (x - mean) / deviation * w + b */
} pf_norm_kind;

/* The norm of queries and keys before they are rotated. */
typedef enum {
    PF_HEAD_NORM_NONE,
    PF_HEAD_NORM_SHARED, /* each head by itself, one weight [head_dim] for all (Qwen3, Gemma 3) */
    PF_HEAD_NORM_EACH,   /* each head by itself, with weights of its own (Cohere, StableLM 2) */
    PF_HEAD_NORM_WHOLE,  /* all heads of a row together (OLMo 2) */
} pf_head_norm;

typedef enum {
    PF_POSITIONS_ROTARY, /* layers name their table */
    PF_POSITIONS_LEARNT, /* POSITIONS is added to the embedding */
    PF_POSITIONS_ALIBI,  /* a slope a head (pf_config_alibi_slopes) */
    PF_POSITIONS_NONE,
} pf_positions;

/* How ALiBi's slopes follow from the number of heads. Where that is a power of two all agree. */
typedef enum {
    PF_ALIBI_PAPER, /* as the paper's code: the rest is every second slope of twice as many heads (BLOOM, Falcon, Baichuan) */
    PF_ALIBI_STRIDE, /* the slopes of the next power of two, odd ones first (MPT) */
} pf_alibi;

enum { PF_MAX_LAYER_KINDS = 8, PF_MAX_ROPES = 2, PF_MAX_EXPERTS = 1 << 10 };

/* What layers of one model may differ in. */
typedef struct {
    int32_t window; /* keys that a row sees, its own included; 0: all */
    int8_t rope;    /* the rotary table: 0 .. PF_MAX_ROPES - 1; -1: queries and keys are not rotated */
    bool experts;   /* the feed-forward block has experts */
} pf_layer_kind;

typedef struct {
    pf_norm_kind norm; /* of all norms but those of heads */
    pf_norm_kind head_norm_kind;
    pf_head_norm head_norm;
    bool pre_norm;      /* blocks read norm(x); else x */
    bool post_norm;     /* what a block gives is normed before it is added */
    bool residual_norm; /* x is normed after a block is added (OPT-350m) */
    bool parallel;      /* both blocks read x as it was before the layer */
    bool one_norm;      /* parallel: one norm for both */
    bool final_norm;    /* behind the last layer */
    bool gated;         /* the feed-forward block: GATE and UP; else UP alone */
    pf_activation activation;
    pf_positions positions;
    pf_alibi alibi;
    float alibi_scale;       /* factor of every slope; 1 but for Falcon */
    int32_t position_offset; /* rows of POSITIONS before position 0 (OPT: 2) */
    bool rope_interleaved;   /* pairs (2i, 2i + 1); else (i, i + rotary_dim / 2) */
    float embedding_scale;   /* 1: none */
    float residual_scale;    /* of what a block gives; 1: none */
    float attention_scale;   /* usually 1 / sqrt(head_dim) */
    float attention_softcap; /* 0: none */
    /* The query of position p is multiplied by 1 + query_growth * log(1 + p / query_growth_step), where the quotient is a whole
     * number (Ministral 3). 0: none */
    float query_growth;
    int32_t query_growth_step;
    float qkv_clip;       /* 0: none */
    float logit_scale;    /* 1: none */
    float logit_softcap;  /* 0: none */
    bool normalised_head; /* the head's rows have norm 1 (Baichuan 2) */

    /* Experts. */
    int32_t n_experts, n_experts_used; /* 0: none */
    int32_t expert_size, shared_size;  /* of their intermediate rows; shared_size 0: no shared expert */
    bool normalises_experts;           /* the weights of the chosen ones are divided by their sum */
    bool softmax_of_chosen;            /* the softmax is over the chosen ones alone (gpt-oss) */

    bool has_bias[PF_N_TENSOR_ROLES]; /* of the roles that exist */
    bool has[PF_N_TENSOR_ROLES];      /* the roles that exist; in layers see pf_config_has */

    int32_t n_kinds;
    pf_layer_kind kinds[PF_MAX_LAYER_KINDS]; /* [n_kinds] */
} pf_plan;

#endif
