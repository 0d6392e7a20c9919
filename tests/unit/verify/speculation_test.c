/*
 * Drafter and verifier together, over tiny random models: whatever the drafter does, the text is the target's.
 *
 * The references are computed by the definition (tests/support/tiny_side.h): one token a pass and nothing kept from
 * the loop under test; and for sampling that is not bit-identical, exact enumeration in double.
 */
#include "tests/support/test.h"

#include <math.h>

#include "draft/choice_drafter.h"
#include "draft/model_drafter.h"
#include "draft/ngram_drafter.h"
#include "draft/suffix_drafter.h"
#include "tests/support/alloc_count.h"
#include "tests/support/chi_square.h"
#include "tests/support/duet.h"
#include "tests/support/tiny_side.h"
#include "verify/model_verifier.h"
#include "model/backend/cpu_backend.h"

enum { N_NEW = 24, N_PROMPTS = 3, N_PROMPT = 7 };

static const pf_tiny_model TARGET = { .seed = 11 };
static const pf_tiny_model RAW_CLIENT = { .seed = 12, .layers = 1 }; /* another model of the same vocabulary */

static const int32_t PROMPTS[N_PROMPTS][N_PROMPT] = {
    { 1, 2, 3, 4, 5, 6, 7 },
    { 100, 3, 100, 3, 100, 3, 99 },
    { 1, 1, 1, 1, 1, 1, 1 },
};

static const pf_sampling GREEDY = { .temperature = 0.0f, .top_p = 1.0f };

/* Two models with a role each. */
typedef struct {
    pf_tiny_side target, draft;
    pf_peer *verifier, *drafter;
} pair;

