#include "model/head/head_choice.h"

#include "kernels/gemm/gemm.h"

/* A screened head is rounded from numbers, and keeps them as BF16. */
static pf_status check_screened(const pf_head_facts *f, pf_error *error)
{
    if (f->is_quantised)
        return pf_fail(error, PF_UNSUPPORTED,
                       "its LM head is quantised to %s and cannot be screened: take a full head, or the original model",
                       f->dtype);
    if (f->row_type != PF_TYPE_BF16)
        return pf_fail(error, PF_UNSUPPORTED, "a screened head is for weights in bf16 or integers, and these are %s",
                       f->dtype);
    if (!f->has_own_products)
        return pf_fail(error, PF_UNSUPPORTED, "a screened head is not supported with oneDNN's products");
    return PF_OK;
}

/* A bounded head needs numbers that INT8 has half the bytes of. */
static bool can_be_bounded(const pf_head_facts *f)
{
    return !f->is_integer && !f->is_f16 && f->has_own_products && !f->has_bias && f->hidden <= PF_GEMM_MAX_INT_K;
}

/* Whether the bytes that it saves are worth a second head: they come from memory, and are a twentieth of a step's. */
static bool pays_bounded(const pf_head_facts *f)
{
    const double n_weights = (double)f->n_vocab * f->hidden;
    return f->step_is_from_memory && n_weights * (f->weight_bytes - 1.0) >= f->step_bytes / 20.0;
}

pf_status pf_head_choose(const pf_head_facts *facts, pf_head *kind, pf_error *error)
{
    const pf_head best = can_be_bounded(facts) && pays_bounded(facts) ? PF_HEAD_BOUNDED : PF_HEAD_FULL;
    if (facts->asked == PF_HEAD_SCREENED) PF_TRY(check_screened(facts, error));
    if (facts->asked == PF_HEAD_BOUNDED && !can_be_bounded(facts))
        return pf_fail(error, PF_UNSUPPORTED,
                       "a bounded head is for weights in f32 or bf16, an LM head without a bias, and not for oneDNN");
    *kind = facts->asked == PF_HEAD_AUTO ? best : facts->asked;
    return PF_OK;
}

bool pf_head_takes_too_much(pf_head kind, pf_head asked, size_t bytes, size_t memory_bytes)
{
    return kind == PF_HEAD_BOUNDED && asked == PF_HEAD_AUTO && bytes > memory_bytes / 4 * 3;
}
