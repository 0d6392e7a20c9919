/*
 * Attention by tiles: TDPBF16PS on keys and values as they lie in their pages. Internal to the registry.
 *
 *   scores   16 lines' queries times 16 keys, 32 elements a step       four sums of 16 keys for one A
 *   values   16 lines' weights times 16 elements, 32 positions a step  two sums of 16 elements, two steps a block
 *
 * Between the two stands the softmax of attn_v16.h, which takes most of the time: a block of 64 keys is 16 multiplies for
 * 16 lines of 64 elements, 256 cycles, and 64 vectors of exponentials.
 *
 * Tiles are configured once a call, for as many rows as it has lines at most. The last tile of a pass may have fewer:
 * its other rows hold arbitrary data, and their sums are not read. So sums of values do not stay in tiles: those of a
 * block start at zero and are added to the lines' sums by vectors, which have to rescale them anyway.
 *
 * The values of a block lie in one piece where tiles read them: where pages are smaller than a block, or its end or its begin
 * is not seen, a copy with zeros in the place of what is not. A line that sees less than its neighbours has weights of zero
 * there, which is not enough for an infinity or a NaN: then each line multiplies what it sees alone.
 */
#include "kernels/vec/tiles_amx.h"

#define ATTN_TILE_LINES 16
#define ATTN_BY_LINES   1
#include "kernels/attn/attn_v16.h"

enum {
    BLOCK_PAIRS = PF_ATTN_BLOCK / 2,
    STEP_PAIRS = PF_TILE_ROWS, /* of elements, or of positions, that a multiply sums over */
    SCORES_STRIDE = PF_ATTN_BLOCK * sizeof(float),
    VALUES_AT_ONCE = 2 * PF_ATTN_SIXTEEN, /* elements */
};

/* --- scores --- */

/* What is left of a head behind its whole steps: n pairs of 16 keys, and zeros. */
static const float *fill_step(const float *keys, size_t n, float *to)
{
    memcpy(to, keys, n * PF_ATTN_SIXTEEN * sizeof *to);
    memset(to + n * PF_ATTN_SIXTEEN, 0, (STEP_PAIRS - n) * PF_ATTN_SIXTEEN * sizeof *to);
    return to;
}

static void score(const attn_pass *pass, const attn_block *block, const attn_block *next, int32_t tile, int32_t t0)
{
    (void)t0;
    const bool fetches = tile + 1 == pass->n_tiles;
    const int32_t line = attn_tile_line(pass, tile);
    const size_t stride = attn_query_stride(pass);
    const float *q = pass->queries + (size_t)line * stride;
    float *out = attn_weights(pass, line);
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
    for (size_t pair = 0; pair < pass->query_words; pair += STEP_PAIRS) {
        _Alignas(64) float rest[ATTN_SIXTEENS][STEP_PAIRS * PF_ATTN_SIXTEEN];
        const size_t left = pass->query_words - pair, n = left < STEP_PAIRS ? left : STEP_PAIRS;
        const float *keys[ATTN_SIXTEENS];
        for (int i = 0; i < ATTN_SIXTEENS; i++) {
            keys[i] = block->keys[i] + pair * PF_ATTN_SIXTEEN;
            if (n < STEP_PAIRS) keys[i] = fill_step(keys[i], n, rest[i]);
        }
        PF_TILE_LOAD(4, q + pair, stride * sizeof *q);
        PF_TILE_LOAD(6, keys[0], PF_TILE_ROW_BYTES);
        PF_TILE_LOAD(7, keys[1], PF_TILE_ROW_BYTES);
        PF_TILE_DOT(PF_DOT_BF16, 0, 4, 6);
        PF_TILE_LOAD(6, keys[2], PF_TILE_ROW_BYTES);
        PF_TILE_DOT(PF_DOT_BF16, 1, 4, 7);
        PF_TILE_LOAD(7, keys[3], PF_TILE_ROW_BYTES);
        PF_TILE_DOT(PF_DOT_BF16, 2, 4, 6);
        PF_TILE_DOT(PF_DOT_BF16, 3, 4, 7);
        for (int i = 0; fetches && i < ATTN_SIXTEENS; i++)
            for (size_t at = 0; at < n; at++)
                _mm_prefetch((const char *)(next->keys[i] + (pair + at) * PF_ATTN_SIXTEEN), _MM_HINT_T0);
    }
    PF_TILE_STORE(0, out, SCORES_STRIDE);
    PF_TILE_STORE(1, out + 16, SCORES_STRIDE);
    PF_TILE_STORE(2, out + 32, SCORES_STRIDE);
    PF_TILE_STORE(3, out + 48, SCORES_STRIDE);
}

