/* What does not decode, or not as a whole, and that its sentence names the field. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/support/test.h"
#include "tests/support/wire_samples.h"

static const int32_t beyond[] = { 1, N_VOCAB }, negative[] = { -1 }, own_parent[] = { -1, 1, 0, 0, 0, 0 };
static const int32_t empty[] = { 0, 0 }, touching[] = { 1, 2, 2, 3 }, below_zero[] = { -1, 3 };
static const int32_t behind_the_last[] = { 1, INT32_MAX, INT32_MAX, INT32_MAX };
static const int32_t twice[] = { 300, 17, 300 };
static const pf_token_logprobs above_zero[] = { { .logprob = -1.0f }, { .logprob = 0.5f }, { .logprob = -1.0f } };
static const pf_token_logprobs no_number[] = { { .n_top = 1, .top_logprobs = { NAN } }, { 0 }, { 0 } };
static const pf_token_logprobs likeliest_beyond[] = { { .n_top = 1, .top = { 4096 } }, { 0 }, { 0 } };
static const float wrong_sum[] = { 0.5f, 0.25f, 0.125f }, not_positive[] = { 1.0f, 0.0f, 0.0f };

typedef enum { IN_OPEN, IN_PROPOSAL, IN_VERDICT, IN_DECLARED } part;

typedef struct {
    const char *says;
    part in;
    void (*spoil)(void *what);
    bool is_fence; /* the part then says of no sequence which round it is about */
} spoiled;

#define SPOIL(name, type, ...)   \
    static void name(void *what) \
    {                            \
        type *x = what;          \
        __VA_ARGS__;             \
    }
SPOIL(no_incarnation, pf_open, x->incarnation = 0)
SPOIL(round_last, pf_open, x->next_round = UINT64_MAX)
SPOIL(round_beyond, pf_open, x->next_round = UINT64_C(1) << 63)
SPOIL(no_prompt, pf_open, x->n_tokens = 0)
SPOIL(id_beyond, pf_open, x->tokens = beyond, x->n_tokens = 2)
SPOIL(id_negative, pf_open, x->tokens = negative, x->n_tokens = 1)
SPOIL(empty_range, pf_open, x->excluded = empty, x->n_excluded = 1)
SPOIL(ranges_that_touch, pf_open, x->excluded = touching, x->n_excluded = 2)
SPOIL(range_below_zero, pf_open, x->excluded = below_zero, x->n_excluded = 1)
SPOIL(range_behind_the_last, pf_open, x->excluded = behind_the_last, x->n_excluded = 2)
SPOIL(stop_beyond, pf_open, x->stop_tokens = beyond, x->n_stop_tokens = 2)
SPOIL(no_method, pf_open, x->method = (pf_method)0)
SPOIL(temperature_negative, pf_open, x->sampling.temperature = -0.5f)
SPOIL(temperature_nan, pf_open, x->sampling.temperature = NAN)
SPOIL(top_k_negative, pf_open, x->sampling.top_k = -1)
SPOIL(top_p_above, pf_open, x->sampling.top_p = 1.5f)
SPOIL(min_p_infinite, pf_open, x->sampling.min_p = INFINITY)
SPOIL(typical_p_negative, pf_open, x->sampling.typical_p = -0.25f)
SPOIL(logprobs_beyond, pf_open, x->logprobs = 22)
SPOIL(epsilon_above, pf_open, x->method = PF_METHOD_TYPICAL, x->typical.epsilon = 1.5f)
SPOIL(drafter_of_two_words, pf_open, strcpy(x->drafter, "two words"))
SPOIL(delta_nan, pf_open, x->method = PF_METHOD_TYPICAL, x->typical.delta = NAN)
SPOIL(draft_beyond, pf_open, x->max_draft = 65)
SPOIL(draft_none, pf_open, x->max_draft = 0)
SPOIL(declared_beyond, pf_open, x->max_declared = 257)
SPOIL(siblings_beyond, pf_open, x->siblings = 6)
SPOIL(siblings_negative, pf_open, x->siblings = -1)
SPOIL(max_tokens_negative, pf_open, x->max_tokens = -1)
SPOIL(p_no_incarnation, pf_proposal, x->incarnation = 0)
SPOIL(p_round, pf_proposal, x->round = 0)
SPOIL(p_base_negative, pf_proposal, x->base = -1)
SPOIL(p_base_huge, pf_proposal, x->base = INT32_MAX)
SPOIL(p_id, pf_proposal, x->tokens = beyond, x->n_tokens = 2)
SPOIL(p_parent, pf_proposal, x->parents = own_parent)
SPOIL(v_no_incarnation, pf_verdict, x->incarnation = 0)
SPOIL(v_base, pf_verdict, x->base = INT32_MAX)
SPOIL(v_logprob_above, pf_verdict, x->logprobs = above_zero)
SPOIL(v_logprob_nan, pf_verdict, x->logprobs = no_number)
SPOIL(v_likeliest_beyond, pf_verdict, x->logprobs = likeliest_beyond)
SPOIL(v_nothing, pf_verdict, x->n_tokens = 0, x->n_accepted = 0)
SPOIL(v_accepted, pf_verdict, x->n_accepted = x->n_tokens + 1)
SPOIL(v_accepted_negative, pf_verdict, x->n_accepted = -1)
SPOIL(v_finish, pf_verdict, x->finish = (pf_finish)9)
SPOIL(v_draft_beyond, pf_verdict, x->next_draft = 65)
SPOIL(v_draft_negative, pf_verdict, x->next_draft = -2)
SPOIL(d_twice, pf_declared, x->ids = twice)
SPOIL(d_sum, pf_declared, x->probabilities = wrong_sum)
SPOIL(d_zero, pf_declared, x->probabilities = not_positive)
SPOIL(d_none, pf_declared, x->n = 0)
SPOIL(d_other, pf_declared, x->ids = TOKENS)
#undef SPOIL

