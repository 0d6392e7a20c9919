#include "tokenizer/files/gguf_tokenizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"
#include "tokenizer/files/document_parts.h"
#include "tokenizer/files/sentencepiece_tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

/* tokenizer.ggml.token_type */
typedef enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
} token_type;

typedef struct {
    const pf_gguf *file;
    const char *path;
    bool is_sentencepiece; /* llama, t5 */
    bool is_unigram;       /* t5 */
    size_t n_tokens;
    char **texts;   /* [n_tokens] owned; NULL: the id is no token */
    uint8_t *types; /* [n_tokens] */
    double *scores; /* [n_tokens] of SentencePiece; NAN: no merge gives it */
    json_t *vocab;  /* text: id */
    json_t *merges;
    json_t *added;
    pf_gguf_pretokenizer pre;
    pf_error *error;
} builder;

static pf_status no_memory(const builder *b)
{
    return pf_fail(b->error, PF_NOMEM, "%s: no memory for its tokenizer", b->path);
}

/* ---- tokens ---- */

static bool is_utf8(pf_gguf_string s)
{
    for (size_t i = 0; i < s.n_bytes;) {
        bool valid = true;
        i += pf_utf8_length(s.text + i, s.n_bytes - i, &valid);
        if (!valid) return false;
    }
    return true;
}

/* The text of a token of SentencePiece: tokens that the user defines have spaces, the vocabulary has marks. */
static pf_status mark_spaces(const builder *b, pf_gguf_string s, char **out)
{
    pf_bytes made = { .data = NULL };
    pf_status status = PF_OK;
    for (size_t i = 0; i < s.n_bytes && status == PF_OK; i++)
        status = s.text[i] == ' ' ? pf_bytes_append(&made, PF_SPACE_MARK, strlen(PF_SPACE_MARK))
                                  : pf_bytes_append(&made, s.text + i, 1);
    if (status == PF_OK) status = pf_bytes_append(&made, "", 1);
    if (status == PF_OK)
        *out = made.data;
    else
        pf_bytes_clear(&made);
    return status == PF_OK ? PF_OK : no_memory(b);
}

/* Whether a token only fills a row of the embedding: converters write "[PAD7]" for row 7. */
static bool is_padding(pf_gguf_string s, token_type type, size_t id)
{
    char text[32];
    snprintf(text, sizeof text, "[PAD%zu]", id);
    return type == TOKEN_UNUSED && (s.n_bytes == 0 || pf_gguf_string_is(s, text));
}

static pf_status read_token(builder *b, size_t id, pf_gguf_string s)
{
    if (is_padding(s, (token_type)b->types[id], id)) return PF_OK;
    if (memchr(s.text, '\0', s.n_bytes) != NULL || !is_utf8(s))
        return pf_fail(b->error, PF_FORMAT, "%s: tokenizer.ggml.tokens[%zu] is not UTF-8, or holds a NUL", b->path, id);
    if (b->is_sentencepiece)
        PF_TRY(mark_spaces(b, s, &b->texts[id]));
    else if ((b->texts[id] = strndup(s.text, s.n_bytes)) == NULL)
        return no_memory(b);
    const json_t *other = json_object_get(b->vocab, b->texts[id]);
    if (other != NULL)
        return pf_fail(b->error, PF_FORMAT, "%s: tokenizer.ggml.tokens[%zu] is \"%.60s\", as token %lld is", b->path,
                       id, b->texts[id], (long long)json_integer_value(other));
    return json_object_set_new_nocheck(b->vocab, b->texts[id], json_integer((json_int_t)id)) == 0 ? PF_OK
                                                                                                  : no_memory(b);
}

static pf_status read_types(builder *b)
{
    pf_gguf_array types = { .n = 0 };
    PF_TRY(pf_gguf_get_array(b->file, "tokenizer.ggml.token_type", false, &types, b->error));
    memset(b->types, TOKEN_NORMAL, b->n_tokens);
    for (size_t i = 0; i < b->n_tokens && i < types.n; i++) {
        int64_t type = TOKEN_NORMAL;
        PF_TRY(pf_gguf_array_int(&types, i, 0, TOKEN_BYTE, &type, b->error));
        b->types[i] = (uint8_t)type;
    }
    return PF_OK;
}

