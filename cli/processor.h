/* The name of the processor, as Linux reports it. */
#ifndef PF_CLI_PROCESSOR_H
#define PF_CLI_PROCESSOR_H

#include <stddef.h>

/* "model name" of /proc/cpuinfo, or "unknown"; cut to the capacity. */
void pf_processor_name(char *out, size_t capacity);

#endif
