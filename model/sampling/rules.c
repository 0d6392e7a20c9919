#include "model/sampling/rules.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/sampling_parameters.h"

enum { IN_PROMPT = 1 << 30 }; /* of a count, beside how often the token was generated */

pf_rules pf_rules_lay_out(pf_arena *arena)
{
    return (pf_rules){ .ids = pf_arena_take(arena, PF_MAX_LOGIT_BIASES, sizeof(int32_t)),
                       .biases = pf_arena_take(arena, PF_MAX_LOGIT_BIASES, sizeof(float)),
                       .stop = pf_arena_take(arena, PF_MAX_STOP_TOKENS, sizeof(int32_t)) };
}

void pf_rules_take(pf_rules *r, const pf_logit_rules *given, const int32_t *stop, int32_t n_stop, int32_t n_vocab)
{
    r->is_active = pf_logit_rules_are_active(given);
    if (!r->is_active) return;
    r->rules = *given;
    r->rules.n_biases = 0;
    for (int32_t i = 0; i < pf_min(given->n_biases, PF_MAX_LOGIT_BIASES); i++) {
        if (given->bias_ids[i] < 0 || given->bias_ids[i] >= n_vocab) continue;
        r->ids[r->rules.n_biases] = given->bias_ids[i];
        r->biases[r->rules.n_biases++] = given->biases[i];
    }
    r->rules.bias_ids = r->ids;
    r->rules.biases = r->biases;
    r->n_stop = pf_min(n_stop, PF_MAX_STOP_TOKENS);
    if (r->n_stop > 0) memcpy(r->stop, stop, (size_t)r->n_stop * sizeof *stop);
}

/* Tokens [n], of which the first n_prompt are prompt. */
static void count(const int32_t *tokens, int32_t n, int32_t n_prompt, int32_t *counts, int32_t n_vocab)
{
    for (int32_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= n_vocab) continue;
        if (i < n_prompt)
            counts[tokens[i]] |= IN_PROMPT;
        else
            counts[tokens[i]]++;
    }
}

static float penalize(const pf_logit_rules *rules, int32_t counted, float logit)
{
    const float repetition = rules->repetition_penalty;
    const int32_t n_generated = counted & (IN_PROMPT - 1);
    if (repetition != 0.0f && repetition != 1.0f) logit = logit > 0.0f ? logit / repetition : logit * repetition;
    if (n_generated == 0) return logit;
    return logit - rules->frequency_penalty * (float)n_generated - rules->presence_penalty;
}

/* Each id once: its count is zero from then on. */
static void penalize_all(const pf_logit_rules *rules, const int32_t *tokens, int32_t n, int32_t *counts, float *logits,
                         int32_t n_vocab)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t id = tokens[i];
        if (id < 0 || id >= n_vocab || counts[id] == 0) continue;
        logits[id] = penalize(rules, counts[id], logits[id]);
        counts[id] = 0;
    }
}

/* mask: zero before and after. */
static void forbid(const pf_rules *r, const int32_t *tokens, int32_t n_tokens, const int32_t *more, int32_t n_more,
                   uint32_t *mask, float *logits, int32_t n_vocab)
{
    enum { BITS = 32 };
    const pf_logit_rules *rules = &r->rules;
    const int32_t n_prompt = pf_min(rules->n_prompt, n_tokens);
    rules->allow(rules->allow_user, tokens + n_prompt, n_tokens - n_prompt, more, n_more, mask, n_vocab);
    for (int32_t first = 0; first < n_vocab; first += BITS) {
        const uint32_t allowed = mask[first / BITS];
        mask[first / BITS] = 0;
        if (allowed == UINT32_MAX) continue;
        for (int32_t i = 0; i < pf_min(BITS, n_vocab - first); i++)
            if (!(allowed >> i & 1)) logits[first + i] = -INFINITY;
    }
}

void pf_rules_apply(const pf_rules *r, const int32_t *tokens, int32_t n_tokens, const int32_t *more, int32_t n_more,
                    int32_t *counts, float *logits, int32_t n_vocab)
{
    const pf_logit_rules *rules = &r->rules;
    for (int32_t i = 0; i < rules->n_biases; i++) logits[rules->bias_ids[i]] += rules->biases[i];
    if (n_tokens + n_more - rules->n_prompt < rules->min_tokens)
        for (int32_t i = 0; i < r->n_stop; i++)
            if (r->stop[i] >= 0 && r->stop[i] < n_vocab) logits[r->stop[i]] = -INFINITY;
    count(tokens, n_tokens, rules->n_prompt, counts, n_vocab);
    count(more, n_more, 0, counts, n_vocab);
    penalize_all(rules, tokens, n_tokens, counts, logits, n_vocab);
    penalize_all(rules, more, n_more, counts, logits, n_vocab);
    if (rules->allow) forbid(r, tokens, n_tokens, more, n_more, (uint32_t *)counts, logits, n_vocab);
}
