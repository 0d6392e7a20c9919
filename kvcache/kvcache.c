/*
 * The layout of a cache, which is one arena:
 *
 *    pf_kv | page refs [n_pages] | free list [n_pages] | slots [max_sequences] | page numbers [max_sequences, max_pages]
 *          | page addresses [max_sequences, n_blocks, max_pages] | pool [n_pages, page_bytes]
 *
 * A page has two blocks a layer: block 2 l is the keys of layer l, block 2 l + 1 its values.
 *
 * A sequence's pages are kept twice: as numbers, to count references and to free, and as addresses of each layer's
 * keys and values, so that a view costs nothing and a kernel does no arithmetic on page numbers.
 *
 * Kept true between calls: refs[p] is the number of sequences that have page p; the free list holds the pages
 * with refs 0; a sequence of length n has ceil(n / page_tokens) pages; a page with refs > 1 is not written.
 */
#include "kvcache/kvcache.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "kernels/attn/attn.h"

#if !defined(NDEBUG) || defined(PF_POISON)
enum { POISON = true };
#else
enum { POISON = false };
#endif

enum { MAX_SEQUENCES = 1 << 20, NAN_BYTE = 0xFF /* all bits set is a NaN, in binary32 and in bf16 */ };

typedef struct {
    int32_t generation; /* 1 .. INT32_MAX; that of the handle which is alive, or will be next */
    int32_t length;     /* positions; -1: not alive */
    int32_t next_free;  /* slot, while not alive; -1: the last */
} slot;

struct pf_kv {
    pf_kv_config config;
    pf_arena arena;
    size_t head_bytes;  /* the keys, or the values, of one head in one page: attn.h has their order */
    size_t block_bytes; /* the keys, or the values, of one layer in one page */
    size_t page_bytes;
    int32_t n_blocks;                   /* of a page */
    int32_t n_pages, n_free, max_pages; /* max_pages: of one sequence */
    int32_t free_slot;                  /* head of the list; -1: none */
    int32_t *refs;                      /* [n_pages] */
    int32_t *free_pages;                /* [n_pages], the first n_free of which are valid; taken from the end */
    slot *slots;                        /* [max_sequences] */
    int32_t *pages;                     /* [max_sequences, max_pages] */
    void **addresses;                   /* [max_sequences, n_blocks, max_pages] */
    unsigned char *pool;                /* [n_pages, n_blocks, block_bytes] */
};

/* ---- shapes ---- */

static int32_t pages_for(int64_t n_tokens, int32_t page_tokens)
{
    return (int32_t)((n_tokens + page_tokens - 1) / page_tokens);
}

static pf_status check_positive(const char *field, int32_t value, pf_error *error)
{
    return value > 0 ? PF_OK : pf_fail(error, PF_INVALID, "KV cache: %s is %d, expected at least 1", field, value);
}

static pf_status check_config(const pf_kv_config *c, pf_error *error)
{
    if (c->type != PF_TYPE_F32 && c->type != PF_TYPE_BF16)
        return pf_fail(error, PF_INVALID, "KV cache: the type is %d, expected f32 or bf16", (int)c->type);
    PF_TRY(check_positive("n_layers", c->n_layers, error));
    PF_TRY(check_positive("n_kv_heads", c->n_kv_heads, error));
    PF_TRY(check_positive("head_dim", c->head_dim, error));
    PF_TRY(check_positive("max_tokens", c->max_tokens, error));
    if (c->page_tokens < 16 || c->page_tokens > 1024 || (c->page_tokens & (c->page_tokens - 1)) != 0)
        return pf_fail(error, PF_INVALID, "KV cache: page_tokens is %d, expected a power of two from 16 to 1024",
                       c->page_tokens);
    if (c->max_sequences < 1 || c->max_sequences > MAX_SEQUENCES)
        return pf_fail(error, PF_INVALID, "KV cache: max_sequences is %d, expected 1 to %d", c->max_sequences,
                       MAX_SEQUENCES);
    return PF_OK;
}

