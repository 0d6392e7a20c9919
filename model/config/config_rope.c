/* Reads RoPE's dictionary as transformers 4 (rope_scaling) and 5 (rope_parameters) write it. rope_scaling.c computes the
 * frequencies. */
#include "model/config/config_parts.h"

#include <math.h>
#include <string.h>

static const char *const ROPE_FIELDS[] = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "short_factor",
    "long_factor",
    "low_freq_factor",
    "high_freq_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "partial_rotary_factor",
    "llama_4_scaling_beta",
    "max_position_embeddings", /* written beside it; the one of the model counts */
    "finetuned",               /* written by the first YaRN models; read by nothing since */
    NULL,
};

static const char *const ROPE_TYPES[] = {
    [PF_ROPE_DEFAULT] = "default", [PF_ROPE_LINEAR] = "linear", [PF_ROPE_DYNAMIC] = "dynamic",
    [PF_ROPE_LLAMA3] = "llama3",   [PF_ROPE_YARN] = "yarn",     [PF_ROPE_LONGROPE] = "longrope",
};
enum { N_ROPE_TYPES = sizeof ROPE_TYPES / sizeof *ROPE_TYPES };

/* yarn_is_longrope: as in the first files of Phi-3, which have "su" and "yarn" for it. */
static pf_status read_rope_type(const pf_json *dict, bool yarn_is_longrope, pf_rope_type *out, pf_error *error)
{
    const char *type = NULL, *old = NULL;
    PF_TRY(pf_json_get_string(dict, dict->root, "rope_type", false, &type, error));
    PF_TRY(pf_json_get_string(dict, dict->root, "type", false, &old, error));
    if (type && old && strcmp(type, old) != 0)
        return pf_fail(error, PF_FORMAT,
                       "%s: rope_type is \"%.40s\" and type \"%.40s\", expected one or the same twice", dict->name,
                       type, old);
    const char *field = type || !old ? "rope_type" : "type";
    if (!type) type = old ? old : ROPE_TYPES[PF_ROPE_DEFAULT];
    if (strcmp(type, "su") == 0 || (yarn_is_longrope && strcmp(type, "yarn") == 0)) type = ROPE_TYPES[PF_ROPE_LONGROPE];
    for (int i = 0; i < N_ROPE_TYPES; i++) {
        if (strcmp(type, ROPE_TYPES[i]) != 0) continue;
        *out = (pf_rope_type)i;
        return PF_OK;
    }
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s: %s is \"%.40s\", which is not known (known: default, linear, dynamic, llama3, yarn, longrope)",
                   dict->name, field, type);
}

pf_status pf_config_read_positions(const pf_json *doc, const char *field, double *positions, pf_error *error)
{
    int64_t value = 0;
    PF_TRY(pf_json_get_int(doc, doc->root, field, false, 1, INT64_MAX, &value, error));
    if (value > 0) *positions = (double)value;
    return PF_OK;
}

/* Reads one list of longrope's divisors, [rotary_dim / 2]. */
static pf_status read_factors(const pf_json *dict, const char *field, int32_t n, float *out, pf_error *error)
{
    const json_t *list = json_object_get(dict->root, field);
    if (!json_is_array(list) || json_array_size(list) != (size_t)n)
        return pf_fail(error, PF_FORMAT, "%s: %s must be a list of %d numbers, as half the rotated dimensions",
                       dict->name, field, n);
    for (int32_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        const double value = json_number_value(item);
        if (!json_is_number(item) || !(value >= 1e-6 && value <= 1e9))
            return pf_fail(error, PF_FORMAT, "%s: %s[%d] must be a number from 1e-6 to 1e9", dict->name, field, i);
        out[i] = (float)value;
    }
    return PF_OK;
}

