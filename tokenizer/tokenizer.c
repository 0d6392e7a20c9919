/*
 * Encodes a text in these stages:
 *
 *      bytes -> runs of valid UTF-8 | each invalid byte, a token
 *        run -> added tokens | text between them
 *       text -> normalized text -> its added tokens | text between them
 *       text -> pieces (pretokenize.c) -> tokens (bpe.c or unigram.c; piece_cache.c has those of earlier pieces)
 *
 * The post-processor's tokens are added around the result.
 */
#include "tokenizer/tokenizer.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/utf8.h"
#include "tokenizer/encode/piece_cache.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/tokenizer_parts.h"

static const size_t MAX_TEXT_BYTES = (size_t)1 << 30;

/* --- open and close --- */

static pf_status finish_open(pf_status status, pf_tokenizer *t, pf_tokenizer **out)
{
    if (status != PF_OK)
        pf_tokenizer_close(t);
    else
        *out = t;
    return status;
}

pf_status pf_tokenizer_open(const char *directory, pf_tokenizer **out, pf_error *error)
{
    pf_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return pf_fail(error, PF_NOMEM, "%s: no memory for the tokenizer", directory);
    return finish_open(pf_tokenizer_read(directory, t, error), t, out);
}

pf_status pf_tokenizer_parse(const char *text, size_t n_bytes, const char *config_text, size_t n_config_bytes,
                             pf_tokenizer **out, pf_error *error)
{
    pf_json doc = { 0 }, config = { 0 };
    pf_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return pf_fail(error, PF_NOMEM, "no memory for the tokenizer");
    pf_status status = pf_json_parse("tokenizer.json", text, n_bytes, PF_MAX_TOKENIZER_BYTES, &doc, error);
    if (status == PF_OK && config_text)
        status = pf_json_parse("tokenizer_config.json", config_text, n_config_bytes, PF_MAX_TOKENIZER_CONFIG_BYTES,
                               &config, error);
    const pf_tokenizer_files files = { .tokenizer = &doc, .config = config_text ? &config : NULL };
    if (status == PF_OK) status = pf_tokenizer_read_documents(&files, t, error);
    pf_json_close(&config);
    pf_json_close(&doc);
    return finish_open(status, t, out);
}

void pf_tokenizer_close(pf_tokenizer *t)
{
    if (!t) return;
    for (int32_t i = 0; i < t->vocab_size; i++) {
        free(t->tokens[i].bytes);
        free(t->tokens[i].decoded);
    }
    free(t->tokens);
    free(t->pieces.ids);
    free(t->added.ids);
    pf_bpe_clear(&t->bpe);
    pf_unigram_destroy(t->unigram);
    pf_normalizer_destroy(t->normalizer);
    pf_pretokenizer_destroy(t->pretokenizer);
    pf_decoder_destroy(t->decoder);
    pf_added_matcher_destroy(t->raw);
    pf_added_matcher_destroy(t->normalized);
    free(t);
}

/* --- text to ids --- */

typedef struct {
    const pf_tokenizer *t;
    pf_searcher *searcher;
    pf_pretokenize_scratch *pieces;
    pf_bpe_scratch bpe;
    pf_unigram_scratch unigram;
    pf_piece_cache cache;
    const volatile bool *cancel; /* or NULL */
    pf_tokens *out;
} encoder;

/* Appends the token that the piece is, if the model does not merge to such a one. */
static pf_status encode_whole(encoder *e, const char *piece, size_t n_bytes, bool *found)
{
    const int32_t id = !e->t->ignore_merges ? -1 : pf_token_index_find(&e->t->pieces, e->t->tokens, piece, n_bytes);
    *found = id >= 0;
    return id >= 0 ? pf_tokens_push(e->out, id) : PF_OK;
}

static pf_status encode_by_model(encoder *e, const char *piece, size_t n_bytes)
{
    bool found = false;
    if (e->t->unigram) return pf_unigram_encode(e->t->unigram, &e->unigram, piece, n_bytes, e->cancel, e->out);
    if (!e->t->bpe.characters) PF_TRY(encode_whole(e, piece, n_bytes, &found)); /* of characters: encode_piece */
    return found ? PF_OK : pf_bpe_encode(&e->t->bpe, &e->bpe, piece, n_bytes, e->cancel, e->out);
}

