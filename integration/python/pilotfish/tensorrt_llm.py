"""Lets TensorRT-LLM's PyTorch backend take the proposals of a Pilotfish worker, as a user-provided drafter.

    from pilotfish.tensorrt_llm import PilotfishDrafter
    drafter = PilotfishDrafter("unix:/run/pilotfish.sock", max_draft_len=4, tokenizer="TARGET", n_ids=128256)
    llm = LLM("TARGET", speculative_config=UserProvidedDecodingConfig(max_draft_len=4, drafter=drafter),
              disable_overlap_scheduler=True)

TensorRT-LLM calls `prepare_draft_tokens` before each forward pass, for the requests of that pass that generate. It verifies tokens
alone, by equality with what it samples: the worker is asked for its likeliest tokens, and the text is that of the target. Each process of a
tensor-parallel group drafts for itself and must have the same drafts, which a worker asked by each does not promise: only one
process is supported.

The drafter is sent to the process that runs the model: it connects there, at its first step.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Optional, Union

from tensorrt_llm._torch.speculative.drafter import Drafter

from .client import DEFAULT_WAIT_S, DraftClient
from .error_guard import ErrorGuard
from .rows import Row


def _n_processes() -> int:
    """Of the group that runs the model; 1 where TensorRT-LLM does not tell."""
    try:
        from tensorrt_llm._utils import mpi_world_size

        return int(mpi_world_size())
    except Exception:
        return 1


class PilotfishDrafter(Drafter):
    """A drafter for `UserProvidedDecodingConfig`."""

    def __init__(self, address: str, max_draft_len: int, *, tokenizer: Union[str, os.PathLike[str], None] = None, n_ids: int = 0,
                 adaptive: bool = False, wait_s: float = DEFAULT_WAIT_S, max_concurrency: Optional[int] = None) -> None:
        """The options of DraftClient; `max_draft_len` is that of UserProvidedDecodingConfig, and above `max_concurrency` requests
        TensorRT-LLM does not speculate."""
        if not 1 <= max_draft_len <= 64:
            raise ValueError(f"max_draft_len is {max_draft_len}, expected 1 to 64")
        # The base class has taken more arguments from release to release.
        wanted = {"max_draft_len": max_draft_len, "max_total_draft_tokens": max_draft_len, "max_concurrency": max_concurrency}
        known = inspect.signature(Drafter.__init__).parameters
        super().__init__(**{name: value for name, value in wanted.items() if name in known})
        self.max_draft_len = max_draft_len
        self._address = address
        self._options: dict[str, Any] = {"max_draft": max_draft_len, "adaptive": adaptive, "wait_s": wait_s, "tokenizer": tokenizer,
                                         "n_ids": n_ids}
        self._client: Optional[DraftClient] = None
        self._errors = ErrorGuard()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    @property
    def client(self) -> DraftClient:
        """The connection of this process, made when it is first asked for."""
        if self._client is None:
            if _n_processes() > 1:
                raise RuntimeError("Pilotfish drafts for one process: tensor parallelism is not supported")
            self._client = DraftClient(self._address, **self._options)
        return self._client

    def prepare_draft_tokens(self, scheduled_requests: Any, resource_manager: Any = None) -> None:
        """Sets `py_draft_tokens` of each request that generates: at most `max_draft_len` tokens, none where the worker has none."""
        requests = list(scheduled_requests.generation_requests)
        for request in requests:
            request.py_draft_tokens = []
        if not requests:
            return
        with self._errors:
            for request, proposal in zip(requests, self.client.step([self._row(request) for request in requests])):
                request.py_draft_tokens = list(proposal.tokens)

    def _row(self, request: Any) -> Row:
        tokens = list(request.get_tokens(0))
        length = request.py_orig_prompt_len + request.py_max_new_tokens
        room = length - len(tokens) - 1     # the target adds a token of its own
        return Row(request.py_request_id, tokens, max(0, min(room, self.max_draft_len)), max_tokens=length)

    def shutdown(self) -> None:
        """Ends the connection of this process; the next step makes another."""
        client, self._client = getattr(self, "_client", None), None
        if client is not None:
            client.close()

    def __del__(self) -> None:
        self.shutdown()
