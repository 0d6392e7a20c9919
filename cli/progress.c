/* A bar on standard error. */
#include "cli/progress.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/output.h"

static const uint64_t WAIT_NS = 500000000;
static const uint64_t REDRAW_NS = 100000000;
enum { WIDTH = 32 };

static _Atomic(const pf_progress *) drawn; /* the one bar that is on the terminal, or NULL */

void pf_progress_begin(pf_progress *progress, const char *label)
{
    *progress =
        (pf_progress){ .label = label, .begun_ns = pf_now_ns(), .is_terminal = pf_out_is_terminal(STDERR_FILENO) };
}

/* 0: not known. */
static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* The bar in what the label leaves of a row, or the percentage alone, or nothing: of what goes on in a second row the
 * first stays. The last column is left free, since some terminals are in the next row once it is filled. */
static bool draw(const char *label, double share, int columns)
{
    static const char full[] = "################################", empty[] = "................................";
    enum { BESIDE = sizeof " [] 100 %" - 1, PERCENTAGE = sizeof "100 %" - 1 };
    const int room = columns > 0 ? columns - 1 : INT_MAX, left = room - BESIDE - (int)strlen(label);
    const int width = left < WIDTH ? left : WIDTH, n_full = (int)(share * width), percentage = (int)(share * 100.0);
    if (width > 0)
        fprintf(stderr, "\r%s [%.*s%.*s] %3d %%", label, n_full, full, width - n_full, empty, percentage);
    else if (room >= PERCENTAGE)
        fprintf(stderr, "\r%3d %%", percentage);
    return width > 0 || room >= PERCENTAGE;
}

void pf_progress_update(void *user, size_t done, size_t total)
{
    pf_progress *progress = user;
    if (!progress->is_terminal || total == 0) return;
    const uint64_t now = pf_now_ns();
    if (now - progress->begun_ns < WAIT_NS || now - progress->drawn_ns < REDRAW_NS) return;
    progress->drawn_ns = now;

    const int columns = terminal_columns();
    if (columns != progress->columns) pf_progress_wipe(); /* a shorter one would not cover it */
    progress->columns = columns;
    if (draw(progress->label, done < total ? (double)done / (double)total : 1.0, columns)) drawn = progress;
}

void pf_progress_end(pf_progress *progress)
{
    if (drawn == progress) pf_progress_wipe();
}

void pf_progress_wipe(void)
{
    static const char wipe[] = "\r\033[K";
    if (!atomic_exchange(&drawn, NULL)) return;
    const ssize_t written = write(STDERR_FILENO, wipe, sizeof wipe - 1); /* of stderr nothing is buffered */
    (void)written;
}
