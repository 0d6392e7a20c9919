/* Runs what `worker` and `verifier` share: an engine that serves one role until it is told to stop. */
#ifndef PF_CLI_SERVING_H
#define PF_CLI_SERVING_H

#include "cli/options.h"
#include "include/pilotfish.h"

/* Load -m, listen at --listen, print "ready ADDR" on standard output once connections are accepted, serve until
 * it is told to stop (interrupt.h). The exit status: PF_EXIT_DONE after SIGTERM, which is how a service manager says
 * that the work is done, else PF_EXIT_INTERRUPTED. */
int pf_serving_run(const pf_command *command, const pf_options *options, pf_role role, pf_out *out);

/* The `ready` of a service: prints "ready ADDRESS" on the pf_out of `user`. False: it cannot be written. */
bool pf_serving_print_ready(void *user, const char *address);

/* The exit status of a service that has ended so. */
int pf_serving_exit(pf_status status, const pf_error *error);

#endif
