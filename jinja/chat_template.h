/*
 * The chat template of a model: finds it beside the tokenizer, and renders a conversation with it as transformers'
 * apply_chat_template does.
 *
 *      chat_template.jinja, else chat_template.json, else "chat_template" of tokenizer_config.json: a template, or a list of
 *      named ones, of which "default" is taken, or "tool_use" where the conversation has tools
 *      GGUF: the key tokenizer.chat_template, and tokenizer.chat_template.tool_use
 *
 * Threads: any number may render.
 */
#ifndef PF_CHAT_TEMPLATE_H
#define PF_CHAT_TEMPLATE_H

#include <jansson.h>

#include "base/bytes.h"
#include "base/status.h"

typedef struct pf_chat_template pf_chat_template;

/* Reads the template and the special tokens of a directory, or of a GGUF file. PF_UNAVAILABLE: it has no template; the sentence
 * says where one was looked for.  Else as pf_json_open, pf_gguf_open and pf_jinja_parse. The caller ends it with
 * pf_chat_template_close. */
PF_MUST_USE pf_status pf_chat_template_open(const char *path, pf_chat_template **out, pf_error *error);
void pf_chat_template_close(pf_chat_template *chat); /* NULL is fine */

/* The same with the template of another file, in Jinja. Also as pf_file_read. */
PF_MUST_USE pf_status pf_chat_template_open_file(const char *path, const char *file, pf_chat_template **out,
                                                 pf_error *error);

/* Whether the text stands in the template, of several in that for tools: which form of calls it teaches. */
bool pf_chat_template_mentions(const pf_chat_template *chat, const char *text);

/* Renders a conversation: a list of messages, or an object with "messages" and, where they are wanted, "tools", "documents",
 * "add_generation_prompt" (true by default) and other variables of the template. Appends the text to *out.
 * PF_FORMAT: it is neither.  Else as pf_jinja_render. */
PF_MUST_USE pf_status pf_chat_template_render(const pf_chat_template *chat, const json_t *conversation, pf_bytes *out,
                                              pf_error *error);

#endif
