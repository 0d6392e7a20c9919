/* What comes in: a prompt as text or as ids, from an option, a file or standard input. */
#ifndef PF_CLI_INPUT_H
#define PF_CLI_INPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "cli/options.h"
#include "tokenizer/tokenizer.h"

/* The ids of a prompt that is a text, from -p or -f, appended to *out.
 * PF_INVALID: the model has no tokenizer (NULL).  PF_UNAVAILABLE: the file cannot be read.  Also as pf_input_encode. */
PF_MUST_USE pf_status pf_input_read_prompt(const pf_options *options, const pf_tokenizer *tokenizer, pf_tokens *out,
                                           pf_error *error);

/* Renders the conversation of --chat FILE with the chat template of a directory, and appends the text's ids to *out; nothing is
 * added to what the template gives. The text goes to *text, which the caller clears.
 * PF_FORMAT: the file is no JSON, or no conversation.  Also as pf_chat_template_open, pf_chat_template_render,
 * pf_input_read and pf_input_encode. */
PF_MUST_USE pf_status pf_input_read_chat(const char *path, const char *directory, const pf_tokenizer *tokenizer,
                                         pf_bytes *text, pf_tokens *out, pf_error *error);

/* All of --tokens. PF_INVALID: one is none of the n_ids there are. */
PF_MUST_USE pf_status pf_input_check_ids(const pf_tokens *ids, int32_t n_ids, pf_error *error);

/* Append a text's ids to *out. The sentence of what pf_tokenizer_encode refuses. PF_CANCELLED: interrupted. */
PF_MUST_USE pf_status pf_input_encode(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
                                      pf_tokens *out, pf_error *error);

/* Until a read would not wait, or fail: a signal that came just before it would not end it. False: interrupted. */
bool pf_input_wait(int descriptor);

/* All of a file, of a pipe (waits for a writer and for its end), or of standard input, which is called "-"; a
 * NUL stands behind it, and the caller frees it. PF_UNAVAILABLE: cannot be opened or read.  PF_LIMIT: more than 256 MiB.
 * PF_NOMEM.  PF_CANCELLED: interrupted. */
PF_MUST_USE pf_status pf_input_read(const char *path, char **out, size_t *n_bytes, pf_error *error);

/* The document of such a file, of which the caller drops the reference. PF_FORMAT: it is no JSON.  Also as pf_input_read. */
PF_MUST_USE pf_status pf_input_read_json(const char *path, json_t **out, pf_error *error);

/* What sentences call it. */
const char *pf_input_name(const char *path);

#endif
