/* The patterns: one loop, made for each number of streams and each distance. Portable. */
#include "kernels/limits/read.h"

#include <stdbool.h>
#include <string.h>

enum { LINE = 64, PANEL = 65536 };

static inline uint64_t word_at(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* `lines` lines of each stream in turn, up to four; what is left over behind the last stream comes at the end. */
static inline __attribute__((always_inline)) uint64_t read_lines(const unsigned char *bytes, size_t n_bytes,
                                                                 size_t n_streams, size_t lines, size_t ahead,
                                                                 const bool into_l2)
{
    const size_t turn = lines * LINE, stream = n_bytes / n_streams / turn * turn;
    uint64_t sum[4] = { 0 };
    for (size_t i = 0; i < stream; i += turn) {
        for (size_t s = 0; s < n_streams; s++) {
            const unsigned char *at = bytes + s * stream + i;
            for (size_t line = 0; line < lines; line++) {
                const void *next = (const void *)((uintptr_t)at + ahead + line * LINE);
                if (ahead > 0 && into_l2) __builtin_prefetch(next, 0, 2);
                if (ahead > 0 && !into_l2) __builtin_prefetch(next);
                sum[line] += word_at(at + line * LINE);
            }
        }
    }
    for (size_t i = n_streams * stream; i < n_bytes; i += LINE) sum[0] += word_at(bytes + i);
    return sum[0] + sum[1] + sum[2] + sum[3];
}

#define PATTERN(STREAMS, AHEAD)                                                 \
    static uint64_t read_##STREAMS##_##AHEAD(const void *bytes, size_t n_bytes) \
    {                                                                           \
        return read_lines(bytes, n_bytes, STREAMS, 4, AHEAD, false);            \
    }
PATTERN(1, 0)
PATTERN(1, 1024)
PATTERN(1, 4096)
PATTERN(1, 8192)
PATTERN(1, 12288)
PATTERN(2, 0)
PATTERN(2, 4096)
PATTERN(4, 0)
PATTERN(4, 1024)
#undef PATTERN

/* Two panels side by side, then the next two, two lines of each in turn. */
static inline __attribute__((always_inline)) uint64_t read_panels(const unsigned char *bytes, size_t n_bytes,
                                                                  size_t ahead, const bool into_l2)
{
    uint64_t sum = 0;
    for (; n_bytes >= 2 * PANEL; bytes += 2 * PANEL, n_bytes -= 2 * PANEL)
        sum += read_lines(bytes, 2 * PANEL, 2, 2, ahead, into_l2);
    return sum + read_lines(bytes, n_bytes, 2, 2, ahead, into_l2);
}
static uint64_t read_panels_512(const void *bytes, size_t n_bytes)
{
    return read_panels(bytes, n_bytes, 512, false);
}
static uint64_t read_panels_1024(const void *bytes, size_t n_bytes)
{
    return read_panels(bytes, n_bytes, 1024, true);
}

/* A run of each of two panels in turn, no line sooner than nine cycles behind the one before: three multiplications whose results
 * are not used. */
static uint64_t read_paced(const void *all, size_t n_bytes)
{
    enum { RUN = 2048, AHEAD = 2752, PACED_PANEL = 2 * PANEL };
    const unsigned char *bytes = all;
    uint64_t sum = 0, pace = 3;
    for (; n_bytes >= 2 * PACED_PANEL; bytes += 2 * PACED_PANEL, n_bytes -= 2 * PACED_PANEL)
        for (size_t run = 0; run < 2 * PACED_PANEL; run += RUN) {
            const unsigned char *at = bytes + run / RUN % 2 * PACED_PANEL + run / (2 * RUN) * RUN;
            const size_t ahead = AHEAD + (run / 2 + AHEAD >= PACED_PANEL ? PACED_PANEL : 0);
            for (size_t i = 0; i < RUN; i += LINE) {
                sum += word_at(at + i);
                __builtin_prefetch((const void *)((uintptr_t)at + i + ahead));
                for (int n = 0; n < 3; n++) {
                    pace *= pace;
                    __asm__ volatile("" : "+r"(pace));
                }
            }
        }
    return sum + read_lines(bytes, n_bytes, 1, 1, AHEAD, false);
}

const pf_read_pattern pf_read_patterns[PF_N_READS] = {
    { "1 stream", read_1_0 },
    { "1 stream, 1024 bytes ahead", read_1_1024 },
    { "1 stream, 4096 bytes ahead", read_1_4096 },
    { "1 stream, 8192 bytes ahead", read_1_8192 },
    { "1 stream, 12288 bytes ahead", read_1_12288 },
    { "2 streams", read_2_0 },
    { "2 streams, 4096 bytes ahead", read_2_4096 },
    { "4 streams", read_4_0 },
    { "4 streams, 1024 bytes ahead", read_4_1024 },
    { "2 panels, 512 bytes ahead", read_panels_512 },
    { "2 panels, 1024 bytes ahead into the L2", read_panels_1024 },
    { "2 panels, 2752 bytes ahead, a line each nine cycles", read_paced },
};

void pf_read_flush(const void *bytes, size_t n_bytes)
{
#ifdef __x86_64__
    for (size_t i = 0; i < n_bytes; i += LINE) __builtin_ia32_clflush((const char *)bytes + i);
    __builtin_ia32_mfence();
#else
    (void)bytes, (void)n_bytes;
#endif
}
