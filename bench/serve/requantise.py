#!/usr/bin/env python3
"""Writes a GGUF file again with its matrices in another type, and perhaps with the weights of another model.

    requantise.py SOURCE.gguf BF16|Q8_0|Q4_0 OUT.gguf [WEIGHTS]

All matrices get the type, the embedding and the head included. WEIGHTS is a directory that bench/peers/make_models.py has made: the
file then has its shape and its weights, and the tokenizer of SOURCE, with names for the ids that this lacks. So a server has a
tokenizer, which it needs, and the weights are those of the other benches.

Needs numpy and gguf, of bench/peers/requirements.txt.
"""
import json
import pathlib
import sys

import gguf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import make_models  # noqa: E402

TOKENS = {"tokenizer.ggml.tokens": "<unused %d>", "tokenizer.ggml.token_type": gguf.TokenType.UNUSED, "tokenizer.ggml.scores": -1e4}
OWN = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")


def copy_fields(writer, fields, keep, n_tokens):
    for name, field in fields.items():
        if name.startswith(OWN) or not keep(name):
            continue
        value, kind = field.contents(), field.types[0]
        if name in TOKENS:
            filler = TOKENS[name]
            value = value + [filler % i if isinstance(filler, str) else filler for i in range(len(value), n_tokens)]
        writer.add_key_value(name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def requantise(source, kind, out):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents(), use_temp_file=True)
    copy_fields(writer, reader.fields, lambda name: True, 0)
    for tensor in reader.tensors:
        make_models.add_gguf_tensor(writer, tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type), kind)
    make_models.end_gguf(writer)


def with_weights(source, kind, out, directory):
    reader = gguf.GGUFReader(source)
    config = json.loads((directory / "config.json").read_text())
    writer = make_models.begin_gguf(config, out)
    copy_fields(writer, reader.fields, lambda name: name.startswith("tokenizer."), config["vocab_size"])
    for name, values in make_models.gguf_tensors(config, directory):
        make_models.add_gguf_tensor(writer, name, values, kind)
    make_models.end_gguf(writer)


def main(arguments):
    if len(arguments) not in (3, 4):
        sys.exit(__doc__)
    kind = gguf.GGMLQuantizationType[arguments[1]]
    if len(arguments) == 3:
        requantise(arguments[0], kind, arguments[2])
    else:
        with_weights(arguments[0], kind, arguments[2], pathlib.Path(arguments[3]))


if __name__ == "__main__":
    main(sys.argv[1:])
