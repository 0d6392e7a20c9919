"""SGLang drafted by a Pilotfish worker: the entry point `sglang.srt.plugins` registers the speculative algorithm PILOTFISH.

    PILOTFISH_ADDRESS=unix:/run/pilotfish.sock python -m sglang.launch_server --model-path TARGET \\
        --speculative-algorithm PILOTFISH --speculative-num-draft-tokens 5

To SGLang the algorithm is its NGRAM, with other drafts: the same verification, overlap scheduling and memory. A request's row has
`speculative_num_draft_tokens` tokens, its last committed one and then the proposal, a chain or a tree; places without a proposed token hold the
last committed one again. SGLang accepts what it samples itself, so what stands there changes no text.

Of the ranks of a tensor-parallel group the first asks the worker. The others get its rows, so that all verify the same tokens.

Environment: PILOTFISH_ADDRESS, unix:/path or host:port; PILOTFISH_WAIT_MS, how long a step waits for proposals (20); PILOTFISH_TREES, 1: the
worker may send trees, and chooses their sizes (0).

Written against the sources of SGLang 0.5.23. Not run: the engine needs a GPU. Its parts are tested against that wheel.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence, Union, cast

import numpy as np

from .client import DEFAULT_WAIT_S, DraftClient
from .error_guard import ErrorGuard
from .ranks import OneRank, TorchRanks
from .rows import NO_PROPOSAL, Proposal, Row

NAME = "PILOTFISH"
MOST_DRAFTED = 64
_DEFAULT_TOKENS = 5       # of a row, where the user names no number
_DEFAULT_REQUESTS = 48    # as SGLang sets for NGRAM
_OWN = ("create_worker", "handle_server_args", "register", "from_string", "get_platform_worker_cls")


class Options:
    """ValueError where they are not as documented: SGLang then does not start."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.address = environment.get("PILOTFISH_ADDRESS", "")
        if not self.address:
            raise ValueError("PILOTFISH_ADDRESS is not set, expected the address of a worker, as unix:/run/pilotfish.sock")
        wait = environment.get("PILOTFISH_WAIT_MS", str(DEFAULT_WAIT_S * 1e3))
        try:
            self.wait_s = float(wait) / 1e3
        except ValueError:
            self.wait_s = -1.0
        if not 0.0 <= self.wait_s <= 60.0:
            raise ValueError(f"PILOTFISH_WAIT_MS is {wait!r}, expected 0 to 60000")
        trees = environment.get("PILOTFISH_TREES", "0")
        if trees not in ("0", "1"):
            raise ValueError(f"PILOTFISH_TREES is {trees!r}, expected 0 or 1")
        self.trees = trees == "1"


def ranks_of(group: Any) -> Union[OneRank, TorchRanks]:
    """The tensor-parallel group of this process, by SGLang's GroupCoordinator."""
    return TorchRanks(group.rank_in_group, group.ranks[0], group.cpu_group) if group.world_size > 1 else OneRank()


def tensor_parallel_group() -> Any:
    from sglang.srt.runtime_context import get_parallel

    return get_parallel().tp_group


