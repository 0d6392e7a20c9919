/* Names the ways to compute the LM head. */
#ifndef PF_MODEL_HEAD_KIND_H
#define PF_MODEL_HEAD_KIND_H

/* How the LM head is computed: --head. */
typedef enum {
    PF_HEAD_AUTO, /* BOUNDED where it is supported, fits in memory and saves a twentieth of the bytes of a step; else FULL */
    PF_HEAD_FULL, /* as any other product */
    /* For greedy targets: an INT8 copy of the head with error bounds selects the tokens that may be the argmax, and the full
     * head decides among them (bounded_head.h). Exact, with at most half the bytes of BF16, and a second head in memory. Not for
     * integer weights, F16 or a head with a bias. */
    PF_HEAD_BOUNDED,
    /* For drafts: in four bits, then the best few candidates are rescored from BF16 rows (kernels/sample/rescore.h). A half or a
     * quarter of the bytes. The argmax is nearly always the same, the other logits are approximate. Not for weights that are
     * F32, F16 or quantised in their files. */
    PF_HEAD_SCREENED,
    PF_N_HEADS
} pf_head;

#endif
