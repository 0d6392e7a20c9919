/* Operations on texts that methods and filters share. */
#include <string.h>
#include <utf8proc.h>

#include "jinja/rendering.h"

size_t pf_jinja_find(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_text part, size_t from)
{
    if (part.n == 0) return from <= text.n ? from : text.n;
    if (from >= text.n || part.n > text.n - from || !pf_jinja_step(heap, (text.n - from) / 64)) return text.n;
    const char *found = memmem(text.data + from, text.n - from, part.data, part.n);
    return found == NULL ? text.n : (size_t)(found - text.data);
}

pf_jinja_text pf_jinja_replace(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_text from, pf_jinja_text to,
                               int64_t most)
{
    pf_jinja_builder b = { .n = 0 };
    size_t at = 0;
    for (int64_t i = 0; (most < 0 || i < most) && pf_jinja_step(heap, 1); i++) {
        if (from.n == 0) { /* between all characters */
            const size_t next = pf_jinja_byte_of(heap, (pf_jinja_text){ text.data + at, text.n - at }, 1);
            pf_jinja_add(heap, &b, to.data, to.n);
            if (at >= text.n) break;
            pf_jinja_add(heap, &b, text.data + at, next);
            at += next;
            continue;
        }
        const size_t found = pf_jinja_find(heap, text, from, at);
        if (found >= text.n) break;
        pf_jinja_add(heap, &b, text.data + at, found - at);
        pf_jinja_add(heap, &b, to.data, to.n);
        at = found + from.n;
    }
    if (at < text.n) pf_jinja_add(heap, &b, text.data + at, text.n - at);
    return (pf_jinja_text){ b.data, b.n };
}

/* The code point at a byte, and its length; what is no UTF-8 is a character of one byte. */
static int32_t code_at(pf_jinja_text text, size_t at, size_t *n)
{
    utf8proc_int32_t code;
    const utf8proc_ssize_t length =
        utf8proc_iterate((const utf8proc_uint8_t *)text.data + at, (utf8proc_ssize_t)(text.n - at), &code);
    *n = length > 0 ? (size_t)length : 1;
    return length > 0 ? code : -1;
}

/* White space as Python's str.isspace. */
static bool is_space(int32_t code)
{
    if ((code >= 9 && code <= 13) || (code >= 28 && code <= 31) || code == 0x85) return true;
    const utf8proc_category_t category = code >= 0 ? utf8proc_category(code) : UTF8PROC_CATEGORY_CN;
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

static bool is_stripped(pf_jinja_heap *heap, pf_jinja_text text, size_t at, size_t *n, const pf_jinja_value *characters)
{
    const int32_t code = code_at(text, at, n);
    if (characters == NULL || characters->kind != PF_JINJA_STRING) return is_space(code);
    return pf_jinja_find(heap, characters->as.text, (pf_jinja_text){ text.data + at, *n }, 0) < characters->as.text.n;
}

/* The byte where the character before `at` begins. */
static size_t before(pf_jinja_text text, size_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)text.data[at] & 0xC0) == 0x80);
    return at;
}

pf_jinja_text pf_jinja_strip(pf_jinja_heap *heap, pf_jinja_text text, const pf_jinja_value *characters, bool left,
                             bool right)
{
    size_t n;
    while (left && text.n > 0 && pf_jinja_step(heap, 1) && is_stripped(heap, text, 0, &n, characters)) {
        text.data += n;
        text.n -= n;
    }
    while (right && text.n > 0 && pf_jinja_step(heap, 1)) {
        const size_t last = before(text, text.n);
        if (!is_stripped(heap, text, last, &n, characters)) break;
        text.n = last;
    }
    return text;
}

/* Whether a word begins behind a character. */
static bool word_begins(pf_jinja_case wanted, int32_t code)
{
    if (wanted == PF_JINJA_CASE_TITLE) return utf8proc_tolower(code) == code && utf8proc_toupper(code) == code;
    return wanted == PF_JINJA_CASE_WORDS &&
           (is_space(code) || (code > 0 && code < 0x80 && strchr("-({[<", code) != NULL));
}

enum { SHARP_S = 0xDF };

pf_jinja_text pf_jinja_cased(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_case wanted)
{
    pf_jinja_builder b = { .n = 0 };
    bool begins = true;
    for (size_t at = 0, n; at < text.n && pf_jinja_step(heap, 1); at += n) {
        const int32_t code = code_at(text, at, &n);
        if (code < 0) {
            pf_jinja_add(heap, &b, text.data + at, n);
            continue;
        }
        const bool upper = wanted == PF_JINJA_CASE_UPPER || (wanted != PF_JINJA_CASE_LOWER && begins);
        const int32_t cased = !upper                          ? utf8proc_tolower(code)
                              : wanted == PF_JINJA_CASE_UPPER ? utf8proc_toupper(code)
                                                              : utf8proc_totitle(code);
        utf8proc_uint8_t bytes[4];
        const utf8proc_ssize_t length = utf8proc_encode_char(cased, bytes);
        if (upper && code == SHARP_S) /* becomes two letters */
            pf_jinja_add(heap, &b, wanted == PF_JINJA_CASE_UPPER ? "SS" : "Ss", 2);
        else
            pf_jinja_add(heap, &b, (const char *)bytes, (size_t)length);
        begins = word_begins(wanted, code);
    }
    return (pf_jinja_text){ b.data, b.n };
}

bool pf_jinja_is_cased(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_case wanted)
{
    const pf_jinja_case other = wanted == PF_JINJA_CASE_UPPER ? PF_JINJA_CASE_LOWER : PF_JINJA_CASE_UPPER;
    return pf_jinja_texts_equal(pf_jinja_cased(heap, text, wanted), text) &&
           !pf_jinja_texts_equal(pf_jinja_cased(heap, text, other), text);
}
