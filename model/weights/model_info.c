/*
 * Describes a loaded model: the bytes that a step reads, a bare read of them, and each tensor with its format and kernel.
 */
#include <stdio.h>
#include <string.h>

#include "model/weights/weights.h"

/* ---- the bytes of a step --------------------------------------------------------------------------------------------- */

static size_t linear_bytes(const pf_linear *linear)
{
    return pf_linear_panel_bytes(linear) + (linear->bias ? (size_t)linear->weights.n * sizeof(float) : 0);
}

static size_t norm_bytes(const pf_model *model, pf_tensor_role role)
{
    int32_t n, columns;
    pf_config_shape(&model->config, role, &n, &columns);
    return model->config.plan.has[role] ? (size_t)n * sizeof(float) : 0;
}

/* Of the experts of a layer only the chosen ones are read. All have one size. */
static size_t experts_step_bytes(const pf_model *model, const pf_layer *layer)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < PF_EXPERT_MATRICES * model->config.plan.n_experts_used; i++)
        bytes += linear_bytes(&layer->experts[i]);
    return bytes;
}

size_t pf_model_step_bytes(const pf_model *model)
{
    size_t bytes = norm_bytes(model, PF_TENSOR_FINAL_NORM) + linear_bytes(&model->project_in) +
                   linear_bytes(&model->project_out) + linear_bytes(pf_head_step_matrix(&model->head));
    for (int32_t l = 0; l < model->config.n_layers; l++) {
        for (int i = 0; i < PF_N_LAYER_NORMS; i++) bytes += norm_bytes(model, pf_layer_norms[i].role);
        for (int32_t i = 0; i < PF_N_LAYER_MATRICES; i++) bytes += linear_bytes(pf_layer_matrix(&model->layers[l], i));
        bytes += experts_step_bytes(model, &model->layers[l]);
    }
    return bytes;
}

typedef struct {
    const pf_model *model;
    pf_read_fn *read;
    _Atomic uint64_t checksum;
} read_job;

static uint64_t read_share(pf_member member, pf_read_fn *read, const pf_linear *linear)
{
    int32_t begin, end;
    pf_team_share(member, linear->weights.n_panels, &begin, &end);
    const size_t bytes = linear->weights.panel_bytes;
    return read((const char *)linear->weights.panels + (size_t)begin * bytes, (size_t)(end - begin) * bytes);
}

uint64_t pf_model_read_share(const pf_model *model, pf_member member, uint32_t matrices, pf_read_fn *read)
{
    const int32_t n_read = PF_N_LAYER_MATRICES + PF_EXPERT_MATRICES * model->config.plan.n_experts_used;
    uint64_t sum = 0;
    for (int32_t l = 0; l < model->config.n_layers; l++)
        for (int32_t i = 0; i < n_read; i++)
            if (i >= PF_N_LAYER_MATRICES ? matrices == UINT32_MAX : matrices >> i & 1)
                sum += read_share(member, read, pf_layer_matrix(&model->layers[l], i));
    if (matrices >> PF_MATRIX_HEAD & 1) sum += read_share(member, read, pf_head_step_matrix(&model->head));
    return sum;
}

static void read_all(pf_member member, void *arg)
{
    read_job *job = arg;
    job->checksum += pf_model_read_share(job->model, member, UINT32_MAX, job->read);
}

uint64_t pf_model_read_weights(const pf_model *model, pf_team *team, pf_read_fn *read)
{
    read_job job = { .model = model, .read = read };
    pf_team_run(team, read_all, &job);
    return job.checksum;
}

/* ---- descriptions ------------------------------------------------------------------------------------------------------- */

typedef struct {
    void (*visit)(void *user, const pf_model_tensor *tensor);
    void *user;
    char format[96], reason[512];
} visitor;

static void visit_vector(const pf_model *m, visitor *v, pf_tensor_role role, int32_t layer)
{
    char name[PF_MAX_TENSOR_NAME];
    int32_t rows, columns;
    if (!pf_config_has(&m->config, role, layer)) return;
    pf_config_tensor_name(&m->config, (pf_tensor_id){ role, layer, 0 }, "weight", name);
    pf_config_shape(&m->config, role, &rows, &columns);
    const pf_kernel *kernel = m->kernels.chosen[PF_OP_RMSNORM][PF_TYPE_F32];
    const pf_model_tensor tensor = { .name = name,
                                     .format = "f32",
                                     .kernel = kernel ? kernel->name : "",
                                     .reason = "a vector is small: F32 costs nothing",
                                     .rows = rows,
                                     .columns = 1,
                                     .bytes = (size_t)rows * sizeof(float) };
    v->visit(v->user, &tensor);
}

