#include "draft/adaptive.h"

bool pf_adaptive_goes_on(const pf_length *length, pf_draft_margins *margins, const pf_chooser *chooser,
                         const float *logits, int32_t token, const pf_outcome_row *row, int32_t n_drawn,
                         int32_t n_planned)
{
    const int32_t i = n_drawn - 1;
    if (row)
        pf_adaptive_note(margins, i, row);
    else
        margins->margins[i] = pf_choose_margin(chooser, logits, token, &margins->second_choices[i]);
    return pf_length_goes_on(length, margins->margins, n_drawn, n_planned);
}

void pf_adaptive_note(pf_draft_margins *margins, int32_t i, const pf_outcome_row *row)
{
    margins->margins[i] = row->margin;
    margins->second_choices[i] = row->n > 0 ? row->ids[0] : -1;
}

/* A verdict that takes a second choice finds no row of it in the drafter's cache. */
static void add_branches(pf_adaptive *adaptive, int32_t *tokens, int32_t n_chain, int32_t max_draft,
                         pf_proposal *proposal)
{
    int32_t at[PF_MAX_DRAFT_TOKENS];
    const int32_t n_wanted = pf_length_branches(&adaptive->length, adaptive->margins.margins, n_chain, max_draft, at);
    adaptive->n_branches = 0;
    for (int32_t i = 0; i < n_chain; i++) adaptive->parents[i] = i - 1;
    for (int32_t i = 0; i < n_wanted; i++) {
        if (adaptive->margins.second_choices[at[i]] < 0) continue; /* no other logit is a number */
        const int32_t node = n_chain + adaptive->n_branches++;
        tokens[node] = adaptive->margins.second_choices[at[i]];
        adaptive->parents[node] = at[i] - 1;
    }
    if (adaptive->n_branches == 0) return;
    proposal->n_tokens = n_chain + adaptive->n_branches;
    proposal->parents = adaptive->parents;
}

void pf_adaptive_end_proposal(pf_adaptive *adaptive, int32_t *tokens, int32_t n_drawn, int32_t max_draft,
                              pf_proposal *proposal)
{
    if (adaptive->branches && n_drawn > 0) add_branches(adaptive, tokens, n_drawn, max_draft, proposal);
    adaptive->n_proposed = n_drawn;
}

bool pf_adaptive_is_late(const int32_t *chain, const pf_verdict *verdict)
{
    return verdict->n_accepted == 0 && verdict->n_tokens > 0 && verdict->tokens[0] == chain[0];
}

void pf_adaptive_judge(pf_adaptive *adaptive, const int32_t *chain, const pf_verdict *verdict, uint64_t now_ns)
{
    const int32_t n_drawn = adaptive->n_proposed;
    adaptive->n_proposed = 0;
    if (n_drawn == 0 || verdict->n_accepted > n_drawn) return;
    if (pf_adaptive_is_late(chain, verdict)) {
        pf_length_observe_late(&adaptive->length, adaptive->margins.margins[0]);
        return;
    }
    int32_t n_kept = 0;
    while (n_kept < verdict->n_accepted && verdict->tokens[n_kept] == chain[n_kept]) n_kept++;
    const bool second_right = n_kept < n_drawn && n_kept < verdict->n_tokens &&
                              verdict->tokens[n_kept] == adaptive->margins.second_choices[n_kept];
    const pf_length_round round = { .n_drawn = n_drawn,
                                    .n_branches = adaptive->n_branches,
                                    .n_kept = n_kept,
                                    .second_right = second_right,
                                    .n_committed = verdict->n_accepted + 1,
                                    .draft_ns = adaptive->drafted_ns,
                                    .away_ns = now_ns - adaptive->left_ns };
    pf_length_observe(&adaptive->length, adaptive->margins.margins, &round);
}
