/* Batches to bytes and back. PF_RECORD_GOLDEN=1 rewrites tests/golden/wire/v1: only before a version is released. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/sampling_parameters.h"
#include "proto/codec.h"
#include "proto/drafter_names.h"
#include "tests/support/alloc_count.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"
#include "tests/support/wire_samples.h"

static uint8_t again[BUFFER];

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
                a->sampling.min_p == b->sampling.min_p && a->sampling.top_k == b->sampling.top_k &&
                a->sampling.typical_p == b->sampling.typical_p);
    assert_true(a->typical.epsilon == b->typical.epsilon && a->typical.delta == b->typical.delta);
    assert_int_equal(a->sampling.seed, b->sampling.seed);
    assert_string_equal(a->drafter, b->drafter);
    assert_int_equal(a->method, b->method);
    assert_int_equal(a->max_draft, b->max_draft);
    assert_int_equal(a->adaptive_draft, b->adaptive_draft);
    assert_int_equal(a->logprobs, b->logprobs);
    assert_true(a->client == b->client && a->rules.allow == b->rules.allow); /* not on the wire */
    assert_int_equal(a->trees, b->trees);
    assert_int_equal(a->siblings, b->siblings);
    assert_int_equal(a->max_declared, b->max_declared);
    assert_int_equal(a->max_tokens, b->max_tokens);
    assert_same_tokens(a->stop_tokens, a->n_stop_tokens, b->stop_tokens, b->n_stop_tokens);
    assert_same_tokens(a->excluded, 2 * a->n_excluded, b->excluded, 2 * b->n_excluded);
    assert_same_tokens(a->rules.bias_ids, a->rules.n_biases, b->rules.bias_ids, b->rules.n_biases);
    for (int32_t i = 0; i < a->rules.n_biases; i++) assert_true(a->rules.biases[i] == b->rules.biases[i]);
    assert_true(a->rules.repetition_penalty == b->rules.repetition_penalty &&
                a->rules.frequency_penalty == b->rules.frequency_penalty &&
                a->rules.presence_penalty == b->rules.presence_penalty);
    assert_int_equal(a->rules.min_tokens, b->rules.min_tokens);
    if (pf_logit_rules_are_active(&a->rules)) assert_int_equal(a->rules.n_prompt, b->rules.n_prompt);
}

static void assert_same_proposal(const pf_proposal *a, const pf_proposal *b)
{
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->incarnation, b->incarnation);
    assert_int_equal(a->round, b->round);
    assert_int_equal(a->base, b->base);
    assert_int_equal(a->ahead, b->ahead);
    assert_int_equal(a->passes, b->passes);
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
    assert_int_equal(a->next_draft, b->next_draft);
    assert_int_equal(a->propose_within_us, b->propose_within_us);
    assert_int_equal(a->logprobs != NULL && a->n_tokens > 0, b->logprobs != NULL);
    for (int32_t i = 0; b->logprobs && i < a->n_tokens; i++) {
        assert_int_equal(b->logprobs[i].token, a->tokens[i]);
        assert_true(a->logprobs[i].logprob == b->logprobs[i].logprob);
        assert_same_tokens(a->logprobs[i].top, a->logprobs[i].n_top, b->logprobs[i].top, b->logprobs[i].n_top);
        for (int32_t k = 0; k < a->logprobs[i].n_top; k++)
            assert_true(a->logprobs[i].top_logprobs[k] == b->logprobs[i].top_logprobs[k]);
    }
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

enum { MOST = 5, MOST_TOKENS = 300, MOST_DRAFT = 8, MOST_IDS = 6, MOST_RANGES = 20 };

typedef struct {
    pf_open opens[MOST];
    pf_close closes[MOST];
    pf_proposal proposals[MOST];
    pf_verdict verdicts[MOST];
    pf_prefix_request prefix_requests[MOST];
    pf_refusal refusals[MOST];
    int32_t tokens[MOST_TOKENS];
    int32_t parents[MOST_DRAFT];
    int32_t excluded[2 * MOST_RANGES];
    pf_declared declared[MOST][MOST_DRAFT];
    int32_t ids[MOST][MOST_DRAFT][MOST_IDS];
    float probabilities[MOST_IDS][MOST_IDS]; /* [n - 1]: n equal shares */
    pf_batch batch;
} random_batch;

