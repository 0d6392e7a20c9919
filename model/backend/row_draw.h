/*
 * What a backend draws from a row of logits by itself, so that a token comes back in place of the row.
 *
 * The distribution p of a row is that of pf_sampling_distribution. The uniforms are the caller's: a draw can be repeated.
 */
#ifndef PF_MODEL_ROW_DRAW_H
#define PF_MODEL_ROW_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sampling_parameters.h"

typedef enum {
    PF_DRAW_NONE, /* nothing is asked of the row */
    PF_DRAW_RACE, /* the winner of the exponential race on p, with the target's noise of the position (pf_exp_race_fn) */
    PF_DRAW_JUDGE, /* speculative sampling judges a draft token (arXiv:2211.17192, section 2.3; verify/accept.h) */
} pf_draw_kind;

typedef struct {
    pf_draw_kind kind;
    const pf_sampling *sampling; /* temperature above 0; borrowed */
    int32_t position;            /* RACE: the index in the sequence of the token that the row decides */
    /* JUDGE: */
    int32_t token;              /* the draft's; -1: none, the bonus is drawn from p */
    const int32_t *ids;         /* [n_ids] the distribution that the token was drawn from, 0 elsewhere; borrowed */
    const float *probabilities; /* [n_ids] */
    int32_t n_ids;              /* 0: the token counts as one-hot */
    float keep, next;           /* uniforms in [0, 1): whether the token is kept; the draw of what comes instead */
} pf_draw;

typedef struct {
    bool is_kept;  /* JUDGE: the draft token is accepted */
    int32_t token; /* the draw; where it is not kept, the correction; -1: the row holds no number */
} pf_drawn;

#endif
