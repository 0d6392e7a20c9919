/*
 * Memory for a team to read, each member its share: so many bytes as something else needs, whose bare read is timed beside
 * it.
 *
 * Threads: that of the team's caller.
 */
#ifndef PF_BENCH_BARE_READ_H
#define PF_BENCH_BARE_READ_H

#include "base/arena.h"
#include "base/team.h"
#include "kernels/limits/read.h"

typedef struct {
    pf_team *team; /* borrowed */
    pf_arena arena;
    uint8_t *bytes; /* [n_bytes] */
    size_t n_bytes;
    pf_read_fn *read;          /* of the read that runs */
    _Atomic uint64_t checksum; /* of what was read, so that it was */
} pf_bare_read;

/* Which of n_bytes a member reads: from the one that is returned up to *end. Whole lines, the last member's with what is left
 * over. */
size_t pf_bare_read_share(pf_member member, size_t n_bytes, size_t *end);

/* Each member's share is written by that member: pages never written would all be the same one. PF_NOMEM. */
PF_MUST_USE pf_status pf_bare_read_create(pf_team *team, size_t n_bytes, pf_bare_read *out, pf_error *error);

/* Nothing where it is all zero. */
void pf_bare_read_destroy(pf_bare_read *b);

/* As pf_read_flush. */
void pf_bare_read_flush(pf_bare_read *b);

/* All of it by `read`; how long that took. */
uint64_t pf_bare_read_ns(pf_bare_read *b, pf_read_fn *read);

#endif
