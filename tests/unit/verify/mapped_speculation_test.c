/*
 * A draft of another vocabulary and a verifier together: the text is the target's, and what the draft declares is its distribution over
 * the ids that both have.
 */
#include <math.h>

#include "draft/model_drafter.h"
#include "model/backend/cpu_backend.h"
#include "model/backend/mapped_backend.h"
#include "tests/support/alloc_count.h"
#include "tests/support/drafted_tokens.h"
#include "verify/model_verifier.h"

enum { N_DRAFT = 9, MAX_DRAFT = 8, MASK = 3 };
static const pf_tiny_model DRAFT = {
    .seed = 22, .vocab = N_DRAFT, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};
/* Ids 0, 1, 3 and 5 of the target are 4, 8, 2 and 0 of the draft; 2 is 6 7 of it, and 4 is 1. */
static const int32_t DRAFT_OF[DRAFTED_V] = { 4, 8, -1, 2, -1, 0 };
static const int32_t ENDS[DRAFTED_V] = { 1, 2, 4, 5, 6, 7 };
static const int32_t PIECES[] = { 4, 8, 6, 7, 2, 1, 0 };
static const pf_token_map MAP = { .n_target = DRAFTED_V,
                                  .n_shared = 4,
                                  .draft_of = DRAFT_OF,
                                  .ends = ENDS,
                                  .pieces = PIECES,
                                  .longest = 2,
                                  .has_mask = true,
                                  .mask = MASK };

typedef struct {
    pf_tiny_side target, draft;
    pf_mapped_backend *mapped;
    pf_peer *verifier, *drafter;
} pair;

/* passes: of a draft with a mask token; AUTO: of one without. */
static pair open_pair(pf_passes passes)
{
    const pf_context_config config = { .max_sequences = DRAFTED_AT_ONCE + 1 };
    pair p = { .target = pf_tiny_side_open(&DRAFTED_TARGET, 1, &config),
               .draft = pf_tiny_side_open(&DRAFT, 1, &config) };
    const pf_forward_backend inner = pf_cpu_backend(p.draft.context);
    const pf_model_verifier_config v = { .max_sequences = DRAFTED_AT_ONCE, .max_draft = MAX_DRAFT };
    const pf_model_drafter_config d = { .max_sequences = DRAFTED_AT_ONCE,
                                        .max_draft = MAX_DRAFT,
                                        .seed = 99,
                                        .pard = passes != PF_PASSES_AUTO,
                                        .pard_token = DRAFTED_V,
                                        .passes = passes };
    pf_error error = { 0 };
    assert_ok(pf_mapped_backend_create(&inner, &MAP, &p.mapped, &error), error);
    assert_ok(pf_model_verifier_create(pf_cpu_backend(p.target.context), &v, &p.verifier, &error), error);
    assert_ok(pf_model_drafter_create(pf_mapped_backend_as_backend(p.mapped), &d, &p.drafter, &error), error);
    return p;
}

static void close_pair(pair *p)
{
    pf_peer_destroy(p->verifier);
    pf_peer_destroy(p->drafter);
    pf_mapped_backend_destroy(p->mapped);
    pf_tiny_side_close(&p->target);
    pf_tiny_side_close(&p->draft);
}

static int32_t n_proposals, n_passes;

static void count_passes(void *user, pf_proposal *proposal)
{
    (void)user;
    if (proposal->n_tokens == 0) return;
    n_proposals++;
    n_passes += proposal->passes;
}

