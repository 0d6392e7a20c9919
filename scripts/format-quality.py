#!/usr/bin/env python3
"""What each weight format costs in quality: perplexity and logits against F32, as a Markdown table.

    scripts/format-quality.py --pilotfish build/release/pilotfish -m models/target --tokens heldout.bin

The tokens are a file of 16-bit ids, such as the heldout.bin of models/train/prepare.py, or a text (--text FILE), cut into tokens
by the model's own tokenizer. Evenly spread windows are taken of them, and before each stands a BOS: id 0, and of a text what the
tokenizer puts there. Nothing but the standard library is used: the numbers come from `pilotfish logits --all`.

  perplexity   exp of the mean of -log p(next token)
  KL           mean over positions of sum p log(p / q), p of F32, in nats
  RMS error    of the logits, each row less its mean, as a share of the RMS of F32's
  same best    share of positions whose largest logit is the same token as in F32
"""
import argparse
import array
import json
import math
import subprocess
import sys

ACTIVATIONS = {"f32": ["auto"], "bf16": ["auto"]}
FORMATS = ["f32", "bf16", "int8", "int4", "int4-g128", "int4-channel", "int4-asym", "int4-asym-g128", "int4-asym-channel"]


def run(*arguments, stdin=subprocess.DEVNULL):
    done = subprocess.run([str(a) for a in arguments], stdin=stdin, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))[:200]}: {done.stderr.decode()}")
    return done.stdout


def tokenize(options, *arguments, **source):
    return json.loads(run(options.pilotfish, "tokenize", "-m", options.model, "--json", *arguments, **source))["tokens"]


def read_tokens(options):
    """What stands before a window, and the tokens."""
    if options.text:
        with open(options.text, "rb") as file:
            return tokenize(options, "-p", ""), tokenize(options, "--no-special", stdin=file)
    tokens = array.array("H")
    with open(options.tokens, "rb") as file:
        tokens.frombytes(file.read())
    if sys.byteorder == "big":
        tokens.byteswap()
    return [0], list(tokens)


def cut_windows(begin, tokens, n_windows, length):
    length = min(length, len(tokens))
    last = len(tokens) - length
    starts = sorted({last * i // max(1, n_windows - 1) for i in range(n_windows)})
    return [begin + tokens[start:start + length - len(begin)] for start in starts]


def read_rows(options, window, dtype, act):
    out = run(options.pilotfish, "logits", "-m", options.model, "--all", "--dtype", dtype, "--act", act, "--tokens",
              ",".join(map(str, window)))
    return [array.array("f", map(float, line.split())) for line in out.splitlines()]


def log_softmax(row):
    largest = max(row)
    total = math.log(sum(math.exp(x - largest) for x in row)) + largest
    return [x - total for x in row]


class Exact:
    """A row of F32's, and what every format is compared with."""

    def __init__(self, row):
        self.log_p = log_softmax(row)
        self.p = [math.exp(x) for x in self.log_p]
        self.best = self.log_p.index(max(self.log_p))
        self.mean = sum(self.log_p) / len(row)
        self.size = sum((x - self.mean) ** 2 for x in self.log_p)


class Figures:
    def __init__(self):
        self.n = self.nll = self.kl = self.error = self.size = self.same = 0

    def add_window(self, window, exact, rows):
        for i, (e, row) in enumerate(zip(exact, rows)):
            log_q = log_softmax(row)
            differences = [b - a for a, b in zip(e.log_p, log_q)]
            shift = sum(differences) / len(differences)
            self.kl -= sum(p * d for p, d in zip(e.p, differences))
            self.error += sum((d - shift) ** 2 for d in differences)
            self.size += e.size
            self.same += log_q.index(max(log_q)) == e.best
            self.n += 1
            if i + 1 < len(window):
                self.nll -= log_q[window[i + 1]]

    def row(self, dtype, act, n_next, base):
        perplexity = math.exp(self.nll / n_next)
        change = "" if base is None else f" ({100 * (perplexity / base - 1):+.2f} %)"
        print(f"| `{dtype}` | {act} | {perplexity:.3f}{change} | {self.kl / self.n:.5f} | "
              f"{100 * math.sqrt(self.error / self.size):.2f} % | {100 * self.same / self.n:.1f} % |", flush=True)
        return perplexity


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("-m", "--model", required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tokens", help="a file of 16-bit token ids")
    source.add_argument("--text", help="a file of text")
    parser.add_argument("--windows", type=int, default=8, help="spread evenly over the tokens")
    parser.add_argument("--length", type=int, default=512, help="tokens of a window")
    options = parser.parse_args()

    windows = cut_windows(*read_tokens(options), options.windows, options.length)
    n_next = sum(len(w) - 1 for w in windows)
    exact = [[Exact(row) for row in read_rows(options, window, "f32", "auto")] for window in windows]
    print(f"{len(windows)} windows, {n_next} tokens predicted\n")
    print("| weights | activations | perplexity | KL | RMS error | same best |\n|---|---|---|---|---|---|")
    base = None
    for dtype in FORMATS:
        for act in ACTIVATIONS.get(dtype, ["int8", "bf16"]):
            figures = Figures()
            for window, e in zip(windows, exact):
                figures.add_window(window, e, read_rows(options, window, dtype, act))
            perplexity = figures.row(dtype, dtype if act == "auto" else act, n_next, base)
            base = base or perplexity


if __name__ == "__main__":
    main()
