#!/usr/bin/env python3
"""Measures `pilotfish serve` beside llama.cpp's server, in turns, and writes docs/data/serve.csv.

    serve_turns.py LLAMA_SERVER SHAPE:FORMAT:MODEL:GGUF... [--binary build/release/pilotfish] [--concurrent 1,4,16,64] [--rounds 3]
                   [--draft DIRECTORY] [--machine zen5-2]

MODEL is a directory with a tokenizer, FORMAT bf16, int8 or int4, GGUF the same weights at as many bits (requantise.py). Both servers run
at once and get the same requests one after the other, the other one idle: completion_load.py, 128 tokens in and 128 out, streamed, greedy.
Prompts are the ids of models/prompts.txt, each from another place. Both have a thread a core and room for all texts; neither keeps
prompts for later requests. With --draft the server here also runs with that draft, a third side.

A figure is the median over the rounds; the ratio is that of the rounds' ratios.
"""
import argparse
import contextlib
import csv
import datetime
import json
import os
import pathlib
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request

import completion_load

ROOT = pathlib.Path(__file__).resolve().parents[2]
N_IN, N_OUT, ROOM = 128, 128, 512   # tokens; ROOM of a text, with what servers add
COLUMNS = ["shape", "weights", "server", "concurrent", "tokens/s", "of llama.cpp", "TTFT p50, ms", "TTFT p99, ms", "between events p50, ms",
           "between events p99, ms"]


def post(address, path, value):
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", json.dumps(value).encode())) as answer:
        return json.load(answer)


@contextlib.contextmanager
def ours(options, case, n, *more):
    command = [options.binary, "serve", "-m", case.model, "--dtype", case.format, "--listen", "localhost:0", "--context", ROOM,
               "--kv-sequences", n, "--max-sequences", n, *more]
    with subprocess.Popen([str(w) for w in command], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()


@contextlib.contextmanager
def llama(options, case, n):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    command = [options.llama_server, "-m", case.gguf, "-t", os.cpu_count(), "-np", n, "-c", n * ROOM, "--cache-ram", 0, "--host", "127.0.0.1",
               "--port", port]
    with subprocess.Popen([str(w) for w in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(1200):
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    urllib.request.urlopen(f"http://{address}/health").close()
                    break
                time.sleep(0.1)
            yield address
        finally:
            process.terminate()


class Case:
    def __init__(self, text):
        self.shape, self.format, self.model, self.gguf = text.split(":")


def prompt_lists(address):
    lines = (ROOT / "models/prompts.txt").read_text(encoding="utf-8").splitlines()
    return [post(address, "/tokenize", {"prompt": line})["tokens"] for line in lines if line.strip()]


def measure(options, case, n):
    """Side -> the figures of each round."""
    found = {}
    with contextlib.ExitStack() as stack:
        sides = {"llama.cpp": stack.enter_context(llama(options, case, n)), "pilotfish": stack.enter_context(ours(options, case, n))}
        if options.draft:
            sides["pilotfish, draft"] = stack.enter_context(ours(options, case, n, "-d", options.draft))
        prompts = completion_load.cut_prompts(prompt_lists(sides["pilotfish"]), max(n, 8 // n * n or n), N_IN)
        for address in sides.values():
            completion_load.measure(address, prompts[:n], n, 16, {"cache_prompt": False} if address == sides["llama.cpp"] else None)
        for turn in range(options.rounds):
            for name, address in list(sides.items())[::1 if turn % 2 == 0 else -1]:
                more = {"cache_prompt": False} if name == "llama.cpp" else None
                found.setdefault(name, []).append(completion_load.measure(address, prompts, n, N_OUT, more))
                time.sleep(0.2)   # until the threads of this side have stopped looking for work
    return found


def rows_of(case, n, found):
    for name, rounds in found.items():
        ratios = [mine["tokens_per_s"] / theirs["tokens_per_s"] for mine, theirs in zip(rounds, found["llama.cpp"])]
        figures = [statistics.median(r[key] for r in rounds)
                   for key in ("tokens_per_s", "ttft_p50_ms", "ttft_p99_ms", "gap_p50_ms", "gap_p99_ms")]
        yield [case.shape, case.format.upper(), name, n, f"{figures[0]:.1f}", f"{statistics.median(ratios):.2f}",
               *(f"{f:.1f}" for f in figures[1:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_server", type=pathlib.Path)
    parser.add_argument("cases", nargs="+", type=Case)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/pilotfish")
    parser.add_argument("--concurrent", type=lambda text: [int(w) for w in text.split(",")], default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--draft", type=pathlib.Path)
    parser.add_argument("--machine", default="zen5-2")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/data/serve.csv")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    head = [datetime.date.today().isoformat(), options.machine, commit, f"serve_turns.py LLAMA_SERVER CASES --rounds {options.rounds}"]
    with open(options.out, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["date", "machine", "commit", "command", *COLUMNS])
        for case in options.cases:
            for n in options.concurrent:
                for row in rows_of(case, n, measure(options, case, n)):
                    writer.writerow([*head, *row])
                    file.flush()
                    print(*row, sep="  ", flush=True)


if __name__ == "__main__":
    main()
