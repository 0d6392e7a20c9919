"""The line protocol of `pilotfish bench steps`, for an engine that is driven from Python.

serve(engine) prints `ready WEIGHT-BYTES`, then answers each line of standard input with milliseconds:

    begin TOKENS        forget everything, then read so many tokens; logits of the last one
    step ROWS PASSES    so many passes of so many rows, logits of every row; of each pass the first row is kept

An engine has weight_bytes, n_vocab, forget(), take(tokens, n_logits), which returns when the logits are there, and
keep(n): of the positions taken, the first n stay. Only take() is timed.
"""
import sys
import time

import numpy as np


class Server:
    def __init__(self, engine):
        self.engine, self.random, self.length = engine, np.random.default_rng(1), 0

    def take(self, n_rows, n_logits):
        tokens = self.random.integers(0, self.engine.n_vocab, n_rows)
        begin = time.perf_counter()
        self.engine.take(tokens, n_logits)
        return 1e3 * (time.perf_counter() - begin)

    def begin(self, n_tokens):
        self.engine.forget()
        self.length = n_tokens
        return self.take(n_tokens, 1)

    def step(self, n_rows, n_passes):
        ms = 0.0
        for _ in range(n_passes):
            ms += self.take(n_rows, n_rows)
            self.length += 1
            if n_rows > 1:
                self.engine.keep(self.length)
        return ms


def serve(engine):
    server = Server(engine)
    print("ready", engine.weight_bytes, flush=True)
    for line in sys.stdin:
        word, *numbers = line.split()
        answer = {"begin": server.begin, "step": server.step}[word](*map(int, numbers))
        print(f"{answer:.6f}", flush=True)
