/*
 * The stack that a shell may have limited (`ulimit -s`). On one that is too small the process would end by a signal in the
 * midst of its work; threads get what the limit says, too.
 */
#ifndef PF_CLI_STACK_LIMIT_H
#define PF_CLI_STACK_LIMIT_H

#include "base/status.h"

/* Sees to it that the calling thread, and those that are started from here on, have the stack that anything here may need,
 * by raising the limit where the system lets us. Call before any thread is started.
 *
 * Errors: PF_LIMIT, the system does not. */
PF_MUST_USE pf_status pf_stack_limit_check(pf_error *error);

#endif
