/* The codec's life, and model info. */
#include "proto/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "proto/codec_parts.h"
#include "proto/drafter_names.h"
#include "proto/vocabulary.h"

enum {
    /* Wire to memory: a packed id of one byte becomes an int32_t; nothing that is well-formed grows more ... */
    GROWTH = 4,
    /* ... but for the structs, which the limits of messages.h bound: declared distributions are most of them. Log-probabilities of verdicts
     * take 172 bytes a token, and come without proposals. */
    STRUCT_BYTES = PF_MAX_BATCH_SEQUENCES * (PF_MAX_DRAFT_TOKENS * 128 + 2048),
};

static size_t unpacked_bytes(size_t max_message_bytes)
{
    return GROWTH * max_message_bytes + STRUCT_BYTES;
}

size_t pf_codec_arena_bytes(size_t max_message_bytes)
{
    return unpacked_bytes(max_message_bytes) + STRUCT_BYTES;
}

pf_status pf_codec_create(size_t max_message_bytes, int32_t n_vocab, pf_codec **out)
{
    if (max_message_bytes < 1 || max_message_bytes > PF_MAX_MESSAGE_BYTES || n_vocab < 0) return PF_INVALID;
    pf_codec *codec = calloc(1, sizeof *codec);
    if (!codec) return PF_NOMEM;
    codec->max_message_bytes = max_message_bytes;
    codec->n_vocab = n_vocab;
    codec->in.size = unpacked_bytes(max_message_bytes);
    codec->out.size = STRUCT_BYTES;
    codec->in.bytes = malloc(codec->in.size);
    codec->out.bytes = malloc(codec->out.size);
    if (!codec->in.bytes || !codec->out.bytes) {
        pf_codec_destroy(codec);
        return PF_NOMEM;
    }
    *out = codec;
    return PF_OK;
}

void pf_codec_destroy(pf_codec *codec)
{
    if (!codec) return;
    free(codec->in.bytes);
    free(codec->out.bytes);
    free(codec);
}

void pf_codec_give_back(pf_codec *codec)
{
    pf_bump_give_back(&codec->in);
    pf_bump_give_back(&codec->out);
}

/* ---- model info ------------------------------------------------------------------------------------------------ */

enum { REQUEST_ARENA_BYTES = 16 * 1024, INFO_ARENA_BYTES = REQUEST_ARENA_BYTES + 2 * PF_MAX_INFO_BYTES / 16 * 16 };

pf_status pf_codec_encode_info(const pf_model_info *info, uint8_t *out, size_t capacity, size_t *n_bytes)
{
    static const uint8_t none[sizeof info->vocab_fingerprint];
    Pilotfish__V1__Method methods[32];
    pf_wire_limits limits = PILOTFISH__V1__LIMITS__INIT;
    limits.max_draft = info->max_draft;
    limits.max_declared = info->max_declared;
    limits.trees = info->judges_trees;
    Pilotfish__V1__EndTokens ends = PILOTFISH__V1__END_TOKENS__INIT;

    Pilotfish__V1__ModelInfo wire = PILOTFISH__V1__MODEL_INFO__INIT;
    wire.protocol_version = info->protocol_version;
    if (strnlen(info->model_id, sizeof info->model_id) == sizeof info->model_id) return PF_INVALID;
    wire.model_id = pf_codec_unconst(info->model_id);
    wire.vocab_size = info->vocab_size;
    if (info->n_ids > info->vocab_size) wire.n_ids = info->n_ids;
    if (memcmp(info->vocab_fingerprint, none, sizeof none) != 0) {
        wire.vocab_fingerprint.data = pf_codec_unconst(info->vocab_fingerprint);
        wire.vocab_fingerprint.len = sizeof info->vocab_fingerprint;
    }
    wire.max_context = info->max_context;
    wire.max_sequences = info->max_sequences;
    wire.limits = &limits;
    wire.methods = methods;
    for (uint32_t m = 0; m < 32; m++)
        if (info->methods & 1u << m) methods[wire.n_methods++] = (Pilotfish__V1__Method)m;
    if (info->n_ends < 0 || info->n_ends > PF_MAX_STOP_TOKENS) return PF_INVALID;
    ends.ids = pf_codec_unconst(info->ends);
    ends.n_ids = (size_t)info->n_ends;
    if (info->names_ends) wire.end_tokens = &ends;
    if (info->n_vocab_hashes < 0 || info->n_vocab_hashes > PF_VOCAB_HASHES) return PF_INVALID;
    wire.vocab_hashes = pf_codec_unconst(info->vocab_hashes);
    wire.n_vocab_hashes = (size_t)info->n_vocab_hashes;
    wire.any_vocabulary = info->any_vocabulary;
    wire.logit_rules = info->applies_rules;
    wire.typical_p = info->applies_typical_p;
    wire.logprobs = info->gives_logprobs;
    char *drafters[PF_MAX_DRAFTERS];
    if (info->n_drafters < 0 || info->n_drafters > PF_MAX_DRAFTERS) return PF_INVALID;
    for (int32_t i = 0; i < info->n_drafters; i++) {
        if (!pf_drafter_name_is_valid(info->drafters[i])) return PF_INVALID;
        drafters[i] = pf_codec_unconst(info->drafters[i]);
    }
    wire.drafters = drafters;
    wire.n_drafters = (size_t)info->n_drafters;
    wire.siblings = info->draws_siblings;

    if (pilotfish__v1__model_info__get_packed_size(&wire) > capacity) return PF_LIMIT;
    *n_bytes = pilotfish__v1__model_info__pack(&wire, out);
    return PF_OK;
}

