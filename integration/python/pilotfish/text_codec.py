"""Turns text into ids and ids into text by libpilotfish's tokenizer, without transformers.

It has no chat templates: libpilotfish's public header has none. `pilotfish chat` has, and so has transformers' tokenizer.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Callable, Optional, Sequence, Union

from .library import Library, load


class Tokenizer:
    """The tokenizer of a model: a directory with tokenizer.json or another form that is read, or a GGUF file.

    ValueError and PilotfishError name the file and what was expected. Any number of threads may use it.
    """

    def __init__(self, path: Union[str, os.PathLike[str]], *, library: Union[str, os.PathLike[str], None] = None) -> None:
        self._library = load(library)
        out, why = self._library.ffi.new("pf_tokenizer **"), self._library.ffi.new("pf_error *")
        self._library.check(self._library.lib.pf_tokenizer_open(os.fsencode(path), out, why), why)
        handle = out[0]
        self._get_handle: Callable[[], Any] = lambda: handle
        weakref.finalize(self, self._library.lib.pf_tokenizer_close, handle)

    @classmethod
    def from_pretrained(cls, path: Union[str, os.PathLike[str]], **options: Any) -> Tokenizer:
        return cls(path, **options)

    @classmethod
    def borrowed(cls, library: Library, get_handle: Callable[[], Any]) -> Tokenizer:
        """One of another owner. get_handle keeps the owner alive, and raises where it has closed the tokenizer."""
        made = cls.__new__(cls)
        made._library, made._get_handle = library, get_handle
        return made

    @property
    def handle(self) -> Any:
        """The pf_tokenizer; ValueError where its model is closed."""
        return self._get_handle()

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text. add_special_tokens: also what the tokenizer adds by default, as BOS."""
        ffi, lib = self._library.ffi, self._library.lib
        characters = text.encode("utf-8", "surrogatepass")
        n, why, capacity = ffi.new("size_t *"), ffi.new("pf_error *"), len(characters) + 16
        while True:
            ids = ffi.new("int32_t[]", capacity)
            self._library.check(
                lib.pf_tokenize(self.handle, characters, len(characters), add_special_tokens, ids, capacity, n, why), why)
            if n[0] <= capacity:
                return list(ffi.unpack(ids, n[0]))
            capacity = n[0]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included; bytes that are no UTF-8 become U+FFFD."""
        stream = TextStream(self)
        return (b"".join([stream.push(int(i)) for i in ids]) + stream.finish()).decode("utf-8", "replace")

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[list[int]]]:
        """`input_ids` and `attention_mask` of one text, as lists: model.generate(**tokenizer(text))."""
        ids = self.encode(text, add_special_tokens)
        return {"input_ids": [ids], "attention_mask": [[1] * len(ids)]}


class TextStream:
    """Text behind a prompt, as its ids come: the exact bytes, which may end inside a character."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer     # borrowed by the stream
        self._library = tokenizer._library
        ffi, lib = self._library.ffi, self._library.lib
        out = ffi.new("pf_text **")
        self._library.check(lib.pf_text_create(tokenizer.handle, ffi.new("int32_t[]", prompt), len(prompt), out))
        self._handle = out[0]
        weakref.finalize(self, lib.pf_text_destroy, self._handle)
        self._bytes, self._n = ffi.new("char **"), ffi.new("size_t *")

    def push(self, token: int) -> bytes:
        """What an id adds."""
        return self._take(self._library.lib.pf_text_push, token)

    def finish(self) -> bytes:
        """What was held back until no id follows."""
        return self._take(self._library.lib.pf_text_finish)

    def _take(self, function: Callable[..., int], *token: int) -> bytes:
        _ = self._tokenizer.handle      # an error where the model is closed
        self._library.check(function(self._handle, *token, self._bytes, self._n))
        return bytes(self._library.ffi.buffer(self._bytes[0], self._n[0]))


class StopStrings:
    """Tells when a text ends in one of the stop strings with the latest token, which may go on behind it."""

    def __init__(self, tokenizer: Tokenizer, strings: Sequence[str], prompt: Sequence[int]) -> None:
        self._strings = [s.encode() for s in strings]
        self._stream = TextStream(tokenizer, prompt)
        self._longest = max(map(len, self._strings))
        self._tail = tokenizer.decode(prompt[-self._longest:]).encode()[-self._longest:]

    def push(self, token: int) -> bool:
        new = self._stream.push(token)
        if not new:
            return False
        text = self._tail + new
        self._tail = text[-self._longest:]
        return any(text.find(s, max(0, len(text) - len(new) - len(s) + 1)) >= 0 for s in self._strings)


def engine_tokenizer(library: Library, engine: Any) -> Tokenizer:
    """The tokenizer of a LocalEngine; ValueError says why there is none."""
    if not engine.tokenizer:
        reason: Optional[str] = engine.tokenizer_refusal
        raise ValueError(f"the model has no tokenizer that libpilotfish reads: {reason or 'there is no file of one'}")
    return Tokenizer.borrowed(library, lambda: engine.tokenizer)
