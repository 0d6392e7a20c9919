/* Creates a temporary directory for a test, and files in it. */
#ifndef PF_TESTS_TEMP_DIR_H
#define PF_TESTS_TEMP_DIR_H

#include <stddef.h>

enum { PF_TEMP_PATH_BYTES = 512 };

typedef struct {
    char path[PF_TEMP_PATH_BYTES / 2];
} pf_temp_dir;

/* Both fail the test on error. remove deletes the contents too. */
void pf_temp_dir_make(pf_temp_dir *out);
void pf_temp_dir_remove(pf_temp_dir *dir);

/* <dir>/<name>, in a buffer of PF_TEMP_PATH_BYTES; returns the buffer. */
const char *pf_temp_path(const pf_temp_dir *dir, const char *name, char *buffer);

/* Writes a file, and creates the directories of `name`. */
void pf_temp_write(const pf_temp_dir *dir, const char *name, const void *data, size_t bytes);

/* Replaces the first `from` in a file, which must contain it, by `to`. The size changes if the lengths differ. */
void pf_temp_edit(const char *directory, const char *name, const char *from, const char *to);

#endif
