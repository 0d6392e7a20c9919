"""Compares the vocabularies of a target and a worker: fingerprints, and hashes of blocks of ids (docs/protocol.md).

The target's is read from its tokenizer.json. A worker with another one may still draft over the ids that have the same text in
both: `compare` says which it must not propose. proto/vocabulary.h has the same rules in C.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import NamedTuple, Optional, Sequence, Union

MAX_EXCLUDED = 256      # ranges of an open
MAX_HASHES = 8192       # of a model info
MIN_SHARED = 0.9        # of the ids that either vocabulary has


def _bytes_of_characters() -> dict[str, int]:
    """What each character of a byte-level vocabulary stands for: printable ones for themselves, the others from 256 up."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + i): byte for i, byte in enumerate(others)}}


def block_ids(n_ids: int) -> int:
    """How many ids one hash covers: the smallest power of two for which MAX_HASHES blocks cover the vocabulary."""
    ids = 1
    while (n_ids - 1) // ids >= MAX_HASHES:
        ids *= 2
    return ids


def _hash(number: int, data: bytes) -> int:
    """FNV-1a of 64 bits over id, length and bytes; its halves combined by exclusive or."""
    value = 0xCBF29CE484222325
    for byte in number.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return (value ^ value >> 32) & 0xFFFFFFFF


class Match(NamedTuple):
    """How a draft's vocabulary fits the target's; where hashes cover several ids, a block counts as a whole."""

    n_ids: int              # that either has
    n_different: int        # of them
    excluded: list[int]     # ids that the draft must not propose: pairs of the first and one past the last, ascending, apart


class Vocabulary:
    """The tokens of a target: the bytes of each id that has a text, and `size`, one past the last of them."""

    def __init__(self, tokens: dict[int, bytes]) -> None:
        self.tokens = tokens
        self.size = max(tokens, default=-1) + 1
        self._hashes: dict[int, list[int]] = {}    # by ids of a block: the same worker may be compared once a second

    @classmethod
    def read(cls, tokenizer: Union[str, os.PathLike[str]], n_ids: int) -> Optional[Vocabulary]:
        """Of a tokenizer.json, or of the folder that has one; None where there is none.

        `n_ids` is the number of rows of the model's embedding: tokens past it are not part of the vocabulary.
        """
        path = Path(tokenizer)
        if path.is_dir():
            path = path / "tokenizer.json"
        if not path.is_file():
            return None
        content = json.loads(path.read_text(encoding="utf-8"))
        added = {token["id"]: token["content"] for token in content.get("added_tokens") or []}
        vocabulary = content["model"]["vocab"]
        if isinstance(vocabulary, dict):
            texts = {number: text for text, number in vocabulary.items()}
        else:   # of a unigram model: pairs of text and score
            texts = {number: pair[0] for number, pair in enumerate(vocabulary)}
        texts.update(added)
        byte_level = "ByteLevel" in json.dumps([content.get("pre_tokenizer"), content.get("decoder")])
        byte_of = _bytes_of_characters() if byte_level else {}
        tokens = {}
        for number in sorted(texts):
            text = texts[number]
            if number >= n_ids:
                break
            is_bytes = byte_level and number not in added and all(c in byte_of for c in text)
            tokens[number] = bytes(byte_of[c] for c in text) if is_bytes else text.encode()
        return cls(tokens)

    def fingerprint(self) -> bytes:
        """SHA-256 over id, length and bytes of each token, in order of id."""
        digest = hashlib.sha256()
        for number in sorted(self.tokens):
            data = self.tokens[number]
            digest.update(number.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)
        return digest.digest()

    def hashes(self, ids: int) -> list[int]:
        """The hash of each block of `ids` ids: the sum of its tokens' hashes, modulo 2^32."""
        if ids not in self._hashes:
            sums = [0] * (self.size // ids + 1)
            for number, data in self.tokens.items():
                sums[number // ids] = (sums[number // ids] + _hash(number, data)) & 0xFFFFFFFF
            self._hashes[ids] = sums
        return self._hashes[ids]

    def compare(self, draft_size: int, draft_hashes: Sequence[int]) -> Optional[Match]:
        """Against a draft of `draft_size` tokens by the hashes of its model info; None where these are not as many as it says."""
        draft_ids = block_ids(draft_size)
        if len(draft_hashes) != (draft_size - 1) // draft_ids + 1:
            return None
        n_ids = max(self.size, draft_size)
        ids = block_ids(n_ids)
        mine, per_block = self.hashes(ids), ids // draft_ids
        different = []
        for block in range((n_ids - 1) // ids + 1):
            theirs = sum(draft_hashes[block * per_block:(block + 1) * per_block]) & 0xFFFFFFFF
            if theirs != (mine[block] if block < len(mine) else 0):
                different.append(block * ids)
        return Match(n_ids, sum(min(ids, n_ids - first) for first in different),
                     _ranges([first for first in different if first < draft_size], ids, draft_size))


def _ranges(different: list[int], ids: int, size: int) -> list[int]:
    """Blocks of `ids` ids below `size` as ranges; these are widened until they are at most MAX_EXCLUDED."""
    while True:
        out: list[int] = []
        for first in different:
            begin = first // ids * ids
            if not out or begin > out[-1]:
                out += [begin, begin]
            out[-1] = min(begin + ids, size)
        if len(out) <= 2 * MAX_EXCLUDED:
            return out
        ids *= 2


def fingerprint(tokenizer: Union[str, os.PathLike[str]], n_ids: int) -> Optional[bytes]:
    """The fingerprint of the vocabulary that `Vocabulary.read` finds there; None where there is none."""
    vocabulary = Vocabulary.read(tokenizer, n_ids)
    return None if vocabulary is None else vocabulary.fingerprint()
