/*
 * Writes the numbers between two bounds as a part of a grammar (grammar/grammar.h): a JSON Schema's minimum and maximum.
 *
 *      12 .. 345      1 [2-9] | [2-9] [0-9] | [1-2] [0-9] [0-9] | 3 [0-3] [0-9] | 3 4 [0-5]
 *
 * Numbers have at most 18 digits before the point and 18 behind it, and no exponent.
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

/* least <= most, both within +-PF_NUMBER_RANGE_MOST; one that is that far stands for no bound. */
typedef struct {
    int64_t least, most;
    bool above_least, below_most; /* the bound itself is not in it */
} pf_number_range;

/* The whole numbers, or all, appended as one group. PF_INVALID: none is between the bounds; nothing is appended.  PF_NOMEM. */
PF_MUST_USE pf_status pf_number_range_write_integers(const pf_number_range *range, pf_bytes *out);
PF_MUST_USE pf_status pf_number_range_write_numbers(const pf_number_range *range, pf_bytes *out);

#endif
