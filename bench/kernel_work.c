/* Data for kernels, and the calls. */
#include "bench/kernel_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/stop.h"
#include "base/topology.h"
#include "bench/bare_read.h"
#include "bench/keep.h"

enum {
    HEADS = 32, /* the shape of Llama-3.2-1B */
    KV_HEADS = 8,
    HEAD_DIM = 64,
    HIDDEN = 2048,
    INTERMEDIATE = 8192,
    VOCABULARY = 32000,
    TOP = 256,        /* of a vocabulary: what a drafter declares */
    PAGE_TOKENS = 16, /* that a store writes to */
    TILE_ROWS = 64,   /* at least the height of any kernel's tile */
    DEFAULT_CACHE_BYTES = 32 << 20,
    SEED_WORDS = 1 << 14,
};
static const size_t SMALLEST_STORE_BYTES = (size_t)320 << 20;

/* ---- numbers ------------------------------------------------------------------------------------------------------ */

/* splitmix64: the same numbers in every run. */
static uint64_t next_bits(uint64_t *state)
{
    return pf_hash_mix(*state += 0x9E3779B97F4A7C15u);
}

static void fill_floats(float *out, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) out[i] = (float)(int32_t)(next_bits(&seed) >> 32) * 0x1p-31f;
}

/* Bytes begin .. end-1 of a region that repeats `pattern` from its start. */
static void repeat(unsigned char *region, size_t begin, size_t end, const unsigned char *pattern, size_t pattern_bytes)
{
    while (begin < end) {
        const size_t from = begin % pattern_bytes, left = pattern_bytes - from;
        const size_t n = left < end - begin ? left : end - begin;
        memcpy(region + begin, pattern + from, n);
        begin += n;
    }
}

typedef struct {
    unsigned char *region;
    size_t n_bytes;
    const unsigned char *pattern;
    size_t pattern_bytes;
} fill_job;

