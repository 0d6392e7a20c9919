#include "model/forward/contention_backoff.h"

#include "model/forward/thread_tuning.h"

int32_t pf_backoff_members(const pf_backoff *backoff, int32_t n_members)
{
    return pf_tuning_halved(n_members, backoff->halved);
}

static void enter(pf_backoff *r, pf_backoff_state state, int32_t halved)
{
    r->state = state;
    r->halved = halved;
}

/* The best one for some windows; where it is no new one, twice as many as the last time. */
static void hold(pf_backoff *r)
{
    if (r->has_found || r->held_for == 0)
        r->held_for = PF_BACKOFF_HELD_FIRST;
    else if (r->held_for < PF_BACKOFF_HELD_MOST)
        r->held_for *= 2;
    r->held_left = r->held_for;
    r->has_found = false;
    enter(r, PF_BACKOFF_HELD, r->best);
}

/* What was tried is the best one now. */
static void take(pf_backoff *r, double ns)
{
    r->best = r->halved;
    r->best_ns = ns;
    r->has_found = true;
}

/* Half of the best one's members, if there are any. */
static void try_fewer(pf_backoff *r, int32_t n_members)
{
    if (pf_tuning_halved(n_members, r->best) > 1)
        enter(r, PF_BACKOFF_TRIES_FEWER, r->best + 1);
    else
        hold(r);
}

static void try_more(pf_backoff *r)
{
    enter(r, PF_BACKOFF_TRIES_MORE, r->best - 1);
}

static bool is_held_up(uint64_t held_up_ns, uint64_t ns)
{
    return held_up_ns > ns / 4;
}

static void end_measured(pf_backoff *r, int32_t n_members, double ns)
{
    r->best_ns = ns;
    if (r->n_held_up >= PF_BACKOFF_HELD_UPS && is_held_up(r->held_up_ns, r->ns))
        try_fewer(r, n_members);
    else
        *r = (pf_backoff){ .state = PF_BACKOFF_QUIET };
}

static void end_held(pf_backoff *r, double ns)
{
    r->best_ns = ns;
    if (--r->held_left > 0) return;
    if (r->best > 0)
        try_more(r);
    else
        enter(r, PF_BACKOFF_MEASURED, 0);
}

static void end_fewer(pf_backoff *r, int32_t n_members, double ns)
{
    if (ns >= 0.9 * r->best_ns) {
        hold(r);
        return;
    }
    take(r, ns);
    try_fewer(r, n_members);
}

static void end_more(pf_backoff *r, int32_t n_members, double ns)
{
    if (ns <= r->best_ns) {
        take(r, ns);
        if (r->best > 0)
            try_more(r);
        else
            *r = (pf_backoff){ .state = PF_BACKOFF_MEASURED };
    } else if (r->has_found) {
        hold(r);
    } else {
        try_fewer(r, n_members);
    }
}

/* A unit of the window took so long. */
static void end_window(pf_backoff *r, int32_t n_members, double ns)
{
    switch (r->state) {
    case PF_BACKOFF_QUIET: break;
    case PF_BACKOFF_MEASURED: end_measured(r, n_members, ns); break;
    case PF_BACKOFF_TRIES_FEWER: end_fewer(r, n_members, ns); break;
    case PF_BACKOFF_HELD: end_held(r, ns); break;
    case PF_BACKOFF_TRIES_MORE: end_more(r, n_members, ns); break;
    }
}

static double unit_ns(const pf_backoff *r)
{
    return (double)r->ns / (double)r->n_units;
}

static bool is_window_over(const pf_backoff *r)
{
    if (r->ns < PF_BACKOFF_WINDOW_NS) return false;
    if (r->n_passes < PF_BACKOFF_PASSES) return r->state == PF_BACKOFF_TRIES_MORE && unit_ns(r) > 2.0 * r->best_ns;
    if (r->state != PF_BACKOFF_MEASURED || r->n_held_up >= PF_BACKOFF_HELD_UPS) return true;
    return r->n_passes >= PF_BACKOFF_LONGEST * PF_BACKOFF_PASSES &&
           r->ns >= (uint64_t)PF_BACKOFF_LONGEST * PF_BACKOFF_WINDOW_NS;
}

void pf_backoff_note(pf_backoff *backoff, int32_t n_members, int32_t n_units, uint64_t ns, uint64_t held_up_ns)
{
    if (backoff->state == PF_BACKOFF_QUIET) {
        if (is_held_up(held_up_ns, ns)) enter(backoff, PF_BACKOFF_MEASURED, 0);
        return;
    }
    backoff->ns += ns;
    backoff->held_up_ns += held_up_ns;
    backoff->n_units += n_units;
    backoff->n_passes++;
    if (is_held_up(held_up_ns, ns)) backoff->n_held_up++;
    if (!is_window_over(backoff)) return;
    end_window(backoff, n_members, unit_ns(backoff));
    backoff->ns = 0;
    backoff->held_up_ns = 0;
    backoff->n_units = 0;
    backoff->n_passes = 0;
    backoff->n_held_up = 0;
}
