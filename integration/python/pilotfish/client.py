"""Asks a Pilotfish worker for the proposals of a whole batch: `DraftClient`, and `AsyncDraftClient` for asyncio.

    with DraftClient("unix:/run/pilotfish.sock", max_draft=4) as client:
        ...
        proposals = client.step([Row("request 1", tokens), Row("request 2", more_tokens)])

A step tells the worker what each text committed since the last one, waits for the answers until its deadline, and returns
one proposal a row. Without a worker, or where it is late, a proposal is empty: the engine then decodes plainly. A step raises
nothing, except for arguments of a wrong type, and never waits past its deadline. A thread owns the gRPC stream and connects
again after a break (link.py); sequences.py has the rules.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from types import TracebackType
from typing import Any, Callable, Hashable, Iterable, Optional, Sequence, Union

from .link import Link
from .messages import PROTOCOL_VERSION
from .rows import NO_PROPOSAL, Proposal, Row
from .said_once import SaidOnce
from .sequences import Asked, Sequences
from .vocabulary import MIN_SHARED, Vocabulary

DEFAULT_WAIT_S = 0.02


class _Core:
    """What both clients share: the sequences under a lock, and the link that feeds them."""

    def __init__(self, address: str, *, max_draft: int = 4, adaptive: bool = False, max_declared: int = 0,
                 wait_s: float = DEFAULT_WAIT_S, tokenizer: Union[str, os.PathLike[str], None] = None, n_ids: int = 0,
                 idle_s: float = 10.0, trees: bool = False, drafter: str = "") -> None:
        """`address`: host:port or unix:/path, of a worker that may start later.

        max_draft     most tokens of a proposal, 1 to 64
        adaptive      the worker chooses the length by what it measures; max_draft is its bound
        max_declared  most ids of a declared distribution, 0 to 256, for rows that have a Sampling; 0: tokens only
        wait_s        how long a step waits for answers
        tokenizer     the target's tokenizer.json, or the folder that has it: a worker with another vocabulary proposes the ids
                      that have the same text in both, and is not used where these are fewer than 90 %
        n_ids         rows of the target's embedding: needed with `tokenizer`; without it only sizes are compared
        idle_s        a text without a step for so long is closed at the worker
        trees         proposals may be trees, of max_draft tokens in all: with `adaptive`, from workers that draft them
        drafter       the one of the worker's that proposes for rows that name none ("model", "suffix", ...); empty: its first. Rows
                      whose drafter the worker does not offer get no proposals
        """
        self.wait_s = wait_s
        self.longest_wait_s = 0.0
        self._n_ids = n_ids
        self._vocabulary = Vocabulary.read(tokenizer, n_ids) if tokenizer is not None and n_ids else None
        self._fingerprint = self._vocabulary.fingerprint() if self._vocabulary is not None else None
        self._excluded: list[int] = []    # of the worker that was checked last; the link's thread alone uses it
        self._sequences = Sequences(max_draft, adaptive, max_declared, idle_s, n_ids, trees, drafter)
        self._change = threading.Lock()    # guards _sequences and _wakers
        self._wakers: list[Callable[[], None]] = []    # of the steps that wait; called after each change, without the lock
        self._log = SaidOnce()
        self._link = Link(address, self._check, self._connected, self._received, self._broken, self._idle)

    # ---- for the owner ----

    @property
    def info(self) -> Any:
        """ModelInfo of the worker (proto/pilotfish.proto), None where there is no stream to one."""
        return self._sequences.info

    @property
    def figures(self) -> dict[str, int]:
        """What was counted so far: steps, rows, proposed and accepted tokens, late answers, ..."""
        with self._change:
            return dict(self._sequences.figures)

    def finish(self, keys: Iterable[Hashable]) -> None:
        """These texts are over: their places at the worker are free with the next step, or within a second."""
        with self._change:
            self._sequences.finish(keys)

    def close(self) -> None:
        """Ends the stream. A later step returns empty proposals."""
        self._link.close()

    # ---- a step ----

    def _begin(self, rows: Sequence[Row], wait_s: float) -> Asked:
        """Called with the lock held."""
        asked, batch = self._sequences.begin(rows, time.monotonic(), wait_s)
        if batch is not None:
            self._link.send(batch)
        return asked

    def _end(self, asked: Asked, began: float) -> list[Proposal]:
        """Called with the lock held."""
        now = time.monotonic()
        self.longest_wait_s = max(self.longest_wait_s, now - began)
        return self._sequences.end(asked, now)

    def _failed(self, error: Exception, n_rows: int) -> list[Proposal]:
        """A drafter ends no text: an error in this package costs the proposals alone."""
        self._log.warn(f"a step failed: {error!r}")
        return [NO_PROPOSAL] * n_rows

    # ---- called by the link ----

    def _check(self, info: Any) -> Optional[str]:
        if info.protocol_version != PROTOCOL_VERSION:
            return f"it speaks version {info.protocol_version} of the protocol, expected {PROTOCOL_VERSION}"
        if info.max_sequences < 1 or info.max_context < 2 or info.vocab_size < 1:
            return "its model info has no sequences, no context or no vocabulary"
        self._excluded = []
        if info.any_vocabulary:   # it proposes tokens of the text itself
            return None
        if self._vocabulary is not None and info.vocab_fingerprint:
            if info.vocab_fingerprint != self._fingerprint:
                return self._compare(info, self._vocabulary)
        elif self._n_ids and info.vocab_size > self._n_ids:
            return f"its model {info.model_id} has a vocabulary of {info.vocab_size} tokens, the target has {self._n_ids} ids"
        return None

    def _compare(self, info: Any, vocabulary: Vocabulary) -> Optional[str]:
        """Decides which ids of another vocabulary are drafted; what is wrong where there are too few."""
        match = vocabulary.compare(info.vocab_size, info.vocab_hashes)
        if match is None:
            return f"its model {info.model_id} has another vocabulary than the target"
        n_shared = match.n_ids - match.n_different
        if n_shared < MIN_SHARED * match.n_ids:
            return (f"its model {info.model_id} has another vocabulary than the target: {100 * n_shared / match.n_ids:.1f} % of "
                    f"the ids are the same in both, expected at least {100 * MIN_SHARED:.0f} %")
        self._excluded = match.excluded
        self._log.warn(f"the worker's model {info.model_id} has other texts than the target for {match.n_different} of {match.n_ids} "
                       "ids: it drafts without them")
        return None

    def _connected(self, info: Any) -> None:
        with self._change:
            self._sequences.connect(info, self._excluded)
        self._notify()

    def _received(self, batch: Any) -> None:
        with self._change:
            self._sequences.receive(batch, time.monotonic())
            problems, self._sequences.problems = self._sequences.problems, []
        self._notify()
        for problem in problems:
            self._log.warn(problem)

    def _broken(self) -> None:
        with self._change:
            self._sequences.disconnect()
        self._notify()

    def _idle(self) -> Any:
        with self._change:
            return self._sequences.idle_batch(time.monotonic())

    def _notify(self) -> None:
        with self._change:
            wakers = list(self._wakers)
        for wake in wakers:
            wake()


class _Signal:
    """Lets one thread wait until another calls `set`. A lock alone: an Event takes one more change of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:   # it is set already
            pass

    def wait(self, timeout_s: float) -> bool:
        """Until it is set, which it no longer is then."""
        return self._lock.acquire(timeout=timeout_s)


