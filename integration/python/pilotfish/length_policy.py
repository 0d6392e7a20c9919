"""Chooses how many tokens are drafted for a batch, by the measured speed of the engine's steps.

Each drafted token is one more row for the target to verify. One sequence alone rarely notices; a large batch may be slower with
drafts than without. So the policy measures: for each class of batch sizes (1, 2, 3 to 4, 5 to 8, ...) and each length it may use
(0, half of the most, the most) it keeps the last steps, and uses the length that commits the most tokens a second. Each other
length is tried in runs of a few steps, and the more it loses, the more seldom. Without a clock: times are arguments.

How many tokens a step commits varies far more than its time. So the tokens of two lengths are compared on the same steps: one that
committed c tokens of a row with the longer length would have committed min(c, 1 + n) with a length of n.
"""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Callable, Sequence

KEPT_TIMES = 16        # of each length, those of the last steps
KEPT_TOKENS = 64       # and the tokens of so many
ENOUGH_STEPS = 12      # before a length may replace another
TRIAL_STEPS = 8        # of one run of another length
GAIN = 1.03            # a length that is faster by this replaces the one in use
MAX_LOSS = 0.005       # the share of its time that a class spends on trials of one length
FIRST_TRIAL = 24       # steps before the first trial, where something is drafted at first
FIRST_TRIAL_OF_PLAIN = 64    # and where nothing is: there the prompts of the whole batch are sent for a trial
AGAIN = 16             # steps before a trial that was faster is repeated
SELDOM = 64            # and at least so many before one that was slower


class _Length:
    """What was measured of one length in one class."""

    def __init__(self) -> None:
        self.seconds: deque[float] = deque(maxlen=KEPT_TIMES)
        self.tokens: deque[Sequence[int]] = deque(maxlen=KEPT_TOKENS)    # of a step, by row
        self.due = 0          # the step of its next trial

    def tokens_of(self, length: int) -> int:
        """What its steps would have committed with at most `length` tokens drafted."""
        return sum(min(n, 1 + length) for step in self.tokens for n in step)


class _Class:
    """Batches of about the same number of rows."""

    def __init__(self, max_draft: int, first: int) -> None:
        self.by_length = {length: _Length() for length in sorted({0, (max_draft + 1) // 2, max_draft, first})}
        self.used = first
        self.trial = -1       # the length that is tried now, -1: none
        self.n_left = 0       # steps of the trial
        self.n_steps = 0
        self.last = -1        # the length that was chosen last, and how many times in a row
        self.n_same = 0
        for i, length in enumerate(self.by_length.values()):
            length.due = (i + 1) * (FIRST_TRIAL if first > 0 else FIRST_TRIAL_OF_PLAIN)

    def choose(self) -> int:
        length = self._choose()
        self.n_same = self.n_same + 1 if length == self.last else 1
        self.last = length
        return length

    def _choose(self) -> int:
        self.n_steps += 1
        if self.trial >= 0:
            self.n_left -= 1
            if self.n_left > 0:
                return self.trial
            self._judge()
        due = [length for length, at in self.by_length.items() if length != self.used and at.due <= self.n_steps]
        if due:
            self.trial, self.n_left = min(due, key=lambda length: self.by_length[length].due), TRIAL_STEPS
            return self.trial
        return self.used

    def _judge(self) -> None:
        """Ends a trial: its length replaces the one in use, is tried again soon, or seldom."""
        tried, used = self.by_length[self.trial], self.by_length[self.used]
        ratio = self._ratio(tried, used) if tried.seconds and used.seconds else 1.0
        if ratio > GAIN and len(tried.seconds) >= ENOUGH_STEPS:
            used.due = self.n_steps + SELDOM
            self.used = self.trial
        elif ratio > GAIN:
            tried.due = self.n_steps + AGAIN
        else:
            tried.due = self.n_steps + max(SELDOM, int(TRIAL_STEPS * (1.0 - ratio) / MAX_LOSS))
        self.trial = -1


    def _ratio(self, tried: _Length, used: _Length) -> float:
        """The speed of the length that is tried over that of the one in use. Medians: a step that another program delayed
        says nothing."""
        longer = tried if self.trial > self.used else used
        return longer.tokens_of(self.trial) / longer.tokens_of(self.used) * median(used.seconds) / median(tried.seconds)


class LengthPolicy:
    """The lengths of an engine's batches: `choose` before each step's drafting, `observe` after each step."""

    def __init__(self, max_draft: int, first: Callable[[int], int]) -> None:
        """`first`: the length for a number of rows, until something is measured."""
        self._max_draft, self._first = max_draft, first
        self._classes: dict[int, _Class] = {}

    def choose(self, n_rows: int) -> int:
        """The most tokens of a proposal in the next step, of `n_rows` rows (1 and up)."""
        number = (n_rows - 1).bit_length()
        if number not in self._classes:
            self._classes[number] = _Class(self._max_draft, min(self._first(n_rows), self._max_draft))
        return self._classes[number].choose()

    def observe(self, length: int, tokens: Sequence[int], seconds: float) -> None:
        """A step that verified proposals of up to `length` tokens committed `tokens`, by row and 1 and up, in `seconds`, drafting
        included. Steps that also read prompts are not told."""
        known = self._classes.get((len(tokens) - 1).bit_length())
        if known is None or length not in known.by_length or seconds <= 0.0:
            return
        if length != known.last or known.n_same < 2:   # after a change proposals come late: the worker reads what it was not told
            return
        known.by_length[length].seconds.append(seconds)
        known.by_length[length].tokens.append(tokens)
