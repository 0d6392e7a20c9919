#include "model/staging.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* ---- begin and end ------------------------------------------------------------------------------------------------- */

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Whether there is nothing at `path`, or an empty directory. */
static pf_status check_free(const char *path, pf_error *error)
{
    DIR *directory = opendir(path);
    if (directory == NULL && errno == ENOENT) return PF_OK;
    if (directory == NULL)
        return pf_fail(error, errno == ENOTDIR ? PF_INVALID : PF_UNAVAILABLE,
                       "%s: %s, expected a directory that is empty or not there", path, strerror(errno));
    bool is_empty = true;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) is_empty = is_empty && is_dot(entry->d_name);
    closedir(directory);
    if (!is_empty)
        return pf_fail(error, PF_INVALID, "%s: is there and not empty, expected a directory that is empty or not there",
                       path);
    return PF_OK;
}

pf_status pf_staging_begin(const char *directory, pf_staging *out, pf_error *error)
{
    enum { ROOM = 32, TRIES = 100 }; /* the suffix; one that a killed process of the same number left is passed over */
    pf_staging s = { .path = "" };
    size_t n = strlen(directory);
    while (n > 1 && directory[n - 1] == '/') n--;
    if (n == 0 || n + ROOM > sizeof s.target)
        return pf_fail(error, PF_INVALID, "the path of the directory to be made is %zu bytes long, expected 1 to %zu",
                       n, sizeof s.target - ROOM);
    memcpy(s.target, directory, n);
    PF_TRY(check_free(s.target, error));
    char real[PATH_MAX]; /* of one that is there: "." and a link cannot be renamed over */
    if (realpath(s.target, real) != NULL && strlen(real) + ROOM <= sizeof s.target)
        snprintf(s.target, sizeof s.target, "%s", real);
    for (int i = 0; i < TRIES; i++) {
        const int length = snprintf(s.path, sizeof s.path, "%s.partial-%ld", s.target, (long)getpid());
        if (i > 0) snprintf(s.path + length, sizeof s.path - (size_t)length, "-%d", i);
        if (mkdir(s.path, 0777) == 0) {
            *out = s;
            return PF_OK;
        }
        if (errno != EEXIST) break;
    }
    return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be made: %s", s.path, strerror(errno));
}

void pf_staging_abort(pf_staging *staging)
{
    if (staging->path[0] == '\0') return;
    DIR *directory = opendir(staging->path);
    if (directory != NULL) {
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
            if (!is_dot(entry->d_name)) unlinkat(dirfd(directory), entry->d_name, 0);
        closedir(directory);
    }
    rmdir(staging->path);
    staging->path[0] = '\0';
}

/* What a directory says is on the disk too. Some file systems cannot be asked: then there is nothing to be done. */
static void sync_directory(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    (void)fsync(descriptor);
    close(descriptor);
}

static void sync_parent(const char *path)
{
    char parent[PF_STAGING_PATH];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        sync_directory(".");
        return;
    }
    slash[slash == parent ? 1 : 0] = '\0'; /* "/model": the root */
    sync_directory(parent);
}

pf_status pf_staging_commit(pf_staging *staging, pf_error *error)
{
    sync_directory(staging->path);
    if (rename(staging->path, staging->target) != 0)
        return pf_fail(error, PF_UNAVAILABLE, "%s: what was written cannot take this name: %s", staging->target,
                       strerror(errno));
    staging->path[0] = '\0';
    sync_parent(staging->target);
    return PF_OK;
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

static pf_status join(const char *directory, const char *name, char out[PF_STAGING_PATH], pf_error *error)
{
    const int n = snprintf(out, PF_STAGING_PATH, "%s/%s", directory, name);
    if (n < 0 || n >= PF_STAGING_PATH)
        return pf_fail(error, PF_INVALID, "%.200s...: the path is longer than %d bytes", directory, PF_STAGING_PATH);
    return PF_OK;
}

pf_status pf_staging_open(const pf_staging *staging, const char *name, int *descriptor, pf_error *error)
{
    char path[PF_STAGING_PATH];
    PF_TRY(join(staging->path, name, path, error));
    const int opened = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (opened < 0) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be made: %s", path, strerror(errno));
    *descriptor = opened;
    return PF_OK;
}

pf_status pf_staging_close(const pf_staging *staging, const char *name, int descriptor, pf_error *error)
{
    const int synced = fsync(descriptor), why = errno;
    const int closed = close(descriptor);
    if (synced == 0 && closed == 0) return PF_OK;
    return pf_fail(error, PF_UNAVAILABLE, "%s/%s: cannot be written: %s", staging->target, name,
                   strerror(synced != 0 ? why : errno));
}

pf_status pf_staging_write(const pf_staging *staging, const char *name, int descriptor, const void *data,
                           size_t n_bytes, size_t offset, pf_error *error)
{
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = pwrite(descriptor, (const char *)data + done, n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return pf_fail(error, PF_UNAVAILABLE, "%s/%s: cannot be written: %s", staging->target, name,
                           strerror(errno));
        done += (size_t)n;
    }
    return PF_OK;
}

pf_status pf_staging_write_file(const pf_staging *staging, const char *name, const void *data, size_t n_bytes,
                                pf_error *error)
{
    int descriptor = -1;
    PF_TRY(pf_staging_open(staging, name, &descriptor, error));
    const pf_status status = pf_staging_write(staging, name, descriptor, data, n_bytes, 0, error);
    const pf_status closed = pf_staging_close(staging, name, descriptor, status == PF_OK ? error : NULL);
    return status != PF_OK ? status : closed;
}

pf_status pf_staging_copy(const pf_staging *staging, const char *from_directory, const char *name, pf_error *error)
{
    char path[PF_STAGING_PATH], *text;
    size_t n_bytes;
    PF_TRY(join(from_directory, name, path, error));
    if (pf_file_is_absent(path)) return PF_OK;
    PF_TRY(pf_file_read(path, PF_STAGING_MAX_COPY, &text, &n_bytes, error));
    const pf_status status = pf_staging_write_file(staging, name, text, n_bytes, error);
    free(text);
    return status;
}
