/* Tests how a batch that is larger than a message may be is split. */
#include "proto/batch_halves.h"

#include <stdlib.h>

#include "proto/codec.h"
#include "tests/support/test.h"

enum { MOST = 9 };

static pf_open opens[MOST];
static pf_close closes[MOST];
static pf_proposal proposals[MOST];
static pf_verdict verdicts[MOST];
static pf_prefix_request requests[MOST];
static pf_refusal refusals[MOST];

/* The sequences of a batch's parts, in the order in which they take effect. */
static int32_t list(const pf_batch *b, uint64_t *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < b->n_closes; i++) out[n++] = b->closes[i].sequence;
    for (int32_t i = 0; i < b->n_opens; i++) out[n++] = b->opens[i].sequence;
    for (int32_t i = 0; i < b->n_proposals; i++) out[n++] = b->proposals[i].sequence;
    for (int32_t i = 0; i < b->n_verdicts; i++) out[n++] = b->verdicts[i].sequence;
    for (int32_t i = 0; i < b->n_prefix_requests; i++) out[n++] = b->prefix_requests[i].sequence;
    for (int32_t i = 0; i < b->n_refusals; i++) out[n++] = b->refusals[i].sequence;
    return n;
}

/* The same, of the halves of halves. */
static int32_t list_halves(const pf_batch *b, uint64_t *out)
{
    pf_batch first, second;
    if (!pf_batch_halve(b, &first, &second)) return list(b, out);
    assert_int_equal(first.timing.compute_ns, 5);
    assert_int_equal(second.timing.compute_ns, 5);
    const int32_t n = list_halves(&first, out);
    assert_true(n > 0);
    return n + list_halves(&second, out + n);
}

static void halves_have_each_part_once_and_in_order(void **state)
{
    (void)state;
    for (int32_t i = 0; i < MOST; i++) {
        const uint64_t s = (uint64_t)i;
        closes[i].sequence = s;
        opens[i].sequence = 100 + s;
        proposals[i].sequence = 200 + s;
        verdicts[i].sequence = 300 + s;
        requests[i].sequence = 400 + s;
        refusals[i].sequence = 500 + s;
    }
    for (int32_t counts = 0; counts < 4 * 4 * 4 * 4 * 4 * 4; counts++) {
        static const int32_t numbers[] = { 0, 1, 2, MOST };
        const pf_batch batch = { .closes = closes,
                                 .opens = opens,
                                 .proposals = proposals,
                                 .verdicts = verdicts,
                                 .prefix_requests = requests,
                                 .refusals = refusals,
                                 .n_closes = numbers[counts % 4],
                                 .n_opens = numbers[counts / 4 % 4],
                                 .n_proposals = numbers[counts / 16 % 4],
                                 .n_verdicts = numbers[counts / 64 % 4],
                                 .n_prefix_requests = numbers[counts / 256 % 4],
                                 .n_refusals = numbers[counts / 1024],
                                 .timing = { 5, 6 } };
        uint64_t expected[6 * MOST], found[6 * MOST];
        const int32_t n = list(&batch, expected);
        assert_int_equal(list_halves(&batch, found), n);
        for (int32_t i = 0; i < n; i++) assert_int_equal(found[i], expected[i]);
    }
}

/* Encodes and decodes a batch, in halves where it must be. Returns how many messages that takes. */
static int32_t send(pf_codec *codec, uint8_t *bytes, const pf_batch *batch, bool *has_come)
{
    size_t n;
    pf_batch first, second;
    const pf_status status = pf_codec_encode_batch(codec, batch, bytes, PF_MAX_MESSAGE_BYTES, &n);
    if (status != PF_OK) {
        assert_status(status, PF_LIMIT);
        assert_true(pf_batch_halve(batch, &first, &second));
        const int32_t n_first = send(codec, bytes, &first, has_come);
        return n_first + send(codec, bytes, &second, has_come);
    }
    const pf_batch *out;
    pf_error error;
    assert_ok(pf_codec_decode_batch(codec, bytes, n, &out, &error), error);
    for (int32_t i = 0; i < out->n_verdicts; i++) {
        const pf_verdict *v = &out->verdicts[i];
        assert_int_equal(v->n_tokens, PF_MAX_VERDICT_TOKENS);
        assert_int_equal(v->logprobs[v->n_tokens - 1].n_top, PF_MAX_LOGPROBS);
        assert_false(has_come[v->sequence]);
        has_come[v->sequence] = true;
    }
    return 1;
}

static void the_largest_verdicts_of_all_sequences_fit_into_messages_of_any_size(void **state)
{
    (void)state;
    enum { VOCAB = 200000, N = PF_MAX_BATCH_SEQUENCES };
    static pf_token_logprobs logprobs[PF_MAX_VERDICT_TOKENS];
    static int32_t tokens[PF_MAX_VERDICT_TOKENS];
    static pf_verdict all[N];
    for (int32_t i = 0; i < PF_MAX_VERDICT_TOKENS; i++) {
        tokens[i] = VOCAB - 1 - i;
        logprobs[i] = (pf_token_logprobs){ .token = tokens[i], .logprob = -1.0f, .n_top = PF_MAX_LOGPROBS };
        for (int32_t k = 0; k < PF_MAX_LOGPROBS; k++) {
            logprobs[i].top[k] = VOCAB - 1 - k;
            logprobs[i].top_logprobs[k] = -1.0f;
        }
    }
    for (uint64_t s = 0; s < N; s++)
        all[s] = (pf_verdict){ .sequence = s,
                               .incarnation = 1,
                               .round = 1,
                               .base = INT32_MAX - PF_MAX_VERDICT_TOKENS,
                               .tokens = tokens,
                               .n_tokens = PF_MAX_VERDICT_TOKENS,
                               .logprobs = logprobs };
    const pf_batch batch = { .verdicts = all, .n_verdicts = N };
    uint8_t *bytes = malloc(PF_MAX_MESSAGE_BYTES);
    assert_non_null(bytes);
    const size_t sizes[] = { PF_MAX_MESSAGE_BYTES, 4 << 20, 64 << 10, 12 << 10 };
    int32_t n_before = 0;
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        bool has_come[N] = { false };
        pf_codec *codec;
        assert_status(pf_codec_create(sizes[i], VOCAB, &codec), PF_OK);
        const int32_t n = send(codec, bytes, &batch, has_come);
        for (int32_t s = 0; s < N; s++) assert_true(has_come[s]);
        assert_true(n >= n_before && n >= 2); /* the encoder's memory alone makes it two */
        n_before = n;
        pf_codec_destroy(codec);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_have_each_part_once_and_in_order),
        cmocka_unit_test(the_largest_verdicts_of_all_sequences_fit_into_messages_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
