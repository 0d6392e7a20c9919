/*
 * Reads tokenizer.json, and adds the tokens of the other files (tokenizer_config.c).
 *
 * An added token has the id of its text in the vocabulary; a new one gets the next id after the vocabulary, in the order of
 * the file. The field "id" has no effect, as in the library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/byte_to_unicode.h"
#include "tokenizer/files/tokenizer_config.h"
#include "tokenizer/tokenizer_parts.h"

typedef struct {
    char *text;
    size_t n_bytes;
    int32_t id;
} added_text;

typedef struct {
    const pf_json *doc;
    pf_tokenizer *t;
    json_t *vocab;      /* texts to ids; of a Unigram model made from its list */
    int32_t n_vocab;    /* tokens of the model */
    int32_t capacity;   /* of t->tokens */
    int32_t last_added; /* the largest id of an added token; -1 */
    int32_t next_added; /* the id of the next new one */
    added_text *added;
    size_t n_added, added_capacity;
    int16_t byte_of[PF_N_BYTE_CODE_POINTS]; /* the byte that a code point maps to; -1: none */
    bool is_byte_level;
    bool ranked;           /* ids are ranks, of which merges follow */
    size_t n_text_bytes;   /* of all tokens */
    pf_searcher *searcher; /* for them */
    pf_error *error;
} reader;

static pf_status no_memory(const reader *r)
{
    return pf_fail(r->error, PF_NOMEM, "%s: no memory", r->doc->name);
}

static bool listed(const char *const *list, const char *text)
{
    for (; *list; list++)
        if (strcmp(*list, text) == 0) return true;
    return false;
}

static pf_status check_keys(const reader *r, const json_t *object, const char *what, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        if (!listed(known, key) && !json_is_null(value))
            return pf_fail(r->error, PF_UNSUPPORTED, "%s: %s has the field %.80s, which is not known here",
                           r->doc->name, what, key);
    }
    return PF_OK;
}

/* --- byte characters --- */

static void fill_byte_of(reader *r)
{
    memset(r->byte_of, 0xFF, sizeof r->byte_of);
    for (int b = 0; b < 256; b++) r->byte_of[pf_byte_to_unicode((unsigned char)b)] = (int16_t)b;
}

/* Map the characters of `text` to bytes, into out [n]. False, and nothing is written, if one of them maps to no byte. */
static bool decode_byte_characters(const reader *r, const char *text, size_t n, char *out, size_t *n_out)
{
    size_t next, made = 0;
    for (size_t i = 0; i < n; i = next) {
        const int32_t c = pf_character_at(text, i, &next);
        if (c >= PF_N_BYTE_CODE_POINTS || r->byte_of[c] < 0) return false;
    }
    for (size_t i = 0; i < n; i = next) out[made++] = (char)r->byte_of[pf_character_at(text, i, &next)];
    *n_out = made;
    return true;
}

/* --- tokens --- */

/* Ids may be sparse: pages of calloc that are never written take no memory. */
static pf_status reserve_id(reader *r, int32_t id)
{
    if (id >= r->capacity) {
        const int64_t wanted = ((int64_t)id + 1) + (r->capacity ? id / 2 : 0);
        pf_token *grown = calloc((size_t)wanted, sizeof *grown);
        if (!grown) return no_memory(r);
        for (int32_t i = 0; i < r->t->vocab_size; i++)
            if (r->t->tokens[i].bytes) grown[i] = r->t->tokens[i];
        free(r->t->tokens);
        r->t->tokens = grown;
        r->capacity = (int32_t)wanted;
    }
    if (id >= r->t->vocab_size) r->t->vocab_size = id + 1;
    return PF_OK;
}

static pf_status copy_text(const reader *r, const char *text, size_t n, char **out)
{
    char *copy = malloc(n + 1);
    if (!copy) return no_memory(r);
    memcpy(copy, text, n);
    copy[n] = '\0';
    *out = copy;
    return PF_OK;
}

