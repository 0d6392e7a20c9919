"""Tokens a second of llama-server alone, with its own draft model and with a Pilotfish worker, in turns.

Run as: llamacpp_speed.py BINARY BUILD MODELS [TURNS [N_NEW [THREADS]]]; by default 5 turns, 128 tokens and one thread of llama.cpp. All
drafts are the bundled one, in the format of MODELS/draft.gguf, or in INT8 at the worker; four tokens long, or as long as the worker chooses. The
four servers are up at once and answer the same prompts one after the other, so that what else the machine does meets all of them.
"""

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import llamacpp_stack_test as stack  # noqa: E402
from command_line import Pilotfish  # noqa: E402


def measure(server, prompts, n_new):
    """Tokens a second of decoding and the acceptance rate; the texts."""
    seconds, n, drafted, accepted, texts = 0.0, 0, 0, 0, []
    for prompt in prompts:
        answer = server.complete(prompt, n_new)
        timings = answer["timings"]
        seconds += timings["predicted_ms"] / 1e3
        n += timings["predicted_n"]
        drafted += timings.get("draft_n", 0)
        accepted += timings.get("draft_n_accepted", 0)
        texts.append(answer["tokens"])
    return n / seconds, accepted / drafted if drafted else 0.0, texts


def main():
    stack.BUILD, stack.MODELS = Path(sys.argv[2]), Path(sys.argv[3])
    turns, n_new, threads = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((4, 5), (5, 128), (6, 1)))
    with tempfile.TemporaryDirectory() as home:
        pilotfish = Pilotfish(sys.argv[1], home)
        prompts = [pilotfish.run("tokenize", "-m", stack.BUNDLED / "target", "-p", p, "--json").json["tokens"] for p in stack.PROMPTS]
        worker = pilotfish.serve("worker", stack.BUNDLED / "draft", f"unix:{home}/w.sock", "--dtype", "int8", "--head", "screened",
                                 "--threads", "1")
        common = ["--threads", threads, "--spec-draft-n-max", stack.MAX_DRAFT]
        pilotfish_drafts = ["--spec-type", "pilotfish", "--spec-pilotfish-address", worker.address]
        servers = {
            "alone": stack.LlamaServer(home, "--threads", threads),
            "draft-simple": stack.LlamaServer(home, *common, "--spec-type", "draft-simple", "-md", stack.MODELS / "draft.gguf"),
            "pilotfish": stack.LlamaServer(home, *common, *pilotfish_drafts),
            "pilotfish, adaptive": stack.LlamaServer(home, *common, *pilotfish_drafts, "--spec-pilotfish-adaptive"),
        }
        found = {name: [] for name in servers}
        same = {name: 0 for name in servers}
        for turn in range(turns + 1):   # the first warms up
            for name, server in servers.items():
                found[name].append(measure(server, prompts, n_new))
                if turn > 0:
                    same[name] += sum(a == b for a, b in zip(found[name][-1][2], found["alone"][-1][2]))
        for server in servers.values():
            server.end()
        worker.end()
    for name, runs in found.items():
        ratios = [a[0] / b[0] for a, b in zip(runs[1:], found["alone"][1:])]
        print(f"{name}: {statistics.median(r[0] for r in runs[1:]):.1f} tokens a second, x {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f}), acceptance {runs[-1][1]:.3f}, {same[name]} of {turns * len(prompts)} texts equal")


if __name__ == "__main__":
    main()
