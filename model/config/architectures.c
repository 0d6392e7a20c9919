/* Finds the row of the table that a config.json asks for. The rows are in architectures_*.c, a file a family of names. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/config/config_parts.h"

static const pf_architecture_list *const LISTS[] = {
    &pf_llama_architectures, /* the first row is number 0 */
    &pf_qwen_architectures,  &pf_gemma_architectures,    &pf_gpt_architectures,  &pf_neox_architectures,
    &pf_moe_architectures,   &pf_phi_architectures,      &pf_norm_architectures, &pf_glm_architectures,
    &pf_bloom_architectures, &pf_baichuan_architectures,
};
enum { N_LISTS = sizeof LISTS / sizeof *LISTS };

/* NULL behind the last row. */
static const pf_architecture *row_at(int32_t id)
{
    for (int i = 0; i < N_LISTS; i++) {
        if (id < LISTS[i]->n) return &LISTS[i]->rows[id];
        id -= LISTS[i]->n;
    }
    return NULL;
}

const pf_architecture *pf_architecture_get(pf_architecture_id id)
{
    return row_at(id);
}

const char *pf_architecture_name(pf_architecture_id id)
{
    return row_at(id)->classes[0];
}

/* ---- the architecture of a file --------------------------------------------------------------------------------------- */

/* Each model_type once, for a sentence. */
static void list_types(char *out, size_t size)
{
    const char *last = "";
    const pf_architecture *row;
    out[0] = '\0';
    for (int32_t id = 0; (row = row_at(id)) != NULL; id++) {
        if (strcmp(row->model_types[0], last) != 0) pf_list_word(out, size, ", ", row->model_types[0]);
        last = row->model_types[0];
    }
}

/* The names of "architectures": a list, as transformers writes it, or one name alone. */
static pf_status read_names(const pf_json *doc, const json_t **names, size_t *n, pf_error *error)
{
    *names = json_object_get(doc->root, "architectures");
    const bool is_list = json_is_array(*names);
    *n = *names == NULL || json_is_null(*names) ? 0 : is_list ? json_array_size(*names) : 1;
    bool are_names = true;
    for (size_t i = 0; i < *n; i++) are_names &= json_is_string(is_list ? json_array_get(*names, i) : *names);
    return are_names
               ? PF_OK
               : pf_fail(error, PF_FORMAT, "%s: architectures must be a list of names, as LlamaForCausalLM", doc->name);
}

static const char *name_at(const json_t *names, size_t i)
{
    return json_string_value(json_is_array(names) ? json_array_get(names, i) : names);
}

/* Case is ignored: the first conversions have LLaMAForCausalLM. */
static bool is_class(const pf_architecture *row, const char *name)
{
    for (int i = 0; i < PF_MAX_CLASSES && row->classes[i]; i++)
        if (strcasecmp(name, row->classes[i]) == 0) return true;
    return false;
}

/* The length of the name of a family in the name of a class: 5 of LlamaForCausalLM, LlamaModel. 0: it has another form. */
static size_t family_length(const char *class_name)
{
    static const char *const endings[] = { "For", "LMHeadModel", "DoubleHeadsModel", "Model" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const char *at = strstr(class_name, endings[i]);
        if (at) return (size_t)(at - class_name);
    }
    return 0;
}

/* Whether a class of transformers has the decoder of the architecture. What it adds is no part of a causal model. */
static bool wraps(const pf_architecture *row, const char *name)
{
    const size_t n = family_length(row->classes[0]);
    return !row->in_text_config && n > 0 && family_length(name) == n && strncasecmp(name, row->classes[0], n) == 0;
}

static bool is_type(const pf_architecture *row, const char *model_type)
{
    for (int i = 0; i < PF_MAX_ALIASES && row->model_types[i]; i++)
        if (strcmp(model_type, row->model_types[i]) == 0) return true;
    return false;
}

/* The row with a class that is among the names, else with a decoder that one of them wraps; -1: none. */
static int32_t find_by_names(const pf_json *doc, const json_t *names, size_t n, bool *is_exact)
{
    const pf_architecture *row;
    for (int pass = 0; pass < 2; pass++)
        for (size_t k = 0; k < n; k++)
            for (int32_t id = 0; (row = row_at(id)) != NULL; id++) {
                *is_exact = pass == 0;
                if ((pass == 0 ? is_class : wraps)(row, name_at(names, k)) &&
                    (!row->matches || row->matches(doc->root)))
                    return id;
            }
    return -1;
}

static int32_t find_by_type(const pf_json *doc, const char *model_type)
{
    const pf_architecture *row;
    for (int32_t id = 0; (row = row_at(id)) != NULL; id++)
        if (is_type(row, model_type) && (!row->matches || row->matches(doc->root))) return id;
    return -1;
}

/* transformers selects by model_type and treats the names as a hint. Where the two disagree, one of them is wrong. */
pf_status pf_architecture_find(const pf_json *doc, const pf_load_policy *policy, pf_architecture_id *out,
                               pf_error *error)
{
    char known[384];
    list_types(known, sizeof known);
    const json_t *names;
    const char *model_type = NULL;
    size_t n;
    bool is_exact = true;
    PF_TRY(read_names(doc, &names, &n, error));
    PF_TRY(pf_json_get_string(doc, doc->root, "model_type", false, &model_type, error));
    if (n == 0 && !model_type)
        return pf_fail(error, PF_FORMAT, "%s: neither architectures nor model_type is there (known: %s)", doc->name,
                       known);
    const int32_t found = n > 0 ? find_by_names(doc, names, n, &is_exact) : find_by_type(doc, model_type);
    if (found < 0)
        return pf_fail(error, PF_UNSUPPORTED, "%s: the architecture %.80s is not known (known: %s)", doc->name,
                       n > 0 ? name_at(names, 0) : model_type, known);
    const pf_architecture *row = row_at(found);
    if (model_type && !is_type(row, model_type))
        return pf_fail(error, PF_FORMAT, "%s: model_type is \"%.60s\", expected \"%s\" for %s", doc->name, model_type,
                       row->model_types[0], row->classes[0]);
    if (!is_exact)
        PF_TRY(pf_load_warn(policy, error, "%s: the architecture is %.80s, and is read as %s", doc->name,
                            name_at(names, 0), row->classes[0]));
    *out = found;
    return PF_OK;
}
