/* Tokens in, text out. */
#include "cli/text_stream.h"

#include <stdlib.h>
#include <string.h>

#include "cli/utf8.h"

enum { USUAL_TOKEN_BYTES = 16 };

static pf_status reserve(pf_text_stream *stream, size_t n_more)
{
    if (n_more <= stream->capacity - stream->n) return PF_OK;
    const size_t capacity = 2 * stream->capacity + n_more;
    char *bytes = realloc(stream->bytes, capacity);
    if (!bytes) return PF_NOMEM;
    stream->bytes = bytes;
    bool *drafted = realloc(stream->drafted, capacity * sizeof *drafted);
    if (!drafted) return PF_NOMEM;
    stream->drafted = drafted;
    stream->capacity = capacity;
    return PF_OK;
}

pf_status pf_text_stream_begin(pf_text_stream *stream, const pf_tokenizer *tokenizer, const pf_strings *stops,
                               int32_t n_tokens)
{
    *stream = (pf_text_stream){ .tokenizer = tokenizer, .stops = stops };
    const pf_status status = reserve(stream, ((size_t)n_tokens + 1) * USUAL_TOKEN_BYTES);
    if (status != PF_OK) pf_text_stream_end(stream);
    return status;
}

void pf_text_stream_end(pf_text_stream *stream)
{
    free(stream->bytes);
    free(stream->drafted);
    stream->bytes = NULL;
    stream->drafted = NULL;
    stream->n = stream->capacity = 0;
}

/* Cut the text before the first stop text that the bytes from `old` on complete. */
static void find_stop(pf_text_stream *stream, size_t old)
{
    size_t first = stream->n;
    for (int32_t i = 0; i < stream->stops->n; i++) {
        const char *stop = stream->stops->items[i];
        const size_t length = strlen(stop);
        const size_t from = old + 1 > length ? old + 1 - length : 0;
        const char *found = memmem(stream->bytes + from, stream->n - from, stop, length);
        if (found && (size_t)(found - stream->bytes) < first) {
            first = (size_t)(found - stream->bytes);
            stream->stopped = true;
        }
    }
    if (stream->stopped) stream->n = first;
}

pf_status pf_text_stream_push(pf_text_stream *stream, int32_t token, bool drafted)
{
    const char *bytes;
    size_t n_bytes;
    if (stream->stopped || pf_tokenizer_is_special(stream->tokenizer, token)) return PF_OK;
    PF_TRY(pf_tokenizer_decode_token(stream->tokenizer, token, &bytes, &n_bytes));
    PF_TRY(reserve(stream, n_bytes));
    const size_t old = stream->n;
    memcpy(stream->bytes + old, bytes, n_bytes);
    for (size_t i = 0; i < n_bytes; i++) stream->drafted[old + i] = drafted;
    stream->n += n_bytes;
    find_stop(stream, old);
    return PF_OK;
}

/* The longest end of the bytes that is the beginning of a stop text. */
static size_t held_back(const pf_text_stream *stream)
{
    size_t longest = 0;
    for (int32_t i = 0; i < stream->stops->n; i++) {
        const char *stop = stream->stops->items[i];
        const size_t length = strlen(stop);
        for (size_t k = length - 1; k > longest; k--)
            if (k <= stream->n && memcmp(stream->bytes + stream->n - k, stop, k) == 0) longest = k;
    }
    return longest;
}

size_t pf_text_stream_ready(const pf_text_stream *stream)
{
    if (stream->stopped) return stream->n;
    return pf_utf8_complete(stream->bytes, stream->n - held_back(stream));
}
