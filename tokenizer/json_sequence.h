/*
 * Visits the parts of a normalizer, pre-tokenizer, decoder or post-processor in order, without recursion. Each is an object
 * with a "type", or {"type": "Sequence", LIST: [parts]}, which may nest. Also reads fields that several kinds of parts have.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_JSON_SEQUENCE_H
#define PF_TOKENIZER_JSON_SEQUENCE_H

#include "base/json.h"

enum { PF_MAX_CONTENT_BYTES = 4096 }; /* of a replacement text; real ones have a character or two */

/* `doc` is the part as a document; errors name it by field and type ("decoder: Strip"). */
typedef pf_status pf_json_part_fn(void *user, const pf_json *doc, const char *type, const json_t *part,
                                  pf_error *error);

/* `field` is the name of the whole in errors ("decoder"), `list` the name of a Sequence's list ("decoders"). A null or
 * absent node has no parts. PF_FORMAT, or an error of `visit`. */
PF_MUST_USE pf_status pf_json_visit_sequence(const pf_json *doc, const json_t *node, const char *field,
                                             const char *list, pf_json_part_fn *visit, void *user, pf_error *error);

/* Which pieces Metaspace gives a leading space. */
typedef enum { PF_PREPEND_ALWAYS, PF_PREPEND_FIRST, PF_PREPEND_NEVER, PF_N_SCHEMES } pf_prepend_scheme;

/* Reads prepend_scheme and the older add_prefix_space. PF_FORMAT: an unknown scheme, or the two contradict each other. */
PF_MUST_USE pf_status pf_json_get_scheme(const pf_json *doc, const json_t *part, pf_prepend_scheme *out,
                                         pf_error *error);

/* Reads a replacement text: [*n_bytes] and a terminating NUL, allocated with malloc. PF_FORMAT: not a string.
 * PF_UNSUPPORTED: longer than PF_MAX_CONTENT_BYTES. PF_NOMEM. */
PF_MUST_USE pf_status pf_json_get_content(const pf_json *doc, const json_t *part, const char *field, char **out,
                                          size_t *n_bytes, pf_error *error);

/* Reads a field that is one character: its UTF-8 [*n_bytes], owned by the document. PF_FORMAT: it is not one. */
PF_MUST_USE pf_status pf_json_get_character(const pf_json *doc, const json_t *part, const char *field, const char **out,
                                            size_t *n_bytes, pf_error *error);

#endif
