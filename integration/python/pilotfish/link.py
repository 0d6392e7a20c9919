"""Holds the stream to a worker in threads of its own: connects, checks the worker, and connects again after a break.

The owner hears of a connection, of each message and of each break by callbacks, which run on the link's thread. `send` never
blocks. Attempts to connect are 0.1 s apart at first and at most 1 s later.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import Any, Callable, Iterator, Optional

import grpc

from .messages import PROTOCOL_VERSION, Batch, GetModelInfoRequest, ModelInfo

log = logging.getLogger("pilotfish")
_SERVICE = "/pilotfish.v1.Drafter/"
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 16 << 20), ("grpc.keepalive_time_ms", 5000),
            ("grpc.keepalive_timeout_ms", 5000), ("grpc.http2.max_pings_without_data", 0), ("grpc.use_local_subchannel_pool", 1)]
_CONNECT_S = (0.6, 2.4, 9.6)   # of consecutive attempts that fail for want of time
_RETRY_S = (0.1, 0.2, 0.4, 1.0)
_IDLE_S = 1.0                  # without a message to send for so long the owner is asked for closes
_MAX_SAID = 64
_STOP = object()


class Link:
    """`check` says what is wrong with a worker by its ModelInfo, None where it fits; `idle` gives a Batch or None."""

    def __init__(self, address: str, check: Callable[[Any], Optional[str]], connected: Callable[[Any], None],
                 received: Callable[[Any], None], broken: Callable[[], None], idle: Callable[[], Any]) -> None:
        self._address = address
        self._check, self._connected, self._received, self._broken, self._idle = check, connected, received, broken, idle
        self._outbox: Optional[queue.SimpleQueue[Any]] = None
        self._closing = threading.Event()
        self._call: Any = None
        self._said: set[str] = set()    # the kinds of reasons that were logged since the last connection
        self._thread = threading.Thread(target=self._run, name="pilotfish-link", daemon=True)
        self._thread.start()

    def send(self, batch: Any) -> None:
        """Queues a Batch on the stream; without a stream it is dropped."""
        outbox = self._outbox
        if outbox is not None:
            outbox.put(batch)

    def close(self) -> None:
        """Ends the stream and the thread; waits for it for at most 2 s."""
        self._closing.set()
        call, outbox = self._call, self._outbox
        if outbox is not None:
            outbox.put(_STOP)
        if call is not None:
            call.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    def _run(self) -> None:
        n_failed = n_timeouts = 0
        while not self._closing.is_set():
            try:
                self._serve(_CONNECT_S[min(n_timeouts, len(_CONNECT_S) - 1)])
                n_failed = n_timeouts = 0
            except grpc.RpcError as error:
                code = error.code()
                n_timeouts = n_timeouts + 1 if code == grpc.StatusCode.DEADLINE_EXCEEDED else 0
                n_failed += 1
                self._say(code.name, f"{code.name}: {error.details()}")
            except _Unfit as error:
                n_failed = len(_RETRY_S)
                self._say(str(error), f"it is not used: {error}")
            except Exception as error:   # a drafter ends no engine
                n_failed += 1
                self._say(repr(error), f"unexpected: {error!r}")
            if n_failed:
                self._closing.wait(_RETRY_S[min(n_failed, len(_RETRY_S)) - 1])

    def _serve(self, connect_s: float) -> None:
        """One connection, from the first call to its break."""
        with grpc.insecure_channel(self._address, options=_OPTIONS) as channel:
            info = channel.unary_unary(
                _SERVICE + "GetModelInfo", request_serializer=GetModelInfoRequest.SerializeToString,
                response_deserializer=ModelInfo.FromString)(
                    GetModelInfoRequest(protocol_version=PROTOCOL_VERSION, vocab_hashes=True), timeout=connect_s)
            problem = self._check(info)
            if problem:
                raise _Unfit(problem)
            outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
            self._call = channel.stream_stream(
                _SERVICE + "Draft", request_serializer=Batch.SerializeToString, response_deserializer=Batch.FromString)(
                    self._requests(outbox))
            self._outbox = outbox
            self._connected(info)
            self._said.clear()
            try:
                for message in self._call:
                    self._received(message)
            finally:
                self._outbox = self._call = None
                outbox.put(_STOP)
                self._broken()

    def _requests(self, outbox: queue.SimpleQueue[Any]) -> Iterator[Any]:
        """What gRPC sends; it runs on a thread of gRPC's."""
        while True:
            try:
                item = outbox.get(timeout=_IDLE_S)
            except queue.Empty:
                item = self._idle()
            if item is _STOP:
                return
            if item is not None:
                yield item

    def _say(self, kind: str, reason: str) -> None:
        """Logs a reason once for its kind, until a connection was made: gRPC words the same failure in many ways."""
        if kind not in self._said and len(self._said) < _MAX_SAID and not self._closing.is_set():
            self._said.add(kind)
            log.warning("no proposals from the worker at %s: %s", self._address, reason)


class _Unfit(Exception):
    """The worker answers, but does not fit this target."""
