/*
 * Reads and writes single characters of valid UTF-8.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_CHARACTER_BYTES_H
#define PF_TOKENIZER_CHARACTER_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t first, last;
} pf_character_range;

/* The character at `at` of a valid text; *end: where the next one begins. */
static inline int32_t pf_character_at(const char *text, size_t at, size_t *end)
{
    const unsigned char *p = (const unsigned char *)text + at;
    if (p[0] < 0x80) {
        *end = at + 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *end = at + 2;
        return (p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *end = at + 3;
        return (p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *end = at + 4;
    return (p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

/* Where the character before `at` begins; `at` is not 0. */
static inline size_t pf_character_before(const char *text, size_t at)
{
    do at--;
    while (at > 0 && (text[at] & 0xC0) == 0x80);
    return at;
}

/* Writes the character in UTF-8; returns its length. */
static inline size_t pf_character_put(int32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)((0xF00 >> n & 0xF0) | c);
    return n;
}

/* Where the character after the one at `at` begins; n at the end. */
static inline size_t pf_character_after(const char *text, size_t n, size_t at)
{
    do at++;
    while (at < n && (text[at] & 0xC0) == 0x80);
    return at;
}

#endif
