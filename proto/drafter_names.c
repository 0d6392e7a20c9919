#include "proto/drafter_names.h"

#include <string.h>

static bool may_stand_in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool pf_drafter_name_is_valid(const char *name)
{
    const size_t n = strnlen(name, PF_DRAFTER_NAME_BYTES);
    for (size_t i = 0; i < n; i++)
        if (!may_stand_in_name(name[i])) return false;
    return n > 0 && n < PF_DRAFTER_NAME_BYTES;
}

int32_t pf_drafter_names_find(const pf_model_info *info, const char *name)
{
    for (int32_t i = 0; i < info->n_drafters; i++)
        if (strcmp(info->drafters[i], name) == 0) return i;
    return -1;
}

pf_status pf_drafter_names_add(pf_model_info *info, const char *name)
{
    if (!pf_drafter_name_is_valid(name) || pf_drafter_names_find(info, name) >= 0) return PF_INVALID;
    if (info->n_drafters == PF_MAX_DRAFTERS) return PF_LIMIT;
    strcpy(info->drafters[info->n_drafters++], name);
    return PF_OK;
}

pf_status pf_drafter_names_check(const pf_model_info *info, const char *name, pf_error *error)
{
    enum { LIST_BYTES = PF_MAX_DRAFTERS * (PF_DRAFTER_NAME_BYTES + 1) };
    char offered[LIST_BYTES] = "";
    if (name[0] == '\0' || pf_drafter_names_find(info, name) >= 0) return PF_OK;
    if (!pf_drafter_name_is_valid(name))
        return pf_fail(error, PF_INVALID, "drafter is \"%.16s\", expected a name of 1 to %d letters, digits, - and _",
                       name, PF_DRAFTER_NAME_BYTES - 1);
    for (int32_t i = 0; i < info->n_drafters; i++) pf_list_word(offered, sizeof offered, ", ", info->drafters[i]);
    if (info->n_drafters == 0)
        return pf_fail(error, PF_UNSUPPORTED, "drafter is %s, but %s does not say which drafters it offers", name,
                       info->model_id[0] ? info->model_id : "the peer");
    return pf_fail(error, PF_UNSUPPORTED, "drafter is %s, but what is offered is %s", name, offered);
}
