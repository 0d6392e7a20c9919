#include "cli/acceptance_figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "bench/what_if.h"
#include "cli/figures.h"
#include "cli/json_out.h"
#include "cli/processor.h"
#include "cli/setup.h"

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

static json_t *range_json(pf_spread spread)
{
    return json_pack("[o, o]", pf_json_number(spread.least), pf_json_number(spread.most));
}

/* The least and the greatest of the repeats. */
static void add_spread(json_t *object, const pf_acceptance_figures *f)
{
    if (f->n_repeats < 2) return;
    json_object_set_new(object, "repeats", json_integer(f->n_repeats));
    json_object_set_new(object, "plain_tokens_per_s_range", range_json(pf_acceptance_plain_spread(f)));
    json_object_set_new(object, "speculative_tokens_per_s_range", range_json(pf_acceptance_speculative_spread(f)));
    json_object_set_new(object, "speedup_range", range_json(pf_acceptance_speedup_spread(f)));
}

static const char *method_of(const pf_acceptance_setting *setting)
{
    if (setting->temperature == 0.0f) return "greedy";
    return setting->method ? pf_method_name(setting->method) : "rejection";
}

/* Whether its texts have another distribution than the target's. */
static bool is_lossy(const pf_acceptance_setting *setting)
{
    return setting->temperature > 0.0f && setting->method == PF_METHOD_TYPICAL;
}

/* For each position, null where nothing reached it. */
static json_t *rates_json(const pf_speculation *s, double (*rate_of)(const pf_speculation *s, int32_t i))
{
    json_t *rates = json_array();
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS && s->reached[i] > 0; i++)
        json_array_append_new(rates, pf_json_number(rate_of(s, i)));
    return rates;
}

/* How many proposals were so long, to the longest. */
static json_t *reached_json(const pf_speculation *s)
{
    json_t *counts = json_array();
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS && s->reached[i] > 0; i++)
        json_array_append_new(counts, json_integer((json_int_t)s->reached[i]));
    return counts;
}

static json_t *categories_json(const pf_acceptance_run *run)
{
    json_t *object = json_object();
    for (size_t i = 0; i < run->n_categories; i++) {
        const pf_acceptance_figures *f = &run->categories[i];
        const pf_speculation *s = &f->speculation;
        json_t *of = json_pack(
            "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "requests", (json_int_t)f->n_requests,
            "plain_tokens_per_s", pf_json_number(pf_acceptance_plain_rate(f)), "speculative_tokens_per_s",
            pf_json_number(pf_acceptance_speculative_rate(f)), "speedup", pf_json_number(pf_acceptance_speedup(f)),
            "acceptance_rate", pf_json_number(pf_speculation_acceptance_rate(s)), "mean_accepted_length",
            pf_json_number(pf_speculation_mean_length(s)), "predicted_speedup",
            pf_json_number(pf_acceptance_predicted_speedup(f)), "per_position", rates_json(s, pf_what_if_marginal),
            "per_position_conditional", rates_json(s, pf_what_if_conditional));
        add_spread(of, f);
        json_object_set_new(object, f->category, of);
    }
    return object;
}

static json_t *what_if_json(const pf_strings *given, const pf_speculation *s)
{
    json_t *points = json_array();
    for (int32_t i = 0; i < given->n; i++) {
        pf_what_if_costs costs;
        if (!pf_what_if_parse(given->items[i], &costs)) continue; /* checked before */
        const pf_what_if best = pf_what_if_best(s, &costs);
        json_array_append_new(
            points, json_pack("{s:o, s:o, s:o, s:i, s:o, s:o}", "verify_ms", pf_json_number(costs.verify_ms),
                              "draft_ms", pf_json_number(costs.draft_ms), "round_trip_us",
                              pf_json_number(costs.round_trip_us), "best_draft_len", best.draft_len, "expected_length",
                              pf_json_number(best.length), "speedup", pf_json_number(best.speedup)));
    }
    return points;
}

/* Tokens that a round commits by the rates of its positions; of a length that is chosen none is said. */
static double expected_length(const pf_acceptance_setting *setting, const pf_speculation *s)
{
    return setting->draft_len == PF_DRAFT_LEN_AUTO || s->rounds == 0 ? NAN : pf_what_if_length(s, setting->draft_len);
}

