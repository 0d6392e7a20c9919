/*
 * The verifier by itself, with proposals that the test makes up: what a verdict says, where rounds are cut, which sequences are
 * refused, which messages are dropped. That texts are lossless with a drafter at work is speculation_test's business.
 */
#include <math.h>

#include "tests/support/test.h"

#include "base/clock.h"
#include "tests/support/draw.h"
#include "tests/support/near_bench.h"
#include "tests/support/spoiled_backend.h"
#include "verify/accept.h"
#include "verify/model_verifier.h"

enum { V = 128 };

static const pf_tiny_model MODEL = { .seed = 31 };

static pf_status create_verifier(pf_forward_backend backend, const void *config, pf_peer **out, pf_error *error)
{
    return pf_model_verifier_create(backend, config, out, error);
}

static bench open_bench(pf_context_config context, pf_model_verifier_config config)
{
    bench b = open_near_bench(&MODEL, context, create_verifier, &config);
    near_side_decode(&b.side, &GREEDY, PROMPT, N_PROMPT, N_TEXT, b.text);
    return b;
}

/* Of a cache of MODEL. */
typedef struct {
    size_t bytes;
    int32_t tokens;
} page_size;

static page_size page_of_model(void)
{
    near_side side = near_side_open(&MODEL, &(pf_context_config){ .max_sequences = 1 });
    const page_size p = { near_side_page_bytes(&side), near_side_page_tokens(&side) };
    near_side_close(&side);
    return p;
}

static bench open_plain_bench(void)
{
    return open_bench((pf_context_config){ .max_sequences = 4 },
                      (pf_model_verifier_config){ .max_sequences = 4, .max_draft = 8 });
}

/* Round r of a sequence that has committed `base` tokens. */
static pf_proposal proposal_of(uint64_t sequence, uint64_t round, int32_t base, const int32_t *tokens, int32_t n)
{
    return (pf_proposal){
        .sequence = sequence, .incarnation = 1, .round = round, .base = base, .tokens = tokens, .n_tokens = n
    };
}

static const pf_verdict *ask_verdict(bench *b, pf_batch batch)
{
    const pf_batch *answer = ask(b, batch);
    assert_non_null(answer);
    assert_int_equal(answer->n_verdicts, 1);
    assert_int_equal(answer->n_refusals, 0);
    assert_int_equal(answer->n_prefix_requests, 0);
    return &answer->verdicts[0];
}

static const pf_verdict *ask_open(bench *b, pf_open open)
{
    return ask_verdict(b, (pf_batch){ .opens = &open, .n_opens = 1 });
}

static const pf_verdict *propose_tree(bench *b, uint64_t round, int32_t base, const int32_t *tokens,
                                      const int32_t *parents, int32_t n)
{
    pf_proposal proposal = proposal_of(1, round, base, tokens, n);
    proposal.parents = parents;
    return ask_verdict(b, (pf_batch){ .proposals = &proposal, .n_proposals = 1 });
}

static const pf_verdict *propose(bench *b, uint64_t round, int32_t base, const int32_t *tokens, int32_t n)
{
    return propose_tree(b, round, base, tokens, NULL, n);
}

static const pf_refusal *ask_refusal(bench *b, pf_open open)
{
    const pf_batch *answer = ask(b, (pf_batch){ .opens = &open, .n_opens = 1 });
    assert_non_null(answer);
    assert_int_equal(answer->n_verdicts, 0);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, open.sequence);
    assert_int_equal(answer->refusals[0].incarnation, open.incarnation);
    return &answer->refusals[0];
}

static void assert_verdict(const pf_verdict *v, uint64_t round, int32_t base, const int32_t *tokens, int32_t n_tokens,
                           int32_t n_accepted, pf_finish finish)
{
    assert_int_equal(v->round, round);
    assert_int_equal(v->base, base);
    assert_int_equal(v->n_tokens, n_tokens);
    assert_int_equal(v->n_accepted, n_accepted);
    assert_int_equal(v->finish, finish);
    for (int32_t i = 0; i < n_tokens; i++) assert_int_equal(v->tokens[i], tokens[i]);
}

/* ---- verdicts ------------------------------------------------------------------------------------------------ */

static void an_open_answers_with_the_first_token(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    assert_verdict(ask_open(&b, near_peer_open(1)), 0, N_PROMPT, b.text, 1, 0, PF_FINISH_NONE);
    close_bench(&b);
}

static void a_proposal_is_kept_as_far_as_the_target_agrees_and_corrected_there(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    ask_open(&b, near_peer_open(1));
    int32_t at = 1;
    uint64_t round = 1;
    for (int32_t n_right = 4; n_right >= 0; n_right--, round++) {
        int32_t draft[4];
        memcpy(draft, b.text + at, sizeof draft);
        if (n_right < 4) draft[n_right] = (draft[n_right] + 1) % V;
        const pf_verdict *v = propose(&b, round, N_PROMPT + at, draft, 4);
        assert_verdict(v, round, N_PROMPT + at, b.text + at, n_right + 1, n_right, PF_FINISH_NONE);
        at += n_right + 1;
    }
    assert_verdict(propose(&b, round, N_PROMPT + at, NULL, 0), round, N_PROMPT + at, b.text + at, 1, 0, PF_FINISH_NONE);
    close_bench(&b);
}

static void a_proposal_is_judged_up_to_its_first_invalid_token(void **state)
{
    (void)state;
    for (int what = 0; what < 6; what++) {
        bench b = open_bench((pf_context_config){ .max_sequences = 2 },
                             (pf_model_verifier_config){ .max_sequences = 1, .max_draft = 4 });
        ask_open(&b, near_peer_open(1));
        int32_t draft[6], parents[6] = { -1, 0, 1, 2, 3, 4 };
        memcpy(draft, b.text + 1, sizeof draft);
        const int32_t id = 3;
        const float one = 1.0f;
        pf_declared declared[6];
        for (int32_t i = 0; i < 6; i++) declared[i] = (pf_declared){ &id, &one, 1 };
        pf_proposal proposal = proposal_of(1, 1, N_PROMPT + 1, draft, 6);
        int32_t n_accepted = 2;
        switch (what) {
        case 0: n_accepted = 4; break; /* as many as the verifier takes */
        case 1: draft[2] = V; break;
        case 2: draft[2] = -1; break;
        case 3:
        case 4:
            parents[2] = what == 3 ? INT32_MIN : 2; /* nothing stands behind itself */
            proposal.parents = parents;
            break;
        default: declared[2].n = 0; proposal.declared = declared;
        }
        const pf_verdict *v = ask_verdict(&b, (pf_batch){ .proposals = &proposal, .n_proposals = 1 });
        assert_verdict(v, 1, N_PROMPT + 1, b.text + 1, n_accepted + 1, n_accepted, PF_FINISH_NONE);
        close_bench(&b);
    }
}

/* A token that a text never has. */
static int32_t raw_client_to(const int32_t text[N_TEXT])
{
    int32_t token = 0;
    for (int32_t i = 0; i < N_TEXT; i++)
        if (text[i] == token) {
            token++;
            i = -1;
        }
    return token;
}

/* The text's next n_true tokens, and a wrong, in an order and behind parents that `seed` says; n_nodes in all. */
static void plant(const int32_t *text, int32_t n_true, int32_t n_nodes, int32_t wrong, uint32_t seed, int32_t *tokens,
                  int32_t *parents)
{
    int32_t last_true = -1, n_planted = 0;
    for (int32_t i = 0; i < n_nodes; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int32_t missing = n_true - n_planted;
        if (missing > 0 && (missing == n_nodes - i || seed >> 31)) {
            tokens[i] = text[n_planted++];
            parents[i] = last_true;
            last_true = i;
        } else {
            tokens[i] = wrong;
            parents[i] = (int32_t)(seed >> 8) % (i + 1) - 1;
        }
    }
}

