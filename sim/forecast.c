#include "sim/forecast.h"

#include "base/checked.h"

enum { LONGEST = 16, NEW_TOKENS = 200, ALL_TOKENS = 6400, FEWEST_REQUESTS = 2 };

double pf_forecast_length(double acceptance, int32_t draft_len)
{
    double length = 1.0, power = 1.0;
    for (int32_t i = 0; i < draft_len; i++) length += power *= acceptance;
    return length;
}

double pf_forecast_in_turns(const pf_forecast_point *p, int32_t draft_len)
{
    if (draft_len == 0) return 1.0;
    const double step = (double)p->verify_ns + draft_len * (double)p->draft_ns + (double)p->round_trip_ns;
    return pf_forecast_length(p->acceptance, draft_len) * (double)p->verify_ns / step;
}

double pf_forecast_ahead(const pf_forecast_point *p, int32_t draft_len)
{
    if (draft_len == 0) return 1.0;
    const double verify = (double)(p->verify_ns + p->round_trip_ns),
                 draft = (draft_len + 1) * (double)p->draft_ns + (double)p->round_trip_ns;
    return pf_forecast_length(p->acceptance, draft_len) * (double)p->verify_ns / (verify > draft ? verify : draft);
}

static void bound(const pf_forecast_point *p, pf_forecast *out)
{
    for (int32_t k = 1; k <= LONGEST; k++)
        if (pf_forecast_in_turns(p, k) > pf_forecast_in_turns(p, out->best_len)) out->best_len = k;
    const int32_t k = p->draft_len > 0 ? p->draft_len : out->best_len;
    out->bound = pf_forecast_in_turns(p, k);
    out->ahead_bound = pf_forecast_ahead(p, k);
    if (p->draft_len > 0) return;
    for (int32_t i = 1; i <= LONGEST; i++)
        if (pf_forecast_ahead(p, i) > out->ahead_bound) out->ahead_bound = pf_forecast_ahead(p, i);
}

static pf_status rate_of(const pf_scenario *scenario, double *rate, pf_speculation *speculation, pf_error *error)
{
    pf_scenario_result result;
    char what[sizeof error->text];
    PF_TRY(pf_scenario_run(scenario, &result, error));
    if (!pf_scenario_holds(scenario, &result, what, sizeof what)) return pf_fail(error, PF_INTERNAL, "%s", what);
    *rate = (double)result.n_tokens * 1e9 / (double)result.elapsed_ns;
    *speculation = result.speculation;
    return PF_OK;
}

pf_status pf_forecast_run(const pf_forecast_point *point, pf_forecast *out, pf_error *error)
{
    pf_forecast forecast = { 0 };
    const int32_t n_requests = ALL_TOKENS / NEW_TOKENS / (point->batch > 0 ? point->batch : 1);
    pf_scenario scenario = { .seed = point->seed,
                             .n_engines = point->batch,
                             .n_requests = n_requests > FEWEST_REQUESTS ? n_requests : FEWEST_REQUESTS,
                             .n_prompt = 16,
                             .n_new = NEW_TOKENS,
                             .draft_ns = point->draft_ns,
                             .verify_ns = point->verify_ns,
                             .acceptance = point->acceptance,
                             .second = 0.5,
                             .draft_len = point->draft_len,
                             .method = PF_METHOD_GREEDY,
                             .to_worker.least_ns = point->round_trip_ns / 2,
                             .gather_ns = 1000 * 1000 * 1000 };
    PF_TRY(rate_of(&scenario, &forecast.tokens_per_s, &forecast.speculation, error));
    double ahead_per_s = 0.0;
    pf_speculation none;
    scenario.drafts_ahead = true;
    PF_TRY(rate_of(&scenario, &ahead_per_s, &forecast.ahead, error));
    scenario.is_plain = true;
    PF_TRY(rate_of(&scenario, &forecast.plain_tokens_per_s, &none, error));
    forecast.speedup = forecast.tokens_per_s / forecast.plain_tokens_per_s;
    forecast.speedup_ahead = ahead_per_s / forecast.plain_tokens_per_s;
    bound(point, &forecast);
    *out = forecast;
    return PF_OK;
}
