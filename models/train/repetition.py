"""Training losses against repetition.

Decoded greedily, a small model loops, because each copy of a sentence makes the next copy more likely. So a token that would
complete an n-gram that its row already contains is trained to be unlikely (unlikelihood: Welleck et al., arXiv:1908.04319).
This applies to the corpus and to rows into which a piece was repeated on purpose (Xu et al., arXiv:2206.02369), after which
the text continues.
"""

import numpy as np
import torch
import torch.nn.functional as F

COPY_NGRAM, COPY_WEIGHT = 6, 4.0
MADE_UP_SHARE, PERIODS, REPEATED = 0.4, (1, 40), (12, 160)


def completes_copy(rows: np.ndarray, n: int = COPY_NGRAM) -> np.ndarray:
    """(rows, length) token ids -> bool of the same shape: the n-gram that ends here occurs earlier in the row."""
    marks = np.zeros(rows.shape, dtype=bool)
    for row, mark in zip(rows, marks):
        seen = set()
        ids = row.tolist()
        for end in range(n, len(ids) + 1):
            gram = tuple(ids[end - n:end])
            mark[end - 1] = gram in seen
            seen.add(gram)
    return marks


def repeat_pieces(rows: np.ndarray, rng) -> None:
    """In a share of the rows, in place: repeats a piece of text, then the row continues."""
    for row in rows:
        if rng.uniform() >= MADE_UP_SHARE:
            continue
        period = int(np.exp(rng.uniform(np.log(PERIODS[0]), np.log(PERIODS[1] + 1))))
        start = int(rng.integers(1, len(row) - 2 * PERIODS[1]))
        n_copies = max(1, int(rng.integers(*REPEATED)) // period)
        piece = row[start:start + period].copy()
        row[start + period:] = np.concatenate([np.tile(piece, n_copies), row[start + period:]])[:len(row) - start - period]


def loss(logits, labels, copied):
    """Mean over (rows, length) of -log p, or of -log(1 - p) with a larger weight where the label would complete a copy."""
    nats = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
    unlikely = -COPY_WEIGHT * torch.log1p(-torch.exp(-nats).clamp(max=1 - 1e-4))
    return torch.where(copied.flatten(), unlikely, nats).mean()
