#include "tokenizer/files/tiktoken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/base64.h"
#include "tokenizer/files/class_options.h"
#include "tokenizer/files/document_parts.h"
#include "tokenizer/files/patterns.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode/byte_to_unicode.h"
#include "tokenizer/unicode/character_bytes.h"

enum {
    MAX_LINE_BYTES = 1 << 14,
    N_QWEN_EXTRA = 205,
    N_LLAMA3_SPECIAL = 256,
};

typedef struct {
    const char *name;
    const pf_tokenizer_files *files;
    pf_class_options options;
    json_t *vocab; /* texts of byte characters to ids */
    json_t *added;
    size_t line; /* from 1 */
    pf_error *error;
} builder;

static pf_status no_memory(const builder *b)
{
    return pf_fail(b->error, PF_NOMEM, "%s: no memory for its tokenizer", b->name);
}

/* ---- lines ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "BASE64 RANK" */
static bool parse_line(const char *line, size_t n, uint8_t *bytes, size_t *n_bytes, int64_t *rank)
{
    const char *space = memchr(line, ' ', n);
    if (space == NULL || space == line || !pf_base64_decode(line, (size_t)(space - line), bytes, n_bytes)) return false;
    const size_t n_digits = n - (size_t)(space - line) - 1;
    if (n_digits == 0 || n_digits > 9) return false;
    *rank = 0;
    for (size_t i = 0; i < n_digits; i++) {
        if (!is_digit(space[1 + i])) return false;
        *rank = 10 * *rank + (space[1 + i] - '0');
    }
    return *n_bytes > 0;
}

static pf_status add_line(builder *b, const char *line, size_t n)
{
    uint8_t bytes[MAX_LINE_BYTES];
    char text[2 * MAX_LINE_BYTES];
    size_t n_bytes = 0, n_text = 0;
    int64_t rank = 0;
    if (n > MAX_LINE_BYTES || !parse_line(line, n, bytes, &n_bytes, &rank) || rank > PF_MAX_TOKEN_ID)
        return pf_fail(
            b->error, PF_FORMAT,
            "%s: line %zu must be the bytes of a token in base64, a space, and a rank up to %d, of at most %d bytes",
            b->name, b->line, PF_MAX_TOKEN_ID, MAX_LINE_BYTES);
    for (size_t i = 0; i < n_bytes; i++) n_text += pf_character_put(pf_byte_to_unicode(bytes[i]), text + n_text);
    text[n_text] = '\0';
    if (json_object_get(b->vocab, text) != NULL)
        return pf_fail(b->error, PF_FORMAT, "%s: line %zu has the bytes of another line", b->name, b->line);
    return json_object_set_new_nocheck(b->vocab, text, json_integer((json_int_t)rank)) == 0 ? PF_OK : no_memory(b);
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
    if (json_object_size(b->vocab) > 0) return PF_OK;
    return pf_fail(b->error, PF_FORMAT, "%s: the file has no tokens", b->name);
}

bool pf_tiktoken_is_file(const char *text, size_t n)
{
    const char *end = memchr(text, '\n', n < MAX_LINE_BYTES ? n : MAX_LINE_BYTES);
    uint8_t bytes[MAX_LINE_BYTES];
    size_t n_bytes = 0, n_line = end ? (size_t)(end - text) : n;
    int64_t rank;
    if (n_line > 0 && text[n_line - 1] == '\r') n_line--;
    return n_line > 0 && n_line <= MAX_LINE_BYTES && parse_line(text, n_line, bytes, &n_bytes, &rank);
}

/* ---- special tokens ---- */

static pf_status add_special(builder *b, const char *text)
{
    const json_int_t id = (json_int_t)(json_object_size(b->vocab) + json_array_size(b->added));
    return json_array_append_new(b->added, pf_added_token_part(id, text, true)) == 0 ? PF_OK : no_memory(b);
}

static pf_status add_numbered(builder *b, const char *format_before, int first, int n)
{
    for (int i = first; i < first + n; i++) {
        char text[64];
        snprintf(text, sizeof text, "<|%s_%d|>", format_before, i);
        PF_TRY(add_special(b, text));
    }
    return PF_OK;
}

static pf_status add_qwen(builder *b)
{
    PF_TRY(add_special(b, "<|endoftext|>"));
    PF_TRY(add_special(b, "<|im_start|>"));
    PF_TRY(add_special(b, "<|im_end|>"));
    return add_numbered(b, "extra", 0, N_QWEN_EXTRA);
}

