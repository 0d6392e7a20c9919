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

/* Keys that collide under one seed do not under another. */
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

/* Each pair ends alike under FNV-1a from every state whose low byte is the one that the pair before it leaves; the first
 * takes 0x25. So every row of one of each meets every other, whatever the 56 bits above are. */
static void keys_made_to_meet_under_a_simpler_hash_do_not_meet(void **state)
{
    (void)state;
    enum { N_PAIRS = 12, N_BYTES = 15 };
    static const char *const pairs[N_PAIRS][2] = {
        { "BoFY:<2I0EwK<?o", "M8yJ<j<0VBjNcXm" }, { "o;?nF:4brM3?63w", "RJDY<l6oTz>ruHy" },
        { "n8q97P;HlFkG2Wd", "YCVn=N1s>GNBq4b" }, { "BEQn?8>Z?XR68vp", "W0j=9V8EsSGsycr" },
        { "QF5W7L?gfuAHHiH", "F9nT=Z=r<vXMIpN" }, { "IZFP1P;oxzXv8ri", "<CMoKZ1PJkG1wEw" },
        { "6GBK881HV1AbQQ:", ";NCF>RKST4Z9P88" }, { "J:UW:<1m;U>ALj1", "1arH<j;ZwJ9JMw3" },
        { "A<hI>D5vRLa9?C7", "tYcZ8B7KLsjrxL5" }, { "B>Aq=M3>pZnV2gB", "IeFV;?9S2ecKsjL" },
        { "Z6Ml=E?BNTnDWNM", "MIF?;C=I@QeCVCs" }, { "fFEa<>;5Uy8jY@0", "m=Jf:h1Zmr31XI6" },
    };
    static uint64_t seen[1 << N_PAIRS];
    for (uint64_t seed = 0; seed < 1 << 10; seed += 0x80) {
        int n_meet = 0;
        for (size_t i = 0; i < PF_COUNT(seen); i++) {
            char key[N_PAIRS * N_BYTES];
            for (size_t k = 0; k < N_PAIRS; k++) memcpy(key + k * N_BYTES, pairs[k][i >> k & 1], N_BYTES);
            seen[i] = pf_hash_bytes(seed | 0x25, key, sizeof key);
            n_meet += i > 0 && seen[i] % N_SLOTS == seen[0] % N_SLOTS;
        }
        assert_in_range(n_meet, 0, 8);
    }
}

/* As hash() of CPython 3.11 has them, with PYTHONHASHSEED=0: SipHash-1-3 with the key 0. */
static void bytes_are_hashed_as_elsewhere(void **state)
{
    (void)state;
    unsigned char bytes[64];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
    assert_true(pf_hash_bytes(0, "a", 1) == 0x407448D2B89B1813u);
    assert_true(pf_hash_bytes(0, "abcdefgh", 8) == 0x3F7B849C0B8E35EAu);
    assert_true(pf_hash_bytes(0, "abcdefghi", 9) == 0xF89B34A3D11EB6E5u);
    assert_true(pf_hash_bytes(0, bytes, sizeof bytes) == 0x75E05FD5BBC870C6u);
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
        cmocka_unit_test(keys_made_to_meet_under_a_simpler_hash_do_not_meet),
        cmocka_unit_test(bytes_are_hashed_as_elsewhere),
        cmocka_unit_test(each_table_has_a_seed_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
