/*
 * Drafts ahead: while a proposal is being verified, drafts what would be proposed after its likely outcomes. Internal to draft/.
 *
 *      proposal of round r    d0    d1    d2                       its verdict is on the way
 *
 *      pass 0                 main  d2                             -> the candidates of the bonus
 *                             fork  .. x00           -> e0         a branch for each likely outcome (draft/outcomes.h): the first
 *                             fork  .. d0 x10        -> e0         tokens of the proposal, then a candidate for the target's own
 *      pass 1                 fork  .. x00 e0        -> e1
 *                             fork  .. d0 x10 e0     -> e1
 *                             fork  .. d0 d1 d2 x30  -> e0
 *      ...
 *      verdict (d0, x10)      the slot adopts the second fork; proposal of round r + 1: e0 e1 ...
 *
 * All branches of all sequences are rows of one pass, which share one read of the weights. A branch that has fewer tokens than are wanted
 * when its verdict comes is drafted on by the drafter.
 *
 * A token of a branch is drawn exactly as it would be after the verdict: by the same distribution, which is declared with it, and by
 * the same noise of (position, round). So proposals do not depend on whether they were drafted ahead, and no drawn token is withheld
 * (DESIGN, invariant 4): the verdict alone decides which branch is proposed, and that one is proposed as it was drawn.
 *
 * How many branches: those that save the most passes, by the probability of a hit, by how long proposals are away and by what a pass of
 * so many rows takes, all of which is measured; at most the backend's max_forks. Branches that the verdict excludes are released at
 * once, and all of them where a pass of the drafter finds the cache full.
 *
 * When (if_it_pays): a verdict that comes during a pass waits for its end, so a pass which is expected to end after a verdict is begun
 * only if it saves more, by the probability of its branches. And where rounds are shown to be slower with drafting ahead than without
 * (draft/ahead_trial.h), nothing is drafted ahead.
 *
 * Memory from an arena; nothing is allocated later. Threads: the drafter's.
 */
#ifndef PF_DRAFT_AHEAD_H
#define PF_DRAFT_AHEAD_H

#include "draft/ahead_trial.h"
#include "draft/draft_state.h"
#include "draft/draw_tokens.h"
#include "draft/goodput.h"
#include "draft/outcomes.h"
#include "host/sequence_host.h"
#include "model/backend/sequence_cache.h"

/* A likely outcome, and what is drafted behind it. */
typedef struct {
    int32_t slot;       /* whose; -1: it is free */
    int64_t fork;       /* of the cache; -1: the slot has adopted it */
    double probability; /* that it is the verdict's */
    int32_t n_accepted; /* tokens of the proposal */
    int32_t n_drafted;
    int32_t n_planned;                        /* at most; fewer once the adaptive length says so */
    bool is_ended;                            /* no more are drawn, whatever is planned */
    bool is_prepared;                         /* it may be answered before its verdict is given to the drafter */
    int32_t tokens[1 + PF_MAX_DRAFT_TOKENS];  /* the outcome's next token, then [n_drafted] */
    pf_outcome_row rows[PF_MAX_DRAFT_TOKENS]; /* [n_drafted] */
    pf_draft_margins margins;                 /* of these, where lengths are adaptive */
    pf_declared *declared;                    /* [max_draft] into the two below */
    int32_t *ids;                             /* [max_draft, PF_MAX_DECLARED] */
    float *probabilities;                     /* [max_draft, PF_MAX_DECLARED] */
} pf_ahead_branch;

