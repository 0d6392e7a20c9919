#include "model/weights/choices.h"

#include <stdio.h>
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

/* ---- groups of others -------------------------------------------------------------------------------------------- */

/* A matrix of the model, and the groups that hold all its parts. */
typedef struct {
    const pf_matrix_recipe *recipe;
    int32_t layer, expert;
    pf_group_format groups;
    const char *file_type;
    pf_tensor_id without; /* where there are none: the first part without */
} grouped_matrix;

/* Finds the groups of a matrix. False: a part has none. */
static bool find_groups(const pf_model *m, const pf_checkpoint *checkpoint, grouped_matrix *matrix)
{
    const char *first_type = NULL, *type = NULL;
    for (int32_t p = 0; p < matrix->recipe->n_parts; p++) {
        const pf_tensor_role part = matrix->recipe->parts[p];
        const pf_tensor_role role = part == PF_TENSOR_HEAD ? pf_config_head_role(&m->config) : part;
        const pf_tensor_id id = { role, matrix->layer, matrix->expert };
        if (!pf_model_has_part(m, part, matrix->layer)) continue;
        pf_group_format groups;
        matrix->without = id;
        if (!pf_checkpoint_groups(checkpoint, id, &groups, &type)) return false;
        matrix->groups = first_type == NULL ? groups : pf_group_format_of_both(&matrix->groups, &groups);
        matrix->file_type = first_type == NULL || first_type == type ? type : "several types";
        if (first_type == NULL) first_type = type;
    }
    return true;
}

/* Calls `visit` for each matrix that is multiplied in the model's format, but the head. False: `visit` gave false. */
static bool visit_matrices(pf_model *m, const pf_checkpoint *checkpoint,
                           bool (*visit)(pf_model *m, const pf_checkpoint *checkpoint, grouped_matrix *matrix,
                                         pf_linear *linear))
{
    grouped_matrix in = { .recipe = &pf_project_in_recipe }, out = { .recipe = &pf_project_out_recipe };
    if (!visit(m, checkpoint, &in, &m->project_in) || !visit(m, checkpoint, &out, &m->project_out)) return false;
    for (int32_t l = 0; l < m->config.n_layers; l++)
        for (int32_t i = 0; i < pf_layer_n_matrices(m); i++) {
            grouped_matrix matrix = { .recipe = pf_layer_recipe(i), .layer = l, .expert = pf_layer_expert(i) };
            if (i == PF_MATRIX_ROUTER) continue;
            if (!visit(m, checkpoint, &matrix, m->layers != NULL ? pf_layer_matrix(&m->layers[l], i) : NULL))
                return false;
        }
    return true;
}

static bool has_groups(pf_model *m, const pf_checkpoint *checkpoint, grouped_matrix *matrix, pf_linear *linear)
{
    char name[PF_MAX_TENSOR_NAME];
    (void)linear;
    if (find_groups(m, checkpoint, matrix)) return true;
    pf_checkpoint_name(checkpoint, matrix->without, "weight", name);
    snprintf(m->not_exact, sizeof m->not_exact, "tensor \"%.100s\" has no groups of integers", name);
    return false;
}

static bool set_groups(pf_model *m, const pf_checkpoint *checkpoint, grouped_matrix *matrix, pf_linear *linear)
{
    (void)find_groups(m, checkpoint, matrix); /* it was checked */
    linear->weights.groups = matrix->groups;
    linear->file_type = matrix->file_type;
    return true;
}

void pf_model_choose_groups(pf_model *m, const pf_model_source *src)
{
    grouped_matrix head = { .recipe = &pf_head_recipe }, looked_up = { .recipe = &pf_embedding_recipe };
    for (int32_t l = 0; l < m->config.n_layers; l++)
        m->layers[l].experts = &m->experts[(size_t)l * PF_EXPERT_MATRICES * (size_t)m->config.plan.n_experts];
    (void)visit_matrices(m, &src->checkpoint, set_groups);
    if (m->head.format == PF_FORMAT_EXACT) (void)set_groups(m, &src->checkpoint, &head, &m->head.full);
    if (m->looks_up_groups) (void)set_groups(m, &src->checkpoint, &looked_up, &m->looked_up);
}

