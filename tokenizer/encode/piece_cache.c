#include "tokenizer/encode/piece_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { SHORT_TEXT_BYTES = 512, BYTES_A_SLOT = 8 };

struct pf_piece_slot {
    int32_t ids[PF_CACHED_TOKENS];
    uint8_t n_bytes, n_ids; /* n_bytes 0: empty */
    char bytes[PF_CACHED_BYTES];
};

pf_status pf_piece_cache_create(pf_piece_cache *cache, size_t n_bytes)
{
    *cache = (pf_piece_cache){ .slots = NULL };
    if (n_bytes < SHORT_TEXT_BYTES) return PF_OK;
    size_t n_slots = 64;
    while (n_slots < PF_CACHE_SLOTS && n_slots < n_bytes / BYTES_A_SLOT) n_slots *= 2;
    cache->slots = calloc(n_slots, sizeof *cache->slots);
    if (!cache->slots) return PF_NOMEM;
    cache->n_slots = n_slots;
    cache->seed = pf_hash_seed();
    return PF_OK;
}

void pf_piece_cache_clear(pf_piece_cache *cache)
{
    free(cache->slots);
    *cache = (pf_piece_cache){ .slots = NULL };
}

/* Collisions cost time and nothing else, so eight bytes at once are mixed. */
static pf_piece_slot *slot_of(const pf_piece_cache *cache, const char *piece, size_t n)
{
    uint64_t hash = cache->seed ^ n, word;
    for (; n > sizeof word; piece += sizeof word, n -= sizeof word) {
        memcpy(&word, piece, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, piece, n);
    return &cache->slots[pf_hash_mix(hash ^ word) & (cache->n_slots - 1)];
}

pf_status pf_piece_cache_find(const pf_piece_cache *cache, const char *piece, size_t n_bytes, pf_tokens *out,
                              bool *found)
{
    *found = false;
    if (!cache->slots || n_bytes > PF_CACHED_BYTES) return PF_OK;
    const pf_piece_slot *slot = slot_of(cache, piece, n_bytes);
    if (slot->n_bytes != n_bytes || memcmp(slot->bytes, piece, n_bytes) != 0) return PF_OK;
    *found = true;
    for (int i = 0; i < slot->n_ids; i++) PF_TRY(pf_tokens_push(out, slot->ids[i]));
    return PF_OK;
}

void pf_piece_cache_put(pf_piece_cache *cache, const char *piece, size_t n_bytes, const int32_t *ids, size_t n)
{
    if (!cache->slots || n_bytes > PF_CACHED_BYTES || n > PF_CACHED_TOKENS) return;
    pf_piece_slot *slot = slot_of(cache, piece, n_bytes);
    slot->n_bytes = (uint8_t)n_bytes;
    slot->n_ids = (uint8_t)n;
    memcpy(slot->bytes, piece, n_bytes);
    memcpy(slot->ids, ids, n * sizeof *ids);
}