static pair open_pair(const pf_tiny_model *target, const pf_tiny_model *draft, int32_t n_threads, int32_t n_sequences)
{
    /* One sequence more than the peers may open: the reference decodes in the same context. */
    const pf_context_config config = { .max_sequences = n_sequences + 1 };
    pair p = { .target = pf_tiny_side_open(target, n_threads, &config),
               .draft = pf_tiny_side_open(draft, n_threads, &config) };
    pf_error error = { 0 };
    const pf_model_verifier_config v = { .max_sequences = n_sequences, .max_draft = 8 };
    const pf_model_drafter_config d = { .max_sequences = n_sequences, .max_draft = 8, .seed = 99 };
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

static pf_duet_request request_of(int32_t prompt, pf_method method, pf_sampling sampling, int32_t draft_len)
{
    return (pf_duet_request){ .sequence = (uint64_t)prompt,
                              .prompt = PROMPTS[prompt],
                              .n_prompt = N_PROMPT,
                              .n_new = N_NEW,
                              .sampling = sampling,
                              .method = method,
                              .draft_len = draft_len,
                              .max_declared = 128 };
}

static void assert_text(const pf_duet_text *text, const int32_t *expected, int32_t n)
{
    assert_int_equal(text->n_tokens, n);
    for (int32_t i = 0; i < n; i++)
        if (text->tokens[i] != expected[i])
            fail_msg("token %d is %d, plain decoding gives %d", i, text->tokens[i], expected[i]);
}

/* Every prompt, at draft lengths 1 to 8, against plain decoding by the definition. */
static void assert_same_text(pair *p, pf_method method, pf_sampling sampling, pf_duet_tamper *tamper, void *user)
{
    for (int32_t prompt = 0; prompt < N_PROMPTS; prompt++) {
        int32_t expected[N_NEW];
        pf_tiny_side_decode(&p->target, &sampling, PROMPTS[prompt], N_PROMPT, N_NEW, expected);
        for (int32_t draft_len = 1; draft_len <= 8; draft_len++) {
            const pf_duet_request request = request_of(prompt, method, sampling, draft_len);
            pf_duet_text text;
            pf_duet_run(p->verifier, p->drafter, &request, 1, tamper, user, &text);
            assert_text(&text, expected, N_NEW);
            assert_int_equal(text.finish, PF_FINISH_LENGTH);
        }
    }
}

/* ---- bit-identical ------------------------------------------------------------------------------------------- */

static void greedy_text_is_the_plain_text_for_any_draft_and_number_of_threads(void **state)
{
    (void)state;
    for (int32_t n_threads = 1; n_threads <= 2; n_threads++) {
        pair twins = open_pair(&TARGET, &TARGET, n_threads, 1), others = open_pair(&TARGET, &RAW_CLIENT, n_threads, 1);
        assert_same_text(&twins, PF_METHOD_GREEDY, GREEDY, NULL, NULL);
        assert_same_text(&others, PF_METHOD_GREEDY, GREEDY, NULL, NULL);
        close_pair(&twins);
        close_pair(&others);
    }
}

/* Whatever lengths and trees the drafter chooses by its clock. */
static void greedy_text_is_the_plain_text_where_the_drafter_chooses_what_to_propose(void **state)
{
    (void)state;
    const pf_tiny_model *drafts[] = { &TARGET, &RAW_CLIENT };
    for (size_t i = 0; i < PF_COUNT(drafts); i++) {
        pair p = open_pair(&TARGET, drafts[i], 1, 1);
        for (int32_t prompt = 0; prompt < N_PROMPTS; prompt++) {
            int32_t expected[N_NEW];
            pf_tiny_side_decode(&p.target, &GREEDY, PROMPTS[prompt], N_PROMPT, N_NEW, expected);
            pf_duet_request request = request_of(prompt, PF_METHOD_GREEDY, GREEDY, 8);
            request.adaptive = true;
            pf_duet_text text;
            pf_duet_run(p.verifier, p.drafter, &request, 1, NULL, NULL, &text);
            assert_text(&text, expected, N_NEW);
        }
        close_pair(&p);
    }
}

static void coupled_text_is_the_plain_text_of_the_same_seed(void **state)
{
    (void)state;
    pair twins = open_pair(&TARGET, &TARGET, 1, 1), others = open_pair(&TARGET, &RAW_CLIENT, 1, 1);
    const pf_sampling samplings[] = {
        { .temperature = 1.0f, .top_p = 1.0f, .seed = 0 },
        { .temperature = 2.5f, .top_p = 1.0f, .seed = 1 },
        { .temperature = 0.8f, .top_k = 20, .top_p = 0.9f, .min_p = 0.01f, .seed = 0xFFFFFFFFFFFFFFFFu },
    };
    for (size_t i = 0; i < PF_COUNT(samplings); i++) {
        assert_same_text(&twins, PF_METHOD_COUPLED, samplings[i], NULL, NULL);
        assert_same_text(&others, PF_METHOD_COUPLED, samplings[i], NULL, NULL);
    }
    close_pair(&twins);
    close_pair(&others);
}

static pf_status create_ngram(const pf_model_info *info, int32_t max_draft, pf_peer **out, pf_error *error)
{
    return pf_ngram_drafter_create(info, N_PROMPTS, max_draft, (pf_stop){ 0 }, out, error);
}

static pf_status create_suffix(const pf_model_info *info, int32_t max_draft, pf_peer **out, pf_error *error)
{
    const pf_suffix_drafter_config config = { .max_sequences = N_PROMPTS,
                                              .max_draft = max_draft,
                                              .corpus_bytes = 1 << 20 };
    return pf_suffix_drafter_create(info, &config, out, error);
}

static void a_lookup_changes_no_token_of_greedy_or_coupled_text_and_a_batch_allocates_nothing(void **state)
{
    (void)state;
    pf_status (*const create[])(const pf_model_info *, int32_t, pf_peer **, pf_error *) = { create_ngram,
                                                                                            create_suffix };
    pf_tiny_side target = pf_tiny_side_open(&TARGET, 1, &(pf_context_config){ .max_sequences = N_PROMPTS + 1 });
    const pf_model_verifier_config config = { .max_sequences = N_PROMPTS, .max_draft = 8 };
    const pf_model_info info = { .vocab_size = 128, .max_context = 128 };
    pf_peer *verifier, *drafter;
    pf_error error = { 0 };
    assert_ok(pf_model_verifier_create(pf_cpu_backend(target.context), &config, &verifier, &error), error);
    const pf_sampling warm = { .temperature = 0.1f, .top_k = 4, .top_p = 1.0f, .seed = 8 };
    for (size_t kind = 0; kind < PF_COUNT(create); kind++) {
        assert_ok(create[kind](&info, 8, &drafter, &error), error);
        int32_t n_accepted = 0;
        for (int32_t draft_len = 1; draft_len <= 9; draft_len++) {
            for (int32_t is_coupled = 0; is_coupled <= 1; is_coupled++) {
                const pf_sampling sampling = is_coupled ? warm : GREEDY;
                pf_duet_request requests[N_PROMPTS];
                pf_duet_text texts[N_PROMPTS];
                for (int32_t i = 0; i < N_PROMPTS; i++) {
                    requests[i] = request_of(i, is_coupled ? PF_METHOD_COUPLED : PF_METHOD_GREEDY, sampling, draft_len);
                    requests[i].adaptive = draft_len == 9;
                }
                pf_alloc_count_reset();
                pf_duet_run(verifier, drafter, requests, N_PROMPTS, NULL, NULL, texts);
                assert_int_equal(pf_alloc_count(), 0);
                for (int32_t i = 0; i < N_PROMPTS; i++) {
                    int32_t expected[N_NEW];
                    pf_tiny_side_decode(&target, &sampling, PROMPTS[i], N_PROMPT, N_NEW, expected);
                    assert_text(&texts[i], expected, N_NEW);
                    n_accepted += texts[i].accepted;
                }
            }
        }
        assert_true(n_accepted > 0); /* else the texts are equal for want of a proposal */
        pf_peer_destroy(drafter);
    }
    pf_peer_destroy(verifier);
    pf_tiny_side_close(&target);
}

/* Puts a cascade before a pair's drafter. */
static void cascade_over(pair *p, int32_t n_vocab, int32_t max_sequences)
{
    const pf_model_info info = { .vocab_size = n_vocab, .max_context = 128 };
    const pf_suffix_drafter_config config = { .max_sequences = max_sequences, .max_draft = 8, .corpus_bytes = 1 << 20 };
    pf_peer *lookup;
    pf_error error = { 0 };
    assert_ok(pf_suffix_drafter_create(&info, &config, &lookup, &error), error);
    const pf_drafts_by offered[] = { PF_DRAFTS_BY_CASCADE };
    const pf_choice_drafter_config choice = {
        .model = p->drafter, .suffix = lookup, .offered = offered, .n_offered = 1
    };
    assert_ok(pf_choice_drafter_create(&choice, &p->drafter, &error), error);
}

static void a_cascade_changes_no_token_of_greedy_or_coupled_text(void **state)
{
    (void)state;
    const pf_sampling warm = { .temperature = 0.1f, .top_k = 4, .top_p = 1.0f, .seed = 8 };
    pair p = open_pair(&TARGET, &RAW_CLIENT, 1, 1);
    cascade_over(&p, 128, 1);
    assert_same_text(&p, PF_METHOD_GREEDY, GREEDY, NULL, NULL);
    assert_same_text(&p, PF_METHOD_COUPLED, warm, NULL, NULL);
    const pf_choice_counts counts = pf_choice_drafter_counts(p.drafter);
    assert_true(counts.n_lookups > 0);
    assert_true(counts.n_models > 0);
    close_pair(&p);
}

static void plain_decoding_is_one_text_under_every_method(void **state)
{
    (void)state;
    pair p = open_pair(&TARGET, &RAW_CLIENT, 1, 1);
    const pf_sampling sampling = { .temperature = 1.5f, .top_p = 1.0f, .seed = 5 };
    const pf_method methods[] = { PF_METHOD_REJECTION, PF_METHOD_BLOCK, PF_METHOD_COUPLED };
    int32_t expected[N_NEW];
    pf_tiny_side_decode(&p.target, &sampling, PROMPTS[0], N_PROMPT, N_NEW, expected);
    for (size_t i = 0; i < PF_COUNT(methods); i++) {
        const pf_duet_request request = request_of(0, methods[i], sampling, 4);
        pf_duet_text text;
        pf_duet_run(p.verifier, NULL, &request, 1, NULL, NULL, &text);
        assert_text(&text, expected, N_NEW);
    }
    close_pair(&p);
}

/* A draft that is the target itself is refused nothing, under any method: the loop loses no token that it could keep. */
static void a_draft_that_is_the_target_has_every_token_accepted(void **state)
{
    (void)state;
    pair twins = open_pair(&TARGET, &TARGET, 1, 1);
    const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f, .seed = 3 };
    const struct {
        pf_method method;
        pf_sampling sampling;
    } cases[] = { { PF_METHOD_GREEDY, GREEDY },
                  { PF_METHOD_COUPLED, warm },
                  { PF_METHOD_REJECTION, warm },
                  { PF_METHOD_BLOCK, warm } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_duet_request request = request_of(0, cases[i].method, cases[i].sampling, 4);
        pf_duet_text text;
        pf_duet_run(twins.verifier, twins.drafter, &request, 1, NULL, NULL, &text);
        assert_int_equal(text.n_tokens, N_NEW);
        assert_int_equal(text.accepted, text.drafted);
        assert_int_equal(text.rounds, 5); /* 1 + 5 + 5 + 5 + 5 of 24, and the last round drafts 2 of 3 */
    }
    close_pair(&twins);
}

