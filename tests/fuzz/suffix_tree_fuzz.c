/*
 * The suffix tree against its definition, over texts of any shape: every string of up to 8 tokens is counted in the text, one by one,
 * and the most frequent token behind it must be the tree's.
 *
 * The input: the number of ids, then a byte for each token; one in 32 values is a break. No more than 120 tokens are read.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "draft/suffix_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 120, LONGEST = 8 };

static void must(bool promise)
{
    if (!promise) abort();
}

static bool occurs_at(const int32_t *text, int32_t n_text, int32_t at, const int32_t *string, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at + i >= n_text || text[at + i] != string[i]) return false;
    return true;
}

static void check_string(const pf_suffix_tree *t, const int32_t *string, int32_t n)
{
    pf_suffix_place place;
    pf_suffix_next next[2];
    int32_t count = 0, n_ended = 0, ended;
    must(pf_suffix_tree_find(t, string, n, &place) == n);
    const int32_t n_next = pf_suffix_tree_next(t, place, next, &ended);
    int32_t behind[2] = { 0, 0 }, n_behind = 0;
    for (int32_t at = 0; at < t->n_tokens; at++) {
        if (!occurs_at(t->text, t->n_tokens, at, string, n)) continue;
        count++;
        if (at + n >= t->n_tokens) continue;
        n_ended++;
        n_behind += t->text[at + n] != PF_SUFFIX_BREAK;
        for (int32_t i = 0; i < n_next; i++) behind[i] += t->text[at + n] == next[i].token;
    }
    must(pf_suffix_tree_count(t, place) == count);
    must(ended == n_ended);
    must((n_behind > 0) == (n_next > 0));
    for (int32_t i = 0; i < n_next; i++) must(behind[i] == next[i].count && behind[i] > 0);
    must(n_next < 2 || (next[0].count >= next[1].count && next[0].token != next[1].token));
    must(n_next != 1 || behind[0] == n_behind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    pf_arena measure = pf_arena_measure(), arena;
    pf_suffix_tree_lay_out(NULL, MOST, &measure);
    must(pf_arena_create(measure.used, &arena) == PF_OK);
    pf_suffix_tree tree;
    int32_t text[MOST];
    pf_suffix_tree_lay_out(&tree, MOST, &arena);
    pf_suffix_tree_reset(&tree, text);
    for (size_t i = 1; i < size && tree.n_tokens < MOST; i++)
        must(data[i] < 8 ? pf_suffix_tree_break(&tree) : pf_suffix_tree_append(&tree, data[i] % (1 + data[0] % 16)));
    must(tree.n_nodes <= 2 * tree.n_tokens + 1);
    for (int32_t at = 0; at < tree.n_tokens; at++)
        for (int32_t n = 1; n <= LONGEST && at + n <= tree.n_tokens && text[at + n - 1] != PF_SUFFIX_BREAK; n++)
            check_string(&tree, text + at, n);
    pf_arena_destroy(&arena);
    return 0;
}
