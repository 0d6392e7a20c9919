/*
 * The store of new keys and values in vectors of sixteen 32-bit words: f32 numbers, or pairs of bf16. Internal.
 *
 *   for each sixteen of positions     a member's heads one behind the other, as they lie in a row and in a page
 *     for each head
 *       keys      16 words of each row are turned, so that those of 16 rows go out as one vector
 *       values    two rows are woven into pairs
 *
 * Rounding is quicker where nothing is NaN. So rows are taken together as if that were so, and where it was not, once
 * more, each alone: keys word by word, values every other 16 bits. So is a row that is alone anyway (decoding).
 */
#include <stdbool.h>

#include "kernels/attn/attn.h"
#include "kernels/vec/v16.h"

/* n elements of a row, zeros behind them. */
PF_V16 pf_v16 attn_store_load(const float *from, int32_t n)
{
    return n >= 16 ? pf_v16_load(from) : n > 0 ? pf_v16_load_first(from, n) : pf_v16_set(0.0f);
}

/* Words of n elements of a row, or of as many as a vector holds. NaN is lost in bf16, but shows in `numbers`. */
PF_V16 pf_v16 attn_store_number_words(const pf_type type, const float *from, int32_t n, pf_v16_mask *numbers)
{
    const pf_v16 low = attn_store_load(from, n);
    if (type == PF_TYPE_F32) return low;
    return pf_v16_number_words(low, attn_store_load(from + 16, n - 16), numbers);
}

/* n elements, or as many as a vector holds, of n_rows keys to columns of a sixteen. */
PF_V16 void attn_store_turned_words(const pf_type type, float *to, const float *k, size_t stride, int32_t n_rows,
                                    int32_t n, pf_v16_mask *numbers)
{
    const int32_t n_words = type == PF_TYPE_F32 ? n : (n + 1) / 2;
    pf_v16 words[16];
    PF_UNROLL_16
    for (int32_t i = 0; i < 16; i++)
        words[i] = i < n_rows ? attn_store_number_words(type, k + (size_t)i * stride, n, numbers) : pf_v16_set(0.0f);
    pf_v16_turn(words);
    PF_UNROLL_16
    for (int32_t i = 0; i < 16; i++) {
        if (i >= n_words) continue; /* not out of the loop: clang does not unroll one that has two ends */
        if (n_rows == 16)
            pf_v16_store(to + i * 16, words[i]);
        else
            pf_v16_store_first(to + i * 16, words[i], n_rows);
    }
}

/* The keys of n_rows rows, at most sixteen, to columns of a sixteen that begin at `to`. */
PF_V16 void attn_store_turned_keys(const pf_type type, float *to, const float *k, size_t stride, int32_t n_rows,
                                   int32_t head_dim, pf_v16_mask *numbers)
{
    const int32_t step = type == PF_TYPE_F32 ? 16 : 32;
    int32_t d = 0;
    for (; d + step <= head_dim; d += step, to += 16 * 16)
        attn_store_turned_words(type, to, k + d, stride, n_rows, step, numbers);
    if (d < head_dim) attn_store_turned_words(type, to, k + d, stride, n_rows, head_dim - d, numbers);
}

/* A row's key alone. */
PF_V16 void attn_store_key(const pf_type type, float *to, const float *k, int32_t head_dim)
{
    const int32_t pair = type == PF_TYPE_F32 ? 1 : 2;
    for (int32_t d = 0; d < head_dim; d += 16 * pair) {
        float words[16];
        pf_v16 v = attn_store_load(k + d, head_dim - d);
        if (type == PF_TYPE_BF16) v = pf_v16_words(v, attn_store_load(k + d + 16, head_dim - d - 16));
        pf_v16_store(words, v);
        const int32_t n_words = (head_dim - d + pair - 1) / pair;
        for (int32_t i = 0; i < n_words && i < 16; i++, to += 16) *to = words[i];
    }
}

/* The values of two rows, that of an even position first. */
PF_V16 void attn_store_pair(float *to, const float *even, const float *odd, int32_t head_dim, pf_v16_mask *numbers)
{
    for (int32_t d = 0; d < head_dim; d += 16) {
        const pf_v16 a = attn_store_load(even + d, head_dim - d), b = attn_store_load(odd + d, head_dim - d);
        const pf_v16 words = pf_v16_number_words_of(a, b, numbers);
        if (head_dim - d >= 16)
            pf_v16_store(to + d, words);
        else
            pf_v16_store_first(to + d, words, head_dim - d);
    }
}

/* A row's value alone: the other of its pair may be some other member's. */
PF_V16 void attn_store_half(uint16_t *to, const float *v, int32_t head_dim)
{
    for (int32_t d = 0; d < head_dim; d += 16)
        pf_v16_store_low_halves(to + 2 * d, pf_v16_words_of(attn_store_load(v + d, head_dim - d), pf_v16_set(0.0f)),
                                head_dim - d);
}

/* Rows of a head that lie in one sixteen, from `slot` of a page on. */
typedef struct {
    float *keys;  /* the word of the first one's element 0 */
    char *values; /* where its elements lie */
    const float *k, *v;
    size_t stride; /* of k and v */
    int32_t slot, n_rows, head_dim;
} attn_store_rows;

