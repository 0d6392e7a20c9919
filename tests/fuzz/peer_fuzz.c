/*
 * Fuzzes a server from the bytes of a message to the model and back: codec, dispatch, stream state, and a drafter or a verifier
 * with a tiny model behind them. Whatever messages come, in whatever order, on whichever stream:
 *
 *   - each answer is well-formed, and names sequences of its own stream alone
 *   - a stream that is refused affects no other
 *   - when all streams have ended, no sequence is open, and every page of the KV cache is free once the peer is destroyed
 *
 * The input: which service, then records of [stream, n low, n high, n bytes of a Batch]. A stream number above the last one ends a
 * stream instead; its top bit asks for the answers first.
 */
#include <stdint.h>
#include <stdlib.h>

#include "draft/model_drafter.h"
#include "proto/codec.h"
#include "host/dispatch.h"
#include "tests/support/tiny_side.h"
#include "verify/model_verifier.h"
#include "model/backend/cpu_backend.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_STREAMS = 3, N_SEQUENCES = 4, MAX_DRAFT = 4, N_VOCAB = 32, CONTEXT = 48, LARGEST = 1 << 16 };

static const pf_tiny_model MODEL = {
    .hidden = 16, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 8, .intermediate = 16, .vocab = N_VOCAB, .seed = 3
};

typedef struct {
    pf_peer *peer;
    pf_dispatch *dispatch;
    pf_codec *codec, *answers;
    pf_service service;
    size_t free_pages;
    char streams[N_STREAMS]; /* their addresses are the streams */
} server;

static void must(int promise)
{
    if (!promise) abort();
}

/* One for the whole run: a model is immutable, and its cache must be empty between inputs. */
static const pf_tiny_side *side(void)
{
    static pf_tiny_side made;
    const pf_context_config config = {
        .max_tokens = CONTEXT, .max_sequences = N_SEQUENCES, .max_rows = 8, .kv_type = PF_TYPE_F32
    };
    if (!made.context) made = pf_tiny_side_open(&MODEL, 1, &config);
    return &made;
}

static void hear(void *user, void *stream, const pf_batch *batch)
{
    server *s = user;
    static uint8_t bytes[LARGEST];
    size_t n = 0;
    const pf_batch *heard;
    must((char *)stream >= s->streams && (char *)stream < s->streams + N_STREAMS);
    must(s->service == PF_SERVICE_DRAFTER ? batch->n_verdicts == 0 : batch->n_proposals == 0);
    must(pf_codec_encode_batch(s->answers, batch, bytes, sizeof bytes, &n) == PF_OK);
    must(pf_codec_decode_batch(s->answers, bytes, n, &heard, NULL) == PF_OK);
    for (int32_t i = 0; i < batch->n_proposals; i++) must(batch->proposals[i].n_tokens <= MAX_DRAFT);
}

static void begin(server *s, pf_service service)
{
    const pf_tiny_side *m = side();
    const pf_model_info info = { .vocab_size = N_VOCAB, .max_sequences = N_SEQUENCES, .max_context = CONTEXT };
    const pf_model_drafter_config drafter = { N_SEQUENCES, MAX_DRAFT, .seed = 1, .info = &info };
    const pf_model_verifier_config verifier = { N_SEQUENCES, MAX_DRAFT, .seed = 1, .info = &info };
    *s = (server){ .service = service, .free_pages = pf_kv_free_pages(pf_context_kv(m->context)) };
    must((service == PF_SERVICE_DRAFTER
              ? pf_model_drafter_create(pf_cpu_backend(m->context), &drafter, &s->peer, NULL)
              : pf_model_verifier_create(pf_cpu_backend(m->context), &verifier, &s->peer, NULL)) == PF_OK);
    must(pf_dispatch_create(service, s->peer, N_SEQUENCES, 0, hear, s, &s->dispatch) == PF_OK);
    must(pf_codec_create(LARGEST, N_VOCAB, &s->codec) == PF_OK);
    must(pf_codec_create(LARGEST, N_VOCAB, &s->answers) == PF_OK);
}

static void end(server *s)
{
    pf_error error;
    for (int i = 0; i < N_STREAMS; i++) pf_dispatch_end_stream(s->dispatch, &s->streams[i]);
    must(pf_dispatch_collect(s->dispatch, NULL, &error) == PF_OK);
    must(pf_dispatch_open_sequences(s->dispatch) == 0);
    pf_dispatch_destroy(s->dispatch);
    pf_peer_destroy(s->peer); /* and what it retains of closed sequences */
    must(pf_kv_free_pages(pf_context_kv(side()->context)) == s->free_pages);
    pf_codec_destroy(s->codec);
    pf_codec_destroy(s->answers);
}

/* As server.c does: what is not a batch ends its stream, and what does not fit its sequence. */
static void say(server *s, void *stream, const uint8_t *bytes, size_t n)
{
    const pf_batch *batch;
    const pf_rejected *rejected;
    pf_error error = { .text = "" };
    if (pf_codec_decode_parts(s->codec, bytes, n, &batch, &rejected, &error) == PF_OK &&
        pf_dispatch_submit(s->dispatch, stream, batch, rejected, 0, &error) == PF_OK)
        return;
    must(error.text[0] != '\0');
    pf_dispatch_end_stream(s->dispatch, stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    server s;
    pf_error error;
    begin(&s, (pf_service)(data[0] & 1));
    for (size_t at = 1; at + 3 <= size;) {
        const uint8_t stream = data[at] & 0x7F;
        size_t n = data[at + 1] | (size_t)data[at + 2] << 8;
        if (data[at] & 0x80) must(pf_dispatch_collect(s.dispatch, NULL, &error) == PF_OK);
        at += 3;
        if (n > size - at) n = size - at;
        if (stream < N_STREAMS)
            say(&s, &s.streams[stream], data + at, n);
        else
            pf_dispatch_end_stream(s.dispatch, &s.streams[stream % N_STREAMS]);
        at += n;
    }
    must(pf_dispatch_collect(s.dispatch, NULL, &error) == PF_OK);
    must(pf_dispatch_open_sequences(s.dispatch) <= N_SEQUENCES);
    end(&s);
    return 0;
}