static pf_status read_token(reader *r, const char *text, const json_t *value)
{
    const size_t n = strlen(text);
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > PF_MAX_TOKEN_ID)
        return pf_fail(r->error, PF_FORMAT, "%s: model.vocab: the id of \"%.60s\" must be 0 to %d", r->doc->name, text,
                       PF_MAX_TOKEN_ID);
    const int32_t id = (int32_t)json_integer_value(value);
    PF_TRY(reserve_id(r, id));
    pf_token *token = &r->t->tokens[id];
    if (token->bytes)
        return pf_fail(r->error, PF_FORMAT, "%s: model.vocab: \"%.60s\" has the id %d, as another token has",
                       r->doc->name, text, id);
    PF_TRY(copy_text(r, text, n, &token->bytes));
    size_t n_bytes = n;
    token->in_model = !r->is_byte_level || decode_byte_characters(r, text, n, token->bytes, &n_bytes);
    token->n_bytes = (uint32_t)n_bytes;
    r->n_text_bytes += n;
    if (r->is_byte_level && token->in_model && n_bytes == 1) r->t->bpe.byte_id[(unsigned char)token->bytes[0]] = id;
    return PF_OK;
}

/* The tokens of single characters, with which a piece starts if there is no ByteLevel. */
static pf_status read_characters(reader *r)
{
    const pf_tokenizer *t = r->t;
    for (int write = 0; write < 2; write++) {
        size_t n = 0;
        for (int32_t id = 0; id < t->vocab_size; id++) {
            size_t end = 0;
            if (!t->tokens[id].bytes || t->tokens[id].n_bytes == 0) continue;
            const int32_t c = pf_character_at(t->tokens[id].bytes, 0, &end);
            if (end != t->tokens[id].n_bytes) continue;
            n++;
            if (write) pf_bpe_set_character(&r->t->bpe, c, id);
        }
        if (!write && pf_bpe_reserve_characters(&r->t->bpe, n) != PF_OK) return no_memory(r);
    }
    for (int32_t id = 0; id < t->vocab_size; id++)
        if (t->tokens[id].bytes && pf_bpe_add_pairs(&r->t->bpe, t->tokens[id].bytes, t->tokens[id].n_bytes) != PF_OK)
            return no_memory(r);
    return PF_OK;
}

static pf_status read_vocab(reader *r, const json_t *model)
{
    r->vocab = json_incref(json_object_get(model, "vocab"));
    if (!json_is_object(r->vocab) || json_object_size(r->vocab) == 0)
        return pf_fail(r->error, PF_FORMAT, "%s: model.vocab must be an object of tokens and their ids", r->doc->name);
    for (int b = 0; b < 256; b++) r->t->bpe.byte_id[b] = -1;
    const char *text;
    json_t *value;
    json_object_foreach(r->vocab, text, value) PF_TRY(read_token(r, text, value));
    r->t->base_size = r->t->vocab_size;
    r->n_vocab = (int32_t)json_object_size(r->vocab);
    if (!r->is_byte_level) PF_TRY(read_characters(r));

    if (!r->t->ignore_merges) return PF_OK;
    if (pf_token_index_reserve(&r->t->pieces, json_object_size(r->vocab)) != PF_OK) return no_memory(r);
    for (int32_t id = 0; id < r->t->vocab_size; id++)
        if (r->t->tokens[id].bytes && r->t->tokens[id].in_model) pf_token_index_add(&r->t->pieces, r->t->tokens, id);
    return PF_OK;
}

/* --- merges --- */

/* The id of a text in model.vocab, whose ids have been checked; -1: there is none. */
static int32_t vocab_id(const reader *r, const char *text)
{
    const json_t *value = json_object_get(r->vocab, text);
    return value ? (int32_t)json_integer_value(value) : -1;
}

