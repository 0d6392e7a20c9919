/* Reads values of the metadata by key. Sizes were checked when the file was opened. */
#include <math.h>
#include <stdlib.h>

#include "gguf/gguf_parts.h"

static const struct {
    const char *name;
    size_t bytes;
} KINDS[PF_N_GGUF_KINDS] = {
    [PF_GGUF_U8] = { "u8", 1 },       [PF_GGUF_I8] = { "i8", 1 },     [PF_GGUF_U16] = { "u16", 2 },
    [PF_GGUF_I16] = { "i16", 2 },     [PF_GGUF_U32] = { "u32", 4 },   [PF_GGUF_I32] = { "i32", 4 },
    [PF_GGUF_F32] = { "f32", 4 },     [PF_GGUF_BOOL] = { "bool", 1 }, [PF_GGUF_STRING] = { "string", 0 },
    [PF_GGUF_ARRAY] = { "array", 0 }, [PF_GGUF_U64] = { "u64", 8 },   [PF_GGUF_I64] = { "i64", 8 },
    [PF_GGUF_F64] = { "f64", 8 },
};

size_t pf_gguf_kind_bytes(pf_gguf_kind kind)
{
    return KINDS[kind].bytes;
}

/* ---- values ---- */

/* False: the kind is no integer, or the value is beyond int64_t. */
static bool read_int(const uint8_t *at, pf_gguf_kind kind, int64_t *out)
{
    const uint64_t bits = pf_gguf_read_le(at, KINDS[kind].bytes);
    switch (kind) {
    case PF_GGUF_I8: *out = (int64_t)(bits ^ 0x80) - 0x80; return true;
    case PF_GGUF_I16: *out = (int16_t)bits; return true;
    case PF_GGUF_I32: *out = (int32_t)bits; return true;
    case PF_GGUF_I64: *out = (int64_t)bits; return true;
    case PF_GGUF_U8:
    case PF_GGUF_U16:
    case PF_GGUF_U32:
    case PF_GGUF_U64: *out = (int64_t)bits; return bits <= INT64_MAX;
    default: return false;
    }
}

static bool read_number(const uint8_t *at, pf_gguf_kind kind, double *out)
{
    int64_t integer;
    float single;
    if (kind == PF_GGUF_F32) {
        const uint32_t bits = (uint32_t)pf_gguf_read_le(at, 4);
        memcpy(&single, &bits, sizeof single);
        *out = (double)single;
        return true;
    }
    if (kind == PF_GGUF_F64) {
        const uint64_t bits = pf_gguf_read_le(at, 8);
        memcpy(out, &bits, sizeof bits);
        return true;
    }
    if (!read_int(at, kind, &integer)) return false;
    *out = (double)integer;
    return true;
}

/* ---- keys ---- */

static int compare_key(const void *name, const void *key)
{
    return strcmp(name, ((const pf_gguf_key *)key)->name);
}

const pf_gguf_key *pf_gguf_find_key(const pf_gguf *file, const char *name)
{
    return file->n_keys == 0 ? NULL : bsearch(name, file->keys, file->n_keys, sizeof *file->keys, compare_key);
}

size_t pf_gguf_n_keys(const pf_gguf *file)
{
    return file->n_keys;
}

const char *pf_gguf_key_at(const pf_gguf *file, size_t i)
{
    return file->keys[i].name;
}

bool pf_gguf_has(const pf_gguf *file, const char *key)
{
    return pf_gguf_find_key(file, key) != NULL;
}

/* *out: the key, or NULL where it is absent and need not be there. */
static pf_status find(const pf_gguf *file, const char *name, bool required, const pf_gguf_key **out, pf_error *error)
{
    *out = pf_gguf_find_key(file, name);
    if (*out != NULL || !required) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: the metadata has no %s", pf_gguf_path(file), name);
}

static pf_status fail_kind(const pf_gguf *file, const pf_gguf_key *key, const char *expected, pf_error *error)
{
    return pf_fail(error, PF_FORMAT, "%s: %s is of type %s, expected %s", pf_gguf_path(file), key->name,
                   KINDS[key->kind].name, expected);
}