/* Part by part: nothing is left of the sequence that the spoiled part is about but one refusal, and the other one's open is
 * taken; or nothing at all, where the part is about none. */
static void assert_set_aside(pf_codec *codec, size_t n, const spoiled *one)
{
    const pf_batch *out = NULL;
    const pf_rejected *rejected = NULL;
    pf_error error = { .text = "" };
    const pf_status status = pf_codec_decode_parts(codec, buffer, n, &out, &rejected, &error);
    if (one->is_fence) {
        assert_int_equal(status, PF_FORMAT);
        assert_says(error, one->says);
        return;
    }
    assert_ok(status, error);
    assert_int_equal(rejected->n, 1);
    assert_int_equal(rejected->n_proposals, one->in == IN_PROPOSAL || one->in == IN_DECLARED);
    assert_int_equal(rejected->n_verdicts, one->in == IN_VERDICT);
    assert_int_equal(rejected->refusals[0].sequence, open_greedy.sequence);
    assert_int_equal(rejected->refusals[0].incarnation, 1);
    assert_int_equal(rejected->refusals[0].status, PF_INVALID);
    if (!strstr(rejected->refusals[0].text, one->says)) fail_msg("\"%s\"", rejected->refusals[0].text);
    assert_int_equal(out->n_opens, 1);
    assert_int_equal(out->opens[0].sequence, open_coupled.sequence);
    assert_int_equal(out->n_proposals + out->n_verdicts, 0);
}

static void a_field_out_of_range_is_refused_by_name(void **state)
{
    (void)state;
    static const spoiled cases[] = {
        { "opens[0].incarnation is 0", IN_OPEN, no_incarnation, true },
        { "opens[0].next_round is 18446744073709551615, expected 0 to", IN_OPEN, round_last, false },
        { "opens[0].next_round is 9223372036854775808", IN_OPEN, round_beyond, false },
        { "opens[0].tokens has 0 entries", IN_OPEN, no_prompt, false },
        { "opens[0].tokens[1] is 4096, expected 0 to 4095", IN_OPEN, id_beyond, false },
        { "opens[0].tokens[0] is -1", IN_OPEN, id_negative, false },
        { "opens[0].stop_tokens[1] is 4096", IN_OPEN, stop_beyond, false },
        { "opens[0].excluded[1] is 0, expected 1 to", IN_OPEN, empty_range, false },
        { "opens[0].excluded[2] is 2, expected 3 to", IN_OPEN, ranges_that_touch, false },
        { "opens[0].excluded[0] is -1", IN_OPEN, range_below_zero, false },
        { "opens[0].excluded has entries behind 2147483647", IN_OPEN, range_behind_the_last, false },
        { "opens[0].method is missing", IN_OPEN, no_method, false },
        { "opens[0].sampling.temperature is -0.5", IN_OPEN, temperature_negative, false },
        { "opens[0].sampling.temperature is nan", IN_OPEN, temperature_nan, false },
        { "opens[0].sampling.top_k is -1", IN_OPEN, top_k_negative, false },
        { "opens[0].sampling.top_p is 1.5", IN_OPEN, top_p_above, false },
        { "opens[0].sampling.min_p is inf", IN_OPEN, min_p_infinite, false },
        { "opens[0].sampling.typical_p is -0.25", IN_OPEN, typical_p_negative, false },
        { "opens[0].logprobs is 22", IN_OPEN, logprobs_beyond, false },
        { "opens[0].typical.epsilon is 1.5", IN_OPEN, epsilon_above, false },
        { "opens[0].drafter is no name, expected letters, digits, - and _", IN_OPEN, drafter_of_two_words, false },
        { "opens[0].typical.delta is nan", IN_OPEN, delta_nan, false },
        { "opens[0].limits.max_draft is 65", IN_OPEN, draft_beyond, false },
        { "opens[0].limits.max_draft is 0", IN_OPEN, draft_none, false },
        { "opens[0].limits.max_declared is 257", IN_OPEN, declared_beyond, false },
        { "opens[0].limits.max_tokens is -1", IN_OPEN, max_tokens_negative, false },
        { "opens[0].limits.siblings is 6", IN_OPEN, siblings_beyond, false },
        { "opens[0].limits.siblings is -1", IN_OPEN, siblings_negative, false },
        { "proposals[0].incarnation is 0", IN_PROPOSAL, p_no_incarnation, true },
        { "proposals[0].round is 0", IN_PROPOSAL, p_round, true },
        { "proposals[0].base_length is -1", IN_PROPOSAL, p_base_negative, true },
        { "proposals[0].base_length is 2147483647", IN_PROPOSAL, p_base_huge, true },
        { "proposals[0].tokens[1] is 4096", IN_PROPOSAL, p_id, false },
        { "proposals[0].parents[1] is 1, expected -1 to 0", IN_PROPOSAL, p_parent, false },
        { "verdicts[0].logprobs.logprobs[1] is 0.5, expected at most 0", IN_VERDICT, v_logprob_above, false },
        { "verdicts[0].logprobs.top_logprobs[0] is nan", IN_VERDICT, v_logprob_nan, false },
        { "verdicts[0].logprobs.top[0] is 4096", IN_VERDICT, v_likeliest_beyond, false },
        { "verdicts[0].incarnation is 0", IN_VERDICT, v_no_incarnation, true },
        { "verdicts[0].base_length is 2147483647", IN_VERDICT, v_base, true },
        { "verdicts[0].tokens has 0 entries", IN_VERDICT, v_nothing, false },
        { "verdicts[0].n_accepted is 4", IN_VERDICT, v_accepted, false },
        { "verdicts[0].n_accepted is -1", IN_VERDICT, v_accepted_negative, false },
        { "verdicts[0].finish is 9", IN_VERDICT, v_finish, false },
        { "verdicts[0].max_draft is 65", IN_VERDICT, v_draft_beyond, false },
        { "verdicts[0].max_draft is -2", IN_VERDICT, v_draft_negative, false },
        { "proposals[0].declared.ids has an id twice", IN_DECLARED, d_twice, false },
        { "proposals[0].declared.probabilities sum to 0.875000", IN_DECLARED, d_sum, false },
        { "proposals[0].declared.probabilities has 0", IN_DECLARED, d_zero, false },
        { "proposals[0].declared.ids has 0 entries", IN_DECLARED, d_none, false },
        { "proposals[0].declared.ids lack 17", IN_DECLARED, d_other, false },
    };
    pf_codec *codec = codec_of(BUFFER);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_open opens[] = { open_greedy, open_coupled };
        pf_declared declared[] = { declared_all[0], declared_all[1] };
        pf_proposal proposal = cases[i].in == IN_DECLARED ? proposals_three[2] : proposals_three[0];
        if (cases[i].in == IN_DECLARED) proposal.declared = declared;
        proposal.sequence = opens[0].sequence;
        pf_verdict verdict = verdicts_two[0];
        void *const parts[] = { opens, &proposal, &verdict, declared };
        cases[i].spoil(parts[cases[i].in]);
        const pf_batch batch = { .opens = opens,
                                 .n_opens = 2,
                                 .proposals = &proposal,
                                 .n_proposals = 1,
                                 .verdicts = &verdict,
                                 .n_verdicts = 1 };
        const size_t n = encoded(codec, &batch);
        const pf_batch *out = NULL;
        pf_error error = { .text = "" };
        assert_status(pf_codec_decode_batch(codec, buffer, n, &out, &error), PF_FORMAT);
        assert_says(error, cases[i].says);
        assert_null(out);
        assert_set_aside(codec, n, &cases[i]);
    }
    pf_codec_destroy(codec);
}

