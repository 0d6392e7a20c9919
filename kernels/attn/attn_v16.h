/*
 * Attention in vectors of sixteen 32-bit words: f32 numbers, or pairs of bf16. Internal.
 *
 * Up to PF_ATTN_LINES lines (a query row and a head of the group) pass over the keys of their key head together, in
 * tiles of as many as the registers hold:
 *
 *   for each block of positions
 *     for each tile    scores: lines x 16 or more positions in registers, a word of d at a time, queries broadcast
 *     for each line    maximum, exp, sum
 *     for each tile    values: lines x 16 or more elements in registers, a position or pair at a time, weights broadcast
 *
 * The block's keys and values stay in L1 while the tiles pass over them, and the last tile prefetches the next block. The
 * prefetches are spread evenly over that tile: a few lines read memory nearly as fast as a plain read. Four lines are split
 * into two tiles where keys come from memory, so that the second prefetches; from a cache one tile is faster.
 *
 * Lines are in order of position, so a line sees no fewer last keys than the line before it. What a line does not see is
 * computed with the others' scores and then masked; its values never meet a sum.
 *
 * With a window a pass begins with the first block of which a line sees a key. Below the first key of some line, blocks are cut:
 * weights of what that line does not see are 0, and so are the values that no line sees, in a copy. The line's sums are 0 until
 * its first key, so a finite value times 0 leaves their bits; if a value is not finite each line goes alone.
 *
 * What only some models need, windows, soft caps and slopes, is in functions of their own, chosen once a block.
 *
 * Rows of a tree go together as far as blocks are the context's alone. Then each goes on by itself, the keys and values of
 * its path gathered into a block of its own: few blocks, and the same steps as a chain's.
 *
 * Sums start at zero in every segment, and its result is joined with that of the segments before it, line by line. A single
 * segment is not joined.
 */
#ifndef PF_KERNELS_ATTN_V16_H
#define PF_KERNELS_ATTN_V16_H

#include <math.h>
#include <stdbool.h>

#include "base/checked.h"
#include "kernels/attn/attn_scratch.h"
#include "kernels/vec/tanh_v16.h"

#ifndef ATTN_TILE_LINES /* attn_amx.c multiplies tiles of its own */
#define ATTN_TILE_LINES PF_V16_TILE_LINES
#define ATTN_BY_LINES   0 /* queries lie line by line, and tiles are full but for the last */
#endif

enum {
    ATTN_SIXTEENS = PF_ATTN_BLOCK / PF_ATTN_SIXTEEN,
    ATTN_SPLIT_LINES = 4,        /* in two tiles, though one would hold them ... */
    ATTN_SPLIT_POSITIONS = 1024, /* ... behind so many positions that they hardly lie in a cache */
};

/* Straight-line code for each line and vector of a tile: with loops clang 14 keeps the sums in memory. */
#define ATTN_LINES(DO)      DO(0) DO(1) DO(2) DO(3) DO(4) DO(5)
#define ATTN_VECTORS(DO)    DO(0) DO(1) DO(2) DO(3)
#define ATTN_OF_LINE(DO, l) DO(l, 0) DO(l, 1) DO(l, 2) DO(l, 3)

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
/* Words are loaded again for their other half: both at once, as compilers would have it, leave too few registers for sums. */
PF_V16 void attn_end_half(pf_type type)
{
    if (attn_halves(type) > 1) __asm__ volatile("" ::: "memory");
}
PF_V16 int32_t attn_pair(pf_type type) /* numbers in a word */
{
    return type == PF_TYPE_F32 ? 1 : 2;
}

typedef struct attn_pass attn_pass;
typedef struct attn_block attn_block;

/* Of lines whose sums are elsewhere: their maximum, and their weights' sum. */
typedef struct {
    float top[PF_ATTN_LINES + 16], sum[PF_ATTN_LINES + 16];
} attn_given;

/* Scores, or values, of one tile and block. */
typedef void attn_tile_fn(const attn_pass *pass, const attn_block *block, const attn_block *next, int32_t tile,
                          int32_t t0);
typedef void attn_branches_fn(attn_pass *pass, int32_t first, int32_t t0, int32_t stop);
typedef void attn_prepare_fn(const attn_pass *pass, attn_block *block, int32_t t0);
typedef void attn_softmax_fn(attn_pass *pass, int32_t begin, int32_t end, int32_t t0);
typedef bool attn_cut_fn(const attn_pass *pass, attn_block *block, int32_t tile, int32_t t0);
typedef void attn_blocks_fn(attn_pass *pass, int32_t begin, int32_t stop, int32_t end, int32_t next_head);
typedef struct {
    attn_tile_fn *score[ATTN_TILE_LINES + 1], *value[ATTN_TILE_LINES + 1]; /* by height */
    attn_branches_fn *branches;                                            /* of a tree */
    attn_prepare_fn *prepare;                                              /* before a block's tiles, or NULL */
    attn_softmax_fn *special_softmax;                                      /* of blocks before pass->plain_from */
    attn_cut_fn *cut;       /* values of a block that a window cuts: true if nothing is left to do, or NULL */
    attn_blocks_fn *blocks; /* all of a chain's in several tiles, in an order of its own; NULL: one by one */
} attn_tiles;

struct attn_pass {
    const pf_attn_args *args;
    const attn_tiles *tiles;
    int32_t kv_head;
    int32_t n_lines, n_tiles;
    size_t head_dim, padded;          /* elements; padded to a multiple of 16 */
    size_t query_words, value_words;  /* of a query; of a position's, or pair's, values */
    float *queries;                   /* [tile][query_words][lines of the tile]; by lines: [line][query_stride] */
    float *sums;                      /* [n_lines, padded] */
    float *weights;                   /* [n_lines, PF_ATTN_BLOCK]: scores, then words of their exp */
    int32_t weights_line;             /* whose scores stand first */
    float *lanes;                     /* [n_lines, 16]: sums of weights */
    float *gathered;                  /* a block's keys, then its values, on one path of a tree */
    float *copied;                    /* [PF_ATTN_BLOCK / 2, padded] for what `prepare` needs elsewhere */
    float *products;                  /* [16, padded]: likewise for a tile's values of a block, weighted */
    int32_t n_keys[PF_ATTN_LINES];    /* a line sees the keys below ... */
    int32_t first_key[PF_ATTN_LINES]; /* ... from here on */
    float slopes[PF_ATTN_LINES];      /* if the call has slopes */
    float top[PF_ATTN_LINES + 16], rescale[PF_ATTN_LINES + 16];
    int32_t most_keys;               /* the end of what any line sees */
    int32_t least_first, most_first; /* of the lines' first keys */
    int32_t plain_from;              /* blocks from here on need no special softmax */
    float *joined;                   /* [n_lines, padded]: sums of the segments before this one */
    attn_given *given;               /* and what belongs to them */
};

/* Where a block's words lie: keys [query_words][16], values [16 / pair][value_words], each sixteen elsewhere. */
struct attn_block {
    const float *keys[ATTN_SIXTEENS], *values[ATTN_SIXTEENS];
};

PF_V16 int32_t attn_tile_line(const attn_pass *pass, int32_t tile)
{
    if (ATTN_BY_LINES) return tile < pass->n_tiles ? tile * ATTN_TILE_LINES : pass->n_lines;
    return pass->n_lines * tile / pass->n_tiles;
}

