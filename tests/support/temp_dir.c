#include "tests/support/temp_dir.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/support/test.h"

void pf_temp_dir_make(pf_temp_dir *out)
{
    const char *where = getenv("TMPDIR");
    snprintf(out->path, sizeof out->path, "%s/pilotfish-test-XXXXXX", where ? where : "/tmp");
    assert_non_null(mkdtemp(out->path));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    return remove(path);
}

void pf_temp_dir_remove(pf_temp_dir *dir)
{
    assert_int_equal(nftw(dir->path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

const char *pf_temp_path(const pf_temp_dir *dir, const char *name, char *buffer)
{
    const int n = snprintf(buffer, PF_TEMP_PATH_BYTES, "%s/%s", dir->path, name);
    assert_in_range(n, 1, PF_TEMP_PATH_BYTES - 1);
    return buffer;
}

void pf_temp_write(const pf_temp_dir *dir, const char *name, const void *data, size_t bytes)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_temp_path(dir, name, path);
    for (char *slash = path + strlen(dir->path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755); /* may exist */
        *slash = '/';
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

void pf_temp_edit(const char *directory, const char *name, const char *from, const char *to)
{
    enum { MOST_BYTES = 1 << 24 };
    char path[2 * PF_TEMP_PATH_BYTES], *data;
    size_t n_bytes;
    pf_error error;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(pf_file_read(path, MOST_BYTES, &data, &n_bytes, &error), error);
    char *at = memmem(data, n_bytes, from, strlen(from));
    if (!at) {
        fail_msg("no %s in %s", from, path);
        return;
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(data, 1, (size_t)(at - data), f);
    fputs(to, f);
    at += strlen(from);
    fwrite(at, 1, n_bytes - (size_t)(at - data), f);
    assert_int_equal(fclose(f), 0);
    free(data);
}
