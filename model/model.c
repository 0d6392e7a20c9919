/*
 * Loading: each matrix of the checkpoint is packed once for the kernels that were chosen. When it is done the files are
 * closed: nothing of a model is mapped.
 *
 * Panels are packed by the members of the team that will read them, so each page is first touched where it is needed.
 * A member goes through its rows in stretches of a few megabytes and gives the file's pages back behind each, so that
 * the raw weights and the packed ones do not add up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/topology.h"
#include "model/checkpoint.h"
#include "kernels/gemm/gemm_onednn.h"
#include "model/weights.h"

/* What is being loaded, and how far it is. */
typedef struct {
    pf_checkpoint checkpoint;
    const pf_model_options *options;
    size_t done_bytes;
    pf_gemm_pack_weights_fn *pack_weights;
    bool beyond_twelve; /* a matrix was met that bf16-12 cannot hold */
} source;

/* ---- which types ------------------------------------------------------------------------------------------------- */

/* What a step reads in BF16, biases and norms apart. */
static size_t plain_bytes(const pf_checkpoint *checkpoint)
{
    const pf_config *config = &checkpoint->config;
    const size_t looked_up = config->tied_embeddings ? 0 : (size_t)config->vocab_size * (size_t)config->hidden_size;
    return ((size_t)checkpoint->n_parameters - looked_up) * sizeof(uint16_t);
}

/* Whether twelve bits have the bits of sixteen here, and a fast product. */
static bool twelve_is_as_good(const pf_model *m, const source *src)
{
    const pf_kernel *twelve = m->kernels.chosen_gemm[PF_FORMAT_BF16_12][PF_ACT_BF16];
    const pf_kernel *sixteen = m->kernels.chosen_gemm[PF_FORMAT_BF16][PF_ACT_BF16];
    return src->options->backend != PF_BACKEND_ONEDNN && twelve->isa >= PF_ISA_AVX512BF16 &&
           strcmp(twelve->arithmetic, sixteen->arithmetic) == 0;
}

/* AUTO keeps the precision of the file, and of one that is quantised the format. */
static pf_status resolve_dtype(pf_model *m, const source *src, pf_error *error)
{
    const pf_config *config = &src->checkpoint.config;
    const char *directory = src->checkpoint.directory;
    const pf_dtype asked = src->options->dtype;
    m->is_default = asked == PF_DTYPE_AUTO;
    m->file_type = PF_TYPE_F32;
    if (config->quantized) {
        m->dtype = pf_dtype_of(config->format);
        if (asked == PF_DTYPE_AUTO || asked == m->dtype) return PF_OK;
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: its weights were quantised to %s and cannot be had in %s: take auto or %s, or the model "
                       "that they were made of",
                       directory, pf_dtype_name(m->dtype), pf_dtype_name(asked), pf_dtype_name(m->dtype));
    }
    pf_tensor embedding;
    PF_TRY(pf_checkpoint_numbers(&src->checkpoint, PF_TENSOR_EMBEDDING, 0, "weight", &embedding, error));
    m->file_type = embedding.type;
    pf_topology machine;
    PF_TRY(pf_topology_read(&machine, error));
    const pf_dtype_facts facts = { .file = m->file_type,
                                   .twelve_is_as_good = twelve_is_as_good(m, src),
                                   .plain_bytes = plain_bytes(&src->checkpoint),
                                   .cache_bytes = machine.l3_bytes };
    m->dtype = asked != PF_DTYPE_AUTO ? asked : pf_dtype_choose(&facts);
    return PF_OK;
}

static pf_status resolve_types(pf_model *m, const source *src, pf_error *error)
{
    PF_TRY(resolve_dtype(m, src, error));
    m->format = pf_dtype_format(m->dtype);
    m->row_type = pf_format_row_type(m->format);
    pf_error why = { 0 };
    const pf_status status = pf_activations_resolve(m->format, src->options->activations, &m->act, &why);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "%s: %s", src->checkpoint.directory, why.text);
}

/* ---- layout -------------------------------------------------------------------------------------------------------- */

