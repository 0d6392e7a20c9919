"""Lets TensorRT-LLM's PyTorch backend take the proposals of a Pilotfish worker, as a user-provided drafter.

    from pilotfish.tensorrt_llm import PilotfishDrafter
    drafter = PilotfishDrafter("unix:/run/pilotfish.sock", max_draft_len=4, tokenizer="TARGET", n_ids=128256)
    llm = LLM("TARGET", speculative_config=UserProvidedDecodingConfig(max_draft_len=4, drafter=drafter),
              disable_overlap_scheduler=True)

TensorRT-LLM calls `prepare_draft_tokens` before each forward pass, for the requests of that pass that generate. It verifies tokens
alone, by equality with what it samples: the worker is asked for its likeliest tokens, and the text is that of the target.

The drafter is sent to each process that runs the model, and connects there at its first step. In a tensor-parallel group each process calls it for
the same requests: the first asks the worker, and the others get its drafts. With attention data parallelism each process has requests of
its own, and asks for them.
"""

from __future__ import annotations

import array
import inspect
import os
from typing import Any, Optional, Sequence, Union

from tensorrt_llm._torch.speculative.drafter import Drafter

from .client import DEFAULT_WAIT_S, DraftClient
from .error_guard import ErrorGuard
from .ranks import MpiRanks, OneRank, TorchRanks
from .rows import Row

_NONE = -1    # in place of a token


def _ranks_of(resource_manager: Any) -> Union[OneRank, TorchRanks, MpiRanks]:
    """The group of processes that have the requests of this one. Collective: all of them call it at their first step.

    RuntimeError with pipeline or context parallelism, where a group of tensor parallelism is not all of them.
    """
    from tensorrt_llm import _utils
    from tensorrt_llm._torch.pyexecutor.resource_manager import ResourceManagerType

    mapping = resource_manager.get_resource_manager(ResourceManagerType.KV_CACHE_MANAGER).mapping
    if mapping.world_size > mapping.tp_size:
        raise RuntimeError(f"Pilotfish drafts with tensor parallelism alone: {mapping.world_size} processes run the model, {mapping.tp_size} "
                           "of them in a tensor-parallel group")
    if mapping.tp_size == 1 or mapping.enable_attention_dp:
        return OneRank()
    if getattr(_utils, "mpi_disabled", lambda: False)():     # Ray starts the processes
        return TorchRanks(mapping.tp_rank, mapping.tp_group[0], mapping.tp_group_pg)
    world = _utils.mpi_comm()
    return MpiRanks(world.Create_group(world.group.Incl(mapping.tp_group)))


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
        self._ranks: Union[None, OneRank, TorchRanks, MpiRanks] = None
        self._errors = ErrorGuard()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_ranks": None}

    @property
    def client(self) -> DraftClient:
        """The connection of this process, made when it is first asked for."""
        if self._client is None:
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
            if self._ranks is None:
                self._ranks = _ranks_of(resource_manager)
            drafts = array.array("q", [_NONE]) * (len(requests) * self.max_draft_len)
            if self._ranks.is_first:
                self._ask(requests, drafts)
            self._ranks.share(drafts)
            for i, request in enumerate(requests):
                row = drafts[i * self.max_draft_len:(i + 1) * self.max_draft_len]
                request.py_draft_tokens = [token for token in row if token != _NONE]

    def _ask(self, requests: Sequence[Any], drafts: array.array[int]) -> None:
        """Writes the proposals to `drafts`: [requests, max_draft_len], _NONE behind the last token. An error leaves them out: the other ranks
        wait for what is shared."""
        with self._errors:
            for i, proposal in enumerate(self.client.step([self._row(request) for request in requests])):
                at, tokens = i * self.max_draft_len, proposal.tokens[:self.max_draft_len]
                drafts[at:at + len(tokens)] = array.array("q", tokens)

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
