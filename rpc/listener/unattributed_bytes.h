/*
 * Bounds the bytes that gRPC has read beyond those of calls and messages. Internal to rpc/.
 *
 * gRPC's quota bounds messages. Nothing bounds header blocks: gRPC 1.51 limits a frame and not a block, which continues in
 * CONTINUATION frames for as long as the client sends them; those that trail a call are kept as long as the call, and never
 * reported. So when too many bytes of all connections together are unattributed, the connections with the most are shut down.
 * A call accounts for headers of normal size, a message for its bytes and some for their frames, and a connection without
 * calls keeps nothing.
 *
 * A unix socket counts no bytes. Only the same user may open it, so it is not checked.
 *
 * Threads: the listener's.
 */
#ifndef PF_RPC_UNATTRIBUTED_BYTES_H
#define PF_RPC_UNATTRIBUTED_BYTES_H

#include <stddef.h>

#include "rpc/listener/connections.h"

/* Called every PF_POLL_WATCHDOG_MS; what pings take until then is ignored. Shuts down the connections with the most,
 * until no more than most_bytes are unattributed. Returns how many were shut down. */
int pf_unattributed_bytes_check(pf_connections *cs, size_t most_bytes);

#endif
