"""Distil the draft on the target's own output distribution.

    distill.py write --target T.ckpt --minutes 3     the target generates text, greedy and sampled; ids and hidden states are
                                                     saved in batches (--steps sets their number)
    distill.py train --target T.ckpt --minutes 12    the draft learns from corpus windows and from that text

The teacher's logits are recomputed from its last hidden states (one matrix product), so a second epoch over its own text
needs no forward pass. The loss is KL(target || draft). The last third adds the total variation, because sampling accepts
with probability 1 - TV, and the cross entropy to the target's argmax, which decides greedy acceptance.

Invariants: the teacher is the target as exported, with weights rounded to BF16; generated text starts from training prefixes
only, never from prompts.txt.
"""

import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

import script
from llama import DRAFT, PRODUCTS, Llama, Windows, continue_text, load_model, load_tokens, make_optimizers, meta, save, save_model, set_rate

WRITE_ROWS, WRITE_LENGTH = 192, 256
BATCH_ROWS, CORPUS_LENGTH = 16, 512
OWN_FROM, OWN_TO = 0.4, 0.7   # the share of batches of the target's own text, at the start and at the end
SHARP_FROM = 0.67


def rounded(model: Llama) -> Llama:
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.bfloat16().float())
    return model.eval()


def write(args, teacher: Llama, folder: Path, temperatures) -> None:
    """Extends the batches in folder. temperatures: six numbers, of row r that of r % 6."""
    tokens, breaks = load_tokens(args.work, "train")
    bos = meta(args.work)["bos"]
    folder.mkdir(exist_ok=True)
    temperature = torch.tensor(temperatures * (WRITE_ROWS // 6))
    begun, index = time.time(), len(list(folder.glob("*.pt")))
    bar = tqdm(total=args.steps, initial=index, unit="batch", desc="written" if args.steps else f"for {args.minutes:g} minutes")
    while index < 2 or (index < args.steps if args.steps else time.time() - begun < 60 * args.minutes):   # 2: see OwnText
        rng = np.random.default_rng([args.seed, index])
        length = int(rng.integers(8, 41))
        prefix = Windows(tokens, breaks, length, bos, args.seed + 100 + index).next(WRITE_ROWS)[:, :length]
        generator = torch.Generator().manual_seed(args.seed * 100003 + index)
        ids, states = continue_text(teacher, prefix, WRITE_LENGTH - length + 1, temperature, generator)
        save(folder / f"{index:05}.pt", {"ids": ids.to(torch.int16), "states": states.bfloat16()})
        index += 1
        bar.update()
    print(f"\n{index} batches, {index * WRITE_ROWS * WRITE_LENGTH} tokens")


class OwnText:
    """Rows that the target generated, shuffled; the first batch file is held out for evaluation."""

    def __init__(self, folder: Path, seed: int):
        files = [torch.load(f, weights_only=True) for f in sorted(folder.glob("*.pt"))]
        self.check = (files[0]["ids"].long(), files[0]["states"])
        self.ids = torch.cat([f["ids"] for f in files[1:]])
        self.states = torch.cat([f["states"] for f in files[1:]])
        self.rng, self.order = np.random.default_rng(seed), np.zeros(0, dtype=np.int64)

    def next(self, n_rows: int):
        while len(self.order) < n_rows:
            self.order = np.concatenate([self.order, self.rng.permutation(len(self.ids))])
        rows, self.order = torch.from_numpy(self.order[:n_rows]), self.order[n_rows:]
        return self.ids[rows].long(), self.states[rows]


def train(args) -> None:
    teacher = rounded(load_model(args.target))
    head = teacher.model.embed_tokens.weight.detach().to(PRODUCTS)
    draft = load_model(args.draft) if args.draft else Llama(DRAFT, args.seed)
    optimizers = make_optimizers(draft, muon_lr=0.02, adam_lr=3e-3)
    tokens, breaks = load_tokens(args.work, "train")
    corpus = Windows(tokens, breaks, CORPUS_LENGTH, meta(args.work)["bos"], args.seed + 7)
    own = OwnText(args.work / "own", args.seed)

    def loss_of(ids, states, sharp):
        """ids: (rows, n); states: (rows, n, teacher hidden), of the same positions."""
        log_p = F.linear(states.to(head.dtype), head).float().log_softmax(-1)
        log_q = draft(ids).float().log_softmax(-1)
        p = log_p.exp()
        kl = (p * (log_p - log_q)).sum(-1).mean()
        if not sharp:
            return kl
        tv = 0.5 * (p - log_q.exp()).abs().sum(-1).mean()
        agree = -log_q.gather(-1, log_p.argmax(-1, keepdim=True)).mean()
        return 0.3 * kl + 2.0 * tv + 0.3 * agree

    fast_loss = torch.compile(loss_of, dynamic=False)
    fast_teacher = torch.compile(lambda ids: teacher.hidden(ids), dynamic=False)
    choose = np.random.default_rng(args.seed)

    @torch.no_grad()
    def check():
        ids, states = own.check
        log_p = F.linear(states.to(head.dtype), head).float().log_softmax(-1)
        q = draft(ids[:, :-1]).float().softmax(-1)
        overlap = torch.minimum(log_p.exp(), q).sum(-1)
        agree = (log_p.argmax(-1) == q.argmax(-1)).float()
        new = slice(40, None)
        return (f"overlap {overlap[0::6, new].mean():.4f} at T=1, argmax agreement {agree[3::6, new].mean():.4f} on greedy text, "
                f"{agree[0::6, new].mean():.4f} on sampled")

    begun, step, last, smooth = time.time(), 0, time.time(), None
    bar = tqdm(total=args.steps or 1000, unit="step" if args.steps else "permille", mininterval=5)
    while True:
        progress = step / args.steps if args.steps else (time.time() - begun) / (60 * args.minutes)
        if progress >= 1:
            break
        set_rate(optimizers, min(1.0, (step + 1) / 40, (1 - progress) / 0.8))
        if choose.random() < OWN_FROM + (OWN_TO - OWN_FROM) * progress:
            ids, states = own.next(2 * BATCH_ROWS)
            ids = ids[:, :-1]
        else:
            ids = corpus.next(BATCH_ROWS)[:, :-1]
            with torch.no_grad():
                states = fast_teacher(ids)
        loss = fast_loss(ids, states, progress > SHARP_FROM)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        step += 1
        bar.n = step if args.steps else int(1000 * progress)
        bar.set_postfix(step=step, loss=f"{smooth:.3f}")
        if time.time() - last > 60:
            last = time.time()
            print(f"\nstep {step} loss {smooth:.4f} {check()}", flush=True)
    save_model(draft, args.work / "draft.ckpt")
    print(f"\ndone: step {step}, {step * BATCH_ROWS * CORPUS_LENGTH} tokens, {check()}", flush=True)


def main() -> None:
    parser = script.training_parser(__doc__, minutes=5, seed=3)
    parser.add_argument("stage", choices=["write", "train"])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, help="where the draft starts from (default: from nothing)")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    if args.stage == "write":   # half greedy, a third drawn at temperature 1, the rest in between
        write(args, rounded(load_model(args.target)), args.work / "own", [1.0, 1.0, 0.7, 0.0, 0.0, 0.0])
    else:
        train(args)


if __name__ == "__main__":
    script.run(main)