/* As --siblings. */
static json_t *siblings_json(int32_t siblings)
{
    if (siblings == 0) return json_string("auto");
    if (siblings == PF_NO_SIBLINGS) return json_string("off");
    return siblings == PF_SIBLINGS_THAT_PAY ? json_string("pay") : json_integer(siblings);
}

json_t *pf_acceptance_json(const pf_options *o, pf_drafter_kind drafter, const pf_acceptance_setting *setting,
                           const pf_acceptance_run *run)
{
    const pf_acceptance_figures *f = &run->total;
    json_t *length = setting->draft_len == PF_DRAFT_LEN_AUTO ? json_string("auto") : json_integer(setting->draft_len);
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:i, s:o, s:o, s:o, s:I, s:i}", "method", method_of(setting), "temperature",
                  pf_json_float(setting->temperature), "draft_len", length, "top_k", o->sampling.top_k, "top_p",
                  pf_json_float(o->sampling.top_p), "min_p", pf_json_float(o->sampling.min_p), "typical_p",
                  pf_json_float(o->sampling.typical_p), "seed", (json_int_t)o->sampling.seed, "new_tokens", o->n_new);
    if (!object) return NULL;
    json_object_set_new(object, "siblings", siblings_json(setting->siblings));
    json_object_set_new(object, "lossy", json_boolean(o->synthetic || is_lossy(setting)));
    json_object_set_new(object, "requests", json_integer((json_int_t)f->n_requests));
    json_object_set_new(object, "skipped", json_integer((json_int_t)run->n_skipped));
    json_object_set_new(object, "identical", json_integer((json_int_t)f->n_identical));
    char checksum[24];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, f->checksum);
    json_object_set_new(object, "text_checksum", json_string(checksum));
    json_object_set_new(object, "plain_tokens_per_s", pf_json_number(pf_acceptance_plain_rate(f)));
    json_object_set_new(object, "speculative_tokens_per_s", pf_json_number(pf_acceptance_speculative_rate(f)));
    json_object_set_new(object, "speedup", pf_json_number(pf_acceptance_speedup(f)));
    json_object_set_new(object, "predicted_speedup", pf_json_number(pf_acceptance_predicted_speedup(f)));
    json_object_set_new(object, "speculation", pf_json_speculation(&f->speculation));
    json_object_set_new(object, "drafter", json_string(pf_setup_drafter_word(drafter)));
    if (o->synthetic) json_object_set_new(object, "synthetic_acceptance", json_string(o->synthetic));
    add_spread(object, f);
    json_object_set_new(object, "expected_length", pf_json_number(expected_length(setting, &f->speculation)));
    json_object_set_new(object, "per_position_conditional", rates_json(&f->speculation, pf_what_if_conditional));
    json_object_set_new(object, "reached", reached_json(&f->speculation));
    if (o->what_if.n > 0 &&
        setting->draft_len != PF_DRAFT_LEN_AUTO) /* the rates of a chosen length are not those of any fixed one */
        json_object_set_new(object, "what_if", what_if_json(&o->what_if, &f->speculation));
    json_object_set_new(object, "by_category", categories_json(run));
    return object;
}

/* ---- what was measured on what ------------------------------------------------------------------------------------- */

static void add_fact(json_t *facts, const char *name, const char *value)
{
    if (value) json_array_append_new(facts, json_pack("[s, s]", name, value));
}

json_t *pf_acceptance_facts(const pf_options *o)
{
    json_t *facts = json_array();
    char text[256];
    const time_t now = time(NULL);
    struct tm utc;
    add_fact(facts, "target", o->model ? o->model : o->verifier);
    add_fact(facts, "draft", o->draft ? o->draft : o->draft_worker);
    add_fact(facts, "prompts", o->prompts_file ? o->prompts_file : "the bundled questions.jsonl");
    snprintf(text, sizeof text, "%d at most", o->n_new);
    add_fact(facts, "tokens an answer", text);
    pf_processor_name(text, sizeof text);
    add_fact(facts, "processor", text);
    if (gmtime_r(&now, &utc) && strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc) > 0)
        add_fact(facts, "measured", text);
    snprintf(text, sizeof text, "pilotfish %s", pf_version());
    add_fact(facts, "by", text);
    return facts;
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static void print_head(pf_out *out, const pf_options *o)
{
    if (o->synthetic) pf_out_print(out, "synthetic acceptance %s: the text is not the model's\n", o->synthetic);
    pf_out_print(out, "%s%-15s %6s %8s  %7s %7s  %9s %9s  %8s %9s  %s%s\n", o->n_drafters > 1 ? "drafter  " : "",
                 "method", "temp", "length", "accept", "mean", "plain/s", "spec/s", "speed-up", "predicted",
                 o->repeats > 1 ? "range of speed-up  " : "", "same text");
}

