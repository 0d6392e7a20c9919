"""Write a checkpoint as a Hugging Face model directory: BF16 safetensors, config, tokenizer.

    export.py --model target --checkpoint X.ckpt --out models/target

The target is written in two shards with an index, the draft in one file. The directory is built next to its final path and
renamed, so a reader never sees a part of it. Invariants: tensor names, shapes and config fields are those of transformers'
LlamaForCausalLM with tied embeddings (no lm_head.weight); both directories have the same tokenizer.json.
"""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

import script
from llama import Llama, load_model, meta

SHARDS = {"target": 2, "draft": 1}


def config_json(model: Llama, bos: int, eos: int) -> dict:
    c = model.config
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": bos, "eos_token_id": eos, "head_dim": c.head_dim, "hidden_act": "silu",
        "hidden_size": c.hidden_size, "initializer_range": 0.02, "intermediate_size": c.intermediate_size,
        "max_position_embeddings": c.max_position_embeddings, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": c.num_attention_heads, "num_hidden_layers": c.num_hidden_layers,
        "num_key_value_heads": c.num_key_value_heads, "pretraining_tp": 1, "rms_norm_eps": c.rms_norm_eps,
        "rope_scaling": None, "rope_theta": c.rope_theta, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.46.0", "use_cache": True, "vocab_size": c.vocab_size,
    }


def tokenizer_config(bos: int, eos: int, max_length: int) -> dict:
    def special(text):
        return {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {
        "added_tokens_decoder": {str(bos): special("<|begin_of_text|>"), str(eos): special("<|end_of_text|>")},
        "bos_token": "<|begin_of_text|>", "clean_up_tokenization_spaces": False, "eos_token": "<|end_of_text|>",
        "model_input_names": ["input_ids", "attention_mask"], "model_max_length": max_length,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }


def write_json(path: Path, value) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_weights(model: Llama, directory: Path, n_shards: int) -> None:
    tensors = {name: t.detach().to(torch.bfloat16).contiguous() for name, t in model.state_dict().items()}
    if n_shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        return
    total, filled, shards = sum(t.nbytes for t in tensors.values()), 0, [{} for _ in range(n_shards)]
    for name, tensor in tensors.items():
        shards[min(n_shards - 1, filled * n_shards // total)][name] = tensor
        filled += tensor.nbytes
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
        save_file(shard, directory / file, metadata={"format": "pt"})
        weight_map.update({name: file for name in shard})
    write_json(directory / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))})


def export(model: Llama, work: Path, out: Path, n_shards: int, **more) -> None:
    """more: fields added to config.json."""
    ids = meta(work)
    fresh = out.with_name(f".{out.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    write_json(fresh / "config.json", {**config_json(model, ids["bos"], ids["eos"]), **more})
    write_json(fresh / "generation_config.json", {"_from_model_config": True, "bos_token_id": ids["bos"], "eos_token_id": ids["eos"],
                                                   "transformers_version": "4.46.0"})
    write_json(fresh / "tokenizer_config.json", tokenizer_config(ids["bos"], ids["eos"], model.config.max_position_embeddings))
    shutil.copyfile(work / "tokenizer.json", fresh / "tokenizer.json")
    write_weights(model, fresh, n_shards)
    for file in fresh.iterdir():
        file.chmod(0o644)
    old = out.with_name(f".{out.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if out.exists():
        out.rename(old)
    fresh.rename(out)
    shutil.rmtree(old, ignore_errors=True)
    print(f"{out}: {sum(p.numel() for p in model.parameters())} parameters")


def main() -> None:
    parser = script.parser(__doc__)
    parser.add_argument("--model", choices=["target", "draft"], required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    export(load_model(args.checkpoint), args.work, args.out, SHARDS[args.model])


if __name__ == "__main__":
    script.run(main)
