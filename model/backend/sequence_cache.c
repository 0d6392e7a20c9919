#include "model/backend/sequence_cache.h"

#include <string.h>

#include "base/checked.h"

enum { RETAINED = -1, NONE = -2 };

static const pf_forward_backend *backend_of(const pf_sequence_cache *cache)
{
    return &cache->config.backend;
}

static pf_cached_sequence *of_slot(const pf_sequence_cache *cache, int32_t slot)
{
    const int32_t place = cache->place_of[slot];
    return place >= 0 ? &cache->places[place] : NULL;
}

static int32_t length_of(const pf_sequence_cache *cache, const pf_cached_sequence *s)
{
    return pf_forward_length(backend_of(cache), s->sequence);
}

static int32_t reachable(const pf_sequence_cache *cache, const pf_cached_sequence *s, int32_t length)
{
    return pf_forward_reachable(backend_of(cache), s->sequence, length);
}

static int32_t count_equal(const int32_t *a, const int32_t *b, int32_t begin, int32_t end)
{
    while (begin < end && a[begin] == b[begin]) begin++;
    return begin;
}

static pf_status cut(pf_sequence_cache *cache, pf_cached_sequence *s, int32_t length)
{
    PF_TRY(pf_forward_truncate(backend_of(cache), s->sequence, length));
    pf_prefix_cut(&s->blocks, length);
    return PF_OK;
}

/* ---- places ---------------------------------------------------------------------------------------------------- */

static pf_cached_sequence *find_free(const pf_sequence_cache *cache)
{
    for (int32_t i = 0; i < cache->config.n_slots; i++)
        if (cache->places[i].slot == NONE) return &cache->places[i];
    return NULL;
}

static void drop(pf_sequence_cache *cache, pf_cached_sequence *s)
{
    pf_forward_release(backend_of(cache), s->sequence);
    s->slot = NONE;
}

/* Drops the retained sequence that was used least recently, other than `spared` (or NULL). False: there is none. */
static bool drop_oldest(pf_sequence_cache *cache, const pf_cached_sequence *spared)
{
    pf_cached_sequence *oldest = NULL;
    for (int32_t i = 0; i < cache->config.n_slots; i++) {
        pf_cached_sequence *s = &cache->places[i];
        if (s->slot == RETAINED && s != spared && (!oldest || s->used < oldest->used)) oldest = s;
    }
    if (!oldest) return false;
    drop(cache, oldest);
    cache->counts.n_dropped++;
    return true;
}

static void give_to_slot(pf_sequence_cache *cache, pf_cached_sequence *s, int32_t slot, const int32_t *held)
{
    s->slot = slot;
    s->tokens = held;
    cache->place_of[slot] = (int32_t)(s - cache->places);
}

/* Keep what the sequence of a slot has, if that is worth it. */
static void retain(pf_sequence_cache *cache, pf_cached_sequence *s)
{
    cache->place_of[s->slot] = -1;
    const int32_t length = length_of(cache, s);
    if (cache->config.forgets || length < PF_PREFIX_BLOCK) {
        drop(cache, s);
        return;
    }
    memcpy(s->copy, s->tokens, (size_t)length * sizeof *s->copy);
    s->tokens = s->copy;
    s->slot = RETAINED;
    s->used = ++cache->n_used;
    cache->counts.n_retained++;
}

/* ---- prefixes -------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_cached_sequence *of; /* NULL: none */
    int32_t length;
} prefix;

/* How much of a sequence can be taken for the tokens, by its hashes. */
static int32_t estimate(pf_sequence_cache *cache, pf_cached_sequence *s, const int32_t *tokens, int32_t n)
{
    const int32_t length = length_of(cache, s);
    pf_prefix_hash(&s->blocks, s->tokens, length);
    const int32_t shared = pf_prefix_count_shared(&s->blocks, &cache->wanted) * PF_PREFIX_BLOCK;
    return reachable(cache, s, count_equal(s->tokens, tokens, shared, pf_min(n, length)));
}

/* The longest that other sequences than `own` have, if it is longer than `least`. */
static prefix find_prefix(pf_sequence_cache *cache, const pf_cached_sequence *own, const int32_t *tokens, int32_t n,
                          int32_t least)
{
    prefix best = { NULL, least };
    if (cache->config.forgets) return best;
    cache->wanted.n = 0;
    pf_prefix_hash(&cache->wanted, tokens, n);
    for (int32_t i = 0; i < cache->config.n_slots; i++) {
        pf_cached_sequence *s = &cache->places[i];
        const int32_t length = s->slot == NONE || s == own ? 0 : estimate(cache, s, tokens, n);
        if (length >= PF_PREFIX_BLOCK && length > best.length) best = (prefix){ s, length };
    }
    if (!best.of) return best;
    const int32_t equal = count_equal(best.of->tokens, tokens, 0, best.length);
    if (equal < best.length) best.length = reachable(cache, best.of, equal); /* hashes of different tokens were equal */
    return best.length > least && best.length >= PF_PREFIX_BLOCK ? best : (prefix){ NULL, least };
}

