"""The fingerprint of a vocabulary (docs/protocol.md, "Vocabulary fingerprint"), from a tokenizer.json."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Optional, Union


def _bytes_of_characters() -> dict[str, int]:
    """What each character of a byte-level vocabulary stands for: printable ones for themselves, the others from 256 up."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + i): byte for i, byte in enumerate(others)}}


def fingerprint(tokenizer: Union[str, os.PathLike[str]], n_ids: int) -> Optional[bytes]:
    """SHA-256 of the vocabulary in a tokenizer.json, or in the folder that has one; None where there is none.

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
    digest = hashlib.sha256()
    for number in sorted(texts):
        if number >= n_ids:
            break
        text = texts[number]
        if byte_level and number not in added and all(c in byte_of for c in text):
            data = bytes(byte_of[c] for c in text)
        else:
            data = text.encode()
        digest.update(number.to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)
    return digest.digest()
