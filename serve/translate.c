/* Requests of other APIs as chat completions. */
#include "serve/translate.h"

#include <stdio.h>
#include <string.h>

static json_t *no_memory(pf_api_error *error)
{
    (void)pf_api_refuse(error, 500, NULL, "no memory for the request");
    return NULL;
}

static bool has_type(const json_t *value, const char *type)
{
    const char *word = json_string_value(json_object_get(value, "type"));
    return word && strcmp(word, type) == 0;
}

static bool is_given(const json_t *value)
{
    return value && !json_is_null(value);
}

typedef struct {
    const char *from, *to; /* to NULL: it is read by itself, or has no influence */
} renamed;

/* A copy of the object with its keys renamed; what the table does not have keeps its name. */
static json_t *rename_keys(const json_t *root, const renamed *table, size_t n)
{
    const char *key;
    json_t *value;
    json_t *out = json_object();
    json_object_foreach((json_t *)root, key, value)
    {
        const char *to = key;
        for (size_t i = 0; i < n; i++)
            if (strcmp(table[i].from, key) == 0) to = table[i].to;
        if (to && json_object_set(out, to, value) != 0) {
            json_decref(out);
            return NULL;
        }
    }
    return out;
}

/* Appends {"role", "content"}; false: no memory. */
static bool add_message(json_t *messages, const char *role, json_t *content)
{
    return json_array_append_new(messages, json_pack("{s:s, s:O}", "role", role, "content", content)) == 0;
}

/* ---- Anthropic's messages ------------------------------------------------------------------------------------------- */

/* A use of a tool as a call of an assistant's message. */
static json_t *call_of(const json_t *block)
{
    json_t *input = json_object_get(block, "input");
    return json_pack("{s:s, s:O*, s:{s:O*, s:O*}}", "type", "function", "id", json_object_get(block, "id"), "function",
                     "name", json_object_get(block, "name"), "arguments", input);
}

/* The parts of one message: texts stay in it, calls are added to it, and each result of a tool is a message before it. */
static bool read_blocks(const json_t *message, const json_t *blocks, json_t *messages)
{
    json_t *texts = json_array(), *calls = json_array();
    bool all = texts && calls;
    for (size_t i = 0; i < json_array_size(blocks) && all; i++) {
        json_t *block = json_array_get(blocks, i);
        if (has_type(block, "tool_use"))
            all = json_array_append_new(calls, call_of(block)) == 0;
        else if (has_type(block, "tool_result"))
            all = json_array_append_new(messages, json_pack("{s:s, s:O*, s:O*}", "role", "tool", "tool_call_id",
                                                            json_object_get(block, "tool_use_id"), "content",
                                                            json_object_get(block, "content"))) == 0;
        else
            all = json_array_append(texts, block) == 0;
    }
    const bool has_calls = json_array_size(calls) > 0;
    if (all && (json_array_size(texts) > 0 || has_calls || json_array_size(blocks) == 0)) {
        json_t *made = json_pack("{s:O*, s:O}", "role", json_object_get(message, "role"), "content", texts);
        all = made && (!has_calls || json_object_set(made, "tool_calls", calls) == 0) &&
              json_array_append(messages, made) == 0;
        json_decref(made);
    }
    json_decref(texts);
    json_decref(calls);
    return all;
}

static json_t *translate_messages(const json_t *root)
{
    json_t *messages = json_array();
    json_t *system = json_object_get(root, "system");
    const json_t *given = json_object_get(root, "messages");
    bool all = messages && (!is_given(system) || add_message(messages, "system", system));
    for (size_t i = 0; i < json_array_size(given) && all; i++) {
        json_t *message = json_array_get(given, i);
        const json_t *content = json_object_get(message, "content");
        all = json_is_array(content) ? read_blocks(message, content, messages)
                                     : json_array_append(messages, message) == 0;
    }
    if (all) return messages;
    json_decref(messages);
    return NULL;
}

