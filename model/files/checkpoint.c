/*
 * Names, shapes and types are checked once, at open, so that an unusable file is refused before anything is packed. Data are
 * checked when a matrix is read, except that a tied LM head is compared with the embedding at open: what a step reads, and so
 * every later choice, depends on it.
 */
#include "model/files/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/stop.h"
#include "model/config/dtype.h"
#include "model/files/quantised_role.h"
#include "model/files/role_rows.h"
#include "model/files/tensor_shape.h"
#include "model/files/unused_tensors.h"

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

static pf_status missing(const pf_checkpoint *c, const char *name, pf_error *error)
{
    return pf_fail(error, PF_FORMAT, "%s: no tensor \"%s\", which a %s with %d layers%s must have", c->directory, name,
                   pf_architecture_name(c->config.architecture), c->config.n_layers,
                   c->config.quantized || c->config.quantization.scheme != PF_SCHEME_NONE ? " and a quantization_config"
                                                                                          : "");
}

static pf_status check_shape(const pf_checkpoint *c, const pf_tensor *tensor, const int64_t *wanted, int32_t n,
                             pf_error *error)
{
    int32_t skipped = 0; /* llama.cpp writes a matrix of one row as a vector */
    while (c->config.gguf && n - skipped > tensor->n_dimensions && wanted[skipped] == 1) skipped++;
    return pf_tensor_check_shape(c->directory, c->config.gguf ? "the metadata" : "config.json", tensor,
                                 wanted + skipped, n - skipped, error);
}

/* Whether the files hold the weight of a role as integers. */
static bool is_integer(const pf_checkpoint *c, pf_tensor_role role)
{
    return c->config.quantized && pf_config_is_multiplied(&c->config, role);
}

/* A base model (LlamaModel, GPT2Model) saves its tensors without the first component of their names. */
static size_t prefix_length(const pf_config *config)
{
    const char *embedding = pf_config_pattern(config, PF_TENSOR_EMBEDDING)->name;
    const char *dot = strchr(embedding, '.');
    return dot == NULL ? 0 : (size_t)(dot - embedding) + 1;
}

void pf_checkpoint_name(const pf_checkpoint *c, pf_tensor_id id, const char *part, char out[PF_MAX_TENSOR_NAME])
{
    if (c->named_as_head && id.role == PF_TENSOR_EMBEDDING) id.role = PF_TENSOR_HEAD;
    if (is_integer(c, id.role) && strcmp(part, "bias") != 0)
        pf_checkpoint_integer_name(&c->config, id, part, out);
    else
        pf_config_tensor_name(&c->config, id, part, out);
    const size_t n_prefix = c->without_prefix ? prefix_length(&c->config) : 0;
    if (n_prefix > 0 && strncmp(out, pf_config_pattern(&c->config, PF_TENSOR_EMBEDDING)->name, n_prefix) == 0)
        memmove(out, out + n_prefix, strlen(out + n_prefix) + 1);
}

/* The columns of a part of a role; 0: a vector. */
static int32_t columns_of(const pf_checkpoint *c, pf_tensor_role role, const char *part)
{
    int32_t rows, columns;
    pf_config_shape(&c->config, role, &rows, &columns);
    return strcmp(part, "bias") == 0 ? 0 : columns;
}

pf_status pf_checkpoint_tensor(const pf_checkpoint *c, pf_tensor_id id, const char *part, pf_tensor *out,
                               pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_checkpoint_name(c, id, part, name);
    pf_tensor tensor;
    const pf_status status = pf_tensor_source_find(&c->source, name, &tensor, error);
    if (status == PF_UNAVAILABLE) return missing(c, name, error);
    if (status != PF_OK) return status;
    const int32_t columns = columns_of(c, id.role, part);
    const pf_role_rows rows = pf_role_rows_of(&c->config, id, columns);
    int64_t shape[3];
    const int32_t n = pf_role_rows_file_shape(&c->config, &rows, id.role, columns == 0, shape);
    PF_TRY(check_shape(c, &tensor, shape, n, error));
    *out = tensor;
    return PF_OK;
}

