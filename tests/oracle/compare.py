#!/usr/bin/env python3
"""Compares pilotfish with the oracle of each family on fresh random models: a part of `./dev test oracle`.

    python3 tests/oracle/compare.py --pilotfish build/release/pilotfish [--family NAME] [--seed N] [--formats]

For prompts of 1, 7, 33 and 97 tokens every logit of `logits --dtype f32` must be within 1e-4 of the largest one, and each
of 24 greedy tokens after 33 must be the oracle's best, or tied with it. The text must be the same with an n-gram drafter, the
logits of other formats near, and those of the model as transformers 5 saves it the same. A report of one line a case: ok,
refused (the sentence), differs (where and by how much).
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from capable import become_capable  # noqa: E402
from engine import TOLERANCE, Engine, Refused, distance, ids  # noqa: E402

PROMPTS = (1, 7, 33, 97)
N_PROMPT, N_GREEDY = 33, 24
# Of the largest logit: what rounding may do to these tiny models, where it also decides between experts.
NEAR = {"bf16": 0.3, "f16": 0.1, "int8": 0.5, "int4": 1.5}


class Differs(Exception):
    pass


def compare_logits(engine, oracle, directory, tokens):
    worst = 0.0
    for n in PROMPTS:
        off = distance(oracle.logits(tokens[:n]).tolist(), engine.logits(directory, tokens[:n]))
        if off > TOLERANCE:
            raise Differs(f"a prompt of {n}: the logits are off by {off:.3g} of the largest")
        worst = max(worst, off)
    return worst


def compare_greedy(engine, oracle, directory, tokens):
    made = engine.greedy(directory, tokens, N_GREEDY)
    rows = oracle.logits(tokens + made[:-1])[len(tokens) - 1:]
    for i, (row, token) in enumerate(zip(rows, made, strict=True)):
        behind = float(row.max() - row[token]) / float(abs(rows).max())
        if behind > 2 * TOLERANCE:
            raise Differs(f"greedy token {i} is {token}, the oracle has {int(row.argmax())}, ahead by {behind:.3g}")
    drafted = engine.greedy(directory, tokens, N_GREEDY, "f32", "--drafter", "ngram", "--draft-len", 3)
    if drafted != made:
        raise Differs(f"with an n-gram drafter the text is {ids(drafted)}, expected {ids(made)}")


def compare_resaved(engine, oracle, directory, tokens):
    """The same model as transformers 5 saves it: its config spelling with every default written out, tensors in F32."""
    if not hasattr(oracle, "model"):
        return
    oracle.model.save_pretrained(directory / "resaved")
    off = distance(oracle.logits(tokens).tolist(), engine.logits(directory / "resaved", tokens))
    if off > TOLERANCE:
        raise Differs(f"as saved by transformers: the logits are off by {off:.3g} of the largest")


def distance_in_format(directory, expected, found):
    """The largest of all rows; with experts the median row's, since rounding may choose another expert in a few of them."""
    if "expert" not in (directory / "config.json").read_text():
        return distance(expected, found)
    return statistics.median(distance([e], [f]) for e, f in zip(expected, found, strict=True))


def compare_formats(engine, oracle, directory, tokens, formats):
    expected, found = oracle.logits(tokens).tolist(), []
    for name in formats:
        off = distance_in_format(directory, expected, engine.logits(directory, tokens, name))
        found.append(f"{name} {off:.2g}")
        if off > NEAR[name]:
            raise Differs(f"{name} logits are off by {off:.3g} of the largest")
    return ", ".join(found)


def check_reference(seed):
    """reference.py agrees with transformers where both have the family."""
    from families import CASES, LIVE
    from oracles import ByReference, moved, open_oracle, write_case
    for name in ("llama", "llama2", "yi", "qwen2", "glm", "codegen", "bloom"):
        with tempfile.TemporaryDirectory() as directory:
            write_case(name, directory, seed, LIVE)
            tokens = list(range(3, 100))
            expected = open_oracle(name, directory).logits(tokens)
            off = moved(expected, ByReference(directory, CASES[name].config(LIVE)).logits(tokens))
            assert off < TOLERANCE / 10, f"{name}: reference.py is off by {off:.3g} of the largest logit"


def report(name, engine, directory, seed, formats):
    """One line of the report, and whether it says ok."""
    import numpy as np
    from families import CASES, LIVE
    from oracles import open_oracle, write_case
    write_case(name, directory, seed, LIVE)
    oracle = open_oracle(name, directory)
    tokens = np.random.default_rng(seed).integers(3, LIVE.vocab, max(PROMPTS)).tolist()
    try:
        worst = compare_logits(engine, oracle, directory, tokens)
        if not CASES[name].length_dependent:
            compare_greedy(engine, oracle, directory, tokens[:N_PROMPT])
        compare_resaved(engine, oracle, directory, tokens[:N_PROMPT])
        return f"ok, within {worst:.2g}; {compare_formats(engine, oracle, directory, tokens[:N_PROMPT], formats)}", "ok"
    except Refused as sentence:
        return f"refused: {sentence}", "refused"
    except Differs as difference:
        return f"DIFFERS: {difference}", "differs"


def main():
    become_capable()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("--family", default="", help="cases that begin so (families.py --list)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--formats", default="bf16", help="also near in these, by commas: bf16,f16,int8,int4")
    parser.add_argument("--keep", type=pathlib.Path, help="write the models here, and keep them")
    arguments = parser.parse_args()
    import torch
    from families import CASES
    torch.set_num_threads(os.cpu_count() or 1)
    root = pathlib.Path(__file__).resolve().parents[2]
    pending = (root / "tests" / "golden" / "families" / "pending.txt").read_text()
    kinds = {"ok": 0, "refused": 0, "differs": 0}
    failed = []
    print(f"seed {arguments.seed}", flush=True)
    if not arguments.family:
        check_reference(arguments.seed)
    for i, name in enumerate(CASES):
        if not name.startswith(arguments.family):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            directory = (arguments.keep or pathlib.Path(scratch)) / name
            line, kind = report(name, Engine(arguments.pilotfish), directory, arguments.seed + i,
                                arguments.formats.split(","))
        kinds[kind] += 1
        if kind == "differs" or kind == "refused" and f"\n{name}: " not in pending:
            failed.append(name)
        print(f"{name:20} {line}", flush=True)
    print(json.dumps(kinds))
    if failed:
        sys.exit(f"oracle: differ, or are refused and not in pending.txt: {', '.join(failed)}")


if __name__ == "__main__":
    main()
