#!/usr/bin/env python3
"""Distributions of the next token as transformers' warpers make them: tests/golden/sampling/warpers.json.

Temperature, top-k, top-p, min-p, typical-p in the order of GenerationMixin._get_logits_processor, then softmax, in float32.
Run by hand when the cases change; needs torch and transformers (versions are written into the file).
"""
import json
import pathlib

import torch
import transformers
from transformers.generation.logits_process import (LogitsProcessorList, MinPLogitsWarper, TemperatureLogitsWarper,
                                                    TopKLogitsWarper, TopPLogitsWarper, TypicalLogitsWarper)

OUT = pathlib.Path(__file__).parent / "sampling" / "warpers.json"
N_VOCAB = 61
SETTINGS = [  # temperature, top_k, top_p, min_p, typical_p
    (1.0, 0, 1.0, 0.0, 1.0), (0.7, 0, 1.0, 0.0, 1.0), (2.5, 0, 1.0, 0.0, 1.0),
    (1.0, 1, 1.0, 0.0, 1.0), (1.0, 5, 1.0, 0.0, 1.0), (0.8, 60, 1.0, 0.0, 1.0), (1.0, 1000, 1.0, 0.0, 1.0),
    (1.0, 0, 0.9, 0.0, 1.0), (1.0, 0, 0.5, 0.0, 1.0), (1.0, 0, 0.01, 0.0, 1.0), (1.5, 0, 0.99, 0.0, 1.0),
    (1.0, 0, 1.0, 0.1, 1.0), (1.0, 0, 1.0, 1.0, 1.0), (3.0, 0, 1.0, 0.02, 1.0),
    (0.9, 20, 0.8, 0.0, 1.0), (1.2, 20, 0.95, 0.05, 1.0), (0.6, 7, 0.6, 0.3, 1.0),
    (1.0, 0, 1.0, 0.0, 0.9), (0.8, 0, 1.0, 0.0, 0.5), (1.0, 0, 1.0, 0.0, 0.05), (2.0, 0, 1.0, 0.0, 0.2), (1.2, 20, 0.95, 0.05, 0.7),
]


def warp(logits, temperature, top_k, top_p, min_p, typical_p):
    warpers = LogitsProcessorList()
    if temperature != 1.0:
        warpers.append(TemperatureLogitsWarper(temperature))
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p:
        warpers.append(MinPLogitsWarper(min_p))
    if typical_p < 1.0:
        warpers.append(TypicalLogitsWarper(typical_p))
    ids = torch.zeros((1, 1), dtype=torch.long)
    return torch.softmax(warpers(ids, logits[None].clone()), dim=-1)[0]


def main():
    generator = torch.Generator().manual_seed(20260101)
    shapes = {
        "peaked": torch.randn(N_VOCAB, generator=generator) * 4,
        "flat": torch.randn(N_VOCAB, generator=generator) * 0.3,
        "ties": torch.round(torch.randn(N_VOCAB, generator=generator) * 3),
        "equal": torch.zeros(N_VOCAB),
    }
    cases = []
    for name, logits in shapes.items():
        for temperature, top_k, top_p, min_p, typical_p in SETTINGS:
            probabilities = warp(logits, temperature, top_k, top_p, min_p, typical_p)
            cases.append({"name": name, "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "typical_p": typical_p,
                          "logits": [float(f"{x:.9g}") for x in logits.tolist()],
                          "probabilities": [float(f"{x:.9g}") for x in probabilities.tolist()]})
    document = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}", "cases": cases}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(document, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
    print(f"{OUT}: {len(cases)} cases, {OUT.stat().st_size} bytes")


main()
