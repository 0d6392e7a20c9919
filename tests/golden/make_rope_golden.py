#!/usr/bin/env python3
"""Makes tests/golden/config/rope.json: the frequencies that transformers computes for each RoPE scaling of Llama.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy transformers==5.23.0
    /tmp/venv/bin/python tests/golden/make_rope_golden.py

[{"config": what config.json would say, "context": tokens, "inv_freq": [...], "attention_scale": x}]. A context of 0 is
what the model computes when it is made; others are what it computes once a sequence is that long.
"""
import json
import pathlib

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

OUT = pathlib.Path(__file__).resolve().parent / "config"
BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 100, "hidden_size": 128,
        "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 2048}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 512}
LONG = {"short_factor": [1.0 + 0.01 * i for i in range(16)], "long_factor": [1.0 + 0.5 * i * i for i in range(16)]}

CASES = [
    ({}, 0),
    ({"rope_theta": 500000.0}, 0),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "head_dim": 64}, 0),
    ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 0),
    ({"rope_parameters": {"rope_type": "linear", "rope_theta": 20000.0, "factor": 2.5}}, 0),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 0),
    ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 3000),
    ({"rope_scaling": {"rope_type": "dynamic", "factor": 8.0}, "rope_theta": 500000.0}, 16384),
    ({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", **LLAMA3}}, 0),
    ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, **LLAMA3, "factor": 32}, "head_dim": 64}, 0),
    ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}, 0),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 1.2, "beta_fast": 16,
                       "beta_slow": 2, "original_max_position_embeddings": 1024}, "head_dim": 64}, 0),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 2.0, "attention_factor": 1.25,
                          "truncate": False, "original_max_position_embeddings": 1024}}, 0),
    ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, **LONG,
                          "original_max_position_embeddings": 512}}, 0),
    ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, **LONG,
                          "original_max_position_embeddings": 512}}, 513),
    ({"rope_scaling": {"type": "longrope", **LONG, "factor": 2.0}, "original_max_position_embeddings": 256}, 2048),
    ({"rope_scaling": {"type": "longrope", **LONG, "attention_factor": 1.5},
      "original_max_position_embeddings": 256}, 100),
    ({"rope_scaling": {"type": "yarn", "factor": 4.0, "attention_factor": 0}}, 0),
    ({"rope_scaling": {"type": "longrope", **LONG, "attention_factor": -0.5}}, 0),
    ({"max_position_embeddings": 10**12, "rope_scaling": {"type": "yarn", "factor": 4.0}}, 0),
    ({"max_position_embeddings": 10**12, "rope_scaling": {"type": "longrope", **LONG},
      "original_max_position_embeddings": 10**10}, 100),
    ({"max_position_embeddings": 2**40, "rope_theta": 1e15, "head_dim": 64,
      "rope_scaling": {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}}, 0),
]


def main():
    made = []
    for change, context in CASES:
        config = {**BASE, **change}
        rope = LlamaRotaryEmbedding(LlamaConfig(**json.loads(json.dumps(config))))
        if context:
            rope(torch.zeros(1), torch.arange(context)[None])
        made.append({"config": config, "context": context, "inv_freq": [float(f"{x:.9g}") for x in rope.inv_freq.tolist()],
                     "attention_scale": float(f"{float(rope.attention_scaling):.9g}")})
    OUT.mkdir(exist_ok=True)
    (OUT / "rope.json").write_text("[" + ",\n ".join(json.dumps(x) for x in made) + "]\n")


if __name__ == "__main__":
    main()
