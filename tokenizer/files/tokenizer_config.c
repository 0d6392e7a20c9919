/*
 * Reads the named tokens first, because a name makes a listed token special; then the tokens listed by id; then it adds the
 * remaining named tokens and the tokens without a name.
 */
#include "tokenizer/files/tokenizer_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMED_TOKENS = 256 }; /* bounds the linear search over them */

static const char *const NAMES[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token" };
enum { N_NAMES = sizeof NAMES / sizeof *NAMES };

#define END_OF_TEXT "<|endoftext|>"
/* Classes of transformers, without "Fast", that have default tokens. Versions 4 and 5 agree, except that version 5 added
 * Cohere's last four. */
static const struct {
    const char *name;
    const char *tokens[N_NAMES];
    bool decides_prefix_space, in_sequence; /* in_sequence: also for a ByteLevel inside a Sequence */
} CLASSES[] = {
    { "GPT2Tokenizer", { END_OF_TEXT, END_OF_TEXT, END_OF_TEXT }, true, false },
    { "GPTNeoXTokenizer", { END_OF_TEXT, END_OF_TEXT, END_OF_TEXT }, true, false },
    { "CodeGenTokenizer", { END_OF_TEXT, END_OF_TEXT, END_OF_TEXT }, true, false },
    { "Qwen2Tokenizer", { [1] = END_OF_TEXT, [2] = END_OF_TEXT, [4] = END_OF_TEXT }, false, false },
    { "CohereTokenizer",
      { "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>" },
      true,
      true },
};
#undef END_OF_TEXT
enum { N_CLASSES = sizeof CLASSES / sizeof *CLASSES };

/* A token of a document: a string, or an object with text and flags. */
typedef struct {
    const pf_json *doc;
    const char *name;   /* NULL: none */
    const json_t *node; /* NULL: only the text is known */
    const char *text;
    size_t n_bytes;
} filed_token;

typedef struct {
    int64_t id;
    size_t order;
    filed_token token;
} listed_token;

typedef struct {
    const pf_tokenizer_files *files;
    const json_t *config, *special_map; /* roots; NULL: no such file, or it is ignored */
    int class_row;                      /* of CLASSES; -1: none */
    filed_token named[MAX_NAMED_TOKENS];
    size_t n_named;
    json_t *special; /* keys: texts that are special by name or list; values: the forms seen, see is_repeated */
    filed_token *extra;
    size_t n_extra;
    listed_token *listed;
    size_t n_listed;
    pf_error *error;
} reader;

static pf_status no_memory(const reader *r)
{
    return pf_fail(r->error, PF_NOMEM, "%s: no memory for the tokens beside it", r->files->tokenizer->name);
}

bool pf_tokenizer_config_is_old(const pf_json *config)
{
    return !config || !json_object_get(config->root, "added_tokens_decoder");
}

pf_json pf_added_token_within(const pf_json *doc, const json_t *node)
{
    const char *text = json_string_value(json_object_get(node, "content"));
    return pf_json_within(doc, node, "the added token \"%.60s\"", text ? text : "");
}

pf_status pf_added_flags_read(const pf_json *doc, const json_t *node, bool special, pf_added_flags *out,
                              pf_error *error)
{
    pf_added_flags flags = { 0 };
    const pf_json token = pf_added_token_within(doc, node);
    PF_TRY(pf_json_get_bool(&token, node, "single_word", false, &flags.single_word, error));
    PF_TRY(pf_json_get_bool(&token, node, "lstrip", false, &flags.lstrip, error));
    PF_TRY(pf_json_get_bool(&token, node, "rstrip", false, &flags.rstrip, error));
    PF_TRY(pf_json_get_bool(&token, node, "special", false, &flags.special, error));
    flags.special = flags.special || special;
    flags.normalized = !flags.special;
    PF_TRY(pf_json_get_bool(&token, node, "normalized", false, &flags.normalized, error));
    *out = flags;
    return PF_OK;
}

/* --- tokens in documents --- */

static pf_status find_text(const reader *r, const pf_json *doc, const char *name, const json_t *node, filed_token *out)
{
    const json_t *content = json_is_object(node) ? json_object_get(node, "content") : node;
    if (!json_is_string(content))
        return pf_fail(r->error, PF_FORMAT, "%s: %.60s must be the text of a token, or an object with its \"content\"",
                       doc->name, name);
    *out = (filed_token){ .doc = doc,
                          .name = name,
                          .node = node,
                          .text = json_string_value(content),
                          .n_bytes = json_string_length(content) };
    return PF_OK;
}

static pf_status note_special(reader *r, const filed_token *token)
{
    const int failed = json_object_setn_new(r->special, token->text, token->n_bytes, json_true());
    return failed ? no_memory(r) : PF_OK;
}

static bool same_text(const char *a, size_t n_a, const char *b, size_t n_b)
{
    return n_a == n_b && memcmp(a, b, n_a) == 0;
}

static bool is_named(const reader *r, const char *text, size_t n_bytes)
{
    for (size_t i = 0; i < r->n_named; i++)
        if (same_text(r->named[i].text, r->named[i].n_bytes, text, n_bytes)) return true;
    return false;
}

/* --- names --- */

static bool is_usual(const char *name)
{
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(NAMES[i], name) == 0) return true;
    return false;
}

