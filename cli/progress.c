/* A bar on standard error. */
#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static const uint64_t PATIENCE_NS = 500000000;
static const uint64_t REDRAW_NS = 100000000;
enum { WIDTH = 32 };

void pf_progress_begin(pf_progress *progress, const char *label)
{
    *progress = (pf_progress){ .label = label, .begun_ns = pf_now_ns(), .is_terminal = isatty(STDERR_FILENO) == 1 };
}

void pf_progress_update(void *user, size_t done, size_t total)
{
    pf_progress *progress = user;
    if (!progress->is_terminal || total == 0) return;
    const uint64_t now = pf_now_ns();
    if (now - progress->begun_ns < PATIENCE_NS || now - progress->drawn_ns < REDRAW_NS) return;
    progress->drawn_ns = now;
    progress->is_drawn = true;

    static const char full[] = "################################", empty[] = "................................";
    const double share = done < total ? (double)done / (double)total : 1.0;
    const int n_full = (int)(share * WIDTH);
    fprintf(stderr, "\r%s [%.*s%.*s] %3d %%", progress->label, n_full, full, WIDTH - n_full, empty,
            (int)(share * 100.0));
    fflush(stderr);
}

void pf_progress_end(pf_progress *progress)
{
    if (progress->is_drawn) fputs("\r\033[K", stderr);
    progress->is_drawn = false;
}
