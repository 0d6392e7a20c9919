/* The definitions of argmax, softmax and the search for invalid logits over a vocabulary. */
#include <math.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"

int32_t pf_argmax_f32_ref(const float *logits, int32_t n)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++)
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) best = i;
    return best;
}

int32_t pf_find_invalid_f32_ref(const float *logits, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!(logits[i] < INFINITY)) return i;
    return -1;
}

float pf_softmax_f32_ref(float *probabilities, const float *logits, int32_t n, float temperature)
{
    float top = -INFINITY;
    for (int32_t i = 0; i < n; i++)
        if (logits[i] > top) top = logits[i];

    const float scale = 1.0f / temperature;
    double lane[PF_LANES] = { 0 };
    for (int32_t i = 0; i < n; i++) {
        /* The top is 0 below itself even where it is infinite; a NaN, and what is below an infinity, weighs 0. */
        const float below = logits[i] == top ? 0.0f : (logits[i] - top) * scale;
        const float weight = logits[i] > -INFINITY ? pf_exp(below) : 0.0f;
        lane[i % PF_LANES] += (double)weight;
        probabilities[i] = weight;
    }
    for (int half = PF_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];

    const float share = lane[0] > 0.0 ? (float)(1.0 / lane[0]) : 0.0f;
    for (int32_t i = 0; i < n; i++) probabilities[i] *= share;
    return top;
}
