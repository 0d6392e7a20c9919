/*
 * Serves peers of this process over gRPC.
 *
 *     sockets <--> polling thread --bytes--> bounded queues --> computing thread --> pf_peer
 *                  (accepts, reads,          (one a stream;     (pf_server_run's caller:
 *                   answers health            full: reading      decodes, submits, collects,
 *                   and info)                 stops)             encodes, sends)
 *
 * The computing thread polls for itself while it waits for work, so no message has to wake it. A second thread, which never
 * computes, polls when the first has been computing for ten milliseconds (rpc/poller.h): health checks, pings and other
 * streams go on.
 *
 * A computation may take minutes: meanwhile a stream that waits for it is sent an empty batch every ten seconds as a heartbeat.
 * Between the passes of a long prompt the peer is handed what other clients have sent, and learns which streams have ended. A
 * half-closed stream is still answered, and then ends.
 *
 * Streams are independent: a malformed message ends its own stream with INVALID_ARGUMENT and a sentence (where it is about one
 * sequence, that one is refused), a client that reads too slowly its own with RESOURCE_EXHAUSTED. Sequence ids of different
 * streams are kept apart: the peer sees internal ones. The end of a stream closes its sequences at the peer.
 *
 * When all slots are taken, idle calls are evicted, the longest idle first: a stream without an open sequence for a stream; for
 * any other call a watch, or a call that has no request yet or has an unread answer.
 *
 * Memory is bounded by the configuration: streams, queued batches a stream, bytes a message; and by the sequences that a peer
 * accepts, over all streams. gRPC's memory for messages is bounded too, by 32 of the largest, or by the memory there is
 * (rpc/message_budget.h): past that streams end, whichever they are. The number of connections is bounded
 * (rpc/listener/listener.h). What gRPC keeps of streams that a client resets at once, 12 KB each, is bounded by time alone: some
 * 20000 until that client is disconnected.
 */
#ifndef PF_RPC_SERVER_H
#define PF_RPC_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "metrics/metrics.h"
#include "proto/peer.h"

typedef struct pf_server pf_server;

enum { PF_SERVER_GRACE_NS = 1000 * 1000 * 1000 };

typedef struct {
    const char *address;      /* "host:port" (port 0: any) or "unix:/path" (mode 0600) */
    pf_peer *drafter;         /* served as pilotfish.v1.Drafter, or NULL; borrowed, used by pf_server_run's thread */
    pf_peer *verifier;        /* served as pilotfish.v1.Verifier, or NULL */
    size_t max_message_bytes; /* 0: 4 MiB, a prompt of a million tokens; at most PF_MAX_MESSAGE_BYTES */
    size_t memory_bytes;      /* left for messages: where it is little, the largest message is smaller; 0: not known */
    int32_t max_streams;      /* idle streams are evicted for others */
    int32_t max_connections;  /* 0: twice as many as there can be calls, and three quarters of the open files allowed */
    uint64_t grace_ns;        /* for sequences that are open when the server is stopped; 0: PF_SERVER_GRACE_NS */
    uint64_t preface_timeout_ns;                   /* the time a connection has for its preface; 0: 5 s */
    uint64_t heartbeat_ns;                         /* how often a stream that waits is sent a heartbeat; 0: 10 s */
    pf_metrics *metrics;                           /* counts what is served, or NULL; borrowed */
    void (*log)(void *user, const char *sentence); /* events worth a log line, from any thread, or NULL */
    void *log_user;
} pf_server_config;

/* Starts to listen. Connections are accepted, and health is NOT_SERVING until pf_server_run. Raises the process's soft limit
 * of open files to its hard one. The caller ends it with pf_server_destroy. No fork in this process afterwards.
 * PF_INVALID: not an address, or no peer.
 * PF_LIMIT: too little memory is left.
 * PF_UNAVAILABLE: cannot listen there (the sentence names the address and the reason: in use, no such directory, ...).
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_server_create(const pf_server_config *config, pf_server **out, pf_error *error);
void pf_server_destroy(pf_server *server); /* NULL is fine; not while pf_server_run is under way */

/* Where it listens, the port filled in. Belongs to the server. */
const char *pf_server_address(const pf_server *server);

/* Serves, computing on the calling thread, until pf_server_stop or *stop (checked every 50 ms; may be NULL). Then shuts down:
 * health is NOT_SERVING, no new calls, the grace period while sequences are open, the rest is cancelled. Once.
 * PF_OK, or the status of a peer that failed as a whole. */
PF_MUST_USE pf_status pf_server_run(pf_server *server, const volatile bool *stop, pf_error *error);

/* From any thread, also before pf_server_run, and from a signal handler. Takes effect within 50 ms, or a pass. */
void pf_server_stop(pf_server *server);

#endif
