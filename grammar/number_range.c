/*
 * Numbers of n digits from a to b: an alternative for each first digit, behind which the rest is any digits, or those from a, or those to b.
 */
#include "grammar/number_range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIGITS = 18, BASE = 10 };

/* T(n, q) of a multiple and a point. */
typedef struct {
    int32_t n, point;
    int64_t q, multiple;
} tail_rule;

typedef struct {
    int64_t multiple; /* 0: any */
    int32_t point;    /* digits behind it; 0: there is none */
    const char *prefix;
    tail_rule *tails; /* [n_tails] the first n_written are in `rules` */
    int32_t n_tails, n_written;
    pf_bytes *rules, *out;
} writer;

/* ---- text ------------------------------------------------------------------------------------------------------------- */

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

static pf_status add_class(pf_bytes *out, int64_t first, int64_t last)
{
    char text[8];
    const int n = first == last ? snprintf(text, sizeof text, "[%c]", (char)('0' + first))
                                : snprintf(text, sizeof text, "[%c-%c]", (char)('0' + first), (char)('0' + last));
    return pf_bytes_append(out, text, (size_t)n);
}

static pf_status add_any_digits(pf_bytes *out, int32_t n)
{
    char text[24];
    const int length = n > 0 ? snprintf(text, sizeof text, " [0-9]{%d}", n) : 0;
    return pf_bytes_append(out, text, (size_t)length);
}

/* The digit with n - 1 others behind it is the first behind the point. */
static pf_status add_point(pf_bytes *out, const writer *w, int32_t n)
{
    return w->point > 0 && n == w->point ? add(out, "\".\" ") : PF_OK;
}

/* ---- multiples -------------------------------------------------------------------------------------------------------- */

static int64_t power(int32_t n)
{
    int64_t p = 1;
    while (n-- > 0) p *= BASE;
    return p;
}

/* Of a digit c with n - 1 others behind it. */
static int64_t advance(const writer *w, int64_t q, int64_t c, int32_t n)
{
    return w->multiple == 0 ? 0 : (q + c * (power(n - 1) % w->multiple)) % w->multiple;
}

/* Whether some number from a to b fits behind q. */
static bool has_any(const writer *w, int64_t q, int64_t a, int64_t b)
{
    if (a > b) return false;
    if (w->multiple == 0) return true;
    const int64_t rest = (q + a % w->multiple) % w->multiple;
    return b - a >= (rest == 0 ? 0 : w->multiple - rest);
}

static bool are_equal(const tail_rule *a, const tail_rule *b)
{
    return a->n == b->n && a->q == b->q && a->point == b->point && a->multiple == b->multiple;
}

static pf_status add_tail_name(writer *w, int32_t n, int64_t q)
{
    const tail_rule tail = { n, n < w->point ? n + 1 : w->point, q,
                             w->multiple }; /* behind the point it does not matter */
    char name[64];
    int32_t i = 0;
    while (i < w->n_tails && !are_equal(&w->tails[i], &tail)) i++;
    if (i == PF_NUMBER_RANGE_MOST_RULES) return PF_LIMIT;
    if (i == w->n_tails) w->tails[w->n_tails++] = tail;
    snprintf(name, sizeof name, " %.40s-%d", w->prefix, i);
    return add(w->out, name);
}

/* Any n digits behind q. */
static pf_status add_tail(writer *w, int32_t n, int64_t q)
{
    if (n == 0) return PF_OK;
    if (w->multiple > 0) return add_tail_name(w, n, q);
    if (w->point == 0 || n < w->point) return add_any_digits(w->out, n);
    PF_TRY(add_any_digits(w->out, n - w->point));
    PF_TRY(add(w->out, " \".\""));
    return add_any_digits(w->out, w->point);
}

/* T(n, q): digits that lead to the same rule stand together. */
static pf_status write_tail(writer *w, const tail_rule *tail)
{
    bool is_first = true;
    w->multiple = tail->multiple;
    w->point = tail->point;
    PF_TRY(add_point(w->out, w, tail->n));
    PF_TRY(add(w->out, "("));
    for (int64_t c = 0; c < BASE; c++) {
        const int64_t q = advance(w, tail->q, c, tail->n);
        char digits[BASE + 1];
        int32_t n_digits = 0;
        for (int64_t d = 0; d < BASE; d++) {
            if (advance(w, tail->q, d, tail->n) != q) continue;
            if (d < c) break; /* it stands there */
            digits[n_digits++] = (char)('0' + d);
        }
        if (n_digits == 0 || !has_any(w, q, 0, power(tail->n - 1) - 1)) continue;
        digits[n_digits] = '\0';
        PF_TRY(add_bar(w->out, &is_first));
        PF_TRY(add(w->out, "["));
        PF_TRY(add(w->out, digits));
        PF_TRY(add(w->out, "]"));
        PF_TRY(add_tail(w, tail->n - 1, q));
    }
    return add(w->out, ")\n");
}

