#!/usr/bin/env python3
"""Compares the figures of `bench acceptance` with a plain computation by transformers: a part of `./dev test oracle`.

    python3 tests/oracle/compare_acceptance.py --pilotfish build/release/pilotfish [--prompts N] [--tokens N]

transformers makes the target's greedy text of each prompt, and the draft's most probable token behind each position of it, in float32. A
draft token counts where those before it are the text's, so these are the draft's greedy proposals as far as they matter. The rounds, the drafted and the accepted tokens and the acceptance to each position must be those of `bench acceptance` on the
same pair, prompts and lengths, but for near ties: one in a hundred.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from capable import become_capable  # noqa: E402
from rounds import count_rounds  # noqa: E402

LENGTHS = (1, 2, 4, 7)
TARGET, DRAFT = ROOT / "models" / "target", ROOT / "models" / "draft"


def measure(arguments, lines):
    """The runs of the bench, one a length."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompts:
        prompts.write("\n".join(lines) + "\n")
        prompts.flush()
        command = [arguments.pilotfish, "bench", "acceptance", "-m", TARGET, "-d", DRAFT, "--prompts", prompts.name, "-n", arguments.tokens,
                   "--draft-len", ",".join(map(str, LENGTHS)), "--dtype", "f32", "--draft-dtype", "f32", "--ignore-eos", "--json"]
        done = subprocess.run([str(x) for x in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"pilotfish bench acceptance: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["runs"]


def continue_text(model, text, n):
    """The n tokens that are the most probable, one after the other."""
    import torch
    given = torch.tensor([text])
    with torch.no_grad():
        made = model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=n, min_new_tokens=n, do_sample=False,
                              eos_token_id=None, pad_token_id=0)
    return made[0, len(text):].tolist()


def find_choices(model, text):
    """The most probable token behind each position."""
    import torch
    with torch.no_grad():
        return model(torch.tensor([text])).logits[0].argmax(-1).tolist()


def compare(run, texts, k):
    reached, accepted, rounds = [0] * k, [0] * k, 0
    for prompt, made, choices in texts:
        def propose(text, n, choices=choices):
            return choices[len(text) - 1:len(text) - 1 + n]
        rounds += count_rounds(propose, prompt, made, k, reached, accepted)
    s = run["speculation"]
    for what, expected, found in (("rounds", rounds, s["rounds"]), ("drafted tokens", sum(reached), s["drafted"]),
                                  ("accepted tokens", sum(accepted), s["accepted"])):
        assert abs(expected - found) <= 2 + expected / 100, f"length {k}: {found} {what}, by transformers {expected}"
    assert len(s["per_position"]) == k, f"length {k}: rates of {len(s['per_position'])} positions"
    for i, rate in enumerate(s["per_position"]):
        expected = accepted[i] / reached[i]
        assert abs(rate - expected) < 0.02, f"length {k}: {rate:.3f} accepted to position {i + 1}, by transformers {expected:.3f}"
    rate, length = sum(accepted) / sum(reached), 1 + sum(accepted) / rounds
    print(f"length {k}: {rounds} rounds, acceptance rate {rate:.4f} by transformers, {s['acceptance_rate']:.4f} by pilotfish, "
          f"mean accepted length {length:.3f} and {s['mean_accepted_length']:.3f}", flush=True)


def main():
    become_capable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    target, draft = (AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval() for path in (TARGET, DRAFT))
    tokenizer = AutoTokenizer.from_pretrained(TARGET)
    lines = (ROOT / "models" / "prompts.txt").read_text().splitlines()[:arguments.prompts]
    prompts = [tokenizer(line)["input_ids"] for line in lines]
    texts = [(prompt, continue_text(target, prompt, arguments.tokens)) for prompt in prompts]
    texts = [(prompt, made, find_choices(draft, prompt + made)) for prompt, made in texts]
    for run, k in zip(measure(arguments, lines), LENGTHS, strict=True):
        compare(run, texts, k)


if __name__ == "__main__":
    main()
