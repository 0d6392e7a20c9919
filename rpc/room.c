#include "rpc/room.h"

#include "proto/codec.h"

enum {
    MESSAGES = 32, /* of the largest, each way */
    GRPC_BYTES = 16 << 20,
    LEAST_MESSAGE_BYTES = 64 << 10, /* a prompt of some 20,000 tokens */
    MESSAGE_SHARE = 20,
    GRPC_SHARE = 5,
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t needs(const pf_room *room, int32_t n_codecs)
{
    return room->inbound_bytes + room->unread_bytes + room->grpc_bytes +
           (size_t)n_codecs * pf_codec_arena_bytes(room->message_bytes);
}

/* What malloc does not give back, or has in pieces, is an eighth of it. */
static size_t usable(size_t memory_bytes)
{
    return memory_bytes / 8 * 7;
}

pf_room pf_room_in_plenty(size_t message_bytes)
{
    return (pf_room){ message_bytes, MESSAGES * message_bytes, MESSAGES * message_bytes, GRPC_BYTES };
}

pf_status pf_room_choose(size_t message_bytes, size_t memory_bytes, int32_t n_codecs, pf_room *out, pf_error *error)
{
    *out = pf_room_in_plenty(message_bytes);
    if (memory_bytes == 0 || needs(out, n_codecs) <= usable(memory_bytes)) return PF_OK;

    const size_t structs = (size_t)n_codecs * pf_codec_arena_bytes(0);
    const size_t spare = usable(memory_bytes) > structs ? usable(memory_bytes) - structs : 0;
    if (spare < (size_t)MESSAGE_SHARE * LEAST_MESSAGE_BYTES)
        return pf_fail(error, PF_LIMIT,
                       "%zu KiB of memory are left for messages beside the model, expected at least %zu",
                       memory_bytes >> 10, (structs + (size_t)MESSAGE_SHARE * LEAST_MESSAGE_BYTES) / 7 * 8 >> 10);
    out->message_bytes = least(message_bytes, spare / (size_t)(MESSAGE_SHARE * n_codecs));
    out->grpc_bytes = least(GRPC_BYTES, spare / GRPC_SHARE);
    out->inbound_bytes = out->unread_bytes = 0;
    const size_t a_way = (usable(memory_bytes) - needs(out, n_codecs)) / 2;
    out->inbound_bytes = out->unread_bytes = least(MESSAGES * out->message_bytes, a_way);
    return PF_OK;
}
