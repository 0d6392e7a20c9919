/*
 * What a shell may have limited, where a process would not come by an error: on a stack that is too small (`ulimit -s`) it
 * would end by a signal in the midst of its work.
 */
#ifndef PF_CLI_SHELL_LIMITS_H
#define PF_CLI_SHELL_LIMITS_H

#include "base/status.h"

/* Sees to it that the calling thread, and those that are started from here on, have the stack that anything here may need,
 * by raising the limit where the system lets us; and that where the address space is limited (`ulimit -v`) threads do not
 * reserve most of it for what they may allocate. Call before any thread is started.
 *
 * Errors: PF_LIMIT, the system does not let us. */
PF_MUST_USE pf_status pf_shell_limits_heed(pf_error *error);

#endif