/* Of a sequence. */
typedef struct {
    int32_t base;    /* committed tokens */
    int32_t n_chain; /* tokens of the proposal whose verdict is awaited; 0: nothing is drafted ahead */
    uint64_t round;  /* of the next proposal */
    uint64_t left_ns;
    bool is_planned, has_bonus_row;
    int32_t n_bonus;                              /* branches behind the whole chain, once its row is known */
    int32_t n_rows;                               /* of the tokens of the proposal that are known */
    pf_outcome_row rows[PF_MAX_DRAFT_TOKENS + 1]; /* [n_rows], and of the bonus */
    double bonus_probability;                     /* of these together */
    int32_t taken, n_tail;                        /* the branch of the next proposal, and its tokens; -1: none */
    int32_t n_proposed;                           /* tokens of the proposal, drafted ahead for or not */
    uint64_t verdict_ns;                          /* when the latest verdict came; 0: none has */
    uint32_t block;                               /* of the trial, and its rounds in it */
    int32_t n_rounds;
    uint64_t sent_ns; /* of the branch that was taken: when its proposal left; 0: it has not */
} pf_ahead_slot;

typedef struct {
    /* By the owner; borrowed. */
    const pf_host *host;
    const pf_forward_backend *backend;
    pf_sequence_cache *cache;
    const pf_drawer *drawer;
    pf_draft_state *states; /* [max_sequences] by slot */
    pf_goodput *goodput;
    pf_prepared_answers *prepared; /* by branch; NULL: a verdict waits for the pass that runs */

    pf_ahead_branch *branches; /* [n_branches] */
    int32_t n_branches;        /* 0: nothing is drafted ahead */
    pf_ahead_slot *slots;      /* [max_sequences] */
    pf_slot_list waiting;      /* whose proposals await their verdicts, and a few that do no more */
    pf_outcome_shares shares;
    int32_t of_sequence; /* by the owner: branches of a sequence, at most; 0: n_branches */
    bool if_it_pays;     /* by the owner: false: always, whatever the time */
    pf_ahead_trial trial;
    double away_ns;    /* of a proposal, until its verdict: smoothed; 0: not known */
    double spread_ns;  /* by which it differs */
    double way_ns;     /* of that what verifying did not take */
    uint64_t ended_ns; /* the latest pass */
    int32_t n_refused; /* passes, one after the other, that were not to pay */
    int32_t whole;   /* by the owner: the length of proposals of a batch, which is chosen for all; 0: token by token */
    bool is_used;    /* pf_ahead_step has been called */
    pf_span *spans;  /* [n_branches + max_sequences] of a pass */
    int32_t *owners; /* likewise: a branch, or -1 - slot */
} pf_outcome_cache;

/* As many branches as the backend has forks, from the arena (or its measure). */
void pf_ahead_lay_out(pf_outcome_cache *cache, pf_arena *arena);

/* Where the row of the i-th token of a proposal in the making goes; NULL: it is not wanted. */
pf_outcome_row *pf_ahead_row(pf_outcome_cache *cache, int32_t slot, int32_t i);

/* Whether the proposal of a slot is known and waits for its verdict. */
bool pf_ahead_awaits(const pf_outcome_cache *cache, int32_t slot);

/* A proposal has been made, whose chain of n_chain tokens stands behind the committed ones of `s`; the next one is of `round`. It left at
 * left_ns. */
void pf_ahead_begin(pf_outcome_cache *cache, const pf_host_sequence *s, int32_t n_chain, uint64_t round,
                    uint64_t left_ns);

/* The verdict on it has come (pf_host_role.follow). After a hit the slot's cache is the branch's, whose tokens stand behind
 * those of the verdict, and pf_ahead_fill must follow once these are committed. */
pf_ahead pf_ahead_follow(pf_outcome_cache *cache, pf_host_sequence *s, const pf_verdict *verdict);

/* After a hit: what the branch has becomes the proposal in the making. Whether that was complete: no more is to be drawn. *sent_ns:
 * when it was sent, as it is (host/prepared_answers.h); 0: it was not. */
bool pf_ahead_fill(pf_outcome_cache *cache, pf_host_sequence *s, uint64_t *sent_ns);

/* Releases the branches of a slot, or all. Whether there were any. */
bool pf_ahead_drop(pf_outcome_cache *cache, int32_t slot);
bool pf_ahead_drop_all(pf_outcome_cache *cache);

/* One pass over all branches; false: there is nothing to draft, or it does not pay now. */
bool pf_ahead_step(pf_outcome_cache *cache);

#endif