/* The sizes that follow from a valid configuration. False: they overflow. */
static bool shape(const pf_kv_config *c, pf_kv *out)
{
    const size_t row_bytes = pf_attn_width(c->type, c->head_dim) * pf_type_bytes(c->type);
    if (!pf_size_mul((size_t)c->page_tokens, row_bytes, &out->head_bytes)) return false;
    if (!pf_size_mul((size_t)c->n_kv_heads, out->head_bytes, &out->block_bytes)) return false;
    if (out->block_bytes > SIZE_MAX / 2) return false;
    out->block_bytes = pf_round_up(out->block_bytes, PF_ARENA_ALIGN);
    if (c->n_layers > INT32_MAX / 2) return false;
    out->n_blocks = 2 * c->n_layers;
    return pf_size_mul((size_t)out->n_blocks, out->block_bytes, &out->page_bytes);
}

size_t pf_kv_page_bytes(const pf_kv_config *config)
{
    pf_kv sizes;
    return check_config(config, NULL) == PF_OK && shape(config, &sizes) ? sizes.page_bytes : 0;
}

/* [max_pages] where a block of each page of a sequence lies. */
static void **address_table(const pf_kv *kv, int32_t slot_id, int32_t block)
{
    const size_t table = (size_t)slot_id * (size_t)kv->n_blocks + (size_t)block;
    return kv->addresses + table * (size_t)kv->max_pages;
}

static int32_t *page_table(const pf_kv *kv, int32_t slot_id)
{
    return kv->pages + (size_t)slot_id * (size_t)kv->max_pages;
}

static unsigned char *block_at(const pf_kv *kv, int32_t page, int32_t block)
{
    return kv->pool + (size_t)page * kv->page_bytes + (size_t)block * kv->block_bytes;
}

static bool has_values(int32_t block)
{
    return block % 2 == 1;
}

static int32_t pages_of(const pf_kv *kv, int32_t length)
{
    return pages_for(length, kv->config.page_tokens);
}

/* ---- handles ---- */

/* The slot of a live handle; -1: not alive. */
static int32_t find(const pf_kv *kv, pf_kv_seq seq)
{
    const int64_t id = seq & UINT32_MAX;
    if (seq < 0 || id >= kv->config.max_sequences) return -1;
    const slot *s = &kv->slots[id];
    return s->length >= 0 && s->generation == seq >> 32 ? (int32_t)id : -1;
}

static pf_kv_seq handle_of(const pf_kv *kv, int32_t slot_id)
{
    return (pf_kv_seq)kv->slots[slot_id].generation << 32 | slot_id;
}

/* ---- pages ---- */

static int32_t take_page(pf_kv *kv)
{
    assert(kv->n_free > 0);
    const int32_t page = kv->free_pages[--kv->n_free];
    assert(kv->refs[page] == 0);
    kv->refs[page] = 1;
    if (POISON) memset(block_at(kv, page, 0), NAN_BYTE, kv->page_bytes);
    return page;
}

static void drop_page(pf_kv *kv, int32_t page)
{
    assert(kv->refs[page] > 0);
    if (--kv->refs[page] > 0) return;
    if (POISON) memset(block_at(kv, page, 0), NAN_BYTE, kv->page_bytes);
    kv->free_pages[kv->n_free++] = page;
}

static void set_page(pf_kv *kv, int32_t slot_id, int32_t index, int32_t page)
{
    page_table(kv, slot_id)[index] = page;
    for (int32_t b = 0; b < kv->n_blocks; b++) address_table(kv, slot_id, b)[index] = block_at(kv, page, b);
}

/* Element d of a head's key or value in a slot of a page. */
static unsigned char *element_at(const pf_kv *kv, int32_t page, int32_t block, int32_t head, int32_t slot_in_page,
                                 int32_t d)
{
    const pf_kv_config *c = &kv->config;
    const pf_attn_pages pages = { .page_tokens = c->page_tokens, .head_dim = c->head_dim };
    const size_t element = has_values(block) ? pf_attn_value_at(&pages, c->type, head, slot_in_page, d)
                                             : pf_attn_key_at(&pages, c->type, head, slot_in_page, d);
    return block_at(kv, page, block) + element * pf_type_bytes(c->type);
}