/* A later entry for a name replaces an earlier one, at the position of the first. */
static pf_status put_name(reader *r, filed_token token)
{
    size_t i = 0;
    while (i < r->n_named && strcmp(r->named[i].name, token.name) != 0) i++;
    if (i == MAX_NAMED_TOKENS)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: more than %d tokens have names", token.doc->name,
                       MAX_NAMED_TOKENS);
    if (i == r->n_named) r->n_named++;
    r->named[i] = token;
    return note_special(r, &token);
}

static pf_status name_token(reader *r, const pf_json *doc, const char *name, const json_t *node)
{
    filed_token token;
    PF_TRY(find_text(r, doc, name, node, &token));
    return put_name(r, token);
}

/* One of NAMES, from the first source that has it: special_tokens_map.json, tokenizer_config.json, the padding of
 * tokenizer.json, the class. null means no token. */
static pf_status name_usual(reader *r, int which)
{
    const char *name = NAMES[which];
    const json_t *padding = json_object_get(r->files->tokenizer->root, "padding");
    const pf_json *doc = r->files->special_map;
    const json_t *node = json_object_get(r->special_map, name);
    if (!node) {
        doc = r->files->config;
        node = json_object_get(r->config, name);
    }
    if (!node && strcmp(name, "pad_token") == 0) {
        doc = r->files->tokenizer;
        node = json_object_get(padding, name);
    }
    if (node) return json_is_null(node) ? PF_OK : name_token(r, doc, name, node);
    const char *text = r->class_row < 0 ? NULL : CLASSES[r->class_row].tokens[which];
    if (!text) return PF_OK;
    return put_name(
        r, (filed_token){ .doc = r->files->config, .name = name, .node = NULL, .text = text, .n_bytes = strlen(text) });
}

/* A field that names a token and is not one of NAMES: image_token and the like. */
static bool is_own_name(const char *key)
{
    const size_t n = strlen(key), n_end = strlen("_token");
    return n >= n_end && strcmp(key + n - n_end, "_token") == 0 && !is_usual(key);
}

/* Other fields may end in "_token" too. In tokenizer_config.json an object for a token has a type. */
static bool is_typed_token(const json_t *node)
{
    const char *type = json_string_value(json_object_get(node, "__type"));
    return type && strcmp(type, "AddedToken") == 0;
}

static bool is_string_or_object(const json_t *node)
{
    return json_is_string(node) || json_is_object(node);
}

/* Strings of tokenizer_config.json come last and take precedence. Any other value there, even null, fixes the position of
 * the entry of special_tokens_map.json. */
static pf_status name_own(reader *r)
{
    const pf_json *config = r->files->config, *map = r->files->special_map;
    const char *key;
    json_t *node;
    json_object_foreach((json_t *)(uintptr_t)r->config, key, node)
    {
        const json_t *in_map = json_object_get(r->special_map, key);
        if (!is_own_name(key) || json_is_string(node)) continue;
        if (in_map ? is_string_or_object(in_map) : is_typed_token(node))
            PF_TRY(in_map ? name_token(r, map, key, in_map) : name_token(r, config, key, node));
    }
    json_object_foreach((json_t *)(uintptr_t)r->special_map, key, node)
    {
        if (is_own_name(key) && is_string_or_object(node)) PF_TRY(name_token(r, map, key, node));
    }
    json_object_foreach((json_t *)(uintptr_t)r->config, key, node)
    {
        if (is_own_name(key) && json_is_string(node)) PF_TRY(name_token(r, config, key, node));
    }
    return PF_OK;
}

