/*
 * Visits the tensors twice: first to declare them in the header, then to write them. Matrices are written by all threads of the
 * team, a chunk of rows at a time, so that each thread needs a few megabytes whatever the size of the model. Tensors that keep
 * their type are copied.
 */
#include "model/files/quantize.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "model/files/checkpoint.h"
#include "model/files/config_writer.h"
#include "model/files/safetensors_writer.h"
#include "model/files/staging.h"
#include "model/files/walk.h"

static const char WEIGHTS_NAME[] = "model.safetensors";
static const char CONFIG_NAME[] = "config.json";

/* The files beside the weights that a model needs. */
static const char *const COPIED[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "qwen.tiktoken",
    "chat_template.jinja",
    "chat_template.json",
    NULL,
};

/* What is done to a tensor. */
typedef enum { KEPT, CONVERTED, QUANTISED } treatment;

/* The state of one call. */
typedef struct {
    const pf_model_quantize_options *options;
    pf_format format; /* the integer format, or the format that holds `type` */
    pf_type type;     /* of tensors that are not integers */
    pf_checkpoint from;
    pf_staging staging;
    pf_safetensors_header header;
    char *config; /* [config_bytes] the new config.json */
    size_t config_bytes;
    size_t buffer_bytes; /* per thread */
    void *buffers;       /* [n_threads, buffer_bytes] */
    int descriptor;      /* of the weights file */
    size_t offset;       /* in that file, of the next tensor */
    pf_walk walk;        /* over the bytes of the original */
} job;

/* A tensor to write. */
typedef struct {
    pf_tensor_id id;
    const char *part; /* "weight" or "bias" */
    treatment treatment;
    int32_t rows, columns; /* columns 0: a vector */
} item;

/* ---- the visit ------------------------------------------------------------------------------------------------------ */

typedef pf_status visit_fn(job *j, const item *it, pf_error *error);

static item describe(const job *j, pf_tensor_id id, const char *part)
{
    item it = { .id = id, .part = part, .treatment = KEPT };
    pf_config_shape(&j->from.config, id.role, &it.rows, &it.columns);
    if (strcmp(part, "bias") == 0) it.columns = 0;
    if (it.columns == 0) return it;
    if (!pf_format_is_integer(j->format))
        it.treatment = CONVERTED;
    else if (pf_config_is_multiplied(&j->from.config, id.role))
        it.treatment = QUANTISED;
    return it;
}

/* One visit: the job, and the function that is called for each tensor. */
typedef struct {
    job *job;
    visit_fn *visit;
} visitor;

static pf_status visit_tensor(void *user, pf_tensor_id id, const char *part, pf_error *error)
{
    const visitor *w = user;
    const item it = describe(w->job, id, part);
    if (it.treatment != QUANTISED && !pf_checkpoint_is_first(&w->job->from, id)) return PF_OK; /* written whole */
    return w->visit(w->job, &it, error);
}

static pf_status for_tensors(job *j, visit_fn *visit, pf_error *error)
{
    visitor w = { .job = j, .visit = visit };
    return pf_config_visit_tensors(&j->from.config, visit_tensor, &w, error);
}

/* ---- sizes --------------------------------------------------------------------------------------------------------- */

/* The size of a converted row of a matrix. */
typedef struct {
    size_t values, scale, params;
} row_sizes;

static row_sizes sizes_of(const job *j, const pf_checkpoint_rows *rows)
{
    const size_t k = rows->source.stride;
    if (!pf_format_is_integer(j->format)) return (row_sizes){ .values = k * pf_type_bytes(j->type) };
    const pf_format_info *format = pf_format_get(j->format);
    const size_t groups = (size_t)pf_gemm_groups(j->format, (int32_t)k);
    return (row_sizes){ .values = format->bits == 8 ? k : (k + 1) / 2,
                        .scale = sizeof(float),
                        .params = pf_gemm_has_heads(j->format) ? groups : 0 };
}

/* The rows of a matrix: of the role, or where they keep their layout of the whole tensor of the file. */
static pf_status open_rows(const job *j, const item *it, pf_checkpoint_rows *out, pf_error *error)
{
    return it->treatment == QUANTISED ? pf_checkpoint_matrix(&j->from, it->id, out, error)
                                      : pf_checkpoint_file_matrix(&j->from, it->id, out, error);
}

/* ---- declaring ----------------------------------------------------------------------------------------------------- */