/* And the siblings of each token: 4+2, auto+pay; 4-: no tree. */
static void print_length(const pf_acceptance_setting *setting, char out[16])
{
    int n = setting->draft_len == PF_DRAFT_LEN_AUTO ? snprintf(out, 16, "auto")
                                                    : snprintf(out, 16, "%d", setting->draft_len);
    if (setting->siblings == PF_NO_SIBLINGS) snprintf(out + n, 16 - (size_t)n, "-");
    if (setting->siblings == PF_SIBLINGS_THAT_PAY) snprintf(out + n, 16 - (size_t)n, "+pay");
    if (setting->siblings > 0 && setting->siblings <= PF_MAX_SIBLINGS)
        snprintf(out + n, 16 - (size_t)n, "+%d", setting->siblings);
}

static void print_run(pf_out *out, const pf_options *o, pf_drafter_kind drafter, const pf_acceptance_setting *setting,
                      const pf_acceptance_run *run)
{
    const pf_acceptance_figures *f = &run->total;
    const pf_speculation *s = &f->speculation;
    char length[16], skipped[40] = "", range[40] = "";
    print_length(setting, length);
    if (run->n_skipped > 0) snprintf(skipped, sizeof skipped, ", %lld skipped", (long long)run->n_skipped);
    const pf_spread spread = pf_acceptance_speedup_spread(f);
    if (o->repeats > 1)
        snprintf(range, sizeof range, "%8s to %-7s", pf_figure_fixed(spread.least, 2).text,
                 pf_figure_fixed(spread.most, 2).text);
    if (o->n_drafters > 1) pf_out_print(out, "%-9s", pf_setup_drafter_word(drafter));
    pf_out_print(
        out, "%-15s %6.4g %8s  %7s %7s  %9s %9s  %8s %9s  %s%lld of %lld%s\n",
        is_lossy(setting) ? "typical (lossy)" : method_of(setting), (double)setting->temperature, length,
        pf_figure_fixed(pf_speculation_acceptance_rate(s), 3).text,
        pf_figure_fixed(pf_speculation_mean_length(s), 2).text, pf_figure_rate(pf_acceptance_plain_rate(f)).text,
        pf_figure_rate(pf_acceptance_speculative_rate(f)).text, pf_figure_fixed(pf_acceptance_speedup(f), 2).text,
        pf_figure_fixed(pf_acceptance_predicted_speedup(f), 2).text, range, (long long)f->n_identical,
        (long long)f->n_requests, skipped);
}

static void print_what_if(pf_out *out, const pf_strings *given, const pf_speculation *s)
{
    for (int32_t i = 0; i < given->n; i++) {
        pf_what_if_costs costs;
        if (!pf_what_if_parse(given->items[i], &costs)) continue;
        const pf_what_if best = pf_what_if_best(s, &costs);
        pf_out_print(out,
                     "  step %.4g ms, pass %.4g ms, trip %.4g us: best length %d, %.2f tokens a round, speed-up %.2f\n",
                     costs.verify_ms, costs.draft_ms, costs.round_trip_us, best.draft_len, best.length, best.speedup);
    }
}

void pf_acceptance_print(pf_out *out, bool is_first, const pf_options *options, pf_drafter_kind drafter,
                         const pf_acceptance_setting *setting, const pf_acceptance_run *run)
{
    if (is_first) print_head(out, options);
    print_run(out, options, drafter, setting, run);
    if (setting->draft_len != PF_DRAFT_LEN_AUTO) print_what_if(out, &options->what_if, &run->total.speculation);
    pf_out_flush(out);
}
