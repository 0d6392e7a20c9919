/*
 * Attention in vectors of sixteen. Internal.
 *
 * Up to PF_ATTN_LINES lines (a query row and a head of the group) pass over the keys of their key head together:
 *
 *   for each block of 64 positions
 *     for each 16 of them: keys widened to f32 once; for each line 16 dot products, summed together, scaled
 *     for each line: maximum, exp, sum
 *     for a few lines and a few vectors of the head at once: sums in registers over the values of the block
 *
 * Lines are in order of position, so those that see a block are the last ones, and a line sees at least what the line
 * before it sees.
 */
#include <math.h>

#include "base/checked.h"
#include "kernels/attn/attn_scratch.h"

typedef struct {
    const pf_attn_args *args;
    pf_type type;
    int32_t kv_head;
    int32_t n_lines;
    size_t head_dim, padded;       /* elements; padded to a multiple of 16 */
    float *q, *sums;               /* [n_lines, padded]; zeros behind head_dim */
    float *keys;                   /* [16, padded] */
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

/* rows[0 .. 16): the keys from position t on as f32, padded with zeros; of n_valid keys the last is repeated. */
PF_V16 void attn_widen_keys(const attn_pass *pass, int32_t t, int32_t n_valid, const float *rows[16])
{
    const void *keys = attn_slot(pass, pass->args->pages.key_pages, t);
    const bool as_is = pass->type == PF_TYPE_F32 && pass->head_dim == pass->padded;
    const size_t whole = pass->head_dim / 16 * 16;
    for (int32_t j = 0; j < 16; j++) {
        const int32_t key = j < n_valid ? j : n_valid - 1;
        rows[j] = as_is ? (const float *)keys + (size_t)key * pass->head_dim : pass->keys + (size_t)key * pass->padded;
    }
    if (as_is) return;
    for (int32_t j = 0; j < n_valid; j++) {
        const size_t from = (size_t)j * pass->head_dim;
        float *to = pass->keys + (size_t)j * pass->padded;
        for (size_t d = 0; d < whole; d += 16) pf_v16_store(to + d, attn_load(keys, pass->type, from + d));
        if (whole < pass->head_dim)
            pf_v16_store(to + whole,
                         attn_load_first(keys, pass->type, from + whole, (int32_t)(pass->head_dim - whole)));
    }
}

/* Scores of lines from `line` on with 16 keys from position t on, into column `at` of the weights. */
PF_V16 void attn_score(attn_pass *pass, int32_t line, int32_t t, int32_t at)
{
    const float *rows[16];
    const int32_t n_valid = pass->n_keys[pass->n_lines - 1] - t;
    attn_widen_keys(pass, t, n_valid < 16 ? n_valid : 16, rows);
    const pf_v16 scale = pf_v16_set(pass->args->scale), none = pf_v16_set(-INFINITY);
    for (; line < pass->n_lines; line++) {
        const float *q = pass->q + (size_t)line * pass->padded;
        pf_v16 dots[16];
        PF_UNROLL_16
        for (int j = 0; j < 16; j++) dots[j] = pf_v16_set(0.0f);
        for (size_t d = 0; d < pass->padded; d += 16) {
            const pf_v16 vq = pf_v16_load(q + d);
            PF_UNROLL_16
            for (int j = 0; j < 16; j++) dots[j] = pf_v16_fma(vq, pf_v16_load(rows[j] + d), dots[j]);
        }
        const pf_v16 scores = pf_v16_mul(pf_v16_tree_sums(dots), scale);
        float *out = pass->weights + line * PF_ATTN_BLOCK + at;
        pf_v16_store(out, none);
        const int32_t n_seen = pass->n_keys[line] - t;
        if (n_seen > 0) pf_v16_store_first(out, scores, n_seen);
    }
}

/* Scores to weights, and the line's running maximum and sum. */
PF_V16 void attn_softmax(attn_pass *pass, int32_t line)
{
    enum { VECTORS = PF_ATTN_BLOCK / 16 };
    float *weights = pass->weights + line * PF_ATTN_BLOCK;
    pf_v16 v[VECTORS], most = pf_v16_set(pass->top[line]);
    for (int i = 0; i < VECTORS; i++) {
        v[i] = pf_v16_load(weights + 16 * i);
        most = pf_v16_max(v[i], most);
    }
    float lanes[16], top = pass->top[line];
    pf_v16_store(lanes, most);
    for (int l = 0; l < 16; l++) top = lanes[l] > top ? lanes[l] : top;

    const pf_v16 vtop = pf_v16_set(top);
    pf_v16 sum = pf_v16_set(0.0f);
    for (int i = 0; i < VECTORS; i++) {
        v[i] = pf_v16_exp(pf_v16_sub(v[i], vtop));
        pf_v16_store(weights + 16 * i, v[i]);
        sum = pf_v16_add(sum, v[i]);
    }
    pass->shrink[line] = pf_exp(pass->top[line] - top);
    pass->sum[line] = pass->sum[line] * pass->shrink[line] + pf_v16_tree_sum(sum);
    pass->top[line] = top;
}

/* sums[line, d] += weight * value over n keys that follow each other, for n_lines lines and n_vectors vectors of the
 * head from element d on; only `tail` elements of a vector when that is not 16. */
PF_V16 void attn_gather_tile(const int n_lines, const int n_vectors, const attn_pass *pass, int32_t line,
                             const void *values, int32_t at, int32_t n, size_t d, int32_t tail)
{
    pf_v16 sums[PF_V16_TILE][PF_V16_TILE], value[PF_V16_TILE];
    float *to = pass->sums + (size_t)line * pass->padded + d;
    const float *weights = pass->weights + line * PF_ATTN_BLOCK + at;
    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) PF_UNROLL_16
    for (int v = 0; v < n_vectors; v++) sums[l][v] = pf_v16_load(to + (size_t)l * pass->padded + (size_t)v * 16);
    for (int32_t t = 0; t < n; t++, d += pass->head_dim) {
        PF_UNROLL_16
        for (int v = 0; v < n_vectors; v++)
            value[v] = tail == 16 ? attn_load(values, pass->type, d + (size_t)v * 16)
                                  : attn_load_first(values, pass->type, d, tail);
        PF_UNROLL_16
        for (int l = 0; l < n_lines; l++) {
            const pf_v16 weight = pf_v16_set(weights[l * PF_ATTN_BLOCK + t]);
            PF_UNROLL_16
            for (int v = 0; v < n_vectors; v++) sums[l][v] = pf_v16_fma(weight, value[v], sums[l][v]);
        }
    }
    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) PF_UNROLL_16
    for (int v = 0; v < n_vectors; v++) pf_v16_store(to + (size_t)l * pass->padded + (size_t)v * 16, sums[l][v]);
}

