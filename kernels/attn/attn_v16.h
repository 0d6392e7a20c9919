/*
 * Attention in vectors of sixteen 32-bit words: f32 numbers, or pairs of bf16. Internal.
 *
 * Up to PF_ATTN_LINES lines (a query row and a head of the group) pass over the keys of their key head together, in
 * tiles of as many as the registers hold:
 *
 *   for each block of positions
 *     for each tile of lines
 *       scores    lines x 16 or more positions in registers: a word of d at a time, queries broadcast
 *       softmax   for each line: maximum, exp, sum
 *       values    lines x 16 or more words of d in registers: a position or pair at a time, weights broadcast
 *
 * The block's keys and values stay in L1 while the tiles pass over them, and with each word that is read the same word
 * of the next block is fetched, so that memory works all the time.
 *
 * Lines are in order of position, so a line sees at least what the line before it sees. What a line does not see is
 * computed with the others' scores and then masked; its values never meet a sum.
 */
#include <math.h>
#include <stdbool.h>

#include "base/checked.h"
#include "kernels/attn/attn_scratch.h"

enum { ATTN_SIXTEENS = PF_ATTN_BLOCK / PF_ATTN_SIXTEEN };

/* What the product of two words needs: for bf16 the two halves, where the machine does not multiply pairs. */
PF_V16 int attn_halves(pf_type type)
{
    return type == PF_TYPE_F32 ? 1 : PF_V16_HALVES;
}
PF_V16 pf_v16 attn_half(pf_type type, pf_v16 words, int half)
{
    return type == PF_TYPE_F32 ? words : pf_v16_half(words, half);
}
PF_V16 pf_v16 attn_multiply(pf_type type, pf_v16 a, pf_v16 b, pf_v16 sum)
{
    return type == PF_TYPE_F32 ? pf_v16_fma(a, b, sum) : pf_v16_multiply_half(a, b, sum);
}
PF_V16 int32_t attn_pair(pf_type type) /* numbers in a word */
{
    return type == PF_TYPE_F32 ? 1 : 2;
}

typedef struct {
    const pf_attn_args *args;
    int32_t kv_head;
    int32_t n_lines, n_tiles;
    size_t head_dim, padded;         /* elements; padded to a multiple of 16 */
    size_t query_words, value_words; /* of a query; of a position's, or pair's, values */
    float *queries;                  /* [tile][query_words][lines of the tile] */
    float *sums;                     /* [n_lines, padded] */
    float *weights;                  /* [lines of a tile, PF_ATTN_BLOCK]: scores, then words of their exp */
    int32_t n_keys[PF_ATTN_LINES];   /* that a line sees */
    float top[PF_ATTN_LINES + 16], sum[PF_ATTN_LINES + 16];
} attn_pass;

/* Where a block's words lie: keys [query_words][16], values [16 / pair][value_words], each sixteen elsewhere. */
typedef struct {
    const float *keys[ATTN_SIXTEENS], *values[ATTN_SIXTEENS];
} attn_block;

PF_V16 int32_t attn_tile_line(const attn_pass *pass, int32_t tile)
{
    return pass->n_lines * tile / pass->n_tiles;
}

/* The block at t0. A sixteen that begins behind the last key stands for the first, so that all can be read. */
PF_V16 void attn_find_block(const attn_pass *pass, pf_type type, int32_t head, int32_t t0, attn_block *block)
{
    const pf_attn_pages *pages = &pass->args->pages;
    const int32_t n_keys = pass->n_keys[pass->n_lines - 1];
    for (int i = 0; i < ATTN_SIXTEENS; i++) {
        const int32_t t = t0 + i * PF_ATTN_SIXTEEN < n_keys ? t0 + i * PF_ATTN_SIXTEEN : t0;
        const int32_t page = t / pages->page_tokens, slot = t % pages->page_tokens;
        const size_t at = pf_attn_key_at(pages, type, head, slot, 0) * pf_type_bytes(type);
        block->keys[i] = (const float *)(const void *)((const char *)pages->key_pages[page] + at);
        block->values[i] = (const float *)(const void *)((const char *)pages->value_pages[page] + at);
    }
}

