/*
 * Which drafters behind a choice follow a sequence, what each is told of a batch, and what the lookups answer. Internal to draft/.
 *
 *      batch --> pf_choice_take_batch   the names of its opens; what closes
 *            --> pf_choice_look_up      a lookup's share of it, and at once its answers
 *            --> pf_choice_share        the model's share of it
 *
 * The parts of a choice are the drafters behind it: model, ngram and suffix. A sequence of a cascade has two of them.
 */
#ifndef PF_DRAFT_CHOICE_PARTS_H
#define PF_DRAFT_CHOICE_PARTS_H

#include "base/stop.h"
#include "draft/cascade_rounds.h"
#include "draft/drafter_kind.h"
#include "draft/lookup_answers.h"
#include "proto/idmap.h"
#include "proto/peer.h"

enum { PF_CHOICE_PARTS = PF_DRAFTS_BY_SUFFIX + 1 };

/* A sequence, by its slot of the map. */
typedef struct {
    pf_drafts_by by;
    int32_t n_told;         /* tokens of the verdict that is being submitted */
    pf_cascade_round round; /* of a cascade */
} pf_choice_sequence;

typedef struct {
    pf_peer peer;
    pf_peer *parts[PF_CHOICE_PARTS]; /* by their kinds; NULL: not needed */
    pf_drafts_by home;               /* of the part that answers for sequences that are not open */
    pf_drafts_by offered[PF_N_DRAFTS_BY];
    pf_model_info info;
    pf_stop stop;
    pf_idmap *ids;
    pf_choice_sequence *sequences; /* [max_sequences] */
    pf_lookup_answers *answers;
    uint64_t looked_ns; /* what the lookups of the next answer took */
    pf_cascade_rounds rounds;
    pf_open opens[PF_MAX_BATCH_SEQUENCES]; /* of the batch for a part */
    pf_verdict verdicts[PF_MAX_BATCH_SEQUENCES];
} pf_choice;

/* Which of the offered an open asks for, and the open as its part sees it. Errors as pf_drafter_names_check. */
PF_MUST_USE pf_status pf_choice_read_open(const pf_choice *c, const pf_open *open, pf_drafts_by *by, pf_open *out,
                                          pf_error *error);

/* Opens and closes take effect here; one that is refused is among the answers. */
void pf_choice_take_batch(pf_choice *c, const pf_batch *batch);

/* What a part is told of a batch, borrowed until the next call. */
pf_batch pf_choice_share(pf_choice *c, const pf_batch *batch, pf_drafts_by part);

/* Tells a lookup its share, and takes its answers. */
void pf_choice_look_up(pf_choice *c, const pf_batch *batch, pf_drafts_by part);

/* The model has refused a sequence. */
void pf_choice_end_refused(pf_choice *c, uint64_t sequence);

/* Whether a part follows a sequence; of one that is not open whether it answers for it. */
bool pf_choice_has(const pf_choice *c, uint64_t sequence, pf_drafts_by part);

/* Whether a lookup's proposal for a sequence waits to be collected. */
bool pf_choice_holds(const pf_choice *c, uint64_t sequence);

#endif
