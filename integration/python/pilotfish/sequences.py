"""Keeps what the worker knows of each text, writes the batch of a step and reads the answers.

The rules of docs/protocol.md without threads, sockets or clocks: times are arguments, in seconds of any one clock. What it
keeps true:

- An answer counts only where its sequence, incarnation, round and base are those of the last verdict that was sent. All
  others are dropped.
- A sequence has at most one verdict without an answer. What the target commits meanwhile is told with the next verdict.
- No more sequences are open than the worker has places. The least recently used one that no step needs is closed for a new one.
- A proposal that comes too late for its step is kept. If the target then commits its first tokens itself, the rest of it is
  a proposal for what follows.

The caller holds one lock around each call (client.py).
"""

from __future__ import annotations

import math
from typing import Any, Hashable, Iterable, Optional, Sequence

from .messages import MAX_DRAFT, MAX_ENTRIES, MAX_VERDICT_TOKENS, METHOD_GREEDY, METHOD_REJECTION, REFUSAL_LIMIT, Batch
from .rows import NO_PROPOSAL, Declared, Proposal, Row

UNANSWERED_S = 1.0                 # a verdict without an answer counts as lost after this; a stalled worker is tried again
REFUSED_S = 1.0                    # a sequence that was refused for want of room is tried again after this
REOPEN_S = (0.0, 0.05, 0.2, 1.0)   # the wait before a sequence is opened again, by how often it was lost in a row
LONG_PROMPT_TOKENS = 256           # a step does not wait for a worker that has to read more than this
MAX_UNANSWERED_BATCHES = 64
MAX_UINT32 = 2**32 - 1
MAX_BATCH_TOKENS = 700_000         # of the prompts in a batch: below the 4 MiB that servers take
SWEEP_STEPS = 16                   # idle sequences are looked for once in so many steps


class _Sequence:
    """A text, as the worker knows it."""

    __slots__ = ("id", "incarnation", "opened", "told", "round", "length", "proposal", "answer", "answer_base", "asked_at",
                 "waited_for", "off_until", "n_lost", "is_fresh", "seen", "seen_at")

    def __init__(self) -> None:
        self.id = 0                          # 0: none yet
        self.incarnation = 0
        self.opened = False                  # the worker has it, as far as is known
        self.told = 0                        # committed tokens that the worker was told
        self.round = 0                       # of the next verdict
        self.length = 0                      # committed tokens
        self.proposal = NO_PROPOSAL          # what the caller was given last, for the tokens from `length` on
        self.answer = NO_PROPOSAL            # the last proposal that came, and the committed length at which it starts
        self.answer_base = 0
        self.asked_at: Optional[float] = None   # when the verdict was sent that has no answer yet
        self.waited_for = False              # by a step that runs
        self.off_until = 0.0                 # not asked before this time
        self.n_lost = 0                      # prefix requests, each before a second proposal came
        self.is_fresh = False                # no proposal since it was opened
        self.seen = 0                        # the step that continued it last, and its time
        self.seen_at = 0.0

    def lose(self) -> None:
        """The worker has it no longer."""
        self.opened, self.asked_at, self.answer = False, None, NO_PROPOSAL


class Asked:
    """A step that runs: its rows, their sequences, and which of these have a verdict out."""

    def __init__(self, rows: Sequence[Row], n_heard: int) -> None:
        self.rows = rows
        self.n_heard = n_heard
        self.sequences: list[_Sequence] = []    # by row
        self.waiting: list[_Sequence] = []

    def is_answered(self) -> bool:
        """Whether nothing is left to wait for."""
        return not any(s.waited_for and s.asked_at is not None for s in self.waiting)


