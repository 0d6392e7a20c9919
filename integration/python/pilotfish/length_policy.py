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

KEPT_TOKENS = 64       # steps of each length whose tokens are kept
TRIAL_STEPS = 8        # of one run of another length; it is compared with as many steps before it and after it
HOPELESS_STEPS = 2     # measured ones after which a trial may be given up
HOPELESS = 0.7         # where its speed is below this
GAIN = 1.03            # a length that is faster by this in two trials in a row replaces the one in use
MAX_LOSS = 0.005       # the share of the time that a class spends on trials of one length
FIRST_TRIAL = 24       # steps before the first trial, where something is drafted at first
FIRST_TRIAL_OF_PLAIN = 256   # and where nothing is: there the prompts of the whole batch are sent for a trial
AGAIN = 16             # steps before a trial that was faster is repeated
SELDOM = 64            # and at least so many before one that was slower


class _Length:
    """What was measured of one length in one class."""

    def __init__(self) -> None:
        self.tokens: deque[Sequence[int]] = deque(maxlen=KEPT_TOKENS)    # of a step, by row
        self.due = 0          # the step of its next trial
        self.n_won = 0        # trials in a row in which it was faster

    def tokens_of(self, length: int) -> int:
        """What its steps would have committed with at most `length` tokens drafted."""
        return sum(min(n, 1 + length) for step in self.tokens for n in step)


class _Class:
    """Batches of about the same number of rows."""

    def __init__(self, max_draft: int, first: int) -> None:
        self.by_length = {length: _Length() for length in sorted({0, (max_draft + 1) // 2, max_draft, first})}
        self.used = first
        self.n_steps = 0
        self.last = -1        # the length that was chosen last, and how many times in a row
        self.n_same = 0
        self.trial = -1       # the length that is tried, -1: none
        self.n_left = 0       # steps of the trial; then, below zero, those after it
        self.before: deque[float] = deque(maxlen=TRIAL_STEPS)    # the times of the last steps with the length in use
        self.tried: list[float] = []
        self.after: list[float] = []
        for i, length in enumerate(length for length in self.by_length if length != first):
            self.by_length[length].due = (i + 1) * (FIRST_TRIAL if first > 0 else FIRST_TRIAL_OF_PLAIN)

    def choose(self) -> int:
        self.n_steps += 1
        length = self._choose()
        self.n_same = self.n_same + 1 if length == self.last else 1
        self.last = length
        return length

    def _choose(self) -> int:
        if self.trial >= 0:
            self.n_left -= 1
            if self.n_left > 0 and self._is_hopeless():
                self.n_left = 0
            if self.n_left > 0:
                return self.trial
            if self.n_left > -TRIAL_STEPS:
                return self.used
            self._judge()
        due = [length for length, at in self.by_length.items() if length != self.used and at.due <= self.n_steps]
        if due and len(self.before) == TRIAL_STEPS:
            self.trial, self.n_left = min(due, key=lambda length: self.by_length[length].due), TRIAL_STEPS
            self.tried, self.after = [], []
            return self.trial
        return self.used

    def observe(self, length: int, tokens: Sequence[int], seconds: float) -> None:
        if length != self.last or self.n_same < 2:   # after a change proposals come late: the worker reads what it was not told
            return
        self.by_length[length].tokens.append(tokens)
        if length == self.trial:
            self.tried.append(seconds)
        elif self.trial >= 0:
            self.after.append(seconds)
        else:
            self.before.append(seconds)

    def _ratio(self, times: Sequence[float]) -> float:
        """The speed of the length that is tried over that of the one in use, whose steps took `times`. Medians: a step that
        another program delayed says nothing."""
        longer = self.by_length[max(self.trial, self.used)]
        n_used = longer.tokens_of(self.used)
        return longer.tokens_of(self.trial) / n_used * median(times) / median(self.tried) if n_used else 1.0

    def _is_hopeless(self) -> bool:
        return len(self.tried) >= HOPELESS_STEPS and self._ratio(self.before) < HOPELESS

    def _judge(self) -> None:
        """Ends a trial: its length is tried again soon or seldom, or replaces the one in use."""
        tried, used = self.by_length[self.trial], self.by_length[self.used]
        ratio = self._ratio([*self.before, *self.after]) if self.tried else 1.0
        tried.n_won = tried.n_won + 1 if ratio > GAIN else 0
        if tried.n_won >= 2:
            used.due, used.n_won = self.n_steps + SELDOM, 0
            self.used = self.trial
            self.before.clear()
        elif tried.n_won:
            tried.due = self.n_steps + AGAIN
        else:
            lost_s = sum(self.tried) * (1.0 - ratio)
            tried.due = self.n_steps + max(SELDOM, int(lost_s / MAX_LOSS / median(self.before)))
            if self.used < self.trial:               # what loses with few tokens loses with more
                for length, other in self.by_length.items():
                    other.due = max(other.due, tried.due) if length > self.trial else other.due
        self.before.extend(self.after)
        self.trial = -1


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
        if known is not None and seconds > 0.0:
            known.observe(length, tokens, seconds)
