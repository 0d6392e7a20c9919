/*
 * A first visit of all tensors adds up their sizes, a second uploads them through pinned memory, a few rows at a time. Both give the
 * same places.
 */
#include "verify/cuda/cuda_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "verify/cuda/cuda_device.h"

#ifdef PF_CUDA_SHIM
enum { STAGING_BYTES = 4 << 10 }; /* so that small tensors, too, go in pieces */
#else
enum { STAGING_BYTES = 16 << 20 };
#endif
enum { ALIGNMENT = 256 };

typedef struct {
    const pf_checkpoint *files;
    const pf_config *config;
    const pf_cuda_options *options;
    cudaStream_t stream;
    pf_cuda_weights *weights;
    void *staging; /* [STAGING_BYTES] pinned; NULL: sizes are added up */
    float *row;    /* a widened row, or a vector */
    void *panel;   /* of integers, packed */
    size_t used;   /* of the block */
    bool rounds;   /* a matrix that is not in BF16 */
    pf_error *error;
} upload;

static size_t take(upload *u, size_t n_bytes)
{
    const size_t at = u->used;
    u->used += (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

/* Sends the first n bytes of the staging memory, which is free again afterwards. */
static pf_status send(upload *u, size_t to, size_t n_bytes)
{
    if (pf_is_told(u->options->cancel)) return pf_fail(u->error, PF_CANCELLED, "loading was cancelled");
    PF_CUDA_TRY(cudaMemcpyAsync(u->weights->block + to, u->staging, n_bytes, cudaMemcpyHostToDevice, u->stream),
                "the upload of weights", u->error);
    PF_CUDA_TRY(cudaStreamSynchronize(u->stream), "the upload of weights", u->error);
    if (u->options->progress) u->options->progress(u->options->progress_user, to + n_bytes, u->weights->n_bytes);
    return PF_OK;
}

/* ---- matrices --------------------------------------------------------------------------------------------------- */

/* Rows of integers, a panel at a time: packed, and widened from there, by the definition of the format. */
static void widen_integers(const upload *u, const pf_checkpoint_rows *rows, int32_t k, int32_t begin, int32_t end,
                           uint16_t *out)
{
    for (int32_t i = begin; i < end; i++) {
        pf_gemm_weights w;
        size_t bytes;
        if (pf_gemm_plan_weights(u->config->format, 1, k, &w, &bytes) != PF_OK) return; /* checked */
        const size_t data = (size_t)i * rows->source.stride / (pf_format_get(u->config->format)->bits == 8 ? 1 : 2);
        const size_t heads = (size_t)i * (size_t)pf_gemm_groups(u->config->format, k);
        pf_gemm_source one = rows->source;
        one.n_rows = 1;
        one.data = (const char *)one.data + data;
        one.scales = (const char *)one.scales + (size_t)i * sizeof(float);
        if (one.heads) one.heads += heads;
        w.panels = u->panel;
        (void)pf_gemm_pack_weights_ref(&w, &one, 1, 0, 1);
        pf_gemm_unpack_row(&w, 0, u->row);
        for (int32_t j = 0; j < k; j++) *out++ = pf_bf16_from_f32(u->row[j]);
    }
}

static void widen(const upload *u, const pf_checkpoint_rows *rows, int32_t columns, int32_t begin, int32_t end,
                  uint16_t *out)
{
    const pf_gemm_source *from = &rows->source;
    if (from->scales) {
        widen_integers(u, rows, columns, begin, end, out);
        return;
    }
    for (int32_t i = begin; i < end; i++)
        for (int32_t j = 0; j < columns; j++)
            *out++ = pf_bf16_from_f32(pf_tensor_element(from->data, from->type, (size_t)i * from->stride + (size_t)j));
}

static pf_status upload_rows(upload *u, pf_tensor_id id, const pf_checkpoint_rows *rows, int32_t columns, size_t to)
{
    const int32_t n = rows->source.n_rows;
    const size_t row_bytes = (size_t)columns * sizeof(uint16_t);
    const int32_t chunk = (int32_t)(STAGING_BYTES / row_bytes);
    for (int32_t begin = 0, end; begin < n; begin = end) {
        end = n - begin > chunk ? begin + chunk : n;
        if (!pf_checkpoint_acquire_rows(u->files, rows, begin, end, PF_FORMAT_BF16))
            return pf_checkpoint_fail_rows(u->files, id, PF_FORMAT_BF16, u->error);
        widen(u, rows, columns, begin, end, u->staging);
        pf_checkpoint_release_rows(u->files, rows, begin, end);
        PF_TRY(send(u, to + (size_t)begin * row_bytes, (size_t)(end - begin) * row_bytes));
    }
    return PF_OK;
}

/* The matrices of these roles, stacked; those that the plan does not have add no rows. */
static pf_status add_matrix(upload *u, const pf_tensor_role *roles, int32_t n_roles, int32_t layer,
                            const uint16_t **out)
{
    size_t n_bytes = 0;
    int32_t rows, columns = 0;
    for (int32_t i = 0; i < n_roles; i++) {
        pf_config_shape(u->config, roles[i], &rows, &columns);
        n_bytes += (size_t)rows * (size_t)columns * sizeof(uint16_t);
    }
    if ((size_t)columns * sizeof(uint16_t) > STAGING_BYTES)
        return pf_fail(u->error, PF_LIMIT, "%s: a row of %d columns is too long for the CUDA backend",
                       u->files->directory, columns);
    size_t to = take(u, n_bytes);
    if (!u->staging) return PF_OK;
    *out = (const uint16_t *)(const void *)(u->weights->block + to);
    for (int32_t i = 0; i < n_roles; i++) {
        const pf_tensor_id id = { roles[i], layer, 0 };
        pf_checkpoint_rows found;
        pf_config_shape(u->config, roles[i], &rows, &columns);
        PF_TRY(pf_checkpoint_matrix(u->files, id, &found, u->error));
        u->rounds |= found.source.scales || found.source.type != PF_TYPE_BF16;
        const pf_status status = upload_rows(u, id, &found, columns, to);
        pf_checkpoint_release_matrix(u->files, &found);
        PF_TRY(status);
        to += (size_t)rows * (size_t)columns * sizeof(uint16_t);
    }
    return PF_OK;
}

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

static bool adds_one(const pf_plan *plan, pf_tensor_role role)
{
    const bool is_of_heads = role == PF_TENSOR_Q_NORM || role == PF_TENSOR_K_NORM;
    return (is_of_heads ? plan->head_norm_kind : plan->norm) == PF_NORM_RMS_PLUS_ONE;
}

/* The vectors of these roles, one behind the other; zeros for a role without one. */
static pf_status add_vectors(upload *u, const pf_tensor_role *roles, int32_t n_roles, int32_t layer, const char *part,
                             const float **out)
{
    const bool is_bias = strcmp(part, "bias") == 0;
    size_t n_all = 0, n_bytes;
    bool any = false;
    int32_t rows, columns;
    for (int32_t i = 0; i < n_roles; i++) {
        pf_config_shape(u->config, roles[i], &rows, &columns);
        n_all += (size_t)rows;
        any |= pf_config_has(u->config, roles[i], layer) && (!is_bias || pf_config_has_bias(u->config, roles[i]));
    }
    if (!any) return PF_OK;
    const size_t to = take(u, n_all * sizeof(float));
    if (!u->staging) return PF_OK;
    if (n_all * sizeof(float) > STAGING_BYTES)
        return pf_fail(u->error, PF_LIMIT, "%s: a vector of %zu is too long for the CUDA backend", u->files->directory,
                       n_all);
    float *values = memset(u->staging, 0, n_all * sizeof(float));
    *out = (const float *)(const void *)(u->weights->block + to);
    for (int32_t i = 0; i < n_roles; i++) {
        pf_config_shape(u->config, roles[i], &rows, &columns);
        if (!is_bias || pf_config_has_bias(u->config, roles[i]))
            PF_TRY(
                pf_checkpoint_vector(u->files, (pf_tensor_id){ roles[i], layer, 0 }, part, values, &n_bytes, u->error));
        for (int32_t j = 0; j < rows && !is_bias && adds_one(&u->config->plan, roles[i]); j++) values[j] += 1.0f;
        values += rows;
    }
    return send(u, to, n_all * sizeof(float));
}

static pf_status add_norm(upload *u, pf_tensor_role role, int32_t layer, pf_cuda_norm *out)
{
    if (!pf_config_has(u->config, role, layer)) return PF_OK;
    PF_TRY(add_vectors(u, &role, 1, layer, "weight", &out->weight));
    return add_vectors(u, &role, 1, layer, "bias", &out->bias);
}

/* ---- all -------------------------------------------------------------------------------------------------------- */

static pf_status add_layer(upload *u, int32_t l, pf_cuda_layer *layer)
{
    static const pf_tensor_role qkv[] = { PF_TENSOR_Q, PF_TENSOR_K, PF_TENSOR_V }, o[] = { PF_TENSOR_O },
                                gate_up[] = { PF_TENSOR_GATE, PF_TENSOR_UP }, down[] = { PF_TENSOR_DOWN };
    const int32_t ungated = u->config->plan.gated ? 0 : 1;
    PF_TRY(add_norm(u, PF_TENSOR_ATTENTION_NORM, l, &layer->attention_norm));
    PF_TRY(add_matrix(u, qkv, 3, l, &layer->qkv));
    PF_TRY(add_vectors(u, qkv, 3, l, "bias", &layer->qkv_bias));
    PF_TRY(add_norm(u, PF_TENSOR_Q_NORM, l, &layer->q_norm));
    PF_TRY(add_norm(u, PF_TENSOR_K_NORM, l, &layer->k_norm));
    PF_TRY(add_matrix(u, o, 1, l, &layer->o));
    PF_TRY(add_vectors(u, o, 1, l, "bias", &layer->o_bias));
    PF_TRY(add_norm(u, PF_TENSOR_ATTENTION_POST, l, &layer->attention_post));
    PF_TRY(add_norm(u, PF_TENSOR_MLP_NORM, l, &layer->mlp_norm));
    PF_TRY(add_matrix(u, gate_up + ungated, 2 - ungated, l, &layer->gate_up));
    PF_TRY(add_vectors(u, gate_up + ungated, 2 - ungated, l, "bias", &layer->gate_up_bias));
    PF_TRY(add_matrix(u, down, 1, l, &layer->down));
    PF_TRY(add_vectors(u, down, 1, l, "bias", &layer->down_bias));
    return add_norm(u, PF_TENSOR_MLP_POST, l, &layer->mlp_post);
}

static pf_status add_all(upload *u)
{
    static const pf_tensor_role embedding[] = { PF_TENSOR_EMBEDDING }, head[] = { PF_TENSOR_HEAD };
    pf_cuda_weights *w = u->weights;
    u->used = 0;
    PF_TRY(add_matrix(u, embedding, 1, 0, &w->embedding));
    if (u->config->tied_embeddings)
        w->head = w->embedding;
    else
        PF_TRY(add_matrix(u, head, 1, 0, &w->head));
    for (int32_t l = 0; l < u->config->n_layers; l++) PF_TRY(add_layer(u, l, &w->layers[l]));
    return add_norm(u, PF_TENSOR_FINAL_NORM, 0, &w->final_norm);
}

/* No refusal where the policy is strict: BF16 is what was asked for. */
static void tell_rounding(const upload *u)
{
    const pf_load_policy *policy = &u->options->policy;
    char text[512];
    if (!policy->warn) return;
    snprintf(text, sizeof text, "%s: the CUDA backend rounds its weights to BF16", u->files->directory);
    policy->warn(policy->warn_user, text);
}

/* Room for a row of any matrix, and for one packed. */
static pf_status make_room(upload *u)
{
    const pf_config *c = u->config;
    int32_t widest = 1, rows, columns;
    size_t panel_bytes = 1;
    for (int role = 0; role < PF_N_TENSOR_ROLES; role++) {
        pf_config_shape(c, (pf_tensor_role)role, &rows, &columns);
        if (c->plan.has[role] && columns > widest) widest = columns;
    }
    if (c->quantized) {
        pf_gemm_weights w;
        if (pf_gemm_plan_weights(c->format, 1, widest, &w, &panel_bytes) != PF_OK)
            return pf_fail(u->error, PF_LIMIT, "%s: a row of %d integers is too long", u->files->directory, widest);
    }
    u->row = calloc((size_t)widest, sizeof *u->row);
    u->panel = aligned_alloc(64, (panel_bytes + 63) / 64 * 64);
    return u->row && u->panel ? PF_OK : pf_fail(u->error, PF_NOMEM, "no memory for a row of %d weights", widest);
}

pf_status pf_cuda_weights_load(const pf_checkpoint *files, const pf_cuda_options *options, cudaStream_t stream,
                               pf_cuda_weights *out, pf_error *error)
{
    upload u = {
        .files = files, .config = &files->config, .options = options, .stream = stream, .weights = out, .error = error
    };
    out->layers = calloc((size_t)u.config->n_layers, sizeof *out->layers);
    if (!out->layers) return pf_fail(error, PF_NOMEM, "no memory for %d layers", u.config->n_layers);
    PF_TRY(add_all(&u));
    out->n_bytes = u.used;
    PF_TRY(pf_cuda_allocate((void **)&out->block, u.used, "the weights", error));
    pf_status status = pf_cuda_allocate_pinned(&u.staging, STAGING_BYTES, error);
    if (status == PF_OK) status = make_room(&u);
    if (status == PF_OK) status = add_all(&u);
    if (status == PF_OK && u.rounds) tell_rounding(&u);
    (void)cudaFreeHost(u.staging);
    free(u.row);
    free(u.panel);
    return status;
}

void pf_cuda_weights_destroy(pf_cuda_weights *weights)
{
    (void)cudaFree(weights->block);
    free(weights->layers);
}
