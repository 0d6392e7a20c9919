/*
 * The answer of a peer in this process, as it grows from submit to collect: what both kinds of peer do alike with it.
 *
 *      submit ... submit   refusals and prefix requests are added
 *      collect             the owner adds its proposals or verdicts, in arrays of its own, and hands the answer out
 *      next call           an answer that was handed out begins anew
 *
 * Memory: from its owner's arena; nothing is allocated later. Threads: its owner's one.
 */
#ifndef PF_PROTO_ANSWER_H
#define PF_PROTO_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "proto/messages.h"

typedef struct {
    pf_batch batch;
    char (*refusal_texts)[PF_MAX_REFUSAL_BYTES + 1]; /* [PF_MAX_BATCH_SEQUENCES] */
    bool handed_out;
} pf_answer;

/* Room for as many refusals and prefix requests as a batch may have, from the arena (or its measure). */
void pf_answer_lay_out(pf_answer *answer, pf_arena *arena);

/* At the head of submit and collect: empty what has been handed out. */
void pf_answer_begin(pf_answer *answer);

/* An answer that is full of complaints drops the rest (proto/peer.h). `text` is copied, and cut to
 * PF_MAX_REFUSAL_BYTES. */
void pf_answer_refuse(pf_answer *answer, uint64_t sequence, uint32_t incarnation, pf_status status, const char *text);
void pf_answer_request_prefix(pf_answer *answer, pf_prefix_request request);

/* At the end of collect. False: there is nothing in it, *out is untouched. */
bool pf_answer_hand_out(pf_answer *answer, const pf_batch **out);

#endif
