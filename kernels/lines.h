/*
 * Prefetches cache lines that threads hand to each other.
 *
 * A thread that writes a line which others have read waits until they have given it up, and one that reads what another has
 * just written waits for it. Without a cache in common either takes as long as hundreds of multiplies, and a product meets one
 * such line after the other. So they are asked for early, all at once. Results do not depend on it.
 */
#ifndef PF_KERNELS_LINES_H
#define PF_KERNELS_LINES_H

#include <stddef.h>
#include <stdint.h>

/* Asks for the lines of columns [begin, end) of n_rows rows of floats, `stride` elements apart: to be written long before the
 * write, but not before the others have read what is there. */
void pf_lines_claim(const float *rows, size_t stride, int32_t n_rows, int32_t begin, int32_t end);

/* The same, to be read: columns that other threads have just written. */
void pf_lines_fetch(const float *rows, size_t stride, int32_t n_rows, int32_t begin, int32_t end);

/* Of bytes [begin, end). */
void pf_lines_claim_bytes(const char *begin, const char *end);
void pf_lines_fetch_bytes(const char *begin, const char *end);

#endif
