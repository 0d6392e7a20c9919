/* The lengths and trees that the drafter chooses, by what it has learnt and by a simulated clock. */
#include "draft/length.h"
#include "proto/tree.h"
#include "tests/support/drafter_bench.h"
#include "tests/support/draw.h"
#include "tests/support/guard.h"

static const uint64_t MS = 1000 * 1000;

/* Of a sequence whose lengths, up to eight, the drafter chooses. */
static pf_open adaptive_open(uint64_t sequence)
{
    pf_open open = near_peer_open(sequence);
    open.max_draft = 8;
    open.adaptive_draft = true;
    return open;
}

static void a_verdict_that_accepts_more_than_was_proposed_teaches_no_length(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = adaptive_open(1);
    int32_t base = N_PROMPT + 1, text[PF_MAX_VERDICT_TOKENS] = { 0 };
    assert_int_equal(begin_drafting(&b, open, 77)->n_tokens, PF_LENGTH_FIRST);
    for (uint64_t round = 1; round <= 8; round++, base += 9) {
        pf_verdict verdict = verdict_of(1, round, base, text, 9);
        verdict.n_accepted = 9;
        const pf_proposal *p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        assert_int_equal(p->n_tokens, PF_LENGTH_FIRST);
    }
    close_bench(&b);
}

/* Where the way there and back takes long and all is kept, proposals grow to what is allowed. */
static void accepted_tokens_update_the_acceptance_rates(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    pf_open open = adaptive_open(1);
    int32_t base = N_PROMPT + 1, text[PF_MAX_VERDICT_TOKENS];
    const pf_proposal *p = begin_drafting(&b, open, 77);
    for (uint64_t round = 1; round <= 8 && p->n_tokens <= PF_LENGTH_FIRST; round++) {
        const int32_t n = p->n_tokens;
        memcpy(text, p->tokens, (size_t)n * sizeof *text);
        text[n] = 5;
        clock_ns += 5 * MS;
        pf_verdict verdict = verdict_of(1, round, base, text, n + 1);
        verdict.n_accepted = n;
        base += n + 1;
        p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    }
    assert_int_equal(p->n_tokens, 8);
    close_bench(&b);
}

/* As at the end of a text: there is no token behind those that were accepted. */
static void a_short_verdict_is_not_read_past_its_end(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = adaptive_open(1);
    const pf_proposal *p = begin_drafting(&b, open, 77);
    pf_guard tokens = pf_guard_alloc(2 * sizeof(int32_t), sizeof(int32_t));
    memcpy(tokens.data, p->tokens, tokens.bytes);
    pf_verdict verdict = verdict_of(1, 1, N_PROMPT + 1, tokens.data, 2);
    verdict.n_accepted = 2;
    assert_int_equal(ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 })->round, 2);
    pf_guard_free(&tokens);
    close_bench(&b);
}

/* Proposals that came too late, each of which the target would have kept whole: it chose the first token itself. */
static void proposals_that_are_not_judged_do_not_count_as_refused(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    pf_open open = adaptive_open(1);
    int32_t base = N_PROMPT + 1;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    for (uint64_t round = 1; round <= 30; round++, base++) {
        const int32_t same = p->tokens[0];
        clock_ns += MS / 10;
        pf_verdict verdict = verdict_of(1, round, base, &same, 1);
        p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        if (p->n_tokens < PF_LENGTH_FIRST) fail_msg("%d tokens in round %d", p->n_tokens, (int)round + 1);
    }
    close_bench(&b);
}

/* Proposals of which the first token is kept: what that has taught is there when the next sequence begins, which does not try the first
 * lengths again: PF_LENGTH_FIRST, then 1. */
