/*
 * The figures of a model behind a peer: what it has computed since it was created, and what its cache holds.
 */
#ifndef PF_BASE_MODEL_FIGURES_H
#define PF_BASE_MODEL_FIGURES_H

#include <stdint.h>

typedef struct {
    uint64_t n_passes, n_rows;             /* forward passes, and their rows */
    uint64_t prompt_tokens, cached_tokens; /* of opens; those of them that were in the cache */
    uint64_t n_evicted;                    /* idle sequences that lost their pages to others */
    int64_t n_pages, n_used_pages;         /* of the cache; 0: not known */
} pf_model_figures;

#endif
