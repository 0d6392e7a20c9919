#!/usr/bin/env python3
"""Makes tests/golden/families/CASE/: the tiny models of tests/oracle/families.py, with logits and a greedy text of their oracle.

    expected.json   {"made_with", "tokens": [97], "rows": positions of the logits, "logits": [[vocab] x rows] as %.6g,
                     "greedy": the 24 tokens after the first 33 of tokens; empty where the rotation depends on the length}

    python3 tests/golden/make_families_golden.py [CASE...]

Run by hand when a case is added or changed; needs torch, transformers, safetensors. tests/e2e/family_golden_test.py reads it.
Each change that weakest_change tries must move the logits by 100 tolerances, and each greedy token must lead by 10.
"""
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
from capable import become_capable  # noqa: E402

OUT = HERE / "families"
N_TOKENS, N_PROMPT, N_GREEDY = 97, 33, 24
ROWS = (0, 6, 32, 63, 96)
LEAST_MOVED, LEAST_LEAD = 1e-2, 1e-3


def make(name):
    import numpy as np
    from families import CASES, GOLDEN
    from oracles import greedy, made_with, open_oracle, weakest_change, write_case
    for seed in range(1, 40):
        tensors = write_case(name, OUT / name, seed, GOLDEN)
        oracle = open_oracle(name, OUT / name)
        tokens = np.random.default_rng(seed).integers(3, GOLDEN.vocab, N_TOKENS).tolist()
        text, lead = [], 1.0
        if not CASES[name].length_dependent:
            text, lead = greedy(oracle, tokens[:N_PROMPT], N_GREEDY)
        if lead < LEAST_LEAD or len(set(text)) == 1:
            print(f"{name}, seed {seed}: a lead of {lead:.2g}, {len(set(text))} different tokens")
            continue
        logits = oracle.logits(tokens)
        weakest, what = weakest_change(name, OUT / name, tensors, tokens, logits)
        if weakest >= LEAST_MOVED:
            break
        print(f"{name}, seed {seed}: {what} moves the logits by {weakest:.2g} only")
    else:
        raise AssertionError(f"{name}: no seed serves")
    rows = ",\n".join("[" + ",".join(f"{x:.6g}" for x in logits[i].tolist()) + "]" for i in ROWS)
    (OUT / name / "expected.json").write_text(
        f'{{"made_with":{json.dumps(made_with(name))},\n"tokens":{json.dumps(tokens)},\n"greedy":{json.dumps(text)},\n'
        f'"rows":{json.dumps(ROWS)},"logits":[\n{rows}]}}\n')
    size = sum(f.stat().st_size for f in (OUT / name).iterdir())
    print(f"{name:20} seed {seed}, lead {lead:.2g}, weakest {weakest:.2g} ({what}), {size} bytes", flush=True)


def main():
    become_capable()
    import torch
    from families import CASES
    torch.set_num_threads(1)
    for name in sys.argv[1:] or [name for name, case in CASES.items() if not case.live_only]:
        shutil.rmtree(OUT / name, ignore_errors=True)
        make(name)


main()
