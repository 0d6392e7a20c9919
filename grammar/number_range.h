/*
 * Writes the numbers between two bounds, or the multiples of a number there, as a part of a grammar (grammar/grammar.h): a JSON Schema's
 * minimum, maximum and multipleOf.
 *
 *      12 .. 345          1 [2-9] | [2-9] [0-9] | [1-2] [0-9] [0-9] | 3 [0-3] [0-9] | 3 4 [0-5]
 *      multiples of m     a rule T(n, q) for n more digits whose value v has v + q = 0 modulo m:
 *                         T(n, q) ::= c T(n - 1, (q + c 10^(n-1)) mod m) | ... for each digit c; T(0, 0) is nothing
 *
 * Fractions are whole numbers of units of 10^-k with a point before the last k digits. Numbers have at most 18 digits before the point,
 * 18 behind it, and no exponent; multiples have no more digits behind the point than their unit.
 *
 * Pure; any thread.
 */
#ifndef PF_GRAMMAR_NUMBER_RANGE_H
#define PF_GRAMMAR_NUMBER_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

#define PF_NUMBER_RANGE_MOST INT64_C(999999999999999999)

enum {
    PF_NUMBER_RANGE_MOST_DECIMALS = 9,
    PF_NUMBER_RANGE_MOST_RULES = 1024, /* of one range */
};
#define PF_NUMBER_RANGE_MOST_MULTIPLE INT64_C(1000000000)

/* In units of 10^-n_decimals. least and most within +-PF_NUMBER_RANGE_MOST; one that is that far stands for no bound. */
typedef struct {
    int64_t least, most;
    bool above_least, below_most; /* the bound itself is not in it */
    int32_t n_decimals;           /* 0 .. PF_NUMBER_RANGE_MOST_DECIMALS */
    int64_t multiple;             /* 0: of any number; at most PF_NUMBER_RANGE_MOST_MULTIPLE */
} pf_number_range;

/* The whole numbers, or all, appended to `out` as one group. The rules that it needs, for multiples alone, are appended to `rules` and named
 * PREFIX-0, PREFIX-1, ...; *n_rules: how many. prefix: at most 40 bytes.
 * PF_INVALID: none is between the bounds; `out` is as it was.  PF_LIMIT: more than PF_NUMBER_RANGE_MOST_RULES are needed.  PF_NOMEM. */
PF_MUST_USE pf_status pf_number_range_write_integers(const pf_number_range *range, const char *prefix, pf_bytes *rules,
                                                     int32_t *n_rules, pf_bytes *out);
PF_MUST_USE pf_status pf_number_range_write_numbers(const pf_number_range *range, const char *prefix, pf_bytes *rules,
                                                    int32_t *n_rules, pf_bytes *out);

#endif
