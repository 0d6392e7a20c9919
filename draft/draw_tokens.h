/*
 * Draws draft tokens from the rows of a pass, on as many threads as it is worth. Internal to draft/.
 *
 * Threads: the backend's; the rows of one call are drawn from by its threads, each with a chooser of its own.
 */
#ifndef PF_DRAFT_DRAW_TOKENS_H
#define PF_DRAFT_DRAW_TOKENS_H

#include "draft/choose.h"
#include "draft/outcomes.h"
#include "model/backend/forward_backend.h"
#include "model/sampling/rules.h"

enum { PF_MAX_CHOOSERS = 8 /* each has memory in the size of the vocabulary */ };

typedef struct {
    const pf_forward_backend *backend;
    pf_chooser choosers[PF_MAX_CHOOSERS]; /* [n_choosers]: rows are shared between so many threads */
    int32_t n_choosers;
} pf_drawer;

/* What a token is drawn by, and where it goes. */
typedef struct {
    const pf_sampling_request *request;
    const int32_t *excluded; /* [2 * n_excluded] ranges of ids that are not proposed, below n_vocab */
    int32_t n_excluded;
    const pf_rules *rules; /* of its sequence; behind tokens [n_tokens], and more [n_more] */
    const int32_t *tokens, *more;
    int32_t n_tokens, n_more;
    int32_t position;           /* of the token in its sequence */
    uint64_t round;             /* of its proposal */
    pf_invalid_logits *invalid; /* NULL: not counted */
    int32_t *token;
    pf_declared *declared; /* of the token, into the two below */
    int32_t *ids;          /* [PF_MAX_DECLARED] */
    float *probabilities;  /* [PF_MAX_DECLARED] */
    pf_outcome_row *row;   /* what else the target may choose in its place; NULL: not wanted */
} pf_token_draw;

/* Memory from the arena (or its measure) for ids below n_vocab. */
void pf_drawer_lay_out(pf_drawer *drawer, const pf_forward_backend *backend, int32_t n_vocab, pf_arena *arena);

/* Calls fn for each row i of the last pass, 0 .. n - 1. */
typedef void pf_draw_fn(void *user, const pf_chooser *chooser, int32_t i);
void pf_drawer_share(const pf_drawer *drawer, int32_t n, pf_draw_fn *fn, void *user);

/* The row's logits, without the excluded ids, and changed by the rules: to be asked for once. */
float *pf_draw_logits(const pf_drawer *drawer, const pf_chooser *chooser, int32_t row, const pf_token_draw *draw);

/* Draws from them. False: none of the logits is above minus infinity. */
bool pf_draw_token(const pf_chooser *chooser, const float *logits, const pf_token_draw *draw);

#endif
