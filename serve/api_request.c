/*
 * The parameters of a request.
 *
 * A table has every parameter that is known: whose it is, how it is read, and where it goes. What is not in the table is refused.
 */
#include "serve/api_request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "serve/output_form.h"
#include "serve/translate.h"

/* ---- values -------------------------------------------------------------------------------------------------------- */

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a boolean";
    case JSON_NULL: return "null";
    }
    return "a value";
}

static bool wrong_type(pf_api_error *error, const char *param, const json_t *value, const char *expected)
{
    return pf_api_refuse(error, 400, param, "%s is %s, expected %s", param, type_name(value), expected);
}

static bool read_int(const char *param, const json_t *value, int64_t min, int64_t max, int32_t *out,
                     pf_api_error *error)
{
    if (!json_is_integer(value)) return wrong_type(error, param, value, "an integer");
    const json_int_t found = json_integer_value(value);
    if (found < min || found > max)
        return pf_api_refuse(error, 400, param, "%s is %lld, expected %lld to %lld", param, (long long)found,
                             (long long)min, (long long)max);
    *out = (int32_t)found;
    return true;
}

static bool read_float(const char *param, const json_t *value, double min, double max, float *out, pf_api_error *error)
{
    if (!json_is_number(value)) return wrong_type(error, param, value, "a number");
    const double found = json_number_value(value);
    if (!(found >= min && found <= max))
        return pf_api_refuse(error, 400, param, "%s is %g, expected %g to %g", param, found, min, max);
    *out = (float)found;
    return true;
}

static bool read_bool(const char *param, const json_t *value, bool *out, pf_api_error *error)
{
    if (!json_is_boolean(value)) return wrong_type(error, param, value, "a boolean");
    *out = json_is_true(value);
    return true;
}

static bool check_depth(const json_t *value, int32_t depth)
{
    if (depth == 0) return false;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            if (!check_depth(json_array_get(value, i), depth - 1)) return false;
    } else if (json_is_object(value)) {
        for (void *at = json_object_iter((json_t *)value); at; at = json_object_iter_next((json_t *)value, at))
            if (!check_depth(json_object_iter_value(at), depth - 1)) return false;
    }
    return true;
}

bool pf_api_parse_object(const char *body, size_t n_bytes, json_t **out, pf_api_error *error)
{
    json_t *root = NULL;
    pf_error why = { 0 };
    const pf_status status = pf_json_parse_exactly("the body", body, n_bytes, PF_API_MAX_BODY_BYTES, &root, &why);
    if (status != PF_OK)
        return pf_api_refuse(error, status == PF_LIMIT ? 413 : pf_api_status_of(status), NULL, "%s", why.text);
    if (json_is_object(root) && check_depth(root, PF_API_MAX_DEPTH)) {
        *out = root;
        return true;
    }
    const bool is_object = json_is_object(root);
    json_decref(root);
    return is_object ? pf_api_refuse(error, 400, NULL, "the body is nested more than %d deep", PF_API_MAX_DEPTH)
                     : pf_api_refuse(error, 400, NULL, "the body is a list, expected an object");
}

/* ---- messages ------------------------------------------------------------------------------------------------------ */

/* The text of a content in parts, joined by line ends. */
static json_t *join_parts(const json_t *parts, size_t message, pf_api_error *error)
{
    char param[96];
    pf_bytes text = { 0 };
    pf_status status = PF_OK;
    for (size_t i = 0; i < json_array_size(parts) && status == PF_OK; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");
        const bool is_text =
            type && (strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0);
        if (!is_text || !json_is_string(words)) {
            snprintf(param, sizeof param, "messages[%zu].content[%zu]", message, i);
            (void)pf_api_refuse(error, 400, param, "%s is no text: a part is {\"type\": \"text\", \"text\": \"...\"}",
                                param);
            pf_bytes_clear(&text);
            return NULL;
        }
        if (i > 0) status = pf_bytes_append(&text, "\n", 1);
        if (status == PF_OK) status = pf_bytes_append(&text, json_string_value(words), json_string_length(words));
    }
    json_t *joined = status == PF_OK ? json_stringn(text.data ? text.data : "", text.n) : NULL;
    pf_bytes_clear(&text);
    if (!joined) (void)pf_api_refuse(error, 500, NULL, "no memory for the messages");
    return joined;
}

