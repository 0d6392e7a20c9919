/*
 * The drafter by itself, with verdicts that the test makes up: what it proposes, what it declares, and that whatever
 * it went through before leaves no trace.
 */
#include <math.h>

#include "tests/support/chi_square.h"
#include "tests/support/drafter_bench.h"
#include "tests/support/draw.h"
#include "tests/support/spoiled_backend.h"

static const uint64_t MS = 1000 * 1000;

/* ---- what is proposed ---------------------------------------------------------------------------------------- */

static void a_greedy_proposal_equals_greedy_decoding_of_the_draft(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    int32_t text[N_PROMPT + 1 + 4];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    pf_tiny_side_decode(&b.side, &GREEDY, text, N_PROMPT + 1, 4, text + N_PROMPT + 1);
    const pf_proposal *p = begin_drafting(&b, near_peer_open(1), 77);
    assert_drafted(p, 1, N_PROMPT + 1, text + N_PROMPT + 1, 4);
    assert_null(p->declared);
    assert_null(p->parents);
    close_bench(&b);
}

static void a_coupled_proposal_is_drawn_with_the_targets_noise(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const pf_sampling warm = { .temperature = 2.0f, .top_k = 40, .top_p = 0.95f, .seed = 6 };
    int32_t text[N_PROMPT + 1 + 4];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    pf_tiny_side_decode(&b.side, &warm, text, N_PROMPT + 1, 4, text + N_PROMPT + 1);
    pf_open open = near_peer_open(1);
    open.sampling = warm;
    open.method = PF_METHOD_COUPLED;
    open.max_declared = 8;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    assert_drafted(p, 1, N_PROMPT + 1, text + N_PROMPT + 1, 4);
    assert_null(p->declared);
    close_bench(&b);
}

static void without_declared_distributions_the_most_probable_token_is_proposed(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    int32_t greedy[4];
    memcpy(greedy, begin_drafting(&b, near_peer_open(1), 77)->tokens, sizeof greedy);
    pf_open open = near_peer_open(2);
    open.sampling = (pf_sampling){ .temperature = 2.0f, .top_p = 1.0f };
    open.method = PF_METHOD_REJECTION;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    assert_drafted(p, 1, N_PROMPT + 1, greedy, 4);
    assert_null(p->declared);
    close_bench(&b);
}

static void the_draft_distribution_is_truncated_and_holds_the_token(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    for (int32_t max_declared = 1; max_declared <= PF_MAX_DECLARED; max_declared *= 4) {
        const pf_proposal *p = begin_drafting(&b, sampled_open(1, max_declared), 77);
        assert_int_equal(p->n_tokens, 4);
        for (int32_t i = 0; i < 4; i++) {
            const pf_declared *q = &p->declared[i];
            double sum = 0.0;
            bool holds = false;
            assert_int_equal(q->n, max_declared < V ? max_declared : V);
            for (int32_t j = 0; j < q->n; j++) {
                sum += (double)q->probabilities[j];
                holds = holds || q->ids[j] == p->tokens[i];
                assert_true(q->probabilities[j] > 0.0f);
                assert_true(j == 0 || q->ids[j] > q->ids[j - 1]);
            }
            assert_true(holds);
            assert_true(fabs(sum - 1.0) < 1e-5);
        }
        end_drafting(&b, 1);
    }
    close_bench(&b);
}

static void tokens_are_drawn_from_the_draft_distribution_independently_in_every_sequence(void **state)
{
    (void)state;
    enum { N = 6, TRIALS = 20000 };
    bench b = open_plain_bench();
    int64_t counts[N * N] = { 0 };
    int32_t ids[N];
    double q[N];
    int32_t last = -1;
    for (int32_t trial = 0; trial < TRIALS; trial++) {
        const pf_proposal *p = begin_drafting(&b, sampled_open(1, N), 77);
        const pf_declared *first = &p->declared[0];
        int32_t drawn = -1;
        for (int32_t j = 0; j < N; j++) {
            if (trial == 0) {
                ids[j] = first->ids[j];
                q[j] = (double)first->probabilities[j];
            }
            assert_int_equal(first->ids[j], ids[j]);
            assert_true((double)first->probabilities[j] == q[j]);
            if (ids[j] == p->tokens[0]) drawn = j;
        }
        assert_true(drawn >= 0);
        if (trial % 2 == 1) counts[last * N + drawn]++; /* pairs: one after another, the same prompt */
        last = drawn;
        end_drafting(&b, 1);
    }
    double expected[N * N];
    for (int32_t i = 0; i < N; i++)
        for (int32_t j = 0; j < N; j++) expected[i * N + j] = q[i] * q[j];
    const double tail = pf_chi_square_test(counts, expected, PF_COUNT(expected), TRIALS / 2);
    if (tail < PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: not drawn from what is declared", tail);
    close_bench(&b);
}

static void first_proposal(bench *b, uint64_t seed, int32_t *out)
{
    pf_open open = sampled_open(1, 64);
    open.sampling.seed = seed;
    memcpy(out, begin_drafting(b, open, 77)->tokens, 4 * sizeof *out);
    end_drafting(b, 1);
}

static void a_seed_in_the_open_is_the_seed_and_a_served_drafter_draws_its_own_for_those_without(void **state)
{
    (void)state;
    for (uint64_t own = 0; own <= 1; own++) { /* 0: in process */
        int32_t a[3][4], again[3][4];
        bench b = open_bench((pf_context_config){ .max_sequences = 1 },
                             (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 8, .seed = own });
        for (uint64_t seed = 0; seed < 3; seed++) first_proposal(&b, seed, a[seed]);
        for (uint64_t seed = 0; seed < 3; seed++) first_proposal(&b, seed, again[seed]);
        assert_memory_equal(a[1], again[1], sizeof a[1]);
        assert_memory_equal(a[2], again[2], sizeof a[2]);
        assert_memory_not_equal(a[1], a[2], sizeof a[1]);
        if (own == 0) assert_memory_equal(a[0], again[0], sizeof a[0]);
        if (own != 0) assert_memory_not_equal(a[0], again[0], sizeof a[0]);
        close_bench(&b);
    }
}

/* What was refused in a round says nothing about the next at the same position. */
static void draws_of_different_rounds_are_independent(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = sampled_open(1, 64);
    open.sampling.seed = 5;
    int32_t drawn[3][4];
    const uint64_t rounds[] = { 7, 7, 8 };
    for (uint32_t i = 0; i < 3; i++) {
        open.incarnation = i + 1;
        open.next_round = rounds[i];
        memcpy(drawn[i], begin_drafting(&b, open, 77)->tokens, sizeof drawn[i]);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
    close_bench(&b);
}

static void tokens_drawn_before_a_row_of_nans_are_proposed(void **state)
{
    (void)state;
    bench plain = open_plain_bench();
    int32_t drafted[4];
    memcpy(drafted, begin_drafting(&plain, near_peer_open(1), 77)->tokens, sizeof drafted);
    close_bench(&plain);
    assert_int_not_equal(drafted[0], drafted[1]);
    const pf_tiny_model ends = { .seed = MODEL.seed, .nan_token = drafted[1] };
    const pf_model_drafter_config config = { .max_sequences = 1, .max_draft = 8 };
    bench b = open_near_bench(&ends, (pf_context_config){ .max_sequences = 1 }, create_drafter, &config);
    assert_drafted(begin_drafting(&b, near_peer_open(1), 77), 1, N_PROMPT + 1, drafted, 2);
    close_bench(&b);
}

static void invalid_rows_of_a_draft_are_counted_with_the_first_position(void **state)
{
    (void)state;
    static const spoil spoils[] = { { .rows = 1, .id = 3, .value = NAN },
                                    { .rows = 1, .id = SPOIL_ALL_IDS, .value = NAN },
                                    { .rows = 1, .id = 3, .value = INFINITY },
                                    { .rows = 1, .id = 3, .value = -INFINITY } };
    pf_open opens[] = { near_peer_open(1), sampled_open(1, 64), sampled_open(1, 0), sampled_open(1, 0) };
    opens[3].method = PF_METHOD_COUPLED;
    for (size_t i = 0; i < PF_COUNT(spoils); i++)
        for (size_t j = 0; j < PF_COUNT(opens); j++) {
            bench b = { .side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ .max_sequences = 1 }) };
            const pf_model_drafter_config config = { .max_sequences = 1, .max_draft = 8 };
            pf_error error = { 0 };
            pf_invalid_logits invalid;
            spoiled = spoils[i];
            assert_ok(pf_model_drafter_create(spoiled_backend(b.side.context), &config, &b.peer, &error), error);
            const int32_t n = begin_drafting(&b, opens[j], 77)->n_tokens;
            assert_int_equal(n, spoils[i].id == SPOIL_ALL_IDS ? 0 : 4);
            pf_peer_take_invalid_logits(b.peer, &invalid);
            const bool any = !isinf(spoils[i].value) || spoils[i].value > 0.0f;
            assert_int_equal(invalid.n_rows, any ? (n > 0 ? n : 1) : 0);
            if (any) assert_int_equal(invalid.first_position, N_PROMPT);
            if (any) assert_int_equal(invalid.first_id, n > 0 ? 3 : 0);
            close_bench(&b);
        }
}