/* Fill what a sequence's last page holds from position `length` on with NaN, unless others share the page. */
static void poison_behind(pf_kv *kv, int32_t id, int32_t length)
{
    const int32_t begin = length % kv->config.page_tokens;
    if (begin == 0) return;
    const int32_t page = page_table(kv, id)[length / kv->config.page_tokens];
    if (kv->refs[page] > 1) return;
    for (int32_t b = 0; b < kv->n_blocks; b++)
        for (int32_t h = 0; h < kv->config.n_kv_heads; h++)
            for (int32_t position = begin; position < kv->config.page_tokens; position++)
                for (int32_t d = 0; d < kv->config.head_dim; d++)
                    memset(element_at(kv, page, b, h, position, d), NAN_BYTE, pf_type_bytes(kv->config.type));
}

/* Copy positions 0 .. n_tokens-1 of a page, and what lies behind them up to a multiple of 16. */
static void copy_head(pf_kv *kv, int32_t to, int32_t from, int32_t n_tokens)
{
    const size_t page_tokens = (size_t)kv->config.page_tokens;
    const size_t bytes = pf_round_up((size_t)n_tokens, PF_ATTN_SIXTEEN) * (kv->head_bytes / page_tokens);
    for (int32_t b = 0; b < kv->n_blocks; b++)
        for (int32_t h = 0; h < kv->config.n_kv_heads; h++)
            memcpy(block_at(kv, to, b) + (size_t)h * kv->head_bytes, block_at(kv, from, b) + (size_t)h * kv->head_bytes,
                   bytes);
}

/* ---- sequences ---- */

static pf_status acquire_slot(pf_kv *kv, int32_t *out)
{
    if (kv->free_slot < 0) return PF_LIMIT;
    *out = kv->free_slot;
    kv->free_slot = kv->slots[*out].next_free;
    kv->slots[*out].length = 0;
    return PF_OK;
}

pf_status pf_kv_acquire(pf_kv *kv, pf_kv_seq *out)
{
    int32_t id;
    PF_TRY(acquire_slot(kv, &id));
    *out = handle_of(kv, id);
    return PF_OK;
}

pf_status pf_kv_fork(pf_kv *kv, pf_kv_seq parent, int32_t length, pf_kv_seq *out)
{
    int32_t child;
    const int32_t from = find(kv, parent);
    if (from < 0 || length < 0 || length > kv->slots[from].length) return PF_INVALID;
    PF_TRY(acquire_slot(kv, &child));

    const size_t n = (size_t)pages_of(kv, length);
    memcpy(page_table(kv, child), page_table(kv, from), n * sizeof(int32_t));
    for (int32_t b = 0; b < kv->n_blocks; b++)
        memcpy(address_table(kv, child, b), address_table(kv, from, b), n * sizeof(void *));
    for (size_t i = 0; i < n; i++) kv->refs[page_table(kv, child)[i]]++;
    kv->slots[child].length = length;
    *out = handle_of(kv, child);
    return PF_OK;
}

/* Give the sequence its own copy of a page that it shares. One page must be free. */
static void own_page(pf_kv *kv, int32_t id, int32_t index)
{
    const int32_t length = kv->slots[id].length, page_tokens = kv->config.page_tokens;
    const int32_t n_held = length - index * page_tokens;
    const int32_t shared = page_table(kv, id)[index], own = take_page(kv);
    copy_head(kv, own, shared, n_held < page_tokens ? n_held : page_tokens);
    drop_page(kv, shared);
    set_page(kv, id, index, own);
    if (POISON) poison_behind(kv, id, length);
}

pf_status pf_kv_extend(pf_kv *kv, pf_kv_seq seq, int32_t n_tokens)
{
    const int32_t id = find(kv, seq);
    if (id < 0 || n_tokens < 0) return PF_INVALID;
    if (n_tokens == 0) return PF_OK;
    slot *s = &kv->slots[id];
    if (n_tokens > kv->config.max_tokens - s->length) return PF_LIMIT;

    const int32_t have = pages_of(kv, s->length), want = pages_of(kv, s->length + n_tokens);
    const bool copy = s->length % kv->config.page_tokens != 0 && kv->refs[page_table(kv, id)[have - 1]] > 1;
    if (want - have + copy > kv->n_free) return PF_LIMIT;

    if (copy) own_page(kv, id, have - 1);
    for (int32_t i = have; i < want; i++) set_page(kv, id, i, take_page(kv));
    s->length += n_tokens;
    return PF_OK;
}

