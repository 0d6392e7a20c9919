/* oneDNN, by its C interface. Without it (PF_ONEDNN is not defined) everything is refused by name. */
#include "kernels/gemm/gemm_onednn.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "kernels/gemm/layout.h"

#ifdef PF_ONEDNN
#include <dlfcn.h>

#include "kernels/gemm/onednn_api.h"

enum { TILE_ROWS = 16, PLANNED_ROWS = 32 };

#define STRING_OF(x)     #x
#define VERSION(a, b, c) STRING_OF(a) "." STRING_OF(b) "." STRING_OF(c)

const char *pf_onednn_version(void)
{
    return VERSION(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

static bool has_product(pf_format format, pf_act act)
{
    return (format == PF_FORMAT_F32 || format == PF_FORMAT_BF16 || format == PF_FORMAT_INT8) &&
           pf_format_get(format)->act == act;
}

pf_status pf_onednn_check(pf_format format, pf_act act, pf_error *error)
{
    if (has_product(format, act)) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED,
                   "oneDNN %s has no product of %s weights with %s activations: f32, bf16 and int8 with their own are "
                   "what it has; without --gemm onednn all formats are there",
                   pf_onednn_version(), pf_format_get(format)->name, pf_act_name(act));
}

/* ---- a matrix ----------------------------------------------------------------------------------------------------- */

/* A product of so many rows, ready to be called. */
typedef struct {
    int32_t m;                  /* 0: the place is free */
    dnnl_primitive_t primitive; /* NULL: oneDNN refused */
    dnnl_memory_t source, target;
} product;

/* A member's columns. It alone writes here once it is made. */
typedef struct {
    int32_t panel_begin, panel_end;
    int32_t n; /* columns */
    dnnl_memory_t weights;
    float *scales;              /* [n] of int8 */
    dnnl_memory_t scales_there; /* the same, where they come with a call; or NULL */
    product products[PF_ONEDNN_PRIMITIVES];
    int32_t oldest; /* the place that is taken next */
} block;

typedef struct {
    dnnl_stream_t stream;
    float *sums; /* [rows, columns] of the largest product so far */
    size_t n_sums;
} member_state;

struct pf_onednn {
    dnnl_engine_t engine;
    void (*set_threads)(int); /* of OpenMP; NULL: oneDNN runs without */
    int32_t n_members;
    member_state *members; /* [n_members] */
};

struct pf_onednn_matrix {
    pf_onednn *home;
    pf_format format;
    int32_t k;
    _Atomic dnnl_status_t failure; /* a status of oneDNN that was not success, while it is made */
    block *blocks;                 /* [home->n_members] */
};

static dnnl_data_type_t type_of(pf_format format)
{
    return format == PF_FORMAT_F32 ? dnnl_f32 : format == PF_FORMAT_BF16 ? dnnl_bf16 : dnnl_s8;
}

static void call_with_one_thread(const pf_onednn *d)
{
    if (d->set_threads) d->set_threads(1);
}

#define TRY_ONEDNN(call)                             \
    do {                                             \
        const dnnl_status_t status_ = (call);        \
        if (status_ != dnnl_success) return status_; \
    } while (0)

static dnnl_status_t matrix(dnnl_memory_desc_t *out, dnnl_data_type_t type, int32_t n_rows, int32_t n_columns,
                            size_t row_stride, size_t column_stride)
{
    const dnnl_dims_t sizes = { n_rows, n_columns };
    const dnnl_dims_t strides = { (dnnl_dim_t)row_stride, (dnnl_dim_t)column_stride };
    return pf_onednn_plain(out, type, sizes, 2, strides);
}

/* m rows times a block, weights in `layout`, all described. */
static dnnl_status_t describe_as(const struct pf_onednn_matrix *d, const block *b, pf_onednn_layout a,
                                 pf_onednn_layout layout, pf_onednn_layout c, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes;
    TRY_ONEDNN(dnnl_primitive_attr_create(&attributes));
    dnnl_status_t status = dnnl_success;
    if (d->format == PF_FORMAT_INT8) status = pf_onednn_set_scales(attributes, b->n, b->scales);
    if (status == dnnl_success) status = pf_onednn_matmul(out, d->home->engine, a, layout, c, attributes);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* The description of m rows times a block, weights in `layout` (NULL: as oneDNN likes them best). */
static dnnl_status_t describe(const struct pf_onednn_matrix *d, const block *b, int32_t m, pf_onednn_layout layout,
                              dnnl_primitive_desc_t *out)
{
    const dnnl_data_type_t type = type_of(d->format);
    const dnnl_dims_t w_sizes = { d->k, b->n };
    dnnl_memory_desc_t a = { 0 }, w = { 0 }, c = { 0 };
    dnnl_status_t status = matrix(&a, type, m, d->k, (size_t)d->k, 1);
    if (status == dnnl_success) status = matrix(&c, dnnl_f32, m, b->n, (size_t)b->n, 1);
    if (status == dnnl_success && !layout) status = pf_onednn_any(&w, type, w_sizes);
    if (status == dnnl_success)
        status = describe_as(d, b, pf_onednn_view(&a), layout ? layout : pf_onednn_view(&w), pf_onednn_view(&c), out);
    pf_onednn_drop(&a);
    pf_onednn_drop(&w);
    pf_onednn_drop(&c);
    return status;
}

static void clear_product(product *p)
{
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->source) dnnl_memory_destroy(p->source);
    if (p->target) dnnl_memory_destroy(p->target);
    *p = (product){ 0 };
}

static dnnl_status_t make_product(const struct pf_onednn_matrix *d, const block *b, product *p)
{
    dnnl_primitive_desc_t description;
    pf_onednn_layout layout;
    TRY_ONEDNN(dnnl_memory_get_memory_desc(b->weights, &layout));
    TRY_ONEDNN(describe(d, b, p->m, layout, &description));
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, description);
    const pf_onednn_layout a = dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0);
    const pf_onednn_layout c = dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    if (status == dnnl_success) status = dnnl_memory_create(&p->source, a, d->home->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success) status = dnnl_memory_create(&p->target, c, d->home->engine, DNNL_MEMORY_NONE);
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* Column j of a block from the panels: numbers, or integers with their scale. */
static void unpack_column(const pf_gemm_weights *w, block *b, int32_t j, void *out, float *row)
{
    const int32_t n = b->panel_begin * PF_GEMM_PANEL + j;
    if (w->format == PF_FORMAT_INT8) {
        const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)(n / PF_GEMM_PANEL) * w->panel_bytes;
        b->scales[j] = pf_gemm_scale(&l, panel, n % PF_GEMM_PANEL);
        int8_t *q = (int8_t *)out + (size_t)j * (size_t)w->k;
        for (int32_t i = 0; i < w->k; i++)
            q[i] = (int8_t)(pf_gemm_stored(&l, panel, n % PF_GEMM_PANEL, (size_t)i) - 128);
        return;
    }
    pf_gemm_unpack_row(w, n, row);
    if (w->format == PF_FORMAT_F32) memcpy((float *)out + (size_t)j * (size_t)w->k, row, (size_t)w->k * sizeof *row);
    if (w->format == PF_FORMAT_BF16)
        for (int32_t i = 0; i < w->k; i++)
            ((uint16_t *)out)[(size_t)j * (size_t)w->k + (size_t)i] = pf_bf16_from_f32(row[i]);
}