/* Scores of a tile's lines with a block's keys. */
PF_V16 void attn_score(const int n_lines, const pf_type type, const attn_pass *pass, const attn_block *block,
                       const attn_block *next, int32_t tile)
{
    enum { V = PF_V16_TILE_VECTORS };
    const float *queries = pass->queries + (size_t)attn_tile_line(pass, tile) * pass->query_words;
    for (int first = 0; first < ATTN_SIXTEENS; first += V) {
        const float *const *keys = block->keys + first, *const *ahead = next->keys + first, *q = queries;
        pf_v16 scores[PF_V16_TILE_LINES][V], key[V];
        PF_UNROLL_16
        for (int l = 0; l < n_lines; l++) PF_UNROLL_16
        for (int v = 0; v < V; v++) scores[l][v] = pf_v16_set(0.0f);

        for (size_t at = 0; at < pass->query_words * 16; at += 16, q += n_lines) {
            PF_UNROLL_16
            for (int v = 0; v < V; v++) _mm_prefetch((const char *)(ahead[v] + at), _MM_HINT_T0);
            PF_UNROLL_16
            for (int half = 0; half < attn_halves(type); half++) {
                PF_UNROLL_16
                for (int v = 0; v < V; v++) key[v] = attn_half(type, pf_v16_load(keys[v] + at), half);
                PF_UNROLL_16
                for (int l = 0; l < n_lines; l++) {
                    const pf_v16 query = attn_half(type, pf_v16_broadcast(q + l), half);
                    PF_UNROLL_16
                    for (int v = 0; v < V; v++) scores[l][v] = attn_multiply(type, key[v], query, scores[l][v]);
                }
            }
        }
        PF_UNROLL_16
        for (int l = 0; l < n_lines; l++) PF_UNROLL_16
        for (int v = 0; v < V; v++) pf_v16_store(pass->weights + l * PF_ATTN_BLOCK + (first + v) * 16, scores[l][v]);
    }
}

/* How many of a block's positions a line sees. */
PF_V16 int32_t attn_seen(const attn_pass *pass, int32_t line, int32_t t0)
{
    const int32_t n = pass->n_keys[line] - t0;
    return n < 0 ? 0 : n < PF_ATTN_BLOCK ? n : PF_ATTN_BLOCK;
}

/* Sixteen scores, of which a line sees n. */
PF_V16 pf_v16 attn_load_scores(const float *scores, int32_t n)
{
    if (n >= 16) return pf_v16_load(scores);
    float seen[16];
    pf_v16_store(seen, pf_v16_set(-INFINITY));
    if (n > 0) pf_v16_store_first(seen, pf_v16_load(scores), n);
    return pf_v16_load(seen);
}

/* A line's scores to weights; returns what joins its sum. f32: vectors of sixteen weights. */
PF_V16 float attn_weigh_f32(float *scores, int32_t n_seen, float top)
{
    pf_v16 sum = pf_v16_set(0.0f);
    for (int32_t t = 0; t < n_seen; t += 16) {
        const pf_v16 weight = pf_v16_exp(pf_v16_sub(attn_load_scores(scores + t, n_seen - t), pf_v16_set(top)));
        pf_v16_store(scores + t, weight);
        sum = pf_v16_add(sum, weight);
    }
    return pf_v16_tree_sum(sum);
}

/* bf16: vectors of thirty-two, as words, written over the scores that have been read. */
PF_V16 float attn_weigh_bf16(float *scores, int32_t n_seen, float top)
{
    static const uint32_t two_ones = 0x3F803F80;
    float one;
    memcpy(&one, &two_ones, sizeof one);
    const pf_v16 ones = pf_v16_broadcast(&one), vtop = pf_v16_set(top);
    pf_v16 sum = pf_v16_set(0.0f);
    for (int32_t t = 0; t < n_seen; t += 32) {
        const pf_v16 low = pf_v16_exp(pf_v16_sub(attn_load_scores(scores + t, n_seen - t), vtop));
        const pf_v16 high = pf_v16_exp(pf_v16_sub(attn_load_scores(scores + t + 16, n_seen - t - 16), vtop));
        const pf_v16 words = pf_v16_words(low, high);
        pf_v16_store(scores + t / 2, words);
        for (int half = 0; half < PF_V16_HALVES; half++)
            sum = pf_v16_multiply_half(pf_v16_half(words, half), pf_v16_half(ones, half), sum);
    }
    return pf_v16_tree_sum(sum);
}

