"""Makes the models of families.py, and computes their logits by transformers or by reference.py."""
import contextlib
import json
import math
import os
import pathlib
import re
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

import reference  # noqa: E402
from families import CASES, oracle_config  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_grad_enabled(False)

# Standard deviations times sqrt(columns). Attention must not be flat, and no part of a layer may be small.
GAINS = ((r"q_proj|k_proj|query|qkv|c_attn|Wqkv|W_pack|wqkv", 2.0), (r"lm_head|embed_out|output", 3.0),
         (r"router|gate\.weight$|shared_expert_gate", 3.0), (r"", 1.5))
IS_NORM = re.compile(r"norm|ln_|\.ln|layer_norm")


def random_tensor(name, shape, config, is_tied, rng):
    """Values of one tensor; its name in the file tells its part."""
    if len(shape) < 2 and not (name.endswith("sinks") or "bias" in name):
        about_zero = config["model_type"].startswith("gemma")
        return (0.0 if about_zero else 1.0) + 0.3 * rng.standard_normal(shape)
    if IS_NORM.search(name) and not name.endswith("bias") and len(shape) == 2:  # one norm per head
        return 1.0 + 0.3 * rng.standard_normal(shape)
    if name.endswith("sinks"):
        return 1.5 * rng.standard_normal(shape)
    if "bias" in name:
        return 0.4 * rng.standard_normal(shape)
    if re.search(r"embed|wte|wpe|word_embeddings", name) and "embed_out" not in name:
        # a large embedding that is the LM head too would repeat the last token for ever
        scale = 0.5 if "wpe" in name or "position" in name else 0.3 if is_tied else 1.0
        return scale * (0.5 if config["model_type"].startswith("gemma") else 1.0) * rng.standard_normal(shape)
    gain = next(g for pattern, g in GAINS if re.search(pattern, name))
    if config["model_type"] == "gpt_oss" and "gate_up_proj" in name:
        gain = 6.0  # so that the clamp at swiglu_limit is reached
    transposed = config["model_type"] == "gpt2" or "experts" in name and config["model_type"] == "gpt_oss"
    return gain / math.sqrt(shape[-2 if transposed else -1]) * rng.standard_normal(shape)


def random_tensors(shapes, config, seed):
    rng = np.random.default_rng(seed)
    is_tied = not any(re.search(r"lm_head|embed_out|output_layer|^output", name) for name in shapes)
    return {name: torch.from_numpy(np.asarray(random_tensor(name, tuple(shapes[name]), config, is_tied, rng), np.float32))
            .to(torch.bfloat16) for name in sorted(shapes)}


class ByTransformers:
    def __init__(self, directory, config, tensors=None, strict=True):
        """The model of `directory`, or one of `config` with `tensors` in the names that transformers saves."""
        self.config = config
        with tempfile.TemporaryDirectory() as scratch:
            (pathlib.Path(scratch) / "config.json").write_text(json.dumps(config))
            if tensors is not None:
                save_file(tensors, f"{scratch}/model.safetensors", {"format": "pt"})
            else:
                os.symlink(pathlib.Path(directory).absolute() / "model.safetensors", f"{scratch}/model.safetensors")
            self.model, info = transformers.AutoModelForCausalLM.from_pretrained(
                scratch, dtype=torch.float32, attn_implementation=self.attention(config), output_loading_info=True)
        assert not strict or not info["missing_keys"], f"tensors that are not in the files: {info['missing_keys']}"
        self.model.eval()

    @staticmethod
    def attention(config):
        """Eager, but for Falcon with ALiBi: there transformers 5.23 adds the bias twice, in the mask and to the scores."""
        return "sdpa" if config["model_type"] == "falcon" and config.get("alibi") else "eager"

    def logits(self, tokens):
        return self.model(torch.tensor(tokens)[None], use_cache=False).logits[0].float().numpy()


