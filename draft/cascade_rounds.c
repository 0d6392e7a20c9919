#include "draft/cascade_rounds.h"

static const double DECAY = 0.95;       /* of a round's weight: a half after 14 */
static const double FIRST_TOKENS = 1.0; /* that a lookup must have before both are measured */
enum {
    FIRST_ROUNDS = 3,  /* of each that are measured before they are weighed */
    RETRY_ROUNDS = 48, /* without one of them, after which it is tried */
};

static void add_round(pf_cascade_sums *sums, int32_t n_tokens, uint64_t ns)
{
    const double mean_ns = sums->rounds > 0.0 ? sums->ns / sums->rounds : (double)ns;
    const double bounded =
        sums->n_measured >= FIRST_ROUNDS && (double)ns > 4.0 * mean_ns ? 4.0 * mean_ns : (double)ns; /* a stall */
    sums->rounds = DECAY * sums->rounds + 1.0;
    sums->tokens = DECAY * sums->tokens + n_tokens;
    sums->ns = DECAY * sums->ns + bounded;
    if (sums->n_measured < FIRST_ROUNDS) sums->n_measured++;
}

void pf_cascade_end_round(pf_cascade_rounds *rounds, pf_cascade_round *round, int32_t n_tokens, uint64_t now_ns)
{
    if (round->verdict_ns > 0 && round->by != PF_CASCADE_NONE && n_tokens > 0) {
        const uint64_t ns = now_ns - round->verdict_ns;
        add_round(&rounds->all, n_tokens, ns);
        add_round(round->by == PF_CASCADE_LOOKUP ? &rounds->looked_up : &rounds->drafted, n_tokens, ns);
        if (round->by == PF_CASCADE_LOOKUP) pf_goodput_observe_step(&rounds->cost, round->n_rows, ns, 0);
    }
    round->verdict_ns = now_ns;
    round->by = PF_CASCADE_NONE;
}

static bool is_worth_more(const pf_cascade_rounds *r, int32_t n_tokens, double expected)
{
    if (r->looked_up.n_measured < FIRST_ROUNDS || r->drafted.n_measured < FIRST_ROUNDS || r->all.ns <= 0.0)
        return expected >= FIRST_TOKENS;
    if (r->looked_up.n_without >= RETRY_ROUNDS) return true;
    if (r->drafted.n_without >= RETRY_ROUNDS && expected < FIRST_TOKENS) return false;
    const double rate = r->all.tokens / r->all.ns;
    const double looked_up = 1.0 + expected - rate * pf_goodput_step_ns(&r->cost, n_tokens + 1);
    const double drafted = (r->drafted.tokens - rate * r->drafted.ns) / r->drafted.rounds;
    return looked_up >= drafted;
}

bool pf_cascade_begin_round(pf_cascade_rounds *rounds, pf_cascade_round *round, int32_t n_tokens, double expected)
{
    if (n_tokens > 0 && is_worth_more(rounds, n_tokens, expected)) {
        round->by = PF_CASCADE_LOOKUP;
        round->n_rows = n_tokens + 1;
        rounds->n_lookups++;
        rounds->looked_up.n_without = 0;
        rounds->drafted.n_without++;
        return true;
    }
    round->by = PF_CASCADE_MODEL;
    rounds->n_models++;
    rounds->drafted.n_without = 0;
    if (n_tokens > 0) rounds->looked_up.n_without++;
    return false;
}
