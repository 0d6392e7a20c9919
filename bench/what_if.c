#include "bench/what_if.h"

#include <math.h>
#include <stdlib.h>

double pf_what_if_marginal(const pf_speculation *s, int32_t i)
{
    return i < PF_MAX_DRAFT_TOKENS && s->reached[i] > 0 ? (double)s->accepted_to[i] / (double)s->reached[i] : NAN;
}

double pf_what_if_conditional(const pf_speculation *s, int32_t i)
{
    const double before = i > 0 ? pf_what_if_marginal(s, i - 1) : 1.0, rate = pf_what_if_marginal(s, i) / before;
    return rate <= 1.0 ? rate : rate > 1.0 ? 1.0 : NAN; /* longer proposals may be better ones */
}

double pf_what_if_length(const pf_speculation *s, int32_t draft_len)
{
    double length = 1.0, reach = 1.0, rate = 0.0;
    for (int32_t i = 0; i < draft_len; i++) {
        const bool is_measured = i < PF_MAX_DRAFT_TOKENS && (s->reached[i] >= PF_WHAT_IF_LEAST || i == 0);
        const double measured = is_measured ? pf_what_if_conditional(s, i) : NAN;
        if (!isnan(measured)) rate = measured;
        reach *= rate;
        length += reach;
    }
    return length;
}

double pf_what_if_speedup(const pf_speculation *s, const pf_what_if_costs *costs, int32_t draft_len)
{
    if (draft_len == 0) return 1.0;
    const double ms = costs->verify_ms + draft_len * costs->draft_ms + costs->round_trip_us * 1e-3;
    return pf_what_if_length(s, draft_len) * costs->verify_ms / ms;
}

pf_what_if pf_what_if_best(const pf_speculation *s, const pf_what_if_costs *costs)
{
    pf_what_if best = { 0, 1.0, 1.0 };
    for (int32_t k = 1; k <= PF_WHAT_IF_LONGEST; k++) {
        const double speedup = pf_what_if_speedup(s, costs, k);
        if (speedup > best.speedup) best = (pf_what_if){ k, pf_what_if_length(s, k), speedup };
    }
    return best;
}

static bool take_number(const char **at, char end, double *out)
{
    char *rest;
    *out = strtod(*at, &rest);
    if (rest == *at || *rest != end || !isfinite(*out) || *out < 0.0 || *out > 1e9) return false;
    *at = rest + (end != '\0');
    return true;
}

bool pf_what_if_parse(const char *text, pf_what_if_costs *out)
{
    pf_what_if_costs c;
    if (!take_number(&text, ':', &c.verify_ms) || !take_number(&text, ':', &c.draft_ms) ||
        !take_number(&text, '\0', &c.round_trip_us) || c.verify_ms <= 0.0)
        return false;
    *out = c;
    return true;
}