static void the_targets_path_of_a_tree_is_kept_and_the_text_continues(void **state)
{
    (void)state;
    const pf_sampling coupled = { .temperature = 1.0f, .top_p = 1.0f, .seed = 4 };
    for (uint32_t seed = 0; seed < 60 / NEAR_SIDE_SLOWNESS; seed++) {
        bench b = open_plain_bench();
        pf_open open = near_peer_open(1);
        if (seed % 2) {
            open.sampling = coupled;
            open.method = PF_METHOD_COUPLED;
            near_side_decode(&b.side, &coupled, PROMPT, N_PROMPT, N_TEXT, b.text);
        }
        ask_open(&b, open);
        for (int32_t at = 1, round = 1; at < 30; round++) {
            int32_t tokens[8], parents[8];
            const int32_t n_true = (int32_t)(seed + (uint32_t)round) % 5;
            plant(b.text + at, n_true, 8, raw_client_to(b.text), seed * 31 + (uint32_t)round, tokens, parents);
            const pf_verdict *v = propose_tree(&b, (uint64_t)round, N_PROMPT + at, tokens, parents, 8);
            assert_verdict(v, (uint64_t)round, N_PROMPT + at, b.text + at, n_true + 1, n_true, PF_FINISH_NONE);
            at += n_true + 1;
        }
        close_bench(&b);
    }
}

static void a_stop_token_on_a_trees_path_ends_the_sequence_there(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = near_peer_open(1);
    open.stop_tokens = &b.text[2];
    open.n_stop_tokens = 1;
    ask_open(&b, open);
    const int32_t other = raw_client_to(b.text), tokens[] = { other, b.text[1], b.text[2], other, b.text[3] },
                  parents[] = { -1, -1, 1, 2, 2 };
    const pf_verdict *v = propose_tree(&b, 1, N_PROMPT + 1, tokens, parents, 5);
    assert_verdict(v, 1, N_PROMPT + 1, b.text + 1, 2, 2, PF_FINISH_EOS);
    close_bench(&b);
}

/* Nor is what a drawn token was drawn from told apart along more paths than one. */
static void methods_that_sample_judge_all_of_a_tree(void **state)
{
    (void)state;
    const pf_sampling cold = { .temperature = 1e-4f, .top_p = 1.0f, .seed = 4 }; /* all but greedy */
    const pf_method methods[] = { PF_METHOD_REJECTION, PF_METHOD_BLOCK, PF_METHOD_COUPLED };
    for (size_t i = 0; i < PF_COUNT(methods); i++) {
        bench b = open_plain_bench();
        pf_open open = near_peer_open(1);
        open.sampling = cold;
        open.method = methods[i];
        ask_open(&b, open);
        const int32_t tokens[] = { b.text[1], b.text[2], b.text[2] }, parents[] = { -1, -1, 0 };
        const pf_verdict *v = propose_tree(&b, 1, N_PROMPT + 1, tokens, parents, 3);
        assert_verdict(v, 1, N_PROMPT + 1, b.text + 1, 3, 2, PF_FINISH_NONE);
        close_bench(&b);
    }
}

/* A text, and the rows behind each of its tokens. */
typedef struct {
    const near_side *side;
    const pf_sampling *sampling;
    const int32_t *text;
    int32_t n_prefix;
    float p[V];
} rows_by_hand;

static const float *make_by_hand(void *rows, int32_t row)
{
    rows_by_hand *r = rows;
    near_side_distribution(r->side, r->sampling, r->text, r->n_prefix + row, r->p);
    return r->p;
}

/* What rejection commits behind `prefix`; how many of the draft's are among them. */
static int32_t reject_by_hand(const bench *b, const pf_sampling *sampling, int32_t prefix[N_PROMPT + 8],
                              int32_t n_prefix, const int32_t *draft, int32_t n_draft)
{
    pf_accept_uniforms uniforms[8];
    int32_t path[8];
    float room[V] = { 0 };
    for (int32_t i = 0; i <= n_draft; i++) {
        uniforms[i].keep = pf_noise_uniform(sampling->seed, PF_NOISE_ACCEPT, n_prefix + i, 0);
        uniforms[i].next = pf_noise_uniform(sampling->seed, PF_NOISE_ACCEPT, n_prefix + i, 1);
    }
    memcpy(prefix + n_prefix, draft, (size_t)n_draft * sizeof *draft);
    rows_by_hand rows = { .side = &b->side, .sampling = sampling, .text = prefix, .n_prefix = n_prefix };
    const pf_drafted drafted = { .tokens = draft, .n = n_draft };
    const pf_acceptance a = pf_accept_rejection(&drafted, V, make_by_hand, &rows, uniforms, room, path);
    prefix[n_prefix + a.n_accepted] = a.next;
    return a.n_accepted;
}

static void rejection_decides_each_position_by_its_own_uniforms(void **state)
{
    (void)state;
    enum { N_DRAFT = 3 };
    bench b = open_bench((pf_context_config){ .max_sequences = 5 },
                         (pf_model_verifier_config){ .max_sequences = 4, .max_draft = 8 });
    int32_t n_after[N_DRAFT + 1] = { 0 };
    for (uint32_t seed = 1; seed <= 60; seed++) {
        pf_open open = near_peer_open(1);
        open.incarnation = seed;
        open.sampling = (pf_sampling){ .temperature = 0.7f, .top_p = 1.0f, .seed = seed };
        open.method = PF_METHOD_REJECTION;
        int32_t tokens[N_PROMPT + 8], draft[N_DRAFT];
        memcpy(tokens, PROMPT, sizeof PROMPT);
        tokens[N_PROMPT] = ask_open(&b, open)->tokens[0];
        near_side_decode(&b.side, &GREEDY, tokens, N_PROMPT + 1, N_DRAFT, draft);

        pf_proposal proposal = proposal_of(1, 1, N_PROMPT + 1, draft, N_DRAFT);
        proposal.incarnation = seed;
        const int32_t n_accepted = reject_by_hand(&b, &open.sampling, tokens, N_PROMPT + 1, draft, N_DRAFT);
        const pf_verdict *v = ask_verdict(&b, (pf_batch){ .proposals = &proposal, .n_proposals = 1 });
        assert_verdict(v, 1, N_PROMPT + 1, tokens + N_PROMPT + 1, n_accepted + 1, n_accepted, PF_FINISH_NONE);
        n_after[n_accepted]++;
    }
    for (int32_t n = 0; n <= N_DRAFT; n++) assert_true(n_after[n] > 0); /* each end of a round was met */
    close_bench(&b);
}

/* A text whose last token the model cannot go on from, which plain decoding does not see: nor does a proposal that ends
 * there, or reaches past it. */
