#include "draft/parallel.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"

static pf_parallel_slot *slot_of(const pf_parallel *p, int32_t slot)
{
    return &p->slots[slot];
}

void pf_parallel_lay_out(pf_parallel *p, int32_t max_sequences, pf_arena *arena)
{
    if (p->mask >= 0) p->slots = pf_arena_take(arena, (size_t)max_sequences, sizeof *p->slots);
}

pf_passes pf_parallel_choose(const pf_parallel *p)
{
    if (p->mask < 0) return PF_PASSES_EACH;
    return p->asked == PF_PASSES_AUTO ? pf_passes_choose(&p->records) : p->asked;
}

void pf_parallel_begin(pf_parallel *p, int32_t slot, pf_passes how)
{
    pf_parallel_slot *of = slot_of(p, slot);
    of->how = how;
    of->is_second = of->is_tree = false;
    of->n_levels = 0;
}

bool pf_parallel_drafts(const pf_parallel *p, int32_t slot)
{
    if (p->mask < 0) return false;
    const pf_passes how = slot_of(p, slot)->how;
    return how == PF_PASSES_ONE || how == PF_PASSES_TWO;
}

void pf_parallel_plan_pass(pf_parallel *p, const pf_host_sequence *s, int32_t k, int32_t held, pf_span *span)
{
    pf_parallel_slot *of = slot_of(p, s->slot);
    int32_t *behind = s->tokens + s->n_committed;
    if (of->is_second)
        memcpy(of->first, behind, (size_t)k * sizeof *behind);
    else
        for (int32_t i = 0; i < k - 1; i++) behind[i] = p->mask;
    of->n_rows = k - s->n_drafted;
    span->tokens = s->tokens + held;
    span->n_tokens = s->n_committed + k - 1 - held;
    span->n_logits = of->n_rows;
}

void pf_parallel_note(pf_parallel *p, const pf_host_sequence *s, int32_t i, const pf_outcome_row *row)
{
    pf_tree_level *level = &slot_of(p, s->slot)->levels[i];
    *level = (pf_tree_level){ .margin = row ? row->margin : NAN, .n = 1, .ids[0] = s->tokens[s->n_committed + i] };
    for (int32_t j = 0; row && j < row->n && level->n < PF_TREE_CANDIDATES; j++) level->ids[level->n++] = row->ids[j];
}

int32_t pf_parallel_end_pass(pf_parallel *p, pf_host_sequence *s, int32_t k, bool failed)
{
    pf_parallel_slot *of = slot_of(p, s->slot);
    if (!of->is_second) {
        of->n_levels = s->n_drafted;
        of->is_second = !failed && of->how == PF_PASSES_TWO && k > 1;
        if (of->is_second) s->n_drafted = 1; /* the first token has no other before it: it stays */
        return s->n_committed;
    }
    if (failed) {
        pf_parallel_skip_second(p, s, k);
        return s->n_committed;
    }
    of->is_second = false;
    of->n_levels = s->n_drafted;
    const int32_t *drawn = s->tokens + s->n_committed;
    int32_t n_same = 0;
    while (n_same < s->n_drafted - 1 && drawn[n_same] == of->first[n_same]) n_same++;
    return s->n_committed + n_same;
}

void pf_parallel_skip_second(pf_parallel *p, pf_host_sequence *s, int32_t k)
{
    pf_parallel_slot *of = slot_of(p, s->slot);
    of->is_second = false;
    s->n_drafted = k;
}

void pf_parallel_end_proposal(pf_parallel *p, pf_host_sequence *s, const pf_tree_plan *plan, pf_proposal *proposal)
{
    pf_parallel_slot *of = slot_of(p, s->slot);
    if (of->how == PF_PASSES_EACH) {
        for (int32_t i = 0; i < s->n_drafted; i++) pf_parallel_note(p, s, i, NULL);
        of->n_levels = s->n_drafted;
    }
    if (!plan || of->n_levels == 0) return;
    const pf_tree_shares *shares = of->how == PF_PASSES_ONE ? &p->one : &p->two;
    int32_t *tokens = s->tokens + s->n_committed;
    proposal->n_tokens = pf_tree_build(shares, of->levels, of->n_levels, plan, tokens, of->parents, &s->n_drafted);
    proposal->parents = proposal->n_tokens > s->n_drafted ? of->parents : NULL;
    of->is_tree = true;
}

static void learn_shares(pf_parallel *p, const pf_parallel_slot *of, const pf_verdict *verdict)
{
    pf_tree_shares *shares = of->how == PF_PASSES_ONE ? &p->one : &p->two;
    bool is_behind_first = true;
    for (int32_t i = 0; i < of->n_levels && i < verdict->n_tokens && i <= verdict->n_accepted; i++) {
        if (is_behind_first || of->how == PF_PASSES_ONE) pf_tree_observe(shares, &of->levels[i], verdict->tokens[i]);
        is_behind_first &= verdict->tokens[i] == of->levels[i].ids[0];
    }
}

void pf_parallel_judge(pf_parallel *p, int32_t slot, const pf_verdict *verdict, uint64_t ns)
{
    pf_parallel_slot *of = slot_of(p, slot);
    const int32_t n = of->n_levels;
    if (n == 0 || verdict->n_tokens == 0) return;
    pf_passes_round round = { .how = of->how, .n_committed = verdict->n_accepted + 1, .ns = ns };
    while (round.n_kept < n && round.n_kept < verdict->n_accepted &&
           verdict->tokens[round.n_kept] == of->levels[round.n_kept].ids[0])
        round.n_kept++;
    round.n_judged = round.n_kept < n ? round.n_kept + 1 : n;
    if (of->is_tree) learn_shares(p, of, verdict);
    of->n_levels = 0;
    pf_passes_observe(&p->records, &round);
}
