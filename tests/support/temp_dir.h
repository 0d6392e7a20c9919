/* A directory of a test's own, and files in it. */
#ifndef PF_TESTS_TEMP_DIR_H
#define PF_TESTS_TEMP_DIR_H

#include <stddef.h>

enum { PF_TEMP_PATH_BYTES = 512 };

typedef struct {
    char path[PF_TEMP_PATH_BYTES / 2];
} pf_temp_dir;

/* Fail the test when they cannot. remove takes all that is in it along. */
void pf_temp_dir_make(pf_temp_dir *out);
void pf_temp_dir_remove(pf_temp_dir *dir);

/* <dir>/<name>, in a buffer of PF_TEMP_PATH_BYTES; returns the buffer. */
const char *pf_temp_path(const pf_temp_dir *dir, const char *name, char *buffer);

/* Write a file, and the directories that `name` passes through. */
void pf_temp_write(const pf_temp_dir *dir, const char *name, const void *data, size_t bytes);

/* Replace the first `from` in a file of a directory, which must have it, by `to`. Where their lengths differ the file changes
 * its size. */
void pf_temp_edit(const char *directory, const char *name, const char *from, const char *to);

#endif