static pf_status set_merge(reader *r, size_t index, int32_t rank, const char *left, const char *right, char *joined)
{
    snprintf(joined, strlen(left) + strlen(right) + 1, "%s%s", left, right);
    const char *const texts[] = { left, right, joined };
    int32_t ids[3];
    for (int i = 0; i < 3; i++) {
        ids[i] = vocab_id(r, texts[i]);
        if (ids[i] < 0)
            return pf_fail(r->error, PF_FORMAT, "%s: model.merges[%zu]: \"%.60s\" is not in model.vocab", r->doc->name,
                           index, texts[i]);
    }
    pf_bpe_set_merge(&r->t->bpe, ids[0], ids[1], rank, ids[2]);
    return PF_OK;
}

/* A merge is "left right" or ["left", "right"]. */
static pf_status read_merge(reader *r, size_t index, int32_t *rank, const json_t *item)
{
    const char *left = NULL, *right = NULL;
    char *split = NULL;
    if (json_is_string(item)) {
        if (strncmp(json_string_value(item), "#version", 8) == 0) return PF_OK;
        PF_TRY(copy_text(r, json_string_value(item), json_string_length(item), &split));
        char *space = strchr(split, ' ');
        if (space && !strchr(space + 1, ' ')) {
            *space = '\0';
            left = split;
            right = space + 1;
        }
    } else if (json_array_size(item) == 2) {
        left = json_string_value(json_array_get(item, 0));
        right = json_string_value(json_array_get(item, 1));
    }
    char *joined = left && right ? malloc(strlen(left) + strlen(right) + 1) : NULL;
    pf_status status;
    if (!left || !right)
        status = pf_fail(r->error, PF_FORMAT, "%s: model.merges[%zu] must be \"left right\" or [\"left\", \"right\"]",
                         r->doc->name, index);
    else if (!joined)
        status = no_memory(r);
    else
        status = set_merge(r, index, (*rank)++, left, right, joined);
    free(joined);
    free(split);
    return status;
}

static pf_status read_merges(reader *r, const json_t *model)
{
    const json_t *merges = json_object_get(model, "merges");
    const size_t n = json_array_size(merges);
    if (!json_is_array(merges) || n >= INT32_MAX)
        return pf_fail(r->error, PF_FORMAT, "%s: model.merges must be a list", r->doc->name);
    if (pf_bpe_reserve(&r->t->bpe, n) != PF_OK) return no_memory(r);
    int32_t rank = 0;
    for (size_t i = 0; i < n; i++) PF_TRY(read_merge(r, i, &rank, json_array_get(merges, i)));
    return PF_OK;
}

/* --- the model --- */

/* Options that are not supported may be present with a value that has no effect. */
static pf_status check_options(const reader *r, const pf_json *model)
{
    static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 2; i++) {
        const char *text = NULL;
        PF_TRY(pf_json_get_string(model, model->root, empty[i], false, &text, r->error));
        if (text && *text)
            return pf_fail(r->error, PF_UNSUPPORTED, "%s: %s is \"%.40s\", only null is known here", model->name,
                           empty[i], text);
    }
    double dropout = 0.0;
    PF_TRY(pf_json_get_double(model, model->root, "dropout", false, 0.0, 1.0, &dropout, r->error));
    if (dropout > 0.0)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: dropout is %g, only null is known here", model->name, dropout);
    return PF_OK;
}

/* The tokens "<0x00>" to "<0xFF>". */
static void read_byte_ids(reader *r)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        r->t->bpe.byte_id[b] = vocab_id(r, text);
    }
}

/* A character without a token becomes the tokens "<0x00>" to "<0xFF>" of its bytes if all of them exist, else unk_token. In
 * a byte-level vocabulary these tokens would be those of the byte character, so a missing byte is refused. */
