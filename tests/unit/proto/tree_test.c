/* Proposals as trees: children, chains and depths, against drawings. */
#include "tests/support/test.h"

#include "proto/messages.h"
#include "proto/tree.h"

/*   a -- b -- c        nodes 0 1 2
 *   |    `--- d        node 3
 *   b -- a -- c -- d   nodes 4 5 6 7 */
enum { A = 10, B, C, D, N = 8 };
static const int32_t TOKENS[N] = { A, B, C, D, B, A, C, D };
static const int32_t PARENTS[N] = { -1, 0, 1, 1, -1, 4, 5, 6 };

static void a_child_is_found_behind_its_own_parent_alone(void **state)
{
    (void)state;
    const struct {
        int32_t node, token, child;
    } cases[] = { { -1, A, 0 }, { -1, B, 4 }, { -1, C, -1 }, { 0, B, 1 }, { 1, C, 2 },  { 1, D, 3 },
                  { 2, D, -1 }, { 4, A, 5 },  { 5, C, 6 },   { 6, D, 7 }, { 7, A, -1 }, { 0, D, -1 } };
    for (size_t i = 0; i < PF_COUNT(cases); i++)
        assert_int_equal(pf_tree_child(TOKENS, PARENTS, N, cases[i].node, cases[i].token), cases[i].child);
    for (int32_t i = 0; i < N; i++) /* a chain has one place for each token */
        for (int32_t token = A; token <= D; token++)
            assert_int_equal(pf_tree_child(TOKENS, NULL, N, i - 1, token), TOKENS[i] == token ? i : -1);
    assert_int_equal(pf_tree_child(NULL, NULL, 0, -1, A), -1);
}

static void of_siblings_with_one_token_the_first_is_the_child(void **state)
{
    (void)state;
    const int32_t tokens[] = { A, B, B, B }, parents[] = { -1, -1, -1, 0 };
    assert_int_equal(pf_tree_child(tokens, parents, 4, -1, B), 1);
}

static void chains_and_depths_are_counted(void **state)
{
    (void)state;
    assert_int_equal(pf_tree_chain(PARENTS, N), 3);
    assert_int_equal(pf_tree_chain(PARENTS, 2), 2);
    assert_int_equal(pf_tree_chain(NULL, N), N);
    assert_int_equal(pf_tree_chain(PARENTS, 0), 0);
    assert_int_equal(pf_tree_chain((const int32_t[]){ -1, -1 }, 2), 1);
    assert_int_equal(pf_tree_depth(PARENTS, N), 4);
    assert_int_equal(pf_tree_depth(PARENTS, 4), 3);
    assert_int_equal(pf_tree_depth(NULL, PF_MAX_DRAFT_TOKENS), PF_MAX_DRAFT_TOKENS);
    assert_int_equal(pf_tree_depth(PARENTS, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_is_found_behind_its_own_parent_alone),
        cmocka_unit_test(of_siblings_with_one_token_the_first_is_the_child),
        cmocka_unit_test(chains_and_depths_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
