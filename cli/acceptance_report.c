#include "cli/acceptance_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 260, LEFT = 46, RIGHT = 12, TOP = 12, BOTTOM = 40, COLORS = 6, MOST_SERIES = 12 };

static const char STYLE[] =
    ":root{color-scheme:light "
    "dark;--bg:#fff;--fg:#1b1f24;--dim:#656d76;--line:#d0d7de;--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;"
    "--c4:#bf3989;--c5:#7d6608}"
    "@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#9198a1;--line:#30363d;--c0:#58a6ff;--c1:#"
    "ffa657;"
    "--c2:#56d364;--c3:#bc8cff;--c4:#ff7bc5;--c5:#e3b341}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1280px;margin:0 auto;padding:24px 16px 48px}h1{font-size:24px;margin:0 0 "
    "4px}h2{font-size:17px;margin:32px 0 8px}"
    "p{margin:4px "
    "0;color:var(--dim)}.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-"
    "nums}"
    "th,td{padding:5px 7px;text-align:right;border-bottom:1px solid "
    "var(--line);white-space:nowrap}th{color:var(--dim);font-weight:600;white-space:normal;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left}.plots{display:grid;gap:24px;grid-template-columns:repeat(auto-fit,"
    "minmax(min(100%,"
    "460px),1fr))}figure{margin:0}figcaption{font-weight:600;margin-bottom:4px}svg{width:100%;height:auto;display:"
    "block}"
    "svg text{fill:var(--dim);font:12px "
    "system-ui,sans-serif}.range{font-size:12px;color:var(--dim)}.warning{color:var(--fg);border-left:3px solid "
    "var(--c1);padding:4px 10px;margin:12px 0}.key{display:flex;flex-wrap:wrap;gap:4px "
    "16px;padding:0;margin:8px 0;"
    "list-style:none}.key span{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px}";

static void put_text(FILE *f, const char *text)
{
    for (; *text; text++) switch (*text) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        default: fputc(*text, f);
        }
}

/* NaN: it is null or absent. */
static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void put_cell(FILE *f, double value, int decimals)
{
    if (isnan(value))
        fputs("<td>-</td>", f);
    else
        fprintf(f, "<td>%.*f</td>", decimals, value);
}

/* "greedy, temperature 0, length auto" */
static void put_name(FILE *f, const json_t *run)
{
    const json_t *length = json_object_get(run, "draft_len");
    put_text(f, json_string_value(json_object_get(run, "drafter")));
    fputs(", ", f);
    put_text(f, json_string_value(json_object_get(run, "method")));
    if (json_is_true(json_object_get(run, "lossy"))) fputs(" (lossy)", f);
    fprintf(f, ", temperature %g, length ", number(run, "temperature"));
    if (json_is_string(length))
        put_text(f, json_string_value(length));
    else
        fprintf(f, "%d", (int)json_integer_value(length));
}

/* A median, and below it the least and the greatest of the repeats. */
static void put_range(FILE *f, const json_t *run, const char *key, int decimals)
{
    char of_range[64];
    snprintf(of_range, sizeof of_range, "%s_range", key);
    const json_t *range = json_object_get(run, of_range), *least = json_array_get(range, 0),
                 *most = json_array_get(range, 1);
    if (isnan(number(run, key)) || !json_is_number(least) || !json_is_number(most)) {
        put_cell(f, number(run, key), decimals);
        return;
    }
    fprintf(f, "<td>%.*f<div class=range>%.*f to %.*f</div></td>", decimals, number(run, key), decimals,
            json_number_value(least), decimals, json_number_value(most));
}

