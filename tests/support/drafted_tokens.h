/* Whether drafted tokens have the target's distribution: three of them, counted over many requests, against exact enumeration. */
#ifndef PF_TESTS_SUPPORT_DRAFTED_TOKENS_H
#define PF_TESTS_SUPPORT_DRAFTED_TOKENS_H

#include "tests/support/chi_square.h"
#include "tests/support/duet.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"

#ifdef __SANITIZE_ADDRESS__ /* twelve times slower */
enum { DRAFTED_BATCHES = 40, TELLS_WRONG_RULES = 0 };
#else
enum { DRAFTED_BATCHES = 300, TELLS_WRONG_RULES = 1 };
#endif
enum { DRAFTED_V = 6, DRAFTED_AT_ONCE = 32, DRAFTED_TRIALS = DRAFTED_AT_ONCE * DRAFTED_BATCHES };

static const pf_tiny_model DRAFTED_TARGET = {
    .seed = 21, .vocab = DRAFTED_V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};
static const pf_sampling DRAFTED_SAMPLING = { .temperature = 3.0f, .top_p = 0.95f };
static const int32_t DRAFTED_PROMPT[] = { 3, 1, 4 };

/* What the tokens are drafted and judged by. */
typedef struct {
    pf_sampling sampling;
    pf_method method;
    int32_t max_declared, siblings;
    int32_t n_batches;
} drafted_setting;

/* The joint distribution of tokens 1 to 3 behind the prompt and token 0, which comes from the prefill. */
static inline void enumerate_drafted(const pf_tiny_side *target, const pf_sampling *sampling, double *expected)
{
    enum { V = DRAFTED_V };
    int32_t text[] = { DRAFTED_PROMPT[0], DRAFTED_PROMPT[1], DRAFTED_PROMPT[2], 0, 0, 0 };
    float p[4][V];
    memset(expected, 0, V * V * V * sizeof *expected);
    pf_tiny_side_distribution(target, sampling, text, 3, p[0]);
    for (int32_t i = 0; i < V * V * V; i++) {
        for (int32_t j = 0; j < 3; j++) text[3 + j] = i / (int32_t[]){ V * V, V, 1 }[j] % V;
        for (int32_t j = 1; j <= 3; j++) pf_tiny_side_distribution(target, sampling, text, 3 + j, p[j]);
        for (int32_t d = 0; d < V; d++)
            expected[(text[4] * V + text[5]) * V + d] +=
                (double)p[0][text[3]] * (double)p[1][text[4]] * (double)p[2][text[5]] * (double)p[3][d];
    }
}

/* The tail probability of what n_batches of DRAFTED_AT_ONCE requests committed. *n_refused: drafted tokens that were not accepted. */
static inline double test_drafted_setting(const pf_tiny_side *target, pf_peer *verifier, pf_peer *drafter,
                                          const drafted_setting *setting, pf_duet_tamper *tamper, int32_t *n_refused)
{
    enum { V = DRAFTED_V, DRAFT_LEN = 3 };
    static double expected[V * V * V];
    static int64_t counts[V * V * V];
    static pf_duet_text texts[DRAFTED_AT_ONCE];
    static pf_duet_request requests[DRAFTED_AT_ONCE];
    *n_refused = 0;
    memset(counts, 0, sizeof counts);
    enumerate_drafted(target, &setting->sampling, expected);
    for (uint64_t batch = 0; batch < (uint64_t)setting->n_batches; batch++) {
        for (uint64_t i = 0; i < DRAFTED_AT_ONCE; i++) {
            requests[i] = (pf_duet_request){ .sequence = i,
                                             .prompt = DRAFTED_PROMPT,
                                             .n_prompt = 3,
                                             .n_new = 2 + DRAFT_LEN * (1 + setting->siblings), /* else it is cut */
                                             .sampling = setting->sampling,
                                             .method = setting->method,
                                             .draft_len = DRAFT_LEN,
                                             .siblings = setting->siblings,
                                             .max_declared = setting->max_declared };
            requests[i].sampling.seed = batch * DRAFTED_AT_ONCE + i;
        }
        pf_duet_run(verifier, drafter, requests, DRAFTED_AT_ONCE, tamper, NULL, texts);
        for (int32_t i = 0; i < DRAFTED_AT_ONCE; i++) {
            const int32_t *t = texts[i].tokens;
            counts[(t[1] * V + t[2]) * V + t[3]]++;
            *n_refused += texts[i].drafted - texts[i].accepted;
        }
    }
    return pf_chi_square_test(counts, expected, V * V * V, (int64_t)setting->n_batches * DRAFTED_AT_ONCE);
}

/* Likewise of DRAFTED_TRIALS requests under rejection. */
static inline double test_drafted_tokens(const pf_tiny_side *target, pf_peer *verifier, pf_peer *drafter,
                                         int32_t max_declared, pf_duet_tamper *tamper, int32_t *n_refused)
{
    const drafted_setting setting = { .sampling = DRAFTED_SAMPLING,
                                      .method = PF_METHOD_REJECTION,
                                      .max_declared = max_declared,
                                      .n_batches = DRAFTED_BATCHES };
    return test_drafted_setting(target, verifier, drafter, &setting, tamper, n_refused);
}

#endif
