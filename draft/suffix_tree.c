#include "draft/suffix_tree.h"

#include <assert.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"

enum { FIRST_SLOTS = 64 };

/* ---- children ---------------------------------------------------------------------------------------------------- */

static int32_t slot_of(const pf_suffix_tree *t, int32_t parent, int32_t token)
{
    const uint64_t key = (uint64_t)(uint32_t)parent << 32 | (uint32_t)token;
    int32_t slot = (int32_t)(pf_hash_mix(key ^ t->seed) & (uint64_t)(t->n_slots - 1));
    for (; t->slots[slot] != 0; slot = (slot + 1) & (t->n_slots - 1)) {
        const pf_suffix_node *node = &t->nodes[t->slots[slot]];
        if (node->parent == parent && t->text[node->start] == token) break;
    }
    return slot;
}

/* 0: none. */
static int32_t child_of(const pf_suffix_tree *t, int32_t parent, int32_t token)
{
    return t->slots[slot_of(t, parent, token)];
}

static void put(pf_suffix_tree *t, int32_t node)
{
    t->slots[slot_of(t, t->nodes[node].parent, t->text[t->nodes[node].start])] = node;
}

/* Of a node that is complete. At most three quarters of the slots are taken. */
static void insert(pf_suffix_tree *t, int32_t node)
{
    if (t->n_nodes <= t->n_slots / 4 * 3 || t->n_slots == t->max_slots) {
        put(t, node);
        return;
    }
    t->n_slots *= 2;
    memset(t->slots, 0, (size_t)t->n_slots * sizeof *t->slots);
    for (int32_t i = 1; i < t->n_nodes; i++) put(t, i);
}

static int32_t add_node(pf_suffix_tree *t, pf_suffix_node node)
{
    assert(t->n_nodes < t->max_nodes);
    t->nodes[t->n_nodes] = node;
    return t->n_nodes++;
}

/* The count of a child has grown by one. */
static void rank(pf_suffix_tree *t, int32_t parent, int32_t child)
{
    pf_suffix_node *of = &t->nodes[parent];
    const int32_t count = t->nodes[child].count;
    if (child == of->best) return;
    if (of->best == 0 || count >= t->nodes[of->best].count) {
        of->second = of->best;
        of->best = child;
    } else if (of->second == 0 || count >= t->nodes[of->second].count) {
        of->second = child;
    }
}

/* ---- walkers ----------------------------------------------------------------------------------------------------- */

/* Cuts the edge at a place inside it, where the last of n walkers leaves the edge; all others on it are shorter. Returns the node
 * there. */
static int32_t split(pf_suffix_tree *t, pf_suffix_place at, int32_t n)
{
    const pf_suffix_node lower = t->nodes[at.node];
    const bool is_followed = t->text[lower.start + at.offset] != PF_SUFFIX_BREAK;
    const int32_t middle = add_node(t, (pf_suffix_node){ .start = lower.start,
                                                         .n = at.offset,
                                                         .count = lower.count,
                                                         .parent = lower.parent,
                                                         .best = is_followed ? at.node : 0 });
    t->slots[slot_of(t, lower.parent, t->text[lower.start])] = middle;
    pf_suffix_node *parent = &t->nodes[lower.parent], *node = &t->nodes[at.node];
    if (parent->best == at.node) parent->best = middle;
    if (parent->second == at.node) parent->second = middle;
    node->parent = middle;
    node->start += at.offset;
    node->n -= at.offset;
    insert(t, at.node);
    for (int32_t i = 0; i < n; i++) {
        pf_suffix_place *w = &t->walkers[i];
        if (w->node != at.node) continue;
        if (w->offset > at.offset) {
            w->offset -= at.offset;
        } else {
            w->node = middle;
            node->count--; /* it has not come so far */
        }
    }
    return middle;
}

/* Moves the walker of n tokens (0: a new one, from the root) by the token at the end of the text. False: it has left the tree. */
static bool step(pf_suffix_tree *t, int32_t n, pf_suffix_place at, pf_suffix_place *to)
{
    const int32_t token = t->text[t->n_tokens];
    int32_t parent = at.node;
    if (at.offset < t->nodes[at.node].n) {
        if (t->text[t->nodes[at.node].start + at.offset] == token) {
            *to = (pf_suffix_place){ at.node, at.offset + 1 };
            return true;
        }
        parent = split(t, at, n);
    }
    const int32_t child = child_of(t, parent, token);
    if (child == 0) {
        const int32_t leaf = add_node(
            t, (pf_suffix_node){ .start = t->n_tokens, .n = PF_SUFFIX_DEPTH - n, .count = 1, .parent = parent });
        insert(t, leaf);
        rank(t, parent, leaf);
        return false;
    }
    t->nodes[child].count++;
    rank(t, parent, child);
    *to = (pf_suffix_place){ child, 1 };
    return true;
}

bool pf_suffix_tree_append(pf_suffix_tree *t, int32_t token)
{
    assert(token >= 0);
    if (t->n_tokens == t->max_tokens) return false;
    t->text[t->n_tokens] = token;
    /* From the longest to the shortest: where one leaves, the longer ones have left. */
    int32_t n_left = 0;
    for (int32_t n = pf_min(t->n_walkers, PF_SUFFIX_DEPTH - 1); n >= 0; n--) {
        const pf_suffix_place at = n > 0 ? t->walkers[n - 1] : (pf_suffix_place){ 0, 0 };
        if (step(t, n, at, &t->walkers[n]) && n_left == 0) n_left = n + 1;
    }
    t->n_walkers = n_left;
    t->n_tokens++;
    return true;
}

