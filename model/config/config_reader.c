/* Reads the keys of config.json one by one, under the names of their architecture, and remembers which were read. */
#include <limits.h>
#include <string.h>

#include "model/config/config_parts.h"

/* The names that most families use. They count for all rows, beside the names that a row adds; for the last group only where a
 * row adds none. */
static const char *const USUAL_NAMES[PF_N_KEYS] = {
    [PF_KEY_VOCAB] = "vocab_size",
    [PF_KEY_HIDDEN] = "hidden_size",
    [PF_KEY_INTERMEDIATE] = "intermediate_size",
    [PF_KEY_LAYERS] = "num_hidden_layers",
    [PF_KEY_HEADS] = "num_attention_heads",
    [PF_KEY_KV_HEADS] = "num_key_value_heads",
    [PF_KEY_HEAD_DIM] = "head_dim",
    [PF_KEY_POSITIONS] = "max_position_embeddings",
    [PF_KEY_WINDOW] = "sliding_window",
    [PF_KEY_EXPERTS] = "num_local_experts",
    [PF_KEY_EXPERTS_USED] = "num_experts_per_tok",
    [PF_KEY_EXPERT_SIZE] = "moe_intermediate_size",
    [PF_KEY_EPS] = "rms_norm_eps",
    [PF_KEY_ACTIVATION] = "hidden_act",
    [PF_KEY_THETA] = "rope_theta",
    [PF_KEY_ROTARY_FACTOR] = "partial_rotary_factor",
};
static const pf_config_key FIRST_KEY_WITH_OWN_NAMES_ONLY = PF_KEY_EPS;

pf_status pf_reader_open(const pf_json *doc, const pf_architecture *row, pf_error *error, pf_reader *out)
{
    *out = (pf_reader){ .doc = doc, .row = row, .error = error, .theta = row->rope_theta };
    out->left = json_copy((json_t *)(uintptr_t)doc->root);
    if (out->left == NULL || json_object_size(out->left) != json_object_size(doc->root))
        return pf_fail(error, PF_NOMEM, "%s: no memory for its keys", doc->name);
    return PF_OK;
}

void pf_reader_close(pf_reader *r)
{
    json_decref(r->left);
    r->left = NULL;
}

const json_t *pf_key_find(pf_reader *r, const char *key)
{
    const json_t *value = json_object_get(r->doc->root, key);
    if (value != NULL) (void)json_object_del(r->left, key);
    return json_is_null(value) ? NULL : value;
}

pf_status pf_key_int(pf_reader *r, const char *key, int32_t min, int32_t max, int32_t *out)
{
    (void)pf_key_find(r, key);
    return pf_json_get_int32(r->doc, r->doc->root, key, false, min, max, out, r->error);
}

pf_status pf_key_double(pf_reader *r, const char *key, double min, double max, double *out)
{
    (void)pf_key_find(r, key);
    return pf_json_get_double(r->doc, r->doc->root, key, false, min, max, out, r->error);
}

pf_status pf_key_float(pf_reader *r, const char *key, double min, double max, float *out)
{
    double value = (double)*out;
    PF_TRY(pf_key_double(r, key, min, max, &value));
    *out = (float)value;
    return PF_OK;
}

pf_status pf_key_bool(pf_reader *r, const char *key, bool *out)
{
    (void)pf_key_find(r, key);
    return pf_json_get_bool(r->doc, r->doc->root, key, false, out, r->error);
}

pf_status pf_key_string(pf_reader *r, const char *key, const char **out)
{
    (void)pf_key_find(r, key);
    return pf_json_get_string(r->doc, r->doc->root, key, false, out, r->error);
}

/* ---- names ------------------------------------------------------------------------------------------------------------- */

/* The i-th name of a key: the row's, then the usual one. NULL: there is none. */
static const char *name_at(const pf_architecture *row, pf_config_key key, int i)
{
    const char *const *own = row->keys[key];
    int n = 0;
    while (n < PF_MAX_ALIASES && own[n]) n++;
    if (i < n) return own[i];
    return i == n && (n == 0 || key < FIRST_KEY_WITH_OWN_NAMES_ONLY) ? USUAL_NAMES[key] : NULL;
}

const char *pf_key_usual_name(const pf_architecture *row, pf_config_key key)
{
    return name_at(row, key, 0);
}

/* 10000 and 10000.0 are the same. */
static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b) != 0;
}

pf_status pf_key_name(pf_reader *r, pf_config_key key, const char **out)
{
    const char *first = NULL, *name;
    for (int i = 0; (name = name_at(r->row, key, i)) != NULL; i++) {
        const json_t *value = pf_key_find(r, name);
        if (value == NULL) continue;
        if (first == NULL) {
            first = name;
            continue;
        }
        const json_t *other = json_object_get(r->doc->root, first);
        if (is_same(value, other)) continue;
        char a[PF_SHOWN_BYTES], b[PF_SHOWN_BYTES];
        (void)pf_config_show(other, a);
        (void)pf_config_show(value, b);
        return pf_fail(r->error, PF_FORMAT, "%s: %s is %s and %s is %s, expected one or the same twice", r->doc->name,
                       first, a, name, b);
    }
    *out = first;
    return PF_OK;
}

pf_status pf_key_read(pf_reader *r, pf_config_key key, int32_t max, int32_t *out)
{
    const char *name;
    int32_t value = r->row->defaults[key];
    PF_TRY(pf_key_name(r, key, &name));
    if (name == NULL) name = pf_key_usual_name(r->row, key);
    PF_TRY(pf_json_get_int32(r->doc, r->doc->root, name, value == 0, 1, max, &value, r->error));
    *out = value;
    return PF_OK;
}
