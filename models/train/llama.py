"""A small Llama in plain PyTorch, its optimizer, and the window sampler of the training scripts.

Invariants:
  - parameter names and mathematics are those of transformers' LlamaForCausalLM with tied embeddings
    (rotary halves, not interleaved pairs; RMS norm with its sum in F32), so a state_dict is a checkpoint;
  - master weights are F32; products take BF16 inputs where the CPU multiplies them, else F32; the residual stream is F32;
  - the order of training windows is a pure function of (seed, window length, position).
"""

import io
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import script


@dataclass
class Config:
    vocab_size: int = 4096
    hidden_size: int = 384
    num_hidden_layers: int = 6
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 1024
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 1024


PRODUCTS = torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32

TARGET = Config()
DRAFT = Config(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=384)


def rope_tables(config: Config, n_positions: int):
    """cos, sin: (n_positions, head_dim), the second half repeats the first."""
    inverse = config.rope_theta ** (-torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim)
    angles = torch.outer(torch.arange(n_positions, dtype=torch.float64), inverse)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().float(), angles.sin().float()


def rotate(x, cos, sin):
    """x: (batch, heads, positions, head_dim)."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sin


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.q_proj = nn.Linear(c.hidden_size, c.num_attention_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, c.num_key_value_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)

    def forward(self, x, cos, sin, cache=None):
        c, (batch, length, _) = self.c, x.shape
        weight = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight]).to(x.dtype)
        n_q, n_kv = c.num_attention_heads, c.num_key_value_heads
        qkv = F.linear(x, weight).view(batch, length, n_q + 2 * n_kv, c.head_dim).transpose(1, 2)
        q = rotate(qkv[:, :n_q].float(), cos, sin).to(x.dtype)
        k = rotate(qkv[:, n_q:n_q + n_kv].float(), cos, sin).to(x.dtype)
        v = qkv[:, n_q + n_kv:]
        if cache is not None:
            k, v = cache.append(k, v)
        if cache is not None and length == 1:  # one query a sequence: the heads of a group become positions
            out = F.scaled_dot_product_attention(q.view(batch, n_kv, n_q // n_kv, c.head_dim), k, v)
            out = out.view(batch, n_q, 1, c.head_dim)
        else:
            k = k.repeat_interleave(n_q // n_kv, dim=1)
            v = v.repeat_interleave(n_q // n_kv, dim=1)
            mask = None if cache is None else cache.mask(length)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=cache is None)
        return F.linear(out.transpose(1, 2).reshape(batch, length, -1), self.o_proj.weight.to(x.dtype))


class MLP(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        gate, up = F.linear(x, torch.cat([self.gate_proj.weight, self.up_proj.weight]).to(x.dtype)).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.down_proj.weight.to(x.dtype))


class Layer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.self_attn = Attention(c)
        self.mlp = MLP(c)
        self.input_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(c.hidden_size, c.rms_norm_eps)

    def forward(self, x, cos, sin, dtype, cache=None):
        x = x + self.self_attn(self.input_layernorm(x).to(dtype), cos, sin, cache).float()
        return x + self.mlp(self.post_attention_layernorm(x).to(dtype)).float()


class Body(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = RMSNorm(c.hidden_size, c.rms_norm_eps)


class KVCache:
    """Keys and values, as in products, of n_rows sequences of equal length. Each layer appends once in a pass, in order."""

    def __init__(self, config: Config, n_rows: int, n_positions: int):
        shape = (config.num_hidden_layers, n_rows, config.num_key_value_heads, n_positions, config.head_dim)
        self.k, self.v = torch.zeros(shape, dtype=PRODUCTS), torch.zeros(shape, dtype=PRODUCTS)
        self.length, self.layer = 0, 0

    def append(self, k, v):
        end = self.length + k.shape[2]
        self.k[self.layer][:, :, self.length:end] = k
        self.v[self.layer][:, :, self.length:end] = v
        self.layer += 1
        return self.k[self.layer - 1][:, :, :end], self.v[self.layer - 1][:, :, :end]

    def mask(self, length):
        return torch.ones(length, self.length + length, dtype=torch.bool).tril(self.length)


class Llama(nn.Module):
    def __init__(self, config: Config, seed: int = 0):
        super().__init__()
        self.config = config
        self.model = Body(config)
        self.register_buffer("cos", rope_tables(config, config.max_position_embeddings)[0], persistent=False)
        self.register_buffer("sin", rope_tables(config, config.max_position_embeddings)[1], persistent=False)
        generator = torch.Generator().manual_seed(seed)
        deep = 1 / math.sqrt(2 * config.num_hidden_layers)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                std = 0.02 if "embed" in name else p.shape[1] ** -0.5 * 0.5
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    std *= deep
                with torch.no_grad():
                    p.normal_(0, std, generator=generator)

    def hidden(self, ids, dtype=PRODUCTS, cache=None):
        """ids: (batch, length) -> (batch, length, hidden) after the last norm."""
        start = 0 if cache is None else cache.length
        cos, sin = self.cos[start:start + ids.shape[1]], self.sin[start:start + ids.shape[1]]
        if cache is not None:
            cache.layer = 0
        x = F.embedding(ids, self.model.embed_tokens.weight)
        for layer in self.model.layers:
            x = layer(x, cos, sin, dtype, cache)
        if cache is not None:
            cache.length += ids.shape[1]
        return self.model.norm(x).to(dtype)

    def logits(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight.to(hidden.dtype))

    def forward(self, ids, dtype=PRODUCTS):
        return self.logits(self.hidden(ids, dtype))


@torch.no_grad()
def continue_text(model: Llama, prefix, n_new: int, temperature, generator=None):
    """Continue every row of prefix (rows, length) by n_new tokens.

    temperature: (rows,) tensor, 0 for the likeliest token. -> ids (rows, length + n_new) and the hidden states that predict
    ids[:, 1:], (rows, length + n_new - 1, hidden): a teacher's whole distribution, to be had without a second pass.
    """
    rows, length = prefix.shape
    cache = KVCache(model.config, rows, length + n_new)
    ids, states, feed = prefix, [], prefix
    greedy = temperature == 0
    scale = torch.where(greedy, torch.ones_like(temperature), temperature)[:, None]
    for _ in range(n_new):
        hidden = model.hidden(feed, cache=cache)
        states.append(hidden)
        logits = model.logits(hidden[:, -1]).float()
        uniform = torch.rand(logits.shape, generator=generator).clamp_(1e-10, 1 - 1e-7)
        drawn = (logits / scale - torch.log(-torch.log(uniform))).argmax(-1)
        feed = torch.where(greedy, logits.argmax(-1), drawn)[:, None]
        ids = torch.cat([ids, feed], dim=1)
    return ids, torch.cat(states, dim=1)


def orthogonalise(g, steps: int = 5):
    """Newton-Schulz, batched over the first axis: approximates the nearest semi-orthogonal matrix (Jordan et al., Muon, 2024)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Orthogonalized momentum for hidden matrices. Matrices of equal shape are stacked into one batch."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.1):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(tuple(p.shape), []).append(p)
            for shape, params in shapes.items():
                updates = []
                for p in params:
                    state = self.state[p]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(p)
                    state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(state["momentum"], group["momentum"]))
                updates = orthogonalise(torch.stack(updates))
                scale = group["lr"] * max(1, shape[0] / shape[1]) ** 0.5
                for p, u in zip(params, updates):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(u, alpha=-scale)


