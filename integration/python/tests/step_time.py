"""The time of a step of DraftClient over that of the C client: the same worker, the same number of rows, in turns.

Run as: step_time.py BINARY [--model DRAFT] [--rows N] [--rounds N] [--turns N]. The C client is `pilotfish bench rpc`; its round
trip, as a step here, includes what the worker computes.
"""

import argparse
import random
import signal
import statistics
import tempfile
import time
from pathlib import Path

import package_path
from command_line import Pilotfish
from pilotfish import DraftClient, Row

DRAFT_LEN, CONTEXT, GROWTH = 4, 64, 240


def python_us(address, n_rows, n_rounds, seed):
    """The median of the steps. Each accepts 0 to DRAFT_LEN tokens of a row in turn; steps that open sequences are not counted."""
    rng = random.Random(seed)
    times, generation, texts = [], 0, []
    with DraftClient(address, max_draft=DRAFT_LEN, wait_s=10.0) as client:
        if not client.wait_ready(10.0):
            raise RuntimeError(f"no worker at {address}")
        for i in range(n_rounds + n_rounds // 10):
            if not texts or max(map(len, texts)) > CONTEXT + GROWTH:
                client.finish([(generation, row) for row in range(n_rows)])
                generation += 1
                texts = [[rng.randrange(2, 200) for _ in range(CONTEXT)] for _ in range(n_rows)]
                proposals = client.step([Row((generation, row), text) for row, text in enumerate(texts)])
            for row, (text, proposal) in enumerate(zip(texts, proposals)):
                text += proposal.tokens[:(i + row) % (DRAFT_LEN + 1)] + [rng.randrange(2, 200)]
            began = time.perf_counter()
            proposals = client.step([Row((generation, row), text) for row, text in enumerate(texts)])
            seconds = time.perf_counter() - began
            if not all(p.tokens for p in proposals):
                raise RuntimeError(f"a step without proposals: {client.figures}")
            if i >= n_rounds // 10:
                times.append(seconds)
    return statistics.median(times) * 1e6


def c_us(pilotfish, address, n_rows, n_rounds):
    result = pilotfish.run("bench", "rpc", "--worker", address, "--sequences", n_rows, "--draft-len", DRAFT_LEN, "--context", CONTEXT,
                           "--rounds", n_rounds, "--json")
    if result.code != 0:
        raise RuntimeError(result.err)
    return result.json["round_p50_us"], result.json["compute_p50_us"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--model", default=package_path.ROOT / "models" / "draft")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--turns", type=int, default=5)
    a = parser.parse_args()
    pilotfish = Pilotfish(Path(a.binary).resolve(), "/tmp")
    with tempfile.TemporaryDirectory(prefix="pilotfish-") as folder:
        server = pilotfish.serve("worker", a.model, f"unix:{folder}/worker.sock", "--threads", "1", "--max-sequences", 2 * a.rows)
        try:
            over = []
            for turn in range(a.turns):
                c, compute = c_us(pilotfish, server.address, a.rows, a.rounds)
                python = python_us(server.address, a.rows, a.rounds, turn)
                over.append(python - c)
                print(f"{a.rows} rows: a step of DraftClient {python:.0f} us, of the C client {c:.0f} us, over it {over[-1]:.0f} us; "
                      f"the worker computes {compute:.0f} us (medians of {a.rounds})", flush=True)
            print(f"over the C client: {statistics.median(over):.0f} us at the median of {a.turns} turns")
        finally:
            server.end(signal.SIGKILL)


main()
