"""Tokens a second of AutoModelForCausalLM and of transformers on the CPU, in turns, on the same threads.

Run as: causal_lm_speed.py BINARY [MODEL [N_NEW [TURNS [THREADS]]]]; by default the bundled target, 96 tokens, 7 turns, as many threads as
torch takes. A line for each format: medians of the turns, and the median of the turns' ratios.
"""

import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tree_paths  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from pilotfish import AutoModelForCausalLM  # noqa: E402

PROMPT = 16


def tokens_per_second(model, prompt, n_new):
    """Of a whole call, its prompt included."""
    began = time.perf_counter()
    text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n_new, do_sample=False, eos_token_id=None,
                          pad_token_id=0)
    return (text.shape[1] - prompt.shape[1]) / (time.perf_counter() - began)


def main():
    os.environ["PILOTFISH_LIBRARY"] = str(Path(sys.argv[1]).resolve().parent / "libpilotfish.so.0")
    model = sys.argv[2] if len(sys.argv) > 2 else str(tree_paths.ROOT / "models" / "target")
    n_new, turns = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((3, 96), (4, 7)))
    if len(sys.argv) > 5:
        torch.set_num_threads(int(sys.argv[5]))
    n_threads = torch.get_num_threads()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).eval()
    ours = {"BF16": AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16, threads=n_threads),
            "INT4": AutoModelForCausalLM.from_pretrained(model, load_in_4bit=True, threads=n_threads)}
    prompt = torch.randint(2, theirs.config.vocab_size, (1, PROMPT), generator=torch.Generator().manual_seed(1))
    found = {name: [] for name in ("transformers BF16", *ours)}
    for turn in range(turns + 1):
        # The first turn warms up. Its prompts differ, so that no sequence is kept from the turn before.
        prompt = (prompt + 1) % theirs.config.vocab_size
        for name, runs in {"transformers BF16": theirs, **ours}.items():
            found[name].append(tokens_per_second(runs, prompt, n_new))
    for name in found:
        ratios = [a / b for a, b in zip(found[name][1:], found["transformers BF16"][1:])]
        print(f"{name}: {statistics.median(found[name][1:]):.1f} tokens a second, x {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"transformers {transformers.__version__}, torch {torch.__version__} on {n_threads} threads, {model}, {n_new} "
          f"tokens, {turns} turns; {ours['BF16'].details}")


if __name__ == "__main__":
    main()