static void ids_past_those_that_exist_are_never_proposed(void **state)
{
    (void)state;
    enum { EXISTING = 20 };
    bench b = open_bench((pf_context_config){ .max_sequences = 1 },
                         (pf_model_drafter_config){
                             .max_sequences = 1, .max_draft = 8, .info = &(pf_model_info){ .vocab_size = EXISTING } });
    pf_open opens[] = { near_peer_open(1), sampled_open(1, 64), sampled_open(1, 0) };
    for (size_t i = 0; i < PF_COUNT(opens); i++) {
        const pf_proposal *p = begin_drafting(&b, opens[i], 77);
        assert_int_equal(p->n_tokens, 4);
        for (int32_t j = 0; j < p->n_tokens; j++) {
            assert_in_range(p->tokens[j], 0, EXISTING - 1);
            if (p->declared) assert_int_equal(p->declared[j].n, EXISTING);
        }
        end_drafting(&b, 1);
    }
    close_bench(&b);
}

/* 30 of the 128 ids are left: 50 to 59 and 100 to 119. The last range goes past the vocabulary. */
static const int32_t EXCLUDED[] = { 0, 50, 60, 100, 120, 500 };

static bool is_excluded(int32_t id)
{
    return id < 50 || (id >= 60 && id < 100) || id >= 120;
}

static pf_open excluding(pf_open open)
{
    open.excluded = EXCLUDED;
    open.n_excluded = 3;
    return open;
}

static void excluded_ids_are_never_proposed(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open coupled = sampled_open(1, 0), adaptive = near_peer_open(1);
    coupled.method = PF_METHOD_COUPLED;
    adaptive.adaptive_draft = adaptive.trees = true;
    const pf_open opens[] = { near_peer_open(1), sampled_open(1, 64), sampled_open(1, 0), coupled, adaptive };
    for (size_t i = 0; i < PF_COUNT(opens); i++) {
        const pf_proposal *p = begin_drafting(&b, excluding(opens[i]), 77);
        assert_true(p->n_tokens > 0);
        for (int32_t j = 0; j < p->n_tokens; j++) assert_false(is_excluded(p->tokens[j]));
        end_drafting(&b, 1);
    }
    close_bench(&b);
}

static void ids_that_one_sequence_excludes_are_proposed_for_the_next(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    int32_t plain[4];
    memcpy(plain, begin_drafting(&b, near_peer_open(1), 77)->tokens, sizeof plain);
    bool any = false;
    for (int32_t i = 0; i < 4; i++) any |= is_excluded(plain[i]);
    assert_true(any);
    end_drafting(&b, 1);
    (void)begin_drafting(&b, excluding(near_peer_open(1)), 77);
    end_drafting(&b, 1);
    assert_drafted(begin_drafting(&b, near_peer_open(1), 77), 1, N_PROMPT + 1, plain, 4);
    close_bench(&b);
}

static void what_is_declared_gives_excluded_ids_nothing_and_the_others_their_share(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    double all[V], left = 0.0, sum = 0.0;
    const pf_proposal *p = begin_drafting(&b, sampled_open(1, PF_MAX_DECLARED), 77);
    assert_int_equal(p->declared[0].n, V);
    for (int32_t i = 0; i < V; i++) {
        all[i] = (double)p->declared[0].probabilities[i];
        if (!is_excluded(i)) left += all[i];
    }
    end_drafting(&b, 1);
    p = begin_drafting(&b, excluding(sampled_open(1, PF_MAX_DECLARED)), 77);
    const pf_declared *q = &p->declared[0];
    assert_int_equal(q->n, 30);
    for (int32_t i = 0; i < q->n; i++) {
        assert_false(is_excluded(q->ids[i]));
        assert_true(fabs((double)q->probabilities[i] - all[q->ids[i]] / left) < 1e-6);
        sum += (double)q->probabilities[i];
    }
    assert_true(fabs(sum - 1.0) < 1e-5);
    close_bench(&b);
}

static void a_sequence_that_excludes_every_id_gets_empty_proposals(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    static const int32_t everything[] = { 0, V };
    pf_open opens[] = { near_peer_open(1), sampled_open(1, 64) };
    for (size_t i = 0; i < PF_COUNT(opens); i++) {
        opens[i].excluded = everything;
        opens[i].n_excluded = 1;
        const pf_proposal *p = begin_drafting(&b, opens[i], 77);
        assert_true(p->n_tokens == 0);
        end_drafting(&b, 1);
    }
    close_bench(&b);
}