/* ---- logit rules -------------------------------------------------------------------------------------------- */

/* The logits behind a prefix with rules, by the definition. */
static void define_logits(const pf_tiny_side *side, const pf_logit_rules *rules, const int32_t *stop, int32_t n_stop,
                          const int32_t *prefix, int32_t n, float *out)
{
    const int32_t n_vocab = pf_context_n_vocab(side->context);
    pf_kv_seq sequence;
    assert_status(pf_kv_acquire(pf_context_kv(side->context), &sequence), PF_OK);
    assert_status(pf_context_prefill(side->context, sequence, prefix, n, true), PF_OK);
    memcpy(out, pf_context_logits(side->context, 0), (size_t)n_vocab * sizeof *out);
    pf_kv_release(pf_context_kv(side->context), sequence);
    for (int32_t id = 0; id < n_vocab; id++) {
        int32_t n_all = 0, n_generated = 0;
        for (int32_t i = 0; i < n; i++) n_all += prefix[i] == id;
        for (int32_t i = rules->n_prompt; i < n; i++) n_generated += prefix[i] == id;
        for (int32_t i = 0; i < rules->n_biases; i++)
            if (rules->bias_ids[i] == id) out[id] += rules->biases[i];
        for (int32_t i = 0; i < n_stop; i++)
            if (stop[i] == id && n - rules->n_prompt < rules->min_tokens) out[id] = -INFINITY;
        if (n_all > 0 && rules->repetition_penalty > 0.0f)
            out[id] = out[id] > 0.0f ? out[id] / rules->repetition_penalty : out[id] * rules->repetition_penalty;
        if (n_generated > 0)
            out[id] = out[id] - rules->frequency_penalty * (float)n_generated - rules->presence_penalty;
    }
}

static void decode_with_rules(const pf_tiny_side *side, const pf_duet_request *q, int32_t *out)
{
    enum { MOST_VOCAB = 128 };
    float logits[MOST_VOCAB], p[MOST_VOCAB];
    max_align_t scratch[4096];
    int32_t text[N_PROMPT + N_NEW];
    pf_logit_rules rules = q->rules;
    rules.n_prompt = q->n_prompt;
    const int32_t n_vocab = pf_context_n_vocab(side->context);
    const pf_kernels *kernels = pf_model_kernels(side->model);
    assert_true(pf_sampling_scratch_bytes(n_vocab) <= sizeof scratch && n_vocab <= MOST_VOCAB);
    memcpy(text, q->prompt, (size_t)q->n_prompt * sizeof *text);
    for (int32_t i = 0; i < q->n_new; i++) {
        define_logits(side, &rules, q->stop, q->n_stop, text, q->n_prompt + i, logits);
        assert_status(pf_sampling_distribution(&q->sampling, kernels, logits, n_vocab, p, scratch), PF_OK);
        out[i] = text[q->n_prompt + i] =
            q->sampling.temperature == 0.0f
                ? kernels->argmax(logits, n_vocab)
                : kernels->race(p, n_vocab, q->sampling.seed, PF_NOISE_TARGET, q->n_prompt + i);
    }
}

/* Greedy and coupled, chains of each length and what the drafter chooses, trees included, beside plain decoding. */
static void text_with_penalties_and_biases_is_that_of_plain_decoding(void **state)
{
    (void)state;
    static const int32_t ids[] = { 5, 90 }, stop[] = { 3, 77 };
    static const float biases[] = { -INFINITY, 2.0f };
    const pf_logit_rules cases[] = {
        { .repetition_penalty = 1.5f },
        { .frequency_penalty = 0.7f, .presence_penalty = 0.3f },
        { .frequency_penalty = -0.5f, .bias_ids = ids, .biases = biases, .n_biases = 2, .min_tokens = N_NEW },
    };
    const pf_sampling warm = { .temperature = 0.7f, .top_p = 0.9f, .seed = 6 };
    const pf_tiny_model *drafts[] = { &TARGET, &RAW_CLIENT };
    int32_t n_changed = 0, n_accepted = 0;
    for (size_t d = 0; d < PF_COUNT(drafts); d++) {
        pair p = open_pair(&TARGET, drafts[d], 1, 1);
        for (size_t i = 0; i < 2 * PF_COUNT(cases); i++) {
            const bool is_greedy = i % 2 == 0;
            pf_duet_request q = request_of((int32_t)i % N_PROMPTS, is_greedy ? PF_METHOD_GREEDY : PF_METHOD_COUPLED,
                                           is_greedy ? GREEDY : warm, 1);
            int32_t expected[N_NEW], without[N_NEW];
            q.rules = cases[i / 2];
            q.stop = stop;
            q.n_stop = 2;
            pf_tiny_side_decode(&p.target, &q.sampling, q.prompt, N_PROMPT, N_NEW, without);
            decode_with_rules(&p.target, &q, expected);
            int32_t n = 0;
            while (n < N_NEW && expected[n] != stop[0] && expected[n] != stop[1]) n++;
            if (n < N_NEW) n++;
            n_changed += memcmp(without, expected, sizeof expected) != 0;
            for (q.draft_len = 0; q.draft_len <= 8; q.draft_len++) {
                pf_duet_text text;
                pf_duet_request asked = q;
                asked.adaptive = q.draft_len == 0;
                if (asked.adaptive) asked.draft_len = 8;
                pf_duet_run(p.verifier, p.drafter, &asked, 1, NULL, NULL, &text);
                assert_text(&text, expected, n);
                n_accepted += text.accepted;
            }
        }
        close_pair(&p);
    }
    assert_true(n_changed >= 8 && n_accepted > 0);
}

