#include "tokenizer/json_sequence.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode/character_bytes.h"

enum { MAX_NESTING = 16 };

pf_status pf_json_visit_sequence(const pf_json *doc, const json_t *node, const char *field, const char *list,
                                 pf_json_part_fn *visit, void *user, pf_error *error)
{
    struct {
        const json_t *items;
        size_t next;
    } stack[MAX_NESTING];
    int depth = 0;
    if (!node || json_is_null(node)) return PF_OK;
    for (;;) {
        const char *type = json_string_value(json_object_get(node, "type"));
        if (!type) return pf_fail(error, PF_FORMAT, "%s: %s: expected an object with a type", doc->name, field);
        if (strcmp(type, "Sequence") != 0) {
            const pf_json part = pf_json_within(doc, node, "%s: %.60s", field, type);
            PF_TRY(visit(user, &part, type, node, error));
        } else {
            const json_t *items = json_object_get(node, list);
            if (!json_is_array(items))
                return pf_fail(error, PF_FORMAT, "%s: %s: a Sequence without its list %s", doc->name, field, list);
            if (depth == MAX_NESTING)
                return pf_fail(error, PF_UNSUPPORTED, "%s: %s: Sequences nested more than %d deep", doc->name, field,
                               MAX_NESTING);
            stack[depth].items = items;
            stack[depth++].next = 0;
        }
        while (depth > 0 && stack[depth - 1].next == json_array_size(stack[depth - 1].items)) depth--;
        if (depth == 0) return PF_OK;
        node = json_array_get(stack[depth - 1].items, stack[depth - 1].next++);
    }
}

pf_status pf_json_get_character(const pf_json *doc, const json_t *part, const char *field, const char **out,
                                size_t *n_bytes, pf_error *error)
{
    const json_t *text = json_object_get(part, field);
    const size_t n = json_string_length(text);
    size_t end = 0;
    if (n > 0) (void)pf_character_at(json_string_value(text), 0, &end);
    if (end == 0 || end != n) return pf_fail(error, PF_FORMAT, "%s: %s must be one character", doc->name, field);
    *out = json_string_value(text);
    *n_bytes = n;
    return PF_OK;
}

/* add_prefix_space is the older form of prepend_scheme. The library refuses a file with false beside another scheme than
 * "never". The field str_rep only repeats the replacement. */
pf_status pf_json_get_scheme(const pf_json *doc, const json_t *part, pf_prepend_scheme *out, pf_error *error)
{
    static const char *const names[PF_N_SCHEMES] = {
        [PF_PREPEND_ALWAYS] = "always",
        [PF_PREPEND_FIRST] = "first",
        [PF_PREPEND_NEVER] = "never",
    };
    int chosen = PF_PREPEND_ALWAYS;
    bool prefix = true;
    PF_TRY(pf_json_get_choice(doc, part, "prepend_scheme", false, names, PF_N_SCHEMES, &chosen, error));
    PF_TRY(pf_json_get_bool(doc, part, "add_prefix_space", false, &prefix, error));
    if (!prefix && chosen != PF_PREPEND_NEVER)
        return pf_fail(error, PF_FORMAT,
                       "%s: add_prefix_space is false and prepend_scheme \"%s\", expected \"never\" then", doc->name,
                       names[chosen]);
    *out = (pf_prepend_scheme)chosen;
    return PF_OK;
}

pf_status pf_json_get_content(const pf_json *doc, const json_t *part, const char *field, char **out, size_t *n_bytes,
                              pf_error *error)
{
    const json_t *content = json_object_get(part, field);
    const size_t n = json_string_length(content);
    if (!json_is_string(content)) return pf_fail(error, PF_FORMAT, "%s: expected a string %s", doc->name, field);
    if (n > PF_MAX_CONTENT_BYTES)
        return pf_fail(error, PF_UNSUPPORTED, "%s: %s has %zu bytes, expected at most %d", doc->name, field, n,
                       PF_MAX_CONTENT_BYTES);
    char *copy = malloc(n + 1);
    if (!copy) return pf_fail(error, PF_NOMEM, "%s: no memory for %s", doc->name, field);
    memcpy(copy, json_string_value(content), n + 1);
    *out = copy;
    *n_bytes = n;
    return PF_OK;
}