static void a_sequence_begins_with_the_times_and_shares_of_the_one_before(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        pf_open open = adaptive_open(sequence);
        int32_t base = N_PROMPT + 1;
        const pf_proposal *p = begin_drafting(&b, open, 77);
        for (uint64_t round = 1; round <= 20; round++, base += 2) {
            if (sequence == 1 && round == 1) assert_int_equal(p->n_tokens, PF_LENGTH_FIRST);
            if (sequence == 1 && round == 2) assert_int_equal(p->n_tokens, 1);
            if (sequence == 2 && round <= 4) assert_in_range(p->n_tokens, 2, 3);
            const int32_t kept[] = { p->tokens[0], (p->tokens[p->n_tokens > 1] + 1) % V };
            clock_ns += MS;
            pf_verdict verdict = verdict_of(sequence, round, base, kept, 2);
            verdict.n_accepted = 1;
            p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        }
        end_drafting(&b, sequence);
    }
    close_bench(&b);
}

/* ---- a step of many sequences ----------------------------------------------------------------------------------- */

enum { MOST_SEQUENCES = 16, STEPS_TAKEN = 24, STEPS_COUNTED = 12 };

/* A verification by the simulated clock: verify_ns, and row_ns for each row. Before it the target reads prompts for read_ns. */
typedef struct {
    uint64_t verify_ns, row_ns, read_ns;
    bool is_told,
        tells_reading; /* what of it comes with the verdicts; where the first does, the engine does other things, too */
} target_time;

/* Draft tokens are kept with a share of 7 in 10. Returns the mean number of tokens that the last steps propose for each of n sequences. */
static double propose_for(int32_t n, target_time t)
{
    uint64_t clock_ns = 1, rng = 7;
    bench b = open_bench((pf_context_config){ .max_sequences = MOST_SEQUENCES },
                         (pf_model_drafter_config){ .max_sequences = MOST_SEQUENCES,
                                                    .max_draft = 8,
                                                    .seed = 1,
                                                    .simulate_token_ns = 100 * 1000,
                                                    .stop = { .clock_ns = &clock_ns } });
    pf_open opens[MOST_SEQUENCES];
    pf_verdict verdicts[MOST_SEQUENCES];
    int32_t text[MOST_SEQUENCES][9], n_proposed = 0;
    for (int32_t i = 0; i < n; i++) {
        opens[i] = adaptive_open((uint64_t)i + 1);
        text[i][0] = i;
        verdicts[i] = verdict_of((uint64_t)i + 1, 0, N_PROMPT, text[i], 1);
    }
    pf_batch batch = { .opens = opens, .n_opens = n, .verdicts = verdicts, .n_verdicts = n };
    for (int32_t step = 0; step < STEPS_TAKEN; step++) {
        const pf_batch *answer = ask(&b, batch);
        assert_int_equal(answer->n_proposals, n);
        int32_t n_rows = n;
        for (int32_t i = 0; i < n; i++) {
            const pf_proposal *p = &answer->proposals[i];
            int32_t kept = 0;
            while (kept < p->n_tokens && below(&rng, 10) < 7) kept++;
            if (kept > 0) memcpy(text[i], p->tokens, (size_t)kept * sizeof(int32_t));
            text[i][kept] = kept < p->n_tokens ? (p->tokens[kept] + 1) % V : i;
            verdicts[i] = verdict_of(p->sequence, p->round, p->base, text[i], kept + 1);
            verdicts[i].n_accepted = kept;
            n_rows += p->n_tokens;
        }
        if (step >= STEPS_TAKEN - STEPS_COUNTED) n_proposed += n_rows - n;
        const uint64_t ns = t.verify_ns + (uint64_t)n_rows * t.row_ns;
        clock_ns += t.read_ns + (t.is_told && t.read_ns == 0 ? 3 * ns : ns);
        batch =
            (pf_batch){ .verdicts = verdicts,
                        .n_verdicts = n,
                        .timing = { .compute_ns = t.is_told ? ns : 0, .queue_ns = t.tells_reading ? t.read_ns : 0 } };
    }
    close_bench(&b);
    return (double)n_proposed / (n * STEPS_COUNTED);
}

static void proposals_become_shorter_as_the_batch_grows(void **state)
{
    (void)state;
    const target_time t = { .verify_ns = MS, .row_ns = MS / 5 };
    const double one = propose_for(1, t), four = propose_for(4, t), many = propose_for(MOST_SEQUENCES, t);
    if (!(one > four && four > many && many < 2.0)) fail_msg("%.2f, %.2f, %.2f tokens", one, four, many);
}

