/*
 * A draft with a mask token and a verifier together: the text is the target's, however many passes a proposal takes.
 *
 * The references are computed by the definition (tests/support/tiny_side.h): one token a pass; for sampling that is not
 * bit-identical, exact enumeration in double.
 */
#include "draft/model_drafter.h"
#include "model/backend/cpu_backend.h"
#include "tests/support/alloc_count.h"
#include "tests/support/drafted_tokens.h"
#include "verify/model_verifier.h"

enum { N_NEW = 24, N_PROMPTS = 3, N_PROMPT = 7, MASK = 3, MAX_DRAFT = 8 };

static const pf_tiny_model TARGET = { .seed = 11 };
static const pf_tiny_model DRAFT = { .seed = 12, .layers = 1 };
static const int32_t PROMPTS[N_PROMPTS][N_PROMPT] = {
    { 1, 2, 3, 4, 5, 6, 7 },
    { 100, 3, 100, 3, 100, 3, 99 }, /* the mask is a token like any other */
    { 1, 1, 1, 1, 1, 1, 1 },
};
static const pf_sampling GREEDY = { .temperature = 0.0f, .top_p = 1.0f };

typedef struct {
    pf_tiny_side target, draft;
    pf_peer *verifier, *drafter;
} pair;

static pair open_pair(const pf_tiny_model *target, const pf_tiny_model *draft, pf_passes passes, int32_t n_sequences)
{
    const pf_context_config config = { .max_sequences = n_sequences + 1 };
    pair p = { .target = pf_tiny_side_open(target, 1, &config), .draft = pf_tiny_side_open(draft, 1, &config) };
    pf_error error = { 0 };
    const pf_model_verifier_config v = { .max_sequences = n_sequences, .max_draft = MAX_DRAFT };
    const pf_model_drafter_config d = { .max_sequences = n_sequences,
                                        .max_draft = MAX_DRAFT,
                                        .seed = 99,
                                        .pard = true,
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

/* ---- bit-identical ------------------------------------------------------------------------------------------- */

/* All prompts at once, at one length; 0: the drafter chooses, and proposes trees. What was accepted. */
static int32_t assert_plain_text(const pair *p, pf_method method, pf_sampling sampling, int32_t draft_len)
{
    pf_duet_request requests[N_PROMPTS];
    static pf_duet_text texts[N_PROMPTS];
    int32_t n_accepted = 0;
    for (int32_t i = 0; i < N_PROMPTS; i++)
        requests[i] = (pf_duet_request){ .sequence = (uint64_t)i,
                                         .prompt = PROMPTS[i],
                                         .n_prompt = N_PROMPT,
                                         .n_new = N_NEW,
                                         .sampling = sampling,
                                         .method = method,
                                         .draft_len = draft_len > 0 ? draft_len : MAX_DRAFT,
                                         .adaptive = draft_len == 0,
                                         .max_declared = 128 };
    pf_alloc_count_reset();
    pf_duet_run(p->verifier, p->drafter, requests, N_PROMPTS, NULL, NULL, texts);
    assert_int_equal(pf_alloc_count(), 0);
    for (int32_t i = 0; i < N_PROMPTS; i++) {
        int32_t expected[N_NEW];
        pf_tiny_side_decode(&p->target, &sampling, PROMPTS[i], N_PROMPT, N_NEW, expected);
        assert_int_equal(texts[i].n_tokens, N_NEW);
        assert_memory_equal(texts[i].tokens, expected, sizeof expected);
        n_accepted += texts[i].accepted;
    }
    return n_accepted;
}

static void greedy_and_coupled_text_is_the_plain_text_in_any_number_of_passes(void **state)
{
    (void)state;
    const pf_sampling warm = { .temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .seed = 5 };
    const pf_tiny_model *drafts[] = { &TARGET, &DRAFT };
    for (pf_passes passes = PF_PASSES_AUTO; passes < PF_N_PASSES; passes++)
        for (size_t i = 0; i < PF_COUNT(drafts); i++) {
            pair p = open_pair(&TARGET, drafts[i], passes, N_PROMPTS);
            int32_t n_accepted = 0;
            for (int32_t draft_len = 0; draft_len <= MAX_DRAFT; draft_len += draft_len < 2 ? 1 : 3) {
                n_accepted += assert_plain_text(&p, PF_METHOD_GREEDY, GREEDY, draft_len);
                n_accepted += assert_plain_text(&p, PF_METHOD_COUPLED, warm, draft_len);
            }
            if (drafts[i] == &TARGET) assert_true(n_accepted > N_NEW); /* the first token of each proposal is right */
            close_pair(&p);
        }
}

/* ---- the distribution ---------------------------------------------------------------------------------------- */

static const pf_tiny_model SMALL_DRAFT = {
    .seed = 22, .vocab = DRAFTED_V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};

static double test_in(pf_passes passes, int32_t max_declared, pf_duet_tamper *tamper)
{
    pair p = open_pair(&DRAFTED_TARGET, &SMALL_DRAFT, passes, DRAFTED_AT_ONCE);
    int32_t n_refused;
    const double tail = test_drafted_tokens(&p.target, p.verifier, p.drafter, max_declared, tamper, &n_refused);
    close_pair(&p);
    if (n_refused < DRAFTED_TRIALS / 20) fail_msg("only %d tokens were refused: the test is too easy", n_refused);
    return tail;
}

static void rejection_is_exact_in_one_pass_and_in_two(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_TWO; passes++)
        for (int32_t max_declared = 0; max_declared <= DRAFTED_V; max_declared += 3) {
            const double tail = test_in(passes, max_declared, NULL);
            if (tail < PF_CHI_FALSE_ALARM)
                fail_msg("%d passes, %d declared: tail probability %.2g: the loop is lossy", (int)passes, max_declared,
                         tail);
        }
}

/* The distribution of another pass than the token's. */
static void declare_that_of_the_token_before(void *user, pf_proposal *proposal)
{
    (void)user;
    static pf_declared declared[DRAFTED_AT_ONCE * MAX_DRAFT];
    static int32_t n;
    if (!proposal->declared) return;
    pf_declared *own = &declared[n++ % DRAFTED_AT_ONCE * MAX_DRAFT];
    for (int32_t i = 0; i < proposal->n_tokens; i++) own[i] = proposal->declared[i > 0 ? i - 1 : 0];
    proposal->declared = own;
}

static void a_distribution_of_another_row_is_caught(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_TWO; passes++)
        assert_true(test_in(passes, DRAFTED_V, declare_that_of_the_token_before) < PF_CHI_FALSE_ALARM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_and_coupled_text_is_the_plain_text_in_any_number_of_passes),
        cmocka_unit_test(rejection_is_exact_in_one_pass_and_in_two),
        cmocka_unit_test(a_distribution_of_another_row_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