static void the_length_of_a_proposal_follows_every_limit(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const struct {
        int32_t max_draft, max_tokens, expected;
    } cases[] = {
        { 4, 0, 4 },
        { 64, 0, 8 }, /* the drafter's own limit */
        { 4, N_PROMPT + 1 + 9, 4 },
        { 4, N_PROMPT + 1 + 4, 3 }, /* the target adds one of its own */
        { 4, N_PROMPT + 1 + 2, 1 },
        { 4, N_PROMPT + 1 + 1, 1 }, /* at least one */
        { 4, N_PROMPT + 1, 0 },     /* nothing is left */
        { 4, 2, 0 },
        { 4, 1, 0 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_open open = near_peer_open(1);
        open.max_draft = cases[i].max_draft;
        open.max_tokens = cases[i].max_tokens;
        assert_int_equal(begin_drafting(&b, open, 77)->n_tokens, cases[i].expected);
        end_drafting(&b, 1);
    }
    close_bench(&b);
}

/* ---- rollback ------------------------------------------------------------------------------------------------ */

/* What a proposal says, kept while its drafter is asked for another. */
typedef struct {
    int32_t n_tokens, tokens[PF_MAX_DRAFT_TOKENS];
    int32_t n_declared, ids[PF_MAX_DECLARED]; /* for its first token */
    float q[PF_MAX_DECLARED];
} kept;

static kept keep(const pf_proposal *p)
{
    kept k = { .n_tokens = p->n_tokens, .n_declared = p->declared ? p->declared[0].n : 0 };
    memcpy(k.tokens, p->tokens, (size_t)k.n_tokens * sizeof *k.tokens);
    if (k.n_declared == 0) return k;
    memcpy(k.ids, p->declared[0].ids, (size_t)k.n_declared * sizeof *k.ids);
    memcpy(k.q, p->declared[0].probabilities, (size_t)k.n_declared * sizeof *k.q);
    return k;
}

/* A sequence whose text a target makes up. */
typedef struct {
    int32_t text[MAX_TOKENS], n;
    uint64_t rng;
} story;

/* A verdict that accepts some, none or all of a proposal, and then commits the token that was proposed next or another;
 * now and then several without a proposal between them. */
static void accept_some(story *s, const kept *p)
{
    const int32_t n_accepted = below(&s->rng, p->n_tokens + 1);
    memcpy(s->text + s->n, p->tokens, (size_t)n_accepted * sizeof *s->text);
    s->n += n_accepted;
    const bool as_proposed = n_accepted < p->n_tokens && below(&s->rng, 4) == 0;
    s->text[s->n++] = as_proposed ? p->tokens[n_accepted] : below(&s->rng, V);
    for (int32_t more = below(&s->rng, 3); more > 0; more--)
        s->text[s->n++] = below(&s->rng, V); /* of another proposal */
}

/* The drafter proposes for a sequence that has just been opened with the same text what it proposed for the story. Draws
 * are each sequence's own: where p was drawn, what it was drawn from is compared. */
static void assert_fresh_one_is_the_same(bench *b, pf_open fresh, const story *s, const kept *p)
{
    fresh.sequence = 2;
    fresh.tokens = s->text;
    fresh.n_tokens = s->n - 1;
    const pf_proposal *proposal = begin_drafting(b, fresh, s->text[s->n - 1]);
    assert_int_equal(proposal->base, s->n);
    const kept other = keep(proposal);
    assert_int_equal(other.n_declared, p->n_declared);
    if (p->n_declared > 0) {
        assert_memory_equal(other.ids, p->ids, (size_t)p->n_declared * sizeof *p->ids);
        assert_memory_equal(other.q, p->q, (size_t)p->n_declared * sizeof *p->q);
    } else {
        assert_int_equal(other.n_tokens, p->n_tokens);
        assert_memory_equal(other.tokens, p->tokens, (size_t)p->n_tokens * sizeof *p->tokens);
    }
    end_drafting(b, 2);
}

/* In the same drafter the fresh one takes its prefix from the story; in the other all is computed. */
static void assert_leaves_no_trace(pf_open open, uint32_t seed)
{
    bench b = open_plain_bench();
    bench forgetful =
        open_bench((pf_context_config){ .max_sequences = 1 },
                   (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 8, .seed = 1, .no_prefix_cache = true });
    story s = { .n = N_PROMPT + 1, .rng = seed };
    memcpy(s.text, PROMPT, sizeof PROMPT);
    s.text[N_PROMPT] = 77;
    kept p = keep(begin_drafting(&b, open, 77));
    for (uint64_t round = 1; s.n < 90; round++) {
        int32_t base = s.n, n_verdicts = 0;
        pf_verdict verdicts[2];
        accept_some(&s, &p);
        verdicts[n_verdicts++] = verdict_of(1, round, base, s.text + base, s.n - base);
        if (below(&s.rng, 4) == 0) { /* the target goes on alone */
            base = s.n;
            s.text[s.n++] = below(&s.rng, V);
            verdicts[n_verdicts++] = verdict_of(1, ++round, base, s.text + base, 1);
        }
        p = keep(ask_proposal(&b, (pf_batch){ .verdicts = verdicts, .n_verdicts = n_verdicts }));
        assert_fresh_one_is_the_same(&b, open, &s, &p);
        assert_fresh_one_is_the_same(&forgetful, open, &s, &p);
    }
    assert_true(pf_model_drafter_counts(b.peer).n_reusing > 5);
    assert_int_equal(pf_model_drafter_counts(forgetful.peer).n_reused, 0);
    close_bench(&forgetful);
    close_bench(&b);
}

static void after_any_verdicts_a_fresh_drafter_proposes_the_same(void **state)
{
    (void)state;
    pf_open coupled = near_peer_open(1);
    coupled.method = PF_METHOD_COUPLED;
    coupled.sampling = (pf_sampling){ .temperature = 1.0f, .top_p = 1.0f, .seed = 4 };
    for (uint32_t seed = 1; seed <= 4; seed++) {
        assert_leaves_no_trace(near_peer_open(1), seed);
        assert_leaves_no_trace(coupled, seed);
        assert_leaves_no_trace(sampled_open(1, 64), seed);
    }
}

static void a_prompt_that_a_closed_sequence_began_is_not_read_again(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = near_peer_open_long(1);
    open.max_draft = 1; /* a pass each */
    (void)begin_drafting(&b, open, 77);
    end_drafting(&b, 1);
    assert_int_equal(pf_model_drafter_counts(b.peer).n_rows, N_LONG_PROMPT + 1);
    open.sequence = 2;
    (void)begin_drafting(&b, open, 78); /* another token behind it */
    assert_int_equal(pf_model_drafter_counts(b.peer).n_rows, N_LONG_PROMPT + 2);
    assert_int_equal(pf_model_drafter_counts(b.peer).n_reused, N_LONG_PROMPT);
    close_bench(&b);
}

static void what_the_cache_retains_goes_with_the_drafter(void **state)
{
    (void)state;
    pf_tiny_side side = pf_tiny_side_open(&MODEL, 1, &(pf_context_config){ .max_sequences = 2 });
    const size_t n_free = pf_kv_free_pages(pf_context_kv(side.context));
    const pf_model_drafter_config config = { .max_sequences = 2, .max_draft = 4 };
    bench b = { .side = side };
    pf_error error;
    assert_ok(pf_model_drafter_create(pf_cpu_backend(side.context), &config, &b.peer, &error), error);
    (void)begin_drafting(&b, near_peer_open_long(1), 77);
    end_drafting(&b, 1);
    assert_true(pf_kv_free_pages(pf_context_kv(side.context)) < n_free);
    pf_peer_destroy(b.peer);
    assert_int_equal(pf_kv_free_pages(pf_context_kv(side.context)), n_free);
    pf_tiny_side_close(&side);
}

/* By a clock that counts the rows of its passes. */
static void confirmed_tokens_are_not_computed_again(void **state)
{
    (void)state;
    uint64_t n_rows = 0;
    bench b = open_bench((pf_context_config){ .max_sequences = 1 },
                         (pf_model_drafter_config){ .max_sequences = 1,
                                                    .max_draft = 4,
                                                    .simulate_token_ns = 1,
                                                    .simulate_rows = 1,
                                                    .stop = { .clock_ns = &n_rows } });
    int32_t text[MAX_TOKENS], n = N_PROMPT + 1;
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    const pf_proposal *p = begin_drafting(&b, near_peer_open(1), 77);
    assert_int_equal(n_rows, N_PROMPT + 1 + 3);
    memcpy(text + n, p->tokens, 4 * sizeof *text);
    text[n + 4] = 5;
    n_rows = 0;
    p = commit(&b, 1, n, text + n, 5); /* all four, and one more: the fourth has not been fed */
    assert_int_equal(n_rows, 2 + 3);
    n += 5;
    text[n] = p->tokens[0];
    text[n + 1] = (p->tokens[1] + 1) % V;
    n_rows = 0;
    (void)commit(&b, 2, n, text + n, 2); /* one, and another than the second */
    assert_int_equal(n_rows, 1 + 3);
    n += 2;
    pf_open again = near_peer_open(1);
    again.incarnation = 2;
    again.next_round = 3;
    again.tokens = text;
    again.n_tokens = n;
    n_rows = 0;
    begin_drafting(&b, again, 78);
    assert_int_equal(n_rows, 1 + 3);
    close_bench(&b);
}

static void a_prompt_without_a_proposal_to_make_is_not_read(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    const int32_t token = 77;
    pf_open open = near_peer_open(1);
    pf_verdict last = verdict_of(1, 0, N_PROMPT, &token, 1);
    last.finish = PF_FINISH_EOS;
    assert_null(ask(&b, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &last, .n_verdicts = 1 }));
    open.sequence = 2;
    open.max_tokens = N_PROMPT + 1;
    assert_int_equal(begin_drafting(&b, open, 77)->n_tokens, 0);
    assert_int_equal(clock_ns, 1);
    close_bench(&b);
}

/* ---- long prompts -------------------------------------------------------------------------------------------- */

static void submit_begin(bench *b, const pf_open *open, int32_t token)
{
    pf_open opens[] = { *open };
    pf_verdict verdict = verdict_of(open->sequence, 0, open->n_tokens, &token, 1);
    const pf_batch batch = { .opens = opens, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 };
    assert_int_equal(pf_peer_submit(b->peer, &batch), PF_OK);
}

static void a_long_prompt_is_read_in_chunks_with_proposals_between(void **state)
{
    (void)state;
    int32_t expected[4], other[4];
    const pf_open open = near_peer_open_long(1);
    bench wide = open_plain_bench();
    memcpy(expected, begin_drafting(&wide, open, 77)->tokens, sizeof expected);
    memcpy(other, begin_drafting(&wide, near_peer_open(2), 77)->tokens, sizeof other);
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10 },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    const pf_open second = near_peer_open(2);
    const pf_batch *answer = NULL;
    pf_error error;
    submit_begin(&b, &open, 77);
    for (int pass = 1; pass <= 7; pass++) { /* 52 tokens, ten a pass; with the last ten the first is drafted */
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        assert_int_equal(answer->n_proposals, pass == 3);
        if (pass == 3) assert_drafted(&answer->proposals[0], 1, N_PROMPT + 1, other, 4);
        assert_true(pf_peer_owes(b.peer, 1));
        assert_false(pf_peer_owes(b.peer, 2));
        if (pass == 2) submit_begin(&b, &second, 77);
    }
    assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
    assert_int_equal(answer->n_proposals, 1);
    assert_drafted(&answer->proposals[0], 1, 62, expected, 4);
    assert_false(pf_peer_owes(b.peer, 1));
    assert_status(pf_peer_collect(b.peer, 0, &answer, &error), PF_CANCELLED);
    close_bench(&b);
    close_bench(&wide);
}

