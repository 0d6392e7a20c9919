/*
 * Reads the decoder of tokenizer.json: a list of steps, each of which maps a list of token texts to another list. The first
 * steps see each token alone; they run once, when the tokenizer is read (pf_decoder_decode_token). The later steps see the
 * stream of tokens and run in detokenize.c:
 *
 *      tokens        "▁Hi"   "▁"   "<0xC3>"  "<0xA9>"
 *      token steps   " Hi"   " "   C3        A9          Replace, then ByteFallback
 *      Fuse          " Hi" .. " " .. C3 .. A9            joins all tokens to one
 *      Strip         "Hi"  .. " " .. C3 .. A9            removes its first space
 *
 * Internal to tokenizer/. A decoder is immutable and owned by its tokenizer.
 */
#ifndef PF_TOKENIZER_DECODER_H
#define PF_TOKENIZER_DECODER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "tokenizer/pattern/pattern.h"

enum { PF_MAX_DECODER_STEPS = 32 };

typedef enum {
    PF_STEP_REPLACE,
    PF_STEP_STRIP,
    PF_STEP_FUSE,
    PF_STEP_METASPACE,
    PF_STEP_JOIN, /* puts `content` between tokens; used when tokenizer.json has no decoder */
} pf_step_kind;

typedef struct {
    pf_step_kind kind;
    pf_pattern *regex;       /* Replace as a token step */
    char *pattern, *content; /* Replace as a stream step; pattern: the character of Strip and Metaspace */
    size_t n_pattern, n_content;
    uint16_t *border;         /* [n_pattern] length of the longest proper border of pattern[0 .. i] (KMP) */
    uint32_t n_start, n_stop; /* Strip: the most characters removed at each end */
    bool drops_first;         /* Metaspace: the first token gets no space for its marks */
} pf_decoder_step;

typedef struct {
    pf_decoder_step steps[PF_MAX_DECODER_STEPS];
    int32_t n_steps;
    int32_t n_token_steps; /* the leading steps that see each token alone */
    bool has_runs;         /* ByteFallback: consecutive byte tokens are one token for the stream steps */
    bool is_byte_level;    /* ByteLevel: the characters of a token map to bytes */
    bool has_stream_step;  /* while reading: further steps are stream steps */
} pf_decoder;

/* Reads the node "decoder" of doc; null: tokens are joined by spaces. PF_UNSUPPORTED, PF_FORMAT: the sentence names the
 * part. PF_NOMEM. Free it with pf_decoder_destroy. */
PF_MUST_USE pf_status pf_decoder_create(const pf_json *doc, const json_t *node, pf_decoder **out, pf_error *error);
void pf_decoder_destroy(pf_decoder *decoder); /* NULL is fine */

/* Applies the token steps to *text. *is_byte: the token is a byte token such as "<0xC3>" and *text its byte. `spare` is
 * scratch memory. PF_NOMEM; PF_LIMIT: it takes too long, or the text becomes too long. */
PF_MUST_USE pf_status pf_decoder_decode_token(const pf_decoder *decoder, pf_searcher *searcher, pf_bytes *text,
                                              pf_bytes *spare, bool *is_byte);

#endif