static pf_status read_tokens(builder *b)
{
    pf_gguf_array tokens;
    PF_TRY(pf_gguf_get_array(b->file, "tokenizer.ggml.tokens", true, &tokens, b->error));
    if (tokens.kind != PF_GGUF_STRING || tokens.n == 0 || tokens.n > PF_MAX_TOKEN_ID)
        return pf_fail(b->error, PF_FORMAT, "%s: tokenizer.ggml.tokens must be an array of 1 to %d strings", b->path,
                       PF_MAX_TOKEN_ID);
    b->n_tokens = tokens.n;
    b->texts = calloc(tokens.n, sizeof *b->texts);
    b->types = calloc(tokens.n, sizeof *b->types);
    b->vocab = json_object();
    if (b->texts == NULL || b->types == NULL || b->vocab == NULL) return no_memory(b);
    PF_TRY(read_types(b));
    for (size_t i = 0; i < tokens.n; i++) PF_TRY(read_token(b, i, pf_gguf_next_string(&tokens)));
    return PF_OK;
}

/* A piece that only the normalizer makes, such as a run of marks, is joined by merges and never matched in the text. */
static bool is_added(const builder *b, size_t id)
{
    const token_type type = (token_type)b->types[id];
    if (b->texts[id] == NULL || *b->texts[id] == '\0') return false;
    if (type == TOKEN_USER_DEFINED) return !b->is_sentencepiece || strstr(b->texts[id], PF_SPACE_MARK) == NULL;
    return type == TOKEN_CONTROL || (type == TOKEN_UNKNOWN && b->is_sentencepiece);
}

static pf_status list_added(builder *b)
{
    b->added = json_array();
    if (b->added == NULL) return no_memory(b);
    for (size_t id = 0; id < b->n_tokens; id++) {
        if (!is_added(b, id)) continue;
        json_t *token = pf_added_token_part((int64_t)id, b->texts[id], b->types[id] != TOKEN_USER_DEFINED);
        if (json_array_append_new(b->added, token) != 0) return no_memory(b);
    }
    return PF_OK;
}

/* ---- merges ---- */

/* "left right"; the space of the first character belongs to the left part. */
static pf_status add_merge(builder *b, size_t i, pf_gguf_string s)
{
    const char *space = s.n_bytes > 1 ? memchr(s.text + 1, ' ', s.n_bytes - 1) : NULL;
    if (space == NULL || !is_utf8(s) || memchr(s.text, '\0', s.n_bytes) != NULL)
        return pf_fail(b->error, PF_FORMAT,
                       "%s: tokenizer.ggml.merges[%zu] must be two tokens and a space between them", b->path, i);
    const size_t n_left = (size_t)(space - s.text);
    json_t *pair = json_pack("[o, o]", json_stringn_nocheck(s.text, n_left),
                             json_stringn_nocheck(space + 1, s.n_bytes - n_left - 1));
    return json_array_append_new(b->merges, pair) == 0 ? PF_OK : no_memory(b);
}

static pf_status read_merges(builder *b)
{
    pf_gguf_array merges;
    PF_TRY(pf_gguf_get_array(b->file, "tokenizer.ggml.merges", true, &merges, b->error));
    if (merges.kind != PF_GGUF_STRING)
        return pf_fail(b->error, PF_FORMAT, "%s: tokenizer.ggml.merges must be an array of strings", b->path);
    b->merges = json_array();
    if (b->merges == NULL) return no_memory(b);
    for (size_t i = 0; i < merges.n; i++) PF_TRY(add_merge(b, i, pf_gguf_next_string(&merges)));
    return PF_OK;
}

static pf_status read_scores(builder *b)
{
    pf_gguf_array scores;
    PF_TRY(pf_gguf_get_array(b->file, "tokenizer.ggml.scores", true, &scores, b->error));
    if (scores.n < b->n_tokens)
        return pf_fail(b->error, PF_FORMAT, "%s: tokenizer.ggml.scores has %zu numbers for %zu tokens", b->path,
                       scores.n, b->n_tokens);
    b->scores = calloc(b->n_tokens, sizeof *b->scores);
    if (b->scores == NULL) return no_memory(b);
    for (size_t i = 0; i < b->n_tokens; i++) PF_TRY(pf_gguf_array_number(&scores, i, &b->scores[i], b->error));
    return PF_OK;
}

/* ---- the document ---- */

/* Reads the id of a token by its key; -1: there is none. */
static pf_status read_id(const builder *b, const char *key, bool required, int64_t *out)
{
    *out = -1;
    PF_TRY(pf_gguf_get_int(b->file, key, required, 0, UINT32_MAX, out, b->error));
    if (*out == UINT32_MAX && !required) *out = -1; /* written for none */
    if (*out >= 0 && ((size_t)*out >= b->n_tokens || b->texts[*out] == NULL))
        return pf_fail(b->error, PF_FORMAT, "%s: %s is %lld, which is no token", b->path, key, (long long)*out);
    return PF_OK;
}

