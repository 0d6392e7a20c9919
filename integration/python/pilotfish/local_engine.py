"""Runs a model in this process: opens engines, peers and a session of libpilotfish, and runs one request at a time, or a batch.

The thread that opens an engine or runs a request computes, too. With threading "own" the library pins it to a CPU; it may run
where it could before as soon as the call returns, and so may the threads that it starts then.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import weakref
from dataclasses import dataclass, fields
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from .library import Library, PilotfishError
from .said_once import SaidOnce

NGRAM = "ngram"      # as a draft: the lookup drafter, which needs no model
METHODS = ("auto", "greedy", "rejection", "block", "coupled", "typical", "traversal")
_NS = 1e-9
_POLL_S = 0.1    # of a wait: a signal that went to another thread is raised where the main one wakes


@dataclass
class Figures:
    """What one call of `generate` took: sums over its texts. Seconds."""

    n_texts: int = 0
    n_prompt: int = 0           # tokens
    n_reused: int = 0           # of the prompts: kept from the text before
    n_new: int = 0
    rounds: int = 0             # passes of the target that verified a proposal
    fallback_rounds: int = 0    # passes without one, after the prompt
    drafted: int = 0
    accepted: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    draft_s: float = 0.0        # compute of the drafter
    verify_s: float = 0.0       # compute of the target

    @property
    def acceptance(self) -> float:
        """Accepted tokens a drafted one; 0 where none was drafted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of decoding: the first token of a text counts as its prompt's."""
        return max(0, self.n_new - self.n_texts) / self.decode_s if self.decode_s else 0.0

    def add(self, other: Figures) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class SamplingValues(NamedTuple):
    """As pf_sampling: temperature 0 is greedy, 0 turns the others off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    seed: int = 0
    typical_p: float = 0.0


class Request(NamedTuple):
    """One text: up to `max_new_tokens` behind `prompt`. on_token returns False to end the text with its token."""

    prompt: Sequence[int]
    max_new_tokens: int
    sampling: SamplingValues = SamplingValues()
    method: str = "auto"
    draft_len: int = 0
    stop_tokens: Sequence[int] = ()
    on_token: Callable[[int], bool] = lambda token: True


class _Outcome(NamedTuple):
    """What pf_generate gave: `held` is what its structs point to."""

    status: int
    why: Any
    result: Any
    held: list[Any]
    n_prompt: int


class _Callbacks:
    """Callbacks of one call into the library. An exception in one ends the call, and `reraise` raises it afterwards."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._error: Optional[BaseException] = None
        self._made: list[Any] = []      # a C function lives as long as its object
        self.cancel = library.ffi.new("bool *")

    def make(self, kind: str, function: Callable[..., Any], error: Any = None) -> Any:
        """A C function of the type `kind` that calls `function`, and returns `error` where that raises."""
        self._made.append(self._library.ffi.callback(kind, function, error=error, onerror=self._failed))
        return self._made[-1]

    def _failed(self, kind: type[BaseException], error: BaseException, trace: Any) -> None:
        self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Ends the call, as an exception in a callback does. From any thread."""
        if self._error is None:
            self._error = error
        self.cancel[0] = True

    def reraise(self) -> None:
        if self._error is not None:
            raise self._error


@contextlib.contextmanager
def _affinity_kept() -> Iterator[None]:
    """The calling thread runs where it ran before, whatever CPU the library has pinned it to."""
    before = os.sched_getaffinity(0)
    try:
        yield
    finally:
        if os.sched_getaffinity(0) != before:
            os.sched_setaffinity(0, before)


def default_threading(library: Library) -> str:
    """OpenMP's threads where torch is loaded, so that both compute on the same ones; else the library's own."""
    return "openmp" if "torch" in sys.modules and library.lib.pf_has_feature(b"openmp") else "own"


def _make(library: Library, owned: list[tuple[str, Any]], kind: str, destroy: str, function: Callable[..., int], *arguments: Any) -> Any:
    """The object that `function` gives by its out-parameter; `_end` of `owned` ends it by `destroy`."""
    out, why = library.ffi.new(kind + " **"), library.ffi.new("pf_error *")
    library.check(function(*arguments, out, why), why)
    owned.append((destroy, out[0]))
    return out[0]


def _end(library: Library, owned: list[tuple[str, Any]], kept: list[Any]) -> None:
    """Ends what was made, the last one first. The callbacks in `kept` live until then."""
    while owned:
        function, handle = owned.pop()
        getattr(library.lib, function)(handle)
    kept.clear()


class LocalEngine:
    """A target, at most one drafter, and a session of both.

    `options` are fields of pf_engine_options; `draft_options` likewise, of the draft. One call runs at a time: a second thread
    waits for the first one. A batch runs up to `max_batch` requests at once.
    """

    def __init__(self, library: Library, model: str, options: Mapping[str, Any], *, draft: Optional[str] = None,
                 draft_options: Mapping[str, Any] = {}, draft_worker: Optional[str] = None, max_batch: int = 1) -> None:
        self._library = library
        self._max_batch = max_batch
        self._draft_worker = None if draft_worker is None else library.ffi.new("char[]", draft_worker.encode())
        self._owned: list[tuple[str, Any]] = []
        self._kept: list[Any] = []
        self._lock = threading.Lock()
        self._close = weakref.finalize(self, _end, library, self._owned, self._kept)
        try:
            with _affinity_kept():
                self._open(model, options, draft, draft_options)
        except BaseException:
            self._close()
            raise

    def _open(self, model: str, options: Mapping[str, Any], draft: Optional[str], draft_options: Mapping[str, Any]) -> None:
        ffi, lib = self._library.ffi, self._library.lib
        library, said = self._library, SaidOnce()   # the sessions of a batch say the same
        self._warn = ffi.callback("void(void *, const char *)", lambda user, text: said.warn(library.text(text)))
        self._kept.append(self._warn)
        places = {"max_sequences": self._max_batch + 1, "kv_sequences": self._max_batch + 1}     # one is the kept sequence's
        target = self._open_engine(model, {**options, **places})
        peers = self._library.init("pf_session_options")
        peers.warn = self._warn
        peers.verifier = self._made("pf_peer", "pf_peer_destroy", lib.pf_engine_verifier, target, ffi.NULL)
        if draft == NGRAM:
            lookup = self._library.init("pf_drafter_options")
            word = ffi.new("char[]", NGRAM.encode())
            lookup.drafter, lookup.verifier, lookup.max_sequences = word, peers.verifier, self._max_batch + 1
            peers.drafter = self._made("pf_peer", "pf_peer_destroy", lib.pf_drafter_create, lookup)
        elif draft is not None:
            engine = self._open_engine(draft, {**draft_options, **places, "threads_of": target})
            peers.drafter = self._made("pf_peer", "pf_peer_destroy", lib.pf_engine_drafter, engine, ffi.NULL)
        elif self._draft_worker is not None:
            peers.drafter = self._made("pf_peer", "pf_peer_destroy", lib.pf_connect_drafter, self._draft_worker, ffi.NULL)
        self._verifier, self._drafter = peers.verifier, peers.drafter
        self._session = self._made("pf_session", "pf_session_destroy", lib.pf_session_create, peers)
        self._engine = target
        self._read_info()

    def _made(self, kind: str, destroy: str, function: Callable[..., int], *arguments: Any) -> Any:
        """The object that `function` gives by its out-parameter; it is ended with the engine."""
        return _make(self._library, self._owned, kind, destroy, function, *arguments)

    def _open_engine(self, model: str, options: Mapping[str, Any]) -> Any:
        ffi = self._library.ffi
        callbacks = _Callbacks(self._library)
        filled = self._library.init("pf_engine_options")
        held = []    # what the options point to
        known = {name for name, _ in ffi.typeof("pf_engine_options").fields}
        for name, value in options.items():
            if name not in known:
                raise TypeError(f"there is no option {name} of a model, expected one of {', '.join(sorted(known))}")
            if isinstance(value, str):
                held.append(ffi.new("char[]", value.encode()))
                value = held[-1]
            elif isinstance(value, (list, tuple)):
                held.append(ffi.new("int32_t[]", list(value)))
                filled.n_cores = len(value)
                value = held[-1]
            if value is not None:
                setattr(filled, name, value)
        filled.warn = self._warn
        filled.cancel = callbacks.cancel
        filled.progress = callbacks.make("void(void *, size_t, size_t)", lambda user, done, total: None)
        try:
            return self._made("pf_engine", "pf_engine_close", self._library.lib.pf_engine_open, os.fsencode(model), filled)
        except PilotfishError:
            callbacks.reraise()     # Ctrl-C
            raise

    def _read_info(self) -> None:
        ffi, lib = self._library.ffi, self._library.lib
        info, details, why = ffi.new("pf_model_info *"), self._library.init("pf_engine_details"), ffi.new("pf_error *")
        lib.pf_engine_info(self._engine, info)
        self._library.check(lib.pf_engine_describe(self._engine, details, why), why)
        self.max_context = int(info.max_context)
        self.n_ids = int(info.n_ids or info.vocab_size)
        self.end_tokens = tuple(info.ends[0:info.n_ends]) if info.names_ends else ()
        words = ("dtype", "activations", "kv_dtype", "isa")
        self.details: dict[str, Any] = {word: self._library.text(getattr(details, word)) for word in words}
        for number in ("n_threads", "n_parameters", "weight_bytes", "step_bytes", "kv_bytes"):
            self.details[number] = int(getattr(details, number))

    @property
    def tokenizer(self) -> Any:
        """The pf_tokenizer, borrowed from the engine; NULL where there is none."""
        self._check_open()
        return self._library.lib.pf_engine_tokenizer(self._engine)

    @property
    def tokenizer_refusal(self) -> Optional[str]:
        """Why there is no tokenizer; None where there is one, or where the model has none."""
        refusal = self._library.lib.pf_engine_tokenizer_refusal(self._engine)
        return self._library.text(refusal) if refusal else None

    def _check_open(self) -> None:
        if not self._close.alive:
            raise ValueError("the model is closed")

    def close(self) -> None:
        """Frees the model; a second call does nothing. A request that runs on another thread ends first."""
        with self._lock:
            self._close()

    def run(self, request: Request) -> tuple[list[int], Figures]:
        """Generates one text: its tokens, and what it took.

        An exception in on_token, or Ctrl-C, ends the request and is raised. The sequence is kept: the next request computes only
        what its prompt does not share with this text.
        """
        callbacks = _Callbacks(self._library)
        with self._lock, _affinity_kept():
            self._check_open()
            outcome = self._generate(self._session, request, callbacks, keep=True)
        callbacks.reraise()
        return self._result_of(outcome)

    def run_batch(self, requests: Sequence[Request]) -> list[tuple[list[int], Figures]]:
        """Generates several texts, up to `max_batch` at once: their rows share the passes of the models. Each text is that of `run`.

        on_token is called on threads of the batch, one at a time. An exception in one, or Ctrl-C, ends all texts and is raised.
        """
        callbacks = _Callbacks(self._library)
        with self._lock, _affinity_kept():
            self._check_open()
            outcomes = _Batch(self._library, self._verifier, self._drafter, self._draft_worker, self._warn).run(
                requests, self._max_batch, self._generate, callbacks)
        callbacks.reraise()
        return [self._result_of(outcome) for outcome in outcomes]

    def _generate(self, session: Any, request: Request, callbacks: _Callbacks, keep: bool) -> _Outcome:
        """Runs a request on this thread."""
        ffi, lib = self._library.ffi, self._library.lib
        if request.method not in METHODS:
            raise ValueError(f"method is {request.method!r}, expected one of {', '.join(METHODS)}")
        filled, result, why = self._library.init("pf_request"), self._library.init("pf_result"), ffi.new("pf_error *")
        held = [ffi.new("int32_t[]", request.prompt), ffi.new("int32_t[]", request.stop_tokens),
                ffi.new("int32_t[]", request.max_new_tokens)]
        filled.prompt, filled.n_prompt = held[0], len(request.prompt)
        filled.stop_tokens, filled.n_stop_tokens = held[1], len(request.stop_tokens)
        result.tokens, result.capacity = held[2], request.max_new_tokens
        filled.ignore_eos = True       # stop_tokens alone end a text
        filled.max_new_tokens = request.max_new_tokens
        filled.sampling = dict(zip(SamplingValues._fields, request.sampling))
        filled.method = METHODS.index(request.method)
        filled.draft_len = request.draft_len
        filled.keep_sequence = keep
        filled.cancel = callbacks.cancel
        filled.on_prompt = callbacks.make("void(void *, int32_t)", lambda user, n_read: None)
        filled.on_token = callbacks.make(
            "bool(void *, int32_t, bool)", lambda user, token, drafted: request.on_token(token), error=False)
        status = lib.pf_generate(session, filled, result, why)
        return _Outcome(status, why, result, held, len(request.prompt))

    def _result_of(self, outcome: _Outcome) -> tuple[list[int], Figures]:
        self._library.check(outcome.status, outcome.why)
        result = outcome.result
        return list(self._library.ffi.unpack(result.tokens, result.n_tokens)), _figures(result, outcome.n_prompt)


class _Users:
    """The threads that use what is to be destroyed. Thread.join does not tell: before Python 3.13 a Ctrl-C in it marks the thread as ended."""

    def __init__(self) -> None:
        self._lock, self._is_closed = threading.Lock(), False
        self._inside: list[threading.Event] = []    # set when a thread has left

    @contextlib.contextmanager
    def one(self) -> Iterator[bool]:
        """A thread: whether it may use what there is."""
        left = threading.Event()
        with self._lock:
            may_enter = not self._is_closed
            if may_enter:
                self._inside.append(left)
        try:
            yield may_enter
        finally:
            left.set()

    def close(self, interrupted: Callable[[BaseException], None]) -> None:
        """Returns when all threads that entered have left; none enters any more. An interrupt, which is told, does not end the wait."""
        while True:
            try:
                with self._lock:
                    self._is_closed = True
                for left in self._inside:
                    while not left.wait(_POLL_S):
                        pass
                return
            except BaseException as error:
                interrupted(error)


class _Batch:
    """Sessions on a hub of the peers, each on a thread of its own. Nothing else may use the peers until `run` has returned."""

    def __init__(self, library: Library, verifier: Any, drafter: Any, draft_worker: Any, warn: Any) -> None:
        self._library, self._warn = library, warn
        self._draws = drafter != library.ffi.NULL
        self._options = library.init("pf_hub_options")
        self._options.verifier, self._options.warn = verifier, warn
        if draft_worker is not None:
            self._options.draft_worker = draft_worker
        else:
            self._options.drafter = drafter

    def run(self, requests: Sequence[Request], most: int, generate: Callable[..., _Outcome], callbacks: _Callbacks) -> list[_Outcome]:
        """What became of each request."""
        owned: list[tuple[str, Any]] = []
        todo, outcomes = iter(enumerate(requests)), {}
        turn = threading.Lock()      # of the iterator and of the callbacks

        users = _Users()

        def serve(session: Any, end: threading.Event) -> None:
            try:
                with users.one() as may_enter:
                    while may_enter and not callbacks.cancel[0]:
                        with turn:
                            number, request = next(todo, (0, None))
                        if request is None:
                            return
                        outcomes[number] = generate(session, request._replace(on_token=self._in_turn(turn, request.on_token)), callbacks,
                                                    keep=False)
            except BaseException as error:
                callbacks.fail(error)
            finally:
                end.set()

        try:
            hub = self._made(owned, "pf_hub", "pf_hub_destroy", self._library.lib.pf_hub_create, self._options)
            ends = [threading.Event() for _ in range(min(most, len(requests)))]
            threads = [threading.Thread(target=serve, args=(self._session(owned, hub), end)) for end in ends]
            for thread in threads:
                thread.start()
            for end in ends:
                while not end.wait(_POLL_S):
                    pass
        except BaseException as error:   # Ctrl-C among them
            callbacks.fail(error)
        finally:
            users.close(callbacks.fail)
            _end(self._library, owned, [])
        return [outcomes[number] for number in sorted(outcomes)]

    @staticmethod
    def _in_turn(turn: threading.Lock, on_token: Callable[[int], bool]) -> Callable[[int], bool]:
        def call(token: int) -> bool:
            with turn:
                return on_token(token)

        return call

    def _session(self, owned: list[tuple[str, Any]], hub: Any) -> Any:
        lib, options = self._library.lib, self._library.init("pf_session_options")
        options.warn = self._warn
        options.verifier = self._made(owned, "pf_peer", "pf_peer_destroy", lib.pf_hub_verifier, hub)
        if self._draws:
            options.drafter = self._made(owned, "pf_peer", "pf_peer_destroy", lib.pf_hub_drafter, hub)
        return self._made(owned, "pf_session", "pf_session_destroy", lib.pf_session_create, options)

    def _made(self, owned: list[tuple[str, Any]], kind: str, destroy: str, function: Callable[..., int], argument: Any) -> Any:
        return _make(self._library, owned, kind, destroy, function, argument)


def _figures(result: Any, n_prompt: int) -> Figures:
    speculation = result.speculation
    return Figures(1, n_prompt, max(0, int(result.reused_tokens)), int(result.n_tokens), int(speculation.rounds),
                   int(speculation.fallback_rounds), int(speculation.drafted), int(speculation.accepted),
                   result.prefill_ns * _NS, result.decode_ns * _NS, speculation.draft_ns * _NS, speculation.verify_ns * _NS)
