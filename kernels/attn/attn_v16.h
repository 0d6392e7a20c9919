/*
 * Attention in vectors of sixteen. Internal.
 *
 * Up to PF_ATTN_LINES lines (a query row and a head of the group) pass over the keys of their key head together:
 *
 *   for each block of 64 positions
 *     for each 16 of them: keys widened to f32 once; for each line 16 dot products, summed together, scaled
 *     for each line: maximum, exp, sum
 *     for a tile of lines and vectors of the head: sums in registers over the values of the block
 *
 * Lines are in order of position, so those that see a block are the last ones, and a line sees at least what the line
 * before it sees.
 */
#include <math.h>

#include "base/checked.h"
#include "kernels/attn/attn_scratch.h"

enum { ATTN_VECTORS = PF_ATTN_BLOCK / 16 };

typedef struct {
    const pf_attn_args *args;
    pf_type type;
    int32_t kv_head;
    int32_t n_lines;
    size_t head_dim, padded;       /* elements; padded to a multiple of 16 */
    const float *q[PF_ATTN_LINES]; /* each [padded], zeros behind head_dim */
    float *sums;                   /* [n_lines, padded] */
    float *keys;                   /* [padded / 16, 16 keys, 16 elements] */
    float *weights;                /* [n_lines, PF_ATTN_BLOCK]: scores, then exp of them */
    int32_t n_keys[PF_ATTN_LINES]; /* that a line sees */
    float top[PF_ATTN_LINES], sum[PF_ATTN_LINES], shrink[PF_ATTN_LINES];
} attn_pass;

PF_V16 pf_v16 attn_load(const void *p, pf_type type, size_t at)
{
    return type == PF_TYPE_F32 ? pf_v16_load((const float *)p + at) : pf_v16_load_bf16((const uint16_t *)p + at);
}

PF_V16 pf_v16 attn_load_first(const void *p, pf_type type, size_t at, int32_t n)
{
    return type == PF_TYPE_F32 ? pf_v16_load_first((const float *)p + at, n)
                               : pf_v16_load_first_bf16((const uint16_t *)p + at, n);
}

/* The key or value of this pass's head at position t; those after it, up to the page's end, follow. */
PF_V16 const void *attn_slot(const attn_pass *pass, void *const *pages, int32_t t)
{
    const int32_t page_tokens = pass->args->pages.page_tokens;
    const size_t slot = (size_t)pass->kv_head * (size_t)page_tokens + (size_t)(t % page_tokens);
    return (const char *)pages[t / page_tokens] + slot * pass->head_dim * pf_type_bytes(pass->type);
}

/* pass->keys: the keys from position t on as f32, padded with zeros; of n_valid keys the last is repeated. */
PF_V16 void attn_widen_keys(const attn_pass *pass, int32_t t, int32_t n_valid)
{
    const void *keys = attn_slot(pass, pass->args->pages.key_pages, t);
    const size_t whole = pass->head_dim / 16 * 16;
    for (int32_t j = 0; j < 16; j++) {
        const size_t from = (size_t)(j < n_valid ? j : n_valid - 1) * pass->head_dim;
        float *to = pass->keys + (size_t)j * 16;
        for (size_t d = 0; d < whole; d += 16) pf_v16_store(to + d * 16, attn_load(keys, pass->type, from + d));
        if (whole < pass->head_dim)
            pf_v16_store(to + whole * 16,
                         attn_load_first(keys, pass->type, from + whole, (int32_t)(pass->head_dim - whole)));
    }
}

