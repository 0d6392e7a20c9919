"""The length policy with an engine whose steps cost what a formula says.

Run as: length_policy_test.py
"""

import random
import unittest

import package_path  # noqa: F401
from pilotfish.length_policy import LengthPolicy

ACCEPTANCE = 0.6     # of each drafted token, after the ones before it


class Engine:
    """Steps of `n_rows` rows: a pass costs `fixed` and `per_row` for each row that it verifies, drafting `asking` seconds."""

    def __init__(self, per_row, asking=0.001, fixed=0.010, seed=1, noise=0.0):
        self.per_row, self.asking, self.fixed, self.noise = per_row, asking, fixed, noise
        self.slowdown = 1.0
        self.rng = random.Random(seed)
        self.seconds, self.tokens = 0.0, 0.0

    def cost(self, n_rows, length):
        return self.fixed + self.per_row * n_rows * (1 + length) + (self.asking if length else 0.0)

    def rate(self, n_rows, length):
        return n_rows * sum(ACCEPTANCE**i for i in range(length + 1)) / self.cost(n_rows, length)

    def run(self, policy, n_rows, n_steps):
        """The lengths that were used."""
        lengths = []
        for _ in range(n_steps):
            length = policy.choose(n_rows)
            tokens = [1] * n_rows
            for row in range(n_rows):
                while tokens[row] <= length and self.rng.random() < ACCEPTANCE:
                    tokens[row] += 1
            seconds = self.slowdown * self.cost(n_rows, length) * (1 + self.noise * self.rng.random())
            if self.noise and self.rng.random() < 0.05:
                seconds *= 10       # another program had the core
            policy.observe(length, tokens, seconds)
            self.seconds += self.cost(n_rows, length)
            self.tokens += self.cost(n_rows, length) * self.rate(n_rows, length)    # as many as are expected
            lengths.append(length)
        return lengths


class LengthPolicyTest(unittest.TestCase):
    def test_a_first_length_that_is_wrong_is_corrected(self):
        for per_row, n_rows, first, best in ((0.00001, 1, 0, 4), (0.00001, 8, 0, 4), (0.002, 64, 4, 0), (0.002, 64, 2, 0),
                                             (0.0005, 8, 0, 2), (0.0005, 8, 4, 2)):
            engine = Engine(per_row)
            with self.subTest(per_row=per_row, n_rows=n_rows, first=first):
                self.assertEqual(max((0, 2, 4), key=lambda length: engine.rate(n_rows, length)), best)
                lengths = engine.run(LengthPolicy(4, lambda _: first), n_rows, 1500)
                self.assertGreater(lengths[-300:].count(best), 250)

    def test_a_first_length_that_is_right_costs_little(self):
        for per_row, n_rows, first in ((0.00001, 1, 4), (0.00001, 8, 4), (0.002, 64, 0)):
            for n_steps, share in ((60, 0.90 if first else 1.0), (2000, 0.97)):
                engine = Engine(per_row)
                engine.run(LengthPolicy(4, lambda _: first), n_rows, n_steps)
                with self.subTest(per_row=per_row, n_rows=n_rows, n_steps=n_steps):
                    self.assertGreater(engine.tokens / engine.seconds / engine.rate(n_rows, first), share - 0.02)

    def test_steps_that_other_programs_delay_do_not_decide(self):
        for seed in range(10):
            engine = Engine(0.00001, seed=seed, noise=0.3)
            lengths = engine.run(LengthPolicy(4, lambda _: 4), 1, 2000)
            self.assertGreater(lengths.count(4), 1800)

    def test_a_slow_worker_is_no_longer_asked_and_one_that_is_fast_again_is(self):
        engine, policy = Engine(0.00001, asking=0.050), LengthPolicy(4, lambda _: 4)
        self.assertGreater(engine.run(policy, 1, 500)[-100:].count(0), 80)
        engine.asking = 0.001
        self.assertGreater(engine.run(policy, 1, 3000)[-100:].count(4), 80)

    def test_classes_of_batches_are_judged_apart(self):
        engine, policy = Engine(0.0005), LengthPolicy(4, lambda _: 4)
        for _ in range(60):
            engine.run(policy, 64, 20)
            engine.run(policy, 1, 20)
        self.assertGreater(engine.run(policy, 64, 50).count(0), 40)
        self.assertGreater(engine.run(policy, 1, 50).count(4), 30)

    def test_a_length_that_is_tried_and_far_slower_is_given_up_after_three_steps(self):
        engine = Engine(0.002, asking=0.1)
        lengths = engine.run(LengthPolicy(4, lambda _: 0), 64, 300)
        self.assertEqual([length for length in lengths if length], [2] * 3)

    def test_a_machine_that_slows_down_for_a_while_changes_no_length(self):
        engine = Engine(0.002)
        lengths, policy = [], LengthPolicy(4, lambda _: 0)
        for i in range(200):
            engine.slowdown = 1 if i % 2 else 3 + i % 5
            lengths += engine.run(policy, 64, 20 + i % 5)
        self.assertLess(sum(map(bool, lengths)), 0.05 * len(lengths))

    def test_the_step_after_a_change_of_length_is_not_counted(self):
        policy = LengthPolicy(4, lambda _: 4)
        for step in range(24):
            length = policy.choose(1)
            policy.observe(length, [2], 0.01 if step else 1000.0)
        known = policy._classes[0]
        self.assertEqual((max(known.before), len(known.by_length[4].tokens), known.tried), (0.01, 22, []))   # the 24th begins a trial
        policy.observe(4, [1], 0.01)           # of a length that was not chosen
        policy.observe(0, [1] * 64, 0.01)      # of a class without a choice
        policy.observe(0, [1], 0.0)
        self.assertEqual((len(known.by_length[4].tokens), known.tried), (22, []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
