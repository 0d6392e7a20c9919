/* Log-probabilities against their definition: sort all, exponentiate all. */
#include "model/sampling/logprobs.h"

#include <math.h>
#include <stdlib.h>

#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { V = 300 };

typedef struct {
    int32_t id;
    float logit;
} entry;

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void assert_defined(const float *logits, int32_t token, int32_t n_top)
{
    entry sorted[V];
    double sum = 0.0;
    for (int32_t i = 0; i < V; i++) sorted[i] = (entry){ i, isnan(logits[i]) ? -INFINITY : logits[i] };
    qsort(sorted, V, sizeof *sorted, compare);
    for (int32_t i = V - 1; i >= 0; i--) sum += exp((double)sorted[i].logit - (double)sorted[0].logit);
    const pf_token_logprobs found = pf_logprobs_of(logits, V, token, n_top);
    assert_int_equal(found.token, token);
    const double expected = (double)logits[token] - (double)sorted[0].logit - log(sum);
    if (isnan(logits[token]) || isinf(logits[token]))
        assert_true(isinf(found.logprob) && found.logprob < 0.0f);
    else
        assert_true(fabs((double)found.logprob - expected) <= 1e-6 * (1.0 + fabs(expected)));
    int32_t n = 0;
    while (n < n_top && n < PF_MAX_LOGPROBS && sorted[n].logit > -INFINITY) n++;
    assert_int_equal(found.n_top, n);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(found.top[i], sorted[i].id);
        const double wanted = (double)sorted[i].logit - (double)sorted[0].logit - log(sum);
        assert_true(fabs((double)found.top_logprobs[i] - wanted) <= 1e-6 * (1.0 + fabs(wanted)));
    }
}

static void they_are_those_of_the_softmax(void **state)
{
    (void)state;
    uint64_t seed = 1;
    float logits[V];
    for (int32_t round = 0; round < 200; round++) {
        for (int32_t i = 0; i < V; i++) {
            logits[i] = (float)below(&seed, 400) / 10.0f - 20.0f; /* with ties */
            if (round % 3 == 1 && below(&seed, 4) == 0) logits[i] = -INFINITY;
            if (round % 3 == 2 && below(&seed, 20) == 0) logits[i] = NAN;
        }
        logits[below(&seed, V)] = 1.0f;
        assert_defined(logits, below(&seed, V), below(&seed, PF_MAX_LOGPROBS + 1));
    }
    for (int32_t i = 0; i < V; i++) logits[i] = i == 17 ? 0.0f : -INFINITY; /* one is possible */
    assert_defined(logits, 17, 5);
    assert_defined(logits, 3, 5);
}

static void tokens_with_plus_infinity_share_the_probability(void **state)
{
    (void)state;
    float logits[V] = { 0 };
    logits[4] = logits[9] = INFINITY;
    const pf_token_logprobs found = pf_logprobs_of(logits, V, 9, 3);
    assert_true(fabsf(found.logprob - logf(0.5f)) < 1e-6f);
    assert_int_equal(found.top[0], 4);
    assert_int_equal(found.top[1], 9);
    assert_true(isinf(found.top_logprobs[2]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_the_softmax),
        cmocka_unit_test(tokens_with_plus_infinity_share_the_probability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
