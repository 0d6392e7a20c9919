/* Shared by client and server: versions, limits that both must agree on, slices and byte buffers. */
#ifndef PF_RPC_GRPC_UTIL_H
#define PF_RPC_GRPC_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "base/status.h"
#include "proto/codec.h"

enum {
    PF_RPC_DEFAULT_MESSAGE_BYTES = 4 << 20,
    PF_RPC_SPIN_NS =
        1000 * 1000, /* of polling before sleep: longer than a round of small models, since a wakeup takes 20 us */

    /* Keepalive must be agreed by both sides: a server answers pings more frequent than it allows with GOAWAY
     * too_many_pings. It detects a host that vanished; a process that dies is detected by its closed socket. */
    PF_RPC_KEEPALIVE_MS = 5000,
    PF_RPC_KEEPALIVE_TIMEOUT_MS = 5000,
    PF_RPC_KEEPALIVE_FLOOR_MS = 1000,
};

/* grpc_init without log output: gRPC's log is off unless GRPC_VERBOSITY is set. Turns off the deadlock detection that
 * Debian's Abseil runs for the whole process. Paired with grpc_shutdown_blocking. PF_NOMEM: too few descriptors or
 * threads are available: gRPC would abort or wait for ever. */
PF_MUST_USE pf_status pf_grpc_begin(pf_error *error);

gpr_timespec pf_grpc_deadline(uint64_t deadline_ns); /* from pf_now_ns time */
grpc_arg pf_grpc_int_arg(const char *key, int value);

/* Bounds the memory that gRPC holds for all connections of a server, or for a channel: incoming messages, and its own
 * needs. Past it streams end with RESOURCE_EXHAUSTED, whichever they are. A server or channel made with the argument
 * has a reference of its own; the caller releases its own. */
grpc_resource_quota *pf_grpc_quota(size_t n_bytes);
grpc_arg pf_grpc_quota_arg(grpc_resource_quota *quota);

bool pf_grpc_slice_is(grpc_slice slice, const char *text);

/* Encodes into a slice of the right size. NULL: PF_LIMIT of pf_codec_measure_batch. */
grpc_byte_buffer *pf_grpc_encode(pf_codec *codec, const pf_batch *batch);
grpc_byte_buffer *pf_grpc_copy(const uint8_t *bytes, size_t n_bytes);

/* The bytes of a message, for as long as *hold is kept (end with grpc_slice_unref). PF_FORMAT: compressed, which we
 * never asked for (a compressed message can be a bomb). */
PF_MUST_USE pf_status pf_grpc_bytes(grpc_byte_buffer *buffer, grpc_slice *hold, pf_error *error);

#endif