static void a_row_of_nans_decides_nothing_and_keeps_earlier_tokens(void **state)
{
    (void)state;
    bench plain = open_plain_bench();
    int32_t text[3];
    memcpy(text, plain.text, sizeof text);
    close_bench(&plain);
    for (int32_t i = 0; i < 2; i++) assert_int_not_equal(text[i], text[2]);
    const pf_tiny_model ends = { .seed = MODEL.seed, .nan_token = text[2] };
    static const pf_sampling sampling[] = { { .temperature = 0.0f }, { .temperature = 1e-6f, .seed = 9 } };
    for (size_t i = 0; i < PF_COUNT(sampling); i++) {
        const pf_model_verifier_config config = { .max_sequences = 1, .max_draft = 8 };
        bench b = open_near_bench(&ends, (pf_context_config){ .max_sequences = 1 }, create_verifier, &config);
        pf_open open = near_peer_open(1);
        open.sampling = sampling[i];
        open.method = i == 0 ? PF_METHOD_GREEDY : PF_METHOD_REJECTION;
        open.max_tokens = N_PROMPT + 3;
        assert_verdict(ask_open(&b, open), 0, N_PROMPT, text, 1, 0, PF_FINISH_NONE);
        assert_verdict(propose(&b, 1, N_PROMPT + 1, text + 1, 2), 1, N_PROMPT + 1, text + 1, 2, 1, PF_FINISH_LENGTH);
        pf_close close = { 1 };
        (void)ask(&b, (pf_batch){ .closes = &close, .n_closes = 1 });

        open.max_tokens = 0; /* that goes on, and is refused there, as plain decoding is */
        ask_open(&b, open);
        assert_verdict(propose(&b, 1, N_PROMPT + 1, text + 1, 2), 1, N_PROMPT + 1, text + 1, 2, 1, PF_FINISH_NONE);
        pf_proposal none = proposal_of(1, 2, N_PROMPT + 3, NULL, 0);
        const pf_batch *answer = ask(&b, (pf_batch){ .proposals = &none, .n_proposals = 1 });
        assert_int_equal(answer->n_verdicts, 0);
        assert_int_equal(answer->n_refusals, 1);
        close_bench(&b);
    }
}

/* ---- invalid logits ------------------------------------------------------------------------------------------ */

static bench open_spoiled_bench(void)
{
    bench b = { .side = near_side_open(&MODEL, &(pf_context_config){ .max_sequences = 1 }) };
    const pf_model_verifier_config config = { .max_sequences = 1, .max_draft = 8 };
    pf_error error = { 0 };
    near_side_decode(&b.side, &GREEDY, PROMPT, N_PROMPT, N_TEXT, b.text);
    spoiled = (spoil){ 0 };
    assert_ok(pf_model_verifier_create(spoil_backend(near_side_backend(&b.side)), &config, &b.peer, &error), error);
    return b;
}

static void assert_invalid(bench *b, int64_t n_rows, int32_t position, int32_t id)
{
    pf_invalid_logits invalid;
    pf_peer_take_invalid_logits(b->peer, &invalid);
    assert_int_equal(invalid.n_rows, n_rows);
    if (n_rows > 0) assert_int_equal(invalid.first_position, position);
    if (n_rows > 0) assert_int_equal(invalid.first_id, id);
    pf_peer_take_invalid_logits(b->peer, &invalid);
    assert_int_equal(invalid.n_rows, 0);
}

static pf_open open_by(pf_method method)
{
    pf_open open = near_peer_open(1);
    open.method = method;
    if (method != PF_METHOD_GREEDY)
        open.sampling = (pf_sampling){ .temperature = 1e-6f, .top_p = 1.0f, .seed = 9 }; /* all but greedy */
    return open;
}

static void invalid_rows_of_an_accepted_chain_are_counted_with_the_first_position(void **state)
{
    (void)state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_REJECTION, PF_METHOD_COUPLED };
    for (size_t m = 0; m < PF_COUNT(methods); m++) {
        bench b = open_spoiled_bench();
        const int32_t other = raw_client_to(b.text);
        spoiled = (spoil){ .rows = 1, .id = other, .value = NAN };
        assert_verdict(ask_open(&b, open_by(methods[m])), 0, N_PROMPT, b.text, 1, 0, PF_FINISH_NONE);
        assert_invalid(&b, 1, N_PROMPT - 1, other);

        spoiled = (spoil){ .rows = 0 };
        assert_verdict(propose(&b, 1, N_PROMPT + 1, b.text + 1, 2), 1, N_PROMPT + 1, b.text + 1, 3, 2, PF_FINISH_NONE);
        assert_invalid(&b, 0, 0, 0);

        spoiled = (spoil){ .rows = 6, .id = other, .value = NAN };
        assert_verdict(propose(&b, 2, N_PROMPT + 4, b.text + 4, 2), 2, N_PROMPT + 4, b.text + 4, 3, 2, PF_FINISH_NONE);
        assert_invalid(&b, 2, N_PROMPT + 4, other);
        close_bench(&b);
    }
}

static void an_infinite_logit_is_chosen_and_counted(void **state)
{
    (void)state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_REJECTION, PF_METHOD_COUPLED };
    for (size_t m = 0; m < PF_COUNT(methods); m++) {
        bench b = open_spoiled_bench();
        const int32_t other = raw_client_to(b.text);
        spoiled = (spoil){ .rows = 1, .id = other, .value = INFINITY };
        assert_verdict(ask_open(&b, open_by(methods[m])), 0, N_PROMPT, &other, 1, 0, PF_FINISH_NONE);
        assert_invalid(&b, 1, N_PROMPT - 1, other);
        spoiled = (spoil){ .rows = 1, .id = other, .value = -INFINITY }; /* never chosen, and no fault */
        assert_int_equal(propose(&b, 1, N_PROMPT + 1, NULL, 0)->n_tokens, 1);
        assert_invalid(&b, 0, 0, 0);
        close_bench(&b);
    }
}

static void invalid_rows_of_a_tree_count_on_the_targets_path_alone(void **state)
{
    (void)state;
    bench b = open_spoiled_bench();
    ask_open(&b, near_peer_open(1));
    const int32_t other = raw_client_to(b.text), tokens[] = { other, b.text[1], b.text[2], other, b.text[3] },
                  parents[] = { -1, -1, 1, 2, 2 };
    spoiled = (spoil){ .rows = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5, .id = other, .value = NAN }; /* the path: 0 2 3 5 */
    assert_verdict(propose_tree(&b, 1, N_PROMPT + 1, tokens, parents, 5), 1, N_PROMPT + 1, b.text + 1, 4, 3,
                   PF_FINISH_NONE);
    assert_invalid(&b, 2, N_PROMPT + 2, other);
    close_bench(&b);
}

static void a_row_without_a_number_is_refused_by_its_position_and_counted(void **state)
{
    (void)state;
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_REJECTION, PF_METHOD_COUPLED };
    for (size_t m = 0; m < PF_COUNT(methods); m++) {
        bench b = open_spoiled_bench();
        spoiled = (spoil){ .rows = 1, .id = SPOIL_ALL_IDS, .value = NAN };
        const pf_refusal *refusal = ask_refusal(&b, open_by(methods[m]));
        assert_int_equal(refusal->status, PF_UNSUPPORTED);
        assert_non_null(strstr(refusal->text, "after position 4 hold no number"));
        assert_invalid(&b, 1, N_PROMPT - 1, 0);
        close_bench(&b);
    }
}

static void a_sequence_reopened_with_what_was_committed_goes_on_in_its_round(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        bench b = open_plain_bench();
        if (known) {
            ask_open(&b, near_peer_open(1));
            propose(&b, 1, N_PROMPT + 1, b.text + 1, 8);
        }
        int32_t committed[N_PROMPT + 6];
        memcpy(committed, PROMPT, sizeof PROMPT);
        memcpy(committed + N_PROMPT, b.text, 6 * sizeof *b.text);
        pf_open again = near_peer_open(1);
        again.incarnation = 2;
        again.next_round = 17;
        again.tokens = committed;
        again.n_tokens = N_PROMPT + 6;
        const pf_verdict *v = ask_open(&b, again);
        assert_int_equal(v->incarnation, 2);
        assert_verdict(v, 17, N_PROMPT + 6, b.text + 6, 1, 0, PF_FINISH_NONE);
        close_bench(&b);
    }
}

static void a_sequence_reopened_with_another_prompt_starts_afresh(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const int32_t other[] = { 9, 8, 1, 2, 3 };
    int32_t expected;
    near_side_decode(&b.side, &GREEDY, other, 5, 1, &expected);
    ask_open(&b, near_peer_open(1));
    propose(&b, 1, N_PROMPT + 1, b.text + 1, 8);
    pf_open again = near_peer_open(1);
    again.incarnation = 2;
    again.tokens = other;
    assert_verdict(ask_open(&b, again), 0, 5, &expected, 1, 0, PF_FINISH_NONE);
    close_bench(&b);
}

