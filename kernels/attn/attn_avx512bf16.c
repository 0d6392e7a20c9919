/* The products of pairs by VDPBF16PS; the f32 cache has nothing to gain from it. */
#include "kernels/vec/v16_avx512.h"

#include "kernels/attn/attn_v16.h"

ATTN_DEFINE_TILES(bf16, PF_TYPE_BF16)

void pf_attn_bf16_avx512bf16(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attn_items(args, PF_TYPE_BF16, &attn_tiles_bf16, item_begin, item_end, scratch);
}
