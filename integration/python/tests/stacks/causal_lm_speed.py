"""Tokens a second of AutoModelForCausalLM and of transformers on the CPU, in turns, on the same threads.

Run as: causal_lm_speed.py BINARY [MODEL [N_NEW [TURNS [THREADS]]]]; by default the bundled target, 96 tokens, 7 turns, as many threads as
torch takes. MODEL is a folder, a GGUF file, `smollm2` (the published file of `./dev test real`) or `1b` (a Llama of 1.0 billion weights drawn by
torch, written to a folder for the time of the run). Whole calls, and decoding alone: the time of a call less that of one which makes a
single token; this of core time, too, which other work on the machine hardly changes. A line for each format: medians of the turns, and the
median of the turns' ratios.
"""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tree_paths  # noqa: E402
import real_gguf  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from pilotfish import AutoModelForCausalLM  # noqa: E402

PROMPT = 16
SHAPE_1B = {"vocab_size": 32000, "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
            "intermediate_size": 8192, "max_position_embeddings": 4096, "tie_word_embeddings": True}


@contextlib.contextmanager
def model_at(name):
    """The path of the model, and what transformers' from_pretrained takes for it."""
    with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as folder:
        if name == "1b":
            torch.manual_seed(1)
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE_1B)).to(torch.bfloat16)
            model.save_pretrained(folder)
            name = folder
            del model
        path = real_gguf.fetch() if name == "smollm2" else Path(name)
        if path.suffix == ".gguf":
            yield path, {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        else:
            yield path, {"pretrained_model_name_or_path": str(path)}


def seconds(model, prompt, n_new):
    """Of a call that makes `n_new` tokens: wall time and core time."""
    began = time.perf_counter(), time.process_time()
    text = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=n_new, do_sample=False, eos_token_id=None,
                          pad_token_id=0)
    assert text.shape[1] - prompt.shape[1] == n_new
    return time.perf_counter() - began[0], time.process_time() - began[1]


def tokens_per_second(model, prompt, n_new):
    """Of a whole call, its prompt included; of its decoding; and of that by core time. The shorter call has another prompt, so that none
    is kept."""
    first = seconds(model, (prompt + 7) % 1000 + 2, 1)
    whole = seconds(model, prompt, n_new)
    return n_new / whole[0], *((n_new - 1) / max(w - f, 1e-9) for w, f in zip(whole, first))


def measure(name, n_new, turns):
    n_threads = torch.get_num_threads()
    with model_at(name) as (path, where):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16).eval()
        runs = {"transformers BF16": theirs,
                "BF16": AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16, threads=n_threads),
                "INT4": AutoModelForCausalLM.from_pretrained(path, load_in_4bit=True, threads=n_threads)}
    prompt = torch.randint(2, 1000, (1, PROMPT), generator=torch.Generator().manual_seed(1))
    found = {run: [] for run in runs}
    for turn in range(turns + 1):
        # The first turn warms up. Its prompts differ, so that no sequence is kept from the turn before.
        prompt = (prompt + 1) % 1000 + 2
        for run, model in runs.items():
            found[run].append(tokens_per_second(model, prompt, n_new))
    for run in found:
        for i, what in enumerate(("whole calls", "decoding", "decoding by core time")):
            ratios = [a[i] / b[i] for a, b in zip(found[run][1:], found["transformers BF16"][1:])]
            print(f"{run}, {what}: {statistics.median(f[i] for f in found[run][1:]):.1f} tokens a second, x "
                  f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"transformers {transformers.__version__}, torch {torch.__version__} on {n_threads} threads, {name}, {n_new} tokens, {turns} turns, "
          f"load {os.getloadavg()[0]:.1f}; {runs['BF16'].details}")


def main():
    os.environ["PILOTFISH_LIBRARY"] = str(Path(sys.argv[1]).resolve().parent / "libpilotfish.so.0")
    name = sys.argv[2] if len(sys.argv) > 2 else str(tree_paths.ROOT / "models" / "target")
    n_new, turns = (int(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((3, 96), (4, 7)))
    if len(sys.argv) > 5:
        torch.set_num_threads(int(sys.argv[5]))
    measure(name, n_new, turns)


if __name__ == "__main__":
    main()
