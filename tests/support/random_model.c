#include "tests/support/random_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/files/role_rows.h"
#include "model/files/safetensors_writer.h"
#include "tests/support/draw.h"

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "random_model: %s\n", what);
    abort();
}

static void check(pf_status status, const pf_error *error)
{
    if (status != PF_OK) give_up(error->text);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Uniform in center +- spread. */
typedef struct {
    double center, spread;
} range;

static bool is_norm(pf_tensor_role role)
{
    switch (role) {
    case PF_TENSOR_EMBEDDING_NORM:
    case PF_TENSOR_FINAL_NORM:
    case PF_TENSOR_ATTENTION_NORM:
    case PF_TENSOR_Q_NORM:
    case PF_TENSOR_K_NORM:
    case PF_TENSOR_ATTENTION_POST:
    case PF_TENSOR_MLP_NORM:
    case PF_TENSOR_MLP_POST: return true;
    default: return false;
    }
}

/* Queries and keys large enough for an attention that is not flat; routers decided. */
static double gain_of(pf_tensor_role role)
{
    if (role == PF_TENSOR_Q || role == PF_TENSOR_K) return 1.5;
    if (role == PF_TENSOR_HEAD) return 2.0;
    return role == PF_TENSOR_ROUTER || role == PF_TENSOR_EMBEDDING ? 3.0 : 1.0;
}

static range range_of(const pf_config *config, pf_tensor_role role, bool is_bias, int32_t columns)
{
    if (is_bias) return (range){ 0.0, 0.5 };
    if (is_norm(role)) return (range){ config->plan.norm == PF_NORM_RMS_PLUS_ONE ? 0.0 : 1.0, 0.3 };
    if (role == PF_TENSOR_EMBEDDING || role == PF_TENSOR_POSITIONS || columns == 0) return (range){ 0.0, 1.0 };
    return (range){ 0.0, gain_of(role) * sqrt(3.0 / (double)columns) };
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { MAX_TENSORS = 2048 };

typedef struct {
    char name[PF_MAX_TENSOR_NAME];
    int64_t n;
    range values;
} tensor;

typedef struct {
    const pf_config *config;
    pf_safetensors_header header;
    tensor *list; /* [MAX_TENSORS] */
    int32_t n;
} tensors;

static pf_status add(void *user, pf_tensor_id id, const char *part, pf_error *error)
{
    tensors *t = user;
    char name[PF_MAX_TENSOR_NAME];
    pf_config_tensor_name(t->config, id, part, name);
    for (int32_t i = 0; i < t->n; i++)
        if (strcmp(t->list[i].name, name) == 0) return PF_OK; /* of several roles, or of all experts */
    if (t->n == MAX_TENSORS) give_up("too many tensors");

    int32_t rows, columns;
    pf_config_shape(t->config, id.role, &rows, &columns);
    const bool is_bias = strcmp(part, "bias") == 0;
    if (is_bias) columns = 0;
    const pf_role_rows lines = pf_role_rows_of(t->config, id, columns);
    int64_t shape[3], n = 1;
    const int32_t n_dimensions = pf_role_rows_file_shape(t->config, &lines, id.role, columns == 0, shape);
    for (int32_t d = 0; d < n_dimensions; d++) n *= shape[d];
    tensor *made = &t->list[t->n++];
    snprintf(made->name, sizeof made->name, "%s", name);
    made->n = n;
    made->values = range_of(t->config, id.role, is_bias, columns);
    return pf_safetensors_header_add(&t->header, name, "F32", shape, n_dimensions, (size_t)n * sizeof(float), error);
}

static void write_values(FILE *f, const tensor *t, uint64_t *rng)
{
    for (int64_t i = 0; i < t->n; i++) {
        const double uniform = (double)(draw(rng) >> 11) * 0x1p-52 - 1.0;
        const float value = (float)(t->values.center + t->values.spread * uniform);
        fwrite(&value, sizeof value, 1, f);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void write_file(const char *directory, const char *name, const void *data, size_t n_bytes, const tensors *t,
                       uint64_t seed)
{
    char path[PF_TINY_PATH + 32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) give_up(path);
    fwrite(data, 1, n_bytes, f);
    for (int32_t i = 0; t != NULL && i < t->n; i++) write_values(f, &t->list[i], &seed);
    if (ferror(f) | fclose(f)) give_up(path);
}

void pf_random_model_create(const char *config_json, uint64_t seed, char directory[PF_TINY_PATH])
{
    pf_error error = { 0 };
    pf_config *config = calloc(1, sizeof *config);
    tensors t = { .config = config, .list = calloc(MAX_TENSORS, sizeof *t.list) };
    if (config == NULL || t.list == NULL) give_up("no memory");
    check(pf_config_parse("config.json", config_json, strlen(config_json), NULL, 0, NULL, config, &error), &error);
    check(pf_safetensors_header_open(&t.header, &error), &error);
    check(pf_config_visit_tensors(config, add, &t, &error), &error);
    char *header = NULL;
    size_t n_bytes = 0;
    check(pf_safetensors_header_print(&t.header, &header, &n_bytes, &error), &error);

    const char *base = getenv("TMPDIR");
    snprintf(directory, PF_TINY_PATH, "%s/pf-random-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(directory) == NULL) give_up(directory);
    write_file(directory, "config.json", config_json, strlen(config_json), NULL, 0);
    write_file(directory, "model.safetensors", header, n_bytes, &t, seed);
    free(header);
    free(t.list);
    free(config);
    pf_safetensors_header_close(&t.header);
}
