/*
 * A file of a model that shrinks while it is mapped, or whose disk fails, is a sentence and status 1 like any other failure.
 *
 * Weights are read where they are mapped, and to the kernel what is missing there is a fault: SIGBUS. It may come on any
 * thread of a team in the midst of its share, from where nothing can be returned, so the process ends there, and what it
 * was writing goes with it. Other faults end it as they always did.
 */
#ifndef PF_CLI_CUT_SHORT_H
#define PF_CLI_CUT_SHORT_H

/* Call once, before any thread is started. */
void pf_cut_short_install(void);

/* From here on what the process is writing: a directory that is removed, with the files in it, before such a fault or a
 * signal ends it. Borrowed until the next call; NULL: nothing. */
void pf_cut_short_remove(const char *directory);

/* Handles a signal that ends the process: as it would without a handler, but what was being written is removed. The first
 * process of a container, which the kernel does not end so, exits with 128 and the signal's number. */
void pf_cut_short_on_signal(int number);

#endif
