/* A choice of drafters over a model that the test makes up, by a clock that the test sets, and texts that are lookup's or not. */
#ifndef PF_TESTS_SUPPORT_CHOICE_RIG_H
#define PF_TESTS_SUPPORT_CHOICE_RIG_H

#include "draft/choice_drafter.h"
#include "host/sequence_host.h"

enum { RIG_VOCAB = 20000, RIG_CONTEXT = 1024, MODEL_TOKEN = 77, RIG_MS = 1000000 };

/* Proposes MODEL_TOKEN as often as it is asked for, in so much time. */
typedef struct {
    pf_host host;
    uint64_t *clock_ns, pass_ns;
    int32_t n_asked, n_told; /* verdicts with a proposal, and all */
    int32_t limit;           /* of sequences' ids: those from it on are refused */
    int32_t n_ahead;         /* passes ahead, of which there is one */
} stub_model;

typedef struct {
    pf_peer *choice;
    stub_model *model; /* NULL: of lookups alone */
    uint64_t clock_ns;
} choice_rig;

/* Of these kinds [n]. End it with rig_end. */
void rig_make(choice_rig *r, int32_t max_sequences, const pf_drafts_by *offered, int32_t n);
void rig_end(choice_rig *r);

typedef struct {
    pf_open open;
    uint64_t round;
    int32_t base;
} rig_sequence;

/* A prompt of a period, so long that a lookup is sure of it, or of tokens that never come again. */
rig_sequence rig_open_text(uint64_t sequence, bool repeats);

/* Commits tokens, which takes `ns` of the target, and returns what is proposed next. */
pf_proposal rig_commit(choice_rig *r, rig_sequence *t, const int32_t *tokens, int32_t n, uint64_t ns);
pf_proposal rig_commit_period(choice_rig *r, rig_sequence *t, int32_t n, uint64_t ns);
pf_proposal rig_commit_fresh(choice_rig *r, rig_sequence *t, int32_t n, uint64_t ns);

#endif
