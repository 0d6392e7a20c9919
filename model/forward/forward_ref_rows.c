#include "model/forward/forward_ref_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { N_ROW_BUFFERS = 12 };

/* The buffers of rows. */
static void list_buffers(pf_ref_pass *p, double **list[N_ROW_BUFFERS])
{
    double **const all[N_ROW_BUFFERS] = { &p->x, &p->before,   &p->normed, &p->sum, &p->q,      &p->k,
                                          &p->v, &p->attended, &p->gate,   &p->up,  &p->expert, &p->shares };
    memcpy(list, all, sizeof all);
}

static bool is_looked_up(pf_tensor_role role)
{
    return role == PF_TENSOR_EMBEDDING || role == PF_TENSOR_POSITIONS || role == PF_TENSOR_HEAD;
}

/* Elements of the largest matrix, of the longest vector, and of the widest row but that of logits. */
static void measure(const pf_config *c, size_t *matrix, size_t *vector, size_t *row)
{
    *matrix = *vector = *row = 1;
    for (int role = 0; role < PF_N_TENSOR_ROLES; role++) {
        int32_t rows, columns;
        pf_config_shape(c, (pf_tensor_role)role, &rows, &columns);
        if (!c->plan.has[role] && role != PF_TENSOR_HEAD) continue;
        const size_t n = (size_t)rows * (size_t)(columns > 0 ? columns : 1); /* fits: config.h */
        if (n > *matrix) *matrix = n;
        if ((size_t)rows > *vector) *vector = (size_t)rows;
        if ((size_t)columns > *row) *row = (size_t)columns;
        if (!is_looked_up((pf_tensor_role)role) && (size_t)rows > *row) *row = (size_t)rows;
    }
}

static pf_status check(const pf_checkpoint *files, const int32_t *tokens, int32_t n_tokens, pf_error *error)
{
    const pf_config *c = &files->config;
    if (c->quantized)
        return pf_fail(error, PF_UNSUPPORTED, "%s: the weights are integers, which the naive pass does not read",
                       files->directory);
    if (n_tokens < 1) return pf_fail(error, PF_INVALID, "%d tokens, expected at least 1", n_tokens);
    if (c->plan.positions == PF_POSITIONS_LEARNT && n_tokens > c->n_positions - c->plan.position_offset)
        return pf_fail(error, PF_INVALID, "%d tokens, expected at most %d, the learnt positions of %s", n_tokens,
                       c->n_positions - c->plan.position_offset, files->directory);
    for (int32_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= c->vocab_size)
            return pf_fail(error, PF_INVALID, "token %d is %d, expected 0 to %d", i, tokens[i], c->vocab_size - 1);
    return PF_OK;
}

pf_status pf_ref_pass_create(const pf_checkpoint *files, const int32_t *tokens, int32_t n_tokens,
                             int32_t context_tokens, pf_ref_pass *out, pf_error *error)
{
    const pf_config *c = &files->config;
    PF_TRY(check(files, tokens, n_tokens, error));
    *out = (pf_ref_pass){ .files = files,
                          .c = c,
                          .plan = &c->plan,
                          .n = n_tokens,
                          .hidden = c->hidden_size,
                          .d = c->head_dim,
                          .context_tokens = context_tokens,
                          .error = error };
    size_t matrix, vector, row, n_values;
    double **buffers[N_ROW_BUFFERS];
    measure(c, &matrix, &vector, &row);
    list_buffers(out, buffers);
    out->weight = calloc(matrix, sizeof(float));
    out->vector = calloc(vector, sizeof(float));
    out->bias = calloc(vector, sizeof(float));
    bool enough = pf_size_mul(row, (size_t)n_tokens, &n_values) && out->weight && out->vector && out->bias;
    for (int i = 0; i < N_ROW_BUFFERS && enough; i++) enough = (*buffers[i] = calloc(n_values, sizeof(double))) != NULL;
    if (enough) return PF_OK;
    pf_ref_pass_destroy(out);
    return pf_fail(error, PF_NOMEM, "no memory for a matrix of %zu values and %d rows of %zu", matrix, n_tokens, row);
}

void pf_ref_pass_destroy(pf_ref_pass *p)
{
    double **buffers[N_ROW_BUFFERS];
    list_buffers(p, buffers);
    for (int i = 0; i < N_ROW_BUFFERS; i++) free(*buffers[i]);
    free(p->weight);
    free(p->vector);
    free(p->bias);
}

bool pf_ref_has(const pf_ref_pass *p, pf_tensor_role role)
{
    return pf_config_has(p->c, role, p->layer);
}

static const float *read_vector(pf_ref_pass *p, pf_tensor_id id, const char *part, float *out)
{
    size_t n_bytes;
    if (p->status == PF_OK) p->status = pf_checkpoint_vector(p->files, id, part, out, &n_bytes, p->error);
    return p->status == PF_OK ? out : NULL;
}

const float *pf_ref_vector(pf_ref_pass *p, pf_tensor_role role)
{
    return pf_ref_has(p, role) ? read_vector(p, (pf_tensor_id){ role, p->layer, 0 }, "weight", p->vector) : NULL;
}

const float *pf_ref_bias(pf_ref_pass *p, pf_tensor_role role, int32_t expert)
{
    const bool exists = pf_ref_has(p, role) && pf_config_has_bias(p->c, role);
    return exists ? read_vector(p, (pf_tensor_id){ role, p->layer, expert }, "bias", p->bias) : NULL;
}

const float *pf_ref_matrix(pf_ref_pass *p, pf_tensor_role role, int32_t expert, int32_t *rows, int32_t *columns)
{
    pf_checkpoint_rows found;
    pf_config_shape(p->c, role, rows, columns);
    const size_t n = (size_t)*rows * (size_t)*columns;
    if (p->status == PF_OK)
        p->status = pf_checkpoint_matrix(p->files, (pf_tensor_id){ role, p->layer, expert }, &found, p->error);
    if (p->status != PF_OK) return memset(p->weight, 0, n * sizeof *p->weight);
    for (size_t i = 0; i < n; i++) p->weight[i] = pf_tensor_element(found.source.data, found.source.type, i);
    pf_checkpoint_release_matrix(p->files, &found);
    return p->weight;
}
