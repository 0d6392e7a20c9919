"""Tiny random Llama models in many shapes, for the golden vectors and for the live comparison with transformers.

A variant is a config.json, written as transformers 4 or 5 writes it, and a file format. Weights are random and large
enough that a wrong choice anywhere shows: `assert_sensitive` computes the logits again with one choice flipped at a
time (rotation, mask, scale, order of heads, ...) and demands that each moves them by ten tolerances.
"""
import json
import math
import pathlib

import torch
from safetensors.torch import save_file

TOLERANCE = 1e-4  # of the largest logit
N_PROMPT = 20
N_GREEDY = 8

BASE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "intermediate_size": 48, "vocab_size": 61, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False, "attention_bias": False,
    "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32", "transformers_version": "4.46.0",
}
LONG = [1.0 + 0.9 * i for i in range(8)]
SHORT = [1.0 + 0.1 * i for i in range(8)]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}


def rope4(**scaling):
    """As transformers 4 writes it."""
    return {"rope_scaling": scaling}


def rope5(theta=10000.0, **parameters):
    """As transformers 5 writes it."""
    return {"rope_theta": None, "rope_scaling": None, "transformers_version": "5.0.0", "dtype": "float32",
            "torch_dtype": None, "rope_parameters": {"rope_theta": theta, **parameters}}


# name: (changes to BASE, type of the tensors, number of files)
VARIANTS = {
    "gqa": ({}, torch.float32, 1),
    "mqa": ({"num_key_value_heads": 1}, torch.bfloat16, 1),
    "odd_sizes": ({"hidden_size": 36, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 20,
                   "intermediate_size": 50, "vocab_size": 67, "rms_norm_eps": 1e-2}, torch.bfloat16, 1),
    "tied": ({"tie_word_embeddings": True}, torch.bfloat16, 1),
    "biased": ({"attention_bias": True, "mlp_bias": True}, torch.bfloat16, 1),
    "sharded_f16": ({"head_dim": 8}, torch.float16, 2),
    "theta5": (rope5(theta=500.0, rope_type="default"), torch.bfloat16, 1),
    "linear4": (rope4(type="linear", factor=3.0), torch.bfloat16, 1),
    "linear5": (rope5(rope_type="linear", factor=3.0), torch.bfloat16, 1),
    "llama3_4": (rope4(**LLAMA3) | {"max_position_embeddings": 512}, torch.bfloat16, 1),
    "llama3_5": (rope5(**LLAMA3) | {"max_position_embeddings": 512}, torch.bfloat16, 1),
    "dynamic4": (rope4(rope_type="dynamic", factor=2.0) | {"max_position_embeddings": 12}, torch.bfloat16, 1),
    "yarn4": (rope4(rope_type="yarn", factor=4.0, original_max_position_embeddings=16), torch.bfloat16, 1),
    "yarn5": (rope5(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=16.0, beta_slow=2.0,
                    truncate=False), torch.bfloat16, 1),
    "longrope5": (rope5(rope_type="longrope", factor=4.0, original_max_position_embeddings=16, long_factor=LONG,
                        short_factor=SHORT), torch.bfloat16, 1),
}


def make_config(changes):
    config = {**BASE, **changes}
    return {key: value for key, value in config.items() if value is not None or key == "rope_scaling"}


def make_tensors(config, generator):
    """Every tensor of the model in float32, in the names of the file."""
    hidden, inter, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    kv = config["num_key_value_heads"] * config["head_dim"]

    def matrix(rows, columns, gain):
        return torch.randn(rows, columns, generator=generator) * gain / math.sqrt(columns)

    def norm():
        return 1.0 + 0.3 * torch.randn(hidden, generator=generator)

    tensors = {"model.embed_tokens.weight": torch.randn(vocab, hidden, generator=generator),
               "model.norm.weight": norm()}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(vocab, hidden, 3.0)
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        tensors[at + "input_layernorm.weight"] = norm()
        tensors[at + "post_attention_layernorm.weight"] = norm()
        for name, rows, columns, gain in (("self_attn.q_proj", q, hidden, 2.0), ("self_attn.k_proj", kv, hidden, 2.0),
                                          ("self_attn.v_proj", kv, hidden, 1.5), ("self_attn.o_proj", hidden, q, 1.5),
                                          ("mlp.gate_proj", inter, hidden, 1.5), ("mlp.up_proj", inter, hidden, 1.0),
                                          ("mlp.down_proj", hidden, inter, 1.0)):
            tensors[at + name + ".weight"] = matrix(rows, columns, gain)
            if config["attention_bias" if name.startswith("self_attn") else "mlp_bias"]:
                tensors[at + name + ".bias"] = 0.5 * torch.randn(rows, generator=generator)
    return tensors


