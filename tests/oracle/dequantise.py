"""Computes the float32 weights of a checkpoint that another program quantised, from the layouts that its format publishes.

    dequantise(config, tensors) -> {name: float32 tensor}, with the names of the model before it was quantised

Written from the formats, not from model/files: the two are compared through logits. Needs torch.
"""
import json

import torch

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # the column of each nibble of a word


def unpack(words, bits, order=None):
    """int32 [..., n] -> [..., n * 32 / bits], the first value in the lowest bits."""
    values = (words.to(torch.int64).unsqueeze(-1) & 0xFFFFFFFF) >> torch.arange(0, 32, bits) & (1 << bits) - 1
    if order is not None:
        values = values[..., [order.index(i) for i in range(len(order))]]
    return values.flatten(-2)


def apply_groups(q, scales, zeros, index):
    """q [K, N], scales and zeros [G, N], index [K] -> [N, K]"""
    return (scales.float()[index] * (q - zeros[index]).float()).t().contiguous()


def group_index(columns, groups, size):
    size = columns if size <= 0 else size
    if -(-columns // size) != groups:
        size = columns // groups
    return torch.arange(columns) // size


def gptq(part, settings, less_one):
    scales = part("scales")
    words = part("qweight")
    bits = settings["bits"]
    q = unpack(words.t(), bits).t()
    zeros = part("qzeros").to(torch.int64)
    if less_one:
        zeros = zeros + sum(1 << shift for shift in range(0, 32, bits))
    zeros = unpack(zeros, bits)[:, :scales.shape[1]]
    index = part("g_idx")
    if index is None:
        index = group_index(len(q), len(scales), settings.get("group_size", 128))
    return apply_groups(q, scales, zeros, index.long())


def awq(part, settings):
    scales = part("scales")
    q = unpack(part("qweight"), 4, AWQ_ORDER)
    zeros = unpack(part("qzeros"), 4, AWQ_ORDER)
    return apply_groups(q, scales, zeros, group_index(len(q), len(scales), settings.get("group_size", 128)))


def scaled(part, blocks):
    scales = part("weight_scale_inv") if part("weight_scale_inv") is not None else part("weight_scale")
    scales = scales.float()
    zeros = part("weight_zero_point")
    if part("weight_packed") is not None:
        rows, columns = part("weight_shape").tolist()
        words = part("weight_packed")
        bits = next(b for b in (2, 4, 8) if -(-columns * b // 32) == words.shape[1])
        q = unpack(words, bits)[:, :columns] - (1 << bits - 1)
        if zeros is not None:
            zeros = unpack(zeros.t(), bits).t()[:rows] - (1 << bits - 1)
    else:
        q = part("weight").float()
        rows, columns = q.shape
    zeros = torch.zeros_like(scales) if zeros is None else zeros.float()
    if scales.numel() > 1 and blocks and scales.shape == tuple(-(-n // b) for n, b in zip((rows, columns), blocks)):
        for dimension, size in enumerate(blocks):
            scales = scales.repeat_interleave(size, dimension)
            zeros = zeros.repeat_interleave(size, dimension)
        return scales[:rows, :columns] * (q - zeros[:rows, :columns])
    if scales.dim() == 2 and scales.shape[1] > 1:
        index = part("weight_g_idx")
        if index is None or (index == -1).any():
            index = torch.arange(columns) // (columns // scales.shape[1])
        return scales[:, index.long()] * (q - zeros[:, index.long()])
    shape = (-1, 1) if scales.numel() > 1 else ()
    return scales.reshape(shape) * (q - zeros.reshape(shape))


def bitsandbytes(part):
    if part("SCB") is not None:
        return part("weight").float() * part("SCB").reshape(-1, 1) * 7.874015718698502e-3
    blob = next(b for b in (part(f"weight.quant_state.bitsandbytes__{t}") for t in ("nf4", "fp4")) if b is not None)
    state = json.loads(bytes(blob.tolist()))
    absmax = part("weight.absmax")
    if absmax.dtype == torch.uint8:
        nested = part("weight.nested_absmax").repeat_interleave(state["nested_blocksize"])[:len(absmax)]
        absmax = part("weight.nested_quant_map")[absmax.long()] * nested + state["nested_offset"]
    packed = part("weight").flatten().long()
    nibbles = torch.stack((packed >> 4, packed & 15), -1).flatten()
    n = state["shape"][0] * state["shape"][1]
    values = part("weight.quant_map")[nibbles[:n]] * absmax.repeat_interleave(state["blocksize"])[:n]
    return values.reshape(state["shape"])


def is_gptq_v1(settings):
    if settings["quant_method"] == "gptq":
        return settings.get("checkpoint_format", settings.get("format", "gptq")) == "gptq"
    return "auto_gptq" in settings["packing_format"]


def dequantise_one(settings, part):
    method = settings["quant_method"]
    if method == "bitsandbytes":
        return bitsandbytes(part)
    if method in ("compressed-tensors", "fp8", "fbgemm_fp8"):
        groups = list(settings.get("config_groups", {}).values())
        blocks = groups[0]["weights"].get("block_structure") if groups else settings.get("weight_block_size")
        return scaled(part, blocks)
    if method == "awq" or "awq" in settings.get("packing_format", ""):
        return awq(part, settings)
    return gptq(part, settings, is_gptq_v1(settings))


MARKS = (".qweight", ".weight_packed", ".weight_scale", ".weight_scale_inv", ".weight.absmax", ".SCB")


def dequantise(config, tensors):
    settings = config["quantization_config"]
    stems = {name[:-len(mark)] for name in tensors for mark in MARKS if name.endswith(mark)}
    plain = {name: tensor.float() for name, tensor in tensors.items()
             if not any(name.startswith(stem + ".") and not name.endswith(".bias") for stem in stems)}
    for stem in stems:
        plain[stem + ".weight"] = dequantise_one(settings, lambda part, stem=stem: tensors.get(f"{stem}.{part}"))
    return plain