/* The head's own format: numbers beside a model in groups stay numbers. */
static pf_format head_format(const pf_model *m, const pf_model_source *src)
{
    const char *type;
    pf_group_format groups;
    pf_tensor tensor;
    const pf_tensor_id id = { .role = pf_config_head_role(&m->config) };
    if (m->format != PF_FORMAT_EXACT || m->config.plan.normalised_head)
        return m->format == PF_FORMAT_EXACT ? PF_FORMAT_F32 : m->format;
    if (pf_checkpoint_groups(&src->checkpoint, id, &groups, &type)) return PF_FORMAT_EXACT;
    const bool is_bf16 = pf_checkpoint_tensor(&src->checkpoint, id, "weight", &tensor, NULL) == PF_OK &&
                         tensor.blocks == PF_GGML_F32 && tensor.type == PF_TYPE_BF16;
    return is_bf16 && m->act != PF_ACT_F32 ? PF_FORMAT_BF16 : PF_FORMAT_F32;
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
static double bytes_per_weight(const pf_model *m, const pf_model_source *src)
{
    if (m->format == PF_FORMAT_EXACT) return (double)src->checkpoint.n_bytes / (double)src->checkpoint.n_parameters;
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

/* A model of fewer weights loses more by INT8 activations than their speed is worth: SmolLM2-135M in Q4_1 answers other than in F32
 * (docs/numerics.md). */
enum { FEWEST_WEIGHTS_OF_INT8 = 250 * 1000 * 1000 };

/* Whether AUTO holds the groups of the file; or, where they are asked for, whether it can. */
static bool holds_groups(pf_model *m, const pf_model_source *src)
{
    const pf_activations act = src->options->activations;
    const pf_dtype asked = src->options->dtype;
    if (asked != PF_DTYPE_AUTO && asked != PF_DTYPE_EXACT) return false;
    m->not_exact[0] = '\0';
    if (asked == PF_DTYPE_EXACT) return visit_matrices(m, &src->checkpoint, has_groups);
    if (!src->checkpoint.has_groups || !has_own_products(src)) return false;
    if (act == PF_ACTIVATIONS_BF16) return false;
    return visit_matrices(m, &src->checkpoint, has_groups);
}

/* The activations of a model, in the format that was chosen. AUTO with AUTO weights makes those of small models F32. */
static pf_status resolve_activations(pf_model *m, const pf_model_source *src, pf_error *error)
{
    const pf_activations asked = src->options->activations;
    m->act_reason = asked == PF_ACTIVATIONS_AUTO ? "the default" : "asked for";
    if (asked == PF_ACTIVATIONS_AUTO && m->is_default && m->format == PF_FORMAT_EXACT &&
        step_weights(&src->checkpoint) < FEWEST_WEIGHTS_OF_INT8) {
        m->act = PF_ACT_F32;
        m->act_reason = "int8 costs a model of less than 250 million weights too much";
        return PF_OK;
    }
    pf_error why = { 0 };
    const pf_status status = pf_activations_resolve(m->format, asked, &m->act, &why);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s: %s", src->checkpoint.directory, why.text);
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
    if (holds_groups(m, src)) {
        m->dtype = PF_DTYPE_EXACT;
        return PF_OK;
    }
    if (asked == PF_DTYPE_EXACT)
        return pf_fail(error, PF_UNSUPPORTED, "%s: as exact it cannot be loaded: %s", directory, m->not_exact);
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
    const double weight_bytes = bytes_per_weight(m, src);
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
    const pf_format format = head_format(m, src);
    const pf_act act = format == m->format ? m->act : pf_format_get(format)->act;
    pf_head kind = PF_HEAD_FULL;
    const char *why_full = NULL;
    pf_error why = { 0 };
    const pf_status status = pf_head_choose(&facts, &kind, &why_full, &why);
    if (status != PF_OK) return pf_fail(error, status, "%s: %s", src->checkpoint.directory, why.text);
    pf_head_begin(&m->head, kind, format, act, &m->kernels, facts.n_vocab, facts.hidden);
    m->head.why_full = why_full;
    return PF_OK;
}

/* ---- the embedding ----------------------------------------------------------------------------------------------- */

/* The rows of a tied embedding are also in the panels of the LM head, exactly unless these are integers. A separate copy pays
 * where weights fit in the cache: there a step is so short that gathering a row from many cache lines shows. */
static bool keeps_rows(const pf_model *m, const pf_model_source *src)
{
    if (m->looks_up_groups || (m->format == PF_FORMAT_EXACT && m->config.tied_embeddings)) return false;
    if (!m->config.tied_embeddings || pf_head_refines(&m->head)) return true;
    if (pf_format_is_integer(m->format) || m->machine.l3_bytes == 0) return false;
    return !pf_model_is_beyond_cache(m, (size_t)((double)step_weights(&src->checkpoint) * bytes_per_weight(m, src)));
}

pf_status pf_model_choose(pf_model *m, const pf_model_source *src, pf_error *error)
{
    PF_TRY(resolve_dtype(m, src, error));
    m->format = pf_dtype_format(m->dtype);
    m->row_type = m->format == PF_FORMAT_EXACT ? PF_TYPE_F32 : pf_format_row_type(m->format);
    PF_TRY(resolve_activations(m, src, error));
    PF_TRY(resolve_head(m, src, error));
    const char *type;
    pf_group_format groups;
    m->looks_up_groups =
        m->format == PF_FORMAT_EXACT && !m->config.tied_embeddings &&
        pf_checkpoint_groups(&src->checkpoint, (pf_tensor_id){ .role = PF_TENSOR_EMBEDDING }, &groups, &type);
    m->has_rows = keeps_rows(m, src);
    return PF_OK;
}

bool pf_model_choose_less(pf_model *m, const pf_model_source *src, size_t bytes)
{
    if (!pf_head_takes_too_much(m->head.kind, src->options->head, bytes, m->machine.memory_bytes)) return false;
    pf_head_begin(&m->head, PF_HEAD_FULL, m->format, m->act, &m->kernels, m->head.n_vocab, m->head.hidden);
    return true;
}
