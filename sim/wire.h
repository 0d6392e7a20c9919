/*
 * A simulated wire: near peers served to sessions in other processes of a simulated world, over lines that delay, lose, reorder and
 * break. The place of rpc/ in a simulation: what is before it and behind it is the real code, and messages pass through the real
 * codec.
 *
 *      session -> pf_wire_link -> line (delay, faults) -> pf_wire_server -> near peer
 *
 * A line is a stream: what it delivers it delivers in order, unless its faults say otherwise. Where it breaks, what is under way
 * both ways is lost, the server closes the link's sequences, and the link is PF_UNAVAILABLE at least once and for as long as it is
 * down. A server that restarts loses its peer and breaks all its lines.
 *
 * Threads: those of sim/world.h.
 */
#ifndef PF_SIM_WIRE_H
#define PF_SIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/peer.h"
#include "sim/world.h"

/* How a line treats what is sent over it, either way. Faults in a million messages. */
typedef struct {
    uint64_t least_ns, spread_ns; /* a message takes least + [0, spread) */
    uint32_t lost, overtaken;     /* silently; out of order: only where the far side must bear it, at drafters */
    uint32_t broken;              /* the line breaks */
    uint64_t down_ns;             /* and is down for [0, 2 * down) */
} pf_wire_line;

/* Makes the peer that a server serves; called again for each restart. clock: the server's process's. */
typedef pf_status pf_wire_make(void *user, uint64_t *clock_ns, pf_peer **out, pf_error *error);

typedef struct {
    pf_wire_make *make;
    void (*ended)(void *user); /* a peer that was made has been destroyed; or NULL */
    void *user;
    uint64_t restart_ns; /* restarts come after [0, 2 * restart); 0: never */
    uint64_t down_ns;    /* and take [0, 2 * down) */
    uint64_t gather_ns;  /* after an answer it waits so long at most for what all that it was for send next */
} pf_wire_server_config;

typedef struct {
    int64_t n_messages, n_lost, n_overtaken, n_breaks, n_restarts;
    pf_status status; /* PF_OK, or what a peer failed with as a whole */
    pf_error error;
} pf_wire_counts;

typedef struct pf_wire_server pf_wire_server;

/* A server process for at most max_links links. Its first peer is made here. config->user is borrowed. End it with
 * pf_wire_server_destroy, after the world has run.
 * PF_NOMEM, or as make. */
PF_MUST_USE pf_status pf_wire_server_create(pf_world *world, const pf_wire_server_config *config, int32_t max_links,
                                            pf_wire_server **out, pf_error *error);
void pf_wire_server_destroy(pf_wire_server *server); /* after its links; NULL is fine */

const pf_wire_counts *pf_wire_server_counts(const pf_wire_server *server);

/* A far peer (is_far) for one session of the process `client`. End it with pf_peer_destroy.  PF_NOMEM.  PF_LIMIT: max_links. */
PF_MUST_USE pf_status pf_wire_connect(pf_wire_server *server, pf_process *client, const pf_wire_line *line,
                                      pf_peer **out);

#endif
