#include "base/stop.h"

#include "base/clock.h"

enum { LOOK_NS = 20 * 1000 * 1000 };

bool pf_stop_is_due(pf_stop *stop)
{
    if (!pf_is_told(stop->told)) {
        stop->until_ns = 0;
        return false;
    }
    const uint64_t now_ns = pf_clock_now_ns(stop->clock_ns);
    if (stop->until_ns == 0) stop->until_ns = now_ns + stop->grace_ns;
    return now_ns >= stop->until_ns;
}

void pf_stop_or_wait(pf_stop *stop, uint64_t time_ns)
{
    uint64_t *clock_ns = stop->clock_ns, now_ns;
    while ((now_ns = pf_clock_now_ns(clock_ns)) < time_ns && !pf_stop_is_due(stop))
        pf_clock_wait_until(clock_ns, time_ns - now_ns > LOOK_NS ? now_ns + LOOK_NS : time_ns);
}
