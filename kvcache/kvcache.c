/*
 * Sequences: handles, lengths, and the list of stores that keep their tokens.
 *
 * Kept true between calls: a slot of length n is a place at which every store keeps n tokens.
 */
#include "kvcache/kvcache.h"

#include <assert.h>
#include <stdbool.h>

#include "base/arena.h"
#include "kvcache/page_store.h"

typedef struct {
    int32_t generation; /* 1 .. INT32_MAX; that of the handle which is alive, or will be next */
    int32_t length;     /* positions; -1: not alive */
    int32_t next_free;  /* slot, while not alive; -1: the last */
} slot;

struct pf_kv {
    pf_arena arena;
    pf_page_store *pages; /* the first of the stores */
    pf_store stores[1 + PF_KV_MAX_STORES];
    int32_t n_stores;
    int32_t max_sequences, max_tokens;
    int32_t free_slot; /* head of the list; -1: none */
    slot *slots;       /* [max_sequences] */
};

size_t pf_kv_page_bytes(const pf_kv_config *config)
{
    return pf_page_store_page_bytes(config);
}

/* ---- handles ---- */

/* The slot of a live handle, which is its place in every store; -1: not alive. */
static int32_t find(const pf_kv *kv, pf_kv_seq seq)
{
    const int64_t id = seq & UINT32_MAX;
    if (seq < 0 || id >= kv->max_sequences) return -1;
    const slot *s = &kv->slots[id];
    return s->length >= 0 && s->generation == seq >> 32 ? (int32_t)id : -1;
}

static pf_kv_seq handle_of(const pf_kv *kv, int32_t id)
{
    return (pf_kv_seq)kv->slots[id].generation << 32 | id;
}

/* ---- what all stores do alike ---- */

static int32_t reachable(const pf_kv *kv, int32_t id, int32_t wanted)
{
    for (int32_t before = -1; before != wanted;) {
        before = wanted;
        for (int32_t i = 0; i < kv->n_stores; i++) {
            const pf_store *s = &kv->stores[i];
            wanted = s->ops->reachable(s->state, id, kv->slots[id].length, wanted);
        }
    }
    return wanted;
}

/* Whether the sequence can be cut to the length. */
static bool reaches(const pf_kv *kv, int32_t id, int32_t length)
{
    return id >= 0 && length >= 0 && length <= kv->slots[id].length && reachable(kv, id, length) == length;
}

static void truncate_stores(pf_kv *kv, int32_t n_stores, int32_t id, int32_t length, int32_t to)
{
    for (int32_t i = 0; i < n_stores; i++) kv->stores[i].ops->truncate(kv->stores[i].state, id, length, to);
}

static pf_status take_slot(pf_kv *kv, int32_t *out)
{
    if (kv->free_slot < 0) return PF_LIMIT;
    *out = kv->free_slot;
    kv->free_slot = kv->slots[*out].next_free;
    kv->slots[*out].length = 0;
    return PF_OK;
}

/* ---- sequences ---- */

pf_status pf_kv_acquire(pf_kv *kv, pf_kv_seq *out)
{
    int32_t id;
    PF_TRY(take_slot(kv, &id));
    for (int32_t i = 0; i < kv->n_stores; i++) kv->stores[i].ops->begin(kv->stores[i].state, id);
    *out = handle_of(kv, id);
    return PF_OK;
}

pf_status pf_kv_fork(pf_kv *kv, pf_kv_seq parent, int32_t length, pf_kv_seq *out)
{
    int32_t child;
    const int32_t from = find(kv, parent);
    if (!reaches(kv, from, length)) return PF_INVALID;
    PF_TRY(take_slot(kv, &child));
    for (int32_t i = 0; i < kv->n_stores; i++) kv->stores[i].ops->fork(kv->stores[i].state, from, child, length);
    kv->slots[child].length = length;
    *out = handle_of(kv, child);
    return PF_OK;
}

pf_status pf_kv_extend(pf_kv *kv, pf_kv_seq seq, int32_t n_tokens)
{
    const int32_t id = find(kv, seq);
    if (id < 0 || n_tokens < 0) return PF_INVALID;
    if (n_tokens == 0) return PF_OK;
    const int32_t length = kv->slots[id].length;
    if (n_tokens > kv->max_tokens - length) return PF_LIMIT;
    for (int32_t i = 0; i < kv->n_stores; i++) {
        const pf_status status = kv->stores[i].ops->extend(kv->stores[i].state, id, length, n_tokens);
        if (status == PF_OK) continue;
        truncate_stores(kv, i, id, length + n_tokens, length);
        return status;
    }
    kv->slots[id].length = length + n_tokens;
    return PF_OK;
}

int32_t pf_kv_reachable(const pf_kv *kv, pf_kv_seq seq, int32_t wanted)
{
    const int32_t id = find(kv, seq);
    if (id < 0) return -1;
    const int32_t length = kv->slots[id].length;
    return reachable(kv, id, wanted < 0 ? 0 : wanted > length ? length : wanted);
}

static void shorten(pf_kv *kv, int32_t id, int32_t length)
{
    truncate_stores(kv, kv->n_stores, id, kv->slots[id].length, length);
    kv->slots[id].length = length;
}

