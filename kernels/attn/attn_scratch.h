/* How the fast attention cuts its work; internal. None of it can be seen in a result. */
#ifndef PF_KERNELS_ATTN_SCRATCH_H
#define PF_KERNELS_ATTN_SCRATCH_H

enum {
    PF_ATTN_LINES = 32,  /* query rows times heads of a group that pass over a key together */
    PF_ATTN_VECTOR = 16, /* elements, and keys whose scores are summed together */
};

#endif