static pf_status encode_cached(encoder *e, const char *piece, size_t n_bytes)
{
    bool found = false;
    PF_TRY(pf_piece_cache_find(&e->cache, piece, n_bytes, e->out, &found));
    if (found) return PF_OK;
    const int32_t n_before = e->out->n;
    PF_TRY(encode_by_model(e, piece, n_bytes));
    pf_piece_cache_put(&e->cache, piece, n_bytes, e->out->ids + n_before, (size_t)(e->out->n - n_before));
    return PF_OK;
}

static pf_status encode_piece(void *user, const char *piece, size_t n_bytes)
{
    encoder *e = user;
    if (pf_is_told(e->cancel)) return PF_CANCELLED;
    if (!e->t->bpe.characters) return encode_cached(e, piece, n_bytes);
    bool found = false;
    PF_TRY(encode_whole(e, piece, n_bytes, &found));
    if (found) return PF_OK;
    for (size_t at = 0, end; at < n_bytes; at = end) {
        end = pf_bpe_find_cut(&e->t->bpe, piece, n_bytes, at);
        PF_TRY(encode_cached(e, piece + at, end - at));
    }
    return PF_OK;
}

/* Encode a part of the normalized text at `place` that holds no added token. */
static pf_status encode_part(encoder *e, const pf_added_walk *walk, const pf_added_part *part, pf_text_place place)
{
    place.n_first = place.n_first > part->begin ? place.n_first - part->begin : 0;
    place.follows_raw_byte = place.follows_raw_byte && part->begin == 0;
    return pf_pretokenize(e->t->pretokenizer, e->pieces, walk->text + part->begin, part->end - part->begin, place,
                          encode_piece, e);
}

static pf_status encode_normalised(encoder *e, const char *text, size_t n_bytes, pf_text_place place)
{
    pf_added_walk walk = { .text = text, .n_bytes = n_bytes, .cancel = e->cancel };
    for (pf_added_part part;;) {
        PF_TRY(pf_added_matcher_next(e->t->normalized, &walk, &part));
        if (part.begin == part.end) return PF_OK;
        PF_TRY(part.id >= 0 ? pf_tokens_push(e->out, part.id) : encode_part(e, &walk, &part, place));
    }
}

/* Encode text that holds no added token of the raw text. */
static pf_status encode_text(encoder *e, const char *text, size_t n_bytes, pf_text_place place)
{
    pf_bytes made = { .data = NULL };
    PF_TRY(pf_normalize(e->t->normalizer, e->searcher, text, n_bytes, &place, &made));
    const pf_status status = encode_normalised(e, made.data ? made.data : text, made.data ? made.n : n_bytes, place);
    pf_bytes_clear(&made);
    return status;
}

/* Encode a run of valid UTF-8; `follows_raw_byte`: an invalid byte precedes it. */
static pf_status encode_utf8(encoder *e, const char *text, size_t n_bytes, bool follows_raw_byte)
{
    pf_added_walk walk = { .text = text, .n_bytes = n_bytes, .cancel = e->cancel };
    for (pf_added_part part;;) {
        PF_TRY(pf_added_matcher_next(e->t->raw, &walk, &part));
        if (part.begin == part.end) return PF_OK;
        pf_text_place place = { .is_start = !follows_raw_byte && part.begin == 0,
                                .follows_raw_byte = follows_raw_byte && part.begin == 0 };
        if (place.is_start) (void)pf_character_at(text, 0, &place.n_first);
        PF_TRY(part.id >= 0 ? pf_tokens_push(e->out, part.id)
                            : encode_text(e, text + part.begin, part.end - part.begin, place));
    }
}

/* Length of the longest prefix that is valid UTF-8. */
static size_t valid_prefix(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool valid = true;
        const size_t width = (unsigned char)text[i] < 0x80 ? 1 : pf_utf8_length(text + i, n - i, &valid);
        if (!valid) return i;
        i += width;
    }
    return n;
}

static pf_status encode_bytes(encoder *e, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        if (pf_is_told(e->cancel)) return PF_CANCELLED;
        const size_t valid = valid_prefix(text + at, n - at);
        if (valid > 0) PF_TRY(encode_utf8(e, text + at, valid, at > 0));
        at += valid;
        if (at < n) PF_TRY(pf_bpe_encode_byte(&e->t->bpe, (unsigned char)text[at++], e->out));
    }
    return PF_OK;
}

