/*
 * Finds the calls of tools in the text that a model makes, in the form that its chat template teaches it.
 *
 *      Hermes, Qwen   text <tool_call>{"name": ..., "arguments": {...}}</tool_call> ...
 *      Qwen3-Coder    text <tool_call><function=NAME><parameter=KEY>VALUE</parameter> ...</function></tool_call> ...  (serve/tool_tags.h)
 *      Llama 3        {"name": ..., "parameters": {...}} from the beginning on, several with ; between, also after <|python_tag|>
 *      Mistral        text [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...], or NAME[ARGS]{...} behind each [TOOL_CALLS]
 *
 * The text comes piece by piece: what may be the begin of a call is held back until it is one or is not. What is no valid call of a tool
 * that the request names stays text.
 *
 * Source: the chat templates of the models; vLLM documentation, "Tool calling".
 * Threads: a scan is used by one at a time.
 */
#ifndef PF_SERVE_TOOL_CALLS_H
#define PF_SERVE_TOOL_CALLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jinja/chat_template.h"

typedef enum {
    PF_TOOLS_NONE,
    PF_TOOLS_HERMES,
    PF_TOOLS_TAGS,
    PF_TOOLS_LLAMA,
    PF_TOOLS_MISTRAL
} pf_tool_format; /* TAGS: of Qwen3-Coder */

/* The form of a template, by its text; NULL: none. */
pf_tool_format pf_tool_format_of(const pf_chat_template *chat);

/* Special tokens that mark calls and so are text: NULL ends the list. Static. */
const char *const *pf_tool_format_marks(pf_tool_format format);

typedef struct {
    pf_tool_format format;
    const json_t *tools; /* borrowed: of a chat completion */
    size_t at;           /* bytes that are decided */
    int32_t n_calls;
    int32_t state;  /* the rest is internal */
    size_t look;    /* what has been looked at of it */
    size_t value;   /* its JSON, or what is behind its first tag, once that has begun */
    size_t name[2]; /* its name where that is outside of the JSON: begin and end */
    int32_t depth;
    bool in_string, is_escaped, follows_call; /* follows_call: or nothing */
    json_t *list;                             /* calls that are known and not yet given out */
    size_t n_given;
} pf_tool_scan;

typedef struct {
    bool is_call;
    size_t begin, end;      /* of the text */
    char *name, *arguments; /* of a call: the arguments are a JSON object. The caller frees both */
} pf_tool_part;

/* Format NONE: all is text. End it with pf_tool_scan_end. */
void pf_tool_scan_begin(pf_tool_scan *scan, pf_tool_format format, const json_t *tools);
void pf_tool_scan_end(pf_tool_scan *scan); /* zeroed is fine */

/* The next part of text [n_bytes], which begins with what earlier calls have had. is_whole: nothing follows. False: nothing more is
 * decided. A call for which there is no memory is left out. */
bool pf_tool_scan_next(pf_tool_scan *scan, const char *text, size_t n_bytes, bool is_whole, pf_tool_part *out);

#endif
