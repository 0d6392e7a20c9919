"""Which text each row of vLLM's batch continues: by the request ids of the model runner, or by the tokens themselves.

vLLM's V1 runner gives a custom proposer tokens and no ids. The runner is the caller and has them, in fields that are private
to it: where they are not as expected, a row is found again by its tokens. Rows move between steps, and requests that are
preempted leave the batch and come back. A mistake costs acceptance and never text.
"""

from __future__ import annotations

from typing import Any, Hashable, Optional, Sequence

import numpy as np

FORGET_STEPS = 512     # a text that no row continued for so many steps is forgotten; by its tokens alone its end is not seen


class RowKeys:
    """One key for each text; `ended` says which are over."""

    def __init__(self) -> None:
        self._requests: set[Hashable] = set()                # the ids seen, where the runner has them
        self._texts: dict[int, tuple[np.ndarray, int]] = {}  # by content: the tokens, and the step that continued them last
        self._by_row: dict[int, int] = {}
        self._next = 1
        self._step = 0

    def of_requests(self, runner: Any, n_rows: int) -> Optional[Sequence[Hashable]]:
        """The request ids of the rows, None where the runner does not have them as expected."""
        ids = getattr(getattr(runner, "input_batch", None), "req_ids", None)
        if not isinstance(ids, list) or len(ids) != n_rows or not isinstance(getattr(runner, "requests", None), dict):
            return None
        if not all(isinstance(i, str) for i in ids):
            return None
        self._requests.update(ids)
        return ids

    def of_tokens(self, rows: Sequence[tuple[int, np.ndarray, int]]) -> list[int]:
        """Keys by content. `rows`: the row's number, its tokens, and how many of them it had before this step."""
        self._step += 1
        taken: set[int] = set()
        keys = []
        for row, tokens, base in rows:
            key = self._find(row, tokens, base, taken)
            if key is None:
                key = self._next
                self._next += 1
            self._texts[key] = (np.array(tokens), self._step)
            self._by_row[row] = key
            taken.add(key)
            keys.append(key)
        return keys

    def _find(self, row: int, tokens: np.ndarray, base: int, taken: set[int]) -> Optional[int]:
        """The text of `base` tokens that this row continues: that of the same row first. Identical ones are taken in turn."""
        def fits(key: int) -> bool:
            known = self._texts[key][0]
            return key not in taken and len(known) == base and np.array_equal(known, tokens[:base])

        key = self._by_row.get(row)
        if key is not None and key in self._texts and fits(key):
            return key
        return next((key for key in self._texts if fits(key)), None)

    def ended(self, runner: Any) -> list[Hashable]:
        """The keys of texts that are over; each is named once."""
        over: list[Hashable] = []
        requests = getattr(runner, "requests", None)
        if self._requests and isinstance(requests, dict):
            over += [key for key in self._requests if key not in requests]
            self._requests.difference_update(over)
        forgotten = [key for key, (_, seen) in self._texts.items() if self._step - seen > FORGET_STEPS]
        for key in forgotten:
            del self._texts[key]
        return over + forgotten