/* Scores of a tile to weights, and the running maxima and sums of its lines. */
PF_V16 void attn_softmax(const int n_lines, const pf_type type, attn_pass *pass, int32_t line, int32_t t0,
                         float shrink[16])
{
    float top[16];
    memcpy(top, pass->top + line, sizeof top);
    for (int l = 0; l < n_lines; l++) {
        const int32_t n_seen = attn_seen(pass, line + l, t0);
        pf_v16 most = pf_v16_set(top[l]);
        for (int32_t t = 0; t < n_seen; t += 16)
            most = pf_v16_max(attn_load_scores(pass->weights + l * PF_ATTN_BLOCK + t, n_seen - t), most);
        top[l] = pf_v16_largest(most);
    }
    pf_v16_store(shrink, pf_v16_exp(pf_v16_sub(pf_v16_load(pass->top + line), pf_v16_load(top))));
    memcpy(pass->top + line, top, (size_t)n_lines * sizeof *top);

    for (int l = 0; l < n_lines; l++) {
        const int32_t n_seen = attn_seen(pass, line + l, t0);
        float *scores = pass->weights + l * PF_ATTN_BLOCK;
        const float sum =
            type == PF_TYPE_F32 ? attn_weigh_f32(scores, n_seen, top[l]) : attn_weigh_bf16(scores, n_seen, top[l]);
        pass->sum[line + l] = pass->sum[line + l] * shrink[l] + sum;
    }
}

/* sums[line, d] = sums[line, d] * shrink + weights * values over a block, for a tile's lines and n_vectors vectors of
 * the head from element d on; only the first `tail` elements of a vector when that is not 16. */
PF_V16 void attn_gather(const int n_lines, const int n_vectors, const pf_type type, const attn_pass *pass,
                        const attn_block *block, const attn_block *next, int32_t line, const float *shrink, int32_t t0,
                        size_t d, const int32_t tail)
{
    const int32_t pair = attn_pair(type), per_sixteen = 16 / pair;
    const size_t words = pass->value_words;
    float *to = pass->sums + (size_t)line * pass->padded + d;
    pf_v16 sums[PF_V16_TILE_LINES][PF_V16_TILE_VECTORS], value[PF_V16_TILE_VECTORS];
    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) PF_UNROLL_16
    for (int v = 0; v < n_vectors; v++)
        sums[l][v] =
            pf_v16_mul(pf_v16_load(to + (size_t)l * pass->padded + (size_t)v * 16), pf_v16_broadcast(shrink + l));

#define ATTN_WORDS(p, v) (tail == 16 ? pf_v16_load((p) + (v)*16) : pf_v16_load_first((p), tail))
    const int32_t common = attn_seen(pass, line, t0) / pair; /* steps that all lines take */
    for (int32_t step = 0; step < common; step += per_sixteen) {
        const float *p = block->values[step / per_sixteen] + d, *weight = pass->weights + step;
        const float *ahead = next->values[step / per_sixteen] + d;
        const int32_t n = common - step < per_sixteen ? common - step : per_sixteen;
        for (int32_t i = 0; i < n; i++, p += words, ahead += words, weight++) {
            PF_UNROLL_16
            for (int v = 0; v < n_vectors; v++) _mm_prefetch((const char *)(ahead + v * 16), _MM_HINT_T0);
            PF_UNROLL_16
            for (int half = 0; half < attn_halves(type); half++) {
                PF_UNROLL_16
                for (int v = 0; v < n_vectors; v++) value[v] = attn_half(type, ATTN_WORDS(p, v), half);
                PF_UNROLL_16
                for (int l = 0; l < n_lines; l++) {
                    const pf_v16 w = attn_half(type, pf_v16_broadcast(weight + l * PF_ATTN_BLOCK), half);
                    PF_UNROLL_16
                    for (int v = 0; v < n_vectors; v++) sums[l][v] = attn_multiply(type, value[v], w, sums[l][v]);
                }
            }
        }
    }
    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) { /* and what a line sees besides */
        const int32_t n_seen = attn_seen(pass, line + l, t0);
        for (int32_t step = common; step * pair < n_seen; step++) {
            const float *p = block->values[step / per_sixteen] + (size_t)(step % per_sixteen) * words + d;
            const bool whole = (step + 1) * pair <= n_seen;
            PF_UNROLL_16
            for (int half = 0; half < attn_halves(type); half++) {
                const pf_v16 w = attn_half(type, pf_v16_broadcast(pass->weights + l * PF_ATTN_BLOCK + step), half);
                PF_UNROLL_16
                for (int v = 0; v < n_vectors; v++) {
                    const pf_v16 pairs = ATTN_WORDS(p, v), seen = whole ? pairs : pf_v16_even_of_words(pairs);
                    sums[l][v] = attn_multiply(type, attn_half(type, seen, half), w, sums[l][v]);
                }
            }
        }
    }
