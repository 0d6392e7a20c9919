/*
 * What both kinds of peer in this process do alike: fence what comes in, and gather an answer from submit to collect.
 *
 *      submit ... submit   messages are admitted; what is stale is dropped, for what is missing the answer gets a prefix
 *                          request, and refusals are added
 *      collect             the owner adds its proposals or verdicts, in arrays of its own, and hands the answer out
 *      next call           an answer that was handed out begins anew
 *
 * An answer that is full of complaints drops the rest (proto/peer.h).
 * Memory: from its owner's arena; nothing is allocated later. Threads: its owner's one.
 */
#ifndef PF_HOST_ANSWER_H
#define PF_HOST_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "proto/messages.h"
#include "proto/stream.h"

typedef struct {
    pf_stream_answerer *stream; /* the owner makes it and ends it */
    pf_batch batch;
    char (*refusal_texts)[PF_MAX_REFUSAL_BYTES + 1]; /* [PF_MAX_BATCH_SEQUENCES] */
    bool handed_out;
} pf_answer;

/* The methods that peers in this process speak: bits by pf_method, as in pf_model_info. */
enum { PF_ANSWER_METHODS = 1 << PF_METHOD_GREEDY | 1 << PF_METHOD_REJECTION | 1 << PF_METHOD_COUPLED };

/* PF_UNSUPPORTED: it is none of them. */
PF_MUST_USE pf_status pf_answer_check_method(pf_method method, pf_error *error);

/* Room for as many refusals and prefix requests as a batch may have, from the arena (or its measure). */
void pf_answer_lay_out(pf_answer *answer, pf_arena *arena);

/* At the head of submit and collect: empty what has been handed out. */
void pf_answer_begin(pf_answer *answer);

/* Whether to act on a message. *slot is its sequence's own number from its open to its close (proto/stream.h); of an open
 * it is set also where the sequence was open before, and of a close it is free again. */
bool pf_answer_admit_close(pf_answer *answer, const pf_close *close, int32_t *slot);
bool pf_answer_admit_open(pf_answer *answer, const pf_open *open, int32_t *slot);
bool pf_answer_admit_verdict(pf_answer *answer, const pf_verdict *verdict, int32_t *slot);
bool pf_answer_admit_proposal(pf_answer *answer, const pf_proposal *proposal, int32_t *slot);

/* Refuse a sequence and forget it: to the stream it is as if its owner had closed it. `text` is copied, and cut to
 * PF_MAX_REFUSAL_BYTES. */
void pf_answer_refuse(pf_answer *answer, uint64_t sequence, uint32_t incarnation, pf_status status, const char *text);

/* At the end of collect. False: there is nothing in it, *out is untouched. */
bool pf_answer_hand_out(pf_answer *answer, const pf_batch **out);

#endif
