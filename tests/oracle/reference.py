"""Computes logits in plain numpy, from the published descriptions of the models: a second opinion to the engine.

It is written for reading: one text at a time, every position against all positions before it, no cache. It has the
families that transformers does not have (InternLM, InternLM2, Qwen, Baichuan, ChatGLM, MOSS), and some that it has
(Llama, Qwen2, CodeGen, BLOOM, GLM), which check this file: compare.py compares the two.

    logits(config, tensors, tokens) -> [n, vocab] float32

Arithmetic is float64 from weights of the files. x: [n, hidden]; q, k, v: [n, heads, dim].
"""
import math

import numpy as np


# ---- parts ----------------------------------------------------------------------------------------------------------------

def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def layer_norm(x, weight, bias, eps):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight + bias


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x ** 3)))


def angles(n, n_rotated, theta):
    """[n, n_rotated / 2]: RoPE (arXiv:2104.09864, section 3.4.2)."""
    return np.arange(n)[:, None] * theta ** (-np.arange(0, n_rotated, 2) / n_rotated)


def rotate(x, angle, neighbours):
    """Rotates the leading dimensions of each head by pairs: neighbours (2i, 2i+1), or halves (i, i + n_rotated / 2)."""
    half = angle.shape[1]
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    out = x.copy()
    if neighbours:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    else:
        first, second = slice(0, half), slice(half, 2 * half)
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def alibi_slopes(heads):
    """Geometric from 2^(-8/heads) for a power of two; else those of the power below, then every second of the one above
    (arXiv:2108.12409, section 3, and its code)."""
    def powers(n):
        return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    below = 2 ** math.floor(math.log2(heads))
    return np.array(powers(below) + powers(2 * below)[0::2][:heads - below])


