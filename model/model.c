/*
 * Loading: config.json says which tensors there must be and in what shape; each is found, checked, and packed once for
 * the kernels that were chosen. When it is done the files are closed: nothing of a model is mapped.
 *
 * Panels are packed by the members of the team that will read them, so each page is first touched where it is needed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/topology.h"
#include "model/safetensors.h"
#include "model/weights.h"

/* ---- names of types ------------------------------------------------------------------------------------------------ */

static const char *const DTYPE_NAMES[] = {
    [PF_DTYPE_AUTO] = "auto", [PF_DTYPE_F32] = "f32", [PF_DTYPE_F16] = "f16", [PF_DTYPE_BF16] = "bf16"
};
enum { N_DTYPES = sizeof DTYPE_NAMES / sizeof *DTYPE_NAMES };

pf_status pf_dtype_parse(const char *text, pf_dtype *out, pf_error *error)
{
    for (int i = 0; i < N_DTYPES; i++) {
        if (strcmp(text, DTYPE_NAMES[i]) == 0) {
            *out = (pf_dtype)i;
            return PF_OK;
        }
    }
    return pf_fail(error, PF_INVALID, "dtype is \"%.40s\", expected one of auto, f32, f16, bf16", text);
}

const char *pf_dtype_name(pf_dtype dtype)
{
    return DTYPE_NAMES[dtype];
}

/* AUTO keeps the precision of the file. */
static pf_status resolve_dtype(const char *directory, pf_dtype asked, pf_type in_file, pf_dtype *out, pf_error *error)
{
    if (asked == PF_DTYPE_F16 && in_file != PF_TYPE_F16)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: dtype f16 is for files in f16, and this one is in %s: take auto, f32 or bf16", directory,
                       pf_type_name(in_file));
    *out = asked != PF_DTYPE_AUTO ? asked : in_file == PF_TYPE_F32 ? PF_DTYPE_F32 : PF_DTYPE_BF16;
    return PF_OK;
}

/* ---- what there must be -------------------------------------------------------------------------------------------- */

void pf_model_shape(const pf_model *m, pf_tensor_role role, int32_t *rows, int32_t *columns)
{
    const pf_config *c = &m->config;
    const struct {
        int32_t rows, columns;
    } shapes[PF_N_TENSOR_ROLES] = {
        [PF_TENSOR_EMBEDDING] = { c->vocab_size, c->hidden_size },
        [PF_TENSOR_FINAL_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_HEAD] = { c->vocab_size, c->hidden_size },
        [PF_TENSOR_ATTENTION_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_Q] = { m->q_dim, c->hidden_size },
        [PF_TENSOR_K] = { m->kv_dim, c->hidden_size },
        [PF_TENSOR_V] = { m->kv_dim, c->hidden_size },
        [PF_TENSOR_O] = { c->hidden_size, m->q_dim },
        [PF_TENSOR_MLP_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_GATE] = { c->intermediate_size, c->hidden_size },
        [PF_TENSOR_UP] = { c->intermediate_size, c->hidden_size },
        [PF_TENSOR_DOWN] = { c->hidden_size, c->intermediate_size },
    };
    *rows = shapes[role].rows;
    *columns = shapes[role].columns;
}

const pf_matrix_recipe pf_layer_recipes[PF_N_LAYER_MATRICES] = {
    { offsetof(pf_layer, qkv), 3, { PF_TENSOR_Q, PF_TENSOR_K, PF_TENSOR_V } },
    { offsetof(pf_layer, o), 1, { PF_TENSOR_O } },
    { offsetof(pf_layer, gate), 1, { PF_TENSOR_GATE } },
    { offsetof(pf_layer, up), 1, { PF_TENSOR_UP } },
    { offsetof(pf_layer, down), 1, { PF_TENSOR_DOWN } },
};
const pf_matrix_recipe pf_head_recipe = { 0, 1, { PF_TENSOR_HEAD } };

/* ---- finding and checking ------------------------------------------------------------------------------------------ */

/* The tensors of a set and how far it has been read. */
typedef struct {
    const char *directory;
    const pf_model_options *options;
    pf_safetensors *set;
    size_t done_bytes, total_bytes;
} source;

