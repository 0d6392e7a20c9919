/*
 * tokenizer.json builds its parts alike: an object with a "type", or {"type": "Sequence", LIST: [parts]}, which may
 * nest. This visits the parts in order, without recursion, and reads fields that parts of several kinds have.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_JSON_SEQUENCE_H
#define PF_TOKENIZER_JSON_SEQUENCE_H

#include "base/json.h"

enum { PF_MAX_CONTENT_BYTES = 4096 }; /* of what a part writes: real ones write a character or two */

/* `doc`: the part as a document, which errors name by its whole and its type ("decoder: Strip"). */
typedef pf_status pf_json_part_fn(void *user, const pf_json *doc, const char *type, const json_t *part,
                                  pf_error *error);

/* `field` is what errors call the whole ("decoder"), `list` the name of a Sequence's list ("decoders").
 * null or absent: no part. PF_FORMAT, or what `visit` returns. */
PF_MUST_USE pf_status pf_json_visit_sequence(const pf_json *doc, const json_t *node, const char *field,
                                             const char *list, pf_json_part_fn *visit, void *user, pf_error *error);

/* Where Metaspace puts a space. */
typedef enum { PF_PREPEND_ALWAYS, PF_PREPEND_FIRST, PF_PREPEND_NEVER, PF_N_SCHEMES } pf_prepend_scheme;

/* From prepend_scheme, and add_prefix_space that was before it. PF_FORMAT: it is none, or the two say different things. */
PF_MUST_USE pf_status pf_json_get_scheme(const pf_json *doc, const json_t *part, pf_prepend_scheme *out,
                                         pf_error *error);

/* A field that is what is written for something: its bytes by malloc, [*n_bytes], with a NUL behind them. PF_FORMAT: no
 * string. PF_UNSUPPORTED: it is longer than PF_MAX_CONTENT_BYTES. PF_NOMEM. */
PF_MUST_USE pf_status pf_json_get_content(const pf_json *doc, const json_t *part, const char *field, char **out,
                                          size_t *n_bytes, pf_error *error);

/* A field of a part that is one character: its UTF-8, [*n_bytes], the document's. PF_FORMAT: it is none. */
PF_MUST_USE pf_status pf_json_get_character(const pf_json *doc, const json_t *part, const char *field, const char **out,
                                            size_t *n_bytes, pf_error *error);

#endif