/* Templates take the arguments of a call as an object; the API has them as its JSON. What is no JSON stays a text. */
static bool open_arguments(json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *function = json_object_get(json_array_get(calls, i), "function");
        const json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_string(arguments)) continue;
        json_t *opened = json_loadb(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
        const bool is_open = json_is_object(opened) && check_depth(opened, PF_API_MAX_DEPTH);
        if (is_open && json_object_set(function, "arguments", opened) != 0) {
            json_decref(opened);
            return false;
        }
        json_decref(opened);
    }
    return true;
}

static bool read_message(json_t *message, size_t index, pf_api_error *error)
{
    char param[96];
    snprintf(param, sizeof param, "messages[%zu]", index);
    if (!json_is_object(message)) return wrong_type(error, param, message, "an object");
    const json_t *content = json_object_get(message, "content");
    if (!json_is_string(json_object_get(message, "role")))
        return pf_api_refuse(error, 400, param, "%s has no \"role\" that is a string", param);
    if (json_is_array(content)) {
        json_t *text = join_parts(content, index, error);
        if (!text || json_object_set_new(message, "content", text) != 0) return false;
    } else if (!content) {
        if (json_object_set_new(message, "content", json_null()) != 0) return false;
    } else if (!json_is_string(content) && !json_is_null(content)) {
        snprintf(param, sizeof param, "messages[%zu].content", index);
        return wrong_type(error, param, content, "a string or a list of parts");
    }
    return open_arguments(message) || pf_api_refuse(error, 500, NULL, "no memory for the messages");
}

static bool read_messages(json_t *messages, pf_api_error *error)
{
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return pf_api_refuse(error, 400, "messages", "messages is missing or no list of messages");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!read_message(json_array_get(messages, i), i, error)) return false;
    return true;
}

/* What a tool_choice says; null is "auto". */
typedef struct {
    bool hides;       /* the template does not see the tools */
    bool forces;      /* a tool must be called: of this name, where it is not NULL */
    const char *name; /* borrowed */
} tool_choice;

static bool read_tool_choice(const json_t *choice, tool_choice *out, pf_api_error *error)
{
    const char *word = json_string_value(choice), *type = json_string_value(json_object_get(choice, "type"));
    const json_t *function = json_object_get(choice, "function"); /* of responses the name is beside the type */
    *out = (tool_choice){ .hides = word && strcmp(word, "none") == 0, .forces = word && strcmp(word, "required") == 0 };
    if (!choice || json_is_null(choice) || out->hides || out->forces || (word && strcmp(word, "auto") == 0))
        return true;
    out->name = json_string_value(json_object_get(function ? function : choice, "name"));
    out->forces = type && strcmp(type, "function") == 0 && out->name;
    return out->forces ||
           pf_api_refuse(error, 400, "tool_choice",
                         "tool_choice: expected \"auto\", \"none\", \"required\" or {\"type\": \"function\", "
                         "\"function\": {\"name\"}}");
}

static bool add_tools(json_t *conversation, const json_t *root, pf_api_error *error)
{
    tool_choice choice;
    json_t *tools = json_object_get(root, "tools");
    if (!read_tool_choice(json_object_get(root, "tool_choice"), &choice, error)) return false;
    if (tools && !json_is_null(tools) && !json_is_array(tools)) return wrong_type(error, "tools", tools, "a list");
    if (choice.forces && json_array_size(tools) == 0)
        return pf_api_refuse(error, 400, "tool_choice", "tool_choice: a tool is to be called, and there are no tools");
    if (choice.hides || json_array_size(tools) == 0) return true;
    return json_object_set(conversation, "tools", tools) == 0 ||
           pf_api_refuse(error, 500, NULL, "no memory for the tools");
}