static pf_status add_template(const builder *b, json_t *root)
{
    bool add_bos = (b->is_sentencepiece && !b->is_unigram) || b->pre.add_bos, add_eos = b->is_unigram;
    int64_t bos = -1, eos = -1;
    PF_TRY(pf_gguf_get_bool(b->file, "tokenizer.ggml.add_bos_token", false, &add_bos, b->error));
    PF_TRY(pf_gguf_get_bool(b->file, "tokenizer.ggml.add_eos_token", false, &add_eos, b->error));
    if (add_bos) PF_TRY(read_id(b, "tokenizer.ggml.bos_token_id", false, &bos));
    if (add_eos) PF_TRY(read_id(b, "tokenizer.ggml.eos_token_id", false, &eos));
    if (bos < 0 && eos < 0) return PF_OK;
    const pf_template_token before = { bos < 0 ? NULL : b->texts[bos], bos };
    const pf_template_token after = { eos < 0 ? NULL : b->texts[eos], eos };
    return pf_set_template(root, &before, bos < 0 ? 0 : 1, &after, eos < 0 ? 0 : 1) ? PF_OK : no_memory(b);
}

/* The parts around a byte-level model. */
static json_t *byte_level_parts(builder *b)
{
    json_t *pre = b->pre.pre_tokenizer;
    b->pre.pre_tokenizer = NULL;
    return pf_byte_level_document(json_incref(b->vocab), json_incref(b->merges), b->pre.ignore_merges,
                                  b->pre.nfc ? json_pack("{s:s}", "type", "NFC") : NULL, pre, json_incref(b->added));
}

/* A model of SentencePiece with its normalizer; spaces become marks, and the decoder turns them back. */
static json_t *sentencepiece_parts(const builder *b, bool prefix, json_t *normalizer, json_t *model)
{
    return json_pack("{s:s, s:o, s:n, s:o, s:o, s:O}", "version", "1.0", "normalizer", normalizer, "pre_tokenizer",
                     "decoder", pf_sentencepiece_decoder(prefix), "model", model, "added_tokens", b->added);
}

static pf_status build_byte_level(builder *b, json_t **out)
{
    pf_gguf_string name = { "", 0 };
    PF_TRY(pf_gguf_get_string(b->file, "tokenizer.ggml.pre", false, &name, b->error));
    PF_TRY(pf_gguf_pretokenizer_create(b->path, name, &b->pre, b->error));
    PF_TRY(read_merges(b));
    PF_TRY(list_added(b));
    *out = byte_level_parts(b);
    return *out != NULL ? PF_OK : no_memory(b);
}

static pf_status build_sentencepiece(builder *b, json_t **out)
{
    bool prefix = true;
    int64_t unknown;
    PF_TRY(pf_gguf_get_bool(b->file, "tokenizer.ggml.add_space_prefix", false, &prefix, b->error));
    PF_TRY(read_id(b, "tokenizer.ggml.unknown_token_id", false, &unknown));
    PF_TRY(read_scores(b));
    for (size_t i = 0; i < b->n_tokens; i++) /* merges give normal tokens and those that the user defines */
        if (b->types[i] != TOKEN_NORMAL && b->types[i] != TOKEN_USER_DEFINED) b->scores[i] = NAN;
    PF_TRY(pf_score_merges(b->path, b->vocab, b->scores, &b->merges, b->error));
    PF_TRY(list_added(b));
    json_t *model =
        json_pack("{s:s, s:s?, s:b, s:b, s:O, s:O}", "type", "BPE", "unk_token", unknown < 0 ? NULL : b->texts[unknown],
                  "fuse_unk", 1, "byte_fallback", 1, "vocab", b->vocab, "merges", b->merges);
    *out = sentencepiece_parts(b, prefix, pf_sentencepiece_normalizer(NULL, 0, false, prefix), model);
    return *out != NULL ? PF_OK : no_memory(b);
}

/* ---- unigram ---- */