bool pf_suffix_tree_break(pf_suffix_tree *t)
{
    if (t->n_tokens == t->max_tokens) return false;
    t->text[t->n_tokens] = PF_SUFFIX_BREAK;
    for (int32_t n = t->n_walkers; n > 0; n--)
        if (t->walkers[n - 1].offset < t->nodes[t->walkers[n - 1].node].n) (void)split(t, t->walkers[n - 1], n);
    t->n_walkers = 0;
    t->n_tokens++;
    return true;
}

/* ---- questions ----------------------------------------------------------------------------------------------------- */

int32_t pf_suffix_tree_repeated(const pf_suffix_tree *t, pf_suffix_place *place)
{
    const int32_t n = pf_min(t->n_walkers, PF_SUFFIX_DEPTH - 1);
    if (n > 0) *place = t->walkers[n - 1];
    return n;
}

/* Whether it is in the tree. */
static bool descend(const pf_suffix_tree *t, const int32_t *tokens, int32_t n, pf_suffix_place *place)
{
    pf_suffix_place at = { 0, 0 };
    for (int32_t i = 0; i < n; i++) {
        const pf_suffix_node *node = &t->nodes[at.node];
        if (at.offset < node->n) {
            if (node->start + at.offset >= t->n_tokens || t->text[node->start + at.offset] != tokens[i]) return false;
            at.offset++;
            continue;
        }
        at = (pf_suffix_place){ child_of(t, at.node, tokens[i]), 1 };
        if (at.node == 0) return false;
    }
    *place = at;
    return true;
}

int32_t pf_suffix_tree_find(const pf_suffix_tree *t, const int32_t *tokens, int32_t n, pf_suffix_place *place)
{
    /* What a string has as a suffix occurs where the string does. */
    int32_t found = 0, most = pf_min(n, PF_SUFFIX_PATTERN);
    while (found < most) {
        const int32_t half = found + (most - found + 1) / 2;
        if (descend(t, tokens + (n - half), half, place))
            found = half;
        else
            most = half - 1;
    }
    return found;
}

/* Walkers on the edge to the place's node that have not come as far, and with `is_at` those that have come just so far. */
static int32_t count_walkers(const pf_suffix_tree *t, pf_suffix_place place, bool is_at)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_walkers; i++) {
        const pf_suffix_place w = t->walkers[i];
        n += w.node == place.node && (is_at ? w.offset == place.offset : w.offset < place.offset);
    }
    return n;
}

int32_t pf_suffix_tree_count(const pf_suffix_tree *t, pf_suffix_place place)
{
    return t->nodes[place.node].count - count_walkers(t, place, false);
}

static pf_suffix_next next_by(const pf_suffix_tree *t, int32_t child)
{
    const pf_suffix_node *node = &t->nodes[child];
    return (pf_suffix_next){ t->text[node->start], node->count, { child, 1 } };
}

int32_t pf_suffix_tree_next(const pf_suffix_tree *t, pf_suffix_place place, pf_suffix_next next[2], int32_t *n_ended)
{
    const pf_suffix_node *node = &t->nodes[place.node];
    *n_ended = place.node == 0 ? t->n_tokens : pf_suffix_tree_count(t, place) - count_walkers(t, place, true);
    if (place.node != 0 && (place.offset < node->n || node->best == 0)) {
        const int32_t at = node->start + place.offset;
        if (at >= t->n_tokens) --*n_ended;
        if (at >= t->n_tokens || t->text[at] == PF_SUFFIX_BREAK) return 0;
        const pf_suffix_place behind = { place.node, place.offset + 1 };
        next[0] = (pf_suffix_next){ t->text[at], pf_suffix_tree_count(t, behind), behind };
        return 1;
    }
    if (node->best == 0) return 0;
    next[0] = next_by(t, node->best);
    if (node->second == 0) return 1;
    next[1] = next_by(t, node->second);
    return 2;
}

int32_t pf_suffix_tree_position(const pf_suffix_tree *t, pf_suffix_place place)
{
    return t->nodes[place.node].start + place.offset;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

void pf_suffix_tree_lay_out(pf_suffix_tree *t, int32_t max_tokens, pf_arena *arena)
{
    const int32_t max_nodes = 2 * max_tokens + 1;
    int32_t max_slots = FIRST_SLOTS;
    while (max_slots / 4 * 3 < max_nodes) max_slots *= 2;
    pf_suffix_node *nodes = pf_arena_take(arena, (size_t)max_nodes, sizeof *nodes);
    int32_t *slots = pf_arena_take(arena, (size_t)max_slots, sizeof *slots);
    if (!t) return;
    *t = (pf_suffix_tree){
        .max_tokens = max_tokens, .nodes = nodes, .max_nodes = max_nodes, .slots = slots, .max_slots = max_slots
    };
}

void pf_suffix_tree_reset(pf_suffix_tree *t, int32_t *text)
{
    if (t->seed == 0) t->seed = pf_hash_seed();
    if (t->n_slots > 0) memset(t->slots, 0, (size_t)t->n_slots * sizeof *t->slots);
    t->n_slots = FIRST_SLOTS;
    t->text = text;
    t->n_tokens = t->n_walkers = 0;
    t->nodes[0] = (pf_suffix_node){ 0 };
    t->n_nodes = 1;
}
