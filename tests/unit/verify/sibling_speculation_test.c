/*
 * Trees of drawn tokens, from a draft to a verifier: the committed tokens have the target's distribution, by enumeration in double, under
 * every method that tries siblings in order; and what siblings may not declare.
 */
#include "draft/model_drafter.h"
#include "draft/siblings.h"
#include "model/backend/cpu_backend.h"
#include "proto/tree.h"
#include "tests/support/alloc_count.h"
#include "tests/support/draw.h"
#include "tests/support/drafted_tokens.h"
#include "verify/model_verifier.h"

enum { MAX_DRAFT = 16, MASK = 3 };
static const pf_tiny_model DRAFT = {
    .seed = 22, .vocab = DRAFTED_V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};

typedef struct {
    pf_tiny_side target, draft;
    pf_peer *verifier, *drafter;
} pair;

/* passes AUTO: a draft without a mask. */
static pair open_pair(pf_passes passes)
{
    const pf_context_config config = { .max_sequences = DRAFTED_AT_ONCE + 1 };
    pair p = { .target = pf_tiny_side_open(&DRAFTED_TARGET, 1, &config),
               .draft = pf_tiny_side_open(&DRAFT, 1, &config) };
    pf_error error = { 0 };
    const pf_model_verifier_config v = { .max_sequences = DRAFTED_AT_ONCE, .max_draft = MAX_DRAFT };
    const pf_model_drafter_config d = { .max_sequences = DRAFTED_AT_ONCE,
                                        .max_draft = MAX_DRAFT,
                                        .seed = 99,
                                        .pard = passes != PF_PASSES_AUTO,
                                        .pard_token = MASK,
                                        .passes = passes };
    assert_ok(pf_model_verifier_create(pf_cpu_backend(p.target.context), &v, &p.verifier, &error), error);
    assert_ok(pf_model_drafter_create(pf_cpu_backend(p.draft.context), &d, &p.drafter, &error), error);
    return p;
}

static void close_pair(pair *p)
{
    pf_peer_destroy(p->verifier);
    pf_peer_destroy(p->drafter);
    pf_tiny_side_close(&p->target);
    pf_tiny_side_close(&p->draft);
}

/* ---- what is right ------------------------------------------------------------------------------------------------- */

/* Counts the trees, and the siblings that they have beyond chains. */
typedef struct {
    int64_t n_trees, n_siblings;
} seen_trees;

static seen_trees seen;

static void count_siblings(void *user, pf_proposal *proposal)
{
    (void)user;
    const int32_t n_chain = pf_tree_chain(proposal->parents, proposal->n_tokens);
    seen.n_trees += proposal->parents != NULL;
    seen.n_siblings += proposal->n_tokens - n_chain;
}

static void assert_exact(pf_passes passes, const drafted_setting *setting)
{
    pair p = open_pair(passes);
    int32_t n_refused;
    seen = (seen_trees){ 0 };
    const double tail = test_drafted_setting(&p.target, p.verifier, p.drafter, setting, count_siblings, &n_refused);
    close_pair(&p);
    if (tail < PF_CHI_FALSE_ALARM)
        fail_msg("method %d at %g, %d siblings, %d declared: tail probability %.2g: the loop is lossy",
                 (int)setting->method, (double)setting->sampling.temperature, setting->siblings, setting->max_declared,
                 tail);
    assert_true(n_refused > DRAFTED_AT_ONCE * setting->n_batches / 20);
    assert_true(seen.n_trees > DRAFTED_AT_ONCE * (int64_t)setting->n_batches / 2 && seen.n_siblings > seen.n_trees);
}

static const pf_method METHODS[] = { PF_METHOD_REJECTION, PF_METHOD_TRAVERSAL, PF_METHOD_BLOCK };

/* Three temperatures, with and without filters; all of a distribution declared, and its head. */
static void trees_of_drawn_tokens_have_the_targets_distribution(void **state)
{
    (void)state;
    const pf_sampling samplings[] = { { .temperature = 3.0f, .top_p = 0.95f },
                                      { .temperature = 1.0f, .top_p = 1.0f },
                                      { .temperature = 6.0f, .top_k = 4, .top_p = 1.0f, .min_p = 0.02f } };
    for (size_t m = 0; m < PF_COUNT(METHODS); m++)
        for (size_t i = 0; i < PF_COUNT(samplings); i++)
            for (int32_t siblings = 1; siblings <= PF_MAX_SIBLINGS; siblings += 2) {
                const drafted_setting setting = { .sampling = samplings[i],
                                                  .method = METHODS[m],
                                                  .max_declared = siblings == 1 ? DRAFTED_V : 3 + (int32_t)m % 2,
                                                  .siblings = siblings,
                                                  .n_batches = DRAFTED_BATCHES };
                assert_exact(PF_PASSES_AUTO, &setting);
            }
}

static void trees_of_tokens_that_are_drawn_in_one_pass_or_two_are_exact(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_TWO; passes++)
        for (size_t m = 0; m < PF_COUNT(METHODS); m++) {
            const drafted_setting setting = { .sampling = DRAFTED_SAMPLING,
                                              .method = METHODS[m],
                                              .max_declared = DRAFTED_V,
                                              .siblings = 2,
                                              .n_batches = DRAFTED_BATCHES };
            assert_exact(passes, &setting);
        }
}

