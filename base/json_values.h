/* Makes JSON values that need care: bytes that are no text, rates of 0/0, short decimals. */
#ifndef PF_BASE_JSON_VALUES_H
#define PF_BASE_JSON_VALUES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

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
