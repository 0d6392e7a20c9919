"""Finish the target: train it against its own loops, after the training on the corpus (repetition.py).

The model generates greedily from prefixes of the corpus. A token that would complete an n-gram that the row already contains
is replaced by the next likeliest one, so a row has many such corrections and no loop. Then the model learns, on these rows and
on ordinary corpus batches, the distribution of a frozen copy of itself without those completions. This is imitation of an
expert on the expert's own path (Ross et al., arXiv:1011.0686); the data is generated again as the model changes.
Unlikelihood on its own text without the frozen copy led to odd words.

Invariants: the input checkpoint is not changed, and inference stays plain greedy decoding without blocked tokens.
"""

import time
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import repetition
import script
from llama import KVCache, Windows, continue_text, load_model, load_tokens, make_optimizers, meta, save_model, set_rate

WRITTEN, ROWS, N_NEW, PREFIX = 96, 24, 128, (10, 40)
CORPUS_ROWS, CORPUS_LENGTH = 2, 1024
LOOP_NGRAM = 8
GONE = -30.0  # the logit of a token that is not allowed
REFUSED_WEIGHT = 3.0


def loops(rows) -> float:
    """Share of rows of token ids (continuations without prefix) that contain an 8-gram twice."""
    return float(repetition.completes_copy(np.array(rows), LOOP_NGRAM).any(axis=1).mean())


class Followers:
    """The tokens of one row that have followed each sequence of COPY_NGRAM - 1 tokens."""

    def __init__(self, ids):
        self.ids, self.after = [], {}
        for token in ids:
            self.append(token)

    def append(self, token: int) -> None:
        self.after.setdefault(self.key(), set()).add(token)
        self.ids.append(token)

    def key(self):
        return tuple(self.ids[1 - repetition.COPY_NGRAM:])

    def copies(self):
        """The tokens that would complete a copy at the end of the row."""
        return self.after.get(self.key(), ()) if len(self.ids) >= repetition.COPY_NGRAM - 1 else ()


@torch.no_grad()
def write(model, prefix):
    """Greedy continuations of prefix (rows, length) without copies. -> ids (rows, length + N_NEW), and the (row, position,
    token) triples that were not allowed; position is that of the preceding token."""
    cache = KVCache(model.config, len(prefix), prefix.shape[1] + N_NEW)
    rows, feed, refused = [Followers(row) for row in prefix.tolist()], prefix, []
    for _ in range(N_NEW):
        logits = model.logits(model.hidden(feed, cache=cache)[:, -1]).float()
        for i, row in enumerate(rows):
            for token in row.copies():
                logits[i, token] = GONE
                refused.append((i, len(row.ids) - 1, token))
        feed = logits.argmax(-1, keepdim=True)
        for row, token in zip(rows, feed[:, 0].tolist()):
            row.append(token)
    return torch.tensor([row.ids for row in rows]), refused


def main() -> None:
    parser = script.training_parser(__doc__, minutes=8, seed=8)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model, teacher = load_model(args.checkpoint), load_model(args.checkpoint)
    optimizers = make_optimizers(model, muon_lr=1e-2, adam_lr=1.5e-3)
    bos = meta(args.work)["bos"]
    tokens, breaks = load_tokens(args.work, "train")
    corpus = Windows(tokens, breaks, CORPUS_LENGTH, bos, args.seed)
    prefixes = Windows(tokens, breaks, PREFIX[1], bos, args.seed)
    rng = np.random.default_rng(args.seed)

    def corpus_loss(rows, copied):
        return repetition.loss(model(rows[:, :-1]), rows[:, 1:], copied[:, 1:])

    def own_loss(ids, refused):
        """KL(teacher without the refused tokens || model), plus a larger weight where a token was refused. refused: (n, 3)."""
        with torch.no_grad():
            wanted = teacher(ids).float()
            wanted[refused[:, 0], refused[:, 1], refused[:, 2]] = GONE
            log_p = wanted.log_softmax(-1)
        kl = (log_p.exp() * (log_p - model(ids).float().log_softmax(-1))).sum(-1)
        there = kl[refused[:, 0], refused[:, 1]]
        return kl.mean() + (REFUSED_WEIGHT * there.mean() if len(refused) else 0.0)

    fast_corpus = torch.compile(corpus_loss, dynamic=False)
    begun, step, written = time.time(), 0, None
    bar = tqdm(total=args.steps or 1000, unit="step" if args.steps else "permille", mininterval=5)
    while True:
        progress = step / args.steps if args.steps else (time.time() - begun) / (60 * args.minutes)
        if progress >= 1:
            break
        set_rate(optimizers, min((step + 1) / 5, 1 - progress))
        part = step % (WRITTEN // ROWS)
        if part == 0:
            length = int(rng.integers(*PREFIX))
            prefix = prefixes.next(WRITTEN)[:, :length]
            if step % 40 == 0:
                share = loops(continue_text(model, prefix[:48], N_NEW, torch.zeros(48))[0][:, length:].tolist())
            written, refused = write(model, prefix)
        first = part * ROWS
        mine = torch.tensor([(r - first, p, t) for r, p, t in refused if first <= r < first + ROWS], dtype=torch.long).view(-1, 3)
        rows = corpus.next(CORPUS_ROWS)
        likely = fast_corpus(rows, torch.from_numpy(repetition.completes_copy(rows.numpy())))
        likely.backward()
        own = own_loss(written[first:first + ROWS], mine)
        own.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        bar.n = step if args.steps else int(1000 * progress)
        bar.set_postfix(step=step, loops=f"{share:.2f}")
        if step % 10 == 0:
            print(f"\nstep {step} corpus {likely.item():.4f} own {own.item():.4f} refused {len(mine) / ROWS:.1f} a row, loops {share:.3f}", flush=True)
    save_model(model, args.out)


if __name__ == "__main__":
    script.run(main)
