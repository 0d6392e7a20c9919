/* Which plans the kernels of verify/cuda/ compute. */
#include "verify/cuda/cuda_backend.h"

typedef struct {
    bool is_met;
    const char *what;
} demand;

pf_status pf_cuda_check_plan(const char *path, const pf_config *c, pf_error *error)
{
    const pf_plan *plan = &c->plan;
    const bool rotates = plan->positions == PF_POSITIONS_ROTARY || plan->positions == PF_POSITIONS_NONE;
    const demand demands[] = {
        { plan->n_experts > 0, "experts" },
        { plan->positions == PF_POSITIONS_ALIBI, "ALiBi" },
        { !rotates && plan->positions != PF_POSITIONS_ALIBI, "learnt positions" },
        { plan->has[PF_TENSOR_SINKS], "attention sinks" },
        { plan->parallel, "parallel blocks" },
        { plan->residual_norm, "norms of the residual" },
        { plan->has[PF_TENSOR_PROJECT_IN] || plan->has[PF_TENSOR_PROJECT_OUT], "projections of the embedding" },
        { plan->has[PF_TENSOR_EMBEDDING_NORM], "a norm of the embedding" },
        { plan->head_norm == PF_HEAD_NORM_EACH || plan->head_norm == PF_HEAD_NORM_WHOLE,
          "norms of queries and keys with weights for each head" },
        { plan->qkv_clip > 0.0f, "clipped queries and keys" },
        { plan->query_growth > 0.0f, "queries that grow with the position" },
        { plan->activation != PF_ACTIVATION_SILU && plan->activation != PF_ACTIVATION_GELU &&
              plan->activation != PF_ACTIVATION_GELU_TANH && plan->activation != PF_ACTIVATION_RELU,
          "its activation" },
        { c->head_dim > PF_CUDA_MOST_HEAD_DIM, "heads of more than 256 dimensions" },
    };
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++)
        if (demands[i].is_met)
            return pf_fail(error, PF_UNSUPPORTED, "%s: %s has %s, which the CUDA backend does not compute", path,
                           pf_architecture_name(c->architecture), demands[i].what);
    return PF_OK;
}
