#include "base/hash.h"

#include <stdbool.h>
#include <string.h>

#include "tests/support/test.h"

enum { N_KEYS = 1 << 12, N_SLOTS = 1 << 13 };

/* Keys in a slot, at most, for keys as files and peers have them: counted up. */
static int fullest_slot(uint64_t seed, bool bytes)
{
    static int n[N_SLOTS];
    memset(n, 0, sizeof n);
    int most = 0;
    for (uint64_t i = 0; i < N_KEYS; i++) {
        const uint64_t h = bytes ? pf_hash_bytes(seed, &i, sizeof i) : pf_hash_pair(seed, i / 64, i % 64);
        const int here = ++n[h % N_SLOTS];
        if (here > most) most = here;
    }
    return most;
}

static void keys_in_a_row_are_spread(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 64; seed++) {
        assert_true(fullest_slot(seed, false) <= 10);
        assert_true(fullest_slot(seed, true) <= 10);
    }
}

/* Keys that meet under one seed are strangers under another. */
static void another_seed_is_another_table(void **state)
{
    (void)state;
    int n_met = 0, n_meet_again = 0;
    for (uint64_t i = 0; i < 1 << 18; i++) {
        const uint64_t a = i / 512, b = i % 512;
        if (pf_hash_pair(1, a, b) % N_SLOTS != 0) continue;
        n_met++;
        n_meet_again += pf_hash_pair(2, a, b) % N_SLOTS == 0;
    }
    assert_in_range(n_met, 8, 80);
    assert_true(n_meet_again <= 2);
    assert_true(pf_hash_bytes(1, "key", 3) != pf_hash_bytes(2, "key", 3));
}

static void each_table_has_a_seed_of_its_own(void **state)
{
    (void)state;
    assert_true(pf_hash_seed() != pf_hash_seed()); /* one in 2^64 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_in_a_row_are_spread),
        cmocka_unit_test(another_seed_is_another_table),
        cmocka_unit_test(each_table_has_a_seed_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
