/*
 * The layout of a store of pages, which is one arena:
 *
 *    pf_page_store | page refs [n_pages] | free list [n_pages] | page numbers [max_sequences, max_pages]
 *                  | page addresses [max_sequences, n_blocks, max_pages] | pool [n_pages, page_bytes]
 *
 * A page has two blocks a layer: block 2 l is the keys of layer l, block 2 l + 1 its values.
 *
 * A sequence's pages are kept twice: as numbers, to count references and to free, and as addresses of each layer's
 * keys and values, so that a view costs nothing and a kernel does no arithmetic on page numbers.
 *
 * Kept true between calls: refs[p] is the number of sequences that have page p; the free list holds the pages
 * with refs 0; a sequence of length n has ceil(n / page_tokens) pages; a page with refs > 1 is not written.
 */
#include "kvcache/page_store.h"

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

struct pf_page_store {
    pf_kv_config config;
    pf_arena arena;
    size_t head_bytes;  /* the keys, or the values, of one head in one page: attn.h has their order */
    size_t block_bytes; /* the keys, or the values, of one layer in one page */
    size_t page_bytes;
    int32_t n_blocks;                   /* of a page */
    int32_t n_pages, n_free, max_pages; /* max_pages: of one sequence */
    int32_t *refs;                      /* [n_pages] */
    int32_t *free_pages;                /* [n_pages], the first n_free of which are valid; taken from the end */
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
static bool shape(const pf_kv_config *c, pf_page_store *out)
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

size_t pf_page_store_page_bytes(const pf_kv_config *config)
{
    pf_page_store sizes;
    return check_config(config, NULL) == PF_OK && shape(config, &sizes) ? sizes.page_bytes : 0;
}

/* [max_pages] where a block of each page of a sequence lies. */
static void **address_table(const pf_page_store *store, int32_t place, int32_t block)
{
    const size_t table = (size_t)place * (size_t)store->n_blocks + (size_t)block;
    return store->addresses + table * (size_t)store->max_pages;
}

static int32_t *page_table(const pf_page_store *store, int32_t place)
{
    return store->pages + (size_t)place * (size_t)store->max_pages;
}

static unsigned char *block_at(const pf_page_store *store, int32_t page, int32_t block)
{
    return store->pool + (size_t)page * store->page_bytes + (size_t)block * store->block_bytes;
}

static bool has_values(int32_t block)
{
    return block % 2 == 1;
}

static int32_t pages_of(const pf_page_store *store, int32_t length)
{
    return pages_for(length, store->config.page_tokens);
}

/* ---- pages ---- */

static int32_t take_page(pf_page_store *store)
{
    assert(store->n_free > 0);
    const int32_t page = store->free_pages[--store->n_free];
    assert(store->refs[page] == 0);
    store->refs[page] = 1;
    if (POISON) memset(block_at(store, page, 0), NAN_BYTE, store->page_bytes);
    return page;
}

static void drop_page(pf_page_store *store, int32_t page)
{
    assert(store->refs[page] > 0);
    if (--store->refs[page] > 0) return;
    if (POISON) memset(block_at(store, page, 0), NAN_BYTE, store->page_bytes);
    store->free_pages[store->n_free++] = page;
}

static void set_page(pf_page_store *store, int32_t place, int32_t index, int32_t page)
{
    page_table(store, place)[index] = page;
    for (int32_t b = 0; b < store->n_blocks; b++) address_table(store, place, b)[index] = block_at(store, page, b);
}

/* Element d of a head's key or value in a slot of a page. */
static unsigned char *element_at(const pf_page_store *store, int32_t page, int32_t block, int32_t head,
                                 int32_t slot_in_page, int32_t d)
{
    const pf_kv_config *c = &store->config;
    const pf_attn_pages pages = { .page_tokens = c->page_tokens, .head_dim = c->head_dim };
    const size_t element = has_values(block) ? pf_attn_value_at(&pages, c->type, head, slot_in_page, d)
                                             : pf_attn_key_at(&pages, c->type, head, slot_in_page, d);
    return block_at(store, page, block) + element * pf_type_bytes(c->type);
}

/* Fill what a sequence's last page holds from position `length` on with NaN, unless others share the page. */
static void poison_behind(pf_page_store *store, int32_t id, int32_t length)
{
    const int32_t begin = length % store->config.page_tokens;
    if (begin == 0) return;
    const int32_t page = page_table(store, id)[length / store->config.page_tokens];
    if (store->refs[page] > 1) return;
    for (int32_t b = 0; b < store->n_blocks; b++)
        for (int32_t h = 0; h < store->config.n_kv_heads; h++)
            for (int32_t position = begin; position < store->config.page_tokens; position++)
                for (int32_t d = 0; d < store->config.head_dim; d++)
                    memset(element_at(store, page, b, h, position, d), NAN_BYTE, pf_type_bytes(store->config.type));
}

/* Copy positions 0 .. n_tokens-1 of a page, and what lies behind them up to a multiple of 16. */
static void copy_head(pf_page_store *store, int32_t to, int32_t from, int32_t n_tokens)
{
    const size_t page_tokens = (size_t)store->config.page_tokens;
    const size_t bytes = pf_round_up((size_t)n_tokens, PF_ATTN_SIXTEEN) * (store->head_bytes / page_tokens);
    for (int32_t b = 0; b < store->n_blocks; b++)
        for (int32_t h = 0; h < store->config.n_kv_heads; h++)
            memcpy(block_at(store, to, b) + (size_t)h * store->head_bytes,
                   block_at(store, from, b) + (size_t)h * store->head_bytes, bytes);
}

/* ---- the contract ---- */

static void begin(void *state, int32_t place) /* no pages */
{
    (void)state, (void)place;
}

static void fork_place(void *state, int32_t parent, int32_t child, int32_t length)
{
    pf_page_store *store = state;
    const size_t n = (size_t)pages_of(store, length);
    memcpy(page_table(store, child), page_table(store, parent), n * sizeof(int32_t));
    for (int32_t b = 0; b < store->n_blocks; b++)
        memcpy(address_table(store, child, b), address_table(store, parent, b), n * sizeof(void *));
    for (size_t i = 0; i < n; i++) store->refs[page_table(store, child)[i]]++;
}

/* Give the place its own copy of a page that it shares, of `length` positions in all. One page must be free. */
static void own_page(pf_page_store *store, int32_t place, int32_t length, int32_t index)
{
    const int32_t page_tokens = store->config.page_tokens, n_held = length - index * page_tokens;
    const int32_t shared = page_table(store, place)[index], own = take_page(store);
    copy_head(store, own, shared, n_held < page_tokens ? n_held : page_tokens);
    drop_page(store, shared);
    set_page(store, place, index, own);
    if (POISON) poison_behind(store, place, length);
}

static pf_status extend(void *state, int32_t place, int32_t length, int32_t n_tokens)
{
    pf_page_store *store = state;
    const int32_t have = pages_of(store, length), want = pages_of(store, length + n_tokens);
    const bool copy = length % store->config.page_tokens != 0 && store->refs[page_table(store, place)[have - 1]] > 1;
    if (want - have + copy > store->n_free) return PF_LIMIT;

    if (copy) own_page(store, place, length, have - 1);
    for (int32_t i = have; i < want; i++) set_page(store, place, i, take_page(store));
    return PF_OK;
}

static int32_t reachable(const void *state, int32_t place, int32_t length, int32_t wanted)
{
    (void)state, (void)place, (void)length;
    return wanted;
}

static void truncate_place(void *state, int32_t place, int32_t length, int32_t to)
{
    pf_page_store *store = state;
    const int32_t have = pages_of(store, length), keep = pages_of(store, to);
    for (int32_t i = have; i-- > keep;) drop_page(store, page_table(store, place)[i]);
    if (POISON) poison_behind(store, place, to);
}

/* The pages that keeping rows writes. */
static void pages_written(const pf_page_store *store, int32_t base, int32_t n_rows, int32_t n_stay, int32_t *begin_page,
                          int32_t *end_page)
{
    *begin_page = (base + n_stay) / store->config.page_tokens;
    *end_page = n_stay < n_rows ? pages_of(store, base + n_rows) : *begin_page;
}

static pf_status can_keep(const void *state, int32_t place, int32_t base, const int32_t *rows, int32_t n_rows,
                          int32_t n_stay)
{
    const pf_page_store *store = state;
    int32_t first, end, n_copies = 0;
    (void)rows;
    pages_written(store, base, n_rows, n_stay, &first, &end);
    for (int32_t i = first; i < end; i++) n_copies += store->refs[page_table(store, place)[i]] > 1;
    return n_copies > store->n_free ? PF_LIMIT : PF_OK;
}

static void move_position(pf_page_store *store, int32_t place, int32_t to, int32_t from)
{
    const int32_t page_tokens = store->config.page_tokens, *pages = page_table(store, place);
    for (int32_t b = 0; b < store->n_blocks; b++)
        for (int32_t h = 0; h < store->config.n_kv_heads; h++)
            (has_values(b) ? pf_attn_copy_value : pf_attn_copy_key)(
                store->config.type, store->config.head_dim,
                element_at(store, pages[to / page_tokens], b, h, to % page_tokens, 0),
                element_at(store, pages[from / page_tokens], b, h, from % page_tokens, 0));
}

static void keep(void *state, int32_t place, int32_t length, int32_t base, const int32_t *rows, int32_t n_rows,
                 int32_t n_stay)
{
    pf_page_store *store = state;
    int32_t first, end;
    pages_written(store, base, n_rows, n_stay, &first, &end);
    for (int32_t i = first; i < end; i++)
        if (store->refs[page_table(store, place)[i]] > 1) own_page(store, place, length, i);
    for (int32_t i = n_stay; i < n_rows; i++) move_position(store, place, base + i, base + rows[i]);
    truncate_place(store, place, length, base + n_rows);
}

static size_t bytes(const void *state, int32_t n_tokens)
{
    const pf_page_store *store = state;
    size_t total;
    return pf_size_mul((size_t)pages_of(store, n_tokens), store->page_bytes, &total) ? total : SIZE_MAX;
}

static void destroy(void *state)
{
    pf_page_store *store = state;
    pf_arena arena = store->arena; /* store lies in it */
    pf_arena_destroy(&arena);
}

pf_store pf_page_store_as_store(pf_page_store *pages)
{
    static const pf_store_ops ops = { .begin = begin,
                                      .fork = fork_place,
                                      .extend = extend,
                                      .reachable = reachable,
                                      .truncate = truncate_place,
                                      .can_keep = can_keep,
                                      .keep = keep,
                                      .bytes = bytes,
                                      .destroy = destroy };
    return (pf_store){ &ops, pages };
}

/* ---- looking ---- */

void *const *pf_page_store_keys(const pf_page_store *pages, int32_t place, int32_t layer)
{
    return address_table(pages, place, 2 * layer);
}

void *const *pf_page_store_values(const pf_page_store *pages, int32_t place, int32_t layer)
{
    return address_table(pages, place, 2 * layer + 1);
}

const pf_kv_config *pf_page_store_config(const pf_page_store *pages)
{
    return &pages->config;
}

size_t pf_page_store_free_pages(const pf_page_store *pages)
{
    return (size_t)pages->n_free;
}

/* ---- making and ending ---- */

/* The layout, once with an arena that only measures and once with one that gives. NULL: measured, or did not fit. */
static pf_page_store *lay_out(pf_arena *arena, const pf_page_store *sizes)
{
    const pf_kv_config *c = &sizes->config;
    const size_t n_pages = (size_t)sizes->n_pages, n_seqs = (size_t)c->max_sequences;
    const size_t max_pages = (size_t)sizes->max_pages;
    size_t n_tables;
    if (!pf_size_mul(n_seqs, (size_t)sizes->n_blocks, &n_tables) || !pf_size_mul(n_tables, max_pages, &n_tables))
        n_tables = SIZE_MAX; /* pf_arena_take sees that it does not fit */

    pf_page_store *store = pf_arena_take(arena, 1, sizeof *store);
    int32_t *refs = pf_arena_take(arena, n_pages, sizeof *refs);
    int32_t *free_pages = pf_arena_take(arena, n_pages, sizeof *free_pages);
    int32_t *pages = pf_arena_take(arena, n_seqs * max_pages, sizeof *pages);
    void **addresses = pf_arena_take(arena, n_tables, sizeof *addresses);
    unsigned char *pool = pf_arena_take(arena, n_pages, sizes->page_bytes);
    if (!pool) return NULL;
    *store = *sizes;
    store->refs = refs;
    store->free_pages = free_pages;
    store->pages = pages;
    store->addresses = addresses;
    store->pool = pool;
    return store;
}

/* All pages are free, the lowest taken first. */
static void start_empty(pf_page_store *store)
{
    for (int32_t i = 0; i < store->n_pages; i++) store->free_pages[i] = store->n_pages - 1 - i;
    store->n_free = store->n_pages;
}

pf_status pf_page_store_create(const pf_kv_config *config, pf_page_store **out, pf_error *error)
{
    pf_page_store sizes = { .config = *config };
    sizes.config.stores = NULL; /* the cache's */
    sizes.config.n_stores = 0;
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
    pf_page_store *store = lay_out(&arena, &sizes);
    assert(store && "the two passes lay out alike");
    store->arena = arena;
    start_empty(store);
    *out = store;
    return PF_OK;
}

void pf_page_store_populate(const pf_page_store *store, pf_team *team)
{
    pf_arena_populate(&store->arena, (size_t)(store->pool - store->arena.base) + store->page_bytes, team);
}