static bool add_variables(json_t *conversation, const json_t *root, pf_api_error *error)
{
    static const char *const passed[] = { "add_generation_prompt", "documents", "reasoning_effort" };
    json_t *more = json_object_get(root, "chat_template_kwargs");
    if (more && !json_is_null(more)) {
        if (!json_is_object(more)) return wrong_type(error, "chat_template_kwargs", more, "an object");
        if (json_object_update_missing(conversation, more) != 0)
            return pf_api_refuse(error, 500, NULL, "no memory for the variables of the template");
    }
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        json_t *value = json_object_get(root, passed[i]);
        if (value && !json_is_null(value) && json_object_set(conversation, passed[i], value) != 0)
            return pf_api_refuse(error, 500, NULL, "no memory for the variables of the template");
    }
    return true;
}

json_t *pf_api_conversation(const json_t *root, pf_api_error *error)
{
    json_t *messages = json_deep_copy(json_object_get(root, "messages"));
    json_t *conversation = NULL;
    if (read_messages(messages, error)) {
        conversation = json_object();
        if (json_object_set(conversation, "messages", messages) != 0)
            (void)pf_api_refuse(error, 500, NULL, "no memory for the messages");
    }
    json_decref(messages);
    if (error->status == 0 && conversation && add_tools(conversation, root, error) &&
        add_variables(conversation, root, error))
        return conversation;
    json_decref(conversation);
    if (error->status == 0) (void)pf_api_refuse(error, 500, NULL, "no memory for the messages");
    return NULL;
}

/* ---- prompts ------------------------------------------------------------------------------------------------------- */

static bool is_list_of_ids(const json_t *list)
{
    if (!json_is_array(list) || json_array_size(list) == 0) return false;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_integer(json_array_get(list, i))) return false;
    return true;
}

static bool read_prompt(pf_api_request *out, pf_api_error *error)
{
    const json_t *prompt = out->prompt;
    if (json_is_string(prompt) || is_list_of_ids(prompt)) {
        out->n_prompts = 1;
        return true;
    }
    const size_t n = json_array_size(prompt);
    bool fits = n > 0;
    for (size_t i = 0; i < n && fits; i++) {
        const json_t *item = json_array_get(prompt, i);
        fits = json_is_string(item) || is_list_of_ids(item);
    }
    if (!fits)
        return pf_api_refuse(error, 400, "prompt",
                             "prompt: expected a string, a list of strings, a list of token ids, or a list of those");
    if (n > PF_API_MAX_CHOICES)
        return pf_api_refuse(error, 400, "prompt", "prompt has %zu texts, expected at most %d", n, PF_API_MAX_CHOICES);
    out->n_prompts = (int32_t)n;
    return true;
}

const char *pf_api_prompt(const pf_api_request *request, int32_t index, size_t *n_bytes, const json_t **ids)
{
    const json_t *prompt = request->prompt;
    if (json_is_array(prompt) && !is_list_of_ids(prompt)) prompt = json_array_get(prompt, (size_t)index);
    *ids = prompt;
    *n_bytes = json_string_length(prompt);
    return json_string_value(prompt);
}

/* ---- parameters ---------------------------------------------------------------------------------------------------- */

typedef bool (*reader)(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error);

static bool read_model(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!pf_json_is_text(value)) return wrong_type(error, param, value, "a string");
    out->model = json_string_value(value);
    return true;
}

static bool read_max_tokens(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_int(param, value, 1, INT32_MAX, &out->max_tokens, error);
}

static bool read_temperature(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_float(param, value, 0, 1000, &out->sampling.temperature, error);
}

static bool read_top_p(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!read_float(param, value, 0, 1, &out->sampling.top_p, error)) return false;
    return out->sampling.top_p > 0.0f || pf_api_refuse(error, 400, param, "top_p is 0, expected more than 0, up to 1");
}

/* -1: off, as in vLLM. */
static bool read_top_k(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!read_int(param, value, -1, INT32_MAX, &out->sampling.top_k, error)) return false;
    if (out->sampling.top_k < 0) out->sampling.top_k = 0;
    return true;
}

static bool read_min_p(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_float(param, value, 0, 1, &out->sampling.min_p, error);
}

/* 0 is off, as 1 is. */
static bool read_typical_p(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_float(param, value, 0, 1, &out->sampling.typical_p, error);
}

/* ---- logit rules ---- */

static bool read_repetition(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!read_float(param, value, 0, 1000, &out->rules.repetition_penalty, error)) return false;
    return out->rules.repetition_penalty > 0.0f ||
           pf_api_refuse(error, 400, param, "%s is 0, expected more than 0, up to 1000 (1: off)", param);
}

