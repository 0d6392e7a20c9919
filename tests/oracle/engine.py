"""Runs pilotfish on a model and compares its logits and greedy texts with expected ones. Needs only Python itself.

A comparison returns an Outcome: "ok", "refused" (the sentence) or "differs" (by how much).
"""
import dataclasses
import json
import subprocess

TOLERANCE = 1e-4  # of the largest logit


@dataclasses.dataclass(frozen=True)
class Outcome:
    kind: str  # ok, refused, differs
    text: str = ""


class Refused(Exception):
    pass


def ids(tokens):
    return ",".join(map(str, tokens))


class Engine:
    def __init__(self, binary):
        self.binary = binary

    def json(self, *arguments):
        """Raises Refused with the sentence on stderr where the exit status is 1."""
        command = [str(self.binary), *map(str, arguments), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode == 1:
            raise Refused(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no sentence on stderr")
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def logits(self, directory, tokens, dtype="f32", *options):
        """Rows after each token."""
        return self.json("logits", "-m", directory, "--tokens", ids(tokens), "--all", "--dtype", dtype, "--context",
                         len(tokens), *options)["logits"]

    def greedy(self, directory, tokens, n, dtype="f32", *options):
        return self.json("generate", "-m", directory, "--tokens", ids(tokens), "-n", n, "--ignore-eos", "--temperature", 0,
                         "--dtype", dtype, "--context", len(tokens) + n, *options)["tokens"]


def distance(expected, found):
    """The largest difference of two lists of rows, over the largest expected logit; infinite where one is not a number."""
    largest = max(abs(x) for row in expected for x in row)
    worst = 0.0
    for expected_row, found_row in zip(expected, found, strict=True):
        for e, f in zip(expected_row, found_row, strict=True):
            if f is None:
                return float("inf")
            worst = max(worst, abs(e - f))
    return worst / largest