/* The tensor of a role; its shape is the configuration's, or PF_FORMAT says what it is. */
static pf_status find_tensor(const pf_model *m, const source *src, pf_tensor_role role, int32_t layer, const char *part,
                             pf_tensor *out, pf_error *error)
{
    /* A tied head is looked up as the embedding: the file need not have both. */
    const pf_tensor_role stored = role == PF_TENSOR_HEAD && m->config.tied_embeddings ? PF_TENSOR_EMBEDDING : role;
    char name[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(&m->config, stored, layer, part, name);
    pf_tensor tensor;
    const pf_status status = pf_safetensors_find(src->set, name, &tensor, error);
    if (status == PF_UNAVAILABLE)
        return pf_fail(error, PF_FORMAT, "%s: no tensor \"%s\", which a %s with %d layers must have", src->directory,
                       name, pf_architecture_name(m->config.architecture), m->config.n_layers);
    if (status != PF_OK) return status;

    int32_t rows, columns;
    pf_model_shape(m, role, &rows, &columns);
    if (strcmp(part, "bias") == 0) columns = 0;
    const bool is_vector = columns == 0;
    if (tensor.n_dimensions != (is_vector ? 1 : 2) || tensor.shape[0] != rows ||
        (!is_vector && tensor.shape[1] != columns)) {
        char found[128];
        size_t n = 0;
        for (int32_t d = 0; d < tensor.n_dimensions && n < sizeof found - 24; d++)
            n += (size_t)snprintf(found + n, sizeof found - n, "%s%lld", d ? ", " : "", (long long)tensor.shape[d]);
        found[n] = '\0';
        if (is_vector)
            return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has shape [%s], config.json makes it [%d]",
                           src->directory, name, found, rows);
        return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has shape [%s], config.json makes it [%d, %d]",
                       src->directory, name, found, rows, columns);
    }
    *out = tensor;
    return PF_OK;
}

/* Names that the model reads, sorted, to find the one in a file that it does not. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Old checkpoints carry buffers that follow from the configuration, and tied ones may carry the head too. */
static bool may_be_ignored(const pf_model *m, const char *name)
{
    const char *suffix = "rotary_emb.inv_freq";
    const size_t n = strlen(name), n_suffix = strlen(suffix);
    if (n >= n_suffix && strcmp(name + n - n_suffix, suffix) == 0) return true;
    char head[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(&m->config, PF_TENSOR_HEAD, 0, "weight", head);
    return m->config.tied_embeddings && strcmp(name, head) == 0;
}

static pf_status refuse_unknown_tensors(const pf_model *m, const source *src, char (*known)[PF_MAX_TENSOR_NAME],
                                        size_t n_known, pf_error *error)
{
    qsort(known, n_known, sizeof *known, compare_names);
    for (int32_t i = 0; i < pf_safetensors_count(src->set); i++) {
        const char *name = pf_safetensors_name(src->set, i);
        char key[PF_MAX_TENSOR_NAME];
        const bool fits = strlen(name) < sizeof key;
        if (fits && bsearch(strcpy(key, name), known, n_known, sizeof *known, compare_names) != NULL) continue;
        if (may_be_ignored(m, name)) continue;
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: tensor \"%.160s\" is no part of a %s as config.json describes it: it would be left out",
                       src->directory, name, pf_architecture_name(m->config.architecture));
    }
    return PF_OK;
}

/* Find every tensor once, check its shape, count bytes and parameters, and refuse what is left over. */
static pf_status check_tensors(pf_model *m, source *src, pf_error *error)
{
    const size_t most = 3 + (size_t)m->config.n_layers * 2 * (PF_N_TENSOR_ROLES - 3);
    char(*known)[PF_MAX_TENSOR_NAME] = calloc(most, sizeof *known);
    if (known == NULL)
        return pf_fail(error, PF_NOMEM, "%s: no memory for the names of %zu tensors", src->directory, most);
    size_t n_known = 0;
    pf_status status = PF_OK;
    for (int32_t layer = 0; layer < m->config.n_layers && status == PF_OK; layer++) {
        for (int r = layer == 0 ? 0 : PF_TENSOR_ATTENTION_NORM; r < PF_N_TENSOR_ROLES && status == PF_OK; r++) {
            const pf_tensor_role role = (pf_tensor_role)r;
            if (role == PF_TENSOR_HEAD && m->config.tied_embeddings) continue;
            const char *const parts[] = { "weight", "bias" };
            for (int p = 0; p < (pf_config_has_bias(&m->config, role) ? 2 : 1) && status == PF_OK; p++) {
                pf_tensor tensor;
                status = find_tensor(m, src, role, layer, parts[p], &tensor, error);
                if (status != PF_OK) break;
                src->total_bytes += tensor.data_bytes;
                m->n_parameters += (int64_t)(tensor.data_bytes / pf_type_bytes(tensor.type));
                pf_config_tensor_name(&m->config, role, layer, parts[p], known[n_known++]);
            }
        }
    }
    if (status == PF_OK) status = refuse_unknown_tensors(m, src, known, n_known, error);
    free(known);
    return status;
}

/* ---- layout -------------------------------------------------------------------------------------------------------- */

