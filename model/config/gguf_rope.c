/* Builds the RoPE dictionary of a GGUF file. */
#include <stdio.h>
#include <string.h>

#include "model/config/gguf_config_parts.h"

#define FREQS         "rope_freqs.weight"
#define FACTORS_LONG  "rope_factors_long.weight"
#define FACTORS_SHORT "rope_factors_short.weight"

const char *const pf_gguf_rope_keys[] = { "rope.dimension_count",
                                          "rope.freq_base",
                                          "rope.scaling.type",
                                          "rope.scaling.factor",
                                          "rope.scaling.original_context_length",
                                          "rope.scaling.attn_factor",
                                          "rope.scaling.yarn_attn_factor",
                                          "rope.scaling.yarn_beta_fast",
                                          "rope.scaling.yarn_beta_slow",
                                          "rope.scaling.yarn_log_multiplier",
                                          "rope.scaling.finetuned",
                                          NULL };

bool pf_gguf_is_rope_tensor(const char *name)
{
    const char *end = strrchr(name, '.');
    if (strcmp(name, FREQS) == 0 || strcmp(name, FACTORS_LONG) == 0 || strcmp(name, FACTORS_SHORT) == 0) return true;
    return strncmp(name, "blk.", 4) == 0 && end != NULL && end - name > 14 &&
           strncmp(end - 14, ".attn_rot_embd", 14) == 0;
}

/* Sets a list of divisors of frequencies, F32 [half the rotated dimensions]. */
static pf_status set_divisors(const pf_gguf_builder *b, const pf_gguf_tensor *t, json_t *dict, const char *field)
{
    if (t->type != PF_GGML_F32 || t->n_dimensions != 1)
        return pf_fail(b->error, PF_FORMAT, "%s: tensor %s must be a vector of F32", pf_gguf_path(b->file), t->name);
    json_t *list = json_array();
    bool fits = list != NULL;
    for (int64_t i = 0; fits && i < t->shape[0]; i++) {
        float value;
        memcpy(&value, t->data + (size_t)i * sizeof value, sizeof value);
        if (!(value > 0.0f && value < 1e9f)) {
            json_decref(list);
            return pf_fail(b->error, PF_FORMAT, "%s: %s[%lld] is %g, expected a divisor above 0", pf_gguf_path(b->file),
                           t->name, (long long)i, (double)value);
        }
        fits = json_array_append_new(list, json_real((double)value)) == 0;
    }
    if (fits) return pf_gguf_builder_set(b, dict, field, list);
    json_decref(list);
    return pf_gguf_builder_no_memory(b);
}

static pf_status set_type(const pf_gguf_builder *b, json_t *dict, const char *type)
{
    return pf_gguf_builder_set(b, dict, "rope_type", json_string(type));
}

/* The divisors of Llama 3 as longrope has them: one set for every length, attention is not scaled. */
static pf_status set_one_set(const pf_gguf_builder *b, const pf_gguf_tensor *divisors, json_t *dict)
{
    PF_TRY(set_divisors(b, divisors, dict, "short_factor"));
    PF_TRY(set_divisors(b, divisors, dict, "long_factor"));
    PF_TRY(set_type(b, dict, "longrope"));
    PF_TRY(pf_gguf_builder_set(b, dict, "factor", json_real(1.0)));
    return pf_gguf_builder_set(b, dict, "attention_factor", json_real(1.0));
}

static pf_status set_longrope(const pf_gguf_builder *b, json_t *dict)
{
    const pf_gguf_tensor *few = pf_gguf_find_tensor(b->file, FACTORS_SHORT);
    const pf_gguf_tensor *many = pf_gguf_find_tensor(b->file, FACTORS_LONG);
    if (few == NULL || many == NULL)
        return pf_fail(b->error, PF_FORMAT, "%s: there is no tensor %s, which longrope needs", pf_gguf_path(b->file),
                       few == NULL ? FACTORS_SHORT : FACTORS_LONG);
    PF_TRY(set_divisors(b, few, dict, "short_factor"));
    PF_TRY(set_divisors(b, many, dict, "long_factor"));
    PF_TRY(set_type(b, dict, "longrope"));
    PF_TRY(pf_gguf_builder_copy(b, "rope.scaling.attn_factor", PF_GGUF_FIELD_NUMBER, false, dict, "attention_factor"));
    return pf_gguf_builder_copy(b, "rope.scaling.original_context_length", PF_GGUF_FIELD_INT, true, dict,
                                "original_max_position_embeddings");
}

/* yarn_attn_factor replaces the scale that follows from the factor, as in transformers, where the converter has it from. */
static pf_status set_yarn(const pf_gguf_builder *b, json_t *dict)
{
    static const pf_gguf_field fields[] = {
        { "rope.scaling.yarn_attn_factor", "attention_factor", PF_GGUF_FIELD_NUMBER },
        { "rope.scaling.yarn_beta_fast", "beta_fast", PF_GGUF_FIELD_NUMBER },
        { "rope.scaling.yarn_beta_slow", "beta_slow", PF_GGUF_FIELD_NUMBER },
    };
    double log_multiplier = 0.0;
    PF_TRY(set_type(b, dict, "yarn"));
    PF_TRY(pf_gguf_builder_copy(b, "rope.scaling.factor", PF_GGUF_FIELD_NUMBER, true, dict, "factor"));
    PF_TRY(pf_gguf_builder_copy(b, "rope.scaling.original_context_length", PF_GGUF_FIELD_INT, true, dict,
                                "original_max_position_embeddings"));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        PF_TRY(pf_gguf_builder_copy(b, fields[i].key, fields[i].kind, false, dict, fields[i].field));
    if (b->row->keeps_ramp) PF_TRY(pf_gguf_builder_set(b, dict, "truncate", json_false()));
    PF_TRY(pf_gguf_builder_number(b, "rope.scaling.yarn_log_multiplier", &log_multiplier));
    if (log_multiplier == 0.0) return PF_OK;
    PF_TRY(pf_gguf_builder_set(b, dict, "mscale", json_real(1.0)));
    return pf_gguf_builder_set(b, dict, "mscale_all_dim", json_real(log_multiplier));
}