/* Copy from one layout to another. */
static dnnl_status_t copy(dnnl_engine_t engine, dnnl_stream_t stream, dnnl_memory_t from, dnnl_memory_t to)
{
    pf_onednn_layout from_layout, to_layout;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    TRY_ONEDNN(dnnl_memory_get_memory_desc(from, &from_layout));
    TRY_ONEDNN(dnnl_memory_get_memory_desc(to, &to_layout));
    TRY_ONEDNN(dnnl_reorder_primitive_desc_create(&description, from_layout, engine, to_layout, engine, NULL));
    dnnl_status_t status = dnnl_primitive_create(&primitive, description);
    dnnl_primitive_desc_destroy(description);
    if (status != dnnl_success) return status;
    const dnnl_exec_arg_t arguments[2] = { { DNNL_ARG_FROM, from }, { DNNL_ARG_TO, to } };
    status = dnnl_primitive_execute(primitive, stream, 2, arguments);
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    dnnl_primitive_destroy(primitive);
    return status;
}

/* Reorder a block's columns, laid out one behind the other, as `layout` wants them. */
static dnnl_status_t reorder(const struct pf_onednn_matrix *d, dnnl_stream_t stream, block *b, void *columns,
                             pf_onednn_layout layout)
{
    dnnl_memory_desc_t plain;
    dnnl_memory_t from;
    TRY_ONEDNN(dnnl_memory_create(&b->weights, layout, d->home->engine, DNNL_MEMORY_ALLOCATE));
    TRY_ONEDNN(matrix(&plain, type_of(d->format), d->k, b->n, 1, (size_t)d->k));
    dnnl_status_t status = dnnl_memory_create(&from, pf_onednn_view(&plain), d->home->engine, columns);
    pf_onednn_drop(&plain);
    if (status != dnnl_success) return status;
    status = copy(d->home->engine, stream, from, b->weights);
    dnnl_memory_destroy(from);
    return status;
}

