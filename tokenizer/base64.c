#include "tokenizer/base64.h"

/* -1: it is no digit. */
static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool pf_base64_decode(const char *text, size_t n, uint8_t *out, size_t *n_out)
{
    size_t made = 0;
    if (n % 4 != 0) return false;
    for (size_t at = 0; at < n; at += 4) {
        const bool is_last = at + 4 == n;
        const int n_padding = is_last && text[at + 3] == '=' ? (text[at + 2] == '=' ? 2 : 1) : 0;
        uint32_t group = 0;
        for (int i = 0; i < 4 - n_padding; i++) {
            const int digit = digit_of(text[at + (size_t)i]);
            if (digit < 0) return false;
            group |= (uint32_t)digit << (18 - 6 * i);
        }
        if ((group & ((1u << (8 * n_padding)) - 1)) != 0) return false; /* bits behind the last byte */
        for (int i = 0; i < 3 - n_padding; i++) out[made++] = (uint8_t)(group >> (16 - 8 * i));
    }
    *n_out = made;
    return true;
}
