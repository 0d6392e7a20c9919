/* Acceptance, as the papers' formulas. Sums are in double: 150,000 floats lose more than a rare token's share. */
#include "verify/accept.h"

#include <assert.h>
#include <stddef.h>

#include "proto/tree.h"

pf_acceptance pf_accept_exact(const int32_t *draft, const int32_t *parents, int32_t n_draft, const int32_t *best,
                              int32_t *path)
{
    int32_t n = 0, node = -1;
    for (;;) {
        const int32_t next = best[1 + node];
        node = pf_tree_child(draft, parents, n_draft, node, next);
        if (node < 0) return (pf_acceptance){ .n_accepted = n, .next = next };
        path[n++] = node;
    }
}

/* max(0, p(x) - q(x)), q one-hot at `token` when NULL. */
static inline double residual(const float *p, const float *q, int32_t token, int32_t x)
{
    if (!q) return x == token ? 0.0 : (double)p[x];
    return p[x] > q[x] ? (double)p[x] - (double)q[x] : 0.0;
}

/* The residual of a stretch of the vocabulary, in eight partial sums: one would wait for each addition before the next. */
static double mass_between(const float *p, const float *q, int32_t token, int32_t begin, int32_t end)
{
    enum { N_SUMS = 8 };
    double sums[N_SUMS] = { 0.0 };
    int32_t x = begin;
    for (; x + N_SUMS <= end; x += N_SUMS)
        for (int32_t j = 0; j < N_SUMS; j++) sums[j] += residual(p, q, token, x + j);
    for (; x < end; x++) sums[x % N_SUMS] += residual(p, q, token, x);
    double mass = 0.0;
    for (int32_t j = 0; j < N_SUMS; j++) mass += sums[j];
    return mass;
}

enum { STRETCH = 256 };

static int32_t end_of_stretch(int32_t begin, int32_t n_vocab)
{
    return n_vocab - begin > STRETCH ? begin + STRETCH : n_vocab;
}

/* The token at which the running sum of the residual passes u of its total: first the stretch, whose end's sum is the first
 * above it (the last one's is the total itself), then in it the token. -1 if there is no residual. */
static int32_t draw_residual(const float *p, const float *q, int32_t token, int32_t n_vocab, float u)
{
    double total = 0.0;
    for (int32_t x = 0; x < n_vocab; x += STRETCH) total += mass_between(p, q, token, x, end_of_stretch(x, n_vocab));
    if (!(total > 0.0)) return -1;

    const double threshold = (double)u * total;
    double sum = 0.0;
    int32_t begin = 0;
    for (;; begin += STRETCH) {
        const double mass = mass_between(p, q, token, begin, end_of_stretch(begin, n_vocab));
        if (sum + mass > threshold) break;
        sum += mass;
    }
    /* Rounding may leave the tokens' own sum below the threshold: the last one of positive weight serves. */
    int32_t last = -1;
    for (int32_t x = begin; x < end_of_stretch(begin, n_vocab) && sum <= threshold; x++) {
        const double weight = residual(p, q, token, x);
        if (weight > 0.0) last = x;
        sum += weight;
    }
    return last;
}

int32_t pf_accept_draw(const float *p, int32_t n_vocab, float uniform)
{
    /* The one-hot at no token takes nothing away. */
    return draw_residual(p, NULL, -1, n_vocab, uniform);
}

bool pf_accept_token(int32_t token, int32_t n_vocab, const float *q, const float *p, float uniform, float uniform_next,
                     int32_t *next)
{
    assert(token >= 0 && token < n_vocab);
    const float q_token = q ? q[token] : 1.0f;
    if (q_token > 0.0f && uniform * q_token < p[token]) return true;

    int32_t correction = draw_residual(p, q, token, n_vocab, uniform_next);
    if (correction < 0) /* p and q differ by rounding alone: p serves */
        correction = pf_accept_draw(p, n_vocab, uniform_next);
    *next = correction;
    return false;
}

static pf_acceptance accept_chain(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *q,
                                  const float *p, const float *uniform)
{
    const size_t stride = (size_t)n_vocab;
    for (int32_t i = 0; i < n_draft; i++) {
        int32_t next;
        if (!pf_accept_token(draft[i], n_vocab, q ? q + (size_t)i * stride : NULL, p + (size_t)i * stride, uniform[i],
                             uniform[n_draft], &next))
            return (pf_acceptance){ .n_accepted = i, .next = next };
    }
    const int32_t bonus = pf_accept_draw(p + (size_t)n_draft * stride, n_vocab, uniform[n_draft]);
    return (pf_acceptance){ .n_accepted = n_draft, .next = bonus };
}

pf_acceptance pf_accept_rejection(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *q,
                                  const float *p, const float *uniform)
{
    assert(q || n_draft == 0);
    return accept_chain(draft, n_draft, n_vocab, q, p, uniform);
}

pf_acceptance pf_accept_tokens(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *p,
                               const float *uniform)
{
    return accept_chain(draft, n_draft, n_vocab, NULL, p, uniform);
}
