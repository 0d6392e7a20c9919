/*
 * Who runs a pass over a small model: the whole team, or its caller alone. Chosen by measurement, as the passes come.
 *
 * Such a pass takes some ten microseconds, and a team meets at four or five barriers a layer. What a barrier costs depends on
 * where the cores are: 0.05 us where two share an L3, 0.25 us where they do not, and a hypervisor moves them from the
 * one to the other within seconds (docs/measurements.md has it). So from time to time passes of the same number
 * of rows are run both ways, in turns, and the way with the smaller median is that of the passes to come.
 *
 * Pure: no clock, no threads. A row's logits do not depend on who runs the pass (DESIGN, invariant 2).
 */
#ifndef PF_MODEL_CREW_H
#define PF_MODEL_CREW_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_CREW_SAMPLES = 8,    /* of each way in a trial; a power of two */
    PF_CREW_PERIOD = 512,   /* passes from one trial to the next */
    PF_CREW_MAX_ROWS = 16,  /* passes of more rows are the team's, and not looked at */
    PF_CREW_PATIENCE = 256, /* passes that a trial may take; then it begins again, with another number of rows */
};

/* All zero: the team's, and a trial begins with the first pass. */
typedef struct {
    bool alone;          /* how passes are run now */
    int32_t until_trial; /* passes */
    int32_t n_rows;      /* of the passes that this trial compares */
    int32_t n_passes;    /* since it began */
    int32_t n_samples[2];
    uint64_t ns[2][PF_CREW_SAMPLES]; /* together, alone */
} pf_crew;

/* Whether the caller is to run the next pass alone. */
bool pf_crew_alone(const pf_crew *crew, int32_t n_rows);

/* The pass has been run, as pf_crew_alone said, and took so long. */
void pf_crew_note(pf_crew *crew, int32_t n_rows, uint64_t ns);

#endif
