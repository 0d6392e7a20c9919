/*
 * Drafts a proposal in one or two passes, by a draft with a mask token (PARD, arXiv:2504.18583). Internal to draft/.
 *
 *      pass 1    c2 c3 m  m  m      -> d0 d1 d2 d3       c: committed tokens that were not fed; m: masks
 *                cache: .. c3                            the masks are rolled back
 *      pass 2    d0 d1 d2           ->    e1 e2 e3       each predicted again, behind the first's tokens
 *                cache: .. c3 d0                         and d1 where e1 is d1, and so on
 *
 * In the text the mask's row predicts the token behind the place where it stands, from the committed tokens and the masks before it.
 * So accepted tokens are fed again: a pass has up to 2 k rows.
 *
 * Under rejection each token is drawn from the distribution that is declared with it. In two passes that of e2 depends on d1, which is
 * not proposed. The text is still the target's: given all that was drawn for earlier positions, e2 is a draw from what is declared,
 * because draws of different positions are independent; and that is all that the acceptance needs (Leviathan et al.,
 * arXiv:2211.17192, appendix A.1).
 *
 * Greedy proposals of chosen length become trees (draft/candidate_tree.h), where the open allows trees.
 *
 * Threads: the drafter's; pf_parallel_note also the backend's, for different sequences.
 */
#ifndef PF_DRAFT_PARALLEL_H
#define PF_DRAFT_PARALLEL_H

#include "base/arena.h"
#include "draft/candidate_tree.h"
#include "draft/outcomes.h"
#include "draft/passes.h"
#include "host/sequence_host.h"
#include "model/forward/span.h"

/* Of a sequence. */
typedef struct {
    pf_passes how;    /* of the proposal in the making, then of the latest */
    bool is_second;   /* the second pass comes next */
    int32_t n_rows;   /* of the pass in the making that are drawn from */
    int32_t n_levels; /* tokens that were drafted, before they became a tree; 0: the proposal has been judged */
    bool is_tree;
    pf_tree_level levels[PF_MAX_DRAFT_TOKENS];
    int32_t first[PF_MAX_DRAFT_TOKENS];   /* of two passes the first's tokens */
    int32_t parents[PF_MAX_DRAFT_TOKENS]; /* of a tree */
} pf_parallel_slot;

typedef struct {
    int32_t mask;    /* below 0: there is none, and every token takes a pass */
    pf_passes asked; /* AUTO: chosen by what is measured */
    pf_passes_records records;
    pf_tree_shares one, two; /* of candidates that one pass and two predict */
    pf_parallel_slot *slots; /* [max_sequences] */
} pf_parallel;

void pf_parallel_lay_out(pf_parallel *parallel, int32_t max_sequences, pf_arena *arena);

/* How the proposals of the next step are drafted. */
pf_passes pf_parallel_choose(const pf_parallel *parallel);

/* A proposal is begun. */
void pf_parallel_begin(pf_parallel *parallel, int32_t slot, pf_passes how);

/* Whether a sequence is drafted for in one or two passes. */
bool pf_parallel_drafts(const pf_parallel *parallel, int32_t slot);

/* The next pass for a proposal of k tokens, behind `held` tokens of the cache: fills in the span's tokens and logits, and writes
 * masks behind the committed tokens. Each of its rows is drawn from in order, into s->n_drafted and up. */
void pf_parallel_plan_pass(pf_parallel *parallel, const pf_host_sequence *s, int32_t k, int32_t held, pf_span *span);

/* Token i of the proposal has been drawn; row: of its candidates, or NULL. */
void pf_parallel_note(pf_parallel *parallel, const pf_host_sequence *s, int32_t i, const pf_outcome_row *row);

/* A pass has been drawn from, or has failed, and k tokens are planned. Returns the length that the cache keeps. s->n_drafted is k,
 * unless a second pass is to come. */
int32_t pf_parallel_end_pass(pf_parallel *parallel, pf_host_sequence *s, int32_t k, bool failed);

/* No second pass is made: the tokens of the first are the proposal. */
void pf_parallel_skip_second(pf_parallel *parallel, pf_host_sequence *s, int32_t k);

/* Completes a proposal, however it was drafted. plan: of its tree, where it was drafted in one or two passes; NULL: it stays as it is. */
void pf_parallel_end_proposal(pf_parallel *parallel, pf_host_sequence *s, const pf_tree_plan *plan,
                              pf_proposal *proposal);

/* Learns from the verdict on the latest proposal, which took ns from the begin of its drafting to here. */
void pf_parallel_judge(pf_parallel *parallel, int32_t slot, const pf_verdict *verdict, uint64_t ns);

#endif