/* Plan a matrix and take its memory. False: a size does not fit. */
static bool lay_out_linear(const pf_model *m, const pf_matrix_recipe *recipe, pf_linear *linear, pf_arena *arena)
{
    int32_t n = 0, k = 0;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        int32_t rows;
        pf_model_shape(m, recipe->parts[p], &rows, &k);
        if (__builtin_add_overflow(n, rows, &n)) return false;
    }
    size_t bytes;
    if (pf_gemm_plan_weights(m->format, n, k, &linear->weights, &bytes) != PF_OK) return false;
    linear->weights.panels = pf_arena_take(arena, bytes, 1);
    linear->bias = NULL;
    if (pf_config_has_bias(&m->config, recipe->parts[0])) linear->bias = pf_arena_take(arena, (size_t)n, sizeof(float));
    return true;
}

/* Give every weight its place: the same walk measures and takes. */
static bool lay_out(pf_model *m, pf_arena *arena)
{
    const size_t hidden = (size_t)m->config.hidden_size;
    m->embedding = pf_arena_take(arena, (size_t)m->config.vocab_size, hidden * pf_type_bytes(m->weight_type));
    m->final_norm = pf_arena_take(arena, hidden, sizeof(float));
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        pf_layer *layer = &m->layers[l];
        layer->attention_norm = pf_arena_take(arena, hidden, sizeof(float));
        layer->mlp_norm = pf_arena_take(arena, hidden, sizeof(float));
        for (int i = 0; i < PF_N_LAYER_MATRICES; i++)
            if (!lay_out_linear(m, &pf_layer_recipes[i], pf_layer_matrix(layer, i), arena)) return false;
    }
    return lay_out_linear(m, &pf_head_recipe, &m->head, arena);
}

static pf_status reserve(pf_model *m, const source *src, pf_error *error)
{
    pf_arena measure = pf_arena_measure();
    if (!lay_out(m, &measure))
        return pf_fail(error, PF_LIMIT, "%s: a matrix is larger than can be addressed", src->directory);
    pf_topology machine;
    PF_TRY(pf_topology_read(&machine, error));
    if (machine.memory_bytes > 0 && measure.used > machine.memory_bytes)
        return pf_fail(error, PF_LIMIT, "%s: as %s the model takes %zu MiB, and this machine has %zu MiB",
                       src->directory, pf_dtype_name(m->dtype), measure.used >> 20, machine.memory_bytes >> 20);
    const pf_status status = pf_arena_create(measure.used, &m->arena);
    if (status != PF_OK)
        return pf_fail(error, status, "%s: no memory for %zu MiB of weights", src->directory, measure.used >> 20);
    return lay_out(m, &m->arena) ? PF_OK : PF_INTERNAL;
}

/* ---- packing ------------------------------------------------------------------------------------------------------- */

static float load_element(const uint8_t *data, pf_type type, size_t i)
{
    if (type == PF_TYPE_F32) {
        float value;
        memcpy(&value, data + i * 4, sizeof value);
        return value;
    }
    uint16_t half;
    memcpy(&half, data + i * 2, sizeof half);
    return type == PF_TYPE_BF16 ? pf_bf16_to_f32(half) : pf_f16_to_f32(half);
}

/* One matrix to be packed by the team. */
typedef struct {
    const pf_gemm_weights *weights;
    pf_gemm_source parts[3];
    int32_t n_parts;
} pack_job;

static void pack_share(pf_member member, void *arg)
{
    const pack_job *job = arg;
    int32_t begin, end;
    pf_team_share(member, job->weights->n_panels, &begin, &end);
    if (begin < end) pf_gemm_pack_weights(job->weights, job->parts, job->n_parts, begin, end);
}

/* The file's pages of a tensor are not needed again: packed weights and the raw ones should not add up in memory. */
static void forget_raw(const pf_tensor *tensor)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)tensor->data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)tensor->data + tensor->data_bytes) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static void report_progress(source *src, size_t bytes)
{
    src->done_bytes += bytes;
    if (src->options->progress != NULL)
        src->options->progress(src->options->progress_user, src->done_bytes, src->total_bytes);
}

static pf_status load_vector(const pf_model *m, source *src, pf_tensor_role role, int32_t layer, const char *part,
                             float *out, pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(find_tensor(m, src, role, layer, part, &tensor, error));
    for (int64_t i = 0; i < tensor.shape[0]; i++) out[i] = load_element(tensor.data, tensor.type, (size_t)i);
    report_progress(src, tensor.data_bytes);
    return PF_OK;
}

