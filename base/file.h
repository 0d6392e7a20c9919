/* Files as memory: read-only maps and whole reads; and the paths to them. */
#ifndef PF_BASE_FILE_H
#define PF_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/status.h"

/* A file mapped read-only. Bytes past the mapping are never touched; of a file that shrinks while it is mapped a page that is
 * gone raises SIGBUS as with any mapping, so weights are packed (copied) before a model is used, and the command line makes
 * a sentence of it (cli/cut_short.h). Within its last page the kernel gives zeros instead: see pf_file_check_map. */
typedef struct {
    const uint8_t *data;     /* NULL when the file is empty */
    size_t size;             /* bytes */
    int descriptor;          /* where data is not NULL */
    struct timespec written; /* last, before it was mapped */
} pf_file_map;

enum { PF_FILE_PATH_BYTES = 4096 }; /* what a path has room in, as the kernel allows */

/* DIRECTORY/name. PF_INVALID: it is longer than that. */
PF_MUST_USE pf_status pf_file_join(const char *directory, const char *name, char out[PF_FILE_PATH_BYTES],
                                   pf_error *error);

/* Whether no file has this name. A dangling or circular link exists, and so does a file without read permission: treating them
 * as absent would skip a file that the user meant to be read. */
bool pf_file_is_absent(const char *path);

/* PF_UNAVAILABLE: it is absent. PF_INVALID: it is there and cannot be opened, or is no regular file. PF_NOMEM: cannot be
 * mapped. The sentence names the path and why. The caller ends it with pf_file_unmap. */
PF_MUST_USE pf_status pf_file_open_map(const char *path, pf_file_map *out, pf_error *error);
void pf_file_unmap(pf_file_map *map); /* zeroed is fine */

/* Whether what was read of it was one file: PF_INVALID, with `path` in the sentence, where it has been written since. */
PF_MUST_USE pf_status pf_file_check_map(const pf_file_map *map, const char *path, pf_error *error);

/* The whole file, NUL-terminated behind its last byte; the caller frees *out with free().
 * PF_LIMIT: larger than max_bytes. Otherwise as pf_file_open_map. */
PF_MUST_USE pf_status pf_file_read(const char *path, size_t max_bytes, char **out, size_t *out_bytes, pf_error *error);

#endif
