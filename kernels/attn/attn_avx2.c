#include "kernels/vec/v16_avx2.h"

#include "kernels/attn/attn_store_v16.h"
#include "kernels/attn/attn_v16.h"

ATTN_DEFINE_TILES(f32, PF_TYPE_F32)
ATTN_DEFINE_TILES(bf16, PF_TYPE_BF16)

void pf_attn_f32_avx2(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attn_items(args, PF_TYPE_F32, &attn_tiles_f32, item_begin, item_end, scratch);
}

void pf_attn_bf16_avx2(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch)
{
    attn_items(args, PF_TYPE_BF16, &attn_tiles_bf16, item_begin, item_end, scratch);
}

void pf_attn_store_f32_avx2(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end)
{
    attn_store_items(args, PF_TYPE_F32, item_begin, item_end);
}

void pf_attn_store_bf16_avx2(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end)
{
    attn_store_items(args, PF_TYPE_BF16, item_begin, item_end);
}
