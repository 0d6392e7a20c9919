#include "base/utf8.h"

#include <string.h>

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

size_t pf_utf8_count(const char *bytes, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++) n += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return n;
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

size_t pf_utf8_repair(const char *bytes, size_t n_bytes, char *out, size_t capacity, bool *all_valid)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t n = 0;
    *all_valid = true;
    for (size_t i = 0; i < n_bytes;) {
        bool valid;
        const size_t length = pf_utf8_length(bytes + i, n_bytes - i, &valid), n_out = valid ? length : 3;
        if (n_out > capacity - n) break;
        memcpy(out + n, valid ? bytes + i : replacement, n_out);
        n += n_out;
        i += length;
        *all_valid = *all_valid && valid;
    }
    return n;
}

void pf_utf8_make_printable(char *text, char stand_in)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F) *text = stand_in;
}
