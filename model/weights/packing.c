#include "model/weights/packing.h"

#include <string.h>

/* ---- vectors ------------------------------------------------------------------------------------------------------- */

static pf_status load_vector(pf_model_source *src, pf_tensor_id id, const char *part, float *out, pf_error *error)
{
    size_t n_bytes;
    PF_TRY(pf_checkpoint_vector(&src->checkpoint, id, part, out, &n_bytes, error));
    pf_walk_on(&src->walk, n_bytes);
    return PF_OK;
}

static bool adds_one(const pf_plan *plan, pf_tensor_role role)
{
    const bool is_of_heads = role == PF_TENSOR_Q_NORM || role == PF_TENSOR_K_NORM;
    return (is_of_heads ? plan->head_norm_kind : plan->norm) == PF_NORM_RMS_PLUS_ONE;
}

static pf_status load_norm(pf_model_source *src, pf_tensor_id id, const pf_norm_weights *norm, pf_error *error)
{
    const pf_config *config = &src->checkpoint.config;
    int32_t n, columns;
    if (norm->weight == NULL) return PF_OK;
    pf_config_shape(config, id.role, &n, &columns);
    PF_TRY(load_vector(src, id, "weight", norm->weight, error));
    if (adds_one(&config->plan, id.role))
        for (int32_t i = 0; i < n; i++) norm->weight[i] += 1.0f;
    return norm->bias != NULL ? load_vector(src, id, "bias", norm->bias, error) : PF_OK;
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
    pf_checkpoint_rows rows;
    void *out; /* [n_rows, columns] of row_type */
} rows_job;

/* Converts elements [begin, end) of the table. */
static void convert_elements(const rows_job *job, size_t begin, size_t end)
{
    const void *from = job->rows.source.data;
    const pf_type type = job->rows.source.type;
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
    const size_t columns = job->rows.source.stride;
    int32_t begin, end;
    pf_team_share(member, job->rows.source.n_rows, &begin, &end);
    for (int32_t to; begin < end && !pf_is_told(job->src->walk.cancel); begin = to) {
        to = end - begin > chunk ? begin + chunk : end;
        (void)pf_checkpoint_acquire_rows(&job->src->checkpoint, &job->rows, begin, to,
                                         PF_FORMAT_F32); /* only looked up */
        convert_elements(job, (size_t)begin * columns, (size_t)to * columns);
        pf_checkpoint_release_rows(&job->src->checkpoint, &job->rows, begin, to);
    }
}