/* 0.1 * m * log(scale) + 1: the temperature of attention in a stretched context. Source: arXiv:2309.00071, 3.4. */
static double yarn_scale(double factor, double m)
{
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

static pf_status read_yarn(const pf_json *dict, pf_rope *rope, pf_error *error)
{
    double attention = (double)NAN, mscale = 0.0, mscale_all = 0.0, fast = 0.0, slow = 0.0;
    if (rope->theta < 1.000001) /* the formula divides by its logarithm */
        return pf_fail(error, PF_FORMAT, "%s: rope_theta is %.9g, expected 1.000001 or more for yarn", dict->name,
                       rope->theta);
    rope->truncate = true;
    PF_TRY(pf_json_get_double(dict, dict->root, "attention_factor", false, -1e6, 1e6, &attention, error));
    PF_TRY(pf_json_get_double(dict, dict->root, "mscale", false, -1e6, 1e6, &mscale, error));
    PF_TRY(pf_json_get_double(dict, dict->root, "mscale_all_dim", false, -1e6, 1e6, &mscale_all, error));
    PF_TRY(pf_json_get_double(dict, dict->root, "beta_fast", false, 0.0, 1e6, &fast, error));
    PF_TRY(pf_json_get_double(dict, dict->root, "beta_slow", false, 0.0, 1e6, &slow, error));
    PF_TRY(pf_json_get_bool(dict, dict->root, "truncate", false, &rope->truncate, error));

    rope->beta_fast = fast > 0.0 ? fast : 32.0; /* 0 means the default, as in transformers */
    rope->beta_slow = slow > 0.0 ? slow : 1.0;
    rope->attention_scale = yarn_scale(rope->factor, 1.0);
    if (mscale != 0.0 && mscale_all != 0.0)
        rope->attention_scale = yarn_scale(rope->factor, mscale) / yarn_scale(rope->factor, mscale_all);
    if (!isnan(attention)) rope->attention_scale = attention;
    if (!isfinite(rope->attention_scale))
        return pf_fail(error, PF_FORMAT, "%s: mscale_all_dim gives attention no finite scale", dict->name);
    return PF_OK;
}

static pf_status read_longrope(const pf_json *dict, int32_t rotary_dim, pf_rope *rope, pf_error *error)
{
    double attention = (double)NAN;
    PF_TRY(pf_json_get_double(dict, dict->root, "attention_factor", false, -1e6, 1e6, &attention, error));
    PF_TRY(read_factors(dict, "short_factor", rotary_dim / 2, rope->short_factor, error));
    PF_TRY(read_factors(dict, "long_factor", rotary_dim / 2, rope->long_factor, error));
    if (rope->factor > 1.0 && rope->original_max_position < 2.0)
        return pf_fail(error, PF_FORMAT, "%s: original_max_position_embeddings is 1, expected 2 or more for longrope",
                       dict->name);
    rope->attention_scale =
        rope->factor <= 1.0 ? 1.0 : sqrt(1.0 + log(rope->factor) / log(rope->original_max_position));
    if (!isnan(attention)) rope->attention_scale = attention;
    return PF_OK;
}

static pf_status read_llama3(const pf_json *dict, pf_rope *rope, pf_error *error)
{
    PF_TRY(pf_json_get_double(dict, dict->root, "low_freq_factor", true, 1e-6, 1e6, &rope->low_freq_factor, error));
    PF_TRY(pf_json_get_double(dict, dict->root, "high_freq_factor", true, 1e-6, 1e6, &rope->high_freq_factor, error));
    if (rope->low_freq_factor == rope->high_freq_factor)
        return pf_fail(error, PF_FORMAT, "%s: low_freq_factor and high_freq_factor are both %g, expected two values",
                       dict->name, rope->low_freq_factor);
    return PF_OK;
}

/* Reads `factor` and the context length before the extension. Where factor is absent, yarn and longrope use the ratio of the
 * two contexts. original_max_position_embeddings beside the RoPE dictionary takes precedence over the one in it, as in
 * transformers 5; 4 reads one or the other by type. */
static pf_status read_stretch(pf_reader *r, const pf_json *dict, pf_rope *rope)
{
    static const char original[] = "original_max_position_embeddings";
    if (rope->type == PF_ROPE_LLAMA3 || rope->type == PF_ROPE_YARN || rope->type == PF_ROPE_LONGROPE) {
        rope->original_max_position = r->row->original_positions ? r->row->original_positions : r->positions;
        PF_TRY(pf_config_read_positions(dict, original, &rope->original_max_position, r->error));
        PF_TRY(pf_config_read_positions(r->doc, original, &rope->original_max_position, r->error));
        if (rope->type != PF_ROPE_LLAMA3) rope->factor = r->positions / rope->original_max_position;
    }
    const bool required = rope->factor == 0.0;
    return pf_json_get_double(dict, dict->root, "factor", required, 1e-6, 1e6, &rope->factor, r->error);
}

/* The part of a head that is rotated, beside the dictionary and in it. */
static pf_status read_rotary_dim(pf_reader *r, const pf_json *dict, pf_config *c)
{
    const pf_architecture *row = r->row;
    const char *name, *source = row->rotary_dim_key;
    double part = row->rotary_factor > 0.0 ? row->rotary_factor : 1.0;
    PF_TRY(pf_key_name(r, PF_KEY_ROTARY_FACTOR, &name));
    if (name) PF_TRY(pf_key_double(r, name, 1e-6, 1.0, &part));
    PF_TRY(pf_json_get_double(dict, dict->root, "partial_rotary_factor", false, 1e-6, 1.0, &part, r->error));
    if (!name) name = pf_key_usual_name(row, PF_KEY_ROTARY_FACTOR);
    if (part != 1.0 && row->rotary_factor == 0.0)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: %s is %g, %s rotates whole heads", r->doc->name, name, part,
                       row->classes[0]);
    c->rotary_dim = (int32_t)((double)c->head_dim * part);
    if (source != NULL) {
        c->rotary_dim = row->rotary_dim;
        PF_TRY(pf_key_int(r, source, 2, c->head_dim, &c->rotary_dim));
    }
    if (c->rotary_dim >= 2 && c->rotary_dim <= c->head_dim && c->rotary_dim % 2 == 0) return PF_OK;
    return pf_fail(r->error, PF_FORMAT, "%s: %s leaves %d dimensions of a head to rotate, expected an even number",
                   r->doc->name, source ? source : name, c->rotary_dim);
}

