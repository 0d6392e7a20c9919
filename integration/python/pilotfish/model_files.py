"""Finds a model by path or by its name on the Hugging Face Hub, and reads its config files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Mapping, Optional

_FILES = ["*.json", "*.safetensors", "*.model", "*.tiktoken", "*.txt", "*.jinja"]
_TOKEN_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


class Settings(SimpleNamespace):
    """The values of a config file as attributes, where transformers is not loaded."""

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def get_text_config(self, **_: Any) -> Settings:
        return self


def find_model(name: str, *, gguf_file: Optional[str] = None, revision: Optional[str] = None, cache_dir: Any = None,
               token: Any = None, local_files_only: bool = False) -> str:
    """The path of a directory or a GGUF file: `name` itself, else what huggingface_hub has or downloads by that name.

    OSError says what is missing.
    """
    path = os.path.expanduser(name)
    if os.path.exists(path):
        found = os.path.join(path, gguf_file) if gguf_file else path
        if not os.path.exists(found):
            raise FileNotFoundError(f"{found} does not exist")
        return found
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{name} is neither a directory, a GGUF file nor a name of the Hub (owner/model)")
    try:
        import huggingface_hub
    except ImportError:
        raise FileNotFoundError(f"{name} is no path here, and the package huggingface_hub, which knows the Hub's names, is not "
                                "installed") from None
    options = {"revision": revision, "cache_dir": cache_dir, "token": token, "local_files_only": local_files_only}
    if gguf_file:
        return str(huggingface_hub.hf_hub_download(name, gguf_file, **options))
    return str(huggingface_hub.snapshot_download(name, allow_patterns=_FILES, **options))


def read_json(model: str, name: str) -> dict[str, Any]:
    """An object of a model's directory; {} where the model is one file, or has no such file."""
    path = Path(model) / name
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__}, expected an object")
    return found


def config(model: str, facts: Mapping[str, Any]) -> Any:
    """config.json by transformers' class where that is loaded, else as Settings; of one file the `facts` that the engine tells."""
    values = read_json(model, "config.json")
    if values and "transformers" in sys.modules:
        import transformers
        try:
            return transformers.AutoConfig.from_pretrained(model, local_files_only=True)
        except (ValueError, KeyError, OSError, ImportError):    # an architecture that it does not know
            pass
    return Settings(**{**facts, **values, "_name_or_path": model})


def generation_config(model: str, end_tokens: tuple[int, ...]) -> Any:
    """generation_config.json, with the token ids of config.json where it has none: transformers' class where that is loaded."""
    values = read_json(model, "generation_config.json")
    of_model = read_json(model, "config.json")
    text = of_model.get("text_config")
    for name in _TOKEN_IDS:
        if values.get(name) is None:
            values[name] = of_model.get(name, text.get(name) if isinstance(text, dict) else None)
    if values["eos_token_id"] is None and end_tokens:
        values["eos_token_id"] = list(end_tokens)
    if "transformers" in sys.modules:
        import transformers
        return transformers.GenerationConfig.from_dict(values)
    return Settings(**values)
