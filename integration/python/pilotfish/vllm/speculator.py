"""The speculator for vLLM's V2 model runner (plugin.py). Not run on a GPU; its parts are tested on CPU tensors.

The runner keeps all committed tokens on the device. A step copies the last few of each row to the host, which waits for the
device once; the rest of a text is kept here, and read from the device only when a text is new. Draft distributions are not
given to vLLM: tokens are verified as one-hot, which is exact at any temperature.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from vllm.v1.worker.gpu.spec_decode.speculator import BaseSpeculator

from ..client import DraftClient
from ..error_guard import ErrorGuard
from ..rows import Row
from ..worker import Worker
from .options import Options
from .proposer import is_output_rank


class Speculator(BaseSpeculator):
    supports_mm_inputs = False
    draft_logits = None

    def __init__(self, vllm_config: Any, device: torch.device, req_states: Any) -> None:
        self.options = Options(vllm_config)
        self.vllm_config, self.device, self.req_states = vllm_config, device, req_states
        self.speculative_config = vllm_config.speculative_config
        self.num_speculative_steps = self.options.max_draft
        # Batch-ordered, as the runner expects it: [max_num_reqs, num_speculative_tokens].
        self.drafts = torch.zeros((self.options.max_rows, self.options.max_draft), dtype=torch.int64, device=device)
        self.client: Optional[DraftClient] = None
        self.worker: Optional[Worker] = None
        if is_output_rank():
            self.client, self.worker = self.options.connect()
        self._texts: dict[str, list[int]] = {}
        self._errors = ErrorGuard()

    def init_cudagraph_manager(self, cudagraph_mode: Any) -> None:
        """Nothing: no graph is captured."""

    def capture(self) -> None:
        """Nothing: no graph is captured."""

    @torch.inference_mode()   # type: ignore[untyped-decorator, unused-ignore]
    def propose(self, input_batch: Any, attn_metadata: Any, slot_mappings: Any, last_hidden_states: Any, aux_hidden_states: Any,
                num_sampled: torch.Tensor, num_rejected: torch.Tensor, last_sampled: torch.Tensor, next_prefill_tokens: Any,
                temperature: Any, seeds: Any, dp_sync_state: Any = None, dummy_run: bool = False,
                skip_attn_for_dummy_run: bool = False, mm_inputs: Any = None, is_profile: bool = False,
                num_speculative_tokens: Optional[int] = None) -> torch.Tensor:
        """The proposals as int64 [num_reqs, num_speculative_tokens] on the device. A short one is filled up with the last token."""
        n = input_batch.num_reqs
        out = self.drafts[:n]
        if dummy_run or is_profile or not n:
            return out
        out.copy_(last_sampled.view(-1)[input_batch.idx_mapping[:n].long()].unsqueeze(1).expand(-1, out.shape[1]))
        if self.client is not None:
            with self._errors:
                self._draft(input_batch, num_sampled, out)
        self._share(out)
        return out

    def _draft(self, input_batch: Any, num_sampled: torch.Tensor, out: torch.Tensor) -> None:
        assert self.client is not None
        texts = self._read(input_batch, num_sampled)
        ended = [key for key in self._texts if key not in self.req_states.req_id_to_index]
        for key in ended:
            del self._texts[key]
        self.client.finish(ended)
        most = self.options.max_draft_of(len(texts))
        rows = [Row(key, tokens, max(0, min(most, self.options.max_length - len(tokens) - 1))) for _, key, tokens in texts]
        drafts = out.cpu()
        for (row, _, _), proposal in zip(texts, self.client.step(rows)):
            drafts[row, :len(proposal.tokens)] = torch.tensor(proposal.tokens, dtype=torch.int64)
        out.copy_(drafts)

    def _read(self, input_batch: Any, num_sampled: torch.Tensor) -> list[tuple[int, str, list[int]]]:
        """Row, request id and committed tokens of each row that sampled: its number of tokens and its last ones in one copy."""
        n, width = input_batch.num_reqs, self.options.max_draft + 1
        index = input_batch.idx_mapping[:n].long()
        all_tokens = self.req_states.all_token_ids.gpu
        lengths = self.req_states.total_len.gpu[index].long()
        places = (lengths.unsqueeze(1) - width + torch.arange(width, device=lengths.device)).clamp_(min=0)
        last = all_tokens[index.unsqueeze(1), places].long()
        host = torch.cat((lengths.unsqueeze(1), num_sampled[:n].long().unsqueeze(1), last), dim=1).cpu()
        texts = []
        for row, (length, sampled, *tail) in enumerate(host.tolist()):
            if sampled <= 0:
                continue
            key = input_batch.req_ids[row]
            known = self._texts.get(key)
            if known is None or not 0 <= length - len(known) <= width or length < width:
                known = self._texts[key] = all_tokens[index[row], :length].tolist()
            else:
                known += tail[width - (length - len(known)):] if length > len(known) else []
            texts.append((row, key, known))
        return texts

    def _share(self, out: torch.Tensor) -> None:
        """All tensor parallel ranks verify the same tokens: those of the first."""
        try:
            from vllm.distributed import get_tp_group

            group = get_tp_group()
        except Exception:   # no such groups: one rank
            return
        if group.world_size > 1:
            group.broadcast(out, src=0)