static pf_status add_llama3(builder *b)
{
    static const char *const texts[] = { "<|begin_of_text|>", "<|end_of_text|>" };
    static const char *const headers[] = { "<|start_header_id|>", "<|end_header_id|>" };
    for (int i = 0; i < 2; i++) PF_TRY(add_special(b, texts[i]));
    PF_TRY(add_numbered(b, "reserved_special_token", 0, 4));
    for (int i = 0; i < 2; i++) PF_TRY(add_special(b, headers[i]));
    PF_TRY(add_numbered(b, "reserved_special_token", 4, 1));
    PF_TRY(add_special(b, "<|eot_id|>"));
    return add_numbered(b, "reserved_special_token", 5, N_LLAMA3_SPECIAL - 10);
}

/* ---- the document ---- */

typedef enum { QWEN, GLM4, LLAMA3 } family;

static pf_status find_family(builder *b, bool is_qwen, family *out)
{
    static const char *const known[] = { "", "LlamaTokenizer", "PreTrainedTokenizer", "TokenizersBackend" };
    const char *class = b->options.name;
    *out = is_qwen ? QWEN : GLM4;
    if (is_qwen ? strcmp(class, "QWenTokenizer") == 0 || *class == '\0'
                : strcmp(class, "ChatGLM4Tokenizer") == 0 || strcmp(class, "ChatGLMTokenizer") == 0)
        return PF_OK;
    *out = LLAMA3;
    for (size_t i = 0; !is_qwen && i < sizeof known / sizeof *known; i++)
        if (strcmp(class, known[i]) == 0) return PF_OK;
    return pf_fail(b->error, PF_UNSUPPORTED,
                   "%s: tokenizer_class is %s, whose tiktoken file is not read here (known: %s)",
                   b->files->config->name, class,
                   is_qwen ? "QWenTokenizer" : "ChatGLM4Tokenizer, ChatGLMTokenizer, LlamaTokenizer");
}

static pf_status set_glm4_template(const builder *b, json_t *root)
{
    pf_template_token before[] = { { "[gMASK]", -1 }, { "<sop>", -1 } };
    for (int i = 0; i < 2; i++) {
        before[i].id = pf_class_find_id(b->files, b->vocab, before[i].text);
        if (before[i].id < 0) return PF_OK;
    }
    return pf_set_template(root, before, 2, NULL, 0) ? PF_OK : no_memory(b);
}

static pf_status set_llama3_template(builder *b, json_t *root, bool is_own)
{
    const pf_template_token own = { "<|begin_of_text|>", (int64_t)json_object_size(b->vocab) };
    if (!is_own) return pf_class_set_template(b->files, &b->options, true, false, b->vocab, root, b->error);
    return pf_set_template(root, &own, 1, NULL, 0) ? PF_OK : no_memory(b);
}

static pf_status build(builder *b, const char *text, size_t n, bool is_qwen, json_t **out)
{
    family kind = QWEN;
    const bool lists_none = pf_tokenizer_config_is_old(b->files->config);
    b->vocab = json_object();
    b->added = json_array();
    if (!b->vocab || !b->added) return no_memory(b);
    PF_TRY(pf_class_options_read(b->files, &b->options, b->error));
    PF_TRY(find_family(b, is_qwen, &kind));
    PF_TRY(read_lines(b, text, n));
    if (kind == QWEN) PF_TRY(add_qwen(b));
    if (kind == LLAMA3 && lists_none) PF_TRY(add_llama3(b));
    json_t *steps = json_pack("[o, o]", pf_split_part(kind == QWEN ? PF_PATTERN_QWEN2 : PF_PATTERN_LLAMA3),
                              pf_byte_level_part(false, false));
    json_t *root = pf_byte_level_document(json_incref(b->vocab), json_array(), true,
                                          kind == QWEN ? json_pack("{s:s}", "type", "NFC") : NULL,
                                          pf_sequence_part("pretokenizers", steps), json_incref(b->added));
    if (!root) return no_memory(b);
    pf_status status = PF_OK;
    if (kind == GLM4) status = set_glm4_template(b, root);
    if (kind == LLAMA3) status = set_llama3_template(b, root, lists_none);
    if (status == PF_OK)
        *out = root;
    else
        json_decref(root);
    return status;
}

pf_status pf_tiktoken_document(const char *name, const char *text, size_t n, bool is_qwen,
                               const pf_tokenizer_files *files, pf_json *out, pf_error *error)
{
    builder b = { .name = name, .files = files, .error = error };
    json_t *root = NULL;
    const pf_status status = build(&b, text, n, is_qwen, &root);
    json_decref(b.vocab);
    json_decref(b.added);
    if (status != PF_OK) return status;
    out->root = root;
    snprintf(out->name, sizeof out->name, "%s", name);
    return PF_OK;
}
