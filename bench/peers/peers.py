#!/usr/bin/env python3
"""Measures this engine and others in turns, a few passes each, and prints all sides and their ratios.

    peers.py BINARY HOME [--shapes 1b,68m] [--formats bf16,int8,int4] [--engines llama.cpp,openvino,pytorch]
             [--peer NAME=COMMAND]... [--threads N] [--rounds 12] [--context 128] [--json FILE]

All sides run at once and answer the same requests (`pilotfish bench steps`, llama_steps.cc, steps.py), one at a time, so
slow memory is slow for all. A turn is one warm-up pass, which wakes the threads of the side and fills its caches, and then
the counted passes. A ratio is the median over rounds of theirs by ours: above 1 this engine is ahead. Our decode is also
shown beside a bare read of the same weights, measured right after it.

--peer adds any program that speaks the protocol. In COMMAND {directory} stands for the model's folder, {gguf} for its
GGUF file, {shape}, {format}, {threads} and {context} for what they say. A command with {gguf} is
left out for a format that has no GGUF.

Only the standard library. Run by peers.sh, which makes what this reads from HOME.
"""
import argparse
import importlib.metadata
import itertools
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
GGUF_OF = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
THEIRS = {"bf16-12": "bf16"}   # what others hold where this engine holds the same values in its own way
PREFILL = 512
DECODE = "step 1", 8           # the request of a pass, and how many passes a turn counts
VERIFY_ROWS, VERIFY_PASSES = (1, 2, 4, 8, 16), 2
CELLS = {"decode": DECODE} | {f"verify {n}": (f"step {n}", VERIFY_PASSES) for n in VERIFY_ROWS}
OURS = "pilotfish"
ENGINES = ["llama.cpp", "openvino", "pytorch"]
SETTLE_S = 0.02   # until the other sides' threads have stopped looking for work


def openvino_command(options, shape, name):
    # How many activations share a scale: its own choice is 32; of what was tried, this is the fastest.
    group = 32 if name == "int4" else 128
    return [sys.executable, HERE / "openvino_steps.py", options.home / shape / "openvino" / name, options.threads,
            f"DYNAMIC_QUANTIZATION_GROUP_SIZE={group}"]


def commands(options, shape, name):
    """Side -> command line, of all that have this format; this engine first."""
    directory = options.home / shape
    ours, name = name, THEIRS.get(name, name)
    gguf = directory / f"{GGUF_OF[name]}.gguf" if name in GGUF_OF else None
    room = max(PREFILL, options.context) + 512
    sides = {OURS: [options.binary, "bench", "steps", "-m", directory, "--dtype", ours, "--threads", options.threads,
                    "--context", room]}
    if "llama.cpp" in options.engines and gguf:
        sides["llama.cpp"] = [options.home / "llama_steps", gguf, options.threads, room]
    if "openvino" in options.engines:
        sides["openvino"] = openvino_command(options, shape, name)
    if "pytorch" in options.engines and name == "bf16":
        sides["pytorch"] = [sys.executable, HERE / "torch_steps.py", directory, options.threads]
    for label, command in options.peer:
        if gguf or "{gguf}" not in command:
            sides[label] = shlex.split(command.format(directory=directory, gguf=gguf, shape=shape, format=name,
                                                      threads=options.threads, context=room))
    return {label: [str(word) for word in command] for label, command in sides.items()}


class Side:
    # Huge pages for their weights, as this engine asks for.
    ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1"}

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **({} if name == OURS else self.ENVIRONMENT)))

    def wait_until_ready(self):
        word, n_bytes = self.read_line().split()
        assert word == "ready"
        self.weight_bytes = int(n_bytes)

    def read_line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"peers: {self.name} ended with status {self.process.wait()}: {shlex.join(self.process.args)}")
        return line

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return float(self.read_line())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(sides, context, rounds, progress):
    """Milliseconds by cell and side, a list over rounds; "read" is the bare read behind our decode."""
    taken = {cell: {side.name: [] for side in sides} for cell in ["prefill", *CELLS]} | {"read": {OURS: []}}
    for round_number in range(rounds + 1):
        progress(round_number)
        first = round_number % len(sides)   # no side always runs after the same one
        order, got = sides[first:] + sides[:first], []
        for side in order:
            time.sleep(SETTLE_S)
            got.append(("prefill", side.name, side.ask(f"begin {PREFILL}")))
            side.ask(f"begin {context}")
        for cell, (request, n_passes) in CELLS.items():
            for side in order:
                time.sleep(SETTLE_S)
                side.ask(f"{request} 1")
                got.append((cell, side.name, side.ask(f"{request} {n_passes}") / n_passes))
                if cell == "decode" and side.name == OURS:
                    got.append(("read", OURS, side.ask("read")))
        if round_number > 0:   # the first warms up
            for cell, name, ms in got:
                taken[cell][name].append(ms)
    return taken


