#include "draft/ahead_trial.h"

#include <stdlib.h>

static const double CLEAR = 1.10; /* a gain that ends a trial after a block of each */
static const double LEAST = 1.05; /* that is worth the cores: less may be chance */
enum {
    BLOCKS = 4,      /* of a trial, at most */
    FIRST_REST = 40, /* blocks: a trial costs at most a twentieth of what the worse way is worse by, */
    MOST_REST = 320, /* and in the long run a hundred and sixtieth */
    MOST_ROUNDS = PF_AHEAD_SAMPLES / 2, /* of a block, where sequences are shorter than it */
};

static void count(pf_ahead_arm *arm, double tokens, double ns)
{
    arm->ns[arm->n++ % PF_AHEAD_SAMPLES] = ns / tokens;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a token, without the slowest sixth of the rounds and the fastest. */
static double mean_ns(pf_ahead_arm *arm)
{
    const int32_t n = arm->n < PF_AHEAD_SAMPLES ? arm->n : PF_AHEAD_SAMPLES, n_out = n / 6;
    double sum = 0.0;
    qsort(arm->ns, (size_t)n, sizeof *arm->ns, compare);
    for (int32_t i = n_out; i < n - n_out; i++) sum += arm->ns[i];
    return n > 0 ? sum / (n - 2 * n_out) : 0.0;
}

static void begin_trial(pf_ahead_trial *t)
{
    t->arms[0] = t->arms[1] = (pf_ahead_arm){ 0 };
    t->rests = false;
    t->n_phase = 0;
    t->is_off = !t->is_off;
}

static void decide(pf_ahead_trial *t, bool is_off)
{
    const bool is_same = t->rest > 0 && is_off == t->found_off;
    t->rest = !is_same ? FIRST_REST : 2 * t->rest < MOST_REST ? 2 * t->rest : MOST_REST;
    t->rests = true;
    t->n_phase = 0;
    t->is_off = t->found_off = is_off;
}

/* The rate with, by that without; LEAST: not known, by a clock that stands. */
static double gain_of(pf_ahead_trial *t)
{
    const double without = mean_ns(&t->arms[0]), with = mean_ns(&t->arms[1]);
    return with > 0.0 && without > 0.0 ? without / with : LEAST;
}

static void end_block(pf_ahead_trial *t)
{
    t->block++;
    t->n_phase++;
    t->n_counted = 0;
    if (t->rests) {
        if (t->n_phase >= t->rest) begin_trial(t);
        return;
    }
    const double gain = gain_of(t);
    if (t->n_phase < 2 || (gain < CLEAR && t->n_phase < BLOCKS))
        t->is_off = !t->is_off;
    else
        decide(t, gain < LEAST);
}

void pf_ahead_trial_observe(pf_ahead_trial *t, double tokens, uint64_t ns, bool is_last)
{
    count(&t->arms[!t->is_off], tokens, (double)ns);
    if (is_last || ++t->n_counted >= MOST_ROUNDS) end_block(t);
}