/* Scores of lines from `line` on with 16 keys from position t on, into column `at` of the weights. */
PF_V16 void attn_score(attn_pass *pass, int32_t line, int32_t t, int32_t at)
{
    const int32_t n_valid = pass->n_keys[pass->n_lines - 1] - t;
    attn_widen_keys(pass, t, n_valid < 16 ? n_valid : 16);
    const pf_v16 scale = pf_v16_set(pass->args->scale), none = pf_v16_set(-INFINITY);
    for (; line < pass->n_lines; line++) {
        const float *q = pass->q[line], *keys = pass->keys;
        pf_v16 dots[16];
        PF_UNROLL_16
        for (int j = 0; j < 16; j++) dots[j] = pf_v16_set(0.0f);
        for (size_t d = 0; d < pass->padded; d += 16, keys += 16 * 16) {
            const pf_v16 vq = pf_v16_load(q + d);
            PF_UNROLL_16
            for (int j = 0; j < 16; j++) dots[j] = pf_v16_fma(vq, pf_v16_load(keys + j * 16), dots[j]);
        }
        const pf_v16 scores = pf_v16_mul(pf_v16_tree_sums(dots), scale);
        float *out = pass->weights + line * PF_ATTN_BLOCK + at;
        const int32_t n_seen = pass->n_keys[line] - t;
        pf_v16_store(out, n_seen >= 16 ? scores : none);
        if (n_seen > 0 && n_seen < 16) pf_v16_store_first(out, scores, n_seen);
    }
}

/* How many vectors of scores a line has in the block at t0. */
PF_V16 int attn_vectors(const attn_pass *pass, int32_t line, int32_t t0)
{
    const int32_t n = pass->n_keys[line] - t0;
    return n >= PF_ATTN_BLOCK ? ATTN_VECTORS : (n + 15) / 16;
}

/* Scores of the block at t0 to weights, and the running maxima and sums of lines from `line` on. */
PF_V16 void attn_softmax(attn_pass *pass, int32_t line, int32_t t0)
{
    float top[PF_ATTN_LINES];
    memcpy(top, pass->top, sizeof top);
    for (int32_t l = line; l < pass->n_lines; l++) {
        pf_v16 most = pf_v16_set(top[l]);
        for (int i = 0; i < attn_vectors(pass, l, t0); i++)
            most = pf_v16_max(pf_v16_load(pass->weights + l * PF_ATTN_BLOCK + 16 * i), most);
        top[l] = pf_v16_largest(most);
    }
    for (int32_t l = line / 16 * 16; l < pass->n_lines; l += 16)
        pf_v16_store(pass->shrink + l, pf_v16_exp(pf_v16_sub(pf_v16_load(pass->top + l), pf_v16_load(top + l))));
    memcpy(pass->top, top, sizeof top);

    for (int32_t l = line; l < pass->n_lines; l++) {
        const pf_v16 vtop = pf_v16_set(top[l]);
        pf_v16 sum = pf_v16_set(0.0f);
        for (int i = 0; i < attn_vectors(pass, l, t0); i++) {
            float *weights = pass->weights + l * PF_ATTN_BLOCK + 16 * i;
            const pf_v16 v = pf_v16_exp(pf_v16_sub(pf_v16_load(weights), vtop));
            pf_v16_store(weights, v);
            sum = pf_v16_add(sum, v);
        }
        pass->sum[l] = pass->sum[l] * pass->shrink[l] + pf_v16_tree_sum(sum);
    }
}

/* The values of a block: sixteen that follow each other, and the next sixteen elsewhere. */
typedef struct {
    const void *sixteen[ATTN_VECTORS];
    int32_t n_keys[PF_V16_TILE_LINES]; /* that the lines of a tile see of it, none fewer than the line before */
} attn_block;

/* sums[line, d] = sums[line, d] * shrink + weight * value over a block, for n_lines lines and n_vectors vectors of the
 * head from element d on; only `tail` elements of a vector when that is not 16. */
PF_V16 void attn_gather_tile(const int n_lines, const int n_vectors, const attn_pass *pass, const attn_block *block,
                             int32_t line, size_t d, int32_t tail)
{
    pf_v16 sums[PF_V16_TILE_LINES][PF_V16_TILE_VECTORS], value[PF_V16_TILE_VECTORS];
    float *to = pass->sums + (size_t)line * pass->padded + d;
    const float *weights = pass->weights + line * PF_ATTN_BLOCK;
    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) PF_UNROLL_16
    for (int v = 0; v < n_vectors; v++)
        sums[l][v] =
            pf_v16_mul(pf_v16_load(to + (size_t)l * pass->padded + (size_t)v * 16), pf_v16_set(pass->shrink[line + l]));

