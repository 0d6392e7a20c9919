"""Client of the Pilotfish draft worker, and adapters that use it in vLLM and transformers.

    DraftClient, AsyncDraftClient   the proposals of a whole batch, from a worker at an address
    Row, Sampling, Proposal         what a step takes and returns
    Worker                          starts and supervises a worker process

The adapters are pilotfish.vllm and pilotfish.transformers; importing this package imports neither.
"""

from .client import AsyncDraftClient, DraftClient
from .rows import Declared, Proposal, Row, Sampling
from .worker import Worker

__all__ = ["AsyncDraftClient", "Declared", "DraftClient", "Proposal", "Row", "Sampling", "Worker"]