static bool read_frequency(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_float(param, value, -2, 2, &out->rules.frequency_penalty, error);
}

static bool read_presence(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_float(param, value, -2, 2, &out->rules.presence_penalty, error);
}

static bool read_min_tokens(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_int(param, value, 0, INT32_MAX, &out->rules.min_tokens, error);
}

/* A key of logit_bias: a token id without leading zeros, so that different keys are different ids. -1: it is none. */
static int32_t id_of_key(const char *key)
{
    int64_t id = 0;
    if (key[0] == '\0' || (key[0] == '0' && key[1] != '\0')) return -1;
    for (; *key; key++) {
        if (*key < '0' || *key > '9') return -1;
        id = 10 * id + (*key - '0');
        if (id > INT32_MAX) return -1;
    }
    return (int32_t)id;
}

static bool read_logit_bias(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    const char *key;
    json_t *bias;
    if (!json_is_object(value)) return wrong_type(error, param, value, "an object of token ids and numbers");
    const size_t n = json_object_size(value);
    if (n > PF_MAX_LOGIT_BIASES)
        return pf_api_refuse(error, 400, param, "%s has %zu tokens, expected at most %d", param, n,
                             PF_MAX_LOGIT_BIASES);
    out->bias_ids = calloc(n + 1, sizeof *out->bias_ids);
    out->biases = calloc(n + 1, sizeof *out->biases);
    if (!out->bias_ids || !out->biases) return pf_api_refuse(error, 500, NULL, "no memory for %zu biases", n);
    json_object_foreach((json_t *)value, key, bias)
    {
        const int32_t i = out->rules.n_biases++;
        out->bias_ids[i] = id_of_key(key);
        if (out->bias_ids[i] < 0)
            return pf_api_refuse(error, 400, param, "%s has the key \"%.40s\", expected a token id", param, key);
        if (!read_float(param, bias, -100, 100, &out->biases[i], error)) return false;
    }
    out->rules.bias_ids = out->bias_ids;
    out->rules.biases = out->biases;
    return true;
}

static bool read_seed(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!json_is_integer(value)) return wrong_type(error, param, value, "an integer");
    out->sampling.seed = (uint64_t)json_integer_value(value);
    out->seed_given = true;
    return true;
}

static bool read_n(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_int(param, value, 1, PF_API_MAX_CHOICES, &out->n, error);
}

static bool read_stop(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    const size_t n = json_is_string(value) ? 1 : json_array_size(value);
    if (!json_is_string(value) && !json_is_array(value))
        return wrong_type(error, param, value, "a string or a list of strings");
    if (n > PF_API_MAX_STOPS)
        return pf_api_refuse(error, 400, param, "%s has %zu texts, expected at most %d", param, n, PF_API_MAX_STOPS);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_is_string(value) ? value : json_array_get(value, i);
        if (!pf_json_is_text(text) || json_string_length(text) == 0)
            return pf_api_refuse(error, 400, param, "%s: expected strings that are not empty and hold no NUL", param);
        out->stops[out->n_stops++] = json_string_value(text);
    }
    return true;
}

static bool read_ignore_eos(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_bool(param, value, &out->ignore_eos, error);
}

static bool read_echo(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_bool(param, value, &out->echo, error);
}

static bool read_stream(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    return read_bool(param, value, &out->stream, error);
}

static bool read_stream_options(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    const char *key;
    json_t *item;
    if (!json_is_object(value)) return wrong_type(error, param, value, "an object");
    json_object_foreach((json_t *)value, key, item)
    {
        bool ignored;
        if (json_is_null(item)) continue;
        bool *to = strcmp(key, "include_usage") == 0            ? &out->include_usage
                   : strcmp(key, "continuous_usage_stats") == 0 ? &out->continuous_usage
                   : strcmp(key, "include_obfuscation") == 0    ? &ignored
                                                                : NULL;
        if (!to) return pf_api_refuse(error, 400, param, "stream_options has no option of this name: %.60s", key);
        if (!read_bool(param, item, to, error)) return false;
    }
    return true;
}

