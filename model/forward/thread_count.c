#include "model/forward/thread_count.h"

#include <stdlib.h>

int32_t pf_threads_of_level(int32_t n_threads, int32_t level)
{
    if (level == 0) return n_threads;
    int32_t below = 1;
    while (2 * below < n_threads) below *= 2;
    below >>= level - 1;
    return below > 0 ? below : 1;
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

static pf_speed_trial trial_of(int32_t n_threads, int32_t fewest)
{
    pf_speed_trial t = { .n_levels = 1 };
    while (pf_threads_of_level(n_threads, t.n_levels - 1) > 1 && pf_threads_of_level(n_threads, t.n_levels) >= fewest)
        t.n_levels++;
    t.n_tried = t.n_levels;
    return t;
}

/* The level of the next sample, counted from the trial's first. Each turn samples all levels in their order, and begins as many
 * levels further on as the turn's number has bits: with two levels 0110 1001 1001 0110 (the Thue-Morse sequence). So no period
 * of the passes, such as a cold pass at each round of drafting, falls on one level more often than on another. */
static int32_t next_tried(const pf_speed_trial *t)
{
    const int32_t turn = t->n_samples / t->n_tried;
    return (t->n_samples + __builtin_popcount((unsigned)turn)) % t->n_tried;
}

/* Whether a trial begins with this pass. It begins again where it had one pass, of another number of rows: a short prompt. */
static bool begins_trial(const pf_speed_trial *t, int32_t n_rows)
{
    return t->until_trial == 0 && (t->n_passes == 0 || (t->n_passes == 1 && n_rows != t->n_rows));
}

static bool is_sampled(const pf_speed_trial *t, int32_t n_rows)
{
    return t->until_trial == 0 && n_rows == t->n_rows;
}

static int32_t trial_level(const pf_speed_trial *t, int32_t n_rows)
{
    if (n_rows > PF_TRIAL_ROWS) return 0;
    if (begins_trial(t, n_rows)) return t->first;
    return is_sampled(t, n_rows) ? t->first + next_tried(t) : t->level;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t ns[PF_TRIAL_SAMPLES])
{
    qsort(ns, PF_TRIAL_SAMPLES, sizeof *ns, compare);
    return ns[PF_TRIAL_SAMPLES / 2];
}

static void end_trial(pf_speed_trial *t, int32_t until_next)
{
    t->until_trial = until_next;
    t->n_passes = 0;
    t->n_samples = 0;
}

/* Take the level with the smallest median, of equal ones that with the most threads. The next trial is of it and its
 * neighbours. */
static void choose(pf_speed_trial *t)
{
    int32_t best = 0;
    uint64_t least = median(t->ns[0]);
    for (int32_t i = 1; i < t->n_tried; i++) {
        const uint64_t ns = median(t->ns[i]);
        if (ns >= least) continue;
        least = ns;
        best = i;
    }
    t->level = t->first + best;
    t->first = t->level > 0 ? t->level - 1 : 0;
    t->n_tried = (t->level + 1 < t->n_levels ? t->level + 2 : t->n_levels) - t->first;
}

static void note_speed(pf_speed_trial *t, int32_t n_rows, uint64_t ns)
{
    if (n_rows > PF_TRIAL_ROWS) return;
    if (t->until_trial > 0) {
        t->until_trial--;
        return;
    }
    if (begins_trial(t, n_rows)) {
        end_trial(t, 0);
        t->n_rows = n_rows;
    }
    if (is_sampled(t, n_rows)) {
        t->ns[next_tried(t)][t->n_samples / t->n_tried] = ns;
        t->n_samples++;
    }
    t->n_passes++;
    if (t->n_samples == t->n_tried * PF_TRIAL_SAMPLES) {
        choose(t);
        end_trial(t, PF_TRIAL_PERIOD);
    } else if (t->n_passes == PF_TRIAL_PASSES) {
        end_trial(t, 0);
    }
}

/* ---- contention -------------------------------------------------------------------------------------------------- */

static void enter(pf_backoff *b, pf_backoff_state state, int32_t level)
{
    b->state = state;
    b->level = level;
}

static void begin_window(pf_backoff *b)
{
    b->ns = 0;
    b->shortest_ns = 0;
    b->first_ns = 0;
    b->clean_ns = 0;
    b->held_up_ns = 0;
    b->n_units = 0;
    b->n_passes = 0;
    b->n_held_up = 0;
}

static void be_quiet(pf_backoff *b)
{
    *b = (pf_backoff){ .state = PF_BACKOFF_QUIET, .is_short = b->is_short };
}

/* Stay on the best level, where it is not new twice as long as the last time. */
static void hold(pf_backoff *b)
{
    if (b->is_new || b->held_for == 0)
        b->held_for = PF_BACKOFF_HELD_FIRST;
    else if (b->held_for < PF_BACKOFF_HELD_MOST)
        b->held_for *= 2;
    b->held_left = b->held_for;
    b->is_new = false;
    b->is_at_start = false;
    enter(b, PF_BACKOFF_HELD, b->best);
}

/* The level that was tried is the best. */
static void take(pf_backoff *b, double ns)
{
    b->best = b->level;
    b->best_ns = ns;
    b->is_new = true;
}

/* Half of the best level's threads, where it has more than one. */
static void try_fewer(pf_backoff *b, int32_t n_chosen)
{
    if (pf_threads_of_level(n_chosen, b->best) > 1)
        enter(b, PF_BACKOFF_FEWER, b->best + 1);
    else
        hold(b);
}

static bool is_held_up(uint64_t held_up_ns, uint64_t ns)
{
    return held_up_ns > ns / 4;
}

static void end_measured(pf_backoff *b, int32_t n_chosen, double ns)
{
    b->best_ns = ns;
    if (b->n_held_up >= PF_BACKOFF_HELD_UPS && is_held_up(b->held_up_ns, b->ns))
        try_fewer(b, n_chosen);
    else
        be_quiet(b);
}

/* Whether no pass of the window was late. */
static bool is_clean(const pf_backoff *b)
{
    return b->clean_ns + b->first_ns == b->ns;
}

static bool is_late(const pf_backoff *b, uint64_t ns)
{
    return ns > 2 * b->shortest_ns + PF_BACKOFF_LATE_NS;
}

/* Whether the contention before the first pass is over. */
static bool start_is_over(const pf_backoff *b)
{
    return b->is_at_start && b->clean_ns >= PF_BACKOFF_CLEAN_NS;
}

static void end_held(pf_backoff *b, double ns)
{
    b->best_ns = ns;
    b->held_left -= b->is_short && is_clean(b) ? PF_BACKOFF_CLEAN_WINDOWS : 1;
    if (b->held_left > 0 && !start_is_over(b)) return;
    b->is_at_start = false;
    if (b->best > 0)
        enter(b, PF_BACKOFF_MORE, b->best - 1);
    else
        enter(b, PF_BACKOFF_MEASURED, 0);
}

static void end_fewer(pf_backoff *b, int32_t n_chosen, double ns)
{
    if (ns >= 0.9 * b->best_ns) {
        hold(b);
        return;
    }
    take(b, ns);
    try_fewer(b, n_chosen);
}

static void end_more(pf_backoff *b, int32_t n_chosen, double ns)
{
    if (ns <= b->best_ns) {
        take(b, ns);
        if (b->best > 0)
            enter(b, PF_BACKOFF_MORE, b->best - 1);
        else
            *b = (pf_backoff){ .state = PF_BACKOFF_MEASURED, .is_short = b->is_short };
    } else if (b->is_new || b->is_short) {
        hold(b);
    } else {
        try_fewer(b, n_chosen);
    }
}

/* `ns`: a unit's mean time in the window that ends. */
static void end_window(pf_backoff *b, int32_t n_chosen, double ns)
{
    switch (b->state) {
    case PF_BACKOFF_QUIET: break;
    case PF_BACKOFF_MEASURED: end_measured(b, n_chosen, ns); break;
    case PF_BACKOFF_FEWER: end_fewer(b, n_chosen, ns); break;
    case PF_BACKOFF_HELD: end_held(b, ns); break;
    case PF_BACKOFF_MORE: end_more(b, n_chosen, ns); break;
    }
}

static double unit_ns(const pf_backoff *b)
{
    return (double)b->ns / (double)b->n_units;
}

static bool is_window_over(const pf_backoff *b)
{
    if (start_is_over(b)) return true;
    if (b->ns < PF_BACKOFF_WINDOW_NS) return false;
    if (b->n_passes < PF_BACKOFF_PASSES) return b->state == PF_BACKOFF_MORE && unit_ns(b) > 2.0 * b->best_ns;
    if (b->state != PF_BACKOFF_MEASURED || b->n_held_up >= PF_BACKOFF_HELD_UPS) return true;
    return b->n_passes >= PF_BACKOFF_LONGEST * PF_BACKOFF_PASSES &&
           b->ns >= (uint64_t)PF_BACKOFF_LONGEST * PF_BACKOFF_WINDOW_NS;
}

/* A short pass was held up: half of its threads from here on. The level is new unless MORE has tried one too many. */
static void halve_at_once(pf_backoff *b, uint64_t ns)
{
    const uint64_t least = 10 * ns / PF_BACKOFF_WINDOW_NS;
    b->is_new = b->is_new || b->state != PF_BACKOFF_MORE;
    b->best = b->level + 1;
    hold(b);
    if (least >= PF_BACKOFF_HELD_MOST)
        b->held_for = PF_BACKOFF_HELD_MOST;
    else if ((int32_t)least > b->held_for)
        b->held_for = (int32_t)least;
    b->held_left = b->held_for;
    begin_window(b);
}

static void note_contention(pf_backoff *b, int32_t n_chosen, int32_t n_units, uint64_t ns, uint64_t held_up_ns)
{
    const bool held_up = is_held_up(held_up_ns, ns);
    if (held_up && b->is_short && pf_threads_of_level(n_chosen, b->level) > 1) {
        halve_at_once(b, ns);
        return;
    }
    if (b->state == PF_BACKOFF_QUIET) {
        if (held_up) enter(b, PF_BACKOFF_MEASURED, 0);
        return;
    }
    if (b->n_passes == 0) b->first_ns = ns;
    b->ns += ns;
    if (b->shortest_ns == 0 || ns < b->shortest_ns) b->shortest_ns = ns;
    b->clean_ns = b->n_passes == 0 || is_late(b, ns) ? 0 : b->clean_ns + ns; /* the first has nothing to compare with */
    b->held_up_ns += held_up_ns;
    b->n_units += n_units;
    b->n_passes++;
    if (held_up) b->n_held_up++;
    if (!is_window_over(b)) return;
    end_window(b, n_chosen, unit_ns(b));
    begin_window(b);
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

/* One thread, for some time. */
static void begin_held(pf_backoff *b, int32_t n_threads)
{
    while (pf_threads_of_level(n_threads, b->best) > 1) b->best++;
    b->held_for = b->held_left = PF_BACKOFF_HELD_AT_START;
    b->is_at_start = true;
    enter(b, PF_BACKOFF_HELD, b->best);
}

static bool is_contended(const pf_thread_count_config *config)
{
    return config->delay_ns >= PF_BACKOFF_START_DELAY_NS && config->delay_ns >= config->run_ns / 2;
}

pf_thread_count pf_thread_count_of(const pf_thread_count_config *config)
{
    pf_thread_count count = { .n_threads = config->n_threads,
                              .backs_off = config->backs_off && config->n_threads > 1,
                              .trial = trial_of(config->n_threads, config->fewest),
                              .of_few.is_short = config->is_in_cache };
    if (count.backs_off && config->is_in_cache && is_contended(config)) begin_held(&count.of_few, config->n_threads);
    return count;
}

static int32_t chosen_by_speed(const pf_thread_count *count, int32_t n_rows)
{
    return pf_threads_of_level(count->n_threads, trial_level(&count->trial, n_rows));
}

static bool has_few_rows(int32_t n_rows)
{
    return n_rows <= PF_BACKOFF_FEW_ROWS;
}

bool pf_thread_count_is_contended(const pf_thread_count *count)
{
    return count->of_few.level > 0 || count->of_many.level > 0 || count->of_few.state == PF_BACKOFF_MORE ||
           count->of_many.state == PF_BACKOFF_MORE;
}

int32_t pf_thread_count_next(const pf_thread_count *count, int32_t n_rows)
{
    const pf_backoff *backoff = has_few_rows(n_rows) ? &count->of_few : &count->of_many;
    return pf_threads_of_level(chosen_by_speed(count, n_rows), backoff->level);
}

void pf_thread_count_note(pf_thread_count *count, int32_t n_rows, uint64_t ns, uint64_t held_up_ns)
{
    const int32_t n_chosen = chosen_by_speed(count, n_rows), n_ran = pf_thread_count_next(count, n_rows);
    if (n_ran == n_chosen) note_speed(&count->trial, n_rows, ns);
    if (!count->backs_off) return;
    const bool few = has_few_rows(n_rows);
    note_contention(few ? &count->of_few : &count->of_many, n_chosen, few ? 1 : n_rows, ns, held_up_ns);
}
