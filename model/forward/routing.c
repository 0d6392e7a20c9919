#include "model/forward/routing.h"

#include <math.h>
#include <string.h>

void pf_routing_lay_out(const pf_plan *plan, int32_t max_rows, pf_arena *arena, pf_routing *out)
{
    const size_t rows = (size_t)max_rows, used = (size_t)plan->n_experts_used;
    *out = (pf_routing){
        .experts = pf_arena_take(arena, rows, used * sizeof *out->experts),
        .weights = pf_arena_take(arena, rows, used * sizeof *out->weights),
        .shared = pf_arena_take(arena, rows, sizeof *out->shared),
        .places = pf_arena_take(arena, rows, used * sizeof *out->places),
        .rows = pf_arena_take(arena, rows, used * sizeof *out->rows),
        .first = pf_arena_take(arena, (size_t)plan->n_experts + 1, sizeof *out->first),
    };
}

/* ---- one row ------------------------------------------------------------------------------------------------------- */

/* The experts with the largest logits, ascending by index. */
static void choose_largest(const pf_plan *plan, const float *logits, int32_t *experts)
{
    bool is_chosen[PF_MAX_EXPERTS] = { false };
    for (int32_t i = 0; i < plan->n_experts_used; i++) {
        int32_t best = -1;
        for (int32_t e = 0; e < plan->n_experts; e++) {
            if (is_chosen[e]) continue;
            if (best < 0 || logits[e] > logits[best] || (isnan(logits[best]) && !isnan(logits[e]))) best = e;
        }
        is_chosen[best] = true;
    }
    for (int32_t e = 0, n = 0; e < plan->n_experts; e++)
        if (is_chosen[e]) experts[n++] = e;
}

static float sum(const float *values, int32_t n)
{
    float total = 0.0f;
    for (int32_t i = 0; i < n; i++) total += values[i];
    return total;
}

static float largest(const float *values, int32_t n)
{
    float top = values[0];
    for (int32_t i = 1; i < n; i++) top = values[i] > top ? values[i] : top;
    return top;
}

/* The softmax of all, at the chosen ones; or of these alone. */
static void weigh(const pf_plan *plan, const float *logits, const int32_t *experts, float *weights)
{
    const int32_t n_used = plan->n_experts_used, n_experts = plan->n_experts;
    for (int32_t i = 0; i < n_used; i++) weights[i] = logits[experts[i]];
    const float top = largest(weights, n_used);
    for (int32_t i = 0; i < n_used; i++) weights[i] = expf(weights[i] - top);
    float total = 0.0f;
    if (plan->softmax_of_chosen || plan->normalises_experts)
        total = sum(weights, n_used);
    else
        for (int32_t e = 0; e < n_experts; e++) total += expf(logits[e] - top);
    for (int32_t i = 0; i < n_used; i++) weights[i] /= total;
}

void pf_routing_choose(const pf_plan *plan, pf_rows logits, int32_t begin, int32_t end, pf_routing *out)
{
    const size_t n_used = (size_t)plan->n_experts_used;
    for (int32_t i = begin; i < end; i++) {
        const float *row = pf_row(logits, i);
        int32_t *experts = out->experts + (size_t)i * n_used;
        choose_largest(plan, row, experts);
        weigh(plan, row, experts, out->weights + (size_t)i * n_used);
        out->shared[i] = plan->has[PF_TENSOR_SHARED_ROUTER] ? 1.0f / (1.0f + expf(-row[plan->n_experts])) : 1.0f;
    }
}

/* ---- all rows ------------------------------------------------------------------------------------------------------ */

/* By counting. */
void pf_routing_sort(const pf_plan *plan, int32_t n_rows, pf_routing *out)
{
    const int32_t n_used = plan->n_experts_used, n_places = n_rows * n_used;
    int32_t next[PF_MAX_EXPERTS];
    memset(out->first, 0, ((size_t)plan->n_experts + 1) * sizeof *out->first);
    for (int32_t i = 0; i < n_places; i++) out->first[out->experts[i] + 1]++;
    for (int32_t e = 0; e < plan->n_experts; e++) {
        out->first[e + 1] += out->first[e];
        next[e] = out->first[e];
    }
    for (int32_t i = 0; i < n_places; i++) {
        out->places[i] = next[out->experts[i]]++;
        out->rows[out->places[i]] = i / n_used;
    }
}