static pf_status read_unknown(reader *r, const pf_json *model)
{
    const char *unk = NULL;
    bool byte_fallback = false;
    PF_TRY(pf_json_get_string(model, model->root, "unk_token", false, &unk, r->error));
    PF_TRY(pf_json_get_bool(model, model->root, "fuse_unk", false, &r->t->bpe.fuse_unk, r->error));
    PF_TRY(pf_json_get_bool(model, model->root, "byte_fallback", false, &byte_fallback, r->error));
    r->t->bpe.unk_id = unk ? vocab_id(r, unk) : -1;
    if (byte_fallback && !r->is_byte_level) read_byte_ids(r);
    for (int b = 0; byte_fallback && b < 256; b++)
        if (r->t->bpe.byte_id[b] < 0 && r->is_byte_level)
            return pf_fail(
                r->error, PF_UNSUPPORTED,
                "%s: byte_fallback is true and the byte %d has no token in vocab, only false is known here then",
                model->name, b);
    return PF_OK;
}

static pf_status read_bpe(reader *r, const pf_json *model, const json_t *node)
{
    static const char *const known[] = { "type",
                                         "dropout",
                                         "unk_token",
                                         "continuing_subword_prefix",
                                         "end_of_word_suffix",
                                         "fuse_unk",
                                         "byte_fallback",
                                         "ignore_merges",
                                         "vocab",
                                         "merges",
                                         NULL };
    PF_TRY(check_keys(r, node, "model", known));
    PF_TRY(check_options(r, model));
    PF_TRY(pf_json_get_bool(model, node, "ignore_merges", false, &r->t->ignore_merges, r->error));
    PF_TRY(read_vocab(r, node));
    PF_TRY(read_unknown(r, model));
    return r->ranked ? pf_rank_merges_set(r->t, r->error) : read_merges(r, node);
}

/* --- Unigram --- */

/* An item of the list: a text and its score. */
static pf_status read_scored(reader *r, const json_t *item, int32_t id, pf_unigram_token *out)
{
    const json_t *text = json_array_get(item, 0), *score = json_array_get(item, 1);
    if (json_array_size(item) != 2 || !pf_json_is_text(text) || !json_is_number(score))
        return pf_fail(r->error, PF_FORMAT, "%s: model.vocab[%d] must be a text without NUL and its score",
                       r->doc->name, id);
    json_t *value = json_integer(id);
    pf_status status = value ? read_token(r, json_string_value(text), value) : no_memory(r);
    if (status == PF_OK && json_object_set_nocheck(r->vocab, json_string_value(text), value) != 0)
        status = no_memory(r);
    json_decref(value);
    if (status != PF_OK) return status;
    const pf_token *token = &r->t->tokens[id];
    *out = (pf_unigram_token){
        .text = token->bytes, .n_bytes = token->n_bytes, .score = json_number_value(score), .id = id
    };
    return PF_OK;
}

static pf_status make_unigram(reader *r, const json_t *list, pf_unigram_token *tokens, int32_t unk_id,
                              bool byte_fallback)
{
    const int32_t n = (int32_t)json_array_size(list);
    for (int b = 0; b < 256; b++) r->t->bpe.byte_id[b] = -1;
    for (int32_t id = 0; id < n; id++) PF_TRY(read_scored(r, json_array_get(list, (size_t)id), id, &tokens[id]));
    r->t->base_size = r->t->vocab_size;
    r->n_vocab = n;
    r->t->bpe.unk_id = unk_id;
    if (byte_fallback) read_byte_ids(r);
    const pf_status status =
        pf_unigram_create(tokens, (size_t)n, unk_id, byte_fallback ? r->t->bpe.byte_id : NULL, &r->t->unigram);
    if (status == PF_LIMIT) return pf_fail(r->error, PF_LIMIT, "%s: model.vocab is too long", r->doc->name);
    return status == PF_OK ? PF_OK : no_memory(r);
}

