/* The one place with mutable globals: malloc has no argument to carry a context in. */
#include "tests/support/alloc_count.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

static atomic_uint_fast64_t n_calls;
enum { REFUSED = -1, NONE = -2 };
static atomic_int_fast64_t n_left = NONE; /* calls until the refused one; or one of these */
static _Thread_local uint64_t n_calls_of_thread;

uint64_t pf_alloc_count(void)
{
    return atomic_load(&n_calls);
}

uint64_t pf_alloc_count_of_thread(void)
{
    return n_calls_of_thread;
}

void pf_alloc_count_reset(void)
{
    atomic_store(&n_calls, 0);
    n_calls_of_thread = 0;
}

bool pf_alloc_refuse_after(int64_t n)
{
    return atomic_exchange(&n_left, n < 0 ? NONE : n) == REFUSED;
}

/* Count a call. True: it is the one to refuse. */
static bool refused(void)
{
    atomic_fetch_add(&n_calls, 1);
    n_calls_of_thread++;
    if (atomic_load(&n_left) < 0 || atomic_fetch_sub(&n_left, 1) != 0) return false;
    errno = ENOMEM;
    return true;
}

/* ---- the linker sends calls of X to __wrap_X, and those of __real_X to X ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t most);
void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

void *__wrap_malloc(size_t size)
{
    return refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refused() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return refused() ? NULL : __real_reallocarray(old, count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refused() ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return refused() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return refused() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t most)
{
    return refused() ? NULL : __real_strndup(text, most);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    return refused() ? MAP_FAILED : __real_mmap(address, length, protection, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
    return refused() ? EAGAIN : __real_pthread_create(out, attr, start, arg);
}
