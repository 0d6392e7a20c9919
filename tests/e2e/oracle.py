#!/usr/bin/env python3
"""Compares pilotfish with transformers: `./dev test oracle`.

The bundled pair and fresh random variants (tests/golden/llama_variants.py) go through `pilotfish logits`, `generate` and
`tokenize`, and through transformers in float32. Demanded: every logit within 1e-4 of the largest one, the same greedy
tokens, the same token ids of the same text and the same text of ids, by random tokenizers (random_tokenizers.py) and whatever the files beside
tokenizer.json say (side_files.py). A greedy token may differ only where the two best logits are a near tie.

The Python packages are large: tests/oracle/capable.py installs them where they are missing.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from random import Random

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from capable import become_capable  # noqa: E402

TOLERANCE = 1e-4
ISAS = ["scalar", "avx2", "avx512", "avx512bf16", "amx"]


class Pilotfish:
    def __init__(self, binary):
        self.binary = binary

    def json(self, *arguments, stdin=None):
        done = subprocess.run([self.binary, *map(str, arguments), "--json"], input=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"pilotfish {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def has(self, isa):
        return subprocess.run([self.binary, "info", "--isa", isa], capture_output=True, check=False).returncode == 0


def ids(tokens):
    return ",".join(map(str, tokens))


def compare_logits(what, pilotfish, directory, tokens, expected, *options):
    import torch
    rows = pilotfish.json("logits", "-m", directory, "--tokens", ids(tokens), "--all", "--dtype", "f32", *options)["logits"]
    found = torch.tensor(rows, dtype=torch.float64)
    assert found.shape == expected.shape, f"{what}: {tuple(found.shape)} logits, expected {tuple(expected.shape)}"
    error = (found - expected.double()).abs().max().item() / expected.abs().max().item()
    assert error <= TOLERANCE, f"{what}: off by {error:.3g} of the largest logit, at most {TOLERANCE:g} expected"
    return error


def compare_greedy(what, pilotfish, directory, model, tokens, n, *options):
    """Feeds pilotfish's text to transformers: each token must be its argmax, or nearly tied with it."""
    made = pilotfish.json("generate", "-m", directory, "--tokens", ids(tokens), "-n", n, "--ignore-eos", "--dtype", "f32",
                          *options)["tokens"]
    assert len(made) == n, f"{what}: {len(made)} tokens, expected {n}"
    from llama_variants import transformers_logits
    logits = transformers_logits(model, list(tokens) + made[:-1])[len(tokens) - 1:]
    ties = 0
    for i, token in enumerate(made):
        best = int(logits[i].argmax())
        if best == token:
            continue
        behind = (logits[i, best] - logits[i, token]).item()
        assert behind < 2 * TOLERANCE * logits.abs().max().item(), \
            f"{what}: greedy token {i} is {token}, transformers has {best}, ahead by {behind:.3g}"
        ties += 1
    return ties