/* The draft is told of them, too: one that is the target has every token accepted. */
static void a_draft_that_is_the_target_drafts_by_the_same_rules(void **state)
{
    (void)state;
    pair twins = open_pair(&TARGET, &TARGET, 1, 1);
    const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f, .seed = 3 };
    for (int32_t i = 0; i < 3; i++) {
        const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_COUPLED, PF_METHOD_REJECTION };
        pf_duet_request q = request_of(0, methods[i], i == 0 ? GREEDY : warm, 4);
        q.rules = (pf_logit_rules){ .repetition_penalty = 1.4f, .frequency_penalty = 0.8f, .presence_penalty = 0.5f };
        pf_duet_text text;
        pf_duet_run(twins.verifier, twins.drafter, &q, 1, NULL, NULL, &text);
        assert_int_equal(text.accepted, text.drafted);
    }
    close_pair(&twins);
}

/* ---- liars --------------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t state;
    int32_t kind;
    int32_t tokens[PF_MAX_DRAFT_TOKENS];
    int32_t parents[PF_MAX_DRAFT_TOKENS];
    int32_t n_kinds;
} liar;

static uint32_t next_random(liar *l)
{
    l->state = l->state * 1664525u + 1013904223u;
    return l->state >> 8;
}

/* In turn: a random token, an id past the vocabulary, a negative one, the most extreme ones, more tokens than were
 * asked for, nothing at all, parents that make no chain. */
static void lie(void *user, pf_proposal *proposal)
{
    liar *l = user;
    memcpy(l->tokens, proposal->tokens, (size_t)proposal->n_tokens * sizeof *l->tokens);
    proposal->tokens = l->tokens;
    const uint32_t at = proposal->n_tokens > 0 ? next_random(l) % (uint32_t)proposal->n_tokens : 0;
    switch (l->kind++ % 8) {
    case 0: l->tokens[at] = (int32_t)(next_random(l) % 128); break;
    case 1: l->tokens[at] = 128; break;
    case 2: l->tokens[at] = -1; break;
    case 3: l->tokens[at] = INT32_MAX; break;
    case 4: l->tokens[at] = INT32_MIN; break;
    case 5:
        for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) l->tokens[i] = (int32_t)(next_random(l) % 128);
        proposal->n_tokens = PF_MAX_DRAFT_TOKENS;
        break;
    case 6: proposal->n_tokens = 0; break;
    default:
        for (int32_t i = 0; i < proposal->n_tokens; i++) l->parents[i] = (int32_t)(next_random(l) % 70) - 3;
        proposal->parents = l->parents;
    }
}

static void a_drafter_that_lies_changes_no_token_of_greedy_or_coupled_text(void **state)
{
    (void)state;
    pair twins = open_pair(&TARGET, &TARGET, 1, 1);
    liar l = { .state = 1 };
    assert_same_text(&twins, PF_METHOD_GREEDY, GREEDY, lie, &l);
    const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f, .seed = 3 };
    assert_same_text(&twins, PF_METHOD_COUPLED, warm, lie, &l);
    close_pair(&twins);
}

/* Invalid draft distributions: not a number, negative, the same id twice, ids out of range, no entry, too many. */
static void declare_invalid(void *user, pf_proposal *proposal)
{
    static int32_t ids[PF_MAX_DECLARED + 1];
    static float probabilities[PF_MAX_DECLARED + 1];
    static pf_declared declared[PF_MAX_DRAFT_TOKENS];
    static const float values[] = { NAN, -1.0f, INFINITY, 0.0f, 1e30f };
    static const int32_t bad_ids[] = { 128, -1, INT32_MIN, INT32_MAX };
    liar *l = user;
    for (int32_t i = 0; i <= PF_MAX_DECLARED; i++) {
        ids[i] = (int32_t)(next_random(l) % 128);
        probabilities[i] = values[next_random(l) % PF_COUNT(values)];
    }
    int32_t n = (int32_t)(next_random(l) % 128);
    switch (l->kind++ % 4) {
    case 0: ids[0] = bad_ids[next_random(l) % PF_COUNT(bad_ids)]; break;
    case 1: n = PF_MAX_DECLARED + 1; break;
    case 2: n = -1; break;
    default: break;
    }
    for (int32_t i = 0; i < proposal->n_tokens; i++) declared[i] = (pf_declared){ ids, probabilities, n };
    proposal->declared = declared;
}

static void invalid_draft_distributions_still_give_tokens_of_the_vocabulary(void **state)
{
    (void)state;
    pair twins = open_pair(&TARGET, &TARGET, 1, 1);
    liar l = { .state = 2 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f, .seed = seed };
        const pf_duet_request request = request_of(0, PF_METHOD_REJECTION, warm, 4);
        pf_duet_text text;
        pf_duet_run(twins.verifier, twins.drafter, &request, 1, declare_invalid, &l, &text);
        assert_int_equal(text.n_tokens, N_NEW);
        for (int32_t i = 0; i < text.n_tokens; i++) assert_in_range(text.tokens[i], 0, 127);
    }
    close_pair(&twins);
}