/* ---- shared prefixes --------------------------------------------------------------------------------------------- */

enum { N_TEXTS = 4, LONGEST_TEXT = 128 };

typedef struct {
    bool is_open;
    uint32_t incarnation;
    uint64_t round;
    int32_t tokens[LONGEST_TEXT + PF_MAX_DRAFT_TOKENS], n;
} request;

/* One verifier that shares prefixes in a small cache, one that computes everything. */
typedef struct {
    bench shares, forgets;
    uint64_t clock_ns, rng;
    request requests[N_TEXTS];
} pair;

static void take_verdicts(pair *p, request *r, pf_batch batch)
{
    const pf_verdict *a = ask_verdict(&p->shares, batch), *b = ask_verdict(&p->forgets, batch);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->n_accepted, b->n_accepted);
    assert_memory_equal(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof *a->tokens);
    memcpy(r->tokens + r->n, a->tokens, (size_t)a->n_tokens * sizeof *a->tokens);
    r->n += a->n_tokens;
    r->round++;
}

/* A prompt that begins as another text does. */
static void open_request(pair *p, request *r)
{
    const request *other = &p->requests[below(&p->rng, N_TEXTS)];
    r->n = other->n > 0 ? below(&p->rng, other->n) : 0;
    memmove(r->tokens, other->tokens, (size_t)r->n * sizeof *r->tokens);
    for (int32_t more = 1 + below(&p->rng, 10); more > 0 && r->n < 90; more--) r->tokens[r->n++] = below(&p->rng, V);
    r->is_open = true;
    r->round = 0;
    pf_open open = near_peer_open((uint64_t)(r - p->requests) + 1);
    open.incarnation = ++r->incarnation;
    open.tokens = r->tokens;
    open.n_tokens = r->n;
    take_verdicts(p, r, (pf_batch){ .opens = &open, .n_opens = 1 });
}

static void close_request(pair *p, request *r)
{
    pf_close close = { (uint64_t)(r - p->requests) + 1 };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    assert_null(ask(&p->shares, batch));
    assert_null(ask(&p->forgets, batch));
    r->is_open = false;
}

/* A chain, or a tree whose second branch is the target's. */
static void propose_request(pair *p, request *r)
{
    int32_t tokens[6], text[3], parents[6] = { -1, 0, 1, -1, 3, 4 };
    near_side_decode(&p->forgets.side, &GREEDY, r->tokens, r->n, 3, text);
    const bool is_tree = below(&p->rng, 2) == 0;
    for (int32_t i = 0; i < 3; i++) {
        tokens[i] = is_tree || below(&p->rng, 4) == 0 ? below(&p->rng, V) : text[i];
        tokens[3 + i] = text[i];
    }
    pf_proposal proposal =
        proposal_of((uint64_t)(r - p->requests) + 1, r->round, r->n, tokens, is_tree ? 6 : below(&p->rng, 4));
    proposal.incarnation = r->incarnation;
    proposal.parents = is_tree ? parents : NULL;
    take_verdicts(p, r, (pf_batch){ .proposals = &proposal, .n_proposals = 1 });
}

static void sequences_that_share_prefixes_get_the_text_of_fresh_ones(void **state)
{
    (void)state;
    enum { STEPS = 600 / NEAR_SIDE_SLOWNESS, FEW = 3 / NEAR_SIDE_SLOWNESS };
    const page_size page = page_of_model();
    pair p = { .clock_ns = 1, .rng = 3 };
    p.shares = open_bench(
        (pf_context_config){ .max_sequences = N_TEXTS, .kv_budget_bytes = (size_t)(256 / page.tokens) * page.bytes },
        (pf_model_verifier_config){ .max_sequences = N_TEXTS, .max_draft = 8, .stop = { .clock_ns = &p.clock_ns } });
    p.forgets =
        open_bench((pf_context_config){ .max_sequences = N_TEXTS + 1 },
                   (pf_model_verifier_config){ .max_sequences = N_TEXTS, .max_draft = 8, .no_prefix_cache = true });
    for (int32_t step = 0; step < STEPS; step++) {
        request *r = &p.requests[below(&p.rng, N_TEXTS)];
        p.clock_ns += (uint64_t)2e9; /* all the others are idle */
        if (!r->is_open || r->n > 100 || below(&p.rng, 12) == 0) {
            if (r->is_open && below(&p.rng, 2) == 0) close_request(&p, r);
            open_request(&p, r);
        } else {
            propose_request(&p, r);
        }
    }
    const pf_sequence_cache_counts c = pf_model_verifier_counts(p.shares.peer);
    if (!(c.n_reusing > 5 * FEW && c.n_reused > 100 * FEW && c.n_dropped > FEW && c.n_evicted > FEW))
        fail_msg("%d reuse %d tokens, %d are dropped, %d evicted", (int)c.n_reusing, (int)c.n_reused, (int)c.n_dropped,
                 (int)c.n_evicted);
    close_bench(&p.shares);
    close_bench(&p.forgets);
}

/* Rows of a tree stand side by side in the cache, and are no text. */
static void the_rows_of_a_refused_tree_are_not_retained(void **state)
{
    (void)state;
    bench b = { .side = near_side_open(&MODEL, &(pf_context_config){ .max_sequences = 2 }) };
    const pf_model_verifier_config config = { .max_sequences = 2, .max_draft = 8 };
    pf_error error;
    spoiled = (spoil){ 0 };
    assert_ok(pf_model_verifier_create(spoil_backend(near_side_backend(&b.side)), &config, &b.peer, &error), error);
    const int32_t tokens[] = { 3, 4, 5, 6 }, parents[] = { -1, -1, -1, -1 };
    int32_t text[N_LONG_PROMPT + 5], next;
    const pf_open open = near_peer_open_long(1);
    memcpy(text, open.tokens, N_LONG_PROMPT * sizeof *text);
    text[N_LONG_PROMPT] = ask_open(&b, open)->tokens[0];
    memcpy(text + N_LONG_PROMPT + 1, tokens, sizeof tokens);
    spoiled = (spoil){ .rows = 1, .id = SPOIL_ALL_IDS, .value = NAN };
    pf_proposal proposal = proposal_of(1, 1, N_LONG_PROMPT + 1, tokens, 4);
    proposal.parents = parents;
    assert_int_equal(ask(&b, (pf_batch){ .proposals = &proposal, .n_proposals = 1 })->n_refusals, 1);
    spoiled = (spoil){ 0 };
    pf_open again = near_peer_open(2);
    again.tokens = text;
    again.n_tokens = N_LONG_PROMPT + 5;
    const int32_t got = ask_open(&b, again)->tokens[0];
    assert_int_equal(pf_model_verifier_counts(b.peer).n_reused, N_LONG_PROMPT + 1);
    pf_peer_destroy(b.peer);
    near_side_decode(&b.side, &GREEDY, text, N_LONG_PROMPT + 5, 1, &next);
    assert_int_equal(got, next);
    near_side_close(&b.side);
}

