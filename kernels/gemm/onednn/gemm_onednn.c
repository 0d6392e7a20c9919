/* oneDNN, by its C interface. Without it (PF_ONEDNN is not defined) everything is refused by name. */
#include "kernels/gemm/onednn/gemm_onednn.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#ifdef PF_ONEDNN
#include <dlfcn.h>

#include "kernels/cpu.h"
#include "kernels/gemm/onednn/onednn_api.h"
#include "kernels/gemm/onednn/onednn_pack.h"
#include "kernels/gemm/onednn/onednn_unpack.h"

enum { PLANNED_ROWS = 32 };

/* How weights of a format are multiplied by activations of a type. */
typedef struct {
    pf_kernel row;                    /* what stands for it in a table of kernels */
    dnnl_data_type_t source, weights; /* what oneDNN is given */
} recipe;

static const recipe *listed_recipe(pf_format format, pf_act act);
static const recipe *recipe_of(pf_format format, pf_act act);

#define STRING_OF(x)     #x
#define VERSION(a, b, c) STRING_OF(a) "." STRING_OF(b) "." STRING_OF(c)

const char *pf_onednn_version(void)
{
    return VERSION(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

pf_status pf_onednn_check(pf_format format, pf_act act, pf_error *error)
{
    if (recipe_of(format, act)) return PF_OK;
    if (listed_recipe(format, act))
        return pf_fail(error, PF_UNSUPPORTED,
                       "oneDNN has no exact product of %s weights with %s activations on this processor: bf16 needs "
                       "AVX-512, int8 VNNI, below which sums saturate; without --gemm onednn all formats are there",
                       pf_format_get(format)->name, pf_act_name(act));
    const char *has = PF_ONEDNN_WIDENS ? "f32, bf16, int8 and int4 are what it has"
                                       : "f32, bf16, int8 and int4 with their own are what it has, integers with bf16 "
                                         "since version 3.5";
    return pf_fail(error, PF_UNSUPPORTED,
                   "oneDNN %s has no product of %s weights with %s activations: %s; without --gemm onednn all formats "
                   "are there",
                   pf_onednn_version(), pf_format_get(format)->name, pf_act_name(act), has);
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
    float *scales;              /* [n] of integers */
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
    const recipe *how;
    int32_t k;
    bool is_integer;
    _Atomic dnnl_status_t failure; /* a status of oneDNN that was not success, while it is made */
    block *blocks;                 /* [home->n_members]; without panels where there are fewer than members */
};

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

/* What a product does with integers on the way: to bf16 first, and at the end by a column's scale. */
static dnnl_status_t set_attributes(const struct pf_onednn_matrix *d, const block *b, dnnl_primitive_attr_t attributes)
{
    if (!d->is_integer) return dnnl_success;
#if PF_ONEDNN_WIDENS
    if (d->how->source == dnnl_bf16) TRY_ONEDNN(pf_onednn_widen(attributes));
#endif
    return pf_onednn_set_scales(attributes, b->n, b->scales);
}

/* m rows times a block, weights in `layout`, all described. */
static dnnl_status_t describe_as(const struct pf_onednn_matrix *d, const block *b, pf_onednn_layout a,
                                 pf_onednn_layout layout, pf_onednn_layout c, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attributes;
    TRY_ONEDNN(dnnl_primitive_attr_create(&attributes));
    dnnl_status_t status = set_attributes(d, b, attributes);
    if (status == dnnl_success) status = pf_onednn_matmul(out, d->home->engine, a, layout, c, attributes);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* The description of m rows times a block, weights in `layout` (NULL: as oneDNN likes them best). */
static dnnl_status_t describe(const struct pf_onednn_matrix *d, const block *b, int32_t m, pf_onednn_layout layout,
                              dnnl_primitive_desc_t *out)
{
    const dnnl_dims_t w_sizes = { d->k, b->n };
    dnnl_memory_desc_t a = { 0 }, w = { 0 }, c = { 0 };
    dnnl_status_t status = matrix(&a, d->how->source, m, d->k, pf_onednn_row_stride(d->k), 1);
    if (status == dnnl_success) status = matrix(&c, dnnl_f32, m, b->n, (size_t)b->n, 1);
    if (status == dnnl_success && !layout) status = pf_onednn_any(&w, d->how->weights, w_sizes);
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
    TRY_ONEDNN(matrix(&plain, d->how->weights, d->k, b->n, 1, (size_t)d->k));
    dnnl_status_t status = dnnl_memory_create(&from, pf_onednn_view(&plain), d->home->engine, columns);
    pf_onednn_drop(&plain);
    if (status != dnnl_success) return status;
    status = copy(d->home->engine, stream, from, b->weights);
    dnnl_memory_destroy(from);
    return status;
}

/* The scales of a block's columns as oneDNN sees them where they come with each call. */
static dnnl_status_t place_scales(const struct pf_onednn_matrix *d, block *b)
{
    dnnl_memory_desc_t plain;
    const dnnl_dims_t sizes = { b->n }, strides = { 1 };
    TRY_ONEDNN(pf_onednn_plain(&plain, dnnl_f32, sizes, 1, strides));
    const dnnl_status_t status =
        dnnl_memory_create(&b->scales_there, pf_onednn_view(&plain), d->home->engine, b->scales);
    pf_onednn_drop(&plain);
    return status;
}

/* Copy a block's columns into the layout that oneDNN asks for. */
static dnnl_status_t copy_columns(const struct pf_onednn_matrix *d, dnnl_stream_t stream, const pf_gemm_weights *w,
                                  block *b)
{
    const size_t element = d->is_integer ? 1 : (size_t)pf_format_get(w->format)->bits / 8;
    void *columns = malloc((size_t)b->n * (size_t)d->k * element);
    float *row = malloc((size_t)d->k * sizeof *row);
    dnnl_status_t status = columns && row ? dnnl_success : dnnl_out_of_memory;
    dnnl_primitive_desc_t description = NULL;
    if (status == dnnl_success) {
        if (d->is_integer)
            pf_onednn_unpack_integers(w, b->panel_begin, b->n, columns, b->scales);
        else
            pf_onednn_unpack_numbers(w, b->panel_begin, b->n, columns, row);
        status = describe(d, b, PLANNED_ROWS, NULL, &description);
    }
    if (status == dnnl_success) {
        status = reorder(d, stream, b, columns, dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0));
        dnnl_primitive_desc_destroy(description);
    }
    free(columns);
    free(row);
    return status;
}

static dnnl_status_t make_block(const struct pf_onednn_matrix *d, dnnl_stream_t stream, const pf_gemm_weights *w,
                                block *b)
{
    const int32_t first = b->panel_begin * PF_GEMM_PANEL, end = b->panel_end * PF_GEMM_PANEL;
    b->n = (end < w->n ? end : w->n) - first;
    b->scales = calloc((size_t)b->n, sizeof *b->scales);
    if (!b->scales) return dnnl_out_of_memory;
    TRY_ONEDNN(copy_columns(d, stream, w, b));
    if (PF_ONEDNN_SCALES_AT_CALL && d->is_integer) TRY_ONEDNN(place_scales(d, b));
    product probe = { .m = PLANNED_ROWS };
    const dnnl_status_t status = make_product(d, b, &probe);
    clear_product(&probe);
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

pf_status pf_onednn_attach(pf_onednn *onednn, pf_team *team, pf_gemm_weights *w, pf_act act, pf_error *error)
{
    PF_TRY(pf_onednn_check(w->format, act, error));
    assert(pf_team_size(team) == onednn->n_members);
    struct pf_onednn_matrix *d = calloc(1, sizeof *d);
    if (d) {
        d->home = onednn;
        d->how = recipe_of(w->format, act);
        d->k = w->k;
        d->is_integer = pf_format_get(w->format)->bits < 16;
        d->blocks = calloc((size_t)onednn->n_members, sizeof *d->blocks);
    }
    if (!d || !d->blocks) {
        free(d);
        return pf_fail(error, PF_NOMEM, "no memory for oneDNN's copy of a matrix");
    }
    w->onednn = d;
    pf_team_run(team, make_share, &(make_job){ .matrix = d, .weights = w });
    const dnnl_status_t failure = d->failure;
    if (failure == dnnl_success) return PF_OK;
    pf_onednn_detach(w);
    return refuse(failure, "a matrix", error);
}

/* ---- the pair of functions ---------------------------------------------------------------------------------------- */

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

static void multiply_block(const struct pf_onednn_matrix *d, member_state *mine, block *b, const void *input, int32_t m,
                           float *c, size_t ldc, pf_gemm_mode mode)
{
    c += (size_t)b->panel_begin * PF_GEMM_PANEL;
    const bool is_int8 = d->how->row.act == PF_ACT_INT8;
    const bool direct = mode == PF_GEMM_STORE && !is_int8 && (m == 1 || ldc == (size_t)b->n);
    float *sums = direct ? c : sums_of(mine, (size_t)m * (size_t)b->n);
    const dnnl_status_t status = execute(d, mine, b, input, m, sums);
    if (status == dnnl_success && !direct)
        put_rows(b, sums, is_int8 ? pf_onednn_row_scales(input, m, d->k) : NULL, m, c, ldc, mode);
    for (int32_t row = 0; status != dnnl_success && row < m; row++) /* a kernel has no other way to say it */
        for (int32_t j = 0; j < b->n; j++) c[(size_t)row * ldc + (size_t)j] = NAN;
}

/* A member's block, or the blocks of several where fewer multiply. */
static void multiply(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const struct pf_onednn_matrix *d = w->onednn;
    int32_t n_panels = 0;
    call_with_one_thread(d->home);
    for (int32_t i = 0; i < d->home->n_members; i++) {
        block *b = &d->blocks[i];
        if (b->panel_begin < panel_begin || b->panel_end > panel_end || b->panel_begin == b->panel_end) continue;
        multiply_block(d, &d->home->members[i], b, input, m, c, ldc, mode);
        n_panels += b->panel_end - b->panel_begin;
    }
    assert(n_panels == panel_end - panel_begin);
    (void)n_panels;
}

#define ROW(FORMAT, ACT, PACK)                                \
    .row = { .op = PF_OP_GEMM,                                \
             .format = PF_FORMAT_##FORMAT,                    \
             .act = PF_ACT_##ACT,                             \
             .name = "onednn_matmul_" #FORMAT,                \
             .tile = "",                                      \
             .packing = "as oneDNN likes it, beside panels",  \
             .arithmetic = "oneDNN's, by the number of rows", \
             .fn.gemm = { .tile_rows = PF_ONEDNN_TILE_ROWS, .pack = PACK, .multiply = multiply, .by_shares = true } }
#define BY_INT8(FORMAT) ROW(FORMAT, INT8, pf_onednn_pack_int8), .source = dnnl_s8, .weights = dnnl_s8
#define BY_BF16(FORMAT) ROW(FORMAT, BF16, pf_onednn_pack_bf16), .source = dnnl_bf16, .weights = dnnl_s8

static const recipe recipes[] = {
    { ROW(F32, F32, pf_onednn_pack_f32), .source = dnnl_f32, .weights = dnnl_f32 },
    { ROW(BF16, BF16, pf_onednn_pack_bf16), .source = dnnl_bf16, .weights = dnnl_bf16 },
    { BY_INT8(INT8) },
    { BY_INT8(INT4_G32) },
    { BY_INT8(INT4_G128) },
    { BY_INT8(INT4_CHANNEL) },
    { BY_INT8(INT4_ASYM_G32) },
    { BY_INT8(INT4_ASYM_G128) },
    { BY_INT8(INT4_ASYM_CHANNEL) },
#if PF_ONEDNN_WIDENS
    { BY_BF16(INT8) },
    { BY_BF16(INT4_G32) },
    { BY_BF16(INT4_G128) },
    { BY_BF16(INT4_CHANNEL) },
    { BY_BF16(INT4_ASYM_G32) },
    { BY_BF16(INT4_ASYM_G128) },
    { BY_BF16(INT4_ASYM_CHANNEL) },
#endif
};

static const recipe *listed_recipe(pf_format format, pf_act act)
{
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (recipes[i].row.format == format && recipes[i].row.act == act) return &recipes[i];
    return NULL;
}

/* Below AVX-512 oneDNN has no bf16, and without VNNI it adds int8 products in pairs by VPMADDUBSW, which saturates. */
static bool suits_processor(const recipe *r)
{
    if (r->source == dnnl_bf16) return pf_cpu_best_isa() >= PF_ISA_AVX512;
    return r->source != dnnl_s8 || (pf_cpu_features() & (PF_FEATURE_AVX_VNNI | PF_FEATURE_AVX512_VNNI)) != 0;
}

static const recipe *recipe_of(pf_format format, pf_act act)
{
    const recipe *r = listed_recipe(format, act);
    return r && suits_processor(r) ? r : NULL;
}

const pf_kernel *pf_onednn_kernel(pf_format format, pf_act act)
{
    const recipe *r = recipe_of(format, act);
    return r ? &r->row : NULL;
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

const pf_kernel *pf_onednn_kernel(pf_format format, pf_act act)
{
    (void)format;
    (void)act;
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

pf_status pf_onednn_attach(pf_onednn *onednn, pf_team *team, pf_gemm_weights *w, pf_act act, pf_error *error)
{
    (void)onednn;
    (void)team;
    return pf_onednn_check(w->format, act, error);
}

void pf_onednn_detach(pf_gemm_weights *w)
{
    (void)w;
}
#endif

size_t pf_onednn_copy_bytes(const pf_gemm_weights *w)
{
    const int32_t bits = pf_format_get(w->format)->bits;
    return (size_t)w->n * (size_t)w->k * (bits < 16 ? 1 : (size_t)bits / 8);
}