def attend(q, k, v, slopes=None):
    """Causal attention; a key head serves n_heads / n_kv_heads query heads that follow each other. [n, heads * dim]"""
    n, heads, dim = q.shape
    k, v = (np.repeat(x, heads // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(dim)
    if slopes is not None:
        scores = scores - slopes[:, None, None] * (np.arange(n)[:, None] - np.arange(n)[None, :])
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", p, v).reshape(n, -1)


class Tensors:
    def __init__(self, tensors):
        self.of = {name: np.asarray(tensor, np.float64) for name, tensor in tensors.items()}

    def __getitem__(self, name):
        return self.of[name]

    def linear(self, x, name):
        y = x @ self.of[name + ".weight"].T
        return y + self.of[name + ".bias"] if name + ".bias" in self.of else y

    def layer_norm(self, x, name, eps):
        return layer_norm(x, self.of[name + ".weight"], self.of[name + ".bias"], eps)


def heads_of(x, dim):
    return x.reshape(len(x), -1, dim)


def theta_at(theta, scaling, n, max_position, dim):
    """The base of RoPE for a text of n tokens: larger past max_position with "dynamic" scaling (NTK-aware)."""
    if not scaling or n <= max_position:
        return theta
    assert scaling["type"] == "dynamic", scaling
    factor = scaling.get("factor", 1.0)
    return theta * (factor * n / max_position - (factor - 1.0)) ** (dim / (dim - 2))


# ---- families of Llama's layer ----------------------------------------------------------------------------------------------

def llama(c, t, tokens):
    """Llama, Qwen2, InternLM (biases), Baichuan (one tensor for q, k and v; 13B: ALiBi; 2: a head of unit rows)."""
    heads = c["num_attention_heads"]
    dim = c.get("head_dim") or c["hidden_size"] // heads
    is_baichuan, n = c["model_type"] == "baichuan", len(tokens)
    has_alibi = is_baichuan and "max_position_embeddings" not in c
    scaling = c.get("rotary") or c.get("rope_scaling")
    theta = (c.get("rotary") or {}).get("base") or c.get("rope_theta") or 10000.0
    angle = angles(n, dim, theta_at(theta, scaling, n, c.get("max_position_embeddings", n), dim))
    x = t["model.embed_tokens.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = rms_norm(x, t[at + "input_layernorm.weight"], c["rms_norm_eps"])
        if is_baichuan:
            q, k, v = np.split(t.linear(h, at + "self_attn.W_pack"), 3, axis=1)
        else:
            q, k, v = (t.linear(h, f"{at}self_attn.{name}_proj") for name in "qkv")
        q, k, v = (heads_of(part, dim) for part in (q, k, v))
        if not has_alibi:
            q, k = rotate(q, angle, False), rotate(k, angle, False)
        y = attend(q, k, v, alibi_slopes(heads) if has_alibi else None)
        x = x + t.linear(y, at + "self_attn.o_proj")
        h = rms_norm(x, t[at + "post_attention_layernorm.weight"], c["rms_norm_eps"])
        h = silu(t.linear(h, at + "mlp.gate_proj")) * t.linear(h, at + "mlp.up_proj")
        x = x + t.linear(h, at + "mlp.down_proj")
    head = t["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"]
    if is_baichuan and "z_loss_weight" in c:
        head = head / np.linalg.norm(head, axis=1, keepdims=True)
    return rms_norm(x, t["model.norm.weight"], c["rms_norm_eps"]) @ head.T


def internlm2(c, t, tokens):
    """One tensor for q, k and v: for each key head its query heads, then its key, then its value."""
    heads, kv_heads, n = c["num_attention_heads"], c["num_key_value_heads"], len(tokens)
    dim, shared = c["hidden_size"] // heads, heads // kv_heads
    theta = theta_at(c["rope_theta"], c.get("rope_scaling"), n, c["max_position_embeddings"], dim)
    x = t["model.tok_embeddings.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = rms_norm(x, t[at + "attention_norm.weight"], c["rms_norm_eps"])
        groups = t.linear(h, at + "attention.wqkv").reshape(n, kv_heads, shared + 2, dim)
        q = rotate(groups[:, :, :shared].reshape(n, heads, dim), angles(n, dim, theta), False)
        k = rotate(groups[:, :, shared], angles(n, dim, theta), False)
        x = x + t.linear(attend(q, k, groups[:, :, shared + 1]), at + "attention.wo")
        h = rms_norm(x, t[at + "ffn_norm.weight"], c["rms_norm_eps"])
        x = x + t.linear(silu(t.linear(h, at + "feed_forward.w1")) * t.linear(h, at + "feed_forward.w3"),
                         at + "feed_forward.w2")
    return rms_norm(x, t["model.norm.weight"], c["rms_norm_eps"]) @ t["output.weight"].T


def qwen(c, t, tokens):
    """The gate is w2. Past seq_length queries are scaled by log_seq_length(position), which is not computed here."""
    dim, n, eps = c["kv_channels"], len(tokens), c["layer_norm_epsilon"]
    assert n <= c["seq_length"], "the text is longer than seq_length"
    angle = angles(n, int(dim * c["rotary_pct"]), c["rotary_emb_base"])
    x = t["transformer.wte.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"transformer.h.{i}."
        h = rms_norm(x, t[at + "ln_1.weight"], eps)
        q, k, v = (heads_of(part, dim) for part in np.split(t.linear(h, at + "attn.c_attn"), 3, axis=1))
        x = x + t.linear(attend(rotate(q, angle, False), rotate(k, angle, False), v), at + "attn.c_proj")
        h = rms_norm(x, t[at + "ln_2.weight"], eps)
        x = x + t.linear(t.linear(h, at + "mlp.w1") * silu(t.linear(h, at + "mlp.w2")), at + "mlp.c_proj")
    return rms_norm(x, t["transformer.ln_f.weight"], eps) @ t["lm_head.weight"].T


def chatglm(c, t, tokens):
    """ChatGLM2 and 3: neighbours of the first half of each head are rotated; q, k and v one after the other."""
    heads, dim, n, eps = c["num_attention_heads"], c["kv_channels"], len(tokens), c["layernorm_epsilon"]
    kv_heads = c["multi_query_group_num"] if c["multi_query_attention"] else heads
    angle = angles(n, dim // 2, 10000.0 * c.get("rope_ratio", 1.0))
    x = t["transformer.embedding.word_embeddings.weight"][tokens]
    for i in range(c["num_layers"]):
        at = f"transformer.encoder.layers.{i}."
        h = rms_norm(x, t[at + "input_layernorm.weight"], eps)
        qkv = heads_of(t.linear(h, at + "self_attention.query_key_value"), dim)
        q, k, v = qkv[:, :heads], qkv[:, heads:heads + kv_heads], qkv[:, heads + kv_heads:]
        x = x + t.linear(attend(rotate(q, angle, True), rotate(k, angle, True), v), at + "self_attention.dense")
        h = rms_norm(x, t[at + "post_attention_layernorm.weight"], eps)
        gate, up = np.split(t.linear(h, at + "mlp.dense_h_to_4h"), 2, axis=1)
        x = x + t.linear(silu(gate) * up, at + "mlp.dense_4h_to_h")
    return rms_norm(x, t["transformer.encoder.final_layernorm.weight"], eps) @ t["transformer.output_layer.weight"].T


def glm(c, t, tokens):
    """GLM-4 as transformers has it: ChatGLM's layer with separate q, k and v and one tensor of gate and up."""
    dim, n, eps = c["head_dim"], len(tokens), c["rms_norm_eps"]
    angle = angles(n, int(dim * c["partial_rotary_factor"]), c["rope_theta"])
    x = t["model.embed_tokens.weight"][tokens]
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        h = rms_norm(x, t[at + "input_layernorm.weight"], eps)
        q, k, v = (heads_of(t.linear(h, f"{at}self_attn.{name}_proj"), dim) for name in "qkv")
        x = x + t.linear(attend(rotate(q, angle, True), rotate(k, angle, True), v), at + "self_attn.o_proj")
        h = rms_norm(x, t[at + "post_attention_layernorm.weight"], eps)
        gate, up = np.split(t.linear(h, at + "mlp.gate_up_proj"), 2, axis=1)
        x = x + t.linear(silu(gate) * up, at + "mlp.down_proj")
    return rms_norm(x, t["model.norm.weight"], eps) @ t["lm_head.weight"].T


# ---- families of GPT's layer ------------------------------------------------------------------------------------------------

def moss(c, t, tokens):
    """MOSS and CodeGen: GPT-J's layer (attention and MLP of one norm, both added); the rows of qkv_proj are four shards,
    each with its share of q, then of v, then of k."""
    heads, n, eps = c["n_head"], len(tokens), c["layer_norm_epsilon"]
    dim, shards = c["n_embd"] // heads, 4
    angle = angles(n, c["rotary_dim"], 10000.0)
    x = t["transformer.wte.weight"][tokens]
    for i in range(c["n_layer"]):
        at = f"transformer.h.{i}."
        h = t.layer_norm(x, at + "ln_1", eps)
        parts = t.linear(h, at + "attn.qkv_proj").reshape(n, shards, 3, heads // shards, dim)
        q, v, k = (parts[:, :, j].reshape(n, heads, dim) for j in range(3))
        y = attend(rotate(q, angle, True), rotate(k, angle, True), v)
        x = x + t.linear(y, at + "attn.out_proj") + t.linear(gelu_tanh(t.linear(h, at + "mlp.fc_in")), at + "mlp.fc_out")
    return t.linear(t.layer_norm(x, "transformer.ln_f", eps), "lm_head")


def bloom(c, t, tokens):
    """ALiBi; a norm after the embedding; the rows of query_key_value are [heads, 3, dim]."""
    heads, n, eps = c["n_head"], len(tokens), c["layer_norm_epsilon"]
    x = t.layer_norm(t["word_embeddings.weight"][tokens], "word_embeddings_layernorm", eps)
    for i in range(c["n_layer"]):
        at = f"h.{i}."
        h = t.layer_norm(x, at + "input_layernorm", eps)
        qkv = t.linear(h, at + "self_attention.query_key_value").reshape(n, heads, 3, -1)
        x = x + t.linear(attend(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], alibi_slopes(heads)), at + "self_attention.dense")
        h = t.layer_norm(x, at + "post_attention_layernorm", eps)
        x = x + t.linear(gelu_tanh(t.linear(h, at + "mlp.dense_h_to_4h")), at + "mlp.dense_4h_to_h")
    return t.layer_norm(x, "ln_f", eps) @ t["word_embeddings.weight"].T


FAMILIES = {"llama": llama, "qwen2": llama, "internlm": llama, "baichuan": llama, "internlm2": internlm2, "qwen": qwen,
            "chatglm": chatglm, "glm": glm, "moss": moss, "codegen": moss, "bloom": bloom}


def logits(config, tensors, tokens):
    return FAMILIES[config["model_type"]](config, Tensors(tensors), np.asarray(tokens)).astype(np.float32)