/* ---- the distribution ---------------------------------------------------------------------------------------- */

/* A vocabulary small enough to enumerate two tokens of it; rows are shared by many sequences, so trials are cheap. */
#ifdef __SANITIZE_ADDRESS__ /* twelve times slower */
enum { BATCHES = 150, TELLS_WRONG_RULES = 0 };
#else
enum { BATCHES = 1500, TELLS_WRONG_RULES = 1 };
#endif
enum { V = 12, AT_ONCE = 32, TRIALS = AT_ONCE * BATCHES };
static const pf_tiny_model SMALL_TARGET = {
    .seed = 21, .vocab = V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};
static const pf_tiny_model SMALL_DRAFT = {
    .seed = 22, .vocab = V, .hidden = 16, .layers = 1, .heads = 1, .intermediate = 16
};
static const int32_t SMALL_PROMPT[] = { 3, 1, 4 };

/* Tokens 1 and 2 behind the prompt and its first new token, which comes from the prefill and is counted with them:
 * the joint of all three. */
static void distribution_of(const pf_tiny_side *target, const pf_sampling *sampling, const pf_logit_rules *rules,
                            const int32_t *prefix, int32_t n, float *out)
{
    float logits[V];
    max_align_t scratch[1024];
    assert_true(pf_sampling_scratch_bytes(V) <= sizeof scratch);
    define_logits(target, rules, NULL, 0, prefix, n, logits);
    assert_status(pf_sampling_distribution(sampling, pf_model_kernels(target->model), logits, V, out, scratch), PF_OK);
}

static void enumerate(const pf_tiny_side *target, const pf_sampling *sampling, const pf_logit_rules *rules,
                      double *expected)
{
    int32_t prefix[] = { SMALL_PROMPT[0], SMALL_PROMPT[1], SMALL_PROMPT[2], 0, 0 };
    float first[V], second[V], third[V];
    distribution_of(target, sampling, rules, prefix, 3, first);
    for (int32_t a = 0; a < V; a++) {
        prefix[3] = a;
        distribution_of(target, sampling, rules, prefix, 4, second);
        for (int32_t b = 0; b < V; b++) {
            prefix[4] = b;
            distribution_of(target, sampling, rules, prefix, 5, third);
            for (int32_t c = 0; c < V; c++)
                expected[(a * V + b) * V + c] = (double)first[a] * (double)second[b] * (double)third[c];
        }
    }
}

/* n_excluded: of EXCLUDED, ranges that the draft does not propose. */
static const int32_t EXCLUDED[] = { 0, 2, 7, 8, 11, 99 };

/* What the statistics are of, besides what a test says. */
typedef struct {
    pf_method method;
    pf_sampling sampling;
    uint64_t n_batches;
    bool forgets_typical_p; /* the request does not say it: a wrong loop */
} small_setting;

enum { FEWER_BATCHES = BATCHES / 2 };

static const small_setting USUAL = { .method = PF_METHOD_REJECTION,
                                     .sampling = { .temperature = 3.0f, .top_p = 0.95f },
                                     .n_batches = BATCHES };

static double test_setting(const small_setting *setting, pf_peer *lookup, int32_t max_declared, int32_t n_excluded,
                           const pf_logit_rules *rules, pf_duet_tamper *tamper, int32_t *n_refused)
{
    pair p = open_pair(&SMALL_TARGET, &SMALL_DRAFT, 1, AT_ONCE);
    pf_peer *drafter = lookup ? lookup : p.drafter;
    static double expected[V * V * V];
    static int64_t counts[V * V * V];
    static pf_duet_text texts[AT_ONCE];
    pf_duet_request requests[AT_ONCE];
    memset(counts, 0, sizeof counts);
    pf_logit_rules defined = *rules;
    defined.n_prompt = 3;
    enumerate(&p.target, &setting->sampling, &defined, expected);
    *n_refused = 0;
    for (uint64_t batch = 0; batch < setting->n_batches; batch++) {
        for (uint64_t i = 0; i < AT_ONCE; i++) {
            requests[i] = (pf_duet_request){ .sequence = i,
                                             .prompt = SMALL_PROMPT,
                                             .n_prompt = 3,
                                             .n_new = 4, /* so that two are drafted, and judged to the bonus */
                                             .sampling = setting->sampling,
                                             .method = setting->method,
                                             .draft_len = 2,
                                             .max_declared = max_declared,
                                             .excluded = EXCLUDED,
                                             .n_excluded = n_excluded,
                                             .rules = *rules };
            requests[i].sampling.seed = batch * AT_ONCE + i;
            if (setting->forgets_typical_p) requests[i].sampling.typical_p = 0.0f;
        }
        pf_duet_run(p.verifier, drafter, requests, AT_ONCE, tamper, NULL, texts);
        for (int32_t i = 0; i < AT_ONCE; i++) {
            const int32_t *t = texts[i].tokens;
            counts[(t[0] * V + t[1]) * V + t[2]]++;
            *n_refused += texts[i].drafted - texts[i].accepted;
        }
    }
    close_pair(&p);
    return pf_chi_square_test(counts, expected, V * V * V, (int64_t)setting->n_batches * AT_ONCE);
}

static double test_three_tokens_of(pf_peer *lookup, int32_t max_declared, int32_t n_excluded,
                                   const pf_logit_rules *rules, pf_duet_tamper *tamper, int32_t *n_refused)
{
    return test_setting(&USUAL, lookup, max_declared, n_excluded, rules, tamper, n_refused);
}

static double test_three_tokens(int32_t max_declared, int32_t n_excluded, const pf_logit_rules *rules,
                                pf_duet_tamper *tamper, int32_t *n_refused)
{
    return test_three_tokens_of(NULL, max_declared, n_excluded, rules, tamper, n_refused);
}

