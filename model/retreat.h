/*
 * Fewer members for passes while others compute on the members' cores and do not make way.
 *
 * A pass meets at four barriers a layer or more, and each then waits for a member that waits for its turn: milliseconds, where
 * all of the pass takes a tenth of one. On two cores with thirteen other processes a pass of two members took ten times as long as
 * one member alone needed (docs/measurements.md). The medians by which crew.h chooses do not see it: most passes of a small model
 * fit between two turns of others, and one that does not takes as long as a thousand. So means are compared here, of all passes
 * of a window of time.
 *
 *     QUIET       as many members as the crew says, and no clock but the crew's
 *     MEASURED    members have been held up: a window as it is, until that has happened three times, or does not again
 *     FEWER       one by half as many. If they are a tenth faster, the next one by half of them
 *     HELD        the best so far, for some windows
 *     MORE        one by twice as many. If they are no slower, the next one by twice theirs, until it is QUIET again; else FEWER
 *
 * Where nothing better is found the best is held twice as long as the last time. Held up means for a quarter of a pass, or of a
 * window: a core may be taken from a member anywhere, and only the others' waiting tells.
 *
 * Pure: no clock, no threads. A row's logits do not depend on who runs the pass (DESIGN, invariant 2).
 */
#ifndef PF_MODEL_RETREAT_H
#define PF_MODEL_RETREAT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_RETREAT_WINDOW_NS = 30 * 1000 * 1000, /* of passes: ten turns of the scheduler's, or so */
    PF_RETREAT_PASSES = 4,      /* of a window, at least, unless they take twice as long as the best ones */
    PF_RETREAT_HELD_UPS = 3,    /* that are a crowd; one is an accident */
    PF_RETREAT_LONGEST = 5,     /* windows, and as many times their least passes, in which they have to come */
    PF_RETREAT_HELD_FIRST = 2,  /* windows, of a new best one */
    PF_RETREAT_HELD_MOST = 128, /* four seconds */
};

typedef enum {
    PF_RETREAT_QUIET,
    PF_RETREAT_MEASURED,
    PF_RETREAT_TRIES_FEWER,
    PF_RETREAT_HELD,
    PF_RETREAT_TRIES_MORE
} pf_retreat_state;

/* Zeroed: nobody has been held up. */
typedef struct {
    pf_retreat_state state;
    int32_t halved;    /* how often the crew's number is, for the passes at hand */
    int32_t best;      /* that which was best so far */
    double best_ns;    /* of a unit, in its last window */
    bool has_found;    /* it, since the last time that one was held */
    int32_t held_for;  /* windows, this time */
    int32_t held_left; /* of them */

    uint64_t ns, held_up_ns;     /* of the window at hand */
    int32_t n_passes, n_held_up; /* n_held_up: of them */
    int64_t n_units;
} pf_retreat;

/* How many members run the next pass, where the crew has n_members: as many, or a power of two below. */
int32_t pf_retreat_members(const pf_retreat *retreat, int32_t n_members);

/* It has been run, as pf_retreat_members said of n_members, and took so long. What is compared is the time of a unit: of a row,
 * or of a pass where its rows make little difference. held_up_ns: pf_team_held_up_ns. */
void pf_retreat_note(pf_retreat *retreat, int32_t n_members, int32_t n_units, uint64_t ns, uint64_t held_up_ns);

#endif
