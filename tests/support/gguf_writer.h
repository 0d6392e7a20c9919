/* Builds GGUF files in memory for tests; gguf/gguf.h describes the format. Aborts if memory is short. */
#ifndef PF_TESTS_GGUF_WRITER_H
#define PF_TESTS_GGUF_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "gguf/gguf.h"

/* Zero it before first use; set the numbers after the last put to write a file that is wrong. */
typedef struct {
    pf_bytes keys, infos, data;
    uint64_t n_keys, n_tensors;
} gguf_writer;

void gguf_put_int(gguf_writer *w, const char *key, pf_gguf_kind kind, int64_t value); /* bools too */
void gguf_put_f32(gguf_writer *w, const char *key, float value);
void gguf_put_string(gguf_writer *w, const char *key, const char *text);
void gguf_put_strings(gguf_writer *w, const char *key, const char *const *texts, size_t n);
void gguf_put_i32s(gguf_writer *w, const char *key, const int32_t *values, size_t n);
void gguf_put_f32s(gguf_writer *w, const char *key, const float *values, size_t n);

/* The next tensor: shape [n] outermost first; data [n_bytes] follow the previous tensor's, aligned to 32 bytes. */
void gguf_put_tensor(gguf_writer *w, const char *name, uint32_t type, const int64_t *shape, int32_t n, const void *data,
                     size_t n_bytes);

/* The same with an offset of the caller's. The data are appended all the same. */
void gguf_put_tensor_at(gguf_writer *w, const char *name, uint32_t type, const int64_t *shape, int32_t n,
                        const void *data, size_t n_bytes, uint64_t offset);

/* Appends the file to *out. */
void gguf_print(const gguf_writer *w, uint32_t version, pf_bytes *out);

void gguf_writer_clear(gguf_writer *w);

#endif
