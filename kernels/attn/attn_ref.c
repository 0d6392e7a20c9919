/* The definition of attention: one row and head after the other. */
#include <math.h>

#include "kernels/vec/exp.h"
#include "kernels/vec/tanh.h"
#include "kernels/implementations.h"

enum { AMX_STEP = 32 }; /* elements, or positions, of which TDPBF16PS sums the even and the odd apart */

/* Element d of the key or value of a head at a position. */
static float element(const void *page, pf_type type, size_t at)
{
    return type == PF_TYPE_F32 ? ((const float *)page)[at] : pf_bf16_to_f32(((const uint16_t *)page)[at]);
}

/* What a query row and one of its heads look at. */
typedef struct {
    const pf_attn_args *args;
    pf_type type;
    bool tiles; /* the amx class */
    int32_t row, kv_head, head;
    int32_t first_key, n_keys; /* it sees the keys from the one on, below the other */
} view;

/* Where position t lies in the cache: behind the context, in a tree, that of the row's ancestor which stands there. */
static int32_t place(const view *v, int32_t t)
{
    const pf_attn_args *args = v->args;
    if (args->parents == NULL || t < args->position) return t;
    int32_t row = v->row;
    for (int32_t up = pf_attn_position(args, row) - t; up > 0; up--) row = args->parents[row];
    return args->position + row;
}

static float key(const view *v, int32_t t, int32_t d)
{
    const pf_attn_pages *pages = &v->args->pages;
    const int32_t at = place(v, t), slot = at % pages->page_tokens;
    return element(pages->key_pages[at / pages->page_tokens], v->type,
                   pf_attn_key_at(pages, v->type, v->kv_head, slot, d));
}

static float value(const view *v, int32_t t, int32_t d)
{
    const pf_attn_pages *pages = &v->args->pages;
    const int32_t at = place(v, t), slot = at % pages->page_tokens;
    return element(pages->value_pages[at / pages->page_tokens], v->type,
                   pf_attn_value_at(pages, v->type, v->kv_head, slot, d));
}

/* A number of the scores' unit: in bf16 they are powers of two, for exp2. */
static float in_unit(float f, pf_type type)
{
    return type == PF_TYPE_F32 ? f : f * PF_EXP_LOG2E;
}

static float exp_of(float x, pf_type type)
{
    return type == PF_TYPE_F32 ? pf_exp(x) : pf_exp2_coarse(x);
}

/* As it is, or to bf16 and back. */
static float rounded(float f, pf_type type)
{
    return type == PF_TYPE_F32 ? f : pf_bf16_to_f32(pf_bf16_from_f32(f));
}

/* Element d of a query as the products take it; there are zeros behind the head's. */
static float query(const view *v, const float *q, int32_t d)
{
    return d < v->args->pages.head_dim ? rounded(in_unit(v->args->scale, v->type) * q[d], v->type) : 0.0f;
}

static float product(const view *v, const float *q, int32_t t)
{
    const int32_t head_dim = v->args->pages.head_dim;
    float c = 0.0f;
    if (v->type == PF_TYPE_F32) {
        for (int32_t d = 0; d < head_dim; d++) c = fmaf(query(v, q, d), key(v, t, d), c);
        return c;
    }
    for (int32_t begin = 0; begin < head_dim; begin += AMX_STEP) {
        float even = 0.0f, odd = 0.0f;
        for (int32_t d = begin; d < begin + AMX_STEP && d < head_dim; d += 2) {
            if (!v->tiles) {
                c = fmaf(query(v, q, d + 1), key(v, t, d + 1), c);
                c = fmaf(query(v, q, d), key(v, t, d), c);
            }
            even = fmaf(query(v, q, d), key(v, t, d), even);
            odd = fmaf(query(v, q, d + 1), key(v, t, d + 1), odd);
        }
        if (v->tiles) c += even + odd;
    }
    return c;
}

static float score(const view *v, const float *q, int32_t t)
{
    const pf_attn_args *args = v->args;
    float c = product(v, q, t);
    if (args->softcap > 0.0f) {
        const float cap = in_unit(args->softcap, v->type), by = 1.0f / cap;
        c = cap * pf_tanh(c * by);
    }
    if (args->slopes) c = fmaf(in_unit(args->slopes[v->head], v->type), (float)(t - (v->n_keys - 1)), c);
    return c;
}

/* What a row and head have gathered so far of a segment; their weighted values are in `out`. */
typedef struct {
    float top;            /* the largest score */
    float lane[PF_LANES]; /* sums of exp(score - top) */
} running;

static bool sees(const view *v, int32_t t)
{
    return t >= v->first_key && t < v->n_keys;
}

/* What is not seen counts as 0. */
static float seen_value(const view *v, int32_t t, int32_t d)
{
    return sees(v, t) ? value(v, t, d) : 0.0f;
}

