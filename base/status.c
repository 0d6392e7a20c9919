#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

const char *pf_status_name(pf_status status)
{
    switch (status) {
    case PF_OK: return "ok";
    case PF_INVALID: return "invalid";
    case PF_FORMAT: return "format";
    case PF_NOMEM: return "nomem";
    case PF_LIMIT: return "limit";
    case PF_UNSUPPORTED: return "unsupported";
    case PF_UNAVAILABLE: return "unavailable";
    case PF_CANCELLED: return "cancelled";
    case PF_INTERNAL: return "internal";
    }
    return "unknown";
}

/* Into out [capacity] all of it, or its beginning and its end: where a path is long, what is wrong stands behind it. */
static void shorten(const char *whole, char *out, size_t capacity)
{
    enum { HEAD = 120 };
    const size_t n = strlen(whole);
    if (n < capacity) {
        memcpy(out, whole, n + 1);
        return;
    }
    const size_t head = pf_utf8_complete(whole, HEAD);
    const char *tail = whole + n - (capacity - 1 - head - strlen("..."));
    while (((unsigned char)*tail & 0xC0) == 0x80) tail++; /* the rest of a character */
    snprintf(out, capacity, "%.*s...%s", (int)head, whole, tail);
}

void pf_list_word(char *list, size_t capacity, const char *between, const char *word)
{
    const size_t n = strlen(list);
    snprintf(list + n, capacity - n, "%s%s", n > 0 ? between : "", word);
}

void pf_error_set(pf_error *error, pf_status status, const char *format, ...)
{
    if (!error) return;
    error->status = status;

    char whole[2 * 4096 + sizeof error->text]; /* two paths */
    va_list args;
    va_start(args, format);
    const int wanted = vsnprintf(whole, sizeof whole, format, args);
    va_end(args);
    char text[sizeof error->text];
    shorten(wanted < 0 ? "" : whole, text, sizeof text);
    bool all_valid;
    error->text[pf_utf8_repair(text, strlen(text), error->text, sizeof error->text - 1, &all_valid)] = '\0';

    pf_utf8_make_printable(error->text, ' '); /* one line: a path or a value from a file may hold line ends */
}
