/* What every unit test includes: cmocka, and the headers that it wants before itself. */
#ifndef PF_TESTS_TEST_H
#define PF_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

#define PF_COUNT(array) (sizeof(array) / sizeof *(array))

/* A call that must succeed; its sentence is in the failure's message. */
#define assert_ok(call, error)                                                              \
    do {                                                                                    \
        const pf_status ok_ = (call);                                                       \
        if (ok_ != PF_OK) fail_msg("%s: %s: %s", #call, pf_status_name(ok_), (error).text); \
    } while (0)

/* A call that must fail so. */
#define assert_status(call, expected)                                                                  \
    do {                                                                                               \
        const pf_status status_ = (call);                                                              \
        if (status_ != (expected))                                                                     \
            fail_msg("%s: %s, expected %s", #call, pf_status_name(status_), pf_status_name(expected)); \
    } while (0)

/* A sentence that must hold a part. */
#define assert_says(error, part)                                                                       \
    do {                                                                                               \
        if (!strstr((error).text, (part))) fail_msg("\"%s\" does not say \"%s\"", (error).text, part); \
    } while (0)

#endif
