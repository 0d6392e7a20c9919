/*
 * Chooses the number of tokens to draft in a step, for all of its sequences together: that of the highest goodput, committed tokens of
 * the whole batch a second.
 *
 *      E_i(k) = 1 + (a_i + s_i) (1 + ... + a_i^(k-1))        what sequence i commits, at its acceptance rate a_i; s_i by second choices
 *      T(k)   = D(n_1) + ... + D(n_k) + V(n + rows(k)) + o   n sequences, n_j of them have room for a j-th token, rows(k) tokens in all
 *      k      = argmax of the sum of E_i(k) / T(k)           0 among them: where no draft pays, none is made
 *
 * A row of the verification delays every sequence of the step, so k falls as the batch grows: the sum of E_i and the rows grow with n, the
 * part of T that does not depend on k does not. D, the time of a draft pass, and V, that of a verification, are lines through what was
 * measured, by rows; V as the engine reports it, otherwise from the proposals to the verdicts; o is what a round takes besides, without the
 * prompts that the target read meanwhile: they are read in any case. Where no
 * rows but one number of them have been measured, more seem free, so they are tried. For one sequence alone V(1) is no less than the fewest
 * rows that were measured: a few rows are verified in steps, which a line through them does not show.
 *
 * While nothing is drafted, one token is, now and then, so that a is kept current: as often as that, with what the draft has to read before,
 * takes one part in PF_GOODPUT_RETRY_SHARE of the time.
 *
 * Pure arithmetic; the caller passes the time. Threads: one at a time.
 *
 * Source: Leviathan et al., arXiv:2211.17192, section 3 (E and T of one sequence); Liu et al., "Optimizing Speculative Decoding for Serving
 * Large Language Models Using Goodput", arXiv:2406.14066, section 4.
 */
#ifndef PF_DRAFT_GOODPUT_H
#define PF_DRAFT_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PF_GOODPUT_RETRY_SHARE = 50,
    PF_GOODPUT_FIRST_STEPS =
        6, /* that are measured before a number is chosen: the lengths of draft/length.h's trials */
};

/* Weighted sums over measurements (x rows, y ns); the weight of one falls with every later one. */
typedef struct {
    double n, x, y, xx, xy;
    double least_x; /* of all measurements */
} pf_goodput_line;

/* Zero: nothing measured. */
typedef struct {
    pf_goodput_line draft, verify;
    double others, other_ns;  /* o is their ratio */
    double tokens, tokens_ns; /* that steps committed, and their time: a rate */
    int32_t n_steps;          /* measured, up to PF_GOODPUT_FIRST_STEPS */
    uint64_t retry_ns;        /* when to draft a token although it does not pay */
    bool rests;               /* nothing pays */
    bool retries;             /* a token is drafted all the same, in this step, and ... */
    double rows_ns;           /* ... its rows cost the verification so much */
} pf_goodput;

/* A sequence of the step. */
typedef struct {
    double acceptance; /* below 1 */
    double second;     /* of its tokens those that are rejected for a second choice which is proposed beside them */
    int32_t room;      /* tokens of its proposal, at most */
    double reach;      /* of pf_goodput_choose */
} pf_goodput_sequence;

/* A draft pass of so many rows took ns. */
void pf_goodput_observe_pass(pf_goodput *goodput, int32_t n_rows, uint64_t ns);

/* A verification of so many rows, one a sequence and those of the proposals, took verify_ns, and the round other_ns besides, prompts left
 * out. */
void pf_goodput_observe_step(pf_goodput *goodput, int32_t n_rows, uint64_t verify_ns, uint64_t other_ns);

/* A step committed so many tokens, of all its sequences, and took ns from the end of drafting to its verdicts, prompts left out. */
void pf_goodput_observe_tokens(pf_goodput *goodput, int32_t n_tokens, uint64_t ns);

/* A step has been drafted, until now_ns, and that took ns, with the tokens that were read before. */
void pf_goodput_observe_drafting(pf_goodput *goodput, uint64_t ns, uint64_t now_ns);

/* What a verification of so many rows takes, and what else its round does; 0: nothing was measured. */
double pf_goodput_step_ns(const pf_goodput *goodput, int32_t n_rows);

/* What one more row costs a verification, by the line through what was measured; 0: nothing was. */
double pf_goodput_row_ns(const pf_goodput *goodput);

/* The tokens that are committed while one more row is verified: what a proposed token must be likelier than to pay. 0: nothing was measured. */
double pf_goodput_row_price(const pf_goodput *goodput);

/* What a draft pass of so many rows takes, by what was observed; 0: nothing was. */
double pf_goodput_pass_ns(const pf_goodput *goodput, int32_t n_rows);

/* Whether nothing will be drafted at now_ns, so that nothing need be read for it either. */
bool pf_goodput_rests(const pf_goodput *goodput, uint64_t now_ns);

/* Whether proposals that cost no draft pass pay, for a step of n sequences: of n_proposed tokens in all so many are expected to be accepted.
 * True, too, while too little is measured, and now and then. Where they do not, the goodput rests. */
bool pf_goodput_pays(pf_goodput *goodput, int32_t n, int32_t n_proposed, double expected, uint64_t now_ns);

/* How many tokens to draft for each of n sequences, at most max_draft and its room; max_draft while too little is measured. */
int32_t pf_goodput_choose(pf_goodput *goodput, pf_goodput_sequence *sequences, int32_t n, int32_t max_draft,
                          uint64_t now_ns);

#endif