class ByReference:
    def __init__(self, directory, config, tensors=None):
        tensors = load_file(f"{directory}/model.safetensors") if tensors is None else tensors
        self.config = config
        self.tensors = {name: tensor.float().numpy() for name, tensor in tensors.items()}

    def logits(self, tokens):
        return reference.logits(self.config, self.tensors, tokens)


def open_oracle(name, directory):
    """The oracle of a model that write_case wrote."""
    config = json.loads((pathlib.Path(directory) / "config.json").read_text())
    case = CASES[name]
    return ByReference(directory, config) if case.reference else ByTransformers(directory, oracle_config(case, config))


def transformers_shapes(config):
    """The tensors that transformers saves for this configuration: {name: shape}."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(None):
        (pathlib.Path(scratch) / "config.json").write_text(json.dumps(config))
        model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(scratch),
                                                              dtype=torch.float32)
        model.save_pretrained(f"{scratch}/saved")
        return {name: tensor.shape for name, tensor in load_file(f"{scratch}/saved/model.safetensors").items()}


def to_torch(array):
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def write_case(name, directory, seed, sizes):
    """Writes config.json and model.safetensors; returns the tensors in the oracle's names."""
    case, directory = CASES[name], pathlib.Path(directory)
    config = case.config(sizes)
    theirs = oracle_config(case, config)
    shapes = case.tensors(config) if case.reference else transformers_shapes(theirs)
    tensors = random_tensors(shapes, theirs, seed)
    published = {}
    for tensor_name, tensor in tensors.items():
        for pattern, replacement in case.rename:
            tensor_name = re.sub(pattern, replacement, tensor_name)
        published[tensor_name] = tensor
    if case.extra:
        published |= {n: to_torch(t) for n, t in case.extra(config, tensors).items()}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(published, directory / "model.safetensors", {"format": "pt"})
    return tensors


def greedy(oracle, tokens, n):
    """The next n greedy tokens, and the smallest lead of a best logit over the second, over the largest logit."""
    tokens, n_prompt, lead = list(tokens), len(tokens), math.inf
    for _ in range(n):
        last = oracle.logits(tokens)[-1]
        second, best = np.sort(last)[-2:]
        lead = min(lead, float((best - second) / np.abs(last).max()))
        tokens.append(int(last.argmax()))
    return tokens[n_prompt:], lead


def moved(expected, found):
    """How far logits are from the expected ones, over the largest."""
    return float(np.abs(found.astype(np.float64) - expected).max() / np.abs(expected).max())


def parameters(oracle):
    """{name: array that the oracle computes with}; writing to one changes the model."""
    if isinstance(oracle, ByReference):
        return oracle.tensors
    return {name: tensor.data.numpy() for name, tensor in oracle.model.named_parameters()}


def is_without_effect(oracle, name):
    """Parts for images; a bias of keys that no rotation follows, which adds the same to all scores of a query."""
    if "vision" in name or "multi_modal" in name:
        return True
    return oracle.config["model_type"] == "opt" and name.endswith("k_proj.bias")


def weakest_change(name, directory, tensors, tokens, expected):
    """The change that moves the logits least: (how far, what). Each of the case's flips, and each parameter rolled by one."""
    case, changes = CASES[name], []
    config = json.loads((pathlib.Path(directory) / "config.json").read_text())
    for flip in case.flips:
        flipped = ByTransformers(None, oracle_config(case, config | flip), tensors, strict=False)
        changes.append((moved(expected, flipped.logits(tokens)), json.dumps(flip)))
    oracle = open_oracle(name, directory)
    for parameter, values in parameters(oracle).items():
        is_buffer = case.reference and parameter not in tensors
        if values.size < 2 or is_buffer or is_without_effect(oracle, parameter):
            continue
        kept = values.copy()
        values[...] = np.roll(kept.ravel(), 1).reshape(kept.shape)
        changes.append((moved(expected, oracle.logits(tokens)), parameter))
        values[...] = kept
    return min(changes)


def made_with(name):
    if CASES[name].reference:
        return f"tests/oracle/reference.py, numpy {np.__version__}"
    return f"transformers {transformers.__version__}, torch {torch.__version__}"
