#include "model/crew.h"

#include <stdlib.h>

/* Whether the next sample of a trial is one of a pass run alone: 0110 1001 1001 0110 (Thue and Morse), so that no rhythm
 * of the passes, every fourth one the first of a round and cold, falls on one way more than on the other. */
static bool next_is_alone(const pf_crew *c)
{
    return __builtin_parity((unsigned)(c->n_samples[0] + c->n_samples[1]));
}

/* Whether a trial begins with this pass: anew where it had one pass so far and that had other rows, as a short prompt's has,
 * which one row at a time follows. */
static bool begins_trial(const pf_crew *c, int32_t n_rows)
{
    return c->until_trial == 0 && (c->n_passes == 0 || (c->n_passes == 1 && n_rows != c->n_rows));
}

static bool is_sampled(const pf_crew *c, int32_t n_rows)
{
    return c->until_trial == 0 && n_rows == c->n_rows;
}

bool pf_crew_alone(const pf_crew *crew, int32_t n_rows)
{
    if (n_rows > PF_CREW_MAX_ROWS || begins_trial(crew, n_rows)) return false;
    return is_sampled(crew, n_rows) ? next_is_alone(crew) : crew->alone;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median(uint64_t ns[PF_CREW_SAMPLES])
{
    qsort(ns, PF_CREW_SAMPLES, sizeof *ns, compare);
    return ns[PF_CREW_SAMPLES / 2];
}

static void end_trial(pf_crew *c, int32_t until_next)
{
    c->until_trial = until_next;
    c->n_passes = 0;
    c->n_samples[0] = c->n_samples[1] = 0;
}

void pf_crew_note(pf_crew *crew, int32_t n_rows, uint64_t ns)
{
    if (n_rows > PF_CREW_MAX_ROWS) return;
    if (crew->until_trial > 0) {
        crew->until_trial--;
        return;
    }
    if (begins_trial(crew, n_rows)) {
        end_trial(crew, 0);
        crew->n_rows = n_rows;
    }
    if (is_sampled(crew, n_rows)) {
        const bool alone = next_is_alone(crew);
        crew->ns[alone][crew->n_samples[alone]++] = ns;
    }
    crew->n_passes++;
    if (crew->n_samples[0] + crew->n_samples[1] == 2 * PF_CREW_SAMPLES) {
        crew->alone = median(crew->ns[1]) < median(crew->ns[0]);
        end_trial(crew, PF_CREW_PERIOD);
    } else if (crew->n_passes == PF_CREW_PATIENCE) {
        end_trial(crew, 0);
    }
}