/* A client with its next verdict ready at every answer. */
static void a_long_prompt_progresses_beside_continuous_proposals(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10 },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    (void)begin_drafting(&b, near_peer_open(2), 77);
    const pf_open open = near_peer_open_long(1);
    submit_begin(&b, &open, 77);
    const int32_t token = 77;
    int n_first = 0, n_second = 0;
    for (int pass = 1; pass <= 14; pass++) { /* 52 tokens, ten a pass; with the last ten the first is drafted */
        pf_verdict verdict = verdict_of(2, (uint64_t)pass, N_PROMPT + pass, &token, 1);
        const pf_batch *answer = NULL;
        pf_error error;
        assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        for (int32_t i = 0; i < answer->n_proposals; i++)
            *(answer->proposals[i].sequence == 1 ? &n_first : &n_second) += 1;
    }
    assert_int_equal(n_second, 14);
    assert_int_equal(n_first, 1);
    close_bench(&b);
}

static void long_prompts_are_read_a_chunk_each_in_turn(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10 },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        const pf_open open = near_peer_open_long(sequence);
        submit_begin(&b, &open, 77);
    }
    const pf_batch *answer = NULL;
    pf_error error;
    int n_passes = 0; /* six each: ten tokens a pass, and the last ten with the first token that is drafted */
    for (int n_proposals = 0; n_proposals < 2; n_passes++) {
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        n_proposals += answer->n_proposals;
        assert_true(n_proposals == 0 || n_passes >= 11);
    }
    assert_in_range(n_passes, 12, 14);
    close_bench(&b);
}

static void a_long_prompt_is_read_until_the_deadline_and_its_time_is_reported(void **state)
{
    (void)state;
    uint64_t clock_ns = 1000 * MS;
    bench b = open_bench(
        (pf_context_config){ .max_sequences = 1, .max_rows = 10 },
        (pf_model_drafter_config){
            .max_sequences = 1, .max_draft = 4, .simulate_token_ns = MS, .stop = { .clock_ns = &clock_ns } });
    const pf_open open = near_peer_open_long(1);
    const pf_batch *answer = NULL;
    pf_error error;
    submit_begin(&b, &open, 77);
    assert_ok(pf_peer_collect(b.peer, clock_ns + 3 * MS - 1, &answer, &error), error);
    assert_int_equal(answer->n_proposals, 0);
    assert_int_equal(answer->timing.compute_ns, 3 * MS);
    assert_int_equal(clock_ns, 1003 * MS);
    assert_ok(pf_peer_collect(b.peer, UINT64_MAX, &answer, &error), error);
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->timing.compute_ns,
                     (3 + 4) * MS); /* 52 tokens, ten a pass; with the last ten the first is drafted */
    close_bench(&b);
}

static void closing_a_sequence_stops_its_prefill(void **state)
{
    (void)state;
    static int32_t prompt[61];
    bench b = open_bench((pf_context_config){ .max_sequences = 1, .max_rows = 10 },
                         (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 4 });
    pf_open open = near_peer_open(1);
    open.tokens = prompt;
    open.n_tokens = 61;
    const pf_batch *answer = NULL;
    pf_error error;
    assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .opens = &open, .n_opens = 1 }), PF_OK);
    assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
    pf_close close = { 1 };
    assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    assert_status(pf_peer_collect(b.peer, 0, &answer, &error), PF_CANCELLED);
    close_bench(&b);
}

/* ---- limits -------------------------------------------------------------------------------------------------- */

static void a_draft_whose_context_is_full_proposes_less_and_then_nothing(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 1, .max_tokens = 30 },
                         (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 8 });
    static int32_t text[64];
    pf_open open = near_peer_open(1);
    open.tokens = text;
    open.n_tokens = 26;
    assert_int_equal(begin_drafting(&b, open, 0)->n_tokens, 4); /* 27 committed: 3 more are fed, a 4th is drawn */
    assert_int_equal(commit(&b, 1, 27, text, 3)->n_tokens, 1);
    assert_int_equal(commit(&b, 2, 30, text, 1)->n_tokens, 0);
    assert_int_equal(commit(&b, 3, 31, text, 8)->n_tokens, 0);
    int32_t base = 39;
    for (uint64_t round = 4; round < 30; round++, base += 8)
        assert_drafted(commit(&b, round, base, text, 8), round + 1, base + 8, NULL, 0);
    end_drafting(&b, 1);
    assert_int_equal(begin_drafting(&b, near_peer_open(1), 77)->n_tokens, 4);
    close_bench(&b);
}

static void a_full_kv_pool_costs_proposals_and_heals_when_pages_are_free_again(void **state)
{
    (void)state;
    const pf_kv_config kv = kv_config_of(open_plain_bench());
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .kv_budget_bytes = pf_kv_page_bytes(&kv) },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    const int32_t token = 77;
    int32_t text[N_PROMPT + 1 + 5];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = token;
    pf_tiny_side_decode(&b.side, &GREEDY, text, N_PROMPT + 1, 5, text + N_PROMPT + 1);
    const int32_t *drafted = text + N_PROMPT + 1;
    assert_drafted(begin_drafting(&b, near_peer_open(1), token), 1, N_PROMPT + 1, drafted, 4);
    assert_drafted(begin_drafting(&b, near_peer_open(2), token), 1, N_PROMPT + 1, NULL, 0);
    end_drafting(&b, 1);
    pf_verdict next = verdict_of(2, 1, N_PROMPT + 1, drafted, 1);
    const pf_proposal *p = ask_proposal(&b, (pf_batch){ .verdicts = &next, .n_verdicts = 1 });
    assert_drafted(p, 2, N_PROMPT + 2, drafted + 1, 4);
    close_bench(&b);
}

static void the_sequence_that_has_been_idle_longest_makes_way_in_a_full_cache(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    const pf_kv_config kv = kv_config_of(open_plain_bench());
    bench b =
        open_bench((pf_context_config){ .max_sequences = 3, .kv_budget_bytes = 2 * pf_kv_page_bytes(&kv) },
                   (pf_model_drafter_config){ .max_sequences = 3, .max_draft = 4, .stop = { .clock_ns = &clock_ns } });
    int32_t drafted[4];
    memcpy(drafted, begin_drafting(&b, near_peer_open(1), 77)->tokens, sizeof drafted);
    clock_ns += 100 * MS;
    assert_drafted(begin_drafting(&b, near_peer_open(2), 77), 1, N_PROMPT + 1, drafted, 4);
    clock_ns += 800 * MS;
    assert_drafted(begin_drafting(&b, near_peer_open(3), 77), 1, N_PROMPT + 1, NULL,
                   0); /* none has been idle for long */
    end_drafting(&b, 3);
    clock_ns += 200 * MS;
    assert_drafted(begin_drafting(&b, near_peer_open(3), 77), 1, N_PROMPT + 1, drafted, 4);
    assert_int_equal(pf_kv_free_pages(pf_context_kv(b.side.context)), 0);
    const pf_proposal *p =
        commit(&b, 1, N_PROMPT + 1, drafted, 1); /* of the first: read again, in the second's place */
    assert_int_equal(p->n_tokens, 4);
    assert_memory_equal(p->tokens, drafted + 1, 3 * sizeof *drafted);
    close_bench(&b);
}

