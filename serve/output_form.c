#include "serve/output_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "grammar/json_schema.h"
#include "serve/tool_tags_form.h"

static bool add(pf_bytes *out, const char *text, pf_api_error *error)
{
    return pf_bytes_append(out, text, strlen(text)) == PF_OK ||
           pf_api_refuse(error, 500, NULL, "no memory for the grammar of a text");
}

static bool add_common(pf_bytes *out, pf_api_error *error)
{
    return pf_json_schema_add_common(false, out) == PF_OK ||
           pf_api_refuse(error, 500, NULL, "no memory for the grammar of a text");
}

/* The rules of a schema; name: of the whole. */
static bool add_schema(const json_t *schema, const char *param, const char *what, const char *prefix, pf_bytes *out,
                       char name[PF_JSON_SCHEMA_NAME_BYTES], pf_api_error *error)
{
    pf_error why = { 0 };
    const pf_status status = pf_json_schema_add(schema, schema, what, prefix, out, name, &why);
    return status == PF_OK || pf_api_refuse(error, status == PF_NOMEM ? 500 : 400, param, "%s", why.text);
}

/* ---- response_format ------------------------------------------------------------------------------------------------ */

static bool write_schema(const json_t *format, pf_bytes *out, pf_api_error *error)
{
    static const char param[] = "response_format";
    char name[PF_JSON_SCHEMA_NAME_BYTES];
    const json_t *inner = json_object_get(format, "json_schema");
    const json_t *schema = json_object_get(inner ? inner : format, "schema");
    if (!schema) return pf_api_refuse(error, 400, param, "response_format has no schema in json_schema");
    return add_common(out, error) && add_schema(schema, param, "schema", "s", out, name, error) &&
           add(out, "root ::= ", error) && add(out, name, error) && add(out, "\n", error);
}

bool pf_api_write_format(const json_t *format, pf_bytes *out, pf_api_error *error)
{
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type && strcmp(type, "text") == 0) return true;
    if (type && strcmp(type, "json_object") == 0)
        return add_common(out, error) && add(out, "root ::= json-object\n", error);
    if (type && strcmp(type, "json_schema") == 0) return write_schema(format, out, error);
    return pf_api_refuse(error, 400, "response_format",
                         "response_format: expected the type \"text\", \"json_object\" or \"json_schema\"");
}

/* ---- calls ---------------------------------------------------------------------------------------------------------- */

static bool add_quoted(const char *text, pf_bytes *out, pf_api_error *error)
{
    return pf_grammar_quote(text, strlen(text), out) == PF_OK ||
           pf_api_refuse(error, 500, NULL, "no memory for the grammar of a text");
}

/* {"name": NAME, "arguments": or NAME[ARGS], without the arguments. */
static bool add_head(pf_tool_format format, bool names_before, const json_t *name, pf_bytes *out, pf_api_error *error)
{
    char *quoted = names_before ? NULL : pf_json_print(name, JSON_ENCODE_ANY);
    bool added = names_before || quoted || pf_api_refuse(error, 500, NULL, "no memory for the grammar of a text");
    if (names_before)
        added = added && add_quoted(json_string_value(name), out, error) && add(out, " \"[ARGS]\" ", error);
    else
        added = added && add_quoted("{\"name\": ", out, error) && add(out, " ", error) &&
                add_quoted(quoted, out, error) && add(out, " ", error) &&
                add_quoted(format == PF_TOOLS_LLAMA ? ", \"parameters\": " : ", \"arguments\": ", out, error) &&
                add(out, " ", error);
    free(quoted);
    return added;
}

static bool add_tagged_call(const json_t *function, size_t index, const char *prefix, pf_bytes *out,
                            pf_api_error *error)
{
    char rule[24];
    pf_error why = { 0 };
    snprintf(rule, sizeof rule, "call-%zu", index);
    const pf_status status = pf_tool_tags_add_call(function, rule, prefix, out, &why);
    return status == PF_OK || pf_api_refuse(error, status == PF_NOMEM ? 500 : 400, "tools", "%s", why.text);
}

/* The rule call-I. */
static bool add_call(pf_tool_format format, bool names_before, const json_t *function, size_t index, pf_bytes *out,
                     pf_api_error *error)
{
    char prefix[24], name[PF_JSON_SCHEMA_NAME_BYTES] = "json-object", head[48];
    const json_t *schema = json_object_get(function, "parameters"), *word = json_object_get(function, "name");
    snprintf(prefix, sizeof prefix, "t%zu", index);
    snprintf(head, sizeof head, "call-%zu ::= ", index);
    if (!json_is_string(word))
        return pf_api_refuse(error, 400, "tools", "tools[%zu] has no function with a name", index);
    if (format == PF_TOOLS_TAGS) return add_tagged_call(function, index, prefix, out, error);
    if (json_is_object(schema) && json_object_size(schema) > 0 &&
        !add_schema(schema, "tools", "parameters", prefix, out, name, error))
        return false;
    return add(out, head, error) && add_head(format, names_before, word, out, error) && add(out, name, error) &&
           add(out, names_before ? "\n" : " \"}\"\n", error);
}

static bool add_calls(pf_tool_format format, bool names_before, const json_t *tools, const char *name, pf_bytes *out,
                      pf_api_error *error)
{
    pf_bytes any = { 0 };
    bool added = true, is_known = false;
    for (size_t i = 0; i < json_array_size(tools) && added; i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function");
        const char *word = json_string_value(json_object_get(function, "name"));
        char rule[40];
        if (name && (!word || strcmp(word, name) != 0)) continue;
        snprintf(rule, sizeof rule, "%scall-%zu", is_known ? " | " : "", i);
        is_known = true;
        added = add_call(format, names_before, function, i, out, error) && add(&any, rule, error);
    }
    if (added && !is_known)
        added = pf_api_refuse(error, 400, "tool_choice", "tool_choice: there is no tool %.60s", name ? name : "at all");
    added =
        added && add(out, "call ::= ", error) && add(&any, "\n", error) &&
        (pf_bytes_append(out, any.data, any.n) == PF_OK || pf_api_refuse(error, 500, NULL, "no memory for a grammar"));
    pf_bytes_clear(&any);
    return added;
}

bool pf_api_write_call(pf_tool_format format, bool names_before, const json_t *tools, const char *name, pf_bytes *out,
                       pf_api_error *error)
{
    const char *root = format == PF_TOOLS_HERMES || format == PF_TOOLS_TAGS
                           ? "root ::= \"<tool_call>\\n\" call \"\\n</tool_call>\"\n"
                       : format == PF_TOOLS_LLAMA ? "root ::= call\n"
                       : names_before             ? "root ::= \"[TOOL_CALLS]\" call\n"
                                                  : "root ::= \"[TOOL_CALLS][\" call \"]\"\n";
    if (format == PF_TOOLS_NONE)
        return pf_api_refuse(error, 400, "tool_choice",
                             "tool_choice: the chat template teaches no form of calls that is known here; expected "
                             "\"auto\" or \"none\"");
    const bool has_tags = format == PF_TOOLS_TAGS;
    if (has_tags && pf_tool_tags_add_common(out) != PF_OK)
        return pf_api_refuse(error, 500, NULL, "no memory for the grammar of a text");
    return (has_tags || add_common(out, error)) &&
           add_calls(format, names_before && format == PF_TOOLS_MISTRAL, tools, name, out, error) &&
           add(out, root, error);
}
