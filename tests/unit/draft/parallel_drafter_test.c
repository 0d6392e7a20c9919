/*
 * A draft with a mask token by itself, with verdicts that the test makes up: what it proposes in one pass and in two, what that
 * takes, and that masks leave no trace.
 *
 * The reference is the definition: the row behind a prefix, computed alone (tests/support/tiny_side.h).
 */
#include <math.h>

#include "draft/candidate_tree.h"
#include "proto/tree.h"
#include "tests/support/alloc_count.h"
#include "tests/support/draw.h"
#include "tests/support/drafter_bench.h"

enum { MASK = 100, K = 4 };

static bench open_parallel_bench(pf_passes passes)
{
    return open_bench((pf_context_config){ .max_sequences = 5 }, (pf_model_drafter_config){ .max_sequences = 4,
                                                                                            .max_draft = 16,
                                                                                            .seed = 1,
                                                                                            .no_prefix_cache = true,
                                                                                            .pard = true,
                                                                                            .pard_token = MASK,
                                                                                            .passes = passes });
}

static int32_t argmax_of(const float *p)
{
    int32_t best = 0;
    for (int32_t i = 1; i < V; i++)
        if (p[i] > p[best]) best = i;
    return best;
}

/* Token i behind text [n], with masks between them. */
static void define_row(const bench *b, const int32_t *text, int32_t n, int32_t i, float *p)
{
    int32_t prefix[MAX_TOKENS];
    const pf_sampling whole = { .temperature = 1.0f, .top_p = 1.0f };
    memcpy(prefix, text, (size_t)n * sizeof *text);
    for (int32_t j = 0; j < i; j++) prefix[n + j] = MASK;
    pf_tiny_side_distribution(&b->side, &whole, prefix, n + i, p);
}

/* k tokens behind text [n] in one pass; in two, each after the first is predicted again. */
static void define(const bench *b, pf_passes passes, const int32_t *text, int32_t n, int32_t k, int32_t *out)
{
    int32_t first[MAX_TOKENS];
    float p[V];
    const pf_sampling whole = { .temperature = 1.0f, .top_p = 1.0f };
    memcpy(first, text, (size_t)n * sizeof *text);
    for (int32_t i = 0; i < k; i++) {
        define_row(b, text, n, i, p);
        first[n + i] = out[i] = argmax_of(p);
    }
    for (int32_t i = 1; i < k && passes == PF_PASSES_TWO; i++) {
        pf_tiny_side_distribution(&b->side, &whole, first, n + i, p);
        out[i] = argmax_of(p);
    }
}

typedef struct {
    int32_t text[MAX_TOKENS], n;
    uint64_t rng;
} story;

static story begin_story(uint64_t seed)
{
    story s = { .n = N_PROMPT + 1, .rng = seed };
    memcpy(s.text, PROMPT, sizeof PROMPT);
    s.text[N_PROMPT] = 77;
    return s;
}

/* Some of the proposal, then another token or the one that was proposed. */
static void accept_some(story *s, const pf_proposal *p)
{
    const int32_t n_accepted = below(&s->rng, p->n_tokens + 1);
    const bool as_proposed = n_accepted < p->n_tokens && below(&s->rng, 3) == 0;
    memcpy(s->text + s->n, p->tokens, (size_t)(n_accepted + as_proposed) * sizeof *s->text);
    s->n += n_accepted + as_proposed;
    if (!as_proposed) s->text[s->n++] = below(&s->rng, V);
}

/* ---- what is proposed ---------------------------------------------------------------------------------------- */