static void a_target_that_is_faster_than_the_draft_gets_empty_proposals(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 4; n *= 4) {
        const double proposed = propose_for(n, (target_time){ .verify_ns = MS / 20, .row_ns = MS / 200 });
        if (proposed > 0.2) fail_msg("%d sequences: %.2f tokens", n, proposed);
    }
    assert_true(propose_for(4, (target_time){ .verify_ns = 2 * MS, .row_ns = MS / 200 }) > 3.0);
}

/* 80 tokens behind the prompt, one by one, in passes of eight rows. */
static void nothing_is_read_while_nothing_is_drafted(void **state)
{
    (void)state;
    uint64_t clock_ns = 1;
    bench b = open_bench(
        (pf_context_config){ .max_sequences = 1, .max_rows = 8 },
        (pf_model_drafter_config){
            .max_sequences = 1, .max_draft = 8, .simulate_token_ns = 100 * 1000, .stop = { .clock_ns = &clock_ns } });
    int32_t base = N_PROMPT + 1, n_proposed = 0;
    const pf_proposal *p = begin_drafting(&b, adaptive_open(1), 77);
    for (uint64_t round = 1; round <= 80; round++, base++) {
        const int32_t other = p->n_tokens > 0 ? (p->tokens[0] + 1) % V : 5;
        clock_ns += MS / 20;
        pf_verdict verdict = verdict_of(1, round, base, &other, 1);
        p = ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
        n_proposed += p->n_tokens > 0 && round > 10;
    }
    assert_true(n_proposed <= 3);
    const uint64_t n_rows = pf_model_drafter_counts(b.peer).n_rows;
    if (n_rows > 60) fail_msg("%d rows", (int)n_rows);
    clock_ns += 1000 * MS; /* so that one is tried again, behind all that is not read */
    const int32_t other = 5;
    pf_verdict verdict = verdict_of(1, 81, base, &other, 1);
    assert_int_equal(ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 })->n_tokens, 1);
    close_bench(&b);
}

/* Three times the verification passes between a proposal and its verdict; with what is reported two thirds are no rows. */
static void the_time_that_the_engine_reports_is_what_rows_cost(void **state)
{
    (void)state;
    const double told = propose_for(8, (target_time){ .verify_ns = MS, .row_ns = MS / 10, .is_told = true }),
                 untold = propose_for(8, (target_time){ .verify_ns = 3 * MS, .row_ns = 3 * MS / 10 });
    if (!(told > untold)) fail_msg("%.2f tokens where it is reported, %.2f where it is not", told, untold);
}

/* They are read in any case: a round that commits more tokens saves nothing of it. */
static void prompts_that_the_target_reads_meanwhile_make_no_row_cheaper(void **state)
{
    (void)state;
    target_time t = { .verify_ns = MS / 20, .row_ns = MS / 20, .read_ns = 20 * MS, .is_told = true };
    const double untold = propose_for(8, t);
    t.tells_reading = true;
    const double told = propose_for(8, t);
    if (!(untold > 3.0 && told < 1.0)) fail_msg("%.2f tokens where it is reported, %.2f where it is not", told, untold);
}

/* Of the lengths that are tried first it goes on with those that it has not tried. */
static void a_sequence_that_is_opened_again_keeps_what_it_has_learnt(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = adaptive_open(1);
    int32_t text[N_PROMPT + 2];
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    assert_int_equal(p->n_tokens, PF_LENGTH_FIRST);
    text[N_PROMPT + 1] = (p->tokens[0] + 1) % V;
    const int32_t second = commit(&b, 1, N_PROMPT + 1, text + N_PROMPT + 1, 1)->n_tokens;
    assert_int_not_equal(second, PF_LENGTH_FIRST);
    open.tokens = text;
    open.n_tokens = N_PROMPT + 2;
    open.next_round = 2;
    open.incarnation = 2;
    assert_int_equal(begin_drafting(&b, open, 78)->n_tokens, second);
    close_bench(&b);
}