const pf_matrix_recipe pf_layer_recipes[PF_N_LAYER_MATRICES] = {
    [PF_MATRIX_QKV] = { offsetof(pf_layer, qkv), 3, { PF_TENSOR_Q, PF_TENSOR_K, PF_TENSOR_V } },
    [PF_MATRIX_O] = { offsetof(pf_layer, o), 1, { PF_TENSOR_O } },
    [PF_MATRIX_GATE] = { offsetof(pf_layer, gate), 1, { PF_TENSOR_GATE } },
    [PF_MATRIX_UP] = { offsetof(pf_layer, up), 1, { PF_TENSOR_UP } },
    [PF_MATRIX_DOWN] = { offsetof(pf_layer, down), 1, { PF_TENSOR_DOWN } },
};
const pf_matrix_recipe pf_head_recipe = { 0, 1, { PF_TENSOR_HEAD } };

/* Plan a matrix and take its memory. */
static pf_status lay_out_linear(const pf_model *m, const pf_matrix_recipe *recipe, pf_linear *linear, pf_arena *arena)
{
    int32_t n = 0, k = 0;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        int32_t rows;
        pf_config_shape(&m->config, recipe->parts[p], &rows, &k);
        if (__builtin_add_overflow(n, rows, &n)) return PF_LIMIT;
    }
    size_t bytes;
    PF_TRY(pf_gemm_plan_weights(m->format, n, k, &linear->weights, &bytes));
    linear->weights.panels = pf_arena_take(arena, bytes, 1);
    linear->bias = NULL;
    if (pf_config_has_bias(&m->config, recipe->parts[0])) linear->bias = pf_arena_take(arena, (size_t)n, sizeof(float));
    return PF_OK;
}

/* Give every weight its place: the same walk measures and takes. */
static pf_status lay_out(pf_model *m, pf_arena *arena)
{
    const size_t hidden = (size_t)m->config.hidden_size;
    m->embedding = NULL;
    if (!m->config.tied_embeddings)
        m->embedding = pf_arena_take(arena, (size_t)m->config.vocab_size, hidden * pf_type_bytes(m->row_type));
    m->final_norm = pf_arena_take(arena, hidden, sizeof(float));
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        pf_layer *layer = &m->layers[l];
        layer->attention_norm = pf_arena_take(arena, hidden, sizeof(float));
        layer->mlp_norm = pf_arena_take(arena, hidden, sizeof(float));
        for (int i = 0; i < PF_N_LAYER_MATRICES; i++)
            PF_TRY(lay_out_linear(m, &pf_layer_recipes[i], pf_layer_matrix(layer, i), arena));
    }
    return lay_out_linear(m, &pf_head_recipe, &m->head, arena);
}

/* All matrices there are, layer after layer, and the head. */
static int32_t n_matrices(const pf_model *m)
{
    return m->layers == NULL ? 0 : m->config.n_layers * PF_N_LAYER_MATRICES + 1;
}
static pf_gemm_weights *matrix(pf_model *m, int32_t i)
{
    const int32_t l = i / PF_N_LAYER_MATRICES;
    return l == m->config.n_layers ? &m->head.weights
                                   : &pf_layer_matrix(&m->layers[l], i % PF_N_LAYER_MATRICES)->weights;
}

static void note_where_weights_lie(pf_model *m, size_t cache_bytes)
{
    const bool from_memory = cache_bytes > 0 && pf_model_step_bytes(m) > cache_bytes;
    for (int32_t i = 0; i < n_matrices(m); i++) matrix(m, i)->from_memory = from_memory;
}

