"""pilotfish.tensorrt_llm against the built worker. TensorRT-LLM itself needs a GPU: here a module with the names that the adapter uses
stands for it, written after its sources (releases 1.0 to 1.2), and an engine that verifies as its sampler does.

Run as: tensorrt_llm_test.py BINARY [unittest's arguments]
"""

import abc
import pickle
import queue
import sys
import threading
import types
from unittest import mock

import package_path  # noqa: F401
import tiny_llama
from cli_case import PROMPT, Case, main
from worker_faults import WorkerFaults

N_NEW = 60
GENEROUS_S = 10.0


def stand_in(base, mpi_comm=None, mpi_disabled=lambda: False):
    """Modules that `import tensorrt_llm...` finds; `base` is their Drafter."""
    names = ("tensorrt_llm", "tensorrt_llm._torch", "tensorrt_llm._torch.speculative", "tensorrt_llm._torch.speculative.drafter",
             "tensorrt_llm._utils", "tensorrt_llm._torch.pyexecutor", "tensorrt_llm._torch.pyexecutor.resource_manager")
    modules = {name: types.ModuleType(name) for name in names}
    modules[names[3]].Drafter = base
    modules[names[4]].mpi_comm, modules[names[4]].mpi_disabled = mpi_comm, mpi_disabled
    modules[names[6]].ResourceManagerType = types.SimpleNamespace(KV_CACHE_MANAGER="KV_CACHE_MANAGER")
    modules["tensorrt_llm"]._utils = modules[names[4]]
    sys.modules.update(modules)
    sys.modules.pop("pilotfish.tensorrt_llm", None)


def resources(rank=0, tp_size=1, world_size=None, enable_attention_dp=False, tp_group_pg=None):
    """A ResourceManager, whose KVCacheManager has the mapping of this process."""
    mapping = types.SimpleNamespace(world_size=world_size or tp_size, tp_size=tp_size, tp_rank=rank, tp_group=list(range(tp_size)),
                                    enable_attention_dp=enable_attention_dp, tp_group_pg=tp_group_pg)
    managers = {"KV_CACHE_MANAGER": types.SimpleNamespace(mapping=mapping)}
    return types.SimpleNamespace(get_resource_manager=managers.get)


class Communicator:
    """What is used of mpi4py's, for a rank that is a thread."""

    def __init__(self, rank, channel):
        self._rank, self._channel = rank, channel
        self.group = types.SimpleNamespace(Incl=list)

    def Create_group(self, ranks):
        assert ranks == [0, 1]
        return self

    def Get_rank(self):
        return self._rank

    def Bcast(self, numbers, root):
        if self._rank == root:
            self._channel.put(bytes(numbers))
        else:
            memoryview(numbers).cast("B")[:] = self._channel.get(timeout=60.0)


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


def make_drafter(address, model, **options):
    """As it comes to a process that runs the model."""
    from pilotfish.tensorrt_llm import PilotfishDrafter
    return pickle.loads(pickle.dumps(PilotfishDrafter(address, **{"max_draft_len": 4, "tokenizer": model, "n_ids": tiny_llama.VOCAB_SIZE,
                                                                  "wait_s": GENEROUS_S, **options})))


def run_engine(drafter, prompts, texts, resource_manager, pads=False):
    """The requests when all are over, and the drafts of each step."""
    requests, seen = [Request(i, *pair) for i, pair in enumerate(zip(prompts, texts))], []
    while any(not r.is_over for r in requests):
        batch = types.SimpleNamespace(generation_requests=[r for r in requests if not r.is_over], context_requests=[])
        drafter.prepare_draft_tokens(batch, resource_manager)
        seen.append([list(r.py_draft_tokens) for r in batch.generation_requests])
        for r in batch.generation_requests:
            assert len(r.get_tokens(0)) + len(r.py_draft_tokens) + 1 <= r.py_orig_prompt_len + N_NEW
        if pads:
            drafter.pad_draft_tokens_for_cuda_graph(batch)
        for r in batch.generation_requests:
            r.forward()
    return requests, seen


