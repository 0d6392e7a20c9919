"""Client of the Pilotfish draft worker, adapters that use it in engines, and models on libpilotfish itself.

    DraftClient, AsyncDraftClient   the proposals of a whole batch, from a worker at an address
    Row, Sampling, Proposal         what a step takes and returns
    Worker                          starts and supervises a worker process
    AutoModelForCausalLM            a model on the CPU in this process, with the `generate` of transformers
    Tokenizer                       the tokenizer of a model, without transformers

The adapters are pilotfish.vllm, .transformers, .sglang and .tensorrt_llm. Importing this package imports none of its modules: the client needs
grpcio and protobuf, a model needs cffi and libpilotfish.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .causal_lm import AutoModelForCausalLM, CausalLM, GenerateOutput
    from .client import AsyncDraftClient, DraftClient
    from .library import PilotfishError
    from .local_engine import Figures
    from .rows import Declared, Proposal, Row, Sampling
    from .text_codec import Tokenizer
    from .worker import Worker

__all__ = ["AsyncDraftClient", "AutoModelForCausalLM", "CausalLM", "Declared", "DraftClient", "Figures", "GenerateOutput",
           "PilotfishError", "Proposal", "Row", "Sampling", "Tokenizer", "Worker"]

_HOMES = {"AsyncDraftClient": "client", "AutoModelForCausalLM": "causal_lm", "CausalLM": "causal_lm", "Declared": "rows",
          "DraftClient": "client", "Figures": "local_engine", "GenerateOutput": "causal_lm", "PilotfishError": "library",
          "Proposal": "rows", "Row": "rows", "Sampling": "rows", "Tokenizer": "text_codec", "Worker": "worker"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("." + _HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
