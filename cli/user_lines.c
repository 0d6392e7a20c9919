/* Lines of a user. */
#include "cli/user_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/input.h"

enum { MAX_LINE_BYTES = 1 << 26 };

struct pf_lines {
    pf_line_editor *editor; /* NULL: a pipe */
    char buffer[1 << 14];   /* [n] read and not yet given, from `at` on */
    size_t at, n;
    int32_t n_broken; /* lines, one behind the other */
};

pf_status pf_lines_open(const char *const *words, pf_lines **out, pf_error *error)
{
    pf_lines *lines = calloc(1, sizeof *lines);
    if (!lines) return pf_fail(error, PF_NOMEM, "no memory for lines");
    /* What is shown of the editor is no result: standard error, unless that is elsewhere. */
    FILE *terminal = isatty(STDERR_FILENO) == 1 ? stderr : isatty(STDOUT_FILENO) == 1 ? stdout : NULL;
    if (isatty(STDIN_FILENO) == 1 && terminal) {
        const pf_status status = pf_line_editor_open(terminal, words, &lines->editor, error);
        if (status != PF_OK) {
            free(lines);
            return status;
        }
    }
    *out = lines;
    return PF_OK;
}

void pf_lines_close(pf_lines *lines)
{
    if (!lines) return;
    pf_line_editor_close(lines->editor);
    free(lines);
}

bool pf_lines_are_typed(const pf_lines *lines)
{
    return lines->editor != NULL;
}

bool pf_lines_broken_twice(const pf_lines *lines)
{
    return lines->n_broken > 1;
}

/* ---- a pipe ------------------------------------------------------------------------------------------------------ */

/* Fills the buffer. *event: PF_LINE_GIVEN where there is something in it. */
static pf_status fill(pf_lines *lines, pf_line_event *event, pf_error *error)
{
    for (;;) {
        *event = PF_LINE_BROKEN;
        if (!pf_input_wait(STDIN_FILENO)) return PF_OK;
        const ssize_t got = read(STDIN_FILENO, lines->buffer, sizeof lines->buffer);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return pf_fail(error, PF_UNAVAILABLE, "standard input: cannot be read: %s", strerror(errno));
        lines->at = 0;
        lines->n = (size_t)got;
        *event = got == 0 ? PF_LINE_END : PF_LINE_GIVEN;
        return PF_OK;
    }
}

/* The last line need not have an end. */
static pf_status read_piped(pf_lines *lines, pf_bytes *line, pf_line_event *event, pf_error *error)
{
    for (;;) {
        *event = PF_LINE_GIVEN;
        if (lines->at == lines->n) {
            PF_TRY(fill(lines, event, error));
            if (*event == PF_LINE_END && line->n > 0) *event = PF_LINE_GIVEN;
            if (*event != PF_LINE_GIVEN || lines->n == 0) return PF_OK;
        }
        const char *begin = lines->buffer + lines->at;
        const size_t left = lines->n - lines->at;
        const char *end = memchr(begin, '\n', left);
        const size_t n = end ? (size_t)(end - begin) : left;
        if (line->n + n > MAX_LINE_BYTES)
            return pf_fail(error, PF_LIMIT, "standard input: a line has more than %d MiB, the most that is read",
                           MAX_LINE_BYTES >> 20);
        if (pf_bytes_append(line, begin, n) != PF_OK)
            return pf_fail(error, PF_NOMEM, "no memory for a line of %zu bytes", line->n + n);
        lines->at += n + (end != NULL);
        if (!end) continue;
        if (line->n > 0 && line->data[line->n - 1] == '\r') line->n--;
        return PF_OK;
    }
}

/* ---- an editor --------------------------------------------------------------------------------------------------- */

static pf_status read_typed(pf_lines *lines, pf_bytes *line, pf_line_event *event, pf_error *error)
{
    bool continues = false;
    do {
        if (continues) line->data[line->n - 1] = '\n';
        if (pf_line_editor_read(lines->editor, continues, line, event) != PF_OK)
            return pf_fail(error, PF_NOMEM, "no memory for a line of %zu bytes", line->n);
        continues = *event == PF_LINE_GIVEN && line->n > 0 && line->data[line->n - 1] == '\\';
    } while (continues);
    if (*event == PF_LINE_GIVEN) pf_line_editor_remember(lines->editor, line->data, line->n);
    const bool typed = pf_line_editor_was_typed(lines->editor);
    lines->n_broken = *event != PF_LINE_BROKEN ? 0 : typed ? 1 : lines->n_broken + 1;
    return PF_OK;
}

pf_status pf_lines_next(pf_lines *lines, pf_bytes *line, pf_line_event *event, pf_error *error)
{
    line->n = 0;
    return lines->editor ? read_typed(lines, line, event, error) : read_piped(lines, line, event, error);
}