static void eos_ends_a_sequence_and_cuts_what_is_behind_it(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    for (int32_t at = 0; at <= 4; at++) { /* the EOS is the first token, an accepted one, or the bonus */
        int32_t first = at;
        for (int32_t i = 0; i < at; i++)
            if (b.text[i] == b.text[at]) first = i;
        pf_open open = near_peer_open(1);
        open.stop_tokens = &b.text[at];
        open.n_stop_tokens = 1;
        const pf_verdict *v = ask_open(&b, open);
        if (first == 0) {
            assert_verdict(v, 0, N_PROMPT, b.text, 1, 0, PF_FINISH_EOS);
        } else {
            v = propose(&b, 1, N_PROMPT + 1, b.text + 1, 3);
            assert_verdict(v, 1, N_PROMPT + 1, b.text + 1, first, first < 3 ? first : 3, PF_FINISH_EOS);
        }
        pf_close close = { 1 };
        assert_null(ask(&b, (pf_batch){ .closes = &close, .n_closes = 1 }));
    }
    close_bench(&b);
}

static void max_tokens_ends_a_sequence_and_cuts_what_is_behind_it(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    for (int32_t n_new = 0; n_new <= 6; n_new++) {
        pf_open open = near_peer_open(1);
        open.max_tokens = N_PROMPT + n_new;
        const pf_verdict *v = ask_open(&b, open);
        if (n_new < 2) {
            assert_verdict(v, 0, N_PROMPT, b.text, n_new, 0, PF_FINISH_LENGTH);
            pf_proposal more = proposal_of(1, 1, N_PROMPT + n_new, b.text + n_new, 2);
            assert_null(ask(&b, (pf_batch){ .proposals = &more, .n_proposals = 1 }));
        } else {
            const int32_t left = n_new - 1, n = left < 5 ? left : 5;
            v = propose(&b, 1, N_PROMPT + 1, b.text + 1, 4);
            assert_verdict(v, 1, N_PROMPT + 1, b.text + 1, n, n < 4 ? n : 4,
                           left <= 5 ? PF_FINISH_LENGTH : PF_FINISH_NONE);
        }
        assert_null(ask(&b, (pf_batch){ 0 })); /* once */
        pf_close close = { 1 };
        assert_null(ask(&b, (pf_batch){ .closes = &close, .n_closes = 1 }));
    }
    close_bench(&b);
}

static void a_finished_sequence_gets_no_more_verdicts(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open open = near_peer_open(1);
    open.max_tokens = N_PROMPT + 1;
    assert_int_equal(ask_open(&b, open)->finish, PF_FINISH_LENGTH);
    pf_proposal more = proposal_of(1, 1, N_PROMPT + 1, b.text + 1, 2);
    assert_null(ask(&b, (pf_batch){ .proposals = &more, .n_proposals = 1 }));
    close_bench(&b);
}

static void a_prompt_longer_than_a_pass_gives_the_same_text(void **state)
{
    (void)state;
    int32_t expected[3];
    pf_open open = near_peer_open_long(1);
    static const int32_t rows[] = { 10, 40 };
    for (int32_t i = 0; i < 8; i++) {
        const int32_t n = i < 4 ? 58 + i : 35 + i; /* shorter, as long and longer */
        bench b = open_bench((pf_context_config){ .max_sequences = 2, .max_rows = rows[i / 4] },
                             (pf_model_verifier_config){ .max_sequences = 1, .max_draft = 8 });
        bench wide = open_plain_bench();
        near_side_decode(&wide.side, &GREEDY, open.tokens, n, 3, expected);
        open.n_tokens = n;
        assert_verdict(ask_open(&b, open), 0, n, expected, 1, 0, PF_FINISH_NONE);
        assert_verdict(propose(&b, 1, n + 1, expected + 1, 1), 1, n + 1, expected + 1, 2, 1, PF_FINISH_NONE);
        close_bench(&b);
        close_bench(&wide);
    }
}

/* A client with its next round ready at every answer. */
static void a_prompt_progresses_beside_continuous_rounds(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10 },
                         (pf_model_verifier_config){ .max_sequences = 2, .max_draft = 8 });
    (void)ask_open(&b, near_peer_open(2));
    pf_open open = near_peer_open_long(1);
    assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .opens = &open, .n_opens = 1 }), PF_OK);
    int n_first = 0, n_second = 0;
    for (int pass = 1; pass <= 14; pass++) { /* 60 tokens, ten a pass, and the last */
        pf_proposal proposal = proposal_of(2, (uint64_t)pass, N_PROMPT + pass, NULL, 0);
        const pf_batch *answer = NULL;
        pf_error error;
        assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .proposals = &proposal, .n_proposals = 1 }), PF_OK);
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        for (int32_t i = 0; i < answer->n_verdicts; i++)
            *(answer->verdicts[i].sequence == 1 ? &n_first : &n_second) += 1;
    }
    assert_int_equal(n_second, 14);
    assert_int_equal(n_first, 1);
    close_bench(&b);
}

static void a_long_prompt_returns_empty_answers_at_the_deadline(void **state)
{
    (void)state;
    int32_t expected[3], other[3];
    pf_open open = near_peer_open_long(1);
    bench b = open_bench((pf_context_config){ .max_sequences = 2, .max_rows = 10 },
                         (pf_model_verifier_config){ .max_sequences = 2, .max_draft = 8 });
    bench wide = open_plain_bench();
    near_side_decode(&wide.side, &GREEDY, open.tokens, 61, 3, expected);
    near_side_decode(&wide.side, &GREEDY, PROMPT, N_PROMPT, 3, other);
    assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .opens = &open, .n_opens = 1 }), PF_OK);
    assert_int_equal(pf_peer_backlog(b.peer), 61);
    pf_open second = near_peer_open(2);
    const pf_batch *answer = NULL;
    pf_error error;
    for (int pass = 1; pass <= 7; pass++) { /* 60 tokens, ten a pass; the last has logits */
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        if (pass <= 2) assert_int_equal(pf_peer_backlog(b.peer), 61 - 10 * pass);
        assert_int_equal(answer->n_verdicts, pass == 3); /* a sequence that arrives meanwhile is served by itself */
        assert_true(pf_peer_owes(b.peer, 1));
        assert_false(pf_peer_owes(b.peer, 2));
        if (pass == 3) assert_verdict(&answer->verdicts[0], 0, N_PROMPT, other, 1, 0, PF_FINISH_NONE);
        if (pass == 2) assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .opens = &second, .n_opens = 1 }), PF_OK);
    }
    assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
    assert_int_equal(answer->n_verdicts, 1);
    assert_verdict(&answer->verdicts[0], 0, 61, expected, 1, 0, PF_FINISH_NONE);
    assert_int_equal(pf_peer_backlog(b.peer), 0);
    assert_false(pf_peer_owes(b.peer, 1));
    assert_status(pf_peer_collect(b.peer, 0, &answer, &error), PF_CANCELLED);
    close_bench(&wide);
    close_bench(&b);
}

static void long_prompts_are_read_in_turn_and_submits_are_taken_between_chunks(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 4, .max_rows = 10 },
                         (pf_model_verifier_config){ .max_sequences = 3, .max_draft = 8 });
    pf_open opens[] = { near_peer_open_long(1), near_peer_open_long(2), near_peer_open_long(3) };
    const pf_batch *answer = NULL;
    pf_error error;
    assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .opens = opens, .n_opens = 3 }), PF_OK);
    for (int pass = 1; pass <= 15; pass++) {
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
        assert_int_equal(answer->n_verdicts, 0);
        assert_int_equal(pf_peer_backlog(b.peer), 3 * 61 - 10 * pass);
    }
    int n_verdicts = 0;
    while (pf_peer_collect(b.peer, 0, &answer, &error) == PF_OK) n_verdicts += answer->n_verdicts;
    assert_int_equal(n_verdicts, 3);
    close_bench(&b);
}

