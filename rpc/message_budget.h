/*
 * How much a server may hold of messages on their way, by the memory that is left for it, and a client. Internal to rpc/.
 *
 *      client --> gRPC --> queues --> codec, peer, codec --> queues --> client
 *                 |`- inbound_bytes ---'   |           |      `- unread_bytes -'
 *                 |`- grpc_bytes: itself   `-----------`-- four times message_bytes, and structs (proto/codec.h)
 *                 `-- unattributed_bytes: header blocks without end, of which no call hears (rpc/listener/unattributed_bytes.h)
 *
 * In plenty: 32 of the largest messages each way and unattributed, and 16 MiB for gRPC itself, buffers of some 8 KiB for each
 * connection and call. In need, in a small container, what is left behind structs and one message unpacked is dealt out:
 *
 *      1/4 gRPC, but no more than in plenty    1/8 unattributed    half of the rest each way
 *
 * and the largest message is a sixteenth of what may come, but no smaller than who is served needs. Pure.
 */
#ifndef PF_RPC_MESSAGE_BUDGET_H
#define PF_RPC_MESSAGE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    bool is_scarce;
    size_t message_bytes;      /* the largest message, either way */
    size_t inbound_bytes;      /* what has come, of all streams; half of it may wait in queues */
    size_t unread_bytes;       /* answers that are not read, of all streams */
    size_t grpc_bytes;         /* what gRPC takes for itself */
    size_t unattributed_bytes; /* what has come and belongs to no message */
} pf_message_budget;

/* What gRPC may hold for a client's connection to one peer, by the memory of the machine or the container (0: nobody knows). In
 * plenty four of the largest messages and gRPC's own; where that is more than a sixteenth of the memory, that, but no less than
 * two of the largest messages: one that comes, and one that is read. */
size_t pf_message_budget_of_client(size_t message_bytes, size_t memory_bytes);

/* message_bytes: the largest message in plenty. needed_bytes: messages of that size must be taken. memory_bytes: what is left;
 * 0: nobody knows, so plenty. n_codecs: a service has one.
 * PF_LIMIT: not even four messages of needed_bytes would do, each way. */
PF_MUST_USE pf_status pf_message_budget_choose(size_t message_bytes, size_t needed_bytes, size_t memory_bytes,
                                               int32_t n_codecs, pf_message_budget *out, pf_error *error);

#endif
