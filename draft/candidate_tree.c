#include "draft/candidate_tree.h"

static const double DECAY = 0.995; /* of a token's weight, among those of like margin: a half after 138 */
static const double LEANS = 4.0;   /* tokens that the mean of all margins counts for */
static const double PRIOR_JUDGED = 4.0;
static const double PRIOR[PF_TREE_CANDIDATES] = { 2.4, 0.5, 0.2, 0.1 }; /* right of these, before the first verdicts */
static const double LEAST = 0.01;      /* tokens: a row that seems to cost nothing still has a price */
static const float MARGIN_STEP = 0.4f; /* nats */

/* ---- shares -------------------------------------------------------------------------------------------------------- */

static int32_t bin_of(float margin)
{
    if (!(margin >= 0.0f)) return 0; /* NaN: none */
    const float at = margin / MARGIN_STEP;
    return at < (float)PF_TREE_MARGINS ? (int32_t)at : PF_TREE_MARGINS - 1;
}

void pf_tree_observe(pf_tree_shares *shares, const pf_tree_level *level, int32_t token)
{
    const int32_t bin = bin_of(level->margin);
    shares->judged[bin] = DECAY * shares->judged[bin] + 1.0;
    for (int32_t i = 0; i < PF_TREE_CANDIDATES; i++)
        shares->right[bin][i] = DECAY * shares->right[bin][i] + (i < level->n && level->ids[i] == token ? 1.0 : 0.0);
}

static double share_of_all(const pf_tree_shares *shares, int32_t rank)
{
    double judged = PRIOR_JUDGED, right = PRIOR[rank];
    for (int32_t bin = 0; bin < PF_TREE_MARGINS; bin++) {
        judged += shares->judged[bin];
        right += shares->right[bin][rank];
    }
    return right / judged;
}

double pf_tree_share(const pf_tree_shares *shares, const pf_tree_level *level, int32_t rank)
{
    const int32_t bin = bin_of(level->margin);
    double least = 1.0;
    for (int32_t i = 0; i <= rank; i++) {
        const double share = (shares->right[bin][i] + LEANS * share_of_all(shares, i)) / (shares->judged[bin] + LEANS);
        if (share < least) least = share;
    }
    return least;
}

/* ---- the search ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int32_t parent; /* in the order in which nodes are taken; -1: the committed prefix */
    int32_t level, rank;
    double reach; /* of the parent */
    double p;
} node;

typedef struct {
    const pf_tree_shares *shares;
    const pf_tree_level *levels;
    int32_t n_levels;
    node frontier[2 * PF_MAX_DRAFT_TOKENS + 1];
    int32_t n_frontier;
    node taken[PF_MAX_DRAFT_TOKENS];
    int32_t n_taken;
} search;

static void reach_for(search *s, int32_t parent, int32_t level, int32_t rank, double reach)
{
    if (level >= s->n_levels || rank >= s->levels[level].n) return;
    const double p = reach * pf_tree_share(s->shares, &s->levels[level], rank);
    s->frontier[s->n_frontier++] = (node){ parent, level, rank, reach, p };
}

/* The most probable of the frontier, the first of equals, out of it. */
static node take_best(search *s)
{
    int32_t best = 0;
    for (int32_t i = 1; i < s->n_frontier; i++)
        if (s->frontier[i].p > s->frontier[best].p) best = i;
    const node found = s->frontier[best];
    s->frontier[best] = s->frontier[--s->n_frontier];
    return found;
}

static void run_search(search *s, const pf_tree_plan *plan)
{
    double tokens = 1.0, ns = plan->round_ns;
    reach_for(s, -1, 0, 0, 1.0);
    while (s->n_frontier > 0 && s->n_taken < plan->most) {
        const node best = take_best(s);
        const bool is_free = plan->round_ns <= 0.0 || plan->row_ns <= 0.0;
        if (s->n_taken > 0 && (best.p < LEAST || (!is_free && best.p * ns <= tokens * plan->row_ns))) break;
        const int32_t at = s->n_taken++;
        s->taken[at] = best;
        tokens += best.p;
        ns += plan->row_ns;
        reach_for(s, best.parent, best.level, best.rank + 1, best.reach);
        if (plan->is_product || best.rank == 0) reach_for(s, at, best.level + 1, 0, best.p);
    }
}

/* Whether a node and all before it are first candidates. */
static bool is_on_chain(const search *s, int32_t at)
{
    for (; at >= 0; at = s->taken[at].parent)
        if (s->taken[at].rank > 0) return false;
    return true;
}

int32_t pf_tree_build(const pf_tree_shares *shares, const pf_tree_level *levels, int32_t n_levels,
                      const pf_tree_plan *plan, int32_t *tokens, int32_t *parents, int32_t *n_chain)
{
    search s = { .shares = shares, .levels = levels, .n_levels = n_levels };
    run_search(&s, plan);
    int32_t place_of[PF_MAX_DRAFT_TOKENS], n = 0;
    for (int32_t chain = 1; chain >= 0; chain--) {
        for (int32_t i = 0; i < s.n_taken; i++)
            if (is_on_chain(&s, i) == (chain != 0)) place_of[i] = n++;
        if (chain) *n_chain = n;
    }
    for (int32_t i = 0; i < s.n_taken; i++) {
        const node *taken = &s.taken[i];
        tokens[place_of[i]] = levels[taken->level].ids[taken->rank];
        parents[place_of[i]] = taken->parent < 0 ? -1 : place_of[taken->parent];
    }
    return n;
}