PF_V16 float *attn_weights(const attn_pass *pass, int32_t line)
{
    return pass->weights + (size_t)(line - pass->weights_line) * PF_ATTN_BLOCK;
}

/* Words from a line's query to the next one's, where they lie by lines: zeros fill up the last sixteen. */
PF_V16 size_t attn_query_stride(const attn_pass *pass)
{
    return pf_round_up(pass->query_words, 16);
}

/* Where the first block begins of which a line sees a key. */
PF_V16 int32_t attn_first_block(const attn_pass *pass)
{
    return pass->least_first / PF_ATTN_BLOCK * PF_ATTN_BLOCK;
}

/* The block at t0. For a sixteen that no line sees the first one stands that some line does, so that all can be read. */
PF_V16 void attn_find_block(const attn_pass *pass, pf_type type, int32_t head, int32_t t0, attn_block *block)
{
    const pf_attn_pages *pages = &pass->args->pages;
    const int32_t n_keys = pass->n_keys[pass->n_lines - 1];
    const int32_t least = pass->least_first / PF_ATTN_SIXTEEN * PF_ATTN_SIXTEEN, first = t0 > least ? t0 : least;
    for (int i = 0; i < ATTN_SIXTEENS; i++) {
        const int32_t at_i = t0 + i * PF_ATTN_SIXTEEN, t = at_i >= first && at_i < n_keys ? at_i : first;
        const int32_t page = t / pages->page_tokens, slot = t % pages->page_tokens;
        const size_t at = pf_attn_key_at(pages, type, head, slot, 0) * pf_type_bytes(type);
        block->keys[i] = (const float *)(const void *)((const char *)pages->key_pages[page] + at);
        block->values[i] = (const float *)(const void *)((const char *)pages->value_pages[page] + at);
    }
}

/* Scores of a tile's lines with a block's keys. */
PF_V16 void attn_score(const int n_lines, const pf_type type, const attn_pass *pass, const attn_block *block,
                       const attn_block *next, int32_t tile, int32_t t0)
{
    enum { V = PF_V16_TILE_VECTORS };
    (void)t0;
    const bool fetches = tile + 1 == pass->n_tiles;
    const int32_t line = attn_tile_line(pass, tile);
    for (int first = 0; first < ATTN_SIXTEENS; first += V) {
        const float *q = pass->queries + (size_t)line * pass->query_words, *keys[4];
        float *out = attn_weights(pass, line) + first * 16;
        pf_v16 scores[6][4], key[4];
#define KEYS(v) \
    if (v < V) keys[v] = block->keys[first + v];
#define START(l, v) \
    if (l < n_lines && v < V) scores[l][v] = pf_v16_set(0.0f);
#define START_LINE(l) ATTN_OF_LINE(START, l)
        ATTN_VECTORS(KEYS)
        ATTN_LINES(START_LINE)
        for (size_t at = 0; at < pass->query_words * 16; at += 16, q += n_lines) {
            if (fetches)
                for (int v = 0; v < V; v++) _mm_prefetch((const char *)(next->keys[first + v] + at), _MM_HINT_T0);
            PF_UNROLL_16
            for (int half = 0; half < attn_halves(type); half++) {
#define LOAD(v) \
    if (v < V) key[v] = attn_half(type, pf_v16_load(keys[v] + at), half);
#define SCORE(l, v) \
    if (v < V) scores[l][v] = attn_multiply(type, key[v], query, scores[l][v]);
#define SCORE_LINE(l)                                                        \
    if (l < n_lines) {                                                       \
        const pf_v16 query = attn_half(type, pf_v16_broadcast(q + l), half); \
        ATTN_OF_LINE(SCORE, l)                                               \
    }
                ATTN_VECTORS(LOAD)
                ATTN_LINES(SCORE_LINE)
                attn_end_half(type);
            }
        }
#define PUT(l, v) \
    if (l < n_lines && v < V) pf_v16_store(out + l * PF_ATTN_BLOCK + v * 16, scores[l][v]);
#define PUT_LINE(l) ATTN_OF_LINE(PUT, l)
        ATTN_LINES(PUT_LINE)
    }
#undef KEYS
#undef START
#undef START_LINE
#undef LOAD
#undef SCORE
#undef SCORE_LINE
#undef PUT
#undef PUT_LINE
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
    return n >= 16 ? pf_v16_load(scores) : pf_v16_load_first_or(scores, n, pf_v16_set(-INFINITY));
}

PF_V16 float attn_largest(const float *scores, int32_t n_seen, float top)
{
    pf_v16 most = pf_v16_set(top);
    for (int32_t t = 0; t < n_seen; t += 16) most = pf_v16_max(attn_load_scores(scores + t, n_seen - t), most);
    return pf_v16_largest(most);
}

/* A line's scores to weights, which join its sixteen sums. f32: weights one by one. */
PF_V16 void attn_weigh_f32(float *scores, int32_t n_seen, float top, float rescale, float *lanes)
{
    pf_v16 sum = pf_v16_mul(pf_v16_load(lanes), pf_v16_set(rescale));
    for (int32_t t = 0; t < n_seen; t += 16) {
        const pf_v16 weight = pf_v16_exp(pf_v16_sub(attn_load_scores(scores + t, n_seen - t), pf_v16_set(top)));
        pf_v16_store(scores + t, weight);
        sum = pf_v16_add(sum, weight);
    }
    pf_v16_store(lanes, sum);
}

/* bf16: as words, written over the scores that have been read. */
PF_V16 void attn_weigh_bf16(float *scores, int32_t n_seen, float top, float rescale, float *lanes)
{
    static const uint32_t two_ones = 0x3F803F80;
    float one;
    memcpy(&one, &two_ones, sizeof one);
    const pf_v16 ones = pf_v16_broadcast(&one), vtop = pf_v16_set(top);
    pf_v16 sum = pf_v16_mul(pf_v16_load(lanes), pf_v16_set(rescale));
    for (int32_t t = 0; t < n_seen; t += 32) {
        const pf_v16 low = pf_v16_exp2_coarse(pf_v16_sub(attn_load_scores(scores + t, n_seen - t), vtop));
        const pf_v16 high = pf_v16_exp2_coarse(pf_v16_sub(attn_load_scores(scores + t + 16, n_seen - t - 16), vtop));
        const pf_v16 words = pf_v16_words(low, high);
        pf_v16_store(scores + t / 2, words);
        PF_UNROLL_16
        for (int half = 0; half < PF_V16_HALVES; half++)
            sum = pf_v16_multiply_half(pf_v16_half(words, half), pf_v16_half(ones, half), sum);
    }
    pf_v16_store(lanes, sum);
}

PF_V16 pf_v16 attn_exp(pf_type type, pf_v16 x)
{
    return type == PF_TYPE_F32 ? pf_v16_exp(x) : pf_v16_exp2_coarse(x);
}

/* A line sees nothing of the block at t0. */
PF_V16 bool attn_sees_none(const attn_pass *pass, int32_t line, int32_t t0)
{
    return pass->n_keys[line] <= t0 || pass->first_key[line] >= t0 + PF_ATTN_BLOCK;
}