pf_status pf_checkpoint_vector(const pf_checkpoint *c, pf_tensor_id id, const char *part, float *out, size_t *n_bytes,
                               pf_error *error)
{
    pf_tensor tensor;
    const pf_role_rows rows = pf_role_rows_of(&c->config, id, 0);
    const int32_t n = pf_config_pattern(&c->config, id.role)->per_head ? c->config.head_dim : rows.rows;
    *n_bytes = 0;
    for (int32_t first = 0; first < rows.rows; first += n, id.expert++) { /* one tensor, or one a head */
        PF_TRY(pf_checkpoint_tensor(c, id, part, &tensor, error));
        if (tensor.blocks != PF_GGML_F32)
            return pf_fail(error, PF_UNSUPPORTED,
                           "%s: tensor \"%s\" is of type %s, expected a vector of F32, F16 or BF16", c->directory,
                           tensor.name, pf_ggml_type_get(tensor.blocks)->name);
        for (int32_t i = 0; i < n; i++)
            out[first + i] = pf_tensor_element(tensor.data, tensor.type, (size_t)pf_role_rows_element(&rows, i, 0));
        *n_bytes += (size_t)n * pf_type_bytes(tensor.type);
    }
    return PF_OK;
}

bool pf_checkpoint_is_first(const pf_checkpoint *c, pf_tensor_id id)
{
    const pf_tensor_pattern *pattern = pf_config_pattern(&c->config, id.role);
    if (pattern->stacked && id.expert > 0) return false;
    switch (pattern->layout) {
    case PF_LAYOUT_PLAIN: return true;
    case PF_LAYOUT_QKV:
    case PF_LAYOUT_QKV_GROUPS:
    case PF_LAYOUT_QVK_QUARTERS: return id.role == PF_TENSOR_Q;
    case PF_LAYOUT_GATE_UP:
    case PF_LAYOUT_UP_GATE:
    case PF_LAYOUT_GATE_UP_PAIRS:
        return id.role == PF_TENSOR_GATE || id.role == PF_TENSOR_EXPERT_GATE || id.role == PF_TENSOR_SHARED_GATE;
    }
    return true;
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */

void pf_checkpoint_integer_name(const pf_config *config, pf_tensor_id id, const char *part,
                                char out[PF_MAX_TENSOR_NAME])
{
    static const char *const words[PF_N_TENSOR_ROLES] = {
        [PF_TENSOR_Q] = "q.",          [PF_TENSOR_K] = "k.",
        [PF_TENSOR_V] = "v.",          [PF_TENSOR_GATE] = "gate.",
        [PF_TENSOR_UP] = "up.",        [PF_TENSOR_EXPERT_GATE] = "gate.",
        [PF_TENSOR_EXPERT_UP] = "up.", [PF_TENSOR_SHARED_GATE] = "gate.",
        [PF_TENSOR_SHARED_UP] = "up.",
    };
    const pf_tensor_pattern *pattern = pf_config_pattern(config, id.role);
    const bool is_fused = pattern->layout != PF_LAYOUT_PLAIN;
    char stem[PF_MAX_TENSOR_NAME], expert[16] = "";
    pf_config_tensor_name(config, id, "weight", stem);
    if (!pattern->bare) stem[strlen(stem) - strlen(".weight")] = '\0';
    if (pattern->stacked) snprintf(expert, sizeof expert, "%d.", id.expert);
    snprintf(out, PF_MAX_TENSOR_NAME, "%.100s.%s%s%s", stem, expert, is_fused ? words[id.role] : "", part);
}

const char *pf_checkpoint_params_part(pf_format format)
{
    if (!pf_gemm_has_heads(format)) return NULL;
    return pf_format_get(format)->group ? "weight_head" : "weight_zero";
}

static pf_status find_bytes(const pf_checkpoint *c, pf_tensor_id id, const char *part, const char *dtype, int64_t rows,
                            int64_t columns, pf_tensor *out, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_checkpoint_name(c, id, part, name);
    const pf_status status = pf_tensor_source_find_bytes(&c->source, name, dtype, out, error);
    if (status == PF_UNAVAILABLE) return missing(c, name, error);
    if (status != PF_OK) return status;
    const int64_t shape[] = { rows, columns };
    return check_shape(c, out, shape, columns == 0 ? 1 : 2, error);
}

/* The parts of a quantised matrix. */
typedef struct {
    pf_tensor weight, scale, params; /* params.data NULL: the format has no group parameters */
    int32_t rows, columns;
} integers;

static pf_status find_integers(const pf_checkpoint *c, pf_tensor_id id, integers *out, pf_error *error)
{
    const pf_format_info *format = pf_format_get(c->config.format);
    const char *params_part = pf_checkpoint_params_part(c->config.format);
    integers m = { .params = { .data = NULL } };
    pf_config_shape(&c->config, id.role, &m.rows, &m.columns);
    const int64_t groups = format->group ? pf_gemm_groups(c->config.format, m.columns) : 0;
    const int64_t row_bytes = format->bits == 8 ? m.columns : ((int64_t)m.columns + 1) / 2;
    PF_TRY(find_bytes(c, id, "weight", format->bits == 8 ? "I8" : "U8", m.rows, row_bytes, &m.weight, error));
    PF_TRY(find_bytes(c, id, "weight_scale", "F32", m.rows, 0, &m.scale, error));
    if (params_part) PF_TRY(find_bytes(c, id, params_part, "U8", m.rows, groups, &m.params, error));
    *out = m;
    return PF_OK;
}

/* The largest magnitude of F16 or BF16 numbers, and of F32 numbers, as bits. The loops have no early exit: they vectorise and
 * run at memory speed. */
static uint32_t largest_half(const uint8_t *data, size_t n)
{
    uint16_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, data + i * sizeof h, sizeof h);
        h &= 0x7FFFu;
        largest = h > largest ? h : largest;
    }
    return largest;
}

