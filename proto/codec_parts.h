/*
 * What the files of the codec share. Internal to proto/.
 *
 *      codec.c           its life, and model info
 *      codec_encode.c    a batch to bytes
 *      codec_decode.c    bytes to a batch, which trusts nothing
 *      codec_checks.c    a field outside of what is documented becomes a sentence that names it
 */
#ifndef PF_PROTO_CODEC_PARTS_H
#define PF_PROTO_CODEC_PARTS_H

#include "pilotfish.pb-c.h"

#include "proto/bump.h"
#include "proto/codec.h"

typedef Pilotfish__V1__Batch pf_wire_batch;
typedef Pilotfish__V1__Open pf_wire_open;
typedef Pilotfish__V1__SamplingParameters pf_wire_sampling;
typedef Pilotfish__V1__Limits pf_wire_limits;
typedef Pilotfish__V1__LogitRules pf_wire_rules;
typedef Pilotfish__V1__Typical pf_wire_typical;
typedef Pilotfish__V1__Logprobs pf_wire_logprobs;
typedef Pilotfish__V1__Close pf_wire_close;
typedef Pilotfish__V1__Proposal pf_wire_proposal;
typedef Pilotfish__V1__Declared pf_wire_declared;
typedef Pilotfish__V1__Verdict pf_wire_verdict;
typedef Pilotfish__V1__PrefixRequest pf_wire_prefix_request;
typedef Pilotfish__V1__Refusal pf_wire_refusal;
typedef Pilotfish__V1__Timing pf_wire_timing;

struct pf_codec {
    size_t max_message_bytes;
    int32_t n_vocab; /* 0: not known */
    pf_bump in, out;
    pf_wire_batch mirrored; /* the last one measured; its parts are in `out` */
    pf_wire_timing mirrored_timing;
    pf_batch batch; /* the last one decoded */
    pf_rejected rejected;
};

/* The arrays of a batch are only read, but protobuf-c's structs have no const. */
static inline void *pf_codec_unconst(const void *p)
{
    union {
        const void *in;
        void *out;
    } u = { .in = p };
    return u.out;
}

#define PF_CODEC_SINGLE SIZE_MAX

/* Where in the batch a field is, for the sentence. */
typedef struct {
    const char *kind;
    size_t index; /* PF_CODEC_SINGLE: there is one of the kind */
    int32_t n_vocab;
    pf_error *error;
} pf_codec_place;

/* "opens[2].tokens[7] is -1, expected 0 to 99": the format gives what follows the field, and begins with a bracket where it
 * is about an entry of it. Returns the status. */
pf_status pf_codec_refuse(const pf_codec_place *at, pf_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* PF_FORMAT: the value, or the number of entries, is outside low .. high; the text is longer. */
PF_MUST_USE pf_status pf_codec_check_range(const pf_codec_place *at, const char *field, int64_t value, int64_t low,
                                           int64_t high);
PF_MUST_USE pf_status pf_codec_check_count(const pf_codec_place *at, const char *field, size_t n, size_t low,
                                           size_t high);
PF_MUST_USE pf_status pf_codec_check_text(const pf_codec_place *at, const char *field, const char *text,
                                          size_t most_bytes);

/* Likewise of entry i of the field. */
PF_MUST_USE static inline pf_status pf_codec_check_entry(const pf_codec_place *at, const char *field, size_t i,
                                                         int32_t value, int32_t low, int32_t high)
{
    if (value >= low && value <= high) return PF_OK;
    return pf_codec_refuse(at, PF_FORMAT, field, "[%zu] is %d, expected %d to %d", i, (int)value, (int)low, (int)high);
}

#endif
