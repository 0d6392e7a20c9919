#!/usr/bin/env python3
"""Measures drafting ahead with the bundled pair, and writes docs/data/draft_ahead*.csv.

    ahead.py [--binary build/release/pilotfish] [--only turns,shared,fan-out,many,chat] [--machine zen5-2] [--prompts 6]

turns    one sequence, a worker that drafts ahead and one that does not in turns, prompt by prompt: speed-up, rate of hits, what the
         formula gives at that rate, and the time from a verdict to the proposal of a hit
shared   the same with the target on the same cores, which takes the time that it takes
fan-out  rate of hits by the number of branches
many     16 sequences of the HTTP server with the bundled target; 64 of a simulated deployment in virtual time
chat     ten turns through --draft-worker: the tokens that the worker reads in each

Only the standard library. Texts are compared: drafting ahead must not change them.
"""
import argparse
import concurrent.futures
import contextlib
import csv
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET, DRAFT = ROOT / "models/target", ROOT / "models/draft"
K, DRAFT_MS, VERIFY_MS = 5, 3, 20
N_TEXTS = 16
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.n = options, pathlib.Path(folder), 0

    def run(self, *words, **kinds):
        done = subprocess.run([self.options.binary, *map(str, words)], capture_output=True, text=True, check=True, **kinds)
        return done.stdout

    def socket(self):
        self.n += 1
        return f"unix:{self.folder / str(self.n)}"

    @contextlib.contextmanager
    def serve(self, command, model, *words):
        """The lines that it prints once it is ready."""
        with subprocess.Popen([self.options.binary, command, "-m", str(model), *map(str, words)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            try:
                yield process.stdout.readline().split()[1], process
            finally:
                process.terminate()
                process.communicate()

    def worker(self, *words):
        return self.serve("worker", DRAFT, "--listen", self.socket(), *words)

    def generate(self, worker, prompt, *words):
        return json.loads(self.run("generate", "-m", TARGET, "--draft-worker", worker, "-p", prompt, "--ignore-eos", "--json",
                                   "-n", self.options.tokens, *words))

    def write(self, name, columns, command, rows):
        commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        head = [datetime.date.today().isoformat(), self.options.machine, commit, command]
        with open(ROOT / f"docs/data/{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["date", "machine", "commit", "command", *columns])
            for row in rows:
                writer.writerow([*head, *row])
                print(name, *row, sep="  ", flush=True)


def prompts(n):
    lines = (ROOT / "models/prompts.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip()][:n]


def rate_of(documents):
    """Tokens a second behind the first ones."""
    return sum(len(d["tokens"]) - 1 for d in documents) / sum(d["timing"]["decode_ms"] for d in documents) * 1000


def hits_of(documents):
    hits = sum(d["speculation"]["ahead_hits"] for d in documents)
    return hits, sum(d["speculation"]["ahead_misses"] for d in documents)


def in_turns(bench, simulated):
    words = ["--simulate-step-ms", VERIFY_MS] if simulated else []
    draft = ["--simulate-token-ms", DRAFT_MS] if simulated else []
    found = {"off": [], "on": []}
    with bench.worker("--draft-ahead", "off", *draft) as (off, _), bench.worker("--draft-ahead", "on", *draft) as (on, _):
        sides = [("off", off), ("on", on)]
        for _, address in sides:
            bench.generate(address, "Once upon a time", "--draft-len", K, *words)
        for i, prompt in enumerate(prompts(bench.options.prompts)):
            texts = set()
            for name, address in sides if i % 2 == 0 else reversed(sides):
                document = bench.generate(address, prompt, "--draft-len", K, *words)
                found[name].append(document)
                texts.add(tuple(document["tokens"]))
            assert len(texts) == 1, f"drafting ahead changed the text of prompt {i}"
    return found


def measure_turns(bench):
    rows = []
    for setting, simulated in (("20 ms, 3 ms", True), ("target on the same cores", False)):
        if ("turns" if simulated else "shared") not in bench.options.only:
            continue
        found = in_turns(bench, simulated)
        hits, misses = hits_of(found["on"])
        ratios = sorted(rate_of([a]) / rate_of([b]) for a, b in zip(found["on"], found["off"]))
        h = hits / max(hits + misses, 1)
        alone = VERIFY_MS + K * DRAFT_MS
        formula = alone / (h * max(VERIFY_MS, (K + 1) * DRAFT_MS) + (1 - h) * alone) if simulated else None
        speedup = rate_of(found["on"]) / rate_of(found["off"])
        hit_us = [d["speculation"]["hit_us"] for d in found["on"] if d["speculation"]["hit_us"]["p50"] is not None]
        rows.append([setting, f"{rate_of(found['off']):.1f}", f"{rate_of(found['on']):.1f}", f"{speedup:.2f}", f"{ratios[0]:.2f}",
                     f"{ratios[-1]:.2f}", f"{h:.3f}" if hits + misses else "", f"{formula:.2f}" if formula else "",
                     f"{speedup / formula:.2f}" if formula else "",
                     f"{statistics.median(u['p50'] for u in hit_us):.0f}" if hit_us else "",
                     f"{statistics.median(u['p99'] for u in hit_us):.0f}" if hit_us else ""])
    bench.write("draft_ahead", ["setting", "off, tokens/s", "on, tokens/s", "speed-up", "lowest", "highest", "rate of hits", "formula",
                                "of the formula", "hit, us at p50", "hit, us at p99"],
                f"ahead.py --only turns,shared --prompts {bench.options.prompts} (-n {bench.options.tokens} --draft-len {K})", rows)


def measure_fan_out(bench):
    rows = []
    for branches in (1, 2, 4, 8, 12, 16):
        with bench.worker("--draft-ahead", "on", "--draft-branches", branches, "--simulate-token-ms", DRAFT_MS) as (worker, _):
            documents = [bench.generate(worker, p, "--draft-len", K, "--simulate-step-ms", VERIFY_MS)
                         for p in prompts(max(3, bench.options.prompts // 2))]
        hits, misses = hits_of(documents)
        rows.append([branches, hits, misses, f"{hits / max(hits + misses, 1):.3f}", f"{rate_of(documents):.1f}"])
    bench.write("draft_ahead_fan_out", ["branches", "hits", "misses", "rate of hits", "tokens/s"], "ahead.py --only fan-out", rows)


def metrics_of(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode()
    values = {}
    for name, value in re.findall(r"^([\w:]+)\{.*?\} ([0-9.e+]+)$", lines, re.MULTILINE):
        values[name] = values.get(name, 0.0) + float(value)
    return values


def measure_served(bench, n_at_once):
    """N_TEXTS requests, so many at once: the share of rounds behind the first token that had a proposal, tokens a round, tokens/s."""
    with bench.worker("--draft-ahead", "on", "--simulate-token-ms", DRAFT_MS) as (worker, _), \
            bench.serve("serve", TARGET, "--listen", "127.0.0.1:0", "--draft-worker", worker, "--draft-len", K, "--simulate-step-ms",
                        VERIFY_MS, "--max-sequences", n_at_once) as (address, _):
        def complete(prompt):
            body = json.dumps({"prompt": prompt, "max_tokens": bench.options.tokens, "temperature": 0, "ignore_eos": True}).encode()
            request = urllib.request.Request(f"http://{address}/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)
        texts = prompts(N_TEXTS)
        complete(texts[0])
        before, begin = metrics_of(address), time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(n_at_once) as pool:
            list(pool.map(complete, texts))
        took = time.monotonic() - begin
        after = metrics_of(address)
    grown = {name: after[name] - before.get(name, 0.0) for name in after}
    drafts, accepted = grown["vllm:spec_decode_num_drafts_total"], grown["vllm:spec_decode_num_accepted_tokens_total"]
    rounds = grown["vllm:generation_tokens_total"] - accepted - N_TEXTS
    return drafts / rounds, 1 + accepted / drafts, grown["vllm:generation_tokens_total"] / took


def measure_many(bench):
    rows = []
    alone = measure_served(bench, 1)
    for n, (share, length, rate) in ((1, alone), (N_TEXTS, measure_served(bench, N_TEXTS))):
        rows.append(["bundled target, 20 ms", n, f"{share:.3f}", f"{length:.2f}", f"{length / alone[1]:.3f}", f"{rate:.1f}"])
    document = json.loads(bench.run("bench", "acceptance", "--simulate", "--simulate-batch", "1,16,64", "--draft-len", K, "--json"))
    points = document["simulated"]
    for p in points:
        s, one = p["speculation_ahead"], points[0]["speculation_ahead"]
        share = s["rounds"] / (s["rounds"] + s["fallback_rounds"])
        rows.append(["synthetic, 20 ms, acceptance 0.8, virtual time", p["batch"], f"{share:.3f}", f"{s['mean_accepted_length']:.2f}",
                     f"{s['mean_accepted_length'] / one['mean_accepted_length']:.3f}",
                     f"{p['speedup_ahead'] * p['plain_tokens_per_s']:.1f}"])
    bench.write("draft_ahead_many", ["verifier", "sequences", "rounds with a proposal", "mean accepted length", "of one alone", "tokens/s"],
                "ahead.py --only many", rows)


def measure_chat(bench):
    template = bench.folder / "template"
    template.write_text(TEMPLATE)
    rows = []
    with bench.worker("--draft-ahead", "on", "--metrics", "127.0.0.1:0") as (worker, process):
        line = process.stderr.readline() if process else ""
        metrics = re.search(r"127\.0\.0\.1:\d+", line)[0]
        chat = subprocess.Popen([bench.options.binary, "chat", "-m", str(TARGET), "--draft-worker", worker, "--chat-template",
                                 str(template), "-n", "32", "--ignore-eos"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL)
        last = {}
        for turn in range(1, 11):
            chat.stdin.write(f"Tell me more about the sea, part {turn}.\n".encode())
            chat.stdin.flush()
            said = time.monotonic()
            values = metrics_of(metrics)
            while time.monotonic() - said < 60:   # the sequence is kept: the turn is over once nothing more is generated
                time.sleep(0.5)
                now = metrics_of(metrics)
                if now["vllm:generation_tokens_total"] == values["vllm:generation_tokens_total"] > last.get("vllm:generation_tokens_total", -1):
                    break
                values = now
            grown = {name: now[name] - last.get(name, 0.0) for name in now}
            prompt, cached = grown["vllm:prefix_cache_queries_total"], grown["vllm:prefix_cache_hits_total"]
            rows.append([turn, f"{prompt:.0f}", f"{cached:.0f}", f"{prompt - cached:.0f}"])
            last = now
        chat.stdin.close()
        chat.wait(60)
    bench.write("draft_ahead_chat", ["turn", "tokens of the prompt", "in the cache", "read"], "ahead.py --only chat", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/pilotfish")
    parser.add_argument("--only", type=lambda text: text.split(","), default=["turns", "shared", "fan-out", "many", "chat"])
    parser.add_argument("--machine", default="zen5-2")
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=128)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        if {"turns", "shared"} & set(options.only):
            measure_turns(bench)
        for name, measure in (("fan-out", measure_fan_out), ("many", measure_many), ("chat", measure_chat)):
            if name in options.only:
                measure(bench)


if __name__ == "__main__":
    main()
