#include "proto/idmap.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/hash.h"

enum { MAX_PAIRS = 1 << 24 };

typedef struct {
    uint64_t a, b;
    int32_t slot; /* -1: empty */
} cell;

struct pf_idmap {
    uint64_t seed;
    uint32_t mask; /* cells - 1; cells a power of two, at least twice max */
    int32_t n_free;
    int32_t max;
    int32_t *free_slots; /* [max], the first n_free of them */
    cell cells[];
};

static uint32_t home(const pf_idmap *map, uint64_t a, uint64_t b)
{
    return (uint32_t)pf_hash_pair(map->seed, a, b) & map->mask;
}

pf_status pf_idmap_create(int32_t max, pf_idmap **out)
{
    if (max < 1 || max > MAX_PAIRS) return PF_INVALID;
    uint32_t n_cells = 2;
    while (n_cells < 2 * (uint32_t)max) n_cells *= 2;

    pf_idmap *map = malloc(sizeof *map + n_cells * sizeof map->cells[0]);
    int32_t *free_slots = malloc((size_t)max * sizeof *free_slots);
    if (!map || !free_slots) {
        free(map);
        free(free_slots);
        return PF_NOMEM;
    }
    map->seed = pf_hash_seed();
    map->mask = n_cells - 1;
    map->max = map->n_free = max;
    map->free_slots = free_slots;
    for (int32_t i = 0; i < max; i++) free_slots[i] = max - 1 - i; /* 0 is handed out first */
    for (uint32_t i = 0; i < n_cells; i++) map->cells[i].slot = -1;
    *out = map;
    return PF_OK;
}

void pf_idmap_destroy(pf_idmap *map)
{
    if (!map) return;
    free(map->free_slots);
    free(map);
}

/* The cell that holds the pair, or the empty one where it would go. */
static uint32_t locate(const pf_idmap *map, uint64_t a, uint64_t b)
{
    uint32_t i = home(map, a, b);
    while (map->cells[i].slot >= 0 && (map->cells[i].a != a || map->cells[i].b != b)) i = (i + 1) & map->mask;
    return i;
}

int32_t pf_idmap_find(const pf_idmap *map, uint64_t a, uint64_t b)
{
    return map->cells[locate(map, a, b)].slot;
}

int32_t pf_idmap_insert(pf_idmap *map, uint64_t a, uint64_t b)
{
    if (map->n_free == 0) return -1;
    cell *c = &map->cells[locate(map, a, b)];
    assert(c->slot < 0);
    *c = (cell){ a, b, map->free_slots[--map->n_free] };
    return c->slot;
}

int32_t pf_idmap_remove(pf_idmap *map, uint64_t a, uint64_t b)
{
    uint32_t hole = locate(map, a, b);
    const int32_t slot = map->cells[hole].slot;
    if (slot < 0) return -1;
    map->free_slots[map->n_free++] = slot;

    /* Move back whatever the hole would cut off from its home. */
    for (uint32_t i = (hole + 1) & map->mask; map->cells[i].slot >= 0; i = (i + 1) & map->mask) {
        const uint32_t from_home = (i - home(map, map->cells[i].a, map->cells[i].b)) & map->mask;
        if (from_home < ((i - hole) & map->mask)) continue;
        map->cells[hole] = map->cells[i];
        hole = i;
    }
    map->cells[hole].slot = -1;
    return slot;
}

int32_t pf_idmap_count(const pf_idmap *map)
{
    return map->max - map->n_free;
}
