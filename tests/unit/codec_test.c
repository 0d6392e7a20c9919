/* Batches to bytes and back. PF_RECORD_GOLDEN=1 writes tests/golden/wire/v1 anew: only before a version is released. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "proto/codec.h"
#include "tests/support/alloc_count.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { N_VOCAB = 4096, BUFFER = 1 << 20 };

static uint8_t buffer[BUFFER], again[BUFFER];

static pf_codec *codec_of(size_t max_bytes)
{
    pf_codec *codec;
    assert_int_equal(pf_codec_create(max_bytes, N_VOCAB, &codec), PF_OK);
    return codec;
}

static size_t encoded(pf_codec *codec, const pf_batch *batch)
{
    size_t n = 0;
    assert_status(pf_codec_encode_batch(codec, batch, buffer, sizeof buffer, &n), PF_OK);
    assert_int_equal(n, pf_codec_batch_bytes(codec, batch));
    return n;
}

/* ---- equality ---------------------------------------------------------------------------------------------------- */

static void assert_same_tokens(const int32_t *a, int32_t n_a, const int32_t *b, int32_t n_b)
{
    assert_int_equal(n_a, n_b);
    for (int32_t i = 0; i < n_a; i++) assert_int_equal(a[i], b[i]);
}

static void assert_same_open(const pf_open *a, const pf_open *b)
{
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_int_equal(a->next_round, b->next_round);
    assert_same_tokens(a->tokens, a->n_tokens, b->tokens, b->n_tokens);
    assert_true(a->sampling.temperature == b->sampling.temperature && a->sampling.top_p == b->sampling.top_p &&
                a->sampling.min_p == b->sampling.min_p && a->sampling.top_k == b->sampling.top_k);
    assert_int_equal(a->sampling.seed, b->sampling.seed);
    assert_int_equal(a->method, b->method);
    assert_int_equal(a->max_draft, b->max_draft);
    assert_int_equal(a->adaptive_draft, b->adaptive_draft);
    assert_int_equal(a->max_declared, b->max_declared);
    assert_int_equal(a->max_tokens, b->max_tokens);
    assert_same_tokens(a->stop_tokens, a->n_stop_tokens, b->stop_tokens, b->n_stop_tokens);
}

static void assert_same_proposal(const pf_proposal *a, const pf_proposal *b)
{
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->base, b->base);
    assert_same_tokens(a->tokens, a->n_tokens, b->tokens, b->n_tokens);
    /* No tokens, no tree, no distributions: they cannot be told from absent ones, and need not be. */
    assert_int_equal(a->parents != NULL && a->n_tokens, b->parents != NULL && b->n_tokens);
    assert_int_equal(a->declared != NULL && a->n_tokens, b->declared != NULL && b->n_tokens);
    for (int32_t i = 0; i < a->n_tokens; i++) {
        if (a->parents) assert_int_equal(a->parents[i], b->parents[i]);
        if (!a->declared) continue;
        assert_same_tokens(a->declared[i].ids, a->declared[i].n, b->declared[i].ids, b->declared[i].n);
        for (int32_t j = 0; j < a->declared[i].n; j++)
            assert_true(a->declared[i].probabilities[j] == b->declared[i].probabilities[j]);
    }
}

static void assert_same_verdict(const pf_verdict *a, const pf_verdict *b)
{
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->base, b->base);
    assert_same_tokens(a->tokens, a->n_tokens, b->tokens, b->n_tokens);
    assert_int_equal(a->n_accepted, b->n_accepted);
    assert_int_equal(a->finish, b->finish);
}