/* extra_special_tokens as an object: tokens by name. */
static pf_status name_extra(reader *r, const pf_json *doc, const json_t *root)
{
    const json_t *extra = json_object_get(root, "extra_special_tokens");
    const char *key;
    json_t *node;
    if (!json_is_object(extra)) return PF_OK;
    json_object_foreach((json_t *)(uintptr_t)extra, key, node) PF_TRY(name_token(r, doc, key, node));
    return PF_OK;
}

static pf_status read_names(reader *r)
{
    const pf_json *config = r->files->config, *map = r->files->special_map;
    for (int i = 0; i < N_NAMES; i++) PF_TRY(name_usual(r, i));
    PF_TRY(name_own(r));
    PF_TRY(name_extra(r, config, r->config));
    return name_extra(r, map, r->special_map);
}

/* --- tokens without a name --- */

static pf_status check_extra(const reader *r, const pf_json *doc, const json_t *root, const char *field,
                             bool may_be_object)
{
    const json_t *node = json_object_get(root, field);
    if (!node || json_is_null(node) || json_is_array(node) || (may_be_object && json_is_object(node))) return PF_OK;
    return pf_fail(r->error, PF_FORMAT, "%s: %s must be a list of tokens%s", doc->name, field,
                   may_be_object ? ", or an object with their names" : "");
}

static pf_status add_extra(reader *r, const pf_json *doc, const char *field, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        filed_token token;
        PF_TRY(find_text(r, doc, field, json_array_get(list, i), &token));
        r->extra[r->n_extra++] = token;
        PF_TRY(note_special(r, &token));
    }
    return PF_OK;
}

static const char EXTRA[] = "extra_special_tokens", ADDITIONAL[] = "additional_special_tokens";

/* additional_special_tokens is the older name of extra_special_tokens. It is read if extra_special_tokens is absent or
 * empty. */
static pf_status read_extra(reader *r)
{
    const pf_json *config = r->files->config, *map = r->files->special_map;
    PF_TRY(check_extra(r, config, r->config, EXTRA, true));
    PF_TRY(check_extra(r, config, r->config, ADDITIONAL, false));
    PF_TRY(check_extra(r, map, r->special_map, EXTRA, true));
    PF_TRY(check_extra(r, map, r->special_map, ADDITIONAL, false));

    const json_t *list = json_object_get(r->config, EXTRA), *additional = json_object_get(r->config, ADDITIONAL);
    const json_t *map_list = json_object_get(r->special_map, EXTRA);
    const json_t *map_additional = json_object_get(r->special_map, ADDITIONAL);
    const size_t n = json_array_size(list) + json_array_size(additional) + json_array_size(map_list) +
                     json_array_size(map_additional);
    r->extra = calloc(n + 1, sizeof *r->extra);
    if (!r->extra) return no_memory(r);

    if (additional && json_array_size(list) + json_object_size(list) == 0) {
        list = additional;
        additional = NULL;
    }
    bool is_said = list && !json_is_object(list);
    if (map_list) {
        if (!json_is_array(map_list)) list = NULL;
        is_said = !json_is_object(map_list);
    }
    PF_TRY(add_extra(r, config, EXTRA, list));
    PF_TRY(add_extra(r, map, EXTRA, map_list));
    if (is_said) return PF_OK;
    if (map_additional) return add_extra(r, map, ADDITIONAL, map_additional);
    return add_extra(r, config, ADDITIONAL, additional);
}

/* --- listed tokens --- */

static void list_token(reader *r, int64_t id, const filed_token *token)
{
    r->listed[r->n_listed] = (listed_token){ .id = id, .order = r->n_listed, .token = *token };
    r->n_listed++;
}

static pf_status list_decoder(reader *r, const json_t *decoder)
{
    const char *key;
    json_t *node;
    json_object_foreach((json_t *)(uintptr_t)decoder, key, node)
    {
        filed_token token;
        char *end;
        errno = 0;
        const int64_t id = strtoll(key, &end, 10);
        if (*key == '\0' || *end != '\0' || errno != 0 || !json_is_object(node))
            return pf_fail(r->error, PF_FORMAT,
                           "%s: added_tokens_decoder: \"%.40s\" must be an id, and an object there",
                           r->files->config->name, key);
        PF_TRY(find_text(r, r->files->config, "a token of added_tokens_decoder", node, &token));
        list_token(r, id, &token);
    }
    return PF_OK;
}

