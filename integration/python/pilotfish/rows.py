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
    drafter: str = ""              # of those that the worker offers (info.drafters), decided likewise; empty: the client's


class Declared(NamedTuple):
    """The distribution that a proposed token was drawn from: `ids` and `probabilities` are parallel, and sum to 1."""

    ids: Sequence[int]
    probabilities: Sequence[float]


class Proposal(NamedTuple):
    """Tokens that may follow the row's; an empty one means plain decoding."""

    tokens: list[int]
    declared: Optional[list[Declared]] = None   # one a token, or None
    parents: Optional[list[int]] = None         # of a tree: by token the index of its parent, which is lower; -1: the row's last token

    def after(self, n: int, limit: int) -> Proposal:
        """A chain without its first `n` tokens, and with no more than `limit` of the others."""
        end = n + limit
        return Proposal(self.tokens[n:end], self.declared[n:end] if self.declared else None)

    def n_followed(self, new: Sequence[int]) -> int:
        """How many of the tokens that the row committed next were proposed: those along a path of a tree."""
        return n_common(self.tokens, new) if self.parents is None else len(self._path(new))

    def beyond(self, new: Sequence[int], limit: int) -> Proposal:
        """What is proposed behind `new`, no more than `limit` tokens; NO_PROPOSAL where the row committed other tokens."""
        if self.n_followed(new) < len(new):
            return NO_PROPOSAL
        return self.after(len(new), limit) if self.parents is None else self._subtree(self._path(new), limit)

    def _path(self, new: Sequence[int]) -> list[int]:
        """The tokens that `new` follows, by index. Of siblings that are alike the first counts (docs/protocol.md)."""
        parents, path, at = self.parents or [], [], -1
        for token in new:
            at = next((i for i in range(at + 1, len(parents)) if parents[i] == at and self.tokens[i] == token), len(parents))
            if at == len(parents):
                break
            path.append(at)
        return path

    def _subtree(self, path: Sequence[int], limit: int) -> Proposal:
        """What stands below the last token of `path`."""
        parents, kept = self.parents or [], list[int]()
        places = {path[-1] if path else -1: -1}     # the new index of each token
        for i, parent in enumerate(parents):
            if parent in places and len(kept) < limit:
                places[i] = len(kept)
                kept.append(i)
        return Proposal([self.tokens[i] for i in kept], [self.declared[i] for i in kept] if self.declared else None,
                        [places[parents[i]] for i in kept])


NO_PROPOSAL = Proposal([])


def n_common(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the common prefix."""
    n = 0
    for x, y in zip(a, b):
        if x != y:
            break
        n += 1
    return n