static bool read_draft_len(const json_t *value, pf_api_request *out, pf_api_error *error)
{
    const char *word = json_string_value(value);
    if (word && strcmp(word, "auto") == 0) return true;
    if (word)
        return pf_api_refuse(error, 400, "speculative.draft_len",
                             "speculative.draft_len: expected a number or \"auto\"");
    return read_int("speculative.draft_len", value, 1, PF_MAX_DRAFT_TOKENS, &out->draft_len, error);
}

static bool read_method(const json_t *value, pf_api_request *out, pf_api_error *error)
{
    static const struct {
        const char *word;
        pf_method method;
    } words[] = { { "auto", PF_METHOD_AUTO },           { "greedy", PF_METHOD_GREEDY },
                  { "rejection", PF_METHOD_REJECTION }, { "block", PF_METHOD_BLOCK },
                  { "traversal", PF_METHOD_TRAVERSAL }, { "coupled", PF_METHOD_COUPLED },
                  { "typical", PF_METHOD_TYPICAL } };
    const char *word = json_string_value(value);
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, word) != 0) continue;
        out->method = words[i].method;
        return true;
    }
    return pf_api_refuse(error, 400, "speculative.method",
                         "speculative.method: expected \"auto\", \"greedy\", \"rejection\", \"block\", \"traversal\", "
                         "\"coupled\" or \"typical\"");
}

static bool read_drafter(const json_t *value, pf_api_request *out, pf_api_error *error)
{
    out->drafter = json_string_value(value);
    return (out->drafter && out->drafter[0]) ||
           pf_api_refuse(error, 400, "speculative.drafter", "speculative.drafter: expected a drafter's name");
}

static bool read_speculative(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    const char *key;
    json_t *item;
    if (!json_is_object(value)) return wrong_type(error, param, value, "an object");
    json_object_foreach((json_t *)value, key, item)
    {
        bool read;
        if (json_is_null(item)) continue;
        if (strcmp(key, "enabled") == 0)
            read = read_bool("speculative.enabled", item, &out->speculates, error);
        else if (strcmp(key, "draft_len") == 0)
            read = read_draft_len(item, out, error);
        else if (strcmp(key, "method") == 0)
            read = read_method(item, out, error);
        else if (strcmp(key, "drafter") == 0)
            read = read_drafter(item, out, error);
        else if (strcmp(key, "epsilon") == 0)
            read = read_float("speculative.epsilon", item, 0, 1, &out->typical.epsilon, error);
        else if (strcmp(key, "delta") == 0)
            read = read_float("speculative.delta", item, 0, 1, &out->typical.delta, error);
        else if (strcmp(key, "mark") == 0)
            read = read_bool("speculative.mark", item, &out->marks_drafted, error);
        else
            return pf_api_refuse(error, 400, param, "speculative has no option of this name: %.60s", key);
        if (!read) return false;
    }
    return true;
}

/* ---- values that change nothing ---- */

static bool refuse_other(const char *param, pf_api_error *error)
{
    return pf_api_refuse(error, 400, param, "%s is not supported, but for the value that changes nothing", param);
}

static bool want_zero(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    (void)out;
    return (json_is_number(value) && json_number_value(value) == 0.0) || json_is_false(value) ||
           refuse_other(param, error);
}

static bool want_one(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    (void)out;
    return (json_is_number(value) && json_number_value(value) == 1.0) || refuse_other(param, error);
}

static bool want_empty(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    (void)out;
    const bool is_empty = (json_is_object(value) && json_object_size(value) == 0) ||
                          (json_is_array(value) && json_array_size(value) == 0) ||
                          (json_is_string(value) && json_string_length(value) == 0);
    return is_empty || refuse_other(param, error);
}

static bool want_text(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    (void)out;
    const json_t *only = json_is_array(value) && json_array_size(value) == 1 ? json_array_get(value, 0) : value;
    const char *word = json_string_value(json_is_object(only) ? json_object_get(only, "type") : only);
    return (word && strcmp(word, "text") == 0) || refuse_other(param, error);
}

/* ---- the form of the text ---- */

static bool read_format(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!json_is_object(value)) return wrong_type(error, param, value, "an object");
    return pf_api_write_format(value, &out->grammar, error);
}