static void shorten(pf_kv *kv, int32_t id, int32_t length)
{
    slot *s = &kv->slots[id];
    const int32_t have = pages_of(kv, s->length), keep = pages_of(kv, length);
    for (int32_t i = have; i-- > keep;) drop_page(kv, page_table(kv, id)[i]);
    if (POISON) poison_behind(kv, id, length);
    s->length = length;
}

pf_status pf_kv_truncate(pf_kv *kv, pf_kv_seq seq, int32_t length)
{
    const int32_t id = find(kv, seq);
    if (id < 0 || length < 0 || length > kv->slots[id].length) return PF_INVALID;
    shorten(kv, id, length);
    return PF_OK;
}

/* How many of `rows` stay where they are, the first ones; -1: they do not ascend, or one is not below n_there. */
static int32_t rows_that_stay(const int32_t *rows, int32_t n_rows, int32_t n_there)
{
    int32_t n_stay = 0;
    for (int32_t i = 0; i < n_rows; i++) {
        if (rows[i] < 0 || rows[i] >= n_there || (i > 0 && rows[i] <= rows[i - 1])) return -1;
        n_stay += rows[i] == i;
    }
    return n_stay;
}

static void move_position(pf_kv *kv, int32_t id, int32_t to, int32_t from)
{
    const int32_t page_tokens = kv->config.page_tokens, *pages = page_table(kv, id);
    for (int32_t b = 0; b < kv->n_blocks; b++)
        for (int32_t h = 0; h < kv->config.n_kv_heads; h++)
            (has_values(b) ? pf_attn_copy_value
                           : pf_attn_copy_key)(kv->config.type, kv->config.head_dim,
                                               element_at(kv, pages[to / page_tokens], b, h, to % page_tokens, 0),
                                               element_at(kv, pages[from / page_tokens], b, h, from % page_tokens, 0));
}

pf_status pf_kv_keep(pf_kv *kv, pf_kv_seq seq, int32_t length, const int32_t *rows, int32_t n_rows)
{
    const int32_t id = find(kv, seq);
    if (id < 0 || length < 0 || length > kv->slots[id].length || n_rows < 0) return PF_INVALID;
    const int32_t n_stay = rows_that_stay(rows, n_rows, kv->slots[id].length - length);
    if (n_stay < 0) return PF_INVALID;

    const int32_t begin = (length + n_stay) / kv->config.page_tokens;
    const int32_t end = n_stay < n_rows ? pages_of(kv, length + n_rows) : begin; /* the pages that are written */
    int32_t n_copies = 0;
    for (int32_t i = begin; i < end; i++) n_copies += kv->refs[page_table(kv, id)[i]] > 1;
    if (n_copies > kv->n_free) return PF_LIMIT;

    for (int32_t i = begin; i < end; i++)
        if (kv->refs[page_table(kv, id)[i]] > 1) own_page(kv, id, i);
    for (int32_t i = n_stay; i < n_rows; i++) move_position(kv, id, length + i, length + rows[i]);
    shorten(kv, id, length + n_rows);
    return PF_OK;
}

void pf_kv_release(pf_kv *kv, pf_kv_seq seq)
{
    const int32_t id = find(kv, seq);
    if (id < 0) return;
    shorten(kv, id, 0);
    slot *s = &kv->slots[id];
    s->length = -1;
    s->generation = s->generation == INT32_MAX ? 1 : s->generation + 1;
    s->next_free = kv->free_slot;
    kv->free_slot = id;
}

/* ---- looking ---- */

int32_t pf_kv_length(const pf_kv *kv, pf_kv_seq seq)
{
    const int32_t id = find(kv, seq);
    return id < 0 ? -1 : kv->slots[id].length;
}

pf_kv_view pf_kv_layer(const pf_kv *kv, pf_kv_seq seq, int32_t layer)
{
    const int32_t id = find(kv, seq);
    assert(id >= 0 && layer >= 0 && layer < kv->config.n_layers);
    return (pf_kv_view){ .key_pages = address_table(kv, id, 2 * layer),
                         .value_pages = address_table(kv, id, 2 * layer + 1),
                         .length = kv->slots[id].length };
}