static uint32_t largest_word(const uint8_t *data, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, data + i * sizeof bits, sizeof bits);
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* The bits of infinities and NaNs are larger than those of finite numbers. */
static bool are_finite(const uint8_t *data, pf_type type, size_t n_bytes)
{
    if (type == PF_TYPE_F32) return largest_word(data, n_bytes / 4) < 0x7F800000u;
    return largest_half(data, n_bytes / 2) < (type == PF_TYPE_BF16 ? 0x7F80u : 0x7C00u);
}

static pf_status check_scales(const pf_checkpoint *c, const integers *m, pf_error *error)
{
    if (are_finite(m->scale.data, PF_TYPE_F32, m->scale.data_bytes)) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has a scale that is not finite", c->directory, m->scale.name);
}

static pf_status check_params(const pf_checkpoint *c, const integers *m, pf_error *error)
{
    const pf_format_info *format = pf_format_get(c->config.format);
    if (m->params.data == NULL) return PF_OK;
    const size_t bad = pf_gemm_find_bad_head(c->config.format, m->params.data, m->params.data_bytes);
    if (bad == m->params.data_bytes) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has a byte of 0x%02x, expected %s", c->directory,
                   m->params.name, m->params.data[bad],
                   format->group == 0  ? "at most 0x0f"
                   : format->has_zeros ? "m << 4 | z with m * max(z, 15 - z) of at most 127"
                                       : "m << 4 | z with a z of 7 or 8");
}

static pf_gemm_source integer_source(const pf_checkpoint *c, const integers *m)
{
    const size_t k = (size_t)m->columns;
    return (pf_gemm_source){ .data = m->weight.data,
                             .n_rows = m->rows,
                             .stride = pf_format_get(c->config.format)->bits == 8 ? k : (k + 1) / 2 * 2,
                             .scales = m->scale.data,
                             .heads = m->params.data };
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

static pf_status gather(const pf_checkpoint *c, const pf_role_rows *rows, const pf_tensor *tensor,
                        pf_checkpoint_rows *out, pf_error *error)
{
    const size_t n = (size_t)rows->rows * (size_t)rows->columns;
    out->gathered = malloc(n * pf_type_bytes(tensor->type));
    if (out->gathered == NULL)
        return pf_fail(error, PF_NOMEM, "%s: no memory to gather %zu weights of tensor \"%s\"", c->directory, n,
                       tensor->name);
    pf_role_rows_gather(rows, tensor, out->gathered);
    if (tensor->blocks != PF_GGML_F32) {
        const pf_ggml_type_info *info = pf_ggml_type_get(tensor->blocks);
        out->file_bytes = n / (size_t)info->block_elements * (size_t)info->block_bytes;
    }
    out->source.data = out->gathered;
    return PF_OK;
}

/* Divides each row by its length, in F32. Source: NormHead of Baichuan 2, arXiv:2309.10305, section 2.3. */
static pf_status normalise(const pf_checkpoint *c, pf_checkpoint_rows *out, pf_error *error)
{
    static const double least = 1e-12; /* as torch.nn.functional.normalize */
    const pf_gemm_source from = out->source;
    const size_t n = (size_t)from.n_rows, k = from.stride;
    float *to = malloc(n * k * sizeof *to);
    if (to == NULL)
        return pf_fail(error, PF_NOMEM, "%s: no memory for an LM head of %zu normalised rows", c->directory, n);
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < k; j++) {
            to[i * k + j] = pf_tensor_element(from.data, from.type, i * k + j);
            sum += (double)to[i * k + j] * (double)to[i * k + j];
        }
        const float length = (float)fmax(sqrt(sum), least);
        for (size_t j = 0; j < k; j++) to[i * k + j] /= length;
    }
    free(out->gathered);
    out->gathered = to;
    out->source.data = to;
    out->source.type = PF_TYPE_F32;
    return PF_OK;
}