def make_optimizers(model: Llama, muon_lr: float, adam_lr: float):
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    optimizers = [Muon(matrices, muon_lr), torch.optim.AdamW(others, adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=True)]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers


def set_rate(optimizers, factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["base_lr"] * factor


class Windows:
    """Training windows over a token file: BOS, then text from the paragraph start nearest to a shuffled grid point.

    position counts windows; window i of an epoch is fixed by (seed, length, epoch), so position is the whole state.
    """

    def __init__(self, tokens: np.ndarray, breaks: np.ndarray, length: int, bos: int, seed: int, position: int = 0):
        self.tokens, self.breaks, self.length, self.bos, self.seed, self.position = tokens, breaks, length, bos, seed, position
        self.per_epoch = (len(tokens) - 2 * length) // length
        self.epoch = -1

    def next(self, n_rows: int):
        """(n_rows, length + 1) token ids: inputs are [:, :-1], labels [:, 1:]."""
        rows = np.empty((n_rows, self.length + 1), dtype=np.int64)
        for row in rows:
            epoch, index = divmod(self.position, self.per_epoch)
            if epoch != self.epoch:
                rng = np.random.default_rng([self.seed, self.length, epoch])
                self.epoch, self.order, self.shift = epoch, rng.permutation(self.per_epoch), int(rng.integers(self.length))
            grid = int(self.order[index]) * self.length + self.shift
            at = np.searchsorted(self.breaks, grid)
            near = self.breaks[min(at, len(self.breaks) - 1)]
            start = int(near) if 0 <= near - grid < self.length // 2 and near + self.length < len(self.tokens) else grid
            row[0] = self.bos
            row[1:] = self.tokens[start:start + self.length]
            self.position += 1
        return torch.from_numpy(rows)


def load_tokens(work: Path, part: str):
    """(token ids, positions where a paragraph starts)."""
    from tokenizers import Tokenizer
    tokens = np.fromfile(work / f"{part}.bin", dtype=np.uint16)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    bos = tokenizer.token_to_id("<|begin_of_text|>")
    ends = np.array([i for t, i in tokenizer.get_vocab().items() if t.endswith("ĊĊ") or i == bos])
    return tokens, np.flatnonzero(np.isin(tokens, ends)) + 1


def meta(work: Path) -> dict:
    return json.loads((work / "meta.json").read_text())


def save(path: Path, value) -> None:
    """torch.save; path is complete or unchanged. Serializes to memory first, so that a full disk is reported as such and not
    as an error of the ZIP writer."""
    content = io.BytesIO()
    torch.save(value, content)
    script.write_whole(path, content.getbuffer())


def save_model(model: Llama, path: Path, **extra) -> None:
    save(path, {"config": asdict(model.config), "model": model.state_dict(), **extra})


def load_model(path: Path) -> Llama:
    state = torch.load(path, map_location="cpu", weights_only=True)
    model = Llama(Config(**state["config"]))
    model.load_state_dict(state["model"])
    return model
