#!/usr/bin/env python3
"""transformers on PyTorch on the other side of `pilotfish bench steps` (see steps.py).

    torch_steps.py DIRECTORY THREADS

BF16, eager, scaled dot-product attention, a cache that grows. Weights are copied to memory of their own rather than
left mapped, so that they can lie on huge pages. No sampler: a pass ends when the logits of its rows are there.
"""
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from steps import serve


class Engine:
    def __init__(self, directory):
        self.model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, attn_implementation="sdpa")
        self.model.eval()
        for parameter in self.model.parameters():   # a tied head is listed once
            parameter.data = parameter.data.clone()
        self.weight_bytes = sum(p.numel() * p.element_size() for p in self.model.parameters())
        self.n_vocab = self.model.config.vocab_size
        self.forget()

    def forget(self):
        self.cache = DynamicCache(config=self.model.config)

    @torch.inference_mode()
    def take(self, tokens, n_logits):
        self.model(input_ids=torch.from_numpy(tokens)[None], past_key_values=self.cache, use_cache=True,
                   logits_to_keep=n_logits)

    def keep(self, n):
        self.cache.crop(n)


torch.set_num_threads(int(sys.argv[2]))
serve(Engine(sys.argv[1]))
