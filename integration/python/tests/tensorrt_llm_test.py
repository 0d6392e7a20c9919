"""pilotfish.tensorrt_llm against the built worker. TensorRT-LLM itself needs a GPU: here a module with the names that the adapter uses
stands for it, written after its sources (releases 1.0 to 1.2), and an engine that verifies as its sampler does.

Run as: tensorrt_llm_test.py BINARY [unittest's arguments]
"""

import abc
import pickle
import sys
import types

import package_path  # noqa: F401
import tiny_llama
from cli_case import PROMPT, Case, main
from worker_faults import WorkerFaults

N_NEW = 60
GENEROUS_S = 10.0


def stand_in(base):
    """Modules that `import tensorrt_llm...` finds; `base` is their Drafter."""
    names = ("tensorrt_llm", "tensorrt_llm._torch", "tensorrt_llm._torch.speculative", "tensorrt_llm._torch.speculative.drafter",
             "tensorrt_llm._utils")
    modules = {name: types.ModuleType(name) for name in names}
    modules[names[3]].Drafter = base
    modules[names[4]].mpi_world_size = lambda: 1
    sys.modules.update(modules)
    sys.modules.pop("pilotfish.tensorrt_llm", None)


class DrafterOf10(abc.ABC):
    def __init__(self, max_concurrency=None):
        self.max_concurrency = max_concurrency

    @abc.abstractmethod
    def prepare_draft_tokens(self, scheduled_requests, resource_manager=None):
        raise NotImplementedError

    def pad_draft_tokens_for_cuda_graph(self, scheduled_requests):
        for request in scheduled_requests.generation_requests:
            request.py_draft_tokens.extend(0 for _ in range(self.max_draft_len - len(request.py_draft_tokens)))


class DrafterOf12(DrafterOf10):
    def __init__(self, max_draft_len, max_total_draft_tokens, max_concurrency=None, draft_len_schedule=None):
        super().__init__(max_concurrency)
        self.max_draft_len, self.max_total_draft_tokens = max_draft_len, max_total_draft_tokens


class Request:
    """An LlmRequest: its prompt is read, and a token is sampled."""

    def __init__(self, number, prompt, text):
        self.py_request_id, self.py_orig_prompt_len, self.py_max_new_tokens = number, len(prompt), len(text)
        self.py_draft_tokens = None
        self._tokens, self._text = [*prompt, text[0]], text
        self.n_drafted = self.n_accepted = self.n_passes = 0

    def get_tokens(self, beam):
        return self._tokens

    @property
    def is_over(self):
        return len(self._tokens) == self.py_orig_prompt_len + self.py_max_new_tokens

    def forward(self):
        """Keeps drafts as far as they are what the target samples, and one token more."""
        self.n_passes += 1
        self.n_drafted += len(self.py_draft_tokens)
        for draft in [*self.py_draft_tokens, None]:
            token = self._text[len(self._tokens) - self.py_orig_prompt_len]
            self._tokens.append(token)
            if draft != token or self.is_over:
                break
            self.n_accepted += 1

    @property
    def new_tokens(self):
        return self._tokens[self.py_orig_prompt_len:]


class TensorrtLlm(WorkerFaults, Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prompts = [cls.pilotfish.run("tokenize", "-m", cls.target, "-p", PROMPT + " " * i, "--json").json["tokens"] for i in range(3)]
        cls.texts = [cls.pilotfish.run("generate", "-m", cls.target, "--tokens", ",".join(map(str, ids)), "-n", N_NEW, "--ignore-eos",
                                       "--json").json["tokens"] for ids in cls.prompts]

    def drafter(self, address, base=DrafterOf12, **options):
        stand_in(base)
        from pilotfish.tensorrt_llm import PilotfishDrafter
        drafter = PilotfishDrafter(address, **{"max_draft_len": 4, "tokenizer": self.target, "n_ids": tiny_llama.VOCAB_SIZE,
                                               "wait_s": GENEROUS_S, **options})
        drafter = pickle.loads(pickle.dumps(drafter))   # as it comes to the process that runs the model
        self.addCleanup(drafter.shutdown)
        return drafter

    def run_engine(self, drafter, pads=False):
        requests = [Request(i, *pair) for i, pair in enumerate(zip(self.prompts, self.texts))]
        while any(not r.is_over for r in requests):
            batch = types.SimpleNamespace(generation_requests=[r for r in requests if not r.is_over], context_requests=[])
            drafter.prepare_draft_tokens(batch)
            for r in batch.generation_requests:
                self.assertLessEqual(len(r.get_tokens(0)) + len(r.py_draft_tokens) + 1, r.py_orig_prompt_len + N_NEW)
            if pads:
                drafter.pad_draft_tokens_for_cuda_graph(batch)
            for r in batch.generation_requests:
                r.forward()
        self.assertEqual([r.new_tokens for r in requests], self.texts)
        return requests

    def drafted_by(self, address):
        drafter = self.drafter(address)
        return drafter.client, lambda: self.run_engine(drafter)

    def worker(self, name):
        server = self.pilotfish.serve("worker", self.target, self.socket(name), "--threads", "1")   # the target itself: all is accepted
        self.addCleanup(server.end)
        return server

    def test_drafts_of_a_batch_are_accepted_with_the_base_class_of_each_release(self):
        for base in (DrafterOf10, DrafterOf12):
            with self.subTest(base.__name__):
                worker = self.worker(base.__name__)
                drafter = self.drafter(worker.address, base)
                self.assertTrue(drafter.client.wait_ready(GENEROUS_S))
                requests = self.run_engine(drafter)
                for r in requests:
                    self.assertEqual(r.n_accepted, r.n_drafted)
                    self.assertLessEqual(r.n_passes, N_NEW // 5 + 1)

    def test_padded_drafts_change_no_token(self):
        drafter = self.drafter(self.worker("pads").address)
        self.assertTrue(drafter.client.wait_ready(GENEROUS_S))
        self.run_engine(drafter, pads=True)

    def test_several_processes_decode_plainly_and_one_warning_says_why(self):
        drafter = self.drafter(self.worker("parallel").address)
        sys.modules["tensorrt_llm._utils"].mpi_world_size = lambda: 2
        with self.assertLogs("pilotfish", "ERROR") as logged:
            requests = self.run_engine(drafter)
        self.assertEqual(sum(r.n_drafted for r in requests), 0)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("tensor parallelism is not supported", logged.output[0])

    def test_a_length_out_of_range_is_named(self):
        with self.assertRaisesRegex(ValueError, "max_draft_len is 65, expected 1 to 64"):
            self.drafter(self.socket("none"), max_draft_len=65)


if __name__ == "__main__":
    main()