/* Scales that come with each call, where this version wants that. */
static dnnl_status_t place_scales(const struct pf_onednn_matrix *d, block *b)
{
    if (!PF_ONEDNN_SCALES_AT_CALL || d->format != PF_FORMAT_INT8) return dnnl_success;
    dnnl_memory_desc_t plain;
    const dnnl_dims_t sizes = { b->n }, strides = { 1 };
    TRY_ONEDNN(pf_onednn_plain(&plain, dnnl_f32, sizes, 1, strides));
    const dnnl_status_t status =
        dnnl_memory_create(&b->scales_there, pf_onednn_view(&plain), d->home->engine, b->scales);
    pf_onednn_drop(&plain);
    return status;
}

static dnnl_status_t make_block(const struct pf_onednn_matrix *d, dnnl_stream_t stream, const pf_gemm_weights *w,
                                block *b)
{
    const size_t element = d->format == PF_FORMAT_F32 ? 4 : d->format == PF_FORMAT_BF16 ? 2 : 1;
    b->n = (b->panel_end * PF_GEMM_PANEL < w->n ? b->panel_end * PF_GEMM_PANEL : w->n) - b->panel_begin * PF_GEMM_PANEL;
    b->scales = calloc((size_t)b->n, sizeof *b->scales);
    void *columns = malloc((size_t)b->n * (size_t)d->k * element);
    float *row = malloc((size_t)d->k * sizeof *row);
    dnnl_status_t status = b->scales && columns && row ? dnnl_success : dnnl_out_of_memory;
    dnnl_primitive_desc_t description = NULL;
    if (status == dnnl_success) {
        for (int32_t j = 0; j < b->n; j++) unpack_column(w, b, j, columns, row);
        status = place_scales(d, b);
    }
    if (status == dnnl_success) status = describe(d, b, PLANNED_ROWS, NULL, &description);
    if (status == dnnl_success) {
        status = reorder(d, stream, b, columns, dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0));
        dnnl_primitive_desc_destroy(description);
    }
    free(columns);
    free(row);
    return status;
}

typedef struct {
    struct pf_onednn_matrix *matrix;
    const pf_gemm_weights *weights;
} make_job;

static void make_share(pf_member member, void *arg)
{
    const make_job *job = arg;
    struct pf_onednn_matrix *d = job->matrix;
    block *b = &d->blocks[member.id];
    pf_team_share(member, job->weights->n_panels, &b->panel_begin, &b->panel_end);
    if (b->panel_begin == b->panel_end) return;
    call_with_one_thread(d->home);
    const dnnl_status_t status = make_block(d, d->home->members[member.id].stream, job->weights, b);
    if (status != dnnl_success) d->failure = status;
}