static void assert_lossless_with(int32_t max_declared, int32_t n_excluded, const pf_logit_rules *rules)
{
    int32_t n_refused;
    const double tail = test_three_tokens(max_declared, n_excluded, rules, NULL, &n_refused);
    if (tail < PF_CHI_FALSE_ALARM)
        fail_msg("tail probability %.2g, expected at least %.0g: the loop is lossy", tail, PF_CHI_FALSE_ALARM);
    if (n_refused < TRIALS / 20) fail_msg("only %d tokens were refused: the test is too easy", n_refused);
}

static const pf_logit_rules NO_RULES;

static void assert_lossless(int32_t max_declared, int32_t n_excluded)
{
    assert_lossless_with(max_declared, n_excluded, &NO_RULES);
}

static void rejection_is_exact_with_penalties_and_biases(void **state)
{
    (void)state;
    static const int32_t ids[] = { 2, 9 };
    static const float biases[] = { 1.0f, -INFINITY };
    const pf_logit_rules rules = { .repetition_penalty = 1.5f,
                                   .frequency_penalty = 1.5f,
                                   .presence_penalty = -0.8f,
                                   .bias_ids = ids,
                                   .biases = biases,
                                   .n_biases = 2 };
    assert_lossless_with(4, 0, &rules);
    assert_lossless_with(0, 0, &rules);
}

static void rejection_over_models_has_the_targets_distribution(void **state)
{
    (void)state;
    assert_lossless(V, 0);
}

static void rejection_is_exact_with_a_truncated_draft_distribution(void **state)
{
    (void)state;
    assert_lossless(4, 0);
}

static void rejection_is_exact_with_ids_that_the_draft_excludes(void **state)
{
    (void)state;
    assert_lossless(V, 3);
    assert_lossless(4, 3);
}

static void rejection_is_exact_with_bare_tokens(void **state)
{
    (void)state;
    assert_lossless(0, 0);
}

/* Its proposals are what earlier samples of the same prompt gave. */
static pf_peer *make_lookup(void)
{
    const pf_model_info info = { .vocab_size = V, .max_context = 64 };
    const pf_suffix_drafter_config config = { .max_sequences = AT_ONCE, .max_draft = 8, .corpus_bytes = 1 << 20 };
    pf_peer *drafter;
    pf_error error = { 0 };
    assert_ok(pf_suffix_drafter_create(&info, &config, &drafter, &error), error);
    return drafter;
}