#undef ATTN_WORDS

    PF_UNROLL_16
    for (int l = 0; l < n_lines; l++) PF_UNROLL_16
    for (int v = 0; v < n_vectors; v++) pf_v16_store(to + (size_t)l * pass->padded + (size_t)v * 16, sums[l][v]);
}

/* One tile and one block. */
PF_V16 void attn_tile(const int n_lines, const pf_type type, attn_pass *pass, const attn_block *block,
                      const attn_block *next, int32_t tile, int32_t t0)
{
    enum { V = PF_V16_TILE_VECTORS };
    float shrink[16];
    const int32_t line = attn_tile_line(pass, tile);
    const size_t head_dim = pass->head_dim;
    attn_score(n_lines, type, pass, block, next, tile);
    attn_softmax(n_lines, type, pass, line, t0, shrink);
    size_t d = 0;
    for (; d + V * 16 <= head_dim; d += V * 16)
        attn_gather(n_lines, V, type, pass, block, next, line, shrink, t0, d, 16);
    for (; d < head_dim; d += 16)
        attn_gather(n_lines, 1, type, pass, block, next, line, shrink, t0, d,
                    head_dim - d < 16 ? (int32_t)(head_dim - d) : 16);
}

/* Where a line's query and result lie: line i is head i % group of row i / group. */
PF_V16 void attn_line(const pf_attn_args *args, int32_t kv_head, int32_t index, int32_t *row, size_t *head)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    *row = index / group;
    *head = (size_t)(kv_head * group + index % group) * (size_t)args->pages.head_dim;
}

/* Words of one line's scaled query, n_lines apart. */
PF_V16 void attn_pack_query(const pf_type type, const attn_pass *pass, const float *q, float *out, int32_t n_lines)
{
    const pf_v16 scale = pf_v16_set(pass->args->scale);
    const int32_t n = (int32_t)pass->head_dim, per_vector = 16 * attn_pair(type);
    for (int32_t d = 0; d < n; d += per_vector) {
        float words[16];
        const pf_v16 low = pf_v16_mul(pf_v16_load_first(q + d, n - d), scale);
        if (type == PF_TYPE_F32) {
            pf_v16_store(words, low);
        } else {
            const pf_v16 high = n - d > 16 ? pf_v16_load_first(q + d + 16, n - d - 16) : pf_v16_set(0.0f);
            pf_v16_store(words, pf_v16_words(low, pf_v16_mul(high, scale)));
        }
        const int32_t left = (n - d + attn_pair(type) - 1) / attn_pair(type);
        for (int32_t i = 0; i < left && i < 16; i++, out += n_lines) *out = words[i];
    }
}