static pf_status read_unigram(reader *r, const pf_json *model, const json_t *node)
{
    static const char *const known[] = { "type", "unk_id", "byte_fallback", "vocab", NULL };
    const json_t *list = json_object_get(node, "vocab");
    const size_t n = json_array_size(list);
    int64_t unk_id = -1;
    bool byte_fallback = false;
    if (r->is_byte_level)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: type is Unigram behind ByteLevel, only BPE is known there",
                       model->name);
    if (!json_is_array(list) || n == 0 || n > PF_MAX_TOKEN_ID)
        return pf_fail(r->error, PF_FORMAT, "%s: vocab must be a list of 1 to %d tokens", model->name, PF_MAX_TOKEN_ID);
    PF_TRY(check_keys(r, node, "model", known));
    PF_TRY(pf_json_get_int(model, node, "unk_id", false, 0, (int64_t)n - 1, &unk_id, r->error));
    PF_TRY(pf_json_get_bool(model, node, "byte_fallback", false, &byte_fallback, r->error));
    r->vocab = json_object();
    pf_unigram_token *tokens = calloc(n, sizeof *tokens);
    const pf_status status =
        r->vocab && tokens ? make_unigram(r, list, tokens, (int32_t)unk_id, byte_fallback) : no_memory(r);
    free(tokens);
    return status;
}

static pf_status read_model(reader *r)
{
    const json_t *node = json_object_get(r->doc->root, "model");
    const pf_json model = pf_json_within(r->doc, node, "model");
    const char *type = "BPE";
    if (!json_is_object(node))
        return pf_fail(r->error, PF_FORMAT, "%s: model is absent, expected an object", r->doc->name);
    PF_TRY(pf_json_get_string(&model, node, "type", false, &type, r->error));
    if (strcmp(type, "BPE") == 0) return read_bpe(r, &model, node);
    if (strcmp(type, "Unigram") == 0) return read_unigram(r, &model, node);
    return pf_fail(r->error, PF_UNSUPPORTED, "%s: type is %.40s, only BPE and Unigram are known here", model.name,
                   type);
}

/* --- added tokens --- */

static pf_status note_added(reader *r, const char *text, size_t n, int32_t id)
{
    if (r->n_added == r->added_capacity) {
        const size_t capacity = r->added_capacity * 2 + 16;
        added_text *grown = realloc(r->added, capacity * sizeof *grown);
        if (!grown) return no_memory(r);
        r->added = grown;
        r->added_capacity = capacity;
    }
    added_text *item = &r->added[r->n_added];
    *item = (added_text){ .n_bytes = n, .id = id };
    PF_TRY(copy_text(r, text, n, &item->text));
    r->n_added++;
    r->n_text_bytes += n;
    return PF_OK;
}

/* Tokens are added in two batches: those of tokenizer.json, then those of the other files. New ids of a batch follow the
 * tokens that were present before it. */
static void begin_batch(reader *r)
{
    r->next_added = r->last_added >= r->n_vocab ? r->last_added + 1 : r->n_vocab;
}

/* The id of a new added token: that of its text in the vocabulary, or the next free one. */
static pf_status added_id(reader *r, const pf_json *doc, const char *text, int32_t *out)
{
    int32_t id = vocab_id(r, text);
    if (id < 0) {
        id = r->next_added++;
        if (id > PF_MAX_TOKEN_ID)
            return pf_fail(r->error, PF_FORMAT, "%s: more than %d tokens", doc->name, PF_MAX_TOKEN_ID);
        PF_TRY(reserve_id(r, id));
        if (r->t->tokens[id].bytes)
            return pf_fail(r->error, PF_FORMAT, "%s: the added token \"%.60s\" gets the id %d, which is taken",
                           doc->name, text, id);
    }
    *out = id;
    return PF_OK;
}

/* The added token with this text; -1: none. The vocabulary is searched first, since a text that it has is that token,
 * whatever bytes it decodes to. */
static int32_t find_added(const reader *r, const char *text, size_t n)
{
    const int32_t id = vocab_id(r, text);
    if (id >= 0) return r->t->tokens[id].is_added ? id : -1;
    return pf_token_index_find(&r->t->added, r->t->tokens, text, n);
}

