/*
 * What gRPC has read of a connection beyond what its calls and their messages account for. Internal to rpc/.
 *
 * Messages on their way are gRPC's to bound, by its quota. Header blocks are bounded by nobody: gRPC 1.51 limits what a frame
 * holds and not a block, which goes on in CONTINUATION frames for as long as its sender likes, and stays; those that trail a
 * call stay as long as the call does, and nobody is shown them. So when too much is unattributed of all connections together,
 * those with the most are shut down. A call accounts for its headers as they are sent in good faith and a message for
 * its bytes, with something for their frames, and a connection that has no calls left keeps nothing.
 *
 * A unix socket counts no bytes: who may open it is the same user, and is not looked at.
 *
 * Threads: the listener's.
 */
#ifndef PF_RPC_UNATTRIBUTED_BYTES_H
#define PF_RPC_UNATTRIBUTED_BYTES_H

#include <stddef.h>

#include "rpc/listener/connections.h"

/* To be called every PF_POLL_WATCHDOG_MS: what pings take until then is forgiven. Shuts down who has the most, until no more
 * than most_bytes are unattributed. How many were shut down. */
int pf_unattributed_bytes_check(pf_connections *cs, size_t most_bytes);

#endif