/* A proposal of N_ROWS tokens, each the first of ids [n], declared alike. Its bytes in `buffer`. */
enum { N_ROWS = PF_MAX_DRAFT_TOKENS };
static size_t encode_declared(pf_codec *codec, const int32_t *ids, int32_t n)
{
    float shares[PF_MAX_DECLARED];
    int32_t tokens[N_ROWS];
    pf_declared declared[N_ROWS];
    for (int32_t i = 0; i < n; i++) shares[i] = 1.0f / (float)n;
    for (int32_t i = 0; i < N_ROWS; i++) {
        tokens[i] = ids[0];
        declared[i] = (pf_declared){ ids, shares, n };
    }
    pf_proposal proposal = { 7, 1, 1, 7, tokens, N_ROWS, NULL, declared, PF_AHEAD_NONE, 0 };
    return encoded(codec, &(pf_batch){ .proposals = &proposal, .n_proposals = 1 });
}

static bool has_twice_by_definition(const int32_t *ids, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < i; j++)
            if (ids[i] == ids[j]) return true;
    return false;
}

static void an_id_twice_is_found_wherever_it_stands(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    int n_twice = 0;
    srand(1);
    for (int32_t trial = 0; trial < 1000; trial++) {
        const int32_t n = 1 + trial % (trial % 100 ? 24 : PF_MAX_DECLARED);
        int32_t ids[PF_MAX_DECLARED];
        for (int32_t i = 0; i < n; i++) ids[i] = rand() % 8 ? i : rand() % (2 * n);
        const bool has = has_twice_by_definition(ids, n);
        n_twice += has;
        const pf_batch *out;
        pf_error error = { .text = "" };
        const size_t n_bytes = encode_declared(codec, ids, n);
        assert_status(pf_codec_decode_batch(codec, buffer, n_bytes, &out, &error), has ? PF_FORMAT : PF_OK);
        if (has) assert_says(error, "proposals[0].declared.ids has an id twice");
    }
    assert_in_range(n_twice, 200, 800);
    pf_codec_destroy(codec);
}

static uint64_t decode_ns(pf_codec *codec, const int32_t *ids)
{
    const size_t n_bytes = encode_declared(codec, ids, PF_MAX_DECLARED);
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 30; i++) {
        const pf_batch *out;
        pf_error error;
        const uint64_t begin_ns = pf_now_ns();
        assert_ok(pf_codec_decode_batch(codec, buffer, n_bytes, &out, &error), error);
        const uint64_t taken_ns = pf_now_ns() - begin_ns;
        if (taken_ns < least_ns) least_ns = taken_ns;
    }
    return least_ns;
}