static void assert_same_batch(const pf_batch *a, const pf_batch *b)
{
    assert_int_equal(a->n_opens, b->n_opens);
    assert_int_equal(a->n_closes, b->n_closes);
    assert_int_equal(a->n_proposals, b->n_proposals);
    assert_int_equal(a->n_verdicts, b->n_verdicts);
    assert_int_equal(a->n_prefix_requests, b->n_prefix_requests);
    assert_int_equal(a->n_refusals, b->n_refusals);
    for (int32_t i = 0; i < a->n_opens; i++) assert_same_open(&a->opens[i], &b->opens[i]);
    for (int32_t i = 0; i < a->n_closes; i++) assert_int_equal(a->closes[i].sequence, b->closes[i].sequence);
    for (int32_t i = 0; i < a->n_proposals; i++) assert_same_proposal(&a->proposals[i], &b->proposals[i]);
    for (int32_t i = 0; i < a->n_verdicts; i++) assert_same_verdict(&a->verdicts[i], &b->verdicts[i]);
    for (int32_t i = 0; i < a->n_prefix_requests; i++) {
        assert_int_equal(a->prefix_requests[i].sequence, b->prefix_requests[i].sequence);
        assert_int_equal(a->prefix_requests[i].incarnation, b->prefix_requests[i].incarnation);
        assert_int_equal(a->prefix_requests[i].known, b->prefix_requests[i].known);
    }
    for (int32_t i = 0; i < a->n_refusals; i++) {
        assert_int_equal(a->refusals[i].sequence, b->refusals[i].sequence);
        assert_int_equal(a->refusals[i].incarnation, b->refusals[i].incarnation);
        assert_int_equal(a->refusals[i].status, b->refusals[i].status);
        assert_string_equal(a->refusals[i].text, b->refusals[i].text);
    }
    assert_int_equal(a->timing.compute_ns, b->timing.compute_ns);
    assert_int_equal(a->timing.queue_ns, b->timing.queue_ns);
}

/* ---- random batches ---------------------------------------------------------------------------------------------- */

enum { MOST = 5, MOST_TOKENS = 300, MOST_DRAFT = 8, MOST_IDS = 6 };

typedef struct {
    pf_open opens[MOST];
    pf_close closes[MOST];
    pf_proposal proposals[MOST];
    pf_verdict verdicts[MOST];
    pf_prefix_request prefix_requests[MOST];
    pf_refusal refusals[MOST];
    int32_t tokens[MOST_TOKENS];
    int32_t parents[MOST_DRAFT];
    pf_declared declared[MOST][MOST_DRAFT];
    int32_t ids[MOST][MOST_DRAFT][MOST_IDS];
    float probabilities[MOST_IDS][MOST_IDS]; /* [n - 1]: n equal shares */
    pf_batch batch;
} random_batch;

static void fill_proposal(random_batch *r, int32_t i, uint64_t *rng)
{
    pf_proposal *p = &r->proposals[i];
    *p = (pf_proposal){ draw(rng), (uint32_t)draw(rng) | 1,    draw(rng), below(rng, 1 << 30),
                        r->tokens, below(rng, MOST_DRAFT + 1), NULL,      NULL };
    if (below(rng, 2)) p->parents = r->parents;
    if (below(rng, 2)) return;
    p->declared = r->declared[i];
    for (int32_t t = 0; t < p->n_tokens; t++) {
        const int32_t n = 1 + below(rng, MOST_IDS);
        for (int32_t j = 0; j < n; j++) r->ids[i][t][j] = (r->tokens[t] + j * 7) % N_VOCAB;
        r->declared[i][t] = (pf_declared){ r->ids[i][t], r->probabilities[n - 1], n };
    }
}

