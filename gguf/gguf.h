/*
 * Opens GGUF files, one or all parts of a split one: metadata and named tensors, memory-mapped.
 *
 *   file:      "GGUF" | u32 version | u64 n_tensors | u64 n_keys | keys | tensor infos | padding | data
 *   key:       string name | u32 type | value          string: u64 length | bytes          array: u32 type | u64 n | values
 *   info:      string name | u32 n_dimensions | u64 sizes, innermost first | u32 type | u64 offset in the data
 *   padding:   to a multiple of general.alignment (32); each offset is a multiple of it too
 *   parts:     NAME-00001-of-0000N.gguf, ...; split.no, split.count and split.tensors.count say which part a file is
 *
 * Little-endian files of version 2 and 3 are read. Every number is checked: counts and lengths against the size of the file;
 * names, which must be unique; sizes, types and offsets of tensors, which must lie in the data without overlap.
 * Source: docs/gguf.md of ggml-org/ggml.
 *
 * Threads: any number may read.
 */
#ifndef PF_GGUF_GGUF_H
#define PF_GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "gguf/ggml_types.h"

enum { PF_GGUF_MAX_DIMENSIONS = 4 };

typedef struct pf_gguf pf_gguf;

/* The type of a metadata value; the numbers are those of the format. */
typedef enum {
    PF_GGUF_U8,
    PF_GGUF_I8,
    PF_GGUF_U16,
    PF_GGUF_I16,
    PF_GGUF_U32,
    PF_GGUF_I32,
    PF_GGUF_F32,
    PF_GGUF_BOOL,
    PF_GGUF_STRING,
    PF_GGUF_ARRAY,
    PF_GGUF_U64,
    PF_GGUF_I64,
    PF_GGUF_F64,
    PF_N_GGUF_KINDS,
} pf_gguf_kind;

/* A string of the file: borrowed until close, not NUL-terminated, any bytes. */
typedef struct {
    const char *text;
    size_t n_bytes;
} pf_gguf_string;

/* A tensor of an open file. */
typedef struct {
    const char *name;
    pf_ggml_type type;
    int32_t n_dimensions;
    int64_t shape[PF_GGUF_MAX_DIMENSIONS]; /* outermost first: the reverse of the file's order */
    const uint8_t *data;                   /* borrowed until close */
    size_t data_bytes;
} pf_gguf_tensor;

/* An array of the metadata; borrowed until close. */
typedef struct {
    pf_gguf_kind kind; /* of the elements: any but PF_GGUF_ARRAY */
    size_t n;
    const uint8_t *next;    /* of strings: the one that pf_gguf_next_string gives next; otherwise the elements */
    const char *path, *key; /* for errors */
} pf_gguf_array;

/* Opens a file, and the other parts of a split file beside it; `path` is the first part.
 * PF_UNAVAILABLE: a file is missing.  PF_INVALID: a file exists and cannot be opened, or `path` is a later part.
 * PF_FORMAT: the file is cut short, or breaks a rule above; the sentence names file, field, value and expectation.
 * PF_UNSUPPORTED: another version, big-endian, or a type of tensor or value that is not known.
 * PF_LIMIT: more keys, tensors or longer names than are read.  PF_NOMEM. The caller ends it with pf_gguf_close. */
PF_MUST_USE pf_status pf_gguf_open(const char *path, pf_gguf **out, pf_error *error);
void pf_gguf_close(pf_gguf *file); /* NULL is fine */

/* Whether a path names a GGUF file: a regular file that begins with "GGUF", or a name that ends in ".gguf". */
bool pf_gguf_is_file(const char *path);

/* Called after the last read. PF_INVALID: a file was written to since it was opened, so the data may be inconsistent. */
PF_MUST_USE pf_status pf_gguf_check(const pf_gguf *file, pf_error *error);

const char *pf_gguf_path(const pf_gguf *file); /* of the first part */
int32_t pf_gguf_n_parts(const pf_gguf *file);

/* ---- tensors ---- */

int32_t pf_gguf_n_tensors(const pf_gguf *file);

/* The i-th tensor, 0 <= i < n_tensors, in the order of the files. */
const pf_gguf_tensor *pf_gguf_tensor_at(const pf_gguf *file, int32_t i);

/* NULL: there is no tensor of this name. */
const pf_gguf_tensor *pf_gguf_find_tensor(const pf_gguf *file, const char *name);

/* ---- metadata ---- */

/* The i-th key, in order of names. */
size_t pf_gguf_n_keys(const pf_gguf *file);
const char *pf_gguf_key_at(const pf_gguf *file, size_t i);

bool pf_gguf_has(const pf_gguf *file, const char *key);

/* Each reads the value of a key into *out and checks its type and range. An absent key: *out keeps its value if `required` is
 * false, else PF_FORMAT. PF_FORMAT: the sentence names file, key, value and expectation. Integers are read from every integer
 * type, numbers from integers too. */
PF_MUST_USE pf_status pf_gguf_get_int(const pf_gguf *file, const char *key, bool required, int64_t min, int64_t max,
                                      int64_t *out, pf_error *error);
PF_MUST_USE pf_status pf_gguf_get_number(const pf_gguf *file, const char *key, bool required, double min, double max,
                                         double *out, pf_error *error);
PF_MUST_USE pf_status pf_gguf_get_bool(const pf_gguf *file, const char *key, bool required, bool *out, pf_error *error);
PF_MUST_USE pf_status pf_gguf_get_string(const pf_gguf *file, const char *key, bool required, pf_gguf_string *out,
                                         pf_error *error);
PF_MUST_USE pf_status pf_gguf_get_array(const pf_gguf *file, const char *key, bool required, pf_gguf_array *out,
                                        pf_error *error);

/* Whether a string is this text. */
bool pf_gguf_string_is(pf_gguf_string string, const char *text);

/* The next string of an array of strings; call it at most n times. */
pf_gguf_string pf_gguf_next_string(pf_gguf_array *array);

/* Element i < n of an array. PF_FORMAT: the elements are no integers (numbers), or the value is out of range. */
PF_MUST_USE pf_status pf_gguf_array_int(const pf_gguf_array *array, size_t i, int64_t min, int64_t max, int64_t *out,
                                        pf_error *error);
PF_MUST_USE pf_status pf_gguf_array_number(const pf_gguf_array *array, size_t i, double *out, pf_error *error);

#endif
