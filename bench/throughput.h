/*
 * Measures prefill, decode and verification of several rows of a model, each in turns with the limit of the machine that bounds
 * it.
 *
 *      decode    step | bare read of the same weights, and of as much KV | step | ...     ratios of medians
 *      prefill   prompt | bursts of multiplies | prompt | bursts | ...                     ratios of medians
 *      verify    1 row | read, burst | 2 rows | read, burst | 4 | 8 | 16 | 1 | ...         likewise
 *
 * All passes go through the verifier that generation uses (bench/stepper.h). The bare read uses the fastest of several patterns
 * on the same weights.
 *
 * The bandwidth of a shared machine changes within minutes, so a limit is only valid if it is measured in turns with the code
 * it bounds. A fraction above PF_BELIEVABLE_FRACTION means that the limit was measured badly, and the benchmark fails.
 */
#ifndef PF_BENCH_THROUGHPUT_H
#define PF_BENCH_THROUGHPUT_H

#include "engine/engine.h"

enum { PF_N_VERIFY_ROWS = 5 };
extern const int32_t pf_verify_rows[PF_N_VERIFY_ROWS]; /* 1, 2, 4, 8, 16 */

typedef struct {
    int32_t prompt_len; /* tokens of a prefill */
    int32_t gen_len;    /* decode steps of a run; runs are repeated until there is enough to take a median of */
    int32_t context;    /* tokens before the first step of a run */
    const volatile bool *cancel; /* or NULL; then PF_CANCELLED, with what was measured so far */
    void (*progress)(void *user, size_t done, size_t total);
    void *progress_user;
} pf_throughput_options;

/* The context size in tokens that the engine needs. */
int32_t pf_throughput_context(const pf_throughput_options *options);

/* Times are medians. NaN: unavailable on this machine, or cancelled before it was measured. */
typedef struct {
    int32_t n_threads;
    double read_gbps;                          /* the bare read of weight_bytes by all threads */
    double f32_gflops, bf16_gflops, int8_gops; /* bursts of multiplies, two operations each, all threads */
    size_t weight_bytes;                       /* read by one decode step */
    size_t kv_bytes;                           /* read by one decode step at `context` */
    double tokens_per_s;                       /* decode steps divided by the time of all, interrupted ones included */
    double step_ms, read_ms;                   /* a decode step, the bare read between two of them */
    double kv_read_ms;                         /* a bare read of kv_bytes, right after it */
    double bandwidth_fraction;                 /* read_ms / step_ms */
    double bandwidth_fraction_with_kv;         /* (read_ms + kv_read_ms) / step_ms */
    const char *read_pattern;                  /* the fastest: a static string */
    int32_t prefill_tokens;
    double prefill_ms, prefill_gflops;
    double peak_fraction;         /* prefill_gflops by the burst of the multiply instruction of the products */
    const char *peak_instruction; /* that burst's: a static string, or NULL */
    double verify_ms[PF_N_VERIFY_ROWS];
    double verify_of_limit[PF_N_VERIFY_ROWS]; /* by the larger of the reads, of weights and of KV, and the multiplies at
                                                 0.75 of the burst */
} pf_throughput;

/* Takes the engine's one role. PF_INVALID: the context has no room.  PF_CANCELLED.  PF_INTERNAL: a limit was measured
 * badly (the sentence gives the fraction). *out is filled in then, too, and where the measurement was cancelled. */
PF_MUST_USE pf_status pf_bench_throughput(pf_engine *engine, const pf_throughput_options *options, pf_throughput *out,
                                          pf_error *error);

#endif