static pf_status push_ids(pf_tokens *out, const pf_id_list *list)
{
    for (int32_t i = 0; i < list->n; i++) PF_TRY(pf_tokens_push(out, list->ids[i]));
    return PF_OK;
}

static pf_status encode_around(encoder *e, const char *text, size_t n_bytes, bool add_special)
{
    PF_TRY(pf_searcher_create(n_bytes, e->cancel, &e->searcher));
    PF_TRY(pf_pretokenize_scratch_create(e->searcher, &e->pieces));
    PF_TRY(pf_piece_cache_create(&e->cache, n_bytes));
    if (add_special) PF_TRY(push_ids(e->out, &e->t->prefix));
    PF_TRY(encode_bytes(e, text, n_bytes));
    return add_special ? push_ids(e->out, &e->t->suffix) : PF_OK;
}

pf_status pf_tokenizer_encode(const pf_tokenizer *t, const char *text, size_t n_bytes, bool add_special,
                              const volatile bool *cancel, pf_tokens *out)
{
    if (n_bytes > MAX_TEXT_BYTES) return PF_LIMIT;
    const int32_t n_before = out->n;
    encoder e = { .t = t, .cancel = cancel, .out = out };
    const pf_status status = encode_around(&e, text, n_bytes, add_special);
    if (status != PF_OK) out->n = n_before;
    pf_pretokenize_scratch_destroy(e.pieces);
    pf_searcher_destroy(e.searcher);
    pf_bpe_scratch_clear(&e.bpe);
    pf_unigram_scratch_clear(&e.unigram);
    pf_piece_cache_clear(&e.cache);
    return status;
}

const char *pf_tokenizer_refusal(pf_status status)
{
    if (status == PF_UNSUPPORTED) return "the tokenizer's vocabulary lacks a token for one of them";
    if (status == PF_LIMIT) return "they are too many, or the tokenizer's pattern takes too long on them";
    return "no memory, or the tokenizer's pattern needs more than 256 MiB of it on them";
}

/* --- ids --- */

static const pf_token *token_of(const pf_tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->vocab_size || !t->tokens[id].bytes) return NULL;
    return &t->tokens[id];
}

int32_t pf_tokenizer_vocab_size(const pf_tokenizer *t)
{
    return t->vocab_size;
}

int32_t pf_tokenizer_base_size(const pf_tokenizer *t)
{
    return t->base_size;
}

int32_t pf_tokenizer_find_added(const pf_tokenizer *t, const char *text)
{
    return pf_token_index_find(&t->added, t->tokens, text, strlen(text));
}

bool pf_tokenizer_is_special(const pf_tokenizer *t, int32_t id)
{
    const pf_token *token = token_of(t, id);
    return token && token->is_added && token->flags.special;
}

const char *pf_tokenizer_token_bytes(const pf_tokenizer *t, int32_t id, size_t *n_bytes)
{
    const pf_token *token = token_of(t, id);
    if (!token) return NULL;
    *n_bytes = token->n_bytes;
    return token->bytes;
}

/* --- fingerprint --- */

static void put_u32_le(uint8_t out[4], uint32_t value)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(value >> (8 * i));
}

pf_status pf_tokenizer_fingerprint(const pf_tokenizer *t, int32_t n_ids, uint8_t out[32], pf_error *error)
{
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    bool ok = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1;
    for (int32_t id = 0; ok && id < t->vocab_size && id < n_ids; id++) {
        const pf_token *token = token_of(t, id);
        if (!token) continue;
        uint8_t head[8];
        put_u32_le(head, (uint32_t)id);
        put_u32_le(head + 4, token->n_bytes);
        ok =
            EVP_DigestUpdate(hash, head, sizeof head) == 1 && EVP_DigestUpdate(hash, token->bytes, token->n_bytes) == 1;
    }
    uint8_t digest[32];
    ok = ok && EVP_DigestFinal_ex(hash, digest, NULL) == 1;
    EVP_MD_CTX_free(hash);
    if (!ok) return pf_fail(error, PF_UNAVAILABLE, "OpenSSL gives no SHA-256, which tells one vocabulary from another");
    memcpy(out, digest, sizeof digest);
    return PF_OK;
}