/* Take the queries of a pass, and start its sums. */
PF_V16 void attn_begin(const pf_type type, attn_pass *pass, int32_t first)
{
    const pf_attn_args *args = pass->args;
    memset(pass->sums, 0, (size_t)pass->n_lines * pass->padded * sizeof(float));
    for (int32_t tile = 0; tile < pass->n_tiles; tile++) {
        const int32_t begin = attn_tile_line(pass, tile), end = attn_tile_line(pass, tile + 1);
        float *queries = pass->queries + (size_t)begin * pass->query_words;
        for (int32_t line = begin; line < end; line++) {
            int32_t row;
            size_t head;
            attn_line(args, pass->kv_head, first + line, &row, &head);
            attn_pack_query(type, pass, args->q + (size_t)row * args->q_stride + head, queries + (line - begin),
                            end - begin);
            pass->n_keys[line] = args->position + row + 1;
            pass->top[line] = -INFINITY;
            pass->sum[line] = 0.0f;
        }
    }
}

PF_V16 void attn_finish(const attn_pass *pass, int32_t first)
{
    const pf_attn_args *args = pass->args;
    for (int32_t line = 0; line < pass->n_lines; line++) {
        int32_t row;
        size_t head;
        attn_line(args, pass->kv_head, first + line, &row, &head);
        float *out = args->out + (size_t)row * args->out_stride + head;
        const float *sums = pass->sums + (size_t)line * pass->padded;
        for (size_t d = 0; d < pass->head_dim; d += 16)
            pf_v16_store_first(out + d, pf_v16_div(pf_v16_load(sums + d), pf_v16_set(pass->sum[line])),
                               pass->head_dim - d < 16 ? (int32_t)(pass->head_dim - d) : 16);
    }
}

/* Lines first .. first + n_lines - 1 of one key head; next_head is what the pass behind this one reads. */
PF_V16 void attn_lines(const pf_attn_args *args, const pf_type type, int32_t kv_head, int32_t first, int32_t n_lines,
                       int32_t next_head, float *scratch)
{
    attn_pass pass = { .args = args, .kv_head = kv_head, .n_lines = n_lines };
    pass.n_tiles = (n_lines + PF_V16_TILE_LINES - 1) / PF_V16_TILE_LINES;
    pass.head_dim = (size_t)args->pages.head_dim;
    pass.padded = pf_round_up(pass.head_dim, 16);
    pass.value_words = pf_attn_width(type, args->pages.head_dim);
    pass.query_words = pass.value_words / (size_t)attn_pair(type);
    pass.weights = scratch;
    pass.sums = pass.weights + PF_ATTN_TILE * PF_ATTN_BLOCK;
    pass.queries = pass.sums + PF_ATTN_LINES * pass.padded;
    attn_begin(type, &pass, first);

    attn_block block, next;
    attn_find_block(&pass, type, kv_head, 0, &next);
    int32_t tile = 0; /* the first with a line that sees the block */
    for (int32_t t0 = 0; t0 < pass.n_keys[n_lines - 1]; t0 += PF_ATTN_BLOCK) {
        const bool last = t0 + PF_ATTN_BLOCK >= pass.n_keys[n_lines - 1];
        block = next;
        attn_find_block(&pass, type, last ? next_head : kv_head, last ? 0 : t0 + PF_ATTN_BLOCK, &next);
        while (pass.n_keys[attn_tile_line(&pass, tile + 1) - 1] <= t0) tile++;
        for (int32_t i = tile; i < pass.n_tiles; i++)
            switch (attn_tile_line(&pass, i + 1) - attn_tile_line(&pass, i)) { /* at most PF_V16_TILE_LINES */
            case 1: attn_tile(1, type, &pass, &block, &next, i, t0); break;
            case 2: attn_tile(2, type, &pass, &block, &next, i, t0); break;
#if PF_V16_TILE_LINES > 2
            case 3: attn_tile(3, type, &pass, &block, &next, i, t0); break;
            case 4: attn_tile(4, type, &pass, &block, &next, i, t0); break;
            case 5: attn_tile(5, type, &pass, &block, &next, i, t0); break;
            case 6: attn_tile(6, type, &pass, &block, &next, i, t0); break;
#endif
            default: break;
            }
    }
    attn_finish(&pass, first);
}

