#include "model/files/staging.h"

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

enum { ROOM = 32 }; /* for the name of the folder */

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The parent of "model" is ".", that of "/model" is "/". */
static void find_parent(const char *path, char out[PF_STAGING_PATH])
{
    snprintf(out, PF_STAGING_PATH, "%s", path);
    char *slash = strrchr(out, '/');
    if (slash == NULL)
        snprintf(out, PF_STAGING_PATH, ".");
    else
        slash[slash == out ? 1 : 0] = '\0';
}

/* Checks that `path` does not exist (*is_there: false) or is an empty directory. */
static pf_status check_free(const char *path, bool *is_there, pf_error *error)
{
    DIR *directory = opendir(path);
    *is_there = directory != NULL;
    if (directory == NULL && errno == ENOENT && pf_file_is_absent(path)) return PF_OK;
    if (directory == NULL)
        return pf_fail(error, errno == ENOTDIR || errno == ENOENT ? PF_INVALID : PF_UNAVAILABLE,
                       "%s: %s, expected a directory that is empty or does not exist", path,
                       errno == ENOENT ? "is a link that leads nowhere" : strerror(errno));
    const struct dirent *entry = readdir(directory);
    while (entry != NULL && is_dot(entry->d_name)) entry = readdir(directory);
    const pf_status status = entry == NULL ? PF_OK
                                           : pf_fail(error, PF_INVALID,
                                                     "%s: is not empty (it has %s), expected a directory "
                                                     "that is empty or not there",
                                                     path, entry->d_name);
    closedir(directory);
    return status;
}

static void tell(const pf_staging *s, const char *path)
{
    if (s->writing != NULL) s->writing(path);
}

/* The name is short: that of the target may be as long as the file system allows. It is told of before it is there: a signal may come
 * while it is made. */
static pf_status make_folder(pf_staging *s, pf_error *error)
{
    enum { TRIES = 100 }; /* skips folders that killed processes with the same id left */
    char in[PF_STAGING_PATH];
    find_parent(s->target, in);
    for (int i = 0; i < TRIES; i++) {
        snprintf(s->path, sizeof s->path, "%.*s/.partial-%ld-%d", PF_STAGING_PATH - ROOM, s->is_inside ? s->target : in,
                 (long)getpid(), i);
        errno = EEXIST; /* unless there is another reason */
        if (!pf_file_is_absent(s->path)) continue;
        tell(s, s->path);
        if (mkdir(s->path, 0777) == 0) return PF_OK;
        const int why = errno;
        tell(s, NULL);
        errno = why;
        if (errno != EEXIST) break;
    }
    return pf_fail(error, PF_UNAVAILABLE, "%s: %s: %s", s->target,
                   s->is_inside ? "nothing can be made in it" : "cannot be made", strerror(errno));
}

pf_status pf_staging_begin(const char *directory, void (*writing)(const char *), pf_staging *out, pf_error *error)
{
    pf_staging s = { .path = "", .writing = writing };
    size_t n = strlen(directory);
    while (n > 1 && directory[n - 1] == '/') n--;
    if (n == 0 || n + ROOM > sizeof s.target)
        return pf_fail(error, PF_INVALID, "the path of the output directory is %zu bytes long, expected 1 to %zu", n,
                       sizeof s.target - ROOM);
    memcpy(s.target, directory, n);
    PF_TRY(check_free(s.target, &s.is_inside, error));
    *out = s; /* what is told of stays where it is */
    const pf_status status = make_folder(out, error);
    if (status != PF_OK) out->path[0] = '\0';
    return status;
}

static void remove_folder(const char *path)
{
    DIR *directory = opendir(path);
    if (directory != NULL) {
        for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
            if (!is_dot(entry->d_name)) unlinkat(dirfd(directory), entry->d_name, 0);
        closedir(directory);
    }
    rmdir(path);
}

void pf_staging_abort(pf_staging *staging)
{
    if (staging->path[0] != '\0') remove_folder(staging->path);
    tell(staging, NULL);
    staging->path[0] = '\0';
}

/* Syncs the entries of a directory. Some file systems do not support that; the error is ignored. */
static void sync_directory(const char *path)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    (void)fsync(descriptor);
    close(descriptor);
}

static int is_file(const struct dirent *entry)
{
    return !is_dot(entry->d_name);
}

/* Moves a file from the folder into the directory around it, or back. False: errno is set. */
static bool move_file(const pf_staging *staging, const char *name, bool back)
{
    char in[PF_STAGING_PATH + NAME_MAX + 1], target[PF_STAGING_PATH + NAME_MAX + 1];
    snprintf(in, sizeof in, "%s/%s", staging->path, name);
    snprintf(target, sizeof target, "%s/%s", staging->target, name);
    return rename(back ? target : in, back ? in : target) == 0;
}

/* Moves all files or none, `last` after the others are synced. False: errno is set. */
static bool move_files(const pf_staging *staging, struct dirent **files, int n_files, const char *last)
{
    int n_moved = 0;
    bool ok = true;
    for (; n_moved < n_files && ok; n_moved += ok)
        ok = strcmp(files[n_moved]->d_name, last) == 0 || move_file(staging, files[n_moved]->d_name, false);
    if (ok) sync_directory(staging->target);
    if (ok && move_file(staging, last, false)) return true;
    const int why = errno;
    while (n_moved-- > 0)
        if (strcmp(files[n_moved]->d_name, last) != 0) (void)move_file(staging, files[n_moved]->d_name, true);
    errno = why;
    return false;
}

static pf_status leave_folder(const pf_staging *staging, const char *last, pf_error *error)
{
    struct dirent **files;
    const int n_files = scandir(staging->path, &files, is_file, NULL);
    const bool moved = n_files >= 0 && move_files(staging, files, n_files, last);
    const pf_status status =
        moved ? PF_OK
              : pf_fail(error, PF_UNAVAILABLE, "%s: the files written below it cannot be moved into it: %s",
                        staging->path, strerror(errno));
    for (int i = 0; i < n_files; i++) free(files[i]);
    if (n_files >= 0) free(files);
    if (moved) (void)rmdir(staging->path);
    return status;
}

static pf_status take_name(const pf_staging *staging, pf_error *error)
{
    if (rename(staging->path, staging->target) == 0) return PF_OK;
    return pf_fail(error, PF_UNAVAILABLE, "%s: the written directory cannot be renamed to this: %s", staging->target,
                   strerror(errno));
}

pf_status pf_staging_commit(pf_staging *staging, const char *last, pf_error *error)
{
    char changed[PF_STAGING_PATH];
    sync_directory(staging->path);
    PF_TRY(staging->is_inside ? leave_folder(staging, last, error) : take_name(staging, error));
    staging->path[0] = '\0';
    if (staging->is_inside)
        snprintf(changed, sizeof changed, "%s", staging->target);
    else
        find_parent(staging->target, changed);
    sync_directory(changed);
    return PF_OK;
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

pf_status pf_staging_open(const pf_staging *staging, const char *name, int *descriptor, pf_error *error)
{
    char path[PF_STAGING_PATH];
    PF_TRY(pf_file_join(staging->path, name, path, error));
    const int opened = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (opened < 0) return pf_fail(error, PF_UNAVAILABLE, "%s: cannot be created: %s", path, strerror(errno));
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
    PF_TRY(pf_file_join(from_directory, name, path, error));
    if (pf_file_is_absent(path)) return PF_OK;
    PF_TRY(pf_file_read(path, PF_STAGING_MAX_COPY, &text, &n_bytes, error));
    const pf_status status = pf_staging_write_file(staging, name, text, n_bytes, error);
    free(text);
    return status;
}