/* Behind the number of ids. */
static pf_status take_ends(const Pilotfish__V1__EndTokens *wire, const pf_codec_place *at, pf_model_info *info)
{
    info->names_ends = wire != NULL;
    if (!wire) return PF_OK;
    PF_TRY(pf_codec_check_count(at, "end_tokens.ids", wire->n_ids, 0, PF_MAX_STOP_TOKENS));
    for (size_t i = 0; i < wire->n_ids; i++) {
        PF_TRY(pf_codec_check_entry(at, "end_tokens.ids", i, wire->ids[i], 0, pf_model_ids(info) - 1));
        info->ends[info->n_ends++] = wire->ids[i];
    }
    return PF_OK;
}

/* Behind the number of tokens. */
static pf_status take_hashes(const Pilotfish__V1__ModelInfo *wire, const pf_codec_place *at, pf_model_info *info)
{
    if (wire->n_vocab_hashes == 0) return PF_OK;
    const size_t n = (size_t)pf_vocab_n_hashes(info->vocab_size);
    PF_TRY(pf_codec_check_count(at, "vocab_hashes", wire->n_vocab_hashes, n, n));
    memcpy(info->vocab_hashes, wire->vocab_hashes, n * sizeof *info->vocab_hashes);
    info->n_vocab_hashes = (int32_t)n;
    return PF_OK;
}

static pf_status take_drafters(const Pilotfish__V1__ModelInfo *wire, const pf_codec_place *at, pf_model_info *info)
{
    PF_TRY(pf_codec_check_count(at, "drafters", wire->n_drafters, 0, PF_MAX_DRAFTERS));
    for (size_t i = 0; i < wire->n_drafters; i++)
        if (pf_drafter_names_add(info, wire->drafters[i]) != PF_OK)
            return pf_codec_refuse(at, PF_FORMAT, "drafters",
                                   "[%zu] is there twice, or is not 1 to %d letters, digits, - and _", i,
                                   PF_DRAFTER_NAME_BYTES - 1);
    return PF_OK;
}