static void a_batch_with_more_rows_than_a_pass_is_run_in_parts(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 4, .max_rows = 12, .max_logit_rows = 7 },
                         (pf_model_verifier_config){ .max_sequences = 4, .max_draft = 4 });
    pf_open opens[] = { near_peer_open(1), near_peer_open(2), near_peer_open(3), near_peer_open(4) };
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = opens, .n_opens = 4 });
    assert_int_equal(answer->n_verdicts, 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(answer->verdicts[i].tokens[0], b.text[0]);
    pf_proposal proposals[4];
    for (int32_t i = 0; i < 4; i++) proposals[i] = proposal_of((uint64_t)i + 1, 1, N_PROMPT + 1, b.text + 1, i + 1);
    answer = ask(&b, (pf_batch){ .proposals = proposals, .n_proposals = 4 });
    assert_int_equal(answer->n_verdicts, 4);
    for (int32_t i = 0; i < 4; i++) {
        const int32_t n = (int32_t)answer->verdicts[i].sequence;
        assert_verdict(&answer->verdicts[i], 1, N_PROMPT + 1, b.text + 1, n + 1, n, PF_FINISH_NONE);
    }
    close_bench(&b);
}

static void batches_submitted_one_after_another_are_answered_together(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    pf_open first = near_peer_open(1), second = near_peer_open(2);
    pf_error error = { 0 };
    assert_ok(pf_peer_submit(b.peer, &(pf_batch){ .opens = &first, .n_opens = 1 }), error);
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = &second, .n_opens = 1 });
    assert_int_equal(answer->n_verdicts, 2);
    assert_null(ask(&b, (pf_batch){ 0 }));
    close_bench(&b);
}

/* ---- refusals ------------------------------------------------------------------------------------------------ */

static void an_invalid_open_is_refused_with_the_field_named(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    const int32_t past[] = { 1, 2, V }, negative[] = { -1 };
    static const int32_t many_stops[PF_MAX_STOP_TOKENS + 1];
    static int32_t long_prompt[129];
    pf_open open = near_peer_open(1);
    open.tokens = past;
    open.n_tokens = 3;
    const pf_refusal *r = ask_refusal(&b, open);
    assert_int_equal(r->status, PF_INVALID);
    assert_non_null(strstr(r->text, "token 2"));
    open.tokens = negative;
    open.n_tokens = 1;
    assert_int_equal(ask_refusal(&b, open)->status, PF_INVALID);
    open.n_tokens = 0;
    assert_int_equal(ask_refusal(&b, open)->status, PF_INVALID);
    open = near_peer_open(1);
    open.sampling.temperature = -1.0f;
    assert_int_equal(ask_refusal(&b, open)->status, PF_INVALID);
    open = near_peer_open(1);
    open.method = (pf_method)9;
    assert_int_equal(ask_refusal(&b, open)->status, PF_UNSUPPORTED);
    open = near_peer_open(1);
    open.stop_tokens = many_stops;
    open.n_stop_tokens = PF_MAX_STOP_TOKENS + 1;
    assert_int_equal(ask_refusal(&b, open)->status, PF_INVALID);
    open = near_peer_open(1);
    open.tokens = long_prompt;
    open.n_tokens = 129;
    r = ask_refusal(&b, open);
    assert_int_equal(r->status, PF_LIMIT);
    assert_non_null(strstr(r->text, "129"));
    pf_error error; /* pf_peer_check_open gives the same sentence */
    assert_status(pf_peer_check_open(b.peer, &open, &error), PF_LIMIT);
    assert_string_equal(error.text, r->text);
    /* A refused sequence leaves nothing behind: the same id opens again. */
    assert_verdict(ask_open(&b, near_peer_open(1)), 0, N_PROMPT, b.text, 1, 0, PF_FINISH_NONE);
    close_bench(&b);
}

static void one_sequence_too_many_is_refused_until_another_closes(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    for (uint64_t i = 1; i <= 4; i++) ask_open(&b, near_peer_open(i));
    assert_int_equal(ask_refusal(&b, near_peer_open(5))->status, PF_LIMIT);
    pf_close close = { 2 };
    pf_open open = near_peer_open(5);
    const pf_verdict *v = ask_verdict(&b, (pf_batch){ .closes = &close, .n_closes = 1, .opens = &open, .n_opens = 1 });
    assert_int_equal(v->sequence, 5);
    pf_peer_destroy(b.peer); /* and gives back what was open */
    pf_error error;
    const pf_model_verifier_config again = { .max_sequences = 4, .max_draft = 8 };
    assert_ok(pf_model_verifier_create(near_side_backend(&b.side), &again, &b.peer, &error), error);
    for (uint64_t i = 1; i <= 4; i++) ask_open(&b, near_peer_open(i));
    close_bench(&b);
}

static void refusals_that_leave_no_room_for_those_of_a_pass_are_answered_before_it(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    static pf_open opens[PF_MAX_BATCH_SEQUENCES];
    const int32_t n_bad = PF_MAX_BATCH_SEQUENCES;
    for (int32_t i = 0; i < n_bad; i++) {
        opens[i] = near_peer_open(100);
        opens[i].method = (pf_method)9;
    }
    pf_open good = near_peer_open(1);
    assert_status(pf_peer_submit(b.peer, &(pf_batch){ .opens = opens, .n_opens = n_bad }), PF_OK);
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = &good, .n_opens = 1 });
    assert_int_equal(answer->n_refusals, n_bad);
    assert_int_equal(answer->n_verdicts, 0);
    assert_int_equal(ask_verdict(&b, (pf_batch){ 0 })->sequence, 1);
    answer = ask(&b, (pf_batch){ .opens = opens + 1, .n_opens = n_bad - 1 });
    assert_int_equal(answer->n_refusals, n_bad - 1);
    close_bench(&b);
}

static void a_sequence_that_fills_the_context_ends_there_and_no_other(void **state)
{
    (void)state;
    bench b = open_bench((pf_context_config){ .max_sequences = 3, .max_tokens = 64 },
                         (pf_model_verifier_config){ .max_sequences = 2, .max_draft = 8 });
    int32_t prompt[64], expected[5];
    for (int32_t i = 0; i < 64; i++) prompt[i] = (i * 29) % V;
    near_side_decode(&b.side, &GREEDY, prompt, 60, 5, expected);
    pf_open opens[] = { near_peer_open(1), near_peer_open(2) };
    opens[0].tokens = prompt;
    opens[0].n_tokens = 60;
    assert_int_equal(ask_verdict(&b, (pf_batch){ .opens = opens, .n_opens = 2 })->sequence,
                     2); /* the short one first */
    assert_int_equal(ask_verdict(&b, (pf_batch){ 0 })->sequence, 1);
    /* Eight are proposed; the context of 64 has room for three behind the 61 committed, and the bonus needs none. */
    int32_t draft[8] = { 0 };
    memcpy(draft, expected + 1, 4 * sizeof *draft);
    assert_verdict(propose(&b, 1, 61, draft, 8), 1, 61, expected + 1, 4, 3, PF_FINISH_LENGTH);
    pf_proposal proposals[] = { proposal_of(1, 2, 65, NULL, 0), proposal_of(2, 1, N_PROMPT + 1, b.text + 1, 2) };
    const pf_batch *answer = ask(&b, (pf_batch){ .proposals = proposals, .n_proposals = 2 });
    assert_int_equal(answer->n_refusals, 0);
    assert_int_equal(answer->n_verdicts, 1);
    assert_verdict(&answer->verdicts[0], 1, N_PROMPT + 1, b.text + 1, 3, 2, PF_FINISH_NONE);
    pf_close closes[] = { { 1 }, { 2 } };
    assert_null(ask(&b, (pf_batch){ .closes = closes, .n_closes = 2 }));
    for (int32_t n = 1; n <= 64; n += 63) { /* the shortest prompt, and the longest */
        pf_open open = near_peer_open((uint64_t)n + 2);
        open.tokens = prompt;
        open.n_tokens = n;
        near_side_decode(&b.side, &GREEDY, prompt, n, 1, expected);
        assert_verdict(ask_open(&b, open), 0, n, expected, 1, 0, n == 64 ? PF_FINISH_LENGTH : PF_FINISH_NONE);
    }
    close_bench(&b);
}

