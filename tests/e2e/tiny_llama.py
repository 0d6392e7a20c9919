"""Writes small random Llamas with a byte-level tokenizer, with the standard library only.

The weights are large enough for the next token to be decided by them. A draft is its target with noise on every
weight, so it is right often, and wrong often enough.
"""

import array
import json
import random
import struct
from pathlib import Path

SPECIAL = ["<|begin|>", "<|end|>"]
MERGES = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("i", "n"), ("e", "r"), ("o", "n")]
VOCAB_SIZE = len(SPECIAL) + 256 + len(MERGES)


def byte_characters():
    """GPT-2's printable character for each byte."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in kept]
    table = {b: chr(b) for b in kept}
    table.update({b: chr(256 + i) for i, b in enumerate(others)})
    return [table[b] for b in range(256)]


def write_tokenizer(directory, extra=(), special=SPECIAL):
    tokens = [*special, *byte_characters(), *(a + b for a, b in MERGES), *extra]
    regex = r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True} for i, text in enumerate(special)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        ]},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": special[0], "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {special[0]: {"id": special[0], "ids": [0], "tokens": [special[0]]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {text: i for i, text in enumerate(tokens)}, "merges": [" ".join(m) for m in MERGES]},
    }
    (directory / "tokenizer.json").write_text(json.dumps(document))


def shapes(config):
    hidden, head = config["hidden_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    mlp = config["intermediate_size"]
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden], 1.0
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        yield name + "input_layernorm.weight", [hidden], None
        for part, rows in [("q", q), ("k", kv), ("v", kv)]:
            yield f"{name}self_attn.{part}_proj.weight", [rows, hidden], 1.5
        yield name + "self_attn.o_proj.weight", [hidden, q], 1.0
        yield name + "post_attention_layernorm.weight", [hidden], None
        yield name + "mlp.gate_proj.weight", [mlp, hidden], 1.0
        yield name + "mlp.up_proj.weight", [mlp, hidden], 1.0
        yield name + "mlp.down_proj.weight", [hidden, mlp], 1.0
    yield "model.norm.weight", [hidden], None
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [config["vocab_size"], hidden], 4.0


def write_safetensors(path, tensors):
    """tensors: [(name, shape, array of float)], in F32."""
    header, offset = {}, 0
    for name, shape, values in tensors:
        end = offset + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, values in tensors:
            values.tofile(file)


def make(directory, seed=1, noise=0.0, layers=2, hidden=64, context=512, eos=1, tokenizer=True, **changes):
    """Write a model directory. The same seed gives the same weights; noise is added to each, as a share of their spread.
    Embedding and LM head differ: a tied random embedding repeats the last token forever."""
    directory = Path(directory)
    directory.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "vocab_size": VOCAB_SIZE,
        "hidden_size": hidden, "intermediate_size": 2 * hidden, "num_hidden_layers": layers, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": context, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False, "attention_bias": False,
        "mlp_bias": False, "bos_token_id": 0, "eos_token_id": eos, "torch_dtype": "float32", **changes,
    }
    draw, disturb = random.Random(seed), random.Random(seed + 1000)
    tensors = []
    for name, shape, gain in shapes(config):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        spread = 0.0 if gain is None else gain if "embed" in name else gain / shape[1] ** 0.5
        values = array.array("f", (draw.gauss(0.0, spread) if spread else 1.0 for _ in range(n)))
        if noise and spread:
            values = array.array("f", (v + noise * disturb.gauss(0.0, spread) for v in values))
        tensors.append((name, shape, values))
    (directory / "config.json").write_text(json.dumps(config, indent=1))
    write_safetensors(directory / "model.safetensors", tensors)
    if tokenizer:
        write_tokenizer(directory)
    return directory


def open_weights(directory):
    """Returns the header of model.safetensors, its data, and a function that writes both back."""
    path = Path(directory) / "model.safetensors"
    whole = path.read_bytes()
    n_header = struct.unpack("<Q", whole[:8])[0]
    data = bytearray(whole[8 + n_header:])
    return json.loads(whole[8:8 + n_header]), data, lambda: path.write_bytes(whole[:8 + n_header] + data)


def set_value(directory, name, index, value):
    header, data, write = open_weights(directory)
    struct.pack_into("<f", data, header[name]["data_offsets"][0] + 4 * index, value)
    write()


def copy_tensor(directory, name, to):
    """Copies the values of one tensor to another of the same shape."""
    header, data, write = open_weights(directory)
    begin, end = header[name]["data_offsets"]
    at = header[to]["data_offsets"][0]
    data[at:at + end - begin] = data[begin:end]
    write()


def add_tokens(directory, texts):
    """Each text gets the next id, and a row of embedding and head like that of token 7."""
    directory = Path(directory)
    header, data, _ = open_weights(directory)
    config = json.loads((directory / "config.json").read_text())
    n_ids, tensors = config["vocab_size"], []
    for name, entry in header.items():
        values, shape = array.array("f"), list(entry["shape"])
        values.frombytes(data[slice(*entry["data_offsets"])])
        if shape[0] == n_ids:
            row = values[7 * shape[1]:8 * shape[1]]
            for _ in texts:
                values.extend(row)
            shape[0] += len(texts)
        tensors.append((name, shape, values))
    write_safetensors(directory / "model.safetensors", tensors)
    (directory / "config.json").write_text(json.dumps({**config, "vocab_size": n_ids + len(texts)}))
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["added_tokens"] += [
        {"id": n_ids + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True} for i, text in enumerate(texts)]
    path.write_text(json.dumps(tokenizer))
    return directory