def write_model(directory, config, tensors, n_files):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    names = sorted(tensors)
    if n_files == 1:
        save_file({name: tensors[name].contiguous() for name in names}, directory / "model.safetensors", {"format": "pt"})
        return
    weight_map = {}
    for i in range(n_files):
        file = f"model-{i + 1:05}-of-{n_files:05}.safetensors"
        part = names[i::n_files]
        weight_map |= {name: file for name in part}
        save_file({name: tensors[name].contiguous() for name in part}, directory / file, {"format": "pt"})
    index = {"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())},
             "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


# ---- a second implementation, with switches ---------------------------------------------------------------------------

FLIPS = ["rotation", "direction", "no_rope", "mask", "scale", "query_heads", "key_heads", "gate_and_up", "norm_weight",
         "eps", "value_is_key", "residual", "bias", "rope_scaling"]


def rotate(x, cos, sin, flips):
    if "no_rope" in flips:
        return x
    if "direction" in flips:
        sin = -sin
    if "rotation" in flips:  # pairs of neighbours, as in the paper
        half = cos.shape[-1] // 2
        c, s = cos[..., :half], sin[..., :half]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def forward(config, tensors, tokens, cos, sin, flips=()):
    """Logits [n, vocab] of one sequence, in float32; cos and sin are [n, head_dim]."""
    heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    n = len(tokens)

    def linear(x, name):
        y = x @ tensors[name + ".weight"].T
        bias = tensors.get(name + ".bias")
        return y if bias is None or "bias" in flips else y + bias

    def norm(x, name):
        eps = 0.0 if "eps" in flips else config["rms_norm_eps"]
        y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)
        return y if "norm_weight" in flips else y * tensors[name + ".weight"]

    x = tensors["model.embed_tokens.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm")
        q = linear(h, at + "self_attn.q_proj").view(n, heads, dim).transpose(0, 1)
        k = linear(h, at + "self_attn.k_proj").view(n, kv_heads, dim).transpose(0, 1)
        v = linear(h, at + "self_attn.v_proj").view(n, kv_heads, dim).transpose(0, 1)
        if "value_is_key" in flips:
            k, v = v, k
        q, k = rotate(q, cos, sin, flips), rotate(k, cos, sin, flips)
        if "query_heads" in flips:
            q = q.flip(0)
        owner = torch.arange(heads) // (heads // kv_heads)
        if "key_heads" in flips:
            owner = torch.arange(heads) % kv_heads
        scores = q @ k[owner].transpose(1, 2) * (1.0 if "scale" in flips else dim ** -0.5)
        if "mask" not in flips:
            scores = scores + torch.full((n, n), -math.inf).triu(1)
        y = (torch.softmax(scores, -1) @ v[owner]).transpose(0, 1).reshape(n, heads * dim)
        x = x * (0.0 if "residual" in flips else 1.0) + linear(y, at + "self_attn.o_proj")
        h = norm(x, at + "post_attention_layernorm")
        gate, up = linear(h, at + "mlp.gate_proj"), linear(h, at + "mlp.up_proj")
        if "gate_and_up" in flips:
            gate, up = up, gate
        x = x + linear(torch.nn.functional.silu(gate) * up, at + "mlp.down_proj")
    head = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
    return norm(x, "model.norm") @ tensors[head + ".weight"].T


