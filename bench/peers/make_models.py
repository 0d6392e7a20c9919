#!/usr/bin/env python3
"""Models with random weights, the same for all sides: for measuring speed, which does not depend on what they say.

    make_models.py safetensors SHAPE DIRECTORY      config.json and model.safetensors in BF16; no tokenizer
    make_models.py gguf DIRECTORY TYPE FILE         the same weights for llama.cpp: BF16, Q8_0 or Q4_0
    make_models.py openvino DIRECTORY OUT           the same for OpenVINO: OUT/bf16, OUT/int8 (of a channel), OUT/int4,
                                                    OUT/int4-g128 and OUT/int4-channel, all symmetric

SHAPE is 1b (Llama-3.2-1B with a vocabulary of 32,000 and a tied head), 68m (Llama-68M) or tiny (to try the scripts).
Weights are normal with a deviation of 0.02, norms 1, the seed is fixed: the same bytes everywhere. Every matrix has the
type asked for, the head included, so that all sides read the same bits a weight.

Needs numpy; gguf for the second form; optimum-intel, nncf and torch for the third.
"""
import json
import os
import pathlib
import struct
import sys

import numpy as np

VOCABULARY = 32000
SHAPES = {
    "1b": dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
               intermediate_size=8192, tie_word_embeddings=True, rope_theta=500000.0),
    "68m": dict(hidden_size=768, num_hidden_layers=2, num_attention_heads=12, num_key_value_heads=12, head_dim=64,
                intermediate_size=3072, tie_word_embeddings=False, rope_theta=10000.0),
    "tiny": dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
                 intermediate_size=768, tie_word_embeddings=True, rope_theta=10000.0),
}


def config_of(shape):
    return dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=VOCABULARY,
                max_position_embeddings=8192, hidden_act="silu", rms_norm_eps=1e-5, attention_bias=False,
                mlp_bias=False, bos_token_id=VOCABULARY - 2, eos_token_id=VOCABULARY - 1, torch_dtype="bfloat16",
                **SHAPES[shape])


def tensors_of(config):
    """Name -> shape, in the order of the file."""
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    shapes = {"model.embed_tokens.weight": (VOCABULARY, hidden)}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        shapes |= {
            at + "input_layernorm.weight": (hidden,),
            at + "self_attn.q_proj.weight": (q, hidden),
            at + "self_attn.k_proj.weight": (kv, hidden),
            at + "self_attn.v_proj.weight": (kv, hidden),
            at + "self_attn.o_proj.weight": (hidden, q),
            at + "post_attention_layernorm.weight": (hidden,),
            at + "mlp.gate_proj.weight": (inner, hidden),
            at + "mlp.up_proj.weight": (inner, hidden),
            at + "mlp.down_proj.weight": (hidden, inner),
        }
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (VOCABULARY, hidden)
    return shapes


def to_bf16(values):
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)


def make_safetensors(shape, directory):
    config = config_of(shape)
    shapes = tensors_of(config)
    header, offset = {}, 0
    for name, dimensions in shapes.items():
        n_bytes = 2 * int(np.prod(dimensions))
        header[name] = dict(dtype="BF16", shape=list(dimensions), data_offsets=[offset, offset + n_bytes])
        offset += n_bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)

    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / "model.safetensors.partial"
    with open(partial, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for i, (name, dimensions) in enumerate(shapes.items()):
            if len(dimensions) == 1:
                values = np.ones(dimensions, np.float32)
            else:
                values = np.random.default_rng([1234, i]).standard_normal(dimensions, np.float32)
                values *= np.float32(0.02)
            to_bf16(values).tofile(out)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    os.replace(partial, directory / "model.safetensors")


def read_safetensors(directory):
    """Yields name and values, as float32."""
    path = directory / "model.safetensors"
    with open(path, "rb") as file:
        (n,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(n))
    data = np.memmap(path, np.uint8, "r", 8 + n)
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        yield name, from_bf16(data[begin:end].view(np.uint16)).reshape(entry["shape"])


GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return GGUF_NAMES[stem] + ".weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{GGUF_NAMES[part]}.weight"


def interleave_rope(values, n_heads):
    """llama.cpp turns neighbouring elements of a head together, transformers those half a head apart."""
    rows, columns = values.shape
    return values.reshape(n_heads, 2, rows // n_heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def begin_gguf(config, path):
    """A writer with all that is known of a model but its tokenizer and its tensors."""
    import gguf
    writer = gguf.GGUFWriter(path, "llama", use_temp_file=True)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    return writer


def gguf_tensors(config, directory):
    """Yields name and values of each tensor as llama.cpp has them."""
    for name, values in read_safetensors(directory):
        if ".q_proj." in name:
            values = interleave_rope(values, config["num_attention_heads"])
        elif ".k_proj." in name:
            values = interleave_rope(values, config["num_key_value_heads"])
        yield gguf_name(name), values


def add_gguf_tensor(writer, name, values, kind):
    import gguf
    if values.ndim == 1:
        writer.add_tensor(name, values)
    else:
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)


def end_gguf(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_gguf(directory, type_name, path):
    import gguf
    config = json.loads((directory / "config.json").read_text())
    partial = str(path) + ".partial"
    writer = begin_gguf(config, partial)
    writer.add_tokenizer_model("no_vocab")
    for name, values in gguf_tensors(config, directory):
        add_gguf_tensor(writer, name, values, gguf.GGMLQuantizationType[type_name])
    end_gguf(writer)
    os.replace(partial, path)


OPENVINO_GROUPS = {"int4": 32, "int4-g128": 128, "int4-channel": -1}


def make_openvino(directory, out):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import nncf
    import openvino
    from optimum.intel import OVModelForCausalLM

    plain = out / "bf16"
    if not (plain / "config.json").exists():
        model = OVModelForCausalLM.from_pretrained(directory, export=True, compile=False, load_in_8bit=False)
        model.save_pretrained(plain)

    def compress(name, mode, **how):
        path = out / name / "openvino_model.xml"
        if not path.exists():
            model = openvino.Core().read_model(plain / path.name)
            openvino.save_model(nncf.compress_weights(model, mode=mode, **how), path)

    compress("int8", nncf.CompressWeightsMode.INT8_SYM)
    for name, group in OPENVINO_GROUPS.items():
        compress(name, nncf.CompressWeightsMode.INT4_SYM, group_size=group, ratio=1.0, all_layers=True)


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "safetensors" and arguments[1] in SHAPES:
        make_safetensors(arguments[1], pathlib.Path(arguments[2]))
    elif len(arguments) == 4 and arguments[0] == "gguf":
        make_gguf(pathlib.Path(arguments[1]), arguments[2], pathlib.Path(arguments[3]))
    elif len(arguments) == 3 and arguments[0] == "openvino":
        make_openvino(pathlib.Path(arguments[1]), pathlib.Path(arguments[2]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
