/*
 * What reaches the caller: bytes on standard output, checked; sentences on standard error.
 *
 * A write that fails (a full disk, a closed pipe) is remembered, later writes are dropped, and pf_out_finish makes
 * it one sentence and exit status 1. So is output that is not read within a second of an interrupt; the status is 130 then.
 */
#ifndef PF_CLI_OUTPUT_H
#define PF_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/stop.h"

/* Standard output with a buffer of its own. Zero it before first use, but for `stop`. */
typedef struct {
    char buffer[1 << 14];
    size_t n;
    size_t n_open;    /* bytes written since the last line end */
    bool whole_lines; /* what is written is JSON: of a file on a full disk the line that was cut is taken back */
    int error;        /* errno of the first write that failed; 0 while all is well */
    pf_stop stop;     /* once interrupted, how much longer a reader is waited for that does not read */
} pf_out;

/* Each returns false once a write has failed. */
bool pf_out_write(pf_out *out, const void *bytes, size_t n_bytes);
bool pf_out_print(pf_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool pf_out_flush(pf_out *out);

/* Flush, and turn a failed write into a sentence: `status` itself, or PF_EXIT_FAILED when something was lost. */
int pf_out_finish(pf_out *out, int status);

/* Whether a descriptor is a terminal that does as its codes say, and no dumb one (TERM). */
bool pf_out_is_terminal(int descriptor);

/* One line of UTF-8 on stderr whatever is quoted in it: control characters become spaces, what is not UTF-8 U+FFFD. */
void pf_out_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "pilotfish: SENTENCE" on stderr; returns PF_EXIT_FAILED. */
int pf_out_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int pf_out_fail_error(pf_status status, const pf_error *error); /* the status speaks where the error is empty */

#endif