/* As for Knuth's product, of which a table would take some bits. */
static void ids_that_were_chosen_cost_no_more_than_others(void **state)
{
    (void)state;
    pf_codec *codec;
    assert_int_equal(pf_codec_create(BUFFER, 0, &codec), PF_OK);
    int32_t any[PF_MAX_DECLARED], chosen[PF_MAX_DECLARED];
    for (int32_t i = 0; i < PF_MAX_DECLARED; i++) any[i] = 500 * i;
    for (int32_t i = 0, id = 0; i < PF_MAX_DECLARED; id++)
        if (((uint32_t)id * 2654435761u >> 16 & 511) == 7) chosen[i++] = id;
    const uint64_t any_ns = decode_ns(codec, any), chosen_ns = decode_ns(codec, chosen);
    if (chosen_ns > 3 * any_ns)
        fail_msg("%llu ns, others %llu", (unsigned long long)chosen_ns, (unsigned long long)any_ns);
    pf_codec_destroy(codec);
}

static void assert_not_spoken(pf_codec *codec, const uint8_t *bytes, size_t n, const char *says)
{
    const pf_batch *out;
    const pf_rejected *rejected;
    pf_error error;
    assert_status(pf_codec_decode_batch(codec, bytes, n, &out, &error), PF_UNSUPPORTED);
    assert_says(error, says);
    assert_ok(pf_codec_decode_parts(codec, bytes, n, &out, &rejected, &error), error);
    assert_int_equal(out->n_opens, 0);
    assert_int_equal(rejected->n, 1);
    assert_int_equal(rejected->refusals[0].status, PF_UNSUPPORTED);
    assert_non_null(strstr(rejected->refusals[0].text, says));
}

static void assert_malformed(pf_codec *codec, const pf_open *open, const char *says)
{
    const size_t n = encoded(codec, &(pf_batch){ .opens = (pf_open *)(uintptr_t)open, .n_opens = 1 });
    const pf_batch *out;
    pf_error error;
    assert_status(pf_codec_decode_batch(codec, buffer, n, &out, &error), PF_FORMAT);
    assert_says(error, says);
}

static void logit_rules_that_are_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    static const int32_t ids[] = { 1, -4 };
    static const float biases[] = { 1.0f, INFINITY };
    const struct {
        pf_logit_rules rules;
        const char *says;
    } cases[] = {
        { { .repetition_penalty = -1.0f }, "opens[0].sampling.repetition_penalty is -1, expected 0 to 1000" },
        { { .repetition_penalty = NAN }, "sampling.repetition_penalty is nan" },
        { { .presence_penalty = 2.5f }, "sampling.presence_penalty is 2.5, expected -2 to 2" },
        { { .frequency_penalty = -3.0f }, "sampling.frequency_penalty is -3, expected -2 to 2" },
        { { .presence_penalty = 1.0f, .min_tokens = -1 }, "rules.min_tokens is -1" },
        { { .presence_penalty = 1.0f, .n_prompt = 1000 }, "rules.n_prompt is 1000, expected 0 to" },
        { { .bias_ids = ids, .biases = biases, .n_biases = 2 }, "rules.bias_ids[1] is -4" },
        { { .bias_ids = (const int32_t[]){ 1, 2 }, .biases = biases, .n_biases = 2 }, "rules.biases[1] is inf" },
    };
    pf_codec *codec = codec_of(BUFFER);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_open open = open_greedy;
        open.rules = cases[i].rules;
        assert_malformed(codec, &open, cases[i].says);
    }
    pf_codec_destroy(codec);
}

/* An older peer: penalties, and no LogitRules. */
static void penalties_without_rules_count_the_whole_open_as_prompt(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    /* opens { incarnation 1, tokens[1], sampling { presence_penalty: VALUE }, method GREEDY, limits { max_draft 1 } } */
    uint8_t bytes[] = { 0x0a, 0x12, 0x10, 0x01, 0x22, 0x01, 0x01, 0x2a, 0x05, 0x3d,
                        0,    0,    0,    0,    0x30, 0x01, 0x3a, 0x02, 0x08, 0x01 };
    const float value = 0.5f;
    const pf_batch *out;
    pf_error error;
    memcpy(bytes + 10, &value, 4);
    assert_ok(pf_codec_decode_batch(codec, bytes, sizeof bytes, &out, &error), error);
    assert_true(out->opens[0].rules.presence_penalty == value);
    assert_int_equal(out->opens[0].rules.n_prompt, 1);
    pf_codec_destroy(codec);
}

static void a_method_of_a_later_version_is_refused_as_unsupported(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_open open = open_greedy;
    open.method = (pf_method)7;
    const size_t n = encoded(codec, &(pf_batch){ .opens = &open, .n_opens = 1 });
    assert_not_spoken(codec, buffer, n, "opens[0].method is 7, but this version has 1 to 6");
    pf_codec_destroy(codec);
}

