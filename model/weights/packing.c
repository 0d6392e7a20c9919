#include "model/weights/packing.h"

#include <string.h>

/* ---- vectors ------------------------------------------------------------------------------------------------------- */

static pf_status load_vector(pf_model_source *src, pf_tensor_role role, int32_t layer, const char *part, float *out,
                             pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(pf_checkpoint_numbers(&src->checkpoint, role, layer, part, &tensor, error));
    for (int64_t i = 0; i < tensor.shape[0]; i++) out[i] = pf_tensor_element(tensor.data, tensor.type, (size_t)i);
    pf_walk_on(&src->walk, tensor.data_bytes);
    return PF_OK;
}

/* ---- f16 ----------------------------------------------------------------------------------------------------------- */

/* Rounds the F32 values of a file of another type for --dtype f16. */
static void round_to_f16(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) values[i] = pf_f16_to_f32(pf_f16_from_f32(values[i]));
}

/* ---- rows of the embedding ---------------------------------------------------------------------------------------- */

typedef struct {
    const pf_model *model;
    const pf_model_source *src;
    pf_gemm_source rows;
    void *out; /* [n_rows, hidden] of row_type */
} rows_job;

/* Converts elements [begin, end) of the table. */
static void convert_elements(const rows_job *job, size_t begin, size_t end)
{
    const void *from = job->rows.data;
    const pf_type type = job->rows.type;
    if (type == job->model->row_type) {
        const size_t bytes = pf_type_bytes(type);
        memcpy((char *)job->out + begin * bytes, (const char *)from + begin * bytes, (end - begin) * bytes);
    } else if (job->model->row_type == PF_TYPE_F32) {
        float *out = job->out;
        for (size_t i = begin; i < end; i++) out[i] = pf_tensor_element(from, type, i);
    } else {
        uint16_t *out = job->out;
        for (size_t i = begin; i < end; i++) out[i] = pf_bf16_from_f32(pf_tensor_element(from, type, i));
    }
    if (job->model->dtype == PF_DTYPE_F16 && type != PF_TYPE_F16) round_to_f16((float *)job->out + begin, end - begin);
}

static void convert_share(pf_member member, void *arg)
{
    const rows_job *job = arg;
    const int32_t chunk = pf_checkpoint_chunk(&job->src->checkpoint, &job->rows, 1);
    const size_t hidden = job->rows.stride;
    int32_t begin, end;
    pf_team_share(member, job->rows.n_rows, &begin, &end);
    for (int32_t to; begin < end && !pf_is_told(job->src->walk.cancel); begin = to) {
        to = end - begin > chunk ? begin + chunk : end;
        (void)pf_checkpoint_acquire_rows(&job->src->checkpoint, &job->rows, begin, to,
                                         PF_FORMAT_F32); /* only looked up */
        convert_elements(job, (size_t)begin * hidden, (size_t)to * hidden);
        pf_checkpoint_release_rows(&job->src->checkpoint, &job->rows, begin, to);
    }
}

static pf_status load_rows(const pf_model *m, pf_model_source *src, pf_tensor_role role, void *out, pf_error *error)
{
    rows_job job = { .model = m, .src = src, .out = out };
    PF_TRY(pf_checkpoint_matrix(&src->checkpoint, role, 0, &job.rows, error));
    pf_team_run(src->options->team, convert_share, &job);
    PF_TRY(pf_walk_check(&src->walk, error));
    pf_checkpoint_release_matrix(&src->checkpoint, &job.rows);
    if (role != pf_config_head_role(&m->config)) /* the head is packed too, and is counted then */
        pf_walk_on(&src->walk, (size_t)job.rows.n_rows * job.rows.stride * pf_type_bytes(job.rows.type));
    return PF_OK;
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* A matrix that the team packs. */
typedef struct {
    const pf_model *model;
    bool is_qkv;
    const pf_gemm_weights *weights;
    pf_format checked; /* values must be representable in this format */
    pf_gemm_pack_weights_fn *pack_weights;
    const pf_model_source *src;
    pf_gemm_source parts[PF_MAX_PARTS];
    int32_t n_parts;
    _Atomic int32_t bad_part;           /* a part with invalid values; -1: none */
    _Atomic bool met_not_representable; /* the format cannot hold a panel */
} pack_job;

typedef void part_rows_fn(pack_job *job, int32_t part, int32_t begin, int32_t end);

/* Calls `visit` for each part of rows [begin, end) of the stacked matrix. */
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
    if (!pf_checkpoint_acquire_rows(&job->src->checkpoint, &job->parts[part], begin, end, job->checked))
        job->bad_part = part;
}

static void release_part(pack_job *job, int32_t part, int32_t begin, int32_t end)
{
    pf_checkpoint_release_rows(&job->src->checkpoint, &job->parts[part], begin, end);
}

/* Whether a part must be rounded to F16: packing, which gives F32 here, does not. */
static bool rounds_to_f16(const pack_job *job)
{
    bool any = false;
    for (int32_t p = 0; p < job->n_parts; p++) any |= job->parts[p].type != PF_TYPE_F16;
    return any && job->model->dtype == PF_DTYPE_F16;
}

