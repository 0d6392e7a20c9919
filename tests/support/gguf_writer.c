#include "tests/support/gguf_writer.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32 };

static void append(pf_bytes *out, const void *data, size_t n)
{
    if (n > 0 && pf_bytes_append(out, data, n) != PF_OK) abort();
}

static void append_le(pf_bytes *out, uint64_t value, size_t n_bytes)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n_bytes; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    append(out, bytes, n_bytes);
}

static void append_string(pf_bytes *out, const char *text)
{
    append_le(out, strlen(text), 8);
    append(out, text, strlen(text));
}

static void append_f32(pf_bytes *out, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    append_le(out, bits, 4);
}

static void pad(pf_bytes *out)
{
    while (out->n % ALIGNMENT != 0) append_le(out, 0, 1);
}

static void begin_key(gguf_writer *w, const char *key, pf_gguf_kind kind)
{
    append_string(&w->keys, key);
    append_le(&w->keys, kind, 4);
    w->n_keys++;
}

static void begin_array(gguf_writer *w, const char *key, pf_gguf_kind kind, size_t n)
{
    begin_key(w, key, PF_GGUF_ARRAY);
    append_le(&w->keys, kind, 4);
    append_le(&w->keys, n, 8);
}

void gguf_put_int(gguf_writer *w, const char *key, pf_gguf_kind kind, int64_t value)
{
    static const size_t bytes[PF_N_GGUF_KINDS] = { 1, 1, 2, 2, 4, 4, 0, 1, 0, 0, 8, 8, 0 };
    begin_key(w, key, kind);
    append_le(&w->keys, (uint64_t)value, bytes[kind]);
}

void gguf_put_f32(gguf_writer *w, const char *key, float value)
{
    begin_key(w, key, PF_GGUF_F32);
    append_f32(&w->keys, value);
}

void gguf_put_string(gguf_writer *w, const char *key, const char *text)
{
    begin_key(w, key, PF_GGUF_STRING);
    append_string(&w->keys, text);
}

void gguf_put_strings(gguf_writer *w, const char *key, const char *const *texts, size_t n)
{
    begin_array(w, key, PF_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) append_string(&w->keys, texts[i]);
}

void gguf_put_i32s(gguf_writer *w, const char *key, const int32_t *values, size_t n)
{
    begin_array(w, key, PF_GGUF_I32, n);
    for (size_t i = 0; i < n; i++) append_le(&w->keys, (uint64_t)(int64_t)values[i], 4);
}

void gguf_put_f32s(gguf_writer *w, const char *key, const float *values, size_t n)
{
    begin_array(w, key, PF_GGUF_F32, n);
    for (size_t i = 0; i < n; i++) append_f32(&w->keys, values[i]);
}

void gguf_put_tensor_at(gguf_writer *w, const char *name, uint32_t type, const int64_t *shape, int32_t n,
                        const void *data, size_t n_bytes, uint64_t offset)
{
    append_string(&w->infos, name);
    append_le(&w->infos, (uint64_t)n, 4);
    for (int32_t i = n; i-- > 0;) append_le(&w->infos, (uint64_t)shape[i], 8);
    append_le(&w->infos, type, 4);
    append_le(&w->infos, offset, 8);
    append(&w->data, data, n_bytes);
    pad(&w->data);
    w->n_tensors++;
}

void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t type, const int64_t *shape, int32_t n, const void *data,
                     size_t n_bytes)
{
    gguf_put_tensor_at(w, name, type, shape, n, data, n_bytes, w->data.n);
}

void gguf_print(const gguf_writer *w, uint32_t version, pf_bytes *out)
{
    append(out, "GGUF", 4);
    append_le(out, version, 4);
    append_le(out, w->n_tensors, 8);
    append_le(out, w->n_keys, 8);
    append(out, w->keys.data, w->keys.n);
    append(out, w->infos.data, w->infos.n);
    pad(out);
    append(out, w->data.data, w->data.n);
}

void gguf_writer_clear(gguf_writer *w)
{
    pf_bytes_clear(&w->keys);
    pf_bytes_clear(&w->infos);
    pf_bytes_clear(&w->data);
}
