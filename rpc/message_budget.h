/*
 * Divides the memory that is left among the messages of a server, and bounds what a client's channel holds. Internal to rpc/.
 *
 *      client --> gRPC --> queues --> codec, peer, codec --> queues --> client
 *                 |`- inbound_bytes ---'   |           |      `- unread_bytes -'
 *                 |`- grpc_bytes: itself   `-----------`-- four times message_bytes, and structs (proto/codec.h)
 *                 `-- unattributed_bytes: header blocks, which belong to no call (rpc/listener/unattributed_bytes.h)
 *
 * With enough memory: 32 of the largest messages each way and unattributed, and 16 MiB for gRPC itself, buffers of some 8 KiB
 * for each connection and call. With little, in a small container, what structs and one unpacked message leave is divided:
 *
 *      1/4 gRPC, at most as above    1/8 unattributed    half of the rest each way
 *
 * and the largest message is a sixteenth of inbound_bytes, but no smaller than the served peers need. Pure.
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
    size_t inbound_bytes;      /* received, of all streams; half of it may wait in queues */
    size_t unread_bytes;       /* answers that clients have not read, of all streams */
    size_t grpc_bytes;         /* for gRPC itself */
    size_t unattributed_bytes; /* received, and not part of a message */
} pf_message_budget;

/* What gRPC may hold for a client's channel, by the memory of the machine or container (0: not known). With enough
 * memory four of the largest messages and gRPC's own; where that is more than a sixteenth of the memory, a sixteenth,
 * but no less than two of the largest messages: one being received and one being read. */
size_t pf_message_budget_of_client(size_t message_bytes, size_t memory_bytes);

/* message_bytes: the largest message with enough memory. needed_bytes: messages of that size must be accepted.
 * memory_bytes: what is left; 0: not known, so enough. n_codecs: one for each service. PF_LIMIT: not even four
 * messages of needed_bytes fit, each way. */
PF_MUST_USE pf_status pf_message_budget_choose(size_t message_bytes, size_t needed_bytes, size_t memory_bytes,
                                               int32_t n_codecs, pf_message_budget *out, pf_error *error);

#endif
