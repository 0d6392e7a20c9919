/*
 * The tokens of a piece are a doubly linked list in an array. Possible merges are in a binary heap, ordered by rank and then
 * by position. A stale candidate (its tokens have changed since it was pushed) is detected and skipped when it is popped.
 */
#include "tokenizer/encode/bpe.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/hash.h"
#include "base/stop.h"
#include "tokenizer/unicode/character_bytes.h"

struct pf_bpe_symbol {
    int32_t id;         /* -1: merged into its left neighbor */
    int32_t prev, next; /* -1: none */
};

struct pf_bpe_candidate {
    int32_t rank, position, merged;
};

/* --- merges --- */

enum { FILTER_BITS_A_SLOT = 4 };

static uint64_t hash_of(const pf_bpe *bpe, int32_t left, int32_t right)
{
    return pf_hash_mix(((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ bpe->seed);
}

/* The bit of a hash; its upper half is independent of the slot. */
static size_t filter_bit(const pf_bpe *bpe, uint64_t hash)
{
    return (size_t)(hash >> 32) & (FILTER_BITS_A_SLOT * bpe->n_slots - 1);
}

pf_status pf_bpe_reserve(pf_bpe *bpe, size_t n_merges)
{
    size_t n_slots = 1;
    while (n_slots < n_merges * 2 + 2 || n_slots < 64 / FILTER_BITS_A_SLOT) n_slots *= 2;
    bpe->merges = calloc(n_slots, sizeof *bpe->merges);
    bpe->filter = calloc(n_slots * FILTER_BITS_A_SLOT / 64, sizeof *bpe->filter);
    if (!bpe->merges || !bpe->filter) return PF_NOMEM; /* pf_bpe_clear frees the other */
    bpe->n_slots = n_slots;
    if (bpe->n_character_slots == 0) bpe->seed = pf_hash_seed();
    for (size_t i = 0; i < n_slots; i++) bpe->merges[i].left = -1;
    return PF_OK;
}

void pf_bpe_clear(pf_bpe *bpe)
{
    free(bpe->merges);
    free(bpe->filter);
    free(bpe->characters);
    free(bpe->pairs.others);
    bpe->merges = NULL;
    bpe->filter = NULL;
    bpe->characters = NULL;
    bpe->pairs = (pf_bpe_pairs){ .others = NULL };
    bpe->n_slots = bpe->n_character_slots = 0;
}

static pf_merge *find_slot(const pf_bpe *bpe, uint64_t hash, int32_t left, int32_t right)
{
    size_t i = (size_t)hash & (bpe->n_slots - 1);
    while (bpe->merges[i].left >= 0 && (bpe->merges[i].left != left || bpe->merges[i].right != right))
        i = (i + 1) & (bpe->n_slots - 1);
    return &bpe->merges[i];
}

void pf_bpe_set_merge(pf_bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t merged)
{
    const uint64_t hash = hash_of(bpe, left, right);
    const size_t bit = filter_bit(bpe, hash);
    bpe->filter[bit / 64] |= (uint64_t)1 << (bit % 64);
    *find_slot(bpe, hash, left, right) = (pf_merge){ .left = left, .right = right, .rank = rank, .merged = merged };
}

/* NULL: the pair does not merge. */
static const pf_merge *find_merge(const pf_bpe *bpe, int32_t left, int32_t right)
{
    if (bpe->n_slots == 0) return NULL;
    const uint64_t hash = hash_of(bpe, left, right);
    const size_t bit = filter_bit(bpe, hash);
    if ((bpe->filter[bit / 64] >> (bit % 64) & 1) == 0) return NULL;
    const pf_merge *slot = find_slot(bpe, hash, left, right);
    return slot->left < 0 ? NULL : slot;
}

/* --- characters --- */

pf_status pf_bpe_reserve_characters(pf_bpe *bpe, size_t n_characters)
{
    size_t n_slots = 1;
    while (n_slots < n_characters * 2 + 2) n_slots *= 2;
    bpe->characters = malloc(n_slots * sizeof *bpe->characters);
    if (!bpe->characters) return PF_NOMEM;
    if (bpe->n_slots == 0) bpe->seed = pf_hash_seed();
    bpe->n_character_slots = n_slots;
    for (size_t i = 0; i < n_slots; i++) bpe->characters[i] = (pf_bpe_character){ .code_point = -1, .id = -1 };
    return PF_OK;
}

static pf_bpe_character *find_character(const pf_bpe *bpe, int32_t code_point)
{
    size_t i = (size_t)pf_hash_mix((uint64_t)(uint32_t)code_point ^ bpe->seed) & (bpe->n_character_slots - 1);
    while (bpe->characters[i].code_point >= 0 && bpe->characters[i].code_point != code_point)
        i = (i + 1) & (bpe->n_character_slots - 1);
    return &bpe->characters[i];
}

void pf_bpe_set_character(pf_bpe *bpe, int32_t code_point, int32_t id)
{
    *find_character(bpe, code_point) = (pf_bpe_character){ .code_point = code_point, .id = id };
}

/* --- pairs of characters --- */

static uint64_t *find_pair(const pf_bpe *bpe, const pf_bpe_pairs *pairs, uint64_t pair)
{
    size_t i = (size_t)pf_hash_mix(pair ^ bpe->seed) & (pairs->n_slots - 1);
    while (pairs->others[i] != 0 && pairs->others[i] != pair) i = (i + 1) & (pairs->n_slots - 1);
    return &pairs->others[i];
}

static pf_status grow_pairs(pf_bpe *bpe)
{
    pf_bpe_pairs *pairs = &bpe->pairs, grown = { .n_slots = 2 * pairs->n_slots + (pairs->n_slots == 0 ? 1024 : 0) };
    grown.others = calloc(grown.n_slots, sizeof *grown.others);
    if (!grown.others) return PF_NOMEM;
    for (size_t i = 0; i < pairs->n_slots; i++)
        if (pairs->others[i] != 0) *find_pair(bpe, &grown, pairs->others[i]) = pairs->others[i];
    free(pairs->others);
    pairs->others = grown.others;
    pairs->n_slots = grown.n_slots;
    return PF_OK;
}

pf_status pf_bpe_add_pairs(pf_bpe *bpe, const char *text, size_t n_bytes)
{
    pf_bpe_pairs *pairs = &bpe->pairs;
    int32_t before = -1;
    for (size_t at = 0, next; at < n_bytes; at = next) {
        const int32_t c = pf_character_at(text, at, &next);
        const int32_t first = before;
        before = c;
        if (pairs->n_slots == 0 || 2 * pairs->n >= pairs->n_slots) PF_TRY(grow_pairs(bpe));
        if (first < 0) continue;
        if (first < 128 && c < 128) {
            pairs->ascii[first][c >> 6] |= (uint64_t)1 << (c & 63);
            continue;
        }
        const uint64_t pair = (uint64_t)first << 21 | (uint64_t)c;
        uint64_t *slot = find_pair(bpe, pairs, pair);
        pairs->n += *slot == 0;
        *slot = pair;
    }
    return PF_OK;
}

static bool is_pair(const pf_bpe *bpe, int32_t first, int32_t second)
{
    if (first < 128 && second < 128) return (bpe->pairs.ascii[first][second >> 6] >> (second & 63) & 1) != 0;
    return *find_pair(bpe, &bpe->pairs, (uint64_t)first << 21 | (uint64_t)second) != 0;
}

/* Unknown characters are not cut apart: a run of them may be one token, and bytes of a character have texts of their own. */
size_t pf_bpe_find_cut(const pf_bpe *bpe, const char *piece, size_t n_bytes, size_t begin)
{
    size_t at;
    int32_t before = pf_character_at(piece, begin, &at);
    if (bpe->pairs.n_slots == 0) return n_bytes;
    for (size_t next; at < n_bytes; at = next) {
        const int32_t c = pf_character_at(piece, at, &next);
        if (!is_pair(bpe, before, c) && find_character(bpe, before)->id >= 0 && find_character(bpe, c)->id >= 0)
            return at;
        before = c;
    }
    return n_bytes;
}

/* --- the heap --- */

static bool before(pf_bpe_candidate a, pf_bpe_candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.position < b.position;
}

static void heap_push(pf_bpe_candidate *heap, size_t *n, pf_bpe_candidate item)
{
    size_t i = (*n)++;
    for (; i > 0 && before(item, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = item;
}

static pf_bpe_candidate heap_pop(pf_bpe_candidate *heap, size_t *n)
{
    const pf_bpe_candidate top = heap[0], last = heap[--*n];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= *n) break;
        if (child + 1 < *n && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* --- a piece --- */

void pf_bpe_scratch_clear(pf_bpe_scratch *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (pf_bpe_scratch){ 0 };
}

/* A merge pops one candidate and pushes at most two. With n - 1 at the start and n - 1 merges, 2n are enough. */
static pf_status reserve(pf_bpe_scratch *scratch, size_t n)
{
    if (n <= scratch->capacity) return PF_OK;
    size_t capacity = scratch->capacity * 2 > n ? scratch->capacity * 2 : n, symbols, heap;
    if (capacity < 64) capacity = 64;
    if (!pf_size_mul(capacity, sizeof *scratch->symbols, &symbols) ||
        !pf_size_mul(capacity, 2 * sizeof *scratch->heap, &heap))
        return PF_NOMEM;
    pf_bpe_scratch_clear(scratch);
    scratch->symbols = malloc(symbols);
    scratch->heap = malloc(heap);
    if (!scratch->symbols || !scratch->heap) {
        pf_bpe_scratch_clear(scratch);
        return PF_NOMEM;
    }
    scratch->capacity = capacity;
    return PF_OK;
}

/* Push the merge of the symbol at `left` with its right neighbor, if there is one. */
static void push_candidate(const pf_bpe *bpe, pf_bpe_scratch *scratch, size_t *n_heap, int32_t left)
{
    const pf_bpe_symbol *s = scratch->symbols;
    if (left < 0 || s[left].next < 0) return;
    const pf_merge *merge = find_merge(bpe, s[left].id, s[s[left].next].id);
    if (merge)
        heap_push(scratch->heap, n_heap,
                  (pf_bpe_candidate){ .rank = merge->rank, .position = left, .merged = merge->merged });
}

static pf_status merge_all(const pf_bpe *bpe, pf_bpe_scratch *scratch, int32_t n, const volatile bool *cancel)
{
    pf_bpe_symbol *s = scratch->symbols;
    size_t n_heap = 0;
    for (int32_t i = 0; i + 1 < n; i++) push_candidate(bpe, scratch, &n_heap, i);

    while (n_heap > 0) {
        if (pf_is_told(cancel)) return PF_CANCELLED;
        const pf_bpe_candidate top = heap_pop(scratch->heap, &n_heap);
        const int32_t left = top.position, right = s[left].next;
        if (s[left].id < 0 || right < 0) continue;
        const pf_merge *merge = find_merge(bpe, s[left].id, s[right].id);
        if (!merge || merge->merged != top.merged) continue; /* stale */

        s[left].id = top.merged;
        s[left].next = s[right].next;
        s[right].id = -1;
        if (s[left].next >= 0) s[s[left].next].prev = left;
        push_candidate(bpe, scratch, &n_heap, s[left].prev);
        push_candidate(bpe, scratch, &n_heap, left);
    }
    return PF_OK;
}

/* Builds the initial tokens of a piece. */
typedef struct {
    const pf_bpe *bpe;
    pf_bpe_symbol *symbols;
    int32_t n;
    bool has_unknown; /* an unk_token is pending: the next unknown character may be fused with it */
} chain;

static void push(chain *c, int32_t id)
{
    c->symbols[c->n] = (pf_bpe_symbol){ .id = id, .prev = c->n - 1, .next = c->n + 1 };
    c->n++;
}

static void push_unknown(chain *c)
{
    if (c->has_unknown) push(c, c->bpe->unk_id);
    c->has_unknown = false;
}

static void push_known(chain *c, int32_t id)
{
    push_unknown(c);
    push(c, id);
}

static pf_status push_unknown_later(chain *c)
{
    if (c->bpe->unk_id < 0) return PF_UNSUPPORTED;
    if (!c->bpe->fuse_unk) push_unknown(c);
    c->has_unknown = true;
    return PF_OK;
}

static pf_status begin_bytes(chain *c, const char *piece, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        const int32_t id = c->bpe->byte_id[(unsigned char)piece[i]];
        if (id >= 0)
            push_known(c, id);
        else
            PF_TRY(push_unknown_later(c));
    }
    return PF_OK;
}

static bool has_bytes(const pf_bpe *bpe, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bpe->byte_id[(unsigned char)bytes[i]] < 0) return false;
    return true;
}

/* A pending unk_token is written after the byte tokens of a following character, as in the library. */
static pf_status begin_characters(chain *c, const char *piece, size_t n_bytes)
{
    for (size_t at = 0, next; at < n_bytes; at = next) {
        const int32_t id = find_character(c->bpe, pf_character_at(piece, at, &next))->id;
        if (id >= 0)
            push_known(c, id);
        else if (has_bytes(c->bpe, piece + at, next - at))
            for (size_t i = at; i < next; i++) push(c, c->bpe->byte_id[(unsigned char)piece[i]]);
        else
            PF_TRY(push_unknown_later(c));
    }
    return PF_OK;
}

pf_status pf_bpe_encode(const pf_bpe *bpe, pf_bpe_scratch *scratch, const char *piece, size_t n_bytes,
                        const volatile bool *cancel, pf_tokens *out)
{
    if (n_bytes == 0) return PF_OK;
    if (n_bytes > INT32_MAX) return PF_LIMIT;
    PF_TRY(reserve(scratch, n_bytes));
    chain c = { .bpe = bpe, .symbols = scratch->symbols };
    PF_TRY(bpe->characters ? begin_characters(&c, piece, n_bytes) : begin_bytes(&c, piece, n_bytes));
    push_unknown(&c);
    c.symbols[c.n - 1].next = -1;
    PF_TRY(merge_all(bpe, scratch, c.n, cancel));
    for (int32_t i = 0; i >= 0; i = scratch->symbols[i].next) PF_TRY(pf_tokens_push(out, scratch->symbols[i].id));
    return PF_OK;
}

pf_status pf_bpe_encode_byte(const pf_bpe *bpe, unsigned char byte, pf_tokens *out)
{
    const int32_t id = bpe->byte_id[byte] >= 0 ? bpe->byte_id[byte] : bpe->unk_id;
    return id >= 0 ? pf_tokens_push(out, id) : PF_UNSUPPORTED;
}