/* The likeliest token behind prefix [n] (rank 0), the second, or the third, by the definition. */
static int32_t ranked(const bench *b, const int32_t *prefix, int32_t n, int32_t rank)
{
    const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f };
    float p[V];
    pf_tiny_side_distribution(&b->side, &warm, prefix, n, p);
    for (;; rank--) {
        int32_t best = 0;
        for (int32_t i = 1; i < V; i++)
            if (p[i] > p[best]) best = i;
        if (rank == 0) return best;
        p[best] = -1.0f;
    }
}

/* A target that always chooses the draft's token of a rank, 1 or more. Of 20 proposals, once 20 have been learnt from, how many
 * had the second? */
static int32_t count_trees(bench *b, uint64_t *clock_ns, pf_open open, int32_t rank)
{
    enum { ROUNDS = 40 };
    int32_t text[N_PROMPT + 1 + 2 * ROUNDS], n = N_PROMPT + 1, n_trees = 0;
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    const pf_proposal *p = begin_drafting(b, open, 77);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        const int32_t n_chain = pf_tree_chain(p->parents, p->n_tokens);
        int32_t chain[8];
        pf_tiny_side_decode(&b->side, &GREEDY, text, n, n_chain, chain);
        assert_memory_equal(p->tokens, chain, (size_t)n_chain * sizeof *chain);

        const int32_t second = ranked(b, text, n, 1), base = n;
        const bool has_second = pf_tree_child(p->tokens, p->parents, p->n_tokens, -1, second) > 0;
        n_trees += round > ROUNDS / 2 && has_second;
        text[n] = ranked(b, text, n, rank);
        const bool taken = has_second && text[n] == second;
        n++;
        if (taken) text[n++] = 5;
        if (round == ROUNDS) break;
        *clock_ns += MS; /* however many rows it has */
        pf_verdict verdict = verdict_of(1, round, base, text + base, n - base);
        verdict.n_accepted = taken;
        p = ask_proposal(b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    }
    return n_trees;
}

static void second_choices_that_are_often_right_are_proposed_where_trees_are_judged(void **state)
{
    (void)state;
    const struct {
        bool adaptive, trees;
        int32_t rank, max_draft;
        bool expected;
    } cases[] = { { true, true, 1, 4, true },
                  { true, false, 1, 4, false },
                  { false, true, 1, 4, false },
                  { true, true, 2, 4, false },
                  { true, true, 1, 1, false } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        uint64_t clock_ns = 1;
        bench b = open_timed_bench(&clock_ns);
        pf_open open = near_peer_open(1);
        open.adaptive_draft = cases[i].adaptive;
        open.trees = cases[i].trees;
        open.max_draft = cases[i].max_draft;
        const int32_t n_trees = count_trees(&b, &clock_ns, open, cases[i].rank);
        if (cases[i].expected != (n_trees >= 10)) fail_msg("case %zu: %d trees in 20 rounds", i, n_trees);
        close_bench(&b);
    }
}

/* A target that takes the first sibling of the first token where there is one, by a clock where each row takes row_ns. Of the last 20 of 60
 * proposals, how many had siblings? */