static void fill_proposal(random_batch *r, int32_t i, uint64_t *rng)
{
    pf_proposal *p = &r->proposals[i];
    *p = (pf_proposal){ .sequence = draw(rng),
                        .incarnation = (uint32_t)draw(rng) | 1,
                        .round = draw(rng),
                        .base = below(rng, 1 << 30),
                        .tokens = r->tokens,
                        .n_tokens = below(rng, MOST_DRAFT + 1),
                        .ahead = (pf_ahead)below(rng, PF_AHEAD_MISS + 1),
                        .passes = (int32_t)below(rng, PF_MAX_DRAFT_TOKENS + 1) };
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
    for (int32_t i = 0; i < 2 * MOST_RANGES; i++) r->excluded[i] = 300 * i + below(rng, 300);
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
                                 draw(rng) >> 1,
                                 r->tokens,
                                 1 + below(rng, MOST_TOKENS),
                                 { (float)below(rng, 5) * 0.3f, below(rng, 100), 0.1f + (float)below(rng, 10) * 0.09f,
                                   (float)below(rng, 2) * 0.05f, (float)below(rng, 3) * 0.4f, draw(rng) },
                                 (pf_method)(1 + below(rng, 6)),
                                 1 + below(rng, 64),
                                 below(rng, 257),
                                 below(rng, 1 << 30),
                                 r->tokens + 9,
                                 below(rng, 65),
                                 r->excluded,
                                 below(rng, MOST_RANGES + 1),
                                 below(rng, 2) == 1,
                                 below(rng, 2) == 1,
                                 0,
                                 { 0 },
                                 0,
                                 { 0, 0 },
                                 "",
                                 i % 6 };
    for (int32_t i = 0; i < b->n_opens; i++)
        strcpy(r->opens[i].drafter, i % 3 == 0 ? "" : i % 3 == 1 ? "suffix" : "a-name_of-15-By");
    for (int32_t i = 0; i < b->n_opens; i++)
        if (r->opens[i].method == PF_METHOD_TYPICAL) r->opens[i].typical = (pf_typical){ 0.25f, (float)i / 256.0f };
    for (int32_t i = 0; i < b->n_closes; i++) r->closes[i].sequence = draw(rng);
    for (int32_t i = 0; i < b->n_proposals; i++) fill_proposal(r, i, rng);
    for (int32_t i = 0; i < b->n_verdicts; i++) {
        const int32_t n = 1 + below(rng, PF_MAX_VERDICT_TOKENS);
        r->verdicts[i] = (pf_verdict){ draw(rng),
                                       (uint32_t)draw(rng) | 1,
                                       draw(rng),
                                       below(rng, 1 << 30),
                                       r->tokens,
                                       n,
                                       below(rng, n + 1),
                                       (pf_finish)below(rng, 4),
                                       below(rng, PF_MAX_DRAFT_TOKENS + 2) + PF_NO_DRAFT,
                                       (uint32_t)draw(rng),
                                       NULL };
    }
    for (int32_t i = 0; i < b->n_prefix_requests; i++)
        r->prefix_requests[i] = (pf_prefix_request){ draw(rng), (uint32_t)draw(rng), below(rng, 1 << 30) };
    static const pf_status reasons[] = { PF_LIMIT, PF_INVALID, PF_UNSUPPORTED };
    for (int32_t i = 0; i < b->n_refusals; i++)
        r->refusals[i] = (pf_refusal){ draw(rng), (uint32_t)draw(rng), reasons[below(rng, 3)],
                                       below(rng, 2) ? "no" : "the context is full: caf\xc3\xa9" };
}

static void an_encoded_batch_decodes_to_the_same_batch(void **state)
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