static void fill_share(pf_member member, void *arg)
{
    const fill_job *job = arg;
    size_t end;
    const size_t begin = pf_bare_read_share(member, job->n_bytes, &end);
    repeat(job->region, begin, end, job->pattern, job->pattern_bytes);
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t lay_out_rows(pf_work_data *d, pf_arena *arena)
{
    const size_t n_threads = (size_t)pf_team_size(d->team);
    d->a = pf_arena_take(arena, (size_t)PF_WORK_ROWS * PF_WORK_K, sizeof(float));
    d->b = pf_arena_take(arena, (size_t)PF_WORK_ROWS * PF_WORK_K, sizeof(float));
    d->c = pf_arena_take(arena, (size_t)PF_WORK_ROWS * PF_WORK_COLUMNS, sizeof(float));
    d->p = pf_arena_take(arena, PF_WORK_COLUMNS, sizeof(float));
    d->input = pf_arena_take(arena, pf_gemm_input_bytes(PF_WORK_ROWS, PF_WORK_K), 1);
    d->cos = pf_arena_take(arena, (size_t)PF_WORK_ROWS * HEAD_DIM / 2, sizeof(float));
    d->sin = pf_arena_take(arena, (size_t)PF_WORK_ROWS * HEAD_DIM / 2, sizeof(float));
    d->positions = pf_arena_take(arena, PF_WORK_ROWS, sizeof(int32_t));
    d->member_input = pf_arena_take(arena, n_threads, sizeof(void *));
    d->member_scratch = pf_arena_take(arena, n_threads, sizeof(void *));
    size_t scratch_bytes = pf_top_scratch_bytes(VOCABULARY);
    scratch_bytes = larger(scratch_bytes, pf_gemm_scratch_bytes(PF_WORK_ROWS));
    scratch_bytes = larger(scratch_bytes, pf_attn_scratch_bytes(HEAD_DIM));
    for (size_t i = 0; i < n_threads; i++) {
        void *input = pf_arena_take(arena, pf_gemm_input_bytes(TILE_ROWS, PF_WORK_K), 1);
        void *scratch = pf_arena_take(arena, scratch_bytes, 1);
        if (arena->base == NULL) continue;
        d->member_input[i] = input;
        d->member_scratch[i] = scratch;
    }
    return arena->used;
}

pf_status pf_work_data_create(pf_team *team, pf_work_data *out, pf_error *error)
{
    pf_topology machine;
    PF_TRY(pf_topology_read(&machine, error));
    pf_work_data d = { .team = team, .cache_bytes = machine.l3_bytes ? machine.l3_bytes : DEFAULT_CACHE_BYTES };
    const size_t store = 8 * d.cache_bytes > SMALLEST_STORE_BYTES ? 8 * d.cache_bytes : SMALLEST_STORE_BYTES;
    pf_arena measure = pf_arena_measure();
    pf_status status = pf_arena_create(lay_out_rows(&d, &measure), &d.rows);
    if (status == PF_OK) status = pf_arena_create(store, &d.store);
    if (status != PF_OK) {
        pf_arena_destroy(&d.rows);
        return pf_fail(error, status, "no memory for %zu MiB of weights and rows", (store + measure.used) >> 20);
    }
    lay_out_rows(&d, &d.rows);
    fill_floats(d.a, (size_t)PF_WORK_ROWS * PF_WORK_K, 1);
    fill_floats(d.b, (size_t)PF_WORK_ROWS * PF_WORK_K, 2);
    fill_floats(d.c, (size_t)PF_WORK_ROWS * PF_WORK_COLUMNS, 3);
    for (size_t i = 0; i < (size_t)PF_WORK_ROWS * HEAD_DIM / 2; i++) { /* one angle: what is turned keeps its length */
        d.cos[i] = 0.6f;
        d.sin[i] = 0.8f;
    }
    for (int32_t i = 0; i < PF_WORK_ROWS; i++) d.positions[i] = i;
    for (int32_t i = 0; i < PF_WORK_COLUMNS; i++) d.p[i] = (1.0f + 0x1p-20f + d.a[i]) / PF_WORK_COLUMNS;
    *out = d;
    return PF_OK;
}

void pf_work_data_destroy(pf_work_data *data)
{
    pf_arena_destroy(&data->rows);
    pf_arena_destroy(&data->store);
}

/* A matrix whose panels are all `panel`, and what the format has behind them likewise. */
static void fill_matrix(pf_work_data *data, const pf_gemm_weights *w, size_t bytes, const pf_gemm_weights *panel,
                        size_t panel_bytes)
{
    unsigned char *region = w->panels;
    const unsigned char *pattern = panel->panels;
    const size_t panels = (size_t)w->n_panels * w->panel_bytes, behind = panel_bytes - panel->panel_bytes;
    pf_team_run(data->team, fill_share, &(fill_job){ region, panels, pattern, panel->panel_bytes });
    if (behind > 0)
        pf_team_run(data->team, fill_share,
                    &(fill_job){ region + panels, bytes - panels, pattern + panel->panel_bytes, behind });
}

/* One panel is packed and repeated: products do not mind, and packing takes longer than measuring. */
pf_status pf_work_fill_matrices(pf_work_data *data, pf_format format, int32_t n, int32_t k, const volatile bool *cancel,
                                pf_work_matrices *out, pf_error *error)
{
    pf_gemm_weights panel, whole;
    size_t panel_bytes, bytes;
    PF_TRY(pf_gemm_plan_weights(format, PF_GEMM_PANEL, k, &panel, &panel_bytes));
    const size_t most = data->store.size / PF_WORK_MIN_COPIES / panel_bytes; /* panels */
    if ((size_t)n > most * PF_GEMM_PANEL) n = (int32_t)most * PF_GEMM_PANEL;
    PF_TRY(pf_gemm_plan_weights(format, n, k, &whole, &bytes));
    whole.from_memory = true;
    whole.fetch = pf_fetch_of(pf_cpu_features());

    panel.panels = aligned_alloc(PF_ARENA_ALIGN, pf_round_up(panel_bytes, PF_ARENA_ALIGN));
    if (panel.panels == NULL) return pf_fail(error, PF_NOMEM, "no memory for a panel of %zu bytes", panel_bytes);
    const pf_gemm_source source = {
        .data = data->a, .type = PF_TYPE_F32, .n_rows = PF_GEMM_PANEL, .stride = PF_WORK_K
    };
    pf_gemm_pack_weights_ref(&panel, &source, 1, 0, 1);

    data->store.used = 0;
    out->n_copies = 0;
    while (!pf_is_told(cancel) && out->n_copies < PF_WORK_MAX_COPIES && data->store.size - data->store.used >= bytes) {
        whole.panels = pf_arena_take(&data->store, bytes, 1);
        fill_matrix(data, &whole, bytes, &panel, panel_bytes);
        out->weights[out->n_copies++] = whole;
    }
    free(panel.panels);
    return pf_is_told(cancel) ? PF_CANCELLED : PF_OK;
}

void pf_work_fill_cache(pf_work_data *data, const pf_kernel *attention, int32_t keys, pf_work_cache *out)
{
    const pf_type type = attention->type;
    uint16_t halves[SEED_WORDS];
    const bool is_bf16 = type == PF_TYPE_BF16;
    for (int32_t i = 0; i < SEED_WORDS; i++) halves[i] = pf_bf16_from_f32(data->a[i]);
    const void *pattern = is_bf16 ? (const void *)halves : (const void *)data->a;
    const size_t pattern_bytes = SEED_WORDS * pf_type_bytes(type);
    out->type = type;
    out->page_tokens = pf_isa_page_tokens(attention->isa);
    out->n_pages = (keys + out->page_tokens - 1) / out->page_tokens;
    const size_t page_bytes = (size_t)KV_HEADS * (size_t)out->page_tokens * HEAD_DIM * pf_type_bytes(type);
    out->n_copies = 0;
    data->store.used = 0;
    const size_t bytes = 2 * (size_t)out->n_pages * page_bytes;
    while (out->n_copies < PF_WORK_MAX_COPIES && data->store.size - data->store.used >= bytes) {
        unsigned char *layer = pf_arena_take(&data->store, bytes, 1);
        pf_team_run(data->team, fill_share, &(fill_job){ layer, bytes, pattern, pattern_bytes });
        for (int32_t page = 0; page < out->n_pages; page++) {
            out->key_pages[out->n_copies][page] = layer + 2 * (size_t)page * page_bytes;
            out->value_pages[out->n_copies][page] = layer + (2 * (size_t)page + 1) * page_bytes;
        }
        out->n_copies++;
    }
}

/* ---- products ----------------------------------------------------------------------------------------------------- */

/* As the forward pass does it: rows of one tile are packed by every member for itself. */
static void run_gemm(const pf_work *w, pf_member member, int32_t copy)
{
    const pf_gemm *gemm = &w->kernel->fn.gemm;
    pf_gemm_weights weights = w->matrices->weights[copy];
    weights.n = w->columns;
    const int32_t n_panels = (w->columns + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL; /* the first of the matrix's */
    const int32_t n_tiles = pf_gemm_tiles(gemm->tile_rows, w->rows);
    int32_t begin = 0, end = n_tiles;
    void *input = w->data->member_input[member.id];
    if (n_tiles > 1) {
        input = w->data->input;
        pf_team_share(member, n_tiles, &begin, &end);
    }
    if (begin < end) gemm->pack(input, w->data->a, PF_WORK_K, w->rows, w->k, begin, end);
    if (n_tiles > 1) pf_team_barrier(member);
    pf_team_share(member, n_panels, &begin, &end);
    if (begin < end)
        gemm->multiply(&weights, input, w->rows, begin, end, w->data->c, PF_WORK_COLUMNS, PF_GEMM_STORE,
                       w->data->member_scratch[member.id]);
}

static void read_gemm(const pf_work *w, pf_member member, int32_t copy)
{
    const pf_gemm_weights *weights = &w->matrices->weights[copy];
    int32_t begin, end;
    pf_team_share(member, (w->columns + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL, &begin, &end);
    pf_keep(w->reader((const char *)weights->panels + (size_t)begin * weights->panel_bytes,
                      (size_t)(end - begin) * weights->panel_bytes));
}

pf_work pf_work_gemm(const pf_work_data *data, const pf_kernel *kernel, const pf_work_matrices *matrices, int32_t m,
                     int32_t n)
{
    const pf_gemm_weights *weights = &matrices->weights[0];
    const size_t n_panels = ((size_t)n + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL;
    return (pf_work){
        .data = data,
        .kernel = kernel,
        .run = run_gemm,
        .read = read_gemm,
        .n_copies = matrices->n_copies,
        .n_repeats = 1,
        .n_threads = pf_team_size(data->team),
        .rows = m,
        .columns = n,
        .k = weights->k,
        .bytes_in = n_panels * weights->panel_bytes,
        .operations = 2.0 * m * n * weights->k,
        .matrices = matrices,
    };
}

/* ---- attention ---------------------------------------------------------------------------------------------------- */

static pf_attn_pages pages_of(const pf_work *w, int32_t copy)
{
    return (pf_attn_pages){ .key_pages = w->cache->key_pages[copy],
                            .value_pages = w->cache->value_pages[copy],
                            .page_tokens = w->cache->page_tokens,
                            .n_kv_heads = KV_HEADS,
                            .head_dim = HEAD_DIM };
}

static void run_attention(const pf_work *w, pf_member member, int32_t copy)
{
    const pf_attn_args args = { .pages = pages_of(w, copy),
                                .q = w->data->a,
                                .q_stride = PF_WORK_K,
                                .out = w->data->c,
                                .out_stride = PF_WORK_COLUMNS,
                                .n_rows = w->rows,
                                .n_heads = HEADS,
                                .position = w->keys - w->rows,
                                .scale = 0.125f };
    int32_t begin, end;
    pf_team_share(member, pf_attn_items(KV_HEADS, w->rows), &begin, &end);
    if (begin < end) w->kernel->fn.attn(&args, begin, end, w->data->member_scratch[member.id]);
}

/* Whole pages lie one behind the other, so a member reads its share of the layer in one piece. */
static void read_attention(const pf_work *w, pf_member member, int32_t copy)
{
    size_t end;
    const size_t begin = pf_bare_read_share(member, w->bytes_in, &end);
    pf_keep(w->reader((const char *)w->cache->key_pages[copy][0] + begin, end - begin));
}

pf_work pf_work_attention(const pf_work_data *data, const pf_kernel *kernel, const pf_work_cache *cache, int32_t m,
                          int32_t keys)
{
    const double seen = (double)m * (keys - m) + 0.5 * m * (m + 1.0); /* pairs of a query and a key */
    return (pf_work){
        .data = data,
        .kernel = kernel,
        .run = run_attention,
        .read = read_attention,
        .n_copies = cache->n_copies,
        .n_repeats = 1,
        .n_threads = pf_team_size(data->team),
        .rows = m,
        .keys = keys,
        .bytes_in = 2 * (size_t)keys * KV_HEADS * HEAD_DIM * pf_type_bytes(cache->type),
        .operations = 4.0 * seen * HEADS * HEAD_DIM,
        .cache = cache,
    };
}

/* ---- rows alone: one member, in cache ----------------------------------------------------------------------------- */

/* Keys and values, side by side in rows of a, into pages that lie in c. */
static void store_rows(const pf_work *w)
{
    const pf_type type = w->kernel->type;
    const size_t page_bytes = (size_t)KV_HEADS * PAGE_TOKENS * HEAD_DIM * pf_type_bytes(type);
    void *key_pages[PF_WORK_ROWS / PAGE_TOKENS], *value_pages[PF_WORK_ROWS / PAGE_TOKENS];
    for (size_t i = 0; i < PF_WORK_ROWS / PAGE_TOKENS; i++) {
        key_pages[i] = (char *)w->data->c + 2 * i * page_bytes;
        value_pages[i] = (char *)w->data->c + (2 * i + 1) * page_bytes;
    }
    const pf_attn_store_args args = { .pages = { .key_pages = key_pages,
                                                 .value_pages = value_pages,
                                                 .page_tokens = PAGE_TOKENS,
                                                 .n_kv_heads = KV_HEADS,
                                                 .head_dim = HEAD_DIM },
                                      .k = w->data->a,
                                      .v = w->data->a + KV_HEADS * HEAD_DIM,
                                      .stride = PF_WORK_K,
                                      .n_rows = w->rows };
    w->kernel->fn.attn_store(&args, 0, pf_attn_items(KV_HEADS, w->rows));
}

/* Rows of a, as weights, into a panel of bf16 that lies in c. */
static void pack_rows(const pf_work *w)
{
    const pf_gemm_source source = { .data = w->data->a, .type = PF_TYPE_F32, .n_rows = w->rows, .stride = PF_WORK_K };
    pf_gemm_weights panels;
    size_t bytes;
    if (pf_gemm_plan_weights(PF_FORMAT_BF16, w->rows, w->columns, &panels, &bytes) != PF_OK) return;
    panels.panels = w->data->c;
    w->kernel->fn.pack_weights(&panels, &source, 1, 0, panels.n_panels);
}

/* Coarse logits in c, their errors in b: any will do. */
static void bound_logits(const pf_work *w)
{
    const pf_bounds *bounds = &w->kernel->fn.bounds;
    uint8_t marks[VOCABULARY / PF_BOUNDS_BLOCK];
    const float floor = bounds->floor(w->data->c, w->data->p, w->data->b, 1.0f, w->columns);
    bounds->mark(marks, w->data->c, w->data->b, 1.0f, floor, w->columns);
    pf_keep(marks[0]);
}

static void run_rows(const pf_work *w, pf_member member, int32_t copy)
{
    if (member.id > 0) return;
    const pf_work_data *d = w->data;
    const pf_rope_table rope = { .cos = d->cos, .sin = d->sin, .rot_dim = HEAD_DIM };
    const int32_t n_columns = w->columns;
    const size_t stride = PF_WORK_K;
    int32_t ids[TOP];
    float top[TOP];
    (void)copy;
    for (int32_t i = 0; i < w->n_repeats; i++) {
        switch (w->kernel->op) {
        case PF_OP_RMSNORM: w->kernel->fn.rmsnorm(d->c, d->a, d->b, w->rows, n_columns, stride, 1e-5f); break;
        case PF_OP_LAYERNORM: w->kernel->fn.layernorm(d->c, d->a, d->b, d->b, w->rows, n_columns, stride, 1e-5f); break;
        case PF_OP_GATED: w->kernel->fn.gated(d->c, stride, d->a, d->b, stride, w->rows, n_columns); break;
        case PF_OP_ACTIVATE: w->kernel->fn.activate(d->c, stride, d->a, stride, w->rows, n_columns); break;
        case PF_OP_ROPE: w->kernel->fn.rope(d->c, stride, w->rows, HEADS, HEAD_DIM, d->positions, &rope); break;
        case PF_OP_ATTN_STORE: store_rows(w); break;
        case PF_OP_PACK_WEIGHTS: pack_rows(w); break;
        case PF_OP_ARGMAX: pf_keep((uint64_t)w->kernel->fn.argmax(d->a, n_columns)); break;
        case PF_OP_FIND_INVALID: pf_keep((uint64_t)w->kernel->fn.find_invalid(d->a, n_columns)); break;
        case PF_OP_SOFTMAX: (void)w->kernel->fn.softmax(d->c, d->a, n_columns, 1.0f); break;
        case PF_OP_TOP:
            pf_keep((uint64_t)w->kernel->fn.top(d->p, n_columns, TOP, 0.0f, ids, top, d->member_scratch[member.id]));
            break;
        case PF_OP_RESCORE: /* any rows will do */
            w->kernel->fn.rescore(d->c, n_columns, d->b, (const uint16_t *)(const void *)d->store.base, HIDDEN);
            break;
        case PF_OP_BOUNDS: bound_logits(w); break;
        case PF_OP_EXP_RACE: pf_keep((uint64_t)w->kernel->fn.race(d->p, n_columns, 1, PF_NOISE_TARGET, i)); break;
        default: break;
        }
    }
}

/* What goes in of a row, but for its first bytes. */
static void read_row(const pf_work *w, int32_t row, size_t n_done)
{
    const size_t row_bytes = (size_t)w->columns * sizeof(float), at = (size_t)row * PF_WORK_K;
    pf_keep(w->reader((const char *)(w->data->a + at) + n_done, row_bytes - n_done));
    if (w->kernel->op == PF_OP_GATED) pf_keep(w->reader(w->data->b + at, row_bytes));
}

static void read_rows(const pf_work *w, pf_member member, int32_t copy)
{
    if (member.id > 0) return;
    (void)copy;
    for (int32_t i = 0; i < w->n_repeats; i++)
        for (int32_t row = 0; row < w->rows; row++) read_row(w, row, 0);
}

static void copy_rows(const pf_work *w, pf_member member, int32_t copy)
{
    const size_t out_bytes = w->bytes_out / (size_t)w->rows;
    if (member.id > 0) return;
    (void)copy;
    for (int32_t i = 0; i < w->n_repeats; i++)
        for (int32_t row = 0; row < w->rows; row++) {
            memcpy(w->data->c + (size_t)row * PF_WORK_K, w->data->a + (size_t)row * PF_WORK_K, out_bytes);
            __asm__ volatile("" : : : "memory");
            read_row(w, row, out_bytes);
        }
}

pf_work pf_work_rows(const pf_work_data *data, const pf_kernel *kernel, int32_t m)
{
    pf_work w = { .data = data,
                  .kernel = kernel,
                  .run = run_rows,
                  .read = read_rows,
                  .n_copies = 1,
                  .n_repeats = 1,
                  .n_threads = 1,
                  .rows = m };
    size_t inputs = 1, out_bytes = sizeof(float); /* of an element; 0: nothing much */
    switch (kernel->op) {
    case PF_OP_RMSNORM:
    case PF_OP_LAYERNORM: w.columns = HIDDEN; break;
    case PF_OP_ROPE: w.columns = HEADS * HEAD_DIM; break;
    case PF_OP_ACTIVATE: w.columns = INTERMEDIATE; break;
    case PF_OP_GATED:
        w.columns = INTERMEDIATE;
        inputs = 2;
        break;
    case PF_OP_ATTN_STORE:
        w.columns = 2 * KV_HEADS * HEAD_DIM;
        out_bytes = pf_type_bytes(kernel->type);
        break;
    case PF_OP_PACK_WEIGHTS:
        w.rows = PF_GEMM_PANEL;
        w.columns = HIDDEN;
        out_bytes = pf_type_bytes(PF_TYPE_BF16);
        break;
    case PF_OP_SOFTMAX: w.columns = VOCABULARY; break;
    case PF_OP_ARGMAX:
    case PF_OP_FIND_INVALID:
    case PF_OP_TOP:
    case PF_OP_EXP_RACE:
    case PF_OP_RESCORE:
    case PF_OP_BOUNDS:
        w.columns = VOCABULARY;
        out_bytes = 0;
        break;
    default: return (pf_work){ 0 };
    }
    if (w.columns > PF_WORK_K) w.rows = 1; /* a vocabulary is one row, however many there are of others */
    const size_t n = (size_t)w.rows * (size_t)w.columns;
    if (out_bytes > 0) w.copy = copy_rows;
    w.bytes_in = inputs * n * sizeof(float);
    w.bytes_out = n * out_bytes;
    return w;
}

void pf_work_describe(const pf_work *w, char out[64])
{
    if (w->matrices)
        snprintf(out, 64, "%dx%dx%d", w->rows, w->columns, w->k);
    else if (w->cache)
        snprintf(out, 64, "%dx%d keys", w->rows, w->keys);
    else
        snprintf(out, 64, "%dx%d", w->rows, w->columns);
}
