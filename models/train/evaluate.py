"""Measure the pair: bits per byte on the held-out documents, loops in greedy text, acceptance by draft position.

    evaluate.py --target models/target --draft models/draft        (directories as exported)

  - bits per byte: every held-out document cut into windows of 1024 positions that start with BOS, no overlap;
  - loops: share of prompts with a greedy continuation of 128 tokens that contains an 8-gram twice;
  - acceptance: speculative decoding (Leviathan et al., arXiv:2211.17192), k draft tokens a round, each round starts where the
    previous one stopped. Position j counts only if positions 1..j-1 were accepted. Greedy accepts if the argmaxes are equal;
    temperature 1 accepts with min(1, p/q) and draws the correction from the residual.
"""

import json
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tqdm import tqdm

import script
from llama import Config, Llama, continue_text
from unloop import loops

N_GREEDY, N_SAMPLED = 128, 64


def load_directory(path: Path) -> Llama:
    fields = json.loads((path / "config.json").read_text())
    model = Llama(Config(**{k: fields[k] for k in Config.__dataclass_fields__}))
    state = {}
    for file in sorted(path.glob("*.safetensors")):
        state.update(load_file(file))
    model.load_state_dict({k: t.float() for k, t in state.items()})
    return model.eval()


@torch.no_grad()
def bits_per_byte(model: Llama, documents, tokenizer, bos: int, eos: int) -> float:
    span, bits, n_bytes = model.config.max_position_embeddings, 0.0, 0
    for text in tqdm(documents, desc="held-out"):
        ids = tokenizer.encode(text, add_special_tokens=False).ids + [eos]
        n_bytes += len(text.encode())
        for start in range(0, len(ids), span):
            piece = torch.tensor([[bos] + ids[start:start + span]])
            logits = model(piece[:, :-1]).float()
            bits += F.cross_entropy(logits[0], piece[0, 1:], reduction="sum").item() / 0.6931471805599453
    return bits / n_bytes


def padded(prompts, n_new: int):
    lengths = torch.tensor([len(p) for p in prompts])
    ids = torch.zeros(len(prompts), int(lengths.max()) + n_new, dtype=torch.long)
    for row, prompt in zip(ids, prompts):
        row[:len(prompt)] = torch.tensor(prompt)
    return ids, lengths


def rows_at(model, ids, at):
    """Logits (rows, positions, vocab) that the tokens at positions `at` (rows, positions) give for the next ones."""
    hidden = model.hidden(ids[:, :int(at.max()) + 1])
    return model.logits(hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1]))).float()


@torch.no_grad()
def greedy_text(model, prompts, n_new: int):
    """Greedy continuations, prompts of one length in one batch."""
    out = [None] * len(prompts)
    for length in tqdm(sorted({len(p) for p in prompts}), desc="greedy texts", unit="length"):
        where = [i for i, p in enumerate(prompts) if len(p) == length]
        ids, _ = continue_text(model, torch.tensor([prompts[i] for i in where]), n_new, torch.zeros(len(where)))
        for i, row in zip(where, ids[:, length:].tolist()):
            out[i] = row
    return out


