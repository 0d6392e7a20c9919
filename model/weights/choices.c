#include "model/weights/choices.h"

#include <string.h>

#include "model/head/head_choice.h"

bool pf_model_is_beyond_cache(const pf_model *model, size_t step_bytes)
{
    return model->machine.l3_bytes > 0 && step_bytes > model->machine.l3_bytes;
}

static bool has_own_products(const pf_model_source *src)
{
    return src->options->backend != PF_BACKEND_ONEDNN;
}

/* ---- the weights ------------------------------------------------------------------------------------------------- */

/* The number of weights that a step reads. */
static size_t step_weights(const pf_checkpoint *checkpoint)
{
    const pf_config *config = &checkpoint->config;
    const size_t looked_up = config->tied_embeddings ? 0 : (size_t)config->vocab_size * (size_t)config->embedding_size;
    return (size_t)checkpoint->n_parameters - looked_up;
}

/* In panels as wide as the LM head, padding included; 0: no such panels exist. */
static double bytes_per_weight(const pf_model *m)
{
    pf_gemm_weights panel;
    size_t bytes;
    if (pf_gemm_plan_weights(m->format, PF_GEMM_PANEL, m->config.embedding_size, &panel, &bytes) != PF_OK) return 0.0;
    return (double)bytes / PF_GEMM_PANEL / m->config.embedding_size;
}

/* Whether the twelve-bit product gives the bits of the sixteen-bit one and is fast. */
static bool twelve_is_as_good(const pf_model *m, const pf_model_source *src)
{
    const pf_kernel *twelve = m->kernels.chosen_gemm[PF_FORMAT_BF16_12][PF_ACT_BF16];
    const pf_kernel *sixteen = m->kernels.chosen_gemm[PF_FORMAT_BF16][PF_ACT_BF16];
    return has_own_products(src) && twelve->isa >= PF_ISA_AVX512BF16 &&
           strcmp(twelve->arithmetic, sixteen->arithmetic) == 0;
}

/* AUTO keeps the format of a file that `pilotfish quantize` wrote; pf_dtype_choose decides for others. */
static pf_status resolve_dtype(pf_model *m, const pf_model_source *src, pf_error *error)
{
    const pf_config *config = &src->checkpoint.config;
    const char *directory = src->checkpoint.directory;
    const pf_dtype asked = src->options->dtype;
    m->is_default = asked == PF_DTYPE_AUTO;
    memcpy(m->has_matrices, src->checkpoint.has_matrices, sizeof m->has_matrices);
    if (config->quantized) {
        m->dtype = pf_dtype_of(config->format);
        if (asked == PF_DTYPE_AUTO || asked == m->dtype) return PF_OK;
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: its weights are quantised to %s and cannot be loaded as %s: take auto or %s, or the "
                       "original model",
                       directory, pf_dtype_name(m->dtype), pf_dtype_name(asked), pf_dtype_name(m->dtype));
    }
    const pf_dtype_facts facts = { .has_f32 = m->has_matrices[PF_TYPE_F32],
                                   .twelve_is_as_good = twelve_is_as_good(m, src),
                                   .from_memory =
                                       pf_model_is_beyond_cache(m, step_weights(&src->checkpoint) * sizeof(uint16_t)) };
    const pf_dtype of_file = config->kept_in_f16 ? PF_DTYPE_F16 : pf_dtype_choose(&facts);
    m->dtype = asked != PF_DTYPE_AUTO ? asked : of_file;
    if (m->not_representable_in_12_bits) m->dtype = PF_DTYPE_BF16;
    return PF_OK;
}

/* ---- the head ---------------------------------------------------------------------------------------------------- */

static pf_status resolve_head(pf_model *m, const pf_model_source *src, pf_error *error)
{
    const double weight_bytes = bytes_per_weight(m);
    const double step_bytes = (double)step_weights(&src->checkpoint) * weight_bytes;
    const pf_head_facts facts = { .asked = src->options->head,
                                  .dtype = pf_dtype_name(m->dtype),
                                  .is_integer = pf_format_is_integer(m->format),
                                  .is_f16 = m->dtype == PF_DTYPE_F16,
                                  .is_quantised = src->checkpoint.config.quantized,
                                  .row_type = m->row_type,
                                  .has_own_products = has_own_products(src),
                                  .has_bias = pf_config_has_bias(&m->config, PF_TENSOR_HEAD),
                                  .logit_scale = m->config.plan.logit_scale,
                                  .logit_softcap = m->config.plan.logit_softcap,
                                  .n_vocab = m->config.vocab_size,
                                  .hidden = m->config.embedding_size,
                                  .step_bytes = step_bytes,
                                  .weight_bytes = weight_bytes,
                                  .step_is_from_memory = pf_model_is_beyond_cache(m, (size_t)step_bytes) };
    pf_head kind = PF_HEAD_FULL;
    const char *why_full = NULL;
    pf_error why = { 0 };
    const pf_status status = pf_head_choose(&facts, &kind, &why_full, &why);
    if (status != PF_OK) return pf_fail(error, status, "%s: %s", src->checkpoint.directory, why.text);
    pf_head_begin(&m->head, kind, m->format, m->act, &m->kernels, facts.n_vocab, facts.hidden);
    m->head.why_full = why_full;
    return PF_OK;
}

/* ---- the embedding ----------------------------------------------------------------------------------------------- */

/* The rows of a tied embedding are also in the panels of the LM head, exactly unless these are integers. A separate copy pays
 * where weights fit in the cache: there a step is so short that gathering a row from many cache lines shows. */
static bool keeps_rows(const pf_model *m, const pf_model_source *src)
{
    if (!m->config.tied_embeddings || pf_head_refines(&m->head)) return true;
    if (pf_format_is_integer(m->format) || m->machine.l3_bytes == 0) return false;
    return !pf_model_is_beyond_cache(m, (size_t)((double)step_weights(&src->checkpoint) * bytes_per_weight(m)));
}

pf_status pf_model_choose(pf_model *m, const pf_model_source *src, pf_error *error)
{
    PF_TRY(resolve_dtype(m, src, error));
    m->format = pf_dtype_format(m->dtype);
    m->row_type = pf_format_row_type(m->format);
    pf_error why = { 0 };
    const pf_status status = pf_activations_resolve(m->format, src->options->activations, &m->act, &why);
    if (status != PF_OK) return pf_fail(error, status, "%s: %s", src->checkpoint.directory, why.text);
    PF_TRY(resolve_head(m, src, error));
    m->has_rows = keeps_rows(m, src);
    return PF_OK;
}

bool pf_model_choose_less(pf_model *m, const pf_model_source *src, size_t bytes)
{
    if (!pf_head_takes_too_much(m->head.kind, src->options->head, bytes, m->machine.memory_bytes)) return false;
    pf_head_begin(&m->head, PF_HEAD_FULL, m->format, m->act, &m->kernels, m->head.n_vocab, m->head.hidden);
    return true;
}
