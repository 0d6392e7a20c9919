/*
 * Computes normal forms with the tables of Unicode 9, as Hugging Face's library does. A newer character has no decomposition
 * and no combining class there, so nothing is reordered across it or composed with it. utf8proc knows newer characters; the
 * text is cut at those that it treats differently.
 */
#include "tokenizer/unicode/normal_forms.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/stop.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/newer_characters.h"

enum { CHUNK_BYTES = 1 << 16 }; /* processed at once, plus the characters that may compose with their end */

/* Characters newer than Unicode 9 that take part in a normal form of utf8proc 2.8 (Unicode 15). Found by comparing both
 * libraries at every code point, alone and beside marks. Also U+11A7, the code point before the first trailing consonant of
 * Hangul: utf8proc before 2.11.2 composes it into the preceding syllable and loses it. */
static const pf_character_range NEWER[] = {
    { 0x07FD, 0x07FD },   { 0x0898, 0x089F },   { 0x08CA, 0x08D3 },   { 0x09FE, 0x09FE },   { 0x0C3C, 0x0C3C },
    { 0x0D3B, 0x0D3C },   { 0x0EBA, 0x0EBA },   { 0x11A7, 0x11A7 },   { 0x1715, 0x1715 },   { 0x1ABF, 0x1ACE },
    { 0x1DF6, 0x1DFA },   { 0x32FF, 0x32FF },   { 0xA7F2, 0xA7F4 },   { 0xA82C, 0xA82C },   { 0xAB69, 0xAB69 },
    { 0x10781, 0x10785 }, { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA }, { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC },
    { 0x10EFD, 0x10EFF }, { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x1133B, 0x1133B },
    { 0x1145E, 0x1145E }, { 0x11839, 0x1183A }, { 0x11930, 0x11930 }, { 0x11938, 0x11938 }, { 0x1193D, 0x1193E },
    { 0x11943, 0x11943 }, { 0x119E0, 0x119E0 }, { 0x11A34, 0x11A34 }, { 0x11A47, 0x11A47 }, { 0x11A99, 0x11A99 },
    { 0x11D42, 0x11D42 }, { 0x11D44, 0x11D45 }, { 0x11D97, 0x11D97 }, { 0x11F41, 0x11F42 }, { 0x16FF0, 0x16FF1 },
    { 0x1E030, 0x1E06D }, { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF },
    { 0x1E4EC, 0x1E4EF }, { 0x1F16C, 0x1F16C }, { 0x1FBF0, 0x1FBF9 },
};
enum { N_NEWER = sizeof NEWER / sizeof *NEWER };

/* Whether a text may be cut before c: characters below the first mark, and Han, never compose with a preceding one. */
static bool stands_alone(int32_t c)
{
    return c < 0x300 || (c >= 0x3400 && c <= 0x9FFF);
}

/* The number of bytes before the first newer character, and *width, its length. If there is none in the chunk: the length of
 * the chunk, and 0. */
static size_t find_newer(const char *text, size_t n, size_t *width)
{
    *width = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c = (unsigned char)text[i];
        utf8proc_ssize_t length = 1;
        if (c >= 0x80) length = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (length < 1) length = 1; /* the text is valid */
        if (i >= CHUNK_BYTES && stands_alone(c)) return i;
        if (c >= NEWER[0].first && pf_is_in_ranges(NEWER, N_NEWER, c)) {
            *width = (size_t)length;
            return i;
        }
        i += (size_t)length;
    }
    return n;
}

/* ---- normal form of characters on which utf8proc and the library agree ------------------------------------------ */

/* Code points, allocated with room for the NUL that utf8proc_reencode writes. */
typedef struct {
    utf8proc_int32_t *list;
    size_t n, capacity;
} code_points;

static pf_status decompose(const char *text, size_t n, utf8proc_option_t options, code_points *out)
{
    enum { MOST_OF_ONE = 18 }; /* U+FDFA's */
    int boundary = 0;
    for (size_t at = 0; at < n;) {
        if (out->capacity - out->n <= MOST_OF_ONE) {
            const size_t capacity = 2 * out->capacity + n + MOST_OF_ONE + 1;
            utf8proc_int32_t *grown = realloc(out->list, capacity * sizeof *grown);
            if (!grown) return PF_NOMEM;
            out->list = grown;
            out->capacity = capacity;
        }
        utf8proc_int32_t c;
        const utf8proc_ssize_t width =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c);
        const utf8proc_ssize_t made =
            width < 1 ? -1 : utf8proc_decompose_char(c, out->list + out->n, MOST_OF_ONE, options, &boundary);
        if (made < 0 || made > MOST_OF_ONE) return PF_LIMIT; /* the text is valid */
        at += (size_t)width;
        out->n += (size_t)made;
    }
    return PF_OK;
}

