"""Quantises a model by rounding to nearest, in the layouts of the formats that have a CPU quantiser only in large packages.

Each function takes a float32 matrix [rows, columns] and returns {part: tensor}, the parts of X in the files. Needs torch.
Sources: GPTQModel (QuantLinear.pack), AutoAWQ (WQLinear_GEMM), transformers (integrations/finegrained_fp8.py).
"""
import torch

from dequantise import AWQ_ORDER


def pack(values, bits, order=None):
    """[..., n * 32 / bits] -> int32 [..., n], the first value in the lowest bits; the last dimension is padded."""
    a_word = 32 // bits
    values = torch.nn.functional.pad(values, (0, -values.shape[-1] % a_word))
    values = values.reshape(*values.shape[:-1], -1, a_word).to(torch.int64)
    if order is not None:
        values = values[..., list(order)]
    words = (values << torch.arange(0, 32, bits)).sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def round_groups(weight, bits, group, symmetric, dtype=torch.float16, index=None):
    """-> q [rows, columns] from 0, scales and zeros [rows, groups], index [columns]: the group of each column."""
    rows, columns = weight.shape
    group = columns if group <= 0 else group
    n_groups, most = -(-columns // group), (1 << bits) - 1
    index = torch.arange(columns) // group if index is None else index
    scales, zeros = torch.zeros(rows, n_groups), torch.zeros(rows, n_groups, dtype=torch.int64)
    for g in range(n_groups):
        part = weight[:, index == g]
        if symmetric:
            scales[:, g] = part.abs().amax(1) / (most // 2)
            zeros[:, g] = 1 << bits - 1
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scales[:, g] = (high - low) / most
            zeros[:, g] = (-low / scales[:, g]).round().clamp(0, most).long()
    scales = scales.to(dtype)
    q = ((weight / scales.float()[:, index]).round().long() + zeros[:, index]).clamp(0, most)
    return q, scales, zeros, index


def shuffled(columns, group, seed=7):
    return torch.randperm(columns, generator=torch.Generator().manual_seed(seed)) // (columns if group <= 0 else group)


def gptq(weight, bits, group, symmetric, act_order=False, less_one=True, with_index=True):
    index = shuffled(weight.shape[1], group) if act_order else None
    q, scales, zeros, index = round_groups(weight, bits, group, symmetric, index=index)
    words = pack(zeros.t(), bits)
    if less_one:  # of whole words, as GPTQModel does it
        words = words - torch.tensor(sum(1 << shift for shift in range(0, 32, bits))).to(torch.int32)
    parts = {"qweight": pack(q, bits).t(), "scales": scales.t(), "qzeros": words, "g_idx": index.to(torch.int32)}
    return parts if with_index else {k: v for k, v in parts.items() if k != "g_idx"}


def awq(weight, group, symmetric=False):
    q, scales, zeros, _ = round_groups(weight, 4, group, symmetric)
    return {"qweight": pack(q.t(), 4, AWQ_ORDER), "scales": scales.t(), "qzeros": pack(zeros.t(), 4, AWQ_ORDER)}


def pack_quantized(weight, bits, group, symmetric, act_order=False):
    """Up to compressed-tensors 0.19, which knows an act-order of groups."""
    index = shuffled(weight.shape[1], group) if act_order else None
    q, scales, zeros, index = round_groups(weight, bits, group, symmetric, torch.bfloat16, index)
    parts = {"weight_packed": pack(q, bits), "weight_scale": scales, "weight_shape": torch.tensor(weight.shape)}
    if not symmetric:
        parts["weight_zero_point"] = pack(zeros.t(), bits).t()
    if act_order:
        parts["weight_g_idx"] = index.to(torch.int32)
    return parts


def float8(weight, blocks, name="weight_scale", dtype=torch.float32):
    """blocks: (rows, columns) of a scale; None: one of all."""
    rows, columns = weight.shape
    height, width = blocks or (rows, columns)
    scales = torch.zeros(-(-rows // height), -(-columns // width))
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            scales[i, j] = weight[i * height:(i + 1) * height, j * width:(j + 1) * width].abs().max() / 448
    scales = scales.to(dtype)
    spread = scales.float().repeat_interleave(height, 0)[:rows].repeat_interleave(width, 1)[:, :columns]
    q = (weight / spread).clamp(-448, 448).to(torch.float8_e4m3fn)
    return {"weight": q, name: scales if blocks else scales.reshape(1)}
