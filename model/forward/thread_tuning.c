#include "model/forward/thread_tuning.h"

#include <stdbool.h>
#include <stdlib.h>

int32_t pf_tuning_halved(int32_t n_members, int32_t rung)
{
    if (rung == 0) return n_members;
    int32_t below = 1;
    while (2 * below < n_members) below *= 2;
    below >>= rung - 1;
    return below > 0 ? below : 1;
}

pf_tuning pf_tuning_of(int32_t n_threads, int32_t fewest)
{
    pf_tuning c = { .n_threads = n_threads, .n_rungs = 1 };
    while (pf_tuning_halved(n_threads, c.n_rungs - 1) > 1 && pf_tuning_halved(n_threads, c.n_rungs) >= fewest)
        c.n_rungs++;
    c.n_tried = c.n_rungs;
    return c;
}

/* Of which rung the next sample of a trial is. A turn has one of each, in their order, and begins so many further on as its
 * number has bits: with two rungs, 0110 1001 1001 0110 (Thue and Morse). So no rhythm of the passes, every fourth one the
 * first of a round and cold, falls on one rung more than on another. */
static int32_t next_tried(const pf_tuning *c)
{
    const int32_t turn = c->n_samples / c->n_tried;
    return (c->n_samples + __builtin_popcount((unsigned)turn)) % c->n_tried;
}

/* Whether a trial begins with this pass: anew where it had one pass so far and that had other rows, as a short prompt's has,
 * which one row at a time follows. */
static bool begins_trial(const pf_tuning *c, int32_t n_rows)
{
    return c->until_trial == 0 && (c->n_passes == 0 || (c->n_passes == 1 && n_rows != c->n_rows));
}

static bool is_sampled(const pf_tuning *c, int32_t n_rows)
{
    return c->until_trial == 0 && n_rows == c->n_rows;
}

int32_t pf_tuning_members(const pf_tuning *tuning, int32_t n_rows)
{
    if (n_rows > PF_TUNING_MAX_ROWS) return tuning->n_threads;
    if (begins_trial(tuning, n_rows)) return pf_tuning_halved(tuning->n_threads, tuning->first);
    return pf_tuning_halved(tuning->n_threads,
                            is_sampled(tuning, n_rows) ? tuning->first + next_tried(tuning) : tuning->rung);
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t ns[PF_TUNING_SAMPLES])
{
    qsort(ns, PF_TUNING_SAMPLES, sizeof *ns, compare);
    return ns[PF_TUNING_SAMPLES / 2];
}

/* The next one begins so many passes on. */
static void end_trial(pf_tuning *c, int32_t until_next)
{
    c->until_trial = until_next;
    c->n_passes = 0;
    c->n_samples = 0;
}

/* The rung with the least median; of equal ones, that of more members. The next trial is of it and those beside it. */
static void choose(pf_tuning *c)
{
    int32_t best = 0;
    uint64_t least = median(c->ns[0]);
    for (int32_t i = 1; i < c->n_tried; i++) {
        const uint64_t ns = median(c->ns[i]);
        if (ns >= least) continue;
        least = ns;
        best = i;
    }
    c->rung = c->first + best;
    c->first = c->rung > 0 ? c->rung - 1 : 0;
    c->n_tried = (c->rung + 1 < c->n_rungs ? c->rung + 2 : c->n_rungs) - c->first;
}

void pf_tuning_note(pf_tuning *tuning, int32_t n_rows, uint64_t ns)
{
    if (n_rows > PF_TUNING_MAX_ROWS) return;
    if (tuning->until_trial > 0) {
        tuning->until_trial--;
        return;
    }
    if (begins_trial(tuning, n_rows)) {
        end_trial(tuning, 0);
        tuning->n_rows = n_rows;
    }
    if (is_sampled(tuning, n_rows)) {
        tuning->ns[next_tried(tuning)][tuning->n_samples / tuning->n_tried] = ns;
        tuning->n_samples++;
    }
    tuning->n_passes++;
    if (tuning->n_samples == tuning->n_tried * PF_TUNING_SAMPLES) {
        choose(tuning);
        end_trial(tuning, PF_TUNING_PERIOD);
    } else if (tuning->n_passes == PF_TUNING_MAX_PASSES) {
        end_trial(tuning, 0);
    }
}