static void a_sequence_without_room_fails_alone_in_a_shared_pass(void **state)
{
    (void)state;
    static const int32_t prompt[MAX_TOKENS];
    const pf_kv_config kv = kv_config_of(open_plain_bench());
    bench b = open_bench(
        (pf_context_config){ .max_sequences = 2, .max_rows = MAX_TOKENS, .kv_budget_bytes = pf_kv_page_bytes(&kv) },
        (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    int32_t text[N_PROMPT + 1], expected[4];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    pf_tiny_side_decode(&b.side, &GREEDY, text, N_PROMPT + 1, 4, expected);
    pf_open open = near_peer_open(1);
    const pf_open second = near_peer_open(2);
    open.tokens = prompt;
    open.n_tokens = kv.page_tokens + 2;
    submit_begin(&b, &open, 77);
    submit_begin(&b, &second, 77);
    const pf_batch *answer = ask(&b, (pf_batch){ .n_opens = 0 });
    assert_int_equal(answer->n_proposals, 2);
    assert_drafted(&answer->proposals[0], 1, open.n_tokens + 1, NULL, 0);
    assert_drafted(&answer->proposals[1], 1, N_PROMPT + 1, expected, 4);
    close_bench(&b);
}

/* It is read again when its verdict has come. */
static void a_prompt_that_found_no_room_before_its_verdict_costs_no_proposal(void **state)
{
    (void)state;
    const pf_kv_config kv = kv_config_of(open_plain_bench());
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .kv_budget_bytes = pf_kv_page_bytes(&kv) },
                         (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    const int32_t token = 77;
    int32_t drafted[4];
    memcpy(drafted, begin_drafting(&b, near_peer_open(1), token)->tokens, sizeof drafted);
    pf_open open = near_peer_open(2);
    assert_null(ask(&b, (pf_batch){ .opens = &open, .n_opens = 1 }));
    end_drafting(&b, 1);
    pf_verdict verdict = verdict_of(2, 0, N_PROMPT, &token, 1);
    const pf_proposal *p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_drafted(p, 1, N_PROMPT + 1, drafted, 4);
    close_bench(&b);
}

static void a_long_prompt_that_the_pool_has_no_room_for_costs_its_proposals_and_nothing_else(void **state)
{
    (void)state;
    static const int32_t prompt[MAX_TOKENS];
    const pf_kv_config kv = kv_config_of(open_plain_bench());
    bench b =
        open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10, .kv_budget_bytes = pf_kv_page_bytes(&kv) },
                   (pf_model_drafter_config){ .max_sequences = 2, .max_draft = 4 });
    pf_open open = near_peer_open(1);
    open.tokens = prompt;
    open.n_tokens = kv.page_tokens + 29; /* three passes more than a page takes */
    const int32_t base = open.n_tokens + 1;
    assert_drafted(begin_drafting(&b, open, 77), 1, base, NULL, 0);
    assert_int_equal(begin_drafting(&b, near_peer_open(2), 77)->n_tokens, 4);
    assert_drafted(commit(&b, 1, base, prompt, 1), 2, base + 1, NULL, 0);
    close_bench(&b);
}

static void a_sequence_that_had_no_room_and_is_opened_with_less_is_drafted_for(void **state)
{
    (void)state;
    static const int32_t prompt[MAX_TOKENS];
    const pf_kv_config kv = kv_config_of(open_plain_bench());
    bench b =
        open_bench((pf_context_config){ .max_sequences = 1, .max_rows = 10, .kv_budget_bytes = pf_kv_page_bytes(&kv) },
                   (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 4 });
    pf_open open = near_peer_open(1);
    open.tokens = prompt;
    open.n_tokens = kv.page_tokens + 29;
    submit_begin(&b, &open, 77);
    const pf_batch *answer;
    pf_error error;
    for (int32_t pass = 0; pass <= kv.page_tokens / 10; pass++) { /* the last one finds no room */
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        assert_int_equal(answer->n_proposals, 0);
    }
    pf_open less = near_peer_open(1);
    less.incarnation = 2;
    assert_int_equal(begin_drafting(&b, less, 77)->n_tokens, 4);
    close_bench(&b);
}

static void an_open_may_go_to_every_limit(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    static const int32_t prompt[MAX_TOKENS], one = 77;
    pf_open most = sampled_open(1, PF_MAX_DECLARED), full = near_peer_open(1), none = near_peer_open(1);
    most.max_draft = PF_MAX_DRAFT_TOKENS;
    full.tokens = prompt;
    full.n_tokens = MAX_TOKENS;
    none.n_tokens = 0;
    assert_int_equal(begin_drafting(&b, most, 77)->n_tokens, 8); /* of the drafter */
    end_drafting(&b, 1);
    assert_int_equal(begin_drafting(&b, full, 77)->n_tokens, 0);
    end_drafting(&b, 1);
    int32_t expected[4];
    pf_tiny_side_decode(&b.side, &GREEDY, &one, 1, 4, expected);
    pf_verdict empty = verdict_of(1, 0, 0, NULL, 0);
    const pf_batch batch = { .opens = &none, .n_opens = 1, .verdicts = &empty, .n_verdicts = 1 };
    assert_drafted(ask_proposal(&b, batch), 1, 0, NULL, 0);
    assert_drafted(commit(&b, 1, 0, &one, 1), 2, 1, expected, 4);
    close_bench(&b);
}

static void an_invalid_open_is_refused_with_the_field_named(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    static int32_t long_prompt[MAX_TOKENS + 1];
    const int32_t past[] = { 1, V };
    enum { N = 10 };
    pf_open opens[N];
    for (uint64_t i = 0; i < N; i++) opens[i] = near_peer_open(i + 1);
    opens[0].tokens = past;
    opens[0].n_tokens = 2;
    opens[1].method = (pf_method)9;
    opens[2].sampling.top_p = 2.0f;
    opens[3].max_draft = 0;
    opens[4].max_declared = PF_MAX_DECLARED + 1;
    opens[5].tokens = long_prompt;
    opens[5].n_tokens = MAX_TOKENS + 1;
    opens[6].n_tokens = -1;
    opens[7].max_draft = PF_MAX_DRAFT_TOKENS + 1;
    opens[8].max_declared = -1;
    opens[9].n_excluded = PF_MAX_EXCLUDED + 1;
    const pf_status expected[N] = { PF_INVALID, PF_UNSUPPORTED, PF_INVALID, PF_INVALID, PF_INVALID,
                                    PF_LIMIT,   PF_LIMIT,       PF_INVALID, PF_INVALID, PF_INVALID };
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = opens, .n_opens = N });
    assert_int_equal(answer->n_refusals, N);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(answer->refusals[i].sequence, i + 1);
        assert_int_equal(answer->refusals[i].status, expected[i]);
        assert_true(strlen(answer->refusals[i].text) > 10);
        pf_error error; /* pf_peer_check_open gives the same sentence */
        assert_status(pf_peer_check_open(b.peer, &opens[i], &error), expected[i]);
        assert_string_equal(error.text, answer->refusals[i].text);
    }
    assert_int_equal(begin_drafting(&b, near_peer_open(1), 77)->n_tokens, 4);
    close_bench(&b);
}

static void one_sequence_too_many_is_refused_and_the_others_are_served(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const int32_t token = 77;
    pf_open opens[5];
    pf_verdict verdicts[4];
    for (uint64_t i = 0; i < 5; i++) opens[i] = near_peer_open(i + 1);
    for (uint64_t i = 0; i < 4; i++) verdicts[i] = verdict_of(i + 1, 0, N_PROMPT, &token, 1);
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = opens, .n_opens = 5, .verdicts = verdicts, .n_verdicts = 4 });
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, 5);
    assert_int_equal(answer->refusals[0].status, PF_LIMIT);
    assert_int_equal(answer->n_proposals, 4);
    for (int32_t i = 1; i < 4; i++)
        assert_memory_equal(answer->proposals[i].tokens, answer->proposals[0].tokens, 4 * sizeof(int32_t));
    pf_close close = { 1 }; /* closes come first in a batch */
    opens[4].incarnation = 2;
    verdicts[0] = verdict_of(5, 0, N_PROMPT, &token, 1);
    verdicts[0].incarnation = 2;
    const pf_batch exchange = {
        .closes = &close, .n_closes = 1, .opens = &opens[4], .n_opens = 1, .verdicts = verdicts, .n_verdicts = 1
    };
    assert_int_equal(ask_proposal(&b, exchange)->sequence, 5);
    close_bench(&b);
}

static void a_committed_token_that_the_draft_does_not_have_ends_the_sequence_there(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const int32_t strange[] = { 3, V };
    begin_drafting(&b, near_peer_open(1), 77);
    pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, strange, 2);
    const pf_batch *answer = ask(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(answer->n_proposals, 0);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].status, PF_INVALID);
    close_bench(&b);
}

/* Nor is anything kept for it. */
static void a_sequence_closed_before_its_proposal_gets_none(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const size_t n_pages = pf_kv_free_pages(pf_context_kv(b.side.context));
    static const int32_t long_prompt[MAX_TOKENS + 1], strange = V;
    const pf_open open = near_peer_open(1);
    pf_close close = { 1 };
    pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, &strange, 1);
    pf_open again = open;
    again.incarnation = 2;
    again.tokens = long_prompt;
    again.n_tokens = MAX_TOKENS + 1;
    const struct {
        pf_batch batch;
        int32_t n_refusals;
    } ends[] = { { { .closes = &close, .n_closes = 1 }, 0 },
                 { { .verdicts = &verdict, .n_verdicts = 1 }, 1 },
                 { { .opens = &again, .n_opens = 1 }, 1 } };
    for (size_t i = 0; i < PF_COUNT(ends); i++) {
        submit_begin(&b, &open, 77);
        const pf_batch *answer = ask(&b, ends[i].batch);
        assert_int_equal(answer ? answer->n_refusals : 0, ends[i].n_refusals);
        assert_int_equal(answer ? answer->n_proposals : 0, 0);
        assert_null(ask(&b, (pf_batch){ .n_opens = 0 }));
        assert_int_equal(begin_drafting(&b, near_peer_open(2), 77)->n_tokens, 4);
        end_drafting(&b, 2);
        assert_int_equal(pf_kv_free_pages(pf_context_kv(b.side.context)), n_pages);
    }
    close_bench(&b);
}

