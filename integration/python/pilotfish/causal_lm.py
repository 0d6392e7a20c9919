"""A language model on the CPU in this process, with the `from_pretrained` and the `generate` of transformers.

    from pilotfish import AutoModelForCausalLM
    from transformers import AutoTokenizer, TextStreamer

    model = AutoModelForCausalLM.from_pretrained(path, load_in_4bit=True)
    tokenizer = AutoTokenizer.from_pretrained(path)
    inputs = tokenizer(prompt, return_tensors="pt").input_ids
    streamer = TextStreamer(tokenizer)
    outputs = model.generate(inputs, streamer=streamer, max_new_tokens=300)

torch, numpy and transformers are used where the caller has loaded them, and not needed.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

from . import generation_options, model_files, token_rows
from .generation_options import GenerationOptions
from .library import Library, load
from .local_engine import NGRAM, Figures, LocalEngine, Request, SamplingValues, default_threading
from .text_codec import StopStrings, Tokenizer, engine_tokenizer

Name = Union[str, os.PathLike[str]]

_DTYPES = {"float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16"}
# Arguments of from_pretrained that change nothing here, and the values that they may have.
_NO_EFFECT: dict[str, Optional[tuple[object, ...]]] = {
    "trust_remote_code": None, "low_cpu_mem_usage": None, "use_safetensors": None, "use_cache": None, "optimize_model": None,
    "attn_implementation": None, "device_map": (None, "cpu", "auto"), "device": (None, "cpu"),
}


@dataclass
class GenerateOutput:
    """With return_dict_in_generate: the texts, as `generate` returns them otherwise, and what they took."""

    sequences: Any
    figures: Figures

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


def _weight_format(dtype: Any, load_in_4bit: bool, load_in_8bit: bool) -> str:
    """The library's word for the format of the weights."""
    word = str(dtype if dtype is not None else "auto")
    word = _DTYPES.get(word.rpartition("torch.")[2], word)
    if not load_in_4bit and not load_in_8bit:
        return word
    if word != "auto" or (load_in_4bit and load_in_8bit):
        raise ValueError("load_in_4bit, load_in_8bit and dtype each choose the format of the weights: give one of them")
    return "int4" if load_in_4bit else "int8"


