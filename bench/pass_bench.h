/*
 * Compares a pass of a model with the sum of its kernels, each run alone: the overhead of the engine.
 *
 *      pass, pass | norms once, again and again | pass, pass | packings | pass, pass | products with QKV | ... | nothing
 *
 * A kernel runs alone through all layers (model/forward/pass_kernels.h) on the active threads of the pass, without barriers;
 * the time of its empty loops is subtracted. Two ways of measuring bound the true cost:
 *
 *   again and again   inputs are warm in the cache of their thread, branches are predicted, and the weights of a small model
 *                     come from a nearer cache than in a pass: the lower bound of the kernel's time.
 *   once, right behind a pass   weights come from where the pass finds them; inputs are cold, and calls of nanoseconds are
 *                     measured by a clock that takes twenty.
 *
 * A pass also has the rows of the embedding, barriers, prefetches and the pages of the cache. The argmax of each row, as a
 * verifier takes it, is part of the pass and a kernel.
 *
 * Times are medians of alternating samples. Every second pass is a warm-up. A product is also measured in turns with a bare
 * read of its weights, repeated as often, and with a burst of its multiplies, as in kernel_bench.h; a loop of loads may read a
 * few kilobytes in a near cache more slowly than the product, so a fraction above 1 is not an error. Other kernels have no limit
 * here.
 */
#ifndef PF_BENCH_PASS_BENCH_H
#define PF_BENCH_PASS_BENCH_H

#include "bench/kernel_bench.h"
#include "engine/engine.h"

typedef struct {
    const char *name;        /* its role in the pass: "gate, up" */
    const char *op;          /* "gemm", "pack", ... */
    int32_t n_calls;         /* in a pass, all threads together */
    double pass_us;          /* of all of them, again and again */
    double once_us;          /* of all of them, once, right behind a pass */
    pf_kernel_figure figure; /* of one call; fraction and limit_us NaN: no limit */
} pf_pass_figure;

typedef struct {
    pf_isa isa;
    int32_t rows, context; /* of the pass, and tokens before it */
    int32_t n_threads;     /* that ran it, and each kernel */
    double pass_us;
    double sum_us, ratio;           /* of what is run again and again; pass_us / sum_us */
    double once_sum_us, once_ratio; /* of what is run once, right behind a pass */
} pf_pass_sum;

enum { PF_PASS_MAX_ROWS = 16 };

typedef struct {
    int32_t context;     /* tokens before the pass */
    const int32_t *rows; /* [n_rows] of a pass, 1 .. PF_PASS_MAX_ROWS: one measurement each */
    int32_t n_rows;
    bool quick;                                               /* few samples: a smoke test */
    const volatile bool *cancel;                              /* or NULL; then PF_CANCELLED */
    bool (*figure)(void *user, const pf_pass_figure *figure); /* in the order of a pass */
    bool (*sum)(void *user, const pf_pass_sum *sum); /* after them; false from either callback cancels: PF_CANCELLED */
    void (*progress)(void *user, size_t done, size_t total); /* or NULL */
    void *user;                                              /* of all three */
} pf_pass_bench_options;

/* Uses the engine's context, which needs a free sequence. PF_INVALID: the context is too small for the tokens or
 * rows.  PF_LIMIT: no sequence is free.  PF_NOMEM.  PF_CANCELLED. */
PF_MUST_USE pf_status pf_bench_pass(pf_engine *engine, const pf_pass_bench_options *options, pf_error *error);

#endif