@torch.no_grad()
def acceptance(target, draft, prompts, k: int, n_new: int, temperature: float, seed: int, greedy_texts=None) -> dict:
    """Speculative decoding of n_new tokens a prompt. At temperature 0 the target's text is known (greedy_texts), so its
    argmax at a position is the next token of that text."""
    ids, lengths = padded(prompts, n_new + k + 1)
    base, end = lengths.clone(), lengths + n_new
    generator = torch.Generator().manual_seed(seed)
    tried, accepted, rounds = [0] * k, [0] * k, 0
    bar = tqdm(total=int(n_new * len(prompts)), desc=f"acceptance T={temperature:g}")
    while (base < end).any():
        live = torch.nonzero(base < end)[:, 0]
        at, mine, q = base[live], ids[live], []
        row = torch.arange(len(live))
        for j in range(k):
            logits = rows_at(draft, mine, (at + j - 1)[:, None])[:, 0]
            q.append(logits.softmax(-1))
            mine[row, at + j] = q[j].multinomial(1, generator=generator)[:, 0] if temperature else logits.argmax(-1)
        if temperature:
            p = rows_at(target, mine, at[:, None] - 1 + torch.arange(k + 1)[None]).softmax(-1)
        for i in range(len(live)):
            first, here, n = int(at[i] - lengths[live[i]]), int(at[i]), 0
            room = min(k, n_new - first)  # positions past the end are not counted
            rounds += 1
            while n < room:
                token = int(mine[i, here + n])
                tried[n] += 1
                if temperature:
                    ok = torch.rand((), generator=generator).item() < (p[i, n, token] / q[n][i, token]).item()
                else:
                    ok = token == greedy_texts[live[i]][first + n]
                if not ok:
                    break
                accepted[n] += 1
                n += 1
            if n < n_new - first:
                if not temperature:
                    mine[i, here + n] = greedy_texts[live[i]][first + n]
                else:
                    weights = p[i, n] if n == k else (p[i, n] - q[n][i]).clamp_min(0)
                    mine[i, here + n] = int(weights.multinomial(1, generator=generator))
            base[live[i]] += n + 1
            bar.update(n + 1)
        ids[live] = mine
    conditional = [a / max(1, t) for a, t in zip(accepted, tried)]
    return {"given_the_ones_before": [round(x, 4) for x in conditional], "of_all_rounds": [round(a / rounds, 4) for a in accepted],
            "tokens_a_round": round(1 + sum(accepted) / rounds, 3), "rounds": rounds}


def main() -> None:
    models = Path(__file__).resolve().parent.parent
    parser = script.parser(__doc__)
    parser.add_argument("--target", type=Path, default=models / "target")
    parser.add_argument("--draft", type=Path, default=models / "draft")
    parser.add_argument("--prompts", type=Path, default=models / "prompts.txt")
    parser.add_argument("--k", type=int, default=6)
    parser.add_argument("--limit", type=int, help="only the first so many prompts")
    parser.add_argument("--skip-heldout", action="store_true")
    parser.add_argument("--samples", type=int, default=3, help="greedy texts to print")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    target, draft = load_directory(args.target), load_directory(args.draft)
    tokenizer = Tokenizer.from_file(str(args.target / "tokenizer.json"))
    bos, eos = tokenizer.token_to_id("<|begin_of_text|>"), tokenizer.token_to_id("<|end_of_text|>")
    prompts = [tokenizer.encode(line).ids for line in args.prompts.read_text().splitlines()][:args.limit]
    assert all(p[0] == bos for p in prompts)
    report = {"prompts": len(prompts), "parameters": {"target": sum(p.numel() for p in target.parameters()),
                                                      "draft": sum(p.numel() for p in draft.parameters())}}
    texts = greedy_text(target, prompts, N_GREEDY)
    report["loop_share"] = loops(texts)
    report["ended_share"] = sum(eos in t for t in texts) / len(texts)
    for i in range(args.samples):
        print(f"--- {tokenizer.decode(prompts[i * 37 % len(prompts)])}\n{tokenizer.decode(texts[i * 37 % len(prompts)])}\n")
    report["greedy"] = acceptance(target, draft, prompts, args.k, N_GREEDY, 0.0, 1, texts)
    report["temperature_1"] = acceptance(target, draft, prompts, args.k, N_SAMPLED, 1.0, 1)
    if not args.skip_heldout:
        from prepare import held_out
        documents = [d[1] for d in map(json.loads, (args.work / "corpus.jsonl").open()) if held_out(d[0])]
        report["bits_per_byte"] = {name: round(bits_per_byte(m, documents, tokenizer, bos, eos), 4) for name, m in (("target", target), ("draft", draft))}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    script.run(main)
