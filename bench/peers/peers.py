#!/usr/bin/env python3
"""Measure this engine and llama.cpp in turns, a few passes each, and print both sides and their ratios.

    peers.py BINARY HOME [--shapes 1b,68m] [--formats bf16,int8,int4] [--threads N] [--rounds 12] [--context 128]
             [--json FILE]

Both sides are alive at once and answer the same requests (`pilotfish bench steps`, llama_steps.cc), one at a time, so a
minute in which the memory is slow is slow for both. A ratio is the median over rounds of theirs by ours: above 1 this
engine is ahead. Decode is also shown beside a bare read of this engine's weights, taken in the same rounds.

Only the standard library. Run by peers.sh, which makes what this reads from HOME.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

GGUF_OF = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
PREFILL, VERIFY_ROWS, DECODE_PASSES = 512, (1, 2, 4, 8, 16), 8
SETTLE_S = 0.02   # until the other side's threads have stopped looking for work


class Side:
    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(environment or {})))
        word, n_bytes = self.read_line().split()
        assert word == "ready"
        self.weight_bytes = int(n_bytes)

    def read_line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"peers: {self.process.args[0]} ended with status {self.process.wait()}")
        return line

    def ask(self, request):
        time.sleep(SETTLE_S)
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return float(self.read_line())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(ours, theirs, context, rounds, progress):
    """Milliseconds by cell, of both sides, a list over rounds."""
    cells = {"decode": f"step 1 {DECODE_PASSES}"} | {f"verify {rows}": f"step {rows} 1" for rows in VERIFY_ROWS}
    taken = {name: ([], []) for name in ["prefill", *cells, "read"]}
    sides = list(enumerate((ours, theirs)))
    for round_number in range(rounds + 1):
        progress()
        got = []
        for index, side in sides:
            got.append(("prefill", index, side.ask(f"begin {PREFILL}")))
            side.ask(f"begin {context}")
        for name, request in cells.items():
            for index, side in sides:
                passes = DECODE_PASSES if name == "decode" else 1
                got.append((name, index, side.ask(request) / passes))
            got.append(("read", 0, ours.ask("read")))
        if round_number > 0:   # the first warms up
            for name, index, ms in got:
                taken[name][index].append(ms)
    return taken


def summarise(taken, ours, theirs, context):
    row = dict(context=context, weight_bytes=ours.weight_bytes, peer_weight_bytes=theirs.weight_bytes)
    row["read_ms"] = statistics.median(taken["read"][0])
    row["verify"] = {}
    for name, (mine, other) in taken.items():
        if name == "read":
            continue
        kind, _, rows = name.partition(" ")
        place, key = (row["verify"], rows) if rows else (row, kind)
        place[key] = dict(ms=statistics.median(mine), peer_ms=statistics.median(other),
                          ratio=statistics.median(b / a for a, b in zip(mine, other)))
    row["decode"]["bandwidth_fraction"] = row["read_ms"] / row["decode"]["ms"]
    for name, tokens in (("decode", 1), ("prefill", PREFILL)):
        row[name]["tokens_per_s"] = 1000 * tokens / row[name]["ms"]
        row[name]["peer_tokens_per_s"] = 1000 * tokens / row[name]["peer_ms"]
    return row


def print_table(rows):
    print("ms, this engine / llama.cpp (theirs by ours)")
    print("| shape | format | decode | of the bare read | prefill 512 | "
          + " | ".join(f"verify {n}" for n in VERIFY_ROWS) + " |")
    print("|" + "---|" * (5 + len(VERIFY_ROWS)))

    def cell(entry):
        return f"{entry['ms']:.4g} / {entry['peer_ms']:.4g} ({entry['ratio']:.2f})"

    for row in rows:
        cells = [row["shape"], f"{row['format']}, {row['peer_format']}", cell(row["decode"]),
                 f"{row['decode']['bandwidth_fraction']:.2f}", cell(row["prefill"])]
        print("| " + " | ".join(cells + [cell(row["verify"][str(n)]) for n in VERIFY_ROWS]) + " |")


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("home", type=pathlib.Path)
    parser.add_argument("--shapes", default="1b,68m")
    parser.add_argument("--formats", default="bf16,int8,int4")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures there too")
    options = parser.parse_args()

    rows = []
    room = str(max(PREFILL, options.context) + 512)
    for shape in options.shapes.split(","):
        for name in options.formats.split(","):
            directory, gguf = options.home / shape, GGUF_OF[name]
            threads = str(options.threads)
            theirs = Side([str(options.home / "llama_steps"), str(directory / f"{gguf}.gguf"), threads, room],
                          {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})   # huge pages, as this engine asks for
            ours = Side([options.binary, "bench", "steps", "-m", str(directory), "--dtype", name, "--threads", threads,
                         "--context", room])
            def progress(done=iter(range(options.rounds + 1))):
                if sys.stderr.isatty():
                    print(f"\rpeers: {shape} {name}, round {next(done)} of {options.rounds}  ", end="", file=sys.stderr)
            taken = measure(ours, theirs, options.context, options.rounds, progress)
            row = dict(shape=shape, format=name, peer="llama.cpp", peer_format=gguf, threads=options.threads)
            rows.append(row | summarise(taken, ours, theirs, options.context))
            ours.close()
            theirs.close()
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print_table(rows)
    commit = options.home / "llama.cpp.commit"
    document = dict(when=time.strftime("%F %T"), processor=processor(), threads=options.threads,
                    llama_cpp=commit.read_text().strip() if commit.exists() else None, rows=rows)
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    else:
        print(json.dumps(document))


main()
