/* Synthetic acceptance: from words to a rate for each position. */
#include "bench/synthetic_rates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BISECTIONS = 60 };

static pf_status refuse(const char *text, pf_error *error)
{
    return pf_fail(error, PF_INVALID,
                   "synthetic acceptance is \"%.60s\", expected a rate of 0 to 1, falling rates such as 0.9,0.5,0.2, "
                   "length:L or vllm-length:L with L of 1 or more",
                   text);
}

static bool take_number(const char **at, double most, double *out)
{
    char *end;
    *out = strtod(*at, &end);
    if (end == *at || !(*out >= 0.0 && *out <= most)) return false;
    *at = end;
    return true;
}

static bool parse_length(const char *text, pf_synthetic_rates *out)
{
    return take_number(&text, PF_MAX_DRAFT_TOKENS + 1, &out->value) && *text == '\0' && out->value >= 1.0;
}

static bool parse_rates(const char *text, pf_synthetic_rates *out)
{
    for (double before = 1.0;; before = out->marginal[out->n++]) {
        if (out->n == PF_MAX_DRAFT_TOKENS || !take_number(&text, before, &out->marginal[out->n])) return false;
        if (*text == '\0') break;
        if (*text++ != ',') return false;
    }
    out->n++;
    out->value = out->marginal[0];
    out->kind = out->n == 1 ? PF_SYNTHETIC_RATES_ONE : PF_SYNTHETIC_RATES_BY_POSITION;
    return true;
}

pf_status pf_synthetic_rates_parse(const char *text, pf_synthetic_rates *out, pf_error *error)
{
    static const struct {
        const char *word;
        pf_synthetic_rates_kind kind;
    } lengths[] = { { "length:", PF_SYNTHETIC_RATES_LENGTH }, { "vllm-length:", PF_SYNTHETIC_RATES_VLLM_LENGTH } };
    pf_synthetic_rates s = { 0 };
    bool is_good = false, is_length = false;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = strlen(lengths[i].word);
        if (strncmp(text, lengths[i].word, n) != 0) continue;
        is_length = true;
        s.kind = lengths[i].kind;
        is_good = parse_length(text + n, &s);
    }
    if (!is_length) is_good = parse_rates(text, &s);
    if (!is_good) return refuse(text, error);
    *out = s;
    return PF_OK;
}

/* p + p^2 + ... + p^k. */
static double sum_of_powers(double p, int32_t k)
{
    double sum = 0.0, power = 1.0;
    for (int32_t i = 0; i < k; i++) sum += power *= p;
    return sum;
}

/* The p of which that sum is `wanted`, 0 .. k: it grows with p. */
static double solve_for_rate(double wanted, int32_t k)
{
    double low = 0.0, high = 1.0;
    for (int32_t i = 0; i < BISECTIONS; i++) {
        const double middle = 0.5 * (low + high);
        if (sum_of_powers(middle, k) < wanted)
            low = middle;
        else
            high = middle;
    }
    return wanted >= (double)k ? 1.0 : low;
}

static double conditional_rate(const pf_synthetic_rates *s, int32_t i, int32_t draft_len)
{
    const double accepted = s->value - 1.0;
    double before;
    switch (s->kind) {
    case PF_SYNTHETIC_RATES_NONE: break;
    case PF_SYNTHETIC_RATES_ONE: return s->value;
    case PF_SYNTHETIC_RATES_BY_POSITION:
        before = i > 0 ? s->marginal[i - 1] : 1.0;
        return before > 0.0 ? s->marginal[i] / before : 0.0;
    case PF_SYNTHETIC_RATES_LENGTH: return solve_for_rate(accepted, draft_len);
    case PF_SYNTHETIC_RATES_VLLM_LENGTH: return fmin(1.0, fmax(0.0, accepted - i));
    }
    return 0.0;
}

pf_status pf_synthetic_rates_resolve(const pf_synthetic_rates *s, int32_t draft_len, float out[PF_MAX_DRAFT_TOKENS],
                                     pf_error *error)
{
    if (s->kind == PF_SYNTHETIC_RATES_BY_POSITION && s->n != draft_len)
        return pf_fail(error, PF_INVALID,
                       "synthetic acceptance has rates for %d positions, expected one for each of the %d tokens of a "
                       "proposal",
                       s->n, draft_len);
    const bool is_length = s->kind == PF_SYNTHETIC_RATES_LENGTH || s->kind == PF_SYNTHETIC_RATES_VLLM_LENGTH;
    if (is_length && s->value > draft_len + 1)
        return pf_fail(error, PF_INVALID,
                       "synthetic acceptance has a length of %g, expected at most %d with proposals of %d tokens",
                       s->value, draft_len + 1, draft_len);
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++)
        out[i] = i < draft_len ? (float)conditional_rate(s, i, draft_len) : 0.0f;
    return PF_OK;
}