/* A number of the scores' unit: in bf16 they are powers of two, for exp2. */
PF_V16 float attn_in_unit(pf_type type, float f)
{
    return type == PF_TYPE_F32 ? f : f * PF_EXP_LOG2E;
}

/* A line's scores capped, with what its slope adds, and minus infinity below its first key. */
PF_V16 void attn_adjust(const pf_type type, const attn_pass *pass, int32_t line, int32_t t0)
{
    static const float lanes[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    const pf_attn_args *args = pass->args;
    const pf_v16 lane = pf_v16_load(lanes);
    const float cap = attn_in_unit(type, args->softcap), by = 1.0f / cap;
    float *scores = attn_weights(pass, line);
    for (int32_t i = 0; i < attn_seen(pass, line, t0); i += 16) {
        pf_v16 c = pf_v16_load(scores + i);
        if (args->softcap > 0.0f) c = pf_v16_mul(pf_v16_set(cap), pf_v16_tanh(pf_v16_mul(c, pf_v16_set(by))));
        if (args->slopes) {
            const pf_v16 distance = pf_v16_add(lane, pf_v16_set((float)(t0 + i - (pass->n_keys[line] - 1))));
            c = pf_v16_fma(pf_v16_set(pass->slopes[line]), distance, c);
        }
        const pf_v16_mask below = pf_v16_above(pf_v16_set((float)(pass->first_key[line] - (t0 + i))), lane);
        pf_v16_store(scores + i, pf_v16_where(below, pf_v16_set(-INFINITY), c));
    }
}

/* Scores to weights, and the running maxima and sums of lines begin .. end - 1. Those that see all of the block take the
 * same steps with all branches known. `special`: a line may see nothing of it, and then nothing changes. */
PF_V16 void attn_softmax(const pf_type type, const bool special, attn_pass *pass, int32_t begin, int32_t end,
                         int32_t t0)
{
    float top[PF_ATTN_LINES + 16];
    for (int32_t l = begin; l < end; l += 16) pf_v16_store(top + l, pf_v16_load(pass->top + l));
    for (int32_t l = begin; l < end; l++) {
        if (special && attn_sees_none(pass, l, t0)) continue;
        if (special) attn_adjust(type, pass, l, t0);
        const int32_t n_seen = attn_seen(pass, l, t0);
        const float *scores = attn_weights(pass, l);
        top[l] = n_seen == PF_ATTN_BLOCK ? attn_largest(scores, PF_ATTN_BLOCK, top[l])
                                         : attn_largest(scores, n_seen, top[l]);
    }
    for (int32_t l = begin; l < end; l += 16) {
        const pf_v16 tops = pf_v16_load(top + l);
        pf_v16_store(pass->rescale + l, attn_exp(type, pf_v16_sub(pf_v16_load(pass->top + l), tops)));
        pf_v16_store(pass->top + l, tops);
    }

    for (int32_t l = begin; l < end; l++) {
        const int32_t n_seen = attn_seen(pass, l, t0);
        float *scores = attn_weights(pass, l), *lanes = pass->lanes + l * 16;
        if (special && attn_sees_none(pass, l, t0)) {
            pass->rescale[l] = 1.0f;
            memset(scores, 0, PF_ATTN_BLOCK * sizeof *scores);
            continue;
        }
        if (type == PF_TYPE_F32)
            attn_weigh_f32(scores, n_seen, top[l], pass->rescale[l], lanes);
        else if (n_seen == PF_ATTN_BLOCK)
            attn_weigh_bf16(scores, PF_ATTN_BLOCK, top[l], pass->rescale[l], lanes);
        else
            attn_weigh_bf16(scores, n_seen, top[l], pass->rescale[l], lanes);
    }
}

PF_V16 void attn_take_softmax(const pf_type type, attn_pass *pass, int32_t begin, int32_t end, int32_t t0)
{
    if (t0 < pass->plain_from)
        pass->tiles->special_softmax(pass, begin, end, t0);
    else
        attn_softmax(type, false, pass, begin, end, t0);
}

/* Sixteen words of values, or the first `tail` of them. */
PF_V16 pf_v16 attn_load_values(const float *p, int32_t tail)
{
    return tail == 16 ? pf_v16_load(p) : pf_v16_load_first(p, tail);
}

/* sums[line, d] = sums[line, d] * rescale + weights * values over a block, for a tile's lines and n_vectors vectors of
 * the head from element d on; only the first `tail` elements of a vector when that is not 16. */
PF_V16 void attn_gather(const int n_lines, const int n_vectors, const pf_type type, const attn_pass *pass,
                        const attn_block *block, const attn_block *next, int32_t tile, int32_t t0, size_t d,
                        const int32_t tail)
{
    const int32_t pair = attn_pair(type), per_sixteen = 16 / pair, line = attn_tile_line(pass, tile);
    const size_t words = pass->value_words;
    const bool fetches = tile + 1 == pass->n_tiles;
    const float *weights = attn_weights(pass, line);
    float *to = pass->sums + (size_t)line * pass->padded + d;
    pf_v16 sums[6][4], value[4];
#define START(l, v)                   \
    if (l < n_lines && v < n_vectors) \
        sums[l][v] =                  \
            pf_v16_mul(pf_v16_load(to + l * pass->padded + v * 16), pf_v16_broadcast(pass->rescale + line + l));
#define START_LINE(l) ATTN_OF_LINE(START, l)
    ATTN_LINES(START_LINE)

    const int32_t common = attn_seen(pass, line, t0) / pair; /* steps that all lines take */
    for (int32_t step = 0; step < common; step += per_sixteen) {
        const float *p = block->values[step / per_sixteen] + d, *weight = weights + step;
        const float *ahead = next->values[step / per_sixteen] + d * (size_t)per_sixteen;
        if (fetches)
            for (int32_t i = 0; i < n_vectors * per_sixteen; i++)
                _mm_prefetch((const char *)(ahead + i * 16), _MM_HINT_T0);
        for (int32_t i = common - step < per_sixteen ? common - step : per_sixteen; i; i--, p += words, weight++)
            PF_UNROLL_16
        for (int half = 0; half < attn_halves(type); half++) {
#define LOAD(v) \
    if (v < n_vectors) value[v] = attn_half(type, attn_load_values(p + v * 16, tail), half);
#define GATHER(l, v) \
    if (v < n_vectors) sums[l][v] = attn_multiply(type, value[v], w, sums[l][v]);
#define GATHER_LINE(l)                                                                        \
    if (l < n_lines) {                                                                        \
        const pf_v16 w = attn_half(type, pf_v16_broadcast(weight + l * PF_ATTN_BLOCK), half); \
        ATTN_OF_LINE(GATHER, l)                                                               \
    }
            ATTN_VECTORS(LOAD)
            ATTN_LINES(GATHER_LINE)
            attn_end_half(type);
        }
    }

    for (int32_t step = common; step * pair < attn_seen(pass, line + n_lines - 1, t0); step++) { /* and some besides */
        const float *p = block->values[step / per_sixteen] + (size_t)(step % per_sixteen) * words + d;
#define GATHER_MORE(l, v)                                                                                            \
    if (v < n_vectors) {                                                                                             \
        const pf_v16 pairs = attn_load_values(p + v * 16, tail), seen = whole ? pairs : pf_v16_even_of_words(pairs); \
        sums[l][v] = attn_multiply(type, attn_half(type, seen, half), w, sums[l][v]);                                \
    }
#define GATHER_MORE_LINE(l)                                                                               \
    if (l < n_lines && step * pair < attn_seen(pass, line + l, t0)) {                                     \
        const bool whole = (step + 1) * pair <= attn_seen(pass, line + l, t0);                            \
        PF_UNROLL_16                                                                                      \
        for (int half = 0; half < attn_halves(type); half++) {                                            \
            const pf_v16 w = attn_half(type, pf_v16_broadcast(weights + l * PF_ATTN_BLOCK + step), half); \
            ATTN_OF_LINE(GATHER_MORE, l)                                                                  \
        }                                                                                                 \
    }
        ATTN_LINES(GATHER_MORE_LINE)
    }

#define PUT(l, v) \
    if (l < n_lines && v < n_vectors) pf_v16_store(to + l * pass->padded + v * 16, sums[l][v]);
#define PUT_LINE(l) ATTN_OF_LINE(PUT, l)
    ATTN_LINES(PUT_LINE)
#undef START
#undef START_LINE
#undef LOAD
#undef GATHER
#undef GATHER_LINE
#undef GATHER_MORE
#undef GATHER_MORE_LINE
#undef PUT
#undef PUT_LINE
}

/* All elements of the head. */
PF_V16 void attn_value(const int n_lines, const pf_type type, const attn_pass *pass, const attn_block *block,
                       const attn_block *next, int32_t tile, int32_t t0)
{
    enum { V = PF_V16_TILE_VECTORS };
    const size_t head_dim = pass->head_dim;
    size_t d = 0;
    for (; d + V * 16 <= head_dim; d += V * 16) attn_gather(n_lines, V, type, pass, block, next, tile, t0, d, 16);
    for (; d < head_dim; d += 16)
        attn_gather(n_lines, 1, type, pass, block, next, tile, t0, d, head_dim - d < 16 ? (int32_t)(head_dim - d) : 16);
}

/* Tiles are functions of their own, one for each height: in one they would take compilers minutes. */
#define ATTN_TILE(WHAT, NAME, TYPE, HEIGHT)                                                       \
    static void attn_##WHAT##_##NAME##_##HEIGHT(const attn_pass *pass, const attn_block *block,   \
                                                const attn_block *next, int32_t tile, int32_t t0) \
    {                                                                                             \
        attn_##WHAT(HEIGHT, TYPE, pass, block, next, tile, t0);                                   \
    }
