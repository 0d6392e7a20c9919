"""The options of the vLLM adapter: additional_config["pilotfish"], and how many tokens are drafted for a batch.

    address      of a worker that runs: unix:/path or host:port
    worker       or one that the adapter starts: {"model": DRAFT, "cores": "0-3", ...}, the options of `pilotfish worker`
    wait_ms      how long a step waits for proposals (20)
    adaptive     the worker chooses the length of each proposal by what it measures (false)
    lengths      [[rows, tokens], ...]: the most tokens of a proposal in batches of up to so many rows, 0 beyond the last
    log_s        seconds between two log lines of figures, 0: none (60)

Where speculative_config has num_speculative_tokens_per_batch_size and there is no `lengths`, that schedule counts. Without
either the adapter measures which length is the fastest for a batch (length_policy.py). It begins with all of
num_speculative_tokens up to 16 rows and half of them up to 32 where vLLM runs on a CPU, and up to 64 and 128 rows elsewhere.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ..client import DEFAULT_WAIT_S, DraftClient
from ..worker import Worker

_NAMES = ("address", "worker", "wait_ms", "adaptive", "lengths", "log_s")


class Options:
    """ValueError where they are not as documented: vLLM then does not start."""

    def __init__(self, vllm_config: Any) -> None:
        given = dict((vllm_config.additional_config or {}).get("pilotfish") or {})
        unknown = sorted(set(given) - set(_NAMES))
        if unknown:
            raise ValueError(f"additional_config's pilotfish has {', '.join(unknown)}, expected some of {', '.join(_NAMES)}")
        self.address: Optional[str] = given.get("address")
        self.worker: Optional[dict[str, Any]] = given.get("worker")
        if (self.address is None) == (self.worker is None):
            raise ValueError("additional_config's pilotfish needs either an address or a worker, "
                             'as {"pilotfish": {"address": "unix:/run/pilotfish.sock"}}')
        if self.worker is not None and "model" not in self.worker:
            raise ValueError('additional_config\'s pilotfish has a worker without a "model"')
        self.wait_s = float(given.get("wait_ms", DEFAULT_WAIT_S * 1e3)) / 1e3
        self.adaptive = bool(given.get("adaptive", False))
        self.log_s = float(given.get("log_s", 60))
        speculative = vllm_config.speculative_config
        self.max_draft = int(speculative.num_speculative_tokens)
        self.max_rows = int(vllm_config.scheduler_config.max_num_seqs)
        self.max_length = int(vllm_config.model_config.max_model_len)
        self.n_ids = int(vllm_config.model_config.get_vocab_size())
        self.tokenizer: Optional[str] = vllm_config.model_config.tokenizer
        schedule = getattr(speculative, "num_speculative_tokens_per_batch_size", None)
        self.measures = given.get("lengths") is None and not schedule
        self.lengths = _lengths(given.get("lengths"), schedule, self.max_draft,
                                getattr(getattr(vllm_config, "device_config", None), "device_type", "cuda"))

    def max_draft_of(self, n_rows: int) -> int:
        """The most tokens of a proposal in a batch of `n_rows`: where `measures`, the first guess."""
        for rows, tokens in self.lengths:
            if n_rows <= rows:
                return tokens
        return 0

    def connect(self) -> tuple[DraftClient, Optional[Worker]]:
        """The client, and the worker that was started for it, if one was."""
        worker = None
        address = self.address
        if self.worker is not None:
            arguments = {"max_sequences": self.max_rows, **self.worker}
            worker = Worker(arguments.pop("model"), **arguments)
            worker.wait_ready(60.0)
            address = worker.address
        assert address is not None
        client = DraftClient(address, max_draft=self.max_draft, adaptive=self.adaptive, wait_s=self.wait_s,
                             tokenizer=self.tokenizer, n_ids=self.n_ids)
        client.wait_ready(2.0)
        return client, worker


def _lengths(given: Any, schedule: Any, max_draft: int, device: str) -> list[tuple[int, int]]:
    """Pairs of rows and tokens, ascending in rows."""
    pairs: Sequence[Any]
    if given is not None:
        pairs = given
    elif schedule:
        pairs = [(last, tokens) for _, last, tokens in schedule]
    else:
        full = 16 if device == "cpu" else 64
        pairs = [(full, max_draft), (2 * full, (max_draft + 1) // 2)]
    try:
        found = sorted((int(rows), min(int(tokens), max_draft)) for rows, tokens in pairs)
    except (TypeError, ValueError):
        raise ValueError(f"additional_config's pilotfish has lengths of {given!r}, expected [[rows, tokens], ...]") from None
    if any(rows < 1 or tokens < 0 for rows, tokens in found):
        raise ValueError(f"additional_config's pilotfish has lengths of {given!r}, expected rows above 0 and no negative tokens")
    return found