static json_t *translate_tools(const json_t *tools)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        if (json_array_append_new(out, json_pack("{s:s, s:{s:O*, s:O*, s:O*}}", "type", "function", "function", "name",
                                                 json_object_get(tool, "name"), "description",
                                                 json_object_get(tool, "description"), "parameters",
                                                 json_object_get(tool, "input_schema"))) == 0)
            continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

static bool check_message(const json_t *root, pf_api_error *error)
{
    const json_t *thinking = json_object_get(root, "thinking"), *choice = json_object_get(root, "tool_choice");
    const json_t *tools = json_object_get(root, "tools");
    if (!is_given(json_object_get(root, "max_tokens")))
        return pf_api_refuse(error, 400, "max_tokens", "max_tokens is missing");
    if (is_given(thinking) && !has_type(thinking, "disabled"))
        return pf_api_refuse(error, 400, "thinking", "thinking is not supported, but for the type \"disabled\"");
    static const char *const choices[] = { "auto", "none", "any", "tool" };
    bool is_known = !is_given(choice);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) is_known = is_known || has_type(choice, choices[i]);
    if (!is_known)
        return pf_api_refuse(error, 400, "tool_choice", "tool_choice: expected the type auto, any, tool or none");
    return !is_given(tools) || json_is_array(tools) || pf_api_refuse(error, 400, "tools", "tools is no list");
}

static json_t *translate_choice(const json_t *choice)
{
    if (has_type(choice, "tool"))
        return json_pack("{s:s, s:{s:O*}}", "type", "function", "function", "name", json_object_get(choice, "name"));
    return json_string(has_type(choice, "none") ? "none" : has_type(choice, "any") ? "required" : "auto");
}

json_t *pf_api_translate_message(const json_t *root, pf_api_error *error)
{
    static const renamed table[] = { { "messages", NULL }, { "system", NULL },      { "tools", NULL },
                                     { "thinking", NULL }, { "tool_choice", NULL }, { "stop_sequences", "stop" } };
    if (!check_message(root, error)) return NULL;
    json_t *out = rename_keys(root, table, sizeof table / sizeof *table);
    const json_t *tools = json_object_get(root, "tools");
    bool all = out && json_object_set_new(out, "messages", translate_messages(root)) == 0;
    if (all && is_given(tools)) all = json_object_set_new(out, "tools", translate_tools(tools)) == 0;
    if (all && is_given(json_object_get(root, "tool_choice")))
        all = json_object_set_new(out, "tool_choice", translate_choice(json_object_get(root, "tool_choice"))) == 0;
    if (all) return out;
    json_decref(out);
    return no_memory(error);
}

/* ---- OpenAI's responses --------------------------------------------------------------------------------------------- */

/* One item of the input; false: refused. */
static bool read_item(json_t *item, size_t index, json_t *messages, pf_api_error *error)
{
    char param[32];
    bool added;
    const json_t *type = json_object_get(item, "type");
    if (has_type(item, "function_call"))
        added = json_array_append_new(messages, json_pack("{s:s, s:n, s:[{s:s, s:O*, s:{s:O*, s:O*}}]}", "role",
                                                          "assistant", "content", "tool_calls", "type", "function",
                                                          "id", json_object_get(item, "call_id"), "function", "name",
                                                          json_object_get(item, "name"), "arguments",
                                                          json_object_get(item, "arguments"))) == 0;
    else if (has_type(item, "function_call_output"))
        added = json_array_append_new(messages, json_pack("{s:s, s:O*, s:O*}", "role", "tool", "tool_call_id",
                                                          json_object_get(item, "call_id"), "content",
                                                          json_object_get(item, "output"))) == 0;
    else if (json_is_object(item) && (!is_given(type) || has_type(item, "message")))
        added = json_array_append_new(messages, json_pack("{s:O*, s:O*}", "role", json_object_get(item, "role"),
                                                          "content", json_object_get(item, "content"))) == 0;
    else {
        snprintf(param, sizeof param, "input[%zu]", index);
        return pf_api_refuse(error, 400, param, "%s: expected a message, a function_call or its output", param);
    }
    return added || no_memory(error) != NULL;
}