/* A matrix that is not integers. */
static pf_status find_plain(const pf_checkpoint *c, pf_tensor_id id, pf_checkpoint_rows *out, pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(pf_checkpoint_tensor(c, id, "weight", &tensor, error));
    const pf_role_rows rows = pf_role_rows_of(&c->config, id, columns_of(c, id.role, "weight"));
    out->source = (pf_gemm_source){ .type = tensor.type, .n_rows = rows.rows, .stride = (size_t)rows.columns };
    if (!pf_role_rows_are_contiguous(&rows) || tensor.blocks != PF_GGML_F32)
        return gather(c, &rows, &tensor, out, error);
    out->source.data = tensor.data + (size_t)pf_role_rows_element(&rows, 0, 0) * pf_type_bytes(tensor.type);
    return PF_OK;
}

pf_status pf_checkpoint_matrix(const pf_checkpoint *c, pf_tensor_id id, pf_checkpoint_rows *out, pf_error *error)
{
    *out = (pf_checkpoint_rows){ .gathered = NULL };
    if (is_integer(c, id.role)) {
        integers m;
        PF_TRY(find_integers(c, id, &m, error));
        PF_TRY(check_scales(c, &m, error));
        PF_TRY(check_params(c, &m, error));
        out->source = integer_source(c, &m);
        return PF_OK;
    }
    pf_quantised_role quantised;
    PF_TRY(pf_quantised_role_find(c, id, &quantised, error));
    PF_TRY(quantised.matrix.n_groups > 0 ? pf_quantised_role_gather(c, &quantised, out, error)
                                         : find_plain(c, id, out, error));
    return id.role == PF_TENSOR_HEAD && c->config.plan.normalised_head ? normalise(c, out, error) : PF_OK;
}

/* ---- matrices in groups ------------------------------------------------------------------------------------------ */

static const char *scheme_name(pf_scheme scheme)
{
    static const char *const names[] = { [PF_SCHEME_NONE] = "numbers",
                                         [PF_SCHEME_GPTQ] = "GPTQ",
                                         [PF_SCHEME_AWQ] = "AWQ",
                                         [PF_SCHEME_SCALED] = "compressed-tensors",
                                         [PF_SCHEME_BITSANDBYTES] = "bitsandbytes" };
    return names[scheme];
}

bool pf_checkpoint_groups(const pf_checkpoint *c, pf_tensor_id id, pf_group_format *groups, const char **type)
{
    pf_tensor tensor;
    pf_quantised_role quantised;
    if (is_integer(c, id.role)) return false;
    if (id.role == PF_TENSOR_HEAD && c->config.plan.normalised_head) return false;
    if (pf_quantised_role_find(c, id, &quantised, NULL) != PF_OK) return false;
    *type = scheme_name(c->config.quantization.scheme);
    if (quantised.matrix.n_groups > 0) return pf_quantised_exact_format(&quantised.matrix, groups);
    if (pf_checkpoint_tensor(c, id, "weight", &tensor, NULL) != PF_OK || tensor.groups == NULL) return false;
    *type = pf_ggml_type_get(tensor.blocks)->name;
    *groups = tensor.groups->format;
    return true;
}

static int32_t file_row(const pf_checkpoint_rows *rows, int32_t row)
{
    return (int32_t)(pf_role_rows_element(&rows->map, row, 0) / rows->map.columns);
}

static void fill_blocks(const void *user, int32_t row, int32_t k, int32_t n, pf_group_piece *out)
{
    const pf_checkpoint_rows *rows = user;
    rows->tensor.groups->fill(&rows->tensor, file_row(rows, row), k, n, out);
}

static void fill_quantised(const void *user, int32_t row, int32_t k, int32_t n, pf_group_piece *out)
{
    const pf_checkpoint_rows *rows = user;
    pf_quantised_fill(&rows->quantised, &rows->source.groups, (pf_quantised_span){ file_row(rows, row), k, n }, out);
}

static int64_t count_elements(const pf_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t d = 0; d < tensor->n_dimensions; d++) n *= tensor->shape[d]; /* its bytes are in a file */
    return n;
}

/* Finds what the rows are in, and how many of its bytes they are: roles may share a tensor. */
static pf_status find_grouped(const pf_checkpoint *c, pf_tensor_id id, pf_checkpoint_rows *out, pf_error *error)
{
    pf_quantised_role quantised;
    PF_TRY(pf_quantised_role_find(c, id, &quantised, error));
    if (quantised.matrix.n_groups > 0) {
        PF_TRY(pf_quantised_role_check(c, &quantised, error));
        out->quantised = quantised.matrix;
        out->map = quantised.rows;
        out->file_bytes =
            (size_t)((double)pf_quantised_bytes(&quantised.matrix) * out->map.rows / out->map.map.file_rows);
        return PF_OK;
    }
    PF_TRY(pf_checkpoint_tensor(c, id, "weight", &out->tensor, error));
    out->map = pf_role_rows_of(&c->config, id, columns_of(c, id.role, "weight"));
    const double share = (double)out->map.rows * out->map.columns / (double)count_elements(&out->tensor);
    out->file_bytes = (size_t)((double)out->tensor.data_bytes * share);
    return PF_OK;
}