static void a_full_kv_pool_refuses_only_the_sequence_that_needs_a_page(void **state)
{
    (void)state;
    /* Pages of at least 16 tokens; find a budget that holds two short sequences and not a long one besides. */
    const page_size page = page_of_model();
    const int32_t page_tokens = page.tokens;

    int32_t prompt[128]; /* the context */
    for (int32_t i = 0; i < 128; i++) prompt[i] = (i * 29) % V;
    const size_t pages = (size_t)((45 + page_tokens - 1) / page_tokens) + 1; /* text, or a short one and a part */
    bench b =
        open_bench((pf_context_config){ .max_sequences = 4, .max_rows = 160, .kv_budget_bytes = pages * page.bytes },
                   (pf_model_verifier_config){ .max_sequences = 4, .max_draft = 8 });
    pf_open opens[] = { near_peer_open(1), near_peer_open(2), near_peer_open(3) };
    opens[1].tokens = prompt;
    opens[1].n_tokens = (int32_t)pages * page_tokens - 1;
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = opens, .n_opens = 3 });
    assert_int_equal(answer->n_refusals, 0);
    assert_int_equal(answer->n_verdicts, 2);
    assert_int_equal(answer->verdicts[0].tokens[0], b.text[0]);
    assert_int_equal(answer->verdicts[1].tokens[0], b.text[0]);
    answer = ask(&b, (pf_batch){ 0 });
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].sequence, 2);
    assert_int_equal(answer->refusals[0].status, PF_LIMIT);
    assert_verdict(propose(&b, 1, N_PROMPT + 1, b.text + 1, 4), 1, N_PROMPT + 1, b.text + 1, 5, 4, PF_FINISH_NONE);
    close_bench(&b);
}

static void a_refusal_in_the_middle_of_a_prompt_is_sent_once(void **state)
{
    (void)state;
    const page_size page = page_of_model();
    const int32_t page_tokens = page.tokens;
    static const int32_t prompt[128];                           /* the context */
    const int32_t pages = (45 + page_tokens - 1) / page_tokens; /* that the bench's own text takes */
    bench b = open_bench(
        (pf_context_config){ .max_sequences = 2, .max_rows = 10, .kv_budget_bytes = (size_t)pages * page.bytes },
        (pf_model_verifier_config){ .max_sequences = 2, .max_draft = 8 });
    pf_open open = near_peer_open(1);
    open.tokens = prompt;
    open.n_tokens = pages * page_tokens + 20;
    assert_int_equal(pf_peer_submit(b.peer, &(pf_batch){ .opens = &open, .n_opens = 1 }), PF_OK);
    const pf_batch *answer = NULL;
    pf_error error;
    do { /* a pass each */
        assert_ok(pf_peer_collect(b.peer, 0, &answer, &error), error);
    } while (answer->n_refusals == 0);
    assert_int_equal(answer->refusals[0].sequence, 1);
    assert_status(pf_peer_collect(b.peer, 0, &answer, &error), PF_CANCELLED);
    close_bench(&b);
}

/* ---- fences -------------------------------------------------------------------------------------------------- */

static void stale_and_repeated_proposals_get_no_answer(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    ask_open(&b, near_peer_open(1));
    pf_proposal first = proposal_of(1, 1, N_PROMPT + 1, b.text + 1, 2);
    pf_proposal twice[] = { first, first };
    assert_verdict(ask_verdict(&b, (pf_batch){ .proposals = twice, .n_proposals = 2 }), 1, N_PROMPT + 1, b.text + 1, 3,
                   2, PF_FINISH_NONE);
    assert_null(ask(&b, (pf_batch){ .proposals = &first, .n_proposals = 1 }));
    pf_open again = near_peer_open(1);
    assert_null(ask(&b, (pf_batch){ .opens = &again, .n_opens = 1 }));
    assert_verdict(propose(&b, 2, N_PROMPT + 4, b.text + 4, 1), 2, N_PROMPT + 4, b.text + 4, 2, 1, PF_FINISH_NONE);
    close_bench(&b);
}

static void a_proposal_from_before_a_reopening_gets_no_answer(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    ask_open(&b, near_peer_open(1));
    pf_open again = near_peer_open(1);
    again.incarnation = 2;
    ask_open(&b, again);
    pf_proposal old = proposal_of(1, 1, N_PROMPT + 1, b.text + 1, 2);
    assert_null(ask(&b, (pf_batch){ .proposals = &old, .n_proposals = 1 }));
    close_bench(&b);
}

static void a_proposal_for_an_unknown_sequence_requests_the_prefix(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    ask_open(&b, near_peer_open(1));
    pf_proposal strange[] = {
        proposal_of(77, 3, 50, b.text, 2),              /* no such sequence */
        proposal_of(1, 5, N_PROMPT + 1, b.text + 1, 2), /* a round ahead */
        proposal_of(1, 1, N_PROMPT + 3, b.text + 1, 2), /* another base */
    };
    const pf_batch *answer = ask(&b, (pf_batch){ .proposals = strange, .n_proposals = 3 });
    assert_int_equal(answer->n_verdicts, 0);
    assert_int_equal(answer->n_prefix_requests, 3);
    assert_int_equal(answer->prefix_requests[0].sequence, 77);
    assert_int_equal(answer->prefix_requests[0].known, 0);
    assert_int_equal(answer->prefix_requests[1].known, N_PROMPT + 1);
    /* and the sequence itself is as it was */
    assert_verdict(propose(&b, 1, N_PROMPT + 1, b.text + 1, 1), 1, N_PROMPT + 1, b.text + 1, 2, 1, PF_FINISH_NONE);
    close_bench(&b);
}

static void a_closed_sequence_is_unknown_and_closing_it_again_is_nothing(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    ask_open(&b, near_peer_open(1));
    pf_close closes[] = { { 1 }, { 1 }, { 99 } };
    pf_proposal late = proposal_of(1, 1, N_PROMPT + 1, b.text + 1, 2);
    const pf_batch *answer =
        ask(&b, (pf_batch){ .closes = closes, .n_closes = 3, .proposals = &late, .n_proposals = 1 });
    assert_int_equal(answer->n_verdicts, 0);
    assert_int_equal(answer->n_prefix_requests, 1);
    close_bench(&b);
}

static void unknown_sequences_beyond_the_limit_of_an_answer_are_dropped(void **state)
{
    (void)state;
    bench b = open_plain_bench();
    static pf_proposal strange[PF_MAX_BATCH_SEQUENCES];
    for (uint64_t i = 0; i < PF_MAX_BATCH_SEQUENCES; i++) strange[i] = proposal_of(1000 + i, 1, 9, NULL, 0);
    pf_batch batch = { .proposals = strange, .n_proposals = PF_MAX_BATCH_SEQUENCES };
    pf_error error = { 0 };
    assert_ok(pf_peer_submit(b.peer, &batch), error);
    assert_int_equal(ask(&b, batch)->n_prefix_requests, PF_MAX_BATCH_SEQUENCES);
    close_bench(&b);
}

/* ---- seeds, time, life --------------------------------------------------------------------------------------- */

static void first_tokens(bench *b, pf_method method, uint64_t seed, int32_t *out)
{
    pf_open open = near_peer_open(1);
    open.method = method;
    open.sampling = (pf_sampling){ .temperature = 3.0f, .top_p = 1.0f, .seed = seed };
    out[0] = ask_open(b, open)->tokens[0];
    for (int32_t i = 1; i < 8; i++) out[i] = propose(b, (uint64_t)i, N_PROMPT + i, NULL, 0)->tokens[0];
    pf_close close = { 1 };
    assert_null(ask(b, (pf_batch){ .closes = &close, .n_closes = 1 }));
}

