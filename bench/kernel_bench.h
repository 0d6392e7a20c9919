/*
 * How fast each kernel of the registry runs here, and how fast this machine would let it.
 *
 *      product | bare read of as many packed bytes of another copy | burst of its multiplies | product | ...
 *
 * Shapes are those of a Llama-3.2-1B, with as many copies of a matrix as it takes to come from memory each time. The
 * limit of a product, and of attention, is the larger of two times: the bare read, by the best of several patterns, and
 * the multiplies at the rate of the burst. What works on rows alone, norms and the like, lies in cache and has one
 * thread; its limit is the larger of a bare read of what goes in, and of a copy of as much as comes out with a bare read
 * of the rest that goes in. What it computes on the way is not counted: an exponential race over a vocabulary makes a random number
 * for each token. Nor is where it goes: the key of one row is written a word to each cache line.
 *
 * Beside a product that is what this machine would choose, oneDNN multiplies the same weights, where it is there and can,
 * in the way that is its fastest: by bf16 perhaps where ours is by int8 (gemm_onednn.h).
 *
 * Times are medians of samples taken in turns. A kernel that seems faster than its limit shows that the limit was
 * measured badly; it is measured again, and then the benchmark fails instead of boasting (PF_BELIEVABLE_FRACTION).
 */
#ifndef PF_BENCH_KERNEL_BENCH_H
#define PF_BENCH_KERNEL_BENCH_H

#include "base/team.h"
#include "kernels/kernels.h"

typedef enum { PF_LIMIT_READ, PF_LIMIT_MULTIPLY, PF_LIMIT_COPY, PF_N_LIMITS } pf_limit;

/* "read", "multiply", "copy": a static string. */
const char *pf_limit_name(pf_limit limit);

typedef struct {
    const pf_kernel *kernel;
    char shape[64];    /* "8x3072x2048": rows, columns, K of a product; rows and length, or keys, of others */
    int32_t rows;      /* of activations */
    int32_t n_threads; /* that ran it */
    double us;         /* a call, activations packed and everybody waited for */
    double gflops;     /* two operations a multiply-add; NaN where multiplies are not counted */
    double gbps;    /* of a product its weights, of attention keys and values, of others what goes in and comes out */
    pf_limit limit; /* the one that counts here */
    double limit_us;
    double fraction;      /* limit_us / us */
    const char *read;     /* the pattern that reads fastest */
    const char *multiply; /* the instruction of the burst; NULL: none */
    double onednn_us;     /* oneDNN's time for the same, in turns with it; NaN: it has none, or was not asked */
} pf_kernel_figure;

/* PF_INTERNAL: the fraction is above PF_BELIEVABLE_FRACTION; the sentence names kernel, shape and limit. */
PF_MUST_USE pf_status pf_kernel_figure_check(const pf_kernel_figure *figure, pf_error *error);

typedef struct {
    pf_isa isa;                  /* at most */
    bool isa_alone;              /* only what is chosen for it, not also what is there for lesser ones */
    pf_format format;            /* of products; PF_N_FORMATS: all, and all other operations */
    pf_op op;                    /* alone; PF_N_OPS: all */
    bool quick;                  /* what is chosen alone, one small shape, few samples: to see that it runs */
    const volatile bool *cancel; /* or NULL; then PF_CANCELLED */
    bool (*figure)(void *user, const pf_kernel_figure *figure); /* false: no more is wanted; then PF_CANCELLED, too */
    void (*progress)(void *user, size_t done, size_t total);    /* or NULL */
    void *user;                                                 /* of both */
} pf_kernel_bench_options;

/* PF_UNSUPPORTED: this machine lacks the instruction set.  PF_NOMEM.  PF_CANCELLED.  PF_INTERNAL: a limit was measured
 * badly; the sentence names the kernel, and all figures were given. */
PF_MUST_USE pf_status pf_bench_kernels(pf_team *team, const pf_kernel_bench_options *options, pf_error *error);

#endif