static void rejection_is_exact_with_tokens_that_are_looked_up(void **state)
{
    (void)state;
    int32_t n_refused;
    pf_peer *lookup = make_lookup();
    const double tail = test_three_tokens_of(lookup, 0, 0, &NO_RULES, NULL, &n_refused);
    pf_peer_destroy(lookup);
    if (tail < PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: the loop is lossy", tail);
    if (n_refused < TRIALS / 20) fail_msg("only %d tokens were refused: the test is too easy", n_refused);
}

static void rejection_is_exact_with_a_cascade(void **state)
{
    (void)state;
    pair p = open_pair(&SMALL_TARGET, &SMALL_DRAFT, 1, AT_ONCE);
    cascade_over(&p, V, AT_ONCE);
    int32_t n_refused;
    const double tail = test_three_tokens_of(p.drafter, V, 0, &NO_RULES, NULL, &n_refused);
    const pf_choice_counts counts = pf_choice_drafter_counts(p.drafter);
    close_pair(&p);
    if (tail < PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: the loop is lossy", tail);
    assert_true(counts.n_lookups > TRIALS / 100);
    assert_true(counts.n_models > TRIALS / 100);
}

/* Three temperatures, with and without filters and penalties; exact, declared and absent probabilities. */
static void a_block_over_models_has_the_targets_distribution(void **state)
{
    (void)state;
    const pf_sampling samplings[] = { { .temperature = 3.0f, .top_p = 0.95f },
                                      { .temperature = 1.0f },
                                      { .temperature = 6.0f, .top_k = 9, .min_p = 0.02f } };
    const pf_logit_rules penalties = { .repetition_penalty = 1.5f,
                                       .frequency_penalty = 1.5f,
                                       .presence_penalty = -0.8f };
    const int32_t declares[] = { V, 4, 0 };
    for (size_t i = 0; i < PF_COUNT(samplings); i++) {
        const small_setting setting = { .method = PF_METHOD_BLOCK,
                                        .sampling = samplings[i],
                                        .n_batches = i == 0 ? 2 * BATCHES : FEWER_BATCHES };
        int32_t n_refused;
        const double tail =
            test_setting(&setting, NULL, declares[i], 0, i == 1 ? &penalties : &NO_RULES, NULL, &n_refused);
        if (tail < PF_CHI_FALSE_ALARM) fail_msg("setting %zu: tail probability %.2g: the loop is lossy", i, tail);
        if (n_refused < TRIALS / 100) fail_msg("only %d tokens were refused: the test is too easy", n_refused);
    }
}

/* As a lossy method must be, and the same tests must tell. */
static void typical_acceptance_is_lossy_and_keeps_more(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    small_setting setting = { .method = PF_METHOD_REJECTION,
                              .sampling = { .temperature = 1.0f },
                              .n_batches = BATCHES / 8 };
    int32_t n_refused_exactly, n_refused;
    double tail = test_setting(&setting, NULL, 0, 0, &NO_RULES, NULL, &n_refused_exactly);
    assert_true(tail >= PF_CHI_FALSE_ALARM);
    setting.method = PF_METHOD_TYPICAL;
    tail = test_setting(&setting, NULL, 0, 0, &NO_RULES, NULL, &n_refused);
    if (tail >= PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: the test cannot tell", tail);
    assert_true(n_refused < n_refused_exactly);
}

static void typical_p_is_a_filter_of_every_method(void **state)
{
    (void)state;
    const small_setting settings[] = {
        { PF_METHOD_REJECTION, { .temperature = 1.0f, .typical_p = 0.6f }, FEWER_BATCHES / 2, false },
        { PF_METHOD_BLOCK, { .temperature = 3.0f, .top_p = 0.9f, .typical_p = 0.5f }, FEWER_BATCHES / 2, false },
        { PF_METHOD_COUPLED, { .temperature = 2.0f, .typical_p = 0.7f }, FEWER_BATCHES / 2, false },
        { PF_METHOD_TRAVERSAL, { .temperature = 2.0f, .typical_p = 0.8f }, FEWER_BATCHES / 2, false },
        { PF_METHOD_REJECTION, { .temperature = 3.0f, .typical_p = 0.6f }, FEWER_BATCHES / 4, true }
    };
    const int32_t declares[] = { 4, V, 0, V, V };
    for (size_t i = 0; i < PF_COUNT(settings); i++) {
        int32_t n_refused;
        const double tail = test_setting(&settings[i], NULL, declares[i], 0, &NO_RULES, NULL, &n_refused);
        if (settings[i].forgets_typical_p) {
            if (TELLS_WRONG_RULES && tail >= PF_CHI_FALSE_ALARM)
                fail_msg("tail probability %.2g: no filter is seen", tail);
            continue;
        }
        if (tail < PF_CHI_FALSE_ALARM) fail_msg("setting %zu: tail probability %.2g: the loop is lossy", i, tail);
        if (n_refused < TRIALS / 200) fail_msg("only %d tokens were refused: the test is too easy", n_refused);
    }
}

static const pf_logit_rules PENALTIES = { .repetition_penalty = 1.5f,
                                          .frequency_penalty = 1.5f,
                                          .presence_penalty = -0.8f };

/* A tree in the place of a chain: a second choice beside its first token. */
static void grow_tree(void *user, pf_proposal *proposal)
{
    (void)user;
    static const int32_t parents[] = { -1, -1, 0 };
    static int32_t tokens[AT_ONCE][3];
    int32_t *t = tokens[proposal->sequence];
    if (proposal->n_tokens < 2) return;
    t[0] = proposal->tokens[0];
    t[1] = (proposal->tokens[0] + 1) % V;
    t[2] = proposal->tokens[1];
    proposal->tokens = t;
    proposal->parents = parents;
    proposal->n_tokens = 3;
    proposal->declared = NULL;
}

static void trees_over_models_are_exact_when_sampling(void **state)
{
    (void)state;
    const pf_method methods[] = { PF_METHOD_REJECTION, PF_METHOD_BLOCK, PF_METHOD_TRAVERSAL };
    for (size_t i = 0; i < PF_COUNT(methods); i++) {
        const small_setting setting = { .method = methods[i], .sampling = USUAL.sampling, .n_batches = FEWER_BATCHES };
        int32_t n_refused;
        const bool has_rules = methods[i] == PF_METHOD_TRAVERSAL; /* which reads the row of the accepted node again */
        const double tail =
            test_setting(&setting, NULL, 0, 0, has_rules ? &PENALTIES : &NO_RULES, grow_tree, &n_refused);
        if (tail < PF_CHI_FALSE_ALARM) fail_msg("method %zu: tail probability %.2g: the loop is lossy", i, tail);
    }
}

/* A lookup that declared the frequencies as if its token had been drawn from them. */
static void declare_half(void *user, pf_proposal *proposal)
{
    (void)user;
    static int32_t ids[AT_ONCE][8][2];
    static const float halves[2] = { 0.5f, 0.5f };
    static pf_declared declared[AT_ONCE][8];
    const uint64_t at = proposal->sequence;
    for (int32_t i = 0; i < proposal->n_tokens; i++) {
        ids[at][i][0] = proposal->tokens[i];
        ids[at][i][1] = (proposal->tokens[i] + 1) % V;
        declared[at][i] = (pf_declared){ ids[at][i], halves, 2 };
    }
    proposal->declared = declared[at];
}

static void frequencies_declared_for_looked_up_tokens_are_caught(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    int32_t n_refused;
    pf_peer *lookup = make_lookup();
    const double tail = test_three_tokens_of(lookup, 0, 0, &NO_RULES, declare_half, &n_refused);
    pf_peer_destroy(lookup);
    if (tail >= PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: the test cannot tell this rule", tail);
}

/* What a careless wire would do: probabilities rounded to 4 bits after the draw. */
static void round_declared(void *user, pf_proposal *proposal)
{
    (void)user;
    static pf_declared declared[AT_ONCE][2];
    static float probabilities[AT_ONCE][2][V];
    const uint64_t at = proposal->sequence;
    for (int32_t i = 0; i < proposal->n_tokens; i++) {
        const pf_declared *from = &proposal->declared[i];
        for (int32_t j = 0; j < from->n; j++) probabilities[at][i][j] = roundf(from->probabilities[j] * 16.0f) / 16.0f;
        declared[at][i] = (pf_declared){ from->ids, probabilities[at][i], from->n };
    }
    proposal->declared = declared[at];
}

/* A length policy that looks at the drawn token: stop before one that the draft itself holds unlikely. */
static void withhold_unlikely(void *user, pf_proposal *proposal)
{
    (void)user;
    for (int32_t i = 0; i < proposal->n_tokens; i++) {
        const pf_declared *from = &proposal->declared[i];
        for (int32_t j = 0; j < from->n; j++)
            if (from->ids[j] == proposal->tokens[i] && from->probabilities[j] < 0.1f) {
                proposal->n_tokens = i;
                return;
            }
    }
}

/* Masking after the draw: a proposal is cut before an excluded token, which was drawn all the same. */
static void withhold_excluded(void *user, pf_proposal *proposal)
{
    (void)user;
    for (int32_t i = 0; i < proposal->n_tokens; i++)
        for (size_t k = 0; k < PF_COUNT(EXCLUDED); k += 2)
            if (proposal->tokens[i] >= EXCLUDED[k] && proposal->tokens[i] < EXCLUDED[k + 1]) proposal->n_tokens = i;
}

static void drop_declared(void *user, pf_proposal *proposal)
{
    (void)user;
    proposal->declared = NULL;
}

static void a_distribution_rounded_after_the_draw_or_a_withheld_token_is_caught(void **state)
{
    (void)state;
    if (!TELLS_WRONG_RULES) skip();
    pf_duet_tamper *const wrong[] = { round_declared, withhold_unlikely, withhold_excluded };
    for (size_t i = 0; i < PF_COUNT(wrong); i++) {
        int32_t n_refused;
        const double tail = test_three_tokens(V, 0, &NO_RULES, wrong[i], &n_refused);
        if (tail >= PF_CHI_FALSE_ALARM)
            fail_msg("tail probability %.2g: this test could not tell lossy rule %zu from the right one", tail, i);
    }
}

/* The verifier's half does not rely on the drafter's: tokens drawn from q and judged as bare ones are still exact. */
static void drawn_tokens_judged_as_bare_ones_are_exact(void **state)
{
    (void)state;
    int32_t n_refused;
    const double tail = test_three_tokens(V, 0, &NO_RULES, drop_declared, &n_refused);
    if (tail < PF_CHI_FALSE_ALARM) fail_msg("tail probability %.2g: the loop is lossy", tail);
}

/* ---- many sequences, and memory -------------------------------------------------------------------------------- */

static void many_sequences_at_once_give_what_each_gives_alone(void **state)
{
    (void)state;
    enum { N = 6 };
    pair many = open_pair(&TARGET, &RAW_CLIENT, 2, N), single = open_pair(&TARGET, &RAW_CLIENT, 1, 1);
    const pf_sampling warm = { .temperature = 1.0f, .top_p = 1.0f, .seed = 8 };
    pf_duet_request requests[N];
    for (int32_t i = 0; i < N; i++) {
        requests[i] =
            request_of(i % N_PROMPTS, i < 3 ? PF_METHOD_GREEDY : PF_METHOD_COUPLED, i < 3 ? GREEDY : warm, 1 + i);
        requests[i].sequence = 1000 + (uint64_t)i;
        requests[i].n_new = N_NEW - 2 * i; /* they end one after another */
        requests[i].n_prompt = N_PROMPT - i;
    }
    pf_duet_text together[N];
    pf_duet_run(many.verifier, many.drafter, requests, N, NULL, NULL, together);
    for (int32_t i = 0; i < N; i++) {
        pf_duet_text alone;
        pf_duet_run(single.verifier, single.drafter, &requests[i], 1, NULL, NULL, &alone);
        assert_text(&together[i], alone.tokens, alone.n_tokens);
        assert_int_equal(together[i].accepted, alone.accepted);
        assert_int_equal(together[i].rounds, alone.rounds);
    }
    close_pair(&many);
    close_pair(&single);
}

static void no_round_allocates(void **state)
{
    (void)state;
    pair p = open_pair(&TARGET, &RAW_CLIENT, 2, N_PROMPTS);
    const pf_sampling warm = { .temperature = 1.0f, .top_k = 50, .top_p = 0.9f, .min_p = 0.01f, .seed = 8 };
    pf_duet_request requests[N_PROMPTS];
    pf_duet_text texts[N_PROMPTS];
    for (int32_t i = 0; i < N_PROMPTS; i++)
        requests[i] = request_of(i, (pf_method[]){ PF_METHOD_GREEDY, PF_METHOD_REJECTION, PF_METHOD_COUPLED }[i],
                                 i ? warm : GREEDY, 4);
    assert_true(pf_alloc_count() > 0); /* the counter counts */
    pf_alloc_count_reset();
    pf_duet_run(p.verifier, p.drafter, requests, N_PROMPTS, NULL, NULL, texts);
    assert_int_equal(pf_alloc_count(), 0);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_text_is_the_plain_text_for_any_draft_and_number_of_threads),
        cmocka_unit_test(greedy_text_is_the_plain_text_where_the_drafter_chooses_what_to_propose),
        cmocka_unit_test(coupled_text_is_the_plain_text_of_the_same_seed),
        cmocka_unit_test(a_lookup_changes_no_token_of_greedy_or_coupled_text_and_a_batch_allocates_nothing),
        cmocka_unit_test(a_cascade_changes_no_token_of_greedy_or_coupled_text),
        cmocka_unit_test(plain_decoding_is_one_text_under_every_method),
        cmocka_unit_test(a_draft_that_is_the_target_has_every_token_accepted),
        cmocka_unit_test(a_drafter_that_lies_changes_no_token_of_greedy_or_coupled_text),
        cmocka_unit_test(invalid_draft_distributions_still_give_tokens_of_the_vocabulary),
        cmocka_unit_test(text_with_penalties_and_biases_is_that_of_plain_decoding),
        cmocka_unit_test(a_draft_that_is_the_target_drafts_by_the_same_rules),
        cmocka_unit_test(rejection_is_exact_with_penalties_and_biases),
        cmocka_unit_test(rejection_over_models_has_the_targets_distribution),
        cmocka_unit_test(rejection_is_exact_with_a_truncated_draft_distribution),
        cmocka_unit_test(rejection_is_exact_with_ids_that_the_draft_excludes),
        cmocka_unit_test(rejection_is_exact_with_bare_tokens),
        cmocka_unit_test(rejection_is_exact_with_tokens_that_are_looked_up),
        cmocka_unit_test(rejection_is_exact_with_a_cascade),
        cmocka_unit_test(a_block_over_models_has_the_targets_distribution),
        cmocka_unit_test(typical_acceptance_is_lossy_and_keeps_more),
        cmocka_unit_test(typical_p_is_a_filter_of_every_method),
        cmocka_unit_test(trees_over_models_are_exact_when_sampling),
        cmocka_unit_test(frequencies_declared_for_looked_up_tokens_are_caught),
        cmocka_unit_test(a_distribution_rounded_after_the_draw_or_a_withheld_token_is_caught),
        cmocka_unit_test(drawn_tokens_judged_as_bare_ones_are_exact),
        cmocka_unit_test(many_sequences_at_once_give_what_each_gives_alone),
        cmocka_unit_test(no_round_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
