#include "tests/support/chi_square.h"

#include <math.h>

double pf_chi_square_tail(double chi, double degrees)
{
    const double a = degrees / 2.0, x = chi / 2.0;
    if (x <= 0.0) return 1.0;
    const double front = exp(a * log(x) - x - lgamma(a));
    if (x < a + 1.0) {
        double term = 1.0 / a, sum = term;
        for (double n = a + 1.0; term > sum * 1e-16; n += 1.0) sum += term *= x / n;
        return 1.0 - front * sum;
    }
    /* Lentz's evaluation of 1 / (x + 1 - a - 1(1-a) / (x + 3 - a - ...)). */
    double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
    for (int i = 1; i < 10000; i++) {
        const double an = -(double)i * ((double)i - a);
        b += 2.0;
        d = 1.0 / (an * d + b);
        c = b + an / c;
        h *= d * c;
        if (fabs(d * c - 1.0) < 1e-15) break;
    }
    return front * h;
}

double pf_chi_square_test(const int64_t *counts, const double *expected, size_t n, int64_t n_trials)
{
    double chi = 0.0, pooled_expected = 0.0, pooled_count = 0.0;
    int64_t cells = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = expected[i] * (double)n_trials, c = (double)counts[i];
        if (e <= 0.0 && counts[i] > 0) return 0.0;
        if (e < 5.0) {
            pooled_expected += e;
            pooled_count += c;
        } else {
            chi += (c - e) * (c - e) / e;
            cells++;
        }
    }
    if (pooled_expected >= 5.0) {
        chi += (pooled_count - pooled_expected) * (pooled_count - pooled_expected) / pooled_expected;
        cells++;
    }
    return cells < 2 ? 1.0 : pf_chi_square_tail(chi, (double)(cells - 1));
}