/* Of chains of each length, and of what the drafter chooses. */
static void assert_plain_text(pf_passes passes)
{
    enum { N_NEW = 40 };
    pair p = open_pair(passes);
    const pf_sampling samplings[] = { { .temperature = 0.0f, .top_p = 1.0f },
                                      { .temperature = 0.8f, .top_p = 0.9f, .seed = 5 } };
    int32_t n_accepted = 0;
    for (size_t i = 0; i < PF_COUNT(samplings); i++)
        for (int32_t draft_len = 0; draft_len <= MAX_DRAFT; draft_len++) {
            const pf_duet_request request = { .prompt = DRAFTED_PROMPT,
                                              .n_prompt = 3,
                                              .n_new = N_NEW,
                                              .sampling = samplings[i],
                                              .method = i ? PF_METHOD_COUPLED : PF_METHOD_GREEDY,
                                              .draft_len = draft_len > 0 ? draft_len : MAX_DRAFT,
                                              .adaptive = draft_len == 0 };
            int32_t expected[N_NEW];
            static pf_duet_text text;
            pf_tiny_side_decode(&p.target, &samplings[i], DRAFTED_PROMPT, 3, N_NEW, expected);
            pf_alloc_count_reset();
            pf_duet_run(p.verifier, p.drafter, &request, 1, count_passes, NULL, &text);
            assert_int_equal(pf_alloc_count(), 0);
            assert_int_equal(text.n_tokens, N_NEW);
            assert_memory_equal(text.tokens, expected, sizeof expected);
            n_accepted += text.accepted;
        }
    assert_true(n_accepted > 0);
    close_pair(&p);
}

static void greedy_and_coupled_text_is_the_plain_text_in_any_number_of_passes(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_AUTO; passes < PF_N_PASSES; passes++) {
        n_proposals = n_passes = 0;
        assert_plain_text(passes);
        if (passes == PF_PASSES_ONE) assert_int_equal(n_passes, n_proposals); /* whatever the length */
        if (passes == PF_PASSES_EACH) assert_true(n_passes > n_proposals);
        assert_true(n_proposals > 0);
    }
}

static void assert_rejection_is_exact(pf_passes passes)
{
    pair p = open_pair(passes);
    for (int32_t max_declared = 0; max_declared <= DRAFTED_V; max_declared += 3) {
        int32_t n_refused;
        const double tail = test_drafted_tokens(&p.target, p.verifier, p.drafter, max_declared, NULL, &n_refused);
        if (tail < PF_CHI_FALSE_ALARM)
            fail_msg("%d declared: tail probability %.2g: the loop is lossy", max_declared, tail);
        assert_true(n_refused > DRAFTED_TRIALS / 20);
    }
    close_pair(&p);
}

static void rejection_is_exact_in_any_number_of_passes(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_AUTO; passes < PF_PASSES_EACH; passes++) assert_rejection_is_exact(passes);
}

/* The draft's distribution over all of its ids, of which only those that the target has are sent. */
static void declare_before_restriction(void *user, pf_proposal *proposal)
{
    (void)user;
    static pf_declared declared[DRAFTED_AT_ONCE * MAX_DRAFT];
    static float shares[DRAFTED_AT_ONCE * MAX_DRAFT][DRAFTED_V];
    static uint32_t n;
    pf_declared *own = &declared[n++ % DRAFTED_AT_ONCE * MAX_DRAFT];
    if (!proposal->declared) return;
    for (int32_t i = 0; i < proposal->n_tokens; i++) {
        own[i] = proposal->declared[i];
        float *to = shares[own - declared + i];
        for (int32_t j = 0; j < own[i].n; j++) to[j] = 0.5f * own[i].probabilities[j];
        own[i].probabilities = to;
    }
    proposal->declared = own;
}

static void a_distribution_that_is_not_renormalised_is_caught(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    pair p = open_pair(PF_PASSES_AUTO);
    int32_t n_refused;
    assert_true(test_drafted_tokens(&p.target, p.verifier, p.drafter, DRAFTED_V, declare_before_restriction,
                                    &n_refused) < PF_CHI_FALSE_ALARM);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_and_coupled_text_is_the_plain_text_in_any_number_of_passes),
        cmocka_unit_test(rejection_is_exact_in_any_number_of_passes),
        cmocka_unit_test(a_distribution_that_is_not_renormalised_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