class Sequences:
    """The texts of one client.

    `max_draft`, `adaptive`, `max_declared` and `trees` are the limits of each open; a sequence without a step for `idle_s` is
    closed; `n_ids` is the number of token ids of the target, 0 where it is not known; `drafter` is that of rows that name none.
    """

    def __init__(self, max_draft: int, adaptive: bool, max_declared: int, idle_s: float, n_ids: int, trees: bool = False,
                 drafter: str = "") -> None:
        self._max_draft = max(1, min(max_draft, MAX_DRAFT))
        self._adaptive = adaptive
        self._max_declared = max_declared
        self._trees = trees
        self._drafter = drafter
        self._idle_s = idle_s
        self._n_ids = n_ids
        self._info: Any = None                       # ModelInfo of the worker; None: not connected
        self._known_ids = 0                          # of the worker's model
        self._excluded: Sequence[int] = ()           # ids that it must not propose, as ranges
        self._by_key: dict[Hashable, _Sequence] = {}
        self._by_id: dict[int, _Sequence] = {}       # those that have a place at the worker
        self._next_id = 1
        self._step = 0
        self._n_heard = 0
        self._stalled_since: Optional[float] = None  # a step heard nothing from the worker in its wait
        self._closes: list[int] = []                 # to be sent with the next batch
        self._n_unanswered = 0                       # batches since the last message
        self._within_us = 0                          # that a proposal of this step has
        self.problems: list[str] = []                # sentences for the log; the caller empties it
        self.figures: dict[str, int] = dict.fromkeys((
            "steps", "rows", "asked", "proposed", "accepted", "empty", "late", "late_used", "opens", "evicted", "refusals",
            "prefix_requests", "stale", "breaks", "compute_ns"), 0)

    # ---- the stream ----

    @property
    def info(self) -> Any:
        """ModelInfo of the worker, None where there is no stream."""
        return self._info

    def connect(self, info: Any, excluded: Sequence[int] = ()) -> None:
        """A stream begins. Nothing is open on it. `excluded` is of each open: ids that the worker must not propose, as ranges."""
        self._forget()
        self._info, self._excluded = info, excluded
        self._known_ids = info.n_ids or info.vocab_size

    def disconnect(self) -> None:
        """The stream is over, and what the worker knew with it."""
        if self._info is not None:
            self.figures["breaks"] += 1
        self._info = None
        self._forget()

    def _forget(self) -> None:
        for s in self._by_key.values():
            s.lose()
            s.off_until, s.n_lost = 0.0, 0
        self._by_id.clear()
        self._closes.clear()
        self._stalled_since = None
        self._n_unanswered = 0

    # ---- a step ----

    def begin(self, rows: Sequence[Row], now: float, wait_s: float = 0.0) -> tuple[Asked, Any]:
        """Begins a step: what is to be waited for, and the Batch to send, None where there is nothing to say. The caller waits
        `wait_s` at most: of that an eighth is for the way, and the worker proposes within the rest; 0: it takes its time."""
        self._within_us = min(int(wait_s * 875_000), MAX_UINT32)
        asked = Asked(rows, self._n_heard)
        self._step += 1
        self.figures["steps"] += 1
        asked.sequences = [self._continue(row, now) for row in rows]
        if self._step % SWEEP_STEPS == 0:
            self._close_idle(now)
        if self._info is None:
            return asked, None
        batch = Batch()
        if self._may_ask(now):
            room = MAX_BATCH_TOKENS
            for row, s in zip(rows, asked.sequences):
                room -= self._ask(row, s, batch, room, asked, now)
        self._write_closes(batch)
        if not batch.ByteSize():
            return asked, None
        self._n_unanswered += 1
        return asked, batch

    def end(self, asked: Asked, now: float) -> list[Proposal]:
        """Ends a step: the proposals, one a row. What is not there yet is late."""
        missed = [s for s in asked.waiting if s.waited_for and s.asked_at is not None]
        self.figures["late"] += len(missed)
        for s in asked.waiting:
            s.waited_for = False
        if missed and self._n_heard == asked.n_heard:
            self._stalled_since = now
        return [self._take(row, s) for row, s in zip(asked.rows, asked.sequences)]

    def finish(self, keys: Iterable[Hashable]) -> None:
        """These texts are over; the worker hears it with the next batch."""
        for key in keys:
            s = self._by_key.pop(key, None)
            if s is not None:
                self._close(s)

    def idle_batch(self, now: float) -> Any:
        """The Batch that closes what no step has continued for long, None where there is nothing to close."""
        self._close_idle(now)
        if self._info is None or not self._closes:
            return None
        batch = Batch()
        self._write_closes(batch)
        return batch

    def _continue(self, row: Row, now: float) -> _Sequence:
        length = len(row.tokens)
        s = self._by_key.get(row.key)
        if s is not None and length < s.length:   # another text under the same key
            self._close(s)
            s = None
        if s is None:
            s = self._by_key[row.key] = _Sequence()
        elif s.proposal.tokens and length > s.length:
            self.figures["accepted"] += s.proposal.n_followed(_ints(row.tokens[s.length:length])[:-1])
        self.figures["rows"] += length > s.length
        s.length, s.seen, s.seen_at = length, self._step, now
        return s

    def _may_ask(self, now: float) -> bool:
        if self._n_unanswered >= MAX_UNANSWERED_BATCHES and self._stalled_since is None:
            self._stalled_since = now
        return self._stalled_since is None or now - self._stalled_since >= UNANSWERED_S

    def _ask(self, row: Row, s: _Sequence, batch: Any, room: int, asked: Asked, now: float) -> int:
        """Tells the worker what was committed, which asks for a proposal. Returns how many prompt tokens the batch got."""
        if row.max_draft == 0 or now < s.off_until or not 2 <= s.length < self._info.max_context:
            return 0
        if s.opened and s.length == s.told or len(batch.verdicts) == MAX_ENTRIES:
            return 0
        if s.asked_at is not None and now - s.asked_at < UNANSWERED_S:
            return 0
        n_prompt = 0
        if not s.opened or s.length - s.told > MAX_VERDICT_TOKENS:
            n_prompt = s.length - 1
            if n_prompt > room or not self._open(row, s, batch):
                return 0
        new = self._readable(row.tokens[s.told:s.length])
        n_accepted = s.answer.n_followed(new[:-1]) if s.answer_base == s.told else 0
        verdict = batch.verdicts.add(sequence=s.id, incarnation=s.incarnation, round=s.round, base_length=s.told, tokens=new,
                                     n_accepted=n_accepted)
        if row.max_draft is not None and row.max_draft < self._max_draft:
            verdict.max_draft = row.max_draft
        s.told = s.length
        s.round += 1
        s.asked_at = now
        s.waited_for = n_prompt <= LONG_PROMPT_TOKENS and not self._remainder(row, s).tokens
        if s.waited_for and n_prompt == 0:   # a prompt is read however long that takes: its proposal is of use later
            verdict.propose_within_us = self._within_us
        asked.waiting.append(s)
        self.figures["asked"] += 1
        return n_prompt

    def _open(self, row: Row, s: _Sequence, batch: Any) -> bool:
        """Opens the sequence with all tokens but the last, which the verdict commits; False where there is no place, or not its
        drafter."""
        drafter = row.drafter or self._drafter
        if drafter and drafter not in self._info.drafters:
            offered = ", ".join(self._info.drafters) or "none by name"
            self.problems.append(f"the worker does not offer the drafter {drafter}, but {offered}: its rows get no proposals")
            s.off_until = math.inf
            return False
        if self._by_id.get(s.id) is not s:
            if len(self._by_id) >= self._info.max_sequences and not self._evict():
                return False
            s.id, s.incarnation = self._next_id, 0   # no id is used for two sequences: an answer may be on the way
            self._next_id += 1
            self._by_id[s.id] = s
        s.lose()
        s.incarnation += 1
        s.opened, s.is_fresh, s.told = True, True, s.length - 1
        limits = self._info.limits
        opened = batch.opens.add(sequence=s.id, incarnation=s.incarnation, next_round=s.round, method=METHOD_GREEDY)
        opened.tokens.extend(self._readable(row.tokens[:s.told]))
        opened.excluded.extend(self._excluded)
        opened.limits.max_draft = min(self._max_draft, limits.max_draft or MAX_DRAFT)
        opened.limits.adaptive_draft = self._adaptive
        opened.limits.trees = self._trees
        opened.drafter = drafter
        opened.limits.max_tokens = row.max_tokens if row.max_tokens > s.length else 0
        if row.sampling is not None and self._max_declared and METHOD_REJECTION in self._info.methods:
            opened.method = METHOD_REJECTION
            opened.limits.max_declared = min(self._max_declared, limits.max_declared or self._max_declared)
            opened.sampling.temperature, opened.sampling.top_k = row.sampling.temperature, row.sampling.top_k
            opened.sampling.top_p, opened.sampling.min_p = row.sampling.top_p, row.sampling.min_p
        self.figures["opens"] += 1
        return True

    def _readable(self, tokens: Sequence[int]) -> list[int]:
        """The tokens as the draft may read them: an id that its embedding has no row for becomes 0."""
        known, ids = self._known_ids, _ints(tokens)
        if _are_below(ids, known):
            return ids
        return [token if 0 <= token < known else 0 for token in ids]

    def _remainder(self, row: Row, s: _Sequence) -> Proposal:
        """What the last answer proposes from the committed length on: nothing where the target chose other tokens."""
        n = s.length - s.answer_base
        if not 0 <= n < len(s.answer.tokens):
            return NO_PROPOSAL
        return s.answer.beyond(_ints(row.tokens[s.answer_base:s.length]),
                               self._max_draft if row.max_draft is None else min(row.max_draft, self._max_draft))

    def _take(self, row: Row, s: _Sequence) -> Proposal:
        proposal = self._remainder(row, s)
        if proposal.tokens and s.answer_base < s.length:
            self.figures["late_used"] += 1
        self.figures["proposed"] += len(proposal.tokens)
        self.figures["empty"] += not proposal.tokens
        s.proposal = proposal
        return proposal

    # ---- places ----

    def _evict(self) -> bool:
        """Closes the least recently used sequence that no step needs."""
        idle = [s for s in self._by_id.values() if s.seen < self._step and not s.waited_for]
        if not idle:
            return False
        self._close(min(idle, key=lambda s: s.seen))
        self.figures["evicted"] += 1
        return True

    def _close_idle(self, now: float) -> None:
        for key in [key for key, s in self._by_key.items() if now - s.seen_at > self._idle_s and s.seen < self._step]:
            self._close(self._by_key.pop(key))

    def _close(self, s: _Sequence) -> None:
        """Frees its place. It stays a text, which a later step may open again."""
        s.lose()
        if self._by_id.get(s.id) is s:
            del self._by_id[s.id]
            self._closes.append(s.id)
        s.id = 0

    def _write_closes(self, batch: Any) -> None:
        for number in self._closes[:MAX_ENTRIES]:
            batch.closes.add(sequence=number)
        del self._closes[:MAX_ENTRIES]

    # ---- answers ----

    def receive(self, batch: Any, now: float) -> None:
        """Takes a message of the worker; an empty one is a keep-alive."""
        self._n_heard += 1
        self._n_unanswered = 0
        self._stalled_since = None
        self.figures["compute_ns"] += batch.timing.compute_ns
        for proposal in batch.proposals:
            self._receive_proposal(proposal)
        for request in batch.prefix_requests:
            s = self._current(request)
            if s is not None:
                self.figures["prefix_requests"] += 1
                s.lose()
                s.off_until = now + REOPEN_S[min(s.n_lost, len(REOPEN_S) - 1)]
                s.n_lost += 1
        for refusal in batch.refusals:
            s = self._current(refusal)
            if s is not None:
                self._receive_refusal(refusal, s, now)

    def _current(self, part: Any) -> Optional[_Sequence]:
        """The sequence that an answer is about, None where its fences are of another incarnation."""
        s = self._by_id.get(part.sequence)
        if s is None or not s.opened or part.incarnation != s.incarnation:
            self.figures["stale"] += 1
            return None
        return s

    def _receive_proposal(self, proposal: Any) -> None:
        s = self._current(proposal)
        if s is None:
            return
        if proposal.round != s.round or proposal.base_length != s.told or s.asked_at is None:
            self.figures["stale"] += 1
            return
        s.asked_at = None
        s.n_lost, s.is_fresh = s.n_lost if s.is_fresh else 0, False
        s.answer, s.answer_base = NO_PROPOSAL, s.told
        tokens, declared = list(proposal.tokens), proposal.declared
        problem = self._problem_of(proposal, tokens, declared)
        if problem:
            self.problems.append(problem)
            return
        s.answer = Proposal(tokens, [Declared(list(d.ids), list(d.probabilities)) for d in declared] if declared else None,
                            list(proposal.parents) or None)

    def _problem_of(self, proposal: Any, tokens: list[int], declared: Any) -> Optional[str]:
        """What makes a proposal one that cannot be used."""
        if proposal.parents:
            if not self._trees:
                return "the worker proposes a tree, which was not asked for"
            if len(proposal.parents) != len(tokens) or not all(-1 <= p < i for i, p in enumerate(proposal.parents)):
                return "the worker proposes a tree that is none: a parent is expected before its token, -1 for the first"
        n_ids = self._n_ids or self._known_ids
        if not _are_below(tokens, n_ids):
            return f"the worker proposes a token that does not exist, expected 0 to {n_ids - 1}"
        if declared and (len(declared) != len(tokens) or not all(map(_is_distribution_of, declared, tokens))):
            return "the worker declares a distribution that is none"
        return None

    def _receive_refusal(self, refusal: Any, s: _Sequence, now: float) -> None:
        self.figures["refusals"] += 1
        s.lose()
        del self._by_id[s.id]                        # it has no place there
        s.id = 0
        if refusal.reason == REFUSAL_LIMIT:
            s.off_until = now + REFUSED_S
        else:
            s.off_until = math.inf
            self.problems.append(f"the worker refuses a sequence: {refusal.text}")


def _ints(tokens: Any) -> list[int]:
    """A slice of tokens as a list of Python's integers."""
    return tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)


def _are_below(ids: Sequence[int], end: int) -> bool:
    """Whether all are 0 to `end` - 1."""
    return not ids or min(ids) >= 0 and max(ids) < end


def _is_distribution_of(declared: Any, token: int) -> bool:
    return (token in declared.ids and len(declared.ids) == len(declared.probabilities) == len(set(declared.ids))
            and all(p > 0 for p in declared.probabilities) and abs(sum(declared.probabilities) - 1) <= 1e-3)