class Drafts:
    """The proposals for batches of requests; SGLang's worker holds one where NGRAM has its corpus."""

    def __init__(self, client: Any, n_tokens: int, ranks: Union[OneRank, TorchRanks] = OneRank()) -> None:
        """`n_tokens` of a row, the last committed one included. `client`: None on other ranks than the first."""
        self._client, self._n_tokens, self._ranks = client, n_tokens, ranks
        self._keys: set[str] = set()
        self._errors = ErrorGuard()

    def prepare(self, n_rows: int, read: Callable[[], Sequence[Row]]) -> tuple[np.ndarray, np.ndarray]:
        """int64 [rows * n_tokens], and which places a place sees: bool [rows * n_tokens * n_tokens]. `read` gives the rows; the first rank
        alone calls it."""
        drawn = np.zeros((2, n_rows, self._n_tokens), dtype=np.int64)    # the tokens; by place its parent
        if self._ranks.is_first:
            rows = read()
            for tokens, parents, row, proposal in zip(*drawn, rows, self._ask(rows)):
                tokens[:] = row.tokens[-1:]
                n = min(len(proposal.tokens), self._n_tokens - 1)
                tokens[1:1 + n] = proposal.tokens[:n]
                parents[1:] = np.arange(self._n_tokens - 1)
                if proposal.parents is not None:
                    parents[1:1 + n] = np.array(proposal.parents[:n]) + 1
        self._ranks.share(drawn)
        return drawn[0].reshape(-1), visible_places(drawn[1]).reshape(-1)

    def _ask(self, rows: Sequence[Row]) -> Sequence[Proposal]:
        with self._errors:
            self._keys.update(str(row.key) for row in rows)
            return cast("list[Proposal]", self._client.step(rows))
        return [NO_PROPOSAL] * len(rows)

    # ---- what SGLang calls of a corpus ----

    def erase_match_state(self, keys: Sequence[str]) -> None:
        """These requests have left the batch. One that was preempted and comes back is opened again."""
        self._keys.difference_update(keys)
        if self._client is not None:
            self._client.finish(keys)

    def reset(self) -> None:
        self.erase_match_state(list(self._keys))

    def list_external_corpora(self) -> dict[str, int]:
        return {}

    def load_external_corpus_named(self, name: str, chunks: Any) -> int:
        raise ValueError(f"corpus {name} is not loaded: the drafts are those of a Pilotfish worker")

    def remove_external_corpus(self, name: str) -> None:
        raise ValueError(f"there is no corpus {name}: the drafts are those of a Pilotfish worker")


def visible_places(parents: np.ndarray) -> np.ndarray:
    """bool [rows, places, places]: a place sees itself and those on its way to the first. `parents`: [rows, places], each below its place."""
    n_rows, n = parents.shape
    mask = np.zeros((n_rows, n, n), dtype=bool)
    for place in range(n):
        if place:
            mask[:, place] = mask[np.arange(n_rows), parents[:, place]]
        mask[:, place, place] = True
    return mask


def committed(request: Any, new: Sequence[int]) -> list[int]:
    """All tokens of a request: `new` are those that SGLang has not written to it yet."""
    return [*request.origin_input_ids_unpadded, *request.output_ids, *new]


def length_of(request: Any) -> int:
    """The length at which the request's text ends; 0: not known."""
    most = getattr(request.sampling_params, "max_new_tokens", None)
    return len(request.origin_input_ids_unpadded) + int(most) if most else 0


def make_worker(ngram_worker: Any, options: Options) -> type:
    """The worker's class, on the NGRAMWorker of SGLang's module."""

    class PilotfishWorker(ngram_worker.NGRAMWorker):   # type: ignore[misc, unused-ignore]
        def __init__(self, server_args: Any, gpu_id: int, nccl_port: int, target_worker: Any, **others: Any) -> None:
            corpus = ngram_worker.NgramCorpus    # it would be compiled, and hold a table of its own
            ngram_worker.NgramCorpus = lambda **_: None
            try:
                super().__init__(server_args=server_args, gpu_id=gpu_id, nccl_port=nccl_port, target_worker=target_worker, **others)
            finally:
                ngram_worker.NgramCorpus = corpus
            ranks = ranks_of(tensor_parallel_group())
            client = DraftClient(options.address, max_draft=self.draft_token_num - 1, wait_s=options.wait_s, adaptive=options.trees,
                                 trees=options.trees, tokenizer=server_args.tokenizer_path or server_args.model_path,
                                 n_ids=int(target_worker.model_runner.model_config.vocab_size)) if ranks.is_first else None
            self.ngram_corpus = Drafts(client, self.draft_token_num, ranks)

        def _prepare_draft_tokens(self, batch: Any) -> tuple[np.ndarray, np.ndarray]:
            return self.ngram_corpus.prepare(len(batch.reqs), lambda: self._rows(batch))

        def _rows(self, batch: Any) -> list[Row]:
            return [Row(request.rid, committed(request, tokens), max_tokens=length_of(request))
                    for request, tokens in zip(batch.reqs, self._unwritten(batch))]

        def _unwritten(self, batch: Any) -> list[list[int]]:
            """With overlap scheduling results are written a round later: the last round's tokens, by request."""
            if not self.enable_overlap or batch.grammar_needs_sync():
                return [[] for _ in batch.reqs]
            n = self.draft_token_num
            tokens, lengths = batch.spec_info.accept_tokens.cpu().tolist(), batch.spec_info.accept_lens.cpu().tolist()
            return [tokens[i * n:i * n + length] for i, length in enumerate(lengths)]

        def _update_ngram_corpus(self, batch: Any) -> None:
            """Nothing: the worker is told what was committed with the next step."""

    return PilotfishWorker


