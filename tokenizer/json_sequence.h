/*
 * tokenizer.json builds its parts alike: an object with a "type", or {"type": "Sequence", LIST: [parts]}, which may
 * nest. This visits the parts in order, without recursion, and reads the one kind of field that JSON itself does not have.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_JSON_SEQUENCE_H
#define PF_TOKENIZER_JSON_SEQUENCE_H

#include "base/json.h"

/* `doc`: the part as a document, which errors name by its whole and its type ("decoder: Strip"). */
typedef pf_status pf_json_part_fn(void *user, const pf_json *doc, const char *type, const json_t *part,
                                  pf_error *error);

/* `field` is what errors call the whole ("decoder"), `list` the name of a Sequence's list ("decoders").
 * null or absent: no part. PF_FORMAT, or what `visit` returns. */
PF_MUST_USE pf_status pf_json_visit_sequence(const pf_json *doc, const json_t *node, const char *field,
                                             const char *list, pf_json_part_fn *visit, void *user, pf_error *error);

/* A field of a part that is one character: its UTF-8, [*n_bytes], the document's. PF_FORMAT: it is none. */
PF_MUST_USE pf_status pf_json_get_character(const pf_json *doc, const json_t *part, const char *field, const char **out,
                                            size_t *n_bytes, pf_error *error);

#endif
