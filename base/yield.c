#include "base/yield.h"

#include <sched.h>

#include "base/clock.h"

enum {
    /* Two switches between processes, and a look at a queue of gRPC's in between, take 5 us; a draft's shortest pass and
     * what brings its proposal on the way 20. */
    LOOK_NS = 15 * 1000,
    /* Slices of the scheduler's are 3 ms or so. */
    SLICE_NS = 1000 * 1000,
    /* A yield that took one counts four, any other takes one away; sixteen are a contention. */
    EVIDENCE = 4,
    ENOUGH = 16,
    REMEMBERED_NS = 100 * 1000 * 1000,
};

void pf_contention_note(pf_contention *contention, pf_yield_result result, uint64_t now_ns)
{
    if (result != PF_YIELD_CONTENDED) {
        if (contention->evidence > 0) contention->evidence--;
    } else if ((contention->evidence += EVIDENCE) >= ENOUGH) {
        contention->evidence = ENOUGH; /* the next one alone will tell that it is so still */
        contention->until_ns = now_ns + REMEMBERED_NS;
    }
}

pf_yield_result pf_contention_yield(pf_contention *contention, uint64_t *now_ns)
{
    const uint64_t left_ns = *now_ns;
    sched_yield();
    *now_ns = pf_now_ns();
    const uint64_t away_ns = *now_ns - left_ns;
    const pf_yield_result result = away_ns > SLICE_NS  ? PF_YIELD_CONTENDED
                                   : away_ns > LOOK_NS ? PF_YIELD_OTHERS_WORKED
                                                       : PF_YIELD_OTHERS_LOOKED;
    pf_contention_note(contention, result, *now_ns);
    return result;
}