static pf_status reserve(pf_model *m, const source *src, pf_error *error)
{
    const char *directory = src->checkpoint.directory;
    pf_arena measure = pf_arena_measure();
    pf_topology machine;
    if (lay_out(m, &measure) != PF_OK)
        return pf_fail(error, PF_LIMIT,
                       "%s: a matrix is larger than can be addressed, or as %s has longer rows than %d values",
                       directory, pf_dtype_name(m->dtype), PF_GEMM_MAX_INT_K);
    PF_TRY(pf_topology_read(&machine, error));
    if (machine.memory_bytes > 0 && measure.used > machine.memory_bytes)
        return pf_fail(error, PF_LIMIT, "%s: as %s the model takes %zu MiB, and this machine has %zu MiB", directory,
                       pf_dtype_name(m->dtype), measure.used >> 20, machine.memory_bytes >> 20);
    const pf_status status = pf_arena_create(measure.used, &m->arena);
    if (status != PF_OK)
        return pf_fail(error, status, "%s: no memory for %zu MiB of weights", directory, measure.used >> 20);
    PF_TRY(lay_out(m, &m->arena));
    note_where_weights_lie(m, machine.l3_bytes);
    return PF_OK;
}

/* ---- vectors ------------------------------------------------------------------------------------------------------- */

static void report_progress(source *src, size_t bytes)
{
    src->done_bytes += bytes;
    if (src->options->progress != NULL)
        src->options->progress(src->options->progress_user, src->done_bytes, src->checkpoint.n_bytes);
}

static pf_status load_vector(source *src, pf_tensor_role role, int32_t layer, const char *part, float *out,
                             pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(pf_checkpoint_numbers(&src->checkpoint, role, layer, part, &tensor, error));
    for (int64_t i = 0; i < tensor.shape[0]; i++) out[i] = pf_tensor_element(tensor.data, tensor.type, (size_t)i);
    report_progress(src, tensor.data_bytes);
    return PF_OK;
}

/* ---- f16 ----------------------------------------------------------------------------------------------------------- */

/* What --dtype f16 leaves of F32 values that come from a file in another type. */
static void round_to_f16(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) values[i] = pf_f16_to_f32(pf_f16_from_f32(values[i]));
}

/* ---- the embedding's rows ------------------------------------------------------------------------------------------ */

typedef struct {
    const pf_model *model;
    const pf_checkpoint *checkpoint;
    pf_gemm_source rows;
} embedding_job;

/* Elements [begin, end) of the table. */
static void convert_elements(const embedding_job *job, size_t begin, size_t end)
{
    const void *from = job->rows.data;
    const pf_type type = job->rows.type;
    if (type == job->model->row_type) {
        const size_t bytes = pf_type_bytes(type);
        memcpy((char *)job->model->embedding + begin * bytes, (const char *)from + begin * bytes,
               (end - begin) * bytes);
    } else if (job->model->row_type == PF_TYPE_F32) {
        float *out = job->model->embedding;
        for (size_t i = begin; i < end; i++) out[i] = pf_tensor_element(from, type, i);
    } else {
        uint16_t *out = job->model->embedding;
        for (size_t i = begin; i < end; i++) out[i] = pf_bf16_from_f32(pf_tensor_element(from, type, i));
    }
    if (job->model->dtype == PF_DTYPE_F16 && type != PF_TYPE_F16)
        round_to_f16((float *)job->model->embedding + begin, end - begin);
}

static void convert_share(pf_member member, void *arg)
{
    const embedding_job *job = arg;
    const int32_t stretch = pf_checkpoint_stretch(job->checkpoint, &job->rows, 1);
    const size_t hidden = job->rows.stride;
    int32_t begin, end;
    pf_team_share(member, job->rows.n_rows, &begin, &end);
    for (int32_t to; begin < end; begin = to) {
        to = end - begin > stretch ? begin + stretch : end;
        (void)pf_checkpoint_acquire_rows(job->checkpoint, &job->rows, begin, to, PF_FORMAT_F32); /* only looked up */
        convert_elements(job, (size_t)begin * hidden, (size_t)to * hidden);
        pf_checkpoint_release_rows(job->checkpoint, &job->rows, begin, to);
    }
}

