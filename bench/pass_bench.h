/*
 * A pass of a model beside the sum of its kernels, each run alone: what does the engine add to its kernels?
 *
 *      pass, pass | norms once, again and again | pass, pass | packings | pass, pass | products with QKV | ... | nothing
 *
 * A kernel alone is what model/forward/pass_kernels.h says, through all layers, by the members that ran the pass; nobody is waited
 * for, and what the loops around it take, run empty, is subtracted. It is measured in two ways, between which the truth
 * lies:
 *
 *   again and again   its inputs are warm in its member's cache, the processor knows its branches, and the weights of a
 *                     small model come from a nearer cache than in a pass, which goes through all of them: a kernel at
 *                     its best. The ratio to this sum is no kinder than can be.
 *   once, right behind a pass   its weights come from where the pass finds them too; but its inputs are not those that
 *                     were made a moment ago, and what takes nanoseconds is timed by a clock that takes twenty.
 *
 * In a pass are besides: the rows of the embedding, barriers, what is fetched ahead, the pages of the cache. The argmax
 * of each row, as a verifier takes it, is in the pass and a kernel.
 *
 * Times are medians of samples taken in turns. Every second pass warms up the next one. A product is also measured in
 * turns with a bare read of its weights, repeated as often, and with a burst of its multiplies, as by kernel_bench.h; but
 * pieces of some kilobytes in a near cache a loop of loads may read more slowly than the product, so a fraction above one
 * is no failure. Other kernels have no limit here.
 */
#ifndef PF_BENCH_PASS_BENCH_H
#define PF_BENCH_PASS_BENCH_H

#include "bench/kernel_bench.h"
#include "engine/pilotfish.h"

typedef struct {
    const char *name;        /* what it is in the pass: "gate, up" */
    const char *op;          /* "gemm", "pack", ... */
    int32_t n_calls;         /* in a pass, by all members together */
    double pass_us;          /* of all of them, again and again */
    double once_us;          /* of all of them, once, right behind a pass */
    pf_kernel_figure figure; /* of one; fraction and limit_us NaN: no limit */
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
    bool quick;                                               /* few samples: to see that it runs */
    const volatile bool *cancel;                              /* or NULL; then PF_CANCELLED */
    bool (*figure)(void *user, const pf_pass_figure *figure); /* in the order of a pass */
    bool (*sum)(void *user, const pf_pass_sum *sum); /* behind them; false of either: no more is wanted, PF_CANCELLED */
    void (*progress)(void *user, size_t done, size_t total); /* or NULL */
    void *user;                                              /* of all three */
} pf_pass_bench_options;

/* Uses the engine's context, in which a sequence must be free. PF_INVALID: the context has no room for so many tokens or
 * rows.  PF_LIMIT: no sequence is free.  PF_NOMEM.  PF_CANCELLED. */
PF_MUST_USE pf_status pf_bench_pass(pf_engine *engine, const pf_pass_bench_options *options, pf_error *error);

#endif
