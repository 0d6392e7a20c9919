/*
 * Chooses how many threads of a team run the next forward pass, by the measured times of the passes before it.
 *
 *     level   0             1                                 2           ...   last
 *     runs    all threads   the largest power of two below    half of it        1
 *
 * Speed. A pass over a small model takes tens of microseconds, and its threads meet at four or five barriers a layer. A barrier
 * costs more the more threads meet and the farther apart their cores are, and a hypervisor may move them. So from time to time
 * a *trial* runs passes of the same number of rows on several levels in turn, and the level with the smallest median is used
 * until the next trial. The first trial compares all levels, a later one the current level and its neighbours.
 *
 * Contention. Where other processes compute on the same cores, a thread waits at a barrier for one that has lost its core:
 * milliseconds, in a pass of a tenth of one. Such a pass is *held up*: its threads waited at barriers for a quarter of its time
 * (pf_team_held_up_ns counts waits of more than 2 ms). The backoff then lowers the number that speed has chosen, by halves:
 *
 *     state      threads                        next
 *     QUIET      as chosen by speed             MEASURED when a pass is held up
 *     MEASURED   the same                       FEWER when passes are held up again and again, otherwise QUIET
 *     FEWER      half of the best so far        10 % faster: this is the best, FEWER again; otherwise HELD
 *     HELD       the best so far                after some windows MORE, or MEASURED where the best is what speed has chosen
 *     MORE       twice the best so far          no slower: this is the best, MORE or MEASURED; slower: HELD, or FEWER
 *
 * A *window* is 30 ms of passes. The states compare its mean time per row, or per pass of few rows: a median does not see a
 * hold-up, which is rare and long. HELD lasts two windows where the best is new, and twice as long as the last time where MORE
 * has failed.
 *
 * A *short* pass, of few rows of a model in the cache, takes so much less time than a hold-up that it needs no window: each one
 * that is held up halves the threads at once and leads to HELD, for at least ten times as long as the pass has taken. A window
 * of HELD without a late pass then counts as four: contention delays passes of one thread, too. Where a process has
 * waited for a core half as long as it has run, before its first short pass, it begins in HELD with one thread, until passes of 12 ms in a row are not late.
 *
 * Passes of few and of many rows back off apart.
 *
 * Pure: no clock, no threads. The logits of a row do not depend on the number of threads.
 */
#ifndef PF_MODEL_THREAD_COUNT_H
#define PF_MODEL_THREAD_COUNT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_TRIAL_ROWS = 16,       /* a pass of more rows takes part in no trial */
    PF_BACKOFF_FEW_ROWS = 32, /* a pass of so few rows takes nearly as long as one of a row */

    PF_TRIAL_LEVELS = 11,  /* at most, of a team of 1,024 threads */
    PF_TRIAL_SAMPLES = 8,  /* of each level in a trial */
    PF_TRIAL_PERIOD = 512, /* passes from one trial to the next */
    PF_TRIAL_PASSES = 256, /* a trial takes at most so many; then it begins again, with another number of rows */

    PF_BACKOFF_WINDOW_NS = 30 * 1000 * 1000, /* about ten time slices of the scheduler */
    PF_BACKOFF_PASSES = 4,                   /* of a window, at least, unless MORE takes twice as long as the best */
    PF_BACKOFF_HELD_UPS = 3,                 /* passes of MEASURED: one may be an accident */
    PF_BACKOFF_LONGEST = 5,                  /* windows: after their time and passes MEASURED ends without those */
    PF_BACKOFF_HELD_FIRST = 2,               /* windows of HELD where the best is new */
    PF_BACKOFF_START_DELAY_NS = 10 * 1000 * 1000, /* a shorter delay before the first pass is none */
    PF_BACKOFF_HELD_AT_START = 64,                /* two seconds, unless */
    PF_BACKOFF_CLEAN_NS = 12 * 1000 * 1000,       /* so long no pass is late: two or three time slices */
    PF_BACKOFF_HELD_MOST = 128,                   /* four seconds */
    PF_BACKOFF_CLEAN_WINDOWS = 4,                 /* that a window without a late pass counts for */
    PF_BACKOFF_LATE_NS = 1 * 1000 * 1000, /* a late pass takes so much longer than twice the shortest of its window */
};

/* The speed trial. */
typedef struct {
    int32_t n_levels;                               /* 1: nothing to choose */
    int32_t level;                                  /* of the passes outside a trial */
    int32_t until_trial;                            /* passes; 0: a trial runs */
    int32_t first, n_tried;                         /* levels that this trial compares */
    int32_t n_rows;                                 /* of the passes that it compares */
    int32_t n_passes;                               /* since it began */
    int32_t n_samples;                              /* of all its levels */
    uint64_t ns[PF_TRIAL_LEVELS][PF_TRIAL_SAMPLES]; /* of level first + i */
} pf_speed_trial;

typedef enum {
    PF_BACKOFF_QUIET,
    PF_BACKOFF_MEASURED,
    PF_BACKOFF_FEWER,
    PF_BACKOFF_HELD,
    PF_BACKOFF_MORE,
} pf_backoff_state;

/* The backoff of passes of few rows, or of many. Levels count from the number of threads that speed has chosen. */
typedef struct {
    pf_backoff_state state;
    bool is_short;     /* all its passes are */
    bool is_at_start;  /* HELD since the beginning */
    int32_t level;     /* of the next pass */
    int32_t best;      /* level */
    double best_ns;    /* a unit's mean time in the best level's last window */
    bool is_new;       /* the best, since the last HELD */
    int32_t held_for;  /* windows of this HELD, or of the last */
    int32_t held_left; /* windows until it ends */

    /* The window. */
    uint64_t ns, first_ns, shortest_ns, clean_ns, held_up_ns; /* clean_ns: since the last late pass */
    int32_t n_passes, n_held_up;                              /* n_held_up: passes that were held up */
    int64_t n_units;                                          /* rows, or passes of few rows */
} pf_backoff;

typedef struct {
    int32_t n_threads; /* of the team */
    bool backs_off;
    pf_speed_trial trial;
    pf_backoff of_few, of_many; /* rows */
} pf_thread_count;

/* Threads of a level, of a team of n_threads or of its first n_threads. */
int32_t pf_threads_of_level(int32_t n_threads, int32_t level);

/* What a controller is made for. */
typedef struct {
    int32_t n_threads;         /* of the team */
    int32_t fewest;            /* threads that speed may choose for a pass of few rows */
    bool backs_off;            /* by contention, down to one thread */
    bool is_in_cache;          /* the model: its passes of few rows are short */
    uint64_t run_ns, delay_ns; /* what the process has run so far, and waited for a core (base/run_delay.h) */
} pf_thread_count_config;

pf_thread_count pf_thread_count_of(const pf_thread_count_config *config);

/* Whether all passes are run by all threads, and none needs to be timed. */
static inline bool pf_thread_count_is_fixed(const pf_thread_count *count)
{
    return count->trial.n_levels == 1 && !count->backs_off;
}

/* Whether other processes compute on the threads' cores, as far as the passes before have shown. */
bool pf_thread_count_is_contended(const pf_thread_count *count);

/* How many threads run the next pass, of n_rows rows: all, or a power of two. */
int32_t pf_thread_count_next(const pf_thread_count *count, int32_t n_rows);

/* Records a pass that pf_thread_count_next's number of threads has run in `ns`. held_up_ns: of pf_team_held_up_ns. */
void pf_thread_count_note(pf_thread_count *count, int32_t n_rows, uint64_t ns, uint64_t held_up_ns);

#endif
