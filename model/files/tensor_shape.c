#include "model/files/tensor_shape.h"

#include <stdio.h>

static void print_shape(const int64_t *shape, int32_t n, char *out, size_t capacity)
{
    size_t used = (size_t)snprintf(out, capacity, "[");
    for (int32_t d = 0; d < n && used < capacity - 24; d++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%lld", d ? ", " : "", (long long)shape[d]);
    snprintf(out + used, capacity - used, "]");
}

pf_status pf_tensor_check_shape(const char *path, const char *source, const pf_tensor *tensor, const int64_t *expected,
                                int32_t n, pf_error *error)
{
    bool is_equal = tensor->n_dimensions == n;
    for (int32_t d = 0; is_equal && d < n; d++) is_equal = tensor->shape[d] == expected[d];
    if (is_equal) return PF_OK;
    char found[128], wanted[80];
    print_shape(tensor->shape, tensor->n_dimensions, found, sizeof found);
    print_shape(expected, n, wanted, sizeof wanted);
    return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has shape %s, %s makes it %s", path, tensor->name, found,
                   source, wanted);
}
