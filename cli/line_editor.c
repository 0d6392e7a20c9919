/* Lines from a terminal, by libedit. */
#include "cli/line_editor.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/file.h"
#include "base/utf8.h"
#include "cli/interrupt.h"
#include "cli/output.h"

enum { MOST_LINES = 1000, LOOK_AGAIN_MS = 100, NO_BYTE = -1, REPLACEMENT = 0xFFFD };

struct pf_line_editor {
    EditLine *edit;
    HistoryW *history;
    FILE *terminal;
    const char *const *words;
    char path[PF_FILE_PATH_BYTES]; /* of the history; empty: it is not kept */
    struct winsize size;
    int pending; /* a byte that was read and begins the next character; NO_BYTE: none */
    bool typed;  /* in this read */
    bool has_bold, continues;
};

/* ---- characters -------------------------------------------------------------------------------------------------- */

/* libedit learns of another window size, and of a terminal that a shell had meanwhile, only when it is told. */
static void follow_terminal(pf_line_editor *e)
{
    struct winsize size;
    struct termios mode;
    int edits = 0;
    if (ioctl(fileno(e->terminal), TIOCGWINSZ, &size) == 0 && memcmp(&size, &e->size, sizeof size) != 0) {
        e->size = size;
        el_resize(e->edit);
    }
    if (el_get(e->edit, EL_EDITMODE, &edits) != 0 || !edits) return;
    if (tcgetattr(STDIN_FILENO, &mode) != 0 || !(mode.c_lflag & ICANON)) return;
    el_set(e->edit, EL_PREP_TERM, 0);
    el_set(e->edit, EL_PREP_TERM, 1);
    el_set(e->edit, EL_REFRESH);
}

/* 1, or 0 at the end of the input, or -1: interrupted, or it cannot be read. */
static int read_byte(pf_line_editor *e, unsigned char *out)
{
    struct pollfd wanted = { .fd = STDIN_FILENO, .events = POLLIN };
    if (e->pending != NO_BYTE) {
        *out = (unsigned char)e->pending;
        e->pending = NO_BYTE;
        return 1;
    }
    for (;;) {
        if (*pf_interrupt_flag()) {
            errno = EINTR;
            return -1;
        }
        const int ready = poll(&wanted, 1, LOOK_AGAIN_MS);
        follow_terminal(e);
        if (ready <= 0) continue;
        const ssize_t got = read(STDIN_FILENO, out, 1);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN)) return (int)got;
    }
}

static int length_by_first_byte(unsigned char first)
{
    return first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
}

static wchar_t decode(const unsigned char *bytes, int n)
{
    bool valid;
    static const unsigned char masks[] = { 0, 0x7F, 0x1F, 0x0F, 0x07 };
    if (pf_utf8_length((const char *)bytes, (size_t)n, &valid) != (size_t)n || !valid) return REPLACEMENT;
    wchar_t c = bytes[0] & masks[n];
    for (int i = 1; i < n; i++) c = (wchar_t)(c << 6 | (bytes[i] & 0x3F));
    return c;
}

/* A byte that does not go on with a character begins the next one. */
static int read_character(EditLine *edit, wchar_t *out)
{
    pf_line_editor *e;
    unsigned char bytes[4];
    if (el_wget(edit, EL_CLIENTDATA, &e) != 0) return -1;
    int n = read_byte(e, bytes);
    if (n <= 0) return n;
    e->typed = true;
    const int length = length_by_first_byte(bytes[0]);
    while (n < length) {
        const int got = read_byte(e, &bytes[n]);
        if (got < 0) return got;
        if (got == 0) break;
        if ((bytes[n] & 0xC0) != 0x80) {
            e->pending = bytes[n];
            break;
        }
        n++;
    }
    *out = decode(bytes, n);
    return 1;
}

static pf_status append_character(pf_bytes *line, wchar_t c)
{
    char bytes[4];
    unsigned value = (unsigned)c;
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) value = REPLACEMENT;
    const size_t n = value < 0x80 ? 1 : value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
    static const unsigned char firsts[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = n; i > 1; i--) bytes[i - 1] = (char)(0x80 | (value >> 6 * (n - i) & 0x3F));
    bytes[0] = (char)(firsts[n] | value >> 6 * (n - 1));
    return pf_bytes_append(line, bytes, n);
}

/* ---- the prompt and Tab ------------------------------------------------------------------------------------------ */

static wchar_t *prompt(EditLine *edit)
{
    static const wchar_t plain[] = L"> ", bold[] = L"\1\033[1m\1>\1\033[0m\1 ", more[] = L"... ";
    const wchar_t *text = plain;
    pf_line_editor *e;
    if (el_wget(edit, EL_CLIENTDATA, &e) == 0) text = e->continues ? more : e->has_bold ? bold : plain;
    return (wchar_t *)(uintptr_t)text; /* libedit only reads it */
}

/* Inserts what all words that begin as the line does have in common. */
static unsigned char complete(EditLine *edit, int key)
{
    pf_line_editor *e;
    const LineInfoW *line = el_wline(edit);
    const size_t n = (size_t)(line->cursor - line->buffer);
    const char *found = NULL;
    size_t common = 0;
    (void)key;
    if (el_wget(edit, EL_CLIENTDATA, &e) != 0 || line->cursor != line->lastchar) return CC_ERROR;
    for (const char *const *word = e->words; *word; word++) {
        size_t same = 0;
        while (same < n && (*word)[same] != '\0' && (wchar_t)(unsigned char)(*word)[same] == line->buffer[same]) same++;
        if (same < n) continue;
        if (!found) common = strlen(*word);
        for (size_t i = 0; found && i < common; i++)
            if (found[i] != (*word)[i]) common = i;
        found = *word;
    }
    if (!found || common <= n) return CC_ERROR;
    wchar_t rest[32] = { 0 };
    for (size_t i = n; i < common && i - n < sizeof rest / sizeof *rest - 1; i++) rest[i - n] = (wchar_t)found[i];
    return el_winsertstr(edit, rest) == 0 ? CC_REFRESH : CC_ERROR;
}