class Texts(Case):
    """Three prompts, and the target's texts behind them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.prompts = [cls.pilotfish.run("tokenize", "-m", cls.target, "-p", PROMPT + " " * i, "--json").json["tokens"] for i in range(3)]
        cls.texts = [cls.pilotfish.run("generate", "-m", cls.target, "--tokens", ",".join(map(str, ids)), "-n", N_NEW, "--ignore-eos",
                                       "--json").json["tokens"] for ids in cls.prompts]

    def worker(self, name):
        server = self.pilotfish.serve("worker", self.target, self.socket(name), "--threads", "1")   # the target itself: all is accepted
        self.addCleanup(server.end)
        return server


class TensorrtLlm(WorkerFaults, Texts):
    def drafter(self, address, base=DrafterOf12, **options):
        stand_in(base)
        drafter = make_drafter(address, self.target, **options)
        self.addCleanup(drafter.shutdown)
        return drafter

    def run_engine(self, drafter, pads=False, resource_manager=resources()):
        requests, _ = run_engine(drafter, self.prompts, self.texts, resource_manager, pads)
        self.assertEqual([r.new_tokens for r in requests], self.texts)
        return requests

    def drafted_by(self, address):
        drafter = self.drafter(address)
        return drafter.client, lambda: self.run_engine(drafter)

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

    def run_ranks(self, address):
        """The drafters of two ranks, and what each found: the requests and the drafts of each step."""
        channel, here = queue.Queue(), threading.local()
        stand_in(DrafterOf12, mpi_comm=lambda: here.communicator)
        drafters, found = [make_drafter(address, self.target) for _ in range(2)], [None, None]
        for drafter in drafters:
            self.addCleanup(drafter.shutdown)

        def run(rank):
            here.communicator = Communicator(rank, channel)
            found[rank] = run_engine(drafters[rank], self.prompts, self.texts, resources(rank, 2))

        threads = [threading.Thread(target=run, args=[rank]) for rank in range(2)]
        self.assertTrue(drafters[0].client.wait_ready(GENEROUS_S))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for requests, _ in found:
            self.assertEqual([r.new_tokens for r in requests], self.texts)
        self.assertEqual(found[0][1], found[1][1])
        return drafters, found

    def test_the_first_rank_asks_and_all_ranks_verify_the_same_drafts(self):
        drafters, found = self.run_ranks(self.worker("ranks").address)
        self.assertIsNone(drafters[1]._client)
        self.assertGreater(drafters[0].client.figures["accepted"], 0)
        for r in found[1][0]:
            self.assertEqual(r.n_accepted, r.n_drafted)
            self.assertLessEqual(r.n_passes, N_NEW // 5 + 1)

    def test_an_error_of_the_first_rank_keeps_no_rank_waiting(self):
        with mock.patch("pilotfish.client.DraftClient.step", side_effect=RuntimeError("broken")), \
                self.assertLogs("pilotfish", "ERROR") as logged:
            _, found = self.run_ranks(self.worker("broken").address)
        self.assertEqual(len(logged.output), 1)
        self.assertEqual(sum(r.n_drafted for r in found[1][0]), 0)

    def test_with_attention_data_parallelism_each_rank_asks_for_its_own_requests(self):
        drafter = self.drafter(self.worker("apart").address)
        self.assertTrue(drafter.client.wait_ready(GENEROUS_S))
        for r in self.run_engine(drafter, resource_manager=resources(1, 2, enable_attention_dp=True)):
            self.assertLessEqual(r.n_passes, N_NEW // 5 + 1)

    def test_ranks_beyond_a_tensor_parallel_group_decode_plainly_and_one_warning_says_why(self):
        drafter = self.drafter(self.worker("beyond").address)
        with self.assertLogs("pilotfish", "ERROR") as logged:
            requests = self.run_engine(drafter, resource_manager=resources(0, 2, world_size=4))
        self.assertEqual(sum(r.n_drafted for r in requests), 0)
        self.assertEqual(len(logged.output), 1)
        self.assertIn("4 processes run the model, 2 of them in a tensor-parallel group", logged.output[0])

    def test_a_length_out_of_range_is_named(self):
        with self.assertRaisesRegex(ValueError, "max_draft_len is 65, expected 1 to 64"):
            self.drafter(self.socket("none"), max_draft_len=65)


if __name__ == "__main__":
    main()
