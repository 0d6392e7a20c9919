/* What the tests of the codec share: a codec, room to encode into, and the messages recorded in tests/golden/wire. */
#ifndef PF_TESTS_SUPPORT_WIRE_SAMPLES_H
#define PF_TESTS_SUPPORT_WIRE_SAMPLES_H

#include <math.h>

#include "proto/codec.h"
#include "tests/support/test.h"

enum { N_VOCAB = 4096, BUFFER = 1 << 20 };

static uint8_t buffer[BUFFER];

static pf_codec *codec_of(size_t max_bytes)
{
    pf_codec *codec;
    assert_int_equal(pf_codec_create(max_bytes, N_VOCAB, &codec), PF_OK);
    return codec;
}

static size_t encoded(pf_codec *codec, const pf_batch *batch)
{
    size_t n = 0, measured = 0;
    assert_status(pf_codec_encode_batch(codec, batch, buffer, sizeof buffer, &n), PF_OK);
    assert_status(pf_codec_measure_batch(codec, batch, &measured), PF_OK);
    assert_int_equal(n, measured);
    return n;
}

static const int32_t TOKENS[] = { 0, 1, 127, 128, 300, 4095 }, STOPS[] = { 2, 3 }, PARENTS[] = { -1, 0, 0, -1, 3, 4 };
static const int32_t IDS[] = { 300, 17, 4 };
static const float SHARES[] = { 0.5f, 0.25f, 0.25f };

static pf_open open_greedy = {
    7,     1, 0,        TOKENS, 6, { .top_p = 1.0f }, PF_METHOD_GREEDY, 5, 0, 0, NULL, 0, NULL, 0, false, false, 0,
    { 0 }, 0, { 0, 0 }, "",     0
};
static pf_open open_coupled = { UINT64_MAX,
                                3,
                                41,
                                TOKENS,
                                6,
                                { 0.75f, 40, 0.9375f, 0.0625f, 0.0f, 0x123456789abcdef0u },
                                PF_METHOD_COUPLED,
                                64,
                                256,
                                2048,
                                STOPS,
                                2,
                                NULL,
                                0,
                                false,
                                false,
                                0,
                                { 0 },
                                0,
                                { 0, 0 },
                                "",
                                0 };
static const int32_t EXCLUDED[] = { 0, 3, 4090, 5000 };
static pf_open open_excluded = { 12,   1,    0, TOKENS, 6, { .top_p = 1.0f }, PF_METHOD_GREEDY,
                                 5,    0,    0, STOPS,  2, EXCLUDED,          2,
                                 true, true, 0, { 0 },  0, { 0, 0 },          "",
                                 0 };
static const float BIASES[] = { 1.5f, -100.0f, -0.25f };
static pf_open open_rules = { 13,
                              2,
                              4,
                              TOKENS,
                              6,
                              { .temperature = 0.5f, .top_p = 1.0f },
                              PF_METHOD_REJECTION,
                              5,
                              8,
                              99,
                              STOPS,
                              2,
                              NULL,
                              0,
                              false,
                              false,
                              0,
                              { IDS, BIASES, 3, 9, 1.25f, -0.5f, 0.75f, 3, NULL, NULL },
                              0,
                              { 0, 0 },
                              "",
                              0 };
static pf_open open_typical_p = {
    .sequence = 14,
    .incarnation = 1,
    .tokens = TOKENS,
    .n_tokens = 6,
    .sampling = { .temperature = 1.0f, .typical_p = 0.8125f },
    .method = PF_METHOD_REJECTION,
    .max_draft = 4,
    .max_declared = 64,
};
static pf_open open_typical = {
    .sequence = 15,
    .incarnation = 1,
    .tokens = TOKENS,
    .n_tokens = 6,
    .sampling = { .temperature = 1.0f },
    .method = PF_METHOD_TYPICAL,
    .max_draft = 4,
    .typical = { 0.125f, 0.5f },
};
static pf_open open_drafter = {
    .sequence = 17,
    .incarnation = 1,
    .tokens = TOKENS,
    .n_tokens = 6,
    .method = PF_METHOD_GREEDY,
    .max_draft = 4,
    .drafter = "suffix",
};
static pf_close close_one = { 7 };
static const pf_declared declared_all[] = { { IDS, SHARES, 3 }, { IDS, SHARES, 3 } };
static const int32_t drawn[] = { 17, 300 };
static pf_proposal proposals_three[] = { { 7, 1, 1, 7, TOKENS, 6, NULL, NULL, PF_AHEAD_NONE, 0 },
                                         { 8, 2, 5, 99, TOKENS, 6, PARENTS, NULL, PF_AHEAD_NONE, 0 },
                                         { 9, 1, 2, 12, drawn, 2, NULL, declared_all, PF_AHEAD_NONE, 0 } };
static pf_verdict verdicts_two[] = { { 7, 1, 1, 7, TOKENS, 3, 2, PF_FINISH_NONE, 0, 0, NULL },
                                     { 8, 2, 5, 99, NULL, 0, 0, PF_FINISH_LENGTH, 0, 0, NULL } };
static pf_verdict verdicts_bounded[] = { { 7, 1, 1, 7, TOKENS, 3, 2, PF_FINISH_NONE, 3, 0, NULL },
                                         { 8, 2, 5, 99, TOKENS, 1, 0, PF_FINISH_NONE, PF_NO_DRAFT, 0, NULL },
                                         { 9, 1, 2, 12, TOKENS, 1, 0, PF_FINISH_NONE, 0, 2500, NULL } };
static const pf_token_logprobs logprobs_two[] = { { 0, -0.25f, 2, { 0, 4095 }, { -0.25f, -1.5f } },
                                                  { 1, -INFINITY, 0, { 0 }, { 0 } } };
static pf_verdict verdict_logprobs = { 7, 1, 1, 7, TOKENS, 2, 1, PF_FINISH_NONE, 0, 0, logprobs_two };
static pf_open open_logprobs = {
    .sequence = 16,
    .incarnation = 1,
    .tokens = TOKENS,
    .n_tokens = 6,
    .method = PF_METHOD_GREEDY,
    .max_draft = 4,
    .logprobs = 3,
};
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
    { "verdicts_bounded", { .verdicts = verdicts_bounded, .n_verdicts = 3 } },
    { "prefix_request", { .prefix_requests = &prefix_one, .n_prefix_requests = 1 } },
    { "refusals", { .refusals = refusals_two, .n_refusals = 2 } },
    { "open_excluded", { .opens = &open_excluded, .n_opens = 1 } },
    { "open_rules", { .opens = &open_rules, .n_opens = 1 } },
    { "open_typical_p", { .opens = &open_typical_p, .n_opens = 1 } },
    { "logprobs", { .opens = &open_logprobs, .n_opens = 1, .verdicts = &verdict_logprobs, .n_verdicts = 1 } },
    { "open_typical", { .opens = &open_typical, .n_opens = 1 } },
    { "open_drafter", { .opens = &open_drafter, .n_opens = 1 } },
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

#endif
