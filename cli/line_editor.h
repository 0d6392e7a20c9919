/*
 * Edits lines on a terminal by libedit: keys and ~/.editrc as it has them, Tab completes commands, and the history is kept in a file
 * of mode 0600, $XDG_STATE_HOME/pilotfish/history or ~/.local/state/pilotfish/history.
 *
 * Ctrl-C arrives as the flag of cli/interrupt.h and ends the read; the terminal's mode is the caller's again after each read.
 * Threads: the main thread, one editor at a time.
 */
#ifndef PF_CLI_LINE_EDITOR_H
#define PF_CLI_LINE_EDITOR_H

#include <stdbool.h>
#include <stdio.h>

#include "base/bytes.h"

typedef struct pf_line_editor pf_line_editor;

typedef enum {
    PF_LINE_GIVEN, /* a line, without its end */
    PF_LINE_END,   /* Ctrl-D on an empty line, or the end of the input */
    PF_LINE_BROKEN /* the interrupt flag is set; what was typed is gone */
} pf_line_event;

/* Reads standard input and shows lines on `terminal`, a terminal. words [NULL at the end], borrowed: what Tab completes at the
 * start of a line. A history that cannot be read is a warning. PF_UNAVAILABLE: libedit cannot use the terminal. The caller ends
 * it with pf_line_editor_close. */
PF_MUST_USE pf_status pf_line_editor_open(FILE *terminal, const char *const *words, pf_line_editor **out,
                                          pf_error *error);

/* Writes the history. NULL is fine. */
void pf_line_editor_close(pf_line_editor *editor);

/* Appends the next line to *line, as UTF-8. continues: it goes on from the one before, and the prompt says so. PF_NOMEM. */
PF_MUST_USE pf_status pf_line_editor_read(pf_line_editor *editor, bool continues, pf_bytes *line, pf_line_event *event);

/* Whether anything was typed since the last read that gave or broke a line began. */
bool pf_line_editor_was_typed(const pf_line_editor *editor);

/* Adds a line to the history. */
void pf_line_editor_remember(pf_line_editor *editor, const char *line, size_t n_bytes);

#endif