static void put_runs(FILE *f, const json_t *runs)
{
    size_t i;
    const json_t *run;
    fputs("<div class=scroll><table><tr><th>run<th>requests<th>acceptance<th>mean length<th>by theory<th>plain "
          "tok/s<th>speculative "
          "tok/s<th>speed-up<th>predicted</tr>\n",
          f);
    json_array_foreach(runs, i, run)
    {
        const json_t *s = json_object_get(run, "speculation");
        fputs("<tr><td>", f);
        put_name(f, run);
        fputs("</td>", f);
        put_cell(f, number(run, "requests"), 0);
        put_cell(f, number(s, "acceptance_rate"), 3);
        put_cell(f, number(s, "mean_accepted_length"), 2);
        put_cell(f, number(run, "expected_length"), 2);
        put_range(f, run, "plain_tokens_per_s", 1);
        put_range(f, run, "speculative_tokens_per_s", 1);
        put_range(f, run, "speedup", 2);
        put_cell(f, number(run, "predicted_speedup"), 2);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void put_categories(FILE *f, const json_t *runs)
{
    size_t i;
    const json_t *run;
    json_array_foreach(runs, i, run)
    {
        const char *category;
        json_t *of;
        json_t *categories = json_object_get(run, "by_category");
        if (json_object_size(categories) == 0) continue;
        fputs("<h2>", f);
        put_name(f, run);
        fputs("</h2>\n<div class=scroll><table><tr><th>category<th>requests<th>acceptance<th>mean length<th>plain "
              "tok/s<th>speculative "
              "tok/s<th>speed-up</tr>\n",
              f);
        json_object_foreach(categories, category, of)
        {
            fputs("<tr><td>", f);
            put_text(f, *category ? category : "(none)");
            fputs("</td>", f);
            put_cell(f, number(of, "requests"), 0);
            put_cell(f, number(of, "acceptance_rate"), 3);
            put_cell(f, number(of, "mean_accepted_length"), 2);
            put_range(f, of, "plain_tokens_per_s", 1);
            put_range(f, of, "speculative_tokens_per_s", 1);
            put_range(f, of, "speedup", 2);
            fputs("</tr>\n", f);
        }
        fputs("</table></div>\n", f);
    }
}

/* ---- plots --------------------------------------------------------------------------------------------------------- */

static double x_at(double share)
{
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_at(double share)
{
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static void begin_plot(FILE *f, const char *caption, double most)
{
    fprintf(f, "<figure><figcaption>%s</figcaption><svg viewBox=\"0 0 %d %d\" role=img aria-label=\"%s\">\n", caption,
            WIDTH, HEIGHT, caption);
    for (int i = 0; i <= 4; i++)
        fprintf(
            f,
            "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke=\"var(--line)\"/><text x=%d y=%.1f text-anchor=end>%.3g</text>\n",
            LEFT, WIDTH - RIGHT, y_at(i / 4.0), y_at(i / 4.0), LEFT - 6, y_at(i / 4.0) + 4, most * i / 4.0);
}

static void end_plot(FILE *f)
{
    fputs("</svg></figure>\n", f);
}

static size_t count_series(const json_t *runs)
{
    return json_array_size(runs) < MOST_SERIES ? json_array_size(runs) : MOST_SERIES;
}

static void plot_positions(FILE *f, const json_t *runs)
{
    size_t longest = 1;
    for (size_t i = 0; i < count_series(runs); i++) {
        const json_t *rates = json_object_get(json_object_get(json_array_get(runs, i), "speculation"), "per_position");
        if (json_array_size(rates) > longest) longest = json_array_size(rates);
    }
    begin_plot(f, "Accepted to position", 1.0);
    for (size_t k = 0; k < longest; k += 1 + longest / 12)
        fprintf(f, "<text x=%.1f y=%d text-anchor=middle>%zu</text>\n",
                x_at(longest > 1 ? (double)k / (double)(longest - 1) : 0), HEIGHT - BOTTOM + 18, k + 1);
    for (size_t i = 0; i < count_series(runs); i++) {
        const json_t *rates = json_object_get(json_object_get(json_array_get(runs, i), "speculation"), "per_position");
        fprintf(f, "<polyline fill=none stroke-width=2 stroke=\"var(--c%zu)\"%s points=\"", i % COLORS,
                i < COLORS ? "" : " stroke-dasharray=5,4");
        for (size_t k = 0; k < json_array_size(rates); k++) {
            const json_t *rate = json_array_get(rates, k);
            if (json_is_number(rate))
                fprintf(f, "%.1f,%.1f ", x_at(longest > 1 ? (double)k / (double)(longest - 1) : 0),
                        y_at(json_number_value(rate)));
        }
        fputs("\"/>\n", f);
    }
    end_plot(f);
}

static double highest_speedup(const json_t *runs)
{
    double most = 1.0;
    for (size_t i = 0; i < count_series(runs); i++) {
        const char *category;
        json_t *of, *run = json_array_get(runs, i);
        if (number(run, "speedup") > most) most = number(run, "speedup");
        json_object_foreach(json_object_get(run, "by_category"), category, of) if (number(of, "speedup") > most) most =
            number(of, "speedup");
    }
    return ceil(most * 2.0) / 2.0;
}

static void put_bar(FILE *f, double value, double most, size_t group, size_t n_groups, size_t series, size_t n_series)
{
    if (isnan(value)) return;
    const double width = (WIDTH - LEFT - RIGHT) / (double)n_groups, bar = 0.8 * width / (double)n_series;
    const double x = LEFT + (double)group * width + 0.1 * width + (double)series * bar, y = y_at(value / most);
    fprintf(f, "<rect x=%.1f y=%.1f width=%.1f height=%.1f fill=\"var(--c%zu)\"%s><title>%.2f</title></rect>\n", x, y,
            bar * 0.92, HEIGHT - BOTTOM - y, series % COLORS, series < COLORS ? "" : " opacity=0.5", value);
}

static void plot_speedups(FILE *f, const json_t *runs)
{
    json_t *names = json_object_get(json_array_get(runs, 0), "by_category");
    const double most = highest_speedup(runs);
    const size_t n_groups = json_object_size(names) + 1, n_series = count_series(runs);
    const char *category;
    json_t *of;
    size_t group = 1;
    begin_plot(f, "Speed-up against plain decoding", most);
    for (size_t i = 0; i < n_series; i++)
        put_bar(f, number(json_array_get(runs, i), "speedup"), most, 0, n_groups, i, n_series);
    fprintf(f, "<text x=%.1f y=%d text-anchor=middle>all</text>\n", x_at(0.5 / (double)n_groups), HEIGHT - BOTTOM + 18);
    json_object_foreach(names, category, of)
    {
        for (size_t i = 0; i < n_series; i++) {
            const json_t *same = json_object_get(json_object_get(json_array_get(runs, i), "by_category"), category);
            put_bar(f, number(same, "speedup"), most, group, n_groups, i, n_series);
        }
        fprintf(f, "<text x=%.1f y=%d text-anchor=middle>", x_at(((double)group + 0.5) / (double)n_groups),
                HEIGHT - BOTTOM + 18);
        put_text(f, category);
        fputs("</text>\n", f);
        group++;
    }
    fprintf(f, "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke=\"var(--fg)\" stroke-dasharray=\"2,3\"/>\n", LEFT,
            WIDTH - RIGHT, y_at(1.0 / most), y_at(1.0 / most));
    end_plot(f);
}

static void put_key(FILE *f, const json_t *runs)
{
    fputs("<ul class=key>", f);
    for (size_t i = 0; i < count_series(runs); i++) {
        fprintf(f, "<li><span style=\"background:var(--c%zu)\"></span>", i % COLORS);
        put_name(f, json_array_get(runs, i));
        fputs("</li>", f);
    }
    fputs("</ul>\n", f);
}

/* ---- what if ------------------------------------------------------------------------------------------------------- */

static void put_what_if(FILE *f, const json_t *runs)
{
    size_t i, j;
    const json_t *run, *point;
    if (json_array_size(json_object_get(json_array_get(runs, 0), "what_if")) == 0) return;
    fputs("<h2>What another deployment would give</h2><p>By these acceptance rates: the best length and speed-up for a "
          "target step, a draft "
          "pass and a round trip.</p>\n<div class=scroll><table><tr><th>run<th>step ms<th>pass ms<th>trip us<th>best "
          "length<th>tokens a "
          "round<th>speed-up</tr>\n",
          f);
    json_array_foreach(runs, i, run) json_array_foreach(json_object_get(run, "what_if"), j, point)
    {
        fputs("<tr><td>", f);
        put_name(f, run);
        fputs("</td>", f);
        put_cell(f, number(point, "verify_ms"), 2);
        put_cell(f, number(point, "draft_ms"), 2);
        put_cell(f, number(point, "round_trip_us"), 0);
        put_cell(f, number(point, "best_draft_len"), 0);
        put_cell(f, number(point, "expected_length"), 2);
        put_cell(f, number(point, "speedup"), 2);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void put_synthetic(FILE *f, const json_t *rates)
{
    if (!json_is_string(rates)) return;
    fputs("<p class=warning>Acceptance is synthetic (", f);
    put_text(f, json_string_value(rates));
    fputs("): draft tokens are accepted whatever they are, and the text is not the model's.</p>\n", f);
}

static void put_page(FILE *f, const char *title, const json_t *runs)
{
    fputs("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
          "content=\"width=device-width,initial-scale=1\"><title>",
          f);
    put_text(f, title);
    fprintf(f, "</title><style>%s</style><main><h1>", STYLE);
    put_text(f, title);
    fputs("</h1><p>Plain and speculative decoding in turns, prompt by prompt, on one verifier.", f);
    const json_t *first = json_array_get(runs, 0);
    if (json_object_get(first, "repeats"))
        fprintf(f, " Medians of %d repeats of the whole grid; below them the least and the greatest.",
                (int)number(first, "repeats"));
    fputs("</p>\n", f);
    put_synthetic(f, json_object_get(first, "synthetic_acceptance"));
    fputs("<h2>Runs</h2>\n", f);
    put_runs(f, runs);
    fputs("<h2>Plots</h2>\n", f);
    put_key(f, runs);
    fputs("<div class=plots>", f);
    plot_speedups(f, runs);
    plot_positions(f, runs);
    fputs("</div>\n", f);
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

pf_status pf_acceptance_report_write(const char *path, const char *title, const json_t *runs, pf_error *error)
{
    FILE *f = NULL;
    PF_TRY(open_page(path, "w", &f, error));
    put_page(f, title, runs);
    const bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be written to its end", path);
    return PF_OK;
}
