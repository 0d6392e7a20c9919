#include "engine/versioned.h"

#include <string.h>

pf_status pf_versioned_copy(const char *name, const void *given, void *out, size_t known, pf_error *error)
{
    size_t size = known;
    if (given) memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return pf_fail(error, PF_INVALID, "%s.size is %zu, expected sizeof(%s), %zu (PF_INIT sets it)", name, size,
                       name, known);
    const unsigned char *bytes = given;
    for (size_t i = known; i < size; i++)
        if (bytes[i] != 0)
            return pf_fail(error, PF_INVALID,
                           "%s.size is %zu, and byte %zu is not zero; this library knows the first %zu bytes", name,
                           size, i, known);
    memset(out, 0, known);
    if (given) memcpy(out, given, size < known ? size : known);
    memcpy(out, &known, sizeof known);
    return PF_OK;
}
