/*
 * A directory that appears whole or not at all. Files are written into a hidden folder, and whatever fails before the end
 * leaves nothing behind.
 *
 *      DIR is not there     the folder is made beside it, and takes the name DIR
 *      DIR is there, empty  the folder is made in it, and its files move up: DIR keeps its owner and mode, may be a mount
 *                           point or somebody's working directory; one file, without which the others are no model,
 *                           comes last
 *
 * What was written is on the disk before the name is given, so a machine that stops in between has the old state or
 * the new one. Only a process that is killed leaves its .partial-PID-N; one that ends by a fault has `path` to remove.
 */
#ifndef PF_MODEL_STAGING_H
#define PF_MODEL_STAGING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"
#include "base/status.h"

enum { PF_STAGING_PATH = PF_FILE_PATH_BYTES, PF_STAGING_MAX_COPY = 1 << 28 };

typedef struct {
    char target[PF_STAGING_PATH]; /* DIR without slashes at its end */
    char path[PF_STAGING_PATH];   /* where files are written; "": not begun, or ended */
    bool is_inside;               /* DIR was there: `path` is a folder in it */
} pf_staging;

/* PF_INVALID: DIR is there and not an empty directory.  PF_UNAVAILABLE: it, or where it shall be, does not exist or may
 * not be written to. The caller ends it with commit or abort. */
PF_MUST_USE pf_status pf_staging_begin(const char *directory, pf_staging *out, pf_error *error);

/* Make the file `name` and open it for writing; pf_staging_close makes sure that it is on the disk.
 * PF_UNAVAILABLE: it cannot be made, or written.  PF_INVALID: its path is too long. */
PF_MUST_USE pf_status pf_staging_open(const pf_staging *staging, const char *name, int *descriptor, pf_error *error);
PF_MUST_USE pf_status pf_staging_close(const pf_staging *staging, const char *name, int descriptor, pf_error *error);

/* Write all of n bytes at an offset of the file `name`, from any thread. PF_UNAVAILABLE: the disk is full, or what errno
 * says. */
PF_MUST_USE pf_status pf_staging_write(const pf_staging *staging, const char *name, int descriptor, const void *data,
                                       size_t n_bytes, size_t offset, pf_error *error);

/* Make the file `name` of n bytes. As pf_staging_open and pf_staging_write. */
PF_MUST_USE pf_status pf_staging_write_file(const pf_staging *staging, const char *name, const void *data,
                                            size_t n_bytes, pf_error *error);

/* Copy from_directory/name. A file that is not there is passed over. PF_LIMIT: it is larger than any that is read
 * beside weights, PF_STAGING_MAX_COPY. Otherwise as pf_file_read and pf_staging_write_file. */
PF_MUST_USE pf_status pf_staging_copy(const pf_staging *staging, const char *from_directory, const char *name,
                                      pf_error *error);

/* Give the directory its name, or the files their places, the file `last` after all others. PF_UNAVAILABLE: somebody else has
 * the name, or the system says no; it is as before, to be aborted. */
PF_MUST_USE pf_status pf_staging_commit(pf_staging *staging, const char *last, pf_error *error);

/* Remove what was written. Zeroed, committed or aborted: nothing. */
void pf_staging_abort(pf_staging *staging);

#endif
