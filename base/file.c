#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

pf_status pf_file_join(const char *directory, const char *name, char out[PF_FILE_PATH_BYTES], pf_error *error)
{
    const size_t n_directory = strlen(directory), n_name = strlen(name);
    if (n_directory >= PF_FILE_PATH_BYTES || n_name >= PF_FILE_PATH_BYTES - n_directory - 1)
        return pf_fail(error, PF_INVALID, "%.200s...: the path of %.100s in it is longer than %d bytes", directory,
                       name, PF_FILE_PATH_BYTES - 1);
    memcpy(out, directory, n_directory);
    out[n_directory] = '/';
    memcpy(out + n_directory + 1, name, n_name + 1);
    return PF_OK;
}

bool pf_file_is_absent(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* What may be done about it. */
static const char *remedy(int why)
{
    return why == EMFILE ? ": ulimit -n tells how many a process may have, and sets it" : "";
}

/* Open a regular file for reading. O_NONBLOCK: a FIFO must not hang us before fstat can refuse it. */
static pf_status open_regular(const char *path, int *out_fd, struct stat *out, pf_error *error)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        const int why = errno;
        return pf_fail(error, pf_file_is_absent(path) ? PF_UNAVAILABLE : PF_INVALID, "%s: cannot be opened: %s%s", path,
                       strerror(why), remedy(why));
    }

    struct stat info;
    if (fstat(fd, &info) != 0) {
        const int why = errno;
        close(fd);
        return pf_fail(error, PF_INVALID, "%s: cannot be examined: %s", path, strerror(why));
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        return pf_fail(error, PF_INVALID, "%s: is a %s, expected a regular file", path,
                       S_ISDIR(info.st_mode) ? "directory" : "device, socket or pipe");
    }
    *out_fd = fd;
    *out = info;
    return PF_OK;
}

pf_status pf_file_open_map(const char *path, pf_file_map *out, pf_error *error)
{
    int fd;
    struct stat info;
    PF_TRY(open_regular(path, &fd, &info, error));
    const size_t size = (size_t)info.st_size;
    if (size == 0) {
        close(fd);
        *out = (pf_file_map){ .data = NULL, .size = 0 };
        return PF_OK;
    }
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        const int why = errno;
        close(fd);
        return pf_fail(error, PF_NOMEM, "%s: %zu bytes cannot be mapped: %s", path, size, strerror(why));
    }
    *out = (pf_file_map){ .data = data, .size = size, .descriptor = fd, .written = info.st_mtim };
    return PF_OK;
}

pf_status pf_file_check_map(const pf_file_map *map, const char *path, pf_error *error)
{
    struct stat now;
    if (!map->data) return PF_OK;
    if (fstat(map->descriptor, &now) == 0 && (size_t)now.st_size == map->size &&
        now.st_mtim.tv_sec == map->written.tv_sec && now.st_mtim.tv_nsec == map->written.tv_nsec)
        return PF_OK;
    return pf_fail(error, PF_INVALID, "%s: was written to while it was read", path);
}

void pf_file_unmap(pf_file_map *map)
{
    if (map->data) munmap((void *)(uintptr_t)map->data, map->size);
    if (map->data) close(map->descriptor);
    *map = (pf_file_map){ .data = NULL, .size = 0 };
}

/* Read to the end of the file into *text, which holds `capacity` bytes and one more for the NUL, growing as the
 * file does: its size was a snapshot, and files under /proc say 0. */
static pf_status read_to_end(int fd, const char *path, size_t max_bytes, size_t capacity, char **text,
                             size_t *out_bytes, pf_error *error)
{
    size_t n = 0;
    for (;;) {
        if (n == capacity) {
            const size_t larger = capacity < max_bytes / 2 ? 2 * capacity + 4096 : max_bytes + 1;
            char *moved = realloc(*text, larger + 1);
            if (!moved) return pf_fail(error, PF_NOMEM, "%s: no memory for %zu bytes", path, larger);
            *text = moved;
            capacity = larger;
        }
        const ssize_t got = read(fd, *text + n, capacity - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return pf_fail(error, PF_INVALID, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0) break;
        n += (size_t)got;
        if (n > max_bytes)
            return pf_fail(error, PF_LIMIT, "%s: is larger than %zu bytes, the most accepted here", path, max_bytes);
    }
    (*text)[n] = '\0';
    *out_bytes = n;
    return PF_OK;
}

pf_status pf_file_read(const char *path, size_t max_bytes, char **out, size_t *out_bytes, pf_error *error)
{
    int fd;
    struct stat info;
    if (max_bytes > SIZE_MAX / 4) max_bytes = SIZE_MAX / 4;
    PF_TRY(open_regular(path, &fd, &info, error));
    const size_t size = (size_t)info.st_size;
    if (size > max_bytes) {
        close(fd);
        return pf_fail(error, PF_LIMIT, "%s: is %zu bytes, expected at most %zu", path, size, max_bytes);
    }
    const size_t capacity = size + 1; /* one more, so that the end is seen without growing */
    char *text = malloc(capacity + 1);
    pf_status status = text ? read_to_end(fd, path, max_bytes, capacity, &text, out_bytes, error)
                            : pf_fail(error, PF_NOMEM, "%s: no memory for %zu bytes", path, size);
    close(fd);
    if (status != PF_OK) {
        free(text);
        return status;
    }
    *out = text;
    return PF_OK;
}
