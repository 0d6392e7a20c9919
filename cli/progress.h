/* A bar on standard error for what takes long: only on a terminal that is not dumb, in one row of it, and only once
 * half a second has passed. */
#ifndef PF_CLI_PROGRESS_H
#define PF_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *label;
    uint64_t begun_ns, drawn_ns;
    int columns; /* of the terminal, when it was drawn */
    bool is_terminal;
} pf_progress;

void pf_progress_begin(pf_progress *progress, const char *label);

/* Draw, at most ten times a second. In the form that pf_engine_options.progress wants. */
void pf_progress_update(void *progress, size_t done, size_t total);

/* Wipe this bar, if it is the one that is drawn. */
void pf_progress_end(pf_progress *progress);

/* Wipe whichever bar is drawn, before a sentence takes its place: the next update draws it again. Async-signal-safe. */
void pf_progress_wipe(void);

#endif
