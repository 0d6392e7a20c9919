/*
 * How fast a model runs here, and how fast this machine would let it: prefill, decode, verification of several rows,
 * each beside the limit that it works against, measured in the same moments.
 *
 *      decode    step | bare read of the same weights | step | read | ...     the ratio of the two medians
 *                step | step | step | ...                                     tokens a second
 *      prefill   burst of multiplies | prompt | burst | prompt | ...          likewise
 *      verify    1 | 2 | 4 | 8 | 16 rows | 1 | 2 | ...                        medians
 *
 * Everything goes through the verifier that generation uses (proto/peer.h), acceptance and argmax included: a decode
 * step here is a plain step of pf_generate.
 *
 * A machine that is shared gives another bandwidth each minute, so a limit measured at another time is none: hence
 * the interleaving. A step that reads its weights faster than the bare read does shows that the read was measured
 * badly: above PF_BELIEVABLE_FRACTION the benchmark fails instead of boasting.
 */
#ifndef PF_BENCH_THROUGHPUT_H
#define PF_BENCH_THROUGHPUT_H

#include "bench/peak.h"
#include "engine/pilotfish.h"

enum { PF_N_VERIFY_ROWS = 5 };
extern const int32_t pf_verify_rows[PF_N_VERIFY_ROWS]; /* 1, 2, 4, 8, 16 */

typedef struct {
    int32_t prompt_len; /* tokens of a prefill */
    int32_t gen_len;    /* decode steps of a run; runs are repeated until there is enough to take a median of */
    int32_t context;    /* tokens before the first step of a run */
    pf_type kv_type;    /* as the engine was opened with */
    const volatile bool *cancel; /* or NULL; then PF_CANCELLED */
    void (*progress)(void *user, size_t done, size_t total);
    void *progress_user;
} pf_throughput_options;

/* Tokens that the engine's context must have room for. */
int32_t pf_throughput_context(const pf_throughput_options *options);

/* Times are medians. NaN: not to be had on this machine. */
typedef struct {
    int32_t n_threads;
    double read_gbps;                          /* the bare read of weight_bytes by all threads */
    double f32_gflops, bf16_gflops, int8_gops; /* bursts of multiplies, two operations each, all threads */
    size_t weight_bytes;                       /* read by one decode step */
    size_t kv_bytes;                           /* read by one decode step at `context` */
    double decode_tokens_per_s; /* of runs of gen_len steps with nothing between them, as in generation */
    double step_ms, read_ms;    /* a decode step, the bare read between two of them */
    double bandwidth_fraction;  /* read_ms / step_ms */
    int32_t prefill_tokens;
    double prefill_ms, prefill_gflops;
    double peak_fraction; /* prefill_gflops by the peak of the arithmetic that the weights use */
    double verify_ms[PF_N_VERIFY_ROWS];
} pf_throughput;

/* Takes the engine's one role. PF_INVALID: the context has no room.  PF_CANCELLED.  PF_INTERNAL: a limit was measured
 * badly (the sentence gives the fraction). *out is filled in then, too. */
PF_MUST_USE pf_status pf_bench_throughput(pf_engine *engine, const pf_throughput_options *options, pf_throughput *out,
                                          pf_error *error);

#endif
