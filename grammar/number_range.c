/*
 * Numbers of the same length, from a to b (classic): where the first digits are equal, that digit and the rest; else
 *
 *      a0 (rest of a .. 99)  |  [a0+1 - b0-1] [0-9]{n-1}  |  b0 (00 .. rest of b)
 */
#include "grammar/number_range.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DIGITS = 18 };

static const char fraction[] = "(\".\" [0-9]{1,18})?", zeros[] = "(\".\" \"0\"{1,18})?",
                  not_zero[] = "\".\" \"0\"{0,17} [1-9] [0-9]{0,17}";

static pf_status add(pf_bytes *out, const char *text)
{
    return pf_bytes_append(out, text, strlen(text));
}

/* " | " between the alternatives of a group. */
static pf_status add_bar(pf_bytes *out, bool *is_first)
{
    const bool was_first = *is_first;
    *is_first = false;
    return was_first ? PF_OK : add(out, " | ");
}

static pf_status add_digits(pf_bytes *out, char first, char last, int32_t n_more)
{
    char text[64];
    int n = first == last ? snprintf(text, sizeof text, "[%c]", first)
                          : snprintf(text, sizeof text, "[%c-%c]", first, last);
    if (n_more > 0) n += snprintf(text + n, sizeof text - (size_t)n, " [0-9]{%d}", n_more);
    return pf_bytes_append(out, text, (size_t)n);
}

static bool are_all(const char *digits, char digit)
{
    return digits[strspn(digits, (const char[]){ digit, '\0' })] == '\0';
}

/* Digits from a to b, of the same length. */
static pf_status write_same_length(const char *a, const char *b, pf_bytes *out)
{
    const int32_t n_more = (int32_t)strlen(a) - 1;
    char low = a[0], high = b[0], nines[MOST_DIGITS + 1] = { 0 }, noughts[MOST_DIGITS + 1] = { 0 };
    bool is_first = true;
    if (n_more == 0) return add_digits(out, low, high, 0);
    if (low == high) {
        PF_TRY(add_digits(out, low, low, 0));
        PF_TRY(add(out, " "));
        return write_same_length(a + 1, b + 1, out);
    }
    memset(nines, '9', (size_t)n_more);
    memset(noughts, '0', (size_t)n_more);
    const bool cuts_low = !are_all(a + 1, '0'), cuts_high = !are_all(b + 1, '9');
    PF_TRY(add(out, "("));
    if (cuts_low) {
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(add_digits(out, low, low, 0));
        PF_TRY(add(out, " "));
        PF_TRY(write_same_length(a + 1, nines, out));
        low++;
    }
    if (cuts_high) high--;
    if (low <= high) {
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(add_digits(out, low, high, n_more));
    }
    if (cuts_high) {
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(add_digits(out, b[0], b[0], 0));
        PF_TRY(add(out, " "));
        PF_TRY(write_same_length(noughts, b + 1, out));
    }
    return add(out, ")");
}

/* Whole numbers from a to b, 0 <= a <= b, as one group. */
static pf_status write_whole(int64_t a, int64_t b, pf_bytes *out)
{
    char low[24], high[24];
    bool is_first = true;
    snprintf(low, sizeof low, "%" PRId64, a);
    snprintf(high, sizeof high, "%" PRId64, b);
    PF_TRY(add(out, "("));
    for (size_t n = strlen(low); n <= strlen(high); n++) {
        char from[24], to[24];
        memset(from, '0', n);
        from[0] = '1';
        memset(to, '9', n);
        from[n] = to[n] = '\0';
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(write_same_length(n == strlen(low) ? low : from, n == strlen(high) ? high : to, out));
    }
    return add(out, ")");
}

/* The part of a range at or above 0, or mirrored the part below it. False: it is empty. */
static bool take_half(const pf_number_range *r, bool below, pf_number_range *out)
{
    *out = below ? (pf_number_range){ -r->most, -r->least, r->below_most, r->above_least } : *r;
    if (out->least < 0 || (below && out->least == 0)) {
        out->least = 0;
        out->above_least = below; /* no -0 */
    }
    return out->most > out->least || (out->most == out->least && !out->above_least && !out->below_most);
}

static pf_status write_integer_half(const pf_number_range *half, pf_bytes *out)
{
    const int64_t a = half->least + half->above_least, b = half->most - half->below_most;
    return a <= b ? write_whole(a, b, out) : PF_INVALID;
}

/* least .. most: numbers that begin with a whole number below most have any fraction, most itself none but zeros, and least where it is not
 * in the range one that is not zero. */
static pf_status write_number_half(const pf_number_range *half, pf_bytes *out)
{
    const int64_t a = half->least + half->above_least;
    const bool is_open = half->most == PF_NUMBER_RANGE_MOST;
    const int64_t b = is_open ? half->most : half->most - 1;
    bool is_first = true;
    PF_TRY(add(out, "("));
    if (a <= b) {
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(write_whole(a, b, out));
        PF_TRY(add(out, fraction));
    }
    if (!is_open && !half->below_most && half->most >= a) {
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(write_whole(half->most, half->most, out));
        PF_TRY(add(out, zeros));
    }
    if (half->above_least && half->least < half->most) {
        PF_TRY(add_bar(out, &is_first));
        PF_TRY(write_whole(half->least, half->least, out));
        PF_TRY(add(out, not_zero));
    }
    return add(out, ")");
}

static pf_status write_halves(const pf_number_range *range, pf_status (*write)(const pf_number_range *, pf_bytes *),
                              pf_bytes *out)
{
    pf_bytes group = { 0 };
    bool is_first = true;
    pf_status status = add(&group, "(");
    for (int32_t below = 0; below < 2 && status == PF_OK; below++) {
        pf_number_range half;
        pf_bytes part = { 0 };
        const pf_status written = take_half(range, below, &half) ? write(&half, &part) : PF_INVALID;
        if (written == PF_OK) {
            status = add_bar(&group, &is_first);
            if (status == PF_OK && below) status = add(&group, "\"-\" ");
            if (status == PF_OK) status = pf_bytes_append(&group, part.data, part.n);
        } else if (written != PF_INVALID) {
            status = written;
        }
        pf_bytes_clear(&part);
    }
    if (status == PF_OK && is_first) status = PF_INVALID;
    if (status == PF_OK) status = add(&group, ")");
    if (status == PF_OK) status = pf_bytes_append(out, group.data, group.n);
    pf_bytes_clear(&group);
    return status;
}

pf_status pf_number_range_write_integers(const pf_number_range *range, pf_bytes *out)
{
    return write_halves(range, write_integer_half, out);
}

pf_status pf_number_range_write_numbers(const pf_number_range *range, pf_bytes *out)
{
    return write_halves(range, write_number_half, out);
}
