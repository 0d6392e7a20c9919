/*
 * Accepts a server's connections, hands them off to gRPC after the HTTP/2 preface, and bounds their number.
 *
 *     backlog --accept4--> NEW ------HTTP/2 preface------> READY --few are unread--> HANDED_OFF: gRPC reads, writes and closes
 *                            |                                 |                     |
 *                            | preface timeout, other bytes,   | closed by           | evicted: no call,
 *                            | or evicted                      | the client          | and the oldest such: shut down
 *                            v                                 v                     v
 *                          closed                            closed             closed by gRPC
 *
 * gRPC 1.51 can accept by itself, but its listener ends for good at the first accept that finds no free descriptor, does not
 * count connections, and spends 200 KiB on one that sends nothing. Here a connection costs a descriptor until its preface has
 * arrived, and until gRPC has begun to read those before it: gRPC serves in turn, so connected clients would wait for a
 * thousand new ones. Without room new connections wait in the kernel's backlog. Descriptors and kernel memory may run out at
 * any time, and accepting continues when they are available.
 *
 * A connection is also disconnected
 *   - when it keeps a poll from ending (poll_watchdog.h); then nothing is accepted for a second, since such a client reconnects
 *     at once;
 *   - when it has twice as many calls as may be open in all;
 *   - when a call is rejected because too many are ending, and this connection has not read an answer for a second, the worst
 *     first, until half of the limit is left. gRPC 1.51 frees a call once what it writes is written, so a client that opens
 *     calls and never reads keeps each, and no keepalive ping detects it, since the ping cannot be written either;
 *   - when too many bytes of it are attributed to no call (unattributed_bytes.h);
 *   - when a call has more metadata than is accepted (rpc/server/server_events.c).
 *
 *     connections.c      the table, and eviction          preface_check.c       the preface, and the hand-off to gRPC
 *     poll_watchdog.c    a poll that does not end         unattributed_bytes.c  bytes that belong to no call
 *     listener.c         accepting, and the thread
 *
 * Threads: one of its own. It sleeps until there is something to accept or read, and while gRPC has connections wakes twenty
 * times a second. It takes no lock of its owner.
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
    int32_t max_connections; /* at once, those without a preface included */
    int32_t max_calls;       /* of one connection; with more it is disconnected */
    int32_t max_finished;    /* calls that may stay finished and unread when others need a slot */
    size_t
        max_unattributed_bytes;  /* of all connections, that no call accounts for (rpc/listener/unattributed_bytes.h) */
    uint64_t preface_timeout_ns; /* the time a connection has for its preface */
    void (*log)(void *user, const char *sentence); /* from its thread, or NULL */
    void *log_user;
} pf_listener_config;

/* Accepts connections on the sockets, and closes these in the end. On failure they remain the caller's. PF_NOMEM: no
 * memory, descriptor or thread. */
PF_MUST_USE pf_status pf_listener_open(const pf_listener_config *config, const pf_sockets *sockets, pf_listener **out,
                                       pf_error *error);

/* Accepts no more: the sockets are closed, the file of a unix socket is removed. Connections that were handed off
 * stay. May be called twice. */
void pf_listener_close(pf_listener *listener);
void pf_listener_destroy(pf_listener *listener); /* closes first; after the last pf_listener_call_freed. NULL is fine */

/* After pf_listener_close: shuts down the connections that gRPC still has. Its own shutdown would wait for ever for a
 * client that does not read. */
void pf_listener_disconnect_all(pf_listener *listener);

/* A call starts on a connection, which the returned number names; is finished; and is freed, last. Each once, while
 * the call is referred to; any thread. Memory of a stream goes back to the system soon afterwards. */
int pf_listener_call_started(pf_listener *listener, grpc_call *call);
void pf_listener_call_finished(pf_listener *listener, int connection, bool stream);
void pf_listener_call_freed(pf_listener *listener, int connection);

/* A message of a call has arrived, of n_bytes. While the call is referred to; any thread. */
void pf_listener_attribute(pf_listener *listener, int connection, size_t n_bytes);

/* Shuts a call's connection down at once, because of what the call has sent. While it is referred to; any thread. */
void pf_listener_disconnect(int connection);

/* A call was rejected because too many are finished and unread. Within 50 ms back-pressured connections are
 * disconnected; any thread. */
void pf_listener_disconnect_back_pressured(pf_listener *listener);

#endif