#if PF_V16_TILE_LINES > 2
#define ATTN_HEIGHTS(DO, WHAT, NAME, TYPE) \
    DO(WHAT, NAME, TYPE, 1)                \
    DO(WHAT, NAME, TYPE, 2)                \
    DO(WHAT, NAME, TYPE, 3) DO(WHAT, NAME, TYPE, 4) DO(WHAT, NAME, TYPE, 5) DO(WHAT, NAME, TYPE, 6)
#else
#define ATTN_HEIGHTS(DO, WHAT, NAME, TYPE) DO(WHAT, NAME, TYPE, 1) DO(WHAT, NAME, TYPE, 2)
#endif
#define ATTN_TILE_NAME(WHAT, NAME, TYPE, HEIGHT) attn_##WHAT##_##NAME##_##HEIGHT,

/* Likewise what only a tree, or only some models need, so that a chain's code is as if there were none. */
#define ATTN_BRANCHES(NAME, TYPE)                                                                                     \
    static                                                                                                            \
        __attribute__((noinline)) void attn_branches_##NAME(attn_pass *pass, int32_t first, int32_t t0, int32_t stop) \
    {                                                                                                                 \
        attn_branches(TYPE, pass, first, t0, stop);                                                                   \
    }                                                                                                                 \
    static __attribute__((noinline)) void attn_special_softmax_##NAME(attn_pass *pass, int32_t begin, int32_t end,    \
                                                                      int32_t t0)                                     \
    {                                                                                                                 \
        attn_softmax(TYPE, true, pass, begin, end, t0);                                                               \
    }

#define ATTN_CUT(NAME, TYPE)                                                                                      \
    static __attribute__((noinline)) bool attn_cut_##NAME(const attn_pass *pass, attn_block *block, int32_t tile, \
                                                          int32_t t0)                                             \
    {                                                                                                             \
        return attn_cut(TYPE, pass, block, tile, t0);                                                             \
    }

/* The tiles of a type: attn_tiles_f32, attn_tiles_bf16. */
#define ATTN_DEFINE_TILES(NAME, TYPE)                                       \
    ATTN_HEIGHTS(ATTN_TILE, score, NAME, TYPE)                              \
    ATTN_HEIGHTS(ATTN_TILE, value, NAME, TYPE)                              \
    ATTN_BRANCHES(NAME, TYPE)                                               \
    ATTN_CUT(NAME, TYPE)                                                    \
    static const attn_tiles attn_tiles_##NAME = {                           \
        .score = { NULL, ATTN_HEIGHTS(ATTN_TILE_NAME, score, NAME, TYPE) }, \
        .value = { NULL, ATTN_HEIGHTS(ATTN_TILE_NAME, value, NAME, TYPE) }, \
        .branches = attn_branches_##NAME,                                   \
        .special_softmax = attn_special_softmax_##NAME,                     \
        .cut = attn_cut_##NAME,                                             \
    };

/* All of n_words words of values are finite. */
PF_V16 bool attn_finite(const pf_type type, const float *words, size_t n_words)
{
    const pf_v16 zero = pf_v16_set(0.0f);
    pf_v16 sum = zero;
    for (size_t at = 0; at < n_words; at += 16)
        for (int half = 0; half < attn_halves(type); half++) {
            const pf_v16 v =
                attn_half(type, pf_v16_load_first(words + at, n_words - at < 16 ? (int32_t)(n_words - at) : 16), half);
            sum = attn_multiply(type, v, zero, sum); /* times zero an infinity gives a NaN, too */
        }
    return pf_v16_bits(pf_v16_equal(sum, zero)) == 0xFFFF;
}

/* Copy a sixteen's values, with 0 for the first n_unseen positions. It may lie where the copy goes. */
PF_V16 void attn_copy_seen(const pf_type type, const float *from, size_t row_words, int32_t n_unseen, float *to)
{
    const int32_t pair = attn_pair(type), n_rows = PF_ATTN_SIXTEEN / pair, row = n_unseen / pair;
    memset(to, 0, (size_t)row * row_words * sizeof *to);
    if (row == n_rows) return;
    memmove(to + (size_t)row * row_words, from + (size_t)row * row_words,
            (size_t)(n_rows - row) * row_words * sizeof *to);
    if (n_unseen % pair) /* the even one of a pair */
        for (size_t d = 0; d < row_words; d++) ((uint16_t *)(void *)(to + (size_t)row * row_words))[2 * d] = 0;
}

