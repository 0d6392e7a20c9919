/*
 * A poll that does not end, and who keeps it from ending. Internal to rpc/.
 *
 * gRPC 1.51 takes apart whatever a connection sends for as long as more comes. Who opens streams and resets them without
 * end (CVE-2023-44487) is so all that is heard, and each stream stays, 12 KB, until he pauses. While a poll is held up only
 * who holds it up is read: all others wait for the next. So a poll that computes for a tenth of a second (100 MB of honest
 * messages, copied) and reads one connection alone costs that connection its life.
 *
 * Threads: the listener's.
 */
#ifndef PF_RPC_POLL_WATCHDOG_H
#define PF_RPC_POLL_WATCHDOG_H

#include <stdatomic.h>

#include "rpc/listener/connections.h"
#include "rpc/poller.h"

enum { PF_POLL_WATCHDOG_MS = 50 }; /* between looks at the poll */

/* Part of its owner's struct; its fields but the first are the watch's alone. */
typedef struct {
    const pf_poller *poller;
    uint32_t poll;   /* the one last seen, */
    uint64_t cpu_ns; /* and the CPU time of its thread then */
} pf_poll_watchdog;

/* To be called every PF_POLL_WATCHDOG_MS while gRPC has connections. Looks closely for as long where the poll is held up, or
 * until *stop. Whether a connection was shut down. */
bool pf_poll_watchdog_check(pf_poll_watchdog *watch, pf_connections *cs, const atomic_bool *stop);

#endif
