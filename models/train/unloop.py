"""Finish the target: ordinary training at length 1024, and unlearning of loops. A small model decodes greedily in loops
because copying the last sentence grows likelier with every copy.

    unloop.py made-up --checkpoint target.ckpt --out target-mid.ckpt
        corpus text whose last piece (2 to 40 tokens) is repeated to the end of the window; every token there that goes on
        with a copy after five tokens of it is made less likely (unlikelihood: Welleck et al., arXiv:1908.04319; on made-up
        repetitions, as Xu et al., arXiv:2206.02369)
    unloop.py own --checkpoint target-mid.ckpt --out target-final.ckpt
        the model's own greedy continuations; the loss is KL to a frozen copy of the model as it was at the start, from whose
        distribution a token is removed where it would complete a 6-gram that the row holds already

In both, the ordinary loss on a corpus batch in the same step goes on with the language. Unlikelihood on own text, without
the frozen copy, was tried first: with few steps to spend it ended half of the loops and drove the text into odd words.

Keeps true: the input checkpoint is not touched, and decoding stays plain greedy: nothing is blocked once training is over.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

from llama import Windows, continue_text, load_model, load_tokens, make_optimizers, meta, save_model, set_rate

ROWS, LENGTH, FREE_TOKENS, OWN_NGRAM = 12, 256, 5, 6
LOOP_NGRAM, N_NEW = 8, 128
PREFIX = (10, 40)


def loops(rows) -> float:
    """Share of rows of token ids (continuations, no prefix) that hold an 8-gram twice."""
    def twice(row):
        grams = [tuple(row[i:i + LOOP_NGRAM]) for i in range(len(row) - LOOP_NGRAM + 1)]
        return len(set(grams)) < len(grams)
    return sum(map(twice, rows)) / len(rows)


def made_up(windows: Windows, rng):
    """(ids, mask), each (ROWS, LENGTH + 1): text whose last piece is repeated; mask marks what no longer ought to be copied."""
    ids = windows.next(ROWS)
    mask = torch.zeros(ids.shape)
    for row, marks in zip(ids, mask):
        period = int(np.exp(rng.uniform(np.log(2), np.log(41))))
        start = int(rng.integers(8, 100))
        piece = row[start:start + period]
        copies = -(-(len(row) - start) // period)
        row[start:] = piece.repeat(copies)[:len(row) - start]
        marks[start + period + FREE_TOKENS:] = 1
    return ids, mask


def own_text(model, windows: Windows, rng, threads: int):
    """(ids, mask) of the same shapes: greedy continuations, padded; mask marks the ends of repeated 6-grams. And the share that loops."""
    length = int(rng.integers(*PREFIX))
    torch.set_num_threads(1)  # short products: on a busy machine a second thread is mostly waited for
    out, _ = continue_text(model, windows.next(ROWS)[:, :length], N_NEW, torch.zeros(ROWS))
    torch.set_num_threads(threads)
    ids, mask = torch.zeros(ROWS, LENGTH + 1, dtype=torch.long), torch.zeros(ROWS, LENGTH + 1)
    ids[:, :length + N_NEW] = out
    for row, marks in zip(out.tolist(), mask):
        seen = set()
        for end in range(OWN_NGRAM, len(row) + 1):
            gram = tuple(row[end - OWN_NGRAM:end])
            if gram in seen and end > length:
                marks[end - 1] = 1
            seen.add(gram)
    return ids, mask, loops(out[:, length:].tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["made-up", "own"])
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache/pilotfish/train")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=7)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--muon-rate", type=float, default=2.5e-3)
    parser.add_argument("--adam-rate", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pid-file", type=Path)
    args = parser.parse_args()
    if args.pid_file:
        args.pid_file.write_text(f"{os.getpid()}\n")
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model, teacher = load_model(args.checkpoint), load_model(args.checkpoint)
    optimizers = make_optimizers(model, args.muon_rate, args.adam_rate)
    bos = meta(args.work)["bos"]
    tokens, breaks = load_tokens(args.work, "train")
    corpus = Windows(tokens, breaks, 1024, bos, args.seed)
    pieces = Windows(tokens, breaks, LENGTH, bos, args.seed)
    rng = np.random.default_rng(args.seed)

    def likely_loss(rows):
        return F.cross_entropy(model(rows[:, :-1]).float().flatten(0, 1), rows[:, 1:].flatten())

    def unlikelihood(ids, mask):
        chosen = -F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        return -(torch.log1p(-chosen.exp().clamp(max=1 - 1e-4)) * mask[:, 1:].flatten()).sum() / mask[:, 1:].sum()

    def refusing_loss(ids, mask):
        """KL to the teacher, whose distribution lacks the copied token wherever mask says so."""
        with torch.no_grad():
            wanted = teacher(ids[:, :-1]).float()
            copied = F.one_hot(ids[:, 1:], wanted.shape[-1]).bool() & (mask[:, 1:, None] > 0)
            log_p = wanted.masked_fill(copied, -30.0).log_softmax(-1)
        log_q = model(ids[:, :-1]).float().log_softmax(-1)
        kl = (log_p.exp() * (log_p - log_q)).sum(-1)
        used = (torch.arange(ids.shape[1] - 1)[None] < PREFIX[0] + N_NEW).float().expand_as(kl)
        return (kl * mask[:, 1:]).sum() / mask[:, 1:].sum().clamp(min=100) + (kl * used).mean()

    fast_likely = torch.compile(likely_loss, dynamic=False)
    fast_other = torch.compile(unlikelihood if args.stage == "made-up" else refusing_loss, dynamic=False)
    begun, step, share, smooth = time.time(), 0, 1.0, 1.0
    bar = tqdm(total=args.steps or 1000, mininterval=5)
    while True:
        progress = step / args.steps if args.steps else (time.time() - begun) / (60 * args.minutes)
        if progress >= 1:
            break
        set_rate(optimizers, min((step + 1) / 5, 1 - progress))
        likely = fast_likely(corpus.next(4))
        likely.backward()
        if args.stage == "made-up":
            ids, mask = made_up(pieces, rng)
        else:
            ids, mask, share = own_text(model, pieces, rng, args.threads)
        smooth = 0.85 * smooth + 0.15 * share
        other = fast_other(ids, mask)
        other.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        step += 1
        bar.n = step if args.steps else int(1000 * progress)
        bar.set_postfix(step=step)
        if step % 5 == 0:
            print(f"\nstep {step} loss {likely.item():.4f} {args.stage} {other.item():.4f}"
                  + (f" loops {smooth:.3f}" if args.stage == "own" else ""), flush=True)
        if step % 20 == 0:
            save_model(model, args.out.with_suffix(".part"))
    save_model(model, args.out, unloop_steps=step)


if __name__ == "__main__":
    main()
