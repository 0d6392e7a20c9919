#include "cli/stack_limit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

/* The most that is known to be used is 200 KiB: of JSON that is nested as deep as jansson follows. */
enum { LEAST_BYTES = 256 << 10 };

/* glibc has looked at the limit before main. */
static int enlarge_threads(void)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc == 0) rc = pthread_attr_setstacksize(&attr, LEAST_BYTES);
    if (rc == 0) rc = pthread_setattr_default_np(&attr);
    pthread_attr_destroy(&attr);
    return rc;
}

pf_status pf_stack_limit_check(pf_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= LEAST_BYTES)
        return PF_OK;
    const unsigned long long found = limit.rlim_cur;
    limit.rlim_cur = LEAST_BYTES;
    const int rc = limit.rlim_max < LEAST_BYTES ? EPERM : setrlimit(RLIMIT_STACK, &limit) != 0 ? errno : 0;
    if (rc == 0 && enlarge_threads() == 0) return PF_OK;
    return pf_fail(error, PF_LIMIT, "the stack may have %llu KiB, expected %d or more (ulimit -s)", found >> 10,
                   LEAST_BYTES >> 10);
}