pf_status pf_gguf_get_int(const pf_gguf *file, const char *name, bool required, int64_t min, int64_t max, int64_t *out,
                          pf_error *error)
{
    const pf_gguf_key *key;
    int64_t value = 0;
    PF_TRY(find(file, name, required, &key, error));
    if (key == NULL) return PF_OK;
    if (KINDS[key->kind].bytes == 0 || !read_int(key->value, key->kind, &value))
        return fail_kind(file, key, "an integer below 2^63", error);
    if (value < min || value > max)
        return pf_fail(error, PF_FORMAT, "%s: %s is %lld, expected %lld to %lld", pf_gguf_path(file), name,
                       (long long)value, (long long)min, (long long)max);
    *out = value;
    return PF_OK;
}

pf_status pf_gguf_get_number(const pf_gguf *file, const char *name, bool required, double min, double max, double *out,
                             pf_error *error)
{
    const pf_gguf_key *key;
    double value = 0.0;
    PF_TRY(find(file, name, required, &key, error));
    if (key == NULL) return PF_OK;
    if (KINDS[key->kind].bytes == 0 || !read_number(key->value, key->kind, &value))
        return fail_kind(file, key, "a number", error);
    if (!(value >= min && value <= max))
        return pf_fail(error, PF_FORMAT, "%s: %s is %g, expected %g to %g", pf_gguf_path(file), name, value, min, max);
    *out = value;
    return PF_OK;
}

pf_status pf_gguf_get_bool(const pf_gguf *file, const char *name, bool required, bool *out, pf_error *error)
{
    const pf_gguf_key *key;
    PF_TRY(find(file, name, required, &key, error));
    if (key == NULL) return PF_OK;
    if (key->kind != PF_GGUF_BOOL) return fail_kind(file, key, "bool", error);
    if (*key->value > 1)
        return pf_fail(error, PF_FORMAT, "%s: %s is %d, expected 0 or 1", pf_gguf_path(file), name, *key->value);
    *out = *key->value == 1;
    return PF_OK;
}

pf_status pf_gguf_get_string(const pf_gguf *file, const char *name, bool required, pf_gguf_string *out, pf_error *error)
{
    const pf_gguf_key *key;
    PF_TRY(find(file, name, required, &key, error));
    if (key == NULL) return PF_OK;
    if (key->kind != PF_GGUF_STRING) return fail_kind(file, key, "string", error);
    *out = (pf_gguf_string){ (const char *)key->value, (size_t)key->n };
    return PF_OK;
}

pf_status pf_gguf_get_array(const pf_gguf *file, const char *name, bool required, pf_gguf_array *out, pf_error *error)
{
    const pf_gguf_key *key;
    PF_TRY(find(file, name, required, &key, error));
    if (key == NULL) return PF_OK;
    if (key->kind != PF_GGUF_ARRAY) return fail_kind(file, key, "array", error);
    *out = (pf_gguf_array){
        .kind = key->element, .n = (size_t)key->n, .next = key->value, .path = pf_gguf_path(file), .key = key->name
    };
    return PF_OK;
}

/* ---- strings and elements ---- */

bool pf_gguf_string_is(pf_gguf_string string, const char *text)
{
    return string.n_bytes == strlen(text) && memcmp(string.text, text, string.n_bytes) == 0;
}

pf_gguf_string pf_gguf_next_string(pf_gguf_array *array)
{
    const pf_gguf_string s = { (const char *)array->next + 8, (size_t)pf_gguf_read_le(array->next, 8) };
    array->next += 8 + s.n_bytes;
    return s;
}

pf_status pf_gguf_array_int(const pf_gguf_array *array, size_t i, int64_t min, int64_t max, int64_t *out,
                            pf_error *error)
{
    int64_t value = 0;
    const size_t bytes = KINDS[array->kind].bytes;
    if (bytes == 0 || !read_int(array->next + i * bytes, array->kind, &value))
        return pf_fail(error, PF_FORMAT, "%s: %s has elements of type %s, expected integers", array->path, array->key,
                       KINDS[array->kind].name);
    if (value < min || value > max)
        return pf_fail(error, PF_FORMAT, "%s: %s[%zu] is %lld, expected %lld to %lld", array->path, array->key, i,
                       (long long)value, (long long)min, (long long)max);
    *out = value;
    return PF_OK;
}

pf_status pf_gguf_array_number(const pf_gguf_array *array, size_t i, double *out, pf_error *error)
{
    double value = 0.0;
    const size_t bytes = KINDS[array->kind].bytes;
    if (bytes == 0 || !read_number(array->next + i * bytes, array->kind, &value) || !isfinite(value))
        return pf_fail(error, PF_FORMAT, "%s: %s[%zu] of type %s is no finite number", array->path, array->key, i,
                       KINDS[array->kind].name);
    *out = value;
    return PF_OK;
}