/* "model.layers.0.self_attn.q_proj+k_proj+v_proj.weight" */
static void join_names(const pf_model *m, const pf_matrix_recipe *recipe, int32_t layer, int32_t expert, char *out,
                       size_t capacity)
{
    char name[PF_MAX_TENSOR_NAME], before[PF_MAX_TENSOR_NAME];
    pf_tensor_id id = { recipe->parts[0], layer, expert };
    pf_config_tensor_name(&m->config, id, "weight", before);
    snprintf(out, capacity, "%s", before);
    for (int32_t p = 1; p < recipe->n_parts; p++) {
        id.role = recipe->parts[p];
        if (!pf_model_has_part(m, id.role, layer)) continue;
        pf_config_tensor_name(&m->config, id, "weight", name);
        if (strcmp(name, before) == 0) continue; /* one tensor of the file */
        snprintf(before, sizeof before, "%s", name);
        char *dot = strrchr(name, '.'); /* before "weight" */
        if (dot != NULL) *dot = '\0';
        const char *last = strrchr(name, '.');
        char *end = strrchr(out, '.');
        if (end == NULL) return;
        snprintf(end, capacity - (size_t)(end - out), "+%s.weight", last ? last + 1 : name);
    }
}

/* "f32 and bf16" */
static void join_types(const bool has[PF_N_TYPES], char *out, size_t capacity)
{
    *out = '\0';
    for (int t = 0; t < PF_N_TYPES; t++) {
        const size_t n = strlen(out);
        if (has[t]) snprintf(out + n, capacity - n, "%s%s", n ? " and " : "", pf_type_name((pf_type)t));
    }
}

/* Explains the format. */
static void explain_format(const pf_model *m, char *out, size_t capacity)
{
    char types[32];
    join_types(m->has_matrices, types, sizeof types);
    if (m->not_exact[0] != '\0')
        snprintf(out, capacity, "the file's groups are converted to f32 (%s)", m->not_exact);
    else if (m->not_representable_in_12_bits)
        snprintf(out, capacity, "bf16-12 has no room for weights with magnitudes so far apart");
    else if (!m->is_default)
        snprintf(out, capacity, "asked for%s",
                 m->config.quantization.scheme != PF_SCHEME_NONE && m->dtype != PF_DTYPE_F32
                     ? "; the weights are widened to f32 and rounded once more"
                     : "");
    else if (m->config.quantized)
        snprintf(out, capacity, "the directory was quantised to it");
    else if (m->config.quantization.scheme != PF_SCHEME_NONE)
        snprintf(out, capacity, "the file's matrices are quantised (%s) and widened to f32",
                 m->config.quantization.words);
    else
        snprintf(out, capacity, "the file's matrices are in %s%s%s%s", types,
                 m->config.gguf && m->has_matrices[PF_TYPE_F32] ? ", to which its blocks are converted" : "",
                 m->has_matrices[PF_TYPE_F16] && m->row_type == PF_TYPE_BF16 ? ", rounded to bf16" : "",
                 m->dtype == PF_DTYPE_BF16_12 ? " and beyond the cache: the bits of bf16, fewer bytes to read" : "");
}

/* Explains the format and the kernel. */
static void explain_kernel(const pf_model *m, const pf_kernel *kernel, char *out, size_t capacity)
{
    const char *allowed = pf_isa_name(m->kernels.isa), *has = pf_isa_name(kernel->isa);
    char why[256], act[160] = "";
    explain_format(m, why, sizeof why);
    if (pf_format_is_integer(m->format))
        snprintf(act, sizeof act, ", with activations in %s (%s)", pf_act_name(m->act), m->act_reason);
    if (m->products != NULL)
        snprintf(out, capacity, "%s%s; oneDNN's product was asked for, which multiplies activations in %s", why, act,
                 pf_act_name(kernel->act));
    else if (kernel->isa == m->kernels.isa)
        snprintf(out, capacity, "%s%s; %s is the highest instruction set allowed, and has this product", why, act, has);
    else
        snprintf(out, capacity, "%s%s; %s is allowed and has no such product, %s is the next below that has one", why,
                 act, allowed, has);
}

