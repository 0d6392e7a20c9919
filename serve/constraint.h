/*
 * Holds a text to a grammar while it is generated: says which tokens may come next, as pf_logit_rules.allow.
 *
 * States are kept along the text, so that a call costs the tokens that are new. What the grammar allows the text to end after may be followed
 * by the tokens that end it. A path that the grammar does not have decides nothing: everything is allowed behind it.
 *
 * Threads: one at a time, that which computes.
 */
#ifndef PF_SERVE_CONSTRAINT_H
#define PF_SERVE_CONSTRAINT_H

#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

typedef struct pf_constraint pf_constraint;

/* All borrowed for its life. ends [n_ends]: tokens that end the text. PF_FORMAT: no text fits the grammar.  PF_NOMEM. End it with
 * pf_constraint_destroy. */
PF_MUST_USE pf_status pf_constraint_create(const pf_grammar *grammar, const pf_token_order *order, const int32_t *ends,
                                           int32_t n_ends, pf_constraint **out);
void pf_constraint_destroy(pf_constraint *constraint); /* NULL is fine */

/* A pf_allow_tokens of the constraint `user`. */
void pf_constraint_allow(void *user, const int32_t *text, int32_t n_text, const int32_t *path, int32_t n_path,
                         uint32_t *mask, int32_t n_ids);

/* The texts that tokens add to a text, in order: those of special tokens only where they are in shown [n_shown].
 * PF_NOMEM, PF_LIMIT. The caller ends *out with pf_token_order_clear. */
PF_MUST_USE pf_status pf_constraint_order(const pf_tokenizer *tokenizer, int32_t n_ids, const int32_t *shown,
                                          int32_t n_shown, pf_token_order *out);

#endif
