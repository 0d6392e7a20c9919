/*
 * Any bytes as a grammar, and as a JSON Schema with a text behind it: refused with a sentence, or followed within its bounds, where the tokens
 * that are allowed are those that advance.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema.h"
#include "grammar/matcher.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) abort();
}

enum { N_IDS = 260 };

static const char *token_text(void *user, int32_t id, size_t *n_bytes)
{
    static const char *const more[] = { "ab", "\":", "{\"", "true" };
    char *byte = user;
    *byte = (char)(id & 0xff);
    *n_bytes = id < 256 ? 1 : strlen(more[id - 256]);
    return id < 256 ? byte : more[id - 256];
}

static void follow(const pf_grammar *grammar, const uint8_t *text, size_t n)
{
    char byte;
    pf_token_order order;
    pf_matcher *m = NULL;
    if (pf_token_order_make(N_IDS, token_text, &byte, &order) != PF_OK) return;
    if (pf_matcher_create(grammar, &order, &m) == PF_OK) {
        int32_t at = 0;
        for (size_t i = 0; i < n && i < 64 && at >= 0; i++) {
            const uint32_t *words = pf_matcher_allowed(m, at);
            require(words || pf_matcher_status(m) != PF_OK);
            const bool allowed = words && (words[text[i] / 32] >> (text[i] % 32) & 1);
            const int32_t next = pf_matcher_advance(m, at, text[i]);
            if (words && pf_matcher_status(m) == PF_OK) require((next >= 0) == allowed);
            at = next;
        }
        pf_matcher_destroy(m);
    }
    pf_token_order_clear(&order);
}

static void try_grammar(const char *source, size_t n_source, const uint8_t *text, size_t n)
{
    pf_grammar *grammar = NULL;
    pf_error error = { 0 };
    if (pf_grammar_parse(source, n_source, &grammar, &error) != PF_OK) {
        require(error.text[0] != '\0');
        return;
    }
    follow(grammar, text, n);
    pf_grammar_close(grammar);
}

static void try_schema(const json_t *schema, const uint8_t *text, size_t n)
{
    pf_bytes out = { 0 };
    pf_error error = { 0 };
    char name[PF_JSON_SCHEMA_NAME_BYTES];
    if (pf_json_schema_add_common(false, &out) == PF_OK &&
        pf_json_schema_add(schema, schema, "schema", "s", &out, name, &error) == PF_OK) {
        require(pf_bytes_append(&out, "root ::= ", 9) == PF_OK && pf_bytes_append(&out, name, strlen(name)) == PF_OK);
        try_grammar(out.data, out.n, text, n);
    }
    pf_bytes_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t where;
    const uint8_t *line = size > 0 ? memchr(data, 0, size) : NULL; /* the text behind a NUL */
    const size_t n = line ? (size_t)(line - data) : size;
    const uint8_t *text = line ? line + 1 : data;
    const size_t n_text = line ? size - n - 1 : size;
    try_grammar((const char *)data, n, text, n_text);
    json_t *schema = json_loadb((const char *)data, n, JSON_DECODE_ANY, &where);
    if (schema) try_schema(schema, text, n_text);
    json_decref(schema);
    return 0;
}
