"""Writes a GGUF file from a model directory as convert_hf_to_gguf.py of llama.cpp would. Needs only Python itself.

    gguf_converter.py DIRECTORY FILE.gguf

It is written from the converter's facts (its conversion/ folder and gguf-py/gguf/tensor_mapping.py), not from the reader under test:
names, permutations of rows, fused and stacked tensors, added ones, metadata keys. Matrices and vectors are F32. There is no
tokenizer. Where the format has no place for a number of config.json, convert() returns the fields that a reader of the file must
take for granted; Unwritable is raised for what llama.cpp does not write.
"""

import array
import json
import math
import re
import struct
import sys
from pathlib import Path

U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9


class Unwritable(Exception):
    pass


# ---- tensors: a shape and a list of floats, outermost dimension first


class Tensor:
    def __init__(self, shape, values):
        self.shape, self.values = list(shape), values

    def rows(self):
        n = math.prod(self.shape[1:])
        return [self.values[i:i + n] for i in range(0, len(self.values), n)]

    def from_rows(self, rows):
        return Tensor([len(rows), *self.shape[1:]], [x for row in rows for x in row])

    def transposed(self):
        r, c = self.shape
        return Tensor([c, r], [self.values[i * c + j] for j in range(c) for i in range(r)])


class Blocks:
    """A tensor in a block type of GGUF: kind is its number, raw its bytes."""

    def __init__(self, shape, kind, raw):
        self.shape, self.kind, self.raw = list(shape), kind, raw


def stack(tensors):
    return Tensor([len(tensors), *tensors[0].shape], [x for t in tensors for x in t.values])


def split_experts(tensor):
    n = len(tensor.values) // tensor.shape[0]
    return [Tensor(tensor.shape[1:], tensor.values[i:i + n]) for i in range(0, len(tensor.values), n)]


def pair_halves(tensor, n_heads):
    """The rows i and i + half of each head become neighbours (LlamaModel.permute)."""
    rows = tensor.rows()
    size = len(rows) // n_heads
    order = [head * size + half * size // 2 + i for head in range(n_heads) for i in range(size // 2) for half in range(2)]
    return tensor.from_rows([rows[i] for i in order])


def split_groups(tensor, n_groups, n_queries, size):
    """Rows that are, for each key head, its queries, its key and its value: all of Q, of K, of V."""
    rows = tensor.rows()
    parts = [[], [], []]
    for group in range(n_groups):
        first = group * (n_queries + 2) * size
        parts[0] += rows[first:first + n_queries * size]
        parts[1] += rows[first + n_queries * size:first + (n_queries + 1) * size]
        parts[2] += rows[first + (n_queries + 1) * size:first + (n_queries + 2) * size]
    return [tensor.from_rows(part) for part in parts]


def join(tensors):
    return tensors[0].from_rows([row for t in tensors for row in t.rows()])


def read_safetensors(path):
    data = path.read_bytes()
    (n,) = struct.unpack("<Q", data[:8])
    found = {}
    for name, info in json.loads(data[8:8 + n]).items():
        if name == "__metadata__" or info["dtype"] == "BOOL":
            continue
        begin, end = info["data_offsets"]
        raw = data[8 + n + begin:8 + n + end]
        if info["dtype"] == "BF16":
            raw = b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2))
        found[name] = Tensor(info["shape"], list(array.array("f", raw)))
    return found


# ---- the file


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(item):
    if isinstance(item, bool):
        return struct.pack("<IB", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", STRING) + string(item)
    elements = [value(x) for x in item]
    kind = elements[0][:4] if elements else struct.pack("<I", U32)
    return struct.pack("<I", ARRAY) + kind + struct.pack("<Q", len(elements)) + b"".join(e[4:] for e in elements)


def write_gguf(path, metadata, tensors):
    keys = b"".join(string(k) + value(v) for k, v in metadata.items())
    infos, data = b"", b""
    for name, t in tensors.items():
        infos += string(name) + struct.pack("<I", len(t.shape)) + b"".join(struct.pack("<Q", n) for n in reversed(t.shape))
        is_blocks = isinstance(t, Blocks)
        infos += struct.pack("<IQ", t.kind if is_blocks else 0, len(data))
        data += t.raw if is_blocks else array.array("f", t.values).tobytes()
        data += b"\0" * (-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)) + keys + infos
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)


