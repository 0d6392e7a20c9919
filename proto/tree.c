#include "proto/tree.h"

#include <assert.h>

#include "proto/messages.h"

static int32_t parent_of(const int32_t *parents, int32_t node)
{
    return parents ? parents[node] : node - 1;
}

int32_t pf_tree_child(const int32_t *tokens, const int32_t *parents, int32_t n, int32_t node, int32_t token)
{
    for (int32_t i = node + 1; i < n; i++)
        if (parent_of(parents, i) == node && tokens[i] == token) return i;
    return -1;
}

int32_t pf_tree_chain(const int32_t *parents, int32_t n)
{
    int32_t i = 0;
    while (i < n && parent_of(parents, i) == i - 1) i++;
    return i;
}

int32_t pf_tree_depth(const int32_t *parents, int32_t n)
{
    assert(n <= PF_MAX_DRAFT_TOKENS);
    int32_t depth[PF_MAX_DRAFT_TOKENS], deepest = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t parent = parent_of(parents, i);
        depth[i] = parent < 0 ? 1 : depth[parent] + 1;
        if (depth[i] > deepest) deepest = depth[i];
    }
    return deepest;
}