static pf_status refuse(dnnl_status_t status, const char *what, pf_error *error)
{
    return pf_fail(error, status == dnnl_out_of_memory ? PF_NOMEM : PF_INTERNAL, "oneDNN refuses %s: its status is %d",
                   what, (int)status);
}

pf_status pf_onednn_open(pf_team *team, pf_onednn **out, pf_error *error)
{
    pf_onednn *d = calloc(1, sizeof *d);
    if (d) d->members = calloc((size_t)pf_team_size(team), sizeof *d->members);
    if (!d || !d->members) {
        free(d);
        return pf_fail(error, PF_NOMEM, "no memory for oneDNN");
    }
    d->n_members = pf_team_size(team);
    void *function = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&d->set_threads, &function, sizeof function); /* C has no cast between the two */
    dnnl_status_t status = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    for (int32_t i = 0; i < d->n_members && status == dnnl_success; i++)
        status = dnnl_stream_create(&d->members[i].stream, d->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        pf_onednn_close(d);
        return refuse(status, "an engine", error);
    }
    *out = d;
    return PF_OK;
}

void pf_onednn_close(pf_onednn *d)
{
    if (!d) return;
    for (int32_t i = 0; i < d->n_members; i++) {
        if (d->members[i].stream) dnnl_stream_destroy(d->members[i].stream);
        free(d->members[i].sums);
    }
    free(d->members);
    if (d->engine) dnnl_engine_destroy(d->engine);
    free(d);
}

void pf_onednn_detach(pf_gemm_weights *w)
{
    struct pf_onednn_matrix *d = w->onednn;
    if (!d) return;
    for (int32_t i = 0; i < d->home->n_members; i++) {
        block *b = &d->blocks[i];
        for (int p = 0; p < PF_ONEDNN_PRIMITIVES; p++) clear_product(&b->products[p]);
        if (b->weights) dnnl_memory_destroy(b->weights);
        if (b->scales_there) dnnl_memory_destroy(b->scales_there);
        free(b->scales);
    }
    free(d->blocks);
    free(d);
    w->onednn = NULL;
}

pf_status pf_onednn_attach(pf_onednn *onednn, pf_team *team, pf_gemm_weights *w, pf_error *error)
{
    PF_TRY(pf_onednn_check(w->format, pf_format_get(w->format)->act, error));
    assert(pf_team_size(team) == onednn->n_members);
    struct pf_onednn_matrix *d = calloc(1, sizeof *d);
    if (d) d->blocks = calloc((size_t)onednn->n_members, sizeof *d->blocks);
    if (!d || !d->blocks) {
        free(d);
        return pf_fail(error, PF_NOMEM, "no memory for oneDNN's copy of a matrix");
    }
    d->home = onednn;
    d->format = w->format;
    d->k = w->k;
    w->onednn = d;
    pf_team_run(team, make_share, &(make_job){ .matrix = d, .weights = w });
    const dnnl_status_t failure = d->failure;
    if (failure == dnnl_success) return PF_OK;
    pf_onednn_detach(w);
    return refuse(failure, "a matrix", error);
}

/* ---- the pair of functions ---------------------------------------------------------------------------------------- */

/* Rows one behind the other; behind int8 rows, a scale for each. */
static float *row_scales(const void *input, int32_t m, int32_t k)
{
    return (float *)((char *)(uintptr_t)input + pf_round_up((size_t)m * (size_t)k, 64));
}

static void pack_f32(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                     int32_t tile_end)
{
    const int32_t n_tiles = pf_gemm_tiles(TILE_ROWS, m), end = pf_gemm_tile_row(n_tiles, m, tile_end);
    for (int32_t row = pf_gemm_tile_row(n_tiles, m, tile_begin); row < end; row++)
        memcpy((float *)input + (size_t)row * (size_t)k, a + (size_t)row * lda, (size_t)k * sizeof *a);
}

