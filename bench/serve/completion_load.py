#!/usr/bin/env python3
"""Sends streaming completions to an OpenAI-compatible server, so many at once, and reports tokens a second and latencies.

    completion_load.py HOST:PORT [--concurrent 16] [--requests 32] [--in 128] [--out 128] [--prompts FILE] [--vocabulary 4000]

Every request is greedy, ignores the end of the text and has token ids as its prompt, different ones in each request: the server reads
every prompt. Ids come from FILE, one list of numbers a line, cut or repeated to the length, or are drawn with a fixed seed.

Reports: tokens/s (of the answers, over the time from the first request to the last answer), the time to the first event (TTFT), and the
time between two events of an answer, where a server sends a token an event. Both at p50 and p99, in ms.

Only the standard library. Events are counted as they come and not parsed: on a machine with few cores the client must cost little.
"""
import argparse
import asyncio
import json
import pathlib
import random
import re
import time

EVENT, TAIL = b"\ndata: ", 6


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Answer(asyncio.Protocol):
    """One request on a connection of its own."""

    def __init__(self, request, done):
        self.request, self.done = request, done
        self.sent_at = self.last_at = 0.0
        self.first, self.gaps, self.tail, self.n_events = None, [], b"\n", 0
        self.end = b""

    def connection_made(self, transport):
        self.sent_at = time.perf_counter()
        transport.write(self.request)

    def data_received(self, data):
        now = time.perf_counter()
        n = (self.tail + data).count(EVENT)
        self.tail = (self.tail + data[-TAIL:])[-TAIL:]
        self.end = (self.end + data)[-4096:]
        if n == 0:
            return
        if self.first is None:
            self.first = now - self.sent_at
            n -= 1
        else:
            self.gaps.append(now - self.last_at)
            n -= 1
        self.gaps.extend([0.0] * n)
        self.n_events += n + 1
        self.last_at = now

    def connection_lost(self, exception):
        if not self.done.done():
            self.done.set_result(self)

    def tokens(self):
        found = re.search(rb'"completion_tokens":\s*(\d+)', self.end)
        if not found:
            raise RuntimeError(f"no usage in the answer, which ends {self.end[-300:]!r}")
        return int(found[1])


def request_of(address, ids, n_out, more):
    body = json.dumps({"prompt": ids, "max_tokens": n_out, "temperature": 0, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}, **more})
    return (f"POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()


async def drive(address, requests, n_at_once):
    loop = asyncio.get_running_loop()
    host, port = address.rsplit(":", 1)
    waiting, answers = iter(requests), []

    async def one_after_another():
        for request in waiting:
            done = loop.create_future()
            await loop.create_connection(lambda r=request, d=done: Answer(r, d), host, int(port))
            answers.append(await done)

    begin = time.perf_counter()
    await asyncio.gather(*(one_after_another() for _ in range(n_at_once)))
    return time.perf_counter() - begin, answers


def draw_prompts(n, length, vocabulary, seed=1):
    draw = random.Random(seed)
    return [[draw.randrange(5, vocabulary) for _ in range(length)] for _ in range(n)]


def cut_prompts(lists, n, length):
    """As many prompts of this length, from the lists one behind another, each from another place."""
    every = [i for ids in lists for i in ids]
    return [[every[(k * 37 + i) % len(every)] for i in range(length)] for k in range(n)]


def measure(address, prompts, n_at_once, n_out=128, more=None):
    requests = [request_of(address, ids, n_out, more or {}) for ids in prompts]
    took, answers = asyncio.run(drive(address, requests, n_at_once))
    gaps = [g for a in answers for g in a.gaps]
    firsts = [a.first for a in answers]
    n_tokens = sum(a.tokens() for a in answers)
    if n_tokens != n_out * len(prompts):
        raise RuntimeError(f"{n_tokens} tokens, expected {n_out} of each of {len(prompts)} requests")
    return {"tokens_per_s": n_tokens / took, "ttft_p50_ms": 1e3 * percentile(firsts, 0.5), "ttft_p99_ms": 1e3 * percentile(firsts, 0.99),
            "gap_p50_ms": 1e3 * percentile(gaps, 0.5), "gap_p99_ms": 1e3 * percentile(gaps, 0.99),
            "events_a_token": sum(a.n_events for a in answers) / n_tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--concurrent", type=int, default=16)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--in", type=int, default=128, dest="n_in")
    parser.add_argument("--out", type=int, default=128)
    parser.add_argument("--prompts", type=pathlib.Path)
    parser.add_argument("--vocabulary", type=int, default=4000)
    options = parser.parse_args()
    if options.prompts:
        lists = [[int(w) for w in line.split()] for line in options.prompts.read_text().splitlines()]
        prompts = cut_prompts(lists, options.requests, options.n_in)
    else:
        prompts = draw_prompts(options.requests, options.n_in, options.vocabulary)
    print(json.dumps(measure(options.address, prompts, options.concurrent, options.out)))


if __name__ == "__main__":
    main()