/* ---- fences -------------------------------------------------------------------------------------------------- */

static void an_open_alone_asks_for_nothing_and_is_prefilled(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    static const int32_t text[100] = { 1 };
    const pf_kv *kv = pf_context_kv(b.side.context);
    const size_t before = pf_kv_free_pages(kv);
    pf_open open = near_peer_open(1);
    open.tokens = text;
    open.n_tokens = 100;
    assert_null(ask(&b, (pf_batch){ .opens = &open, .n_opens = 1 }));
    assert_true(pf_kv_free_pages(kv) < before);
    const int32_t token = 77;
    pf_verdict verdict = verdict_of(1, 0, 100, &token, 1);
    int32_t early[4];
    memcpy(early, ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 })->tokens, sizeof early);
    pf_open other = open;
    other.sequence = 2;
    assert_drafted(begin_drafting(&b, other, 77), 1, 101, early, 4);
    close_bench(&b);
}

static void stale_and_repeated_verdicts_change_nothing(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    int32_t text[N_PROMPT + 1 + 7];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    pf_tiny_side_decode(&b.side, &GREEDY, text, N_PROMPT + 1, 7, text + N_PROMPT + 1);
    const int32_t *drafted = text + N_PROMPT + 1;
    assert_drafted(begin_drafting(&b, near_peer_open(1), 77), 1, N_PROMPT + 1, drafted, 4);
    const int32_t token = 3, other = 4;
    pf_verdict old[] = { verdict_of(1, 0, N_PROMPT, &other, 1), verdict_of(1, 0, N_PROMPT, &token, 1) };
    assert_null(ask(&b, (pf_batch){ .verdicts = old, .n_verdicts = 2 }));
    assert_drafted(commit(&b, 1, N_PROMPT + 1, drafted, 3), 2, N_PROMPT + 4, drafted + 3, 4);
    pf_open again = near_peer_open(1);
    assert_null(ask(&b, (pf_batch){ .opens = &again, .n_opens = 1 }));
    close_bench(&b);
}

static void a_future_or_unknown_verdict_requests_the_prefix_and_a_reopening_recovers(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    int32_t text[N_PROMPT + 20];
    memcpy(text, PROMPT, sizeof PROMPT);
    for (int32_t i = N_PROMPT; i < N_PROMPT + 20; i++) text[i] = i;
    begin_drafting(&b, near_peer_open(1), text[N_PROMPT]);
    pf_verdict ahead[] = { verdict_of(1, 2, N_PROMPT + 3, text, 1), verdict_of(5, 1, 9, text, 1) };
    const pf_batch *answer = ask(&b, (pf_batch){ .verdicts = ahead, .n_verdicts = 2 });
    assert_int_equal(answer->n_proposals, 0);
    assert_int_equal(answer->n_prefix_requests, 2);
    assert_int_equal(answer->prefix_requests[0].known, N_PROMPT + 1);
    assert_int_equal(answer->prefix_requests[1].known, 0);

    pf_open again = near_peer_open(1);
    again.incarnation = 2;
    again.next_round = 2;
    again.tokens = text;
    again.n_tokens = N_PROMPT + 3;
    int32_t healed[4];
    const pf_proposal *p = begin_drafting(&b, again, text[N_PROMPT + 3]);
    assert_int_equal(p->incarnation, 2);
    assert_int_equal(p->round, 3);
    memcpy(healed, p->tokens, sizeof healed);
    pf_open fresh = near_peer_open(2);
    fresh.tokens = text;
    fresh.n_tokens = N_PROMPT + 3;
    assert_drafted(begin_drafting(&b, fresh, text[N_PROMPT + 3]), 1, N_PROMPT + 4, healed, 4);

    pf_verdict before = verdict_of(1, 3, N_PROMPT + 4, text, 1); /* of the first incarnation */
    assert_null(ask(&b, (pf_batch){ .verdicts = &before, .n_verdicts = 1 }));
    close_bench(&b);
}

static void a_sequence_reopened_before_its_proposal_waits_for_its_verdict(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = near_peer_open(1);
    submit_begin(&b, &open, 77);
    open.incarnation = 2;
    assert_null(ask(&b, (pf_batch){ .opens = &open, .n_opens = 1 }));
    assert_false(pf_peer_owes(b.peer, 1));
    close_bench(&b);
}

static void a_sequence_reopened_with_less_than_it_had_forgets_the_rest(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    int32_t text[N_PROMPT + 3] = { 9, 8, 7, 6, 5, 1, 2, 3 }, expected[4];
    begin_drafting(&b, near_peer_open(1), 1);
    commit(&b, 1, N_PROMPT + 1, text + N_PROMPT + 1, 2);
    /* What follows the two in memory is what the KV holds behind them: it must not count as confirmed. */
    const int32_t shorter[] = { 9, 8, 7, 6, 5, 1, 2, 3 };
    pf_open again = near_peer_open(1);
    again.incarnation = 2;
    again.tokens = shorter;
    again.n_tokens = 2;
    const int32_t prefix[] = { 9, 8, 7 };
    pf_tiny_side_decode(&b.side, &GREEDY, prefix, 3, 4, expected);
    assert_null(ask(&b, (pf_batch){ .opens = &again, .n_opens = 1 }));
    pf_verdict verdict = verdict_of(1, 0, 2, prefix + 2, 1);
    verdict.incarnation = 2;
    assert_drafted(ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), 1, 3, expected, 4);
    close_bench(&b);
}

static void several_verdicts_give_one_proposal_for_the_last_of_them(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const int32_t text[] = { 1, 2, 3, 4 };
    begin_drafting(&b, near_peer_open(1), 77);
    pf_verdict verdicts[] = { verdict_of(1, 1, N_PROMPT + 1, text, 2), verdict_of(1, 2, N_PROMPT + 3, text + 2, 1),
                              verdict_of(1, 3, N_PROMPT + 4, text + 3, 1) };
    const pf_proposal *p = ask_proposal(&b, (pf_batch){ .verdicts = verdicts, .n_verdicts = 3 });
    assert_int_equal(p->round, 4);
    assert_int_equal(p->base, N_PROMPT + 5);
    close_bench(&b);
}

static void a_finished_sequence_gets_no_proposal(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const int32_t token = 2;
    begin_drafting(&b, near_peer_open(1), 77);
    pf_verdict last = verdict_of(1, 1, N_PROMPT + 1, &token, 1);
    last.finish = PF_FINISH_EOS;
    assert_null(ask(&b, (pf_batch){ .verdicts = &last, .n_verdicts = 1 }));
    const pf_open second = near_peer_open(2);
    submit_begin(&b, &second, 77);
    last.sequence = 2; /* before its first proposal has been asked for */
    assert_null(ask(&b, (pf_batch){ .verdicts = &last, .n_verdicts = 1 }));
    close_bench(&b);
}

/* ---- time, life ---------------------------------------------------------------------------------------------- */

static void a_simulated_pass_takes_its_time(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    const int32_t token = 77;
    pf_open open = near_peer_open(1);
    pf_verdict verdict = verdict_of(1, 0, N_PROMPT, &token, 1);
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 });
    assert_int_equal(answer->proposals[0].n_tokens, 4);
    assert_int_equal(answer->timing.compute_ns, 4 * MS / 10);
    assert_int_equal(clock_ns, 1 + 4 * MS / 10);
    close_bench(&b);
}

/* The verdict of a round that commits one token, 77, which the tiny draft does not propose. */
static pf_verdict one_more(uint64_t round, int32_t next_draft, uint32_t within_us)
{
    static const int32_t token = 77;
    pf_verdict v = verdict_of(1, round, N_PROMPT + (int32_t)round, &token, 1);
    v.next_draft = next_draft;
    v.propose_within_us = within_us;
    return v;
}

