#include "cli/acceptance_plots.h"

#include <math.h>

#include "bench/what_if.h"
#include "cli/acceptance_page.h"

/* In units of the drawing, which is as wide as its figure. */
enum { WIDTH = 640, HEIGHT = 260, LEFT = 46, RIGHT = 12, TOP = 12, BOTTOM = 40 };

static double x_at(double share)
{
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_at(double share)
{
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static size_t count_series(const json_t *runs)
{
    return json_array_size(runs) < PF_PAGE_SERIES ? json_array_size(runs) : PF_PAGE_SERIES;
}

/* caption, note: of the page's own text. most: of the axis, n_ticks above 0. */
static void begin_plot(FILE *f, const char *caption, const char *note, double most, int n_ticks)
{
    fprintf(f,
            "<figure><figcaption>%s<small>%s</small></figcaption><svg viewBox=\"0 0 %d %d\" role=img "
            "aria-label=\"%s\">\n",
            caption, note, WIDTH, HEIGHT, caption);
    for (int i = 0; i <= n_ticks; i++) {
        const double y = y_at((double)i / n_ticks);
        fprintf(
            f,
            "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke=\"var(--line)\"/><text x=%d y=%.1f text-anchor=end>%.3g</text>\n",
            LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, most * i / n_ticks);
    }
}

static void end_plot(FILE *f)
{
    fputs("</svg></figure>\n", f);
}

/* ---- acceptance by position ------------------------------------------------------------------------------------------ */

/* Positions of a run that enough proposals reached. */
static size_t count_positions(const json_t *run)
{
    const json_t *reached = json_object_get(run, "reached");
    size_t n = 0;
    while (n < json_array_size(reached) && json_integer_value(json_array_get(reached, n)) >= PF_WHAT_IF_LEAST) n++;
    return n;
}

static double position_at(size_t position, size_t longest)
{
    return x_at(longest > 1 ? (double)position / (double)(longest - 1) : 0.5);
}

static void put_line(FILE *f, const json_t *run, size_t series, size_t longest)
{
    const json_t *rates = json_object_get(json_object_get(run, "speculation"), "per_position");
    const size_t n = count_positions(run);
    fprintf(f, "<polyline fill=none stroke-width=2 stroke=\"var(--c%zu)\"%s points=\"", series % PF_PAGE_COLORS,
            series < PF_PAGE_COLORS ? "" : " stroke-dasharray=5,4");
    for (size_t k = 0; k < n; k++)
        fprintf(f, "%.1f,%.1f ", position_at(k, longest), y_at(json_number_value(json_array_get(rates, k))));
    fputs("\"/>\n", f);
    for (size_t k = 0; k < n; k++)
        fprintf(f, "<circle cx=%.1f cy=%.1f r=3 fill=\"var(--c%zu)\"><title>%.3f</title></circle>\n",
                position_at(k, longest), y_at(json_number_value(json_array_get(rates, k))), series % PF_PAGE_COLORS,
                json_number_value(json_array_get(rates, k)));
}

static void plot_positions(FILE *f, const json_t *runs)
{
    size_t longest = 1;
    for (size_t i = 0; i < count_series(runs); i++) {
        const size_t n = count_positions(json_array_get(runs, i));
        if (n > longest) longest = n;
    }
    begin_plot(f, "Accepted to position",
               "of the proposals that are so long, the share whose tokens are all accepted to there", 1.0, 4);
    for (size_t k = 0; k < longest; k += 1 + longest / 12)
        fprintf(f, "<text x=%.1f y=%d text-anchor=middle>%zu</text>\n", position_at(k, longest), HEIGHT - BOTTOM + 18,
                k + 1);
    for (size_t i = 0; i < count_series(runs); i++) put_line(f, json_array_get(runs, i), i, longest);
    end_plot(f);
}

/* ---- speed-ups by category ------------------------------------------------------------------------------------------- */

/* A multiple of *step, which gives the axis six ticks at most. */
static double highest_speedup(const json_t *runs, double *step)
{
    double most = 1.0;
    for (size_t i = 0; i < count_series(runs); i++) {
        const char *category;
        json_t *of, *run = json_array_get(runs, i);
        most = fmax(most, pf_page_number(run, "speedup"));
        json_object_foreach(json_object_get(run, "by_category"), category, of) most =
            fmax(most, pf_page_number(of, "speedup"));
    }
    *step = 0.5;
    while (most > 6.0 * *step) *step *= 2.0;
    return ceil(most / *step) * *step;
}

static void put_bar(FILE *f, double value, double most, size_t group, size_t n_groups, size_t series, size_t n_series)
{
    if (isnan(value)) return;
    const double width = (WIDTH - LEFT - RIGHT) / (double)n_groups, bar = 0.8 * width / (double)n_series;
    const double x = LEFT + (double)group * width + 0.1 * width + (double)series * bar, y = y_at(value / most);
    fprintf(f, "<rect x=%.1f y=%.1f width=%.1f height=%.1f fill=\"var(--c%zu)\"%s><title>%.2f</title></rect>\n", x, y,
            bar * 0.92, HEIGHT - BOTTOM - y, series % PF_PAGE_COLORS, series < PF_PAGE_COLORS ? "" : " opacity=0.5",
            value);
}

static void put_group(FILE *f, const char *name, size_t group, size_t n_groups)
{
    fprintf(f, "<text class=group x=%.1f y=%d text-anchor=middle>", x_at(((double)group + 0.5) / (double)n_groups),
            HEIGHT - BOTTOM + 18);
    pf_page_text(f, name);
    fputs("</text>\n", f);
}

static void plot_speedups(FILE *f, const json_t *runs)
{
    json_t *names = json_object_get(json_array_get(runs, 0), "by_category");
    double step;
    const double most = highest_speedup(runs, &step);
    const size_t n_groups = json_object_size(names) + 1, n_series = count_series(runs);
    const char *category;
    json_t *of;
    size_t group = 1;
    begin_plot(f, "Speed-up", "tokens a second by those of plain decoding in the same run", most,
               (int)lround(most / step));
    for (size_t i = 0; i < n_series; i++)
        put_bar(f, pf_page_number(json_array_get(runs, i), "speedup"), most, 0, n_groups, i, n_series);
    put_group(f, "all", 0, n_groups);
    json_object_foreach(names, category, of)
    {
        for (size_t i = 0; i < n_series; i++) {
            const json_t *same = json_object_get(json_object_get(json_array_get(runs, i), "by_category"), category);
            put_bar(f, pf_page_number(same, "speedup"), most, group, n_groups, i, n_series);
        }
        put_group(f, *category ? category : "(none)", group, n_groups);
        group++;
    }
    fprintf(f, "<line x1=%d x2=%d y1=%.1f y2=%.1f stroke=\"var(--fg)\" stroke-dasharray=\"2,3\"/>\n", LEFT,
            WIDTH - RIGHT, y_at(1.0 / most), y_at(1.0 / most));
    end_plot(f);
}

/* ---- both ------------------------------------------------------------------------------------------------------------ */

static void put_key(FILE *f, const json_t *runs)
{
    const size_t n = count_series(runs);
    fputs("<ul class=key>", f);
    for (size_t i = 0; i < n; i++) {
        fprintf(f, "<li><span style=\"background:var(--c%zu)%s\"></span>", i % PF_PAGE_COLORS,
                i < PF_PAGE_COLORS ? "" : ";opacity:.5");
        pf_page_name(f, runs, json_array_get(runs, i));
        fputs("</li>", f);
    }
    fputs("</ul>\n", f);
    if (n < json_array_size(runs))
        fprintf(f, "<p>The plots show the first %zu of %zu runs.</p>\n", n, json_array_size(runs));
}

void pf_acceptance_plots_write(FILE *f, const json_t *runs)
{
    put_key(f, runs);
    fputs("<div class=plots>", f);
    plot_speedups(f, runs);
    plot_positions(f, runs);
    fputs("</div>\n", f);
}