/* A block's values with 0 for its first n_unseen positions, where that changes them. */
PF_V16 void attn_hide_values(const pf_type type, const attn_pass *pass, int32_t n_unseen, attn_block *block)
{
    const size_t words = PF_ATTN_SIXTEEN * pass->query_words;
    float *values = pass->gathered + ATTN_SIXTEENS * words;
    for (int32_t i = 0; i < ATTN_SIXTEENS && i * PF_ATTN_SIXTEEN < n_unseen; i++) {
        const int32_t n =
            n_unseen - i * PF_ATTN_SIXTEEN < PF_ATTN_SIXTEEN ? n_unseen - i * PF_ATTN_SIXTEEN : PF_ATTN_SIXTEEN;
        float *to = values + (size_t)i * words;
        attn_copy_seen(type, block->values[i], pass->value_words, n, to);
        block->values[i] = to;
    }
}

/* How many of the first positions of the block at t0 are below a key. */
PF_V16 int32_t attn_unseen(int32_t first_key, int32_t t0)
{
    const int32_t n = first_key - t0;
    return n < 0 ? 0 : n < PF_ATTN_BLOCK ? n : PF_ATTN_BLOCK;
}

/* All values that some line sees and another, above them, does not are finite. */
PF_V16 bool attn_cut_finite(const pf_type type, const attn_pass *pass, const attn_block *block, int32_t t0)
{
    const int32_t pair = attn_pair(type), per_sixteen = PF_ATTN_SIXTEEN / pair;
    const int32_t from = attn_unseen(pass->least_first, t0), to = attn_unseen(pass->most_first, t0);
    for (int32_t row = from / pair; from < to && row * pair < to; row++)
        if (!attn_finite(type, block->values[row / per_sixteen] + (size_t)(row % per_sixteen) * pass->value_words,
                         pass->value_words))
            return false;
    return true;
}

/* A line's values of a block that a window cuts. */
PF_V16 void attn_value_alone(const pf_type type, const attn_pass *pass, const attn_block *block, int32_t line,
                             int32_t t0)
{
    if (attn_sees_none(pass, line, t0)) return;
    attn_pass alone = *pass;
    attn_block seen = *block;
    alone.n_lines = alone.n_tiles = 1;
    alone.weights = attn_weights(pass, line);
    alone.weights_line = 0;
    alone.sums += (size_t)line * pass->padded;
    alone.rescale[0] = pass->rescale[line];
    alone.n_keys[0] = pass->n_keys[line];
    attn_hide_values(type, pass, attn_unseen(pass->first_key[line], t0), &seen);
    pass->tiles->value[1](&alone, &seen, &seen, 0, t0);
}

/* Values of the block at t0, which a window cuts: hides those that no line sees, and if others are left for which that is not
 * enough weighs them for each line alone. Returns whether it did. */
PF_V16 bool attn_cut(const pf_type type, const attn_pass *pass, attn_block *block, int32_t tile, int32_t t0)
{
    attn_block seen = *block;
    attn_hide_values(type, pass, attn_unseen(pass->least_first, t0), &seen);
    if (attn_cut_finite(type, pass, &seen, t0)) {
        *block = seen;
        return false;
    }
    for (int32_t line = attn_tile_line(pass, tile); line < pass->n_lines; line++)
        attn_value_alone(type, pass, block, line, t0);
    return true;
}

/* One block, for tiles from `tile` on. */
PF_V16 void attn_take_block(const pf_type type, attn_pass *pass, attn_block *block, const attn_block *next,
                            int32_t tile, int32_t t0)
{
    if (pass->tiles->prepare) pass->tiles->prepare(pass, block, t0);
    for (int32_t i = tile; i < pass->n_tiles; i++)
        pass->tiles->score[attn_tile_line(pass, i + 1) - attn_tile_line(pass, i)](pass, block, next, i, t0);
    attn_take_softmax(type, pass, attn_tile_line(pass, tile), pass->n_lines, t0);
    if (t0 < pass->most_first && pass->tiles->cut && pass->tiles->cut(pass, block, tile, t0)) return;
    for (int32_t i = tile; i < pass->n_tiles; i++)
        pass->tiles->value[attn_tile_line(pass, i + 1) - attn_tile_line(pass, i)](pass, block, next, i, t0);
}

/* Where a line's query and result lie: line i is head i % group of row i / group. */
PF_V16 void attn_line(const pf_attn_args *args, int32_t kv_head, int32_t index, int32_t *row, size_t *head)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    *row = index / group;
    *head = (size_t)(kv_head * group + index % group) * (size_t)args->pages.head_dim;
}

/* Words of one line's scaled query: by lines as they are, with zeros behind them; else n_lines apart. */
PF_V16 void attn_pack_query(const pf_type type, const attn_pass *pass, const float *q, float *out, int32_t n_lines)
{
    const pf_v16 scale = pf_v16_set(attn_in_unit(type, pass->args->scale));
    const int32_t n = (int32_t)pass->head_dim, per_vector = 16 * attn_pair(type);
    for (int32_t d = 0; d < n; d += per_vector) {
        float words[16];
        pf_v16 v = pf_v16_mul(pf_v16_load_first(q + d, n - d), scale);
        if (type == PF_TYPE_BF16) {
            const pf_v16 high = n - d > 16 ? pf_v16_load_first(q + d + 16, n - d - 16) : pf_v16_set(0.0f);
            v = pf_v16_words(v, pf_v16_mul(high, scale));
        }
        if (ATTN_BY_LINES) {
            pf_v16_store(out + d / attn_pair(type), v);
            continue;
        }
        pf_v16_store(words, v);
        const int32_t left = (n - d + attn_pair(type) - 1) / attn_pair(type);
        for (int32_t i = 0; i < left && i < 16; i++, out += n_lines) *out = words[i];
    }
}

/* Cut lines first .. first + n_lines - 1 into tiles, and take their queries. */
PF_V16 void attn_take_queries(const pf_type type, attn_pass *pass, int32_t first)
{
    const pf_attn_args *args = pass->args;
    const size_t n_words = ATTN_BY_LINES ? attn_query_stride(pass) : pass->query_words;
    pass->n_tiles = (pass->n_lines + ATTN_TILE_LINES - 1) / ATTN_TILE_LINES;
    if (!ATTN_BY_LINES && pass->n_tiles == 1 && pass->n_lines >= ATTN_SPLIT_LINES &&
        args->position - pf_attn_first_key(args, args->position) >= ATTN_SPLIT_POSITIONS)
        pass->n_tiles = 2;
    pass->least_first = INT32_MAX;
    pass->most_first = 0;
    for (int32_t tile = 0; tile < pass->n_tiles; tile++) {
        const int32_t begin = attn_tile_line(pass, tile), end = attn_tile_line(pass, tile + 1);
        float *queries = pass->queries + (size_t)begin * n_words;
        for (int32_t line = begin; line < end; line++) {
            int32_t row;
            size_t head;
            attn_line(args, pass->kv_head, first + line, &row, &head);
            attn_pack_query(type, pass, args->q + (size_t)row * args->q_stride + head,
                            queries + (size_t)(line - begin) * (ATTN_BY_LINES ? n_words : 1), end - begin);
            const int32_t position = pf_attn_position(args, row), first_key = pf_attn_first_key(args, position);
            pass->n_keys[line] = position + 1;
            pass->first_key[line] = first_key;
            if (position + 1 > pass->most_keys) pass->most_keys = position + 1;
            if (first_key < pass->least_first) pass->least_first = first_key;
            if (first_key > pass->most_first) pass->most_first = first_key;
            if (args->slopes) pass->slopes[line] = attn_in_unit(type, args->slopes[head / pass->head_dim]);
        }
    }
    pass->plain_from = args->softcap > 0.0f || args->slopes ? INT32_MAX : pass->most_first;
}

