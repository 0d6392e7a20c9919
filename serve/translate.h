/*
 * Turns requests of other APIs into chat completions: OpenAI's responses, and Anthropic's messages. What these call otherwise is
 * renamed, what they have in another form is changed, and the rest keeps its name, so that what is not supported is refused by it.
 *
 * Source: OpenAI API reference, "Responses"; Anthropic API reference, "Messages".
 */
#ifndef PF_SERVE_TRANSLATE_H
#define PF_SERVE_TRANSLATE_H

#include "serve/api_request.h"

/* The body of a chat completion. NULL: refused. The caller ends it with json_decref. */
json_t *pf_api_translate_response(const json_t *root, pf_api_error *error);
json_t *pf_api_translate_message(const json_t *root, pf_api_error *error);

#endif