PF_V16 void attn_gather_head(const int n_lines, const attn_pass *pass, int32_t line, const void *values, int32_t at,
                             int32_t n)
{
    size_t d = 0;
    for (; d + PF_V16_TILE * 16 <= pass->head_dim; d += PF_V16_TILE * 16)
        attn_gather_tile(n_lines, PF_V16_TILE, pass, line, values, at, n, d, 16);
    for (; d + 16 <= pass->head_dim; d += 16) attn_gather_tile(n_lines, 1, pass, line, values, at, n, d, 16);
    if (d < pass->head_dim) attn_gather_tile(n_lines, 1, pass, line, values, at, n, d, (int32_t)(pass->head_dim - d));
}

/* Positions begin .. end-1 of the block at t0, for n_lines lines that see them all. */
PF_V16 void attn_gather(const int n_lines, const attn_pass *pass, int32_t line, int32_t t0, int32_t begin, int32_t end)
{
    const int32_t page_tokens = pass->args->pages.page_tokens;
    while (begin < end) {
        const int32_t left = page_tokens - begin % page_tokens, n = end - begin < left ? end - begin : left;
        attn_gather_head(n_lines, pass, line, attn_slot(pass, pass->args->pages.value_pages, begin), begin - t0, n);
        begin += n;
    }
}

/* The values of the block at t0, for lines from `line` on. */
PF_V16 void attn_values(attn_pass *pass, int32_t line, int32_t t0)
{
    const int32_t block_end = t0 + PF_ATTN_BLOCK;
    for (int32_t l = line; l < pass->n_lines; l++) {
        float *sums = pass->sums + (size_t)l * pass->padded;
        const pf_v16 shrink = pf_v16_set(pass->shrink[l]);
        for (size_t d = 0; d < pass->padded; d += 16) pf_v16_store(sums + d, pf_v16_mul(pf_v16_load(sums + d), shrink));
    }
    while (line < pass->n_lines) {
        const int32_t n_lines = pass->n_lines - line >= PF_V16_TILE ? PF_V16_TILE : 1;
        const int32_t common = pass->n_keys[line] < block_end ? pass->n_keys[line] : block_end;
        if (n_lines == 1)
            attn_gather(1, pass, line, t0, t0, common);
        else
            attn_gather(PF_V16_TILE, pass, line, t0, t0, common);
        for (int32_t l = line + 1; l < line + n_lines; l++) /* what the later ones see besides */
            attn_gather(1, pass, l, t0, common, pass->n_keys[l] < block_end ? pass->n_keys[l] : block_end);
        line += n_lines;
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
    pass.q = pass.weights + PF_ATTN_LINES * PF_ATTN_BLOCK;
    pass.sums = pass.q + PF_ATTN_LINES * padded;
    pass.keys = pass.sums + PF_ATTN_LINES * padded;
    memset(pass.q, 0, 2 * PF_ATTN_LINES * padded * sizeof(float));
    for (int32_t line = 0; line < n_lines; line++) {
        int32_t row;
        size_t head;
        attn_line(args, kv_head, first + line, &row, &head);
        memcpy(pass.q + (size_t)line * padded, args->q + (size_t)row * args->q_stride + head, head_dim * sizeof(float));
        pass.n_keys[line] = args->position + row + 1;
        pass.top[line] = -INFINITY;
    }

    int32_t line = 0; /* the first that sees the block */
    for (int32_t t0 = 0; t0 < pass.n_keys[n_lines - 1]; t0 += PF_ATTN_BLOCK) {
        while (pass.n_keys[line] <= t0) line++;
        const pf_v16 none = pf_v16_set(-INFINITY);
        for (int32_t at = 0; at < PF_ATTN_BLOCK; at += 16) {
            if (t0 + at < pass.n_keys[n_lines - 1])
                attn_score(&pass, line, t0 + at, at);
            else
                for (int32_t l = line; l < n_lines; l++) pf_v16_store(pass.weights + l * PF_ATTN_BLOCK + at, none);
        }
        for (int32_t l = line; l < n_lines; l++) attn_softmax(&pass, l);
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
        const int32_t end = (row + n_rows) * group;
        for (int32_t first = row * group; first < end; first += PF_ATTN_LINES)
            attn_lines(args, type, kv_head, first, end - first < PF_ATTN_LINES ? end - first : PF_ATTN_LINES, scratch);
        item_begin += n_rows;
    }
}