PF_V16 void attn_start_sums(attn_pass *pass)
{
    memset(pass->sums, 0, (size_t)pass->n_lines * pass->padded * sizeof(float));
    memset(pass->lanes, 0, (size_t)pass->n_lines * 16 * sizeof(float));
    for (int32_t line = 0; line < PF_ATTN_LINES + 16; line++) pass->top[line] = -INFINITY;
}

/* Where a line's result goes: its weighted values by the sum of its weights. */
PF_V16 void attn_put(const attn_pass *pass, int32_t index, const float *sums, float sum)
{
    const pf_attn_args *args = pass->args;
    int32_t row;
    size_t head;
    attn_line(args, pass->kv_head, index, &row, &head);
    float *out = args->out + (size_t)row * args->out_stride + head;
    const pf_v16 by = pf_v16_set(sum);
    for (size_t d = 0; d < pass->head_dim; d += 16)
        pf_v16_store_first(out + d, pf_v16_div(pf_v16_load(sums + d), by),
                           pass->head_dim - d < 16 ? (int32_t)(pass->head_dim - d) : 16);
}

/* A line's sums and the sum of its weights with the score of its sink, which has no value. Returns the latter. */
PF_V16 float attn_join_sink(const pf_type type, const pf_attn_args *args, int32_t kv_head, int32_t index, float top,
                            float sum, float *sums, size_t padded)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    const pf_v16 before = pf_v16_set(top),
                 sink = pf_v16_set(attn_in_unit(type, args->sinks[kv_head * group + index % group])),
                 most = pf_v16_max(sink, before);
    const pf_v16 a = attn_exp(type, pf_v16_sub(before, most)), b = attn_exp(type, pf_v16_sub(sink, most));
    float joined[16];
    for (size_t d = 0; d < padded; d += 16) pf_v16_store(sums + d, pf_v16_mul(pf_v16_load(sums + d), a));
    pf_v16_store(joined, pf_v16_fma(pf_v16_set(sum), a, b));
    return joined[0];
}

PF_V16 float attn_sum(const attn_pass *pass, int32_t line)
{
    return pf_v16_tree_sum(pf_v16_load(pass->lanes + line * 16));
}

/* What a segment has given for some lines, `its`, to what those before it have: of lines that see something of it, from t0 on.
 * Exponentials of sixteen lines at once: of one they would take as long. */
PF_V16 void attn_join(const pf_type type, const attn_given *its, const float *its_sums, size_t its_stride,
                      attn_given *all, float *sums, size_t padded, const int32_t *n_keys, const int32_t *first_key,
                      int32_t t0, int32_t n_lines)
{
    float a[PF_ATTN_LINES + 16], b[PF_ATTN_LINES + 16], top[PF_ATTN_LINES + 16], sum[PF_ATTN_LINES + 16];
    for (int32_t l = 0; l < n_lines; l += 16) {
        const pf_v16 before = pf_v16_load(all->top + l), now = pf_v16_load(its->top + l),
                     most = pf_v16_max(now, before);
        const pf_v16 va = attn_exp(type, pf_v16_sub(before, most)), vb = attn_exp(type, pf_v16_sub(now, most));
        pf_v16_store(top + l, most);
        pf_v16_store(a + l, va);
        pf_v16_store(b + l, vb);
        pf_v16_store(sum + l, pf_v16_fma(pf_v16_load(its->sum + l), vb, pf_v16_mul(pf_v16_load(all->sum + l), va)));
    }
    for (int32_t l = 0; l < n_lines; l++) {
        if (n_keys[l] <= t0 || first_key[l] >= t0 + PF_ATTN_SEGMENT) continue;
        float *to = sums + (size_t)l * padded;
        const float *from = its_sums + (size_t)l * its_stride;
        if (first_key[l] >= t0) { /* its first segment */
            memcpy(to, from, padded * sizeof *to);
            all->top[l] = its->top[l];
            all->sum[l] = its->sum[l];
            continue;
        }
        const pf_v16 va = pf_v16_set(a[l]), vb = pf_v16_set(b[l]);
        for (size_t d = 0; d < padded; d += 16)
            pf_v16_store(to + d, pf_v16_fma(pf_v16_load(from + d), vb, pf_v16_mul(pf_v16_load(to + d), va)));
        all->top[l] = top[l];
        all->sum[l] = sum[l];
    }
}

/* What the segment that began at t0 has given, to what those before it have. */
PF_V16 void attn_join_segment(const pf_type type, attn_pass *pass, int32_t t0)
{
    attn_given its;
    memcpy(its.top, pass->top, sizeof its.top);
    memset(its.sum, 0, sizeof its.sum);
    for (int32_t line = 0; line < pass->n_lines; line++) its.sum[line] = attn_sum(pass, line);
    if (t0 > pass->least_first) {
        attn_join(type, &its, pass->sums, pass->padded, pass->given, pass->joined, pass->padded, pass->n_keys,
                  pass->first_key, t0, pass->n_lines);
        return;
    }
    memcpy(pass->joined, pass->sums, (size_t)pass->n_lines * pass->padded * sizeof(float));
    *pass->given = its;
}

/* Where the first segment begins of which a line sees a key, and whether there is no other. */
PF_V16 int32_t attn_first_segment(const attn_pass *pass)
{
    return pass->least_first / PF_ATTN_SEGMENT * PF_ATTN_SEGMENT;
}
PF_V16 bool attn_one_segment(const attn_pass *pass)
{
    return pass->most_keys - attn_first_segment(pass) <= PF_ATTN_SEGMENT;
}

PF_V16 void attn_finish(const pf_type type, const attn_pass *pass, int32_t first)
{
    const bool one = attn_one_segment(pass);
    for (int32_t line = 0; line < pass->n_lines; line++) {
        float *sums = (one ? pass->sums : pass->joined) + (size_t)line * pass->padded;
        float sum = one ? attn_sum(pass, line) : pass->given->sum[line];
        if (pass->args->sinks)
            sum = attn_join_sink(type, pass->args, pass->kv_head, first + line,
                                 one ? pass->top[line] : pass->given->top[line], sum, sums, pass->padded);
        attn_put(pass, first + line, sums, sum);
    }
}