static int32_t count_sibling_trees(bench *b, uint64_t *clock_ns, pf_open open, uint64_t row_ns)
{
    enum { ROUNDS = 60 };
    int32_t text[N_PROMPT + 1 + 2 * ROUNDS], n = N_PROMPT + 1, n_trees = 0;
    const pf_proposal *p = begin_drafting(b, open, 77);
    for (uint64_t round = 1; round < ROUNDS && p->n_tokens > 0; round++) {
        const int32_t n_chain = pf_tree_chain(p->parents, p->n_tokens), base = n;
        int32_t sibling = -1;
        for (int32_t i = p->n_tokens - 1; i >= n_chain; i--)
            if (p->parents[i] == -1) sibling = i;
        n_trees += round >= ROUNDS - 20 && p->n_tokens > n_chain;
        if (sibling >= 0) text[n++] = p->tokens[sibling];
        text[n++] = (p->tokens[0] + 1) % V;
        *clock_ns += MS + (uint64_t)p->n_tokens * row_ns;
        pf_verdict verdict = verdict_of(1, round, base, text + base, n - base);
        verdict.n_accepted = n - base - 1;
        p = ask_proposal(b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    }
    return n_trees;
}

static void siblings_are_drawn_where_they_are_asked_for_and_pay(void **state)
{
    (void)state;
    const struct {
        int32_t siblings;
        uint64_t row_ns;
        bool expected;
    } cases[] = { { PF_SIBLINGS_THAT_PAY, 0, true }, { 0, 0, false }, { PF_SIBLINGS_THAT_PAY, 4 * MS, false } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        uint64_t clock_ns = 1;
        bench b = open_timed_bench(&clock_ns);
        pf_open open = sampled_open(1, 16);
        open.max_draft = 8;
        open.adaptive_draft = open.trees = true;
        open.siblings = cases[i].siblings;
        const int32_t n_trees = count_sibling_trees(&b, &clock_ns, open, cases[i].row_ns);
        if (cases[i].expected != (n_trees >= 10)) fail_msg("case %zu: %d trees in 20 rounds", i, n_trees);
        close_bench(&b);
    }
}

/* What draft/length.h would have a sequence propose, told what the drafter is told. */
typedef struct {
    pf_length length;
    bool trees, ends_with_one;
    int32_t text[MAX_TOKENS], n, most;     /* tokens of a proposal */
    int32_t chain[8], seconds[8], n_chain; /* the best tokens behind the text, and the best beside each */
    float margins[8];
    int32_t n_branches, branches[8]; /* indices of the chain */
    uint64_t left_ns;
} shadow;

static void choose_likewise(const bench *b, shadow *s)
{
    const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f };
    int32_t prefix[MAX_TOKENS + 8];
    memcpy(prefix, s->text, (size_t)s->n * sizeof *prefix);
    pf_tiny_side_decode(&b->side, &GREEDY, s->text, s->n, 8, s->chain);
    memcpy(prefix + s->n, s->chain, sizeof s->chain);
    s->n_chain = s->n_branches = 0;
    while (pf_length_goes_on(&s->length, s->margins, s->n_chain, s->most)) {
        const int32_t i = s->n_chain++;
        float p[V];
        pf_tiny_side_distribution(&b->side, &warm, prefix, s->n + i, p);
        s->seconds[i] = ranked(b, prefix, s->n + i, 1);
        s->margins[i] = logf(p[s->chain[i]] / p[s->seconds[i]]);
    }
    if (s->trees) s->n_branches = pf_length_branches(&s->length, s->margins, s->n_chain, s->most, s->branches);
}

static void assert_proposes_likewise(const pf_proposal *p, const shadow *s)
{
    assert_int_equal(p->n_tokens, s->n_chain + s->n_branches);
    assert_memory_equal(p->tokens, s->chain, (size_t)s->n_chain * sizeof *s->chain);
    if (s->n_branches == 0)
        assert_null(p->parents);
    else
        assert_int_equal(pf_tree_chain(p->parents, p->n_tokens), s->n_chain);
    for (int32_t i = 0; i < s->n_branches; i++) {
        assert_int_equal(p->tokens[s->n_chain + i], s->seconds[s->branches[i]]);
        assert_int_equal(p->parents[s->n_chain + i], s->branches[i] - 1);
    }
}

/* A verdict of a kind: the next tokens of the text, and what they teach. Returns how many were accepted. */
typedef enum { ALL_KEPT, SECOND_CHOSEN, ANOTHER_CHOSEN, TOO_LATE } verdict_kind;