static void pack_bf16(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                      int32_t tile_end)
{
    const int32_t n_tiles = pf_gemm_tiles(TILE_ROWS, m), end = pf_gemm_tile_row(n_tiles, m, tile_end);
    for (int32_t row = pf_gemm_tile_row(n_tiles, m, tile_begin); row < end; row++) {
        const float *from = a + (size_t)row * lda;
        uint16_t *to = (uint16_t *)input + (size_t)row * (size_t)k;
        for (int32_t i = 0; i < k; i++) to[i] = pf_bf16_from_f32(from[i]);
    }
}

static void pack_int8(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                      int32_t tile_end)
{
    const int32_t n_tiles = pf_gemm_tiles(TILE_ROWS, m), end = pf_gemm_tile_row(n_tiles, m, tile_end);
    float *scales = row_scales(input, m, k);
    for (int32_t row = pf_gemm_tile_row(n_tiles, m, tile_begin); row < end; row++) {
        const float *from = a + (size_t)row * lda;
        int8_t *to = (int8_t *)input + (size_t)row * (size_t)k;
        float largest = 0.0f, sum = 0.0f;
        for (int32_t i = 0; i < k; i++) {
            const float magnitude = fabsf(from[i]);
            largest = magnitude > largest ? magnitude : largest;
            sum += from[i] * 0.0f; /* a NaN where one of them is no finite number */
        }
        const bool counts = largest >= 0x1p-100f && sum == 0.0f;
        const float by = counts ? 127.0f / largest : 0.0f;
        scales[row] = sum == 0.0f ? (counts ? largest / 127.0f : 0.0f) : NAN;
        for (int32_t i = 0; i < k; i++) to[i] = (int8_t)(counts ? (int32_t)rintf(from[i] * by) : 0);
    }
}

/* The product of these rows, made if it is not there. */
static const product *find_product(const struct pf_onednn_matrix *d, block *b, int32_t m)
{
    for (int i = 0; i < PF_ONEDNN_PRIMITIVES; i++)
        if (b->products[i].m == m) return &b->products[i];
    product *p = &b->products[b->oldest];
    b->oldest = (b->oldest + 1) % PF_ONEDNN_PRIMITIVES;
    clear_product(p);
    p->m = m;
    if (make_product(d, b, p) != dnnl_success) clear_product(p);
    return p;
}

/* Room for n sums of this member; NULL: there is no memory. */
static float *sums_of(member_state *mine, size_t n)
{
    if (n <= mine->n_sums) return mine->sums;
    free(mine->sums);
    mine->sums = malloc(n * sizeof *mine->sums);
    mine->n_sums = mine->sums ? n : 0;
    return mine->sums;
}

static dnnl_status_t execute(const struct pf_onednn_matrix *d, member_state *mine, block *b, const void *input,
                             int32_t m, float *out)
{
    const product *p = find_product(d, b, m);
    if (!p->primitive || !out) return dnnl_out_of_memory;
    TRY_ONEDNN(dnnl_memory_set_data_handle(p->source, (void *)(uintptr_t)input));
    TRY_ONEDNN(dnnl_memory_set_data_handle(p->target, out));
    const dnnl_exec_arg_t arguments[4] = { { DNNL_ARG_SRC, p->source },
                                           { DNNL_ARG_WEIGHTS, b->weights },
                                           { DNNL_ARG_DST, p->target },
                                           { DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, b->scales_there } };
    TRY_ONEDNN(dnnl_primitive_execute(p->primitive, mine->stream, b->scales_there ? 4 : 3, arguments));
    return dnnl_stream_wait(mine->stream);
}

/* Sums to where they belong, by the scale of their row where there is one. */
static void put_rows(const block *b, const float *sums, const float *scales, int32_t m, float *c, size_t ldc,
                     pf_gemm_mode mode)
{
    for (int32_t row = 0; row < m; row++, c += ldc, sums += b->n) {
        const float scale = scales ? scales[row] : 1.0f;
        if (mode == PF_GEMM_ADD)
            for (int32_t j = 0; j < b->n; j++) c[j] += sums[j] * scale;
        else
            for (int32_t j = 0; j < b->n; j++) c[j] = sums[j] * scale;
    }
}