/* The canonical combining class; 0: a base character. */
static uint8_t class_of(utf8proc_int32_t c)
{
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

static bool are_ordered(const utf8proc_int32_t *marks, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (class_of(marks[i - 1]) > class_of(marks[i])) return false;
    return true;
}

/* Sort marks stably by class. A counting sort, because a run may be long and utf8proc's own ordering takes quadratic time.
 * Source: Unicode, D109. */
static void order_marks(utf8proc_int32_t *marks, size_t n, utf8proc_int32_t *spare)
{
    size_t next[257] = { 0 }; /* the next position of each class; counts are stored one higher */
    for (size_t i = 0; i < n; i++) next[class_of(marks[i]) + 1]++;
    for (int i = 1; i < 257; i++) next[i] += next[i - 1];
    for (size_t i = 0; i < n; i++) spare[next[class_of(marks[i])]++] = marks[i];
    memcpy(marks, spare, n * sizeof *marks);
}

static pf_status order(code_points *points)
{
    utf8proc_int32_t *spare = NULL;
    for (size_t begin = 0, end; begin < points->n; begin = end) {
        end = begin + 1;
        if (class_of(points->list[begin]) == 0) continue;
        while (end < points->n && class_of(points->list[end]) != 0) end++;
        if (are_ordered(points->list + begin, end - begin)) continue;
        if (!spare) spare = malloc(points->n * sizeof *spare);
        if (!spare) return PF_NOMEM;
        order_marks(points->list + begin, end - begin, spare);
    }
    free(spare);
    return PF_OK;
}

static pf_status append_normal(pf_bytes *out, const char *text, size_t n, int32_t options)
{
    code_points points = { .list = NULL };
    pf_status status = decompose(text, n, (utf8proc_option_t)options, &points);
    if (status == PF_OK) status = order(&points);
    utf8proc_ssize_t length = 0;
    if (status == PF_OK)
        length = utf8proc_reencode(points.list, (utf8proc_ssize_t)points.n, (utf8proc_option_t)options);
    if (length < 0) status = PF_LIMIT;
    if (status == PF_OK) status = pf_bytes_append(out, (const char *)points.list, (size_t)length);
    free(points.list);
    return status;
}

/* ---- characters that NFC leaves as they are ---------------------------------------------------------------------- */

/* They have no decomposition that NFC would keep, and never compose with a preceding character. */
static const pf_character_range INERT[] = {
    { 0x0000, 0x02FF }, { 0x0400, 0x0482 }, { 0x048A, 0x052F }, { 0x05D0, 0x05EA },   { 0x0620, 0x064A },
    { 0x0904, 0x0928 }, { 0x092A, 0x0930 }, { 0x0E01, 0x0E30 }, { 0x2010, 0x2027 },   { 0x2030, 0x205E },
    { 0x3001, 0x3029 }, { 0x3041, 0x3096 }, { 0x30A1, 0x30FA }, { 0x3400, 0x4DBF },   { 0x4E00, 0x9FFF },
    { 0xAC00, 0xD7A3 }, { 0xFF01, 0xFFEF }, { 0xFFFD, 0xFFFD }, { 0x1F300, 0x1FAFF },
};

static bool is_inert(int32_t c)
{
    return c < 0x300 || pf_is_in_ranges(INERT, sizeof INERT / sizeof *INERT, c);
}

/* Where the run of such characters at `at` ends, or is long enough to be copied. *last: where its last one begins; *goes_on: the
 * run goes on behind it. */
static size_t inert_end(const char *text, size_t n, size_t at, size_t *last, bool *goes_on)
{
    const size_t stop = n - at > CHUNK_BYTES ? at + CHUNK_BYTES : n;
    *last = at;
    *goes_on = false;
    for (size_t next; at < stop; at = next) {
        if (!is_inert(pf_character_at(text, at, &next))) return at;
        *last = at;
    }
    *goes_on = at < n;
    return at;
}

/* Where what begins at `at` ends: before a character that never composes with a preceding one. */
static size_t active_end(const char *text, size_t n, size_t at)
{
    size_t next;
    (void)pf_character_at(text, at, &next);
    for (at = next; at < n; at = next)
        if (stands_alone(pf_character_at(text, at, &next))) return at;
    return n;
}

static pf_status append_all(pf_normal_form form, const char *text, size_t n, const volatile bool *cancel,
                            pf_bytes *out);

/* Copies runs of inert characters. The last one of a run may compose with what follows. */
static pf_status append_nfc(const char *text, size_t n, const volatile bool *cancel, pf_bytes *out)
{
    for (size_t at = 0; at < n;) {
        size_t last;
        bool goes_on;
        if (pf_is_told(cancel)) return PF_CANCELLED;
        const size_t end = inert_end(text, n, at, &last, &goes_on);
        const size_t copied = end == n ? n : last;
        PF_TRY(pf_bytes_append(out, text + at, copied - at));
        at = copied;
        if (end == n || goes_on) continue;
        at = active_end(text, n, end);
        PF_TRY(append_all(PF_NFC, text + last, at - last, cancel, out));
    }
    return PF_OK;
}

pf_status pf_normal_form_append(pf_normal_form form, const char *text, size_t n, const volatile bool *cancel,
                                pf_bytes *out)
{
    return form == PF_NFC ? append_nfc(text, n, cancel, out) : append_all(form, text, n, cancel, out);
}

static pf_status append_all(pf_normal_form form, const char *text, size_t n, const volatile bool *cancel, pf_bytes *out)
{
    static const int32_t options[] = {
        [PF_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [PF_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [PF_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [PF_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    for (size_t at = 0; at < n;) {
        size_t width;
        if (pf_is_told(cancel)) return PF_CANCELLED;
        const size_t older = find_newer(text + at, n - at, &width);
        if (older > 0) PF_TRY(append_normal(out, text + at, older, options[form]));
        if (width > 0) PF_TRY(pf_bytes_append(out, text + at + older, width));
        at += older + width;
    }
    return PF_OK;
}
