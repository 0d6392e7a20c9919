/*
 * Reads a call of a tool whose arguments stand between tags, as the template of Qwen3-Coder teaches it:
 *
 *      <function=NAME>
 *      <parameter=KEY>
 *      VALUE
 *      </parameter>
 *      </function>
 *
 * A value is JSON where the tool's schema says that the parameter is no string, and text otherwise.
 *
 * Source: the chat template of Qwen3-Coder. Pure; any thread.
 */
#ifndef PF_SERVE_TOOL_TAGS_H
#define PF_SERVE_TOOL_TAGS_H

#include <jansson.h>
#include <stddef.h>

/* text [n_bytes]: from behind "<function=" to before "</function>". tools: of a chat completion. {"name", "arguments"}, which the caller
 * ends with json_decref; NULL: it is no call, or there is no memory. */
json_t *pf_tool_tags_read(const char *text, size_t n_bytes, const json_t *tools);

#endif
