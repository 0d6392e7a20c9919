/*
 * Computes RoPE's inverse frequencies, with one function per scaling type.
 *
 * Each line uses the precision and order of transformers (modeling_rope_utils.py, 5.23): tensors in float32, Python numbers in
 * double and rounded to float32 where they meet a tensor; a number divided by a tensor is the tensor's reciprocal times the
 * number. powf differs from PyTorch's vector pow by at most one ulp.
 */
#include <math.h>

#include "model/config/config.h"

/* base ** (arange(0, dim, 2) / dim) at i. */
static float position_frequency(double base, int32_t i, int32_t dim)
{
    return powf((float)base, (float)(2 * i) / (float)dim);
}

static void plain(double base, int32_t dim, float *inv_freq)
{
    for (int32_t i = 0; i < dim / 2; i++) inv_freq[i] = 1.0f / position_frequency(base, i, dim);
}

static void linear(const pf_rope *rope, int32_t dim, float *inv_freq)
{
    plain(rope->theta, dim, inv_freq);
    for (int32_t i = 0; i < dim / 2; i++) inv_freq[i] /= (float)rope->factor;
}

/* Up to max_position this is the plain form. Beyond it theta grows, in float32: the length is a tensor in transformers. */
static void dynamic(const pf_rope *rope, int32_t dim, int32_t max_position, int32_t context_tokens, float *inv_freq)
{
    double base = rope->theta;
    if (context_tokens > max_position) {
        const float stretch = (float)rope->factor * (float)context_tokens / (float)max_position;
        const float grown = stretch - (float)(rope->factor - 1.0);
        base = (double)((float)base * powf(grown, (float)((double)dim / (double)(dim - 2))));
    }
    plain(base, dim, inv_freq);
}

static void llama3(const pf_rope *rope, int32_t dim, float *inv_freq)
{
    static const double two_pi = 2.0 * 3.14159265358979323846;
    const float factor = (float)rope->factor;
    const float low = (float)rope->low_freq_factor;
    const float range = (float)(rope->high_freq_factor - rope->low_freq_factor);
    const float low_wavelength = (float)(rope->original_max_position / rope->low_freq_factor);
    const float high_wavelength = (float)(rope->original_max_position / rope->high_freq_factor);

    plain(rope->theta, dim, inv_freq);
    for (int32_t i = 0; i < dim / 2; i++) {
        const float wavelength = (1.0f / inv_freq[i]) * (float)two_pi;
        if (wavelength > low_wavelength) {
            inv_freq[i] /= factor;
        } else if (!(wavelength < high_wavelength)) {
            const float smooth = ((1.0f / wavelength) * (float)rope->original_max_position - low) / range;
            inv_freq[i] = (1.0f - smooth) * inv_freq[i] / factor + smooth * inv_freq[i];
        }
    }
}

/* The dimension that rotates `rotations` times over the original context. Source: arXiv:2309.00071, section 3.2. */
static double correction_dimension(const pf_rope *rope, double rotations, int32_t dim)
{
    static const double pi = 3.14159265358979323846;
    return dim * log(rope->original_max_position / (rotations * 2.0 * pi)) / (2.0 * log(rope->theta));
}

static void yarn(const pf_rope *rope, int32_t dim, float *inv_freq)
{
    double low = correction_dimension(rope, rope->beta_fast, dim);
    double high = correction_dimension(rope, rope->beta_slow, dim);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, dim - 1);
    if (low == high) high += 0.001; /* as transformers does, against a division by zero */

    for (int32_t i = 0; i < dim / 2; i++) {
        const float frequency = position_frequency(rope->theta, i, dim);
        const float ramp = ((float)i - (float)low) / (float)(high - low);
        const float kept = 1.0f - fminf(fmaxf(ramp, 0.0f), 1.0f);
        const float extrapolated = 1.0f / frequency;
        const float interpolated = 1.0f / ((float)rope->factor * frequency);
        inv_freq[i] = interpolated * (1.0f - kept) + extrapolated * kept;
    }
}

static void longrope(const pf_rope *rope, int32_t dim, int32_t context_tokens, float *inv_freq)
{
    const float *divisor = context_tokens > rope->original_max_position ? rope->long_factor : rope->short_factor;
    for (int32_t i = 0; i < dim / 2; i++) inv_freq[i] = 1.0f / (divisor[i] * position_frequency(rope->theta, i, dim));
}

void pf_rope_frequencies(const pf_config *config, int32_t which, int32_t context_tokens, float *inv_freq,
                         float *attention_scale)
{
    const pf_rope *rope = &config->ropes[which];
    const int32_t dim = config->rotary_dim;
    switch (rope->type) {
    case PF_ROPE_DEFAULT: plain(rope->theta, dim, inv_freq); break;
    case PF_ROPE_LINEAR: linear(rope, dim, inv_freq); break;
    case PF_ROPE_DYNAMIC: dynamic(rope, dim, config->max_position, context_tokens, inv_freq); break;
    case PF_ROPE_LLAMA3: llama3(rope, dim, inv_freq); break;
    case PF_ROPE_YARN: yarn(rope, dim, inv_freq); break;
    case PF_ROPE_LONGROPE: longrope(rope, dim, context_tokens, inv_freq); break;
    }
    *attention_scale = (float)rope->attention_scale;
}