/* ---- the history ------------------------------------------------------------------------------------------------- */

/* Makes the folders of a path. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* writing the file says what fails */
        *slash = '/';
    }
}

/* Without a home no history is kept. */
static void find_history(pf_line_editor *e)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && state[0] == '/')
        n = snprintf(e->path, sizeof e->path, "%s/pilotfish/history", state);
    else if (home && home[0] == '/')
        n = snprintf(e->path, sizeof e->path, "%s/.local/state/pilotfish/history", home);
    if (n < 0 || (size_t)n >= sizeof e->path) e->path[0] = '\0';
}

static void load_history(pf_line_editor *e)
{
    HistEventW event;
    find_history(e);
    (void)history_w(e->history, &event, H_SETSIZE, MOST_LINES);
    (void)history_w(e->history, &event, H_SETUNIQUE, 1);
    if (e->path[0] == '\0' || access(e->path, F_OK) != 0) return;
    if (history_w(e->history, &event, H_LOAD, e->path) < 0)
        pf_out_say("pilotfish: warning: %s: the history of lines cannot be read", e->path);
}

/* The file is replaced as a whole: another chat may read it. */
static bool write_history(pf_line_editor *e)
{
    char path[PF_FILE_PATH_BYTES + 8];
    HistEventW event;
    snprintf(path, sizeof path, "%s.XXXXXX", e->path);
    make_folders(e->path);
    const int descriptor = mkostemp(path, O_CLOEXEC); /* mode 0600 */
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
    if (!file) {
        if (descriptor >= 0) close(descriptor);
        return false;
    }
    const bool saved = history_w(e->history, &event, H_SAVE_FP, file) >= 0;
    const bool closed = fclose(file) == 0;
    if (saved && closed && rename(path, e->path) == 0) return true;
    (void)unlink(path);
    return false;
}

void pf_line_editor_remember(pf_line_editor *e, const char *line, size_t n_bytes)
{
    HistEventW event;
    wchar_t *wide = malloc((n_bytes + 1) * sizeof *wide);
    size_t n = 0, at = 0;
    if (!wide) return; /* a history with a gap */
    while (at < n_bytes) {
        bool valid;
        const size_t length = pf_utf8_length(line + at, n_bytes - at, &valid);
        const wchar_t c = decode((const unsigned char *)line + at, (int)length);
        wide[n++] = c == L'\n' || c == L'\0' ? L' ' : c;
        at += length;
    }
    wide[n] = L'\0';
    if (n > 0) (void)history_w(e->history, &event, H_ENTER, wide);
    free(wide);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static bool set_up(pf_line_editor *e)
{
    const char *no_color = getenv("NO_COLOR");
    e->has_bold = pf_out_is_terminal(fileno(e->terminal)) && !(no_color && *no_color);
    load_history(e);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_SIGNAL, 0);
    el_set(e->edit, EL_EDITOR, "emacs");
    if (el_wset(e->edit, EL_GETCFN, read_character) != 0 || el_wset(e->edit, EL_PROMPT_ESC, prompt, L'\1') != 0 ||
        el_wset(e->edit, EL_HIST, history_w, e->history) != 0)
        return false;
    el_wset(e->edit, EL_ADDFN, L"complete-command", L"Completes a command of the chat", complete);
    el_set(e->edit, EL_BIND, "\t", "complete-command", NULL);
    el_source(e->edit, NULL);
    return true;
}

pf_status pf_line_editor_open(FILE *terminal, const char *const *words, pf_line_editor **out, pf_error *error)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* libedit asks it which characters there are and how wide they are */
    pf_line_editor *e = calloc(1, sizeof *e);
    if (!e) return pf_fail(error, PF_NOMEM, "no memory for the line editor");
    e->terminal = terminal;
    e->words = words;
    e->pending = NO_BYTE;
    e->history = history_winit();
    e->edit = el_init("pilotfish", stdin, terminal, stderr);
    if (!e->history || !e->edit || !set_up(e)) {
        if (e->edit) el_end(e->edit);
        if (e->history) history_wend(e->history);
        free(e);
        return pf_fail(error, PF_UNAVAILABLE, "lines cannot be edited on this terminal");
    }
    *out = e;
    return PF_OK;
}

void pf_line_editor_close(pf_line_editor *e)
{
    if (!e) return;
    if (e->path[0] != '\0' && !write_history(e))
        pf_out_say("pilotfish: warning: %s: the history of lines cannot be written: %s", e->path, strerror(errno));
    el_end(e->edit);
    history_wend(e->history);
    free(e);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

pf_status pf_line_editor_read(pf_line_editor *e, bool continues, pf_bytes *line, pf_line_event *event)
{
    int n = 0;
    e->continues = continues;
    e->typed = false;
    const wchar_t *text = el_wgets(e->edit, &n);
    if (!text || n <= 0) {
        *event = *pf_interrupt_flag() ? PF_LINE_BROKEN : PF_LINE_END;
        fputc('\n', e->terminal);
        fflush(e->terminal);
        return PF_OK;
    }
    if (text[n - 1] == L'\n') n--;
    for (int i = 0; i < n; i++) PF_TRY(append_character(line, text[i]));
    *event = PF_LINE_GIVEN;
    return PF_OK;
}

bool pf_line_editor_was_typed(const pf_line_editor *e)
{
    return e->typed;
}