/* As many as a batch may have, each with a sentence of its own. */
static void a_batch_of_invalid_parts_is_refused_one_by_one(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_open opens[PF_MAX_BATCH_SEQUENCES];
    pf_verdict verdicts[PF_MAX_BATCH_SEQUENCES];
    for (int32_t i = 0; i < PF_MAX_BATCH_SEQUENCES; i++) {
        opens[i] = open_greedy;
        opens[i].sequence = (uint64_t)i;
        opens[i].n_tokens = 0;
        verdicts[i] = verdicts_two[0];
        verdicts[i].sequence = (uint64_t)i / 2 + 200; /* some of them of the same sequences */
        verdicts[i].n_accepted = -1;
    }
    const pf_batch batch = {
        .opens = opens, .n_opens = PF_MAX_BATCH_SEQUENCES, .verdicts = verdicts, .n_verdicts = PF_MAX_BATCH_SEQUENCES
    };
    const size_t n = encoded(codec, &batch);
    const pf_batch *out;
    const pf_rejected *rejected;
    pf_error error;
    assert_ok(pf_codec_decode_parts(codec, buffer, n, &out, &rejected, &error), error);
    assert_int_equal(rejected->n, 200 + 128);
    for (int32_t i = 0; i < rejected->n; i++) assert_int_equal(rejected->refusals[i].sequence, i);
    assert_non_null(strstr(rejected->refusals[255].text, "opens[255].tokens has 0 entries"));
    assert_non_null(strstr(rejected->refusals[256].text, "verdicts[112].n_accepted is -1"));
    pf_codec_destroy(codec);
}

static void of_several_invalid_parts_of_a_sequence_the_last_incarnation_is_refused(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    for (uint32_t first = 1; first <= 2; first++) {
        pf_open opens[] = { open_greedy, open_greedy, open_excluded };
        for (uint32_t i = 0; i < 2; i++) opens[i].n_tokens = 0;
        opens[0].incarnation = first;
        opens[1].incarnation = 3 - first;
        const size_t n = encoded(codec, &(pf_batch){ .opens = opens, .n_opens = 2 });
        const pf_batch *out;
        const pf_rejected *rejected;
        pf_error error;
        assert_ok(pf_codec_decode_parts(codec, buffer, n, &out, &rejected, &error), error);
        assert_int_equal(rejected->n, 1);
        assert_int_equal(rejected->refusals[0].incarnation, 2);
    }
    pf_codec_destroy(codec);
}

/* Its owner drops the refusal as stale, and waits for an answer. */
static void an_invalid_part_of_an_old_incarnation_leaves_a_newer_one(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    for (uint32_t incarnation = 1; incarnation <= 3; incarnation++) {
        pf_open open = open_greedy;
        open.incarnation = 2;
        pf_proposal proposal = proposals_three[0];
        proposal.incarnation = incarnation;
        proposal.tokens = negative;
        proposal.n_tokens = 1;
        pf_verdict verdicts[] = { verdicts_two[0], verdicts_two[0] };
        verdicts[1].incarnation = 3;
        const size_t n = encoded(codec, &(pf_batch){ .opens = &open,
                                                     .n_opens = 1,
                                                     .proposals = &proposal,
                                                     .n_proposals = 1,
                                                     .verdicts = verdicts,
                                                     .n_verdicts = 2 });
        const pf_batch *out;
        const pf_rejected *rejected;
        pf_error error;
        assert_ok(pf_codec_decode_parts(codec, buffer, n, &out, &rejected, &error), error);
        assert_int_equal(rejected->n, 1);
        assert_int_equal(rejected->refusals[0].incarnation, incarnation);
        assert_int_equal(out->n_opens, incarnation < 2);
        assert_int_equal(out->n_verdicts, incarnation < 3);
        if (incarnation < 3) assert_int_equal(out->verdicts[0].incarnation, 3);
    }
    pf_codec_destroy(codec);
}

/* --- what no encoder of ours writes --- */

/* Field `number`, of that many bytes, behind the n at `out`: [n] of now. */
static size_t put_field(uint8_t *out, size_t n, unsigned number, const void *bytes, size_t n_bytes)
{
    out[n++] = (uint8_t)(number << 3 | 2);
    out[n++] = (uint8_t)(0x80 | (n_bytes & 0x7f));
    out[n++] = (uint8_t)(n_bytes >> 7);
    memcpy(out + n, bytes, n_bytes);
    return n + n_bytes;
}

static size_t put_number(uint8_t *out, size_t n, unsigned number, uint8_t value)
{
    out[n++] = (uint8_t)(number << 3);
    out[n++] = value;
    return n;
}

static void assert_bytes_refused(pf_codec *codec, size_t n, const char *says)
{
    const pf_batch *out = NULL;
    pf_error error = { .text = "" };
    assert_status(pf_codec_decode_batch(codec, buffer, n, &out, &error), PF_FORMAT);
    assert_says(error, says);
    assert_null(out);
}