def _check(server_args: Any) -> None:
    """ValueError where SGLang's options do not go together with this."""
    options = Options()
    for name, what in (("pp_size", "pipeline parallelism"), ("attn_dp_size", "DP attention")):
        if int(getattr(server_args, name, 1) or 1) > 1:
            raise ValueError(f"{name} is {getattr(server_args, name)}: Pilotfish drafts without {what}")
    page_size, backend = getattr(server_args, "page_size", None) or 1, getattr(server_args, "attention_backend", None)
    if options.trees and page_size > 1 and backend != "flashinfer":
        raise ValueError(f"PILOTFISH_TREES is 1 and page_size is {page_size}: of SGLang's attention backends flashinfer alone verifies trees "
                         f"with pages, and attention_backend is {backend}")
    n_tokens = server_args.speculative_num_draft_tokens
    if n_tokens is not None and not 2 <= n_tokens <= MOST_DRAFTED + 1:
        raise ValueError(f"speculative_num_draft_tokens is {n_tokens}, expected 2 to {MOST_DRAFTED + 1}: the last committed token and "
                         "the proposal")


def make_algorithm(base: type, ngram: Any) -> type:
    """The registered algorithm's class: what SGLang asks of it is answered as NGRAM does, so that it takes the same branches."""

    class Algorithm(base):   # type: ignore[misc, valid-type, unused-ignore]
        def handle_server_args(self, server_args: Any) -> None:
            _check(server_args)
            if server_args.speculative_num_draft_tokens is None:
                server_args.speculative_num_draft_tokens = _DEFAULT_TOKENS
            if server_args.max_running_requests is None:
                server_args.max_running_requests = _DEFAULT_REQUESTS
            n_drafted = server_args.speculative_num_draft_tokens - 1
            # The most siblings and levels, by which SGLang sizes its memory; their product is what a step writes.
            server_args.speculative_eagle_topk, server_args.speculative_num_steps = (n_drafted, 1) if Options().trees else (1, n_drafted)
            server_args.enable_mixed_chunk = False
            if server_args.device == "cpu":
                server_args.disable_overlap_schedule = True

    def as_ngram(name: str) -> Any:
        return lambda self, *arguments, **options: getattr(ngram, name)(*arguments, **options)

    for name in vars(type(ngram)):
        if not name.startswith("_") and name not in _OWN and callable(getattr(ngram, name)):
            setattr(Algorithm, name, as_ngram(name))
    return Algorithm


def register() -> None:
    """Called by SGLang at its start, in each process."""
    from sglang.srt.speculative.spec_info import CustomSpecAlgo, SpeculativeAlgorithm

    algorithm = make_algorithm(CustomSpecAlgo, SpeculativeAlgorithm.NGRAM)

    def worker(server_args: Any) -> type:
        from sglang.srt.speculative import ngram_worker

        return make_worker(ngram_worker, Options())

    SpeculativeAlgorithm.register(NAME, supports_overlap=True, validate_server_args=_check, spec_class=algorithm)(worker)
