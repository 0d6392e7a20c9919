/*
 * Loads a model directory: chooses the types, lays out the memory, and has packing.c fill it. The files are closed afterwards:
 * a loaded model maps no file.
 */
#include <stdlib.h>

#include "base/checked.h"
#include "model/weights/choices.h"
#include "model/weights/library_products.h"
#include "model/weights/packing.h"

/* ---- layout -------------------------------------------------------------------------------------------------------- */

/* Plans a matrix and takes its memory; one without rows stays zero. In PF_FORMAT_EXACT its groups are set. */
static pf_status lay_out_linear(const pf_model *m, const pf_matrix_recipe *recipe, int32_t layer, pf_format format,
                                pf_linear *linear, pf_arena *arena)
{
    int32_t n = 0, k = 0;
    bool has_bias = false;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        int32_t rows;
        if (!pf_model_has_part(m, recipe->parts[p], layer)) continue;
        pf_config_shape(&m->config, recipe->parts[p], &rows, &k);
        if (__builtin_add_overflow(n, rows, &n)) return PF_LIMIT;
        has_bias |= pf_config_has_bias(&m->config, recipe->parts[p]);
    }
    const pf_group_format groups = linear->weights.groups;
    *linear = (pf_linear){ .weights = { .groups = groups }, .file_type = linear->file_type };
    if (n == 0) return PF_OK;
    size_t bytes;
    if (format == PF_FORMAT_EXACT)
        PF_TRY(pf_gemm_plan_exact(&groups, n, k, &linear->weights, &bytes));
    else
        PF_TRY(pf_gemm_plan_weights(format, n, k, &linear->weights, &bytes));
    linear->weights.panels = pf_arena_take(arena, bytes, 1);
    if (has_bias) linear->bias = pf_arena_take(arena, (size_t)n, sizeof(float));
    return PF_OK;
}

static pf_norm_weights lay_out_norm(const pf_model *m, pf_tensor_role role, pf_arena *arena)
{
    int32_t n, columns;
    if (!m->config.plan.has[role]) return (pf_norm_weights){ NULL, NULL };
    pf_config_shape(&m->config, role, &n, &columns);
    return (pf_norm_weights){
        .weight = pf_arena_take(arena, (size_t)n, sizeof(float)),
        .bias = pf_config_has_bias(&m->config, role) ? pf_arena_take(arena, (size_t)n, sizeof(float)) : NULL,
    };
}

static pf_status lay_out_layer(pf_model *m, int32_t l, pf_arena *arena)
{
    pf_layer *layer = &m->layers[l];
    for (int i = 0; i < PF_N_LAYER_NORMS; i++)
        *pf_layer_norm(layer, i) = lay_out_norm(m, pf_layer_norms[i].role, arena);
    layer->sinks = NULL;
    if (m->config.plan.has[PF_TENSOR_SINKS])
        layer->sinks = pf_arena_take(arena, (size_t)m->config.n_heads, sizeof(float));
    layer->experts = &m->experts[(size_t)l * PF_EXPERT_MATRICES * (size_t)m->config.plan.n_experts];
    for (int32_t i = 0; i < pf_layer_n_matrices(m); i++)
        PF_TRY(lay_out_linear(m, pf_layer_recipe(i), l, pf_layer_format(m, i), pf_layer_matrix(layer, i), arena));
    return PF_OK;
}

/* Assigns memory to every weight. The same function measures and takes. */
static pf_status lay_out(pf_model *m, pf_arena *arena)
{
    const size_t n_vocab = (size_t)m->config.vocab_size, value = pf_type_bytes(m->row_type);
    m->embedding = !m->has_rows ? NULL : pf_arena_take(arena, n_vocab, (size_t)m->config.embedding_size * value);
    if (m->looks_up_groups) PF_TRY(lay_out_linear(m, &pf_embedding_recipe, 0, PF_FORMAT_EXACT, &m->looked_up, arena));
    m->positions = NULL;
    if (m->config.plan.has[PF_TENSOR_POSITIONS])
        m->positions = pf_arena_take(arena, (size_t)m->config.n_positions, (size_t)m->config.hidden_size * value);
    m->embedding_norm = lay_out_norm(m, PF_TENSOR_EMBEDDING_NORM, arena);
    m->final_norm = lay_out_norm(m, PF_TENSOR_FINAL_NORM, arena);
    PF_TRY(lay_out_linear(m, &pf_project_in_recipe, 0, m->format, &m->project_in, arena));
    PF_TRY(lay_out_linear(m, &pf_project_out_recipe, 0, m->format, &m->project_out, arena));
    for (int32_t l = 0; l < m->config.n_layers; l++) PF_TRY(lay_out_layer(m, l, arena));
    pf_head_matrix matrices[PF_HEAD_MATRICES];
    const int32_t n = pf_head_matrices(&m->head, matrices);
    for (int32_t i = 0; i < n; i++)
        PF_TRY(lay_out_linear(m, &pf_head_recipe, 0, matrices[i].format, matrices[i].linear, arena));
    pf_head_lay_out(&m->head, m->config.tied_embeddings ? m->embedding : NULL, arena);
    return PF_OK;
}

/* Sets whether weights are read from memory, and how they are prefetched. */
static void set_hints(const pf_model *m, pf_gemm_weights *w)
{
    w->from_memory = pf_model_is_beyond_cache(m, pf_model_step_bytes(m));
    w->fetch = pf_fetch_of(m->kernels.features);
}
static void set_all_hints(pf_model *m)
{
    for (int32_t l = 0; l < m->config.n_layers; l++)
        for (int32_t i = 0; i < pf_layer_n_matrices(m); i++) set_hints(m, &pf_layer_matrix(&m->layers[l], i)->weights);
    set_hints(m, &m->project_in.weights);
    set_hints(m, &m->project_out.weights);
    set_hints(m, &m->looked_up.weights);
    set_hints(m, &m->head.full.weights);
    set_hints(m, &m->head.coarse.weights);
}