/* A sequence of the backend in a place of its own: the prefix, or empty. NULL: no room. */
static pf_cached_sequence *begin(pf_sequence_cache *cache, prefix from)
{
    const pf_forward_backend *b = backend_of(cache);
    for (;;) {
        pf_cached_sequence *s = find_free(cache);
        int64_t sequence;
        const bool has_begun = s && (from.of ? pf_forward_fork(b, from.of->sequence, from.length, &sequence)
                                             : pf_forward_acquire(b, &sequence)) == PF_OK;
        if (!has_begun) {
            if (drop_oldest(cache, from.of)) continue;
            return NULL;
        }
        s->sequence = sequence;
        s->blocks.n = 0;
        return s;
    }
}

/* A retained sequence becomes the slot's if it is all prefix, or if there is no place for another. */
static pf_cached_sequence *take(pf_sequence_cache *cache, prefix from)
{
    if (from.of) from.of->used = ++cache->n_used;
    const bool is_retained = from.of && from.of->slot == RETAINED;
    if (is_retained && length_of(cache, from.of) == from.length) return from.of;
    pf_cached_sequence *s = begin(cache, from);
    if (s || !is_retained) return s;
    return cut(cache, from.of, from.length) == PF_OK ? from.of : NULL;
}

/* ---- opens and closes ------------------------------------------------------------------------------------------ */

/* What the slot has of its next tokens itself. Where much else of it would be lost, that is retained, if there is a place. */
static pf_status reopen(pf_sequence_cache *cache, pf_cached_sequence *own, int32_t length)
{
    const bool loses = length_of(cache, own) - length >= PF_PREFIX_BLOCK;
    if (cache->config.forgets || !loses || !find_free(cache)) return cut(cache, own, length);
    const int32_t slot = own->slot, *held = own->tokens;
    retain(cache, own);
    pf_cached_sequence *s = begin(cache, (prefix){ length > 0 ? own : NULL, length });
    if (!s) return PF_LIMIT;
    give_to_slot(cache, s, slot, held);
    return PF_OK;
}

static void count_open(pf_sequence_cache *cache, int32_t n, int32_t n_reused)
{
    pf_sequence_cache_counts *counts = &cache->counts;
    counts->n_opened++;
    counts->n_tokens += (uint64_t)n;
    counts->n_reusing += n_reused > 0;
    counts->n_reused += (uint64_t)n_reused;
}

pf_status pf_sequence_cache_open(pf_sequence_cache *cache, int32_t slot, const int32_t *held, const int32_t *tokens,
                                 int32_t n)
{
    pf_cached_sequence *own = of_slot(cache, slot);
    int32_t length = 0;
    if (own) length = reachable(cache, own, count_equal(own->tokens, tokens, 0, pf_min(n, length_of(cache, own))));
    const prefix from = find_prefix(cache, own, tokens, n, length);
    count_open(cache, n, from.length);
    if (own && !from.of) return reopen(cache, own, length);
    if (own) retain(cache, own);
    pf_cached_sequence *s = take(cache, from);
    if (!s) return PF_LIMIT;
    give_to_slot(cache, s, slot, held);
    return PF_OK;
}

void pf_sequence_cache_close(pf_sequence_cache *cache, int32_t slot)
{
    pf_cached_sequence *s = of_slot(cache, slot);
    if (s) retain(cache, s);
}

/* ---- open sequences -------------------------------------------------------------------------------------------- */

int64_t pf_sequence_cache_of(const pf_sequence_cache *cache, int32_t slot)
{
    return of_slot(cache, slot)->sequence;
}

int32_t pf_sequence_cache_length(const pf_sequence_cache *cache, int32_t slot)
{
    return length_of(cache, of_slot(cache, slot));
}

pf_status pf_sequence_cache_cut(pf_sequence_cache *cache, int32_t slot, int32_t length)
{
    pf_cached_sequence *s = of_slot(cache, slot);
    if (length < 0 || length > length_of(cache, s)) return PF_INVALID;
    return cut(cache, s, reachable(cache, s, length));
}

pf_status pf_sequence_cache_keep(pf_sequence_cache *cache, int32_t slot, int32_t length, const int32_t *rows,
                                 int32_t n_rows)
{
    pf_cached_sequence *s = of_slot(cache, slot);
    pf_prefix_cut(&s->blocks, length);
    const pf_status status = pf_forward_keep(backend_of(cache), s->sequence, length, rows, n_rows);
    if (status != PF_OK) (void)!cut(cache, s, 0);
    return status;
}

/* ---- forks ----------------------------------------------------------------------------------------------------- */

pf_status pf_sequence_cache_fork(const pf_sequence_cache *cache, int32_t slot, int32_t length, int64_t *out)
{
    return pf_forward_fork(backend_of(cache), of_slot(cache, slot)->sequence, length, out);
}

