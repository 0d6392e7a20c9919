/*
 * Creates a directory atomically. Files are written into a hidden folder, and a failure before the end leaves nothing behind.
 *
 *      DIR does not exist   the folder is created beside it and renamed to DIR
 *      DIR is empty         the folder is created in it and its files are moved up: DIR keeps its owner and mode and may be a
 *                           mount point or the working directory of a process; the file that makes it a model is moved last
 *
 * Files are synced to disk before the rename, so after a crash of the machine the old or the new state is there. A process that
 * is killed leaves its folder .partial-PID-N; a signal handler can remove what `writing` was told last.
 */
#ifndef PF_MODEL_STAGING_H
#define PF_MODEL_STAGING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/file.h"
#include "base/status.h"

enum { PF_STAGING_PATH = PF_FILE_PATH_BYTES, PF_STAGING_MAX_COPY = 1 << 28 };

typedef struct {
    char target[PF_STAGING_PATH];      /* DIR without trailing slashes */
    char path[PF_STAGING_PATH];        /* the folder that files are written to; "": none */
    bool is_inside;                    /* DIR existed: `path` is a folder in it */
    void (*writing)(const char *path); /* told `path` before it is there, and NULL once it is no longer; or NULL */
} pf_staging;

/* Creates the folder. PF_INVALID: DIR exists and is not an empty directory.  PF_UNAVAILABLE: the parent of DIR does not exist, or
 * it cannot be written to. The caller ends it with commit or abort. */
PF_MUST_USE pf_status pf_staging_begin(const char *directory, void (*writing)(const char *path), pf_staging *out,
                                       pf_error *error);

/* Creates the file `name` and opens it for writing; pf_staging_close syncs it to disk.
 * PF_UNAVAILABLE: it cannot be created or written.  PF_INVALID: its path is too long. */
PF_MUST_USE pf_status pf_staging_open(const pf_staging *staging, const char *name, int *descriptor, pf_error *error);
PF_MUST_USE pf_status pf_staging_close(const pf_staging *staging, const char *name, int descriptor, pf_error *error);

/* Writes n bytes at an offset of the file `name`, from any thread. PF_UNAVAILABLE: the disk is full, or another error of write. */
PF_MUST_USE pf_status pf_staging_write(const pf_staging *staging, const char *name, int descriptor, const void *data,
                                       size_t n_bytes, size_t offset, pf_error *error);

/* Creates the file `name` with n bytes. As pf_staging_open and pf_staging_write. */
PF_MUST_USE pf_status pf_staging_write_file(const pf_staging *staging, const char *name, const void *data,
                                            size_t n_bytes, pf_error *error);

/* Copies from_directory/name if it exists. PF_LIMIT: it is larger than PF_STAGING_MAX_COPY. Otherwise as pf_file_read and pf_staging_write_file. */
PF_MUST_USE pf_status pf_staging_copy(const pf_staging *staging, const char *from_directory, const char *name,
                                      pf_error *error);

/* Renames the folder to DIR, or moves its files up, the file `last` after all others. PF_UNAVAILABLE: DIR was created meanwhile,
 * or the system refuses; the folder is unchanged and must be aborted. */
PF_MUST_USE pf_status pf_staging_commit(pf_staging *staging, const char *last, pf_error *error);

/* Removes the folder, if it is there: not of a zeroed, committed or aborted struct. Tells `writing` that nothing is. */
void pf_staging_abort(pf_staging *staging);

#endif