#define ATTN_VALUE(v)                                                          \
    value[v] = tail == 16 ? attn_load(values, pass->type, at + (size_t)(v)*16) \
                          : attn_load_first(values, pass->type, at, tail)
    const int32_t common = block->n_keys[0];
    for (int32_t t0 = 0; t0 < common; t0 += 16) { /* what all lines see */
        const void *values = block->sixteen[t0 / 16];
        const int32_t end = common - t0 < 16 ? common : t0 + 16;
        size_t at = d;
        for (int32_t t = t0; t < end; t++, at += pass->head_dim) {
            PF_UNROLL_16
            for (int v = 0; v < n_vectors; v++) ATTN_VALUE(v);
            PF_UNROLL_16
            for (int l = 0; l < n_lines; l++) {
                const pf_v16 weight = pf_v16_set(weights[l * PF_ATTN_BLOCK + t]);
                PF_UNROLL_16
                for (int v = 0; v < n_vectors; v++) sums[l][v] = pf_v16_fma(weight, value[v], sums[l][v]);
            }
        }
    }
    PF_UNROLL_16
    for (int l = 1; l < n_lines; l++) /* and what the later ones see besides */
        for (int32_t t = common; t < block->n_keys[l]; t++) {
            const void *values = block->sixteen[t / 16];
            const size_t at = d + (size_t)(t % 16) * pass->head_dim;
            const pf_v16 weight = pf_v16_set(weights[l * PF_ATTN_BLOCK + t]);
            PF_UNROLL_16
            for (int v = 0; v < n_vectors; v++) {
                ATTN_VALUE(v);
                sums[l][v] = pf_v16_fma(weight, value[v], sums[l][v]);
            }
        }
#undef ATTN_VALUE

    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) PF_UNROLL_16
    for (int v = 0; v < n_vectors; v++) pf_v16_store(to + (size_t)l * pass->padded + (size_t)v * 16, sums[l][v]);
}

PF_V16 void attn_gather(const int n_lines, const attn_pass *pass, const attn_block *block, int32_t line)
{
    enum { WIDTH = PF_V16_TILE_VECTORS * 16 };
    size_t d = 0;
    for (; d + WIDTH <= pass->head_dim; d += WIDTH)
        attn_gather_tile(n_lines, PF_V16_TILE_VECTORS, pass, block, line, d, 16);
    for (; d + 16 <= pass->head_dim; d += 16) attn_gather_tile(n_lines, 1, pass, block, line, d, 16);
    if (d < pass->head_dim) attn_gather_tile(n_lines, 1, pass, block, line, d, (int32_t)(pass->head_dim - d));
}

/* The values of the block at t0, for lines from `line` on: in the fewest tiles, as equal as can be. */
PF_V16 void attn_values(const attn_pass *pass, int32_t line, int32_t t0)
{
    attn_block block = { 0 };
    for (int i = 0; i < attn_vectors(pass, pass->n_lines - 1, t0); i++)
        block.sixteen[i] = attn_slot(pass, pass->args->pages.value_pages, t0 + 16 * i);
    const int32_t n = pass->n_lines - line, n_tiles = (n + PF_V16_TILE_LINES - 1) / PF_V16_TILE_LINES;
    for (int32_t tile = 0; tile < n_tiles; tile++) {
        const int32_t first = line + n * tile / n_tiles, n_lines = line + n * (tile + 1) / n_tiles - first;
        for (int32_t l = 0; l < n_lines; l++) {
            const int32_t n_seen = pass->n_keys[first + l] - t0;
            block.n_keys[l] = n_seen < PF_ATTN_BLOCK ? n_seen : PF_ATTN_BLOCK;
        }
        switch (n_lines) { /* never more than PF_V16_TILE_LINES */
        case 1: attn_gather(1, pass, &block, first); break;
        case 2: attn_gather(2, pass, &block, first); break;
#if PF_V16_TILE_LINES > 2
        case 3: attn_gather(3, pass, &block, first); break;
        case 4: attn_gather(4, pass, &block, first); break;
        case 5: attn_gather(5, pass, &block, first); break;
        case 6: attn_gather(6, pass, &block, first); break;
#endif
        default: break;
        }
    }
}