static void a_seed_in_the_open_is_the_seed_and_a_served_verifier_draws_its_own_for_those_without(void **state)
{
    (void)state;
    int32_t a[8], again[8], plain[8];
    const pf_context_config context = { .max_sequences = 2 };
    const pf_sampling unseeded = { .temperature = 3.0f, .top_p = 1.0f, .seed = 0 };

    bench near = open_bench(context, (pf_model_verifier_config){ .max_sequences = 1, .max_draft = 8 });
    near_side_decode(&near.side, &unseeded, PROMPT, N_PROMPT, 8, plain);
    first_tokens(&near, PF_METHOD_REJECTION, 0, a);
    assert_memory_equal(a, plain, sizeof a);
    close_bench(&near);

    bench served = open_bench(context, (pf_model_verifier_config){ .max_sequences = 1, .max_draft = 8, .seed = 5 });
    first_tokens(&served, PF_METHOD_REJECTION, 0, a);
    first_tokens(&served, PF_METHOD_REJECTION, 0, again);
    assert_memory_not_equal(a, plain, sizeof a);
    assert_memory_not_equal(a, again, sizeof a);
    first_tokens(&served, PF_METHOD_COUPLED, 0, a);
    assert_memory_equal(a, plain, sizeof a);
    first_tokens(&served, PF_METHOD_REJECTION, 7, a);
    first_tokens(&served, PF_METHOD_REJECTION, 7, again);
    assert_memory_equal(a, again, sizeof a);
    close_bench(&served);
}

static void a_simulated_step_is_waited_for_once_a_batch_and_reported(void **state)
{
    (void)state;
    const uint64_t step_ns = 5 * 1000 * 1000;
    bench b = open_bench((pf_context_config){ .max_sequences = 3 },
                         (pf_model_verifier_config){ .max_sequences = 2, .max_draft = 8, .simulate_step_ns = step_ns });
    pf_open opens[] = { near_peer_open(1), near_peer_open(2) };
    const uint64_t start = pf_now_ns();
    const pf_batch *answer = ask(&b, (pf_batch){ .opens = opens, .n_opens = 2 });
    const uint64_t took = pf_now_ns() - start;
    assert_true(took >= step_ns);
    assert_true(answer->timing.compute_ns >= step_ns && answer->timing.compute_ns <= took);
    /* Nothing to verify takes no time. */
    pf_proposal unknown = proposal_of(77, 1, 9, NULL, 0);
    assert_int_equal(ask(&b, (pf_batch){ .proposals = &unknown, .n_proposals = 1 })->timing.compute_ns, 0);
    close_bench(&b);
}

static void a_configuration_out_of_range_is_named(void **state)
{
    (void)state;
    static const pf_model_verifier_config configs[] = { { .max_sequences = 0, .max_draft = 1 },
                                                        { .max_sequences = 3, .max_draft = 1 },
                                                        { .max_sequences = 1, .max_draft = 0 },
                                                        { .max_sequences = 1, .max_draft = PF_MAX_DRAFT_TOKENS + 1 },
                                                        { .max_sequences = 1, .max_draft = 4 } };
    const invalid_config cases[] = { { &configs[0], "max_sequences is 0" },
                                     { &configs[1], "max_sequences is 3" },
                                     { &configs[2], "max_draft is 0" },
                                     { &configs[3], "max_draft is 65" },
                                     { &configs[4], "logits for 4 rows" } };
    assert_configs_refused(&MODEL, (pf_context_config){ .max_sequences = 2, .max_logit_rows = 4 }, create_verifier,
                           cases, PF_COUNT(cases));
}

static void creation_survives_every_refused_allocation(void **state)
{
    (void)state;
    const pf_model_verifier_config config = { .max_sequences = 2,
                                              .max_draft = 8,
                                              .info = &(pf_model_info){ .model_id = "tiny" } };
    assert_survives_refused_allocations(&MODEL, create_verifier, &config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_answers_with_the_first_token),
        cmocka_unit_test(a_proposal_is_kept_as_far_as_the_target_agrees_and_corrected_there),
        cmocka_unit_test(a_row_of_nans_decides_nothing_and_keeps_earlier_tokens),
        cmocka_unit_test(invalid_rows_of_an_accepted_chain_are_counted_with_the_first_position),
        cmocka_unit_test(an_infinite_logit_is_chosen_and_counted),
        cmocka_unit_test(invalid_rows_of_a_tree_count_on_the_targets_path_alone),
        cmocka_unit_test(a_row_without_a_number_is_refused_by_its_position_and_counted),
        cmocka_unit_test(a_proposal_is_judged_up_to_its_first_invalid_token),
        cmocka_unit_test(the_targets_path_of_a_tree_is_kept_and_the_text_continues),
        cmocka_unit_test(a_stop_token_on_a_trees_path_ends_the_sequence_there),
        cmocka_unit_test(methods_that_sample_judge_all_of_a_tree),
        cmocka_unit_test(rejection_decides_each_position_by_its_own_uniforms),
        cmocka_unit_test(a_sequence_reopened_with_what_was_committed_goes_on_in_its_round),
        cmocka_unit_test(a_sequence_reopened_with_another_prompt_starts_afresh),
        cmocka_unit_test(sequences_that_share_prefixes_get_the_text_of_fresh_ones),
        cmocka_unit_test(the_rows_of_a_refused_tree_are_not_retained),
        cmocka_unit_test(eos_ends_a_sequence_and_cuts_what_is_behind_it),
        cmocka_unit_test(max_tokens_ends_a_sequence_and_cuts_what_is_behind_it),
        cmocka_unit_test(a_finished_sequence_gets_no_more_verdicts),
        cmocka_unit_test(a_prompt_longer_than_a_pass_gives_the_same_text),
        cmocka_unit_test(a_prompt_progresses_beside_continuous_rounds),
        cmocka_unit_test(a_long_prompt_returns_empty_answers_at_the_deadline),
        cmocka_unit_test(long_prompts_are_read_in_turn_and_submits_are_taken_between_chunks),
        cmocka_unit_test(a_batch_with_more_rows_than_a_pass_is_run_in_parts),
        cmocka_unit_test(batches_submitted_one_after_another_are_answered_together),
        cmocka_unit_test(an_invalid_open_is_refused_with_the_field_named),
        cmocka_unit_test(one_sequence_too_many_is_refused_until_another_closes),
        cmocka_unit_test(refusals_that_leave_no_room_for_those_of_a_pass_are_answered_before_it),
        cmocka_unit_test(a_sequence_that_fills_the_context_ends_there_and_no_other),
        cmocka_unit_test(a_full_kv_pool_refuses_only_the_sequence_that_needs_a_page),
        cmocka_unit_test(a_refusal_in_the_middle_of_a_prompt_is_sent_once),
        cmocka_unit_test(stale_and_repeated_proposals_get_no_answer),
        cmocka_unit_test(a_proposal_from_before_a_reopening_gets_no_answer),
        cmocka_unit_test(a_proposal_for_an_unknown_sequence_requests_the_prefix),
        cmocka_unit_test(a_closed_sequence_is_unknown_and_closing_it_again_is_nothing),
        cmocka_unit_test(unknown_sequences_beyond_the_limit_of_an_answer_are_dropped),
        cmocka_unit_test(a_seed_in_the_open_is_the_seed_and_a_served_verifier_draws_its_own_for_those_without),
        cmocka_unit_test(a_simulated_step_is_waited_for_once_a_batch_and_reported),
        cmocka_unit_test(a_configuration_out_of_range_is_named),
        cmocka_unit_test(creation_survives_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