/* The rules that are named and not written yet, and those that they name. */
static pf_status write_tails(writer *w)
{
    pf_bytes *out = w->out;
    pf_status status = PF_OK;
    w->out = w->rules;
    for (; w->n_written < w->n_tails && status == PF_OK; w->n_written++) {
        const tail_rule tail = w->tails[w->n_written];
        char head[64];
        snprintf(head, sizeof head, "%.40s-%d ::= ", w->prefix, w->n_written);
        status = add(w->rules, head);
        if (status == PF_OK) status = write_tail(w, &tail);
    }
    w->out = out;
    return status;
}

/* ---- ranges ----------------------------------------------------------------------------------------------------------- */

/* Numbers from a to b as n digits, behind q. Some number fits. */
static pf_status write_digits(writer *w, int64_t a, int64_t b, int32_t n, int64_t q)
{
    const int64_t unit = n > 0 ? power(n - 1) : 1, low = a / unit, high = b / unit;
    bool is_first = true;
    if (n == 0) return PF_OK;
    PF_TRY(add_point(w->out, w, n));
    PF_TRY(add(w->out, "("));
    for (int64_t c = low; c <= high; c++) {
        const int64_t from = c == low ? a % unit : 0, to = c == high ? b % unit : unit - 1, next = advance(w, q, c, n);
        const bool is_any = from == 0 && to == unit - 1;
        int64_t last = c;
        if (!has_any(w, next, from, to)) continue;
        /* Without multiples digits that any others may follow stand together. */
        while (is_any && w->multiple == 0 && last < high && (last + 1 < high || b % unit == unit - 1)) last++;
        PF_TRY(add_bar(w->out, &is_first));
        PF_TRY(add_class(w->out, c, last));
        c = last;
        if (n > 1) PF_TRY(add(w->out, " "));
        PF_TRY(is_any ? add_tail(w, n - 1, next) : write_digits(w, from, to, n - 1, next));
    }
    return add(w->out, ")");
}

/* Numbers from a to b, 0 <= a <= b, as one group: a digit at least before the point, and no 0 before others. */
static pf_status write_whole(writer *w, int64_t a, int64_t b)
{
    const size_t before = w->out->n;
    const int32_t fewest = w->point + 1;
    bool is_first = true;
    PF_TRY(add(w->out, "("));
    for (int32_t n = fewest; n <= MOST_DIGITS; n++) {
        const int64_t first = n == fewest ? 0 : power(n - 1), last = power(n) - 1;
        const int64_t from = a > first ? a : first, to = b < last ? b : last;
        if (!has_any(w, 0, from, to)) continue;
        PF_TRY(add_bar(w->out, &is_first));
        PF_TRY(write_digits(w, from, to, n, 0));
    }
    if (!is_first) return add(w->out, ")");
    w->out->n = before;
    return PF_INVALID;
}

static int64_t divide_up(int64_t a, int64_t unit)
{
    return a / unit + (a % unit > 0);
}

