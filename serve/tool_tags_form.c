/*
 * A text without </parameter> and </function> is a walk over the prefixes of the two that its end may be: tag-N, where N is how many bytes of
 * one are there. Either begins again at each < alone, as no other < is in them.
 */
#include "serve/tool_tags_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/json_schema.h"
#include "grammar/schema_overlap.h"

static pf_status add(pf_bytes *out, const char *text)
{
    return pf_bytes_append(out, text, strlen(text));
}

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "no memory for the grammar of a call");
}

/* ---- texts ------------------------------------------------------------------------------------------------------------ */

/* The state behind a part of a closing tag: behind it comes more of that, the begin of another, or any other byte. next: the state behind the
 * one more byte; NULL: with it the tag would be whole. */
static pf_status add_state(const char *name, char byte, const char *next, pf_bytes *out)
{
    char text[160], more[48] = "";
    if (next) snprintf(more, sizeof more, " | \"%c\" %s", byte, next);
    snprintf(text, sizeof text, "%s ::= \"\" | \"<\" tag-1 | [^<%c] tag-text%s\n", name, byte, more);
    return add(out, text);
}

/* States behind "</" and at least one more byte of `rest`. */
static pf_status add_chain(const char *prefix, const char *rest, pf_bytes *out)
{
    const size_t n = strlen(rest);
    for (size_t i = 1; i < n; i++) {
        char name[24], next[24];
        snprintf(name, sizeof name, "%s-%zu", prefix, i);
        snprintf(next, sizeof next, "%s-%zu", prefix, i + 1);
        PF_TRY(add_state(name, rest[i], i + 1 < n ? next : NULL, out));
    }
    return PF_OK;
}

pf_status pf_tool_tags_add_common(pf_bytes *out)
{
    PF_TRY(pf_json_schema_add_common(true, out));
    PF_TRY(add(out, "tag-text ::= \"\" | \"<\" tag-1 | [^<] tag-text\n"
                    "tag-1 ::= \"\" | \"<\" tag-1 | [^</] tag-text | \"/\" tag-2\n"
                    "tag-2 ::= \"\" | \"<\" tag-1 | [^<pf] tag-text | \"p\" tag-p-1 | \"f\" tag-f-1\n"));
    PF_TRY(add_chain("tag-p", "parameter>", out));
    return add_chain("tag-f", "function>", out);
}

/* ---- values ----------------------------------------------------------------------------------------------------------- */

static bool has_other_than(const json_t *schema, const char *const *words)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        const char *const *word = words;
        while (*word && strcmp(*word, key) != 0) word++;
        if (!*word) return true;
    }
    return false;
}

/* One of the strings of a list, as they are. False: there is none. */
static pf_status add_strings(const json_t *list, bool *are_any, pf_bytes *out)
{
    *are_any = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_string(value)) continue;
        PF_TRY(add(out, *are_any ? " | " : "("));
        PF_TRY(pf_grammar_quote(json_string_value(value), json_string_length(value), out));
        *are_any = true;
    }
    return *are_any ? add(out, ")") : PF_OK;
}

static bool read_length(const json_t *schema, const char *key, json_int_t otherwise, json_int_t *out)
{
    enum { MOST = 4096 };
    const json_t *value = json_object_get(schema, key);
    *out = value ? json_integer_value(value) : otherwise;
    return !value || (json_is_integer(value) && *out >= 0 && *out <= MOST);
}

static pf_status add_text(const json_t *schema, const char *key, pf_bytes *out, pf_error *error)
{
    static const char *const lengths[] = { "type",    "minLength", "maxLength", "title", "description",
                                           "default", "examples",  "example",   NULL };
    const json_t *values = json_object_get(schema, "enum"), *constant = json_object_get(schema, "const");
    json_t *list = constant ? json_pack("[O]", constant) : json_incref((json_t *)(uintptr_t)values);
    char text[64];
    bool are_any;
    json_int_t least, most;
    const pf_status status = add_strings(list, &are_any, out);
    json_decref(list);
    if (status != PF_OK) return no_memory(error);
    if (are_any) return PF_OK;
    if (json_object_get(schema, "pattern"))
        return pf_fail(error, PF_UNSUPPORTED, "parameters.%.60s: a pattern of a text between tags is not supported",
                       key);
    if (has_other_than(schema, lengths) || json_object_size(schema) == 0 ||
        (!json_object_get(schema, "minLength") && !json_object_get(schema, "maxLength")))
        return add(out, "tag-text") == PF_OK ? PF_OK : no_memory(error);
    if (!read_length(schema, "minLength", 0, &least) || !read_length(schema, "maxLength", -1, &most) ||
        (most >= 0 && most < least))
        return pf_fail(error, PF_INVALID, "parameters.%.60s: expected lengths from 0 to 4096", key);
    snprintf(text, sizeof text, most < 0 ? "[^<]{%d,}" : "[^<]{%d,%d}", (int)least, (int)most);
    return add(out, text) == PF_OK ? PF_OK : no_memory(error);
}

/* ---- calls ------------------------------------------------------------------------------------------------------------ */

