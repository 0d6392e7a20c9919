/* A server that a test runs in a thread of its own, and a socket for it in a directory of the test's own. */
#ifndef PF_TESTS_RUNNING_SERVER_H
#define PF_TESTS_RUNNING_SERVER_H

#include <pthread.h>

#include "rpc/server/server.h"

typedef struct {
    pf_server *server;
    pthread_t thread;
    pf_status run_status;
    pf_error run_error;
} running_server;

/* Make the server; run it; both. Fail the test when they cannot. */
void serving_create(running_server *s, const pf_server_config *config);
void serving_run(running_server *s);
void serving_begin(running_server *s, const pf_server_config *config);

/* Stop it, and fail the test unless it ended well. */
void serving_end(running_server *s);

/* The socket: its file, and the same as an address. Set up and taken away around a group of tests. */
extern char serving_path[64], serving_address[64];
extern int serving_port; /* of 127.0.0.1, in the socket's place, where a test sets it; else 0 */
int serving_make_directory(void **state);
int serving_remove_directory(void **state);

#endif