/* sum * rescale + weight * value over the block at t0, weight[0] being that of t0. */
static float gather(const view *v, const float *weight, int32_t t0, int32_t d, float sum, float rescale)
{
    float c = sum * rescale;
    if (v->type == PF_TYPE_F32) {
        for (int32_t i = 0; i < PF_ATTN_BLOCK; i++)
            if (sees(v, t0 + i)) c = fmaf(weight[i], value(v, t0 + i, d), c);
        return c;
    }
    float block = 0.0f;
    for (int32_t begin = 0; begin < PF_ATTN_BLOCK; begin += AMX_STEP) {
        float even = 0.0f, odd = 0.0f;
        for (int32_t i = begin; i < begin + AMX_STEP; i += 2) {
            const int32_t t = t0 + i;
            if (!sees(v, t) && !sees(v, t + 1)) continue;
            c = fmaf(weight[i + 1], seen_value(v, t + 1, d), c);
            c = fmaf(weight[i], seen_value(v, t, d), c);
            even = fmaf(weight[i], seen_value(v, t, d), even);
            odd = fmaf(weight[i + 1], seen_value(v, t + 1, d), odd);
        }
        block += even + odd;
    }
    return v->tiles ? fmaf(sum, rescale, block) : c;
}

/* The block at t0, of which the row sees a key. */
static void attend_block(const view *v, const float *q, int32_t t0, running *run, float *out)
{
    const pf_type type = v->type;
    float weight[PF_ATTN_BLOCK] = { 0 };
    float top = run->top;
    for (int32_t i = 0; i < PF_ATTN_BLOCK; i++) {
        if (!sees(v, t0 + i)) continue;
        weight[i] = score(v, q, t0 + i);
        if (weight[i] > top) top = weight[i];
    }
    const float rescale = exp_of(run->top - top, type);
    run->top = top;
    for (int32_t i = 0; i < PF_ATTN_BLOCK; i++)
        if (sees(v, t0 + i)) weight[i] = rounded(exp_of(weight[i] - top, type), type);
    for (int i = 0; i < PF_LANES; i++) run->lane[i] *= rescale;
    if (type == PF_TYPE_F32)
        for (int32_t i = 0; i < PF_ATTN_BLOCK; i++) run->lane[i % PF_LANES] += weight[i];
    else
        for (int32_t i = 0; i < PF_ATTN_BLOCK; i += 2)
            run->lane[i / 2 % PF_LANES] = weight[i] + (weight[i + 1] + run->lane[i / 2 % PF_LANES]);

    for (int32_t d = 0; d < v->args->pages.head_dim; d++) out[d] = gather(v, weight, t0, d, out[d], rescale);
}

/* What a segment, or several joined, give for a row and head; acc [head_dim] is elsewhere. */
typedef struct {
    float top, sum;
} given;

/* What the row sees of the segment that begins at `begin`. */
static given attend_segment(const view *v, const float *q, int32_t begin, float *acc)
{
    running run = { .top = -INFINITY };
    memset(acc, 0, (size_t)v->args->pages.head_dim * sizeof *acc);
    for (int32_t t0 = begin; t0 < begin + PF_ATTN_SEGMENT && t0 < v->n_keys; t0 += PF_ATTN_BLOCK)
        if (v->first_key < t0 + PF_ATTN_BLOCK) attend_block(v, q, t0, &run, acc);
    return (given){ run.top, pf_tree_sum(run.lane) };
}

/* The next segment, `its`, to those before it. */
static void join(pf_type type, int32_t head_dim, given *all, float *acc, given its, const float *its_acc)
{
    const float top = its.top > all->top ? its.top : all->top;
    const float a = exp_of(all->top - top, type), b = exp_of(its.top - top, type);
    *all = (given){ top, fmaf(its.sum, b, all->sum * a) };
    for (int32_t d = 0; d < head_dim; d++) acc[d] = fmaf(its_acc[d], b, acc[d] * a);
}

/* A score of no key and no value. */
static void join_sink(const view *v, given *all, float *acc)
{
    const float sink = in_unit(v->args->sinks[v->head], v->type), top = sink > all->top ? sink : all->top;
    const float a = exp_of(all->top - top, v->type), b = exp_of(sink - top, v->type);
    *all = (given){ top, fmaf(all->sum, a, b) };
    for (int32_t d = 0; d < v->args->pages.head_dim; d++) acc[d] *= a;
}

typedef struct {
    const float *q;
    float *out;
    int32_t line; /* of the key head's, row by row */
} place_of_line;

static void take_row(view *v, int32_t row)
{
    const int32_t position = pf_attn_position(v->args, row);
    v->row = row;
    v->first_key = pf_attn_first_key(v->args, position);
    v->n_keys = position + 1;
}

static place_of_line take_line(view *v, int32_t head_of_group)
{
    const pf_attn_args *args = v->args;
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    v->head = v->kv_head * group + head_of_group;
    const size_t head = (size_t)v->head * (size_t)args->pages.head_dim;
    return (place_of_line){ args->q + (size_t)v->row * args->q_stride + head,
                            args->out + (size_t)v->row * args->out_stride + head, v->row * group + head_of_group };
}

