/*
 *      TEXT --mark--> OPEN --name--> NAME
 *                      |               |
 *                      +----- { [ -----+--> VALUE --balanced--> AFTER --> GIVE (each call) --> TEXT
 *                      |                       |                  |
 *                      |                       |                  |
 *                      +-- <function= --> TAGS -+- </function> ---+      of Qwen3-Coder
 *                      |                       |                  |
 *                      +--- anything else -----+------------------+--> the bytes are text
 */
#include "serve/tool_calls.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "serve/tool_tags.h"

enum { TEXT, OPEN, NAME, VALUE, TAGS, AFTER, GIVE, PLAIN };
enum { MAX_NAME_BYTES = 256 };

static const char hermes_open[] = "<tool_call>", hermes_close[] = "</tool_call>";
static const char tags_open[] = "<function=", tags_close[] = "</function>";
static const char mistral_open[] = "[TOOL_CALLS]", mistral_args[] = "[ARGS]";
static const char llama_open[] = "<|python_tag|>";

/* ---- formats ----------------------------------------------------------------------------------------------------- */

pf_tool_format pf_tool_format_of(const pf_chat_template *chat)
{
    if (!chat) return PF_TOOLS_NONE;
    if (pf_chat_template_mentions(chat, mistral_open)) return PF_TOOLS_MISTRAL;
    if (pf_chat_template_mentions(chat, hermes_open))
        return pf_chat_template_mentions(chat, tags_open) ? PF_TOOLS_TAGS : PF_TOOLS_HERMES;
    const bool is_llama =
        pf_chat_template_mentions(chat, "ipython") && pf_chat_template_mentions(chat, "\"parameters\"");
    return is_llama ? PF_TOOLS_LLAMA : PF_TOOLS_NONE;
}

/* Calls stand between <tool_call> and </tool_call>. */
static bool has_tags(pf_tool_format format)
{
    return format == PF_TOOLS_HERMES || format == PF_TOOLS_TAGS;
}

const char *const *pf_tool_format_marks(pf_tool_format format)
{
    static const char *const none[] = { NULL }, *const hermes[] = { hermes_open, hermes_close, NULL },
                             *const llama[] = { llama_open, NULL },
                             *const mistral[] = { mistral_open, mistral_args, NULL };
    return has_tags(format) ? hermes : format == PF_TOOLS_LLAMA ? llama : format == PF_TOOLS_MISTRAL ? mistral : none;
}

static const char *mark_of(const pf_tool_scan *s)
{
    return has_tags(s->format) ? hermes_open : mistral_open;
}

void pf_tool_scan_begin(pf_tool_scan *s, pf_tool_format format, const json_t *tools)
{
    *s = (pf_tool_scan){ .format = format, .tools = tools, .follows_call = true };
    if (format == PF_TOOLS_NONE) s->state = PLAIN;
    if (format == PF_TOOLS_LLAMA) s->state = OPEN;
}