static void fill(random_batch *r, uint64_t *rng)
{
    memset(r, 0, sizeof *r);
    for (int32_t i = 0; i < MOST_TOKENS; i++) r->tokens[i] = below(rng, N_VOCAB);
    for (int32_t i = 0; i < MOST_DRAFT; i++) r->parents[i] = below(rng, i + 1) - 1;
    for (int32_t n = 1; n <= MOST_IDS; n++)
        for (int32_t j = 0; j < n; j++) r->probabilities[n - 1][j] = 1.0f / (float)n;
    pf_batch *b = &r->batch;
    *b = (pf_batch){ r->opens,
                     r->closes,
                     r->proposals,
                     r->verdicts,
                     r->prefix_requests,
                     r->refusals,
                     below(rng, MOST + 1),
                     below(rng, MOST + 1),
                     below(rng, MOST + 1),
                     below(rng, MOST + 1),
                     below(rng, MOST + 1),
                     below(rng, MOST + 1),
                     { draw(rng), below(rng, 2) ? draw(rng) : 0 } };
    for (int32_t i = 0; i < b->n_opens; i++)
        r->opens[i] = (pf_open){ draw(rng),
                                 (uint32_t)draw(rng) | 1,
                                 draw(rng),
                                 r->tokens,
                                 1 + below(rng, MOST_TOKENS),
                                 { (float)below(rng, 5) * 0.3f, below(rng, 100), 0.1f + (float)below(rng, 10) * 0.09f,
                                   (float)below(rng, 2) * 0.05f, draw(rng) },
                                 (pf_method)(1 + below(rng, 4)),
                                 1 + below(rng, 64),
                                 below(rng, 257),
                                 below(rng, 1 << 30),
                                 r->tokens + 9,
                                 below(rng, 65),
                                 below(rng, 2) == 1 };
    for (int32_t i = 0; i < b->n_closes; i++) r->closes[i].sequence = draw(rng);
    for (int32_t i = 0; i < b->n_proposals; i++) fill_proposal(r, i, rng);
    for (int32_t i = 0; i < b->n_verdicts; i++) {
        const int32_t n = 1 + below(rng, PF_MAX_VERDICT_TOKENS);
        r->verdicts[i] =
            (pf_verdict){ draw(rng),         (uint32_t)draw(rng) | 1, draw(rng), below(rng, 1 << 30), r->tokens, n,
                          below(rng, n + 1), (pf_finish)below(rng, 4) };
    }
    for (int32_t i = 0; i < b->n_prefix_requests; i++)
        r->prefix_requests[i] = (pf_prefix_request){ draw(rng), (uint32_t)draw(rng), below(rng, 1 << 30) };
    static const pf_status reasons[] = { PF_LIMIT, PF_INVALID, PF_UNSUPPORTED };
    for (int32_t i = 0; i < b->n_refusals; i++)
        r->refusals[i] = (pf_refusal){ draw(rng), (uint32_t)draw(rng), reasons[below(rng, 3)],
                                       below(rng, 2) ? "" : "the context is full: caf\xc3\xa9" };
}

static void what_is_encoded_decodes_to_the_same(void **state)
{
    (void)state;
    static random_batch r;
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t rng = seed;
        fill(&r, &rng);
        const size_t n = encoded(codec, &r.batch);
        const pf_batch *out = NULL;
        assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
        assert_same_batch(&r.batch, out);
        size_t n_again = 0;
        assert_int_equal(pf_codec_encode_batch(codec, out, again, sizeof again, &n_again), PF_OK);
        assert_int_equal(n, n_again);
        assert_memory_equal(buffer, again, n);
    }
    pf_codec_destroy(codec);
}

/* ---- the recorded messages of version 1 -------------------------------------------------------------------------- */

static const int32_t TOKENS[] = { 0, 1, 127, 128, 300, 4095 }, STOPS[] = { 2, 3 }, PARENTS[] = { -1, 0, 0, -1, 3, 4 };
static const int32_t IDS[] = { 300, 17, 4 };
static const float SHARES[] = { 0.5f, 0.25f, 0.25f };

static pf_open open_greedy = { 7, 1, 0, TOKENS, 6, { .top_p = 1.0f }, PF_METHOD_GREEDY, 5, 0, 0, NULL, 0, false };
static pf_open open_coupled = {
    UINT64_MAX, 3,    41,    TOKENS, 6,    { 0.75f, 40, 0.9375f, 0.0625f, 0x123456789abcdef0u }, PF_METHOD_COUPLED, 64,
    256,        2048, STOPS, 2,      false
};
static pf_close close_one = { 7 };
static const pf_declared declared_all[] = { { IDS, SHARES, 3 }, { IDS, SHARES, 3 } };
static const int32_t drawn[] = { 17, 300 };
static pf_proposal proposals_three[] = { { 7, 1, 1, 7, TOKENS, 6, NULL, NULL },
                                         { 8, 2, 5, 99, TOKENS, 6, PARENTS, NULL },
                                         { 9, 1, 2, 12, drawn, 2, NULL, declared_all } };
