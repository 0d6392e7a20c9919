#include "kernels/sample/words_avx2.h"

#include "kernels/sample/exp_race_words.h"

int32_t pf_exp_race_f32_avx2(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position)
{
    return race_all(p, n, seed, domain, position, pf_argmax_f32_avx2(p, n));
}
