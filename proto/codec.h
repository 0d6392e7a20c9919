/*
 * Encodes and decodes batches and model info as the messages of pilotfish.proto.
 *
 * Decoding trusts nothing: counts, lengths, ids, probabilities and enums are checked against the limits of
 * proto/messages.h before a batch is returned, and memory is bounded by a budget for protobuf-c.
 * A batch that decodes is well-formed; proto/stream.h checks it against a stream's state. A server decodes a
 * batch part by part: an invalid part costs its sequence alone (docs/protocol.md, "Refusals").
 *
 *     bytes --protobuf-c--> its structs in one arena --checks--> pf_batch in the same arena, tokens not copied
 *
 * Nothing is allocated after creation: both directions draw from arenas that are reset for every batch. Their pages
 * are touched only as far as a message needs them, and kept until pf_codec_give_back.
 *
 * Threads: a codec serves one thread at a time.
 */
#ifndef PF_PROTO_CODEC_H
#define PF_PROTO_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/messages.h"

typedef struct pf_codec pf_codec;

/* max_message_bytes: the largest encoded batch, either way (1 .. PF_MAX_MESSAGE_BYTES). n_vocab: ids at or above
 * it are refused; 0: any that is not negative. The caller ends it with pf_codec_destroy. PF_INVALID, PF_NOMEM. */
PF_MUST_USE pf_status pf_codec_create(size_t max_message_bytes, int32_t n_vocab, pf_codec **out);
void pf_codec_destroy(pf_codec *codec); /* NULL is fine */

/* Returns memory beyond 2 MiB that large messages took to the system; the last decoded batch is gone. Not to be called for each
 * message: taking the pages again costs as much as decoding a large message, or more. */
void pf_codec_give_back(pf_codec *codec);

/* What the arenas of such a codec take at most, by messages that touch all of them. */
size_t pf_codec_arena_bytes(size_t max_message_bytes);

/* The encoding of `batch` into out [capacity]. PF_LIMIT: more than capacity, than the codec's largest message, or
 * than a limit of messages.h. */
PF_MUST_USE pf_status pf_codec_encode_batch(pf_codec *codec, const pf_batch *batch, uint8_t *out, size_t capacity,
                                            size_t *n_bytes);

/* The same in two steps, for a caller that allocates in between: measure, then pack that many bytes into out. What the batch
 * points to is borrowed until then, and nothing else is encoded. PF_LIMIT: likewise. */
PF_MUST_USE pf_status pf_codec_measure_batch(pf_codec *codec, const pf_batch *batch, size_t *n_bytes);
void pf_codec_pack_batch(const pf_codec *codec, uint8_t *out);

/* *out and what it points to belong to the codec until the next decode. Control characters in a refusal's text are
 * replaced by '?'.
 * PF_FORMAT: not a Batch, or a field outside what proto/pilotfish.proto documents (the sentence names it).
 * PF_LIMIT: larger than the codec's largest message, or than its memory budget when it is unpacked.
 * PF_UNSUPPORTED: a parameter that this version does not support (the sentence names it). */
PF_MUST_USE pf_status pf_codec_decode_batch(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                                            pf_error *error);

/* The invalid parts of a batch. */
typedef struct {
    const pf_refusal *refusals; /* [n] one a sequence, to be sent to its owner */
    int32_t n;
    int32_t n_proposals, n_verdicts; /* of the invalid parts; the others were opens */
} pf_rejected;

/* The same, but an open, a proposal or a verdict with valid sequence and round and another field that is invalid or
 * unsupported becomes a rejected part. Then *out has no open, proposal or verdict of that
 * incarnation of the sequence, or of an earlier one. *rejected belongs to the codec like *out. */
PF_MUST_USE pf_status pf_codec_decode_parts(pf_codec *codec, const uint8_t *bytes, size_t n_bytes, const pf_batch **out,
                                            const pf_rejected **rejected, pf_error *error);

enum {
    PF_MAX_REQUEST_BYTES = 1024,                        /* an encoded request for a pf_model_info */
    PF_MAX_INFO_BYTES = 1024 + PF_VOCAB_HASHES * 4 + 8, /* an encoded pf_model_info: 1024 without hashes */
};

/* PF_LIMIT: more than capacity (PF_MAX_INFO_BYTES always do). */
PF_MUST_USE pf_status pf_codec_encode_info(const pf_model_info *info, uint8_t *out, size_t capacity, size_t *n_bytes);

/* PF_FORMAT: as for a batch, or more than PF_MAX_INFO_BYTES.  PF_UNSUPPORTED: another version of the protocol. */
PF_MUST_USE pf_status pf_codec_decode_info(const uint8_t *bytes, size_t n_bytes, pf_model_info *out, pf_error *error);

/* The request for it: which version the caller speaks, and whether it takes hashes of the vocabulary. Encoded: this version,
 * and it does. */
typedef struct {
    uint32_t protocol_version;
    bool wants_hashes;
} pf_info_request;
PF_MUST_USE pf_status pf_codec_encode_info_request(uint8_t *out, size_t capacity, size_t *n_bytes);
PF_MUST_USE pf_status pf_codec_decode_info_request(const uint8_t *bytes, size_t n_bytes, pf_info_request *out,
                                                   pf_error *error);

#endif
