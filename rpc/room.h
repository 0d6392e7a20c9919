/*
 * How much a server may hold of messages on their way, by the memory that is left for it. Internal to rpc/.
 *
 *      client --> gRPC --> queues --> codec, peer, codec --> queues --> client
 *                 `-- inbound_bytes --'   |           |      `- unread_bytes -'
 *                 `-- grpc_bytes: itself  `-----------`-- four times message_bytes, and structs (proto/codec.h)
 *
 * In plenty: 32 of the largest messages each way, and 16 MiB for gRPC itself, buffers of some 8 KiB for each connection and
 * call. In need, in a small container, what is left is dealt out:
 *
 *      1/5  to unpack one message, which so has a twentieth of it at most
 *      1/5  gRPC
 *      3/10 each way
 *
 * Where one of the first two would have more than in plenty, the rest is for the ways. Pure.
 */
#ifndef PF_RPC_ROOM_H
#define PF_RPC_ROOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    size_t message_bytes; /* the largest message, either way */
    size_t inbound_bytes; /* what has come, of all streams */
    size_t unread_bytes;  /* answers that are not read, of all streams */
    size_t grpc_bytes;    /* what gRPC takes for itself */
} pf_room;

/* Where memory is plenty. */
pf_room pf_room_in_plenty(size_t message_bytes);

/* message_bytes: the largest message in plenty. memory_bytes: what is left; 0: nobody knows, so plenty. n_codecs: a service has
 * one. PF_LIMIT: not even messages of 64 KiB would do. */
PF_MUST_USE pf_status pf_room_choose(size_t message_bytes, size_t memory_bytes, int32_t n_codecs, pf_room *out,
                                     pf_error *error);

#endif
