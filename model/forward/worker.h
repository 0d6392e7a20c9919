/* A member at work on the pass at hand: what forward.c and attend.c share. Internal to model/. */
#ifndef PF_MODEL_WORKER_H
#define PF_MODEL_WORKER_H

#include "model/forward/pass.h"

/* A member's part of something: columns of a product, items of attention. Empty when end <= begin. */
typedef struct {
    int32_t begin, end;
} pf_range;

/* A member at work on the pass at hand. */
typedef struct {
    pf_context *c;
    const pf_kernels *kernels;
    const pf_gemm *gemm;
    pf_member member;
    const pf_member_scratch *mine;
    bool by_columns;   /* a product's left side can be packed by columns */
    pf_panels qkv[3];  /* those of its heads, of Q, K and V, where heads are apart */
    pf_rows q, k, v;   /* where they go */
    pf_rows attended;  /* what attention gives */
    pf_range heads;    /* the columns of `attended` that its heads make, where heads are apart */
    pf_range residual; /* its columns, where rows are few: O and DOWN add to them */
    int32_t phase;     /* the next that is taken in pieces */
} pf_worker;

/* All kernels are called, and members wait for each other; but not while one is measured alone (pass_kernels.h). */
static inline bool pf_worker_is_whole(const pf_worker *w)
{
    return w->c->calls == PF_ALL_PASS_KERNELS;
}
static inline bool pf_worker_calls(const pf_worker *w, pf_pass_kernel kernel)
{
    return (w->c->calls >> kernel & 1) != 0;
}
/* Others run the whole pass, too. */
static inline bool pf_worker_has_company(const pf_worker *w)
{
    return w->member.n_threads > 1 && pf_worker_is_whole(w);
}
static inline void pf_worker_wait(const pf_worker *w)
{
    if (pf_worker_is_whole(w)) pf_team_barrier(w->member);
}

/* ---- pieces (base/chunks.h) ---------------------------------------------------------------------------------------- */

/* A share that is not much more than the least piece, of a small model, is not cut. */
enum { PF_CHUNKS_PER_SHARE = 2, PF_CHUNKED_ROWS = 32 };

static inline int32_t pf_worker_begin_phase(pf_worker *w)
{
    pf_chunks_begin(w->c->pieces, w->member, w->phase);
    return w->phase++;
}

/* ---- attend.c ------------------------------------------------------------------------------------------------------ */

/* Append the new keys and values to the cache, and attend to all there are. */
void pf_worker_attend(pf_worker *w, int32_t layer);

#endif