/* added_tokens.json, then the added tokens of tokenizer.json. The latter are in the tokenizer already (tokenizer_json.c).
 * They are listed again because they replace entries of added_tokens.json with the same id, and because a name makes them
 * special. */
static pf_status list_old(reader *r, const json_t *added, const json_t *own)
{
    const char *key;
    json_t *node;
    json_object_foreach((json_t *)(uintptr_t)added, key, node)
    {
        if (!json_is_integer(node))
            return pf_fail(r->error, PF_FORMAT, "%s: \"%.60s\" must have an id", r->files->added->name, key);
        const filed_token token = { .doc = r->files->added, .node = NULL, .text = key, .n_bytes = strlen(key) };
        list_token(r, json_integer_value(node), &token);
    }
    for (size_t i = 0; i < json_array_size(own); i++) {
        filed_token token;
        node = json_array_get(own, i);
        PF_TRY(find_text(r, r->files->tokenizer, "a token of added_tokens", node, &token));
        list_token(r, json_integer_value(json_object_get(node, "id")), &token);
    }
    return PF_OK;
}

static int by_id(const void *a, const void *b)
{
    const listed_token *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* In order of id; of several with one id the last is kept. */
static pf_status read_listed(reader *r)
{
    const json_t *decoder = json_object_get(r->config, "added_tokens_decoder");
    const json_t *added = r->files->added ? r->files->added->root : NULL;
    const json_t *own = json_object_get(r->files->tokenizer->root, "added_tokens");
    const bool is_old = pf_tokenizer_config_is_old(r->files->config);
    if (!is_old && !json_is_object(decoder))
        return pf_fail(r->error, PF_FORMAT, "%s: added_tokens_decoder must be an object", r->files->config->name);
    const size_t n = is_old ? json_object_size(added) + json_array_size(own) : json_object_size(decoder);
    r->listed = calloc(n + 1, sizeof *r->listed);
    if (!r->listed) return no_memory(r);
    PF_TRY(is_old ? list_old(r, added, own) : list_decoder(r, decoder));

    qsort(r->listed, r->n_listed, sizeof *r->listed, by_id);
    size_t kept = 0;
    for (size_t i = 0; i < r->n_listed; i++)
        if (i + 1 == r->n_listed || r->listed[i].id != r->listed[i + 1].id) r->listed[kept++] = r->listed[i];
    r->n_listed = kept;
    return PF_OK;
}

/* --- all tokens --- */

static pf_status put_token(const reader *r, const filed_token *t, bool special, pf_tokenizer_config *out)
{
    pf_config_token token = {
        .doc = t->doc, .text = t->text, .n_bytes = t->n_bytes, .flags = { .special = special, .normalized = !special }
    };
    if (json_is_object(t->node)) PF_TRY(pf_added_flags_read(t->doc, t->node, special, &token.flags, r->error));
    out->tokens[out->n++] = token;
    return PF_OK;
}

/* A token with flags becomes special by a name only. A token of added_tokens.json, which has no flags, also becomes special
 * by a list. */
static bool is_special(const reader *r, const filed_token *t)
{
    return t->node ? is_named(r, t->text, t->n_bytes) : json_object_getn(r->special, t->text, t->n_bytes) != NULL;
}

/* A bit for each form of an entry: its combination of flags, or the text alone. */
static pf_status find_form(const reader *r, const filed_token *t, json_int_t *out)
{
    enum { BY_TEXT = 32 };
    int form = BY_TEXT;
    if (json_is_object(t->node)) {
        pf_added_flags f;
        PF_TRY(pf_added_flags_read(t->doc, t->node, t->doc == r->files->special_map, &f, r->error));
        form = f.single_word | f.lstrip << 1 | f.rstrip << 2 | f.normalized << 3 | f.special << 4;
    }
    *out = (json_int_t)1 << form;
    return PF_OK;
}

/* Whether the same form of this token was seen before. A repeated form does not undo the flags of another form since. */
static pf_status is_repeated(const reader *r, const filed_token *t, bool *out)
{
    json_int_t form;
    PF_TRY(find_form(r, t, &form));
    const json_int_t forms = json_integer_value(json_object_getn(r->special, t->text, t->n_bytes)); /* 0 of json_true */
    *out = (forms & form) != 0;
    if (json_object_setn_new(r->special, t->text, t->n_bytes, json_integer(forms | form))) return no_memory(r);
    return PF_OK;
}

static pf_status put_tokens(const reader *r, pf_tokenizer_config *out)
{
    out->tokens = malloc((r->n_listed + r->n_named + r->n_extra + 1) * sizeof *out->tokens);
    if (!out->tokens) return no_memory(r);
    for (size_t i = 0; i < r->n_listed; i++) {
        const filed_token *t = &r->listed[i].token;
        PF_TRY(put_token(r, t, is_special(r, t), out));
    }
    out->n_listed = out->n;
    bool repeated;
    for (size_t i = 0; i < r->n_named; i++) {
        PF_TRY(is_repeated(r, &r->named[i], &repeated));
        if (!repeated) PF_TRY(put_token(r, &r->named[i], true, out));
    }
    for (size_t i = 0; i < r->n_extra; i++) {
        const filed_token *t = &r->extra[i];
        PF_TRY(is_repeated(r, t, &repeated));
        if (repeated) continue;
        const bool special = !json_is_object(t->node) || t->doc == r->files->special_map;
        PF_TRY(put_token(r, t, special || is_named(r, t->text, t->n_bytes), out));
    }
    return PF_OK;
}

static pf_status read_class(reader *r, pf_tokenizer_config *out)
{
    const char *name = NULL;
    bool space = false;
    r->class_row = -1;
    PF_TRY(pf_json_get_string(r->files->config, r->config, "tokenizer_class", false, &name, r->error));
    PF_TRY(pf_json_get_bool(r->files->config, r->config, "add_prefix_space", false, &space, r->error));
    for (int i = 0; name && i < N_CLASSES; i++) {
        const size_t n = strlen(CLASSES[i].name);
        if (strncmp(name, CLASSES[i].name, n) != 0 || (name[n] && strcmp(name + n, "Fast") != 0)) continue;
        r->class_row = i;
        if (CLASSES[i].decides_prefix_space) out->prefix_space = space ? PF_PREFIX_SPACE_ON : PF_PREFIX_SPACE_OFF;
        out->prefix_space_in_sequence = CLASSES[i].in_sequence;
    }
    return PF_OK;
}

/* fast_tokenizer_files may name a file that replaces tokenizer.json from a version of transformers on
 * ("tokenizer.4.0.0.json"). */
static pf_status check_files(const reader *r)
{
    const json_t *list = json_object_get(r->config, "fast_tokenizer_files");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || strcmp(name, "tokenizer.json") != 0)
            return pf_fail(r->error, PF_UNSUPPORTED,
                           "%s: fast_tokenizer_files has \"%.60s\", only tokenizer.json is read here",
                           r->files->config->name, name ? name : "no string");
    }
    return PF_OK;
}