/* A text that is an added token already gets the new flags; it stays special if it was. */
static pf_status add_token(reader *r, const pf_json *doc, const char *text, size_t n, pf_added_flags flags)
{
    if (n == 0) return PF_OK; /* ignored, as in the library */
    if (n > PF_MAX_ADDED_TOKEN_BYTES || strlen(text) != n)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: the added token \"%.60s\" is longer than %d bytes or holds a NUL",
                       doc->name, text, PF_MAX_ADDED_TOKEN_BYTES);
    int32_t id = find_added(r, text, n);
    if (id < 0) PF_TRY(added_id(r, doc, text, &id));
    pf_token *token = &r->t->tokens[id];
    if (token->is_added) {
        flags.special = flags.special || token->flags.special;
        token->flags = flags;
        return PF_OK;
    }
    if (!token->bytes) {
        PF_TRY(copy_text(r, text, n, &token->bytes));
        token->n_bytes = (uint32_t)n;
    }
    token->is_added = true;
    token->flags = flags;
    if (id > r->last_added) r->last_added = id;
    if (token->n_bytes == n && memcmp(token->bytes, text, n) == 0) pf_token_index_add(&r->t->added, r->t->tokens, id);
    return note_added(r, text, n, id);
}

static pf_status read_added(reader *r)
{
    const json_t *list = json_object_get(r->doc->root, "added_tokens");
    if (list && !json_is_null(list) && !json_is_array(list))
        return pf_fail(r->error, PF_FORMAT, "%s: added_tokens must be a list", r->doc->name);
    begin_batch(r);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *node = json_array_get(list, i), *content = json_object_get(node, "content");
        pf_added_flags flags = { 0 };
        int64_t id = 0;
        if (!json_is_string(content))
            return pf_fail(r->error, PF_FORMAT, "%s: added_tokens[%zu] has no content, expected a text", r->doc->name,
                           i);
        const pf_json token = pf_added_token_within(r->doc, node);
        PF_TRY(pf_json_get_int(&token, node, "id", true, 0, PF_MAX_TOKEN_ID, &id, r->error));
        PF_TRY(pf_added_flags_read(r->doc, node, false, &flags, r->error));
        PF_TRY(add_token(r, r->doc, json_string_value(content), json_string_length(content), flags));
    }
    return PF_OK;
}

static pf_status add_tokens(reader *r, const pf_config_token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        PF_TRY(add_token(r, tokens[i].doc, tokens[i].text, tokens[i].n_bytes, tokens[i].flags));
    return PF_OK;
}

/* Add the tokens of the other files: the listed ones, then the named ones that are no added tokens yet. */
static pf_status add_beside(reader *r, pf_tokenizer_config *config)
{
    pf_config_token *const named = config->tokens + config->n_listed;
    size_t n_named = 0;
    begin_batch(r);
    PF_TRY(add_tokens(r, config->tokens, config->n_listed));
    for (size_t i = 0; i < config->n - config->n_listed; i++)
        if (find_added(r, named[i].text, named[i].n_bytes) < 0) named[n_named++] = named[i];
    return add_tokens(r, named, n_named);
}

/* Set the decoded text of a token if it differs from its bytes. */
static pf_status set_decoded(pf_token *token, const char *text, size_t n)
{
    char *decoded = NULL;
    if (n != token->n_bytes || memcmp(text, token->bytes, n) != 0) {
        decoded = malloc(n + 1);
        if (!decoded) return PF_NOMEM;
        memcpy(decoded, text, n);
    }
    free(token->decoded);
    token->decoded = decoded;
    token->n_decoded = (uint32_t)n;
    return PF_OK;
}

/* A ByteLevel decoder maps a text of byte characters alone to bytes, also that of an added token ("caf\u00e9"). */
static pf_status decode_text(const reader *r, pf_token *token, const char *text, size_t n)
{
    if (!r->t->decoder->is_byte_level) return set_decoded(token, text, n);
    char *bytes = malloc(n + 1);
    if (!bytes) return PF_NOMEM;
    size_t n_bytes;
    const pf_status status = decode_byte_characters(r, text, n, bytes, &n_bytes) ? set_decoded(token, bytes, n_bytes)
                                                                                 : set_decoded(token, text, n);
    free(bytes);
    return status;
}

