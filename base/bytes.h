/*
 * A growing array of bytes. Zero it before first use; its owner ends it with pf_bytes_clear.
 */
#ifndef PF_BASE_BYTES_H
#define PF_BASE_BYTES_H

#include <stddef.h>

#include "base/status.h"

typedef struct {
    char *data;
    size_t n, capacity;
} pf_bytes;

/* Room for n_more bytes behind the n that are there. PF_NOMEM: nothing has changed. */
PF_MUST_USE pf_status pf_bytes_reserve(pf_bytes *bytes, size_t n_more);

/* data [n] is no part of `bytes`. PF_NOMEM: nothing has changed. */
PF_MUST_USE pf_status pf_bytes_append(pf_bytes *bytes, const char *data, size_t n);

void pf_bytes_clear(pf_bytes *bytes);

#endif