static void proposals_are_the_rows_of_masks_after_any_verdicts(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_EACH; passes++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            bench b = open_parallel_bench(passes);
            story s = begin_story(seed);
            const pf_proposal *p = begin_drafting(&b, near_peer_open(1), 77);
            for (uint64_t round = 1; s.n < 100; round++) {
                int32_t expected[K];
                if (passes == PF_PASSES_EACH)
                    pf_tiny_side_decode(&b.side, &GREEDY, s.text, s.n, K, expected);
                else
                    define(&b, passes, s.text, s.n, K, expected);
                assert_drafted(p, round, s.n, expected, K);
                assert_null(p->parents);
                const int32_t base = s.n;
                accept_some(&s, p);
                p = commit(&b, round, base, s.text + base, s.n - base);
            }
            close_bench(&b);
        }
}

static void what_is_declared_is_the_row_of_the_mask(void **state)
{
    (void)state;
    bench b = open_parallel_bench(PF_PASSES_ONE);
    pf_open open = sampled_open(1, PF_MAX_DECLARED);
    open.sampling.temperature = 1.0f;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    const story s = begin_story(1);
    assert_int_equal(p->n_tokens, K);
    for (int32_t i = 0; i < K; i++) {
        float row[V];
        define_row(&b, s.text, s.n, i, row);
        assert_int_equal(p->declared[i].n, V);
        for (int32_t j = 0; j < V; j++)
            assert_true(fabsf(p->declared[i].probabilities[j] - row[p->declared[i].ids[j]]) < 1e-6f);
    }
    close_bench(&b);
}

static void a_batch_is_drafted_as_each_sequence_alone(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_TWO; passes++) {
        bench b = open_parallel_bench(passes);
        pf_open opens[3];
        pf_verdict verdicts[3];
        static const int32_t tokens[] = { 77, 78, 79 };
        for (int32_t i = 0; i < 3; i++) {
            opens[i] = near_peer_open((uint64_t)i + 1);
            opens[i].max_draft = K - i;
            verdicts[i] = verdict_of((uint64_t)i + 1, 0, N_PROMPT, &tokens[i], 1);
        }
        const pf_batch batch = { .opens = opens, .n_opens = 3, .verdicts = verdicts, .n_verdicts = 3 };
        const pf_batch *answer = ask(&b, batch);
        assert_int_equal(answer->n_proposals, 3);
        assert_int_equal(pf_model_drafter_counts(b.peer).n_passes, passes == PF_PASSES_ONE ? 1 : 2);
        pf_proposal got[3];
        memcpy(got, answer->proposals, sizeof got);
        for (int32_t i = 0; i < 3; i++) {
            story s = begin_story(1);
            int32_t expected[K];
            const int32_t slot = (int32_t)got[i].sequence - 1;
            s.text[N_PROMPT] = tokens[slot];
            define(&b, passes, s.text, s.n, K - slot, expected);
            assert_drafted(&got[i], 1, s.n, expected, K - slot);
        }
        close_bench(&b);
    }
}

/* ---- what it takes ------------------------------------------------------------------------------------------- */

static void a_round_takes_one_pass_or_two_and_no_more_than_twice_its_tokens(void **state)
{
    (void)state;
    for (pf_passes passes = PF_PASSES_ONE; passes <= PF_PASSES_EACH; passes++) {
        const int32_t expected = passes == PF_PASSES_EACH ? K : passes == PF_PASSES_TWO ? 2 : 1;
        bench b = open_parallel_bench(passes);
        story s = begin_story(4);
        const pf_proposal *p = begin_drafting(&b, near_peer_open(1), 77);
        pf_sequence_cache_counts before = pf_model_drafter_counts(b.peer);
        for (uint64_t round = 1; s.n < 100; round++) {
            assert_int_equal(p->passes, expected);
            const int32_t base = s.n;
            accept_some(&s, p);
            pf_alloc_count_reset();
            p = commit(&b, round, base, s.text + base, s.n - base);
            assert_int_equal(pf_alloc_count(), 0);
            const pf_sequence_cache_counts now = pf_model_drafter_counts(b.peer);
            assert_int_equal(now.n_passes - before.n_passes, expected);
            const int32_t most = (s.n - base) + (K - 1) * (passes == PF_PASSES_TWO ? 2 : 1);
            assert_true(now.n_rows - before.n_rows <= (uint64_t)most);
            before = now;
        }
        close_bench(&b);
    }
}