static pf_status load_embedding(const pf_model *m, source *src, pf_error *error)
{
    if (m->embedding == NULL) return PF_OK;
    embedding_job job = { .model = m, .checkpoint = &src->checkpoint };
    PF_TRY(pf_checkpoint_matrix(&src->checkpoint, PF_TENSOR_EMBEDDING, 0, &job.rows, error));
    pf_team_run(src->options->team, convert_share, &job);
    pf_checkpoint_release_matrix(&src->checkpoint, &job.rows);
    report_progress(src, (size_t)job.rows.n_rows * job.rows.stride * pf_type_bytes(job.rows.type));
    return PF_OK;
}

/* ---- packing ------------------------------------------------------------------------------------------------------- */

bool pf_model_heads_part(const pf_model *model, int32_t n_members)
{
    const int32_t n_heads = model->config.n_kv_heads;
    if (model->onednn != NULL) return false; /* its matrices are cut once, into the members' shares of all panels */
    return n_heads % n_members == 0 && n_heads / n_members * model->config.head_dim % PF_GEMM_PANEL == 0;
}

int32_t pf_model_qkv_share(const pf_model *model, pf_member member, pf_panels out[3])
{
    const int32_t n_q = model->q_dim / PF_GEMM_PANEL, n_kv = model->kv_dim / PF_GEMM_PANEL;
    const int32_t sizes[3] = { n_q, n_kv, n_kv };
    if (!pf_model_heads_part(model, member.n_threads)) {
        pf_team_share(member, (model->q_dim + 2 * model->kv_dim + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL, &out[0].begin,
                      &out[0].end);
        return 1;
    }
    for (int32_t i = 0, first = 0; i < 3; first += sizes[i++]) {
        pf_team_share(member, sizes[i], &out[i].begin, &out[i].end);
        out[i].begin += first;
        out[i].end += first;
    }
    return 3;
}

/* One matrix to be packed by the team. */
typedef struct {
    const pf_model *model;
    bool is_qkv;
    const pf_gemm_weights *weights;
    pf_gemm_pack_weights_fn *pack_weights;
    const pf_checkpoint *checkpoint;
    pf_gemm_source parts[PF_MAX_PARTS];
    int32_t n_parts;
    _Atomic int32_t bad_part;   /* one whose values may not be; -1: none */
    _Atomic bool beyond_twelve; /* a panel was not held */
} pack_job;

typedef void part_rows_fn(pack_job *job, int32_t part, int32_t begin, int32_t end);

/* Rows [begin, end) of the stacked matrix, part by part. */
static void for_parts(pack_job *job, int32_t begin, int32_t end, part_rows_fn *visit)
{
    for (int32_t p = 0, first = 0; p < job->n_parts; first += job->parts[p++].n_rows) {
        const int32_t n = job->parts[p].n_rows;
        const int32_t from = begin > first ? begin - first : 0, to = end - first < n ? end - first : n;
        if (from < to) visit(job, p, from, to);
    }
}

static void acquire_part(pack_job *job, int32_t part, int32_t begin, int32_t end)
{
    if (!pf_checkpoint_acquire_rows(job->checkpoint, &job->parts[part], begin, end, job->weights->format))
        job->bad_part = part;
}

static void release_part(pack_job *job, int32_t part, int32_t begin, int32_t end)
{
    pf_checkpoint_release_rows(job->checkpoint, &job->parts[part], begin, end);
}

/* Whether a part is to be rounded to F16, which packing, to F32 here, does not do. */
static bool rounds_to_f16(const pack_job *job)
{
    bool any = false;
    for (int32_t p = 0; p < job->n_parts; p++) any |= job->parts[p].type != PF_TYPE_F16;
    return any && job->model->dtype == PF_DTYPE_F16;
}

static void pack_panels(pack_job *job, int32_t begin, int32_t end)
{
    const size_t panel_bytes = job->weights->panel_bytes;
    const int32_t stretch = pf_checkpoint_stretch(job->checkpoint, &job->parts[0], PF_GEMM_PANEL) / PF_GEMM_PANEL;
    for (int32_t to; begin < end; begin = to) {
        to = end - begin > stretch ? begin + stretch : end;
        for_parts(job, begin * PF_GEMM_PANEL, to * PF_GEMM_PANEL, acquire_part);
        if (!job->pack_weights(job->weights, job->parts, job->n_parts, begin, to)) job->beyond_twelve = true;
        if (rounds_to_f16(job))
            round_to_f16((float *)((char *)job->weights->panels + (size_t)begin * panel_bytes),
                         (size_t)(to - begin) * panel_bytes / sizeof(float));
        for_parts(job, begin * PF_GEMM_PANEL, to * PF_GEMM_PANEL, release_part);
    }
}

static void pack_share(pf_member member, void *arg)
{
    pack_job *job = arg;
    pf_panels mine[3];
    int32_t n = 1;
    if (job->is_qkv)
        n = pf_model_qkv_share(job->model, member, mine);
    else
        pf_team_share(member, job->weights->n_panels, &mine[0].begin, &mine[0].end);
    for (int32_t i = 0; i < n; i++) pack_panels(job, mine[i].begin, mine[i].end);
}

static pf_status load_biases(source *src, const pf_matrix_recipe *recipe, int32_t layer, float *bias, pf_error *error)
{
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        int32_t rows, columns;
        pf_config_shape(&src->checkpoint.config, recipe->parts[p], &rows, &columns);
        PF_TRY(load_vector(src, recipe->parts[p], layer, "bias", bias, error));
        bias += rows;
    }
    return PF_OK;
}