class DraftClient(_Core):
    """A client for an engine with threads. Its steps may come from several threads, for different texts."""

    def step(self, rows: Sequence[Row], wait_s: Optional[float] = None) -> list[Proposal]:
        """The proposals for the rows, in their order; `wait_s` replaces the client's for this step."""
        try:
            began = time.monotonic()
            wait_s = self.wait_s if wait_s is None else wait_s
            with self._change:
                asked = self._begin(rows, wait_s)
            self._wait(asked.is_answered, began + wait_s)
            with self._change:
                return self._end(asked, began)
        except Exception as error:
            return self._failed(error, len(rows))

    def wait_ready(self, timeout_s: float) -> bool:
        """Waits until there is a stream to a worker that fits; False where there is none by then."""
        return self._wait(lambda: self._sequences.info is not None, time.monotonic() + timeout_s)

    def _wait(self, is_over: Callable[[], bool], deadline: float) -> bool:
        if is_over():
            return True
        signal = _Signal()
        with self._change:
            self._wakers.append(signal.set)
        try:
            while not is_over():
                left = deadline - time.monotonic()
                if left <= 0 or not signal.wait(left):
                    break
            return is_over()
        finally:
            with self._change:
                self._wakers.remove(signal.set)

    def __enter__(self) -> DraftClient:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class AsyncDraftClient(_Core):
    """The same for asyncio: `await client.step(rows)`. The event loop is free while a step waits."""

    async def step(self, rows: Sequence[Row], wait_s: Optional[float] = None) -> list[Proposal]:
        """The proposals for the rows, in their order; `wait_s` replaces the client's for this step."""
        try:
            began = time.monotonic()
            wait_s = self.wait_s if wait_s is None else wait_s
            with self._change:
                asked = self._begin(rows, wait_s)
            await self._wait(asked.is_answered, began + wait_s)
            with self._change:
                return self._end(asked, began)
        except Exception as error:
            return self._failed(error, len(rows))

    async def wait_ready(self, timeout_s: float) -> bool:
        """Waits until there is a stream to a worker that fits; False where there is none by then."""
        return await self._wait(lambda: self._sequences.info is not None, time.monotonic() + timeout_s)

    async def _wait(self, is_over: Callable[[], bool], deadline: float) -> bool:
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:   # the loop was closed meanwhile
                pass

        with self._change:
            self._wakers.append(wake)
        try:
            while not is_over():
                try:
                    await asyncio.wait_for(event.wait(), max(0.0, deadline - time.monotonic()))
                except asyncio.TimeoutError:
                    break
                event.clear()
            return is_over()
        finally:
            with self._change:
                self._wakers.remove(wake)

    async def __aenter__(self) -> AsyncDraftClient:
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)
