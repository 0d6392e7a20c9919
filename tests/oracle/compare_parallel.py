#!/usr/bin/env python3
"""Compares proposals of one pass and two with transformers: a part of `./dev test oracle`.

    python3 tests/oracle/compare_parallel.py --pilotfish build/release/pilotfish [--draft DIR] [--prompts N] [--tokens N]

The text is the target's greedy text. transformers is given, in float32, what a round begins with and K - 1 masks, and for two passes
the tokens of the first; it says how many tokens of the text each round would have accepted. The counts by position, over all
prompts, must be those of `pilotfish generate --draft-passes`, but for one in two hundred: near ties. A line for each number of
passes: the acceptance by position, given the ones before.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from capable import become_capable  # noqa: E402
from rounds import count_rounds  # noqa: E402

K = 6


def generate(binary, arguments, draft, prompt, passes):
    command = [binary, "generate", "-m", ROOT / "models" / "target", "-d", draft, "--tokens", ",".join(map(str, prompt)),
               "-n", arguments.tokens, "--ignore-eos", "--dtype", "f32", "--draft-dtype", "f32", "--draft-len", K,
               "--draft-passes", passes, "--json"]
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def propose(model, mask, text, k, passes):
    """The k tokens behind `text`: of one pass, or each predicted again behind them."""
    import torch
    with torch.no_grad():
        first = model(torch.tensor([text + [mask] * (k - 1)])).logits[0, -k:].argmax(-1).tolist()
        if passes == 1:
            return first
        return model(torch.tensor([text + first[:-1]])).logits[0, -k:].argmax(-1).tolist()


def compare(arguments, prompts, model, mask, passes):
    expected, found = ([0] * K, [0] * K), ([0] * K, [0] * K)
    for prompt in prompts:
        document = generate(arguments.pilotfish, arguments, arguments.draft, prompt, passes)
        s = document["speculation"]
        assert s["draft_passes"] <= passes * s["rounds"], f"{s['draft_passes']} passes for {s['rounds']} rounds"
        count_rounds(lambda text, k: propose(model, mask, text, k, passes), prompt, document["tokens"], K, *expected)
        found[0][0] += s["rounds"]
        found[1][0] += round(s["per_position"][0] * s["rounds"])
        found[1][1] += s["accepted"]   # in all positions
    for what, of_transformers, of_pilotfish in (("rounds", expected[0][0], found[0][0]),
                                                ("first tokens", expected[1][0], found[1][0]),
                                                ("tokens", sum(expected[1]), found[1][1])):
        assert abs(of_transformers - of_pilotfish) <= 1 + of_transformers / 200, \
            f"{passes} passes: {of_pilotfish} {what} accepted, by transformers {of_transformers}"
    shares = [100 * a / max(1, b) for a, b in zip(expected[1], [expected[0][0], *expected[1]])]
    print(f"{passes} passes: {expected[0][0]} rounds, given the ones before {' '.join(f'{x:.1f}' for x in shares)} %, "
          f"tokens a round {1 + sum(expected[1]) / expected[0][0]:.3f} by transformers, {1 + found[1][1] / found[0][0]:.3f} by pilotfish")


def main():
    become_capable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("--draft", type=pathlib.Path, default=ROOT / "models" / "draft-pard")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(arguments.draft, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "models" / "target")
    mask = json.loads((arguments.draft / "config.json").read_text())["pard_token"]
    lines = (ROOT / "models" / "prompts.txt").read_text().splitlines()[:arguments.prompts]
    prompts = [tokenizer(line)["input_ids"] for line in lines]
    for passes in (1, 2):
        compare(arguments, prompts, model, mask, passes)


if __name__ == "__main__":
    main()
