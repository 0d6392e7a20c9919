/*
 * Reads what a user says, line by line: from an editor where standard input is a terminal, else as it comes from a pipe or a file.
 * In the editor a line that ends with a backslash goes on in the next one.
 */
#ifndef PF_CLI_USER_LINES_H
#define PF_CLI_USER_LINES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "cli/line_editor.h"

typedef struct pf_lines pf_lines;

/* words: as pf_line_editor_open. Without a terminal to show lines on, they are read as from a pipe. PF_NOMEM. The caller ends it
 * with pf_lines_close. */
PF_MUST_USE pf_status pf_lines_open(const char *const *words, pf_lines **out, pf_error *error);
void pf_lines_close(pf_lines *lines); /* NULL is fine */

/* Whether lines are typed by a person, so that questions and figures have a reader. */
bool pf_lines_are_typed(const pf_lines *lines);

/* The next line, without its end, in *line, which is emptied before. PF_LINE_BROKEN: the interrupt flag is set.
 * PF_LIMIT: a line of more than 64 MiB.  PF_UNAVAILABLE: standard input cannot be read.  PF_NOMEM. */
PF_MUST_USE pf_status pf_lines_next(pf_lines *lines, pf_bytes *line, pf_line_event *event, pf_error *error);

/* Of a line that is broken: whether another one was broken just before, and nothing typed between. */
bool pf_lines_broken_twice(const pf_lines *lines);

#endif
