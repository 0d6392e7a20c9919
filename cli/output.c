/* Standard output, checked; sentences on standard error. */
#include "cli/output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/options.h"
#include "cli/progress.h"

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static void count_open_line(pf_out *out, const char *bytes, size_t n)
{
    const char *end = memrchr(bytes, '\n', n);
    out->n_open = end ? (size_t)(bytes + n - end) - 1 : out->n_open + n;
}

/* Until there is room for PIPE_BUF bytes. False: interrupted, and nothing was read within the grace time. */
static bool wait_for_room(pf_out *out)
{
    enum { LOOK_AGAIN_MS = 100 };
    while (poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, LOOK_AGAIN_MS) <= 0)
        if (pf_stop_is_due(&out->stop)) return false;
    return true;
}

/* Once interrupted no more than there is room for: nothing would end a write that waits. */
static bool write_all(pf_out *out, const char *bytes, size_t n)
{
    for (bool is_full = false; n > 0 && !out->error;) {
        const bool told = pf_is_told(out->stop.told);
        if ((is_full || told) && !wait_for_room(out)) {
            out->error = EINTR;
            break;
        }
        const ssize_t written = write(STDOUT_FILENO, bytes, told && n > PIPE_BUF ? PIPE_BUF : n);
        is_full = written < 0 && errno == EAGAIN; /* another process that shares it made it non-blocking */
        if (is_full || (written < 0 && errno == EINTR)) continue;
        if (written < 0) {
            out->error = errno;
            break;
        }
        count_open_line(out, bytes, (size_t)written);
        out->stop.until_ns = 0; /* the pipe is being read: the wait begins again */
        bytes += written;
        n -= (size_t)written;
    }
    return !out->error;
}

bool pf_out_flush(pf_out *out)
{
    const size_t n = out->n;
    out->n = 0;
    return write_all(out, out->buffer, n);
}

bool pf_out_write(pf_out *out, const void *bytes, size_t n_bytes)
{
    if (n_bytes > sizeof out->buffer - out->n && !pf_out_flush(out)) return false;
    if (n_bytes > sizeof out->buffer) return write_all(out, bytes, n_bytes);
    if (n_bytes > 0) memcpy(out->buffer + out->n, bytes, n_bytes);
    out->n += n_bytes;
    return !out->error;
}

bool pf_out_print(pf_out *out, const char *format, ...)
{
    char few[256], *text = few; /* most are short: a document that has begun needs no memory to go on */
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int n = vsnprintf(few, sizeof few, format, arguments);
    if (n >= (int)sizeof few) {
        text = malloc((size_t)n + 1);
        if (text) vsnprintf(text, (size_t)n + 1, format, again);
    }
    va_end(again);
    va_end(arguments);
    if (n < 0 || !text) {
        out->error = ENOMEM;
        return false;
    }
    const bool written = pf_out_write(out, text, (size_t)n);
    if (text != few) free(text);
    return written;
}

/* Unless another process has written behind it. A pipe keeps what was written. */
static void take_back_open_line(const pf_out *out)
{
    struct stat file;
    const off_t end = lseek(STDOUT_FILENO, 0, SEEK_CUR), n_open = (off_t)out->n_open;
    if (fstat(STDOUT_FILENO, &file) != 0 || file.st_size != end || end < n_open) return;
    if (ftruncate(STDOUT_FILENO, end - n_open) == 0) (void)lseek(STDOUT_FILENO, end - n_open, SEEK_SET);
}

int pf_out_finish(pf_out *out, int status)
{
    pf_out_flush(out);
    if (out->error && out->whole_lines) take_back_open_line(out);
    if (!out->error && close(STDOUT_FILENO) != 0 && errno != EBADF) out->error = errno;
    if (!out->error) return status;
    if (out->error == EINTR) {
        pf_out_say("pilotfish: interrupted while standard output was not read");
        return PF_EXIT_INTERRUPTED;
    }
    pf_out_fail("cannot write to standard output: %s", strerror(out->error));
    return PF_EXIT_FAILED;
}

bool pf_out_is_terminal(int descriptor)
{
    const char *terminal = getenv("TERM");
    return isatty(descriptor) == 1 && !(terminal && strcmp(terminal, "dumb") == 0);
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

enum { SENTENCE_BYTES = 1024 };

/* C0, DEL, and C1 as UTF-8 has it (C2 80 to C2 9F): a terminal obeys them. */
static bool is_control(const unsigned char *c, size_t n)
{
    return c[0] < 0x20 || c[0] == 0x7F || (n > 1 && c[0] == 0xC2 && c[1] < 0xA0);
}

/* U+202A to U+202E and U+2066 to U+2069: a terminal shows what follows the other way round, our own words too. */
static bool turns_words(const unsigned char *c, size_t n)
{
    if (n < 3 || c[0] != 0xE2) return false;
    return (c[1] == 0x80 && c[2] >= 0xAA && c[2] <= 0xAE) || (c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9);
}

/* Of UTF-8; each byte becomes a blank. */
static void replace_controls(char *text, size_t n)
{
    for (size_t i = 0, length; i < n; i += length) {
        bool valid;
        const unsigned char *c = (const unsigned char *)text + i;
        length = pf_utf8_length(text + i, n - i, &valid);
        if (is_control(c, n - i) || turns_words(c, n - i)) memset(text + i, ' ', length);
    }
}

void pf_out_say(const char *format, ...)
{
    char text[SENTENCE_BYTES], line[3 * SENTENCE_BYTES + 1];
    bool all_valid;
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (wanted < 0) return;
    size_t n = pf_utf8_repair(text, pf_utf8_complete(text, strlen(text)), line, sizeof line - 1, &all_valid);
    replace_controls(line, n);
    line[n++] = '\n';
    pf_progress_wipe();
    fwrite(line, 1, n, stderr);
}

int pf_out_fail(const char *format, ...)
{
    char text[SENTENCE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pf_out_say("pilotfish: %s", text);
    return PF_EXIT_FAILED;
}

int pf_out_fail_error(pf_status status, const pf_error *error)
{
    if (error->text[0]) return pf_out_fail("%s", error->text);
    return pf_out_fail("it failed (%s), and nothing more is known", pf_status_name(status));
}