void pf_sequence_cache_adopt(pf_sequence_cache *cache, int32_t slot, int64_t fork, int32_t n_shared)
{
    pf_cached_sequence *s = of_slot(cache, slot);
    pf_forward_release(backend_of(cache), s->sequence);
    s->sequence = fork;
    pf_prefix_cut(&s->blocks, n_shared);
}

/* ---- passes ---------------------------------------------------------------------------------------------------- */

static bool is_among(const pf_span *spans, int32_t n, int64_t sequence)
{
    for (int32_t i = 0; i < n; i++)
        if (spans[i].sequence == sequence) return true;
    return false;
}

/* The open sequence that has been idle longest, and holds something that these spans do not extend; NULL: none. */
static pf_cached_sequence *find_idle(const pf_sequence_cache *cache, const pf_span *spans, int32_t n)
{
    pf_cached_sequence *found = NULL;
    uint64_t longest_ns = 0;
    for (int32_t i = 0; i < cache->config.n_slots; i++) {
        pf_cached_sequence *s = &cache->places[i];
        if (s->slot < 0 || length_of(cache, s) == 0 || is_among(spans, n, s->sequence)) continue;
        const uint64_t idle_ns = cache->config.idle_ns(cache->config.user, s->slot);
        if (idle_ns <= longest_ns) continue;
        longest_ns = idle_ns;
        found = s;
    }
    return found;
}

static bool make_room(pf_sequence_cache *cache, const pf_span *spans, int32_t n)
{
    if (cache->config.drop_forks && cache->config.drop_forks(cache->config.owner)) return true;
    if (drop_oldest(cache, NULL)) return true;
    pf_cached_sequence *idle = find_idle(cache, spans, n);
    if (!idle || cut(cache, idle, 0) != PF_OK) return false;
    cache->counts.n_evicted++;
    return true;
}

pf_status pf_sequence_cache_try(pf_sequence_cache *cache, const pf_span *spans, int32_t n_spans)
{
    const pf_status status = pf_simulated_run(&cache->simulated, backend_of(cache), spans, n_spans);
    if (status == PF_OK) cache->counts.n_passes++;
    for (int32_t i = 0; status == PF_OK && i < n_spans; i++) cache->counts.n_rows += (uint64_t)spans[i].n_tokens;
    return status;
}

pf_status pf_sequence_cache_run(pf_sequence_cache *cache, const pf_span *spans, int32_t n_spans)
{
    pf_status status;
    do status = pf_sequence_cache_try(cache, spans, n_spans);
    while (status == PF_LIMIT && make_room(cache, spans, n_spans));
    return status;
}

pf_model_figures pf_sequence_cache_figures(const pf_sequence_cache *cache)
{
    const pf_forward_backend *backend = backend_of(cache);
    const pf_sequence_cache_counts *counts = &cache->counts;
    pf_model_figures figures = { .n_passes = counts->n_passes,
                                 .n_rows = counts->n_rows,
                                 .prompt_tokens = counts->n_tokens,
                                 .cached_tokens = counts->n_reused,
                                 .n_evicted = counts->n_evicted };
    if (backend->ops->pages) backend->ops->pages(backend->state, &figures.n_pages, &figures.n_used_pages);
    return figures;
}

/* ---- making and ending ----------------------------------------------------------------------------------------- */

void pf_sequence_cache_lay_out(pf_sequence_cache *cache, pf_arena *arena)
{
    const pf_sequence_cache_config *config = &cache->config;
    const int32_t n = config->n_slots, max_tokens = config->backend.limits.max_tokens;
    const size_t n_blocks = (size_t)pf_prefix_count_blocks(max_tokens);
    cache->simulated = (pf_simulated_pass){ config->least_ns, config->rows, config->stop };
    cache->places = pf_arena_take(arena, (size_t)n, sizeof *cache->places);
    cache->place_of = pf_arena_take(arena, (size_t)n, sizeof *cache->place_of);
    cache->wanted.hashes = pf_arena_take(arena, n_blocks, sizeof *cache->wanted.hashes);
    for (int32_t i = 0; i < n; i++) {
        const pf_cached_sequence empty = {
            .slot = NONE,
            .copy = pf_arena_take(arena, config->forgets ? 0 : (size_t)max_tokens, sizeof *empty.copy),
            .blocks = { .hashes = pf_arena_take(arena, config->forgets ? 0 : n_blocks, sizeof *empty.blocks.hashes) },
        };
        if (!cache->places) continue;
        cache->places[i] = empty;
        cache->place_of[i] = -1;
    }
}

void pf_sequence_cache_end(pf_sequence_cache *cache)
{
    for (int32_t i = 0; cache->places && i < cache->config.n_slots; i++)
        if (cache->places[i].slot != NONE) drop(cache, &cache->places[i]);
}