def applies(flip, config):
    """Whether a flipped choice changes anything in this configuration."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    scaled = config.get("rope_scaling") or config.get("rope_parameters", {}).get("rope_type", "default") != "default"
    return {"key_heads": 1 < kv_heads < heads, "bias": config["attention_bias"], "rope_scaling": bool(scaled),
            "eps": config["rms_norm_eps"] > 1e-3}.get(flip, True)


def plain_angles(config, n):
    theta = config.get("rope_theta") or config["rope_parameters"]["rope_theta"]
    dim = config["head_dim"]
    angles = torch.arange(n)[:, None] * theta ** -(torch.arange(0, dim, 2) / dim)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def assert_sensitive(name, config, tensors, tokens, cos, sin, expected):
    """The second implementation agrees with transformers, and with any one choice flipped it does not."""
    tensors = {key: value.float() for key, value in tensors.items()}
    limit = TOLERANCE * expected.abs().max().item()
    error = (forward(config, tensors, tokens, cos, sin) - expected).abs().max().item()
    assert error < limit, f"{name}: the second implementation is off by {error:.3g}, at most {limit:.3g} expected"
    weakest = math.inf, ""
    for flip in FLIPS:
        if not applies(flip, config):
            continue
        angles = plain_angles(config, len(tokens)) if flip == "rope_scaling" else (cos, sin)
        moved = (forward(config, tensors, tokens, *angles, flips=(flip,)) - expected).abs().max().item() / limit
        assert moved > 10, f"{name}: flipping {flip} moves the logits by {moved:.1f} tolerances only"
        weakest = min(weakest, (moved, flip))
    return weakest


# ---- transformers -----------------------------------------------------------------------------------------------------

def load_in_transformers(directory):
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(str(directory), dtype=torch.float32, attn_implementation="eager").eval()


@torch.no_grad()
def transformers_logits(model, tokens):
    return model(torch.tensor(tokens)[None], use_cache=False).logits[0]


@torch.no_grad()
def transformers_angles(model, n):
    cos, sin = model.model.rotary_emb(torch.zeros(1, n, 1), torch.arange(n)[None])
    return cos[0], sin[0]


@torch.no_grad()
def transformers_greedy(model, tokens, n):
    """The next n greedy tokens, each by a pass over the whole text, and the smallest margin of the argmax, in logits."""
    tokens, lead = list(tokens), math.inf
    n_prompt = len(tokens)
    for _ in range(n):
        top = transformers_logits(model, tokens)[-1].topk(2)
        lead = min(lead, (top.values[0] - top.values[1]).item())
        tokens.append(int(top.indices[0]))
    return tokens[n_prompt:], lead


def depends_on_length(config):
    """Whether transformers changes the frequencies as the text grows; this engine fixes them when a session is created."""
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return scaling.get("rope_type", scaling.get("type")) == "dynamic"


def make_variant(name, directory, seed):
    """Write a variant's model; returns (config, tokens, logits, greedy, weakest flip). Tries seeds until greedy is clear."""
    changes, dtype, n_files = VARIANTS[name]
    config = make_config(changes)
    for attempt in range(100):
        generator = torch.Generator().manual_seed(seed * 1000 + attempt)
        tensors = {key: value.to(dtype) for key, value in make_tensors(config, generator).items()}
        write_model(pathlib.Path(directory), config, tensors, n_files)
        tokens = torch.randint(0, config["vocab_size"], (N_PROMPT,), generator=generator).tolist()
        model = load_in_transformers(directory)
        logits = transformers_logits(model, tokens)
        cos, sin = transformers_angles(model, len(tokens))
        weakest = assert_sensitive(name, config, tensors, tokens, cos, sin, logits)
        if depends_on_length(config):
            return config, tokens, logits, [], weakest
        greedy, lead = transformers_greedy(model, tokens, N_GREEDY)
        if lead > 10 * TOLERANCE * logits.abs().max().item():
            return config, tokens, logits, greedy, weakest
    raise AssertionError(f"{name}: no seed gives a greedy text without near ties")
