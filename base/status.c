#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

/* Where a text of `length` bytes that was cut must end so that no character is halved: before the last lead byte
 * when the bytes behind it are too few. */
static size_t utf8_end(const char *text, size_t length)
{
    size_t lead = length;
    while (lead > 0 && length - lead < 4) {
        const unsigned char c = (unsigned char)text[--lead];
        if (c < 0x80) return length;
        if (c < 0xC0) continue;
        const size_t need = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        return length - lead < need ? lead : length;
    }
    return length;
}

void pf_error_set(pf_error *error, pf_status status, const char *format, ...)
{
    if (!error) return;
    error->status = status;

    va_list args;
    va_start(args, format);
    const int wanted = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    if (wanted < 0) error->text[0] = '\0';
    if (wanted >= (int)sizeof error->text) error->text[utf8_end(error->text, sizeof error->text - 1)] = '\0';

    /* One line: a path or a value from a file may hold line ends. */
    for (char *c = error->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = ' ';
}
