"""The ranks of a tensor-parallel group. Each runs the engine for the same requests and must verify the same tokens: the first asks the
worker, and the others get the tokens that it got.

`share` is collective: in each step all ranks of a group call it, with an array of the same size.
"""

from __future__ import annotations

from typing import Any


class OneRank:
    """A group with one member."""

    is_first = True

    def share(self, numbers: Any) -> None:
        """Gives all ranks what the first has in `numbers`, an array of 64-bit integers with a buffer: numpy's, or the standard library's."""


class TorchRanks:
    """A process group of torch.distributed whose backend takes tensors on the CPU."""

    def __init__(self, rank: int, first: int, group: Any) -> None:
        """`rank` in the group; `first`: its first rank among all processes."""
        self.is_first = rank == 0
        self._first, self._group = first, group

    def share(self, numbers: Any) -> None:
        import torch

        torch.distributed.broadcast(torch.frombuffer(numbers, dtype=torch.int64), src=self._first, group=self._group)


class MpiRanks:
    """A communicator of mpi4py."""

    def __init__(self, communicator: Any) -> None:
        self.is_first = communicator.Get_rank() == 0
        self._communicator = communicator

    def share(self, numbers: Any) -> None:
        self._communicator.Bcast(numbers, root=0)