def check_bundled(pilotfish, isas, n_prompts):
    from transformers import AutoTokenizer
    from llama_variants import load_in_transformers, transformers_logits
    lines = (ROOT / "models" / "prompts.txt").read_text().splitlines()
    prompts = [line for line in lines if line.strip()]
    prompts = prompts[::max(1, len(prompts) // n_prompts)][:n_prompts]
    for name in ("target", "draft"):
        directory = ROOT / "models" / name
        model, tokenizer = load_in_transformers(directory), AutoTokenizer.from_pretrained(str(directory))
        worst, ties = 0.0, 0
        for i, prompt in enumerate(prompts):
            what = f"models/{name}, prompt {i}"
            tokens = pilotfish.json("tokenize", "-m", directory, "-p", prompt)["tokens"]
            assert tokens == tokenizer(prompt)["input_ids"], f"{what}: the token ids differ"
            isa = isas[i % len(isas)]
            worst = max(worst, compare_logits(what, pilotfish, directory, tokens, transformers_logits(model, tokens),
                                              "--isa", isa))
            ties += compare_greedy(what, pilotfish, directory, model, tokens, 64, "--isa", isa)
        print(f"models/{name}: {len(prompts)} prompts, logits within {worst:.2g} of the largest, "
              f"64 greedy tokens each, {ties} near ties")


def check_variants(pilotfish, isas, seed):
    from llama_variants import VARIANTS, load_in_transformers, make_variant
    for i, name in enumerate(VARIANTS):
        with tempfile.TemporaryDirectory() as scratch:
            _, tokens, expected, greedy, _ = make_variant(name, pathlib.Path(scratch) / name, seed + i)
            directory = f"{scratch}/{name}"
            context = ("--context", len(tokens) + len(greedy))
            worst = max(compare_logits(f"{name} on {isa}", pilotfish, directory, tokens, expected, "--isa", isa, *context)
                        for isa in isas)
            if greedy:
                model = load_in_transformers(directory)
                compare_greedy(name, pilotfish, directory, model, tokens, len(greedy), *context)
            print(f"{name}: logits within {worst:.2g} of the largest on {', '.join(isas)}")


def compare_ids(what, pilotfish, directory, text, files, encode):
    """A text's ids, with the special tokens that are added (encode(True)) and without."""
    for option, special in (((), True), (("--no-special",), False)):
        found = pilotfish.json("tokenize", "-m", directory, *option, stdin=text.encode())["tokens"]
        expected = encode(special)
        assert found == expected, f"{what}: {text!r}: {found}, expected {expected}: {files}"


def check_side_files(pilotfish, seed, n):
    """Compares the ids of texts with random files beside tokenizer.json."""
    import side_files
    from transformers import AutoTokenizer
    random = Random(seed)
    for i in range(n):
        with tempfile.TemporaryDirectory() as scratch:
            directory = pathlib.Path(scratch)
            side_files.Maker(random).write(directory, json.loads((ROOT / "models" / "target" / "tokenizer.json").read_text()))
            tokenizer = AutoTokenizer.from_pretrained(scratch)
            for text in side_files.make_texts(random, 4):
                files = {f.name: f.read_text() for f in directory.iterdir() if f.name != "tokenizer.json"}
                compare_ids(f"side files {i}", pilotfish, directory, text, files,
                            lambda special: tokenizer(text, add_special_tokens=special)["input_ids"])
    print(f"{n} directories of random files beside tokenizer.json: the same ids")


def compare_texts(what, pilotfish, directory, tokens, expected, files):
    """The text of ids, without bytes that the library decodes to no character."""
    if not tokens or "\ufffd" in expected:
        return
    found = pilotfish.json("detokenize", "-m", directory, "--tokens", ids(tokens))["text"]
    assert found == expected, f"{what}: {tokens}: {found!r}, expected {expected!r}: {files}"


def check_tokenizers(pilotfish, kind, seed, n):
    """Compares the ids of texts, and the texts of ids, for all kinds of tokenizers."""
    import random_tokenizers
    random = Random(seed)
    for i in range(n):
        with tempfile.TemporaryDirectory() as scratch:
            maker = getattr(random_tokenizers, kind)(random)
            tokenizer = maker.write(pathlib.Path(scratch) / "tokenizer.json")
            what = f"{kind} {i}"
            for text in [maker.text() for _ in range(4)]:
                compare_ids(what, pilotfish, scratch, text, tokenizer.to_str(),
                            lambda special: tokenizer.encode(text, add_special_tokens=special).ids)
                for tokens in (tokenizer.encode(text).ids, maker.ids(tokenizer, random.randint(1, 12))):
                    expected = tokenizer.decode(tokens, skip_special_tokens=False)
                    compare_texts(what, pilotfish, scratch, tokens, expected, tokenizer.to_str())
    print(f"{n} random tokenizers by {kind}: the same ids, and the same texts")


def main():
    become_capable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000, help="of the random variants")
    parser.add_argument("--prompts", type=int, default=12, help="of the bundled set")
    parser.add_argument("--side-files", type=int, default=100, help="directories of them")
    parser.add_argument("--tokenizers", type=int, default=200, help="random ones of each kind")
    arguments = parser.parse_args()

    sys.path.insert(0, str(ROOT / "tests" / "golden"))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(os.cpu_count() or 1)
    torch.set_grad_enabled(False)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, seed {arguments.seed}")

    pilotfish = Pilotfish(arguments.pilotfish)
    isas = [isa for isa in ISAS if pilotfish.has(isa)]
    assert "scalar" in isas
    check_side_files(pilotfish, arguments.seed, arguments.side_files)
    for kind in ("Maker", "CharacterMaker", "UnigramMaker"):
        check_tokenizers(pilotfish, kind, arguments.seed, arguments.tokenizers)
    check_variants(pilotfish, isas, arguments.seed)
    check_bundled(pilotfish, isas, arguments.prompts)


if __name__ == "__main__":
    try:
        main()
    except AssertionError as failure:
        sys.exit(f"oracle: {failure}")
