#include "draft/choose.h"

#include <math.h>

#include "base/checked.h"

pf_chooser pf_chooser_create(const pf_kernels *kernels, int32_t n_vocab, pf_arena *arena)
{
    return (pf_chooser){
        .kernels = kernels,
        .n_vocab = n_vocab,
        .p = pf_arena_take(arena, (size_t)n_vocab, sizeof(float)),
        .scratch = pf_arena_take(arena, pf_sampling_scratch_bytes(n_vocab), 1),
        .counts = pf_arena_take(arena, (size_t)n_vocab, sizeof(int32_t)),
    };
}

static bool samples(const pf_sampling_request *request)
{
    return request->method != PF_METHOD_GREEDY && request->sampling.temperature > 0.0f;
}

bool pf_sampling_request_declares(const pf_sampling_request *request)
{
    return samples(request) && request->method != PF_METHOD_COUPLED && request->max_declared > 0;
}

static pf_status choose_best(const pf_chooser *chooser, const float *logits, int32_t *token)
{
    const int32_t best = chooser->kernels->argmax(logits, chooser->n_vocab);
    if (best < 0 || !(logits[best] > -INFINITY)) return PF_UNSUPPORTED;
    *token = best;
    return PF_OK;
}

pf_status pf_choose_token(const pf_chooser *chooser, const pf_sampling_request *request, const float *logits,
                          int32_t position, uint64_t round, int32_t *token, int32_t *ids, float *probabilities,
                          int32_t *n_declared)
{
    const pf_sampling *sampling = &request->sampling;
    if (samples(request) && request->method == PF_METHOD_COUPLED) {
        if (pf_sampling_distribution(sampling, chooser->kernels, logits, chooser->n_vocab, chooser->p,
                                     chooser->scratch) != PF_OK)
            return PF_UNSUPPORTED;
        *token = chooser->kernels->race(chooser->p, chooser->n_vocab, sampling->seed, PF_NOISE_TARGET, position);
        return PF_OK;
    }
    if (!pf_sampling_request_declares(request)) return choose_best(chooser, logits, token);

    if (pf_sampling_shortlist(sampling, chooser->kernels, logits, chooser->n_vocab, request->max_declared, ids,
                              probabilities, n_declared, chooser->p, chooser->scratch) != PF_OK)
        return PF_UNSUPPORTED;
    const float uniform = pf_noise_uniform(request->draft_seed, PF_NOISE_DRAFT, position, (int32_t)(round & INT32_MAX));
    *token = ids[pf_sampling_draw_entry(probabilities, *n_declared, uniform)];
    return PF_OK;
}

/* The greatest of logits [begin .. end), or *best where that is greater. */
static void look_for_best(int32_t *best, const pf_chooser *chooser, const float *logits, int32_t begin, int32_t end)
{
    const int32_t at = begin < end ? chooser->kernels->argmax(logits + begin, end - begin) : -1;
    if (at >= 0 && (*best < 0 || logits[begin + at] > logits[*best])) *best = begin + at;
}

float pf_choose_margin(const pf_chooser *chooser, const float *logits, int32_t token, int32_t *second_choice)
{
    *second_choice = -1;
    look_for_best(second_choice, chooser, logits, 0, token);
    look_for_best(second_choice, chooser, logits, token + 1, chooser->n_vocab);
    if (*second_choice >= 0 && !(logits[*second_choice] > -INFINITY)) *second_choice = -1;
    return logits[token] - (*second_choice >= 0 ? logits[*second_choice] : -INFINITY);
}

/* The logit, tempered as the target's is, and under coupled with the target's noise: in nats. */
static float score_of(const pf_sampling_request *request, const float *logits, int32_t position, int32_t token)
{
    if (!samples(request)) return logits[token];
    const float tempered = logits[token] / request->sampling.temperature;
    if (request->method != PF_METHOD_COUPLED) return tempered;
    return tempered - (float)log(pf_noise_exponential(request->sampling.seed, PF_NOISE_TARGET, position, token));
}

void pf_choose_alternatives(const pf_chooser *chooser, const pf_sampling_request *request, const float *logits,
                            int32_t position, int32_t token, pf_outcome_row *row)
{
    enum { WITH_NOISE = 16, ALONE = PF_OUTCOME_CANDIDATES + 1 };
    int32_t ids[WITH_NOISE];
    float scores[WITH_NOISE];
    const bool has_noise = samples(request) && request->method == PF_METHOD_COUPLED;
    const int32_t wanted = pf_min(has_noise ? WITH_NOISE : ALONE, chooser->n_vocab);
    const int32_t n = chooser->kernels->top(logits, chooser->n_vocab, wanted, -INFINITY, ids, scores, chooser->scratch);
    for (int32_t i = 0; i < n; i++) scores[i] = score_of(request, logits, position, ids[i]);
    pf_outcome_row_fill(row, token, token < 0 ? 0.0f : score_of(request, logits, position, token), ids, scores, n);
}