/* The size of all weights. */
static pf_status measure_all(pf_model *m, const pf_model_source *src, size_t *bytes)
{
    pf_arena measure = pf_arena_measure();
    PF_TRY(lay_out(m, &measure));
    *bytes = measure.used;
    return pf_model_choose_less(m, src, measure.used) ? measure_all(m, src, bytes) : PF_OK;
}

static pf_status reserve(pf_model *m, const pf_model_source *src, pf_error *error)
{
    const char *directory = src->checkpoint.directory;
    const size_t memory_bytes = m->machine.memory_bytes;
    size_t bytes;
    if (measure_all(m, src, &bytes) != PF_OK)
        return pf_fail(error, PF_LIMIT,
                       "%s: a matrix is larger than can be addressed, or as %s has longer rows than %d values",
                       directory, pf_dtype_name(m->dtype), PF_GEMM_MAX_INT_K);
    if (memory_bytes > 0 && bytes > memory_bytes)
        return pf_fail(error, PF_LIMIT, "%s: as %s the model takes %zu MiB, and this machine has %zu MiB left",
                       directory, pf_dtype_name(m->dtype), bytes >> 20, memory_bytes >> 20);
    const pf_status status = pf_arena_create(bytes, &m->arena);
    if (status != PF_OK) return pf_fail(error, status, "%s: no memory for %zu MiB of weights", directory, bytes >> 20);
    PF_TRY(lay_out(m, &m->arena));
    set_all_hints(m);
    return PF_OK;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Loads again as plain BF16 if the weights do not fit twelve bits. */
static pf_status reserve_and_load(pf_model *m, pf_model_source *src, pf_error *error)
{
    PF_TRY(reserve(m, src, error));
    PF_TRY(pf_model_load_weights(m, src, error));
    if (!src->met_not_representable) return PF_OK;
    pf_arena_destroy(&m->arena);
    m->not_representable_in_12_bits = true;
    src->met_not_representable = false;
    PF_TRY(pf_model_choose(m, src, error));
    PF_TRY(reserve(m, src, error));
    return pf_model_load_weights(m, src, error);
}

/* ---- the model ----------------------------------------------------------------------------------------------------- */

static pf_status open_model(pf_model *m, const char *directory, pf_model_source *src, pf_error *error)
{
    PF_TRY(pf_kernels_select(src->options->isa, &m->kernels, error));
    src->pack_weights = m->kernels.pack_weights;
    PF_TRY(pf_checkpoint_open(directory, &src->options->policy, src->options->cancel, &src->checkpoint, error));
    if (src->options->machine != NULL)
        m->machine = *src->options->machine;
    else
        PF_TRY(pf_topology_read(&m->machine, error));
    m->config = src->checkpoint.config;
    m->q_dim = m->config.n_heads * m->config.head_dim;
    m->kv_dim = m->config.n_kv_heads * m->config.head_dim;
    m->n_parameters = src->checkpoint.n_parameters;
    PF_TRY(pf_model_choose(m, src, error));
    PF_TRY(pf_library_products_check(&m->config, src->options->backend, m->format, m->act, error));

    const size_t n_experts = (size_t)m->config.n_layers * (size_t)m->config.plan.n_experts;
    m->layers = calloc((size_t)m->config.n_layers, sizeof *m->layers);
    m->experts = calloc(n_experts * PF_EXPERT_MATRICES + 1, sizeof *m->experts);
    if (m->layers == NULL || m->experts == NULL)
        return pf_fail(error, PF_NOMEM, "%s: no memory for %d layers", directory, m->config.n_layers);
    if (m->format == PF_FORMAT_EXACT) pf_model_choose_groups(m, src);
    PF_TRY(reserve_and_load(m, src, error));
    PF_TRY(pf_tensor_source_check(&src->checkpoint.source, error));
    PF_TRY(pf_head_measure(&m->head, src->options->team, &src->walk, error));
    return pf_library_products_attach(m, src->options->backend, src->options->team, error);
}

pf_status pf_model_load(const char *directory, const pf_model_options *options, pf_model **out, pf_error *error)
{
    pf_model *m = calloc(1, sizeof *m);
    if (m == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for a model", directory);
    pf_model_source src = { .options = options };
    const pf_status status = open_model(m, directory, &src, error);
    pf_checkpoint_close(&src.checkpoint);
    if (status != PF_OK) {
        pf_model_release(m);
        return status;
    }
    *out = m;
    return PF_OK;
}

void pf_model_release(pf_model *model)
{
    if (model == NULL) return;
    pf_library_products_detach(model);
    pf_arena_destroy(&model->arena);
    free(model->layers);
    free(model->experts);
    free(model);
}

/* ---- accessors ------------------------------------------------------------------------------------------- */

const pf_config *pf_model_config(const pf_model *model)
{
    return &model->config;
}

const pf_kernels *pf_model_kernels(const pf_model *model)
{
    return &model->kernels;
}

pf_dtype pf_model_dtype(const pf_model *model)
{
    return model->dtype;
}

pf_format pf_model_format(const pf_model *model)
{
    return model->format;
}

pf_act pf_model_act(const pf_model *model)
{
    return model->act;
}

size_t pf_model_packed_bytes(const pf_model *model)
{
    return model->arena.size + pf_library_products_bytes(model->products);
}

int64_t pf_model_parameter_count(const pf_model *model)
{
    return model->n_parameters;
}