/* Lists that are longer than a part may have, or not as long as its tokens. */
static void a_list_of_another_length_than_documented_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        unsigned kind, list; /* fields of Batch, and of the part */
        size_t n, n_tokens;  /* entries of the list, and tokens beside it */
    } cases[] = {
        { "opens[0].stop_tokens has 65 entries, expected 0 to 64", 1, 8, 65, 1 },
        { "opens[0].excluded has 1 entries, expected an even number", 1, 9, 1, 1 },
        { "proposals[0].tokens has 65 entries, expected 0 to 64", 3, 5, 65, 0 },
        { "proposals[0].parents has 1 entries, expected 2 to 2", 3, 6, 1, 2 },
        { "proposals[0].parents has 3 entries, expected 2 to 2", 3, 6, 3, 2 },
        { "proposals[0].declared has 2 entries, expected 1 to 1", 3, 7, 0, 1 },
        { "verdicts[0].tokens has 66 entries, expected 1 to 65", 4, 5, 66, 0 },
    };
    pf_codec *codec = codec_of(BUFFER);
    static const uint8_t zeros[66], limits[] = { 0x08, 1 };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        uint8_t item[256];
        const unsigned tokens = cases[i].kind == 1 ? 4 : 5;
        size_t n = put_number(item, 0, 2, 1); /* incarnation */
        if (cases[i].kind == 3) n = put_number(item, n, 3, 1);
        if (cases[i].kind == 1) n = put_field(item, put_number(item, n, 6, 1), 7, limits, sizeof limits);
        if (cases[i].n_tokens > 0) n = put_field(item, n, tokens, zeros, cases[i].n_tokens);
        if (cases[i].n > 0) n = put_field(item, n, cases[i].list, zeros, cases[i].n);
        for (int k = 0; k < 2 && cases[i].n == 0; k++) n = put_field(item, n, cases[i].list, zeros, 0);
        assert_bytes_refused(codec, put_field(buffer, 0, cases[i].kind, item, n), cases[i].says);
    }
    pf_codec_destroy(codec);
}

static void a_declared_distribution_has_at_most_256_ids_and_as_many_probabilities(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    static uint8_t ids[514], probabilities[4 * 257], declared[2048], item[2300];
    for (size_t i = 0; i < 257; i++) { /* distinct, two bytes each */
        ids[2 * i] = (uint8_t)(0x80 | (i & 0x7f));
        ids[2 * i + 1] = (uint8_t)(i >> 7);
    }
    for (int n_ids = 255; n_ids <= 257; n_ids += 2) {
        size_t n = put_field(declared, 0, 1, ids, (size_t)n_ids * 2);
        n = put_field(declared, n, 2, probabilities, sizeof probabilities - 4);
        size_t n_part = put_number(item, put_number(item, 0, 2, 1), 3, 1);
        n_part = put_field(item, put_field(item, n_part, 5, "", 1), 7, declared, n);
        assert_bytes_refused(codec, put_field(buffer, 0, 3, item, n_part),
                             n_ids == 257 ? "declared.ids has 257 entries, expected 1 to 256"
                                          : "declared.probabilities has 256 entries, expected 255 to 255");
    }
    pf_codec_destroy(codec);
}

static void an_open_without_limits_is_refused_by_name(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    static const uint8_t bytes[] = { 0x0a, 0x07, 0x10, 0x01, 0x22, 0x01, 0x05, 0x30, 0x01 };
    memcpy(buffer, bytes, sizeof bytes);
    assert_bytes_refused(codec, sizeof bytes, "opens[0].limits is missing");
    pf_codec_destroy(codec);
}

static void an_open_for_a_drafter_of_a_long_name_is_refused_by_its_bytes(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    static const uint8_t limits[] = { 0x08, 1 };
    uint8_t item[64];
    size_t n = put_number(item, put_number(item, 0, 2, 1), 6, 1);
    n = put_field(item, put_field(item, n, 7, limits, sizeof limits), 4, "", 1);
    n = put_field(item, n, 13, "sixteen-letters-", PF_DRAFTER_NAME_BYTES);
    assert_bytes_refused(codec, put_field(buffer, 0, 1, item, n), "opens[0].drafter has 16 bytes, expected at most 15");
    pf_codec_destroy(codec);
}

static void a_refusal_of_a_long_text_is_refused_by_its_bytes(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    memset(buffer, 'x', 6 + 256);
    memcpy(buffer, "\x3a\x83\x02\x22\x80\x02", 6); /* a refusal, and its text */
    const pf_batch *out = NULL;
    pf_error error;
    assert_status(pf_codec_decode_batch(codec, buffer, 6 + 256, &out, &error), PF_FORMAT);
    assert_says(error, "refusals[0].text has 256 bytes, expected at most 255");
    pf_codec_destroy(codec);
}

static void a_small_message_that_unpacks_to_a_large_one_meets_the_budget(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    const pf_batch *out = NULL;
    for (size_t i = 0; i < BUFFER; i += 2) { /* half a million empty opens, of about 120 bytes each in memory */
        buffer[i] = 0x0a;
        buffer[i + 1] = 0x00;
    }
    assert_status(pf_codec_decode_batch(codec, buffer, BUFFER, &out, &error), PF_LIMIT);
    assert_says(error, "unpacks to more than");
    assert_status(pf_codec_decode_batch(codec, buffer, 2 * 257, &out, &error), PF_FORMAT);
    assert_says(error, "opens has 257 entries");
    assert_status(pf_codec_decode_batch(codec, buffer, BUFFER + 1, &out, &error), PF_LIMIT);
    assert_null(out);

    const size_t n = encoded(codec, &golden[1].batch); /* and the codec is none the worse */
    assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
    pf_codec_destroy(codec);
}