void pf_tool_scan_end(pf_tool_scan *s)
{
    json_decref(s->list);
    *s = (pf_tool_scan){ 0 };
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_blanks(const char *text, size_t at, size_t n)
{
    while (at < n && is_blank(text[at])) at++;
    return at;
}

typedef enum { NO, MAYBE, YES } answer;

/* Whether `word` stands at `at`, or may once more has come. */
static answer stands_at(const char *text, size_t at, size_t n, const char *word)
{
    const size_t length = strlen(word), left = n - at;
    if (memcmp(text + at, word, left < length ? left : length) != 0) return NO;
    return left < length ? MAYBE : YES;
}

/* Where `word` stands, or may begin, from `at` on; n: nowhere. */
static size_t find(const char *text, size_t at, size_t n, const char *word, bool is_whole)
{
    for (; at < n; at++) {
        const char *first = memchr(text + at, word[0], n - at);
        if (!first) return n;
        at = (size_t)(first - text);
        const answer found = stands_at(text, at, n, word);
        if (found == YES || (found == MAYBE && !is_whole)) return at;
    }
    return n;
}

/* Looks on at a JSON list or object; whether it has ended, at s->look. What is between its brackets is checked by the parser. */
static bool end_value(pf_tool_scan *s, const char *text, size_t n)
{
    while (s->look < n) {
        const char c = text[s->look++];
        if (s->is_escaped) {
            s->is_escaped = false;
        } else if (s->in_string) {
            s->is_escaped = c == '\\';
            s->in_string = c != '"';
        } else if (c == '"') {
            s->in_string = true;
        } else if (c == '{' || c == '[') {
            s->depth++;
        } else if ((c == '}' || c == ']') && --s->depth == 0) {
            return true;
        }
    }
    return false;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static bool is_known(const pf_tool_scan *s, const json_t *name)
{
    const char *word = json_string_value(name);
    for (size_t i = 0; word && i < json_array_size(s->tools); i++) {
        const json_t *function = json_object_get(json_array_get(s->tools, i), "function");
        const char *known = json_string_value(json_object_get(function, "name"));
        if (known && strcmp(known, word) == 0) return true;
    }
    return false;
}

static json_t *parse(const char *text, size_t n)
{
    return json_loadb(text, n, JSON_ALLOW_NUL, NULL);
}

/* {"name", "arguments"} of a call in any of the forms: the arguments an object. NULL: it is none. */
static json_t *read_call(const pf_tool_scan *s, const json_t *given)
{
    json_t *name = json_object_get(given, "name"), *arguments = json_object_get(given, "arguments");
    if (!arguments) arguments = json_object_get(given, "parameters");
    json_t *opened = json_is_string(arguments) ? parse(json_string_value(arguments), json_string_length(arguments))
                                               : json_incref(arguments);
    if (!arguments) opened = json_object();
    json_t *call =
        is_known(s, name) && json_is_object(opened) ? json_pack("{s:O, s:O}", "name", name, "arguments", opened) : NULL;
    json_decref(opened);
    return call;
}

/* A list of what a value has: all of it is calls, or none is. NULL: none. */
static json_t *read_calls(const pf_tool_scan *s, const json_t *value)
{
    const size_t n = json_is_array(value) ? json_array_size(value) : 1;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *call = read_call(s, json_is_array(value) ? json_array_get(value, i) : value);
        if (call && json_array_append_new(list, call) == 0) continue;
        json_decref(list);
        return NULL;
    }
    if (n > 0) return list;
    json_decref(list);
    return NULL;
}

static json_t *read_tags(const pf_tool_scan *s, const char *text, size_t end)
{
    const size_t n = end - (sizeof tags_close - 1) - s->value;
    json_t *call = pf_tool_tags_read(text + s->value, n, s->tools);
    return call ? json_pack("[o]", call) : NULL;
}

/* The value [s->value, end) as calls. */
static json_t *read_value(const pf_tool_scan *s, const char *text, size_t end)
{
    if (s->format == PF_TOOLS_TAGS) return read_tags(s, text, end);
    json_t *value = parse(text + s->value, end - s->value), *whole = NULL;
    if (s->name[1] > s->name[0])
        whole = json_pack("{s:s%, s:O*}", "name", text + s->name[0], s->name[1] - s->name[0], "arguments", value);
    json_t *list = value ? read_calls(s, whole ? whole : value) : NULL;
    json_decref(whole);
    json_decref(value);
    return list;
}

static bool give(pf_tool_scan *s, pf_tool_part *out)
{
    const json_t *call = json_array_get(s->list, s->n_given++);
    char *name = strdup(json_string_value(json_object_get(call, "name")));
    char *arguments = pf_json_print(json_object_get(call, "arguments"), JSON_COMPACT | JSON_REAL_PRECISION(DBL_DIG));
    if (!name || !arguments) {
        free(name);
        free(arguments);
        return false;
    }
    *out = (pf_tool_part){ .is_call = true, .begin = s->at, .end = s->at, .name = name, .arguments = arguments };
    s->n_calls++;
    return true;
}

/* ---- steps: each returns whether a part is there; *goes_on: whether the next step can be taken now ----------------- */

static bool give_text(pf_tool_scan *s, size_t end, pf_tool_part *out)
{
    if (end <= s->at) return false;
    *out = (pf_tool_part){ .begin = s->at, .end = end };
    s->at = end;
    s->follows_call = false;
    return true;
}

/* What was looked at is no call. */
static bool give_up(pf_tool_scan *s, pf_tool_part *out)
{
    s->state = s->format == PF_TOOLS_LLAMA ? PLAIN : TEXT;
    return give_text(s, s->look, out);
}

static void look_for_value(pf_tool_scan *s, size_t from)
{
    s->look = from;
    s->name[0] = s->name[1] = 0;
    s->state = OPEN;
}

/* Blanks before the first call, between calls and behind the last one are no text. */
static bool step_text(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    const char *mark = mark_of(s);
    if (s->follows_call) {
        const size_t next = skip_blanks(text, s->at, n);
        const answer found = next < n ? stands_at(text, next, n, mark) : MAYBE;
        if (found == MAYBE && !is_whole) return false;
        if (found == YES || next == n) s->at = next;
    }
    const size_t begin = find(text, s->at, n, mark, is_whole);
    if (begin > s->at) {
        *goes_on = true;
        return give_text(s, begin, out);
    }
    if (begin == n || stands_at(text, begin, n, mark) != YES) return false;
    look_for_value(s, begin + strlen(mark));
    *goes_on = true;
    return false;
}

static void begin_value(pf_tool_scan *s)
{
    s->value = s->look;
    s->depth = 0;
    s->in_string = s->is_escaped = false;
    s->state = VALUE;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

static bool open_tags(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    const answer tag = s->look < n ? stands_at(text, s->look, n, tags_open) : NO;
    if (tag == NO || (tag == MAYBE && is_whole)) return give_up(s, out);
    *goes_on = tag == YES;
    if (tag == MAYBE) return false;
    s->look += sizeof tags_open - 1;
    s->value = s->look;
    s->state = TAGS;
    return false;
}

/* Looks for the end of a function. */
static bool step_tags(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    s->look = find(text, s->look, n, tags_close, is_whole);
    const answer close = s->look < n ? stands_at(text, s->look, n, tags_close) : NO;
    *goes_on = close == YES || is_whole;
    if (close == YES) {
        s->look += sizeof tags_close - 1;
        s->state = AFTER;
    } else if (is_whole) {
        return give_up(s, out);
    }
    return false;
}

static bool step_open(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    s->look = skip_blanks(text, s->look, n);
    if (s->look == n && !is_whole) return false;
    *goes_on = true;
    if (s->format == PF_TOOLS_LLAMA && s->look < n) {
        if (s->n_calls > 0 && text[s->look] == ';') {
            s->look++;
            return false;
        }
        const answer tag = stands_at(text, s->look, n, llama_open);
        if (tag == MAYBE && !is_whole) *goes_on = false;
        if (tag == YES) s->look += sizeof llama_open - 1;
        if (tag == YES || (tag == MAYBE && !is_whole)) return false;
    }
    if (s->format == PF_TOOLS_TAGS) return open_tags(s, text, n, is_whole, out, goes_on);
    const char c = s->look < n ? text[s->look] : '\0';
    if (c == '{' || (c == '[' && s->format == PF_TOOLS_MISTRAL)) {
        begin_value(s);
        return false;
    }
    if (s->format == PF_TOOLS_MISTRAL && is_name_byte(c)) {
        s->name[0] = s->look;
        s->state = NAME;
        return false;
    }
    if (s->follows_call && skip_blanks(text, s->at, n) == n) { /* blanks alone */
        s->at = n;
        *goes_on = false;
        return false;
    }
    return give_up(s, out);
}

static bool step_name(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    while (s->look < n && is_name_byte(text[s->look]) && s->look - s->name[0] < MAX_NAME_BYTES) s->look++;
    const answer found = s->look < n ? stands_at(text, s->look, n, mistral_args) : MAYBE;
    if (found == MAYBE && !is_whole) return false;
    *goes_on = true;
    const size_t end = s->look, value = skip_blanks(text, found == YES ? end + sizeof mistral_args - 1 : end, n);
    if (value == n && !is_whole) {
        *goes_on = false;
        return false;
    }
    if (value == n || text[value] != '{') return give_up(s, out);
    s->name[1] = end;
    s->look = value;
    begin_value(s);
    return false;
}

/* The value has ended at s->look. */
static bool step_after(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    size_t end = s->look;
    if (has_tags(s->format)) {
        const size_t close = skip_blanks(text, end, n);
        const answer found = close < n ? stands_at(text, close, n, hermes_close) : MAYBE;
        if (found == MAYBE && !is_whole) return false;
        if (found == YES) end = close + sizeof hermes_close - 1;
    }
    *goes_on = true;
    json_t *list = read_value(s, text, s->look);
    if (!list) return give_up(s, out);
    json_decref(s->list);
    s->list = list;
    s->n_given = 0;
    s->at = end;
    s->state = GIVE;
    return false;
}

static bool step_give(pf_tool_scan *s, pf_tool_part *out, bool *goes_on)
{
    *goes_on = true;
    if (s->n_given < json_array_size(s->list)) return give(s, out);
    s->follows_call = true;
    if (s->format == PF_TOOLS_LLAMA)
        look_for_value(s, s->at);
    else
        s->state = TEXT;
    return false;
}

static bool step(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out, bool *goes_on)
{
    switch (s->state) {
    case TEXT: return step_text(s, text, n, is_whole, out, goes_on);
    case OPEN: return step_open(s, text, n, is_whole, out, goes_on);
    case NAME: return step_name(s, text, n, is_whole, out, goes_on);
    case TAGS: return step_tags(s, text, n, is_whole, out, goes_on);
    case AFTER: return step_after(s, text, n, is_whole, out, goes_on);
    case GIVE: return step_give(s, out, goes_on);
    case VALUE:
        *goes_on = true;
        if (end_value(s, text, n))
            s->state = AFTER;
        else if (is_whole)
            return give_up(s, out);
        else
            *goes_on = false;
        return false;
    default: return give_text(s, n, out);
    }
}

bool pf_tool_scan_next(pf_tool_scan *s, const char *text, size_t n, bool is_whole, pf_tool_part *out)
{
    bool goes_on = true;
    while (goes_on) {
        goes_on = false;
        if (step(s, text, n, is_whole, out, &goes_on)) return true;
    }
    return false;
}