/* `reason`: NULL for that of all matrices. */
static void visit_linear(const pf_model *m, visitor *v, const pf_matrix_recipe *recipe, pf_tensor_id id,
                         const pf_linear *linear, const pf_kernel *kernel, const char *reason)
{
    char name[PF_MAX_PARTS * PF_MAX_TENSOR_NAME];
    if (linear->weights.n == 0) return;
    join_names(m, recipe, id.layer, id.expert, name, sizeof name);
    const bool is_exact = linear->weights.format == PF_FORMAT_EXACT;
    char groups[PF_GROUP_NAME_BYTES];
    if (is_exact) pf_group_format_name(&linear->weights.groups, groups);
    snprintf(v->format, sizeof v->format, "%s %s", pf_format_get(linear->weights.format)->name,
             is_exact ? groups : kernel->packing);
    if (is_exact)
        snprintf(v->reason, sizeof v->reason,
                 "the numbers of the file, bit for bit: it has %s; activations are in %s%s (%s)", linear->file_type,
                 pf_act_name(kernel->act), kernel->act == PF_ACT_INT8 ? " with a scale for every 32" : "",
                 m->act_reason);
    else if (reason != NULL)
        snprintf(v->reason, sizeof v->reason, "%s", reason);
    else
        explain_kernel(m, kernel, v->reason, sizeof v->reason);
    const pf_model_tensor tensor = { .name = name,
                                     .format = v->format,
                                     .kernel = kernel->name,
                                     .reason = v->reason,
                                     .rows = linear->weights.n,
                                     .columns = linear->weights.k,
                                     .bytes = linear_bytes(linear) };
    v->visit(v->user, &tensor);
}

static void visit_rows(const pf_model *m, visitor *v, pf_tensor_role role, const char *reason)
{
    char name[PF_MAX_TENSOR_NAME];
    int32_t rows, columns;
    pf_config_shape(&m->config, role, &rows, &columns);
    pf_config_tensor_name(&m->config, (pf_tensor_id){ .role = role }, "weight", name);
    snprintf(v->format, sizeof v->format, "%s rows", pf_type_name(m->row_type));
    const pf_model_tensor tensor = { .name = name,
                                     .format = v->format,
                                     .kernel = "row lookup",
                                     .reason = reason,
                                     .rows = rows,
                                     .columns = columns,
                                     .bytes = (size_t)rows * (size_t)columns * pf_type_bytes(m->row_type) };
    v->visit(v->user, &tensor);
}

static void visit_embedding_in_head(const pf_model *m, visitor *v)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(&m->config, (pf_tensor_id){ .role = PF_TENSOR_EMBEDDING }, "weight", name);
    snprintf(v->format, sizeof v->format, "%s, in the head's panels", pf_format_get(m->head.format)->name);
    const pf_model_tensor tensor = { .name = name,
                                     .format = v->format,
                                     .kernel = "row lookup: pf_gemm_unpack_row",
                                     .reason = "the head is the same tensor: rows are gathered from its panels",
                                     .rows = m->config.vocab_size,
                                     .columns = m->config.embedding_size };
    v->visit(v->user, &tensor);
}

static void visit_embedding_in_groups(const pf_model *m, visitor *v)
{
    const pf_kernel rows = { .name = "row lookup: pf_gemm_unpack_row" };
    visit_linear(m, v, &pf_embedding_recipe, (pf_tensor_id){ .role = PF_TENSOR_EMBEDDING }, &m->looked_up, &rows, NULL);
}

