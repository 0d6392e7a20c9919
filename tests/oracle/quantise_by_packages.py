"""Quantises tiny models by the packages that publish the formats, on a CPU: gptqmodel, auto-round, compressed-tensors, bitsandbytes.

Each is imported where it is used. Made with gptqmodel 7.7.0, auto-round 0.16.1, compressed-tensors 0.20.1, bitsandbytes 0.50.2.
"""
import json
import os
import pathlib
import tempfile

import torch

from quantise import round_groups

N_TEXTS, N_TOKENS = 32, 40


def texts(vocab):
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(3, vocab, (1, N_TOKENS), generator=draw) for _ in range(N_TEXTS)]


def word_tokenizer(vocab):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({f"w{i}": i for i in range(vocab)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0", eos_token="w2")


def gptqmodel(model, directory, **options):
    """Whole models: by GPTQ's own algorithm, or AWQ's with method="awq"."""
    os.cpu_count = lambda: 4  # its pools want more threads than small machines have
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
    vocab = model.config.vocab_size
    with tempfile.TemporaryDirectory() as scratch:
        model.to(torch.bfloat16).save_pretrained(scratch)
        word_tokenizer(vocab).save_pretrained(scratch)
        made = GPTQModel.load(scratch, QuantizeConfig(**options), device="cpu")
        made.quantize([{"input_ids": t[0].tolist(), "attention_mask": [1] * N_TOKENS} for t in texts(vocab)], batch_size=1)
        made.save(str(directory))
    read = GPTQModel.load(str(directory), device="cpu", backend=BACKEND.TORCH if "method" not in options else BACKEND.AUTO)
    return {name: layer.dequantize_weight().t() for name, layer in read.model.named_modules()
            if hasattr(layer, "dequantize_weight")}


def auto_round(model, directory, form, **options):
    """Whole models, rounded to nearest (no iterations of its algorithm)."""
    from auto_round import AutoRound
    vocab = model.config.vocab_size
    rounder = AutoRound(model, word_tokenizer(vocab), iters=0, seqlen=N_TOKENS, nsamples=4, batch_size=1,
                        dataset=texts(vocab)[:4], **options)
    with tempfile.TemporaryDirectory() as scratch:
        rounder.quantize_and_save(format=form, output_dir=scratch)
        made = next(pathlib.Path(scratch).rglob("config.json")).parent
        made.rename(directory)
    return {}


class CompressedTensors:
    """Scales and zero points are ours, the rest is the package's."""

    def __init__(self, form, inputs=None, **weights):
        from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
        args = QuantizationArgs(**weights)
        self.form = form
        self.scheme = QuantizationScheme(targets=["Linear"], weights=args, input_activations=inputs and QuantizationArgs(**inputs))
        config = QuantizationConfig(config_groups={"group_0": self.scheme}, format=form, ignore=["lm_head"],
                                    quantization_status="compressed")
        self.settings = json.loads(json.dumps(config.model_dump(mode="json")))

    def scales(self, weight):
        """-> scale, zero point less the middle or None"""
        args = self.scheme.weights
        if args.type == "float":
            height, width = {"tensor": weight.shape, "channel": (1, weight.shape[1]),
                             "block": args.block_structure}[args.strategy]
            blocks = torch.nn.functional.pad(weight, (0, -weight.shape[1] % width, 0, -weight.shape[0] % height))
            blocks = blocks.reshape(blocks.shape[0] // height, height, -1, width)
            scale = (blocks.abs().amax((1, 3)) / 448).to(torch.bfloat16)
            return scale.reshape(1) if args.strategy == "tensor" else scale, None
        _, scale, zero, _ = round_groups(weight, args.num_bits, args.group_size or -1, args.symmetric, torch.bfloat16)
        return scale, (zero - (1 << args.num_bits - 1)).to(torch.int8)

    def parts(self, weight):
        from compressed_tensors.compressors.base import BaseCompressor
        compressor = BaseCompressor.get_value_from_registry(self.form)
        scale, zero = self.scales(weight)
        state = {"weight": weight, "weight_scale": scale.float()}
        if zero is not None:
            state["weight_zero_point"] = zero
        made = compressor.compress(state, self.scheme)
        plain = compressor.decompress(dict(made), self.scheme)["weight"]
        return made | {"weight_scale": scale}, plain


def bitsandbytes_4bit(weight, kind, nested):
    import bitsandbytes
    layer = bitsandbytes.nn.Linear4bit(weight.shape[1], weight.shape[0], bias=False, quant_type=kind, compress_statistics=nested)
    layer.weight = bitsandbytes.nn.Params4bit(weight, requires_grad=False, quant_type=kind, compress_statistics=nested)
    layer = layer.to("cpu")
    if layer.weight.quant_state is None:
        layer.weight = layer.weight._quantize("cpu")
    return layer.state_dict(), bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)


def bitsandbytes_8bit(weight):
    import bitsandbytes
    layer = bitsandbytes.nn.Linear8bitLt(weight.shape[1], weight.shape[0], bias=False, has_fp16_weights=False)
    layer.weight = bitsandbytes.nn.Int8Params(weight.half(), requires_grad=False, has_fp16_weights=False)
    state = layer.to("cpu").state_dict()
    return state, bitsandbytes.functional.int8_vectorwise_dequant(state["weight"], state["SCB"])