/* A part of a matrix in integers. columns 0: a vector. */
static pf_status declare(job *j, const item *it, const char *part, const char *dtype, int64_t columns, size_t n_bytes,
                         pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    const int64_t shape[] = { it->rows, columns };
    pf_checkpoint_integer_name(&j->from.config, it->id, part, name);
    return pf_safetensors_header_add(&j->header, name, dtype, shape, columns ? 2 : 1, n_bytes, error);
}

/* A tensor as the file has it, in its own type or in another. */
static pf_status declare_whole(job *j, const item *it, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_tensor tensor;
    PF_TRY(pf_checkpoint_tensor(&j->from, it->id, it->part, &tensor, error));
    const pf_type type = it->treatment == KEPT ? tensor.type : j->type;
    const size_t n_bytes = tensor.data_bytes / pf_type_bytes(tensor.type) * pf_type_bytes(type);
    pf_config_tensor_name(&j->from.config, it->id, it->part, name);
    return pf_safetensors_header_add(&j->header, name, pf_safetensors_dtype(type), tensor.shape, tensor.n_dimensions,
                                     n_bytes, error);
}

static pf_status declare_quantised(job *j, const item *it, row_sizes row, pf_error *error)
{
    const pf_format_info *format = pf_format_get(j->format);
    const size_t n = (size_t)it->rows;
    const char *params_part = pf_checkpoint_params_part(j->format);
    const int64_t groups = format->group ? pf_gemm_groups(j->format, it->columns) : 0;
    if (it->columns > PF_GEMM_MAX_INT_K)
        return pf_fail(error, PF_LIMIT, "%s: rows of %d values cannot be multiplied as %s, at most %d",
                       j->from.directory, it->columns, format->name, PF_GEMM_MAX_INT_K);
    PF_TRY(declare(j, it, "weight", format->bits == 8 ? "I8" : "U8", (int64_t)row.values, n * row.values, error));
    PF_TRY(declare(j, it, "weight_scale", "F32", 0, n * row.scale, error));
    return params_part ? declare(j, it, params_part, "U8", groups, n * row.params, error) : PF_OK;
}