PF_V16 void attn_items(const pf_attn_args *args, const pf_type type, int32_t item_begin, int32_t item_end,
                       void *scratch)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    while (item_begin < item_end) {
        const int32_t kv_head = item_begin / args->n_rows, row = item_begin % args->n_rows;
        const int32_t left = args->n_rows - row, n_rows = item_end - item_begin < left ? item_end - item_begin : left;
        const int32_t n = n_rows * group, n_passes = (n + PF_ATTN_LINES - 1) / PF_ATTN_LINES;
        for (int32_t i = 0; i < n_passes; i++) {
            const int32_t first = (int32_t)((int64_t)n * i / n_passes),
                          end = (int32_t)((int64_t)n * (i + 1) / n_passes);
            const bool last = i + 1 == n_passes && item_begin + n_rows < item_end;
            attn_lines(args, type, kv_head, row * group + first, end - first, kv_head + last, scratch);
        }
        item_begin += n_rows;
    }
}

/* ---- the store ---- */

/* A row's key into its column of a sixteen, word by word. */
PF_V16 void attn_store_key(const pf_type type, float *out, const float *k, int32_t head_dim)
{
    const int32_t per_vector = 16 * attn_pair(type);
    for (int32_t d = 0; d < head_dim; d += per_vector) {
        float words[16];
        pf_v16 v = pf_v16_load_first(k + d, head_dim - d);
        if (type == PF_TYPE_BF16)
            v = pf_v16_words(v,
                             head_dim - d > 16 ? pf_v16_load_first(k + d + 16, head_dim - d - 16) : pf_v16_set(0.0f));
        pf_v16_store(words, v);
        const int32_t left = (head_dim - d + attn_pair(type) - 1) / attn_pair(type);
        for (int32_t i = 0; i < left && i < 16; i++, out += 16) *out = words[i];
    }
}

PF_V16 void attn_store_pair(float *to, const float *even, const float *odd, int32_t head_dim)
{
    for (int32_t d = 0; d < head_dim; d += 16)
        pf_v16_store_first(
            to + d,
            pf_v16_words_of(pf_v16_load_first(even + d, head_dim - d), pf_v16_load_first(odd + d, head_dim - d)),
            head_dim - d);
}

/* One of a pair alone: the other may be some other member's. */
PF_V16 void attn_store_half(uint16_t *to, const float *v, int32_t head_dim)
{
    for (int32_t d = 0; d < head_dim; d += 16) {
        uint16_t numbers[32];
        pf_v16_store((float *)(void *)numbers, pf_v16_words(pf_v16_load_first(v + d, head_dim - d), pf_v16_set(0.0f)));
        for (int32_t i = 0; i < 16 && d + i < head_dim; i++) to[2 * (d + i)] = numbers[i];
    }
}

PF_V16 void attn_store_items(const pf_attn_store_args *args, const pf_type type, int32_t item_begin, int32_t item_end)
{
    const pf_attn_pages *pages = &args->pages;
    const int32_t head_dim = pages->head_dim;
    const size_t bytes = pf_type_bytes(type);
    for (int32_t item = item_begin; item < item_end; item++) {
        const int32_t head = item / args->n_rows, row = item % args->n_rows;
        const int32_t t = args->position + row, page = t / pages->page_tokens, slot = t % pages->page_tokens;
        const size_t from = (size_t)row * args->stride + (size_t)head * (size_t)head_dim;
        char *keys = (char *)pages->key_pages[page] + pf_attn_key_at(pages, type, head, slot, 0) * bytes;
        char *values = (char *)pages->value_pages[page] + pf_attn_value_at(pages, type, head, slot, 0) * bytes;
        attn_store_key(type, (float *)(void *)keys, args->k + from, head_dim);
        if (type == PF_TYPE_F32)
            memcpy(values, args->v + from, (size_t)head_dim * bytes);
        else if (slot % 2 == 0 && row + 1 < args->n_rows && item + 1 < item_end)
            attn_store_pair((float *)(void *)values, args->v + from, args->v + from + args->stride, head_dim);
        else if (slot % 2 == 0 || row == 0 || item == item_begin)
            attn_store_half((uint16_t *)(void *)values, args->v + from, head_dim);
    }
}
