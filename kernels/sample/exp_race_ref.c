/* The definition of the exponential race (Gumbel-max sampling), block by block of noise. */
#include <math.h>
#include <stdbool.h>

#include "kernels/implementations.h"

int32_t pf_exp_race_f32_ref(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position)
{
    int32_t winner = -1;
    double best = INFINITY;
    for (int32_t first = 0; first < n; first += PF_NOISE_BLOCK) {
        const int32_t n_here = n - first < PF_NOISE_BLOCK ? n - first : PF_NOISE_BLOCK;
        bool wanted = false;
        for (int32_t i = 0; i < n_here; i++) wanted |= p[first + i] > 0.0f;
        if (!wanted) continue;

        uint32_t words[PF_NOISE_BLOCK];
        pf_noise_block(seed, domain, position, (uint32_t)first / PF_NOISE_BLOCK, 0, words);
        for (int32_t i = 0; i < n_here; i++) {
            const double share = (double)p[first + i];
            if (!(share > 0.0)) continue;
            const double v = pf_noise_open_unit(words[i], seed, domain, position, first + i);
            if (v >= best * share) continue; /* -log(1 - v) >= v: it cannot win, and needs no logarithm */
            const double time = -log1p(-v) / share;
            if (time < best) {
                best = time;
                winner = first + i;
            }
        }
    }
    return winner;
}