static void a_batch_beyond_the_limits_is_not_encoded(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(64);
    size_t n = 99;
    assert_status(pf_codec_encode_batch(codec, &golden[4].batch, buffer, sizeof buffer, &n), PF_LIMIT);
    assert_status(pf_codec_measure_batch(codec, &golden[4].batch, &n), PF_LIMIT);
    pf_codec_destroy(codec);
    codec = codec_of(BUFFER);
    pf_batch batch = { .closes = &close_one, .n_closes = PF_MAX_BATCH_SEQUENCES + 1 };
    assert_status(pf_codec_encode_batch(codec, &batch, buffer, sizeof buffer, &n), PF_LIMIT);
    batch.n_closes = -1;
    assert_status(pf_codec_encode_batch(codec, &batch, buffer, sizeof buffer, &n), PF_LIMIT);
    assert_status(pf_codec_measure_batch(codec, &batch, &n), PF_LIMIT);
    assert_status(pf_codec_encode_batch(codec, &golden[3].batch, buffer, 1, &n), PF_LIMIT);
    for (int less = 0; less < 2; less++) { /* neither too many nor too few of anything, and a text of its length */
        static char text[PF_MAX_REFUSAL_BYTES + 2];
        static int32_t zeros[PF_MAX_PROMPT_TOKENS + 1];
        static float shares[PF_MAX_DECLARED + 1];
        memset(text, 'x', PF_MAX_REFUSAL_BYTES + 1);
        pf_open opens[] = { open_greedy, open_greedy, open_excluded };
        opens[0].tokens = opens[1].stop_tokens = zeros;
        opens[0].n_tokens = less ? -1 : PF_MAX_PROMPT_TOKENS + 1;
        opens[2].n_excluded = less ? -1 : PF_MAX_EXCLUDED + 1;
        opens[1].n_stop_tokens = less ? -1 : PF_MAX_STOP_TOKENS + 1;
        const pf_declared declared = { zeros, shares, less ? -1 : PF_MAX_DECLARED + 1 };
        pf_proposal proposals[] = { { 7, 1, 1, 7, zeros, less ? -1 : PF_MAX_DRAFT_TOKENS + 1, NULL, NULL, PF_AHEAD_NONE,
                                      0 },
                                    { 7, 1, 1, 7, zeros, 1, NULL, &declared, PF_AHEAD_NONE, 0 } };
        pf_verdict verdict = {
            7, 1, 1, 7, zeros, less ? -1 : PF_MAX_VERDICT_TOKENS + 1, 0, PF_FINISH_NONE, 0, 0, NULL
        };
        pf_refusal refusal = { 7, 1, PF_LIMIT, text };
        const pf_batch beyond_limits[] = {
            { .opens = &opens[0], .n_opens = 1 },
            { .opens = &opens[1], .n_opens = 1 },
            { .opens = &opens[2], .n_opens = 1 },
            { .proposals = &proposals[0], .n_proposals = 1 },
            { .proposals = &proposals[1], .n_proposals = 1 },
            { .verdicts = &verdict, .n_verdicts = 1 },
            { .refusals = &refusal, .n_refusals = 1 },
        };
        for (size_t i = 0; i < PF_COUNT(beyond_limits); i++)
            assert_status(pf_codec_measure_batch(codec, &beyond_limits[i], &n), PF_LIMIT);
    }
    assert_int_equal(n, 99);
    pf_codec_destroy(codec);
    assert_status(pf_codec_create(0, 0, &codec), PF_INVALID);
    assert_status(pf_codec_create((size_t)PF_MAX_MESSAGE_BYTES + 1, 0, &codec), PF_INVALID);
    for (size_t i = 0; i < 2; i++) {
        assert_status(pf_codec_create(i == 0 ? 1 : PF_MAX_MESSAGE_BYTES, 0, &codec), PF_OK);
        pf_codec_destroy(codec);
    }
}

