#include "kernels/lines.h"

enum { LINE_BYTES = 64 };

void pf_lines_claim_bytes(const char *begin, const char *end)
{
    for (const char *at = begin; at < end; at += LINE_BYTES) __builtin_prefetch(at, 1);
    __asm__ volatile(""); /* gcc takes a function that only prefetches for one without effect, and drops its calls */
}

void pf_lines_fetch_bytes(const char *begin, const char *end)
{
    for (const char *at = begin; at < end; at += LINE_BYTES) __builtin_prefetch(at, 0);
    __asm__ volatile("");
}

void pf_lines_claim(const float *rows, size_t stride, int32_t n_rows, int32_t begin, int32_t end)
{
    for (int32_t i = 0; i < n_rows; i++, rows += stride)
        pf_lines_claim_bytes((const char *)(rows + begin), (const char *)(rows + end));
}

void pf_lines_fetch(const float *rows, size_t stride, int32_t n_rows, int32_t begin, int32_t end)
{
    for (int32_t i = 0; i < n_rows; i++, rows += stride)
        pf_lines_fetch_bytes((const char *)(rows + begin), (const char *)(rows + end));
}