/* ---- trees --------------------------------------------------------------------------------------------------- */

static int32_t depth_of(const int32_t *parents, int32_t node)
{
    int32_t depth = 0;
    while (parents[node] >= 0) {
        node = parents[node];
        depth++;
    }
    return depth;
}

static void one_pass_gives_a_tree_whose_candidates_stand_behind_every_node(void **state)
{
    (void)state;
    bench b = open_parallel_bench(PF_PASSES_ONE);
    pf_open open = near_peer_open(1);
    open.max_draft = 16;
    open.adaptive_draft = open.trees = true;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    const story s = begin_story(1);
    assert_int_equal(p->n_tokens, 16);
    assert_non_null(p->parents);
    bool is_product = false;
    for (int32_t i = 0; i < p->n_tokens; i++) {
        float row[V];
        define_row(&b, s.text, s.n, depth_of(p->parents, i), row);
        int32_t rank = 0;
        for (int32_t j = 0; j < V; j++) rank += row[j] > row[p->tokens[i]];
        assert_in_range(rank, 0, PF_TREE_CANDIDATES - 1);
        assert_int_equal(pf_tree_child(p->tokens, p->parents, p->n_tokens, p->parents[i], p->tokens[i]), i);
        for (int32_t j = 0; j < i; j++)
            is_product |= p->tokens[j] == p->tokens[i] && p->parents[j] != p->parents[i] &&
                          depth_of(p->parents, j) == depth_of(p->parents, i);
    }
    assert_true(is_product);
    close_bench(&b);
}

/* ---- limits -------------------------------------------------------------------------------------------------- */

static void a_mask_outside_the_vocabulary_is_refused(void **state)
{
    (void)state;
    pf_tiny_side side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ .max_sequences = 1 });
    for (int32_t i = 0; i < 2; i++) {
        const pf_model_drafter_config config = {
            .max_sequences = 1, .max_draft = 4, .pard = true, .pard_token = i ? V : -1
        };
        pf_peer *peer = NULL;
        pf_error error = { 0 };
        assert_int_equal(pf_model_drafter_create(pf_cpu_backend(side.context), &config, &peer, &error), PF_INVALID);
        assert_non_null(strstr(error.text, "pard_token"));
    }
    pf_tiny_side_close(&side);
}

/* A prompt that fills the first pass leaves no row for masks: the proposal is shorter. */
static void masks_keep_within_the_rows_of_a_pass(void **state)
{
    (void)state;
    for (int32_t max_rows = 4; max_rows <= 12; max_rows++) {
        bench b = open_bench(
            (pf_context_config){ .max_sequences = 2, .max_rows = max_rows },
            (pf_model_drafter_config){
                .max_sequences = 1, .max_draft = 8, .pard = true, .pard_token = MASK, .passes = PF_PASSES_ONE });
        pf_open open = near_peer_open(1);
        open.max_draft = 8;
        const pf_proposal *p = begin_drafting(&b, open, 77);
        assert_in_range(p->n_tokens, 1, 8);
        const story s = begin_story(1);
        int32_t expected[8];
        define(&b, PF_PASSES_ONE, s.text, s.n, p->n_tokens, expected);
        assert_drafted(p, 1, s.n, expected, p->n_tokens);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_are_the_rows_of_masks_after_any_verdicts),
        cmocka_unit_test(what_is_declared_is_the_row_of_the_mask),
        cmocka_unit_test(a_batch_is_drafted_as_each_sequence_alone),
        cmocka_unit_test(a_round_takes_one_pass_or_two_and_no_more_than_twice_its_tokens),
        cmocka_unit_test(one_pass_gives_a_tree_whose_candidates_stand_behind_every_node),
        cmocka_unit_test(a_mask_outside_the_vocabulary_is_refused),
        cmocka_unit_test(masks_keep_within_the_rows_of_a_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
