/*
 * The decoder of tokenizer.json: a list of steps that make of a list of texts, the tokens, another one. Some look at each
 * token alone: what they make of it is known when the tokenizer is read (pf_decoder_decode_token). The others run on the way, in
 * detokenize.c:
 *
 *      tokens        "▁Hi"   "▁"   "<0xC3>"  "<0xA9>"
 *      decoded         " Hi"   " "   C3        A9          Replace, then ByteFallback
 *      Fuse          " Hi" .. " " .. C3 .. A9             one text
 *      Strip         "Hi"  .. " " .. C3 .. A9             its first space
 *
 * Internal to tokenizer/. Immutable once made; it belongs to its tokenizer.
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
    PF_STEP_JOIN, /* what there is where tokenizer.json has no decoder */
} pf_step_kind;

typedef struct {
    pf_step_kind kind;
    pf_pattern *regex;       /* Replace in front of all steps that run on the way: any pattern */
    char *pattern, *content; /* Replace; Strip and Metaspace: the character; JOIN: content is what goes between */
    size_t n_pattern, n_content;
    uint16_t *border;         /* [n_pattern] of pattern[0 .. i]: its longest end that begins it, shorter than itself */
    uint32_t n_start, n_stop; /* Strip: of the character, so many */
    bool drops_first;         /* Metaspace: in the first token it stands for nothing */
} pf_decoder_step;

typedef struct {
    pf_decoder_step steps[PF_MAX_DECODER_STEPS];
    int32_t n_steps;
    int32_t n_token_steps; /* of them, those at the front that look at each token alone */
    bool has_runs;         /* ByteFallback: behind those, tokens that are a byte join */
    bool is_byte_level;    /* ByteLevel: a token's characters stand for bytes */
    bool has_stream_step;  /* while it is built: the steps from here on run on the way */
} pf_decoder;

/* From the node "decoder" of doc; null: tokens are joined by spaces. PF_UNSUPPORTED, PF_FORMAT: the sentence names the
 * part. PF_NOMEM. Ended with pf_decoder_destroy. */
PF_MUST_USE pf_status pf_decoder_create(const pf_json *doc, const json_t *node, pf_decoder **out, pf_error *error);
void pf_decoder_destroy(pf_decoder *decoder); /* NULL is fine */

/* *text, a token's, becomes what the steps that look at each token alone make of it. *is_byte: it is one byte of a run that
 * tokens such as "<0xC3>" make together. `spare` is room to work in.
 * PF_NOMEM; PF_LIMIT: it takes too long or becomes too long. */
PF_MUST_USE pf_status pf_decoder_decode_token(const pf_decoder *decoder, pf_searcher *searcher, pf_bytes *text,
                                              pf_bytes *spare, bool *is_byte);

#endif