static void multiply_block(const struct pf_onednn_matrix *d, int32_t id, const void *input, int32_t m, float *c,
                           size_t ldc, pf_gemm_mode mode)
{
    block *b = &d->blocks[id];
    member_state *mine = &d->home->members[id];
    c += (size_t)b->panel_begin * PF_GEMM_PANEL;
    const bool is_int8 = d->format == PF_FORMAT_INT8;
    const bool direct = mode == PF_GEMM_STORE && !is_int8 && (m == 1 || ldc == (size_t)b->n);
    float *sums = direct ? c : sums_of(mine, (size_t)m * (size_t)b->n);
    const dnnl_status_t status = execute(d, mine, b, input, m, sums);
    if (status == dnnl_success && !direct)
        put_rows(b, sums, is_int8 ? row_scales(input, m, d->k) : NULL, m, c, ldc, mode);
    for (int32_t row = 0; status != dnnl_success && row < m; row++) /* a kernel has no other way to say it */
        for (int32_t j = 0; j < b->n; j++) c[(size_t)row * ldc + (size_t)j] = NAN;
}

/* One block, or for one thread that multiplies alone all of them. */
static void multiply(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const struct pf_onednn_matrix *d = w->onednn;
    int32_t n_panels = 0;
    call_with_one_thread(d->home);
    for (int32_t id = 0; id < d->home->n_members; id++) {
        const block *b = &d->blocks[id];
        if (b->panel_begin < panel_begin || b->panel_end > panel_end || b->panel_begin == b->panel_end) continue;
        multiply_block(d, id, input, m, c, ldc, mode);
        n_panels += b->panel_end - b->panel_begin;
    }
    assert(n_panels == panel_end - panel_begin);
    (void)n_panels;
}

static const pf_kernel rows[] = {
#define ROW(FORMAT, PACK)                                                                                            \
    {                                                                                                                \
        .op = PF_OP_GEMM, .format = PF_FORMAT_##FORMAT, .act = PF_ACT_##FORMAT, .name = "onednn_matmul_" #FORMAT,    \
        .tile = "", .packing = "as oneDNN likes it, beside panels", .arithmetic = "oneDNN's, by the number of rows", \
        .fn.gemm = {                                                                                                 \
            .tile_rows = TILE_ROWS,                                                                                  \
            .pack = PACK,                                                                                            \
            .multiply = multiply                                                                                     \
        }                                                                                                            \
    }
    ROW(F32, pack_f32),
    ROW(BF16, pack_bf16),
    ROW(INT8, pack_int8),
};

const pf_kernel *pf_onednn_kernel(pf_format format)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].format == format) return &rows[i];
    return NULL;
}

#else
const char *pf_onednn_version(void)
{
    return NULL;
}

pf_status pf_onednn_check(pf_format format, pf_act act, pf_error *error)
{
    (void)format;
    (void)act;
    return pf_fail(error, PF_UNSUPPORTED,
                   "this build is without oneDNN: install libdnnl-dev (2.6 or later) and configure again");
}

const pf_kernel *pf_onednn_kernel(pf_format format)
{
    (void)format;
    return NULL;
}

pf_status pf_onednn_open(pf_team *team, pf_onednn **out, pf_error *error)
{
    (void)team;
    (void)out;
    return pf_onednn_check(PF_FORMAT_F32, PF_ACT_F32, error);
}

void pf_onednn_close(pf_onednn *onednn)
{
    (void)onednn;
}

pf_status pf_onednn_attach(pf_onednn *onednn, pf_team *team, pf_gemm_weights *w, pf_error *error)
{
    (void)onednn;
    (void)team;
    return pf_onednn_check(w->format, pf_format_get(w->format)->act, error);
}

void pf_onednn_detach(pf_gemm_weights *w)
{
    (void)w;
}
#endif