/* <parameter=KEY>, its value and the end of it, as the rule `rule`. */
static pf_status add_parameter(const json_t *root, const char *key, const json_t *schema, const char *rule,
                               pf_bytes *out, pf_error *error)
{
    char name[PF_JSON_SCHEMA_NAME_BYTES], what[96], head[PF_JSON_SCHEMA_NAME_BYTES + 8];
    const bool is_text = pf_schema_may_be_string(root, schema);
    if (strpbrk(key, ">\n<"))
        return pf_fail(error, PF_UNSUPPORTED, "parameters.%.60s: a name of this kind does not stand in a tag", key);
    snprintf(what, sizeof what, "parameters.%.60s", key);
    if (!is_text) PF_TRY(pf_json_schema_add(root, schema, what, rule, out, name, error));
    snprintf(head, sizeof head, "%s ::= ", rule);
    pf_bytes tag = { 0 };
    pf_status status = add(&tag, "<parameter=");
    if (status == PF_OK) status = add(&tag, key);
    if (status == PF_OK) status = add(&tag, ">\n");
    if (status == PF_OK) status = add(out, head);
    if (status == PF_OK) status = pf_grammar_quote(tag.data, tag.n, out);
    if (status == PF_OK) status = add(out, " ");
    pf_bytes_clear(&tag);
    if (status != PF_OK) return no_memory(error);
    if (is_text)
        PF_TRY(add_text(schema, key, out, error));
    else if (add(out, name) != PF_OK)
        return no_memory(error);
    return add(out, " \"\\n</parameter>\\n\"\n") == PF_OK ? PF_OK : no_memory(error);
}

static pf_status check_parameters(const json_t *schema, pf_error *error)
{
    static const char *const known[] = { "type",    "properties",  "required", "additionalProperties",
                                         "title",   "description", "default",  "examples",
                                         "example", "$schema",     "$id",      "$comment",
                                         "$defs",   "definitions", "strict",   NULL };
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    if (!schema) return PF_OK;
    if (!json_is_object(schema) || (properties && !json_is_object(properties)) ||
        (required && !json_is_array(required)))
        return pf_fail(error, PF_INVALID,
                       "parameters: expected an object with properties, and a list of those required");
    return has_other_than(schema, known)
               ? pf_fail(
                     error, PF_UNSUPPORTED,
                     "parameters: beside properties and required another keyword is not supported in calls with tags")
               : PF_OK;
}

/* The properties, and behind them what is required and not described. The caller ends it. NULL: no memory. */
static json_t *all_properties(const json_t *schema)
{
    const json_t *required = json_object_get(schema, "required");
    json_t *given = json_object_get(schema, "properties"), *all = given ? json_copy(given) : json_object();
    for (size_t i = 0; all && i < json_array_size(required); i++) {
        const char *key = json_string_value(json_array_get(required, i));
        if (key && !json_object_get(all, key)) (void)json_object_set_new(all, key, json_object());
    }
    return all;
}

static pf_status add_parameters(const json_t *schema, const char *prefix, pf_bytes *head, pf_bytes *out,
                                pf_error *error)
{
    json_t *properties = all_properties(schema), *described;
    const char *key;
    int32_t i = 0;
    pf_status status = properties ? PF_OK : no_memory(error);
    json_object_foreach(properties, key, described)
    {
        char rule[PF_JSON_SCHEMA_NAME_BYTES], part[PF_JSON_SCHEMA_NAME_BYTES + 4];
        snprintf(rule, sizeof rule, "%.20s-p%d", prefix, i++);
        snprintf(part, sizeof part, " %s%s", rule, pf_schema_requires(schema, key) ? "" : "?");
        if (status == PF_OK) status = add_parameter(schema, key, described, rule, out, error);
        if (status == PF_OK && add(head, part) != PF_OK) status = no_memory(error);
    }
    json_decref(properties);
    return status;
}

pf_status pf_tool_tags_add_call(const json_t *function, const char *rule, const char *prefix, pf_bytes *out,
                                pf_error *error)
{
    const json_t *schema = json_object_get(function, "parameters");
    const char *name = json_string_value(json_object_get(function, "name"));
    if (strpbrk(name, ">\n<"))
        return pf_fail(error, PF_UNSUPPORTED, "%.60s: a function of this name does not stand in a tag", name);
    PF_TRY(check_parameters(schema, error));
    pf_bytes tag = { 0 }, head = { 0 };
    pf_status status = add(&tag, "<function=");
    if (status == PF_OK) status = add(&tag, name);
    if (status == PF_OK) status = add(&tag, ">\n");
    if (status == PF_OK) status = add(&head, rule);
    if (status == PF_OK) status = add(&head, " ::= ");
    if (status == PF_OK) status = pf_grammar_quote(tag.data, tag.n, &head);
    status = status == PF_OK ? add_parameters(schema, prefix, &head, out, error) : no_memory(error);
    if (status == PF_OK &&
        (add(&head, " \"</function>\"\n") != PF_OK || pf_bytes_append(out, head.data, head.n) != PF_OK))
        status = no_memory(error);
    pf_bytes_clear(&tag);
    pf_bytes_clear(&head);
    return status;
}
