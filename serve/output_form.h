/*
 * Writes the form that a request wants of its text as a grammar (grammar/grammar.h): response_format, and a call of a tool that must be made.
 *
 * Source: OpenAI API reference, "response_format", "tool_choice". Pure; any thread.
 */
#ifndef PF_SERVE_OUTPUT_FORM_H
#define PF_SERVE_OUTPUT_FORM_H

#include <jansson.h>

#include "base/bytes.h"
#include "serve/api_error.h"
#include "serve/tool_calls.h"

/* {"type": "text" | "json_object" | "json_schema", ...}: appends its grammar, nothing for a text. The schema is in "json_schema" as
 * chat completions have it, or beside the type as responses do. False: refused. */
bool pf_api_write_format(const json_t *format, pf_bytes *out, pf_api_error *error);

/* A call of one of the tools, of that with the name where it is not NULL, in the form of the template. False: refused. */
bool pf_api_write_call(pf_tool_format format, bool names_before, const json_t *tools, const char *name, pf_bytes *out,
                       pf_api_error *error);

#endif