static pf_status take_info(const Pilotfish__V1__ModelInfo *wire, pf_model_info *out, pf_error *error)
{
    if (wire->protocol_version != PF_PROTOCOL_VERSION)
        return pf_fail(error, PF_UNSUPPORTED, "the peer speaks version %u of the protocol, this is version %d",
                       wire->protocol_version, PF_PROTOCOL_VERSION);
    const pf_codec_place at = { "model_info", PF_CODEC_SINGLE, 0, error };
    if (!wire->limits) return pf_codec_refuse(&at, PF_FORMAT, "limits", "is missing");
    pf_model_info info = { .protocol_version = wire->protocol_version };
    PF_TRY(pf_codec_check_text(&at, "model_id", wire->model_id, sizeof info.model_id - 1));
    PF_TRY(pf_codec_check_range(&at, "vocab_size", wire->vocab_size, 1, INT32_MAX));
    if (wire->n_ids) PF_TRY(pf_codec_check_range(&at, "n_ids", wire->n_ids, wire->vocab_size, INT32_MAX));
    PF_TRY(pf_codec_check_range(&at, "max_context", wire->max_context, 1, INT32_MAX));
    PF_TRY(pf_codec_check_range(&at, "max_sequences", wire->max_sequences, 1, INT32_MAX));
    PF_TRY(pf_codec_check_range(&at, "limits.max_draft", wire->limits->max_draft, 0, PF_MAX_DRAFT_TOKENS));
    PF_TRY(pf_codec_check_range(&at, "limits.max_declared", wire->limits->max_declared, 0, PF_MAX_DECLARED));
    const size_t n_fingerprint = wire->vocab_fingerprint.len;
    if (n_fingerprint != 0 && n_fingerprint != sizeof info.vocab_fingerprint)
        return pf_codec_refuse(&at, PF_FORMAT, "vocab_fingerprint", "has %zu bytes, expected 0 or 32", n_fingerprint);

    strcpy(info.model_id, wire->model_id);
    pf_utf8_make_printable(info.model_id, '?');
    if (n_fingerprint) memcpy(info.vocab_fingerprint, wire->vocab_fingerprint.data, n_fingerprint);
    info.vocab_size = wire->vocab_size;
    info.n_ids = wire->n_ids;
    info.max_context = wire->max_context;
    info.max_sequences = wire->max_sequences;
    info.max_draft = wire->limits->max_draft;
    info.max_declared = wire->limits->max_declared;
    info.judges_trees = wire->limits->trees;
    info.any_vocabulary = wire->any_vocabulary;
    info.applies_rules = wire->logit_rules;
    info.applies_typical_p = wire->typical_p;
    info.gives_logprobs = wire->logprobs;
    info.draws_siblings = wire->siblings;
    for (size_t i = 0; i < wire->n_methods; i++) { /* a newer peer may speak methods that have no bit here */
        const uint32_t method = (uint32_t)wire->methods[i];
        if (method > 0 && method < 32) info.methods |= 1u << method;
    }
    PF_TRY(take_ends(wire->end_tokens, &at, &info));
    PF_TRY(take_hashes(wire, &at, &info));
    PF_TRY(take_drafters(wire, &at, &info));
    *out = info;
    return PF_OK;
}

pf_status pf_codec_decode_info(const uint8_t *bytes, size_t n_bytes, pf_model_info *out, pf_error *error)
{
    if (n_bytes > PF_MAX_INFO_BYTES)
        return pf_fail(error, PF_FORMAT, "a model info of %zu bytes, at most %d are taken", n_bytes, PF_MAX_INFO_BYTES);
    max_align_t memory[INFO_ARENA_BYTES / sizeof(max_align_t)];
    pf_bump bump = { .bytes = (uint8_t *)memory, .size = sizeof memory };
    ProtobufCAllocator allocator = pf_bump_allocator(&bump);
    const Pilotfish__V1__ModelInfo *wire = pilotfish__v1__model_info__unpack(&allocator, n_bytes, bytes);
    if (!wire) return pf_fail(error, PF_FORMAT, "%zu bytes that are not a pilotfish.v1.ModelInfo", n_bytes);
    return take_info(wire, out, error);
}

pf_status pf_codec_encode_info_request(uint8_t *out, size_t capacity, size_t *n_bytes)
{
    Pilotfish__V1__GetModelInfoRequest wire = PILOTFISH__V1__GET_MODEL_INFO_REQUEST__INIT;
    wire.protocol_version = PF_PROTOCOL_VERSION;
    wire.vocab_hashes = true;
    if (pilotfish__v1__get_model_info_request__get_packed_size(&wire) > capacity) return PF_LIMIT;
    *n_bytes = pilotfish__v1__get_model_info_request__pack(&wire, out);
    return PF_OK;
}

pf_status pf_codec_decode_info_request(const uint8_t *bytes, size_t n_bytes, pf_info_request *out, pf_error *error)
{
    if (n_bytes > PF_MAX_REQUEST_BYTES)
        return pf_fail(error, PF_FORMAT, "a request of %zu bytes, at most %d are taken", n_bytes, PF_MAX_REQUEST_BYTES);
    max_align_t memory[REQUEST_ARENA_BYTES / sizeof(max_align_t)];
    pf_bump bump = { .bytes = (uint8_t *)memory, .size = sizeof memory };
    ProtobufCAllocator allocator = pf_bump_allocator(&bump);
    const Pilotfish__V1__GetModelInfoRequest *wire =
        pilotfish__v1__get_model_info_request__unpack(&allocator, n_bytes, bytes);
    if (!wire) return pf_fail(error, PF_FORMAT, "%zu bytes that are not a GetModelInfoRequest", n_bytes);
    *out = (pf_info_request){ .protocol_version = wire->protocol_version, .wants_hashes = wire->vocab_hashes };
    return PF_OK;
}