pf_status pf_checkpoint_matrix_in_groups(const pf_checkpoint *c, pf_tensor_id id, pf_checkpoint_rows *out,
                                         pf_error *error)
{
    const char *type;
    pf_group_format groups;
    *out = (pf_checkpoint_rows){ .gathered = NULL };
    if (!pf_checkpoint_groups(c, id, &groups, &type))
        return pf_fail(error, PF_INTERNAL, "%s: a matrix in groups has none", c->directory);
    PF_TRY(find_grouped(c, id, out, error));
    out->source = (pf_gemm_source){ .n_rows = out->map.rows,
                                    .stride = (size_t)out->map.columns,
                                    .fill = out->quantised.n_groups > 0 ? fill_quantised : fill_blocks,
                                    .fill_user = out,
                                    .groups = groups };
    return PF_OK;
}

pf_status pf_checkpoint_file_matrix(const pf_checkpoint *c, pf_tensor_id id, pf_checkpoint_rows *out, pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(pf_checkpoint_tensor(c, id, "weight", &tensor, error));
    const int64_t columns = tensor.shape[tensor.n_dimensions - 1];
    int64_t rows = 1;
    for (int32_t d = 0; d < tensor.n_dimensions - 1; d++) rows *= tensor.shape[d]; /* its bytes are in a file */
    if (rows > INT32_MAX)
        return pf_fail(error, PF_LIMIT, "%s: tensor \"%s\" has %lld rows, expected at most %d", c->directory,
                       tensor.name, (long long)rows, INT32_MAX);
    *out = (pf_checkpoint_rows){
        .source = { .data = tensor.data, .type = tensor.type, .n_rows = (int32_t)rows, .stride = (size_t)columns }
    };
    return PF_OK;
}

/* ---- pages of the files --------------------------------------------------------------------------------- */

static bool is_int8(const pf_checkpoint *c, const pf_gemm_source *matrix)
{
    return matrix->scales != NULL && pf_format_get(c->config.format)->bits == 8;
}

/* The size of a row in the file. */
static size_t row_bytes(const pf_checkpoint *c, const pf_gemm_source *matrix)
{
    if (matrix->scales == NULL) return matrix->stride * pf_type_bytes(matrix->type);
    return is_int8(c, matrix) ? matrix->stride : matrix->stride / 2;
}

/* Advises the kernel on the whole pages of n bytes; with `outward` also on the pages at both ends, shared with other data. */
static void advise(const void *data, size_t n_bytes, int advice, bool outward)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data, to = from + n_bytes;
    const uintptr_t begin = (outward ? from : from + page - 1) / page * page;
    const uintptr_t end = (outward ? to + page - 1 : to) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, advice);
}

int32_t pf_checkpoint_chunk(const pf_checkpoint *c, const pf_checkpoint_rows *matrix, int32_t multiple_of)
{
    enum { BYTES = 2 << 20 };
    const size_t row = matrix->source.fill != NULL ? matrix->file_bytes / (size_t)matrix->source.n_rows + 1
                                                   : row_bytes(c, &matrix->source);
    const size_t some = row * (size_t)multiple_of;
    return multiple_of * (int32_t)(some < BYTES ? BYTES / some : 1);
}

bool pf_checkpoint_acquire_rows(const pf_checkpoint *c, const pf_checkpoint_rows *m, int32_t begin, int32_t end,
                                pf_format into)
{
    const pf_gemm_source *matrix = &m->source;
    if (matrix->fill != NULL) return true; /* a NaN stays one */
    const size_t bytes = row_bytes(c, matrix), n = (size_t)(end - begin) * bytes;
    const uint8_t *rows = (const uint8_t *)matrix->data + (size_t)begin * bytes;
#ifdef MADV_POPULATE_READ
    if (m->gathered == NULL) advise(rows, n, MADV_POPULATE_READ, true); /* on failure pages are read on access */
#endif
    if (matrix->scales == NULL) return !pf_format_is_integer(into) || are_finite(rows, matrix->type, n);
    if (!is_int8(c, matrix)) return true;
    bool valid = true;
    for (size_t i = 0; i < n; i++) valid &= rows[i] != 0x80;
    return valid;
}

