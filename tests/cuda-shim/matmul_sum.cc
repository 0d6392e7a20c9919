/*
 * The loops of a matrix product: sums in F32 over k ascending, `chunk` products at a time, whose sums are added in turn.
 * Compiled with optimisation in every build: its operands are checked before.
 */
#include <cstring>
#include <vector>

#include "tests/cuda-shim/include/cuda_bf16.h"
#include "tests/cuda-shim/shim_state.hh"

namespace pf_shim
{
namespace
{
constexpr int64_t TILE = 16;   // rows of the result at a time, so that the compiler uses vectors

/* tile[l][i] = op(A)[i0 + i, l], zero beyond the last row */
void widen_tile(const product &p, int64_t i0, int64_t rows, float *tile)
{
    for (int64_t l = 0; l < p.k; l++)
        for (int64_t i = 0; i < TILE; i++) {
            const int64_t at = p.transpose_a ? (i0 + i) * p.lda + l : l * p.lda + i0 + i;
            tile[l * TILE + i] = i < rows ? widen(p.a[at]) : 0.0f;
        }
}

void sum_column(const product &p, const float *tile, int64_t column, float *sums)
{
    for (int64_t i = 0; i < TILE; i++) sums[i] = 0;
    for (int64_t begin = 0; begin < p.k; begin += p.chunk) {
        const int64_t end = begin + p.chunk < p.k ? begin + p.chunk : p.k;
        float part[TILE] = {};
        for (int64_t l = begin; l < end; l++) {
            const float x = widen(p.transpose_b ? p.b[l * p.ldb + column] : p.b[column * p.ldb + l]);
            for (int64_t i = 0; i < TILE; i++) part[i] += tile[l * TILE + i] * x;
        }
        for (int64_t i = 0; i < TILE; i++) sums[i] += part[i];
    }
}

float read_c(const product &p, int64_t at)
{
    return p.f32_out ? static_cast<const float *>(p.c)[at] : widen(static_cast<const unsigned short *>(p.c)[at]);
}
}   // namespace

void multiply(const product &p)
{
    std::vector<float> tile(static_cast<size_t>(p.k * TILE));
    for (int64_t i0 = 0; i0 < p.m; i0 += TILE) {
        const int64_t rows = p.m - i0 < TILE ? p.m - i0 : TILE;
        widen_tile(p, i0, rows, tile.data());
        for (int64_t j = 0; j < p.n; j++) {
            float sums[TILE];
            sum_column(p, tile.data(), j, sums);
            for (int64_t i = 0; i < rows; i++) {
                float y = p.alpha * sums[i];
                if (p.beta != 0) y += p.beta * read_c(p, j * p.ldc + i0 + i);
                if (p.f32_out)
                    static_cast<float *>(p.d)[j * p.ldd + i0 + i] = y;
                else
                    static_cast<unsigned short *>(p.d)[j * p.ldd + i0 + i] = round_to_bf16(y);
            }
        }
    }
}
}   // namespace pf_shim
