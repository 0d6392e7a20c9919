/*
 * The connections of a server: accepted here, given to gRPC once they speak, and kept few enough.
 *
 *     backlog --accept4--> silent --HTTP/2's preface--> spoken --few are unread--> gRPC's: it reads, writes and closes
 *                            |                                                       |
 *                            | silent for too long, or saying                        | room is needed, it has no call,
 *                            | anything else, or room is needed                      | and is the oldest such: shut down
 *                            v                                                       v
 *                          closed                                               closed by gRPC
 *
 * gRPC 1.51 accepts for itself too, but its listener ends for good at the first accept that finds no descriptor free,
 * does not count what it accepts, and spends 200 KiB on a connection that never says a word. Here a connection costs a
 * descriptor until it speaks, and until gRPC has begun to read those that came before: it serves in turn, so one who is
 * connected would wait for a thousand newcomers. Whoever waits for room waits in the kernel's backlog; descriptors, kernel
 * memory or both may run out at any time, and it goes on when there are some again.
 *
 * Whether a connection of gRPC's still lives is not told by gRPC. A descriptor's number and the inode of its socket say
 * it; they are compared only when room is needed. Which connection a call came by is in the name that gRPC gives its
 * peer, "fd:7"; the descriptor cannot be closed while the call is referred to.
 *
 * gRPC 1.51 takes apart whatever a connection sends for as long as more comes. Who opens streams and resets them without
 * end (CVE-2023-44487) is so all that is heard, and each stream stays, 12 KB, until he pauses. He shows in one of two
 * ways, by which of gRPC's threads reads him, and is shut down: twice as many calls of his as may be open, or a poll
 * that computes for a tenth of a second and reads his connection alone. After the latter nobody is accepted for a second,
 * which goes to those who are connected: he comes back at once.
 *
 * Threads: one of its own, asleep unless there is somebody to accept or to listen to, or the poll to look at: twenty times
 * a second while gRPC has connections. It takes no lock of its owner's.
 */
#ifndef PF_RPC_LISTENER_H
#define PF_RPC_LISTENER_H

#include <stdint.h>

#include <grpc/grpc.h>

#include "base/status.h"
#include "rpc/poller.h"
#include "rpc/sockets.h"

typedef struct pf_listener pf_listener;

typedef struct {
    grpc_server *server;                           /* started; lives until pf_listener_close has returned */
    const pf_poller *poller;                       /* of the server's queue; lives as long */
    int32_t max_connections;                       /* at once, silent ones included */
    int32_t max_calls;                             /* of one connection; with more it is shut down */
    uint64_t silence_ns;                           /* how long one may take for its preface */
    void (*log)(void *user, const char *sentence); /* from its thread, or NULL */
    void *log_user;
} pf_listener_config;

/* Accept what comes to the sockets, which it closes in the end. On failure they are the caller's still.
 * PF_NOMEM: no memory, descriptor or thread. */
PF_MUST_USE pf_status pf_listener_open(const pf_listener_config *config, const pf_sockets *sockets, pf_listener **out,
                                       pf_error *error);

/* No more connections: the sockets are closed, the file of a unix socket is gone. What gRPC has stays. Twice is fine. */
void pf_listener_close(pf_listener *listener);
void pf_listener_destroy(pf_listener *listener); /* closes first; after the last pf_listener_leave. NULL is fine */

/* A call begins on a connection, which is not taken for idle until pf_listener_leave has been given what this returns.
 * Both while the call is referred to; any thread. */
int pf_listener_enter(pf_listener *listener, grpc_call *call);
void pf_listener_leave(pf_listener *listener, int connection);

#endif