void pf_checkpoint_release_rows(const pf_checkpoint *c, const pf_checkpoint_rows *matrix, int32_t begin, int32_t end)
{
    if (matrix->gathered != NULL || matrix->source.fill != NULL) return;
    const size_t bytes = row_bytes(c, &matrix->source);
    advise((const uint8_t *)matrix->source.data + (size_t)begin * bytes, (size_t)(end - begin) * bytes, MADV_DONTNEED,
           false);
}

static size_t scale_bytes(const pf_gemm_source *matrix)
{
    return matrix->scales != NULL ? (size_t)matrix->n_rows * sizeof(float) : 0;
}

static size_t params_bytes(const pf_checkpoint *c, const pf_gemm_source *matrix)
{
    if (matrix->heads == NULL) return 0;
    const int32_t k = (int32_t)matrix->stride; /* an odd k and the even one above it have equally many groups */
    return (size_t)matrix->n_rows * (size_t)pf_gemm_groups(c->config.format, k);
}

size_t pf_checkpoint_matrix_bytes(const pf_checkpoint *c, const pf_checkpoint_rows *rows)
{
    const pf_gemm_source *matrix = &rows->source;
    if (rows->file_bytes > 0) return rows->file_bytes;
    return (size_t)matrix->n_rows * row_bytes(c, matrix) + scale_bytes(matrix) + params_bytes(c, matrix);
}

void pf_checkpoint_release_matrix(const pf_checkpoint *c, pf_checkpoint_rows *rows)
{
    const pf_gemm_source *matrix = &rows->source;
    pf_checkpoint_release_rows(c, rows, 0, matrix->n_rows);
    free(rows->gathered);
    rows->gathered = NULL;
    if (matrix->fill != NULL && rows->tensor.data != NULL)
        advise(rows->tensor.data, rows->tensor.data_bytes, MADV_DONTNEED, false);
    advise(matrix->scales, scale_bytes(matrix), MADV_DONTNEED, false);
    advise(matrix->heads, params_bytes(c, matrix), MADV_DONTNEED, false);
}

pf_status pf_checkpoint_fail_rows(const pf_checkpoint *c, pf_tensor_id id, pf_format into, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_checkpoint_name(c, id, "weight", name);
    if (!c->config.quantized)
        return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has a weight that is not finite, which %s cannot hold",
                       c->directory, name, pf_format_get(into)->name);
    return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has a value of -128, expected -127 to 127", c->directory, name);
}

/* ---- all tensors ------------------------------------------------------------------------------------------------- */

/* The names of the tensors that are read, sorted once all are there; they grow with what the files hold. */
typedef struct {
    char (*names)[PF_MAX_TENSOR_NAME];
    size_t n, capacity;
} known_names;

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool is_known(const known_names *known, const char *name)
{
    char key[PF_MAX_TENSOR_NAME];
    if (strlen(name) >= sizeof key) return false;
    return bsearch(strcpy(key, name), known->names, known->n, sizeof *known->names, compare_names) != NULL;
}

