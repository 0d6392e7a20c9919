"""Train a draft that proposes k tokens in one pass (PARD, arXiv 2504.18583), from the draft as shipped.

    pard.py write                      the target generates text, two thirds of it greedy (--steps sets the number of batches)
    pard.py train --minutes 40         the draft learns on it, and goes on from its last checkpoint; --out is then written

Both need the work folder of prepare.py. The draft keeps its shape: a mask is a token of the vocabulary that no text holds
(the byte 0xFF, which is not in UTF-8), named `pard_token` in config.json. In a pass the masks follow the text.

Training rows: the text, and for anchor a and i = 1 to DEPTH - 1 a mask at position a + i, whose label is the token at
a + i + 1. A mask sees the text up to a and the masks before it of its own group. Of the anchors, max(0.7^i, 0.2) keep an i-th
mask (conditional drop of the paper, section 3.2), nested: a group never lacks a mask that a later one of it sees.

Loss: KL to the teacher's TOP likeliest tokens and one bucket for all others; from SHARP_FROM on also the total variation and
the cross entropy to the teacher's argmax, as in distill.py. Position 1 weighs most (WEIGHTS): it decides every round.
"""

import time
from pathlib import Path

import torch
import torch.nn.functional as F
from tqdm import tqdm

import distill
import script
from evaluate import load_directory
from export import export
from llama import PRODUCTS, Llama, make_optimizers, meta, rotate, save, save_model, set_rate

MASK_ID = 189
DEPTH = 6
WEIGHTS = (3.0, 1.0, 0.8, 0.6, 0.5, 0.4)
KEEP, KEEP_LEAST = 0.7, 0.2
ROWS, LENGTH, TOP, CHUNK = 16, 256, 64, 256
SHARP_FROM = 0.4
MUON_RATE, ADAM_RATE = 0.008, 1.5e-3
CHECKPOINT_SECONDS = 120


class Groups:
    """Which masks a batch has. Flat order: all first masks of a row, then all second ones, and so on; the groups of a row are
    in one order throughout, so the i-th masks are those of its first counts[i - 1] groups."""

    def __init__(self, anchors, counts):
        """anchors: (rows, groups) positions; counts: how many groups have an i-th mask, falling."""
        self.anchors, self.counts = anchors, counts
        self.positions = torch.cat([anchors[:, :n] + i + 1 for i, n in enumerate(counts)], dim=1)   # (rows, masks)
        self.sees_to = torch.cat([anchors[:, :n] for n in counts], dim=1)                           # (rows, masks)


def draw_groups(generator) -> Groups:
    n = LENGTH - DEPTH + 1   # the last mask of a group still has a label
    counts = [int(n * max(KEEP ** i, KEEP_LEAST)) for i in range(1, DEPTH)]
    order = torch.rand(ROWS, n, generator=generator).argsort(dim=1)
    return Groups(order[:, :counts[0]], counts)


def own_scores(q, k, counts):
    """q: (rows, heads, masks, size), k: (rows, 1, masks, size) -> per i the scores of the i-th masks against masks 1 to i of
    their groups, (rows, heads, counts[i - 1], i)."""
    q, k = q.split(counts, dim=2), k.split(counts, dim=2)
    return [(q[i][:, :, :, None] * torch.stack([k[j][:, :, :n] for j in range(i + 1)], dim=3)).sum(-1) for i, n in enumerate(counts)]


def attend_masks(q, k, v, text_k, text_v, sees_to, counts):
    """Attention of the masks, one softmax over the text up to the anchor and the own group."""
    scale = q.shape[-1] ** -0.5
    hidden = torch.arange(text_k.shape[2]) > sees_to[:, None, :, None]
    to_text = ((q * scale) @ text_k.mT).float().masked_fill(hidden, float("-inf"))
    to_own = own_scores((q * scale).float(), k.float(), counts)
    v, out = v.split(counts, dim=2), []
    for i, (text, own) in enumerate(zip(to_text.split(counts, dim=2), to_own)):
        weights = torch.cat([text, own], dim=-1).softmax(-1)
        values = torch.stack([v[j][:, :, :counts[i]] for j in range(i + 1)], dim=3)
        split = text.shape[-1]
        out.append(weights[..., :split].to(q.dtype) @ text_v + (weights[..., split:, None].to(q.dtype) * values).sum(3))
    return torch.cat(out, dim=2)


