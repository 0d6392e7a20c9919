/* Packing of weights, the definition. */
#include "kernels/gemm/pack/pack_nest.h"

bool pf_gemm_pack_weights(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources,
                          int32_t panel_begin, int32_t panel_end)
{
    return pack_panels(w, sources, n_sources, panel_begin, panel_end);
}
