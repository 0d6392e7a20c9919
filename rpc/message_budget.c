#include "rpc/message_budget.h"

#include "proto/codec.h"

enum {
    MESSAGES = 32, /* of the largest, each way */
    GRPC_BYTES = 16 << 20,
    GRPC_SHARE = 4,
    UNATTRIBUTED_SHARE = 8,
    MESSAGE_SHARE = 16, /* of what comes, the largest */
    FEWEST_MESSAGES = 4,
    CLIENT_SHARE = 16,
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* gRPC takes 1.3 bytes for each that is unattributed. */
static size_t held(size_t unattributed_bytes)
{
    return unattributed_bytes / 10 * 13;
}

static size_t needs(const pf_message_budget *room, int32_t n_codecs)
{
    return room->inbound_bytes + room->unread_bytes + room->grpc_bytes + held(room->unattributed_bytes) +
           (size_t)n_codecs * pf_codec_arena_bytes(room->message_bytes);
}

/* What malloc does not give back, or has in pieces, is an eighth of it. */
static size_t usable(size_t memory_bytes)
{
    return memory_bytes / 8 * 7;
}

static pf_message_budget in_plenty(size_t message_bytes)
{
    const size_t messages = MESSAGES * message_bytes;
    return (pf_message_budget){ false, message_bytes, messages, messages, GRPC_BYTES, messages };
}

size_t pf_message_budget_of_client(size_t message_bytes, size_t memory_bytes)
{
    const size_t plenty = FEWEST_MESSAGES * message_bytes + GRPC_BYTES;
    if (memory_bytes == 0) return plenty;
    return least(plenty, most(2 * message_bytes, memory_bytes / CLIENT_SHARE));
}

/* Deal `bytes` out, to messages of at most message_bytes. */
static pf_message_budget deal(size_t message_bytes, size_t bytes)
{
    pf_message_budget room = { .is_scarce = true, .message_bytes = message_bytes };
    room.grpc_bytes = least(GRPC_BYTES, bytes / GRPC_SHARE);
    room.unattributed_bytes = least(MESSAGES * message_bytes, (bytes - room.grpc_bytes) / UNATTRIBUTED_SHARE);
    const size_t a_way = (bytes - room.grpc_bytes - held(room.unattributed_bytes)) / 2;
    room.inbound_bytes = room.unread_bytes = least(MESSAGES * message_bytes, a_way);
    return room;
}

pf_status pf_message_budget_choose(size_t message_bytes, size_t needed_bytes, size_t memory_bytes, int32_t n_codecs,
                                   pf_message_budget *out, pf_error *error)
{
    const size_t needed = least(needed_bytes, message_bytes), n = (size_t)n_codecs;
    *out = in_plenty(message_bytes);
    if (memory_bytes == 0 || needs(out, n_codecs) <= usable(memory_bytes)) return PF_OK;

    const size_t fixed = n * pf_codec_arena_bytes(needed);
    const size_t bytes = usable(memory_bytes) > fixed ? usable(memory_bytes) - fixed : 0;
    *out = deal(message_bytes, bytes);
    if (out->inbound_bytes < FEWEST_MESSAGES * needed)
        return pf_fail(error, PF_LIMIT,
                       "%zu KiB of memory are left for messages beside the model, expected at least %zu: messages of "
                       "%zu KiB must be taken, fewer tokens of --context need less",
                       memory_bytes >> 10, (fixed + (size_t)4 * FEWEST_MESSAGES * needed) / 7 * 8 >> 10, needed >> 10);
    /* Of larger ones each takes of the room what unpacking it does beyond that. */
    const size_t larger = out->inbound_bytes / MESSAGE_SHARE / n;
    out->message_bytes = least(message_bytes, most(needed, larger));
    const size_t unpacked = n * (pf_codec_arena_bytes(out->message_bytes) - pf_codec_arena_bytes(needed));
    *out = deal(out->message_bytes, bytes - unpacked);
    return PF_OK;
}
