/*
 * One sequence's proposals of adaptive length: observes each drawn token and each verdict, and decides by draft/length.h whether
 * another token is drawn and beside which tokens the second choice is proposed. Internal to draft/.
 *
 * Threads: one at a time.
 */
#ifndef PF_DRAFT_ADAPTIVE_H
#define PF_DRAFT_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "draft/choose.h"
#include "draft/length.h"
#include "draft/outcomes.h"
#include "proto/messages.h"

/* Of the tokens of a chain. */
typedef struct {
    float margins[PF_MAX_DRAFT_TOKENS];
    int32_t second_choices[PF_MAX_DRAFT_TOKENS]; /* below 0: there is none */
} pf_draft_margins;

typedef struct {
    pf_length length;
    bool branches;                        /* second choices are proposed, too */
    bool by_noise;                        /* and margins are those of the rows: of perturbed logits */
    pf_draft_margins margins;             /* of the latest proposal's chain, and of the one in the making */
    int32_t parents[PF_MAX_DRAFT_TOKENS]; /* of a proposal with branches or siblings, which stand behind the chain */
    int32_t n_branches;                   /* siblings included */
    int32_t n_proposed;                   /* tokens of the latest proposal's chain; 0: it has been judged */
    uint64_t drafted_ns;                  /* what it took */
    uint64_t left_ns;                     /* when it was handed out */
} pf_adaptive;

/* A token has been drawn from these logits behind n_drawn - 1 others: whether another is, of at most n_planned. row: of the token, where its
 * margin is not that of the logits alone; else NULL. */
bool pf_adaptive_goes_on(const pf_length *length, pf_draft_margins *margins, const pf_chooser *chooser,
                         const float *logits, int32_t token, const pf_outcome_row *row, int32_t n_drawn,
                         int32_t n_planned);

/* The i-th token has this row: what is learnt of a proposal whose length is fixed. */
void pf_adaptive_note(pf_draft_margins *margins, int32_t i, const pf_outcome_row *row);

/* Complete a proposal of n_drawn tokens, of at most max_draft: second choices are added behind its tokens, which are the
 * caller's array [max_draft]. */
void pf_adaptive_end_proposal(pf_adaptive *adaptive, int32_t *tokens, int32_t n_drawn, int32_t max_draft,
                              pf_proposal *proposal);

/* Whether a verdict on a proposal with this chain, of a token at least, shows that it came too late to be judged, and began as the target
 * went on. */
bool pf_adaptive_is_late(const int32_t *chain, const pf_verdict *verdict);

/* Learns from the verdict on the latest proposal, which had this chain. */
void pf_adaptive_judge(pf_adaptive *adaptive, const int32_t *chain, const pf_verdict *verdict, uint64_t now_ns);

#endif