static pf_status read_all(reader *r, pf_tokenizer_config *out)
{
    PF_TRY(check_files(r));
    PF_TRY(read_class(r, out));
    PF_TRY(pf_json_get_bool(r->files->config, r->config, "split_special_tokens", false, &out->split_special_tokens,
                            r->error));
    PF_TRY(read_names(r));
    PF_TRY(read_extra(r));
    PF_TRY(read_listed(r));
    return put_tokens(r, out);
}

pf_status pf_tokenizer_config_read(const pf_tokenizer_files *files, pf_tokenizer_config *out, pf_error *error)
{
    const bool is_old = pf_tokenizer_config_is_old(files->config);
    pf_tokenizer_config made = { .tokens = NULL };
    reader *r = calloc(1, sizeof *r);
    if (!r) return pf_fail(error, PF_NOMEM, "%s: no memory for the tokens beside it", files->tokenizer->name);
    r->files = files;
    r->config = files->config ? files->config->root : NULL;
    r->special_map = is_old && files->special_map ? files->special_map->root : NULL;
    r->special = json_object();
    r->error = error;
    const pf_status status = r->special ? read_all(r, &made) : no_memory(r);
    json_decref(r->special);
    free(r->listed);
    free(r->extra);
    free(r);
    if (status == PF_OK)
        *out = made;
    else
        pf_tokenizer_config_clear(&made);
    return status;
}

void pf_tokenizer_config_clear(pf_tokenizer_config *config)
{
    free(config->tokens);
    *config = (pf_tokenizer_config){ .tokens = NULL };
}