/* The normalized text of the token is matched, and it is the input of the decoder. An empty one is never matched. */
static pf_status add_pattern(reader *r, const added_text *item, pf_added_flags flags, bool is_ignored)
{
    pf_token *token = &r->t->tokens[item->id];
    pf_bytes made = { .data = NULL };
    pf_text_place place = { .n_first = 0 };
    pf_added_matcher *matcher = flags.normalized ? r->t->normalized : r->t->raw;
    pf_status status = PF_OK;
    if (flags.normalized)
        status = pf_normalize(r->t->normalizer, r->searcher, item->text, item->n_bytes, &place, &made);
    const char *text = made.data ? made.data : item->text;
    const size_t n = made.data ? made.n : item->n_bytes;
    if (status == PF_OK && n > PF_MAX_ADDED_TOKEN_BYTES) status = PF_LIMIT;
    if (status == PF_OK) status = decode_text(r, token, text, n);
    if (status == PF_OK && n > 0) status = pf_added_matcher_add(matcher, text, n, item->id, flags, is_ignored);
    pf_bytes_clear(&made);
    if (status == PF_LIMIT)
        return pf_fail(
            r->error, PF_LIMIT,
            "%s: the normalizers take too long on the added token \"%.60s\", or make it longer than %d bytes",
            r->doc->name, item->text, PF_MAX_ADDED_TOKEN_BYTES);
    return status == PF_OK ? PF_OK : no_memory(r);
}

/* Special tokens are added first: of two with equal normalized text the special one is matched. `split_special`: special
 * tokens in a text are encoded as text. */
static pf_status build_matchers(reader *r, bool split_special)
{
    pf_tokenizer *t = r->t;
    if (pf_added_matcher_create(&t->raw) != PF_OK || pf_added_matcher_create(&t->normalized) != PF_OK)
        return no_memory(r);
    for (int special = 1; special >= 0; special--) {
        for (size_t i = 0; i < r->n_added; i++) {
            const pf_added_flags flags = t->tokens[r->added[i].id].flags;
            if (flags.special == (special == 1))
                PF_TRY(add_pattern(r, &r->added[i], flags, split_special && flags.special));
        }
    }
    if (pf_added_matcher_finish(t->raw) != PF_OK || pf_added_matcher_finish(t->normalized) != PF_OK)
        return no_memory(r);
    return PF_OK;
}

/* --- all parts --- */

static pf_status decode_token(reader *r, pf_token *token, pf_bytes *text, pf_bytes *spare)
{
    const char *before = token->decoded ? token->decoded : token->bytes;
    const size_t n_before = token->decoded ? token->n_decoded : token->n_bytes;
    text->n = 0;
    PF_TRY(pf_bytes_reserve(text, n_before + 1));
    PF_TRY(pf_bytes_append(text, before, n_before));
    PF_TRY(pf_decoder_decode_token(r->t->decoder, r->searcher, text, spare, &token->is_byte));
    return set_decoded(token, text->data, text->n);
}

/* Set decoded texts if only one of pre-tokenizer and decoder is ByteLevel: bytes and decoded text differ then. */
static pf_status decode_vocab(const reader *r)
{
    if (r->is_byte_level == r->t->decoder->is_byte_level) return PF_OK;
    const char *text;
    json_t *value;
    json_object_foreach(r->vocab, text, value)
    {
        pf_token *token = &r->t->tokens[json_integer_value(value)];
        if (!token->is_added) PF_TRY(decode_text(r, token, text, strlen(text)));
    }
    return PF_OK;
}