/* A tied checkpoint may hold the head too: it was compared with the embedding. */
static bool is_copy_of_embedding(const pf_checkpoint *c, const char *name)
{
    char head[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(&c->config, (pf_tensor_id){ .role = PF_TENSOR_HEAD }, "weight", head);
    return c->config.tied_embeddings && strcmp(name, head) == 0;
}

/* Reports what the files hold besides the model's tensors, and refuses what would change its logits. */
static pf_status check_extra_tensors(const pf_checkpoint *c, known_names *known, const pf_load_policy *policy,
                                     pf_error *error)
{
    enum { SHOWN = 3 };
    int32_t n_unused = 0;
    char shown[SHOWN * 80] = "";
    qsort(known->names, known->n, sizeof *known->names, compare_names);
    for (int32_t i = 0; i < pf_tensor_source_count(&c->source); i++) {
        const char *name = pf_tensor_source_name(&c->source, i);
        if (is_known(known, name) || is_copy_of_embedding(c, name) || pf_quantised_is_zero_bias(c, name)) continue;
        const pf_extra_tensor extra =
            pf_judge_extra_tensor(&c->config, name, pf_tensor_source_dimensions(&c->source, i));
        if (extra == PF_EXTRA_REFUSED)
            return pf_fail(error, PF_UNSUPPORTED,
                           "%s: tensor \"%.160s\" is no part of a %s as config.json describes it: it would be left out",
                           c->directory, name, pf_architecture_name(c->config.architecture));
        if (extra == PF_EXTRA_BUFFER) continue;
        char cut[72];
        snprintf(cut, sizeof cut, "%s", name);
        if (n_unused++ < SHOWN) pf_list_word(shown, sizeof shown, ", ", cut);
    }
    if (n_unused == 0) return PF_OK;
    return pf_load_warn(policy, error, "%s: %d %s of the files %s not used: %s%s", c->directory, n_unused,
                        n_unused == 1 ? "tensor" : "tensors", n_unused == 1 ? "is" : "are", shown,
                        n_unused > SHOWN ? ", ..." : "");
}

static pf_status add_name(const pf_checkpoint *c, known_names *known, const char *name, pf_error *error)
{
    if (known->n == known->capacity) {
        const size_t capacity = known->capacity > 0 ? 2 * known->capacity : 64;
        void *grown = realloc(known->names, capacity * sizeof *known->names);
        if (grown == NULL) return pf_fail(error, PF_NOMEM, "%s: no memory for the names of its tensors", c->directory);
        known->names = grown;
        known->capacity = capacity;
    }
    snprintf(known->names[known->n++], PF_MAX_TENSOR_NAME, "%s", name);
    return PF_OK;
}

/* A tensor that roles share counts once. */
static pf_status count_tensor(pf_checkpoint *c, const pf_tensor *tensor, bool is_first, known_names *known,
                              pf_error *error)
{
    if (tensor->data == NULL || !is_first) return PF_OK;
    c->n_bytes += tensor->data_bytes;
    return add_name(c, known, tensor->name, error);
}

/* The state of the visit of all tensors. */
typedef struct {
    pf_checkpoint *checkpoint;
    known_names known;
} survey;

/* Counts a matrix that another program quantised. */
static pf_status count_quantised(survey *s, pf_tensor_id id, const pf_quantised_matrix *m, pf_error *error)
{
    pf_checkpoint *c = s->checkpoint;
    const bool is_first = pf_checkpoint_is_first(c, id);
    int32_t rows, columns;
    pf_config_shape(&c->config, id.role, &rows, &columns);
    pf_group_format groups;
    c->has_matrices[PF_TYPE_F32] = true; /* to which it is widened */
    c->has_groups |= pf_quantised_exact_format(m, &groups);
    c->n_parameters += (int64_t)rows * columns;
    c->n_tensors += is_first;
    for (int i = 0; i < PF_N_PARTS; i++) PF_TRY(count_tensor(c, &m->parts[i], is_first, &s->known, error));
    return PF_OK;
}

static pf_status check_tensor(void *user, pf_tensor_id id, const char *part, pf_error *error)
{
    survey *s = user;
    pf_checkpoint *c = s->checkpoint;
    const bool is_weight = strcmp(part, "weight") == 0;
    const bool of_integers = is_weight && is_integer(c, id.role);
    const bool is_first = of_integers || pf_checkpoint_is_first(c, id);
    integers m = { .rows = 0 };
    pf_quantised_role quantised = { .matrix = { .n_groups = 0 } };
    if (is_weight && !of_integers) PF_TRY(pf_quantised_role_find(c, id, &quantised, error));
    if (quantised.matrix.n_groups > 0) return count_quantised(s, id, &quantised.matrix, error);
    if (of_integers)
        PF_TRY(find_integers(c, id, &m, error));
    else
        PF_TRY(pf_checkpoint_tensor(c, id, part, &m.weight, error));
    int32_t rows, columns;
    pf_config_shape(&c->config, id.role, &rows, &columns);
    if (is_weight && columns && !of_integers) c->has_matrices[m.weight.type] = true;
    c->has_groups |= is_weight && m.weight.groups != NULL;
    c->n_parameters += (int64_t)rows * (is_weight && columns ? columns : 1);
    c->n_tensors += is_first;
    PF_TRY(count_tensor(c, &m.weight, is_first, &s->known, error));
    PF_TRY(count_tensor(c, &m.scale, is_first, &s->known, error));
    return count_tensor(c, &m.params, is_first, &s->known, error);
}

/* Finds every tensor once, counts bytes and parameters, and decides about what is left over. */
static pf_status check_tensors(pf_checkpoint *c, const pf_load_policy *policy, pf_error *error)
{
    survey s = { .checkpoint = c };
    pf_status status = pf_config_visit_tensors(&c->config, check_tensor, &s, error);
    if (status == PF_OK) status = check_extra_tensors(c, &s.known, policy, error);
    free(s.known.names);
    return status;
}

/* Whether two matrices of one shape hold the same numbers. Releases their pages. */
static bool are_equal(const pf_tensor *a, const pf_tensor *b, const volatile bool *cancel)
{
    enum { CHUNK = 1 << 20 }; /* elements */
    const size_t n = (size_t)(a->shape[0] * a->shape[1]);
    bool equal = true;
    for (size_t i = 0, end; equal && i < n && !pf_is_told(cancel); i = end) {
        const size_t size_a = pf_type_bytes(a->type), size_b = pf_type_bytes(b->type);
        end = n - i < CHUNK ? n : i + CHUNK;
        if (a->type == b->type) equal = memcmp(a->data + i * size_a, b->data + i * size_b, (end - i) * size_a) == 0;
        for (size_t k = i; equal && a->type != b->type && k < end; k++)
            equal = pf_tensor_element(a->data, a->type, k) == pf_tensor_element(b->data, b->type, k);
        advise(a->data + i * size_a, (end - i) * size_a, MADV_DONTNEED, false);
        advise(b->data + i * size_b, (end - i) * size_b, MADV_DONTNEED, false);
    }
    return equal;
}

static bool has_weight(const pf_checkpoint *c, pf_tensor_role role)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_tensor tensor;
    pf_checkpoint_name(c, (pf_tensor_id){ .role = role }, "weight", name);
    return pf_tensor_source_find(&c->source, name, &tensor, NULL) != PF_UNAVAILABLE ||
           pf_quantised_role_is_packed(c, role);
}

