/*
 * Bare reads of memory: one word of every cache line, and nothing done with it but a sum. What a product that reads the
 * same bytes is measured against.
 *
 * Which way of reading is fastest depends on the machine and on where the bytes lie, so there are several, and a
 * benchmark takes the best of them on the very bytes that it is about: streams that run side by side, and how far
 * ahead of the load a line is asked for. Streams divide all of the bytes; panels lie two beside each other, then the
 * next two, as products take them.
 */
#ifndef PF_KERNELS_READ_H
#define PF_KERNELS_READ_H

#include <stddef.h>
#include <stdint.h>

/* The sum, modulo 2^64, of the first word of every 64 bytes, whichever pattern reads them. n_bytes: a multiple of 8. */
typedef uint64_t pf_read_fn(const void *bytes, size_t n_bytes);

typedef struct {
    const char *name; /* "2 streams, 4096 bytes ahead" */
    pf_read_fn *read;
} pf_read_pattern;

enum { PF_N_READS = 12 };
extern const pf_read_pattern pf_read_patterns[PF_N_READS]; /* the first: one stream, nothing ahead */

/* Out of every cache, so that the next read is one of memory. Nothing but on x86. */
void pf_read_flush(const void *bytes, size_t n_bytes);

#endif
