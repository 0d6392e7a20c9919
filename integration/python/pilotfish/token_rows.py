"""Prompts as torch tensors, numpy arrays or lists, to rows of ids, and texts back to what the prompts were.

A tensor or an array is [n_texts, width], padded on the left; a list is one text, or a list of texts of any lengths.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence


def _module_of(value: Any) -> str:
    return type(value).__module__.partition(".")[0]


@dataclass
class Prompts:
    given: list[list[int]]                 # with their padding
    rows: list[list[int]]                  # without
    finish: Callable[[list[list[int]]], Any]
    like: Callable[[list[int], bool], Any]    # ids as an array of the prompts' kind: [n], or [1, n] where the flag is set


def _array_maker(value: Any) -> Callable[[Any], Any]:
    """What makes arrays of the kind of `value`; for lists torch's where it is loaded, else numpy's, else lists."""
    if _module_of(value) == "torch" or (isinstance(value, list) and "torch" in sys.modules):
        import torch
        device = getattr(value, "device", None)
        return lambda ids: torch.tensor(ids, dtype=torch.long, device=device)
    try:
        import numpy
    except ImportError:
        return lambda ids: [list(i) if isinstance(i, list) else i for i in ids]     # a copy, as an array is
    dtype = getattr(value, "dtype", numpy.dtype("int64"))
    return lambda ids: numpy.array(ids, dtype=dtype)


def _nested(name: str, value: Any) -> list[list[int]]:
    if not hasattr(value, "shape"):
        raise ValueError(f"{name} is a {type(value).__name__}, expected a tensor or an array [n_texts, width], or lists of integers")
    if len(value.shape) != 2:
        raise ValueError(f"{name} has the shape {tuple(value.shape)}, expected [n_texts, width]")
    if not str(value.dtype).split(".")[-1].lstrip("u").startswith(("int", "bool")):
        raise ValueError(f"{name} has the type {value.dtype}, expected integers")
    return [[int(i) for i in row] for row in value.tolist()]


def _padded(texts: Sequence[Sequence[int]], pad: Optional[int]) -> list[list[int]]:
    width = max(map(len, texts))
    if pad is None and any(len(text) < width for text in texts):
        raise ValueError("the texts have different lengths: pad_token_id is needed")
    return [list(text) + [pad or 0] * (width - len(text)) for text in texts]


def _unpadded(row: Sequence[int], mask: Sequence[int], index: int) -> list[int]:
    if len(mask) != len(row):
        raise ValueError(f"attention_mask has {len(mask)} values for text {index}, expected {len(row)}")
    first = next((i for i, kept in enumerate(mask) if kept), len(mask))
    if not all(mask[first:]):
        raise ValueError(f"attention_mask of text {index} hides tokens behind others: pad on the left (padding_side=\"left\")")
    return list(row[first:])


def _masks(given: list[list[int]], attention_mask: Any, pad: Optional[int], eos: Sequence[int]) -> list[list[int]]:
    """As transformers has them: without a mask, pad tokens are padding if they end no text."""
    if attention_mask is not None:
        masks = attention_mask if isinstance(attention_mask, (list, tuple)) else _nested("attention_mask", attention_mask)
        masks = [masks] if masks and isinstance(masks[0], int) else list(masks)
        if len(masks) != len(given):
            raise ValueError(f"attention_mask has {len(masks)} texts, expected {len(given)}")
        return [list(mask) for mask in masks]
    if pad is None or pad in eos:
        return [[1] * len(row) for row in given]
    return [[int(i != pad) for i in row] for row in given]


def read(inputs: Any, attention_mask: Any, pad: Optional[int], eos: Sequence[int]) -> Prompts:
    """ValueError says what is wrong with the inputs or the mask."""
    make = _array_maker(inputs)
    if isinstance(inputs, (list, tuple)):
        is_one = bool(inputs) and isinstance(inputs[0], int)
        given = [[int(i) for i in row] for row in ([inputs] if is_one else inputs)]
        finish: Callable[[list[list[int]]], Any] = (lambda texts: texts[0] if len(texts) == 1 else texts) if is_one else (lambda texts: texts)
    else:
        given = _nested("input_ids", inputs)
        finish = lambda texts: make(_padded(texts, pad))    # noqa: E731
    masks = _masks(given, attention_mask, pad, eos)
    rows = [_unpadded(row, mask, i) for i, (row, mask) in enumerate(zip(given, masks))]
    if not rows or not all(rows):
        raise ValueError("input_ids has no text, or one without a token")
    return Prompts(given, rows, finish, lambda ids, nested: make([ids] if nested else ids))