static void visit_looked_up(const pf_model *m, visitor *v)
{
    const bool has_own_rows = pf_head_has_own_rows(&m->head, m->embedding);
    const char *of_head = m->head.rows != NULL ? pf_head_rows_reason(&m->head, !has_own_rows) : NULL;
    if (m->looks_up_groups)
        visit_embedding_in_groups(m, v);
    else if (m->embedding == NULL)
        visit_embedding_in_head(m, v);
    else
        visit_rows(m, v, PF_TENSOR_EMBEDDING,
                   of_head != NULL && !has_own_rows ? of_head
                   : m->config.tied_embeddings
                       ? "rows are looked up: from the head's panels, in the cache, it takes longer"
                       : "rows are looked up, never multiplied");
    if (m->positions != NULL) visit_rows(m, v, PF_TENSOR_POSITIONS, "rows are looked up, never multiplied");
    if (has_own_rows) visit_rows(m, v, PF_TENSOR_HEAD, of_head);
}

static void visit_layer_matrix(const pf_model *m, visitor *v, int32_t l, int32_t matrix)
{
    const bool is_router = matrix == PF_MATRIX_ROUTER;
    const pf_kernel *kernel =
        is_router ? m->kernels.chosen_gemm[PF_FORMAT_F32][PF_ACT_F32] : m->kernels.chosen_gemm[m->format][m->act];
    visit_linear(m, v, pf_layer_recipe(matrix), (pf_tensor_id){ .layer = l, .expert = pf_layer_expert(matrix) },
                 pf_layer_matrix(&m->layers[l], matrix), kernel,
                 is_router ? "it decides which experts run: F32 keeps the decision exact" : NULL);
}

static void visit_layer(const pf_model *m, visitor *v, int32_t l)
{
    visit_vector(m, v, PF_TENSOR_ATTENTION_NORM, l);
    visit_layer_matrix(m, v, l, PF_MATRIX_QKV);
    visit_vector(m, v, PF_TENSOR_Q_NORM, l);
    visit_vector(m, v, PF_TENSOR_K_NORM, l);
    visit_vector(m, v, PF_TENSOR_SINKS, l);
    visit_layer_matrix(m, v, l, PF_MATRIX_O);
    visit_vector(m, v, PF_TENSOR_ATTENTION_POST, l);
    visit_vector(m, v, PF_TENSOR_MLP_NORM, l);
    for (int32_t i = PF_MATRIX_GATE; i < pf_layer_n_matrices(m); i++) visit_layer_matrix(m, v, l, i);
    visit_vector(m, v, PF_TENSOR_MLP_POST, l);
}

/* A matrix before the layers or behind them. */
static void visit_end(const pf_model *m, visitor *v, const pf_matrix_recipe *recipe, const pf_linear *linear)
{
    visit_linear(m, v, recipe, (pf_tensor_id){ .layer = 0 }, linear, m->kernels.chosen_gemm[m->format][m->act], NULL);
}

static void visit_head_matrix(const pf_model *m, visitor *v, const pf_linear *linear)
{
    const pf_kernel *kernel = pf_head_product(&m->head, linear);
    char why[256], reason[512];
    const char *given = pf_head_matrix_reason(&m->head, linear);
    if (m->head.format != m->format && m->format == PF_FORMAT_EXACT)
        given = "the file has numbers of it, no groups of integers";
    if (given == NULL && m->head.why_full != NULL) {
        explain_kernel(m, kernel, why, sizeof why);
        snprintf(reason, sizeof reason, "%s; the head is not bounded: %s", why, m->head.why_full);
        given = reason;
    }
    visit_linear(m, v, &pf_head_recipe, (pf_tensor_id){ .layer = 0 }, linear, kernel, given);
}

void pf_model_visit_tensors(const pf_model *model, void (*visit)(void *user, const pf_model_tensor *tensor), void *user)
{
    visitor v = { .visit = visit, .user = user };
    visit_looked_up(model, &v);
    visit_vector(model, &v, PF_TENSOR_EMBEDDING_NORM, 0);
    visit_end(model, &v, &pf_project_in_recipe, &model->project_in);
    for (int32_t l = 0; l < model->config.n_layers; l++) visit_layer(model, &v, l);
    visit_end(model, &v, &pf_project_out_recipe, &model->project_out);
    visit_vector(model, &v, PF_TENSOR_FINAL_NORM, 0);
    visit_head_matrix(model, &v, &model->head.full);
    const pf_linear *step = pf_head_step_matrix(&model->head);
    if (step != &model->head.full) visit_head_matrix(model, &v, step);
}
