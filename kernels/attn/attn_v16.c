/* Attention over a cache of f32 or bf16 (attn_v16.h). AVX-512 BF16 multiplies pairs by VDPBF16PS; f32 gains nothing from it. */
#include "kernels/attn/attn_v16.h"

#ifndef __AVX512BF16__
ATTN_DEFINE_TILES(f32, PF_TYPE_F32)
#endif
ATTN_DEFINE_TILES(bf16, PF_TYPE_BF16)

#ifndef __AVX512BF16__
void PF_FOR_ISA(pf_attn_f32)(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attn_items(args, PF_TYPE_F32, &attn_tiles_f32, item_begin, item_end, scratch);
}
#endif

void PF_FOR_ISA(pf_attn_bf16)(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attn_items(args, PF_TYPE_BF16, &attn_tiles_bf16, item_begin, item_end, scratch);
}
