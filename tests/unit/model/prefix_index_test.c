/* Shared blocks of two texts, by hashes, beside the definition: a comparison of tokens. */
#include "model/backend/prefix_index.h"

#include <string.h>

#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { MAX_BLOCKS = 9, MAX_TOKENS = MAX_BLOCKS * PF_PREFIX_BLOCK };

typedef struct {
    int32_t tokens[MAX_TOKENS], n;
    uint64_t hashes[MAX_BLOCKS];
    pf_prefix_blocks blocks;
} text;

static int32_t count_shared_blocks(const text *a, const text *b)
{
    int32_t i = 0;
    while (i < a->n && i < b->n && a->tokens[i] == b->tokens[i]) i++;
    return i / PF_PREFIX_BLOCK;
}

static void shared_blocks_are_those_that_a_comparison_finds(void **state)
{
    (void)state;
    uint64_t rng = 5;
    text a, b;
    for (int32_t trial = 0; trial < 2000; trial++) {
        a.blocks = (pf_prefix_blocks){ .hashes = a.hashes };
        for (int32_t i = 0; i < MAX_TOKENS; i++) a.tokens[i] = below(&rng, 3);
        a.n = below(&rng, MAX_TOKENS + 1);
        b = a;
        b.blocks.hashes = b.hashes;
        b.n = below(&rng, MAX_TOKENS + 1);
        if (below(&rng, 5) > 0) b.tokens[below(&rng, MAX_TOKENS)] = 3;
        pf_prefix_hash(&a.blocks, a.tokens, a.n / 2); /* in two steps */
        pf_prefix_hash(&a.blocks, a.tokens, a.n);
        pf_prefix_hash(&b.blocks, b.tokens, b.n);
        assert_int_equal(pf_prefix_count_shared(&a.blocks, &b.blocks), count_shared_blocks(&a, &b));
    }
}

static void the_same_block_behind_another_prefix_has_another_hash(void **state)
{
    (void)state;
    text a = { .n = 3 * PF_PREFIX_BLOCK }, b = a;
    a.blocks.hashes = a.hashes;
    b.blocks.hashes = b.hashes;
    b.tokens[0] = 1;
    pf_prefix_hash(&a.blocks, a.tokens, a.n);
    pf_prefix_hash(&b.blocks, b.tokens, b.n);
    for (int32_t i = 0; i < 3; i++) assert_true(a.hashes[i] != b.hashes[i]);
    assert_int_equal(pf_prefix_count_shared(&a.blocks, &b.blocks), 0);
}

static void what_was_cut_is_hashed_again(void **state)
{
    (void)state;
    text a = { .n = 4 * PF_PREFIX_BLOCK }, b;
    a.blocks.hashes = a.hashes;
    pf_prefix_hash(&a.blocks, a.tokens, a.n);
    b = a;
    b.blocks.hashes = b.hashes;
    pf_prefix_cut(&b.blocks, 2 * PF_PREFIX_BLOCK + 1);
    assert_int_equal(b.blocks.n, 2);
    b.tokens[2 * PF_PREFIX_BLOCK + 1] = 7;
    pf_prefix_hash(&b.blocks, b.tokens, b.n);
    assert_int_equal(b.blocks.n, 4);
    assert_int_equal(pf_prefix_count_shared(&a.blocks, &b.blocks), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_blocks_are_those_that_a_comparison_finds),
        cmocka_unit_test(the_same_block_behind_another_prefix_has_another_hash),
        cmocka_unit_test(what_was_cut_is_hashed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
