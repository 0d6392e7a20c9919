#include "draft/goodput.h"

static const double DECAY = 0.99;      /* of a measurement's weight: a half after 69 */
static const double DECAY_RATE = 0.97; /* of a step's weight in the rate: a half after 23 */
static const double OUTLIER = 4.0;     /* a stall says nothing about rows */

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static double slope_of(const pf_goodput_line *l)
{
    const double mean_x = l->x / l->n, variance = l->xx / l->n - mean_x * mean_x;
    if (variance < 0.01) return 0.0;
    const double slope = (l->xy / l->n - mean_x * l->y / l->n) / variance;
    return slope > 0.0 ? slope : 0.0; /* more rows never cost less: that was noise */
}

static double value_at(const pf_goodput_line *l, double x)
{
    if (l->n == 0.0) return 0.0;
    const double mean_x = l->x / l->n, mean_y = l->y / l->n;
    const double y = mean_y + slope_of(l) * (x - mean_x);
    return y > 0.0 ? y : mean_y * x / mean_x;
}

static void measure(pf_goodput_line *l, double x, double y)
{
    const double most = OUTLIER * value_at(l, x);
    if (l->n > 2.0 && most > 0.0 && y > most) y = most;
    if (l->n == 0.0 || x < l->least_x) l->least_x = x;
    l->n = DECAY * l->n + 1.0;
    l->x = DECAY * l->x + x;
    l->y = DECAY * l->y + y;
    l->xx = DECAY * l->xx + x * x;
    l->xy = DECAY * l->xy + x * y;
}

void pf_goodput_observe_pass(pf_goodput *goodput, int32_t n_rows, uint64_t ns)
{
    measure(&goodput->draft, n_rows, (double)ns);
}

double pf_goodput_pass_ns(const pf_goodput *goodput, int32_t n_rows)
{
    return value_at(&goodput->draft, n_rows);
}

void pf_goodput_observe_step(pf_goodput *goodput, int32_t n_rows, uint64_t verify_ns, uint64_t other_ns)
{
    measure(&goodput->verify, n_rows, (double)verify_ns);
    const double most_ns = goodput->others > 2.0 ? OUTLIER * goodput->other_ns / goodput->others : 0.0,
                 ns = (double)other_ns;
    goodput->others = DECAY * goodput->others + 1.0;
    goodput->other_ns = DECAY * goodput->other_ns + (most_ns > 0.0 && ns > most_ns ? most_ns : ns);
    if (goodput->n_steps < PF_GOODPUT_FIRST_STEPS) goodput->n_steps++;
}

void pf_goodput_observe_drafting(pf_goodput *goodput, uint64_t ns, uint64_t now_ns)
{
    const double rows_ns = goodput->rows_ns > 0.0 ? goodput->rows_ns : 0.0;
    if (goodput->retries) goodput->retry_ns = now_ns + PF_GOODPUT_RETRY_SHARE * (ns + (uint64_t)rows_ns);
    goodput->retries = false;
}

void pf_goodput_observe_tokens(pf_goodput *goodput, int32_t n_tokens, uint64_t ns)
{
    goodput->tokens = DECAY_RATE * goodput->tokens + n_tokens;
    goodput->tokens_ns = DECAY_RATE * goodput->tokens_ns + (double)ns;
}

double pf_goodput_step_ns(const pf_goodput *goodput, int32_t n_rows)
{
    return goodput->others > 0.0 ? value_at(&goodput->verify, n_rows) + goodput->other_ns / goodput->others : 0.0;
}

double pf_goodput_row_ns(const pf_goodput *goodput)
{
    return goodput->verify.n > 0.0 ? slope_of(&goodput->verify) : 0.0;
}

double pf_goodput_row_price(const pf_goodput *goodput)
{
    return goodput->tokens_ns > 0.0 ? pf_goodput_row_ns(goodput) * goodput->tokens / goodput->tokens_ns : 0.0;
}

/* ---- the choice ------------------------------------------------------------------------------------------------ */

/* Adds a token to the proposals that have room for it; how many have. *tokens grows by what it is expected to commit. */
static int32_t add_token(pf_goodput_sequence *sequences, int32_t n, int32_t k, double *tokens)
{
    int32_t n_rows = 0;
    for (int32_t i = 0; i < n; i++) {
        pf_goodput_sequence *s = &sequences[i];
        if (s->room < k) continue;
        *tokens += s->reach * (s->acceptance + s->second);
        s->reach *= s->acceptance;
        n_rows++;
    }
    return n_rows;
}

/* A verification without proposals. */
static double plain_ns(const pf_goodput *g, int32_t n)
{
    const double rows = n == 1 && g->verify.least_x > 1.0 ? g->verify.least_x : n;
    return g->other_ns / g->others + value_at(&g->verify, rows);
}

bool pf_goodput_pays(pf_goodput *g, int32_t n, int32_t n_proposed, double expected, uint64_t now_ns)
{
    g->rests = g->retries = false;
    if (g->n_steps < PF_GOODPUT_FIRST_STEPS || n_proposed == 0) return true;
    const double plain = plain_ns(g, n), ns = g->other_ns / g->others + value_at(&g->verify, n + n_proposed);
    if (plain <= 0.0 || (n + expected) / ns > n / plain) return true;
    g->rests = true;
    g->rows_ns = ns - plain;
    g->retries = now_ns >= g->retry_ns;
    return g->retries;
}

bool pf_goodput_rests(const pf_goodput *goodput, uint64_t now_ns)
{
    return goodput->rests && now_ns < goodput->retry_ns;
}

int32_t pf_goodput_choose(pf_goodput *g, pf_goodput_sequence *sequences, int32_t n, int32_t max_draft, uint64_t now_ns)
{
    if (g->n_steps < PF_GOODPUT_FIRST_STEPS || g->draft.n == 0.0 || max_draft < 1) return max_draft;
    const double other_ns = g->other_ns / g->others;
    double tokens = n, drafted_ns = 0.0, rows = n;
    for (int32_t i = 0; i < n; i++) sequences[i].reach = 1.0;
    const double plain = plain_ns(g, n);
    if (plain <= 0.0) return max_draft; /* by a clock that stood */
    double best = tokens / plain;
    int32_t chosen = 0;
    for (int32_t k = 1; k <= max_draft; k++) {
        const int32_t n_rows = add_token(sequences, n, k, &tokens);
        if (n_rows == 0) break;
        drafted_ns += value_at(&g->draft, n_rows);
        rows += n_rows;
        const double ns = drafted_ns + other_ns + value_at(&g->verify, rows), goodput = tokens / ns;
        if (k == 1) g->rows_ns = ns - drafted_ns - plain;
        if (goodput <= best) continue;
        best = goodput;
        chosen = k;
    }
    g->rests = chosen == 0;
    g->retries = g->rests && now_ns >= g->retry_ns;
    return g->retries ? 1 : chosen;
}