# ---- names


ENDS = {
    "token_embd": "model.embed_tokens transformer.wte wte word_embeddings transformer.word_embeddings gpt_neox.embed_in "
                  "model.tok_embeddings transformer.embedding.word_embeddings",
    "token_embd_norm": "word_embeddings_layernorm transformer.word_embeddings_layernorm",
    "position_embd": "transformer.wpe wpe",
    "output_norm": "model.norm transformer.ln_f ln_f gpt_neox.final_layer_norm transformer.norm_f model.final_layernorm "
                   "transformer.encoder.final_layernorm",
    "output": "lm_head embed_out output transformer.output_layer",
}
BLOCKS = {
    "attn_norm": "input_layernorm ln_1 norm_1 attention_norm ln_mlp",
    "attn_norm_2": "ln_attn",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "attn.c_attn attn.Wqkv self_attention.query_key_value attention.query_key_value self_attn.qkv_proj "
                "attention.wqkv self_attn.W_pack",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_sinks": "self_attn.sinks",
    "attn_output": "self_attn.o_proj self_attn.dense attn.c_proj attn.out_proj self_attention.dense attention.dense "
                   "attention.wo",
    "ffn_norm": "post_attention_layernorm ln_2 norm_2 ffn_norm pre_feedforward_layernorm",
    "post_attention_norm": "post_self_attn_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm post_mlp_layernorm",
    "ffn_gate": "mlp.gate_proj mlp.w2 feed_forward.w1",
    "ffn_up": "mlp.up_proj mlp.c_fc mlp.w1 mlp.fc1 mlp.dense_h_to_4h mlp.gate_up_proj ffn.up_proj feed_forward.w3",
    "ffn_down": "mlp.down_proj mlp.c_proj mlp.fc2 mlp.dense_4h_to_h ffn.down_proj feed_forward.w2",
    "ffn_gate_inp": "block_sparse_moe.gate mlp.gate mlp.router",
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
    "ffn_up_shexp": "mlp.shared_expert.up_proj",
    "ffn_down_shexp": "mlp.shared_expert.down_proj",
}
END_NAMES = {name: word for word, names in ENDS.items() for name in names.split()}
BLOCK_NAMES = {name: word for word, names in BLOCKS.items() for name in names.split()}
LAYER = re.compile(r"(?:transformer\.|gpt_neox\.|model\.|encoder\.)*(?:layers|h|blocks)\.(\d+)\.(.*)")


# What is behind the attention is a norm of its own, not that before the feed-forward block.
POST_ATTENTION = ("gemma2", "gemma3", "olmo2", "gpt-oss")


def rename(name, arch):
    """A name of transformers without ".weight" or ".bias"; None: the tensor is not written."""
    if name.endswith((".inv_freq", ".attn.bias", ".masked_bias", ".attention.bias")):
        return None
    match = LAYER.fullmatch(name)
    if match is None:
        return END_NAMES[name]
    layer, rest = match.groups()
    if rest == "post_attention_layernorm" and arch in POST_ATTENTION:
        return f"blk.{layer}.post_attention_norm"
    return f"blk.{layer}.{BLOCK_NAMES[rest]}"


# ---- architectures

