#!/usr/bin/env python3
"""Makes tests/golden/quantised/CASE/: tiny models in the formats of other quantisers, with logits of their dequantised weights.

    expected.json   as tests/golden/families, and "says": what `info` calls the scheme

    python3 tests/golden/make_quantised_golden.py [CASE...]

Run by hand when a case is added or changed; needs torch, transformers, safetensors. The weights are rounded to nearest by
tests/oracle/quantise.py. The logits are those of transformers in float32 on the weights that tests/oracle/dequantise.py
computes.
"""
import dataclasses
import json
import pathlib
import shutil
import sys
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
from capable import become_capable  # noqa: E402

OUT = HERE / "quantised"
N_TOKENS, N_PROMPT, N_GREEDY = 40, 24, 12
ROWS = (0, 6, 39)
LEAST_LEAD = 1e-3

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 96, "hidden_size": 64,
         "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 16, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2, "rope_theta": 10000.0}
UNTIED = LLAMA | {"tie_word_embeddings": False}
PHI3 = LLAMA | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "pad_token_id": 0}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 96, "n_embd": 64, "n_layer": 1,
        "n_head": 4, "n_positions": 128, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "bos_token_id": 1, "eos_token_id": 2}


@dataclasses.dataclass(frozen=True)
class Case:
    says: str  # the words of `info`
    settings: dict  # quantization_config
    parts: Callable | None = None  # weight -> {part: tensor}, of every linear layer
    model: dict = dataclasses.field(default_factory=lambda: LLAMA)
    also: tuple = ()  # more modules that are quantised
    extra: Callable | None = None  # (module, weight) -> tensors that are not read


def gptq_case(says, model=None, also=(), extra=None, **options):
    import quantise
    bits, group, symmetric = options["bits"], options["group"], options["symmetric"]
    settings = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "damp_percent": 0.01,
                "desc_act": options.get("act_order", False), "true_sequential": True,
                "checkpoint_format": "gptq" if options.get("less_one", True) else "gptq_v2"}
    return Case(says, settings, lambda w: quantise.gptq(w, **options), model or LLAMA, also, extra)


def zero_bias(module, weight):
    import torch
    return {f"{module}.bias": torch.zeros(len(weight))}


def cases():
    import quantise as by
    return {
        "gptq_rows": gptq_case("GPTQ, 4 bits, one group a row, asymmetric", bits=4, group=-1, symmetric=False),
        "gptq_phi3": gptq_case("GPTQ, 4 bits, groups of 32, asymmetric, act-order", bits=4, group=32, symmetric=False,
                               act_order=True, model=PHI3),
        "gptq_gpt2": gptq_case("GPTQ, 4 bits, groups of 64, symmetric", bits=4, group=64, symmetric=True, model=GPT2),
        "gptq_head": gptq_case("GPTQ, 4 bits, groups of 64, symmetric", bits=4, group=64, symmetric=True,
                               model=UNTIED, also=("lm_head",), extra=zero_bias),
        "awq_phi3": Case("AWQ, 4 bits, groups of 64, asymmetric",
                         {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"},
                         lambda w: by.awq(w, 64), PHI3),
        "fp8_blocks": Case("FP8 E4M3, blocks of 48 x 40; activations are not rounded",
                           {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [48, 40],
                            "fmt": "e4m3"}, lambda w: by.float8(w, (48, 40), "weight_scale_inv")),
        "fp8_tensor": Case("FP8 E4M3, a scale a tensor or a row; activations are not rounded",
                           {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None},
                           lambda w: by.float8(w, None)),
    }


def is_conv1d(model, module):
    return type(model.get_submodule(module)).__name__ == "Conv1D"


def linear_modules(model, also):
    """The linear layers below the layers of the decoder, Conv1D included."""
    names = [name for name, module in model.named_modules()
             if type(module).__name__ in ("Linear", "Conv1D") and ("layers." in name or ".h." in name)]
    return names + list(also)


def random_model(config, seed):
    """A transformers model whose logits depend on every part."""
    import tempfile

    import torch
    import transformers
    from oracles import random_tensors
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "config.json").write_text(json.dumps(config))
        read = transformers.AutoConfig.from_pretrained(scratch)
        model = transformers.AutoModelForCausalLM.from_config(read, dtype=torch.float32, attn_implementation="eager")
    state = dict(model.named_parameters())
    for name, tensor in random_tensors({n: t.shape for n, t in state.items()}, config, seed).items():
        state[name].data.copy_(tensor.float())
    model.tie_weights()
    return model.eval()


def quantise_model(model, case):
    """-> {name: tensor}: every linear layer in its parts, the rest in BF16."""
    import torch
    modules = linear_modules(model, case.also)
    tensors = {name: tensor.detach().to(torch.bfloat16) for name, tensor in model.named_parameters()}
    for module in modules:
        weight = model.get_submodule(module).weight.detach()
        weight = weight.t() if is_conv1d(model, module) else weight
        del tensors[f"{module}.weight"]
        tensors |= {f"{module}.{part}": tensor for part, tensor in case.parts(weight).items()}
        tensors |= case.extra(module, weight) if case.extra else {}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


class Oracle:
    def __init__(self, model, config, tensors):
        from dequantise import dequantise
        plain = dequantise(config, tensors)
        for name, parameter in model.named_parameters():
            value = plain[name]
            parameter.data.copy_(value.t() if is_conv1d(model, name.rpartition(".")[0]) and value.dim() == 2 else value)
        self.model = model

    def logits(self, tokens):
        import torch
        with torch.no_grad():
            return self.model(torch.tensor(tokens)[None], use_cache=False).logits[0].numpy()


def make(name, case):
    import numpy as np
    from oracles import greedy
    for seed in range(1, 40):
        model = random_model(case.model, seed)
        tensors = quantise_model(model, case)
        config = case.model | {"quantization_config": case.settings}
        oracle = Oracle(model, config, tensors)
        tokens = np.random.default_rng(seed).integers(3, case.model["vocab_size"], N_TOKENS).tolist()
        text, lead = greedy(oracle, tokens[:N_PROMPT], N_GREEDY)
        if lead >= LEAST_LEAD and len(set(text)) > 1:
            break
    else:
        raise AssertionError(f"{name}: no seed serves")
    write(name, case, config, tensors, tokens, text, oracle.logits(tokens))
    print(f"{name:24} seed {seed}, lead {lead:.2g}, {sum(f.stat().st_size for f in (OUT / name).iterdir())} bytes", flush=True)


def write(name, case, config, tensors, tokens, text, logits):
    import torch
    import transformers
    from safetensors.torch import save_file
    directory = OUT / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    rows = ",\n".join("[" + ",".join(f"{x:.6g}" for x in logits[i].tolist()) + "]" for i in ROWS)
    made_with = f"transformers {transformers.__version__}, torch {torch.__version__}"
    (directory / "expected.json").write_text(
        f'{{"made_with":{json.dumps(made_with)},\n"says":{json.dumps(case.says)},\n"tokens":{json.dumps(tokens)},\n'
        f'"greedy":{json.dumps(text)},\n"rows":{json.dumps(ROWS)},"logits":[\n{rows}]}}\n')


def main():
    become_capable()
    import torch
    torch.set_num_threads(1)
    chosen = cases()
    for name in sys.argv[1:] or chosen:
        make(name, chosen[name])


main()
