"""Parses a .proto file into a FileDescriptorProto, so that the package needs neither protoc nor generated code.

It reads the part of proto3 that proto/pilotfish.proto uses: scalar, message and enum fields, `repeated`, `oneof`, ranges of
`reserved` numbers, nested messages and enums, and services. Anything else is a ValueError that names the word. tests/schema_test.py compares its result with protoc's.
"""

from __future__ import annotations

import re
from typing import Iterator, Optional, Union

from google.protobuf import descriptor_pb2

_WORD = re.compile(r'//[^\n]*|"[^"]*"|[A-Za-z_][\w.]*|\d+|[{}()=;]|(\S)')
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {name: getattr(_Field, "TYPE_" + name.upper()) for name in (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "bool", "string", "bytes")}
_Scope = Union[descriptor_pb2.FileDescriptorProto, descriptor_pb2.DescriptorProto]


class _Words:
    """The words of the source, one at a time; comments are left out."""

    def __init__(self, source: str) -> None:
        self._words: Iterator[str] = self._split(source)

    @staticmethod
    def _split(source: str) -> Iterator[str]:
        for match in _WORD.finditer(source):
            if match[1]:
                raise ValueError(f"a .proto has {match[1]!r}, which this parser does not read")
            if not match[0].startswith("//"):
                yield match[0]

    def next(self) -> Optional[str]:
        return next(self._words, None)

    def expect(self, *expected: str) -> None:
        for word in expected:
            found = self.next()
            if found != word:
                raise ValueError(f"a .proto has {found!r}, expected {word!r}")

    def word(self) -> str:
        found = self.next()
        if found is None:
            raise ValueError("a .proto ends too early")
        return found

    def until_brace(self) -> Iterator[str]:
        while (word := self.word()) != "}":
            yield word


def _enum(words: _Words, into: descriptor_pb2.EnumDescriptorProto) -> None:
    into.name = words.word()
    words.expect("{")
    for name in words.until_brace():
        words.expect("=")
        into.value.add(name=name, number=int(words.word()))
        words.expect(";")


def _reserved(words: _Words, into: descriptor_pb2.DescriptorProto) -> None:
    start = int(words.word())
    words.expect("to")
    into.reserved_range.add(start=start, end=int(words.word()) + 1)   # the end is exclusive
    words.expect(";")


def _field(words: _Words, word: str, into: descriptor_pb2.DescriptorProto) -> descriptor_pb2.FieldDescriptorProto:
    """The field that begins with `word`."""
    field = into.field.add(label=_Field.LABEL_REPEATED if word == "repeated" else _Field.LABEL_OPTIONAL)
    kind = words.word() if word == "repeated" else word
    field.name = words.word()
    words.expect("=")
    field.number = int(words.word())
    words.expect(";")
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type_name = kind   # resolved when all types are known
    return field


def _oneof(words: _Words, into: descriptor_pb2.DescriptorProto) -> None:
    into.oneof_decl.add(name=words.word())
    words.expect("{")
    for word in words.until_brace():
        _field(words, word, into).oneof_index = len(into.oneof_decl) - 1


def _message(words: _Words, into: descriptor_pb2.DescriptorProto) -> None:
    into.name = words.word()
    words.expect("{")
    for word in words.until_brace():
        if word == "message":
            _message(words, into.nested_type.add())
        elif word == "enum":
            _enum(words, into.enum_type.add())
        elif word == "reserved":
            _reserved(words, into)
        elif word == "oneof":
            _oneof(words, into)
        else:
            _field(words, word, into)


def _service(words: _Words, package: str, into: descriptor_pb2.ServiceDescriptorProto) -> None:
    into.name = words.word()
    words.expect("{")
    for word in words.until_brace():
        if word != "rpc":
            raise ValueError(f"a service has {word!r}, expected 'rpc'")
        method = into.method.add(name=words.word())
        for side in ("client", "server"):
            words.expect("(") if side == "client" else words.expect("returns", "(")
            kind = words.word()
            if kind == "stream":
                setattr(method, side + "_streaming", True)
                kind = words.word()
            setattr(method, "input_type" if side == "client" else "output_type", f".{package}.{kind}")
            words.expect(")")
        words.expect(";")


def _types(scope: _Scope, at: str) -> dict[str, int]:
    """The full names of the messages and enums in `scope`, whose own full name is `at`, with the field type of each."""
    messages = scope.message_type if isinstance(scope, descriptor_pb2.FileDescriptorProto) else scope.nested_type
    known: dict[str, int] = {f"{at}.{e.name}": _Field.TYPE_ENUM for e in scope.enum_type}
    for message in messages:
        known[f"{at}.{message.name}"] = _Field.TYPE_MESSAGE
        known.update(_types(message, f"{at}.{message.name}"))
    return known


def _resolve(message: descriptor_pb2.DescriptorProto, at: str, known: dict[str, int]) -> None:
    """Gives the fields of `message`, whose full name is `at`, the full names of their types: the innermost scope's first."""
    for nested in message.nested_type:
        _resolve(nested, f"{at}.{nested.name}", known)
    for field in message.field:
        if not field.type_name:
            continue
        scope = at
        while f"{scope}.{field.type_name}" not in known:
            if not scope:
                raise ValueError(f"{at}.{field.name} has the type {field.type_name!r}, which does not exist")
            scope = scope.rpartition(".")[0]
        field.type_name = f"{scope}.{field.type_name}"
        field.type = known[field.type_name]   # type: ignore[assignment]   # of another enum in the stubs


def parse(source: str, name: str) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor of the file `name` with the text `source`; ValueError where it has what is not read here."""
    words = _Words(source)
    file = descriptor_pb2.FileDescriptorProto(name=name)
    while (word := words.next()) is not None:
        if word == "syntax":
            words.expect("=", '"proto3"', ";")
            file.syntax = "proto3"
        elif word == "package":
            file.package = words.word()
            words.expect(";")
        elif word == "message":
            _message(words, file.message_type.add())
        elif word == "enum":
            _enum(words, file.enum_type.add())
        elif word == "service":
            _service(words, file.package, file.service.add())
        else:
            raise ValueError(f"a .proto has {word!r}, expected a message, an enum or a service")
    known = _types(file, f".{file.package}")
    for message in file.message_type:
        _resolve(message, f".{file.package}.{message.name}", known)
    return file