static void detect_prefix(pf_checkpoint *c)
{
    if (has_weight(c, PF_TENSOR_EMBEDDING) || has_weight(c, PF_TENSOR_FINAL_NORM)) return;
    c->without_prefix = true;
    c->without_prefix = has_weight(c, PF_TENSOR_EMBEDDING) || has_weight(c, PF_TENSOR_FINAL_NORM);
}

static pf_status fail_without_head(const pf_checkpoint *c, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_checkpoint_name(c, (pf_tensor_id){ .role = PF_TENSOR_HEAD }, "weight", name);
    return pf_fail(
        error, PF_FORMAT,
        "%s: no tensor \"%s\", and config.json does not tie the LM head to the embedding: this is a base model "
        "without a head, which gives no logits; take the %s, or set tie_word_embeddings where the head is the "
        "embedding",
        c->directory, name, pf_architecture_name(c->config.architecture));
}

/* Resolves an LM head in the files of a model that config.json calls tied. If it differs from the embedding, the model is not
 * tied; if there is no embedding, it is the embedding too. As transformers 5 (PreTrainedModel.tie_weights). */
static pf_status resolve_head(pf_checkpoint *c, const volatile bool *cancel, pf_error *error)
{
    pf_tensor head, embedding;
    if (!c->config.tied_embeddings && !has_weight(c, PF_TENSOR_HEAD) && has_weight(c, PF_TENSOR_EMBEDDING))
        return fail_without_head(c, error);
    if (!c->config.tied_embeddings || c->config.quantized) return PF_OK;
    if (!has_weight(c, PF_TENSOR_HEAD)) return PF_OK;
    c->named_as_head = !has_weight(c, PF_TENSOR_EMBEDDING);
    if (c->named_as_head) return PF_OK;
    pf_quantised_role quantised;
    PF_TRY(pf_quantised_role_find(c, (pf_tensor_id){ .role = PF_TENSOR_HEAD }, &quantised, error));
    c->config.tied_embeddings = quantised.matrix.n_groups == 0; /* no integers equal the embedding */
    if (!c->config.tied_embeddings) return PF_OK;
    PF_TRY(pf_checkpoint_tensor(c, (pf_tensor_id){ .role = PF_TENSOR_HEAD }, "weight", &head, error));
    PF_TRY(pf_checkpoint_tensor(c, (pf_tensor_id){ .role = PF_TENSOR_EMBEDDING }, "weight", &embedding, error));
    c->config.tied_embeddings = are_equal(&head, &embedding, cancel);
    if (!pf_is_told(cancel)) return PF_OK;
    return pf_fail(error, PF_CANCELLED, "%s: interrupted while its LM head was compared with its embedding",
                   c->directory);
}

pf_status pf_checkpoint_open(const char *directory, const pf_load_policy *policy, const volatile bool *cancel,
                             pf_checkpoint *out, pf_error *error)
{
    pf_checkpoint c = { .directory = directory };
    PF_TRY(pf_config_load(directory, policy, &c.config, error));
    PF_TRY(pf_tensor_source_open(directory, policy, &c.source, error));
    detect_prefix(&c);
    pf_status status = resolve_head(&c, cancel, error);
    if (status == PF_OK) status = check_tensors(&c, policy, error);
    if (status != PF_OK)
        pf_checkpoint_close(&c);
    else
        *out = c;
    return status;
}

void pf_checkpoint_close(pf_checkpoint *checkpoint)
{
    pf_tensor_source_close(&checkpoint->source);
}
