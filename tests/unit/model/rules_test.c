/* Logit rules against their definition, written as the papers have it: one id at a time. */
#include "model/sampling/rules.h"

#include <math.h>

#include "base/sampling_parameters.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { V = 50, MOST = 60, N_STOP = 2, N_BIASES = 3 };
static const int32_t STOP[N_STOP] = { 7, 49 };
static const int32_t BIAS_IDS[N_BIASES] = { 0, 7, 30 };
static const float BIASES[N_BIASES] = { 1.5f, -INFINITY, -0.25f };

static pf_rules make(pf_arena *arena, const pf_logit_rules *given)
{
    pf_arena measure = pf_arena_measure();
    (void)pf_rules_lay_out(&measure);
    assert_status(pf_arena_create(measure.used, arena), PF_OK);
    pf_rules rules = pf_rules_lay_out(arena);
    pf_rules_take(&rules, given, STOP, N_STOP, V);
    return rules;
}

/* The definition. */
static float define(const pf_logit_rules *r, const int32_t *tokens, int32_t n, int32_t id, float logit)
{
    int32_t n_generated = 0;
    bool occurs = false, stops = false;
    for (int32_t i = 0; i < n; i++) {
        occurs |= tokens[i] == id;
        n_generated += tokens[i] == id && i >= r->n_prompt;
    }
    for (int32_t i = 0; i < r->n_biases; i++)
        if (r->bias_ids[i] == id) logit += r->biases[i];
    for (int32_t i = 0; i < N_STOP; i++) stops |= STOP[i] == id;
    if (stops && n - r->n_prompt < r->min_tokens) logit = -INFINITY;
    if (occurs && r->repetition_penalty != 0.0f)
        logit = logit > 0.0f ? logit / r->repetition_penalty : logit * r->repetition_penalty;
    if (n_generated > 0) logit -= r->frequency_penalty * (float)n_generated + r->presence_penalty;
    return logit;
}

static void assert_defined(const pf_logit_rules *given, uint64_t seed)
{
    pf_arena arena;
    const pf_rules rules = make(&arena, given);
    assert_true(rules.is_active);
    int32_t tokens[MOST], counts[V] = { 0 };
    float logits[V], expected[V];
    const int32_t n = given->n_prompt + below(&seed, 20);
    for (int32_t i = 0; i < n; i++) tokens[i] = below(&seed, V);
    const int32_t n_committed = given->n_prompt + below(&seed, n - given->n_prompt + 1);
    for (int32_t id = 0; id < V; id++) {
        logits[id] = (float)below(&seed, 1000) / 100.0f - 5.0f;
        expected[id] = define(given, tokens, n, id, logits[id]);
    }
    pf_rules_apply(&rules, tokens, n_committed, tokens + n_committed, n - n_committed, counts, logits, V);
    for (int32_t id = 0; id < V; id++) {
        assert_int_equal(counts[id], 0);
        if (!(logits[id] == expected[id]) && !(fabsf(logits[id] - expected[id]) < 1e-5f))
            fail_msg("id %d: %g, by the definition %g", id, (double)logits[id], (double)expected[id]);
    }
    pf_arena_destroy(&arena);
}

static void rules_do_what_their_definition_says(void **state)
{
    (void)state;
    const pf_logit_rules cases[] = {
        { .repetition_penalty = 1.3f },
        { .repetition_penalty = 0.7f },
        { .frequency_penalty = 0.5f },
        { .presence_penalty = -1.5f },
        { .min_tokens = 10 },
        { .bias_ids = BIAS_IDS, .biases = BIASES, .n_biases = N_BIASES },
        { .repetition_penalty = 1.1f,
          .frequency_penalty = 0.2f,
          .presence_penalty = 0.4f,
          .min_tokens = 4,
          .bias_ids = BIAS_IDS,
          .biases = BIASES,
          .n_biases = N_BIASES },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++)
        for (uint64_t seed = 1; seed <= 50; seed++) {
            pf_logit_rules rules = cases[i];
            rules.n_prompt = 1 + (int32_t)(seed % 30);
            assert_defined(&rules, seed);
        }
}

static void rules_that_change_nothing_are_not_active(void **state)
{
    (void)state;
    const pf_logit_rules idle[] = { { .n_prompt = 3 }, { .repetition_penalty = 1.0f } };
    for (size_t i = 0; i < PF_COUNT(idle); i++) assert_false(pf_logit_rules_are_active(&idle[i]));
}

static void ids_outside_of_the_vocabulary_change_nothing(void **state)
{
    (void)state;
    const int32_t ids[] = { -1, V, INT32_MAX, 2 }, tokens[] = { -5, V, 2, INT32_MAX };
    const float biases[] = { 1.0f, 1.0f, 1.0f, 1.0f };
    const pf_logit_rules given = { .bias_ids = ids, .biases = biases, .n_biases = 4, .presence_penalty = 1.0f };
    pf_arena arena;
    const pf_rules rules = make(&arena, &given);
    int32_t counts[V] = { 0 };
    float logits[V] = { 0 };
    pf_rules_apply(&rules, tokens, 4, NULL, 0, counts, logits, V);
    for (int32_t id = 0; id < V; id++) assert_true(logits[id] == 0.0f && counts[id] == 0);
    pf_arena_destroy(&arena);
}

static void rules_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    const int32_t ids[] = { V };
    const float biases[] = { NAN };
    const struct {
        pf_logit_rules rules;
        const char *says;
    } cases[] = {
        { { .repetition_penalty = -1.0f }, "repetition_penalty is -1" },
        { { .repetition_penalty = NAN }, "repetition_penalty is" },
        { { .frequency_penalty = 2.1f }, "frequency_penalty is 2.1, expected -2 to 2" },
        { { .presence_penalty = NAN }, "presence_penalty is" },
        { { .min_tokens = -1 }, "min_tokens is -1" },
        { { .n_biases = PF_MAX_LOGIT_BIASES + 1 }, "1025 logit biases, expected at most 1024" },
        { { .bias_ids = ids, .biases = biases, .n_biases = 1 }, "logit bias 0 is of token 50, expected 0 to 49" },
        { { .bias_ids = BIAS_IDS, .biases = biases, .n_biases = 1 }, "the logit bias of token 0 is" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_error error;
        assert_status(pf_logit_rules_check(&cases[i].rules, V, &error), PF_INVALID);
        assert_says(error, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_do_what_their_definition_says),
        cmocka_unit_test(rules_that_change_nothing_are_not_active),
        cmocka_unit_test(ids_outside_of_the_vocabulary_change_nothing),
        cmocka_unit_test(rules_out_of_range_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
