#include "cli/acceptance_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/acceptance_page.h"
#include "cli/acceptance_plots.h"

static const char STYLE[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--note:#fff8e6;--c0:#0969da;"
    "--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#7d6608}"
    "@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--line:#30363d;--note:#2b2111;"
    "--c0:#58a6ff;--c1:#ffa657;--c2:#56d364;--c3:#bc8cff;--c4:#ff7bc5;--c5:#e3b341}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1280px;margin:0 auto;padding:24px 16px 48px}"
    "h1{font-size:24px;line-height:1.25;margin:0 0 6px}h2{font-size:17px;margin:32px 0 8px}"
    "p{margin:4px 0;color:var(--dim)}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:14px 0 0}dt{color:var(--dim)}"
    "dd{margin:0;overflow-wrap:anywhere}"
    ".scroll{overflow-x:auto}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th,td{padding:5px 7px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}"
    "th{color:var(--dim);font-weight:600;white-space:normal;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--bg)}"
    ".main{font-weight:600}.range{font-size:12px;font-weight:400;color:var(--dim)}"
    "details{margin:10px 0}summary{cursor:pointer;padding:4px 0}"
    ".plots{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr))}"
    "figure{margin:0}figcaption{font-weight:600;margin-bottom:6px}"
    "figcaption small{display:block;font-size:12px;font-weight:400;color:var(--dim)}"
    "svg{width:100%;height:auto;display:block;overflow:visible}"
    "svg text{fill:var(--dim);font:12px system-ui,sans-serif}"
    ".warning{color:var(--fg);background:var(--note);border-left:4px solid var(--c1);padding:8px 12px;margin:14px 0}"
    ".key{display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:8px 0 14px;list-style:none}"
    ".key span{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px}"
    "@media(min-width:800px){dl{grid-template-columns:max-content 1fr max-content 1fr}}"
    "@media(max-width:560px){th:first-child,td:first-child{white-space:normal;min-width:128px}"
    "svg text{font-size:20px}.group{transform-box:fill-box;transform-origin:center;transform:translateY(24px) "
    "rotate(-32deg)}figure{padding-bottom:28px}}";

static void put_cell(FILE *f, double value, int decimals)
{
    if (isnan(value))
        fputs("<td>-</td>", f);
    else
        fprintf(f, "<td>%.*f</td>", decimals, value);
}

/* A median, and below it the least and the greatest of the repeats. attributes: of the cell. */
static void put_range(FILE *f, const json_t *run, const char *key, int decimals, const char *attributes)
{
    char of_range[64];
    snprintf(of_range, sizeof of_range, "%s_range", key);
    const json_t *range = json_object_get(run, of_range), *least = json_array_get(range, 0),
                 *most = json_array_get(range, 1);
    if (isnan(pf_page_number(run, key))) {
        fputs("<td>-</td>", f);
        return;
    }
    fprintf(f, "<td%s>%.*f", attributes, decimals, pf_page_number(run, key));
    if (json_is_number(least) && json_is_number(most))
        fprintf(f, "<div class=range>%.*f to %.*f</div>", decimals, json_number_value(least), decimals,
                json_number_value(most));
    fputs("</td>", f);
}

/* "120 of 120" */
static void put_identical(FILE *f, const json_t *run)
{
    fprintf(f, "<td>%.0f of %.0f</td>", pf_page_number(run, "identical"), pf_page_number(run, "requests"));
}

static void put_runs(FILE *f, const json_t *runs)
{
    size_t i;
    const json_t *run;
    fputs(
        "<div class=scroll><table><tr><th>run<th>speed&#8209;up<th>predicted<th>acceptance<th>mean length<th>by theory"
        "<th>plain tok/s<th>speculative tok/s<th>same text</tr>\n",
        f);
    json_array_foreach(runs, i, run)
    {
        const json_t *s = json_object_get(run, "speculation");
        fputs("<tr><td>", f);
        pf_page_name(f, runs, run);
        fputs("</td>", f);
        put_range(f, run, "speedup", 2, " class=main");
        put_cell(f, pf_page_number(run, "predicted_speedup"), 2);
        put_cell(f, pf_page_number(s, "acceptance_rate"), 3);
        put_cell(f, pf_page_number(s, "mean_accepted_length"), 2);
        put_cell(f, pf_page_number(run, "expected_length"), 2);
        put_range(f, run, "plain_tokens_per_s", 1, "");
        put_range(f, run, "speculative_tokens_per_s", 1, "");
        put_identical(f, run);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

/* ---- categories ---------------------------------------------------------------------------------------------------- */

static void put_category_name(FILE *f, const char *category)
{
    pf_page_text(f, *category ? category : "(none)");
}

/* A row a run, a column a category. */
static void put_speedups(FILE *f, const json_t *runs)
{
    size_t i;
    const json_t *run;
    const char *category;
    json_t *of, *names = json_object_get(json_array_get(runs, 0), "by_category");
    fputs("<div class=scroll><table><tr><th>speed&#8209;up", f);
    json_object_foreach(names, category, of)
    {
        fputs("<th>", f);
        put_category_name(f, category);
    }
    fputs("<th>all</tr>\n", f);
    json_array_foreach(runs, i, run)
    {
        fputs("<tr><td>", f);
        pf_page_name(f, runs, run);
        fputs("</td>", f);
        json_object_foreach(names, category, of)
            put_cell(f, pf_page_number(json_object_get(json_object_get(run, "by_category"), category), "speedup"), 2);
        put_cell(f, pf_page_number(run, "speedup"), 2);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void put_categories_of(FILE *f, const json_t *runs, json_t *run)
{
    const char *category;
    json_t *of;
    fprintf(f, "<details%s><summary>", json_array_size(runs) == 1 ? " open" : "");
    pf_page_name(f, runs, run);
    fputs("</summary>\n<div class=scroll><table><tr><th>category<th>speed&#8209;up<th>acceptance<th>mean "
          "length<th>plain tok/s"
          "<th>speculative tok/s<th>requests</tr>\n",
          f);
    json_object_foreach(json_object_get(run, "by_category"), category, of)
    {
        fputs("<tr><td>", f);
        put_category_name(f, category);
        fputs("</td>", f);
        put_range(f, of, "speedup", 2, " class=main");
        put_cell(f, pf_page_number(of, "acceptance_rate"), 3);
        put_cell(f, pf_page_number(of, "mean_accepted_length"), 2);
        put_range(f, of, "plain_tokens_per_s", 1, "");
        put_range(f, of, "speculative_tokens_per_s", 1, "");
        put_cell(f, pf_page_number(of, "requests"), 0);
        fputs("</tr>\n", f);
    }
    fputs("</table></div></details>\n", f);
}

static void put_categories(FILE *f, const json_t *runs)
{
    if (json_object_size(json_object_get(json_array_get(runs, 0), "by_category")) == 0) return;
    fputs("<h2>By category</h2>\n", f);
    if (json_array_size(runs) > 1) put_speedups(f, runs);
    for (size_t i = 0; i < json_array_size(runs); i++) put_categories_of(f, runs, json_array_get(runs, i));
}

/* ---- what if ------------------------------------------------------------------------------------------------------- */

static bool has_what_if(const json_t *runs)
{
    for (size_t i = 0; i < json_array_size(runs); i++)
        if (json_array_size(json_object_get(json_array_get(runs, i), "what_if")) > 0) return true;
    return false;
}

static void put_what_if(FILE *f, const json_t *runs)
{
    size_t i, j;
    const json_t *run, *point;
    if (!has_what_if(runs)) return;
    fputs("<h2>What another deployment would give</h2><p>By the acceptance rates of each run of fixed length: the best "
          "length and the speed-up for a target step, a draft pass and a round trip that take these times.</p>\n"
          "<div class=scroll><table><tr><th>run<th>step, ms<th>pass, ms<th>round trip, us<th>best length"
          "<th>tokens a round<th>speed&#8209;up</tr>\n",
          f);
    json_array_foreach(runs, i, run) json_array_foreach(json_object_get(run, "what_if"), j, point)
    {
        fputs("<tr><td>", f);
        pf_page_name(f, runs, run);
        fprintf(f, "</td><td>%g</td><td>%g</td><td>%g</td>", pf_page_number(point, "verify_ms"),
                pf_page_number(point, "draft_ms"), pf_page_number(point, "round_trip_us"));
        put_cell(f, pf_page_number(point, "best_draft_len"), 0);
        put_cell(f, pf_page_number(point, "expected_length"), 2);
        put_cell(f, pf_page_number(point, "speedup"), 2);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

/* ---- the page ------------------------------------------------------------------------------------------------------ */

static void put_synthetic(FILE *f, const json_t *rates)
{
    if (!json_is_string(rates)) return;
    fputs("<p class=warning><b>Synthetic acceptance (", f);
    pf_page_text(f, json_string_value(rates));
    fputs(").</b> Draft tokens are accepted at this rate, whatever they are: the text is not the model's, and the "
          "acceptance says nothing about the draft. The times are measured.</p>\n",
          f);
}

static void put_fact(FILE *f, const char *name, const char *value)
{
    fputs("<dt>", f);
    pf_page_text(f, name);
    fputs("</dt><dd>", f);
    pf_page_text(f, value);
    fputs("</dd>\n", f);
}

/* What is the same in all runs. */
static void put_facts(FILE *f, const json_t *facts, const json_t *runs)
{
    size_t i;
    const json_t *fact, *first = json_array_get(runs, 0);
    fputs("<dl>", f);
    json_array_foreach(facts, i, fact)
        put_fact(f, json_string_value(json_array_get(fact, 0)), json_string_value(json_array_get(fact, 1)));
    if (!pf_page_varies(runs, "drafter")) put_fact(f, "drafter", json_string_value(json_object_get(first, "drafter")));
    if (!pf_page_varies(runs, "method") && !json_object_get(first, "synthetic_acceptance")) {
        char method[64];
        snprintf(method, sizeof method, "%s%s", json_string_value(json_object_get(first, "method")),
                 json_is_true(json_object_get(first, "lossy")) ? " (lossy)" : "");
        put_fact(f, "method", method);
    }
    if (!pf_page_varies(runs, "temperature")) {
        char temperature[32];
        snprintf(temperature, sizeof temperature, "%g", pf_page_number(first, "temperature"));
        put_fact(f, "temperature", temperature);
    }
    fputs("</dl>\n", f);
}

static void put_page(FILE *f, const char *title, const json_t *facts, const json_t *runs)
{
    fputs("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
          "content=\"width=device-width,initial-scale=1\"><title>",
          f);
    pf_page_text(f, title);
    fprintf(f, "</title><style>%s</style><main><h1>", STYLE);
    pf_page_text(f, title);
    fputs("</h1><p>Plain and speculative decoding in turns, prompt by prompt, on one verifier.", f);
    const json_t *first = json_array_get(runs, 0);
    if (json_object_get(first, "repeats"))
        fprintf(f, " Medians of %d repeats of the whole grid; below them the least and the greatest.",
                (int)pf_page_number(first, "repeats"));
    fputs("</p>\n", f);
    put_synthetic(f, json_object_get(first, "synthetic_acceptance"));
    put_facts(f, facts, runs);
    fputs("<h2>Runs</h2>\n", f);
    put_runs(f, runs);
    fputs("<h2>Plots</h2>\n", f);
    pf_acceptance_plots_write(f, runs);
    put_what_if(f, runs);
    put_categories(f, runs);
    fputs("</main></html>\n", f);
}

static pf_status open_page(const char *path, const char *mode, FILE **out, pf_error *error)
{
    FILE *f = fopen(path, mode);
    if (!f) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be written: %s", path, strerror(errno));
    *out = f;
    return PF_OK;
}

pf_status pf_acceptance_report_check(const char *path, pf_error *error)
{
    FILE *f = NULL;
    PF_TRY(open_page(path, "a", &f, error));
    (void)fclose(f);
    return PF_OK;
}

pf_status pf_acceptance_report_write(const char *path, const char *title, const json_t *facts, const json_t *runs,
                                     pf_error *error)
{
    FILE *f = NULL;
    PF_TRY(open_page(path, "w", &f, error));
    put_page(f, title, facts, runs);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be written to its end", path);
    return PF_OK;
}
