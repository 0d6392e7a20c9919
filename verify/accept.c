/* Acceptance, as the papers' formulas. Sums are in double: 150,000 floats lose more than a rare token's share. */
#include "verify/accept.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "proto/tree.h"

pf_acceptance pf_accept_exact(const pf_drafted *drafted, pf_accept_best *best, void *rows, int32_t *path)
{
    pf_acceptance out = { .next = -1 };
    for (int32_t n = 0, node = -1;; n++) {
        const int32_t next = best(rows, 1 + node, n);
        if (next < 0) return out;
        out = (pf_acceptance){ .n_accepted = n, .next = next };
        node = pf_tree_child(drafted->tokens, drafted->parents, drafted->n, node, next);
        if (node < 0) return out;
        path[n] = node;
    }
}

/* -1: none. */
static int32_t first_child(const pf_drafted *drafted, int32_t node)
{
    for (int32_t i = node + 1; i < drafted->n; i++)
        if ((drafted->parents ? drafted->parents[i] : i - 1) == node) return i;
    return -1;
}

pf_acceptance pf_accept_synthetic(const pf_drafted *drafted, const float *rates, pf_accept_uniform *uniform,
                                  pf_accept_best *best, void *rows, int32_t *path)
{
    int32_t n = 0, node = -1;
    for (int32_t child; (child = first_child(drafted, node)) >= 0 && uniform(rows, n, 1) < rates[n]; n++)
        path[n] = node = child;
    const int32_t next = best(rows, 1 + node, n);
    if (next >= 0 || n == 0) return (pf_acceptance){ .n_accepted = n, .next = next };
    return (pf_acceptance){ .n_accepted = n - 1, .next = drafted->tokens[node] };
}

/* max(0, p(x) - q(x)), q one-hot at `token` when NULL. */
static inline double residual(const float *p, const float *q, int32_t token, int32_t x)
{
    if (!q) return x == token ? 0.0 : (double)p[x];
    return p[x] > q[x] ? (double)p[x] - (double)q[x] : 0.0;
}

/* The residual of a stretch of the vocabulary, in eight partial sums: a single sum is a chain of dependent additions. */
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

static double mass_of(const float *p, const float *q, int32_t token, int32_t n_vocab)
{
    double total = 0.0;
    for (int32_t x = 0; x < n_vocab; x += STRETCH) total += mass_between(p, q, token, x, end_of_stretch(x, n_vocab));
    return total;
}

/* The token at which the running sum of the residual passes u of its total: first the stretch, whose end's sum is the first
 * above it (the last one's is the total itself), then in it the token. -1 if there is no residual. */
