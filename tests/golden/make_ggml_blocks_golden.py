#!/usr/bin/env python3
"""Random blocks of each type and their elements by the gguf package: tests/golden/ggml_blocks/TYPE.bin.

Run once, with `pip install gguf`. A file: u32 n_blocks, the blocks, n_blocks * block_elements floats. The package does not
convert Q8_K: here its elements are d * q, as in ggml-quants.c.
"""
import pathlib
import struct

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

OUT = pathlib.Path(__file__).parent / "ggml_blocks"
# Where the F16 numbers of a block stand.
HALVES = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
TYPES = [*HALVES, "F32", "BF16", "Q8_K", "MXFP4"]


def main():
    rng = np.random.default_rng(49)
    OUT.mkdir(exist_ok=True)
    for name in TYPES:
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        n = 2 if elements == 256 else 8 if elements == 32 else 64
        blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
        for at in HALVES.get(name, []):   # finite, a denormal one among them
            halves = rng.normal(0, 0.1, n).astype(np.float16)
            halves[-1] = 3e-7
            blocks[:, at:at + 2] = halves.view(np.uint8).reshape(n, 2)
        if name in ("F32", "Q8_K"):
            blocks[:, :4] = rng.normal(0, 0.1, n).astype(np.float32).view(np.uint8).reshape(n, 4)
        if name == "BF16":
            blocks = (rng.normal(0, 0.1, n).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(n, 2)
        if name == "MXFP4":   # powers of two that all elements keep finite
            blocks[:, 0] %= 253
            blocks[:5, 0] = [0, 1, 2, 127, 252]
        if name == "Q8_K":
            values = blocks[:, :4].copy().view(np.float32) * blocks[:, 4:260].view(np.int8).astype(np.float32)
        else:
            values = dequantize(blocks, kind)
        values = np.ascontiguousarray(values, dtype=np.float32)
        assert values.size == n * elements and np.isfinite(values).all(), name
        (OUT / f"{name}.bin").write_bytes(struct.pack("<I", n) + blocks.tobytes() + values.tobytes())


main()