/* The block at t0 as a row of a tree sees it: sixteens of the context as they lie, what is behind it gathered. */
PF_V16 void attn_gather_block(const attn_pass *pass, pf_type type, int32_t row, int32_t t0, attn_block *block)
{
    const pf_attn_args *args = pass->args;
    const pf_attn_pages *pages = &args->pages;
    const size_t words = PF_ATTN_SIXTEEN * pass->query_words, bytes = pf_type_bytes(type);
    float *keys = pass->gathered, *values = keys + ATTN_SIXTEENS * words;
    attn_find_block(pass, type, pass->kv_head, t0, block);
    for (int32_t i = 0; i < ATTN_SIXTEENS; i++) {
        const int32_t t = t0 + i * PF_ATTN_SIXTEEN;
        if (t + PF_ATTN_SIXTEEN <= args->position) continue;
        if (t < args->position) {
            memcpy(keys + (size_t)i * words, block->keys[i], words * sizeof(float));
            memcpy(values + (size_t)i * words, block->values[i], words * sizeof(float));
        }
        block->keys[i] = keys + (size_t)i * words;
        block->values[i] = values + (size_t)i * words;
    }

    const pf_attn_pages own = { .page_tokens = PF_ATTN_BLOCK, .n_kv_heads = 1, .head_dim = pages->head_dim };
    for (int32_t t = pf_attn_position(args, row); row >= 0 && t >= t0; t--, row = args->parents[row]) {
        if (t >= t0 + PF_ATTN_BLOCK) continue;
        const int32_t at = args->position + row, page = at / pages->page_tokens, slot = at % pages->page_tokens;
        pf_attn_copy_key(type, pages->head_dim, (char *)keys + pf_attn_key_at(&own, type, 0, t - t0, 0) * bytes,
                         (const char *)pages->key_pages[page] +
                             pf_attn_key_at(pages, type, pass->kv_head, slot, 0) * bytes);
        pf_attn_copy_value(type, pages->head_dim, (char *)values + pf_attn_value_at(&own, type, 0, t - t0, 0) * bytes,
                           (const char *)pages->value_pages[page] +
                               pf_attn_value_at(pages, type, pass->kv_head, slot, 0) * bytes);
    }
}

/* The rest of a tree's segment, from the block at t0 on, where paths part, to `stop`: each row's lines go on alone, and their
 * queries lie where the others' did: nothing is common behind it. */
PF_V16 void attn_branches(const pf_type type, attn_pass *pass, int32_t first, int32_t t0, int32_t stop)
{
    const pf_attn_args *args = pass->args;
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    for (int32_t line = 0, end; line < pass->n_lines; line = end) {
        const int32_t row = (first + line) / group;
        end = (row + 1) * group - first < pass->n_lines ? (row + 1) * group - first : pass->n_lines;
        attn_pass path = *pass;
        path.n_lines = end - line;
        path.sums += (size_t)line * pass->padded;
        path.lanes += line * 16;
        memcpy(path.top, pass->top + line, (size_t)path.n_lines * sizeof *path.top);
        attn_take_queries(type, &path, first + line);
        const int32_t begin = attn_first_block(&path);
        for (int32_t t = t0 > begin ? t0 : begin; t < stop && t < path.n_keys[0]; t += PF_ATTN_BLOCK) {
            attn_block block;
            attn_gather_block(&path, type, row, t, &block);
            attn_take_block(type, &path, &block, &block, 0, t);
        }
        memcpy(pass->top + line, path.top, (size_t)path.n_lines * sizeof *path.top);
    }
}

/* Ask for n lines' part of queries, or of results: they lie far apart. */
PF_V16 void attn_fetch_rows(const pf_attn_args *args, int32_t kv_head, int32_t first, int32_t n, const float *rows,
                            size_t stride)
{
    for (int32_t line = first; line < first + n; line++) {
        int32_t row;
        size_t head;
        attn_line(args, kv_head, line, &row, &head);
        for (int32_t d = 0; d < args->pages.head_dim; d += 16)
            _mm_prefetch((const char *)(rows + (size_t)row * stride + head + (size_t)d), _MM_HINT_T0);
    }
}

/* The block at t0, or where there is none, behind the last, the first one of the next head to be read. */
PF_V16 void attn_find_next(const attn_pass *pass, const pf_type type, int32_t t0, int32_t end, int32_t next_head,
                           attn_block *block)
{
    attn_find_block(pass, type, t0 < end ? pass->kv_head : next_head, t0 < end ? t0 : attn_first_block(pass), block);
}

/* From `tile` on the first that has a line which sees the block at t0. */
PF_V16 int32_t attn_first_tile(const attn_pass *pass, int32_t tile, int32_t t0)
{
    while (pass->n_keys[attn_tile_line(pass, tile + 1) - 1] <= t0) tile++;
    return tile;
}

/* Blocks from `begin` on, before `stop`, one after the other; the last of all ends at `end`. */
PF_V16 void attn_take_blocks(const pf_type type, attn_pass *pass, int32_t begin, int32_t stop, int32_t end,
                             int32_t next_head)
{
    attn_block block, next;
    attn_find_next(pass, type, begin, end, next_head, &next);
    for (int32_t t0 = begin, tile = 0; t0 < stop; t0 += PF_ATTN_BLOCK) {
        block = next;
        attn_find_next(pass, type, t0 + PF_ATTN_BLOCK, end, next_head, &next);
        tile = attn_first_tile(pass, tile, t0);
        attn_take_block(type, pass, &block, &next, tile, t0);
    }
}

/* Of lines first .. first + n_lines - 1 of one key head: where what they need lies, and their queries. Field by field: to zero
 * the struct, or to copy it, takes a fifth of the time of one row behind 128 positions. */
PF_V16 void attn_begin(const pf_attn_args *args, const pf_type type, int32_t kv_head, int32_t first, int32_t n_lines,
                       const attn_tiles *tiles, float *scratch, attn_pass *pass)
{
    pass->args = args;
    pass->tiles = tiles;
    pass->kv_head = kv_head;
    pass->n_lines = n_lines;
    pass->most_keys = pass->weights_line = 0;
    pass->head_dim = (size_t)args->pages.head_dim;
    pass->padded = pf_round_up(pass->head_dim, 16);
    pass->value_words = pf_attn_width(type, args->pages.head_dim);
    pass->query_words = pass->value_words / (size_t)attn_pair(type);
    pass->weights = scratch;
    pass->lanes = pass->weights + PF_ATTN_LINES * PF_ATTN_BLOCK;
    pass->sums = pass->lanes + PF_ATTN_LINES * 16;
    pass->queries = pass->sums + PF_ATTN_LINES * pass->padded;
    pass->gathered = pass->queries + PF_ATTN_LINES * pass->padded;
    pass->copied = pass->gathered + 2 * PF_ATTN_BLOCK * pass->padded;
    pass->products = pass->copied + PF_ATTN_BLOCK / 2 * pass->padded;
    pass->joined = pass->products + 16 * pass->padded;
    pass->given = (attn_given *)(void *)(pass->joined + PF_ATTN_LINES * pass->padded);
    attn_take_queries(type, pass, first);
}

/* The segment that begins at t0. The pass behind this one reads the keys of next_head. */
PF_V16 void attn_segment(const pf_type type, attn_pass *pass, int32_t first, int32_t t0, int32_t next_head)
{
    const pf_attn_args *args = pass->args;
    const int32_t end = args->parents ? args->position / PF_ATTN_BLOCK * PF_ATTN_BLOCK : pass->most_keys;
    const int32_t stop = t0 + PF_ATTN_SEGMENT, common = end < stop ? end : stop; /* to where rows go together */
    const int32_t first_block = attn_first_block(pass), begin = t0 > first_block ? t0 : first_block;
    attn_start_sums(pass);
    if (pass->tiles->blocks && pass->n_tiles > 1)
        pass->tiles->blocks(pass, begin, common, end, next_head);
    else
        attn_take_blocks(type, pass, begin, common, end, next_head);
    if (args->parents && end < stop) pass->tiles->branches(pass, first, end > t0 ? end : t0, stop);
}

