"""Registers the speculator for vLLM's V2 model runner: the entry point `vllm.general_plugins`, which vLLM calls in each process.

The V2 runner has no plug-in point for drafters: `init_speculator` is a chain of ifs. The plugin replaces that function by one
that looks for additional_config["pilotfish"] first; without it vLLM is as it was. The user asks for the method "ngram", which
keeps the tokens of all requests on the device:

    speculative_config={"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 2}
    additional_config={"pilotfish": {"address": "unix:/run/pilotfish.sock"}}

Written against the sources of vLLM 0.32. Not run: the V2 runner needs a GPU. Its parts are tested on CPU tensors.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from types import ModuleType
from typing import Any

log = logging.getLogger("pilotfish")
_PACKAGE = "vllm.v1.worker.gpu.spec_decode"
_RUNNER = "vllm.v1.worker.gpu.model_runner"    # imports the function by name


def wants(vllm_config: Any) -> bool:
    """Whether a configuration asks for Pilotfish on the V2 runner."""
    speculative = vllm_config.speculative_config
    return bool((vllm_config.additional_config or {}).get("pilotfish")) and bool(
        speculative is not None and speculative.method in ("ngram", "ngram_gpu"))


def _replace(module: ModuleType) -> None:
    original = getattr(module, "init_speculator", None)
    if original is None or hasattr(original, "pilotfish_replaces"):
        return

    @functools.wraps(original)
    def init_speculator(vllm_config: Any, device: Any, req_states: Any) -> Any:
        if not wants(vllm_config):
            return original(vllm_config, device, req_states)
        from .speculator import Speculator

        return Speculator(vllm_config, device, req_states)

    init_speculator.pilotfish_replaces = original   # type: ignore[attr-defined]
    setattr(module, "init_speculator", init_speculator)


def register() -> None:
    """Called by vLLM. Of a vLLM without the V2 runner, or with another one, it changes nothing."""
    try:
        _replace(importlib.import_module(_PACKAGE))
    except Exception as error:
        log.debug("no speculator for the V2 model runner: %r", error)
        return
    runner = sys.modules.get(_RUNNER)
    if runner is not None:
        _replace(runner)
