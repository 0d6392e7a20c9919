#include "base/run_delay.h"

#include <stdio.h>
#include <stdlib.h>

bool pf_run_delay_read(uint64_t *run_ns, uint64_t *delay_ns)
{
    FILE *file = fopen("/proc/self/schedstat", "re");
    if (file == NULL) return false;
    char line[128], *run_end, *delay_end;
    const bool is_read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    if (!is_read) return false;
    *run_ns = strtoull(line, &run_end, 10);
    *delay_ns = strtoull(run_end, &delay_end, 10);
    return run_end != line && delay_end != run_end;
}