static int64_t reduce(int64_t multiple, int64_t unit)
{
    int64_t a = multiple, b = unit;
    while (b > 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return multiple == 0 ? 0 : multiple / a;
}

/* The numbers of a half with exactly so many decimals. */
static pf_status write_exact(writer *w, const pf_number_range *half, int32_t n_decimals)
{
    const int64_t unit = power(half->n_decimals - n_decimals);
    const int64_t a = half->above_least ? half->least / unit + 1 : divide_up(half->least, unit);
    const int64_t b = half->below_most ? divide_up(half->most, unit) - 1 : half->most / unit;
    const int64_t multiple = reduce(half->multiple, unit);
    w->multiple = multiple > 1 ? multiple : 0;
    w->point = n_decimals;
    PF_TRY(a <= b ? write_whole(w, a, b) : PF_INVALID);
    return write_tails(w);
}

/* Those with its own number of decimals, and more digits behind them: from a to b any, of `most` none but zeros, and of `least` where it is not
 * in the range one that is not zero. */
static pf_status write_longer(writer *w, const pf_number_range *half)
{
    const int32_t k = half->n_decimals, n_more = MOST_DIGITS - k;
    const bool is_open = half->most == PF_NUMBER_RANGE_MOST;
    const int64_t a = half->least + half->above_least, b = is_open ? half->most : half->most - 1;
    const size_t before = w->out->n;
    char any[48], zeros[48], not_zero[64];
    const char *point = k > 0 ? "" : "\".\" ";
    bool is_first = true;
    snprintf(any, sizeof any, " (%s[0-9]{1,%d})?", point, n_more);
    snprintf(zeros, sizeof zeros, " (%s\"0\"{1,%d})?", point, n_more);
    snprintf(not_zero, sizeof not_zero, " %s\"0\"{0,%d} [1-9] [0-9]{0,%d}", point, n_more - 1, n_more - 1);
    w->multiple = 0;
    w->point = k;
    PF_TRY(add(w->out, "("));
    if (a <= b) {
        PF_TRY(add_bar(w->out, &is_first));
        PF_TRY(write_whole(w, a, b));
        PF_TRY(add(w->out, any));
    }
    if (!is_open && !half->below_most && half->most >= a) {
        PF_TRY(add_bar(w->out, &is_first));
        PF_TRY(write_whole(w, half->most, half->most));
        PF_TRY(add(w->out, zeros));
    }
    if (half->above_least && half->least < half->most) {
        PF_TRY(add_bar(w->out, &is_first));
        PF_TRY(write_whole(w, half->least, half->least));
        PF_TRY(add(w->out, not_zero));
    }
    if (!is_first) return add(w->out, ")");
    w->out->n = before;
    return PF_INVALID;
}

/* ---- halves ----------------------------------------------------------------------------------------------------------- */

static pf_status write_integer_half(writer *w, const pf_number_range *half)
{
    return write_exact(w, half, 0);
}

static pf_status write_number_half(writer *w, const pf_number_range *half)
{
    const bool has_multiple = half->multiple > 0;
    const size_t before = w->out->n;
    bool is_first = true;
    PF_TRY(add(w->out, "("));
    for (int32_t k = 0; k <= half->n_decimals; k++) {
        const size_t at = w->out->n;
        const bool was_first = is_first;
        PF_TRY(add_bar(w->out, &is_first));
        const pf_status status = k < half->n_decimals || has_multiple ? write_exact(w, half, k) : write_longer(w, half);
        if (status != PF_OK && status != PF_INVALID) return status;
        if (status == PF_OK) continue;
        w->out->n = at;
        is_first = was_first;
    }
    if (!is_first) return add(w->out, ")");
    w->out->n = before;
    return PF_INVALID;
}

/* The part of a range at or above 0, or mirrored the part below it. False: it is empty. */
static bool take_half(const pf_number_range *r, bool below, pf_number_range *out)
{
    *out = *r;
    if (below) {
        out->least = -r->most;
        out->most = -r->least;
        out->above_least = r->below_most;
        out->below_most = r->above_least;
    }
    if (out->least < 0 || (below && out->least == 0)) {
        out->least = 0;
        out->above_least = below; /* no -0 */
    }
    return out->most > out->least || (out->most == out->least && !out->above_least && !out->below_most);
}

static pf_status write_halves(writer *w, const pf_number_range *range,
                              pf_status (*write)(writer *, const pf_number_range *))
{
    const size_t before = w->out->n;
    bool is_first = true;
    PF_TRY(add(w->out, "("));
    for (int32_t below = 0; below < 2; below++) {
        pf_number_range half;
        const size_t at = w->out->n;
        const bool was_first = is_first;
        if (!take_half(range, below, &half)) continue;
        PF_TRY(add_bar(w->out, &is_first));
        if (below) PF_TRY(add(w->out, "\"-\" "));
        const pf_status status = write(w, &half);
        if (status != PF_OK && status != PF_INVALID) return status;
        if (status == PF_OK) continue;
        w->out->n = at;
        is_first = was_first;
    }
    if (!is_first) return add(w->out, ")");
    w->out->n = before;
    return PF_INVALID;
}

static pf_status write_range(const pf_number_range *range, pf_status (*write)(writer *, const pf_number_range *),
                             const char *prefix, pf_bytes *rules, int32_t *n_rules, pf_bytes *out)
{
    writer w = { .prefix = prefix, .rules = rules, .out = out };
    if (range->multiple > 0) {
        w.tails = malloc(PF_NUMBER_RANGE_MOST_RULES * sizeof *w.tails);
        if (!w.tails) return PF_NOMEM;
    }
    const pf_status status = write_halves(&w, range, write);
    *n_rules = w.n_tails;
    free(w.tails);
    return status;
}

pf_status pf_number_range_write_integers(const pf_number_range *range, const char *prefix, pf_bytes *rules,
                                         int32_t *n_rules, pf_bytes *out)
{
    return write_range(range, write_integer_half, prefix, rules, n_rules, out);
}

pf_status pf_number_range_write_numbers(const pf_number_range *range, const char *prefix, pf_bytes *rules,
                                        int32_t *n_rules, pf_bytes *out)
{
    return write_range(range, write_number_half, prefix, rules, n_rules, out);
}