/* Read behind response_format, which may have written a grammar. */
static bool read_grammar(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (!json_is_string(value)) return wrong_type(error, param, value, "a string");
    const json_t *format = json_object_get(out->root, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (type && strcmp(type, "text") != 0)
        return pf_api_refuse(error, 400, param, "grammar and response_format are given, expected one of them");
    return pf_bytes_append(&out->grammar, json_string_value(value), json_string_length(value)) == PF_OK ||
           pf_api_refuse(error, 500, NULL, "no memory for the grammar");
}

static bool read_choice_of_tool(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    tool_choice choice;
    (void)param;
    if (!read_tool_choice(value, &choice, error)) return false;
    out->must_call = choice.forces;
    out->must_call_of = choice.name;
    return true;
}

/* ---- log-probabilities ---- */

/* Of a chat whether; of a completion of how many likeliest tokens. */
static bool read_logprobs(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    if (out->kind == PF_API_CHAT) {
        bool wants = false;
        if (!read_bool(param, value, &wants, error)) return false;
        if (wants && out->logprobs == 0) out->logprobs = 1;
        return true;
    }
    if (json_is_false(value)) return true;
    if (!read_int(param, value, 0, PF_MAX_LOGPROBS, &out->logprobs, error)) return false;
    out->logprobs++;
    return true;
}

static bool read_top_logprobs(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    int32_t n = 0;
    if (!read_int(param, value, 0, PF_MAX_LOGPROBS, &n, error)) return false;
    if (n > 0 && !json_is_true(json_object_get(out->root, "logprobs")))
        return pf_api_refuse(error, 400, param, "top_logprobs is %d, and logprobs is not true", n);
    if (n > 0) out->logprobs = 1 + n;
    return true;
}

/* It has no influence on a text, whatever it is. */
static bool take_any(const char *param, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    (void)param, (void)value, (void)out, (void)error;
    return true;
}

enum { OF_COMPLETION = 1 << PF_API_COMPLETION, OF_CHAT = 1 << PF_API_CHAT, OF_BOTH = OF_COMPLETION | OF_CHAT };

static const struct {
    const char *name;
    int32_t of;
    reader read;
} parameters[] = {
    { "model", OF_BOTH, read_model },
    { "messages", OF_CHAT, take_any }, /* these are read by themselves */
    { "tools", OF_CHAT, take_any },
    { "tool_choice", OF_CHAT, read_choice_of_tool },
    { "chat_template_kwargs", OF_CHAT, take_any },
    { "add_generation_prompt", OF_CHAT, take_any },
    { "documents", OF_CHAT, take_any },
    { "reasoning_effort", OF_CHAT, take_any },
    { "prompt", OF_COMPLETION, take_any },
    { "max_tokens", OF_BOTH, read_max_tokens },
    { "max_completion_tokens", OF_CHAT, read_max_tokens },
    { "temperature", OF_BOTH, read_temperature },
    { "top_p", OF_BOTH, read_top_p },
    { "top_k", OF_BOTH, read_top_k },
    { "min_p", OF_BOTH, read_min_p },
    { "typical_p", OF_BOTH, read_typical_p },
    { "seed", OF_BOTH, read_seed },
    { "n", OF_BOTH, read_n },
    { "stop", OF_BOTH, read_stop },
    { "ignore_eos", OF_BOTH, read_ignore_eos },
    { "echo", OF_COMPLETION, read_echo },
    { "stream", OF_BOTH, read_stream },
    { "stream_options", OF_BOTH, read_stream_options },
    { "speculative", OF_BOTH, read_speculative },
    { "frequency_penalty", OF_BOTH, read_frequency },
    { "presence_penalty", OF_BOTH, read_presence },
    { "repetition_penalty", OF_BOTH, read_repetition },
    { "logit_bias", OF_BOTH, read_logit_bias },
    { "min_tokens", OF_BOTH, read_min_tokens },
    { "logprobs", OF_BOTH, read_logprobs },
    { "top_logprobs", OF_CHAT, read_top_logprobs },
    { "response_format", OF_BOTH, read_format },
    { "grammar", OF_BOTH, read_grammar },
    { "modalities", OF_CHAT, want_text },
    { "best_of", OF_COMPLETION, want_one },
    { "suffix", OF_COMPLETION, want_empty },
    { "functions", OF_CHAT, want_empty },
    { "parallel_tool_calls", OF_CHAT, take_any },
    { "user", OF_BOTH, take_any },
    { "metadata", OF_BOTH, take_any },
    { "store", OF_CHAT, want_zero },
    { "service_tier", OF_CHAT, take_any },
    { "safety_identifier", OF_CHAT, take_any },
    { "prompt_cache_key", OF_CHAT, take_any },
};

static bool read_parameter(const char *name, const json_t *value, pf_api_request *out, pf_api_error *error)
{
    char param[80];
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        if (strcmp(parameters[i].name, name) != 0 || !(parameters[i].of & (1 << out->kind))) continue;
        return json_is_null(value) || parameters[i].read(parameters[i].name, value, out, error);
    }
    snprintf(param, sizeof param, "%.79s", name);
    return pf_api_refuse(error, 400, param, "there is no parameter %s here", param);
}