static bool is_set(const json_t *value)
{
    return json_is_object(value) && json_object_size(value) > 0;
}

/* Values that are false in Python, which transformers takes for an absent dictionary. */
static bool is_false(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT: return json_object_size(value) == 0;
    case JSON_ARRAY: return json_array_size(value) == 0;
    case JSON_STRING: return json_string_length(value) == 0;
    case JSON_INTEGER:
    case JSON_REAL: return json_number_value(value) == 0.0;
    case JSON_TRUE: return false;
    default: return true;
    }
}

/* The root is NULL where there is no dictionary. */
static pf_status find_rope_dict(pf_reader *r, pf_json *out)
{
    static const char *const names[] = { "rope_scaling", "rope_parameters" }; /* the first that is set is read */
    *out = pf_json_within(r->doc, NULL, "%s", names[0]);
    for (int i = 0; i < 2; i++) {
        const json_t *dict = pf_key_find(r, names[i]);
        if (!is_set(dict) && !is_false(dict))
            return pf_fail(r->error, PF_FORMAT, "%s: %s must be an object or null", r->doc->name, names[i]);
        if (!out->root && is_set(dict)) *out = pf_json_within(r->doc, dict, "%s", names[i]);
    }
    if (out->root || !r->row->needs_rope_dict) return PF_OK;
    return pf_fail(r->error, PF_FORMAT, "%s: neither rope_parameters nor rope_scaling is there, expected one for %s",
                   r->doc->name, r->row->classes[0]);
}

static pf_status check_fields(const pf_json *dict, const char *const *known, pf_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(dict->root, key, value)
    {
        if (!json_is_null(value) && !pf_config_lists(known, key))
            return pf_fail(error, PF_UNSUPPORTED, "%s: the field %.80s is not known and could change the results",
                           dict->name, key);
    }
    return PF_OK;
}

/* Splits a dictionary with an entry for each type of layer, as transformers 5 writes it. One without them is that of the layers
 * with full attention. */
static pf_status split_dict(const pf_reader *r, pf_json dicts[PF_MAX_ROPES])
{
    static const char *const types[] = { "full_attention", "sliding_attention", NULL };
    const pf_json whole = dicts[0];
    dicts[1] = pf_json_within(&whole, NULL, "%s", types[1]);
    if (!r->row->two_ropes || (!json_object_get(whole.root, types[0]) && !json_object_get(whole.root, types[1])))
        return PF_OK;
    PF_TRY(check_fields(&whole, types, r->error));
    for (int i = 0; i < PF_MAX_ROPES; i++) {
        const json_t *dict = json_object_get(whole.root, types[i]);
        if (!is_set(dict) && !is_false(dict))
            return pf_fail(r->error, PF_FORMAT, "%s: %s must be an object or null", whole.name, types[i]);
        dicts[i] = pf_json_within(&whole, is_set(dict) ? dict : NULL, "%s", types[i]);
    }
    return PF_OK;
}

/* How long a session may grow: to the end of what scaling extends max_position_embeddings to at run time. Where layers with a
 * window keep a table of their own, max_position_embeddings counts with the scaling (Gemma 3). */
