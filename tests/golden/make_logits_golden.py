#!/usr/bin/env python3
"""Makes tests/golden/logits/<variant>/: a tiny model, and expected.json with the logits that transformers computes.

    expected.json   {"made_with", "context": positions that the session must be made for, "tokens": [n],
                     "logits": [[vocab] x n] in float32 as %.9g, "greedy": the next tokens}

Run by hand when the variants change; needs torch, transformers, safetensors. tests/unit/model/golden_logits_test.c reads it.
"""
import json
import pathlib
import shutil

import safetensors
import torch
import transformers

from llama_variants import N_GREEDY, N_PROMPT, VARIANTS, make_variant

OUT = pathlib.Path(__file__).parent / "logits"


def main():
    torch.set_num_threads(1)
    made_with = f"transformers {transformers.__version__}, torch {torch.__version__}, safetensors {safetensors.__version__}"
    shutil.rmtree(OUT, ignore_errors=True)
    for i, name in enumerate(VARIANTS):
        directory = OUT / name
        config, tokens, logits, greedy, (moved, flip) = make_variant(name, directory, seed=i + 1)
        rows = ",\n".join("[" + ",".join(f"{x:.9g}" for x in row.tolist()) + "]" for row in logits)
        context = N_PROMPT + N_GREEDY if greedy else N_PROMPT
        (directory / "expected.json").write_text(
            f'{{"made_with":{json.dumps(made_with)},"context":{context},"tokens":{json.dumps(tokens)},\n'
            f'"greedy":{json.dumps(greedy)},"logits":[\n{rows}]}}\n')
        size = sum(f.stat().st_size for f in directory.iterdir())
        print(f"{name:12} largest logit {logits.abs().max():6.2f}, weakest flip {flip} ({moved:.0f} tolerances), {size} bytes")


main()