static pf_status load_linear(source *src, const pf_model *m, const pf_matrix_recipe *recipe, int32_t layer,
                             const pf_linear *linear, pf_error *error)
{
    const pf_checkpoint *checkpoint = &src->checkpoint;
    pack_job job = {
        .model = m,
        .is_qkv = recipe == &pf_layer_recipes[0],
        .weights = &linear->weights,
        .pack_weights = src->pack_weights,
        .checkpoint = checkpoint,
        .n_parts = recipe->n_parts,
        .bad_part = -1,
    };
    pf_tensor_role roles[PF_MAX_PARTS];
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        roles[p] = recipe->parts[p] == PF_TENSOR_HEAD ? pf_config_head_role(&checkpoint->config) : recipe->parts[p];
        PF_TRY(pf_checkpoint_matrix(checkpoint, roles[p], layer, &job.parts[p], error));
    }
    pf_team_run(src->options->team, pack_share, &job);
    if (job.bad_part >= 0)
        return pf_checkpoint_fail_rows(checkpoint, roles[job.bad_part], layer, linear->weights.format, error);
    src->beyond_twelve |= job.beyond_twelve;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        pf_checkpoint_release_matrix(checkpoint, &job.parts[p]);
        report_progress(src, pf_checkpoint_matrix_bytes(checkpoint, &job.parts[p]));
    }
    return linear->bias != NULL ? load_biases(src, recipe, layer, linear->bias, error) : PF_OK;
}

/* All of it, or until a matrix was not held. */
static pf_status load_weights(const pf_model *m, source *src, pf_error *error)
{
    PF_TRY(load_embedding(m, src, error));
    PF_TRY(load_vector(src, PF_TENSOR_FINAL_NORM, 0, "weight", m->final_norm, error));
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        pf_layer *layer = &m->layers[l];
        PF_TRY(load_vector(src, PF_TENSOR_ATTENTION_NORM, l, "weight", layer->attention_norm, error));
        PF_TRY(load_vector(src, PF_TENSOR_MLP_NORM, l, "weight", layer->mlp_norm, error));
        for (int i = 0; i < PF_N_LAYER_MATRICES; i++)
            PF_TRY(load_linear(src, m, &pf_layer_recipes[i], l, pf_layer_matrix(layer, i), error));
        if (src->beyond_twelve) return PF_OK;
    }
    return load_linear(src, m, &pf_head_recipe, 0, &m->head, error);
}

/* Anew as plain BF16, which holds everything, where the weights turn out not to fit twelve bits. */
static pf_status reserve_and_load(pf_model *m, source *src, pf_error *error)
{
    PF_TRY(reserve(m, src, error));
    PF_TRY(load_weights(m, src, error));
    if (!src->beyond_twelve) return PF_OK;
    pf_arena_destroy(&m->arena);
    m->beyond_twelve = true;
    m->dtype = PF_DTYPE_BF16;
    m->format = PF_FORMAT_BF16;
    src->done_bytes = 0;
    src->beyond_twelve = false;
    PF_TRY(reserve(m, src, error));
    return load_weights(m, src, error);
}