def summarise(taken, sides):
    """Cell -> side -> ms and theirs by ours; and of each cell the best of the others."""
    cells = {}
    for cell, of_side in taken.items():
        ours = of_side[OURS]
        cells[cell] = {name: dict(ms=statistics.median(ms), ratio=statistics.median(b / a for a, b in zip(ours, ms)))
                       for name, ms in of_side.items()}
    cells["decode"][OURS]["of_read"] = statistics.median(
        read / step for read, step in zip(taken["read"][OURS], taken["decode"][OURS]))
    best = {cell: min((entry["ratio"], name) for name, entry in of_side.items() if name != OURS)
            for cell, of_side in cells.items() if len(of_side) > 1}
    return dict(weight_bytes={side.name: side.weight_bytes for side in sides}, cells=cells, best=best)


def measure_row(options, shape, name):
    def progress(round_number):
        if sys.stderr.isatty():
            print(f"\rpeers: {shape} {name}, round {round_number} of {options.rounds}  ", end="", file=sys.stderr)

    sides = [Side(label, command) for label, command in commands(options, shape, name).items()]
    for side in sides:
        side.wait_until_ready()
    taken = measure(sides, options.context, options.rounds, progress)
    for side in sides:
        side.close()
    return dict(shape=shape, format=name) | summarise(taken, sides)


def print_table(rows):
    names = ["decode", "prefill", *(cell for cell in CELLS if cell.startswith("verify"))]
    print("ms; behind a colon the other's by ours, above 1 where this engine is ahead")
    print(f"| shape | weights | engine | {' | '.join(names)} |")
    print("|" + "---|" * (3 + len(names)))
    for row in rows:
        cells = row["cells"]
        head = [row["shape"], row["format"]]
        for side in row["weight_bytes"]:
            entries = [cells[name][side] for name in names]
            texts = [f"{e['ms']:.3g}" if side == OURS else f"{e['ms']:.3g}: {e['ratio']:.2f}" for e in entries]
            print("| " + " | ".join(head + [side] + texts) + " |")
            head = ["", ""]
        if row["best"]:   # else no other engine has this format
            print("| " + " | ".join(head + ["best of them"] + [f"{row['best'][name][0]:.2f}" for name in names]) + " |")
    for row in rows:
        decode = row["cells"]["decode"][OURS]
        print(f"{row['shape']} {row['format']}: decode at {decode['of_read']:.2f} of a bare read of the weights")


def processor():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def versions(home):
    commit = home / "llama.cpp.commit"
    found = {"llama.cpp": commit.read_text().strip()[:9]} if commit.exists() else {}
    for package in ("openvino", "nncf", "torch", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def report(options, rows):
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print_table(rows)
    found = versions(options.home)
    print(", ".join(f"{name} {version}" for name, version in found.items()))
    if options.json:
        document = dict(when=time.strftime("%F %T"), processor=processor(), threads=options.threads,
                        context=options.context, versions=found, rows=rows)
        options.json.write_text(json.dumps(document, indent=1) + "\n")


def words(text):
    return [word for word in text.split(",") if word]


def engines(text):
    unknown = [word for word in words(text) if word not in ENGINES]
    if unknown:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]}, expected some of {','.join(ENGINES)}")
    return words(text)


def peer(text):
    label, equals, command = text.partition("=")
    if not label or not equals or label in (OURS, *ENGINES):
        raise argparse.ArgumentTypeError(f"\"{text}\", expected NAME=COMMAND, and a name that no side has yet")
    return label, command


def count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"\"{text}\", expected a whole number, at least 1")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("home", type=pathlib.Path)
    parser.add_argument("--shapes", type=words, default=["1b", "68m"])
    parser.add_argument("--formats", type=words, default=list(GGUF_OF))
    parser.add_argument("--engines", type=engines, default=ENGINES)
    parser.add_argument("--peer", type=peer, action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--threads", type=count, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=count, default=12)
    parser.add_argument("--context", type=count, default=128)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures there too")
    options = parser.parse_args()

    rows = []
    try:
        for shape, name in itertools.product(options.shapes, options.formats):
            rows.append(measure_row(options, shape, name))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:   # a side that fails at the last row, or Ctrl-C, costs no other row
        if rows:
            report(options, rows)


main()
