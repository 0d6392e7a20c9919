"""Lets `model.generate(...)` of transformers take the proposals of a Pilotfish worker (transformers 4.57 and 5).

    import pilotfish.transformers
    pilotfish.transformers.attach(model, "unix:/run/pilotfish.sock")     # a worker that runs there
    pilotfish.transformers.attach(model, draft="path/of/draft")          # or one that is started for this model
    model.generate(**inputs, max_new_tokens=200)                         # as always

Greedy decoding yields the text of plain decoding; sampling yields its distribution, by rejection against the distributions
that the worker declares. transformers verifies proposals for one text at a time: a call with a larger batch, with beams, with
stop strings or with stopping criteria of its own runs plainly, and a warning says so once.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Optional, Union

import torch
from transformers.generation.candidate_generator import CandidateGenerator

from .causal_lm import AutoModelForCausalLM     # noqa: F401   # at the place where other CPU runtimes have it
from .client import DraftClient
from .rows import Proposal, Row, Sampling
from .worker import Worker

log = logging.getLogger("pilotfish")
MAX_DECLARED = 64
DEFAULT_WAIT_S = 0.1     # one text waits for it alone, and a pass of the target costs more


class _WorkerCandidates(CandidateGenerator):
    """The candidates of one call of generate: the proposals for one text."""

    def __init__(self, client: DraftClient, config: Any, n_ids: int) -> None:
        self._client = client
        self._key = object()
        self._tokens: list[int] = []
        self._n_ids = n_ids
        self._max_length = config.max_length
        end = getattr(config, "_eos_token_tensor", None)
        self._end_tokens = set(end.flatten().tolist()) if end is not None else set()
        self._sampling = Sampling(float(config.temperature or 1.0), int(config.top_k or 0), float(config.top_p or 0.0),
                                  float(config.min_p or 0.0)) if config.do_sample else None

    def get_candidates(self, input_ids: torch.Tensor, **_: Any) -> tuple[torch.Tensor, Optional[torch.Tensor]]:
        """`input_ids`: [1, length]. Returns [1, length + n] and the logits of the n new ones, [1, n, n_ids], or None."""
        self._tokens += input_ids[0, len(self._tokens):].tolist()
        room = self._max_length - len(self._tokens) - 1     # the target adds a token of its own
        proposal, = self._client.step([Row(self._key, self._tokens, sampling=self._sampling, max_tokens=self._max_length)])
        proposal = proposal.after(0, max(0, min(room, self._n_before_end(proposal))))
        if not proposal.tokens:
            return input_ids, None
        new = torch.tensor([proposal.tokens], dtype=input_ids.dtype, device=input_ids.device)
        return torch.cat((input_ids, new), dim=-1), self._logits(proposal, input_ids.device)

    def _n_before_end(self, proposal: Proposal) -> int:
        """An end-of-text token is left to the target: what follows an accepted one would be kept."""
        return next((i for i, token in enumerate(proposal.tokens) if token in self._end_tokens), len(proposal.tokens))

    def _logits(self, proposal: Proposal, device: torch.device) -> Optional[torch.Tensor]:
        """Logits whose softmax is the declared distribution of each token."""
        if self._sampling is None or proposal.declared is None:
            return None
        logits = torch.full((1, len(proposal.tokens), self._n_ids), -torch.inf, dtype=torch.float32)
        for i, declared in enumerate(proposal.declared):
            logits[0, i, list(declared.ids)] = torch.tensor(declared.probabilities, dtype=torch.float32).log()
        return logits.to(device)

    def update_candidate_strategy(self, input_ids: torch.Tensor, scores: torch.Tensor, num_matches: int) -> None:
        """Nothing: the next step tells the worker what was committed."""

    def finish(self) -> None:
        self._client.finish([self._key])


class Attachment:
    """What `attach` did to a model: its client, and `detach` to undo it."""

    def __init__(self, model: Any, client: DraftClient, worker: Optional[Worker]) -> None:
        self.client = client
        self._model, self._worker = model, worker
        self._generate = model.generate
        self._n_ids = int(model.config.get_text_config().vocab_size)
        self._candidates: Optional[_WorkerCandidates] = None
        self._warned = False
        model.generate = self._run
        model._get_candidate_generator = self._get_candidate_generator

    def detach(self) -> None:
        """The model generates as before; a worker that `attach` started ends."""
        for name in ("generate", "_get_candidate_generator"):
            self._model.__dict__.pop(name, None)
        self.client.close()
        if self._worker is not None:
            self._worker.close()

    def _run(self, *arguments: Any, **options: Any) -> Any:
        """`model.generate` with the same arguments."""
        reason = self._why_plain(arguments, options)
        if reason is not None:
            if not self._warned:
                self._warned = True
                log.warning("generate runs without the worker: %s", reason)
            return self._generate(*arguments, **options)
        try:
            # transformers takes this as the request for its loop with candidates; whose they are is decided below.
            return self._generate(*arguments, **options, prompt_lookup_num_tokens=1)
        finally:
            if self._candidates is not None:
                self._candidates.finish()
                self._candidates = None

    def _get_candidate_generator(self, generation_config: Any, **_: Any) -> CandidateGenerator:
        self._candidates = _WorkerCandidates(self.client, generation_config, self._n_ids)
        return self._candidates

    def _why_plain(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> Optional[str]:
        """Why a call cannot take candidates, None where it can."""
        config = options.get("generation_config") or (arguments[1] if len(arguments) > 1 else None) or self._model.generation_config

        def value(name: str) -> Any:
            return options[name] if options.get(name) is not None else getattr(config, name, None)

        ids = options.get("input_ids")
        if ids is None:
            ids = arguments[0] if arguments else options.get("inputs")
        if ids is None or not hasattr(ids, "shape") or len(ids.shape) != 2 or options.get("inputs_embeds") is not None:
            return "its input is not a tensor of token ids"
        if ids.shape[0] != 1 or (value("num_return_sequences") or 1) > 1:
            return "candidates are verified for one text at a time"
        if (value("num_beams") or 1) > 1:
            return "beams are not verified"
        if value("use_cache") is False or value("cache_implementation") in ("static", "hybrid", "sliding_window"):
            return "candidates need a dynamic cache"
        if len(arguments) > 2 or options.get("stopping_criteria") or value("stop_strings"):
            return "stop strings and stopping criteria are looked at once a step, which may commit several tokens"
        if getattr(self._model, "_is_stateful", False):
            return "the model's state cannot be taken back"
        for name in ("assistant_model", "custom_generate", "prompt_lookup_num_tokens", "penalty_alpha", "dola_layers", "use_mtp"):
            if value(name):
                return f"{name} asks for another way to generate"
        return None


def attach(model: Any, address: Optional[str] = None, *, draft: Union[str, os.PathLike[str], None] = None, max_draft: int = 4,
           wait_s: float = DEFAULT_WAIT_S, tokenizer: Union[str, os.PathLike[str], None] = None,
           **worker_options: object) -> Attachment:
    """Gives a model's `generate` the proposals of the worker at `address`, or of one that is started with the model `draft`.

    max_draft       most tokens of a proposal
    wait_s          how long a step waits for one
    tokenizer       the target's tokenizer.json, or its folder; by default the folder that the model was loaded from
    worker_options  with `draft`: those of `pilotfish worker`, as threads=2, cores="0-1", dtype="int8"

    ValueError where there is not one of `address` and `draft`, or the model is an encoder-decoder; FileNotFoundError where
    `draft` is given and the binary is not installed; RuntimeError where the worker that is started for `draft` cannot run. A worker that
    does not answer is no error: the log says so.
    """
    if (address is None) == (draft is None):
        raise ValueError("attach needs either the address of a worker or a draft model")
    if model.config.is_encoder_decoder:
        raise ValueError("an encoder-decoder model is not supported: a draft reads one text")
    if isinstance(getattr(model.generate, "__self__", None), Attachment):
        raise ValueError("the model is attached to a worker already: detach it first")
    worker = Worker(draft, **worker_options) if draft is not None else None
    if worker is not None:
        worker.wait_ready(60.0)
    client = DraftClient(worker.address if worker is not None else str(address), max_draft=max_draft, wait_s=wait_s,
                         max_declared=MAX_DECLARED, tokenizer=tokenizer or getattr(model.config, "_name_or_path", None) or None,
                         n_ids=int(model.config.get_text_config().vocab_size))
    client.wait_ready(2.0)
    return Attachment(model, client, worker)