ARCHITECTURES = {
    "LlamaForCausalLM": "llama", "YiForCausalLM": "llama", "MistralForCausalLM": "llama", "MixtralForCausalLM": "llama",
    "Ministral3ForCausalLM": "mistral3", "SmolLM3ForCausalLM": "smollm3", "GraniteForCausalLM": "granite",
    "QWenLMHeadModel": "qwen", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3", "Qwen2MoeForCausalLM": "qwen2moe",
    "Qwen3MoeForCausalLM": "qwen3moe", "GptOssForCausalLM": "gpt-oss", "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3", "Gemma3ForConditionalGeneration": "gemma3",
    "PhiForCausalLM": "phi2", "Phi3ForCausalLM": "phi3", "GPT2LMHeadModel": "gpt2", "GPTBigCodeForCausalLM": "starcoder",
    "Starcoder2ForCausalLM": "starcoder2", "GPTNeoXForCausalLM": "gptneox", "BloomForCausalLM": "bloom",
    "FalconForCausalLM": "falcon", "RWForCausalLM": "falcon", "MPTForCausalLM": "mpt", "MptForCausalLM": "mpt",
    "StableLmForCausalLM": "stablelm", "StableLMEpochForCausalLM": "stablelm", "OlmoForCausalLM": "olmo",
    "Olmo2ForCausalLM": "olmo2", "CohereForCausalLM": "command-r", "Cohere2ForCausalLM": "cohere2",
    "BaichuanForCausalLM": "baichuan", "BaiChuanForCausalLM": "baichuan", "InternLM2ForCausalLM": "internlm2",
    "ChatGLMModel": "chatglm", "GlmForCausalLM": "chatglm", "Glm4ForCausalLM": "glm4",
}
PAIRED = ("llama", "mistral3", "smollm3", "granite", "baichuan", "internlm2", "olmo")
SHIFTED = ("gemma", "gemma2", "gemma3")


