/*
 * Writes the warnings of a server whose model gives invalid logits: at the first row, and again when there are twice as many, so that
 * a log stays short.
 *
 * Threads: the one that may use the peer.
 */
#ifndef PF_HOST_INVALID_LOG_H
#define PF_HOST_INVALID_LOG_H

#include "proto/peer.h"

enum { PF_INVALID_LOG_BYTES = PF_INVALID_LOGITS_TEXT_BYTES + 16 };

/* Zeroed at first. */
typedef struct {
    pf_invalid_logits all; /* of the peer, since the log began */
    int64_t n_logged;      /* rows of them at the last warning */
} pf_invalid_log;

/* Takes what the peer has found. Whether there is a warning, which is then in `sentence`. */
bool pf_invalid_log_update(pf_invalid_log *log, pf_peer *peer, pf_service service, char sentence[PF_INVALID_LOG_BYTES]);

#endif
