/* Sizes, and what packed rows stand for: what all implementations of the product share. */
#include "kernels/cpu.h"
#include "kernels/gemm/layout_bf16_12.h"
#include "kernels/gemm/layout_exact.h"
#include "kernels/gemm/layout_int.h"

pf_fetch pf_fetch_of(uint32_t features)
{
    if (features & PF_FEATURE_FETCH_TILED) return PF_FETCH_TILED;
    if (features & PF_FEATURE_FETCH_NEAR) return PF_FETCH_NEAR;
    return features & PF_FEATURE_FETCH_SHORT ? PF_FETCH_SHORT : PF_FETCH_FAR;
}

pf_status pf_gemm_plan_weights(pf_format format, int32_t n, int32_t k, pf_gemm_weights *out, size_t *bytes)
{
    if (n <= 0 || k <= 0 || (unsigned)format >= PF_N_FORMATS) return PF_INVALID;
    const int32_t bits = pf_format_get(format)->bits;
    const size_t n_panels = ((size_t)n + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL;
    size_t panel_bytes, reserve_bytes = 0, with_reserve, total;
    if (bits < 16) {
        if (k > PF_GEMM_MAX_INT_K) return PF_LIMIT;
        panel_bytes = pf_gemm_layout_of(format, k).panel_bytes;
    } else if (format == PF_FORMAT_BF16_12) {
        panel_bytes = pf_b12_panel_bytes(k);
        reserve_bytes = pf_b12_reserve_bytes(k);
    } else {
        const size_t steps = bits == 32 ? (size_t)k : ((size_t)k + 1) / 2;
        if (!pf_size_mul(steps, 4 * PF_GEMM_PANEL, &panel_bytes)) return PF_LIMIT;
    }
    if (!pf_size_add(panel_bytes, reserve_bytes, &with_reserve)) return PF_LIMIT;
    if (!pf_size_mul(with_reserve, n_panels, &total)) return PF_LIMIT;
    *out = (pf_gemm_weights){
        .format = format, .n = n, .k = k, .n_panels = (int32_t)n_panels, .panel_bytes = panel_bytes
    };
    *bytes = total;
    return PF_OK;
}

static bool are_groups(const pf_group_format *g)
{
    const bool is_super = g->scales == PF_GROUP_SCALES_SUPER;
    const bool is_power = g->group >= 16 && g->group <= PF_GROUP_SUPER_VALUES && (g->group & (g->group - 1)) == 0;
    if (g->bits != 4 && g->bits != 8) return false;
    if ((unsigned)g->scales > PF_GROUP_SCALES_SUPER || (unsigned)g->offset > PF_GROUP_MINIMUM) return false;
    if (is_super) return (g->group == 16 || g->group == 32) && g->offset != PF_GROUP_ZERO;
    return g->group == 0 || is_power;
}

pf_status pf_gemm_plan_exact(const pf_group_format *groups, int32_t n, int32_t k, pf_gemm_weights *out, size_t *bytes)
{
    if (n <= 0 || k <= 0 || !are_groups(groups)) return PF_INVALID;
    const size_t n_panels = ((size_t)n + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL;
    const size_t panel_bytes = pf_exact_layout_of(groups, k).panel_bytes;
    size_t total;
    if (!pf_size_mul(panel_bytes, n_panels, &total)) return PF_LIMIT;
    *out = (pf_gemm_weights){ .format = PF_FORMAT_EXACT,
                              .n = n,
                              .k = k,
                              .n_panels = (int32_t)n_panels,
                              .panel_bytes = panel_bytes,
                              .groups = *groups };
    *bytes = total;
    return PF_OK;
}

size_t pf_gemm_input_bytes(int32_t m, int32_t k)
{
    const size_t rows = pf_round_up((size_t)m, 16), values = pf_round_up((size_t)k, 128);
    return rows * (values * 4 + values / 32 * 4 + 64);
}

size_t pf_gemm_scratch_bytes(int32_t m)
{
    const size_t sums = pf_round_up((size_t)m, 32) * PF_GEMM_PANEL * (sizeof(float) + sizeof(int32_t));
    const size_t several = m > PF_GEMM_PANEL / 2 ? PF_GEMM_GROUP_BYTES : 0;
    return (sums > several ? sums : several) + PF_GEMM_UNPACKED_BYTES;
}

int32_t pf_gemm_groups(pf_format format, int32_t k)
{
    return pf_gemm_layout_of(format, k).n_groups;
}

bool pf_gemm_has_heads(pf_format format)
{
    return pf_gemm_layout_of(format, 1).has_heads;
}

size_t pf_gemm_find_bad_head(pf_format format, const uint8_t *heads, size_t n)
{
    const pf_gemm_layout l = pf_gemm_layout_of(format, 1);
    uint8_t is_bad[256], any = 0;
    for (size_t byte = 0; byte < sizeof is_bad; byte++) is_bad[byte] = !pf_gemm_head_is_valid(&l, (uint8_t)byte);
    for (size_t i = 0; i < n; i++) any |= is_bad[heads[i]];
    size_t first = any ? 0 : n;
    while (first < n && !is_bad[heads[first]]) first++;
    return first;
}

static void unpack_integers(const pf_gemm_weights *w, const uint8_t *panel, int32_t j, float *out)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    for (size_t k = 0; k < (size_t)w->k; k++)
        out[k] = (float)pf_gemm_integer(&l, panel, j, k) * pf_gemm_scale(panel, j);
}

static void unpack_exact(const pf_gemm_weights *w, const uint8_t *panel, size_t j, float *out)
{
    const pf_exact_layout l = pf_exact_layout_of(&w->groups, w->k);
    pf_exact_head head = { 0 };
    for (size_t k = 0; k < (size_t)w->k; k++) {
        if (k % 16 == 0) head = pf_exact_head_of_value(&l, panel, j, k);
        out[k] = pf_exact_value(&l, panel, j, k, head);
    }
}

static void unpack_bf16_12(const pf_gemm_weights *w, int32_t panel, size_t j, float *out)
{
    const uint8_t *codes = pf_b12_panel(w, panel), *blocks = codes + pf_b12_head_bytes(w->k);
    const uint8_t *reserved = pf_b12_reserve(w, panel);
    for (size_t k = 0; k < (size_t)w->k; k++) {
        const size_t b = k / PF_B12_BLOCK_K, i = k % PF_B12_BLOCK_K;
        if (i == 0 && b > 0) reserved += pf_b12_reserved(codes[b - 1]);
        out[k] = pf_bf16_to_f32(
            pf_b12_value(codes[b], blocks + b * PF_B12_BLOCK_BYTES, reserved, (i / 2 * PF_GEMM_PANEL + j) * 2 + i % 2));
    }
}

void pf_gemm_unpack_row(const pf_gemm_weights *w, int32_t n, float *out)
{
    const uint8_t *panel = (const uint8_t *)w->panels + (size_t)(n / PF_GEMM_PANEL) * w->panel_bytes;
    const size_t j = (size_t)(n % PF_GEMM_PANEL), n_values = (size_t)w->k;
    if (w->format == PF_FORMAT_F32) {
        const float *values = (const float *)(const void *)panel;
        for (size_t k = 0; k < n_values; k++) out[k] = values[k * PF_GEMM_PANEL + j];
    } else if (w->format == PF_FORMAT_BF16) {
        const uint16_t *values = (const uint16_t *)(const void *)panel;
        for (size_t k = 0; k < n_values; k++) out[k] = pf_bf16_to_f32(values[(k / 2 * PF_GEMM_PANEL + j) * 2 + k % 2]);
    } else if (w->format == PF_FORMAT_BF16_12) {
        unpack_bf16_12(w, n / PF_GEMM_PANEL, j, out);
    } else if (w->format == PF_FORMAT_EXACT) {
        unpack_exact(w, panel, j, out);
    } else {
        unpack_integers(w, panel, (int32_t)j, out);
    }
}

/* ---- block by block ------------------------------------------------------------------------------------------------ */

_Static_assert((int)PF_GEMM_BLOCK_K == (int)PF_B12_BLOCK_K, "a block of bf16-12 is one of these");

/* n values of k of 32 columns, two beside each other. */
static void spread_pairs(const uint16_t *pairs, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < PF_GEMM_PANEL; j++)
            out[i * PF_GEMM_PANEL + j] = pf_bf16_to_f32(pairs[(i / 2 * PF_GEMM_PANEL + j) * 2 + i % 2]);
}