/* ---- another library's products ------------------------------------------------------------------------------------ */

static pf_status check_backend(const pf_model *m, const source *src, pf_error *error)
{
    return src->options->backend == PF_BACKEND_ONEDNN ? pf_onednn_check(m->format, m->act, error) : PF_OK;
}

/* Every matrix gets its copy, and the table of kernels oneDNN's row. */
static pf_status attach_backend(pf_model *m, const source *src, pf_error *error)
{
    if (src->options->backend != PF_BACKEND_ONEDNN) return PF_OK;
    pf_team *team = src->options->team;
    PF_TRY(pf_onednn_open(team, &m->onednn, error));
    for (int32_t i = 0; i < n_matrices(m); i++) PF_TRY(pf_onednn_attach(m->onednn, team, matrix(m, i), m->act, error));
    const pf_kernel *kernel = pf_onednn_kernel(m->format, m->act);
    m->kernels.chosen_gemm[m->format][m->act] = kernel;
    m->kernels.gemm[m->format][m->act] = kernel->fn.gemm;
    return PF_OK;
}

static void detach_backend(pf_model *m)
{
    for (int32_t i = 0; i < n_matrices(m); i++) pf_onednn_detach(matrix(m, i));
    pf_onednn_close(m->onednn);
}

/* ---- the model ----------------------------------------------------------------------------------------------------- */

static pf_status open_model(pf_model *m, const char *directory, source *src, pf_error *error)
{
    PF_TRY(pf_kernels_select(src->options->isa, &m->kernels, error));
    src->pack_weights = m->kernels.pack_weights;
    PF_TRY(pf_checkpoint_open(directory, &src->checkpoint, error));
    m->config = src->checkpoint.config;
    m->q_dim = m->config.n_heads * m->config.head_dim;
    m->kv_dim = m->config.n_kv_heads * m->config.head_dim;
    m->n_parameters = src->checkpoint.n_parameters;
    PF_TRY(resolve_types(m, src, error));
    PF_TRY(check_backend(m, src, error));

    m->layers = calloc((size_t)m->config.n_layers, sizeof *m->layers);
    if (m->layers == NULL)
        return pf_fail(error, PF_NOMEM, "%s: no memory for %d layers", directory, m->config.n_layers);
    PF_TRY(reserve_and_load(m, src, error));
    return attach_backend(m, src, error);
}

pf_status pf_model_load(const char *directory, const pf_model_options *options, pf_model **out, pf_error *error)
{
    pf_model *m = calloc(1, sizeof *m);
    if (m == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for a model", directory);
    source src = { .options = options };
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
    detach_backend(model);
    pf_arena_destroy(&model->arena);
    free(model->layers);
    free(model);
}

/* ---- what is asked of it ------------------------------------------------------------------------------------------- */

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
    return model->arena.size;
}

int64_t pf_model_parameter_count(const pf_model *model)
{
    return model->n_parameters;
}

void pf_model_embed(const pf_model *model, const int32_t *tokens, int32_t n_rows, float *x, size_t stride)
{
    const size_t hidden = (size_t)model->config.hidden_size;
    for (int32_t i = 0; i < n_rows; i++, x += stride) {
        if (model->embedding == NULL) {
            pf_gemm_unpack_row(&model->head.weights, tokens[i], x);
        } else if (model->row_type == PF_TYPE_F32) {
            memcpy(x, (const float *)model->embedding + (size_t)tokens[i] * hidden, hidden * sizeof *x);
        } else {
            const uint16_t *row = (const uint16_t *)model->embedding + (size_t)tokens[i] * hidden;
            for (size_t d = 0; d < hidden; d++) x[d] = pf_bf16_to_f32(row[d]);
        }
    }
}