static int32_t count_proposed(bench *b, pf_verdict verdict)
{
    const pf_batch *answer = ask(b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    if (!answer) return -1;
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(answer->proposals[0].round, verdict.round + 1);
    return answer->proposals[0].n_tokens;
}

static void a_verdict_bounds_the_next_proposal_or_wants_none(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    assert_int_equal(begin_drafting(&b, near_peer_open(1), 77)->n_tokens, 4);
    assert_int_equal(count_proposed(&b, one_more(1, 2, 0)), 2);
    assert_int_equal(count_proposed(&b, one_more(2, PF_NO_DRAFT, 0)), -1);
    assert_int_equal(count_proposed(&b, one_more(3, 64, 0)), 4); /* the open's 4 still counts */
    assert_int_equal(count_proposed(&b, one_more(4, 1, 0)), 1);
    assert_int_equal(count_proposed(&b, one_more(5, 0, 0)), 4); /* a bound is of one proposal */
    close_bench(&b);
}

static void a_proposal_is_cut_short_to_be_in_time(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns); /* 100 us a pass */
    assert_int_equal(begin_drafting(&b, near_peer_open(1), 77)->n_tokens, 4);
    assert_int_equal(count_proposed(&b, one_more(1, 0, 250)), 2);
    const uint64_t before_ns = clock_ns;
    assert_int_equal(count_proposed(&b, one_more(2, 0, 20)), 0); /* no pass is that short */
    assert_int_equal(clock_ns, before_ns);
    assert_int_equal(count_proposed(&b, one_more(3, 0, 350)), 3);
    assert_int_equal(count_proposed(&b, one_more(4, 0, 0)), 4);
    close_bench(&b);
}

static void a_pass_that_took_long_does_not_end_all_later_proposals(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    assert_int_equal(begin_drafting(&b, near_peer_open(1), 77)->n_tokens, 4);
    assert_int_equal(count_proposed(&b, one_more(1, 0, 250)), 2);
    uint64_t round = 2;
    while (count_proposed(&b, one_more(round, 0, 90)) == 0) round++;
    assert_in_range(round, 3, 20);
    close_bench(&b);
}

static void a_simulated_pass_takes_as_long_again_for_rows_that_share_no_read(void **state)
{
    (void)state;
    uint64_t clock_ns = 0;
    bench b = open_bench((pf_context_config){ .max_sequences = 2 },
                         (pf_model_drafter_config){ .max_sequences = 2,
                                                    .max_draft = 8,
                                                    .simulate_token_ns = MS,
                                                    .simulate_rows = 2,
                                                    .stop = { .clock_ns = &clock_ns } });
    assert_int_equal(begin_drafting(&b, near_peer_open(1), 77)->n_tokens, 4);
    assert_int_equal(clock_ns, ((N_PROMPT + 1) / 2 + 3) * MS); /* the prompt and a token; then one by one */
    end_drafting(&b, 1);
    const pf_open opens[] = { near_peer_open(2), near_peer_open(3) };
    for (size_t i = 0; i < PF_COUNT(opens); i++) submit_begin(&b, &opens[i], 77);
    clock_ns = 0;
    assert_int_equal(ask(&b, (pf_batch){ .n_opens = 0 })->n_proposals, 2);
    assert_int_equal(clock_ns, ((N_PROMPT + 1) + 3) * MS); /* two in each pass */
    close_bench(&b);
}

/* By a clock that counts them. */
static void sequences_share_as_few_passes_as_rows_and_logits_allow(void **state)
{
    (void)state;
    enum { N = 4 };
    for (int32_t max_logit_rows = 2; max_logit_rows <= N; max_logit_rows += 2) {
        uint64_t n_passes = 0;
        bench b = open_bench(
            (pf_context_config){ .max_sequences = N, .max_rows = 2 * (N_PROMPT + 1), .max_logit_rows = max_logit_rows },
            (pf_model_drafter_config){
                .max_sequences = N, .max_draft = 4, .simulate_token_ns = 1, .stop = { .clock_ns = &n_passes } });
        for (uint64_t i = 1; i <= N; i++) {
            const pf_open open = near_peer_open(i);
            submit_begin(&b, &open, 77);
        }
        const pf_batch *answer = ask(&b, (pf_batch){ .n_opens = 0 });
        assert_int_equal(answer->n_proposals, N);
        for (int32_t i = 0; i < N; i++) assert_int_equal(answer->proposals[i].n_tokens, 4);
        assert_int_equal(n_passes, 2 + 3 * N / max_logit_rows);
        close_bench(&b);
    }
}

/* By a clock that counts passes: what one pass takes together with the first token's row is not fed before it. */
static void missing_tokens_are_read_in_as_few_passes_as_rows_allow(void **state)
{
    (void)state;
    static const int32_t text[25];
    uint64_t n_passes = 0;
    bench b =
        open_bench((pf_context_config){ .max_sequences = 1, .max_rows = N_PROMPT + 1 },
                   (pf_model_drafter_config){
                       .max_sequences = 1, .max_draft = 4, .simulate_token_ns = 1, .stop = { .clock_ns = &n_passes } });
    begin_drafting(&b, near_peer_open(1), 77);
    assert_int_equal(n_passes, 4);
    n_passes = 0;
    commit(&b, 1, N_PROMPT + 1, text, 25); /* 19 of them before the last 6 */
    assert_int_equal(n_passes, 4 + 4);
    close_bench(&b);
}

/* And not after another's prompt. */
static void a_sequence_with_a_read_prompt_is_drafted_at_once(void **state)
{
    (void)state;
    uint64_t n_passes = 0;
    bench b =
        open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10 },
                   (pf_model_drafter_config){
                       .max_sequences = 2, .max_draft = 4, .simulate_token_ns = 1, .stop = { .clock_ns = &n_passes } });
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        const pf_open open = near_peer_open_long(sequence);
        submit_begin(&b, &open, 77);
    }
    const pf_batch *answer = ask(&b, (pf_batch){ .n_opens = 0 });
    assert_int_equal(answer->n_proposals, 1);
    assert_int_equal(n_passes, 6 + 5 + 4); /* 52 tokens, ten a pass, the two in turn */
    close_bench(&b);
}

static void a_stop_abandons_the_whole_proposal(void **state)
{
    (void)state;
    static volatile bool told;
    uint64_t clock_ns = 1;
    bench b =
        open_bench((pf_context_config){ .max_sequences = 1 },
                   (pf_model_drafter_config){ .max_sequences = 1,
                                              .max_draft = 8,
                                              .simulate_token_ns = 300 * MS,
                                              .stop = { .told = &told, .grace_ns = 400 * MS, .clock_ns = &clock_ns } });
    int32_t text[N_PROMPT + 1 + 4];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    pf_tiny_side_decode(&b.side, &GREEDY, text, N_PROMPT + 1, 4, text + N_PROMPT + 1);
    pf_open open = near_peer_open(1);
    pf_verdict verdict = verdict_of(1, 0, N_PROMPT, &text[N_PROMPT], 1);
    told = true;
    assert_null(ask(&b, (pf_batch){ .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 }));
    assert_in_range(clock_ns, 400 * MS, 599 * MS); /* in its second pass */
    told = false;
    const pf_batch *answer = ask(&b, (pf_batch){ .n_opens = 0 });
    assert_non_null(answer);
    assert_int_equal(answer->n_proposals, 1);
    assert_drafted(&answer->proposals[0], 1, N_PROMPT + 1, text + N_PROMPT + 1, 4);
    close_bench(&b);
}

static void a_stop_abandons_the_pass_and_the_context_stays_usable(void **state)
{
    (void)state;
    static volatile bool told;
    told = true;
    bench b = open_bench((pf_context_config){ .max_sequences = 2 },
                         (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 4, .stop.told = &told });
    const size_t n_pages = pf_kv_free_pages(pf_context_kv(b.side.context));
    const pf_open open = near_peer_open(1);
    submit_begin(&b, &open, 77);
    assert_null(ask(&b, (pf_batch){ .n_opens = 0 }));
    assert_int_equal(pf_kv_free_pages(pf_context_kv(b.side.context)), n_pages);
    pf_peer_destroy(b.peer);
    int32_t token;
    pf_tiny_side_decode(&b.side, &GREEDY, PROMPT, N_PROMPT, 1, &token);
    pf_tiny_side_close(&b.side);
}

static void a_configuration_out_of_range_is_named(void **state)
{
    (void)state;
    static const pf_model_drafter_config configs[] = { { .max_sequences = 0, .max_draft = 1 },
                                                       { .max_sequences = 3, .max_draft = 1 },
                                                       { .max_sequences = 1, .max_draft = 0 },
                                                       { .max_sequences = 1, .max_draft = PF_MAX_DRAFT_TOKENS + 1 } };
    const invalid_config cases[] = { { &configs[0], "max_sequences is 0" },
                                     { &configs[1], "max_sequences is 3" },
                                     { &configs[2], "max_draft is 0" },
                                     { &configs[3], "max_draft is 65" } };
    assert_configs_refused(&MODEL, (pf_context_config){ .max_sequences = 2 }, create_drafter, cases, PF_COUNT(cases));
}

