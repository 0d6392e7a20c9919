"""Fingerprints and hashes of vocabularies, and which ids two of them share.

Run as: vocabulary_test.py
"""

import unittest

import package_path
from pilotfish.vocabulary import MAX_EXCLUDED, Vocabulary, block_ids

BUNDLED = package_path.ROOT / "models"


def vocabulary(n, changes=(), skip=()):
    """`n` tokens; `changes`: ids with another text; `skip`: ids without one."""
    return Vocabulary({i: b"other" if i in changes else b"token %d" % i for i in range(n) if i not in skip})


def compare(target, draft):
    return target.compare(draft.size, draft.hashes(block_ids(draft.size))[:(draft.size - 1) // block_ids(draft.size) + 1])


class VocabularyTest(unittest.TestCase):
    def test_fingerprint_and_hash_are_those_of_the_protocol(self):
        found = Vocabulary.read(BUNDLED / "draft", 4096)
        self.assertEqual(found.fingerprint().hex(), "2af4b79666a70848c2620c9330eed25daf2d362ece42b930f04d398067010f67")
        self.assertEqual(Vocabulary({0: b"0"}).hashes(1)[0], 0x7E1502C3)
        self.assertEqual(Vocabulary({}).size, 0)

    def test_a_hash_covers_the_smallest_power_of_two_of_ids(self):
        self.assertEqual([block_ids(n) for n in (1, 8192, 8193, 16384, 16385, 2**31 - 1)], [1, 1, 2, 2, 4, 2**18])

    def test_ids_that_differ_are_excluded_as_ranges(self):
        for target, draft, n_different, excluded in (
                (vocabulary(100), vocabulary(100), 0, []),
                (vocabulary(100), vocabulary(100, {0, 7, 8, 99}), 4, [0, 1, 7, 9, 99, 100]),
                (vocabulary(100), vocabulary(103), 3, [100, 103]),
                (vocabulary(103), vocabulary(100), 3, []),
                (vocabulary(100, skip={5}), vocabulary(100, skip={5, 6}), 1, [6, 7])):
            match = compare(target, draft)
            self.assertEqual((match.n_ids, match.n_different, match.excluded), (max(target.size, draft.size), n_different, excluded))

    def test_vocabularies_of_any_two_sizes_compare_by_blocks(self):
        small, large = vocabulary(8000), vocabulary(20000)
        self.assertEqual(compare(small, large).excluded, [8000, 20000])
        self.assertEqual(compare(small, large).n_different, 12000)
        self.assertEqual(compare(large, small).excluded, [])
        match = compare(vocabulary(20000, {0, 4001}), large)
        self.assertEqual((match.n_different, match.excluded), (8, [0, 4, 4000, 4004]))

    def test_too_many_ranges_are_widened(self):
        changes = set(range(0, 8000, 10))
        match = compare(vocabulary(8000), vocabulary(8000, changes))
        self.assertEqual(match.n_different, 800)
        self.assertLessEqual(len(match.excluded), 2 * MAX_EXCLUDED)
        pairs = list(zip(match.excluded[::2], match.excluded[1::2]))
        self.assertTrue(all(any(first <= i < end for first, end in pairs) for i in changes))
        self.assertTrue(all(a[1] < b[0] for a, b in zip(pairs, pairs[1:])))

    def test_hashes_that_are_not_as_many_as_the_size_says_compare_with_nothing(self):
        for size, n in ((100, 99), (100, 101), (2**31 - 1, 100), (1, 0)):
            self.assertIsNone(vocabulary(100).compare(size, [0] * n))
        self.assertEqual(vocabulary(100).compare(2**31 - 1, [0] * 8192).n_ids, 2**31 - 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