static json_t *translate_input(const json_t *root, pf_api_error *error)
{
    json_t *input = json_object_get(root, "input"), *instructions = json_object_get(root, "instructions");
    json_t *messages = json_array();
    bool all = messages != NULL;
    if (all && is_given(instructions)) all = add_message(messages, "system", instructions);
    if (all && json_is_string(input)) all = add_message(messages, "user", input);
    if (!all) (void)no_memory(error);
    if (all && !json_is_string(input) && (!json_is_array(input) || json_array_size(input) == 0))
        all = pf_api_refuse(error, 400, "input", "input: expected a string or a list of items");
    for (size_t i = 0; i < json_array_size(input) && all; i++)
        all = read_item(json_array_get(input, i), i, messages, error);
    if (all) return messages;
    json_decref(messages);
    return NULL;
}

/* What is left out where it has no influence here, and refused where it would. */
static bool check_response(const json_t *root, pf_api_error *error)
{
    static const char *const absent[] = { "previous_response_id", "conversation", "prompt", "background" };
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const json_t *value = json_object_get(root, absent[i]);
        if (is_given(value) && !json_is_false(value))
            return pf_api_refuse(error, 400, absent[i], "%s is not supported: nothing is stored here", absent[i]);
    }
    const char *truncation = json_string_value(json_object_get(root, "truncation"));
    if (truncation && strcmp(truncation, "disabled") != 0)
        return pf_api_refuse(error, 400, "truncation", "truncation is not supported, but for \"disabled\"");
    return true;
}

/* Tools of functions are flat here. */
static json_t *translate_flat_tools(const json_t *tools, pf_api_error *error)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_array_get(tools, i);
        if (!has_type(tool, "function")) {
            (void)pf_api_refuse(error, 400, "tools", "tools[%zu]: expected the type \"function\"", i);
            json_decref(out);
            return NULL;
        }
        if (json_array_append_new(out, json_pack("{s:s, s:{s:O*, s:O*, s:O*}}", "type", "function", "function", "name",
                                                 json_object_get(tool, "name"), "description",
                                                 json_object_get(tool, "description"), "parameters",
                                                 json_object_get(tool, "parameters"))) == 0)
            continue;
        json_decref(out);
        return no_memory(error);
    }
    return out ? out : no_memory(error);
}

/* reasoning.effort and text.format, which a chat completion has at its top. */
static bool flatten(const json_t *root, json_t *out, pf_api_error *error)
{
    json_t *effort = json_object_get(json_object_get(root, "reasoning"), "effort");
    json_t *format = json_object_get(json_object_get(root, "text"), "format");
    if ((effort && json_object_set(out, "reasoning_effort", effort) != 0) ||
        (format && json_object_set(out, "response_format", format) != 0))
        return no_memory(error) != NULL;
    return true;
}

json_t *pf_api_translate_response(const json_t *root, pf_api_error *error)
{
    static const renamed table[] = {
        { "input", NULL },
        { "instructions", NULL },
        { "previous_response_id", NULL },
        { "conversation", NULL },
        { "prompt", NULL },
        { "background", NULL },
        { "truncation", NULL },
        { "include", NULL },
        { "text", NULL },
        { "reasoning", NULL },
        { "store", NULL },
        { "max_output_tokens", "max_tokens" },
        { "tools", NULL },
        { "messages", "messages of a chat completion" },
    };
    if (!check_response(root, error)) return NULL;
    json_t *messages = translate_input(root, error);
    if (!messages) return NULL;
    json_t *out = rename_keys(root, table, sizeof table / sizeof *table);
    const json_t *tools = json_object_get(root, "tools");
    json_t *made = is_given(tools) ? translate_flat_tools(tools, error) : NULL;
    bool all = out && json_object_set(out, "messages", messages) == 0;
    if (!all) (void)no_memory(error);
    if (is_given(tools)) all = all && made && json_object_set(out, "tools", made) == 0;
    all = all && flatten(root, out, error);
    json_decref(made);
    json_decref(messages);
    if (all) return out;
    json_decref(out);
    return error->status ? NULL : no_memory(error);
}