static void creation_survives_every_refused_allocation(void **state)
{
    (void)state;
    const pf_model_drafter_config config = { .max_sequences = 2,
                                             .max_draft = 8,
                                             .info = &(pf_model_info){ .model_id = "tiny" } };
    assert_survives_refused_allocations(&MODEL, create_drafter, &config);
}

/* ---- siblings ------------------------------------------------------------------------------------------------ */

static pf_open sibling_open(int32_t siblings)
{
    pf_open open = sampled_open(1, 16);
    open.trees = siblings > 0;
    open.siblings = siblings;
    open.max_draft = siblings > 0 ? 2 * (1 + siblings) : 2;
    return open;
}

static float share_of(const pf_declared *declared, int32_t token)
{
    for (int32_t i = 0; i < declared->n; i++)
        if (declared->ids[i] == token) return declared->probabilities[i];
    return 0.0f;
}

static void assert_siblings(const pf_proposal *p, int32_t i)
{
    const pf_declared *own = &p->declared[i], *whole = &p->declared[i % 2];
    float left = 1.0f;
    for (int32_t j = i % 2; j < i; j += 2) {
        assert_true(share_of(own, p->tokens[j]) == 0.0f && p->tokens[j] != p->tokens[i]);
        left -= share_of(whole, p->tokens[j]);
    }
    assert_int_equal(p->parents[i], i % 2 - 1); /* a first one beside each token, then a second */
    assert_int_equal(own->n, whole->n - i / 2);
    for (int32_t k = 0; k < own->n; k++)
        assert_true(fabsf(own->probabilities[k] - share_of(whole, own->ids[k]) / left) < 1e-5f);
}

static void siblings_stand_behind_the_chain_and_declare_what_is_left_of_their_tokens_distribution(void **state)
{
    (void)state;
    int32_t chain[2] = { 0 };
    for (int32_t siblings = 0; siblings <= 3; siblings++) {
        bench b = open_plain_bench();
        const pf_proposal *p = begin_drafting(&b, sibling_open(siblings), 77);
        assert_int_equal(p->n_tokens, 2 * (1 + siblings));
        if (siblings == 0) memcpy(chain, p->tokens, sizeof chain);
        assert_memory_equal(p->tokens, chain, sizeof chain); /* the chain is what it is without them */
        for (int32_t i = 0; i < 2 && siblings > 0; i++) assert_int_equal(p->parents[i], i - 1);
        for (int32_t i = 2; i < p->n_tokens; i++) assert_siblings(p, i);
        close_bench(&b);
    }
}

static void siblings_are_drawn_where_trees_are_allowed_and_tokens_are_drawn_from_what_is_declared(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 5; i++) {
        bench b = open_plain_bench();
        pf_open open = sibling_open(2);
        if (i == 0) open.trees = false;
        if (i == 1) open.max_declared = 0;
        if (i == 2) open.method = PF_METHOD_GREEDY;
        if (i == 3) open.method = PF_METHOD_COUPLED;
        assert_true((begin_drafting(&b, open, 77)->parents != NULL) == (i == 4));
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greedy_proposal_equals_greedy_decoding_of_the_draft),
        cmocka_unit_test(a_coupled_proposal_is_drawn_with_the_targets_noise),
        cmocka_unit_test(without_declared_distributions_the_most_probable_token_is_proposed),
        cmocka_unit_test(the_draft_distribution_is_truncated_and_holds_the_token),
        cmocka_unit_test(tokens_are_drawn_from_the_draft_distribution_independently_in_every_sequence),
        cmocka_unit_test(a_seed_in_the_open_is_the_seed_and_a_served_drafter_draws_its_own_for_those_without),
        cmocka_unit_test(draws_of_different_rounds_are_independent),
        cmocka_unit_test(tokens_drawn_before_a_row_of_nans_are_proposed),
        cmocka_unit_test(invalid_rows_of_a_draft_are_counted_with_the_first_position),
        cmocka_unit_test(ids_past_those_that_exist_are_never_proposed),
        cmocka_unit_test(excluded_ids_are_never_proposed),
        cmocka_unit_test(ids_that_one_sequence_excludes_are_proposed_for_the_next),
        cmocka_unit_test(what_is_declared_gives_excluded_ids_nothing_and_the_others_their_share),
        cmocka_unit_test(a_sequence_that_excludes_every_id_gets_empty_proposals),
        cmocka_unit_test(the_length_of_a_proposal_follows_every_limit),
        cmocka_unit_test(after_any_verdicts_a_fresh_drafter_proposes_the_same),
        cmocka_unit_test(a_prompt_that_a_closed_sequence_began_is_not_read_again),
        cmocka_unit_test(what_the_cache_retains_goes_with_the_drafter),
        cmocka_unit_test(confirmed_tokens_are_not_computed_again),
        cmocka_unit_test(a_prompt_without_a_proposal_to_make_is_not_read),
        cmocka_unit_test(a_long_prompt_is_read_in_chunks_with_proposals_between),
        cmocka_unit_test(a_long_prompt_progresses_beside_continuous_proposals),
        cmocka_unit_test(long_prompts_are_read_a_chunk_each_in_turn),
        cmocka_unit_test(a_long_prompt_is_read_until_the_deadline_and_its_time_is_reported),
        cmocka_unit_test(closing_a_sequence_stops_its_prefill),
        cmocka_unit_test(a_draft_whose_context_is_full_proposes_less_and_then_nothing),
        cmocka_unit_test(a_full_kv_pool_costs_proposals_and_heals_when_pages_are_free_again),
        cmocka_unit_test(the_sequence_that_has_been_idle_longest_makes_way_in_a_full_cache),
        cmocka_unit_test(a_sequence_without_room_fails_alone_in_a_shared_pass),
        cmocka_unit_test(a_prompt_that_found_no_room_before_its_verdict_costs_no_proposal),
        cmocka_unit_test(a_long_prompt_that_the_pool_has_no_room_for_costs_its_proposals_and_nothing_else),
        cmocka_unit_test(a_sequence_that_had_no_room_and_is_opened_with_less_is_drafted_for),
        cmocka_unit_test(an_open_may_go_to_every_limit),
        cmocka_unit_test(an_invalid_open_is_refused_with_the_field_named),
        cmocka_unit_test(one_sequence_too_many_is_refused_and_the_others_are_served),
        cmocka_unit_test(a_committed_token_that_the_draft_does_not_have_ends_the_sequence_there),
        cmocka_unit_test(a_sequence_closed_before_its_proposal_gets_none),
        cmocka_unit_test(an_open_alone_asks_for_nothing_and_is_prefilled),
        cmocka_unit_test(stale_and_repeated_verdicts_change_nothing),
        cmocka_unit_test(a_future_or_unknown_verdict_requests_the_prefix_and_a_reopening_recovers),
        cmocka_unit_test(a_sequence_reopened_before_its_proposal_waits_for_its_verdict),
        cmocka_unit_test(a_sequence_reopened_with_less_than_it_had_forgets_the_rest),
        cmocka_unit_test(several_verdicts_give_one_proposal_for_the_last_of_them),
        cmocka_unit_test(a_finished_sequence_gets_no_proposal),
        cmocka_unit_test(a_simulated_pass_takes_its_time),
        cmocka_unit_test(a_verdict_bounds_the_next_proposal_or_wants_none),
        cmocka_unit_test(a_proposal_is_cut_short_to_be_in_time),
        cmocka_unit_test(a_pass_that_took_long_does_not_end_all_later_proposals),
        cmocka_unit_test(a_simulated_pass_takes_as_long_again_for_rows_that_share_no_read),
        cmocka_unit_test(sequences_share_as_few_passes_as_rows_and_logits_allow),
        cmocka_unit_test(missing_tokens_are_read_in_as_few_passes_as_rows_allow),
        cmocka_unit_test(a_sequence_with_a_read_prompt_is_drafted_at_once),
        cmocka_unit_test(a_stop_abandons_the_whole_proposal),
        cmocka_unit_test(a_stop_abandons_the_pass_and_the_context_stays_usable),
        cmocka_unit_test(a_configuration_out_of_range_is_named),
        cmocka_unit_test(creation_survives_every_refused_allocation),
        cmocka_unit_test(siblings_stand_behind_the_chain_and_declare_what_is_left_of_their_tokens_distribution),
        cmocka_unit_test(siblings_are_drawn_where_trees_are_allowed_and_tokens_are_drawn_from_what_is_declared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