const pf_kv_config *pf_kv_get_config(const pf_kv *kv)
{
    return &kv->config;
}

size_t pf_kv_free_pages(const pf_kv *kv)
{
    return (size_t)kv->n_free;
}

/* ---- making and ending ---- */

/* The layout, once with an arena that only measures and once with one that gives. NULL: measured, or did not fit. */
static pf_kv *lay_out(pf_arena *arena, const pf_kv *sizes)
{
    const pf_kv_config *c = &sizes->config;
    const size_t n_pages = (size_t)sizes->n_pages, n_seqs = (size_t)c->max_sequences;
    const size_t max_pages = (size_t)sizes->max_pages;
    size_t n_tables;
    if (!pf_size_mul(n_seqs, (size_t)sizes->n_blocks, &n_tables) || !pf_size_mul(n_tables, max_pages, &n_tables))
        n_tables = SIZE_MAX; /* pf_arena_take sees that it does not fit */

    pf_kv *kv = pf_arena_take(arena, 1, sizeof *kv);
    int32_t *refs = pf_arena_take(arena, n_pages, sizeof *refs);
    int32_t *free_pages = pf_arena_take(arena, n_pages, sizeof *free_pages);
    slot *slots = pf_arena_take(arena, n_seqs, sizeof *slots);
    int32_t *pages = pf_arena_take(arena, n_seqs * max_pages, sizeof *pages);
    void **addresses = pf_arena_take(arena, n_tables, sizeof *addresses);
    unsigned char *pool = pf_arena_take(arena, n_pages, sizes->page_bytes);
    if (!pool) return NULL;
    *kv = *sizes;
    kv->refs = refs;
    kv->free_pages = free_pages;
    kv->slots = slots;
    kv->pages = pages;
    kv->addresses = addresses;
    kv->pool = pool;
    return kv;
}

/* All pages and slots free, the lowest taken first. */
static void start_empty(pf_kv *kv)
{
    for (int32_t i = 0; i < kv->n_pages; i++) kv->free_pages[i] = kv->n_pages - 1 - i;
    kv->n_free = kv->n_pages;
    for (int32_t i = 0; i < kv->config.max_sequences; i++)
        kv->slots[i] = (slot){ .generation = 1, .length = -1, .next_free = i + 1 };
    kv->slots[kv->config.max_sequences - 1].next_free = -1;
    kv->free_slot = 0;
}

pf_status pf_kv_create(const pf_kv_config *config, pf_kv **out, pf_error *error)
{
    pf_kv sizes = { .config = *config };
    PF_TRY(check_config(config, error));
    if (!shape(config, &sizes)) return pf_fail(error, PF_INVALID, "KV cache: the size of a page overflows");
    const size_t n_pages = config->budget_bytes / sizes.page_bytes;
    if (n_pages < 1 || n_pages > INT32_MAX)
        return pf_fail(error, PF_INVALID, "KV cache: budget_bytes is %zu, expected 1 to %d pages of %zu bytes",
                       config->budget_bytes, INT32_MAX, sizes.page_bytes);
    sizes.n_pages = (int32_t)n_pages;
    sizes.max_pages = pages_for(config->max_tokens, config->page_tokens);

    pf_arena arena = pf_arena_measure();
    (void)lay_out(&arena, &sizes);
    const size_t bytes = arena.used;
    if (pf_arena_create(bytes, &arena) != PF_OK)
        return pf_fail(error, PF_NOMEM, "KV cache: no memory for %zu bytes (%d pages of %zu)", bytes, sizes.n_pages,
                       sizes.page_bytes);
    pf_kv *kv = lay_out(&arena, &sizes);
    assert(kv && "the two passes lay out alike");
    kv->arena = arena;
    start_empty(kv);
    *out = kv;
    return PF_OK;
}

void pf_kv_populate(const pf_kv *kv, pf_team *team)
{
    pf_arena_populate(&kv->arena, (size_t)(kv->pool - kv->arena.base) + kv->page_bytes, team);
}

void pf_kv_destroy(pf_kv *kv)
{
    if (!kv) return;
    pf_arena arena = kv->arena; /* kv lies in it */
    pf_arena_destroy(&arena);
}
