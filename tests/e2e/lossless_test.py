"""Greedy texts with speculation equal the plain ones: the bundled pair, every topology, draft length and thread count; and greedy
and coupled ones with every drafter, and with the draft that proposes in one pass.

Run as: lossless_test.py BINARY MODELS N_PROMPTS N_PROMPTS_OF_DRAFTERS

Each run of `bench acceptance` decodes every prompt plainly and with the drafter and counts the texts that are equal;
its checksum over all texts must then be the same for every draft length, every number of threads, and whether the
drafter, the target or neither is in another process, and whether the target's head is bounded.

On a machine that does something else as well a worker may be late for a second, in which an engine rightly decodes on
without it: a length of which rounds were decoded plainly need not have accepted anything, the eight together must.
"""

import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
from command_line import Pilotfish  # noqa: E402

LENGTHS = "1,2,3,4,5,6,7,8,auto"
THREADS = ("1", "2")
FULL = 3600


DRAFTERS = ([], ["--drafter", "ngram"], ["--drafter", "suffix"], ["--drafter", "suffix", "--suffix-corpus", "1M"],
            ["--drafter", "cascade", "--suffix-corpus", "1M"], ["--draft-passes", "1"], ["--draft-passes", "2"],
            ["--draft-passes", "auto"])


def check_drafters(pilotfish, models, target, prompts, n_prompts):
    """Each drafter at a fixed and at a chosen length, greedy and coupled: texts that equal the plain ones."""
    for drafter in DRAFTERS:
        looks_up = "ngram" in drafter or "suffix" in drafter
        model = [] if looks_up else ["-d", models / ("draft-pard" if "--draft-passes" in drafter else "draft")]
        result = pilotfish.run("bench", "acceptance", "-m", target, *model, *drafter, "--prompts", prompts,
                               "--limit", n_prompts, "-n", "64", "--draft-len", "4,auto", "--method", "coupled",
                               "--temperature", "0,0.7", "--threads", "1", "--json", timeout=FULL)
        assert result.code == 0, f"{drafter}: {result.err}"
        assert len(result.json["runs"]) == 4, f"{drafter}: {len(result.json['runs'])} runs, expected 4"
        for run in result.json["runs"]:
            where = f"{' '.join(drafter) or 'a model'}, temperature {run['temperature']}, draft length {run['draft_len']}"
            assert run["identical"] == n_prompts, f"{where}: {run['identical']} of {n_prompts} texts are equal"
            assert run["speculation"]["accepted"] > 0, f"{where}: nothing was accepted"
            print(f"{where}: {run['speculation']['accepted']} of {run['speculation']['drafted']} accepted", flush=True)


def main(binary, models, n_prompts, n_of_drafters):
    target, draft, prompts = models / "target", models / "draft", models / "prompts.txt"
    with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as folder:
        pilotfish = Pilotfish(binary, folder)
        check_drafters(pilotfish, models, target, prompts, n_of_drafters)
        seen = {}

        def measure(name, threads, *way):
            result = pilotfish.run("bench", "acceptance", *way, "--prompts", prompts, "--limit", n_prompts, "-n", "64",
                                   "--draft-len", LENGTHS, "--threads", threads, "--json", timeout=FULL)
            assert result.code == 0, f"{name}: {result.err}"
            accepted = 0
            for run in result.json["runs"]:
                where = f"{name}, {threads} threads, draft length {run['draft_len']}"
                assert run["requests"] == n_prompts, f"{where}: {run['requests']} requests"
                assert run["identical"] == n_prompts, f"{where}: {run['identical']} of {n_prompts} texts are equal"
                speculation = run["speculation"]
                late = speculation["fallback_rounds"]
                assert speculation["accepted"] > 0 or late > 0, f"{where}: nothing was accepted"
                accepted += speculation["accepted"]
                seen.setdefault(run["text_checksum"], where)
                speedup = "none" if run["speedup"] is None else f"{run['speedup']:.2f}"  # nothing came in time
                print(f"{where}: {speculation['accepted']} of {speculation['drafted']} accepted, {late} rounds without a "
                      f"proposal, speed-up {speedup}", flush=True)
            assert accepted > 0, f"{name}, {threads} threads: nothing was accepted at any draft length"

        for threads in THREADS:
            measure("one process", threads, "-m", target, "-d", draft)
            measure("one process, a bounded head", threads, "-m", target, "-d", draft, "--head", "bounded")
            with pilotfish.serve("worker", draft, f"unix:{folder}/worker.sock", "--threads", threads) as worker:
                measure("worker", threads, "-m", target, "--draft-worker", worker.address)
            with pilotfish.serve("verifier", target, f"unix:{folder}/verifier.sock", "--threads", threads) as verifier:
                measure("verifier", threads, "--verifier", verifier.address, "-d", draft)
        assert len(seen) == 1, f"the texts differ between runs: {seen}"
        print(f"{n_prompts} prompts, {len(THREADS) * 4 * len(LENGTHS.split(','))} settings: one text each")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), int(sys.argv[3]), int(sys.argv[4]))