static void recorded_messages_of_version_1_decode(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    for (size_t i = 0; i < PF_COUNT(golden); i++) {
        const size_t n_now = encoded(codec, &golden[i].batch), n = golden_file(golden[i].name, buffer, n_now);
        const pf_batch *out = NULL;
        assert_int_equal(n_now, n);
        assert_memory_equal(buffer, again, n);
        assert_ok(pf_codec_decode_batch(codec, again, n, &out, &error), error);
        assert_same_batch(&golden[i].batch, out);
    }
    size_t n = 0;
    assert_int_equal(pf_codec_encode_info(&golden_info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    const size_t n_now = n;
    n = golden_file("model_info", buffer, n);
    assert_int_equal(n_now, n);
    assert_memory_equal(buffer, again, n);
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
    assert_false(info.judges_trees); /* what was recorded before there was such a field */
    info.judges_trees = true;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_true(info.judges_trees);
    assert_false(info.any_vocabulary); /* likewise */
    info.any_vocabulary = true;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_true(info.any_vocabulary);
    assert_false(info.applies_typical_p); /* likewise */
    info.applies_typical_p = true;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_true(info.applies_typical_p);
    assert_int_equal(info.n_drafters, 0); /* likewise */
    static const char *const offered[] = { "model",     "suffix", "cascade", "ngram",
                                           "of-others", "6",      "7",       "eight_15-Bytes-" };
    for (size_t i = 0; i < PF_COUNT(offered); i++) assert_status(pf_drafter_names_add(&info, offered[i]), PF_OK);
    assert_status(pf_drafter_names_add(&info, "nine"), PF_LIMIT);
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_int_equal(info.n_drafters, PF_MAX_DRAFTERS);
    for (size_t i = 0; i < PF_COUNT(offered); i++) assert_string_equal(info.drafters[i], offered[i]);
    assert_false(info.gives_logprobs); /* likewise */
    info.gives_logprobs = true;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_true(info.gives_logprobs);
    assert_false(info.draws_siblings); /* likewise */
    info.draws_siblings = true;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_true(info.draws_siblings);
    assert_int_equal(pf_model_ids(&info), 4096); /* likewise */
    info.n_ids = 5000;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_int_equal(info.vocab_size, 4096);
    assert_int_equal(pf_model_ids(&info), 5000);
    assert_false(info.names_ends); /* likewise */
    info.names_ends = true;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_ok(pf_codec_decode_info(buffer, n, &info, &error), error);
    assert_true(info.names_ends && info.n_ends == 0); /* nothing ends its texts: not the same */
    info.n_ends = PF_MAX_STOP_TOKENS;
    for (int32_t i = 0; i < info.n_ends; i++) info.ends[i] = 4095 - i;
    assert_int_equal(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    pf_model_info ends;
    assert_ok(pf_codec_decode_info(buffer, n, &ends, &error), error);
    assert_int_equal(ends.n_ends, PF_MAX_STOP_TOKENS);
    assert_memory_equal(ends.ends, info.ends, sizeof info.ends);
    pf_codec_destroy(codec);
}

static void a_recorded_model_info_with_hashes_decodes_ever_after(void **state)
{
    (void)state;
    pf_error error;
    pf_model_info info = golden_info, out;
    info.n_vocab_hashes = 4096;
    for (int32_t i = 0; i < 4096; i++) info.vocab_hashes[i] = (uint32_t)i * 2654435761u;
    size_t n = 0, n_now = 0;
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n_now), PF_OK);
    n = golden_file("model_info_hashes", buffer, n_now);
    assert_int_equal(n_now, n);
    assert_memory_equal(buffer, again, n);
    assert_ok(pf_codec_decode_info(again, n, &out, &error), error);
    assert_int_equal(out.n_vocab_hashes, 4096);
    assert_memory_equal(out.vocab_hashes, info.vocab_hashes, 4096 * sizeof *info.vocab_hashes);
    assert_null(out.texts);
    info.vocab_size = PF_VOCAB_HASHES + 1; /* two ids a hash */
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_status(pf_codec_decode_info(buffer, n, &out, &error), PF_FORMAT);
    assert_says(error, "model_info.vocab_hashes has 4096 entries, expected 4097 to 4097");
    info.n_vocab_hashes = PF_VOCAB_HASHES + 1;
    assert_status(pf_codec_encode_info(&info, buffer, PF_MAX_INFO_BYTES, &n), PF_INVALID);
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

/* ---- what else is promised ----------------------------------------------------------------------------------------- */

static void an_unknown_field_is_ignored_and_an_absent_sampling_is_greedy(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(BUFFER);
    const uint8_t bytes[] = { 0xa2, 0x06, 0x02, 'h',  'i', /* field 100 */
                              0x0a, 0x0b, 0x10, 0x01, 0x22, 0x01, 0x05, 0x30, 0x01, 0x3a, 0x02, 0x08, 0x01 };
    const pf_batch *out = NULL;
    pf_error error;
    memset(buffer, '?', 4 + 4096); /* so that the memory it comes to is not zero */
    memcpy(buffer, "\xa2\x06\x80\x20", 4);
    assert_ok(pf_codec_decode_batch(codec, buffer, 4 + 4096, &out, &error), error);
    assert_ok(pf_codec_decode_batch(codec, bytes, sizeof bytes, &out, &error), error);
    assert_int_equal(out->n_opens, 1);
    assert_int_equal(out->opens[0].tokens[0], 5);
    assert_true(out->opens[0].sampling.temperature == 0.0f && out->opens[0].sampling.top_p == 0.0f);
    pf_codec_destroy(codec);
}

static void what_a_later_version_finds_ahead_is_nothing(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(1 << 16);
    pf_proposal proposal = proposals_three[0];
    proposal.ahead = (pf_ahead)(PF_AHEAD_MISS + 1);
    const size_t n = encoded(codec, &(pf_batch){ .proposals = &proposal, .n_proposals = 1 });
    const pf_batch *decoded;
    pf_error error = { 0 };
    assert_ok(pf_codec_decode_batch(codec, buffer, n, &decoded, &error), error);
    assert_int_equal(decoded->proposals[0].ahead, PF_AHEAD_NONE);
    pf_codec_destroy(codec);
}

static void a_method_that_has_no_bit_is_passed_over(void **state)
{
    (void)state;
    /* 0, 32, and -1 */
    static const uint8_t methods[] = {
        0x40, 0, 0x40, 32, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1
    };
    pf_error error;
    pf_model_info out;
    size_t n = 0;
    assert_int_equal(pf_codec_encode_info(&golden_info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    memcpy(buffer + n, methods, sizeof methods);
    assert_ok(pf_codec_decode_info(buffer, n + sizeof methods, &out, &error), error);
    assert_int_equal(out.methods, golden_info.methods);
    buffer[n + 3] = 31; /* the last bit */
    assert_ok(pf_codec_decode_info(buffer, n + sizeof methods, &out, &error), error);
    assert_int_equal(out.methods, golden_info.methods | 1u << 31);
}

static void model_info_takes_its_bytes_and_no_more(void **state)
{
    (void)state;
    pf_error error;
    pf_model_info out;
    size_t n = 0, exact = 0;
    assert_status(pf_codec_encode_info(&golden_info, buffer, PF_MAX_INFO_BYTES, &n), PF_OK);
    assert_status(pf_codec_encode_info(&golden_info, buffer, n - 1, &exact), PF_LIMIT);
    assert_status(pf_codec_encode_info(&golden_info, buffer, n, &exact), PF_OK);
    memset(buffer + n, 1, PF_MAX_INFO_BYTES - n); /* behind it an unknown field, up to the last byte */
    memcpy(buffer + n, "\xa2\x06\x80\x80", 4);
    const size_t left = PF_MAX_INFO_BYTES - n - 5;
    buffer[n + 2] = (uint8_t)(0x80 | (left & 0x7f));
    buffer[n + 3] = (uint8_t)(0x80 | (left >> 7 & 0x7f));
    buffer[n + 4] = (uint8_t)(left >> 14);
    assert_ok(pf_codec_decode_info(buffer, PF_MAX_INFO_BYTES, &out, &error), error);

    pf_info_request request = { 0 };
    memset(buffer, 0, sizeof buffer);
    assert_status(pf_codec_encode_info_request(buffer, sizeof buffer, &n), PF_OK);
    assert_int_equal(n, 4);
    assert_status(pf_codec_encode_info_request(buffer, 3, &n), PF_LIMIT);
    assert_status(pf_codec_encode_info_request(buffer, 4, &n), PF_OK);
    assert_ok(pf_codec_decode_info_request(buffer, 2, &request, &error), error); /* as clients before hashes ask */
    assert_false(request.wants_hashes);
    memcpy(buffer + 4, "\xa2\x06\xf8\x07", 4);
    assert_ok(pf_codec_decode_info_request(buffer, PF_MAX_REQUEST_BYTES, &request, &error), error);
    assert_int_equal(request.protocol_version, PF_PROTOCOL_VERSION);
    assert_true(request.wants_hashes);
    assert_status(pf_codec_decode_info_request(buffer, PF_MAX_REQUEST_BYTES + 1, &request, &error), PF_FORMAT);
    assert_says(error, "a request of 1025 bytes, at most 1024");
}

/* As much of everything as messages.h allows; the encoder takes it, and the decoder. */
static void a_batch_at_every_limit_arrives(void **state)
{
    (void)state;
    static int32_t ids[PF_MAX_PROMPT_TOKENS];
    static float shares[PF_MAX_DECLARED];
    static char text[PF_MAX_REFUSAL_BYTES + 1];
    memset(text, 'x', PF_MAX_REFUSAL_BYTES);
    for (int32_t i = 0; i < PF_MAX_DECLARED; i++) {
        ids[i] = i;
        shares[i] = 1.0f / PF_MAX_DECLARED;
    }
    pf_declared declared[PF_MAX_DRAFT_TOKENS];
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) declared[i] = (pf_declared){ ids, shares, PF_MAX_DECLARED };
    pf_open open = open_greedy;
    open.tokens = ids;
    open.n_tokens = PF_MAX_PROMPT_TOKENS;
    open.stop_tokens = ids;
    open.n_stop_tokens = PF_MAX_STOP_TOKENS;
    pf_proposal proposal = { 7,
                             1,
                             1,
                             INT32_MAX - PF_MAX_VERDICT_TOKENS,
                             ids,
                             PF_MAX_DRAFT_TOKENS,
                             NULL,
                             declared,
                             PF_AHEAD_HIT,
                             PF_MAX_DRAFT_TOKENS };
    static pf_token_logprobs logprobs[PF_MAX_VERDICT_TOKENS];
    for (int32_t i = 0; i < PF_MAX_VERDICT_TOKENS; i++) {
        logprobs[i] = (pf_token_logprobs){ .token = i, .logprob = -1.0f, .n_top = PF_MAX_LOGPROBS };
        for (int32_t k = 0; k < PF_MAX_LOGPROBS; k++) logprobs[i].top[k] = ids[k];
    }
    pf_verdict verdict = { 7,
                           1,
                           0,
                           0,
                           ids,
                           PF_MAX_VERDICT_TOKENS,
                           PF_MAX_VERDICT_TOKENS,
                           PF_FINISH_NONE,
                           PF_MAX_DRAFT_TOKENS,
                           UINT32_MAX,
                           logprobs };
    pf_prefix_request request = { 7, 1, 0 };
    pf_refusal refusal = { 7, 1, PF_LIMIT, text };
    const pf_batch batch = { .opens = &open,
                             .n_opens = 1,
                             .proposals = &proposal,
                             .n_proposals = 1,
                             .verdicts = &verdict,
                             .n_verdicts = 1,
                             .prefix_requests = &request,
                             .n_prefix_requests = 1,
                             .refusals = &refusal,
                             .n_refusals = 1 };
    static uint8_t bytes[2 * PF_MAX_PROMPT_TOKENS];
    size_t n_bytes = 0, n = 0;
    pf_error error;
    pf_codec *codec = codec_of(sizeof bytes);
    const pf_batch *out = NULL;
    assert_status(pf_codec_encode_batch(codec, &batch, bytes, sizeof bytes, &n_bytes), PF_OK);
    assert_ok(pf_codec_decode_batch(codec, bytes, n_bytes, &out, &error), error);
    assert_same_batch(&batch, out);
    pf_codec_destroy(codec);

    codec = codec_of(n_bytes); /* and this one takes no larger message */
    assert_status(pf_codec_measure_batch(codec, &batch, &n), PF_OK);
    assert_ok(pf_codec_decode_batch(codec, bytes, n_bytes, &out, &error), error);
    pf_codec_destroy(codec);
    codec = codec_of(n_bytes - 1);
    assert_status(pf_codec_measure_batch(codec, &batch, &n), PF_LIMIT);
    assert_status(pf_codec_decode_batch(codec, bytes, n_bytes, &out, &error), PF_LIMIT);
    snprintf(text, sizeof text, "a batch of %zu bytes, at most %zu are taken", n_bytes, n_bytes - 1);
    assert_says(error, text);
    pf_codec_destroy(codec);
}

/* Of one byte on the wire each, where structs have 172: as many as a batch may have. */
static void short_log_probabilities_of_all_sequences_fit(void **state)
{
    (void)state;
    static pf_token_logprobs logprobs[PF_MAX_VERDICT_TOKENS];
    static int32_t tokens[PF_MAX_VERDICT_TOKENS];
    static pf_verdict verdicts[PF_MAX_BATCH_SEQUENCES];
    for (int32_t i = 0; i < PF_MAX_BATCH_SEQUENCES; i++)
        verdicts[i] = (pf_verdict){ .sequence = 1 + (uint64_t)i,
                                    .incarnation = 1,
                                    .tokens = tokens,
                                    .n_tokens = PF_MAX_VERDICT_TOKENS,
                                    .logprobs = logprobs };
    const pf_batch batch = { .verdicts = verdicts, .n_verdicts = PF_MAX_BATCH_SEQUENCES }, *out = NULL;
    pf_codec *codec = codec_of(BUFFER);
    pf_error error;
    const size_t n = encoded(codec, &batch);
    assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
    assert_same_batch(&batch, out);
    pf_codec_destroy(codec);
}

/* A refusal that was sent with this text arrives with that one. */
static void assert_refusal_arrives(const char *sent, const char *expected)
{
    pf_codec *codec = codec_of(BUFFER);
    pf_refusal refusal = { 1, 1, PF_INVALID, sent };
    const size_t n = encoded(codec, &(pf_batch){ .refusals = &refusal, .n_refusals = 1 });
    const pf_batch *out = NULL;
    pf_error error;
    assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
    assert_string_equal(out->refusals[0].text, expected);
    pf_codec_destroy(codec);
}

static void control_characters_of_a_refusals_text_are_replaced(void **state)
{
    (void)state;
    assert_refusal_arrives("no \x1b[31mway\n\x7f", "no ?[31mway??");
}

static void a_refusal_without_a_text_says_that_it_has_none(void **state)
{
    (void)state;
    assert_refusal_arrives("", "no reason given");
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

static int64_t faults(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* What a large message takes stays for the next one, until it is given back: then it has to be brought in again. */
static void memory_is_kept_from_one_message_to_the_next_until_it_is_given_back(void **state)
{
    (void)state;
    pf_codec *codec = codec_of(4 << 20);
    size_t n = 0;
    for (int i = 0; i < 200000; i++, n += 3) memcpy(buffer + n, "\xa0\x06\x01", 3); /* an unknown field */
    int64_t n_faults[4];
    for (int i = 0; i < 4; i++) {
        if (i == 3) pf_codec_give_back(codec);
        const int64_t before = faults();
        const pf_batch *out = NULL;
        pf_error error;
        assert_ok(pf_codec_decode_batch(codec, buffer, n, &out, &error), error);
        n_faults[i] = faults() - before;
    }
    assert_true(4 * n_faults[2] < n_faults[3]);
    pf_codec_destroy(codec);
}

static void a_failed_creation_of_a_codec_leaks_nothing(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_encoded_batch_decodes_to_the_same_batch),
        cmocka_unit_test(recorded_messages_of_version_1_decode),
        cmocka_unit_test(a_recorded_model_info_with_hashes_decodes_ever_after),
        cmocka_unit_test(a_message_cut_anywhere_decodes_or_is_refused_but_never_reads_on),
        cmocka_unit_test(an_unknown_field_is_ignored_and_an_absent_sampling_is_greedy),
        cmocka_unit_test(control_characters_of_a_refusals_text_are_replaced),
        cmocka_unit_test(a_refusal_without_a_text_says_that_it_has_none),
        cmocka_unit_test(encoding_and_decoding_allocate_nothing),
        cmocka_unit_test(memory_is_kept_from_one_message_to_the_next_until_it_is_given_back),
        cmocka_unit_test(a_failed_creation_of_a_codec_leaks_nothing),
        cmocka_unit_test(what_a_later_version_finds_ahead_is_nothing),
        cmocka_unit_test(a_method_that_has_no_bit_is_passed_over),
        cmocka_unit_test(model_info_takes_its_bytes_and_no_more),
        cmocka_unit_test(a_batch_at_every_limit_arrives),
        cmocka_unit_test(short_log_probabilities_of_all_sequences_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
