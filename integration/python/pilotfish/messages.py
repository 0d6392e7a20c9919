"""The messages of proto/pilotfish.proto as classes of the protobuf runtime: `Batch`, `Open`, `Verdict`, ...

They are made when this module is imported, from the .proto itself (schema.py), in a descriptor pool of their own: a program
that has generated pilotfish_pb2 classes too can use both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from . import schema

PROTOCOL_VERSION = 1
MAX_ENTRIES = 256        # of a kind in a batch
MAX_VERDICT_TOKENS = 65
MAX_DRAFT = 64

_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(
    schema.parse((Path(__file__).parent / "schema.proto").read_text(encoding="utf-8"), "pilotfish.proto").SerializeToString())


def _class(name: str) -> Any:
    descriptor = _pool.FindMessageTypeByName(f"pilotfish.v1.{name}")
    if hasattr(message_factory, "GetMessageClass"):   # protobuf 4.22 and newer
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool).GetPrototype(descriptor)   # type: ignore[attr-defined]


Batch = _class("Batch")
GetModelInfoRequest = _class("GetModelInfoRequest")
ModelInfo = _class("ModelInfo")

_METHODS = _pool.FindEnumTypeByName("pilotfish.v1.Method").values_by_name
METHOD_GREEDY: int = _METHODS["METHOD_GREEDY"].number
METHOD_REJECTION: int = _METHODS["METHOD_REJECTION"].number
REFUSAL_LIMIT: int = _pool.FindMessageTypeByName("pilotfish.v1.Refusal").enum_types_by_name["Reason"].values_by_name["LIMIT"].number