static pf_status load_rows(const pf_model *m, pf_model_source *src, pf_tensor_role role, void *out, pf_error *error)
{
    rows_job job = { .model = m, .src = src, .out = out };
    PF_TRY(pf_checkpoint_matrix(&src->checkpoint, (pf_tensor_id){ .role = role }, &job.rows, error));
    pf_team_run(src->options->team, convert_share, &job);
    pf_checkpoint_release_matrix(&src->checkpoint, &job.rows);
    PF_TRY(pf_walk_check(&src->walk, error));
    if (role != pf_config_head_role(&m->config)) /* the head is packed too, and is counted then */
        pf_walk_on(&src->walk, pf_checkpoint_matrix_bytes(&src->checkpoint, &job.rows));
    return PF_OK;
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

/* A matrix that the team packs. */
typedef struct {
    const pf_model *model;
    bool is_qkv, is_head;
    const pf_gemm_weights *weights;
    pf_format checked; /* values must be representable in this format */
    pf_gemm_pack_weights_fn *pack_weights;
    const pf_model_source *src;
    pf_checkpoint_rows parts[PF_MAX_PARTS];
    pf_gemm_source sources[PF_MAX_PARTS]; /* theirs */
    int32_t n_parts;
    _Atomic int32_t bad_part;           /* a part with invalid values; -1: none */
    _Atomic bool met_not_representable; /* the format cannot hold a panel */
} pack_job;

typedef void part_rows_fn(pack_job *job, int32_t part, int32_t begin, int32_t end);

/* Calls `visit` for each part of rows [begin, end) of the stacked matrix. */
static void for_parts(pack_job *job, int32_t begin, int32_t end, part_rows_fn *visit)
{
    for (int32_t p = 0, first = 0; p < job->n_parts; first += job->sources[p++].n_rows) {
        const int32_t n = job->sources[p].n_rows;
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
    for (int32_t p = 0; p < job->n_parts; p++) any |= job->sources[p].type != PF_TYPE_F16;
    return any && job->model->dtype == PF_DTYPE_F16;
}

static void pack_panels(pack_job *job, int32_t begin, int32_t end)
{
    const size_t panel_bytes = job->weights->panel_bytes;
    const int32_t chunk = pf_checkpoint_chunk(&job->src->checkpoint, &job->parts[0], PF_GEMM_PANEL) / PF_GEMM_PANEL;
    for (int32_t to; begin < end && !pf_is_told(job->src->walk.cancel); begin = to) {
        to = end - begin > chunk ? begin + chunk : end;
        for_parts(job, begin * PF_GEMM_PANEL, to * PF_GEMM_PANEL, acquire_part);
        if (!job->pack_weights(job->weights, job->sources, job->n_parts, begin, to)) job->met_not_representable = true;
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

/* Parts without a bias have zeros. That of the head has its own name even where the head is the embedding. */
static pf_status load_biases(pf_model_source *src, const pack_job *job, const pf_tensor_id *ids, float *bias,
                             pf_error *error)
{
    for (int32_t p = 0; p < job->n_parts; bias += job->sources[p++].n_rows) {
        pf_tensor_id id = ids[p];
        if (job->is_head) id.role = PF_TENSOR_HEAD;
        if (pf_config_has_bias(&src->checkpoint.config, id.role))
            PF_TRY(load_vector(src, id, "bias", bias, error));
        else
            memset(bias, 0, (size_t)job->sources[p].n_rows * sizeof *bias);
    }
    return PF_OK;
}

static void release_parts(const pf_model_source *src, pack_job *job)
{
    for (int32_t p = 0; p < job->n_parts; p++) pf_checkpoint_release_matrix(&src->checkpoint, &job->parts[p]);
}

/* Finds the parts that exist, in order; their tensors in ids. */
static pf_status find_parts(const pf_model_source *src, const pf_matrix_recipe *recipe, int32_t layer, int32_t expert,
                            pack_job *job, pf_tensor_id ids[PF_MAX_PARTS], pf_error *error)
{
    const pf_config *config = &src->checkpoint.config;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        if (!pf_model_has_part(job->model, recipe->parts[p], layer)) continue;
        const pf_tensor_role role = recipe->parts[p] == PF_TENSOR_HEAD ? pf_config_head_role(config) : recipe->parts[p];
        const int32_t i = job->n_parts;
        ids[i] = (pf_tensor_id){ role, layer, expert };
        if (job->weights->format == PF_FORMAT_EXACT)
            PF_TRY(pf_checkpoint_matrix_in_groups(&src->checkpoint, ids[i], &job->parts[i], error));
        else
            PF_TRY(pf_checkpoint_matrix(&src->checkpoint, ids[i], &job->parts[i], error));
        job->sources[i] = job->parts[i].source;
        job->n_parts++;
    }
    return PF_OK;
}

/* Where a matrix stands, and how it is packed. */
typedef struct {
    const pf_matrix_recipe *recipe;
    int32_t layer, expert;
    pf_format checked;    /* the format that the values in the file must fit */
    bool counts_progress; /* false where another matrix counts them */
} place;

static pf_status pack_parts(pf_model_source *src, const place *at, pack_job *job, const pf_tensor_id *ids,
                            const pf_linear *linear, pf_error *error)
{
    pf_team_run(src->options->team, pack_share, job);
    PF_TRY(pf_walk_check(&src->walk, error));
    if (job->bad_part >= 0) return pf_checkpoint_fail_rows(&src->checkpoint, ids[job->bad_part], job->checked, error);
    src->met_not_representable |= job->met_not_representable;
    for (int32_t p = 0; p < job->n_parts && at->counts_progress; p++)
        pf_walk_on(&src->walk, pf_checkpoint_matrix_bytes(&src->checkpoint, &job->parts[p]));
    return linear->bias != NULL ? load_biases(src, job, ids, linear->bias, error) : PF_OK;
}

static pf_status load_linear(pf_model_source *src, const pf_model *m, const place *at, const pf_linear *linear,
                             pf_error *error)
{
    pack_job job = {
        .model = m,
        .is_qkv = at->recipe == &pf_layer_recipes[PF_MATRIX_QKV],
        .is_head = at->recipe == &pf_head_recipe,
        .weights = &linear->weights,
        .checked = at->checked,
        .pack_weights = src->pack_weights,
        .src = src,
        .bad_part = -1,
    };
    pf_tensor_id ids[PF_MAX_PARTS];
    if (linear->weights.n == 0) return PF_OK;
    pf_status status = find_parts(src, at->recipe, at->layer, at->expert, &job, ids, error);
    if (status == PF_OK) status = pack_parts(src, at, &job, ids, linear, error);
    release_parts(src, &job);
    return status;
}

/* ---- all weights ---------------------------------------------------------------------------------------------------------- */

static pf_status load_head(pf_model_source *src, const pf_model *m, pf_error *error)
{
    pf_lm_head head = m->head;
    pf_head_matrix matrices[PF_HEAD_MATRICES];
    const int32_t n = pf_head_matrices(&head, matrices);
    for (int32_t i = 0; i < n; i++) {
        const pf_head_matrix *matrix = &matrices[i];
        const place at = { &pf_head_recipe, 0, 0, matrix->checked, matrix->counts_progress };
        PF_TRY(load_linear(src, m, &at, matrix->linear, error));
    }
    return PF_OK;
}

/* What stands before the layers and behind them, but the LM head. */
static pf_status load_ends(pf_model_source *src, const pf_model *m, pf_error *error)
{
    const place in = { &pf_project_in_recipe, 0, 0, m->format, true };
    const place out = { &pf_project_out_recipe, 0, 0, m->format, true };
    const place looked_up = { &pf_embedding_recipe, 0, 0, m->format, true };
    if (m->embedding != NULL) PF_TRY(load_rows(m, src, PF_TENSOR_EMBEDDING, m->embedding, error));
    PF_TRY(load_linear(src, m, &looked_up, &m->looked_up, error));
    if (m->positions != NULL) PF_TRY(load_rows(m, src, PF_TENSOR_POSITIONS, m->positions, error));
    if (pf_head_has_own_rows(&m->head, m->embedding)) PF_TRY(load_rows(m, src, PF_TENSOR_HEAD, m->head.rows, error));
    PF_TRY(load_norm(src, (pf_tensor_id){ .role = PF_TENSOR_EMBEDDING_NORM }, &m->embedding_norm, error));
    PF_TRY(load_norm(src, (pf_tensor_id){ .role = PF_TENSOR_FINAL_NORM }, &m->final_norm, error));
    PF_TRY(load_linear(src, m, &in, &m->project_in, error));
    return load_linear(src, m, &out, &m->project_out, error);
}

static pf_status load_layer(pf_model_source *src, const pf_model *m, int32_t l, pf_error *error)
{
    pf_layer *layer = &m->layers[l];
    for (int i = 0; i < PF_N_LAYER_NORMS; i++)
        PF_TRY(load_norm(src, (pf_tensor_id){ pf_layer_norms[i].role, l, 0 }, pf_layer_norm(layer, i), error));
    if (layer->sinks != NULL)
        PF_TRY(load_vector(src, (pf_tensor_id){ PF_TENSOR_SINKS, l, 0 }, "weight", layer->sinks, error));
    for (int32_t i = 0; i < pf_layer_n_matrices(m); i++) {
        const place at = { pf_layer_recipe(i), l, pf_layer_expert(i), pf_layer_format(m, i), true };
        PF_TRY(load_linear(src, m, &at, pf_layer_matrix(layer, i), error));
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
    PF_TRY(load_ends(src, m, error));
    for (int32_t l = 0; l < m->config.n_layers && !src->met_not_representable; l++)
        PF_TRY(load_layer(src, m, l, error));
    return src->met_not_representable ? PF_OK : load_head(src, m, error);
}