def _check_no_effect(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those that change nothing."""
    for name, allowed in _NO_EFFECT.items():
        if name in options and allowed is not None and str(options[name]) not in map(str, allowed):
            raise ValueError(f"{name}={options[name]!r} is not supported, expected one of {', '.join(map(repr, allowed))}")
    return {name: value for name, value in options.items() if name not in _NO_EFFECT}


class AutoModelForCausalLM:
    """Loads models; it has no instances, as that of transformers."""

    def __init__(self) -> None:
        raise TypeError("AutoModelForCausalLM has no instances: call AutoModelForCausalLM.from_pretrained(path)")

    @staticmethod
    def from_pretrained(
            pretrained_model_name_or_path: Name, *, load_in_4bit: bool = False, load_in_8bit: bool = False, dtype: Any = None,
            torch_dtype: Any = None, draft: Optional[Name] = None, draft_worker: Optional[str] = None, draft_len: int = 0,
            draft_dtype: Any = None, threads: int = 0, threading: Optional[str] = None, max_context: int = 0, max_batch: int = 4,
            library: Optional[Name] = None, gguf_file: Optional[str] = None, revision: Optional[str] = None, cache_dir: Any = None,
            token: Any = None, local_files_only: bool = False, **options: Any) -> CausalLM:
        """Loads a directory, a GGUF file or a model of the Hub (with huggingface_hub, which downloads it).

        load_in_4bit    INT4 in groups of 32; load_in_8bit: INT8, a scale a row
        dtype           torch.float32, "bfloat16", ... or a word of the library ("int4-g128"); None: what the files have
        draft           a draft model, or "ngram" for the lookup drafter; its weights are of draft_dtype
        draft_worker    the address of a worker, in place of `draft`; one that is absent costs speed alone
        draft_len       tokens of a proposal; 0: by what is measured
        threads         0: one a core
        threading       "own" or "openmp"; None: "openmp" where torch is loaded
        max_context     tokens of prompt and text; 0: the model's, at most 4096
        max_batch       texts of a batch that are generated at once, 1 to 255: each has a KV cache of max_context tokens
        options         other fields of pf_engine_options: activations, kv_dtype, cores, isa, ...

        ValueError, TypeError: an argument. OSError: no model, or no library. PilotfishError: what the library says of the files.
        """
        if draft is not None and draft_worker is not None:
            raise ValueError("give one of draft and draft_worker")
        if not 1 <= max_batch <= 255:
            raise ValueError(f"max_batch is {max_batch}, expected 1 to 255")
        if dtype is not None and torch_dtype is not None:
            raise ValueError("dtype and torch_dtype are the same: give one of them")
        loaded = load(library)
        places = {"revision": revision, "cache_dir": cache_dir, "token": token, "local_files_only": local_files_only}
        path = model_files.find_model(os.fspath(pretrained_model_name_or_path), gguf_file=gguf_file, **places)
        common = {"n_threads": threads, "threading": threading or default_threading(loaded), "max_context": max_context,
                  **_check_no_effect(options)}
        draft_path = None if draft is None else os.fspath(draft)
        if draft_path is not None and draft_path != NGRAM:
            draft_path = model_files.find_model(draft_path, **places)
        engine = LocalEngine(
            loaded, path, {**common, "dtype": _weight_format(dtype if dtype is not None else torch_dtype, load_in_4bit, load_in_8bit)},
            draft=draft_path, draft_options={**common, "dtype": _weight_format(draft_dtype, False, False)}, draft_worker=draft_worker,
            max_batch=max_batch)
        return _class_for(path)(loaded, engine, path, draft_len)


class CausalLM:
    """A loaded model. It is freed by `close`, as a context manager, or when the last reference is gone."""

    main_input_name = "input_ids"
    input_modalities = output_modalities = ("text",)
    base_model_prefix = "model"
    hf_device_map = None

    def __init__(self, library: Library, engine: LocalEngine, path: str, draft_len: int) -> None:
        self.name_or_path = path
        self.figures = Figures()    # of the last call of generate
        self.generation_config = model_files.generation_config(path, engine.end_tokens)
        self._library, self._engine, self._draft_len = library, engine, draft_len

    @functools.cached_property
    def config(self) -> Any:
        """config.json: transformers' object where that is loaded."""
        return model_files.config(self.name_or_path, {
            "model_type": "gguf", "vocab_size": self._engine.n_ids, "max_position_embeddings": self._engine.max_context,
            "eos_token_id": list(self._engine.end_tokens), "is_encoder_decoder": False})

    @property
    def tokenizer(self) -> Tokenizer:
        """libpilotfish's own; ValueError where there is none."""
        return engine_tokenizer(self._library, self._engine)

    @property
    def details(self) -> Mapping[str, Any]:
        """What the library chose: dtype, activations, kv_dtype, isa, n_threads, n_parameters, weight_bytes, kv_bytes, ..."""
        return self._engine.details

    @property
    def max_context(self) -> int:
        return self._engine.max_context

    @property
    def device(self) -> Any:
        return sys.modules["torch"].device("cpu") if "torch" in sys.modules else "cpu"

    @property
    def dtype(self) -> Any:
        """torch's type of the weights where torch is loaded, float32 for integers; else its name."""
        word = self._engine.details["dtype"]
        name = "bfloat16" if word.startswith("bf16") else "float16" if word == "f16" else "float32"
        return getattr(sys.modules["torch"], name) if "torch" in sys.modules else name

    def num_parameters(self) -> int:
        return int(self._engine.details["n_parameters"])

    def get_memory_footprint(self) -> int:
        """Bytes of the weights."""
        return int(self._engine.details["weight_bytes"])

    def can_generate(self) -> bool:
        return True

    def eval(self) -> CausalLM:
        return self

    def to(self, *arguments: Any, **options: Any) -> CausalLM:
        """The model itself: it stays on the CPU, in the format that from_pretrained chose."""
        for value in (*arguments, *options.values()):
            if value is not None and str(value) not in ("cpu", str(self.dtype)):
                raise ValueError(f"the model cannot be moved to {value}: it runs on the CPU, with weights in {self.details['dtype']}")
        return self

    def close(self) -> None:
        """Frees the model; a second call does nothing."""
        self._engine.close()

    def __enter__(self) -> CausalLM:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def generate(self, inputs: Any = None, generation_config: Any = None, logits_processor: Any = None, stopping_criteria: Any = None,
                 *, input_ids: Any = None, attention_mask: Any = None, streamer: Any = None, seed: Optional[int] = None,
                 method: str = "auto", draft_len: Optional[int] = None, **options: Any) -> Any:
        """The texts of `inputs`: prompts and what the model adds, [n_texts * num_return_sequences, length], padded on the right.

        inputs              a torch tensor or numpy array [n_texts, width], padded on the left, or a list of ids, or of such lists;
                            what is returned is of the same kind. Up to max_batch texts are generated at once, each as if alone
        options             as transformers reads them; ValueError names one that would change the text and is not supported
        stopping_criteria   callables of transformers: criterion(ids [1, length], None), true where the text ends
        seed                of sampling: text i uses seed + i. None: drawn from torch's generator where that is loaded, else from random
        method              how proposals are verified where do_sample is set: "rejection", "coupled" (same text with any draft), ...
        draft_len           tokens of a proposal, as in from_pretrained

        Ctrl-C, or an exception of the streamer or of a criterion, ends the generation and is raised. `figures` are those of the call.
        """
        if inputs is not None and input_ids is not None:
            raise ValueError("inputs and input_ids are the same: give one of them")
        call = dict(options, **({"logits_processor": logits_processor} if logits_processor else {}))
        chosen = generation_options.resolve(call, _values(generation_config), _values(self.generation_config))
        inputs = self._inputs(inputs if inputs is not None else input_ids, chosen)
        prompts = token_rows.read(inputs, attention_mask, chosen.pad_token_id, chosen.eos_token_ids)
        n_texts = len(prompts.rows) * chosen.num_return_sequences
        if n_texts > 1 and (streamer is not None or chosen.max_time is not None):
            raise ValueError(f"{'streamer' if streamer is not None else 'max_time'} is for one text, not for {n_texts}")
        lengths = [self._room(given, row, chosen) for given, row in zip(prompts.given, prompts.rows)]
        seeds = self._seeds(chosen, seed, n_texts)
        sources = [i // chosen.num_return_sequences for i in range(n_texts)]
        watches = [_Watch(self, prompts, source, chosen, stopping_criteria, streamer) for source in sources]
        requests = [Request(prompts.rows[source], lengths[source], _sampling(chosen, next(seeds)), method if chosen.do_sample else "auto",
                            self._draft_len if draft_len is None else draft_len, chosen.eos_token_ids, watch.on_token)
                    for source, watch in zip(sources, watches)]
        self.figures = figures = Figures()
        try:
            results = self._engine.run_batch(requests) if n_texts > 1 else [self._engine.run(requests[0])]
        finally:
            for watch in watches:
                watch.end()
        for _, took in results:
            figures.add(took)
        sequences = prompts.finish([prompts.given[source] + new for source, (new, _) in zip(sources, results)])
        return GenerateOutput(sequences, figures) if chosen.return_dict else sequences

    def _inputs(self, inputs: Any, chosen: GenerationOptions) -> Any:
        if inputs is not None:
            return inputs
        if chosen.bos_token_id is None:
            raise ValueError("there is no input, and the model has no bos_token_id to begin with")
        ids = [[chosen.bos_token_id]]
        return sys.modules["torch"].tensor(ids) if "torch" in sys.modules else ids

    def _room(self, given: Sequence[int], row: Sequence[int], chosen: GenerationOptions) -> int:
        """How many tokens to make. ValueError where the context has no room for them, or an id does not exist."""
        n = chosen.new_tokens(len(given), self.max_context)
        if len(row) + n > self.max_context:
            raise ValueError(f"a prompt of {len(row)} tokens and max_new_tokens={n} are more than the context of {self.max_context} "
                             "tokens: give less, or max_context to from_pretrained")
        if not all(0 <= i < self._engine.n_ids for i in row):
            raise ValueError(f"the prompt has an id that does not exist, expected 0 to {self._engine.n_ids - 1}")
        return n

    @staticmethod
    def _seeds(chosen: GenerationOptions, seed: Optional[int], n_texts: int) -> Iterator[int]:
        if seed is not None:
            if not 0 <= seed < 2**64:
                raise ValueError(f"seed is {seed}, expected 0 to 2**64 - 1")
            return iter([(seed + i) % 2**64 for i in range(n_texts)])
        if not chosen.do_sample:
            return iter([0] * n_texts)
        if "torch" in sys.modules:
            return iter(sys.modules["torch"].randint(0, 2**63 - 1, (n_texts,)).tolist())
        return iter([random.getrandbits(63) for _ in range(n_texts)])


def _class_for(path: str) -> type[CausalLM]:
    """A CausalLM with the name of the model's class in transformers, by which pipelines know what a model can do."""
    names = model_files.read_json(path, "config.json").get("architectures")
    if not (isinstance(names, list) and len(names) == 1 and isinstance(names[0], str) and names[0].isidentifier()):
        return CausalLM
    return type(names[0], (CausalLM,), {"__doc__": CausalLM.__doc__, "__module__": __name__})


def _values(config: Any) -> Mapping[str, Any]:
    """The values of a GenerationConfig, of Settings or of a mapping."""
    return config if isinstance(config, Mapping) else config.to_dict() if config is not None else {}


def _sampling(chosen: GenerationOptions, seed: int) -> SamplingValues:
    return SamplingValues(chosen.temperature, chosen.top_k, chosen.top_p, chosen.min_p, seed, chosen.typical_p)


class _Watch:
    """Looks at one text as its tokens come: streams it, and says where a criterion, a stop string or the time ends it."""

    def __init__(self, model: CausalLM, prompts: token_rows.Prompts, source: int, chosen: GenerationOptions, criteria: Any,
                 streamer: Any) -> None:
        self._like, self._ids = prompts.like, list(prompts.given[source])
        self._criteria: Iterable[Callable[..., Any]] = [criteria] if callable(criteria) and not hasattr(criteria, "__iter__") else criteria or ()
        self._streamer = streamer
        self._deadline = None if chosen.max_time is None else time.monotonic() + chosen.max_time
        self._strings = StopStrings(model.tokenizer, chosen.stop_strings, prompts.rows[source]) if chosen.stop_strings else None
        if streamer is not None:
            streamer.put(self._like(self._ids, True))

    def on_token(self, token: int) -> bool:
        """Whether the text goes on behind its new token."""
        self._ids.append(token)
        if self._streamer is not None:
            self._streamer.put(self._like([token], False))
        ends = self._strings is not None and self._strings.push(token)
        if self._criteria:
            ids = self._like(self._ids, True)
            ends = any([_holds(criterion(ids, None)) for criterion in self._criteria]) or ends
        return not ends and (self._deadline is None or time.monotonic() < self._deadline)

    def end(self) -> None:
        if self._streamer is not None:
            self._streamer.end()


def _holds(answer: Any) -> bool:
    """What a criterion answers: a bool, or one of each text in a tensor."""
    return bool(answer.all()) if hasattr(answer, "all") else bool(answer)
