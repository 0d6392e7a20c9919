/* The definition of attention: one row and head after the other. */
#include <math.h>

#include "kernels/exp.h"
#include "kernels/implementations.h"

/* Element 0 of the key or value of a head at a position. */
static const void *slot(const pf_attn_pages *pages, void *const *table, pf_type type, int32_t head, int32_t t)
{
    const size_t row = (size_t)head * (size_t)pages->page_tokens + (size_t)(t % pages->page_tokens);
    return (const char *)table[t / pages->page_tokens] + row * (size_t)pages->head_dim * pf_type_bytes(type);
}

static float element(const void *values, pf_type type, int32_t d)
{
    return type == PF_TYPE_F32 ? ((const float *)values)[d] : pf_bf16_to_f32(((const uint16_t *)values)[d]);
}

static float dot(const float *q, const void *key, pf_type type, int32_t head_dim)
{
    float lane[PF_LANES] = { 0 };
    for (int32_t d = 0; d < head_dim; d++) lane[d % PF_LANES] = fmaf(q[d], element(key, type, d), lane[d % PF_LANES]);
    return pf_tree_sum(lane);
}

/* What a row and head have gathered so far; their weighted values are in `out`. */
typedef struct {
    float top; /* the largest score */
    float sum; /* of exp(score - top) */
} running;

/* Keys begin .. end-1: a block, or as much of it as the row sees. */
static void attend_block(const pf_attn_pages *pages, pf_type type, int32_t kv_head, const float *q, float scale,
                         int32_t begin, int32_t end, running *run, float *out)
{
    float weight[PF_ATTN_BLOCK], lane[PF_LANES] = { 0 };
    float top = run->top;
    for (int32_t t = begin; t < end; t++) {
        const float score = dot(q, slot(pages, pages->key_pages, type, kv_head, t), type, pages->head_dim) * scale;
        if (score > top) top = score;
        weight[t - begin] = score;
    }
    const float shrink = pf_exp(run->top - top);
    for (int32_t t = begin; t < end; t++) {
        weight[t - begin] = pf_exp(weight[t - begin] - top);
        lane[t % PF_LANES] += weight[t - begin];
    }
    *run = (running){ .top = top, .sum = run->sum * shrink + pf_tree_sum(lane) };

    for (int32_t d = 0; d < pages->head_dim; d++) out[d] *= shrink;
    for (int32_t t = begin; t < end; t++) {
        const void *value = slot(pages, pages->value_pages, type, kv_head, t);
        for (int32_t d = 0; d < pages->head_dim; d++) out[d] = fmaf(weight[t - begin], element(value, type, d), out[d]);
    }
}

static void attend(const pf_attn_args *args, pf_type type, int32_t item_begin, int32_t item_end)
{
    const size_t head_dim = (size_t)args->pages.head_dim;
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    for (int32_t item = item_begin; item < item_end; item++) {
        const int32_t kv_head = item / args->n_rows, row = item % args->n_rows;
        const int32_t n_keys = args->position + row + 1;
        for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            const float *q = args->q + (size_t)row * args->q_stride + (size_t)head * head_dim;
            float *out = args->out + (size_t)row * args->out_stride + (size_t)head * head_dim;
            memset(out, 0, head_dim * sizeof *out);
            running run = { .top = -INFINITY, .sum = 0.0f };
            for (int32_t t = 0; t < n_keys; t += PF_ATTN_BLOCK) {
                const int32_t end = n_keys - t < PF_ATTN_BLOCK ? n_keys : t + PF_ATTN_BLOCK;
                attend_block(&args->pages, type, kv_head, q, args->scale, t, end, &run, out);
            }
            for (size_t d = 0; d < head_dim; d++) out[d] /= run.sum;
        }
    }
}

void pf_attn_f32_ref(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    (void)scratch;
    attend(args, PF_TYPE_F32, item_begin, item_end);
}

void pf_attn_bf16_ref(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    (void)scratch;
    attend(args, PF_TYPE_BF16, item_begin, item_end);
}

static void store_vector(void *to, const float *from, pf_type type, size_t n)
{
    if (type == PF_TYPE_F32)
        memcpy(to, from, n * sizeof *from);
    else
        for (size_t i = 0; i < n; i++) ((uint16_t *)to)[i] = pf_bf16_from_f32(from[i]);
}

static void store(const pf_attn_store_args *args, pf_type type, int32_t item_begin, int32_t item_end)
{
    const pf_attn_pages *pages = &args->pages;
    const size_t head_dim = (size_t)pages->head_dim;
    for (int32_t item = item_begin; item < item_end; item++) {
        const int32_t kv_head = item / args->n_rows, row = item % args->n_rows;
        const int32_t t = args->position + row;
        const size_t at = ((size_t)kv_head * (size_t)pages->page_tokens + (size_t)(t % pages->page_tokens)) * head_dim *
                          pf_type_bytes(type);
        const size_t from = (size_t)row * args->stride + (size_t)kv_head * head_dim;
        store_vector((char *)pages->key_pages[t / pages->page_tokens] + at, args->k + from, type, head_dim);
        store_vector((char *)pages->value_pages[t / pages->page_tokens] + at, args->v + from, type, head_dim);
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
