/* Helpers for the messages of include/pilotfish_peer.h. */
#ifndef PF_PROTO_MESSAGES_H
#define PF_PROTO_MESSAGES_H

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"

/* How many ids a text of the model may hold. */
static inline int32_t pf_model_ids(const pf_model_info *info)
{
    return info->n_ids > info->vocab_size ? info->n_ids : info->vocab_size;
}

enum { PF_FINGERPRINT_TEXT_BYTES = 2 * 32 + 1 };

/* Its vocabulary's fingerprint in hexadecimal digits. */
static inline void pf_model_print_fingerprint(const pf_model_info *info, char out[PF_FINGERPRINT_TEXT_BYTES])
{
    for (size_t i = 0; i < sizeof info->vocab_fingerprint; i++) {
        *out++ = "0123456789abcdef"[info->vocab_fingerprint[i] >> 4];
        *out++ = "0123456789abcdef"[info->vocab_fingerprint[i] & 15];
    }
    *out = '\0';
}

/* How many of the first tokens [n] a vocabulary of n_vocab has; n: it has all. */
static inline int32_t pf_count_known(const int32_t *tokens, int32_t n, int32_t n_vocab)
{
    int32_t i = 0;
    while (i < n && tokens[i] >= 0 && tokens[i] < n_vocab) i++;
    return i;
}

/* Count a row behind the token at `position`, whose first invalid logit is that of `id`. */
static inline void pf_invalid_logits_note(pf_invalid_logits *invalid, int32_t position, int32_t id)
{
    if (invalid->n_rows++ > 0) return;
    invalid->first_position = position;
    invalid->first_id = id;
}

enum { PF_INVALID_LOGITS_TEXT_BYTES = 320 };

/* The warning, of which model: "target" or "draft". */
static inline void pf_invalid_logits_print(const pf_invalid_logits *invalid, const char *role, const char *model_id,
                                           char out[PF_INVALID_LOGITS_TEXT_BYTES])
{
    snprintf(out, PF_INVALID_LOGITS_TEXT_BYTES,
             "the %s %s: NaN or infinity in %" PRId64 " row%s of logits; the first is the row after position %d, at id "
             "%d",
             role, model_id, invalid->n_rows, invalid->n_rows == 1 ? "" : "s", invalid->first_position,
             invalid->first_id);
}

/* Whether a refusal of that incarnation is in the batch. */
static inline bool pf_batch_refuses(const pf_batch *batch, uint64_t sequence, uint32_t incarnation)
{
    for (int32_t i = 0; i < batch->n_refusals; i++)
        if (batch->refusals[i].sequence == sequence && batch->refusals[i].incarnation == incarnation) return true;
    return false;
}

#endif
