/* JSON for the caller: a document in one piece, and the values in it that need care: bytes that are no text, 0/0. */
#ifndef PF_CLI_JSON_OUT_H
#define PF_CLI_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/output.h"

/* The document on one line, a real number with fifteen digits, as many as a double always keeps; takes the reference. Its
 * text is made whole before the first byte is written. Where memory was short, which pf_json_watch_memory lets it know
 * and of which a NULL document is a sign too, it is nothing and a sentence. Returns an exit status. */
PF_MUST_USE int pf_out_json(pf_out *out, json_t *document);

/* object.text = the bytes as UTF-8, what is not UTF-8 replaced by U+FFFD; then object.text_base64 has the bytes. */
void pf_json_set_text(json_t *object, const char *bytes, size_t n_bytes);

/* The bytes as a JSON string, what is not UTF-8 replaced; NULL: no memory. */
json_t *pf_json_text(const char *bytes, size_t n_bytes);

/* A number, or null where it is not finite: how a rate of 0/0 appears. */
json_t *pf_json_number(double value);
json_t *pf_json_float(float value); /* by its shortest decimal: 0.7f, which was an option, is 0.7 */
json_t *pf_json_ratio(double numerator, double denominator);
json_t *pf_json_ids(const int32_t *ids, int32_t n_ids);

#endif