static void pack_panels(pack_job *job, int32_t begin, int32_t end)
{
    const size_t panel_bytes = job->weights->panel_bytes;
    const int32_t chunk = pf_checkpoint_chunk(&job->src->checkpoint, &job->parts[0], PF_GEMM_PANEL) / PF_GEMM_PANEL;
    for (int32_t to; begin < end && !pf_is_told(job->src->walk.cancel); begin = to) {
        to = end - begin > chunk ? begin + chunk : end;
        for_parts(job, begin * PF_GEMM_PANEL, to * PF_GEMM_PANEL, acquire_part);
        if (!job->pack_weights(job->weights, job->parts, job->n_parts, begin, to)) job->met_not_representable = true;
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

static pf_status load_biases(pf_model_source *src, const pf_matrix_recipe *recipe, int32_t layer, float *bias,
                             pf_error *error)
{
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        int32_t rows, columns;
        pf_config_shape(&src->checkpoint.config, recipe->parts[p], &rows, &columns);
        PF_TRY(load_vector(src, recipe->parts[p], layer, "bias", bias, error));
        bias += rows;
    }
    return PF_OK;
}

/* checked: the format that the values in the file must fit. counts_progress: false where another matrix counts them. */
static pf_status load_linear(pf_model_source *src, const pf_model *m, const pf_matrix_recipe *recipe, int32_t layer,
                             const pf_linear *linear, pf_format checked, bool counts_progress, pf_error *error)
{
    const pf_checkpoint *checkpoint = &src->checkpoint;
    pack_job job = {
        .model = m,
        .is_qkv = recipe == &pf_layer_recipes[PF_MATRIX_QKV],
        .weights = &linear->weights,
        .checked = checked,
        .pack_weights = src->pack_weights,
        .src = src,
        .n_parts = recipe->n_parts,
        .bad_part = -1,
    };
    pf_tensor_role roles[PF_MAX_PARTS];
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        roles[p] = recipe->parts[p] == PF_TENSOR_HEAD ? pf_config_head_role(&checkpoint->config) : recipe->parts[p];
        PF_TRY(pf_checkpoint_matrix(checkpoint, roles[p], layer, &job.parts[p], error));
    }
    pf_team_run(src->options->team, pack_share, &job);
    PF_TRY(pf_walk_check(&src->walk, error));
    if (job.bad_part >= 0) return pf_checkpoint_fail_rows(checkpoint, roles[job.bad_part], layer, job.checked, error);
    src->met_not_representable |= job.met_not_representable;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        pf_checkpoint_release_matrix(checkpoint, &job.parts[p]);
        if (counts_progress) pf_walk_on(&src->walk, pf_checkpoint_matrix_bytes(checkpoint, &job.parts[p]));
    }
    return linear->bias != NULL ? load_biases(src, recipe, layer, linear->bias, error) : PF_OK;
}

/* ---- all weights ---------------------------------------------------------------------------------------------------------- */

static pf_status load_head(pf_model_source *src, const pf_model *m, pf_error *error)
{
    pf_lm_head head = m->head;
    pf_head_matrix matrices[PF_HEAD_MATRICES];
    const int32_t n = pf_head_matrices(&head, matrices);
    for (int32_t i = 0; i < n; i++) {
        const pf_head_matrix *matrix = &matrices[i];
        PF_TRY(
            load_linear(src, m, &pf_head_recipe, 0, matrix->linear, matrix->checked, matrix->counts_progress, error));
    }
    return PF_OK;
}

pf_status pf_model_load_weights(const pf_model *m, pf_model_source *src, pf_error *error)
{
    src->walk = (pf_walk){ .path = src->checkpoint.directory,
                           .action = "loaded",
                           .cancel = src->options->cancel,
                           .report = src->options->progress,
                           .user = src->options->progress_user,
                           .total_bytes = src->checkpoint.n_bytes + pf_head_measured_bytes(&m->head) };
    if (m->embedding != NULL) PF_TRY(load_rows(m, src, PF_TENSOR_EMBEDDING, m->embedding, error));
    if (pf_head_has_own_rows(&m->head, m->embedding)) PF_TRY(load_rows(m, src, PF_TENSOR_HEAD, m->head.rows, error));
    PF_TRY(load_vector(src, PF_TENSOR_FINAL_NORM, 0, "weight", m->final_norm, error));
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        pf_layer *layer = &m->layers[l];
        PF_TRY(load_vector(src, PF_TENSOR_ATTENTION_NORM, l, "weight", layer->attention_norm, error));
        PF_TRY(load_vector(src, PF_TENSOR_MLP_NORM, l, "weight", layer->mlp_norm, error));
        for (int i = 0; i < PF_N_LAYER_MATRICES; i++)
            PF_TRY(load_linear(src, m, &pf_layer_recipes[i], l, pf_layer_matrix(layer, i), m->format, true, error));
        if (src->met_not_representable) return PF_OK;
    }
    return load_head(src, m, error);
}