/* --- values --- */

/* Positions begin .. end - 1 of a block. */
typedef struct {
    int32_t begin, end;
} range;

/* A pair's values of 16 elements, of which n exist: those of positions in `seen`, else zeros. The pair begins at `position`. */
PF_V16 pf_v16 seen_values(const float *pair, int32_t n, range seen, int32_t position)
{
    const bool even = position >= seen.begin && position < seen.end;
    const bool odd = position + 1 >= seen.begin && position + 1 < seen.end;
    if (!even && !odd) return pf_v16_set(0.0f);
    const pf_v16 words = pf_v16_load_first(pair, n);
    if (even && odd) return words;
    return even ? pf_v16_even_of_words(words) : pf_v16_odd_of_words(words);
}

/* What a line sees of the block at t0. */
PF_V16 range seen_by(const attn_pass *pass, int32_t line, int32_t t0)
{
    return (range){ attn_unseen(pass->first_key[line], t0), attn_seen(pass, line, t0) };
}

static int32_t at_most_16(size_t n)
{
    return n < 16 ? (int32_t)n : 16;
}

/* The values in one piece, [BLOCK_PAIRS, padded]: as they lie or a copy, with zeros for what no line sees. */
static void prepare(const attn_pass *pass, attn_block *block, int32_t t0)
{
    enum { PAIRS = PF_ATTN_SIXTEEN / 2 };
    const range seen = { attn_unseen(pass->least_first, t0), attn_seen(pass, pass->n_lines - 1, t0) };
    bool whole = seen.begin == 0 && seen.end == PF_ATTN_BLOCK && pass->value_words == pass->padded;
    for (int i = 1; i < ATTN_SIXTEENS; i++)
        whole = whole && block->values[i] == block->values[i - 1] + PAIRS * pass->padded;
    if (whole) return;
    const int32_t n_pairs = (seen.end + 1) / 2;
    for (int32_t pair = 0; pair < n_pairs; pair++) {
        const float *from = block->values[pair / PAIRS] + (size_t)(pair % PAIRS) * pass->value_words;
        float *to = pass->copied + (size_t)pair * pass->padded;
        for (size_t d = 0; d < pass->head_dim; d += 16)
            pf_v16_store(to + d, seen_values(from + d, at_most_16(pass->head_dim - d), seen, 2 * pair));
    }
    memset(pass->copied + (size_t)n_pairs * pass->padded, 0,
           (size_t)(BLOCK_PAIRS - n_pairs) * pass->padded * sizeof(float));
    for (int i = 0; i < ATTN_SIXTEENS; i++) block->values[i] = pass->copied + (size_t)i * PAIRS * pass->padded;
}

/* No infinity and no NaN at positions begin .. end - 1 of a block. */
static bool all_finite(const attn_pass *pass, const float *values, int32_t begin, int32_t end)
{
    for (int32_t pair = begin / 2; begin < end && 2 * pair < end; pair++)
        if (!attn_finite(PF_TYPE_BF16, values + (size_t)pair * pass->padded, pass->head_dim)) return false;
    return true;
}

/* The values of a block, one sixteen of elements from b on or `both` of two, weighted: to `out`. The weights are in tmm4 and
 * tmm5. More at once fetch worse from far. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the instruction writes it */
static void multiply_values(const float *b, size_t b_words, bool both, float *out, size_t out_words)
{
    const size_t stride = b_words * sizeof *b, out_stride = out_words * sizeof *out;
    const float *second = b + STEP_PAIRS * b_words;
    PF_TILE_ZERO(0);
    PF_TILE_LOAD(6, b, stride);
    PF_TILE_DOT(PF_DOT_BF16, 0, 4, 6);
    PF_TILE_LOAD(6, second, stride);
    if (both) {
        PF_TILE_ZERO(1);
        PF_TILE_LOAD(7, b + PF_ATTN_SIXTEEN, stride);
        PF_TILE_DOT(PF_DOT_BF16, 1, 4, 7);
        PF_TILE_LOAD(7, second + PF_ATTN_SIXTEEN, stride);
        PF_TILE_DOT(PF_DOT_BF16, 1, 5, 7);
        PF_TILE_STORE(1, out + PF_ATTN_SIXTEEN, out_stride);
    }
    PF_TILE_DOT(PF_DOT_BF16, 0, 5, 6);
    PF_TILE_STORE(0, out, out_stride);
}

