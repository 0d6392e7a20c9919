/*
 * The suffix drafter: proposes what has most often followed the latest tokens, in the text itself and in earlier texts of its client.
 *
 *      sequence    prompt and output: a suffix tree that follows the committed tokens     (draft/suffix_tree.h)
 *      corpus      outputs of the client's earlier sequences, where it is asked for       (draft/suffix_corpus.h)
 *
 * In both the longest suffix of the committed tokens that occurred before is found. Behind it the most frequent tokens are taken, one
 * after another, while the chance that the whole path is accepted pays for a row of the verification (draft/lookup_odds.h). A suffix
 * of n tokens gives at most PF_SUFFIX_FACTOR * n tokens. Of the two proposals the one of which more is expected to be accepted is
 * sent: a chain, or a tree with second choices where the open asks for a chosen length and for trees.
 *
 * Where the proposals of a step together do not pay for their rows none is sent, but now and then (draft/goodput.h).
 *
 * A proposal is fixed before any noise is drawn and declares no distribution: every method is exact with it. A fixed length is a bound.
 *
 * It has no model: vocabulary and context are those of the pf_model_info it is given. Opens name their client (pf_open.client); texts
 * of two clients never meet. Long prompts are read in parts, between which others are answered.
 *
 * Memory: made at creation; a round allocates nothing. Threads: those of pf_peer.
 *
 * Source: Oliaro et al., SuffixDecoding, arXiv:2411.04975, section 4.
 */
#ifndef PF_DRAFT_SUFFIX_DRAFTER_H
#define PF_DRAFT_SUFFIX_DRAFTER_H

#include <stddef.h>

#include "base/status.h"
#include "base/stop.h"
#include "proto/peer.h"

enum { PF_SUFFIX_FACTOR = 4 };

typedef struct {
    int32_t max_sequences, max_draft; /* as of pf_host_config */
    size_t corpus_bytes;              /* of earlier outputs; 0: none are kept */
    pf_stop stop;                     /* the drafter uses its clock */
} pf_suffix_drafter_config;

/* `target`: of its vocabulary, context and fingerprint; copied. End it with pf_peer_destroy.
 * PF_INVALID: a limit is out of range, or corpus_bytes is below PF_SUFFIX_CORPUS_LEAST_BYTES and not 0.  PF_NOMEM. */
PF_MUST_USE pf_status pf_suffix_drafter_create(const pf_model_info *target, const pf_suffix_drafter_config *config,
                                               pf_peer **out, pf_error *error);

/* Tokens of the latest proposal for a sequence that are expected to be accepted; 0: it has none. peer: a suffix drafter. */
double pf_suffix_drafter_expects(const pf_peer *peer, uint64_t sequence);

/* The latest proposal for a sequence is not sent: its verdict says nothing about the time of rows. */
void pf_suffix_drafter_withhold(pf_peer *peer, uint64_t sequence);

#endif