static void unpack_block_bf16_12(const pf_gemm_weights *w, int32_t panel, size_t block, size_t n, float *out)
{
    const uint8_t *codes = pf_b12_panel(w, panel), *blocks = codes + pf_b12_head_bytes(w->k);
    const uint8_t *reserved = pf_b12_reserve(w, panel) + pf_b12_reserved_before(codes, block);
    uint16_t plain[PF_B12_BLOCK_VALUES];
    pf_b12_unpack_block(codes[block], blocks + block * PF_B12_BLOCK_BYTES, reserved, plain);
    spread_pairs(plain, n, out);
}

static void unpack_block_int8(const pf_gemm_weights *w, const uint8_t *panel, size_t k, size_t n, float *out)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const uint8_t *steps = panel + pf_gemm_step_at(&l, k);
    float scales[PF_GEMM_PANEL];
    memcpy(scales, panel, sizeof scales);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < PF_GEMM_PANEL; j++)
            out[i * PF_GEMM_PANEL + j] = (float)(steps[i / 4 * l.step_bytes + j * 4 + i % 4] - 128) * scales[j];
}

static void unpack_block_integers(const pf_gemm_weights *w, const uint8_t *panel, size_t k, size_t n, float *out)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    for (size_t i = 0; i < n; i++)
        for (int32_t j = 0; j < PF_GEMM_PANEL; j++)
            *out++ = (float)pf_gemm_integer(&l, panel, j, k + i) * pf_gemm_scale(panel, j);
}

