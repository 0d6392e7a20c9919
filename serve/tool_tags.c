#include "serve/tool_tags.h"

#include <stdbool.h>
#include <string.h>

#include "grammar/schema_overlap.h"

static const char open_tag[] = "<parameter=", close_tag[] = "</parameter>";

/* What is left of a text. */
typedef struct {
    const char *at;
    size_t n;
} span;

static void drop(span *s, size_t n)
{
    s->at += n;
    s->n -= n;
}

static bool begins_with(const span *s, const char *word)
{
    const size_t n = strlen(word);
    return s->n >= n && memcmp(s->at, word, n) == 0;
}

static void skip_blanks(span *s)
{
    while (s->n > 0 && memchr(" \t\r\n", s->at[0], 4)) drop(s, 1);
}

/* What is before `word`, which is dropped, too. False: it does not come. */
static bool take_until(span *s, const char *word, span *out)
{
    const char *found = memmem(s->at, s->n, word, strlen(word));
    if (!found) return false;
    *out = (span){ s->at, (size_t)(found - s->at) };
    drop(s, out->n + strlen(word));
    return true;
}

/* The schema of the parameters of a tool; NULL: there is no tool of that name. */
static const json_t *parameters_of(const json_t *tools, const span *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = json_object_get(json_array_get(tools, i), "function"),
                     *word = json_object_get(function, "name");
        if (json_string_length(word) != name->n || memcmp(json_string_value(word), name->at, name->n) != 0) continue;
        const json_t *schema = json_object_get(function, "parameters");
        return schema ? schema : function;
    }
    return NULL;
}

static bool is_text(const json_t *schema, const span *key)
{
    const json_t *described = json_object_getn(json_object_get(schema, "properties"), key->at, key->n);
    return !described || pf_schema_may_be_string(schema, described);
}

/* The line ends beside the tags are not part of it. NULL: it is no text. */
static json_t *read_value(span value, bool may_be_text)
{
    if (value.n > 0 && value.at[0] == '\n') drop(&value, 1);
    if (value.n > 0 && value.at[value.n - 1] == '\n') value.n--;
    json_t *parsed = may_be_text ? NULL : json_loadb(value.at, value.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    return parsed ? parsed : json_stringn(value.at, value.n);
}

static bool add_parameter(span *s, const json_t *schema, json_t *arguments)
{
    span key, value;
    if (!begins_with(s, open_tag)) return false;
    drop(s, sizeof open_tag - 1);
    if (!take_until(s, ">", &key) || !take_until(s, close_tag, &value) || memchr(key.at, 0, key.n)) return false;
    json_t *read = read_value(value, is_text(schema, &key));
    return read && json_object_setn_new(arguments, key.at, key.n, read) == 0;
}

json_t *pf_tool_tags_read(const char *text, size_t n, const json_t *tools)
{
    span s = { text, n }, name;
    if (!take_until(&s, ">", &name)) return NULL;
    const json_t *schema = parameters_of(tools, &name);
    json_t *arguments = json_object();
    bool is_call = schema && arguments;
    for (skip_blanks(&s); is_call && s.n > 0; skip_blanks(&s)) is_call = add_parameter(&s, schema, arguments);
    json_t *call = is_call ? json_pack("{s:s%, s:O}", "name", name.at, name.n, "arguments", arguments) : NULL;
    json_decref(arguments);
    return call;
}
