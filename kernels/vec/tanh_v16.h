/* pf_tanh of sixteen floats, lane by lane, the same bits. Internal to kernels/. */
#ifndef PF_KERNELS_VEC_TANH_V16_H
#define PF_KERNELS_VEC_TANH_V16_H

#include "kernels/vec/tanh.h"
#include "kernels/vec/v16.h"

PF_V16 pf_v16 pf_v16_tanh(pf_v16 x)
{
    pf_v16 t = pf_v16_min(pf_v16_set(PF_TANH_FAR), pf_v16_add(x, x));
    t = pf_v16_max(pf_v16_set(-PF_TANH_FAR), t);
    const pf_v16 shift = pf_v16_set(PF_EXP_SHIFT);
    const pf_v16 n = pf_v16_sub(pf_v16_fma(t, pf_v16_set(PF_EXP_LOG2E), shift), shift);
    pf_v16 r = pf_v16_fma(n, pf_v16_set(-PF_EXP_LN2_TOP), t);
    r = pf_v16_fma(n, pf_v16_set(-PF_EXP_LN2_BOTTOM), r);
    pf_v16 p = pf_v16_fma(pf_v16_set(PF_EXP_C7), r, pf_v16_set(PF_EXP_C6));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C5));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C4));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C3));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C2));
    p = pf_v16_fma(p, pf_v16_mul(r, r), r);

    const pf_v16 power = pf_v16_exp2_whole(n);
    const pf_v16 m = pf_v16_fma(power, p, pf_v16_sub(power, pf_v16_set(1.0f)));
    return pf_v16_div(m, pf_v16_add(m, pf_v16_set(2.0f)));
}

#endif
