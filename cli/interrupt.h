/*
 * Ctrl-C, SIGTERM and SIGHUP as a flag that every loop looks at. A second signal of the same kind ends the process at once,
 * as SIGQUIT does, but for the directory that was being written: it is removed.
 *
 * The flag with its signal's number and the directory of cut_short.c are what a handler is given to read or to write; with
 * the bar of progress.c, which is on the one terminal, they are the program's mutable globals. The libraries have two words
 * of a thread each: its pinning (base/cpus.c), and that jansson found no memory (base/json.c).
 */
#ifndef PF_CLI_INTERRUPT_H
#define PF_CLI_INTERRUPT_H

#include <stdbool.h>

/* From here on SIGINT, SIGTERM and, unless it was ignored, SIGHUP set the flag, even if the parent process had blocked
 * them; system calls that wait return, and SIGPIPE and SIGXFSZ (a file larger than is allowed) are errors of the
 * write that met them. Call once, before any thread is started. */
void pf_interrupt_install(void);

const volatile bool *pf_interrupt_flag(void);

/* Clears the flag where Ctrl-C (SIGINT) has set it, and whether it has. Another signal is to end the process: it stays. From
 * the first call on the fourth Ctrl-C without a call between them ends the process at once, not the second. */
bool pf_interrupt_take(void);

/* The signal that set the flag; 0: none has. */
int pf_interrupt_signal(void);

#endif