static int32_t judge_likewise(shadow *s, verdict_kind kind, int32_t n_kept, uint64_t now_ns)
{
    if (kind == TOO_LATE) {
        s->text[s->n++] = s->chain[0];
        pf_length_observe_late(&s->length, s->margins[0]);
        return 0;
    }
    if (kind == ALL_KEPT) n_kept = s->n_chain;
    int32_t n_accepted = n_kept;
    for (int32_t i = 0; i < s->n_branches; i++) n_accepted += kind == SECOND_CHOSEN && s->branches[i] == n_kept;
    memcpy(s->text + s->n, s->chain, (size_t)n_kept * sizeof *s->text);
    s->n += n_kept;
    int32_t next = kind == SECOND_CHOSEN ? s->seconds[n_kept] : 5;
    while (kind == ANOTHER_CHOSEN && (next == s->chain[n_kept] || next == s->seconds[n_kept])) next++;
    s->text[s->n++] = next;
    if (n_accepted > n_kept) s->text[s->n++] = 6;
    const pf_length_round round = { .n_drawn = s->n_chain,
                                    .n_branches = s->n_branches,
                                    .n_kept = n_kept,
                                    .second_right = kind == SECOND_CHOSEN,
                                    .n_committed = n_accepted + 1,
                                    .draft_ns = (uint64_t)s->n_chain * (MS / 10),
                                    .away_ns = now_ns - s->left_ns };
    pf_length_observe(&s->length, s->margins, &round);
    return n_accepted;
}

enum { END = 104 };