static void unpack_block_exact(const pf_gemm_weights *w, const uint8_t *panel, size_t k, size_t n, float *out)
{
    const pf_exact_layout l = pf_exact_layout_of(&w->groups, w->k);
    for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
        const pf_exact_head head = pf_exact_head_of_value(&l, panel, j, k);
        for (size_t i = 0; i < n; i++) out[i * PF_GEMM_PANEL + j] = pf_exact_value(&l, panel, j, k + i, head);
    }
}

void pf_gemm_unpack_block(const pf_gemm_weights *w, int32_t panel, int32_t block, float *out)
{
    const uint8_t *at = (const uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
    const size_t k = (size_t)block * PF_GEMM_BLOCK_K, left = (size_t)w->k - k;
    const size_t n = left < PF_GEMM_BLOCK_K ? left : PF_GEMM_BLOCK_K;
    if (w->format == PF_FORMAT_F32)
        memcpy(out, (const float *)(const void *)at + k * PF_GEMM_PANEL, n * PF_GEMM_PANEL * sizeof *out);
    else if (w->format == PF_FORMAT_BF16)
        spread_pairs((const uint16_t *)(const void *)at + k * PF_GEMM_PANEL, n, out);
    else if (w->format == PF_FORMAT_BF16_12)
        unpack_block_bf16_12(w, panel, (size_t)block, n, out);
    else if (w->format == PF_FORMAT_INT8)
        unpack_block_int8(w, at, k, n, out);
    else if (w->format == PF_FORMAT_EXACT)
        unpack_block_exact(w, at, k, n, out);
    else
        unpack_block_integers(w, at, k, n, out);
}