/* Lines first .. first + n_lines - 1 of one key head. The pass behind this one takes n_next lines more of the same head,
 * or none. */
PF_V16 void attn_lines(const pf_attn_args *args, const pf_type type, int32_t kv_head, int32_t first, int32_t n_lines,
                       int32_t n_next, int32_t next_head, const attn_tiles *tiles, float *scratch)
{
    attn_pass pass;
    attn_begin(args, type, kv_head, first, n_lines, tiles, scratch, &pass);
    if (n_next > 0) {
        attn_fetch_rows(args, kv_head, first, n_lines, args->out, args->out_stride);
        attn_fetch_rows(args, kv_head, first + n_lines, n_next, args->q, args->q_stride);
    }
    for (int32_t t0 = attn_first_segment(&pass); t0 < pass.most_keys; t0 += PF_ATTN_SEGMENT) {
        attn_segment(type, &pass, first, t0, next_head);
        if (!attn_one_segment(&pass)) attn_join_segment(type, &pass, t0);
    }
    attn_finish(type, &pass, first);
}

/* What a segment gives for the lines of one key head that see any of it: in a chain, of rows that follow each other. */
PF_V16 void attn_unit(const pf_attn_args *args, const pf_type type, int32_t kv_head, int32_t segment,
                      const attn_tiles *tiles, float *scratch)
{
    const int32_t t0 = segment * PF_ATTN_SEGMENT, group = args->n_heads / args->pages.n_kv_heads;
    const int32_t unseeing = args->parents || t0 < args->position ? 0 : t0 - args->position;
    int32_t n_rows = args->n_rows; /* that may see it: those behind begin above it */
    while (!args->parents && n_rows > 0 && pf_attn_first_key(args, args->position + n_rows - 1) >= t0 + PF_ATTN_SEGMENT)
        n_rows--;
    for (int32_t first = unseeing * group, n; first < n_rows * group; first += n) {
        n = n_rows * group - first < PF_ATTN_LINES ? n_rows * group - first : PF_ATTN_LINES;
        attn_pass pass;
        attn_begin(args, type, kv_head, first, n, tiles, scratch, &pass);
        if (pass.most_keys <= t0 || pass.least_first >= t0 + PF_ATTN_SEGMENT) continue;
        attn_segment(type, &pass, first, t0, kv_head);
        for (int32_t line = 0; line < n; line++) {
            if (pass.n_keys[line] <= t0 || pass.first_key[line] >= t0 + PF_ATTN_SEGMENT) continue;
            float *part = pf_attn_part(args, kv_head, segment, first + line);
            memcpy(part, pass.sums + (size_t)line * pass.padded, pass.padded * sizeof *part);
            part[pass.padded] = pass.top[line];
            part[pass.padded + 1] = attn_sum(&pass, line);
        }
    }
}

/* What all segments have given for lines first .. first + n_lines - 1 of a key head, of one row. */
PF_V16 void attn_join_parts(const pf_attn_args *args, const pf_type type, int32_t kv_head, int32_t row, int32_t first,
                            int32_t n_lines, float *scratch)
{
    const int32_t position = pf_attn_position(args, row), first_key = pf_attn_first_key(args, position);
    const size_t floats = pf_attn_part_floats(args->pages.head_dim), padded = floats - 16;
    const attn_pass pass = { .args = args, .kv_head = kv_head, .head_dim = (size_t)args->pages.head_dim };
    attn_given all = { .sum = { 0 } };
    int32_t n_keys[PF_ATTN_LINES], first_keys[PF_ATTN_LINES];
    for (int32_t l = 0; l < n_lines; l++) {
        n_keys[l] = position + 1;
        first_keys[l] = first_key;
    }
    for (int32_t s = first_key / PF_ATTN_SEGMENT; s * PF_ATTN_SEGMENT <= position; s++) {
        const float *parts = pf_attn_part(args, kv_head, s, first);
        attn_given its = { .sum = { 0 } };
        for (int32_t l = 0; l < n_lines; l++) {
            its.top[l] = parts[(size_t)l * floats + padded];
            its.sum[l] = parts[(size_t)l * floats + padded + 1];
        }
        attn_join(type, &its, parts, floats, &all, scratch, padded, n_keys, first_keys, s * PF_ATTN_SEGMENT, n_lines);
    }
    for (int32_t l = 0; l < n_lines; l++) {
        float *sums = scratch + (size_t)l * padded;
        if (args->sinks)
            all.sum[l] = attn_join_sink(type, args, kv_head, first + l, all.top[l], all.sum[l], sums, padded);
        attn_put(&pass, first + l, sums, all.sum[l]);
    }
}

PF_V16 void attn_join_item(const pf_attn_args *args, const pf_type type, int32_t item, float *scratch)
{
    const int32_t kv_head = item / args->n_rows, row = item % args->n_rows;
    const int32_t group = args->n_heads / args->pages.n_kv_heads, end = (row + 1) * group;
    for (int32_t first = row * group; first < end; first += PF_ATTN_LINES)
        attn_join_parts(args, type, kv_head, row, first, end - first < PF_ATTN_LINES ? end - first : PF_ATTN_LINES,
                        scratch);
}

PF_V16 void attn_whole(const pf_attn_args *args, const pf_type type, const attn_tiles *tiles, int32_t item_begin,
                       int32_t item_end, float *scratch)
{
    const int32_t group = args->n_heads / args->pages.n_kv_heads;
    while (item_begin < item_end) {
        const int32_t kv_head = item_begin / args->n_rows, row = item_begin % args->n_rows;
        const int32_t left = args->n_rows - row, n_rows = item_end - item_begin < left ? item_end - item_begin : left;
        const int32_t n = n_rows * group, n_passes = (n + PF_ATTN_LINES - 1) / PF_ATTN_LINES;
        for (int32_t i = 0, first = 0; i < n_passes; i++) {
            const int32_t end = (int32_t)((int64_t)n * (i + 1) / n_passes);
            const bool last = i + 1 == n_passes;
            const int32_t next_end = last ? end : (int32_t)((int64_t)n * (i + 2) / n_passes);
            const bool next_head = last && item_begin + n_rows < item_end;
            attn_lines(args, type, kv_head, row * group + first, end - first, next_end - end, kv_head + next_head,
                       tiles, scratch);
            first = end;
        }
        item_begin += n_rows;
    }
}

PF_V16 void attn_items(const pf_attn_args *args, const pf_type type, const attn_tiles *tiles, int32_t begin,
                       int32_t end, void *scratch)
{
    switch (args->step) {
    case PF_ATTN_WHOLE: attn_whole(args, type, tiles, begin, end, scratch); break;
    case PF_ATTN_PART:
        for (int32_t unit = begin, n = pf_attn_segments(args); unit < end; unit++)
            attn_unit(args, type, unit / n, pf_attn_first_segment(args) + unit % n, tiles, scratch);
        break;
    case PF_ATTN_JOIN:
        for (int32_t item = begin; item < end; item++) attn_join_item(args, type, item, scratch);
        break;
    }
}

#endif
