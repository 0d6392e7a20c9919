/*
 * Runs the kernels of a pass one at a time, for the benches: how long would a pass take if it were its kernels and nothing else?
 *
 *      pass | norm, norm, norm, ... | pack, pack, ... | products of layer 0, 1, 2, ... | ...
 *
 * A kernel alone runs through all layers with the pass's own pieces (worker.h), shares, shapes and buffers. What a pass has
 * between its kernels is left out: threads do not wait for each other, no work is shared out in chunks, nothing is prefetched, no
 * embedding is looked up, no span is checked and no page taken. The loops stay, and PF_N_PASS_KERNELS runs them empty, for the
 * caller to subtract.
 *
 * A kernel alone has its inputs where it left them, in its thread's own cache, and goes through its own weights only: repeated
 * often, those of a small model come from a nearer cache than in a pass, which goes through all. Repeated once, right behind a
 * pass, they come from where that pass would find them. Values are what the last pass left. The gates, which an activation
 * overwrites, are zeros: repeated they would become denormals, which take longer.
 */
#ifndef PF_MODEL_PASS_KERNELS_H
#define PF_MODEL_PASS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "model/forward/context.h"

/* In the order in which a layer calls them first. */
typedef enum {
    PF_PASS_NORM,        /* before blocks, or behind them, and at the end */
    PF_PASS_PACK_NORMED, /* left sides: of QKV, of gate and up, of the head */
    PF_PASS_QKV,
    PF_PASS_ROPE, /* of queries and keys, and their norms */
    PF_PASS_ATTN_STORE,
    PF_PASS_ATTN,
    PF_PASS_PACK_ATTENDED,
    PF_PASS_O,
    PF_PASS_GATE_UP, /* two products, or one where there are no gates */
    PF_PASS_SWIGLU,
    PF_PASS_PACK_GATED,
    PF_PASS_DOWN,
    PF_PASS_ROUTER,  /* of layers with experts */
    PF_PASS_EXPERTS, /* the products and activations of the experts that the last such layer has chosen */
    PF_PASS_HEAD,
    PF_PASS_RESCORE, /* of a screened head */
    PF_N_PASS_KERNELS
} pf_pass_kernel;

/* What a kernel does in the context's last pass. */
typedef struct {
    const char *name;        /* "qkv" */
    const char *op;          /* "gemm", "pack", "rmsnorm", ... */
    const pf_kernel *kernel; /* its row of the registry; of packing, that of the product */
    char shape[48];          /* of one call by all threads together: "1x256x128" */
    int32_t n_calls;         /* such calls; 0: the model has no use for it */
    size_t bytes;            /* of one: weights, keys and values, rows read and written */
    double operations;       /* of one, two a multiply-add; 0: not counted */
    bool has_weights;
} pf_pass_part;

pf_pass_part pf_pass_describe(const pf_context *context, pf_pass_kernel kernel);

/* Threads that ran the last pass: the team, or the first of it. */
int32_t pf_pass_members(const pf_context *context);

/* Runs the kernel alone, as the last pass called it and on the same threads, n_passes times; nanoseconds of all.
 * PF_N_PASS_KERNELS: none. The context must have run a pass, and its sequences must be alive; afterwards what that pass
 * appended to them, and its logits, mean nothing: truncate. */
uint64_t pf_pass_run_alone(pf_context *context, pf_pass_kernel kernel, int32_t n_passes);

/* Reads that kernel's weights on the same threads, n_passes times; nanoseconds. */
uint64_t pf_pass_read_alone(pf_context *context, pf_pass_kernel kernel, pf_read_fn *read, int32_t n_passes);

#endif
