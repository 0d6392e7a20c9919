"""What a caller of a step gives and gets: rows of its batch, and a proposal for each."""

from __future__ import annotations

from typing import Any, Hashable, NamedTuple, Optional, Protocol, Sequence


class Sampling(NamedTuple):
    """How the target samples a row: the draft then samples likewise, and its proposals declare their distributions.

    For a target that takes the likeliest token, or that cannot use declared distributions, a row has no Sampling: the
    worker proposes its own likeliest tokens.
    """

    temperature: float
    top_k: int = 0        # 0: off
    top_p: float = 0.0    # 0: off
    min_p: float = 0.0    # 0: off


class Tokens(Protocol):
    """Token ids that take slices: a list, a tuple, a numpy array of one dimension."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice, /) -> Any: ...


class Row(NamedTuple):
    """A row of the batch: a text, whose tokens only grow from step to step."""

    key: Hashable                  # of the text, the same in every step: a request's id
    tokens: Tokens                 # all committed tokens, the prompt first
    max_draft: Optional[int] = None   # most tokens of the proposal; 0: none wanted; None: as many as the client allows
    sampling: Optional[Sampling] = None   # decided when the worker first hears of the text
    max_tokens: int = 0            # the length at which the text will end; 0: not known


class Declared(NamedTuple):
    """The distribution that a proposed token was drawn from: `ids` and `probabilities` are parallel, and sum to 1."""

    ids: Sequence[int]
    probabilities: Sequence[float]


class Proposal(NamedTuple):
    """Tokens that may follow the row's; an empty one means plain decoding."""

    tokens: list[int]
    declared: Optional[list[Declared]] = None   # one a token, or None

    def after(self, n: int, limit: int) -> Proposal:
        """The proposal without its first `n` tokens, and with no more than `limit` of the others."""
        end = n + limit
        return Proposal(self.tokens[n:end], self.declared[n:end] if self.declared else None)


NO_PROPOSAL = Proposal([])
