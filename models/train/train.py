"""Train the target on the corpus: next-token loss, except for repetitions (repetition.py).

    train.py --minutes 60        (or --steps N)

Length 512 at first, 1024 for the last eighth. Muon for the hidden matrices, AdamW for the embedding and the norms.
The learning rate warms up, holds until 30% of the budget and falls linearly to zero at its end.

A checkpoint has weights, optimizer state, data position and time spent, so a run continues where it stopped. One is written
every four minutes, and after the current step at an interrupt.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

import repetition
import script
from llama import TARGET, Llama, Windows, load_tokens, make_optimizers, meta, save_model, set_rate

BATCH_TOKENS = 4096
SHORT, LONG, LONG_FROM = 512, 1024, 0.875
WARMUP_STEPS, HOLD_UNTIL = 40, 0.3


def rate(step: int, progress: float) -> float:
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    return warm * min(1.0, max(0.0, (1 - progress) / (1 - HOLD_UNTIL)))


@torch.no_grad()
def heldout_loss(loss_of, windows: Windows, n_batches: int) -> float:
    """Mean nats a token over the first n_batches held-out batches, with the same windows at every call."""
    windows.position, windows.epoch = 0, -1
    return sum(loss_of(windows.next(BATCH_TOKENS // windows.length)).item() for _ in range(n_batches)) / n_batches


def main() -> None:
    args = script.training_parser(__doc__, minutes=60, seed=1).parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)

    model = Llama(TARGET, args.seed)
    optimizers = make_optimizers(model, muon_lr=0.02, adam_lr=3e-3)
    checkpoint = args.work / "target.ckpt"
    step, spent, tokens_seen, positions = 0, 0.0, 0, {SHORT: 0, LONG: 0}
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        step, spent, tokens_seen, positions = state["step"], state["spent"], state["tokens_seen"], state["positions"]

    bos = meta(args.work)["bos"]
    tokens, breaks = load_tokens(args.work, "train")
    windows = {n: Windows(tokens, breaks, n, bos, args.seed, positions[n]) for n in (SHORT, LONG)}
    held = Windows(*load_tokens(args.work, "heldout"), SHORT, bos, 0)

    def loss_of(rows):
        logits = model(rows[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())

    def unrepeating_loss_of(rows, copied):
        return repetition.loss(model(rows[:, :-1]), rows[:, 1:], copied[:, 1:])

    trained_loss = torch.compile(unrepeating_loss_of, dynamic=False)

    def next_batch(length, step):
        rows = windows[length].next(BATCH_TOKENS // length).numpy()
        repetition.repeat_pieces(rows, np.random.default_rng([args.seed, step]))
        return torch.from_numpy(rows), torch.from_numpy(repetition.completes_copy(rows))

    def save():
        positions = {n: w.position for n, w in windows.items()}
        save_model(model, checkpoint, optimizers=[o.state_dict() for o in optimizers], step=step, spent=spent,
                   tokens_seen=tokens_seen, positions=positions)

    script.interrupts.later = True
    begun, before, last_save, smooth = time.time(), spent, time.time(), None
    bar = tqdm(total=args.steps or 1000, unit="step" if args.steps else "permille", mininterval=5, smoothing=0.05)
    while True:
        progress = step / args.steps if args.steps else spent / (60 * args.minutes)
        if progress >= 1 or script.interrupts.count:
            break
        set_rate(optimizers, rate(step, progress))
        length = LONG if progress >= LONG_FROM else SHORT
        loss = trained_loss(*next_batch(length, step))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        smooth = loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        step, tokens_seen, spent = step + 1, tokens_seen + BATCH_TOKENS, before + time.time() - begun
        bar.n = step if args.steps else min(1000, int(1000 * spent / (60 * args.minutes)))
        bar.set_postfix(step=step, loss=f"{smooth:.3f}", tok_s=f"{(tokens_seen / spent):.0f}")
        if time.time() - last_save > 240:
            save()
            last_save = time.time()
            print(f"\nstep {step} tokens {tokens_seen} spent {spent:.0f}s train {smooth:.4f} heldout {heldout_loss(loss_of, held, 8):.4f}", flush=True)
    save()
    if script.interrupts.count:
        raise KeyboardInterrupt
    print(f"\ndone: step {step} tokens {tokens_seen} spent {spent:.0f}s train {smooth or 0:.4f} heldout {heldout_loss(loss_of, held, 8):.4f}", flush=True)


if __name__ == "__main__":
    script.run(main)