static void a_tree_allocates_nothing(void **state)
{
    (void)state;
    pair p = open_pair(PF_PASSES_AUTO);
    static pf_duet_text text;
    const pf_duet_request request = { .prompt = DRAFTED_PROMPT,
                                      .n_prompt = 3,
                                      .n_new = 40,
                                      .sampling = DRAFTED_SAMPLING,
                                      .method = PF_METHOD_TRAVERSAL,
                                      .draft_len = 3,
                                      .siblings = 3,
                                      .max_declared = DRAFTED_V };
    pf_alloc_count_reset();
    pf_duet_run(p.verifier, p.drafter, &request, 1, NULL, NULL, &text);
    assert_int_equal(pf_alloc_count(), 0);
    assert_int_equal(text.n_tokens, 40);
    close_pair(&p);
}

/* ---- what is wrong ------------------------------------------------------------------------------------------------- */

/* A proposal of the test's own, which stays until as many others have been made. */
typedef struct {
    int32_t tokens[MAX_DRAFT], parents[MAX_DRAFT];
    pf_declared declared[MAX_DRAFT];
    float probabilities[MAX_DRAFT][DRAFTED_V];
} changed;

static uint64_t rng = 7;

static changed *change(pf_proposal *proposal)
{
    static changed all[2 * DRAFTED_AT_ONCE];
    static uint32_t n;
    changed *c = &all[n++ % (2 * DRAFTED_AT_ONCE)];
    for (int32_t i = 0; i < proposal->n_tokens; i++) {
        c->tokens[i] = proposal->tokens[i];
        c->parents[i] = proposal->parents[i];
        c->declared[i] = proposal->declared[i];
        memcpy(c->probabilities[i], c->declared[i].probabilities, (size_t)c->declared[i].n * sizeof(float));
        c->declared[i].probabilities = c->probabilities[i];
    }
    proposal->tokens = c->tokens;
    proposal->parents = c->parents;
    proposal->declared = c->declared;
    return c;
}

/* The token of the chain that a sibling stands beside. */
static int32_t beside(const changed *c, int32_t sibling)
{
    return c->parents[sibling] + 1;
}

/* Siblings are drawn with replacement, and declared as if they were not. */
static void draw_with_replacement(void *user, pf_proposal *proposal)
{
    (void)user;
    if (!proposal->parents) return;
    changed *c = change(proposal);
    for (int32_t i = pf_tree_chain(c->parents, proposal->n_tokens); i < proposal->n_tokens; i++) {
        const pf_declared *q = &c->declared[beside(c, i)];
        float u = (float)(draw(&rng) >> 40) * 0x1p-24f;
        int32_t k = 0;
        while (k < q->n - 1 && u >= q->probabilities[k]) u -= q->probabilities[k++];
        c->tokens[i] = q->ids[k];
    }
}

/* Siblings are declared with their shares of the whole distribution, which do not sum to 1. */
static void forget_to_renormalise(void *user, pf_proposal *proposal)
{
    (void)user;
    if (!proposal->parents) return;
    changed *c = change(proposal);
    for (int32_t i = pf_tree_chain(c->parents, proposal->n_tokens); i < proposal->n_tokens; i++) {
        const pf_declared *q = &c->declared[beside(c, i)];
        for (int32_t k = 0; k < c->declared[i].n; k++)
            for (int32_t j = 0; j < q->n; j++)
                if (q->ids[j] == c->declared[i].ids[k]) c->probabilities[i][k] = q->probabilities[j];
    }
}

/* Siblings are declared with the distribution of the token beside them, the token included. */
static void declare_that_of_the_token_beside(void *user, pf_proposal *proposal)
{
    (void)user;
    if (!proposal->parents) return;
    changed *c = change(proposal);
    for (int32_t i = pf_tree_chain(c->parents, proposal->n_tokens); i < proposal->n_tokens; i++)
        c->declared[i] = c->declared[beside(c, i)];
}

/* A drawn sibling that seems unlikely is left out. */
static void withhold_unlikely_siblings(void *user, pf_proposal *proposal)
{
    (void)user;
    if (!proposal->parents) return;
    changed *c = change(proposal);
    int32_t n = pf_tree_chain(c->parents, proposal->n_tokens);
    for (int32_t i = n; i < proposal->n_tokens; i++) {
        bool is_likely = false;
        for (int32_t k = 0; k < c->declared[i].n; k++)
            is_likely |= c->declared[i].ids[k] == c->tokens[i] && c->declared[i].probabilities[k] > 0.2f;
        if (!is_likely) continue;
        c->tokens[n] = c->tokens[i];
        c->parents[n] = c->parents[i];
        c->declared[n++] = c->declared[i];
    }
    proposal->n_tokens = n;
}

static void siblings_that_are_drawn_or_declared_otherwise_are_caught(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    pf_duet_tamper *const wrong[] = { draw_with_replacement, forget_to_renormalise, declare_that_of_the_token_beside,
                                      withhold_unlikely_siblings };
    for (size_t i = 0; i < PF_COUNT(wrong); i++)
        for (size_t m = 0; m < 2; m++) {
            const drafted_setting setting = { .sampling = DRAFTED_SAMPLING,
                                              .method = METHODS[m],
                                              .max_declared = DRAFTED_V,
                                              .siblings = 1,
                                              .n_batches = 4 * DRAFTED_BATCHES };
            pair p = open_pair(PF_PASSES_AUTO);
            int32_t n_refused;
            const double tail = test_drafted_setting(&p.target, p.verifier, p.drafter, &setting, wrong[i], &n_refused);
            close_pair(&p);
            if (tail >= PF_CHI_FALSE_ALARM)
                fail_msg("rule %zu, method %d: tail probability %.2g: the test cannot tell", i, (int)METHODS[m], tail);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_of_drawn_tokens_have_the_targets_distribution),
        cmocka_unit_test(trees_of_tokens_that_are_drawn_in_one_pass_or_two_are_exact),
        cmocka_unit_test(a_tree_allocates_nothing),
        cmocka_unit_test(siblings_that_are_drawn_or_declared_otherwise_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