class Converter:
    def __init__(self, directory):
        config = json.loads((directory / "config.json").read_text())
        self.directory, self.name = directory, config["architectures"][0]
        if self.name not in ARCHITECTURES:
            raise Unwritable(f"llama.cpp has no {self.name}")
        self.arch = ARCHITECTURES[self.name]
        self.config = {**config, **config.get("text_config", {})}
        self.rope = dict(self.config.get("rope_parameters") or self.config.get("rope_scaling") or {})
        self.hidden = self.get("hidden_size", "n_embd", "n_embed", "d_model")
        self.heads = self.get("num_attention_heads", "n_head", "n_heads")
        self.layers = self.get("num_hidden_layers", "n_layer", "n_layers", "num_layers")
        self.kv_heads = self.count_kv_heads()
        self.head_dim = self.get("head_dim", "kv_channels", default=self.hidden // self.heads)
        self.taken = {}   # fields of config.json that the file has no place for, as a reader takes them
        self.metadata = {"general.architecture": self.arch}
        self.tensors = {}

    def get(self, *names, default=None):
        return next((self.config[n] for n in names if self.config.get(n) is not None), default)

    def count_kv_heads(self):
        if self.arch == "falcon":
            return self.get("num_kv_heads", "n_head_kv", default=1)
        if self.arch == "starcoder":
            if not self.config.get("multi_query", True):
                raise Unwritable("the converter writes one key head")
            return 1
        if self.arch == "chatglm" and self.config.get("multi_query_attention"):
            return self.config["multi_query_group_num"]
        return self.get("num_key_value_heads", default=self.heads)

    def put(self, key, item):
        self.metadata[f"{self.arch}.{key}"] = item

    # -- metadata

    def put_sizes(self, tensors):
        positions = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len", "model_max_length")
        self.put("context_length", self.get(*positions, default=2048))
        self.put("embedding_length", self.hidden)
        self.put("block_count", self.layers)
        self.put("attention.head_count", self.heads)
        self.put("attention.head_count_kv", self.kv_heads)
        size = self.get("intermediate_size", "n_inner", "ffn_hidden_size", default=4 * self.hidden)
        self.put("feed_forward_length", size)   # the converter of some families writes four hidden sizes, as they all have
        if self.head_dim != self.hidden // self.heads or self.arch in ("gemma", "gemma2", "gemma3"):
            self.put("attention.key_length", self.head_dim)
            self.put("attention.value_length", self.head_dim)
        rms = self.get("rms_norm_eps", "layernorm_epsilon")
        plain = self.get("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", default=1e-5)
        self.put("attention.layer_norm_rms_epsilon" if rms is not None else "attention.layer_norm_epsilon",
                 rms if rms is not None else plain)
        eos = self.config.get("eos_token_id")
        if eos is not None:
            self.metadata["tokenizer.ggml.eos_token_id"] = eos[0] if isinstance(eos, list) else eos

    def put_rope(self):
        rope = self.rope.get("full_attention", self.rope)
        theta = rope.get("rope_theta") or self.get("rope_theta", "rotary_emb_base")
        if self.arch == "chatglm":
            theta = (theta or 10000.0) * self.config.get("rope_ratio", 1)
        if theta is not None:
            self.put("rope.freq_base", float(theta))
        local = self.rope.get("sliding_attention", {}).get("rope_theta") or self.config.get("rope_local_base_freq")
        if local is not None:
            self.put("rope.freq_base_swa", float(local))
        part = rope.get("partial_rotary_factor") or self.get("partial_rotary_factor", "rotary_pct", "rope_pct")
        if self.arch in ("chatglm", "glm4"):
            part = part or 0.5
        if part is not None or self.arch in PAIRED:
            self.put("rope.dimension_count", int(self.head_dim * (part or 1.0)))
        self.put_scaling(rope, rope.get("rope_type", rope.get("type")))

    def put_scaling(self, rope, kind):
        if kind == "llama3":
            self.tensors["rope_freqs.weight"] = self.llama3_divisors(rope)
        elif kind in ("longrope", "su"):
            original = self.get("original_max_position_embeddings") or rope["original_max_position_embeddings"]
            scale = self.config["max_position_embeddings"] / original
            self.put("rope.scaling.original_context_length", original)
            self.put("rope.scaling.attn_factor", math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)
            for which in ("long", "short"):
                factors = rope[f"{which}_factor"]
                self.tensors[f"rope_factors_{which}.weight"] = Tensor([len(factors)], factors)
        elif kind in ("linear", "yarn"):
            self.put("rope.scaling.type", kind)
            self.put("rope.scaling.factor", float(rope["factor"]))
        elif self.arch in ("command-r", "cohere2"):
            self.put("rope.scaling.type", "none")
        if kind == "yarn":
            self.put("rope.scaling.original_context_length", rope["original_max_position_embeddings"])
            for field in ("beta_fast", "beta_slow"):
                if field in rope:
                    self.put(f"rope.scaling.yarn_{field}", float(rope[field]))
        if self.arch == "mistral3":
            self.put("rope.scaling.yarn_log_multiplier", float(rope["mscale_all_dim"]))
            self.put("attention.temperature_scale", float(rope["llama_4_scaling_beta"]))

    def llama3_divisors(self, rope):
        base, dim, original = self.config["rope_theta"], self.head_dim, rope["original_max_position_embeddings"]
        low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
        divisors = []
        for i in range(0, dim, 2):
            length = 2 * math.pi * base ** (i / dim)
            smooth = (original / length - low) / (high - low)
            divisors.append(1.0 if length < original / high else factor if length > original / low
                            else 1 / ((1 - smooth) / factor + smooth))
        return Tensor([len(divisors)], divisors)

    def put_experts(self):
        count = self.get("num_local_experts", "num_experts")
        if count is None:
            return
        if self.config.get("mlp_only_layers") or self.config.get("decoder_sparse_step", 1) != 1:
            raise Unwritable("llama.cpp has experts in all layers of it")
        self.put("expert_count", count)
        self.put("expert_used_count", self.get("num_experts_per_tok", "experts_per_token"))
        size = self.config["intermediate_size"] if self.arch == "gpt-oss" else self.config.get("moe_intermediate_size")
        if size is not None:
            self.put("expert_feed_forward_length", size)
        if (shared := self.config.get("shared_expert_intermediate_size")) is not None:
            self.put("expert_shared_feed_forward_length", shared)
        if self.arch in ("qwen2moe", "qwen3moe") and self.config.get("norm_topk_prob", False) != (self.arch == "qwen3moe"):
            self.taken["norm_topk_prob"] = self.arch == "qwen3moe"

    def put_windows(self):
        window = self.config.get("sliding_window")
        if self.arch in ("gemma2", "gemma3", "cohere2", "gpt-oss"):
            self.put("attention.sliding_window", window)
            if "layer_types" in self.config:
                self.put("attention.sliding_window_pattern", [t == "sliding_attention" for t in self.config["layer_types"]])
            elif "sliding_window_pattern" in self.config:
                self.put("attention.sliding_window_pattern", self.config["sliding_window_pattern"])
        elif self.arch == "phi3":
            self.put("attention.sliding_window", window or 0)
        elif window is not None and self.config.get("use_sliding_window", True):
            self.taken["sliding_window"] = None
            if "use_sliding_window" in self.config:
                self.taken |= {"use_sliding_window": False, "layer_types": None}

    def put_scales(self):
        words = {"gemma2": [("attn_logit_softcapping", "attn_logit_softcapping")],
                 "granite": [("attention_multiplier", "attention.scale"), ("embedding_multiplier", "embedding_scale"),
                             ("residual_multiplier", "residual_scale"), ("logits_scaling", "logit_scale")],
                 "command-r": [("logit_scale", "logit_scale")], "cohere2": [("logit_scale", "logit_scale")],
                 "olmo": [("clip_qkv", "attention.clamp_kqv")]}.get(self.arch, [])
        for field, key in [*words, ("final_logit_softcapping", "final_logit_softcapping")]:
            if self.config.get(field) is not None:
                self.put(key, float(self.config[field]))
        if self.arch in ("gemma2", "gemma3"):
            self.taken["query_pre_attn_scalar"] = self.head_dim
        if self.arch in ("gptneox", "stablelm"):
            self.put("use_parallel_residual", self.config.get("use_parallel_residual", True))
        if self.arch == "mpt":
            attention = self.config["attn_config"]
            self.put("attention.max_alibi_bias", float(attention["alibi_bias_max"]))
            if attention["clip_qkv"] is not None:
                self.put("attention.clamp_kqv", float(attention["clip_qkv"]))

    def take_for_granted(self):
        if self.arch == "smollm3" and (self.config.get("no_rope_layers") or self.config.get("no_rope_layer_interval") != 4):
            self.taken |= {"no_rope_layers": None, "no_rope_layer_interval": 4}
        if self.arch == "falcon" and self.config.get("alibi"):
            raise Unwritable("llama.cpp has no Falcon with ALiBi")
        if self.arch == "baichuan":
            if "max_position_embeddings" not in self.config:
                raise Unwritable("ALiBi is that of the model with 40 layers")
            if self.name != "BaiChuanForCausalLM":   # Baichuan 2 is told by its vocabulary
                self.taken |= {"architectures": ["BaiChuanForCausalLM"], "z_loss_weight": None}
        if self.arch == "qwen" and self.config["seq_length"] != self.config["max_position_embeddings"]:
            raise Unwritable("the file has one number of positions")

    # -- tensors

    def put_qkv(self, name, tensor):
        """name: blk.N.attn_qkv.weight, or .bias."""
        per_key = self.heads // self.kv_heads
        if self.arch in ("gptneox", "bloom", "falcon"):
            self.tensors[name] = join(split_groups(tensor, self.kv_heads, per_key, self.head_dim))
            return
        if self.arch == "chatglm" and not self.config.get("multi_query_attention"):
            raise Unwritable("the converter does not reorder heads that are not grouped")
        if self.arch not in ("internlm2", "baichuan"):
            self.tensors[name] = tensor
            return
        if name.endswith(".bias"):
            raise Unwritable("the converter does not split a fused bias")
        q, k, v = split_groups(tensor, self.kv_heads, per_key, self.head_dim) if self.arch == "internlm2" else \
            [tensor.from_rows(tensor.rows()[i * self.hidden:(i + 1) * self.hidden]) for i in range(3)]
        for word, part in zip(("attn_q", "attn_k", "attn_v"), (q, k, v), strict=True):
            heads = {"attn_q": self.heads, "attn_k": self.kv_heads}.get(word)
            self.tensors[name.replace("attn_qkv", word)] = pair_halves(part, heads) if heads else part

    def put_stacked(self, tensors):
        """Experts: of a tensor each (w1, gate_proj), or of one for all (gpt-oss)."""
        words = {"w1": "gate", "w3": "up", "w2": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}
        separate = re.compile(r"model\.layers\.(\d+)\.\w+\.experts\.(\d+)\.(\w+)\.weight")
        whole = re.compile(r"model\.layers\.(\d+)\.mlp\.experts\.(gate_up|down)_proj(_bias)?")
        experts = {}
        for name in [n for n in tensors if ".experts." in n]:
            tensor = tensors.pop(name)
            if match := separate.fullmatch(name):
                layer, expert, word = match.groups()
                experts.setdefault(f"blk.{layer}.ffn_{words[word]}_exps.weight", {})[int(expert)] = tensor
                continue
            layer, word, is_bias = whole.fullmatch(name).groups()
            end = "bias" if is_bias else "weight"
            parts = split_experts(tensor)
            if not is_bias:
                parts = [p.transposed() for p in parts]   # [in, out] in transformers
            if word == "down":
                self.tensors[f"blk.{layer}.ffn_down_exps.{end}"] = stack(parts)
                continue
            for first, half in ((0, "gate"), (1, "up")):   # a row of the gate, a row of what it gates, ...
                if is_bias:
                    taken = [Tensor([len(p.values) // 2], p.values[first::2]) for p in parts]
                else:
                    taken = [p.from_rows(p.rows()[first::2]) for p in parts]
                self.tensors[f"blk.{layer}.ffn_{half}_exps.{end}"] = stack(taken)
        for name, by_number in experts.items():
            self.tensors[name] = stack([by_number[i] for i in sorted(by_number)])

    def put_head_norms(self, tensors):
        """StableLM 2 has a tensor a head; the file has one."""
        pattern = re.compile(r"model\.layers\.(\d+)\.self_attn\.([qk])_layernorm\.norms\.(\d+)\.weight")
        found = {}
        for name in list(tensors):
            if match := pattern.fullmatch(name):
                layer, letter, head = match.groups()
                found.setdefault(f"blk.{layer}.attn_{letter}_norm.weight", {})[int(head)] = tensors.pop(name)
        for name, heads in found.items():
            self.tensors[name] = stack([heads[i] for i in sorted(heads)])

    def put_tensor(self, name, tensor):
        name = name.removeprefix("language_model.")
        if name.endswith("self_attn.sinks"):
            name += ".weight"
        stem, _, end = name.rpartition(".")
        word = rename(stem, self.arch) if end in ("weight", "bias") else None
        if word is None or (word == "output" and self.arch in SHIFTED):
            return
        if self.arch == "gpt2" and end == "weight" and re.search(r"\.(c_attn|c_proj|c_fc)$", stem):
            tensor = tensor.transposed()
        if self.arch in SHIFTED and name.endswith("norm.weight"):
            tensor = Tensor(tensor.shape, [x + 1.0 for x in tensor.values])
        if word.endswith("attn_qkv"):
            self.put_qkv(f"{word}.{end}", tensor)
            return
        if self.arch in PAIRED and word.endswith(("attn_q", "attn_k")):
            tensor = pair_halves(tensor, self.heads if word.endswith("q") else self.kv_heads)
        if tensor.shape[0] == 1 and word.endswith("_shexp"):
            tensor = Tensor(tensor.shape[1:], tensor.values)
        self.tensors[f"{word}.{end}"] = tensor

    def convert(self, path):
        tensors = read_safetensors(self.directory / "model.safetensors")
        if self.arch == "gemma3":
            tensors = {n: t for n, t in tensors.items() if not n.startswith(("vision_tower.", "multi_modal_projector."))}
        self.put_sizes(tensors)
        if self.arch not in ("gpt2", "starcoder", "bloom", "mpt"):
            self.put_rope()
        self.put_experts()
        self.put_windows()
        self.put_scales()
        self.take_for_granted()
        self.put_stacked(tensors)
        self.put_head_norms(tensors)
        for name, tensor in tensors.items():
            self.put_tensor(name, tensor)
        write_gguf(path, self.metadata, self.tensors)
        return self.taken


def convert(directory, path):
    return Converter(Path(directory)).convert(Path(path))


if __name__ == "__main__":
    print(convert(sys.argv[1], sys.argv[2]))