/* Run the token steps of the decoder on each token. */
static pf_status decode_tokens(reader *r)
{
    pf_bytes text = { .data = NULL }, spare = { .data = NULL };
    pf_status status = decode_vocab(r);
    for (int32_t id = 0; status == PF_OK && id < r->t->vocab_size; id++)
        if (r->t->tokens[id].bytes) status = decode_token(r, &r->t->tokens[id], &text, &spare);
    pf_bytes_clear(&text);
    pf_bytes_clear(&spare);
    if (status == PF_LIMIT)
        return pf_fail(r->error, PF_LIMIT, "%s: the decoder takes too long on the tokens, or makes them too long",
                       r->doc->name);
    return status == PF_OK ? PF_OK : no_memory(r);
}

static pf_status read_pretokenizer(reader *r, const pf_tokenizer_config *config)
{
    const json_t *node = json_object_get(r->doc->root, "pre_tokenizer");
    const char *type = json_string_value(json_object_get(node, "type"));
    PF_TRY(pf_pretokenizer_create(r->doc, node, &r->t->pretokenizer, r->error));
    if (config->prefix_space == PF_PREFIX_SPACE_AS_FILED) return PF_OK;
    if (config->prefix_space_in_sequence || (type && strcmp(type, "ByteLevel") == 0))
        pf_pretokenizer_set_prefix_space(r->t->pretokenizer, config->prefix_space == PF_PREFIX_SPACE_ON);
    return PF_OK;
}

/* Read pre-tokenizer, normalizer and decoder. */
static pf_status read_pipeline(reader *r, const pf_tokenizer_config *config)
{
    const json_t *root = r->doc->root;
    PF_TRY(read_pretokenizer(r, config));
    PF_TRY(pf_normalizer_create(r->doc, json_object_get(root, "normalizer"), &r->t->normalizer, r->error));
    PF_TRY(pf_decoder_create(r->doc, json_object_get(root, "decoder"), &r->t->decoder, r->error));
    r->is_byte_level = pf_pretokenizer_is_byte_level(r->t->pretokenizer);
    return PF_OK;
}

static pf_status read_added_tokens(reader *r, pf_tokenizer_config *config)
{
    const size_t n = json_array_size(json_object_get(r->doc->root, "added_tokens"));
    if (pf_token_index_reserve(&r->t->added, n + config->n) != PF_OK) return no_memory(r);
    PF_TRY(read_added(r));
    return add_beside(r, config);
}

static pf_status read_parts(reader *r, pf_tokenizer_config *config)
{
    /* truncation and padding are left to the caller, as in transformers */
    static const char *const known[] = { "version",       "truncation",     "padding", "added_tokens", "normalizer",
                                         "pre_tokenizer", "post_processor", "decoder", "model",        NULL };
    PF_TRY(check_keys(r, r->doc->root, "the file", known));
    PF_TRY(read_pipeline(r, config));
    PF_TRY(read_model(r));
    PF_TRY(read_added_tokens(r, config));
    if (pf_searcher_create(r->n_text_bytes, NULL, &r->searcher) != PF_OK) return no_memory(r);
    PF_TRY(build_matchers(r, config->split_special_tokens));
    PF_TRY(decode_tokens(r));
    return pf_post_processor_read(r->doc, r->t, r->error);
}

pf_status pf_tokenizer_read_documents(const pf_tokenizer_files *files, pf_tokenizer *t, pf_error *error)
{
    pf_tokenizer_config config = { .tokens = NULL };
    PF_TRY(pf_tokenizer_config_read(files, &config, error));
    reader r = { .doc = files->tokenizer, .t = t, .last_added = -1, .ranked = files->ranked, .error = error };
    fill_byte_of(&r);
    const pf_status status = read_parts(&r, &config);
    for (size_t i = 0; i < r.n_added; i++) free(r.added[i].text);
    free(r.added);
    json_decref(r.vocab);
    pf_searcher_destroy(r.searcher);
    pf_tokenizer_config_clear(&config);
    return status;
}