def layer_pass(layer, x, cos, sin, sees_to, counts, dtype):
    """x: (rows, LENGTH + masks, hidden), the text first."""
    attention, c = layer.self_attn, layer.self_attn.c
    assert c.num_key_value_heads == 1
    n_q, length = c.num_attention_heads, x.shape[1] - sum(counts)
    weight = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]).to(dtype)
    qkv = F.linear(layer.input_layernorm(x).to(dtype), weight).view(*x.shape[:2], n_q + 2, c.head_dim).transpose(1, 2)
    turned = rotate(qkv[:, :n_q + 1].float(), cos, sin).to(dtype)
    q, k, v = turned[:, :n_q], turned[:, n_q:], qkv[:, n_q + 1:]
    text_k, text_v = k[:, :, :length], v[:, :, :length]
    text = F.scaled_dot_product_attention(q[:, :, :length], text_k.expand(-1, n_q, -1, -1), text_v.expand(-1, n_q, -1, -1), is_causal=True)
    masks = attend_masks(q[:, :, length:], k[:, :, length:], v[:, :, length:], text_k, text_v, sees_to, counts)
    out = torch.cat([text, masks], dim=2).transpose(1, 2).reshape(*x.shape[:2], -1)
    x = x + F.linear(out, attention.o_proj.weight.to(dtype)).float()
    return x + layer.mlp(layer.post_attention_layernorm(x).to(dtype)).float()


def hidden_states(draft: Llama, ids, groups: Groups, dtype=PRODUCTS, layer_pass=layer_pass):
    """ids: (rows, LENGTH) -> (rows, LENGTH + masks, hidden) after the last norm."""
    masks = groups.positions
    at = torch.cat([torch.arange(ids.shape[1]).expand(len(ids), -1), masks], dim=1)
    cos, sin = draft.cos[at][:, None], draft.sin[at][:, None]
    x = F.embedding(torch.cat([ids, torch.full_like(masks, MASK_ID)], dim=1), draft.model.embed_tokens.weight)
    for layer in draft.model.layers:
        x = layer_pass(layer, x, cos, sin, groups.sees_to, groups.counts, dtype)
    return draft.model.norm(x).to(dtype)


class OwnText:
    """What the target wrote, with the TOP likeliest tokens of each position; the first batch file is held out."""

    def __init__(self, folder: Path, head, seed: int):
        files = [torch.load(f, weights_only=True) for f in tqdm(sorted(folder.glob("*.pt")), desc="reading")]
        parts = [self.likeliest(f["states"], head) for f in tqdm(files, desc="teacher")]
        ids, top, p = (torch.cat(x) for x in zip(*[(f["ids"], *part) for f, part in zip(files, parts)]))
        n_check = len(files[0]["ids"])
        self.check = ids[:n_check].long(), top[:n_check].long()
        self.ids, self.top, self.p = ids[n_check:], top[n_check:], p[n_check:]
        self.generator, self.order = torch.Generator().manual_seed(seed), torch.zeros(0, dtype=torch.long)

    @staticmethod
    @torch.no_grad()
    def likeliest(states, head):
        """(ids, probabilities), each (rows, LENGTH, TOP), falling."""
        ids, p = [], []
        for rows in states.split(4):
            top = F.linear(rows.to(head.dtype), head).float().softmax(-1).topk(TOP)
            ids.append(top.indices.to(torch.int16))
            p.append(top.values.half())
        return torch.cat(ids), torch.cat(p)

    def next(self, n_rows: int):
        """ids, (n_rows, LENGTH); top and p of the tokens that follow, (n_rows, LENGTH, TOP)."""
        while len(self.order) < n_rows:
            self.order = torch.cat([self.order, torch.randperm(len(self.ids), generator=self.generator)])
        rows, self.order = self.order[:n_rows], self.order[n_rows:]
        return self.ids[rows, :LENGTH].long(), self.top[rows].long(), self.p[rows].float()


def chunk_loss(hidden, head, top, p, weight, sharp: bool):
    """Weighted sum over the rows of a chunk. hidden: (n, hidden), head: (V, hidden), top and p: (n, TOP), weight: (n)."""
    log_q = F.linear(hidden, head.to(hidden.dtype)).float().log_softmax(-1).gather(-1, top)
    q = log_q.exp()
    rest_p = (1 - p.sum(-1)).clamp_min(1e-6)
    rest_q = (1 - q.sum(-1)).clamp_min(1e-6)
    kl = (p * (p.clamp_min(1e-8).log() - log_q)).sum(-1) + rest_p * (rest_p.log() - rest_q.log())
    if sharp:
        tv = 0.5 * ((p - q).abs().sum(-1) + (rest_p - rest_q).abs())
        kl = 0.3 * kl + 2.0 * tv - 0.3 * log_q[:, 0]
    return (kl * weight).sum()


def backward_in_chunks(hidden, head, top, p, weight, sharp: bool, loss_of) -> float:
    """Adds the gradients of the loss over all rows. Only the logits of CHUNK rows exist at a time."""
    leaf, total = hidden.detach().requires_grad_(), 0.0
    for rows, t, probability, w in zip(leaf.split(CHUNK), top.split(CHUNK), p.split(CHUNK), weight.split(CHUNK)):
        loss = loss_of(rows, head, t, probability, w, sharp)
        loss.backward()
        total += loss.item()
    hidden.backward(leaf.grad)
    return total