/* Each row's key alone. */
PF_V16 void attn_store_keys(const pf_type type, const attn_store_rows *rows)
{
    for (int32_t i = 0; i < rows->n_rows; i++)
        attn_store_key(type, rows->keys + i, rows->k + (size_t)i * rows->stride, rows->head_dim);
}

PF_V16 void attn_store_alone(const pf_type type, const attn_store_rows *rows)
{
    const size_t row_bytes = pf_attn_width(type, rows->head_dim) * pf_type_bytes(type);
    attn_store_keys(type, rows);
    for (int32_t i = 0; i < rows->n_rows; i++) {
        const float *v = rows->v + (size_t)i * rows->stride;
        if (type == PF_TYPE_F32) {
            memcpy(rows->values + (size_t)i * row_bytes, v, row_bytes);
        } else { /* an odd slot's begins 16 bits behind its pair's */
            const size_t first = (size_t)(rows->slot % 2), at = first + (size_t)i;
            char *pair = rows->values - first * sizeof(uint16_t) + at / 2 * 2 * row_bytes;
            attn_store_half((uint16_t *)(void *)pair + at % 2, v, rows->head_dim);
        }
    }
}

/* Returns whether all were numbers; else what was stored is of no use. */
PF_V16 bool attn_store_together(const pf_type type, const attn_store_rows *rows)
{
    const int32_t head_dim = rows->head_dim;
    const size_t stride = rows->stride, row_bytes = pf_attn_width(type, head_dim) * pf_type_bytes(type);
    pf_v16_mask numbers = pf_v16_all_lanes();
    if (rows->n_rows == 16)
        attn_store_turned_keys(type, rows->keys, rows->k, stride, 16, head_dim, &numbers);
    else if (rows->n_rows >= PF_V16_TURN_ROWS)
        attn_store_turned_keys(type, rows->keys, rows->k, stride, rows->n_rows, head_dim, &numbers);
    else
        attn_store_keys(type, rows);

    const float *v = rows->v;
    char *to = rows->values;
    int32_t left = rows->n_rows;
    if (type == PF_TYPE_F32) {
        for (; left; left--, v += stride, to += row_bytes) memcpy(to, v, row_bytes);
        return true;
    }
    if (rows->slot % 2) {
        attn_store_half((uint16_t *)(void *)to, v, head_dim);
        left--;
        v += stride;
        to += 2 * row_bytes - sizeof(uint16_t);
    }
    for (; left >= 2; left -= 2, v += 2 * stride, to += 2 * row_bytes)
        attn_store_pair((float *)(void *)to, v, v + stride, head_dim, &numbers);
    if (left) attn_store_half((uint16_t *)(void *)to, v, head_dim);
    return pf_v16_bits(numbers) == 0xFFFF;
}

/* Rows [row, end) of a head, all in one sixteen. */
PF_V16 void attn_store_head(const pf_attn_store_args *args, const pf_type type, int32_t head, int32_t row, int32_t end)
{
    const pf_attn_pages *pages = &args->pages;
    const int32_t t = args->position + row, page = t / pages->page_tokens, slot = t % pages->page_tokens;
    const size_t from = (size_t)row * args->stride + (size_t)head * (size_t)pages->head_dim;
    const size_t bytes = pf_type_bytes(type), at = pf_attn_key_at(pages, type, head, slot, 0) * bytes;
    const attn_store_rows rows = {
        .keys = (float *)(void *)((char *)pages->key_pages[page] + at),
        .values = (char *)pages->value_pages[page] + pf_attn_value_at(pages, type, head, slot, 0) * bytes,
        .k = args->k + from,
        .v = args->v + from,
        .stride = args->stride,
        .slot = slot,
        .n_rows = end - row,
        .head_dim = pages->head_dim,
    };
    if (rows.n_rows == 1 || !attn_store_together(type, &rows)) attn_store_alone(type, &rows);
}

PF_V16 void attn_store_items(const pf_attn_store_args *args, const pf_type type, int32_t item_begin, int32_t item_end)
{
    if (item_begin >= item_end) return;
    const int32_t n_rows = args->n_rows, first = item_begin / n_rows, last = (item_end - 1) / n_rows;
    for (int32_t row = 0, next; row < n_rows; row = next) {
        next = row + PF_ATTN_SIXTEEN - (args->position + row) % PF_ATTN_SIXTEEN;
        if (next > n_rows) next = n_rows;
        for (int32_t head = first; head <= last; head++) {
            const int32_t mine = item_begin - head * n_rows, others = item_end - head * n_rows;
            const int32_t begin = mine > row ? mine : row, end = others < next ? others : next;
            if (begin < end) attn_store_head(args, type, head, begin, end);
        }
    }
}

void PF_FOR_ISA(pf_attn_store_f32)(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end)
{
    attn_store_items(args, PF_TYPE_F32, item_begin, item_end);
}

void PF_FOR_ISA(pf_attn_store_bf16)(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end)
{
    attn_store_items(args, PF_TYPE_BF16, item_begin, item_end);
}
