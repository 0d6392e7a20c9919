#include "draft/draw_tokens.h"

#include <math.h>

#include "base/checked.h"

enum { SHARED_ROWS = 4 /* fewer are drawn by one thread */ };

void pf_drawer_lay_out(pf_drawer *drawer, const pf_forward_backend *backend, int32_t n_vocab, pf_arena *arena)
{
    drawer->backend = backend;
    drawer->n_choosers = pf_min(backend->limits.n_threads, PF_MAX_CHOOSERS);
    for (int32_t i = 0; i < drawer->n_choosers; i++)
        drawer->choosers[i] = pf_chooser_create(backend->kernels, n_vocab, arena);
}

typedef struct {
    const pf_drawer *drawer;
    int32_t n;
    pf_draw_fn *fn;
    void *user;
} sharing;

/* A thread's share of the rows. */
static void draw_share(pf_member member, void *arg)
{
    const sharing *s = arg;
    member.n_threads = pf_min(member.n_threads, s->drawer->n_choosers);
    if (member.id >= member.n_threads) return;
    int32_t begin, end;
    pf_team_share(member, s->n, &begin, &end);
    for (int32_t i = begin; i < end; i++) s->fn(s->user, &s->drawer->choosers[member.id], i);
}

void pf_drawer_share(const pf_drawer *drawer, int32_t n, pf_draw_fn *fn, void *user)
{
    sharing s = { drawer, n, fn, user };
    if (n < SHARED_ROWS)
        draw_share((pf_member){ .n_threads = 1 }, &s);
    else
        pf_forward_share(drawer->backend, draw_share, &s);
}

/* Excluded ids get no probability, whatever is drawn: q is declared as it is sampled (invariant 3). */
float *pf_draw_logits(const pf_drawer *drawer, const pf_chooser *chooser, int32_t row, const pf_token_draw *draw)
{
    const int32_t invalid = pf_forward_find_invalid(drawer->backend, row, chooser->n_vocab);
    if (invalid >= 0 && draw->invalid) pf_invalid_logits_note(draw->invalid, draw->position - 1, invalid);
    float *logits = pf_forward_logits(drawer->backend, row);
    for (int32_t i = 0; i < draw->n_excluded; i++)
        for (int32_t id = draw->excluded[2 * i]; id < draw->excluded[2 * i + 1]; id++) logits[id] = -INFINITY;
    if (draw->rules->is_active)
        pf_rules_apply(draw->rules, draw->tokens, draw->n_tokens, draw->more, draw->n_more, chooser->counts, logits,
                       chooser->n_vocab);
    return logits;
}

bool pf_draw_token(const pf_chooser *chooser, const float *logits, const pf_token_draw *draw)
{
    int32_t n_declared = 0;
    if (pf_choose_token(chooser, draw->request, logits, draw->position, draw->round, draw->token, draw->ids,
                        draw->probabilities, &n_declared) != PF_OK)
        return false;
    *draw->declared = (pf_declared){ draw->ids, draw->probabilities, n_declared };
    if (draw->row) pf_choose_alternatives(chooser, draw->request, logits, draw->position, *draw->token, draw->row);
    return true;
}