def training_step(draft, batch, groups, sharp, fast_layer, fast_loss) -> float:
    ids, top, p = batch
    hidden = hidden_states(draft, ids, groups, layer_pass=fast_layer)
    at = groups.positions[..., None].expand(-1, -1, TOP)
    top, p = torch.cat([top, top.gather(1, at)], dim=1), torch.cat([p, p.gather(1, at)], dim=1)
    weight = torch.cat([torch.full((n,), w) for w, n in zip(WEIGHTS, [LENGTH, *groups.counts])]).expand(ROWS, -1)
    weight = weight / weight.sum()
    n = hidden.shape[0] * hidden.shape[1]
    pad = -n % CHUNK   # whole chunks: the compiled loss has one shape
    flat = lambda x: F.pad(x.reshape(n, -1), (0, 0, 0, pad))
    return backward_in_chunks(flat(hidden), draft.model.embed_tokens.weight, flat(top), flat(p), flat(weight)[:, 0], sharp, fast_loss)


@torch.no_grad()
def check(draft: Llama, own: OwnText) -> str:
    """Of the greedy rows of the held-out batch: agreement with the target's text by position, given the ones before."""
    ids, top = (x[3::6] for x in own.check)
    anchors = torch.arange(40, LENGTH - DEPTH + 1, 5).expand(len(ids), -1)
    n = anchors.shape[1]
    groups = Groups(anchors, [n] * (DEPTH - 1))
    chosen = draft.logits(hidden_states(draft, ids[:, :LENGTH], groups)).argmax(-1)
    by_position = [chosen[:, :LENGTH].gather(1, anchors), *chosen[:, LENGTH:].split(n, dim=1)]
    kept, shares, expected = torch.ones_like(anchors, dtype=torch.bool), [], 1.0
    for i, tokens in enumerate(by_position):
        before = kept.sum()
        kept = kept & (tokens == top[..., 0].gather(1, anchors + i))
        shares.append(f"{100 * kept.sum() / before:.1f}")
        expected += kept.float().mean().item()
    text = (chosen[:, 40:LENGTH] == top[:, 40:LENGTH, 0]).float().mean()
    return f"given the ones before {' '.join(shares)} %, tokens a round {expected:.3f}, next token {100 * text:.2f} %"


def train(args) -> None:
    teacher = distill.rounded(load_directory(args.target))
    draft = load_directory(args.draft).train()
    own = OwnText(args.work / "own-pard", teacher.model.embed_tokens.weight.detach().to(PRODUCTS), args.seed)
    optimizers = make_optimizers(draft, MUON_RATE, ADAM_RATE)
    checkpoint, step, spent = args.work / "pard.ckpt", 0, 0.0
    resumed = args.work / "pard-training.ckpt"
    if resumed.exists():
        state = torch.load(resumed, weights_only=True)
        draft.load_state_dict(state["model"])
        for optimizer, s in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(s)
        step, spent = state["step"], state["spent"]
    generator = torch.Generator().manual_seed(args.seed + step)
    fast_layer, fast_loss = torch.compile(layer_pass, dynamic=False), torch.compile(chunk_loss, dynamic=False)

    def keep():
        save_model(draft, checkpoint, pard_token=MASK_ID)
        save(resumed, {"model": draft.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step,
                       "spent": spent + time.time() - begun})

    print(f"before: {check(draft, own)}", flush=True)
    begun, last, smooth = time.time(), time.time(), None
    bar = tqdm(total=args.steps or 1000, unit="step" if args.steps else "permille", mininterval=30)
    while True:
        progress = step / args.steps if args.steps else (spent + time.time() - begun) / (60 * args.minutes)
        if progress >= 1:
            break
        set_rate(optimizers, min(1.0, (step + 1) / 40, (1 - progress) / 0.8))
        loss = training_step(draft, own.next(ROWS), draw_groups(generator), progress > SHARP_FROM, fast_layer, fast_loss)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        smooth = loss if smooth is None else 0.98 * smooth + 0.02 * loss
        step += 1
        bar.n = step if args.steps else int(1000 * progress)
        bar.set_postfix(step=step, loss=f"{smooth:.3f}", refresh=False)
        if time.time() - last > CHECKPOINT_SECONDS:
            last = time.time()
            keep()
            print(f"\nstep {step} of {100 * progress:.0f} % loss {smooth:.4f} {check(draft, own)}", flush=True)
    keep()
    print(f"\ndone: step {step}, {step * ROWS * LENGTH} tokens of text, {check(draft, own)}", flush=True)
    export(draft, args.work, args.out, n_shards=1, pard_token=MASK_ID)


def main() -> None:
    models = Path(__file__).resolve().parent.parent
    parser = script.training_parser(__doc__, minutes=40, seed=5)
    parser.add_argument("stage", choices=["write", "train"])
    parser.add_argument("--target", type=Path, default=models / "target")
    parser.add_argument("--draft", type=Path, default=models / "draft", help="where training starts")
    parser.add_argument("--out", type=Path, default=models / "draft-pard", help="the model directory that train writes")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    if args.stage == "write":
        distill.write(args, distill.rounded(load_directory(args.target)), args.work / "own-pard", [1.0, 0.7, 0.0, 0.0, 0.0, 0.0])
    else:
        train(args)


if __name__ == "__main__":
    script.run(main)
