#!/usr/bin/env python3
"""Makes tests/golden/quantised/CASE/: tiny models in the formats of other quantisers, with logits of their dequantised weights.

    expected.json   as tests/golden/families, and "says": what `info` calls the scheme

    python3 tests/golden/make_quantised_golden.py [CASE...]
    python3 tests/golden/make_quantised_golden.py --seeds       the inputs of tests/fuzz/corpus/checkpoint_fuzz and config_fuzz

Run by hand when a case is added or changed; needs torch, transformers, safetensors, and for the cases of a package that
package (tests/oracle/quantise_by_packages.py); the others are made by tests/oracle/quantise.py. The logits are those of
transformers in float32 on the weights that tests/oracle/dequantise.py computes. These must be the package's own, where it
gives them, and near the weights before they were quantised.
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
WIDE = LLAMA | {"hidden_size": 128, "head_dim": 32}
ALL_HEADS = LLAMA | {"num_key_value_heads": 4}
UNTIED = LLAMA | {"tie_word_embeddings": False}
PHI3 = LLAMA | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "pad_token_id": 0}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 96, "n_embd": 64, "n_layer": 1,
        "n_head": 4, "n_positions": 128, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
        "bos_token_id": 1, "eos_token_id": 2}


@dataclasses.dataclass(frozen=True)
class Case:
    says: str  # the words of `info`
    settings: dict | None = None  # quantization_config
    parts: Callable | None = None  # weight -> {part: tensor} of every linear layer, or that and the weight that it stands for
    whole: Callable | None = None  # model, directory -> {module: weight}: writes the directory instead
    model: dict = dataclasses.field(default_factory=lambda: LLAMA)
    also: tuple = ()  # more modules that are quantised
    extra: Callable | None = None  # (module, weight) -> tensors that are not read


def gptq_case(says, model=None, also=(), extra=None, **options):
    import quantise
    bits, group, symmetric = options["bits"], options["group"], options["symmetric"]
    settings = {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": symmetric, "damp_percent": 0.01,
                "desc_act": options.get("act_order", False), "true_sequential": True,
                "checkpoint_format": "gptq" if options.get("less_one", True) else "gptq_v2"}
    return Case(says, settings, lambda w: quantise.gptq(w, **options), None, model or LLAMA, also, extra)


def zero_bias(module, weight):
    import torch
    return {f"{module}.bias": torch.zeros(len(weight))}


def gptqmodel_case(says, model=None, **options):
    import quantise_by_packages as by
    return Case(says, whole=lambda m, d: by.gptqmodel(m, d, **options), model=model or LLAMA)


def auto_round_case(says, form, model=None, **options):
    import quantise_by_packages as by
    return Case(says, whole=lambda m, d: by.auto_round(m, d, form, **options), model=model or LLAMA)


def compressed_case(says, form, model=None, extra=None, **options):
    import quantise_by_packages as by
    made = by.CompressedTensors(form, **options)
    return Case(f"compressed-tensors {form}, {says}", made.settings, made.parts, model=model or LLAMA, extra=extra)


def bitsandbytes_case(says, parts, model=None, **options):
    from transformers import BitsAndBytesConfig
    return Case(f"bitsandbytes {says}", BitsAndBytesConfig(**options).to_dict(), parts, model=model or LLAMA)


def package_cases():
    import torch

    import quantise_by_packages as by
    tokens = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True}
    four = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
    double = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
    no_rounding = "activations are not rounded"
    return {
        "gptqmodel_g32": gptqmodel_case("GPTQ, 4 bits, groups of 32, symmetric", bits=4, group_size=32, sym=True,
                                        desc_act=False),
        "gptqmodel_act_order": gptqmodel_case("GPTQ, 4 bits, groups of 32, asymmetric, act-order", bits=4, group_size=32,
                                              sym=False, desc_act=True),
        "gptqmodel_v2": gptqmodel_case("GPTQ, 4 bits, groups of 64, asymmetric", bits=4, group_size=64, sym=False,
                                       desc_act=False, format="gptq_v2"),
        "gptqmodel_8bit": gptqmodel_case("GPTQ, 8 bits, one group a row, asymmetric", bits=8, group_size=-1, sym=False,
                                         desc_act=False, act_group_aware=False),
        "gptqmodel_g128": gptqmodel_case("GPTQ, 4 bits, groups of 128, symmetric, act-order", WIDE, bits=4,
                                         group_size=128, sym=True, desc_act=True),
        "gptqmodel_awq": gptqmodel_case("AWQ, 4 bits, groups of 32, asymmetric", ALL_HEADS, bits=4, group_size=32,
                                        method="awq", format="gemm", sym=False),
        "auto_round": auto_round_case("AutoRound as auto_round:auto_gptq, 4 bits, groups of 32, symmetric", "auto_round",
                                      bits=4, group_size=32, sym=True),
        "auto_round_2bit": auto_round_case("AutoRound as auto_round:auto_gptq, 2 bits, groups of 32, asymmetric",
                                           "auto_round:auto_gptq", bits=2, group_size=32, sym=False),
        "auto_round_gptqmodel": auto_round_case("AutoRound as auto_round:gptqmodel, 4 bits, groups of 64, asymmetric",
                                                "auto_round:gptqmodel", bits=4, group_size=64, sym=False),
        "auto_round_awq": auto_round_case("AutoRound as auto_round:auto_awq, 4 bits, groups of 32, asymmetric",
                                          "auto_round:auto_awq", bits=4, group_size=32, sym=False),
        "auto_round_to_awq": auto_round_case("AWQ, 4 bits, groups of 64, asymmetric", "auto_awq", bits=4, group_size=64,
                                             sym=False),
        "ct_w4a16": compressed_case("4 bits, groups of 32, symmetric", "pack-quantized", symmetric=True, **four),
        "ct_w4a16_asym": compressed_case("4 bits, groups of 32, asymmetric", "pack-quantized", PHI3, symmetric=False, **four),
        "ct_w8a16": compressed_case("8 bits, one group a row, asymmetric", "pack-quantized", num_bits=8, type="int",
                                    strategy="channel", symmetric=False),
        "ct_w8a8": compressed_case(f"8 bits, one group a row, symmetric; {no_rounding}", "int-quantized", inputs=tokens,
                                   num_bits=8, type="int", strategy="channel", symmetric=True),
        "ct_fp8_rows": compressed_case(f"FP8 E4M3, one group a row; {no_rounding}", "float-quantized", PHI3,
                                       inputs=tokens | {"type": "float"}, num_bits=8, type="float", strategy="channel"),
        "ct_fp8_tensor": compressed_case(f"FP8 E4M3, a scale a tensor; {no_rounding}", "float-quantized",
                                         inputs={"num_bits": 8, "type": "float", "strategy": "tensor"},
                                         extra=lambda m, _: {f"{m}.input_scale": torch.ones(1)}, num_bits=8,
                                         type="float", strategy="tensor"),
        "ct_fp8_blocks": compressed_case(f"FP8 E4M3, blocks of 32 x 64; {no_rounding}", "float-quantized",
                                         inputs=tokens | {"type": "float"}, num_bits=8, type="float", strategy="block",
                                         block_structure=[32, 64]),
        "bnb_nf4": bitsandbytes_case("NF4", lambda w: by.bitsandbytes_4bit(w, "nf4", False), load_in_4bit=True,
                                     bnb_4bit_quant_type="nf4"),
        "bnb_nf4_nested": bitsandbytes_case("NF4, scales in 8 bits", lambda w: by.bitsandbytes_4bit(w, "nf4", True), PHI3,
                                            **double),
        "bnb_fp4": bitsandbytes_case("FP4", lambda w: by.bitsandbytes_4bit(w, "fp4", False), load_in_4bit=True,
                                     bnb_4bit_quant_type="fp4"),
        "bnb_int8": bitsandbytes_case(f"INT8, one group a row; {no_rounding}", by.bitsandbytes_8bit, load_in_8bit=True),
    }


def own_cases():
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
                         lambda w: by.awq(w, 64), model=PHI3),
        "ct_w4a16_act_order": Case("compressed-tensors pack-quantized, 4 bits, groups of 32, asymmetric, act-order",
                                   {"quant_method": "compressed-tensors", "format": "pack-quantized",
                                    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                                        "num_bits": 4, "type": "int", "strategy": "group", "group_size": 32,
                                        "symmetric": False, "dynamic": False, "actorder": "group"}}},
                                    "quantization_status": "compressed", "ignore": ["lm_head"]},
                                   lambda w: by.pack_quantized(w, 4, 32, False, True)),
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
    """-> {name: tensor}, every linear layer in its parts, the rest in BF16, and {module: weight} of the package"""
    import torch
    modules, weights = linear_modules(model, case.also), {}
    tensors = {name: tensor.detach().to(torch.bfloat16) for name, tensor in model.named_parameters()}
    for module in modules:
        weight = model.get_submodule(module).weight.detach()
        weight = weight.t() if is_conv1d(model, module) else weight
        del tensors[f"{module}.weight"]
        parts = case.parts(weight)
        if isinstance(parts, tuple):
            parts, weights[module] = parts
        tensors |= {f"{module}.{part}": tensor for part, tensor in parts.items()}
        tensors |= case.extra(module, weight) if case.extra else {}
    return {name: tensor.contiguous() for name, tensor in tensors.items()}, weights


def quantise(model, case):
    """-> config, tensors, {module: weight}"""
    import copy
    import tempfile

    from safetensors.torch import load_file
    if case.whole is None:
        return case.model | {"quantization_config": case.settings}, *quantise_model(model, case)
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch) / "made"
        weights = case.whole(copy.deepcopy(model), directory)
        config = json.loads((directory / "config.json").read_text())
        config["quantization_config"].get("meta", {}).pop("offload_to_disk_path", None)
        return config, load_file(directory / "model.safetensors"), weights


def check_weights(name, model, plain, weights):
    """The package's weights must be ours, in its type; ours must be near the model's."""
    import torch
    for module, weight in weights.items():
        off = (plain[f"{module}.weight"].to(weight.dtype) - weight).abs().max() / weight.abs().max()
        assert off <= (1e-2 if weight.dtype == torch.bfloat16 else 1e-6), f"{name}: {module} is off by {off:.2g}"
    for module in linear_modules(model, ()) if name != "gptqmodel_awq" else ():  # it scales channels, and norms by the inverse
        weight, ours = model.get_submodule(module).weight.detach(), plain[f"{module}.weight"]
        ours = ours.t() if is_conv1d(model, module) else ours
        off = float((ours - weight).norm() / weight.norm())
        assert off < (0.6 if "2bit" in name else 0.2), f"{name}: {module} is off by {off:.2g}"


class Oracle:
    def __init__(self, model, plain=None):
        for name, parameter in model.named_parameters() if plain else ():
            value = plain[name]
            is_turned = is_conv1d(model, name.rpartition(".")[0]) and value.dim() == 2
            parameter.data.copy_(value.t() if is_turned else value)
        self.model = model

    def logits(self, tokens):
        import torch
        with torch.no_grad():
            return self.model(torch.tensor(list(tokens))[None], use_cache=False).logits[0].numpy()


def make(name, case):
    import numpy as np
    from dequantise import dequantise
    from oracles import greedy, moved
    for seed in range(1, 40):
        model = random_model(case.model, seed)
        config, tensors, weights = quantise(model, case)
        plain = dequantise(config, tensors)
        check_weights(name, model, plain, weights)
        before = Oracle(model).logits(range(3, 60))
        oracle = Oracle(model, plain)
        off = moved(before, oracle.logits(range(3, 60)))
        assert off < 0.7 or "2bit" in name, f"{name} computes something else: off by {off:.2g}"
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


def write_seeds():
    """A config.json, a NUL and the weights, as tests/fuzz/checkpoint_fuzz.c reads them; config.json alone for config_fuzz."""
    from safetensors.torch import save
    corpus = HERE.parent / "fuzz" / "corpus"
    small = {"hidden_size": 16, "intermediate_size": 16, "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
             "vocab_size": 16, "max_position_embeddings": 16}
    cases = own_cases() | package_cases()
    for name in ("gptq_rows", "gptq_phi3", "gptq_head", "awq_phi3", "fp8_blocks", "fp8_tensor", "ct_w4a16_act_order",
                 "ct_w8a16", "ct_w8a8", "bnb_fp4", "bnb_nf4_nested", "bnb_int8"):
        case = dataclasses.replace(cases[name], model=cases[name].model | small)
        model = random_model(case.model, 1)
        config, tensors, _ = quantise(model, case)
        text = json.dumps(config).encode()
        (corpus / "checkpoint_fuzz" / name).write_bytes(text + b"\0" + save(tensors))
        (corpus / "config_fuzz" / name).write_bytes(text + b"\n")


def main():
    become_capable()
    import torch
    torch.set_num_threads(1)
    if sys.argv[1:] == ["--seeds"]:
        write_seeds()
        return
    cases = own_cases()
    if not set(sys.argv[1:]) or not set(sys.argv[1:]) <= set(cases):
        cases |= package_cases()
    for name in sys.argv[1:] or cases:
        make(name, cases[name])


main()