static pf_verdict verdicts_two[] = { { 7, 1, 1, 7, TOKENS, 3, 2, PF_FINISH_NONE },
                                     { 8, 2, 5, 99, NULL, 0, 0, PF_FINISH_LENGTH } };
static pf_prefix_request prefix_one = { 9, 4, 33 };
static pf_refusal refusals_two[] = { { 10, 1, PF_LIMIT, "8 sequences are open, more are not taken" },
                                     { 11, 1, PF_UNSUPPORTED, "method 3 is not spoken here" } };

static const struct {
    const char *name;
    pf_batch batch;
} golden[] = {
    { "empty", { .n_opens = 0 } },
    { "open_greedy", { .opens = &open_greedy, .n_opens = 1 } },
    { "open_coupled_again", { .opens = &open_coupled, .n_opens = 1 } },
    { "close", { .closes = &close_one, .n_closes = 1 } },
    { "proposals_chain_tree_declared",
      { .proposals = proposals_three, .n_proposals = 3, .timing = { 1234567, 8901 } } },
    { "verdicts", { .verdicts = verdicts_two, .n_verdicts = 2, .timing = { .compute_ns = 20000000 } } },
    { "prefix_request", { .prefix_requests = &prefix_one, .n_prefix_requests = 1 } },
    { "refusals", { .refusals = refusals_two, .n_refusals = 2 } },
};

static const pf_model_info golden_info = {
    .protocol_version = 1,
    .model_id = "pilotfish/draft-1m",
    .vocab_size = 4096,
    .vocab_fingerprint = { 0xde, 0xad, 0xbe, 0xef, 5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                           17,   18,   19,   20,   21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32 },
    .max_context = 1024,
    .max_sequences = 16,
    .max_draft = 32,
    .max_declared = 256,
    .methods = 1u << PF_METHOD_GREEDY | 1u << PF_METHOD_REJECTION,
};

static size_t golden_file(const char *name, const uint8_t *record, size_t n_record)
{
    char path[256];
    snprintf(path, sizeof path, "tests/golden/wire/v1/%s.bin", name);
    if (getenv("PF_RECORD_GOLDEN")) {
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(record, 1, n_record, out), n_record);
        assert_int_equal(fclose(out), 0);
    }
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("%s is missing", path);
    const size_t n = fread(again, 1, sizeof again, in);
    fclose(in);
    return n;
}