pf_status pf_kv_truncate(pf_kv *kv, pf_kv_seq seq, int32_t length)
{
    const int32_t id = find(kv, seq);
    if (!reaches(kv, id, length)) return PF_INVALID;
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

pf_status pf_kv_keep(pf_kv *kv, pf_kv_seq seq, int32_t length, const int32_t *rows, int32_t n_rows)
{
    const int32_t id = find(kv, seq);
    if (!reaches(kv, id, length) || n_rows < 0) return PF_INVALID;
    const int32_t held = kv->slots[id].length, n_stay = rows_that_stay(rows, n_rows, held - length);
    if (n_stay < 0) return PF_INVALID;
    for (int32_t i = 0; i < kv->n_stores; i++)
        PF_TRY(kv->stores[i].ops->can_keep(kv->stores[i].state, id, length, rows, n_rows, n_stay));
    for (int32_t i = 0; i < kv->n_stores; i++)
        kv->stores[i].ops->keep(kv->stores[i].state, id, held, length, rows, n_rows, n_stay);
    kv->slots[id].length = length + n_rows;
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

size_t pf_kv_sequence_bytes(const pf_kv *kv, int32_t n_tokens)
{
    size_t total = 0;
    for (int32_t i = 0; i < kv->n_stores; i++) {
        const size_t bytes = kv->stores[i].ops->bytes(kv->stores[i].state, n_tokens);
        total = bytes > SIZE_MAX - total ? SIZE_MAX : total + bytes;
    }
    return total;
}

pf_kv_view pf_kv_layer(const pf_kv *kv, pf_kv_seq seq, int32_t layer)
{
    const int32_t id = find(kv, seq);
    assert(id >= 0 && layer >= 0 && layer < pf_page_store_config(kv->pages)->n_layers);
    return (pf_kv_view){ .key_pages = pf_page_store_keys(kv->pages, id, layer),
                         .value_pages = pf_page_store_values(kv->pages, id, layer),
                         .length = kv->slots[id].length };
}

int32_t pf_kv_place(const pf_kv *kv, pf_kv_seq seq)
{
    const int32_t id = find(kv, seq);
    assert(id >= 0);
    return id;
}

const pf_kv_config *pf_kv_get_config(const pf_kv *kv)
{
    return pf_page_store_config(kv->pages);
}

size_t pf_kv_pages(const pf_kv *kv)
{
    const pf_kv_config *config = pf_kv_get_config(kv);
    return config->budget_bytes / pf_kv_page_bytes(config);
}

size_t pf_kv_free_pages(const pf_kv *kv)
{
    return pf_page_store_free_pages(kv->pages);
}

/* ---- making and ending ---- */

/* The layout, once with an arena that only measures and once with one that gives. NULL: measured. */
static pf_kv *lay_out(pf_arena *arena, int32_t max_sequences)
{
    pf_kv *kv = pf_arena_take(arena, 1, sizeof *kv);
    slot *slots = pf_arena_take(arena, (size_t)max_sequences, sizeof *slots);
    if (!slots) return NULL;
    *kv = (pf_kv){ .max_sequences = max_sequences, .slots = slots };
    return kv;
}

/* All slots are free, the lowest taken first. */
static void start_empty(pf_kv *kv)
{
    for (int32_t i = 0; i < kv->max_sequences; i++)
        kv->slots[i] = (slot){ .generation = 1, .length = -1, .next_free = i + 1 };
    kv->slots[kv->max_sequences - 1].next_free = -1;
}

static pf_status create_slots(const pf_kv_config *config, pf_kv **out, pf_error *error)
{
    pf_arena arena = pf_arena_measure();
    (void)lay_out(&arena, config->max_sequences);
    const size_t bytes = arena.used;
    if (pf_arena_create(bytes, &arena) != PF_OK)
        return pf_fail(error, PF_NOMEM, "KV cache: no memory for the slots of %d sequences", config->max_sequences);
    pf_kv *kv = lay_out(&arena, config->max_sequences);
    kv->arena = arena;
    kv->max_tokens = config->max_tokens;
    start_empty(kv);
    *out = kv;
    return PF_OK;
}

pf_status pf_kv_create(const pf_kv_config *config, pf_kv **out, pf_error *error)
{
    if (config->n_stores < 0 || config->n_stores > PF_KV_MAX_STORES)
        return pf_fail(error, PF_INVALID, "KV cache: n_stores is %d, expected 0 to %d", config->n_stores,
                       PF_KV_MAX_STORES);
    pf_page_store *pages;
    pf_kv *kv;
    PF_TRY(pf_page_store_create(config, &pages, error));
    const pf_store of_pages = pf_page_store_as_store(pages);
    const pf_status status = create_slots(config, &kv, error);
    if (status != PF_OK) {
        of_pages.ops->destroy(of_pages.state);
        return status;
    }
    kv->pages = pages;
    kv->stores[kv->n_stores++] = of_pages;
    for (int32_t i = 0; i < config->n_stores; i++) kv->stores[kv->n_stores++] = config->stores[i];
    *out = kv;
    return PF_OK;
}

void pf_kv_populate(const pf_kv *kv, pf_team *team)
{
    pf_page_store_populate(kv->pages, team);
}

void pf_kv_destroy(pf_kv *kv)
{
    if (!kv) return;
    for (int32_t i = 0; i < kv->n_stores; i++) kv->stores[i].ops->destroy(kv->stores[i].state);
    pf_arena arena = kv->arena; /* kv lies in it */
    pf_arena_destroy(&arena);
}