/* The weighted values of a tile's lines to `products`; `alone`: as if there were no others than those in `seen`. */
static void gather(const attn_pass *pass, const float *values, int32_t line, bool alone, range seen)
{
    const float *weights = attn_weights(pass, line);
    PF_TILE_LOAD(4, weights, SCORES_STRIDE);
    PF_TILE_LOAD(5, weights + STEP_PAIRS, SCORES_STRIDE);
    for (size_t d = 0; d < pass->padded; d += VALUES_AT_ONCE) {
        _Alignas(64) float some[BLOCK_PAIRS * VALUES_AT_ONCE];
        const size_t left = pass->padded - d, n = left < VALUES_AT_ONCE ? left : VALUES_AT_ONCE;
        const float *b = values + d;
        size_t b_words = pass->padded;
        if (alone) {
            for (int32_t pair = 0; pair < BLOCK_PAIRS; pair++)
                for (size_t v = 0; v < n; v += PF_ATTN_SIXTEEN)
                    pf_v16_store(some + pair * VALUES_AT_ONCE + v,
                                 seen_values(b + (size_t)pair * b_words + v, 16, seen, 2 * pair));
            b = some;
            b_words = VALUES_AT_ONCE;
        }
        multiply_values(b, b_words, n == VALUES_AT_ONCE, pass->products + d, pass->padded);
    }
}

/* sums = sums * rescale + products, of lines begin .. end - 1 of the tile that begins with `line`. */
PF_V16 void join(const attn_pass *pass, int32_t line, int32_t begin, int32_t end)
{
    for (int32_t l = begin; l < end; l++) {
        const pf_v16 rescale = pf_v16_set(pass->rescale[l]);
        float *sums = pass->sums + (size_t)l * pass->padded;
        const float *products = pass->products + (size_t)(l - line) * pass->padded;
        for (size_t d = 0; d < pass->padded; d += PF_ATTN_SIXTEEN)
            pf_v16_store(sums + d, pf_v16_fma(pf_v16_load(sums + d), rescale, pf_v16_load(products + d)));
    }
}

static void join_tile(const attn_pass *pass, int32_t tile)
{
    const int32_t line = attn_tile_line(pass, tile);
    join(pass, line, line, attn_tile_line(pass, tile + 1));
}

/* Weigh a block's values by a tile's lines. False: their products are still to be joined. */
static bool weigh_values(const attn_pass *pass, const attn_block *block, int32_t tile, int32_t t0)
{
    const int32_t line = attn_tile_line(pass, tile), end = attn_tile_line(pass, tile + 1);
    for (int32_t l = line; l < end; l++)
        for (int32_t word = (attn_seen(pass, l, t0) + 31) / 32 * 16; word < BLOCK_PAIRS; word += 16)
            pf_v16_store(attn_weights(pass, l) + word, pf_v16_set(0.0f)); /* over scores */

    const float *values = block->values[0];
    const int32_t seen_by_all = attn_seen(pass, line, t0), seen_at_most = attn_seen(pass, pass->n_lines - 1, t0);
    const int32_t least_first = attn_unseen(pass->least_first, t0), most_first = attn_unseen(pass->most_first, t0);
    if (all_finite(pass, values, seen_by_all, seen_at_most) && all_finite(pass, values, least_first, most_first)) {
        gather(pass, values, line, false, (range){ 0, PF_ATTN_BLOCK });
        return false;
    }
    for (int32_t l = line; l < end; l++) {
        gather(pass, values, line, true, seen_by(pass, l, t0));
        join(pass, line, l, l + 1);
    }
    return true;
}

static void fetch_values(const attn_pass *pass, const attn_block *next, int32_t tile)
{
    if (tile + 1 < pass->n_tiles) return;
    for (int i = 0; i < ATTN_SIXTEENS; i++)
        for (size_t at = 0; at < PF_ATTN_SIXTEEN / 2 * pass->value_words; at += 16)
            _mm_prefetch((const char *)(next->values[i] + at), _MM_HINT_T0);
}