static void recorded_messages_of_version_1_decode_ever_after(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    for (size_t i = 0; i < PF_COUNT(golden); i++) {
        const size_t n = golden_file(golden[i].name, buffer, encoded(codec, &golden[i].batch));
        const pf_batch *out = NULL;
        assert_ok(pf_codec_decode_batch(codec, again, n, &out, &error), error);
        assert_same_batch(&golden[i].batch, out);
    }
    size_t n = 0;
    assert_int_equal(pf_codec_encode_info(&golden_info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    n = golden_file("model_info", buffer, n);
    pf_model_info info;
    assert_ok(pf_codec_decode_info(again, n, &info, &error), error);
    assert_int_equal(info.protocol_version, 1);
    assert_string_equal(info.model_id, golden_info.model_id);
    assert_int_equal(info.vocab_size, 4096);
    assert_memory_equal(info.vocab_fingerprint, golden_info.vocab_fingerprint, 32);
    assert_int_equal(info.max_context, 1024);
    assert_int_equal(info.max_sequences, 16);
    assert_int_equal(info.max_draft, 32);
    assert_int_equal(info.max_declared, 256);
    assert_int_equal(info.methods, golden_info.methods);
    pf_codec_destroy(codec);
}

static void a_message_cut_anywhere_decodes_or_is_refused_but_never_reads_on(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    int n_refused = 0;
    for (size_t i = 0; i < PF_COUNT(golden); i++) {
        const size_t n = encoded(codec, &golden[i].batch);
        for (size_t cut = 0; cut < n; cut++) {
            uint8_t *exact = malloc(cut ? cut : 1); /* AddressSanitizer watches its end */
            assert_non_null(exact);
            memcpy(exact, buffer, cut);
            const pf_batch *out;
            const pf_status status = pf_codec_decode_batch(codec, exact, cut, &out, &error);
            if (status != PF_OK && status != PF_FORMAT) fail_msg("cut at %zu: %s", cut, pf_status_name(status));
            n_refused += status == PF_FORMAT;
            free(exact);
        }
    }
    assert_true(n_refused > 200);
    pf_codec_destroy(codec);
}

/* ---- what is refused, and by which name -------------------------------------------------------------------------- */

static const int32_t beyond[] = { 1, N_VOCAB }, negative[] = { -1 }, own_parent[] = { -1, 1, 0, 0, 0, 0 };
static const int32_t twice[] = { 300, 17, 300 };
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
SPOIL(no_prompt, pf_open, x->n_tokens = 0)
SPOIL(id_beyond, pf_open, x->tokens = beyond, x->n_tokens = 2)
SPOIL(id_negative, pf_open, x->tokens = negative, x->n_tokens = 1)
SPOIL(stop_beyond, pf_open, x->stop_tokens = beyond, x->n_stop_tokens = 2)
SPOIL(no_method, pf_open, x->method = (pf_method)0)
SPOIL(temperature_negative, pf_open, x->sampling.temperature = -0.5f)
SPOIL(temperature_nan, pf_open, x->sampling.temperature = NAN)
SPOIL(top_k_negative, pf_open, x->sampling.top_k = -1)
SPOIL(top_p_above, pf_open, x->sampling.top_p = 1.5f)
SPOIL(min_p_infinite, pf_open, x->sampling.min_p = INFINITY)
SPOIL(draft_beyond, pf_open, x->max_draft = 65)
SPOIL(draft_none, pf_open, x->max_draft = 0)
SPOIL(declared_beyond, pf_open, x->max_declared = 257)
SPOIL(max_tokens_negative, pf_open, x->max_tokens = -1)
SPOIL(p_no_incarnation, pf_proposal, x->incarnation = 0)
SPOIL(p_round, pf_proposal, x->round = 0)
SPOIL(p_base_negative, pf_proposal, x->base = -1)
SPOIL(p_base_huge, pf_proposal, x->base = INT32_MAX)
SPOIL(p_id, pf_proposal, x->tokens = beyond, x->n_tokens = 2)
SPOIL(p_parent, pf_proposal, x->parents = own_parent)
SPOIL(v_no_incarnation, pf_verdict, x->incarnation = 0)
SPOIL(v_base, pf_verdict, x->base = INT32_MAX)
SPOIL(v_nothing, pf_verdict, x->n_tokens = 0, x->n_accepted = 0)
SPOIL(v_accepted, pf_verdict, x->n_accepted = x->n_tokens + 1)
SPOIL(v_accepted_negative, pf_verdict, x->n_accepted = -1)
SPOIL(v_finish, pf_verdict, x->finish = (pf_finish)9)
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
    const pf_misfits *misfits = NULL;
    pf_error error = { .text = "" };
    const pf_status status = pf_codec_decode_parts(codec, buffer, n, &out, &misfits, &error);
    if (one->is_fence) {
        assert_int_equal(status, PF_FORMAT);
        assert_says(error, one->says);
        return;
    }
    assert_ok(status, error);
    assert_int_equal(misfits->n, 1);
    assert_int_equal(misfits->n_proposals, one->in == IN_PROPOSAL || one->in == IN_DECLARED);
    assert_int_equal(misfits->n_verdicts, one->in == IN_VERDICT);
    assert_int_equal(misfits->refusals[0].sequence, open_greedy.sequence);
    assert_int_equal(misfits->refusals[0].incarnation, 1);
    assert_int_equal(misfits->refusals[0].status, PF_INVALID);
    if (!strstr(misfits->refusals[0].text, one->says)) fail_msg("\"%s\"", misfits->refusals[0].text);
    assert_int_equal(out->n_opens, 1);
    assert_int_equal(out->opens[0].sequence, open_coupled.sequence);
    assert_int_equal(out->n_proposals + out->n_verdicts, 0);
}

static void a_field_out_of_range_is_refused_by_name(void **state)
{
    (void)state;
    static const spoiled cases[] = {
        { "opens[0].incarnation is 0", IN_OPEN, no_incarnation, true },
        { "opens[0].tokens has 0 entries", IN_OPEN, no_prompt, false },
        { "opens[0].tokens[1] is 4096, expected 0 to 4095", IN_OPEN, id_beyond, false },
        { "opens[0].tokens[0] is -1", IN_OPEN, id_negative, false },
        { "opens[0].stop_tokens[1] is 4096", IN_OPEN, stop_beyond, false },
        { "opens[0].method is missing", IN_OPEN, no_method, false },
        { "opens[0].sampling.temperature is -0.5", IN_OPEN, temperature_negative, false },
        { "opens[0].sampling.temperature is nan", IN_OPEN, temperature_nan, false },
        { "opens[0].sampling.top_k is -1", IN_OPEN, top_k_negative, false },
        { "opens[0].sampling.top_p is 1.5", IN_OPEN, top_p_above, false },
        { "opens[0].sampling.min_p is inf", IN_OPEN, min_p_infinite, false },
        { "opens[0].limits.max_draft is 65", IN_OPEN, draft_beyond, false },
        { "opens[0].limits.max_draft is 0", IN_OPEN, draft_none, false },
        { "opens[0].limits.max_declared is 257", IN_OPEN, declared_beyond, false },
        { "opens[0].limits.max_tokens is -1", IN_OPEN, max_tokens_negative, false },
        { "proposals[0].incarnation is 0", IN_PROPOSAL, p_no_incarnation, true },
        { "proposals[0].round is 0", IN_PROPOSAL, p_round, true },
        { "proposals[0].base_length is -1", IN_PROPOSAL, p_base_negative, true },
        { "proposals[0].base_length is 2147483647", IN_PROPOSAL, p_base_huge, true },
        { "proposals[0].tokens[1] is 4096", IN_PROPOSAL, p_id, false },
        { "proposals[0].parents is 1, expected -1 to 0", IN_PROPOSAL, p_parent, false },
        { "verdicts[0].incarnation is 0", IN_VERDICT, v_no_incarnation, true },
        { "verdicts[0].base_length is 2147483647", IN_VERDICT, v_base, true },
        { "verdicts[0].tokens has 0 entries", IN_VERDICT, v_nothing, false },
        { "verdicts[0].n_accepted is 4", IN_VERDICT, v_accepted, false },
        { "verdicts[0].n_accepted is -1", IN_VERDICT, v_accepted_negative, false },
        { "verdicts[0].finish is 9", IN_VERDICT, v_finish, false },
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

static void assert_not_spoken(pf_codec *codec, const uint8_t *bytes, size_t n, const char *says)
{
    const pf_batch *out;
    const pf_misfits *misfits;
    pf_error error;
    assert_status(pf_codec_decode_batch(codec, bytes, n, &out, &error), PF_UNSUPPORTED);
    assert_says(error, says);
    assert_ok(pf_codec_decode_parts(codec, bytes, n, &out, &misfits, &error), error);
    assert_int_equal(out->n_opens, 0);
    assert_int_equal(misfits->n, 1);
    assert_int_equal(misfits->refusals[0].status, PF_UNSUPPORTED);
    assert_non_null(strstr(misfits->refusals[0].text, says));
}

static void penalties_that_are_not_neutral_are_refused_by_name(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    /* opens { incarnation 1, tokens[1], sampling { FIELD: VALUE }, method GREEDY, limits { max_draft 1 } } */
    uint8_t bytes[] = { 0x0a, 0x12, 0x10, 0x01, 0x22, 0x01, 0x01, 0x2a, 0x05, 0x35,
                        0,    0,    0,    0,    0x30, 0x01, 0x3a, 0x02, 0x08, 0x01 };
    const struct {
        uint8_t tag;
        float value;
        const char *says; /* NULL: neutral */
    } cases[] = { { 0x35, 1.1f, "repetition_penalty is 1.1" }, { 0x35, 1.0f, NULL },
                  { 0x3d, 0.5f, "presence_penalty is 0.5" },   { 0x3d, 0.0f, NULL },
                  { 0x45, -1.0f, "frequency_penalty is -1" },  { 0x45, NAN, "frequency_penalty is nan" } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        bytes[9] = cases[i].tag;
        memcpy(bytes + 10, &cases[i].value, 4);
        const pf_batch *out;
        pf_error error;
        if (cases[i].says)
            assert_not_spoken(codec, bytes, sizeof bytes, cases[i].says);
        else
            assert_ok(pf_codec_decode_batch(codec, bytes, sizeof bytes, &out, &error), error);
    }
    pf_codec_destroy(codec);
}

static void a_method_of_a_later_version_is_not_spoken(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_open open = open_greedy;
    open.method = (pf_method)5;
    const size_t n = encoded(codec, &(pf_batch){ .opens = &open, .n_opens = 1 });
    assert_not_spoken(codec, buffer, n, "opens[0].method is 5, but this version has 1 to 4");
    pf_codec_destroy(codec);
}

/* As many as a batch may have, each with a sentence of its own. */
static void a_batch_of_nothing_but_misfits_is_refused_one_by_one(void **state)
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
    const pf_misfits *misfits;
    pf_error error;
    assert_ok(pf_codec_decode_parts(codec, buffer, n, &out, &misfits, &error), error);
    assert_int_equal(misfits->n, 200 + 128);
    for (int32_t i = 0; i < misfits->n; i++) assert_int_equal(misfits->refusals[i].sequence, i);
    assert_non_null(strstr(misfits->refusals[255].text, "opens[255].tokens has 0 entries"));
    assert_non_null(strstr(misfits->refusals[256].text, "verdicts[112].n_accepted is -1"));
    pf_codec_destroy(codec);
}

static void an_unknown_field_is_ignored_and_an_absent_sampling_is_greedy(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    const uint8_t bytes[] = { 0xa2, 0x06, 0x02, 'h',  'i', /* field 100 */
                              0x0a, 0x0b, 0x10, 0x01, 0x22, 0x01, 0x05, 0x30, 0x01, 0x3a, 0x02, 0x08, 0x01 };
    const pf_batch *out = NULL;
    pf_error error;
    assert_ok(pf_codec_decode_batch(codec, bytes, sizeof bytes, &out, &error), error);
    assert_int_equal(out->n_opens, 1);
    assert_int_equal(out->opens[0].tokens[0], 5);
    assert_true(out->opens[0].sampling.temperature == 0.0f && out->opens[0].sampling.top_p == 0.0f);
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
    pf_batch batch = { .closes = &close_one, .n_closes = PF_MAX_BATCH_SEQUENCES + 1 };
    assert_status(pf_codec_encode_batch(codec, &batch, buffer, sizeof buffer, &n), PF_LIMIT);
    batch.n_closes = -1;
    assert_status(pf_codec_encode_batch(codec, &batch, buffer, sizeof buffer, &n), PF_LIMIT);
    assert_int_equal(pf_codec_batch_bytes(codec, &batch), 0);
    assert_status(pf_codec_encode_batch(codec, &golden[3].batch, buffer, 1, &n), PF_LIMIT);
    assert_int_equal(n, 99);
    pf_codec_destroy(codec);
    assert_status(pf_codec_create(0, 0, &codec), PF_INVALID);
    assert_status(pf_codec_create((size_t)PF_MAX_MESSAGE_BYTES + 1, 0, &codec), PF_INVALID);
}

static void a_method_that_has_no_bit_is_passed_over(void **state)
{
    (void)state;
    /* 32, and -1 */
    static const uint8_t methods[] = { 0x40, 32, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1 };
    pf_error error;
    pf_model_info out;
    size_t n = 0;
    assert_int_equal(pf_codec_encode_info(&golden_info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    memcpy(buffer + n, methods, sizeof methods);
    assert_ok(pf_codec_decode_info(buffer, n + sizeof methods, &out, &error), error);
    assert_int_equal(out.methods, golden_info.methods);
}

static void a_refusals_text_cannot_drive_a_terminal(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_refusal refusal = { 1, 1, PF_INVALID, "no \x1b[31mway\n\x7f" };
    const size_t n = encoded(codec, &(pf_batch){ .refusals = &refusal, .n_refusals = 1 });
    const pf_batch *out = NULL;
    pf_error error;
    assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
    assert_string_equal(out->refusals[0].text, "no ?[31mway??");
    pf_codec_destroy(codec);
}

static void encoding_and_decoding_allocate_nothing(void **state)
{
    (void)state;
    static random_batch r;
    uint64_t rng = 5;
    fill(&r, &rng);
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    pf_alloc_count_reset();
    for (int i = 0; i < 100; i++) {
        const pf_batch *out = NULL;
        const size_t n = encoded(codec, &r.batch);
        assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
    }
    assert_int_equal(pf_alloc_count(), 0);
    pf_codec_destroy(codec);
}

static void a_codec_that_cannot_be_made_leaves_nothing_behind(void **state)
{
    (void)state;
    pf_status status = PF_NOMEM;
    int64_t n = 0;
    for (; status != PF_OK; n++) {
        pf_codec *codec = NULL;
        pf_alloc_refuse_after(n);
        status = pf_codec_create(1000, 0, &codec);
        pf_alloc_refuse_after(-1);
        if (status != PF_OK) assert_int_equal(status, PF_NOMEM);
        pf_codec_destroy(codec);
    }
    assert_int_equal(n, 4);
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
    info.vocab_size = 0;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_status(pf_codec_decode_info(buffer, n, &out, &error), PF_FORMAT);
    assert_says(error, "vocab_size is 0");
    info = golden_info;
    memset(info.model_id, 'x', sizeof info.model_id);
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_INVALID);
    assert_status(pf_codec_decode_info((const uint8_t *)"\xff\xff", 2, &out, &error), PF_FORMAT);
    info = golden_info;
    memset(info.vocab_fingerprint, 0, sizeof info.vocab_fingerprint); /* no tokenizer */
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &out, &error), error);
    assert_memory_equal(out.vocab_fingerprint, info.vocab_fingerprint, 32);

    uint32_t version = 0;
    assert_int_equal(pf_codec_encode_info_request(buffer, sizeof buffer, &n), PF_OK);
    assert_ok(pf_codec_decode_info_request(buffer, n, &version, &error), error);
    assert_int_equal(version, PF_PROTOCOL_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_encoded_decodes_to_the_same),
        cmocka_unit_test(recorded_messages_of_version_1_decode_ever_after),
        cmocka_unit_test(a_message_cut_anywhere_decodes_or_is_refused_but_never_reads_on),
        cmocka_unit_test(a_field_out_of_range_is_refused_by_name),
        cmocka_unit_test(penalties_that_are_not_neutral_are_refused_by_name),
        cmocka_unit_test(a_method_of_a_later_version_is_not_spoken),
        cmocka_unit_test(a_batch_of_nothing_but_misfits_is_refused_one_by_one),
        cmocka_unit_test(an_unknown_field_is_ignored_and_an_absent_sampling_is_greedy),
        cmocka_unit_test(a_small_message_that_unpacks_to_a_large_one_meets_the_budget),
        cmocka_unit_test(a_batch_beyond_the_limits_is_not_encoded),
        cmocka_unit_test(a_refusals_text_cannot_drive_a_terminal),
        cmocka_unit_test(encoding_and_decoding_allocate_nothing),
        cmocka_unit_test(a_codec_that_cannot_be_made_leaves_nothing_behind),
        cmocka_unit_test(a_method_that_has_no_bit_is_passed_over),
        cmocka_unit_test(model_info_of_another_version_or_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
