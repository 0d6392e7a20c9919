#include "model/weights/choices.h"

#include <string.h>

bool pf_model_is_beyond_cache(const pf_model *model, size_t step_bytes)
{
    return model->machine.l3_bytes > 0 && step_bytes > model->machine.l3_bytes;
}

/* ---- the weights ------------------------------------------------------------------------------------------------- */

/* The number of weights that a step reads. */
static size_t step_weights(const pf_checkpoint *checkpoint)
{
    const pf_config *config = &checkpoint->config;
    const size_t looked_up = config->tied_embeddings ? 0 : (size_t)config->vocab_size * (size_t)config->hidden_size;
    return (size_t)checkpoint->n_parameters - looked_up;
}

/* In panels as wide as the LM head, padding included; 0: no such panels exist. */
static double bytes_per_weight(const pf_model *m)
{
    pf_gemm_weights panel;
    size_t bytes;
    if (pf_gemm_plan_weights(m->format, PF_GEMM_PANEL, m->config.hidden_size, &panel, &bytes) != PF_OK) return 0.0;
    return (double)bytes / PF_GEMM_PANEL / m->config.hidden_size;
}

/* Whether the twelve-bit product gives the bits of the sixteen-bit one and is fast. */
static bool twelve_is_as_good(const pf_model *m, const pf_model_source *src)
{
    const pf_kernel *twelve = m->kernels.chosen_gemm[PF_FORMAT_BF16_12][PF_ACT_BF16];
    const pf_kernel *sixteen = m->kernels.chosen_gemm[PF_FORMAT_BF16][PF_ACT_BF16];
    return src->options->backend != PF_BACKEND_ONEDNN && twelve->isa >= PF_ISA_AVX512BF16 &&
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

/* A screened head is quantised at load and keeps BF16 rows. */
static pf_status check_screened(const pf_model *m, const pf_model_source *src, pf_error *error)
{
    const char *directory = src->checkpoint.directory;
    if (src->checkpoint.config.quantized)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: its LM head is quantised to %s and cannot be screened: take a full head, or the original "
                       "model",
                       directory, pf_dtype_name(m->dtype));
    if (m->row_type != PF_TYPE_BF16)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: a screened head is for weights in bf16 or integers, and these are %s", directory,
                       pf_dtype_name(m->dtype));
    if (src->options->backend == PF_BACKEND_ONEDNN)
        return pf_fail(error, PF_UNSUPPORTED, "%s: a screened head is not supported with oneDNN's products", directory);
    return PF_OK;
}

/* Whether a bounded head is worth a second copy: weights are read from memory, and it saves a twentieth of the bytes of a step. */
static bool pays_bounded(const pf_model *m, const pf_model_source *src)
{
    const double per_weight = bytes_per_weight(m);
    const double step = (double)step_weights(&src->checkpoint) * per_weight;
    const double head = (double)m->config.vocab_size * m->config.hidden_size;
    return pf_model_is_beyond_cache(m, (size_t)step) && head * (per_weight - 1.0) >= step / 20.0;
}

/* A bounded head needs weights of at least twice the size of INT8. */
static bool supports_bounded(const pf_model *m, const pf_model_source *src)
{
    return !pf_format_is_integer(m->format) && m->dtype != PF_DTYPE_F16 && src->options->backend != PF_BACKEND_ONEDNN &&
           !pf_config_has_bias(&m->config, PF_TENSOR_HEAD) && m->config.hidden_size <= PF_GEMM_MAX_INT_K;
}

static pf_status resolve_head(pf_model *m, const pf_model_source *src, pf_error *error)
{
    const pf_head asked = src->options->head;
    const pf_head best = supports_bounded(m, src) && pays_bounded(m, src) ? PF_HEAD_BOUNDED : PF_HEAD_FULL;
    m->head_kind = asked == PF_HEAD_AUTO ? best : asked;
    if (asked == PF_HEAD_SCREENED) return check_screened(m, src, error);
    if (asked == PF_HEAD_BOUNDED && !supports_bounded(m, src))
        return pf_fail(
            error, PF_UNSUPPORTED,
            "%s: a bounded head is for weights in f32 or bf16, an LM head without a bias, and not for oneDNN",
            src->checkpoint.directory);
    return PF_OK;
}

/* ---- the embedding ----------------------------------------------------------------------------------------------- */

/* The rows of a tied embedding are also in the panels of the LM head, exactly unless these are integers. A separate copy pays
 * where weights fit in the cache: there a step is so short that gathering a row from many cache lines shows. */
static bool keeps_rows(const pf_model *m, const pf_model_source *src)
{
    if (!m->config.tied_embeddings || m->head_kind == PF_HEAD_SCREENED) return true;
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
    if (m->head_kind != PF_HEAD_BOUNDED || src->options->head != PF_HEAD_AUTO) return false;
    if (bytes <= m->machine.memory_bytes / 4 * 3) return false;
    m->head_kind = PF_HEAD_FULL;
    return true;
}
