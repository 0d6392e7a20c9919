/* argmax, softmax and the search for invalid logits over a vocabulary in vectors of sixteen. */
#include <math.h>

#include "kernels/vec/v16.h"

/* The largest that is not NaN; minus infinity where there is none. */
PF_V16 float vocab_top(const float *logits, int32_t n)
{
    enum { CHAINS = 4 }; /* maxima apart: a maximum waits 2 to 4 cycles for the one before */
    pf_v16 top[CHAINS];
    for (int c = 0; c < CHAINS; c++) top[c] = pf_v16_set(-INFINITY);
    int32_t i = 0;
    for (; i + CHAINS * 16 <= n; i += CHAINS * 16)
        for (int c = 0; c < CHAINS; c++) top[c] = pf_v16_max(pf_v16_load(logits + i + c * 16), top[c]);
    for (; i + 16 <= n; i += 16) top[0] = pf_v16_max(pf_v16_load(logits + i), top[0]);
    float lanes[16];
    pf_v16_store(lanes, pf_v16_max(pf_v16_max(top[0], top[1]), pf_v16_max(top[2], top[3])));
    float best = -INFINITY;
    for (int l = 0; l < 16; l++) best = lanes[l] > best ? lanes[l] : best;
    for (; i < n; i++) best = logits[i] > best ? logits[i] : best;
    return best;
}

PF_V16 int32_t vocab_argmax(const float *logits, int32_t n)
{
    const float top = vocab_top(logits, n);
    const pf_v16 wanted = pf_v16_set(top);
    int32_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const uint32_t equal = pf_v16_bits(pf_v16_equal(pf_v16_load(logits + i), wanted));
        if (equal) return i + __builtin_ctz(equal);
    }
    for (; i < n; i++)
        if (logits[i] == top) return i;
    return -1;
}

/* Bits of the logits that are below plus infinity: of NaN none is set. */
PF_V16 uint32_t vocab_valid(const float *logits)
{
    return pf_v16_bits(pf_v16_above(pf_v16_set(INFINITY), pf_v16_load(logits)));
}

PF_V16 int32_t vocab_find_invalid(const float *logits, int32_t n)
{
    enum { ALL = 0xFFFF, AT_ONCE = 4 }; /* a branch for each sixteen takes twice as long */
    int32_t i = 0;
    for (; i + AT_ONCE * 16 <= n; i += AT_ONCE * 16) {
        uint32_t valid = ALL;
        for (int c = 0; c < AT_ONCE; c++) valid &= vocab_valid(logits + i + c * 16);
        if (valid != ALL) break;
    }
    for (; i + 16 <= n; i += 16) {
        const uint32_t valid = vocab_valid(logits + i);
        if (valid != ALL) return i + __builtin_ctz(~valid);
    }
    for (; i < n; i++)
        if (!(logits[i] < INFINITY)) return i;
    return -1;
}

PF_V16 pf_v16 vocab_weight(pf_v16 x, pf_v16 top, pf_v16 scale)
{
    const pf_v16 zero = pf_v16_set(0.0f);
    const pf_v16 below = pf_v16_where(pf_v16_equal(x, top), zero, pf_v16_mul(pf_v16_sub(x, top), scale));
    return pf_v16_where(pf_v16_above(x, pf_v16_set(-INFINITY)), pf_v16_exp(below), zero);
}

PF_V16 float vocab_softmax(float *probabilities, const float *logits, int32_t n, float temperature)
{
    const float top = vocab_top(logits, n);
    const pf_v16 vtop = pf_v16_set(top), scale = pf_v16_set(1.0f / temperature);
    const int32_t whole = n / 16 * 16, tail = n - whole;
    pf_v16d sums = pf_v16d_zero();
    for (int32_t i = 0; i < whole; i += 16) {
        const pf_v16 weight = vocab_weight(pf_v16_load(logits + i), vtop, scale);
        sums = pf_v16d_add(sums, weight);
        pf_v16_store(probabilities + i, weight);
    }
    if (tail) {
        float rest[16];
        for (int32_t i = 0; i < 16; i++) rest[i] = i < tail ? logits[whole + i] : -INFINITY;
        const pf_v16 weight = vocab_weight(pf_v16_load(rest), vtop, scale);
        sums = pf_v16d_add(sums, weight);
        pf_v16_store_first(probabilities + whole, weight, tail);
    }

    double lane[16];
    pf_v16d_store(lane, sums);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    const float share = lane[0] > 0.0 ? (float)(1.0 / lane[0]) : 0.0f;
    const pf_v16 vshare = pf_v16_set(share);
    for (int32_t i = 0; i < whole; i += 16)
        pf_v16_store(probabilities + i, pf_v16_mul(pf_v16_load(probabilities + i), vshare));
    for (int32_t i = whole; i < n; i++) probabilities[i] *= share;
    return top;
}

int32_t PF_FOR_ISA(pf_argmax_f32)(const float *logits, int32_t n)
{
    return vocab_argmax(logits, n);
}

int32_t PF_FOR_ISA(pf_find_invalid_f32)(const float *logits, int32_t n)
{
    return vocab_find_invalid(logits, n);
}

float PF_FOR_ISA(pf_softmax_f32)(float *probabilities, const float *logits, int32_t n, float temperature)
{
    return vocab_softmax(probabilities, logits, n, temperature);
}
