/* Values of a document that is printed. */
#include "base/json_values.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"

json_t *pf_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *pf_json_float(float value)
{
    char decimal[32];
    for (int n_digits = FLT_DIG; n_digits <= FLT_DECIMAL_DIG; n_digits++) {
        snprintf(decimal, sizeof decimal, "%.*g", n_digits, (double)value);
        if (strtof(decimal, NULL) == value) break;
    }
    return pf_json_number(strtod(decimal, NULL));
}

json_t *pf_json_ratio(double numerator, double denominator)
{
    return denominator != 0.0 ? pf_json_number(numerator / denominator) : json_null();
}

json_t *pf_json_ids(const int32_t *ids, int32_t n_ids)
{
    json_t *array = json_array();
    for (int32_t i = 0; array && i < n_ids; i++) json_array_append_new(array, json_integer(ids[i]));
    return array;
}

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* RFC 4648, section 4. The caller frees. */
static char *base64(const unsigned char *bytes, size_t n)
{
    char *text = pf_json_malloc(n / 3 * 4 + 5);
    if (!text) return NULL;
    char *at = text;
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0u) |
                               (left > 2 ? (uint32_t)bytes[i + 2] : 0u);
        *at++ = base64_digits[group >> 18];
        *at++ = base64_digits[group >> 12 & 63];
        *at++ = left > 1 ? base64_digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? base64_digits[group & 63] : '=';
    }
    *at = '\0';
    return text;
}

/* *all_valid: nothing had to be replaced. */
static json_t *make_string(const char *bytes, size_t n_bytes, bool *all_valid)
{
    const size_t capacity = 3 * (n_bytes + 1);
    char *text = pf_json_malloc(capacity);
    if (!text) return NULL;
    const size_t n = pf_utf8_repair(bytes, n_bytes, text, capacity, all_valid);
    json_t *string = json_stringn(text, n);
    free(text);
    return string;
}

json_t *pf_json_text(const char *bytes, size_t n_bytes)
{
    bool all_valid;
    return make_string(bytes, n_bytes, &all_valid);
}

void pf_json_set_text(json_t *object, const char *bytes, size_t n_bytes)
{
    bool all_valid = true;
    json_object_set_new(object, "text", make_string(bytes, n_bytes, &all_valid));
    if (all_valid) return;
    char *encoded = base64((const unsigned char *)bytes, n_bytes);
    if (encoded) json_object_set_new(object, "text_base64", json_string(encoded));
    free(encoded);
}