/* Segment s of a line: from its part, or computed here. */
static given take_segment(const view *v, place_of_line at, int32_t s, float *acc)
{
    if (v->args->step != PF_ATTN_JOIN) return attend_segment(v, at.q, s * PF_ATTN_SEGMENT, acc);
    const float *part = pf_attn_part(v->args, v->kv_head, s, at.line);
    const size_t behind = pf_attn_part_floats(v->args->pages.head_dim) - PF_LANES;
    memcpy(acc, part, (size_t)v->args->pages.head_dim * sizeof *acc);
    return (given){ part[behind], part[behind + 1] };
}

static void attend_items(view v, int32_t item_begin, int32_t item_end, float *its_acc)
{
    const int32_t head_dim = v.args->pages.head_dim, group = v.args->n_heads / v.args->pages.n_kv_heads;
    for (int32_t item = item_begin; item < item_end; item++) {
        take_row(&v, item % v.args->n_rows);
        v.kv_head = item / v.args->n_rows;
        for (int32_t h = 0; h < group; h++) {
            const place_of_line at = take_line(&v, h);
            const int32_t first = v.first_key / PF_ATTN_SEGMENT;
            given all = take_segment(&v, at, first, at.out);
            for (int32_t s = first + 1; s * PF_ATTN_SEGMENT < v.n_keys; s++)
                join(v.type, head_dim, &all, at.out, take_segment(&v, at, s, its_acc), its_acc);
            if (v.args->sinks) join_sink(&v, &all, at.out);
            for (int32_t d = 0; d < head_dim; d++) at.out[d] /= all.sum;
        }
    }
}

static void attend_units(view v, int32_t unit_begin, int32_t unit_end)
{
    const int32_t n_segments = pf_attn_segments(v.args), group = v.args->n_heads / v.args->pages.n_kv_heads;
    const size_t behind = pf_attn_part_floats(v.args->pages.head_dim) - PF_LANES;
    for (int32_t unit = unit_begin; unit < unit_end; unit++) {
        const int32_t s = pf_attn_first_segment(v.args) + unit % n_segments;
        v.kv_head = unit / n_segments;
        for (int32_t row = 0; row < v.args->n_rows; row++) {
            take_row(&v, row);
            if (s * PF_ATTN_SEGMENT >= v.n_keys || s < v.first_key / PF_ATTN_SEGMENT) continue;
            for (int32_t h = 0; h < group; h++) {
                const place_of_line at = take_line(&v, h);
                float *part = pf_attn_part(v.args, v.kv_head, s, at.line);
                const given its = attend_segment(&v, at.q, s * PF_ATTN_SEGMENT, part);
                part[behind] = its.top;
                part[behind + 1] = its.sum;
            }
        }
    }
}

static void attend(const pf_attn_args *args, pf_type type, bool tiles, int32_t begin, int32_t end, void *scratch)
{
    const view v = { .args = args, .type = type, .tiles = tiles };
    if (args->step == PF_ATTN_PART)
        attend_units(v, begin, end);
    else
        attend_items(v, begin, end, scratch);
}

void pf_attn_f32_ref(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attend(args, PF_TYPE_F32, false, item_begin, item_end, scratch);
}

void pf_attn_bf16_ref(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attend(args, PF_TYPE_BF16, false, item_begin, item_end, scratch);
}

void pf_attn_bf16_amx_ref(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attend(args, PF_TYPE_BF16, true, item_begin, item_end, scratch);
}

static void put(void *page, pf_type type, size_t at, float f)
{
    if (type == PF_TYPE_F32)
        ((float *)page)[at] = f;
    else
        ((uint16_t *)page)[at] = pf_bf16_from_f32(f);
}

static void store(const pf_attn_store_args *args, pf_type type, int32_t item_begin, int32_t item_end)
{
    const pf_attn_pages *pages = &args->pages;
    for (int32_t item = item_begin; item < item_end; item++) {
        const int32_t head = item / args->n_rows, row = item % args->n_rows;
        const int32_t t = args->position + row, page = t / pages->page_tokens, slot = t % pages->page_tokens;
        const size_t from = (size_t)row * args->stride + (size_t)head * (size_t)pages->head_dim;
        for (int32_t d = 0; d < pages->head_dim; d++) {
            put(pages->key_pages[page], type, pf_attn_key_at(pages, type, head, slot, d), args->k[from + (size_t)d]);
            put(pages->value_pages[page], type, pf_attn_value_at(pages, type, head, slot, d),
                args->v[from + (size_t)d]);
        }
        for (int32_t d = pages->head_dim; (size_t)d < pf_attn_width(type, pages->head_dim); d++)
            put(pages->key_pages[page], type, pf_attn_key_at(pages, type, head, slot, d), 0.0f);
    }
}

void pf_attn_store_f32_ref(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end)
{
    store(args, PF_TYPE_F32, item_begin, item_end);
}

void pf_attn_store_bf16_ref(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end)
{
    store(args, PF_TYPE_BF16, item_begin, item_end);
}
