/* The figures of generation. */
#include "cli/figures.h"

#include <math.h>
#include <stdio.h>

#include "bench/statistics.h"
#include "cli/json_out.h"

static json_t *per_position(const pf_speculation *s)
{
    json_t *array = json_array();
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS && s->reached[i] > 0; i++)
        json_array_append_new(array, pf_json_ratio((double)s->accepted_to[i], (double)s->reached[i]));
    return array;
}

json_t *pf_json_speculation(const pf_speculation *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:f, s:f, s:{s:o, s:o}, s:I, s:I, s:I, s:{s:o, s:o}}",
                     "rounds", (json_int_t)s->rounds, "fallback_rounds", (json_int_t)s->fallback_rounds, "drafted",
                     (json_int_t)s->drafted, "branches", (json_int_t)s->branches, "accepted", (json_int_t)s->accepted,
                     "acceptance_rate", pf_json_number(pf_speculation_acceptance_rate(s)), "mean_accepted_length",
                     pf_json_number(pf_speculation_mean_length(s)), "per_position", per_position(s), "draft_ms",
                     (double)s->draft_ns * 1e-6, "verify_ms", (double)s->verify_ns * 1e-6, "rpc_us", "p50",
                     pf_json_number(pf_rpc_percentile(s, 0.50)), "p99", pf_json_number(pf_rpc_percentile(s, 0.99)),
                     "ahead_hits", (json_int_t)s->ahead_hits, "ahead_misses", (json_int_t)s->ahead_misses,
                     "draft_passes", (json_int_t)s->draft_passes, "hit_us", "p50",
                     pf_json_number(pf_hit_percentile(s, 0.50)), "p99", pf_json_number(pf_hit_percentile(s, 0.99)));
}

pf_figure pf_figure_fixed(double value, int decimals)
{
    pf_figure figure = { "-" };
    if (!isnan(value)) snprintf(figure.text, sizeof figure.text, "%.*f", decimals, value);
    return figure;
}

pf_figure pf_figure_rate(double rate)
{
    return pf_figure_fixed(rate, rate < 1.0 ? 3 : rate < 10.0 ? 2 : 1);
}

void pf_figures_print_speculation(const pf_speculation *s)
{
    fprintf(stderr, "speculation: %lld rounds, %lld without a proposal, ", (long long)s->rounds,
            (long long)s->fallback_rounds);
    if (s->rounds > 0 && s->drafted > 0)
        fprintf(stderr, "acceptance rate %.3f, mean accepted length %.2f, ", pf_speculation_acceptance_rate(s),
                pf_speculation_mean_length(s));
    fprintf(stderr, "draft %.1f ms, verify %.1f ms", (double)s->draft_ns * 1e-6, (double)s->verify_ns * 1e-6);
    if (s->ahead_hits + s->ahead_misses > 0)
        fprintf(stderr, ", drafted ahead: %lld hits, %lld misses", (long long)s->ahead_hits,
                (long long)s->ahead_misses);
    if (s->n_rpc > 0)
        fprintf(stderr, ", round trip %.0f us at the median, %.0f us at p99", pf_rpc_percentile(s, 0.50),
                pf_rpc_percentile(s, 0.99));
    fputc('\n', stderr);
}

const char *pf_method_name(pf_method method)
{
    switch (method) {
    case PF_METHOD_GREEDY: return "greedy";
    case PF_METHOD_REJECTION: return "rejection";
    case PF_METHOD_BLOCK: return "block";
    case PF_METHOD_COUPLED: return "coupled";
    case PF_METHOD_TYPICAL: return "typical";
    case PF_METHOD_TRAVERSAL: return "traversal";
    case PF_METHOD_AUTO: break;
    }
    return "auto";
}
