/* Converts names to types and back. Lists in error sentences are built from the same table. */
#include "model/config/dtype.h"

#include <string.h>

static const char *dtype_name(int dtype)
{
    if (dtype == PF_DTYPE_AUTO) return "auto";
    if (dtype == PF_DTYPE_F16) return "f16";
    return pf_format_get((pf_format)(dtype - PF_DTYPE_FORMATS))->name;
}

static const char *activations_name(int activations)
{
    return activations == PF_ACTIVATIONS_AUTO ? "auto" : pf_act_name((pf_act)(activations - PF_ACTIVATIONS_ACTS));
}

/* Finds `text` among n names. */
static pf_status find_word(const char *what, const char *text, const char *(*name)(int), int n, int *out,
                           pf_error *error)
{
    char known[256] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(text, name(i)) == 0) {
            *out = i;
            return PF_OK;
        }
        pf_list_word(known, sizeof known, ", ", name(i));
    }
    return pf_fail(error, PF_INVALID, "%s \"%.40s\" is not known, expected one of %s", what, text, known);
}

pf_status pf_dtype_parse(const char *text, pf_dtype *out, pf_error *error)
{
    int found = 0;
    PF_TRY(find_word("dtype", text, dtype_name, PF_N_DTYPES, &found, error));
    *out = (pf_dtype)found;
    return PF_OK;
}

const char *pf_dtype_name(pf_dtype dtype)
{
    return dtype_name((int)dtype);
}

pf_dtype pf_dtype_choose(const pf_dtype_facts *facts)
{
    if (facts->has_f32) return PF_DTYPE_F32;
    return facts->twelve_is_as_good && facts->from_memory ? PF_DTYPE_BF16_12 : PF_DTYPE_BF16;
}

pf_status pf_activations_parse(const char *text, pf_activations *out, pf_error *error)
{
    int found = 0;
    PF_TRY(find_word("act", text, activations_name, PF_N_ACT_CHOICES, &found, error));
    *out = (pf_activations)found;
    return PF_OK;
}

pf_status pf_activations_resolve(pf_format format, pf_activations asked, pf_act *out, pf_error *error)
{
    const pf_format_info *info = pf_format_get(format);
    const pf_act act = asked == PF_ACTIVATIONS_AUTO ? info->act : (pf_act)(asked - PF_ACTIVATIONS_ACTS);
    if (pf_format_takes(format, act)) {
        *out = act;
        return PF_OK;
    }
    char taken[64] = "";
    for (int a = 0; a < PF_N_ACTS; a++)
        if (pf_format_takes(format, (pf_act)a)) pf_list_word(taken, sizeof taken, " or ", pf_act_name((pf_act)a));
    return pf_fail(error, PF_UNSUPPORTED, "weights in %s are multiplied with activations in %s, not in %s", info->name,
                   taken, pf_act_name(act));
}