/* The table of replaced characters [*n]; the caller frees it. */
static pf_status read_charsmap(const builder *b, uint8_t **out, size_t *n)
{
    pf_gguf_array bytes = { .n = 0 };
    PF_TRY(pf_gguf_get_array(b->file, "tokenizer.ggml.precompiled_charsmap", false, &bytes, b->error));
    if (bytes.n > PF_MAX_SENTENCEPIECE_BYTES)
        return pf_fail(b->error, PF_LIMIT, "%s: tokenizer.ggml.precompiled_charsmap has %zu bytes, expected at most %d",
                       b->path, bytes.n, PF_MAX_SENTENCEPIECE_BYTES);
    uint8_t *made = malloc(bytes.n + 1);
    pf_status status = made ? PF_OK : no_memory(b);
    for (size_t i = 0; status == PF_OK && i < bytes.n; i++) {
        int64_t byte = 0;
        status = pf_gguf_array_int(&bytes, i, INT8_MIN, UINT8_MAX, &byte, b->error);
        if (status == PF_OK) made[i] = (uint8_t)byte;
    }
    if (status != PF_OK) {
        free(made);
        return status;
    }
    *out = made;
    *n = bytes.n;
    return PF_OK;
}

/* Rows of padding have no text; theirs cannot stand in a text. */
static json_t *make_scored(const builder *b)
{
    json_t *list = json_array();
    for (size_t i = 0; list != NULL && i < b->n_tokens; i++) {
        char padding[32];
        snprintf(padding, sizeof padding, "[PAD%zu]", i);
        json_t *item = json_pack("[s, f]", b->texts[i] ? b->texts[i] : padding, b->scores[i]);
        if (json_array_append_new(list, item) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *make_unigram(const builder *b, int64_t unknown)
{
    json_t *unk = unknown < 0 ? json_null() : json_integer((json_int_t)unknown);
    return json_pack("{s:s, s:o, s:b, s:o}", "type", "Unigram", "unk_id", unk, "byte_fallback", 1, "vocab",
                     make_scored(b));
}

static pf_status build_unigram(builder *b, json_t **out)
{
    bool prefix = true, removes_spaces = false;
    int64_t unknown;
    uint8_t *charsmap = NULL;
    size_t n_charsmap = 0;
    PF_TRY(pf_gguf_get_bool(b->file, "tokenizer.ggml.add_space_prefix", false, &prefix, b->error));
    PF_TRY(pf_gguf_get_bool(b->file, "tokenizer.ggml.remove_extra_whitespaces", false, &removes_spaces, b->error));
    PF_TRY(read_id(b, "tokenizer.ggml.unknown_token_id", false, &unknown));
    PF_TRY(read_scores(b));
    PF_TRY(list_added(b));
    PF_TRY(read_charsmap(b, &charsmap, &n_charsmap));
    json_t *normalizer = pf_sentencepiece_normalizer(charsmap, n_charsmap, removes_spaces, prefix);
    free(charsmap);
    *out = sentencepiece_parts(b, prefix, normalizer, make_unigram(b, unknown));
    return *out != NULL ? PF_OK : no_memory(b);
}

static pf_status build(builder *b, pf_json *out)
{
    pf_gguf_string model;
    if (!pf_gguf_has(b->file, "tokenizer.ggml.model"))
        return pf_fail(b->error, PF_UNAVAILABLE, "%s: the file has no tokenizer", b->path);
    PF_TRY(pf_gguf_get_string(b->file, "tokenizer.ggml.model", true, &model, b->error));
    b->is_unigram = pf_gguf_string_is(model, "t5");
    b->is_sentencepiece = b->is_unigram || pf_gguf_string_is(model, "llama");
    if (!b->is_sentencepiece && !pf_gguf_string_is(model, "gpt2"))
        return pf_fail(b->error, PF_UNSUPPORTED, "%s: tokenizer.ggml.model is \"%.*s\", expected gpt2, llama or t5",
                       b->path, model.n_bytes < 60 ? (int)model.n_bytes : 60, model.text);
    json_t *root = NULL;
    PF_TRY(read_tokens(b));
    pf_status status = b->is_unigram         ? build_unigram(b, &root)
                       : b->is_sentencepiece ? build_sentencepiece(b, &root)
                                             : build_byte_level(b, &root);
    if (status == PF_OK) status = add_template(b, root);
    if (status != PF_OK) {
        json_decref(root);
        return status;
    }
    out->root = root;
    snprintf(out->name, sizeof out->name, "%s", b->path);
    return PF_OK;
}

pf_status pf_gguf_tokenizer_document(const pf_gguf *file, pf_json *out, pf_error *error)
{
    builder b = { .file = file, .path = pf_gguf_path(file), .error = error };
    const pf_status status = build(&b, out);
    for (size_t i = 0; b.texts != NULL && i < b.n_tokens; i++) free(b.texts[i]);
    free(b.texts);
    free(b.types);
    free(b.scores);
    json_decref(b.vocab);
    json_decref(b.merges);
    json_decref(b.added);
    json_decref(b.pre.pre_tokenizer);
    return status;
}
