/*
 * Follows a text through a grammar token by token, and says which tokens may come next.
 *
 *      state -> the set of stacks that the automaton may have: 0 is the begin of the text
 *      advance(state, token) -> state, or PF_MATCHER_DEAD
 *      allowed(state)        -> a bit for each token that leads to a state that is not dead
 *
 * States are numbered as they are met and kept: going back to an earlier length of the text is going back to its state. Steps by a byte and
 * the latest sets of allowed tokens are remembered, so that a state that comes again costs one look.
 *
 *      stacks   | node of the current rule | where the caller goes on | ... |     cells (parent, node), each there once
 *
 * Bounds: the constants below. A stack that would be deeper is not followed: texts that need it are not allowed. More cells or states end
 * the match with PF_LIMIT. The definition beside the walk over all tokens is pf_matcher_advance of each.
 *
 * Source: Koo et al., "Automata-based constraints for language model decoding", arXiv:2407.08103; Dong et al., "XGrammar",
 * arXiv:2411.15100, for masks by pushdown automata.
 * Threads: a matcher is used by one at a time; the grammar and the order of tokens by any number.
 */
#ifndef PF_GRAMMAR_MATCHER_H
#define PF_GRAMMAR_MATCHER_H

#include <stdbool.h>

#include "grammar/grammar.h"
#include "grammar/token_order.h"

enum {
    PF_MATCHER_DEAD = -1,
    PF_MATCHER_MAX_DEPTH = 512,      /* of a stack */
    PF_MATCHER_MAX_CELLS = 1 << 17,  /* ever made */
    PF_MATCHER_MAX_STATES = 1 << 13, /* likewise */
    PF_MATCHER_MAX_STACKS = 1 << 12, /* of a state */
    PF_MATCHER_MASKS = 32,           /* sets of allowed tokens that are remembered */
};

typedef struct pf_matcher pf_matcher;

/* Both borrowed for its life. PF_FORMAT: no text at all fits.  PF_NOMEM. End it with pf_matcher_destroy. */
PF_MUST_USE pf_status pf_matcher_create(const pf_grammar *grammar, const pf_token_order *order, pf_matcher **out);
void pf_matcher_destroy(pf_matcher *matcher); /* NULL is fine */

/* The state behind a byte, or behind all bytes of a token; a token without a text leads nowhere. */
int32_t pf_matcher_step(pf_matcher *matcher, int32_t state, uint8_t byte);
int32_t pf_matcher_advance(pf_matcher *matcher, int32_t state, int32_t token);

/* Whether the text may end here. */
bool pf_matcher_accepts(const pf_matcher *matcher, int32_t state);

/* Bit id % 32 of word id / 32 for each id below order->n_ids: whether it may come next. Borrowed until the next call.
 * NULL: no memory, or a bound (pf_matcher_status). */
const uint32_t *pf_matcher_allowed(pf_matcher *matcher, int32_t state);

/* PF_OK; PF_LIMIT, PF_NOMEM: from then on states are dead that might not be. */
pf_status pf_matcher_status(const pf_matcher *matcher);

#endif
