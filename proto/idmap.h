/*
 * Maps pairs of 64-bit ids, chosen by an untrusted peer, to slot numbers. Bounded.
 *
 * A slot number (0 .. max - 1) stays with its ids from insert to remove. Open addressing in a table at most half
 * full, deletion by shifting back, so nothing is allocated after creation and no tombstones accumulate.
 *
 * Threads: one at a time.
 */
#ifndef PF_PROTO_IDMAP_H
#define PF_PROTO_IDMAP_H

#include <stdint.h>

#include "base/status.h"

typedef struct pf_idmap pf_idmap;

/* Room for max pairs, 1 .. 2^24. End with pf_idmap_destroy. PF_INVALID, PF_NOMEM. */
PF_MUST_USE pf_status pf_idmap_create(int32_t max, pf_idmap **out);
void pf_idmap_destroy(pf_idmap *map); /* NULL is fine */

int32_t pf_idmap_find(const pf_idmap *map, uint64_t a, uint64_t b); /* its slot, or -1 */
int32_t pf_idmap_insert(pf_idmap *map, uint64_t a, uint64_t b);     /* a new slot, or -1: full. Not in it before */
int32_t pf_idmap_remove(pf_idmap *map, uint64_t a, uint64_t b);     /* the slot that is free again, or -1 */
int32_t pf_idmap_count(const pf_idmap *map);

#endif
