/*
 * Fewer members for passes while others compute on the members' cores and do not make way.
 *
 * A pass meets at four barriers a layer or more, and each then waits for a member that waits for its turn: milliseconds, where
 * all of the pass takes a tenth of one. On two cores with thirteen other processes a pass of two members took ten times as
 * long as one member alone needed (docs/data/beside_other_work_emerald_rapids.csv). The medians by which tuning.h chooses do not see it: most passes of a
 * small model fit between two turns of others, and one that does not takes as long as a thousand. So means are compared here:
 * the time of a row, or of a pass of few rows, over all passes of a *window* of 30 ms.
 *
 *                   members of the passes of a window            and when it is over
 *     QUIET         all that the crew says; there is no window   a pass was held up: MEASURED
 *     MEASURED      the same                                     held up again and again: FEWER by half of them, else QUIET
 *     FEWER         half of the best so far                      a tenth faster: the best now, and FEWER again; else HELD
 *     HELD          the best so far, for some windows            MORE, or MEASURED where the best are all
 *     MORE          twice the best so far                        no slower: the best now, and MORE, or MEASURED where they are
 *                                                                all; slower: HELD where MORE has found better ones, else FEWER
 *
 * HELD lasts two windows where the best is a new one, else twice as long as the last time. Held up means for a quarter of a
 * pass, or of a window: a core may be taken from a member anywhere, and only the others' waiting tells.
 *
 * Pure: no clock, no threads. A row's logits do not depend on who runs the pass (DESIGN, invariant 2).
 */
#ifndef PF_MODEL_CONTENTION_BACKOFF_H
#define PF_MODEL_CONTENTION_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_BACKOFF_WINDOW_NS = 30 * 1000 * 1000, /* of passes: ten turns of the scheduler's, or so */
    PF_BACKOFF_PASSES = 4,                   /* of a window, at least, unless MORE takes twice as long as the best */
    PF_BACKOFF_HELD_UPS = 3,                 /* passes of MEASURED: one may be an accident */
    PF_BACKOFF_LONGEST = 5,                  /* windows: after their time and passes MEASURED ends without those */
    PF_BACKOFF_HELD_FIRST = 2,               /* windows of HELD where the best is new */
    PF_BACKOFF_HELD_MOST = 128,              /* at most: four seconds */
};

typedef enum {
    PF_BACKOFF_QUIET,
    PF_BACKOFF_MEASURED,
    PF_BACKOFF_TRIES_FEWER,
    PF_BACKOFF_HELD,
    PF_BACKOFF_TRIES_MORE
} pf_backoff_state;

/* Zeroed: nobody has been held up. */
typedef struct {
    pf_backoff_state state;
    int32_t halved;    /* how often the crew's number of members is halved for the passes at hand */
    int32_t best;      /* how often for the best so far */
    double best_ns;    /* the time of a unit in the best's last window */
    bool has_found;    /* the best is a new one since the last HELD */
    int32_t held_for;  /* windows of the HELD at hand, or of the last */
    int32_t held_left; /* of them, those that are left */

    /* The window at hand. */
    uint64_t ns, held_up_ns;
    int32_t n_passes, n_held_up; /* n_held_up: of the passes, those that were held up */
    int64_t n_units;
} pf_backoff;

/* How many members run the next pass, where the crew has n_members: as many, or a power of two below. */
int32_t pf_backoff_members(const pf_backoff *backoff, int32_t n_members);

/* It has been run by as many as pf_backoff_members said of n_members, and took ns. n_units: what a time is compared by, its
 * rows, or 1 where these make little difference. held_up_ns: pf_team_held_up_ns. */
void pf_backoff_note(pf_backoff *backoff, int32_t n_members, int32_t n_units, uint64_t ns, uint64_t held_up_ns);

#endif
