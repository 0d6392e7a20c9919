"""The proposer for vLLM's V1 model runner: speculative method "custom_class".

vLLM calls `propose` once a step, in the worker process, after sampling; the step's time includes it. An exception there would
end the engine, so none leaves it. The worker is always asked for its likeliest tokens: vLLM takes no distributions from a
custom class and verifies tokens as one-hot, which is exact at any temperature.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Hashable, NamedTuple, Optional

import numpy as np

from ..client import DraftClient
from ..error_guard import ErrorGuard
from ..length_policy import LengthPolicy
from ..rows import Row
from ..worker import Worker
from .options import Options
from .row_keys import RowKeys

log = logging.getLogger("pilotfish")


def is_output_rank() -> bool:
    """Whether vLLM takes this rank's word: of tensor parallel ranks the first's. The others do not connect."""
    try:
        from vllm.distributed import get_tensor_model_parallel_rank

        return bool(get_tensor_model_parallel_rank() == 0)
    except Exception:   # no such groups: one rank
        return True


class _Step(NamedTuple):
    """A step that verifies what was drafted at its beginning."""

    began: float
    keys: frozenset[Hashable]
    length: int      # the most tokens of a proposal


class Proposer:
    """vLLM makes one a rank, with its VllmConfig."""

    def __init__(self, vllm_config: Any) -> None:
        self.options = Options(vllm_config)
        self.client: Optional[DraftClient] = None
        self.worker: Optional[Worker] = None
        if is_output_rank():
            self.client, self.worker = self.options.connect()
        self._keys = RowKeys()
        self._policy = LengthPolicy(self.options.max_draft, self.options.max_draft_of)
        self._step: Optional[_Step] = None
        self._logged_at = time.monotonic()
        self._errors = ErrorGuard()

    def load_model(self, *arguments: Any, **options: Any) -> None:
        """Nothing: the model is the worker's. vLLM's CPU runner calls it."""

    def propose(self, sampled_token_ids: list[list[int]], num_tokens_no_spec: np.ndarray, token_ids_cpu: np.ndarray,
                slot_mappings: Any = None) -> list[list[int]]:
        """The proposals, one list a row of the batch.

        sampled_token_ids    by row, what was committed in this step; empty while a prompt is read in chunks
        num_tokens_no_spec   by row, the committed tokens, the new ones included
        token_ids_cpu        [rows, max_model_len]: the tokens of a row, valid up to that number
        """
        if self.client is None:
            return [[] for _ in sampled_token_ids]
        with self._errors:
            runner = sys._getframe(1).f_locals.get("self")
            return self._propose(self.client, runner, sampled_token_ids, num_tokens_no_spec, token_ids_cpu)
        return [[] for _ in sampled_token_ids]

    def _propose(self, client: DraftClient, runner: Any, sampled: list[list[int]], lengths: np.ndarray,
                 tokens: np.ndarray) -> list[list[int]]:
        numbers = [row for row, new in enumerate(sampled) if new]
        views = [tokens[row, :int(lengths[row])] for row in numbers]
        ids = self._keys.of_requests(runner, len(sampled))
        if ids is not None:
            keys = [ids[row] for row in numbers]
        else:
            keys = list(self._keys.of_tokens([(row, view, len(view) - len(sampled[row])) for row, view in zip(numbers, views)]))
        client.finish(self._keys.ended(runner))
        most = self._length(client, keys, sampled)
        rows = [Row(key, view, max(0, min(most, self.options.max_length - len(view) - 1))) for key, view in zip(keys, views)]
        result: list[list[int]] = [[] for _ in sampled]
        for row, proposal in zip(numbers, client.step(rows)):
            result[row] = proposal.tokens
        self._log(client)
        return result

    def _length(self, client: DraftClient, keys: list[Hashable], sampled: list[list[int]]) -> int:
        """The most tokens of a proposal in this step; the time of the step that ends here is taken into account."""
        step, self._step = self._step, None
        if not self.options.measures or not keys:
            return self.options.max_draft_of(len(keys))
        now, all_keys = time.monotonic(), frozenset(keys)
        # A step that read prompts has rows that sampled nothing, or rows that the one before it had not.
        if step is not None and client.info is not None and len(keys) == len(sampled) and all_keys <= step.keys:
            self._policy.observe(step.length, [len(new) for new in sampled], now - step.began)
        length = self._policy.choose(len(keys))
        self._step = _Step(now, all_keys, length)
        return length

    def _log(self, client: DraftClient) -> None:
        now = time.monotonic()
        if self.options.log_s and now - self._logged_at >= self.options.log_s:
            self._logged_at = now
            log.info("figures so far: %s, longest wait %.1f ms", client.figures, client.longest_wait_s * 1e3)

    def __del__(self) -> None:
        client, worker = getattr(self, "client", None), getattr(self, "worker", None)
        if client is not None:
            client.close()
        if worker is not None:
            worker.close()
