"""Compares the engine with the golden logits of every family: tests/golden/families/CASE.

tests/golden/families/pending.txt lists the cases that the engine refuses so far, each with the reason. A case fails
when its logits or its greedy text are wrong, when it is refused and not listed, and when it is right and still listed.

    family_golden_test.py BINARY [CASE...]
"""

import json
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from engine import TOLERANCE, Engine, Refused, distance  # noqa: E402

FAMILIES = ROOT / "tests" / "golden" / "families"
N_PROMPT = 33


def read_pending():
    """{case: reason}; lines are `case: reason`, # begins a comment."""
    lines = (FAMILIES / "pending.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


class FamilyGoldenTest(unittest.TestCase):
    engine = None
    cases = []

    def test_each_family_has_the_logits_of_its_oracle(self):
        pending = read_pending()
        self.assertFalse(set(pending) - {d.name for d in FAMILIES.iterdir()}, "pending.txt lists unknown cases")
        n_ok = 0
        for case in self.cases or sorted(d.name for d in FAMILIES.iterdir() if d.is_dir()):
            with self.subTest(case):
                expected = json.loads((FAMILIES / case / "expected.json").read_text())
                try:
                    self.compare(FAMILIES / case, expected)
                except Refused as sentence:
                    self.assertIn(case, pending, f"refused: {sentence}")
                    continue
                self.assertNotIn(case, pending, "right, and still listed in pending.txt: remove it there")
                n_ok += 1
        print(f"{n_ok} cases are right, {len(pending)} pending", file=sys.stderr)

    def compare(self, directory, expected):
        tokens = expected["tokens"]
        rows = self.engine.logits(directory, tokens)
        off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
        self.assertLessEqual(off, TOLERANCE, f"the logits are off by {off:.2g} of the largest")
        if expected["greedy"]:
            made = self.engine.greedy(directory, tokens[:N_PROMPT], len(expected["greedy"]))
            self.assertEqual(made, expected["greedy"])


if __name__ == "__main__":
    FamilyGoldenTest.engine = Engine(sys.argv[1])
    FamilyGoldenTest.cases = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
