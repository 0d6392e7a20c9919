/*
 * What gRPC has read and no call has claimed: all since a call last began on that connection, or a message of one came. Internal
 * to rpc/.
 *
 * Messages on their way are gRPC's to bound, by its quota. Header blocks are bounded by nobody: gRPC 1.51 limits what a frame
 * holds and not a block, which goes on in CONTINUATION frames for as long as its sender likes, and stays. So when too
 * much is unclaimed of all connections together, those with the most are shut down. Between the frames of a block there
 * are no others (RFC 9113, section 6.10): he who sends one can claim nothing meanwhile.
 *
 * A unix socket counts no bytes: who may open it is the same user, and is not looked at.
 *
 * Threads: the listener's.
 */
#ifndef PF_RPC_UNCLAIMED_H
#define PF_RPC_UNCLAIMED_H

#include <stddef.h>

#include "rpc/connections.h"

/* To be called every PF_POLL_WATCH_MS: what pings take until then is forgiven. Shuts down who has the most, until no more
 * than most_bytes are unclaimed. How many were shut down. */
int pf_unclaimed_look(pf_connections *cs, size_t most_bytes);

#endif
