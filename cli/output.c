/* Standard output, checked; sentences; JSON. */
#include "cli/output.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static bool write_all(pf_out *out, const char *bytes, size_t n)
{
    while (n > 0 && !out->error) {
        const ssize_t written = write(STDOUT_FILENO, bytes, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0 && errno == EAGAIN) { /* whoever shares it has set it not to block */
            (void)poll(&(struct pollfd){ .fd = STDOUT_FILENO, .events = POLLOUT }, 1, -1);
            continue;
        }
        if (written < 0) {
            out->error = errno;
            break;
        }
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
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    const int n = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (n < 0) {
        out->error = ENOMEM;
        return false;
    }
    const bool written = pf_out_write(out, text, (size_t)n);
    free(text);
    return written;
}

int pf_out_finish(pf_out *out, int status)
{
    pf_out_flush(out);
    if (!out->error && close(STDOUT_FILENO) != 0 && errno != EBADF) out->error = errno;
    if (!out->error) return status;
    pf_out_fail("cannot write to standard output: %s", strerror(out->error));
    return PF_EXIT_FAILED;
}

/* ---- sentences -------------------------------------------------------------------------------------------------- */

enum { SENTENCE_BYTES = 1024 };

/* Bytes as UTF-8 into out [3 * n_bytes], for every byte may become U+FFFD. Returns the length; *all_valid: nothing had to
 * be replaced. */
static size_t replace_ill_formed(const char *bytes, size_t n_bytes, char *out, bool *all_valid)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t n = 0;
    *all_valid = true;
    for (size_t i = 0; i < n_bytes;) {
        bool valid;
        const size_t length = pf_utf8_length(bytes + i, n_bytes - i, &valid);
        memcpy(out + n, valid ? bytes + i : replacement, valid ? length : 3);
        n += valid ? length : 3;
        i += length;
        *all_valid = *all_valid && valid;
    }
    return n;
}

/* C0, DEL, and C1 as UTF-8 has it (C2 80 to C2 9F): a terminal obeys them. */
static void replace_controls(char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i], before = i > 0 ? (unsigned char)text[i - 1] : 0;
        const bool is_c1 = before == 0xC2 && c < 0xA0;
        if (is_c1) text[i - 1] = ' ';
        if (c < 0x20 || c == 0x7F || is_c1) text[i] = ' ';
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
    size_t n = replace_ill_formed(text, pf_utf8_complete(text, strlen(text)), line, &all_valid);
    replace_controls(line, n);
    line[n++] = '\n';
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

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

int pf_out_json(pf_out *out, json_t *document)
{
    char *text = document ? json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(document);
    if (!text) return pf_out_fail("no memory for the JSON document");
    pf_out_write(out, text, strlen(text));
    pf_out_write(out, "\n", 1);
    free(text);
    return pf_out_flush(out) ? PF_EXIT_DONE : PF_EXIT_FAILED;
}

json_t *pf_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *pf_json_ratio(double numerator, double denominator)
{
    return denominator != 0.0 ? pf_json_number(numerator / denominator) : json_null();
}

json_t *pf_json_ids(const int32_t *ids, int32_t n_ids)
{
    json_t *array = json_array();
    for (int32_t i = 0; array && i < n_ids; i++) json_array_append_new(array, json_integer(ids[i]));
    return array;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* RFC 4648, section 4. The caller frees. */
static char *base64(const unsigned char *bytes, size_t n)
{
    char *text = malloc(n / 3 * 4 + 5);
    if (!text) return NULL;
    char *at = text;
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0u) |
                               (left > 2 ? (uint32_t)bytes[i + 2] : 0u);
        *at++ = base64_digits[group >> 18];
        *at++ = base64_digits[group >> 12 & 63];
        *at++ = left > 1 ? base64_digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? base64_digits[group & 63] : '=';
    }
    *at = '\0';
    return text;
}

/* *all_valid: nothing had to be replaced. */
static json_t *make_string(const char *bytes, size_t n_bytes, bool *all_valid)
{
    char *text = calloc(n_bytes + 1, 3);
    if (!text) return NULL;
    const size_t n = replace_ill_formed(bytes, n_bytes, text, all_valid);
    json_t *string = json_stringn(text, n);
    free(text);
    return string;
}

json_t *pf_json_text(const char *bytes, size_t n_bytes)
{
    bool all_valid;
    return make_string(bytes, n_bytes, &all_valid);
}

void pf_json_set_text(json_t *object, const char *bytes, size_t n_bytes)
{
    bool all_valid = true;
    json_object_set_new(object, "text", make_string(bytes, n_bytes, &all_valid));
    if (all_valid) return;
    char *encoded = base64((const unsigned char *)bytes, n_bytes);
    if (encoded) json_object_set_new(object, "text_base64", json_string(encoded));
    free(encoded);
}

/* ---- UTF-8 ------------------------------------------------------------------------------------------------------ */

/* Bytes that a character has by its first one (Unicode, table 3-7); 0: it begins none. */
static size_t announced_length(unsigned char first)
{
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return 2;
    if (first >= 0xE0 && first <= 0xEF) return 3;
    if (first >= 0xF0 && first <= 0xF4) return 4;
    return 0;
}

/* Whether byte i (1 ..) may follow `first` in a character. */
static bool may_follow(unsigned char first, size_t i, unsigned char byte)
{
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && first == 0xE0) low = 0xA0;  /* not overlong */
    if (i == 1 && first == 0xED) high = 0x9F; /* no surrogate */
    if (i == 1 && first == 0xF0) low = 0x90;
    if (i == 1 && first == 0xF4) high = 0x8F;
    return byte >= low && byte <= high;
}

/* How many of the first bytes belong to one character, and how many it needs. */
static size_t matching_bytes(const unsigned char *bytes, size_t n, size_t *needed)
{
    *needed = announced_length(bytes[0]);
    size_t i = 1;
    while (i < *needed && i < n && may_follow(bytes[0], i, bytes[i])) i++;
    return i;
}

size_t pf_utf8_length(const char *bytes, size_t n_bytes, bool *valid)
{
    size_t needed;
    const size_t matched = matching_bytes((const unsigned char *)bytes, n_bytes, &needed);
    *valid = needed > 0 && matched == needed;
    return matched; /* of an ill-formed sequence the longest part that could have begun one: one U+FFFD for it */
}

size_t pf_utf8_complete(const char *bytes, size_t n_bytes)
{
    const unsigned char *at = (const unsigned char *)bytes;
    for (size_t back = 1; back <= 3 && back <= n_bytes; back++) {
        const unsigned char byte = at[n_bytes - back];
        if ((byte & 0xC0) == 0x80) continue;
        size_t needed;
        const size_t matched = matching_bytes(at + n_bytes - back, back, &needed);
        return needed > back && matched == back ? n_bytes - back : n_bytes;
    }
    return n_bytes;
}
