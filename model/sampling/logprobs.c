#include "model/sampling/logprobs.h"

#include <math.h>

#include "base/checked.h"

static float number(float logit)
{
    return isnan(logit) ? -INFINITY : logit;
}

/* Inserts an id into those in falling order, where it is among the n_most largest. */
static void insert(pf_token_logprobs *out, int32_t n_most, int32_t id, float logit)
{
    int32_t i = out->n_top;
    while (i > 0 && out->top_logprobs[i - 1] < logit) i--;
    if (i >= n_most) return;
    out->n_top = pf_min(out->n_top + 1, n_most);
    for (int32_t k = out->n_top - 1; k > i; k--) {
        out->top[k] = out->top[k - 1];
        out->top_logprobs[k] = out->top_logprobs[k - 1];
    }
    out->top[i] = id;
    out->top_logprobs[i] = logit;
}

static float logprob_of(float logit, float largest, double sum)
{
    if (logit == -INFINITY) return -INFINITY;
    const double above = isinf(largest) ? (logit == largest ? 0.0 : -INFINITY) : (double)logit - (double)largest;
    return (float)(above - log(sum));
}

pf_token_logprobs pf_logprobs_of(const float *logits, int32_t n_vocab, int32_t token, int32_t n_top)
{
    pf_token_logprobs out = { .token = token };
    const int32_t n_most = pf_min(n_top, PF_MAX_LOGPROBS);
    float largest = -INFINITY;
    for (int32_t id = 0; id < n_vocab; id++) {
        const float logit = number(logits[id]);
        if (logit > largest) largest = logit;
        if (n_most > 0 && logit > -INFINITY) insert(&out, n_most, id, logit);
    }
    double sum = 0.0;
    for (int32_t id = 0; id < n_vocab; id++) {
        const float logit = number(logits[id]);
        if (isinf(largest))
            sum += logit == largest && largest > 0.0f;
        else
            sum += exp((double)logit - (double)largest);
    }
    out.logprob = logprob_of(number(logits[token]), largest, sum);
    for (int32_t i = 0; i < out.n_top; i++) out.top_logprobs[i] = logprob_of(out.top_logprobs[i], largest, sum);
    return out;
}
