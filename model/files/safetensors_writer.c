#include "model/files/safetensors_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/json.h"

enum { LENGTH_BYTES = 8 };

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "no memory for the header of a safetensors file");
}

pf_status pf_safetensors_header_open(pf_safetensors_header *out, pf_error *error)
{
    /* transformers requires it: the tensors are PyTorch's. */
    json_t *tensors = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    if (tensors == NULL) return no_memory(error);
    *out = (pf_safetensors_header){ .tensors = tensors };
    return PF_OK;
}

void pf_safetensors_header_close(pf_safetensors_header *header)
{
    json_decref(header->tensors); /* NULL is fine */
    header->tensors = NULL;
}

pf_status pf_safetensors_header_add(pf_safetensors_header *header, const char *name, const char *dtype,
                                    const int64_t *shape, int32_t n_dimensions, size_t n_bytes, pf_error *error)
{
    size_t end;
    if (!pf_size_add(header->n_bytes, n_bytes, &end))
        return pf_fail(error, PF_LIMIT, "tensor %.100s: the file would be larger than can be addressed", name);
    json_t *sizes = json_array();
    for (int32_t d = 0; d < n_dimensions; d++) {
        if (json_array_append_new(sizes, json_integer(shape[d])) == 0) continue;
        json_decref(sizes);
        return no_memory(error);
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", sizes, "data_offsets",
                              (json_int_t)header->n_bytes, (json_int_t)end);
    if (entry == NULL || json_object_set_new(header->tensors, name, entry) != 0) return no_memory(error);
    header->n_bytes = end;
    return PF_OK;
}

pf_status pf_safetensors_header_print(const pf_safetensors_header *header, char **out, size_t *n_bytes, pf_error *error)
{
    char *text = pf_json_print(header->tensors, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (text == NULL) return no_memory(error);
    const size_t n_text = strlen(text), n_padded = pf_round_up(n_text, LENGTH_BYTES);
    char *whole = malloc(LENGTH_BYTES + n_padded);
    if (whole != NULL) {
        for (int i = 0; i < LENGTH_BYTES; i++) whole[i] = (char)(n_padded >> 8 * i & 0xFF);
        memcpy(whole + LENGTH_BYTES, text, n_text);
        memset(whole + LENGTH_BYTES + n_text, ' ', n_padded - n_text);
    }
    free(text);
    if (whole == NULL) return no_memory(error);
    *out = whole;
    *n_bytes = LENGTH_BYTES + n_padded;
    return PF_OK;
}
