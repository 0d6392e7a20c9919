#include "model/files/tensor_source.h"

#include "model/files/exact_groups.h"
#include "model/files/ggml_blocks.h"

pf_status pf_tensor_source_open(const char *path, const pf_load_policy *policy, pf_tensor_source *out, pf_error *error)
{
    *out = (pf_tensor_source){ .gguf = NULL };
    return pf_gguf_is_file(path) ? pf_gguf_open(path, &out->gguf, error)
                                 : pf_safetensors_open(path, policy, &out->safetensors, error);
}

void pf_tensor_source_close(pf_tensor_source *source)
{
    pf_safetensors_close(source->safetensors);
    pf_gguf_close(source->gguf);
    *source = (pf_tensor_source){ .gguf = NULL };
}

pf_status pf_tensor_source_check(const pf_tensor_source *s, pf_error *error)
{
    return s->gguf != NULL ? pf_gguf_check(s->gguf, error) : pf_safetensors_check(s->safetensors, error);
}

int32_t pf_tensor_source_count(const pf_tensor_source *s)
{
    return s->gguf != NULL ? pf_gguf_n_tensors(s->gguf) : pf_safetensors_count(s->safetensors);
}

const char *pf_tensor_source_name(const pf_tensor_source *s, int32_t i)
{
    return s->gguf != NULL ? pf_gguf_tensor_at(s->gguf, i)->name : pf_safetensors_name(s->safetensors, i);
}

int32_t pf_tensor_source_dimensions(const pf_tensor_source *s, int32_t i)
{
    return s->gguf != NULL ? pf_gguf_tensor_at(s->gguf, i)->n_dimensions : pf_safetensors_dimensions(s->safetensors, i);
}

const char *pf_tensor_source_type_name(const pf_tensor_source *s, int32_t i)
{
    return s->gguf != NULL ? pf_ggml_type_get(pf_gguf_tensor_at(s->gguf, i)->type)->name
                           : pf_safetensors_type_name(s->safetensors, i);
}

/* Elements of a type that kernels read stay as they are; blocks become F32. */
static void set_type(pf_ggml_type type, pf_tensor *out)
{
    out->blocks = PF_GGML_F32;
    out->type = PF_TYPE_F32;
    if (type == PF_GGML_F16)
        out->type = PF_TYPE_F16;
    else if (type == PF_GGML_BF16)
        out->type = PF_TYPE_BF16;
    else
        out->blocks = type;
}

static pf_status find_in_gguf(const pf_gguf *file, const char *name, pf_tensor *out, pf_error *error)
{
    const pf_gguf_tensor *t = pf_gguf_find_tensor(file, name);
    if (t == NULL) return pf_fail(error, PF_UNAVAILABLE, "%s: there is no tensor %.100s", pf_gguf_path(file), name);
    if (!pf_ggml_is_readable(t->type))
        return pf_fail(error, PF_UNSUPPORTED, "%s: tensor %.100s is of type %s, which is not read", pf_gguf_path(file),
                       name, pf_ggml_type_get(t->type)->name);
    *out =
        (pf_tensor){ .name = t->name, .n_dimensions = t->n_dimensions, .data = t->data, .data_bytes = t->data_bytes };
    for (int32_t i = 0; i < t->n_dimensions; i++) out->shape[i] = t->shape[i];
    set_type(t->type, out);
    out->groups = pf_exact_groups_of_blocks(t->type);
    return PF_OK;
}

pf_status pf_tensor_source_find(const pf_tensor_source *s, const char *name, pf_tensor *out, pf_error *error)
{
    return s->gguf != NULL ? find_in_gguf(s->gguf, name, out, error)
                           : pf_safetensors_find(s->safetensors, name, out, error);
}

const char *pf_tensor_source_dtype(const pf_tensor_source *s, const char *name)
{
    return s->gguf != NULL ? NULL : pf_safetensors_dtype_of(s->safetensors, name);
}

pf_status pf_tensor_source_find_bytes(const pf_tensor_source *s, const char *name, const char *dtype, pf_tensor *out,
                                      pf_error *error)
{
    if (s->gguf == NULL) return pf_safetensors_find_bytes(s->safetensors, name, dtype, out, error);
    return pf_fail(error, PF_UNAVAILABLE, "%s: there is no tensor %.100s of %s", pf_gguf_path(s->gguf), name, dtype);
}