/* The golden one with another value of a field behind it: the last one counts. */
static void a_field_of_model_info_out_of_range_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *says, *bytes;
        size_t n;
    } cases[] = {
        { "model_info.vocab_size is 0", "\x18\x00", 2 },
        { "model_info.n_ids is 4095, expected 4096 to", "\x50\xff\x1f", 3 },
        { "model_info.max_context is 0", "\x28\x00", 2 },
        { "model_info.max_sequences is 0", "\x30\x00", 2 },
        { "model_info.limits.max_draft is 65, expected 0 to 64", "\x3a\x02\x08\x41", 4 },
        { "model_info.limits.max_draft is -1", "\x3a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13 },
        { "model_info.limits.max_declared is 257, expected 0 to 256", "\x3a\x03\x10\x81\x02", 5 },
        { "model_info.drafters[0] is there twice, or is not 1 to 15 letters", "\xa2\x01\x01/", 4 },
        { "model_info.drafters[0] is there twice, or is not 1 to 15 letters", "\xa2\x01\x00", 3 },
        { "model_info.drafters[1] is there twice, or is not 1 to 15 letters", "\xa2\x01\x01x\xa2\x01\x01x", 8 },
        { "model_info.drafters has 9 entries, expected 0 to 8",
          "\xa2\x01\0\xa2\x01\0\xa2\x01\0\xa2\x01\0\xa2\x01\0\xa2\x01\0\xa2\x01\0\xa2\x01\0\xa2\x01", 27 },
        { "model_info.limits.max_declared is -1", "\x3a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13 },
    };
    pf_error error;
    pf_model_info out, info = golden_info;
    size_t n = 0;
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
        memcpy(buffer + n, cases[i].bytes, cases[i].n);
        assert_status(pf_codec_decode_info(buffer, n + cases[i].n, &out, &error), PF_FORMAT);
        assert_says(error, cases[i].says);
    }
    uint8_t ends[PF_MAX_STOP_TOKENS + 4];
    static const uint8_t zeros[PF_MAX_STOP_TOKENS + 1];
    const size_t n_ends = put_field(ends, 0, 1, zeros, sizeof zeros);
    n = put_field(buffer, n, 9, ends, n_ends);
    assert_status(pf_codec_decode_info(buffer, n, &out, &error), PF_FORMAT);
    assert_says(error, "model_info.end_tokens.ids has 65 entries, expected 0 to 64");
    assert_status(pf_codec_decode_info((const uint8_t *)"\x08\x01\x18\x01\x28\x01\x30\x01", 8, &out, &error),
                  PF_FORMAT);
    assert_says(error, "model_info.limits is missing");

    info.max_context = info.max_sequences = info.vocab_size = 1; /* the least of everything */
    info.max_draft = info.max_declared = 0;
    snprintf(info.model_id, sizeof info.model_id, "a\nb");
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &out, &error), error);
    assert_string_equal(out.model_id, "a?b");
    info.max_draft = PF_MAX_DRAFT_TOKENS;
    memset(info.model_id, 'x', sizeof info.model_id - 1);
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &out, &error), error);
    assert_string_equal(out.model_id, info.model_id);
}

static void model_info_of_another_version_or_out_of_range_is_refused(void **state)
{
    (void)state;
    pf_error error;
    size_t n = 0;
    pf_model_info info = golden_info, out;
    info.protocol_version = 2;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_status(pf_codec_decode_info(buffer, n, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "version 2");
    info = golden_info;
    info.names_ends = true;
    info.n_ends = 2;
    info.ends[1] = info.vocab_size;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_status(pf_codec_decode_info(buffer, n, &out, &error), PF_FORMAT);
    assert_says(error, "model_info.end_tokens.ids[1] is 4096, expected 0 to 4095");
    info.n_ends = PF_MAX_STOP_TOKENS + 1;
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_INVALID);
    info = golden_info;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    memset(&buffer[n], 'x', 3 + 128);
    memcpy(&buffer[n], "\x12\x80\x01", 3); /* a model_id of 128 bytes: the last one counts */
    assert_status(pf_codec_decode_info(buffer, n + 3 + 128, &out, &error), PF_FORMAT);
    assert_says(error, "model_info.model_id has 128 bytes, expected at most 127");
    memset(info.model_id, 'x', sizeof info.model_id);
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_INVALID);
    assert_status(pf_codec_decode_info((const uint8_t *)"\xff\xff", 2, &out, &error), PF_FORMAT);
    assert_status(pf_codec_decode_info(buffer, PF_MAX_INFO_BYTES + 1, &out, &error), PF_FORMAT);
    assert_says(error, "at most 33800");
    info = golden_info;
    memset(info.vocab_fingerprint, 0, sizeof info.vocab_fingerprint); /* no tokenizer */
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &out, &error), error);
    assert_memory_equal(out.vocab_fingerprint, info.vocab_fingerprint, 32);

    pf_info_request request = { 0 };
    assert_int_equal(pf_codec_encode_info_request(buffer, sizeof buffer, &n), PF_OK);
    assert_ok(pf_codec_decode_info_request(buffer, n, &request, &error), error);
    assert_int_equal(request.protocol_version, PF_PROTOCOL_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_out_of_range_is_refused_by_name),
        cmocka_unit_test(an_id_twice_is_found_wherever_it_stands),
        cmocka_unit_test(ids_that_were_chosen_cost_no_more_than_others),
        cmocka_unit_test(logit_rules_that_are_out_of_range_are_refused_by_name),
        cmocka_unit_test(penalties_without_rules_count_the_whole_open_as_prompt),
        cmocka_unit_test(a_method_of_a_later_version_is_refused_as_unsupported),
        cmocka_unit_test(a_batch_of_invalid_parts_is_refused_one_by_one),
        cmocka_unit_test(of_several_invalid_parts_of_a_sequence_the_last_incarnation_is_refused),
        cmocka_unit_test(an_invalid_part_of_an_old_incarnation_leaves_a_newer_one),
        cmocka_unit_test(a_list_of_another_length_than_documented_is_refused_by_name),
        cmocka_unit_test(a_declared_distribution_has_at_most_256_ids_and_as_many_probabilities),
        cmocka_unit_test(an_open_without_limits_is_refused_by_name),
        cmocka_unit_test(an_open_for_a_drafter_of_a_long_name_is_refused_by_its_bytes),
        cmocka_unit_test(a_refusal_of_a_long_text_is_refused_by_its_bytes),
        cmocka_unit_test(a_field_of_model_info_out_of_range_is_refused_by_name),
        cmocka_unit_test(a_small_message_that_unpacks_to_a_large_one_meets_the_budget),
        cmocka_unit_test(a_batch_beyond_the_limits_is_not_encoded),
        cmocka_unit_test(model_info_of_another_version_or_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
