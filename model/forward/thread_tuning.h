/*
 * The crew: those members of the team that run a pass. Over a small model that is all of them or the first few, chosen by
 * measurement as the passes come.
 *
 *     rung   0     1                                 2           ...   the last
 *            all   the largest power of two below    half of it        not below the fewest that may
 *
 * Such a pass takes some ten microseconds, and its members meet at four or five barriers a layer. What a barrier costs depends
 * on how many meet, and on where their cores are: two need 0.05 us where they share an L3, 0.25 us where they do not, and a
 * hypervisor moves them from the one to the other within seconds. So from time to time passes of
 * the same number of rows are run by several numbers of members, in turns, and the one with the smallest median is that of the
 * passes to come. The first trial is of all rungs, later ones are of the rung at hand and those beside it.
 *
 * Pure: no clock, no threads. A row's logits do not depend on who runs the pass (DESIGN, invariant 2).
 */
#ifndef PF_MODEL_THREAD_TUNING_H
#define PF_MODEL_THREAD_TUNING_H

#include <stdint.h>

enum {
    PF_TUNING_RUNGS = 11,       /* at most, of the largest team: 1,024 */
    PF_TUNING_SAMPLES = 8,      /* of each rung in a trial */
    PF_TUNING_PERIOD = 512,     /* passes from one trial to the next */
    PF_TUNING_MAX_ROWS = 16,    /* passes of more rows are the team's, and not looked at */
    PF_TUNING_MAX_PASSES = 256, /* passes that a trial may take; then it begins again, with another number of rows */
};

typedef struct {
    int32_t n_threads;                               /* of the team */
    int32_t n_rungs;                                 /* 1: nothing to choose */
    int32_t rung;                                    /* by which passes are run now */
    int32_t until_trial;                             /* passes */
    int32_t first, n_tried;                          /* rungs that this trial compares */
    int32_t n_rows;                                  /* of the passes that it compares */
    int32_t n_passes;                                /* since it began */
    int32_t n_samples;                               /* of all its rungs */
    uint64_t ns[PF_TUNING_RUNGS][PF_TUNING_SAMPLES]; /* of rung first + i */
} pf_tuning;

/* Members of a rung; n_members halved so often: to powers of two, and to one at last. */
int32_t pf_tuning_halved(int32_t n_members, int32_t rung);

/* Of a team of n_threads, of which no less than `fewest` are to run a pass. All do, and a trial begins with the first pass. */
pf_tuning pf_tuning_of(int32_t n_threads, int32_t fewest);

/* How many members are to run the next pass: all, or a power of two. */
int32_t pf_tuning_members(const pf_tuning *tuning, int32_t n_rows);

/* The pass has been run, as pf_tuning_members said, and took so long. */
void pf_tuning_note(pf_tuning *tuning, int32_t n_rows, uint64_t ns);

#endif
