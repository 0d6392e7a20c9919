#include "base/openmp.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const system_names[] = { "libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so", NULL };

/* Names of the files of runtimes: libgomp.so.1, libgomp-a34b3233.so.1.0.0, libomp.so.5, libomp-14.so.5, libiomp5.so;
 * not libgomp-plugin-nvptx.so.1, libomptarget.so, libompd.so. */
static bool is_runtime_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strncmp(name, "libgomp-plugin", 14) == 0) return false;
    if (strncmp(name, "libgomp", 7) == 0) return name[7] == '.' || name[7] == '-';
    if (strncmp(name, "libiomp5", 8) == 0) return name[8] == '.' || name[8] == '-';
    return strncmp(name, "libomp", 6) == 0 && (name[6] == '.' || name[6] == '-' || name[6] == '5');
}

/* Whether the loaded object has all entry points; then they are in *out. */
static bool resolve(void *handle, pf_openmp *out)
{
    pf_openmp found = { 0 };
    const struct {
        const char *symbol;
        void *function; /* of the pointer to a function */
    } entries[] = {
        { "GOMP_parallel", &found.parallel },
        { "omp_get_thread_num", &found.thread_num },
        { "omp_get_num_threads", &found.num_threads },
        { "omp_get_max_threads", &found.max_threads },
        { "omp_get_thread_limit", &found.thread_limit },
        { "omp_get_dynamic", &found.get_dynamic },
        { "omp_set_dynamic", &found.set_dynamic },
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        void *symbol = dlsym(handle, entries[i].symbol);
        if (!symbol) return false;
        memcpy(entries[i].function, &symbol, sizeof symbol); /* C has no cast between the two */
    }
    Dl_info where;
    void *parallel;
    memcpy(&parallel, &found.parallel, sizeof parallel);
    snprintf(found.path, sizeof found.path, "%s", dladdr(parallel, &where) ? where.dli_fname : "unknown");
    *out = found;
    return true;
}

/* flags: RTLD_NOLOAD or 0. The handle is kept open, so that the runtime is not unloaded. */
static bool open_runtime(const char *path, int flags, pf_openmp *out)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags);
    if (!handle) return false;
    const bool found = resolve(handle, out);
    dlclose(handle); /* RTLD_NODELETE: it stays */
    return found;
}

enum { MAX_LOADED = 16 };

typedef struct {
    char paths[MAX_LOADED][PATH_MAX];
    int32_t n;
} loaded_runtimes;

static int note_runtime(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    loaded_runtimes *loaded = user;
    if (loaded->n < MAX_LOADED && is_runtime_name(info->dlpi_name))
        snprintf(loaded->paths[loaded->n++], PATH_MAX, "%s", info->dlpi_name);
    return 0;
}

/* The first loaded runtime that is not `usual`; a path of "" is that of none. */
static bool find_loaded(const char *usual, pf_openmp *out)
{
    loaded_runtimes loaded = { .n = 0 };
    dl_iterate_phdr(note_runtime, &loaded); /* opening one in the callback would wait for the same lock */
    for (int32_t i = 0; i < loaded.n; i++)
        if (strcmp(loaded.paths[i], usual) != 0 && open_runtime(loaded.paths[i], RTLD_NOLOAD, out)) return true;
    return false;
}

pf_status pf_openmp_find_among(const char *const *names, pf_openmp *out, pf_error *error)
{
    pf_openmp usual = { .path = "" };
    const bool is_loaded = open_runtime(names[0], RTLD_NOLOAD, &usual);
    if (find_loaded(usual.path, out)) return PF_OK;
    if (is_loaded) {
        *out = usual;
        return PF_OK;
    }
    for (; *names; names++)
        if (open_runtime(*names, 0, out)) return PF_OK;
    return pf_fail(
        error, PF_UNAVAILABLE,
        "OpenMP threading: no OpenMP runtime is loaded in this process, and neither libgomp.so.1 nor libomp.so "
        "can be loaded (Debian: libgomp1); expected one of them, or own threading");
}

pf_status pf_openmp_find(pf_openmp *out, pf_error *error)
{
    return pf_openmp_find_among(system_names, out, error);
}

int32_t pf_openmp_threads(const pf_openmp *openmp)
{
    const int n_threads = openmp->max_threads(), limit = openmp->thread_limit();
    const int most = n_threads < limit ? n_threads : limit;
    return most > 0 ? most : 1;
}
