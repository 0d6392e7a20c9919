/*
 * The connections of a server, the oldest first, and who goes when room is needed. Internal to rpc/.
 *
 *     SILENT --HTTP/2's preface--> SPOKEN --few are unread--> GIVEN: gRPC reads, writes and closes it
 *        |                            | hung up                 | shut down
 *        v                            v                         v
 *      dropped                     dropped                   CLOSING: gRPC will close it
 *
 * Whether a connection of gRPC's still lives is not told by gRPC. A descriptor's number and the inode of its socket say
 * it; they are compared when room is needed, and before one is shut down. Which connection a call came by is in the name
 * that gRPC gives its peer, "fd:7"; the descriptor cannot be closed while the call is referred to.
 *
 * A call is over when its client or the server has ended it, and is let go of by gRPC once what it writes is written: never,
 * where the client reads nothing. Such a connection *clogs*.
 *
 * Threads: one, the listener's, adds, moves and removes; the lock is its owner's with everybody who counts calls.
 */
#ifndef PF_RPC_CONNECTIONS_H
#define PF_RPC_CONNECTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How long who wants room waits before he looks again. */
enum {
    PF_NOW_MS = 0,
    PF_SOON_MS = 10,   /* gRPC will have closed what was shut down */
    PF_LATER_MS = 100, /* perhaps somebody has left */
};

typedef enum {
    PF_CONNECTION_NEW,        /* it has not said all of the preface */
    PF_CONNECTION_READY,      /* it has, and waits until gRPC is through with others */
    PF_CONNECTION_HANDED_OFF, /* to gRPC, which closes it */
    PF_CONNECTION_CLOSING,    /* it was shut down; gRPC will close it */
} pf_connection_stage;

typedef struct {
    int fd;
    pf_connection_stage stage;
    bool is_unread; /* given, and gRPC has not begun to read it */
    ino_t inode;    /* of the socket */
    int32_t n_calls;
    int32_t n_finished;   /* of these, those that are over */
    uint64_t finished_ns; /* since when there has been one */
    uint64_t since_ns;    /* when it was accepted */
    int n_unread;         /* bytes, at the last look of rpc/listener/poll_watchdog.h */

    /* Bytes, for rpc/listener/unattributed_bytes.h. What gRPC has read is n_attributed + n_unattributed, as of its last look. */
    uint64_t n_to_attribute; /* that calls and messages account for, since that look */
    uint64_t n_attributed;   /* that they account for, until then */
    uint64_t n_unattributed;
} pf_connection;

/* Part of its owner's struct. */
typedef struct {
    pf_connection *all; /* [n] some of gRPC's are closed already */
    int32_t n, most;
    int wakeup;          /* an eventfd: wakes the thread */
    int spare;           /* a descriptor to work with when there are no more */
    uint64_t counted_ns; /* when all were last compared with what their numbers stand for */

    pthread_mutex_t lock; /* of the counts of calls, and of what is below */
    bool blind;           /* gRPC has not told the connection of a call: none may be taken for idle */
} pf_connections;

/* False: no memory or no descriptor; pf_connections_end is due all the same. */
bool pf_connections_begin(pf_connections *cs, int32_t most);
void pf_connections_end(pf_connections *cs); /* closes none of the connections */

/* One that is not gRPC's: hung up, in one direction at least. gRPC ends all calls of such a connection, and answers none. */
bool pf_connection_is_closed(const pf_connection *c);

pf_connection *pf_connections_find(pf_connections *cs, int fd); /* or NULL */
int32_t pf_connections_count(const pf_connections *cs, pf_connection_stage stage);

/* ---- the listener's thread ---------------------------------------------------------------------------------------- */

void pf_connections_add(pf_connections *cs, int fd); /* silent so far; there is room */
void pf_connections_drop(pf_connections *cs,
                         pf_connection *c); /* one that is not gRPC's: closed, and out of the table */
void pf_connections_advance(pf_connections *cs, pf_connection *c, pf_connection_stage to);

/* Closes who is least missed, or has gRPC close him. In how many milliseconds there may be room for another. */
int pf_connections_make_room(pf_connections *cs);

/* One of gRPC's: it is closed as soon as gRPC hears of it. False: it was already, and its number may be another's. */
bool pf_connections_shut_down(pf_connections *cs, pf_connection *c);

/* Shuts down who clogs, the worst first, until no more than `most_finished` calls are over that have been so for a second. How
 * many were shut down. */
int pf_connections_disconnect_back_pressured(pf_connections *cs, int32_t most_finished);

/* ---- any thread --------------------------------------------------------------------------------------------------- */

/* Calls begin, are over, and are let go of. More than `most` of a connection, and it is shut down. fd -1: not known whose. */
void pf_connections_call_started(pf_connections *cs, int fd, int32_t most);
void pf_connections_call_finished(pf_connections *cs, int fd);
void pf_connections_call_freed(pf_connections *cs, int fd); /* one that is over */

/* A message of a call has come, which had so many bytes. */
void pf_connections_attribute(pf_connections *cs, int fd, size_t n_bytes);

#endif