static pf_status load_linear(const pf_model *m, source *src, const pf_matrix_recipe *recipe, int32_t layer,
                             const pf_linear *linear, pf_error *error)
{
    pack_job job = { .weights = &linear->weights, .n_parts = recipe->n_parts };
    pf_tensor tensors[3];
    float *bias = linear->bias;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        PF_TRY(find_tensor(m, src, recipe->parts[p], layer, "weight", &tensors[p], error));
        job.parts[p] = (pf_gemm_source){ .data = tensors[p].data,
                                         .type = tensors[p].type,
                                         .n_rows = (int32_t)tensors[p].shape[0],
                                         .stride = (size_t)tensors[p].shape[1] };
        if (bias != NULL) {
            PF_TRY(load_vector(m, src, recipe->parts[p], layer, "bias", bias, error));
            bias += tensors[p].shape[0];
        }
    }
    pf_team_run(src->options->team, pack_share, &job);

    const bool counted_already = recipe->parts[0] == PF_TENSOR_HEAD && m->config.tied_embeddings;
    for (int32_t p = 0; p < recipe->n_parts; p++) {
        forget_raw(&tensors[p]);
        report_progress(src, counted_already ? 0 : tensors[p].data_bytes);
    }
    return PF_OK;
}

static pf_status load_embedding(const pf_model *m, source *src, pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(find_tensor(m, src, PF_TENSOR_EMBEDDING, 0, "weight", &tensor, error));
    const size_t n = (size_t)m->config.vocab_size * (size_t)m->config.hidden_size;
    if (tensor.type == m->weight_type) {
        memcpy(m->embedding, tensor.data, tensor.data_bytes);
    } else if (m->weight_type == PF_TYPE_F32) {
        for (size_t i = 0; i < n; i++) ((float *)m->embedding)[i] = load_element(tensor.data, tensor.type, i);
    } else {
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)m->embedding)[i] = pf_bf16_from_f32(load_element(tensor.data, tensor.type, i));
    }
    forget_raw(&tensor);
    report_progress(src, tensor.data_bytes);
    return PF_OK;
}

static pf_status load_weights(const pf_model *m, source *src, pf_error *error)
{
    PF_TRY(load_embedding(m, src, error));
    PF_TRY(load_vector(m, src, PF_TENSOR_FINAL_NORM, 0, "weight", m->final_norm, error));
    for (int32_t l = 0; l < m->config.n_layers; l++) {
        pf_layer *layer = &m->layers[l];
        PF_TRY(load_vector(m, src, PF_TENSOR_ATTENTION_NORM, l, "weight", layer->attention_norm, error));
        PF_TRY(load_vector(m, src, PF_TENSOR_MLP_NORM, l, "weight", layer->mlp_norm, error));
        for (int i = 0; i < PF_N_LAYER_MATRICES; i++)
            PF_TRY(load_linear(m, src, &pf_layer_recipes[i], l, pf_layer_matrix(layer, i), error));
    }
    return load_linear(m, src, &pf_head_recipe, 0, &m->head, error);
}

/* ---- the model ----------------------------------------------------------------------------------------------------- */

static pf_status open_model(pf_model *m, source *src, pf_error *error)
{
    PF_TRY(pf_config_load(src->directory, &m->config, error));
    m->q_dim = m->config.n_heads * m->config.head_dim;
    m->kv_dim = m->config.n_kv_heads * m->config.head_dim;
    PF_TRY(pf_kernels_select(src->options->isa, &m->kernels, error));
    PF_TRY(pf_safetensors_open(src->directory, &src->set, error));

    pf_tensor embedding;
    PF_TRY(find_tensor(m, src, PF_TENSOR_EMBEDDING, 0, "weight", &embedding, error));
    PF_TRY(resolve_dtype(src->directory, src->options->dtype, embedding.type, &m->dtype, error));
    m->weight_type = m->dtype == PF_DTYPE_BF16 ? PF_TYPE_BF16 : PF_TYPE_F32;
    m->format = m->dtype == PF_DTYPE_BF16 ? PF_FORMAT_BF16 : PF_FORMAT_F32;
    m->act = pf_format_get(m->format)->act;
    PF_TRY(check_tensors(m, src, error));

    m->layers = calloc((size_t)m->config.n_layers, sizeof *m->layers);
    if (m->layers == NULL)
        return pf_fail(error, PF_NOMEM, "%s: no memory for %d layers", src->directory, m->config.n_layers);
    PF_TRY(reserve(m, src, error));
    return load_weights(m, src, error);
}

pf_status pf_model_load(const char *directory, const pf_model_options *options, pf_model **out, pf_error *error)
{
    pf_model *m = calloc(1, sizeof *m);
    if (m == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for a model", directory);
    source src = { .directory = directory, .options = options };
    const pf_status status = open_model(m, &src, error);
    pf_safetensors_close(src.set);
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
    pf_arena_destroy(&model->arena);
    free(model->layers);
    free(model);
}

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
        if (model->weight_type == PF_TYPE_F32) {
            memcpy(x, (const float *)model->embedding + (size_t)tokens[i] * hidden, hidden * sizeof *x);
            continue;
        }
        const uint16_t *row = (const uint16_t *)model->embedding + (size_t)tokens[i] * hidden;
        for (size_t d = 0; d < hidden; d++) x[d] = pf_bf16_to_f32(row[d]);
    }
}