static void value(const attn_pass *pass, const attn_block *block, const attn_block *next, int32_t tile, int32_t t0)
{
    if (!weigh_values(pass, block, tile, t0)) join_tile(pass, tile);
    fetch_values(pass, next, tile);
}

/* --- the blocks of a chain ---
 *
 * A tile's scores, its softmax and its values need one another, and each way from tiles to vectors and back is a hundred
 * cycles and more. So tiles pass through in turns, those of the next block behind those of this one, each stage on another:
 *
 *   turn     scores of tile i + 1 | products of tile i - 1 joined, softmax of tile i | values of tile i
 */

typedef struct {
    int32_t t0, tile;
} turn;

static turn turn_after(const attn_pass *pass, turn now, int32_t stop)
{
    if (now.tile + 1 < pass->n_tiles) return (turn){ now.t0, now.tile + 1 };
    const int32_t t0 = now.t0 + PF_ATTN_BLOCK;
    return (turn){ t0, t0 < stop ? attn_first_tile(pass, 0, t0) : 0 };
}

/* Scores and weights of two turns stand beside each other. */
static void take_weights(attn_pass *pass, float *both, int32_t i, int32_t tile)
{
    pass->weights = both + (i & 1) * PF_TILE_ROWS * PF_ATTN_BLOCK;
    pass->weights_line = attn_tile_line(pass, tile);
}

static void take_blocks(attn_pass *pass, int32_t begin, int32_t stop, int32_t end, int32_t next_head)
{
    float *const both = pass->weights;
    attn_block blocks[3];      /* this one, the next one, the one after */
    if (begin >= stop) return; /* a tree's first block is its own */
    for (int i = 0; i < 3; i++)
        attn_find_next(pass, PF_TYPE_BF16, begin + i * PF_ATTN_BLOCK, end, next_head, &blocks[i]);
    turn now = { begin, attn_first_tile(pass, 0, begin) };
    take_weights(pass, both, 0, now.tile);
    score(pass, &blocks[0], &blocks[1], now.tile, begin);
    prepare(pass, &blocks[0], begin);

    int32_t unjoined = -1; /* the tile */
    for (int32_t i = 0; now.t0 < stop; i++) {
        const turn then = turn_after(pass, now, stop);
        const int ahead = then.t0 > now.t0;
        take_weights(pass, both, i + 1, then.tile);
        if (then.t0 < stop) score(pass, &blocks[ahead], &blocks[ahead + 1], then.tile, then.t0);
        if (unjoined >= 0) join_tile(pass, unjoined);

        take_weights(pass, both, i, now.tile);
        attn_take_softmax(PF_TYPE_BF16, pass, pass->weights_line, attn_tile_line(pass, now.tile + 1), now.t0);
        unjoined = weigh_values(pass, &blocks[0], now.tile, now.t0) ? -1 : now.tile;
        fetch_values(pass, &blocks[1], now.tile);
        if (ahead) {
            blocks[0] = blocks[1];
            blocks[1] = blocks[2];
            attn_find_next(pass, PF_TYPE_BF16, then.t0 + 2 * PF_ATTN_BLOCK, end, next_head, &blocks[2]);
            if (then.t0 < stop) prepare(pass, &blocks[0], then.t0);
        }
        now = then;
    }
    if (unjoined >= 0) join_tile(pass, unjoined);
    take_weights(pass, both, 0, 0);
}

/* --- the operation --- */

ATTN_BRANCHES(amx, PF_TYPE_BF16)

#define SIXTEEN(F) F, F, F, F, F, F, F, F, F, F, F, F, F, F, F, F
static const attn_tiles tiles = {
    .score = { NULL, SIXTEEN(score) },
    .value = { NULL, SIXTEEN(value) },
    .branches = attn_branches_amx,
    .special_softmax = attn_special_softmax_amx,
    .prepare = prepare,
    .blocks = take_blocks,
};

void pf_attn_bf16_amx(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    if (item_begin >= item_end) return;
    const int32_t n_lines = args->n_rows * (args->n_heads / args->pages.n_kv_heads);
    const int32_t n_rows = n_lines < PF_TILE_ROWS ? n_lines : PF_TILE_ROWS;
    pf_tile_configure(n_rows, n_rows);
    attn_items(args, PF_TYPE_BF16, &tiles, item_begin, item_end, scratch);
    pf_tile_release();
}
