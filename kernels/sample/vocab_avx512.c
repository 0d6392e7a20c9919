#include "kernels/vec/v16_avx512.h"

#include "kernels/sample/vocab_v16.h"

int32_t pf_argmax_f32_avx512(const float *logits, int32_t n)
{
    return vocab_argmax(logits, n);
}

float pf_softmax_f32_avx512(float *probabilities, const float *logits, int32_t n, float temperature)
{
    return vocab_softmax(probabilities, logits, n, temperature);
}