/* Rounds until nearly END tokens are committed, or half of them and a tree is there. Returns how many proposals had second choices. */
static int32_t play_likewise(bench *b, uint64_t *clock_ns, uint64_t sequence, shadow *s, uint32_t seed)
{
    static const verdict_kind kinds[2][6] = { { ALL_KEPT, ALL_KEPT, ALL_KEPT, SECOND_CHOSEN, ANOTHER_CHOSEN, TOO_LATE },
                                              { ALL_KEPT, SECOND_CHOSEN, SECOND_CHOSEN, SECOND_CHOSEN, ANOTHER_CHOSEN,
                                                TOO_LATE } };
    uint64_t dice = seed;
    int32_t n_trees = 0;
    pf_open open = adaptive_open(sequence);
    open.trees = s->trees;
    open.max_tokens = END;
    memcpy(s->text, PROMPT, sizeof PROMPT);
    s->text[N_PROMPT] = 77;
    s->n = N_PROMPT + 1;
    const pf_proposal *p = begin_drafting(b, open, 77);
    for (uint64_t round = 1; s->n < END - 1 && !(s->ends_with_one && s->n > END / 2 && p->parents); round++) {
        s->left_ns = *clock_ns;
        s->most = END - s->n > 8 ? 8 : END - s->n - 1;
        choose_likewise(b, s);
        assert_proposes_likewise(p, s);
        n_trees += s->n_branches > 0;
        const int32_t base = s->n, n_rows = p->n_tokens;
        *clock_ns += MS / 10 * (uint64_t)((n_rows > 3 ? 6 : 3) + below(&dice, 2));
        pf_verdict verdict = verdict_of(sequence, round, base, s->text + base, 0);
        const verdict_kind kind = kinds[s->trees][below(&dice, PF_COUNT(kinds[0]))];
        const int32_t n_kept = s->n_chain > 1 ? below(&dice, s->n_chain) : 0;
        verdict.n_accepted = judge_likewise(s, kind, n_kept, *clock_ns);
        verdict.n_tokens = s->n - base;
        p = ask_proposal(b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
    }
    return n_trees;
}

/* Of two that are open at once, what the next one begins with is what the last that ended had learnt: not those that were
 * refused since, nor that did not choose. */
static void proposals_follow_the_measured_rounds(void **state)
{
    (void)state;
    uint64_t clock_ns = 3600 * 1000 * MS;
    bench b = open_timed_bench(&clock_ns);
    static const pf_length nothing;
    shadow first = { .trees = true }, second = { .trees = true, .ends_with_one = true }, third = { 0 };
    pf_open fixed = near_peer_open(3);
    fixed.max_draft = 7;
    assert_int_equal(begin_drafting(&b, fixed, 77)->n_tokens, 7);
    const int32_t n_trees = play_likewise(&b, &clock_ns, 1, &first, 1) + play_likewise(&b, &clock_ns, 2, &second, 2);
    if (n_trees < 10) fail_msg("%d trees: nothing was tried", n_trees);
    assert_in_range(second.n, END / 2, END - 2);
    end_drafting(&b, 1);
    end_drafting(&b, 2);
    pf_open opens[] = { fixed, fixed };
    opens[0].sequence = 4;
    opens[1].sequence = 5;
    opens[1].max_draft = 0;
    assert_int_equal(ask(&b, (pf_batch){ .opens = opens, .n_opens = 2 })->n_refusals, 1);
    const int32_t other = 5;
    pf_verdict verdict = verdict_of(4, 0, N_PROMPT, &other, 1);
    assert_int_equal(ask_proposal(&b, (pf_batch){ .verdicts = &verdict, .n_verdicts = 1 })->n_tokens, 7);
    end_drafting(&b, 4);
    end_drafting(&b, 3);
    fixed.sequence = 6;
    (void)begin_drafting(&b, fixed, 77); /* in the place of the one, so that the third has another's */
    pf_length_begin(&third.length, &second.length);
    assert_memory_not_equal(&third.length, &nothing, sizeof nothing);
    (void)play_likewise(&b, &clock_ns, 7, &third, 3);
    close_bench(&b);
}

static void a_vocabulary_of_one_token_has_no_second_choice(void **state)
{
    (void)state;
    bench b = open_bench(
        (pf_context_config){ .max_sequences = 1 },
        (pf_model_drafter_config){ .max_sequences = 1, .max_draft = 8, .info = &(pf_model_info){ .vocab_size = 1 } });
    pf_open open = near_peer_open(1);
    open.adaptive_draft = open.trees = true;
    const int32_t other = 5;
    int32_t n = N_PROMPT + 1;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    for (uint64_t round = 1; round <= 20; round++, n++) {
        for (int32_t i = 0; i < p->n_tokens; i++) assert_int_equal(p->tokens[i], 0);
        assert_null(p->parents);
        p = commit(&b, round, n, &other, 1);
    }
    close_bench(&b);
}

/* What is drawn is judged by what it was drawn from: siblings would not be. */
static void drawn_tokens_have_no_second_choices_beside_them(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    uint64_t clock_ns = 1;
    bench b = open_timed_bench(&clock_ns);
    pf_open open = sampled_open(1, 8);
    open.adaptive_draft = open.trees = true;
    int32_t text[N_PROMPT + 1 + ROUNDS], n = N_PROMPT + 1;
    memcpy(text, PROMPT, sizeof PROMPT);
    text[N_PROMPT] = 77;
    const pf_proposal *p = begin_drafting(&b, open, 77);
    for (uint64_t round = 1; round <= ROUNDS; round++, n++) {
        assert_null(p->parents);
        const int32_t best = ranked(&b, text, n, 0);
        text[n] = p->tokens[0] == best ? ranked(&b, text, n, 1) : best;
        clock_ns += MS;
        p = commit(&b, round, n, text + n, 1);
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_that_accepts_more_than_was_proposed_teaches_no_length),
        cmocka_unit_test(accepted_tokens_update_the_acceptance_rates),
        cmocka_unit_test(a_short_verdict_is_not_read_past_its_end),
        cmocka_unit_test(proposals_that_are_not_judged_do_not_count_as_refused),
        cmocka_unit_test(a_sequence_begins_with_the_times_and_shares_of_the_one_before),
        cmocka_unit_test(proposals_become_shorter_as_the_batch_grows),
        cmocka_unit_test(a_target_that_is_faster_than_the_draft_gets_empty_proposals),
        cmocka_unit_test(nothing_is_read_while_nothing_is_drafted),
        cmocka_unit_test(the_time_that_the_engine_reports_is_what_rows_cost),
        cmocka_unit_test(prompts_that_the_target_reads_meanwhile_make_no_row_cheaper),
        cmocka_unit_test(a_sequence_that_is_opened_again_keeps_what_it_has_learnt),
        cmocka_unit_test(second_choices_that_are_often_right_are_proposed_where_trees_are_judged),
        cmocka_unit_test(proposals_follow_the_measured_rounds),
        cmocka_unit_test(a_vocabulary_of_one_token_has_no_second_choice),
        cmocka_unit_test(drawn_tokens_have_no_second_choices_beside_them),
        cmocka_unit_test(siblings_are_drawn_where_they_are_asked_for_and_pay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