/* Where a line's query and result lie: line i is head i % group of row i / group. */
PF_V16 void attn_line(const pf_attn_args *args, int32_t kv_head, int32_t index, int32_t *row, size_t *head)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    *row = index / group;
    *head = (size_t)(kv_head * group + index % group) * (size_t)args->pages.head_dim;
}

/* Lines first .. first + n_lines - 1 of one key head. */
PF_V16 void attn_lines(const pf_attn_args *args, pf_type type, int32_t kv_head, int32_t first, int32_t n_lines,
                       float *scratch)
{
    const size_t head_dim = (size_t)args->pages.head_dim, padded = pf_round_up(head_dim, 16);
    attn_pass pass = {
        .args = args, .type = type, .kv_head = kv_head, .n_lines = n_lines, .head_dim = head_dim, .padded = padded
    };
    pass.weights = scratch;
    pass.sums = pass.weights + PF_ATTN_LINES * PF_ATTN_BLOCK;
    pass.keys = pass.sums + PF_ATTN_LINES * padded;
    float *queries = pass.keys + 16 * padded;
    memset(pass.sums, 0, (size_t)n_lines * padded * sizeof(float));
    for (int32_t line = 0; line < n_lines; line++) {
        int32_t row;
        size_t head;
        attn_line(args, kv_head, first + line, &row, &head);
        pass.q[line] = args->q + (size_t)row * args->q_stride + head;
        if (padded > head_dim) {
            float *copy = queries + (size_t)line * padded;
            memset(copy + padded - 16, 0, 16 * sizeof(float));
            pass.q[line] = memcpy(copy, pass.q[line], head_dim * sizeof(float));
        }
        pass.n_keys[line] = args->position + row + 1;
        pass.top[line] = -INFINITY;
    }

    int32_t line = 0; /* the first that sees the block */
    for (int32_t t0 = 0; t0 < pass.n_keys[n_lines - 1]; t0 += PF_ATTN_BLOCK) {
        while (pass.n_keys[line] <= t0) line++;
        for (int i = 0; i < attn_vectors(&pass, n_lines - 1, t0); i++) attn_score(&pass, line, t0 + 16 * i, 16 * i);
        attn_softmax(&pass, line, t0);
        attn_values(&pass, line, t0);
    }

    for (int32_t l = 0; l < n_lines; l++) {
        int32_t row;
        size_t head;
        attn_line(args, kv_head, first + l, &row, &head);
        float *out = args->out + (size_t)row * args->out_stride + head;
        const float *sums = pass.sums + (size_t)l * padded;
        for (size_t d = 0; d < head_dim; d += 16)
            pf_v16_store_first(out + d, pf_v16_div(pf_v16_load(sums + d), pf_v16_set(pass.sum[l])),
                               head_dim - d < 16 ? (int32_t)(head_dim - d) : 16);
    }
}

PF_V16 void attn_items(const pf_attn_args *args, pf_type type, int32_t item_begin, int32_t item_end, void *scratch)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    while (item_begin < item_end) {
        const int32_t kv_head = item_begin / args->n_rows, row = item_begin % args->n_rows;
        const int32_t left = args->n_rows - row, n_rows = item_end - item_begin < left ? item_end - item_begin : left;
        const int32_t n = n_rows * group, n_passes = (n + PF_ATTN_LINES - 1) / PF_ATTN_LINES;
        for (int32_t i = 0; i < n_passes; i++) {
            const int32_t first = (int32_t)((int64_t)n * i / n_passes),
                          end = (int32_t)((int64_t)n * (i + 1) / n_passes);
            attn_lines(args, type, kv_head, row * group + first, end - first, scratch);
        }
        item_begin += n_rows;
    }
}
