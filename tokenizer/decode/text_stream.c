/* Turns the tokens of a continuation into text. */
#include "tokenizer/decode/text_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum { USUAL_TOKEN_BYTES = 16 };

static pf_status reserve_drafted(pf_text_stream *stream, size_t capacity)
{
    if (capacity <= stream->drafted_capacity) return PF_OK;
    bool *drafted = realloc(stream->drafted, capacity * sizeof *drafted);
    if (!drafted) return PF_NOMEM;
    stream->drafted = drafted;
    stream->drafted_capacity = capacity;
    return PF_OK;
}

pf_status pf_text_stream_begin(pf_text_stream *stream, const pf_tokenizer *tokenizer, const char *const *stops,
                               int32_t n_stops, const pf_tokens *prompt, int32_t n_tokens)
{
    *stream = (pf_text_stream){ .tokenizer = tokenizer, .stops = stops, .n_stops = n_stops };
    pf_status status = pf_detokenizer_create(tokenizer, &stream->detokenizer);
    if (status == PF_OK) status = pf_detokenizer_skip_prompt(stream->detokenizer, prompt->ids, prompt->n);
    if (status == PF_OK) status = pf_bytes_reserve(&stream->bytes, ((size_t)n_tokens + 1) * USUAL_TOKEN_BYTES);
    if (status == PF_OK) status = reserve_drafted(stream, stream->bytes.capacity);
    if (status != PF_OK) pf_text_stream_end(stream);
    return status;
}

void pf_text_stream_end(pf_text_stream *stream)
{
    pf_detokenizer_destroy(stream->detokenizer);
    pf_bytes_clear(&stream->bytes);
    free(stream->drafted);
    stream->detokenizer = NULL;
    stream->drafted = NULL;
    stream->drafted_capacity = 0;
}

/* End the text before the first stop text that the bytes from `old` on complete. */
static void find_stop(pf_text_stream *stream, size_t old)
{
    size_t first = stream->bytes.n;
    for (int32_t i = 0; i < stream->n_stops; i++) {
        const char *stop = stream->stops[i];
        const size_t length = strlen(stop);
        const size_t from = old + 1 > length ? old + 1 - length : 0;
        const char *found = memmem(stream->bytes.data + from, stream->bytes.n - from, stop, length);
        if (found && (size_t)(found - stream->bytes.data) < first) {
            first = (size_t)(found - stream->bytes.data);
            stream->stopped = true;
            stream->stop = i;
        }
    }
    if (stream->stopped) stream->bytes.n = first;
}

/* Take over the bytes that the detokenizer has appended from `old` on. */
static pf_status take(pf_text_stream *stream, size_t old, bool drafted)
{
    PF_TRY(reserve_drafted(stream, stream->bytes.capacity));
    for (size_t i = old; i < stream->bytes.n; i++) stream->drafted[i] = drafted;
    find_stop(stream, old);
    return PF_OK;
}

static bool is_hidden(const pf_text_stream *stream, int32_t token)
{
    if (!pf_tokenizer_is_special(stream->tokenizer, token)) return false;
    for (int32_t i = 0; i < stream->n_shown; i++)
        if (stream->shown[i] == token) return false;
    return true;
}

pf_status pf_text_stream_push(pf_text_stream *stream, int32_t token, bool drafted)
{
    const size_t old = stream->bytes.n;
    if (stream->stopped || is_hidden(stream, token)) return PF_OK;
    PF_TRY(pf_detokenizer_push(stream->detokenizer, token, &stream->bytes));
    return take(stream, old, drafted);
}

pf_status pf_text_stream_finish(pf_text_stream *stream)
{
    const size_t old = stream->bytes.n;
    if (stream->stopped) return PF_OK;
    PF_TRY(pf_detokenizer_finish(stream->detokenizer, &stream->bytes));
    return take(stream, old, false);
}

/* Length of the longest suffix of the bytes that is a proper prefix of a stop text. */
static size_t held_back(const pf_text_stream *stream)
{
    size_t longest = 0;
    for (int32_t i = 0; i < stream->n_stops; i++) {
        const char *stop = stream->stops[i];
        const size_t length = strlen(stop);
        for (size_t k = length - 1; k > longest; k--)
            if (k <= stream->bytes.n && memcmp(stream->bytes.data + stream->bytes.n - k, stop, k) == 0) longest = k;
    }
    return longest;
}

size_t pf_text_stream_ready(const pf_text_stream *stream)
{
    if (stream->stopped) return stream->bytes.n;
    return pf_utf8_complete(stream->bytes.data, stream->bytes.n - held_back(stream));
}
