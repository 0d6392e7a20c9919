/* Packs groups that others have quantised: one function for every instruction set. Internal. */
#ifndef PF_KERNELS_GEMM_PACK_EXACT_H
#define PF_KERNELS_GEMM_PACK_EXACT_H

#include "kernels/gemm/gemm.h"

/* As pf_gemm_pack_weights_fn, for w in PF_FORMAT_EXACT and sources with `fill`. */
void pf_gemm_pack_exact(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources, int32_t panel_begin,
                        int32_t panel_end);

#endif