static bool read_all(pf_api_request *out, pf_api_error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach(out->root, name, value) if (!read_parameter(name, value, out, error)) return false;
    if (out->kind == PF_API_CHAT) {
        out->n_prompts = 1;
        out->conversation = pf_api_conversation(out->root, error);
        if (!out->conversation) return false;
    } else {
        out->prompt = json_object_get(out->root, "prompt");
        if (!read_prompt(out, error)) return false;
    }
    if (out->n * out->n_prompts > PF_API_MAX_CHOICES)
        return pf_api_refuse(error, 400, "n", "%d texts are asked for, expected at most %d", out->n * out->n_prompts,
                             PF_API_MAX_CHOICES);
    if (out->max_tokens > 0 && out->rules.min_tokens > out->max_tokens)
        return pf_api_refuse(error, 400, "min_tokens", "min_tokens is %d, expected at most max_tokens, which is %d",
                             out->rules.min_tokens, out->max_tokens);
    if (out->ignore_eos && (out->grammar.n > 0 || out->must_call))
        return pf_api_refuse(error, 400, "ignore_eos", "ignore_eos is set, and the text has a form that it ends by");
    if (out->must_call && out->grammar.n > 0)
        return pf_api_refuse(error, 400, "tool_choice", "a tool is to be called, and the text has another form");
    if (out->method == PF_METHOD_GREEDY && out->sampling.temperature > 0.0f)
        return pf_api_refuse(error, 400, "speculative.method", "speculative.method greedy is for temperature 0, not %g",
                             (double)out->sampling.temperature);
    return true;
}

static bool translate(pf_api_kind kind, pf_api_request *out, pf_api_error *error)
{
    if (kind != PF_API_RESPONSE && kind != PF_API_MESSAGE) return true;
    out->original = out->root;
    out->root = kind == PF_API_RESPONSE ? pf_api_translate_response(out->original, error)
                                        : pf_api_translate_message(out->original, error);
    if (out->root && json_object_get(out->root, "n"))
        return pf_api_refuse(error, 400, "n", "there is no parameter n here");
    return out->root != NULL;
}

bool pf_api_request_parse(pf_api_kind kind, const char *body, size_t n_bytes, pf_api_request *out, pf_api_error *error)
{
    enum { USUAL_COMPLETION = 16 };
    pf_api_request request = { .kind = kind == PF_API_COMPLETION ? kind : PF_API_CHAT,
                               .n = 1,
                               .speculates = true,
                               .max_tokens = kind == PF_API_COMPLETION ? USUAL_COMPLETION : 0,
                               .sampling = { .temperature = 1.0f } };
    if (!pf_api_parse_object(body, n_bytes, &request.root, error)) return false;
    if (translate(kind, &request, error) && read_all(&request, error)) {
        *out = request;
        out->kind = kind;
        return true;
    }
    pf_api_request_end(&request);
    return false;
}

void pf_api_request_end(pf_api_request *request)
{
    json_decref(request->conversation);
    json_decref(request->root);
    json_decref(request->original);
    pf_bytes_clear(&request->grammar);
    free(request->bias_ids);
    free(request->biases);
    *request = (pf_api_request){ 0 };
}
