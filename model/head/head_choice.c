#include "model/head/head_choice.h"

#include <math.h>

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
    if (f->has_bias)
        return pf_fail(error, PF_UNSUPPORTED,
                       "a screened head is not supported for an LM head with a bias (lm_head.bias)");
    return PF_OK;
}

/* Whether the largest of the scaled logits is the first of the largest before: a power of two changes no other bit of a number.
 * Another factor rounds, and may make two logits equal. */
static bool keeps_order(float scale)
{
    int exponent;
    return scale > 0.0f && frexpf(scale, &exponent) == 0.5f;
}

/* Why the best of what the matrix gives may not be the best logit; or NULL. */
static const char *reordered_because(const pf_head_facts *f)
{
    if (f->has_bias) return "the LM head has a bias (lm_head.bias)";
    if (f->logit_softcap != 0.0f)
        return "logits are capped, which may make two of them equal (final_logit_softcapping)";
    if (!keeps_order(f->logit_scale)) return "logits are scaled by a factor that is no power of two (logit_scale)";
    return NULL;
}

/* A bounded head needs numbers that INT8 has half the bytes of. */
static bool has_fewer_bytes(const pf_head_facts *f)
{
    return !f->is_integer && !f->is_f16 && f->has_own_products && f->hidden <= PF_GEMM_MAX_INT_K;
}

/* Whether the bytes that it saves are worth a second head: they come from memory, and are a twentieth of a step's. */
static bool pays_bounded(const pf_head_facts *f)
{
    const double n_weights = (double)f->n_vocab * f->hidden;
    return f->step_is_from_memory && n_weights * (f->weight_bytes - 1.0) >= f->step_bytes / 20.0;
}

pf_status pf_head_choose(const pf_head_facts *facts, pf_head *kind, const char **why_full, pf_error *error)
{
    const char *reordered = reordered_because(facts);
    const bool pays = has_fewer_bytes(facts) && pays_bounded(facts);
    if (facts->asked == PF_HEAD_SCREENED) PF_TRY(check_screened(facts, error));
    if (facts->asked == PF_HEAD_BOUNDED && !has_fewer_bytes(facts))
        return pf_fail(error, PF_UNSUPPORTED,
                       "a bounded head is for weights in f32 or bf16, an LM head without a bias, and not for oneDNN");
    if (facts->asked == PF_HEAD_BOUNDED && reordered != NULL)
        return pf_fail(error, PF_UNSUPPORTED, "a bounded head is not possible: %s", reordered);
    *kind = facts->asked != PF_HEAD_AUTO ? facts->asked : pays && reordered == NULL ? PF_HEAD_BOUNDED : PF_HEAD_FULL;
    *why_full = facts->asked == PF_HEAD_AUTO && pays ? reordered : NULL;
    return PF_OK;
}

bool pf_head_takes_too_much(pf_head kind, pf_head asked, size_t bytes, size_t memory_bytes)
{
    return kind == PF_HEAD_BOUNDED && asked == PF_HEAD_AUTO && bytes > memory_bytes / 4 * 3;
}
