/*
 * Any bytes decode to a batch within the limits of proto/messages.h, or are refused.
 * What decodes must encode, and decode again to the same bytes.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"
#include "proto/drafter_names.h"
#include "proto/health.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { LARGEST = 1 << 20, N_VOCAB = 4096 };

static void must(int promise)
{
    if (!promise) abort();
}

static void check_tokens(const int32_t *tokens, int32_t n, int32_t most)
{
    must(n >= 0 && n <= most);
    for (int32_t i = 0; i < n; i++) must(tokens[i] >= 0 && tokens[i] < N_VOCAB);
}

static void check_proposal(const pf_proposal *p)
{
    check_tokens(p->tokens, p->n_tokens, PF_MAX_DRAFT_TOKENS);
    for (int32_t i = 0; i < p->n_tokens; i++) {
        if (p->parents) must(p->parents[i] >= -1 && p->parents[i] < i);
        if (!p->declared) continue;
        check_tokens(p->declared[i].ids, p->declared[i].n, PF_MAX_DECLARED);
        double sum = 0.0;
        for (int32_t j = 0; j < p->declared[i].n; j++) sum += (double)p->declared[i].probabilities[j];
        must(fabs(sum - 1.0) < 2e-3);
    }
}

static void check_batch(const pf_batch *b)
{
    must(b->n_opens <= PF_MAX_BATCH_SEQUENCES && b->n_verdicts <= PF_MAX_BATCH_SEQUENCES);
    for (int32_t i = 0; i < b->n_opens; i++) {
        check_tokens(b->opens[i].tokens, b->opens[i].n_tokens, PF_MAX_PROMPT_TOKENS);
        check_tokens(b->opens[i].stop_tokens, b->opens[i].n_stop_tokens, PF_MAX_STOP_TOKENS);
        must(b->opens[i].drafter[0] == '\0' || pf_drafter_name_is_valid(b->opens[i].drafter));
        must(b->opens[i].max_draft >= 1 && b->opens[i].sampling.temperature >= 0.0f);
    }
    for (int32_t i = 0; i < b->n_proposals; i++) check_proposal(&b->proposals[i]);
    for (int32_t i = 0; i < b->n_verdicts; i++) {
        check_tokens(b->verdicts[i].tokens, b->verdicts[i].n_tokens, PF_MAX_VERDICT_TOKENS);
        must(b->verdicts[i].base >= 0 && b->verdicts[i].base <= INT32_MAX - b->verdicts[i].n_tokens);
    }
    for (int32_t i = 0; i < b->n_refusals; i++) must(strlen(b->refusals[i].text) <= PF_MAX_REFUSAL_BYTES);
}

static void encode_again(pf_codec *codec, const pf_batch *batch)
{
    size_t n = 0;
    must(pf_codec_measure_batch(codec, batch, &n) == PF_OK);
    uint8_t *once = malloc(n + 1), *twice = malloc(n + 1);
    must(once && twice);
    size_t n_once = 0, n_twice = 0;
    const pf_batch *same;
    /* Our encoding is never longer than that of the input, so it fits. */
    must(pf_codec_encode_batch(codec, batch, once, n, &n_once) == PF_OK && n_once == n);
    must(pf_codec_decode_batch(codec, once, n, &same, NULL) == PF_OK);
    must(pf_codec_encode_batch(codec, same, twice, n, &n_twice) == PF_OK && n_twice == n);
    must(memcmp(once, twice, n) == 0);
    free(once);
    free(twice);
}

#define CHECK_LATER(kind)                     \
    for (int32_t j = 0; j < b->n_##kind; j++) \
        must(b->kind[j].sequence != r->sequence || b->kind[j].incarnation > r->incarnation);

/* One refusal a sequence, and no part of the batch about what it ends. */
static void check_rejected(const pf_rejected *rejected, const pf_batch *b)
{
    must(rejected->n >= 0 && rejected->n_proposals >= 0 && rejected->n_verdicts >= 0);
    for (int32_t i = 0; i < rejected->n; i++) {
        const pf_refusal *r = &rejected->refusals[i];
        must(r->text[0] != '\0' && strlen(r->text) <= PF_MAX_REFUSAL_BYTES && r->incarnation > 0);
        for (int32_t j = 0; j < i; j++) must(rejected->refusals[j].sequence != r->sequence);
        CHECK_LATER(opens)
        CHECK_LATER(proposals)
        CHECK_LATER(verdicts)
    }
}

/* Whether the bytes decode as a whole; they do part by part then, too, with nothing set aside. */
static int check_parts(pf_codec *codec, const uint8_t *data, size_t bytes)
{
    const pf_batch *batch;
    const pf_rejected *rejected;
    pf_error error;
    if (pf_codec_decode_parts(codec, data, bytes, &batch, &rejected, &error) != PF_OK) {
        must(error.text[0] != '\0');
        return 0;
    }
    check_batch(batch);
    check_rejected(rejected, batch);
    const int whole = rejected->n == 0;
    encode_again(codec, batch);
    return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    pf_codec *codec;
    if (pf_codec_create(LARGEST, N_VOCAB, &codec) != PF_OK) return 0;
    const pf_batch *batch;
    pf_error error;
    const int whole = check_parts(codec, data, bytes);
    if (pf_codec_decode_batch(codec, data, bytes, &batch, &error) == PF_OK) {
        must(whole);
        check_batch(batch);
    } else {
        must(!whole && error.text[0] != '\0');
    }
    pf_codec_destroy(codec);

    pf_model_info info;
    if (pf_codec_decode_info(data, bytes, &info, NULL) == PF_OK) {
        must(info.vocab_size > 0 && memchr(info.model_id, '\0', sizeof info.model_id));
        must(info.n_drafters >= 0 && info.n_drafters <= PF_MAX_DRAFTERS);
        for (int32_t i = 0; i < info.n_drafters; i++) must(pf_drafter_names_find(&info, info.drafters[i]) == i);
    }
    pf_info_request request;
    must(pf_codec_decode_info_request(data, bytes, &request, NULL) != PF_INTERNAL);
    char service[PF_MAX_SERVICE_BYTES];
    if (pf_health_decode_request(data, bytes, service) == PF_OK) must(strlen(service) < sizeof service);
    pf_health health;
    must(pf_health_decode_response(data, bytes, &health) != PF_OK || health <= PF_HEALTH_SERVICE_UNKNOWN);
    return 0;
}
