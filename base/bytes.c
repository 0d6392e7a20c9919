#include "base/bytes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

pf_status pf_bytes_reserve(pf_bytes *bytes, size_t n_more)
{
    if (n_more <= bytes->capacity - bytes->n) return PF_OK;
    if (n_more > SIZE_MAX / 2 - 2 * bytes->capacity) return PF_NOMEM;
    const size_t capacity = 2 * bytes->capacity + n_more;
    char *grown = realloc(bytes->data, capacity);
    if (!grown) return PF_NOMEM;
    bytes->data = grown;
    bytes->capacity = capacity;
    return PF_OK;
}

pf_status pf_bytes_append(pf_bytes *bytes, const char *data, size_t n)
{
    if (n == 0) return PF_OK;
    PF_TRY(pf_bytes_reserve(bytes, n));
    memcpy(bytes->data + bytes->n, data, n);
    bytes->n += n;
    return PF_OK;
}

void pf_bytes_clear(pf_bytes *bytes)
{
    free(bytes->data);
    *bytes = (pf_bytes){ .data = NULL };
}