static pf_status declare_item(job *j, const item *it, pf_error *error)
{
    if (it->treatment == KEPT) return declare_whole(j, it, error);
    pf_checkpoint_rows rows;
    PF_TRY(open_rows(j, it, &rows, error));
    const row_sizes row = sizes_of(j, &rows);
    const size_t bytes = (size_t)pf_checkpoint_chunk(&j->from, &rows, 1) * (row.values + row.scale + row.params);
    pf_checkpoint_release_matrix(&j->from, &rows);
    if (bytes > j->buffer_bytes) j->buffer_bytes = bytes;
    return it->treatment == QUANTISED ? declare_quantised(j, it, row, error) : declare_whole(j, it, error);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

/* A matrix that the team writes. Its parts are consecutive in the file. */
typedef struct {
    const job *j;
    const item *it;
    pf_checkpoint_rows rows;
    row_sizes row;
    _Atomic bool failed; /* the thread that sets it writes the two fields below */
    pf_status status;
    pf_error error;
} matrix_job;

static const unsigned char *source_row(const matrix_job *m, int32_t row)
{
    return (const unsigned char *)m->rows.source.data +
           (size_t)row * m->rows.source.stride * pf_type_bytes(m->rows.source.type);
}

static void convert_row(const matrix_job *m, int32_t row, void *out)
{
    const unsigned char *from = source_row(m, row);
    const pf_type type = m->j->type;
    for (size_t k = 0; k < m->rows.source.stride; k++) {
        const float value = pf_tensor_element(from, m->rows.source.type, k);
        if (type == PF_TYPE_F32)
            ((float *)out)[k] = value;
        else
            ((uint16_t *)out)[k] = type == PF_TYPE_F16 ? pf_f16_from_f32(value) : pf_bf16_from_f32(value);
    }
}

/* Converts rows [begin, end) into the layout of the file: all values, then all scales, then all group parameters. */
static void make_rows(const matrix_job *m, int32_t begin, int32_t end, unsigned char *values, unsigned char *scales,
                      unsigned char *params)
{
    for (int32_t r = begin; r < end; r++) {
        if (m->it->treatment == CONVERTED)
            convert_row(m, r, values);
        else
            pf_gemm_quantise_row(m->j->format, source_row(m, r), m->rows.source.type, m->it->columns, values, scales,
                                 m->row.params ? params : NULL);
        values += m->row.values;
        scales += m->row.scale;
        params += m->row.params;
    }
}

static pf_status write_part(const matrix_job *m, const void *data, size_t n_bytes, size_t offset, pf_error *error)
{
    return pf_staging_write(&m->j->staging, WEIGHTS_NAME, m->j->descriptor, data, n_bytes, offset, error);
}

static pf_status write_rows(const matrix_job *m, int32_t begin, int32_t end, unsigned char *buffer, pf_error *error)
{
    const size_t n = (size_t)(end - begin), at = (size_t)begin, all = (size_t)m->rows.source.n_rows;
    const row_sizes row = m->row;
    unsigned char *values = buffer, *scales = values + n * row.values, *params = scales + n * row.scale;
    const size_t values_at = m->j->offset, scales_at = values_at + all * row.values;
    const size_t params_at = scales_at + all * row.scale;
    make_rows(m, begin, end, values, scales, params);
    PF_TRY(write_part(m, values, n * row.values, values_at + at * row.values, error));
    PF_TRY(write_part(m, scales, n * row.scale, scales_at + at * row.scale, error));
    return write_part(m, params, n * row.params, params_at + at * row.params, error);
}

static void write_share(pf_member member, void *arg)
{
    matrix_job *m = arg;
    const job *j = m->j;
    unsigned char *buffer = (unsigned char *)j->buffers + (size_t)member.id * j->buffer_bytes;
    const int32_t chunk = pf_checkpoint_chunk(&j->from, &m->rows, 1);
    int32_t begin, end;
    pf_team_share(member, m->rows.source.n_rows, &begin, &end);
    for (int32_t to; begin < end && !m->failed && !pf_is_told(j->walk.cancel); begin = to) {
        to = end - begin > chunk ? begin + chunk : end;
        pf_error why = { 0 };
        const bool fit = pf_checkpoint_acquire_rows(&j->from, &m->rows, begin, to, j->format);
        const pf_status status = fit ? write_rows(m, begin, to, buffer, &why)
                                     : pf_checkpoint_fail_rows(&j->from, m->it->id, j->format, &why);
        pf_checkpoint_release_rows(&j->from, &m->rows, begin, to);
        if (status == PF_OK || atomic_exchange(&m->failed, true)) continue;
        m->status = status;
        m->error = why;
    }
}

static pf_status write_matrix(job *j, const item *it, pf_error *error)
{
    matrix_job m = { .j = j, .it = it };
    PF_TRY(open_rows(j, it, &m.rows, error));
    m.row = sizes_of(j, &m.rows);
    const size_t n_rows = (size_t)m.rows.source.n_rows, n_bytes = pf_checkpoint_matrix_bytes(&j->from, &m.rows);
    pf_team_run(j->options->team, write_share, &m);
    pf_checkpoint_release_matrix(&j->from, &m.rows);
    PF_TRY(pf_walk_check(&j->walk, error));
    if (m.failed) return pf_fail(error, m.status, "%s", m.error.text);
    j->offset += n_rows * (m.row.values + m.row.scale + m.row.params);
    pf_walk_on(&j->walk, n_bytes);
    return PF_OK;
}

/* Copies through the buffer of the first thread: if the input is truncated meanwhile, reading it raises the usual signal
 * instead of a failing write. */
static pf_status write_kept(job *j, const item *it, pf_error *error)
{
    pf_tensor tensor;
    PF_TRY(pf_checkpoint_tensor(&j->from, it->id, it->part, &tensor, error));
    for (size_t done = 0, n; done < tensor.data_bytes; done += n) {
        PF_TRY(pf_walk_check(&j->walk, error));
        n = tensor.data_bytes - done < j->buffer_bytes ? tensor.data_bytes - done : j->buffer_bytes;
        memcpy(j->buffers, tensor.data + done, n);
        PF_TRY(pf_staging_write(&j->staging, WEIGHTS_NAME, j->descriptor, j->buffers, n, j->offset, error));
        j->offset += n;
        pf_walk_on(&j->walk, n);
    }
    return PF_OK;
}

static pf_status write_item(job *j, const item *it, pf_error *error)
{
    return it->treatment == KEPT ? write_kept(j, it, error) : write_matrix(j, it, error);
}

static pf_status write_header(job *j, pf_error *error)
{
    char *text;
    size_t n_bytes;
    PF_TRY(pf_safetensors_header_print(&j->header, &text, &n_bytes, error));
    const pf_status status = pf_staging_write(&j->staging, WEIGHTS_NAME, j->descriptor, text, n_bytes, 0, error);
    free(text);
    j->offset = n_bytes;
    return status;
}

static pf_status fill_weights(job *j, pf_error *error)
{
    j->buffers = calloc((size_t)pf_team_size(j->options->team), j->buffer_bytes);
    if (j->buffers == NULL) return pf_fail(error, PF_NOMEM, "no memory to round weights in");
    PF_TRY(write_header(j, error));
    return for_tensors(j, write_item, error);
}

static pf_status write_weights(job *j, pf_error *error)
{
    PF_TRY(pf_staging_open(&j->staging, WEIGHTS_NAME, &j->descriptor, error));
    const pf_status filled = fill_weights(j, error);
    const pf_status closed = pf_staging_close(&j->staging, WEIGHTS_NAME, j->descriptor, filled == PF_OK ? error : NULL);
    return filled != PF_OK ? filled : closed;
}

/* ---- the directory ----------------------------------------------------------------------------------------------------- */

static pf_status fill_directory(job *j, pf_error *error)
{
    PF_TRY(pf_staging_write_file(&j->staging, CONFIG_NAME, j->config, j->config_bytes, error));
    for (size_t i = 0; COPIED[i] != NULL; i++)
        PF_TRY(pf_staging_copy(&j->staging, j->from.directory, COPIED[i], error));
    PF_TRY(write_weights(j, error));
    PF_TRY(pf_tensor_source_check(&j->from.source, error));
    return pf_staging_commit(&j->staging, CONFIG_NAME, error);
}

static pf_status make_directory(job *j, const char *to, pf_error *error)
{
    PF_TRY(pf_config_print_converted(&j->from, j->options->dtype, j->type, &j->config, &j->config_bytes, error));
    PF_TRY(pf_safetensors_header_open(&j->header, error));
    PF_TRY(for_tensors(j, declare_item, error));
    PF_TRY(pf_staging_begin(to, j->options->writing, &j->staging, error));
    j->walk = (pf_walk){ .path = j->staging.target,
                         .action = "written",
                         .cancel = j->options->cancel,
                         .report = j->options->progress,
                         .user = j->options->progress_user,
                         .total_bytes = j->from.n_bytes };
    const pf_status status = fill_directory(j, error);
    pf_staging_abort(&j->staging); /* after commit nothing is there */
    return status;
}

static pf_status check_dtype(pf_dtype dtype, pf_error *error)
{
    if (pf_dtype_is_written(dtype)) return PF_OK;
    return pf_fail(error, PF_INVALID, "weights cannot be written as %s: take f32, f16, bf16 or an integer format",
                   pf_dtype_name(dtype));
}

static pf_status check_original(const pf_checkpoint *from, pf_error *error)
{
    if (from->config.gguf)
        return pf_fail(error, PF_UNSUPPORTED, "%s: GGUF is not rewritten: take the safetensors that it was made of",
                       from->directory);
    if (from->config.quantization.scheme != PF_SCHEME_NONE)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: its weights are quantised already (%s): take the model that they were made of",
                       from->directory, from->config.quantization.words);
    if (!from->config.quantized) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s: its weights are quantised to %s already: take the model that they were made of",
                   from->directory, pf_format_get(from->config.format)->name);
}

pf_status pf_model_quantize(const char *from, const char *to, const pf_model_quantize_options *options,
                            pf_model_quantize_result *out, pf_error *error)
{
    PF_TRY(check_dtype(options->dtype, error));
    const pf_format format = pf_dtype_format(options->dtype);
    job j = { .options = options,
              .format = format,
              .type = options->dtype == PF_DTYPE_F16 ? PF_TYPE_F16 : pf_format_row_type(format),
              .descriptor = -1 };
    PF_TRY(pf_checkpoint_open(from, &options->policy, options->cancel, &j.from, error));
    pf_status status = check_original(&j.from, error);
    if (status == PF_OK) status = make_directory(&j, to, error);
    if (status == PF_OK)
        *out = (pf_model_quantize_result){ .bytes_before = j.from.n_bytes,
                                           .bytes_after = j.header.n_bytes,
                                           .n_tensors = j.from.n_tensors };
    free(j.buffers);
    free(j.config);
    pf_safetensors_header_close(&j.header);
    pf_checkpoint_close(&j.from);
    return status;
}
