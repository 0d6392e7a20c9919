/*
 * A draft with a mask token and a verifier together: the text is the target's, however many passes a proposal takes.
 *
 * The references are computed by the definition (tests/support/tiny_side.h): one token a pass; for sampling that is not
 * bit-identical, exact enumeration in double.
 */
#include "draft/model_drafter.h"
#include "model/backend/cpu_backend.h"
#include "tests/support/alloc_count.h"
#include "tests/support/chi_square.h"
#include "tests/support/duet.h"
#include "tests/support/test.h"
#include "tests/support/tiny_side.h"
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

#ifdef __SANITIZE_ADDRESS__
enum { BATCHES = 60, TELLS_WRONG_RULES = 0 };
#else
enum { BATCHES = 300, TELLS_WRONG_RULES = 1 };
#endif
enum { V = 6, AT_ONCE = 32, TRIALS = AT_ONCE * BATCHES };
static const pf_tiny_model SMALL_TARGET = {
    .seed = 21, .vocab = V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};
static const pf_tiny_model SMALL_DRAFT = {
    .seed = 22, .vocab = V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};
static const pf_sampling SMALL_SAMPLING = { .temperature = 3.0f, .top_p = 0.95f };
static const int32_t SMALL_PROMPT[] = { 3, 1, 4 };

/* The joint distribution of tokens 1 to 3 behind the prompt and token 0, which comes from the prefill: the drafted ones. */
static void enumerate(const pf_tiny_side *target, double *expected)
{
    int32_t text[] = { SMALL_PROMPT[0], SMALL_PROMPT[1], SMALL_PROMPT[2], 0, 0, 0 };
    float p[4][V];
    memset(expected, 0, V * V * V * sizeof *expected);
    pf_tiny_side_distribution(target, &SMALL_SAMPLING, text, 3, p[0]);
    for (int32_t i = 0; i < V * V * V; i++) {
        for (int32_t j = 0; j < 3; j++) text[3 + j] = i / (int32_t[]){ V * V, V, 1 }[j] % V;
        for (int32_t j = 1; j <= 3; j++) pf_tiny_side_distribution(target, &SMALL_SAMPLING, text, 3 + j, p[j]);
        for (int32_t d = 0; d < V; d++)
            expected[(text[4] * V + text[5]) * V + d] +=
                (double)p[0][text[3]] * (double)p[1][text[4]] * (double)p[2][text[5]] * (double)p[3][d];
    }
}

static double test_three_drafted_tokens(pf_passes passes, int32_t max_declared, pf_duet_tamper *tamper)
{
    pair p = open_pair(&SMALL_TARGET, &SMALL_DRAFT, passes, AT_ONCE);
    static double expected[V * V * V];
    static int64_t counts[V * V * V];
    static pf_duet_text texts[AT_ONCE];
    static pf_duet_request requests[AT_ONCE];
    int32_t n_refused = 0;
    memset(counts, 0, sizeof counts);
    enumerate(&p.target, expected);
    for (uint64_t batch = 0; batch < BATCHES; batch++) {
        for (uint64_t i = 0; i < AT_ONCE; i++) {
            requests[i] = (pf_duet_request){ .sequence = i,
                                             .prompt = SMALL_PROMPT,
                                             .n_prompt = 3,
                                             .n_new = 5,
                                             .sampling = SMALL_SAMPLING,
                                             .method = PF_METHOD_REJECTION,
                                             .draft_len = 3,
                                             .max_declared = max_declared };
            requests[i].sampling.seed = batch * AT_ONCE + i;
        }
        pf_duet_run(p.verifier, p.drafter, requests, AT_ONCE, tamper, NULL, texts);
        for (int32_t i = 0; i < AT_ONCE; i++) {
            const int32_t *t = texts[i].tokens;
            counts[(t[1] * V + t[2]) * V + t[3]]++;
            n_refused += texts[i].drafted - texts[i].accepted;
        }
    }
    close_pair(&p);
    if (n_refused < TRIALS / 20) fail_msg("only %d tokens were refused: the test is too easy", n_refused);
    return pf_chi_square_test(counts, expected, V * V * V, TRIALS);
}

static void rejection_is_exact_in_one_pass_and_in_two(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_TWO; passes++)
        for (int32_t max_declared = 0; max_declared <= V; max_declared += 3) {
            const double tail = test_three_drafted_tokens(passes, max_declared, NULL);
            if (tail < PF_CHI_FALSE_ALARM)
                fail_msg("%d passes, %d declared: tail probability %.2g: the loop is lossy", (int)passes, max_declared,
                         tail);
        }
}

/* The distribution of another pass than the token's. */
static void declare_that_of_the_token_before(void *user, pf_proposal *proposal)
{
    (void)user;
    static pf_declared declared[AT_ONCE * MAX_DRAFT];
    static int32_t n;
    if (!proposal->declared) return;
    pf_declared *own = &declared[n++ % AT_ONCE * MAX_DRAFT];
    for (int32_t i = 0; i < proposal->n_tokens; i++) own[i] = proposal->declared[i > 0 ? i - 1 : 0];
    proposal->declared = own;
}

static void a_distribution_of_another_row_is_caught(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_TWO; passes++)
        assert_true(test_three_drafted_tokens(passes, V, declare_that_of_the_token_before) < PF_CHI_FALSE_ALARM);
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
