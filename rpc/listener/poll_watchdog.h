/*
 * Disconnects a connection that keeps a poll from ending. Internal to rpc/.
 *
 * gRPC 1.51 reads a connection for as long as more bytes come. A client that opens and resets streams without end
 * (CVE-2023-44487) blocks all others, and each stream takes 12 KB until it pauses. During such a poll only the blocking
 * connection is read. So a poll that computes for a tenth of a second (100 MB of well-formed messages, copied) while one
 * connection is read ends that connection.
 *
 * Threads: the listener's.
 */
#ifndef PF_RPC_POLL_WATCHDOG_H
#define PF_RPC_POLL_WATCHDOG_H

#include <stdatomic.h>

#include "rpc/listener/connections.h"
#include "rpc/poller.h"

enum { PF_POLL_WATCHDOG_MS = 50 }; /* between checks of the poll */

/* Part of its owner's struct; its fields but the first are the watchdog's alone. */
typedef struct {
    const pf_poller *poller;
    uint32_t poll;   /* the one last seen, */
    uint64_t cpu_ns; /* and the CPU time of its thread then */
} pf_poll_watchdog;

/* Called every PF_POLL_WATCHDOG_MS while gRPC has connections. Watches closely for as long where the poll is blocked,
 * or until *stop. Whether a connection was shut down. */
bool pf_poll_watchdog_check(pf_poll_watchdog *watchdog, pf_connections *cs, const atomic_bool *stop);

#endif
