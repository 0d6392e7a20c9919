#include "cli/shell_limits.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* The most that is known to be used is 200 KiB: of JSON that is nested as deep as jansson follows. */
enum { LEAST_STACK_BYTES = 256 << 10, GROWN_STACK_BYTES = 512 << 10 };

/* glibc has looked at the limit before main. */
static int enlarge_threads(void)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    rc = pthread_attr_setstacksize(&attr, LEAST_STACK_BYTES);
    if (rc == 0) rc = pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
    return rc;
}

static pf_status heed_stack(pf_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LEAST_STACK_BYTES)
        return PF_OK; /* none is the largest */
    const unsigned long long found = limit.rlim_cur;
    limit.rlim_cur = LEAST_STACK_BYTES;
    if (setrlimit(RLIMIT_STACK, &limit) == 0 && enlarge_threads() == 0) return PF_OK;
    return pf_fail(error, PF_LIMIT, "the stack may have %llu KiB, expected %d or more (ulimit -s)", found >> 10,
                   LEAST_STACK_BYTES >> 10);
}

/* The stack grows as it is used. Where the address space is full it cannot, and the process would end without a sentence. */
static __attribute__((noinline)) void grow_stack(void)
{
    volatile char grown[GROWN_STACK_BYTES];
    for (size_t i = sizeof grown; i >= 4096; i -= 4096) grown[i - 4096] = 0;
}

/* glibc gives threads heaps of their own, and reserves 64 MiB and more for each. */
static pf_status heed_address_space(pf_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return PF_OK;
    (void)mallopt(M_ARENA_MAX, 1);
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur < 2 * GROWN_STACK_BYTES) return PF_OK;
    const size_t wanted = GROWN_STACK_BYTES + (64 << 10); /* of which a little is left */
    void *room = mmap(NULL, wanted, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return pf_fail(error, PF_NOMEM, "no memory for a stack of %d KiB (ulimit -v)", GROWN_STACK_BYTES >> 10);
    (void)munmap(room, wanted);
    grow_stack();
    return PF_OK;
}

pf_status pf_shell_limits_heed(pf_error *error)
{
    PF_TRY(heed_stack(error));
    return heed_address_space(error);
}
