/* Declares the parts of an open GGUF file for the code that reads it (gguf.c) and its metadata (gguf_metadata.c). Internal to gguf/. */
#ifndef PF_GGUF_GGUF_PARTS_H
#define PF_GGUF_GGUF_PARTS_H

#include <string.h>

#include "base/file.h"
#include "gguf/gguf.h"

/* A key of the metadata. Its value lies at `value` and was checked to lie in the file. */
typedef struct {
    char *name; /* owned */
    pf_gguf_kind kind;
    pf_gguf_kind element; /* of an array */
    uint64_t n;           /* elements of an array, bytes of a string */
    const uint8_t *value; /* behind the length of a string, or behind type and length of an array */
} pf_gguf_key;

typedef struct {
    char *path;
    pf_file_map map;
} pf_gguf_part;

struct pf_gguf {
    pf_gguf_part *parts; /* [n_parts] */
    int32_t n_parts;
    int32_t reading;   /* the part whose metadata `keys` are: 0 once it is open */
    pf_gguf_key *keys; /* [n_keys], in order of names */
    size_t n_keys;
    pf_gguf_tensor *tensors;  /* [n_tensors] in the order of the files; names are owned */
    pf_gguf_tensor **by_name; /* [n_tensors] */
    int32_t n_tensors;
};

/* A little-endian number of n_bytes. */
static inline uint64_t pf_gguf_read_le(const uint8_t *p, size_t n_bytes)
{
    uint64_t value = 0;
    for (size_t i = n_bytes; i-- > 0;) value = value << 8 | p[i];
    return value;
}

/* The bytes of a value of a fixed size; 0: strings and arrays. */
size_t pf_gguf_kind_bytes(pf_gguf_kind kind);

/* NULL: there is no such key. */
const pf_gguf_key *pf_gguf_find_key(const pf_gguf *file, const char *name);

#endif
