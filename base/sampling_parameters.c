#include "base/sampling_parameters.h"

#include <math.h>

pf_status pf_sampling_check(const pf_sampling *sampling, pf_error *error)
{
    if (!(sampling->temperature >= 0.0f) || !isfinite(sampling->temperature))
        return pf_fail(error, PF_INVALID, "temperature is %g, expected a finite number, 0 or more",
                       (double)sampling->temperature);
    if (sampling->top_k < 0)
        return pf_fail(error, PF_INVALID, "top_k is %d, expected 0 (off) or more", sampling->top_k);
    if (!(sampling->top_p >= 0.0f && sampling->top_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "top_p is %g, expected 0 (off) to 1 (off)", (double)sampling->top_p);
    if (!(sampling->min_p >= 0.0f && sampling->min_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "min_p is %g, expected 0 (off) to 1", (double)sampling->min_p);
    if (!(sampling->typical_p >= 0.0f && sampling->typical_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "typical_p is %g, expected 0 (off) to 1 (off)", (double)sampling->typical_p);
    return PF_OK;
}

static pf_status check_threshold(const char *name, float value, pf_error *error)
{
    if (value >= 0.0f && value <= 1.0f) return PF_OK;
    return pf_fail(error, PF_INVALID, "the %s of typical acceptance is %g, expected above 0 to 1, or 0 for the default",
                   name, (double)value);
}

pf_status pf_typical_check(const pf_typical *typical, pf_error *error)
{
    PF_TRY(check_threshold("epsilon", typical->epsilon, error));
    return check_threshold("delta", typical->delta, error);
}

pf_typical pf_typical_resolve(pf_typical typical)
{
    static const float EPSILON = 0.09f, DELTA = 0.3f;
    return (pf_typical){ .epsilon = typical.epsilon > 0.0f ? typical.epsilon : EPSILON,
                         .delta = typical.delta > 0.0f ? typical.delta : DELTA };
}

/* ---- logit rules ------------------------------------------------------------------------------------------------- */

static const float MOST_REPETITION = 1e3f, MOST_PENALTY = 2.0f;

static pf_status check_penalty(const char *name, float value, pf_error *error)
{
    if (value >= -MOST_PENALTY && value <= MOST_PENALTY) return PF_OK;
    return pf_fail(error, PF_INVALID, "%s_penalty is %g, expected -2 to 2", name, (double)value);
}

static pf_status check_biases(const pf_logit_rules *rules, int32_t n_ids, pf_error *error)
{
    if (rules->n_biases < 0 || rules->n_biases > PF_MAX_LOGIT_BIASES)
        return pf_fail(error, PF_INVALID, "%d logit biases, expected at most %d", rules->n_biases, PF_MAX_LOGIT_BIASES);
    for (int32_t i = 0; i < rules->n_biases; i++) {
        if (rules->bias_ids[i] < 0 || rules->bias_ids[i] >= n_ids)
            return pf_fail(error, PF_INVALID, "logit bias %d is of token %d, expected 0 to %d", i, rules->bias_ids[i],
                           n_ids - 1);
        if (!(rules->biases[i] < INFINITY))
            return pf_fail(error, PF_INVALID, "the logit bias of token %d is %g, expected a number, or minus infinity",
                           rules->bias_ids[i], (double)rules->biases[i]);
    }
    return PF_OK;
}

pf_status pf_logit_rules_check(const pf_logit_rules *rules, int32_t n_ids, pf_error *error)
{
    if (!(rules->repetition_penalty >= 0.0f && rules->repetition_penalty <= MOST_REPETITION))
        return pf_fail(error, PF_INVALID, "repetition_penalty is %g, expected above 0 to %g (1: off)",
                       (double)rules->repetition_penalty, (double)MOST_REPETITION);
    PF_TRY(check_penalty("frequency", rules->frequency_penalty, error));
    PF_TRY(check_penalty("presence", rules->presence_penalty, error));
    if (rules->min_tokens < 0 || rules->n_prompt < 0)
        return pf_fail(error, PF_INVALID, "min_tokens is %d behind a prompt of %d, expected no negative number",
                       rules->min_tokens, rules->n_prompt);
    return check_biases(rules, n_ids, error);
}

bool pf_logit_rules_are_active(const pf_logit_rules *rules)
{
    const float repetition = rules->repetition_penalty;
    return (repetition != 0.0f && repetition != 1.0f) || rules->frequency_penalty != 0.0f ||
           rules->presence_penalty != 0.0f || rules->min_tokens > 0 || rules->n_biases > 0 || rules->allow != NULL;
}
