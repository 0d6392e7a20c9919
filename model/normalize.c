/*
 * Unicode's normal forms, as Hugging Face's tokenizers have them: their tables are those of Unicode 9, and a character
 * that came later has no decomposition and no class there, so nothing moves past it and nothing joins with it. utf8proc
 * knows newer ones; a text is cut at those that it would treat otherwise.
 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "model/tokenizer_parts.h"

/* Characters later than Unicode 9 that take part in a normal form of utf8proc 2.8 (Unicode 15): found by comparing the two
 * libraries at every code point, alone and beside marks. */
static const struct {
    int32_t first, last;
} NEWER[] = {
    { 0x07FD, 0x07FD },   { 0x0898, 0x089F },   { 0x08CA, 0x08D3 },   { 0x09FE, 0x09FE },   { 0x0C3C, 0x0C3C },
    { 0x0D3B, 0x0D3C },   { 0x0EBA, 0x0EBA },   { 0x1715, 0x1715 },   { 0x1ABF, 0x1ACE },   { 0x1DF6, 0x1DFA },
    { 0x32FF, 0x32FF },   { 0xA7F2, 0xA7F4 },   { 0xA82C, 0xA82C },   { 0xAB69, 0xAB69 },   { 0x10781, 0x10785 },
    { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA }, { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC }, { 0x10EFD, 0x10EFF },
    { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 }, { 0x1133B, 0x1133B }, { 0x1145E, 0x1145E },
    { 0x11839, 0x1183A }, { 0x11930, 0x11930 }, { 0x11938, 0x11938 }, { 0x1193D, 0x1193E }, { 0x11943, 0x11943 },
    { 0x119E0, 0x119E0 }, { 0x11A34, 0x11A34 }, { 0x11A47, 0x11A47 }, { 0x11A99, 0x11A99 }, { 0x11D42, 0x11D42 },
    { 0x11D44, 0x11D45 }, { 0x11D97, 0x11D97 }, { 0x11F41, 0x11F42 }, { 0x16FF0, 0x16FF1 }, { 0x1E030, 0x1E06D },
    { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 }, { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF },
    { 0x1F16C, 0x1F16C }, { 0x1FBF0, 0x1FBF9 },
};
enum { N_NEWER = sizeof NEWER / sizeof *NEWER };

static bool is_newer(int32_t c)
{
    size_t low = 0, high = N_NEWER;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (c > NEWER[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < N_NEWER && c >= NEWER[low].first;
}

static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

/* The bytes before the first newer character, and its own bytes; n and 0 where there is none. */
static size_t find_newer(const char *text, size_t n, size_t *width)
{
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c = (unsigned char)text[i];
        utf8proc_ssize_t length = 1;
        if (c >= 0x80) length = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (length < 1) length = 1; /* the text is valid */
        *width = (size_t)length;
        if (c >= NEWER[0].first && is_newer(c)) return i;
        i += (size_t)length;
    }
    *width = 0;
    return n;
}

/* A text that is made, by malloc. */
typedef struct {
    char *bytes;
    size_t n, capacity;
} made_text;

static pf_status append(made_text *out, const char *bytes, size_t n)
{
    if (n > out->capacity - out->n) {
        const size_t capacity = 2 * out->capacity + n;
        char *grown = realloc(out->bytes, capacity);
        if (!grown) return PF_NOMEM;
        out->bytes = grown;
        out->capacity = capacity;
    }
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
    return PF_OK;
}

static pf_status append_normal(made_text *out, const char *text, size_t n, int32_t options)
{
    utf8proc_uint8_t *mapped = NULL;
    const utf8proc_ssize_t length =
        utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &mapped, (utf8proc_option_t)options);
    if (length < 0) return length == UTF8PROC_ERROR_NOMEM ? PF_NOMEM : PF_LIMIT;
    if (out->bytes == NULL) { /* the usual case: all of it at once */
        *out = (made_text){ (char *)mapped, (size_t)length, (size_t)length };
        return PF_OK;
    }
    const pf_status status = append(out, (const char *)mapped, (size_t)length);
    free(mapped);
    return status;
}

static pf_status normalise(const char *text, size_t n, int32_t options, made_text *out)
{
    for (size_t at = 0; at < n;) {
        size_t width;
        const size_t older = find_newer(text + at, n - at, &width);
        if (older > 0) PF_TRY(append_normal(out, text + at, older, options));
        if (width > 0) PF_TRY(append(out, text + at + older, width));
        at += older + width;
    }
    return PF_OK;
}

pf_status pf_tokenizer_normalize(const pf_tokenizer *t, const char *text, size_t n_bytes, char **out, size_t *out_bytes)
{
    made_text made = { .bytes = NULL, .n = n_bytes };
    for (int32_t i = 0; i < t->n_normalizers && !is_ascii(made.bytes ? made.bytes : text, made.n); i++) {
        made_text next = { .bytes = NULL };
        const pf_status status = normalise(made.bytes ? made.bytes : text, made.n, t->normalizers[i], &next);
        free(made.bytes);
        made = next;
        if (status == PF_OK) continue;
        free(made.bytes);
        return status;
    }
    *out = made.bytes;
    *out_bytes = made.n;
    return PF_OK;
}
