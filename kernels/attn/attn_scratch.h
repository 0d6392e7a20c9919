/* How the fast attention cuts its work; internal. None of it can be seen in a result. */
#ifndef PF_KERNELS_ATTN_SCRATCH_H
#define PF_KERNELS_ATTN_SCRATCH_H

enum {
    PF_ATTN_LINES = 64,  /* lines (a query row and a head of its group) that pass over a block of keys together */
    PF_ATTN_VECTOR = 16, /* words */
};

#endif