static int32_t draw_residual(const float *p, const float *q, int32_t token, int32_t n_vocab, float u)
{
    const double total = mass_of(p, q, token, n_vocab);
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

/* A token from p itself: the one-hot at no token takes nothing away. */
static int32_t draw(const float *p, int32_t n_vocab, float u)
{
    return draw_residual(p, NULL, -1, n_vocab, u);
}

/* One position; q NULL: the one-hot at the token. *next is the correction where it is not kept, else untouched. */
static bool accept_token(int32_t token, int32_t n_vocab, const float *q, const float *p, pf_accept_uniforms u,
                         int32_t *next)
{
    assert(token >= 0 && token < n_vocab);
    const float q_token = q ? q[token] : 1.0f;
    if (q_token > 0.0f && u.keep * q_token < p[token]) return true;

    const int32_t correction = draw_residual(p, q, token, n_vocab, u.next);
    *next = correction >= 0 ? correction : draw(p, n_vocab, u.next); /* p and q differ by rounding alone: p serves */
    return false;
}

/* q becomes the declared distribution, and zero again: no cost in the size of the vocabulary. What is not above 0 counts as 0. */
static void spread(float *q, const pf_declared *declared)
{
    for (int32_t i = 0; i < declared->n; i++) {
        const float declares = declared->probabilities[i];
        q[declared->ids[i]] = declares > 0.0f ? declares : 0.0f;
    }
}

static void sweep(float *q, const pf_declared *declared)
{
    for (int32_t i = 0; i < declared->n; i++) q[declared->ids[i]] = 0.0f;
}

static bool accept_drafted(const pf_drafted *drafted, int32_t i, int32_t n_vocab, const float *p, pf_accept_uniforms u,
                           float *q, int32_t *next)
{
    const int32_t token = drafted->tokens[i];
    if (!drafted->declared) return accept_token(token, n_vocab, NULL, p, u, next);
    spread(q, &drafted->declared[i]);
    const bool kept = accept_token(token, n_vocab, q, p, u, next);
    sweep(q, &drafted->declared[i]);
    return kept;
}

pf_acceptance pf_accept_chain(const int32_t *tokens, int32_t n, pf_accept_decide *decide, void *rows, int32_t *path)
{
    pf_acceptance out = { .next = -1 };
    for (int32_t i = 0; i <= n; i++) {
        const pf_accept_decision decision = decide(rows, i);
        if (!decision.is_kept)
            return decision.next < 0 ? out : (pf_acceptance){ .n_accepted = i, .next = decision.next };
        path[i] = i;
        out = (pf_acceptance){ .n_accepted = i, .next = tokens[i] };
    }
    return out;
}

/* A chain that is judged, and what its rows are judged with. */
typedef struct {
    const pf_drafted *drafted;
    int32_t n_vocab;
    pf_accept_row *p;
    void *rows;
    const pf_accept_uniforms *uniforms;
    float *q;
} rejected_chain;

static pf_accept_decision decide_by_rejection(void *chain, int32_t i)
{
    const rejected_chain *c = chain;
    pf_accept_decision out = { .next = -1 };
    const float *p = c->p(c->rows, i);
    if (!p) return out;
    if (i == c->drafted->n)
        out.next = draw(p, c->n_vocab, c->uniforms[i].next);
    else
        out.is_kept = accept_drafted(c->drafted, i, c->n_vocab, p, c->uniforms[i], c->q, &out.next);
    return out;
}

/* NOLINTBEGIN(readability-non-const-parameter): q is written through the chain */
pf_acceptance pf_accept_rejection(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                                  const pf_accept_uniforms *uniforms, float *q, int32_t *path)
/* NOLINTEND(readability-non-const-parameter) */
{
    rejected_chain chain = { drafted, n_vocab, p, rows, uniforms, q };
    return pf_accept_chain(drafted->tokens, drafted->n, decide_by_rejection, &chain, path);
}

/* ---- a residual that is kept ------------------------------------------------------------------------------------- */

/* What token i was drawn with. */
static double q_of(const pf_drafted *drafted, int32_t i)
{
    double found = 0.0;
    if (!drafted->declared) return 1.0;
    const pf_declared *declared = &drafted->declared[i];
    for (int32_t k = 0; k < declared->n; k++)
        if (declared->ids[k] == drafted->tokens[i]) found = (double)declared->probabilities[k];
    return found > 0.0 ? found : 0.0;
}

/* r = max(0, r - share * q) of token i. */
static void take_away(float *r, const pf_drafted *drafted, int32_t i, double share)
{
    const float one = 1.0f;
    const pf_declared hot = { &drafted->tokens[i], &one, 1 }, *q = drafted->declared ? &drafted->declared[i] : &hot;
    for (int32_t k = 0; k < q->n; k++) {
        if (!(q->probabilities[k] > 0.0f)) continue;
        const double left = (double)r[q->ids[k]] - share * (double)q->probabilities[k];
        r[q->ids[k]] = left > 0.0 ? (float)left : 0.0f;
    }
}

/* A token from r; from p where r is empty by rounding alone. */
static int32_t draw_left(const float *r, const float *p, int32_t n_vocab, float u)
{
    const int32_t token = draw(r, n_vocab, u);
    return token >= 0 ? token : draw(p, n_vocab, u);
}

/* ---- block verification -------------------------------------------------------------------------------------------- */

/* r = max(0, weight * p - q) of the token behind the row, and the probability that what lies before the row passes. */
static double pass_block(const pf_drafted *drafted, int32_t i, int32_t n_vocab, const float *p, double weight, float *r)
{
    for (int32_t x = 0; x < n_vocab; x++) r[x] = (float)(weight * (double)p[x]);
    if (i == drafted->n) return weight;
    take_away(r, drafted, i, 1.0);
    const double left = mass_of(r, NULL, -1, n_vocab), open = left + 1.0 - weight;
    return open > 0.0 ? left / open : 1.0;
}

pf_acceptance pf_accept_block(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                              const pf_accept_uniforms *uniforms, float *r, int32_t *path)
{
    pf_acceptance out = { .next = -1 };
    double weight = 1.0;
    for (int32_t i = 0; i <= drafted->n && weight > 0.0; i++) {
        const float *row = p(rows, i);
        if (!row) { /* the block ends with the token before */
            if (i > 0 && (double)uniforms[i - 1].keep < weight) out = (pf_acceptance){ i - 1, drafted->tokens[i - 1] };
            break;
        }
        const double passes = pass_block(drafted, i, n_vocab, row, weight, r);
        if (i == 0 || (double)uniforms[i - 1].keep < passes)
            out = (pf_acceptance){ i, draw_left(r, row, n_vocab, uniforms[i].next) };
        if (i == drafted->n) break;
        const double q = q_of(drafted, i);
        weight = q > 0.0 ? fmin(1.0, weight * (double)row[drafted->tokens[i]] / q) : 0.0;
    }
    for (int32_t i = 0; i < out.n_accepted; i++) path[i] = i;
    return out;
}

/* ---- trees ----------------------------------------------------------------------------------------------------------- */

static int32_t parent_of(const pf_drafted *drafted, int32_t node)
{
    return drafted->parents ? drafted->parents[node] : node - 1;
}

/* The next child of a node behind `child`, or its first behind the node itself; -1: none. */
static int32_t next_child(const pf_drafted *drafted, int32_t node, int32_t child)
{
    for (int32_t i = child + 1; i < drafted->n; i++)
        if (parent_of(drafted, i) == node) return i;
    return -1;
}

/* The child of a node that is accepted; -1: none, and *next is the correction, or the bonus of a leaf. */
static int32_t sample_child(const pf_drafted *drafted, int32_t node, int32_t n_vocab, const float *p, float *r,
                            pf_accept_uniform *uniform, void *rows, int32_t n_kept, int32_t *next)
{
    int32_t child = next_child(drafted, node, node);
    const float *left = p;
    double mass = 1.0;
    for (int32_t use = 1; child >= 0; use++, child = next_child(drafted, node, child)) {
        const double q = q_of(drafted, child), at = (double)left[drafted->tokens[child]];
        if (q > 0.0 && (double)uniform(rows, n_kept, use) * q * mass < at) return child;
        if (left == p) left = memcpy(r, p, (size_t)n_vocab * sizeof *r);
        take_away(r, drafted, child, mass);
        mass = mass_of(r, NULL, -1, n_vocab);
    }
    *next = draw_left(left, p, n_vocab, uniform(rows, n_kept, 0));
    return -1;
}

pf_acceptance pf_accept_tree(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, pf_accept_uniform *uniform,
                             void *rows, float *r, int32_t *path)
{
    pf_acceptance out = { .next = -1 };
    for (int32_t n = 0, node = -1;; n++) {
        int32_t next = -1;
        const float *row = p(rows, 1 + node);
        if (!row) return out;
        node = sample_child(drafted, node, n_vocab, row, r, uniform, rows, n, &next);
        out = (pf_acceptance){ n, node < 0 ? next : drafted->tokens[node] };
        if (node < 0) return out;
        path[n] = node;
    }
}

/* path: the nodes down to `node`. Returns their number. */
static int32_t trace_path(const pf_drafted *drafted, int32_t node, int32_t *path)
{
    int32_t n = 0;
    for (int32_t i = node; i >= 0; i = parent_of(drafted, i)) n++;
    for (int32_t i = node, at = n; i >= 0; i = parent_of(drafted, i)) path[--at] = i;
    return n;
}

/* ---- traversal verification ----------------------------------------------------------------------------------------- */

/* What is left of the row of a node u is max(0, p - sum of share q over the children that were taken out); its mass is kept, and p is
 * kept at the ids that children declare, so that no row is. Nodes are counted from the root, 0. */
typedef struct {
    const pf_drafted *drafted;
    float *at; /* p of the parent at the ids that node i declares */
    double weights[PF_MAX_DRAFT_TOKENS + 1],
        masses[PF_MAX_DRAFT_TOKENS + 1]; /* w of a node, and the mass of what is left of its row */
    double shares[PF_MAX_DRAFT_TOKENS];  /* of nodes that were taken out; else 0 */
} traversal;

static int32_t n_declared_of(const pf_drafted *drafted, int32_t node)
{
    return drafted->declared ? drafted->declared[node].n : 1;
}

static int32_t declared_id(const pf_drafted *drafted, int32_t node, int32_t k)
{
    return drafted->declared ? drafted->declared[node].ids[k] : drafted->tokens[node];
}

static double declared_share(const pf_drafted *drafted, int32_t node, int32_t k)
{
    if (!drafted->declared) return 1.0;
    const float q = drafted->declared[node].probabilities[k];
    return q > 0.0f ? (double)q : 0.0;
}

/* What is left of the parent's row at the k-th id of a node. */
static double left_at(const traversal *t, int32_t node, int32_t k)
{
    const int32_t parent = parent_of(t->drafted, node), id = declared_id(t->drafted, node, k);
    double left = (double)t->at[node * PF_MAX_DECLARED + k];
    for (int32_t i = next_child(t->drafted, parent, parent); i >= 0 && i < node; i = next_child(t->drafted, parent, i))
        for (int32_t j = 0; j < n_declared_of(t->drafted, i); j++)
            if (declared_id(t->drafted, i, j) == id) left -= t->shares[i] * declared_share(t->drafted, i, j);
    return left > 0.0 ? left : 0.0;
}

/* w of a node whose siblings before it were taken out. */
static double weigh_node(const traversal *t, int32_t node)
{
    const int32_t parent = 1 + parent_of(t->drafted, node);
    for (int32_t k = 0; k < n_declared_of(t->drafted, node); k++) {
        const double q = declared_share(t->drafted, node, k) * t->masses[parent];
        if (declared_id(t->drafted, node, k) == t->drafted->tokens[node])
            return q > 0.0 ? fmin(1.0, t->weights[parent] * left_at(t, node, k) / q) : 0.0;
    }
    return 0.0;
}

static void take_out(traversal *t, int32_t node)
{
    const int32_t parent = 1 + parent_of(t->drafted, node);
    const double weight = t->weights[parent], mass = t->masses[parent];
    if (!(weight > 0.0 && mass > 0.0)) return;
    const double share = mass / weight;
    double taken = 0.0;
    for (int32_t k = 0; k < n_declared_of(t->drafted, node); k++)
        taken += fmin(left_at(t, node, k), share * declared_share(t->drafted, node, k));
    t->shares[node] = share;
    t->masses[parent] = fmax(0.0, mass - taken);
    const double left = weight * t->masses[parent] / mass, open = left + 1.0 - weight;
    t->weights[parent] = open > 0.0 ? left / open : 1.0;
}

/* Reads the row of a node with children. False: it has none, or its row holds no number. */
static bool visit_node(traversal *t, int32_t node, pf_accept_row *p, void *rows)
{
    int32_t child = next_child(t->drafted, node, node);
    const float *row = child >= 0 ? p(rows, 1 + node) : NULL;
    if (!row) return false;
    for (; child >= 0; child = next_child(t->drafted, node, child))
        for (int32_t k = 0; k < n_declared_of(t->drafted, child); k++)
            t->at[child * PF_MAX_DECLARED + k] = row[declared_id(t->drafted, child, k)];
    t->masses[1 + node] = 1.0;
    return true;
}

/* The node that is accepted; -1: the root. */
static int32_t traverse(traversal *t, pf_accept_row *p, void *rows, const pf_accept_uniforms *uniforms)
{
    int32_t node = -1, tried = -1; /* the child of `node` that was tried last, or `node` itself */
    t->weights[0] = 1.0;
    bool goes_on = visit_node(t, node, p, rows);
    for (;;) {
        const int32_t child = goes_on ? next_child(t->drafted, node, tried) : -1;
        if (child >= 0) {
            t->weights[1 + child] = weigh_node(t, child);
            tried = node = child;
            goes_on = t->weights[1 + child] > 0.0 && visit_node(t, child, p, rows);
            continue;
        }
        if (node < 0 || (double)uniforms[node].keep < t->weights[1 + node]) return node;
        take_out(t, node);
        tried = node;
        node = parent_of(t->drafted, node);
        goes_on = true;
    }
}

/* NOLINTBEGIN(readability-non-const-parameter): `at` is written through the traversal */
pf_acceptance pf_accept_traversal(const pf_drafted *drafted, int32_t n_vocab, pf_accept_row *p, void *rows,
                                  const pf_accept_uniforms *uniforms, float *r, float *at, int32_t *path)
/* NOLINTEND(readability-non-const-parameter) */
{
    traversal t = { .drafted = drafted, .at = at };
    assert(drafted->n <= PF_MAX_DRAFT_TOKENS);
    const int32_t node = traverse(&t, p, rows, uniforms), n = trace_path(drafted, node, path);
    const float *row = p(rows, 1 + node);
    if (!row) return n == 0 ? (pf_acceptance){ .next = -1 } : (pf_acceptance){ n - 1, drafted->tokens[node] };
    memcpy(r, row, (size_t)n_vocab * sizeof *r);
    for (int32_t child = next_child(drafted, node, node); child >= 0; child = next_child(drafted, node, child))
        if (t.shares[child] > 0.0) take_away(r, drafted, child, t.shares[child]);
    return (pf_acceptance){ n, draw_left(r, row, n_vocab, uniforms[1 + node].next) };
}

/* ---- typical acceptance ---------------------------------------------------------------------------------------------- */

static double typical_threshold(const float *p, int32_t n_vocab, pf_typical thresholds)
{
    double entropy = 0.0;
    for (int32_t x = 0; x < n_vocab; x++)
        if (p[x] > 0.0f) entropy -= (double)p[x] * log((double)p[x]);
    return fmin((double)thresholds.epsilon, (double)thresholds.delta * exp(-entropy));
}

pf_acceptance pf_accept_typical(const pf_drafted *drafted, int32_t n_vocab, pf_typical thresholds, pf_accept_row *p,
                                pf_accept_uniform *uniform, void *rows, int32_t *path)
{
    int32_t depths[PF_MAX_DRAFT_TOKENS + 1] = { 0 }; /* of nodes from the root, which are kept; else 0 */
    int32_t last = -1;
    assert(drafted->n <= PF_MAX_DRAFT_TOKENS);
    for (int32_t node = -1; node < drafted->n; node++) {
        int32_t child = next_child(drafted, node, node);
        if (child < 0 || (node >= 0 && depths[1 + node] == 0)) continue;
        const float *row = p(rows, 1 + node);
        const double threshold = row ? typical_threshold(row, n_vocab, thresholds) : 0.0;
        for (; row && child >= 0; child = next_child(drafted, node, child))
            if ((double)row[drafted->tokens[child]] > threshold) depths[1 + child] = depths[1 + node] + 1;
    }
    for (int32_t node = 0; node < drafted->n; node++)
        if (depths[1 + node] > depths[1 + last]) last = node;
    const int32_t n = trace_path(drafted, last, path);
    const float *row = p(rows, 1 + last);
    if (!row) return n == 0 ? (pf_acceptance){ .next = -1 } : (pf_acceptance){ n - 1, drafted->tokens[last] };
    return (pf_acceptance){ n, draw(row, n_vocab, uniform(rows, n, 0)) };
}
