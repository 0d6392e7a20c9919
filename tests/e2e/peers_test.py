"""How engines are measured in turns (bench/peers/peers.py), with sides that say what they were asked and take what they
are told to.

Run as: peers_test.py
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PEERS = Path(__file__).resolve().parent.parent.parent / "bench" / "peers" / "peers.py"
# fake NAME MILLISECONDS: a pass takes so many, a prefill ten times as many, a bare read half. Started as our binary is,
# it is our side.
FAKE = """#!{python}
import sys
name, ms = ("ours", {ours}) if sys.argv[1] == "bench" else (sys.argv[1], float(sys.argv[2]))
print("ready 1000", flush=True)
for line in sys.stdin:
    with open({log!r}, "a") as file: file.write(name + ": " + line)
    word, *numbers = line.split()
    print({{"begin": 10 * ms, "read": ms / 2, "step": ms * int((numbers or [0])[-1])}}[word], flush=True)
"""


class PeersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.log = self.home / "log"
        self.fake = self.home / "fake"
        self.fake.write_text(FAKE.format(python=sys.executable, ours=4.0, log=str(self.log)))
        self.fake.chmod(0o755)

    def measure(self, *arguments):
        out = self.home / "out.json"
        command = [sys.executable, PEERS, self.fake, self.home, "--engines", "", "--shapes", "tiny", "--json", out,
                   "--peer", f"slow={self.fake} slow 8", "--peer", f"near={self.fake} near 5", *arguments]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(out.read_text())["rows"], result.stdout

    def test_ratios_are_theirs_by_ours_and_the_best_is_the_nearest(self):
        (row,), table = self.measure("--formats", "bf16", "--rounds", "3")
        self.assertEqual(sorted(row["cells"]), sorted(row["best"] | {"read": 0}))
        for name in row["best"]:
            self.assertAlmostEqual(row["cells"][name]["slow"]["ratio"], 2.0)
            self.assertAlmostEqual(row["best"][name][0], 1.25)
            self.assertEqual(row["best"][name][1], "near")
            self.assertAlmostEqual(row["cells"][name]["pilotfish"]["ms"], 40.0 if name == "prefill" else 4.0)
        self.assertAlmostEqual(row["cells"]["decode"]["pilotfish"]["of_read"], 0.5)
        self.assertIn("| tiny | bf16 | pilotfish | 4 | 40 |", table)
        self.assertIn("|  |  | near | 5: 1.25 | 50: 1.25 |", table)

    def test_every_request_goes_to_each_side_before_the_next_and_the_first_side_rotates(self):
        self.measure("--formats", "bf16", "--rounds", "2")
        asked = [line.split(": ") for line in self.log.read_text().splitlines() if not line.endswith("read")]
        turns = []   # the side of each request, with the requests of one turn merged
        for name, request in asked:
            kind = "begin" if request.startswith("begin") else " ".join(request.split()[:2])
            if not turns or turns[-1] != (name, kind):
                turns.append((name, kind))
        orders = [tuple(name for name, _ in turns[i:i + 3]) for i in range(0, len(turns), 3)]
        self.assertEqual(len(orders) % 3, 0)
        of_round = len(orders) // 3
        self.assertEqual([set(orders[i * of_round:(i + 1) * of_round]) for i in range(3)],
                         [{("ours", "slow", "near")}, {("slow", "near", "ours")}, {("near", "ours", "slow")}])
        for i in range(0, len(turns), 3):
            self.assertEqual(len({kind for _, kind in turns[i:i + 3]}), 1)

    def test_a_gguf_side_is_left_out_of_a_format_without_gguf(self):
        rows, _ = self.measure("--formats", "int4,int4-g128", "--rounds", "1", "--peer",
                               f"reader={self.fake} reader 9 {{gguf}}")
        self.assertIn("reader", rows[0]["weight_bytes"])
        self.assertNotIn("reader", rows[1]["weight_bytes"])
        self.assertIn("near", rows[1]["weight_bytes"])

    def test_a_format_without_other_engines_is_measured_alone(self):
        out = self.home / "alone.json"
        command = [sys.executable, PEERS, self.fake, self.home, "--engines", "pytorch", "--shapes", "tiny", "--formats",
                   "int8", "--rounds", "1", "--json", out]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| tiny | int8 | pilotfish | 4 | 40 |", result.stdout)
        self.assertNotIn("best of them", result.stdout)
        row, = json.loads(out.read_text())["rows"]
        self.assertEqual((list(row["weight_bytes"]), row["best"]), (["pilotfish"], {}))

    def test_a_side_that_fails_later_keeps_the_measured_rows(self):
        out = self.home / "some.json"
        command = [sys.executable, PEERS, self.fake, self.home, "--engines", "", "--shapes", "tiny", "--formats", "bf16,int8",
                   "--rounds", "1", "--json", out,
                   "--peer", f"near=sh -c 'test {{format}} = bf16 && exec {self.fake} near 5'"]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn("peers: near ended with status 1", result.stderr)
        self.assertIn("|  |  | near | 5: 1.25 | 50: 1.25 |", result.stdout)
        self.assertEqual([row["format"] for row in json.loads(out.read_text())["rows"]], ["bf16"])

    def test_usage_errors_are_found_before_anything_runs(self):
        for option, value, says in [("--engines", "llama", "no llama"), ("--peer", "fake 9", "NAME=COMMAND"),
                                    ("--peer", "pilotfish=fake", "NAME=COMMAND"), ("--rounds", "0", "at least 1"),
                                    ("--context", "-1", "at least 1"), ("--threads", "two", "at least 1")]:
            command = [sys.executable, PEERS, self.fake, self.home, "--shapes", "tiny", f"{option}={value}"]
            result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(says, result.stderr.splitlines()[-1])
            self.assertFalse(self.log.exists())

    def test_a_side_that_ends_is_named(self):
        command = [sys.executable, PEERS, self.fake, self.home, "--engines", "", "--shapes", "tiny",
                   "--formats", "bf16", "--peer", "gone=false"]
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 1)
        self.assertIn("peers: gone ended with status 1: false", result.stderr)


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    unittest.main()
