/*
 * Checks the fences of incoming messages and gathers an answer between submit and collect, for every peer of this process.
 *
 *      submit ... submit   messages are admitted; stale ones are dropped, missing sequences get a prefix request,
 *                          and refusals are added
 *      collect             the owner adds its proposals or verdicts, in arrays of its own, and returns the answer
 *      next call           a returned answer is emptied
 *
 * Refusals and prefix requests beyond the limits of an answer are dropped (proto/peer.h).
 * Memory: from the owner's arena; nothing is allocated later. Threads: the owner's thread.
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
    pf_stream_answerer *stream; /* created and destroyed by the owner */
    pf_batch batch;
    char (*refusal_texts)[PF_MAX_REFUSAL_BYTES + 1]; /* [PF_MAX_BATCH_SEQUENCES] */
    bool handed_out;
} pf_answer;

/* The methods that peers of this process support: bits by pf_method, as in pf_model_info. */
enum {
    PF_ANSWER_METHODS = 1 << PF_METHOD_GREEDY | 1 << PF_METHOD_REJECTION | 1 << PF_METHOD_BLOCK |
                        1 << PF_METHOD_COUPLED | 1 << PF_METHOD_TYPICAL | 1 << PF_METHOD_TRAVERSAL
};

/* PF_UNSUPPORTED: another method. */
PF_MUST_USE pf_status pf_answer_check_method(pf_method method, pf_error *error);

/* Room for as many refusals and prefix requests as a batch may have, from the arena (or its measure). */
void pf_answer_lay_out(pf_answer *answer, pf_arena *arena);

/* At the start of submit and collect: empty a returned answer. */
void pf_answer_begin(pf_answer *answer);

/* Whether to act on a message. *slot is the slot of its sequence (proto/stream.h); after an open also if the sequence was open
 * before, and after a close the slot is free. */
bool pf_answer_admit_close(pf_answer *answer, const pf_close *close, int32_t *slot);
bool pf_answer_admit_open(pf_answer *answer, const pf_open *open, int32_t *slot);
bool pf_answer_admit_verdict(pf_answer *answer, const pf_verdict *verdict, int32_t *slot);
bool pf_answer_admit_proposal(pf_answer *answer, const pf_proposal *proposal, int32_t *slot);

/* Refuse a sequence and close it in the stream. `text` is copied, and cut to
 * PF_MAX_REFUSAL_BYTES. */
void pf_answer_refuse(pf_answer *answer, uint64_t sequence, uint32_t incarnation, pf_status status, const char *text);

/* At the end of collect. False: the answer is empty, *out is untouched. */
bool pf_answer_hand_out(pf_answer *answer, const pf_batch **out);

#endif
