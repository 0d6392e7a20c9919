/*
 * Keeps the table of a server's connections, the oldest first, and evicts idle ones when it is full. Internal to rpc/.
 *
 *     NEW ---HTTP/2 preface---> READY ---few are unread---> HANDED_OFF: gRPC reads, writes and closes it
 *      |                          | disconnected               | shut down
 *      v                          v                            v
 *    dropped                    dropped                     CLOSING: gRPC will close it
 *
 * gRPC does not report when it closes a connection. A descriptor's number and the inode of its socket tell: they are compared
 * when the table is full, and before a connection is shut down. The name that gRPC gives a call's peer, "fd:7", tells its
 * connection; the descriptor cannot be closed while the call is referred to.
 *
 * A call is finished when its client or the server has ended it. gRPC frees it once what it writes is written: never, where
 * the client does not read. Such a connection is *back-pressured*.
 *
 * Threads: the listener's adds, moves and removes; the lock guards what the threads that count calls share.
 */
#ifndef PF_RPC_CONNECTIONS_H
#define PF_RPC_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Delays before the next attempt to accept a connection. */
enum {
    PF_NOW_MS = 0,
    PF_SOON_MS = 10,   /* gRPC will have closed what was shut down */
    PF_LATER_MS = 100, /* a connection may have closed */
};

typedef enum {
    PF_CONNECTION_NEW,        /* it has not sent all of the preface */
    PF_CONNECTION_READY,      /* it has, and waits until gRPC has read others */
    PF_CONNECTION_HANDED_OFF, /* to gRPC, which closes it */
    PF_CONNECTION_CLOSING,    /* it was shut down; gRPC will close it */
} pf_connection_stage;

typedef struct {
    int fd;
    pf_connection_stage stage;
    bool is_unread; /* handed off, and gRPC has not begun to read it */
    ino_t inode;    /* of the socket */
    int32_t n_calls;
    int32_t n_finished;   /* of these, those that are finished */
    uint64_t finished_ns; /* since when there has been such a call */
    uint64_t since_ns;    /* when it was accepted */
    int n_unread;         /* bytes, at the last check of rpc/listener/poll_watchdog.h */

    /* Bytes, for rpc/listener/unattributed_bytes.h. At its last check gRPC had read n_attributed + n_unattributed. */
    uint64_t n_to_attribute; /* attributed to calls and messages since that check */
    uint64_t n_attributed;   /* attributed until then */
    uint64_t n_unattributed;
} pf_connection;

/* Part of its owner's struct. */
typedef struct {
    pf_connection *all; /* some of those handed off are closed already */
    int32_t n, most;
    int wakeup;          /* an eventfd: wakes the thread */
    int spare;           /* a spare descriptor for when there are no more */
    uint64_t counted_ns; /* when all were last checked for being closed */

    pthread_mutex_t lock; /* of the counts of calls, and of what is below */
    bool blind;           /* gRPC did not report the connection of a call: none may be taken for idle */
} pf_connections;

/* False: no memory or descriptor; pf_connections_end must be called all the same. */
bool pf_connections_begin(pf_connections *cs, int32_t most);
void pf_connections_end(pf_connections *cs); /* closes none of the connections */

/* A connection that is not handed off: closed by the client, in one direction at least. gRPC would end all its calls
 * without an answer. */
bool pf_connection_is_closed(const pf_connection *c);

pf_connection *pf_connections_find(pf_connections *cs, int fd); /* or NULL */
int32_t pf_connections_count(const pf_connections *cs, pf_connection_stage stage);

/* ---- the listener's thread ---------------------------------------------------------------------------------------- */

void pf_connections_add(pf_connections *cs, int fd); /* in stage NEW; the table has room */
void pf_connections_drop(pf_connections *cs,
                         pf_connection *c); /* one that is not handed off: closes it, and removes it from the table */
void pf_connections_advance(pf_connections *cs, pf_connection *c, pf_connection_stage to);

/* Evicts the least useful idle connection: closes it, or has gRPC close it. Returns in how many milliseconds there may
 * be room for another. */
int pf_connections_make_room(pf_connections *cs);

/* A connection that is handed off: gRPC closes it once it reads the end. False: it was closed already, and its number
 * may be reused. */
bool pf_connections_shut_down(pf_connections *cs, pf_connection *c);

/* Shuts down back-pressured connections, the worst first, until no more than `most_finished` calls have been finished
 * and unread for a second. Returns how many were shut down. */
int pf_connections_disconnect_back_pressured(pf_connections *cs, int32_t most_finished);

/* ---- any thread --------------------------------------------------------------------------------------------------- */

/* A call starts, is finished, and is freed by gRPC. A connection with more than `most` calls is shut down. fd -1: its
 * connection is not known. */
void pf_connections_call_started(pf_connections *cs, int fd, int32_t most);
void pf_connections_call_finished(pf_connections *cs, int fd);
void pf_connections_call_freed(pf_connections *cs, int fd); /* after pf_connections_call_finished */

/* A message of a call has arrived, of n_bytes. */
void pf_connections_attribute(pf_connections *cs, int fd, size_t n_bytes);

#endif