static int32_t longest_context(const pf_config *c)
{
    double tokens = c->max_position;
    if (c->n_ropes > 1) return c->max_position;
    if (c->ropes[0].type == PF_ROPE_LINEAR || c->ropes[0].type == PF_ROPE_DYNAMIC) tokens *= c->ropes[0].factor;
    if (c->ropes[0].type == PF_ROPE_YARN) tokens = c->ropes[0].original_max_position * c->ropes[0].factor;
    if (tokens < c->max_position) tokens = c->max_position;
    return tokens > PF_MAX_POSITIONS ? PF_MAX_POSITIONS : (int32_t)tokens;
}

/* Queries that grow with the position, by the original context. */
static pf_status read_query_growth(const pf_reader *r, const pf_json *dict, const pf_rope *rope, pf_plan *plan)
{
    double beta = 0.0;
    PF_TRY(pf_json_get_double(dict, dict->root, "llama_4_scaling_beta", false, 0.0, 1e6, &beta, r->error));
    if (beta == 0.0) return PF_OK;
    if (!r->row->grows_queries)
        return pf_fail(r->error, PF_UNSUPPORTED, "%s: llama_4_scaling_beta is %g, only 0 is known for %s", dict->name,
                       beta, r->row->classes[0]);
    if (rope->original_max_position < 1.0 || rope->original_max_position > PF_MAX_POSITIONS)
        return pf_fail(r->error, PF_FORMAT,
                       "%s: llama_4_scaling_beta needs original_max_position_embeddings of 1 to %d", dict->name,
                       PF_MAX_POSITIONS);
    plan->query_growth = (float)beta;
    plan->query_growth_step = (int32_t)rope->original_max_position;
    return PF_OK;
}

/* One table. rope->theta is the default. */
static pf_status read_table(pf_reader *r, const pf_json *dict, pf_config *c, pf_rope *rope)
{
    pf_error *error = r->error;
    rope->attention_scale = 1.0;
    PF_TRY(check_fields(dict, ROPE_FIELDS, error));
    PF_TRY(pf_json_get_double(dict, dict->root, "rope_theta", false, 1.0, 1e15, &rope->theta, error));
    PF_TRY(read_rope_type(dict, r->row->scales_by_longrope, &rope->type, error));
    if (rope->type != PF_ROPE_DEFAULT) PF_TRY(read_stretch(r, dict, rope));
    if (rope->type == PF_ROPE_LLAMA3) PF_TRY(read_llama3(dict, rope, error));
    if (rope->type == PF_ROPE_YARN) PF_TRY(read_yarn(dict, rope, error));
    if (rope->type == PF_ROPE_LONGROPE) PF_TRY(read_longrope(dict, c->rotary_dim, rope, error));
    if (rope->type == PF_ROPE_DYNAMIC && c->rotary_dim < 4)
        return pf_fail(error, PF_FORMAT, "%s: head_dim is %d, dynamic RoPE needs 4 or more", r->doc->name, c->head_dim);
    return read_query_growth(r, dict, rope, &c->plan);
}

pf_status pf_config_read_rope(pf_reader *r, pf_config *c)
{
    pf_json dicts[PF_MAX_ROPES];
    const char *theta_name;
    double thetas[PF_MAX_ROPES] = { r->theta, r->row->local_theta };
    PF_TRY(find_rope_dict(r, &dicts[0]));
    PF_TRY(split_dict(r, dicts));
    (void)pf_key_find(r, "original_max_position_embeddings");
    PF_TRY(pf_key_name(r, PF_KEY_THETA, &theta_name));
    if (theta_name) PF_TRY(pf_key_double(r, theta_name, 1.0, 1e15, &thetas[0]));
    if (r->row->two_ropes) PF_TRY(pf_key_double(r, "rope_local_base_freq", 1.0, 1e15, &thetas[1]));
    c->n_ropes = r->row->two_ropes ? PF_MAX_ROPES : 1;
    for (int32_t i = 0; i < c->n_ropes; i++) {
        PF_TRY(read_rotary_dim(r, &dicts[i], c));
        c->ropes[i].theta = thetas[i];
        PF_TRY(read_table(r, &dicts[i], c, &c->ropes[i]));
    }
    c->max_context = longest_context(c);
    return PF_OK;
}

const char *pf_rope_type_name(pf_rope_type type)
{
    return ROPE_TYPES[type];
}
