"""Reads the arguments of `generate` as transformers does: those of the call, then its generation_config, then the model's, then the
defaults of transformers.

What would change the text and is not supported is an error that names it. What changes no text (caches, compilation, assistants'
heuristics) is accepted and not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

DEFAULT_NEW_TOKENS = 20     # of transformers, where nothing says how long
DEFAULT_TOP_K = 50          # of transformers, where do_sample is set
MAX_STOP_TOKENS = 64        # PF_MAX_STOP_TOKENS

_READ = {"max_new_tokens", "max_length", "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "eos_token_id", "pad_token_id",
         "bos_token_id", "num_return_sequences", "stop_strings", "max_time", "return_dict_in_generate"}

# What changes the text, and the values of each that do not.
_NOT_SUPPORTED: dict[str, tuple[object, ...]] = {
    "num_beams": (1,), "num_beam_groups": (1,), "diversity_penalty": (0,), "constraints": (), "force_words_ids": (),
    "penalty_alpha": (0,), "dola_layers": (), "guidance_scale": (1,), "repetition_penalty": (1,), "encoder_repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,), "encoder_no_repeat_ngram_size": (0,), "min_length": (0,), "min_new_tokens": (0,),
    "bad_words_ids": (), "suppress_tokens": (), "begin_suppress_tokens": (), "forced_bos_token_id": (), "forced_eos_token_id": (),
    "sequence_bias": (), "exponential_decay_length_penalty": (), "token_healing": (False,), "watermarking_config": (),
    "custom_generate": (), "inputs_embeds": (), "past_key_values": (), "position_ids": (), "prefix_allowed_tokens_fn": (),
    "negative_prompt_ids": (), "negative_prompt_attention_mask": (), "logits_processor": (),
    # These add to what is returned.
    "output_scores": (False,), "output_logits": (False,), "output_attentions": (False,), "output_hidden_states": (False,),
}
_NOT_SUPPORTED_SAMPLING: dict[str, tuple[object, ...]] = {
    "epsilon_cutoff": (0,), "eta_cutoff": (0,), "top_h": (),
}
_INSTEAD = {
    "assistant_model": "give the draft to from_pretrained: draft=PATH or draft_worker=ADDRESS",
    "prompt_lookup_num_tokens": 'give it to from_pretrained: draft="ngram"',
}
_UNUSED = {
    "use_cache", "cache_implementation", "cache_config", "max_cache_len", "early_stopping", "length_penalty", "low_memory",
    "synced_gpus", "compile_config", "disable_compile", "continuous_batching_config", "prefill_chunk_size", "renormalize_logits",
    "remove_invalid_values", "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "max_matching_ngram_size", "assistant_early_exit", "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight",
    "speculation_type", "use_mtp", "decoder_start_token_id", "tokenizer", "assistant_tokenizer", "token_type_ids",
    "transformers_version", "_from_model_config", "trust_remote_code",
}


@dataclass(frozen=True)
class GenerationOptions:
    """What a call of `generate` asks for, with nothing left open."""

    max_new_tokens: Optional[int]    # None: max_length decides
    max_length: Optional[int]        # of prompt and new tokens; None: DEFAULT_NEW_TOKENS more than the prompt
    do_sample: bool
    temperature: float
    top_k: int                       # 0: off
    top_p: float                     # 0: off
    min_p: float                     # 0: off
    typical_p: float                 # 0 or 1: off
    eos_token_ids: tuple[int, ...]
    pad_token_id: Optional[int]
    bos_token_id: Optional[int]
    num_return_sequences: int
    stop_strings: tuple[str, ...]
    max_time: Optional[float]        # seconds
    return_dict: bool

    def new_tokens(self, width: int, max_context: int) -> int:
        """How many tokens to make behind a prompt of `width`, its padding included. ValueError where there is no room."""
        if self.max_new_tokens is not None:
            n = self.max_new_tokens
        elif self.max_length is not None:
            n = self.max_length - width
        else:
            n = min(DEFAULT_NEW_TOKENS, max_context - width)
        if n < 1:
            raise ValueError(f"the prompt has {width} tokens, max_length is {self.max_length}, the context {max_context}: no token "
                             "can be made" if self.max_new_tokens is None else f"max_new_tokens is {n}, expected at least 1")
        return n


def _is_neutral(value: object, neutral: Sequence[object]) -> bool:
    return value is None or value in neutral or (hasattr(value, "__len__") and len(value) == 0)


def _refuse(name: str, value: object, where: str, neutral: Sequence[object]) -> None:
    instead = _INSTEAD.get(name) or (f"pass {name}={neutral[0]!r} to do without it" if where and neutral else "")
    raise ValueError(f"{name}={value!r}{where} is not supported" + (f": {instead}" if instead else ""))


def _check_supported(call: Mapping[str, Any], model: Mapping[str, Any], merged: Mapping[str, Any]) -> None:
    for name in call:
        if name in _INSTEAD and call[name] is not None:
            _refuse(name, "...", "", ())
        if not (name in _READ or name in _NOT_SUPPORTED or name in _NOT_SUPPORTED_SAMPLING or name in _UNUSED or name in _INSTEAD):
            raise ValueError(f"generate has no argument {name}")
    refused = {**_NOT_SUPPORTED, **(_NOT_SUPPORTED_SAMPLING if merged.get("do_sample") else {})}
    for name, neutral in refused.items():
        if not _is_neutral(merged.get(name), neutral):
            where = "" if name in call else " of the model's generation_config" if name in model else ""
            _refuse(name, merged[name], where, neutral)


def _ids(name: str, value: Any) -> tuple[int, ...]:
    """Token ids, given as one, a list or a tensor of them."""
    if value is None:
        return ()
    if hasattr(value, "tolist"):
        value = value.tolist()
    ids = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        raise ValueError(f"{name} is {value!r}, expected token ids")
    return ids


def _number(values: Mapping[str, Any], name: str, default: float, lowest: float, highest: float, excluded: bool = False) -> float:
    value = values.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}, expected a number") from None
    if not lowest <= number <= highest or (excluded and number == lowest):
        raise ValueError(f"{name} is {value!r}, expected {'more than' if excluded else 'at least'} {lowest:g}"
                         + (f" and at most {highest:g}" if highest < float("inf") else ""))
    return number


def _count(values: Mapping[str, Any], name: str, default: Optional[int], lowest: int) -> Optional[int]:
    value = values.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or int(value) != value or value < lowest:
        raise ValueError(f"{name} is {value!r}, expected a whole number of at least {lowest}")
    return int(value)


def _max_length(call: Mapping[str, Any], merged: Mapping[str, Any]) -> Optional[int]:
    """None where it is the default of transformers, which 4.57 writes into every GenerationConfig."""
    value = _count(merged, "max_length", None, 1)
    return None if value == DEFAULT_NEW_TOKENS and call.get("max_length") is None else value


def resolve(call: Mapping[str, Any], config: Mapping[str, Any], model: Mapping[str, Any]) -> GenerationOptions:
    """The options of a call: `call` are its own, `config` those of its generation_config, `model` those of the model's.

    None in `call` turns an option off; in the others it is not set. ValueError names what is wrong or not supported.
    """
    merged = {**{k: v for k, v in model.items() if v is not None}, **{k: v for k, v in config.items() if v is not None}, **call}
    _check_supported(call, model, merged)
    do_sample = bool(merged.get("do_sample"))
    strings = merged.get("stop_strings") or ()
    strings = (strings,) if isinstance(strings, str) else tuple(strings)
    if not all(isinstance(s, str) and s for s in strings):
        raise ValueError(f"stop_strings is {merged['stop_strings']!r}, expected texts that are not empty")
    eos, pad = _ids("eos_token_id", merged.get("eos_token_id")), _ids("pad_token_id", merged.get("pad_token_id"))
    bos = _ids("bos_token_id", merged.get("bos_token_id"))
    if len([i for i in eos if i >= 0]) > MAX_STOP_TOKENS:
        raise ValueError(f"eos_token_id has {len(eos)} ids, expected at most {MAX_STOP_TOKENS}")
    n_returned = _count(merged, "num_return_sequences", 1, 1) or 1
    if n_returned > 1 and not do_sample:
        raise ValueError(f"num_return_sequences is {n_returned}: greedy texts are all the same, set do_sample=True")
    top_k = merged.get("top_k", DEFAULT_TOP_K)
    return GenerationOptions(
        max_new_tokens=_count(merged, "max_new_tokens", None, 1), max_length=_max_length(call, merged), do_sample=do_sample,
        temperature=_number(merged, "temperature", 1.0, 0.0, float("inf"), excluded=True) if do_sample else 0.0,
        top_k=_count({"top_k": top_k}, "top_k", 0, 0) or 0 if do_sample else 0,
        top_p=_number(merged, "top_p", 0.0, 0.0, 1.0, excluded=True) if do_sample else 0.0,
        min_p=_number(merged, "min_p", 0.0, 0.0, 1.0) if do_sample else 0.0,
        typical_p=_number(merged, "typical_p", 1.0, 0.0, 1.0) if do_sample else 1.0,
        eos_token_ids=tuple(i for i in eos if i >= 0), pad_token_id=pad[0] if pad else eos[0] if eos else None,
        bos_token_id=bos[0] if bos else None, num_return_sequences=n_returned, stop_strings=strings,
        max_time=None if merged.get("max_time") is None else _number(merged, "max_time", 0.0, 0.0, float("inf")),
        return_dict=bool(merged.get("return_dict_in_generate")))
