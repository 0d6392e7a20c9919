/*
 * The connections of a server: accepted here, given to gRPC once they speak, and kept few enough.
 *
 *     backlog --accept4--> silent --HTTP/2's preface--> spoken --few are unread--> gRPC's: it reads, writes and closes
 *                            |                                 |                     |
 *                            | silent for too long, or saying  | hung up             | room is needed, it has no call,
 *                            | anything else, or room is needed|                     | and is the oldest such: shut down
 *                            v                                 v                     v
 *                          closed                            closed             closed by gRPC
 *
 * gRPC 1.51 accepts for itself too, but its listener ends for good at the first accept that finds no descriptor free,
 * does not count what it accepts, and spends 200 KiB on a connection that never says a word. Here a connection costs a
 * descriptor until it speaks, and until gRPC has begun to read those that came before: it serves in turn, so one who is
 * connected would wait for a thousand newcomers. Whoever waits for room waits in the kernel's backlog; descriptors, kernel
 * memory or both may run out at any time, and it goes on when there are some again.
 *
 * Two things cost a connection its life beside those above: a poll that does not end because of it (rpc/listener/poll_watchdog.h;
 * after which nobody is accepted for a second, which goes to those who are connected: he comes back at once), and twice as
 * many calls as may be open at all.
 *
 * And a third where others need its place. gRPC 1.51 lets go of a call once what it writes to the connection is written, so
 * who opens calls, ends them and reads none of the answers keeps each, and no ping finds him, which would be written too. When
 * a call is turned away because too many are ending, the connections where that has been so for a second are cut, the
 * worst first, until half as many calls are over as are too many. While nobody needs the place they stay.
 *
 * And a fourth: what gRPC has read of it and no call has claimed, when of all together it is too much (rpc/listener/unattributed_bytes.h). And a
 * fifth: a call that has more metadata than is taken (rpc/server/server_events.c).
 *
 *     connections.c   who is there, and who goes        preface_check.c   first words, and how many gRPC is given at once
 *     poll_watchdog.c    a poll that does not end          unattributed_bytes.c  what is sent, and belongs to no call
 *     listener.c      the door, and the thread
 *
 * Threads: one of its own, asleep unless there is somebody to accept or to listen to, or gRPC to look at: twenty times a
 * second while it has connections. It takes no lock of its owner's.
 */
#ifndef PF_RPC_LISTENER_H
#define PF_RPC_LISTENER_H

#include <stddef.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "base/status.h"
#include "rpc/poller.h"
#include "rpc/listener/sockets.h"

typedef struct pf_listener pf_listener;

typedef struct {
    grpc_server *server;     /* started; lives until pf_listener_close has returned */
    const pf_poller *poller; /* of the server's queue; lives as long */
    int32_t max_connections; /* at once, silent ones included */
    int32_t max_calls;       /* of one connection; with more it is shut down */
    int32_t max_finished;    /* calls that may stay over and unread when others need a place */
    size_t
        max_unattributed_bytes; /* of all connections, that no call accounts for (rpc/listener/unattributed_bytes.h) */
    uint64_t silence_ns;        /* how long one may take for its preface */
    void (*log)(void *user, const char *sentence); /* from its thread, or NULL */
    void *log_user;
} pf_listener_config;

/* Accept what comes to the sockets, which it closes in the end. On failure they are the caller's still.
 * PF_NOMEM: no memory, descriptor or thread. */
PF_MUST_USE pf_status pf_listener_open(const pf_listener_config *config, const pf_sockets *sockets, pf_listener **out,
                                       pf_error *error);

/* No more connections: the sockets are closed, the file of a unix socket is gone. What gRPC has stays. Twice is fine. */
void pf_listener_close(pf_listener *listener);
void pf_listener_destroy(pf_listener *listener); /* closes first; after the last pf_listener_call_freed. NULL is fine */

/* After pf_listener_close: shuts down what gRPC still has, where its own shutdown waits for ever for who reads nothing. */
void pf_listener_disconnect_all(pf_listener *listener);

/* A call begins on a connection, which is told by what this returns; is over, one way or another; and is let go of, last.
 * Each once, while the call is referred to; any thread. What a stream has held goes back to the system soon after. */
int pf_listener_call_started(pf_listener *listener, grpc_call *call);
void pf_listener_call_finished(pf_listener *listener, int connection, bool stream);
void pf_listener_call_freed(pf_listener *listener, int connection);

/* A message of a call has come, which had so many bytes. While the call is referred to; any thread. */
void pf_listener_attribute(pf_listener *listener, int connection, size_t n_bytes);

/* Shuts a call's connection down at once, because of what the call has sent. While it is referred to; any thread. */
void pf_listener_disconnect(int connection);

/* A call finds no place because of those that are over. Within 50 ms who keeps them is dealt with; any thread. */
void pf_listener_disconnect_back_pressured(pf_listener *listener);

#endif