/* Refuses a factor of attention where nothing reads it. */
static pf_status check_unscaled(const pf_gguf_builder *b, const char *name, const char *type)
{
    char key[PF_GGUF_KEY_BYTES];
    double value = 1.0;
    PF_TRY(pf_gguf_builder_number(b, name, &value));
    if (value == 1.0) return PF_OK;
    return pf_fail(b->error, PF_UNSUPPORTED, "%s: %s is %g, only 1 is known beside a scaling of type %s",
                   pf_gguf_path(b->file), pf_gguf_builder_key(b, name, key), value, type);
}

static pf_status set_by_type(const pf_gguf_builder *b, json_t *dict)
{
    char key[PF_GGUF_KEY_BYTES];
    pf_gguf_string type = { "none", 4 };
    const pf_gguf_tensor *divisors = pf_gguf_find_tensor(b->file, FREQS);
    pf_gguf_builder_key(b, "rope.scaling.type", key);
    PF_TRY(pf_gguf_get_string(b->file, key, false, &type, b->error));
    const bool is_none = pf_gguf_string_is(type, "none"), is_yarn = pf_gguf_string_is(type, "yarn");
    const bool is_linear = pf_gguf_string_is(type, "linear");
    if (divisors != NULL ? !is_none : !is_none && !is_yarn && !is_linear)
        return pf_fail(b->error, PF_UNSUPPORTED, "%s: %s is \"%.*s\"%s, expected none, linear, yarn or longrope",
                       pf_gguf_path(b->file), key, type.n_bytes < 40 ? (int)type.n_bytes : 40, type.text,
                       divisors != NULL ? " beside " FREQS : "");
    PF_TRY(check_unscaled(b, "rope.scaling.attn_factor", is_yarn ? "yarn" : is_linear ? "linear" : "none"));
    if (divisors != NULL) return set_one_set(b, divisors, dict);
    if (is_none) return set_type(b, dict, "default");
    if (is_yarn) return set_yarn(b, dict);
    PF_TRY(set_type(b, dict, "linear"));
    return pf_gguf_builder_copy(b, "rope.scaling.factor", PF_GGUF_FIELD_NUMBER, true, dict, "factor");
}

static pf_status set_scaling(const pf_gguf_builder *b, json_t *dict)
{
    char key[PF_GGUF_KEY_BYTES];
    pf_gguf_string type = { "none", 4 };
    pf_gguf_builder_key(b, "rope.scaling.type", key);
    PF_TRY(pf_gguf_get_string(b->file, key, false, &type, b->error));
    const bool has_factors = pf_gguf_find_tensor(b->file, FACTORS_LONG) || pf_gguf_find_tensor(b->file, FACTORS_SHORT);
    const bool is_longrope = pf_gguf_string_is(type, "longrope");
    if (is_longrope || (has_factors && pf_gguf_string_is(type, "none"))) return set_longrope(b, dict);
    if (!has_factors) return set_by_type(b, dict);
    return pf_fail(b->error, PF_UNSUPPORTED, "%s: %s is \"%.*s\" beside " FACTORS_LONG ", expected longrope",
                   pf_gguf_path(b->file), key, type.n_bytes < 40 ? (int)type.n_bytes : 40, type.text);
}

/* The rotated part of a head. Its size is a whole number again once the part is multiplied by head_dim and rounded down. */
static pf_status set_part(const pf_gguf_builder *b, json_t *dict)
{
    char key[PF_GGUF_KEY_BYTES];
    const json_int_t head_dim = pf_gguf_builder_int(b, "head_dim");
    int64_t n_rotated = head_dim;
    pf_gguf_builder_key(b, "rope.dimension_count", key);
    PF_TRY(pf_gguf_get_int(b->file, key, false, b->row->is_partial ? 1 : head_dim, head_dim, &n_rotated, b->error));
    const double part = n_rotated == head_dim ? 1.0 : ((double)n_rotated + 0.5) / (double)head_dim;
    return pf_gguf_builder_set(b, dict, "partial_rotary_factor", json_real(part));
}

static pf_status set_table(const pf_gguf_builder *b, json_t *dict, const char *base_name)
{
    double base = 10000.0; /* of llama.cpp, whatever the class has */
    PF_TRY(pf_gguf_builder_number(b, base_name, &base));
    PF_TRY(pf_gguf_builder_set(b, dict, "rope_theta", json_real(base)));
    return set_part(b, dict);
}

pf_status pf_gguf_builder_set_rope(const pf_gguf_builder *b)
{
    json_t *whole = json_object(), *dict = whole;
    PF_TRY(pf_gguf_builder_set(b, b->root, "rope_parameters", whole)); /* owned by the document from here on */
    if (b->row->has_two_ropes) {
        json_t *local = json_object();
        PF_TRY(pf_gguf_builder_set(b, whole, "sliding_attention", local));
        PF_TRY(set_type(b, local, "default"));
        PF_TRY(set_table(b, local, "rope.freq_base_swa"));
        dict = json_object();
        PF_TRY(pf_gguf_builder_set(b, whole, "full_attention", dict));
    }
    PF_TRY(set_table(b, dict, "rope.freq_base"));
    return set_scaling(b, dict);
}
