#include "base/run_delay.h"

#include <inttypes.h>
#include <stdio.h>

bool pf_run_delay_read(uint64_t *run_ns, uint64_t *delay_ns)
{
    FILE *file = fopen("/proc/self/schedstat", "re");
    if (file == NULL) return false;
    uint64_t run, delay;
    const bool has_both = fscanf(file, "%" SCNu64 " %" SCNu64, &run, &delay) == 2;
    fclose(file);
    if (!has_both) return false;
    *run_ns = run;
    *delay_ns = delay;
    return true;
}
