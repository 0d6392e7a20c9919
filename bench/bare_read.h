/*
 * A buffer that the threads of a team read in equal shares: the bare read of as many bytes as the code measured beside it
 * needs.
 *
 * Threads: the caller of the team.
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
    pf_read_fn *read;          /* the running read */
    _Atomic uint64_t checksum; /* of the bytes read; keeps the read from being optimised out */
} pf_bare_read;

/* The share of n_bytes that a thread reads: from the returned offset up to *end, in whole cache lines; the last thread also
 * reads the remainder. */
size_t pf_bare_read_share(pf_member member, size_t n_bytes, size_t *end);

/* Each thread writes its share first: pages never written would all map to the zero page. PF_NOMEM. */
PF_MUST_USE pf_status pf_bare_read_create(pf_team *team, size_t n_bytes, pf_bare_read *out, pf_error *error);

/* Does nothing for a zeroed struct. */
void pf_bare_read_destroy(pf_bare_read *b);

/* As pf_read_flush. */
void pf_bare_read_flush(pf_bare_read *b);

/* Reads the whole buffer by `read` and returns the time in ns. */
uint64_t pf_bare_read_ns(pf_bare_read *b, pf_read_fn *read);

#endif
