#include "tokenizer/files/vocab_merges.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/files/class_options.h"
#include "tokenizer/files/document_parts.h"
#include "tokenizer/files/patterns.h"

static const struct {
    const char *name;
    const char *pattern; /* NULL: GPT-2's */
    bool nfc;
} CLASSES[] = {
    { "", NULL, false },
    { "GPT2Tokenizer", NULL, false },
    { "CodeGenTokenizer", NULL, false },
    { "GPTNeoXTokenizer", NULL, true },
    { "Qwen2Tokenizer", PF_PATTERN_QWEN2, true },
    { "Qwen3_5Tokenizer", PF_PATTERN_QWEN35, true },
};
enum { N_CLASSES = sizeof CLASSES / sizeof *CLASSES };

typedef struct {
    const char *name; /* of merges.txt */
    const pf_tokenizer_files *files;
    pf_class_options options;
    int row; /* of CLASSES */
    json_t *merges;
    size_t line; /* from 1 */
    pf_error *error;
} builder;

static pf_status no_memory(const builder *b)
{
    return pf_fail(b->error, PF_NOMEM, "%s: no memory for the tokenizer", b->name);
}

static pf_status find_class(builder *b)
{
    PF_TRY(pf_class_options_read(b->files, &b->options, b->error));
    for (b->row = 0; b->row < N_CLASSES; b->row++)
        if (strcmp(CLASSES[b->row].name, b->options.name) == 0) return PF_OK;
    return pf_fail(
        b->error, PF_UNSUPPORTED,
        "%s: tokenizer_class is %s, whose vocab.json is not read here (known: GPT2, CodeGen, GPTNeoX, Qwen2, "
        "Qwen3_5, each with Tokenizer)",
        b->files->config->name, b->options.name);
}

static bool is_text(const char *text, size_t n)
{
    bool valid = memchr(text, '\0', n) == NULL;
    for (size_t i = 0; valid && i < n;) i += pf_utf8_length(text + i, n - i, &valid);
    return valid;
}

static pf_status add_line(builder *b, const char *line, size_t n)
{
    const char *space = memchr(line, ' ', n);
    if (n >= strlen("#version") && memcmp(line, "#version", strlen("#version")) == 0) return PF_OK;
    if (space == NULL || memchr(space + 1, ' ', n - (size_t)(space - line) - 1) != NULL || !is_text(line, n))
        return pf_fail(b->error, PF_FORMAT, "%s: line %zu must be two tokens with a space between them", b->name,
                       b->line);
    const size_t n_left = (size_t)(space - line);
    json_t *pair =
        json_pack("[o, o]", json_stringn_nocheck(line, n_left), json_stringn_nocheck(space + 1, n - n_left - 1));
    return json_array_append_new(b->merges, pair) == 0 ? PF_OK : no_memory(b);
}

static pf_status read_lines(builder *b, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t n_line = (end ? (size_t)(end - text) : n) - at;
        const size_t next = at + n_line + 1;
        b->line++;
        if (n_line > 0 && text[at + n_line - 1] == '\r') n_line--;
        if (n_line > 0) PF_TRY(add_line(b, text + at, n_line));
        at = next;
    }
    return PF_OK;
}

static json_t *make_split(const builder *b)
{
    const char *pattern = CLASSES[b->row].pattern;
    const bool prefix = b->options.add_prefix_space == PF_YES;
    if (!pattern) return pf_byte_level_part(prefix, true);
    return pf_sequence_part("pretokenizers",
                            json_pack("[o, o]", pf_split_part(pattern), pf_byte_level_part(prefix, false)));
}

static pf_status build(builder *b, const pf_json *vocab, const char *merges, size_t n_merges, json_t **out)
{
    PF_TRY(find_class(b));
    b->merges = json_array();
    if (!b->merges) return no_memory(b);
    PF_TRY(read_lines(b, merges, n_merges));
    json_t *root = pf_byte_level_document(json_incref(vocab->root), json_incref(b->merges), false,
                                          CLASSES[b->row].nfc ? json_pack("{s:s}", "type", "NFC") : NULL, make_split(b),
                                          json_array());
    if (!root) return no_memory(b);
    const pf_status status = pf_class_set_template(b->files, &b->options, false, false, vocab->root, root, b->error);
    if (status == PF_OK)
        *out = root;
    else
        json_decref(root);
    return status;
}

pf_status pf_vocab_merges_document(const pf_json *vocab, const char *merges_name, const char *merges, size_t n_merges,
                                   const pf_tokenizer_files *files, pf_json *out, pf_error *error)
{
    builder b = { .name = merges_name, .files = files, .error = error };
    json_t *root = NULL;
    const pf_status status = build(&b, vocab, merges, n_merges, &root);
    json_decref(b.merges);
    if (status != PF_OK) return status;
    out->root = root;
    snprintf(out->name, sizeof out->name, "%s", vocab->name);
    return PF_OK;
}
