/* Pearson's test of counts against exact probabilities, with the tail probability itself rather than a table. */
#ifndef PF_TESTS_CHI_SQUARE_H
#define PF_TESTS_CHI_SQUARE_H

#include <stddef.h>
#include <stdint.h>

/* The tests of the tree reject below this: one false alarm in a thousand million runs. */
#define PF_CHI_FALSE_ALARM 1e-9

/* The probability that a chi-square variable of `degrees` > 0 degrees of freedom exceeds chi.
 * Source: Abramowitz and Stegun, 6.5.29 (series) and 6.5.31 (continued fraction). */
double pf_chi_square_tail(double chi, double degrees);

/* The tail probability of counts [n] of n_trials draws, under `expected` [n], which sums to 1. Cells that expect
 * fewer than five are pooled. 0 where something was seen that cannot be. */
double pf_chi_square_test(const int64_t *counts, const double *expected, size_t n, int64_t n_trials);

#endif
