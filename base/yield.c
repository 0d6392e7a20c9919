#include "base/yield.h"

#include <sched.h>

#include "base/clock.h"

enum {
    /* Two context switches with a poll of a gRPC queue in between take 5 us; a draft's shortest pass with sending its proposal
     * takes 20 us. */
    LOOK_NS = 15 * 1000,
    /* A time slice of the scheduler is about 3 ms. */
    SLICE_NS = 1000 * 1000,
    /* A yield as long as a slice adds four, any other subtracts one; sixteen mean contention. */
    EVIDENCE = 4,
    ENOUGH = 16,
    REMEMBERED_NS = 100 * 1000 * 1000,
};

void pf_contention_note(pf_contention *contention, pf_yield_result result, uint64_t now_ns)
{
    if (result != PF_YIELD_CONTENDED) {
        if (contention->evidence > 0) contention->evidence--;
    } else if ((contention->evidence += EVIDENCE) >= ENOUGH) {
        contention->evidence = ENOUGH; /* after it has expired, one more long yield renews it */
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
