"""pilotfish.sglang against the released wheel and the built worker. Without a GPU the wheel's registry, plug-ins and n-gram worker import
once the modules are replaced that need its kernels; a target that answers as its verification does stands for the engine.

Run as: sglang_stack_test.py BINARY [unittest's arguments]
"""

import array
import pathlib
import sys
import types
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import package_path  # noqa: E402, F401
import tiny_llama  # noqa: E402
import torch  # noqa: E402
from cli_case import PROMPT, Case, main  # noqa: E402
from sglang.srt.plugins import load_plugins  # noqa: E402
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402

from pilotfish import sglang as adapter  # noqa: E402
from pilotfish.rows import Proposal  # noqa: E402

N_NEW = 60
K = 5    # tokens of a row
GENEROUS_MS = "10000"
NEED_KERNELS = (
    "sglang.kernels.ops.speculative.cache_locs", "sglang.kernels.ops.speculative.reconstruct_tree", "sglang.srt.layers.logprob_processor",
    "sglang.srt.configs.draft_parallel", "sglang.srt.speculative.ngram_info",
    "sglang.srt.managers.schedule_batch", "sglang.srt.managers.scheduler", "sglang.srt.managers.tp_worker",
    "sglang.srt.model_executor.forward_batch_info", "sglang.srt.observability.req_time_stats", "sglang.srt.speculative.cpp_ngram.ngram_corpus",
    "sglang.srt.speculative.eagle_utils", "sglang.srt.speculative.spec_utils", "sglang.srt.utils.async_probe")

with mock.patch.dict(sys.modules, {name: mock.MagicMock(name=name) for name in NEED_KERNELS}):
    from sglang.srt.speculative import ngram_worker


class Request:
    """A Req: its prompt is read, and a token is sampled."""

    def __init__(self, rid, prompt, text):
        self.rid, self.origin_input_ids_unpadded, self.output_ids = rid, array.array("q", prompt), array.array("q")
        self.sampling_params = types.SimpleNamespace(max_new_tokens=len(text))
        self.text = text
        self.new = [text[0]]       # of the last round
        self.n_done = 1
        self.n_accepted = self.n_rounds = 0

    @property
    def is_over(self):
        return self.n_done >= len(self.text)

    def write(self):
        self.output_ids.extend(self.new)
        self.new = []

    def verify(self, tokens, next_token, next_sibling):
        """Follows the tree as far as it has what the target samples, and samples one token more."""
        self.n_rounds += 1
        node, accepted = 0, []
        while self.n_done + len(accepted) < len(self.text):
            accepted.append(self.text[self.n_done + len(accepted)])
            child = next_token[node]
            while child >= 0 and tokens[child] != accepted[-1]:
                child = next_sibling[child]
            if child < 0:
                break
            node = child
            self.n_accepted += 1
        self.new = accepted
        self.n_done += len(accepted)


class Sglang(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        load_plugins()    # by the entry point of the installed package
        cls.prompts = [cls.pilotfish.run("tokenize", "-m", cls.target, "-p", PROMPT + " " * i, "--json").json["tokens"] for i in range(3)]
        cls.texts = [cls.pilotfish.run("generate", "-m", cls.target, "--tokens", ",".join(map(str, ids)), "-n", N_NEW, "--ignore-eos",
                                       "--json").json["tokens"] for ids in cls.prompts]

    def make_worker(self, address, overlap, wait_ms=GENEROUS_MS):
        options = adapter.Options({"PILOTFISH_ADDRESS": address, "PILOTFISH_WAIT_MS": wait_ms})
        spec = mock.MagicMock(speculative_num_draft_tokens=K, speculative_ngram_external_corpus_path=None)
        bags = {"get_spec": lambda: spec, "get_device": lambda: types.SimpleNamespace(device="cpu"),
                "get_schedule": lambda: types.SimpleNamespace(disable_overlap_schedule=not overlap, page_size=1)}
        target = types.SimpleNamespace(model_runner=types.SimpleNamespace(
            model_config=types.SimpleNamespace(vocab_size=tiny_llama.VOCAB_SIZE)))
        arguments = types.SimpleNamespace(tokenizer_path=str(self.target), model_path=str(self.target))
        with mock.patch.multiple(ngram_worker, **bags):
            worker = adapter.make_worker(ngram_worker, options)(arguments, 0, 0, target)
        self.addCleanup(worker.ngram_corpus._client.close)
        return worker

    def run_engine(self, worker, overlap, grammar=False):
        requests = [Request(f"request {i}", *pair) for i, pair in enumerate(zip(self.prompts, self.texts))]
        before = set()
        while any(not r.is_over for r in requests):
            rows = [r for r in requests if not r.is_over]
            if not overlap or grammar:
                for r in rows:
                    r.write()
            accepted = torch.zeros((len(rows), K), dtype=torch.int32)
            for out, r in zip(accepted, rows):
                out[:len(r.new)] = torch.tensor(r.new, dtype=torch.int32)
            batch = types.SimpleNamespace(reqs=rows, grammar_needs_sync=lambda: grammar, spec_info=types.SimpleNamespace(
                accept_tokens=accepted.flatten(), accept_lens=torch.tensor([len(r.new) for r in rows])))
            tokens, mask = worker._prepare_draft_tokens(batch)
            self.assertEqual((tokens.dtype, tokens.shape, mask.dtype, mask.shape), ("int64", (len(rows) * K,), "bool", (len(rows) * K * K,)))
            links = ngram_worker._derive_tree_links(mask, len(rows), K)    # SGLang's own reading of a mask
            for r, row, *ways in zip(rows, tokens.reshape(-1, K).tolist(), *(way.tolist() for way in links)):
                self.assertEqual(row[0], r.text[r.n_done - 1])
                if overlap and not grammar:
                    r.write()
                r.verify(row, *ways)
            worker._update_ngram_corpus(batch)
            now = {r.rid for r in rows}
            worker.ngram_corpus.erase_match_state(list(before - now))
            before = now
        for r in requests:
            r.write()
            self.assertEqual(list(r.output_ids), r.text)
        return requests

    def test_sglang_finds_the_algorithm_and_asks_it_as_its_ngram(self):
        ours, ngram = SpeculativeAlgorithm.from_string("PILOTFISH"), SpeculativeAlgorithm.NGRAM
        asked = [name for name in vars(SpeculativeAlgorithm) if name.startswith(("is_", "supports_", "has_", "need_", "carries_"))]
        self.assertGreater(len(asked), 15)
        self.assertEqual({name: getattr(ours, name)() for name in asked}, {name: getattr(ngram, name)() for name in asked})
        self.assertTrue(ours.supports_overlap)
        self.assertTrue(callable(ours.create_future_map))
        with mock.patch.dict("os.environ", {"PILOTFISH_ADDRESS": "unix:/nowhere"}):
            self.assertTrue(issubclass(ours.factory(None), ngram_worker.NGRAMWorker))

    def test_options_are_filled_in_and_what_does_not_go_together_is_named(self):
        algorithm = SpeculativeAlgorithm.from_string("PILOTFISH")
        arguments = types.SimpleNamespace(speculative_num_draft_tokens=None, max_running_requests=None, device="cpu", tp_size=1, pp_size=1)
        with self.assertRaisesRegex(ValueError, "PILOTFISH_ADDRESS is not set"):
            algorithm.handle_server_args(arguments)
        with mock.patch.dict("os.environ", {"PILOTFISH_ADDRESS": "unix:/nowhere"}):
            algorithm.handle_server_args(arguments)
            self.assertEqual((arguments.speculative_num_draft_tokens, arguments.speculative_num_steps, arguments.speculative_eagle_topk), (5, 4, 1))
            self.assertTrue(arguments.disable_overlap_schedule)
            with self.assertRaisesRegex(ValueError, "tp_size is 2: Pilotfish drafts for one process"):
                algorithm.validate_server_args(types.SimpleNamespace(tp_size=2))
            with self.assertRaisesRegex(ValueError, "speculative_num_draft_tokens is 66, expected 2 to 65"):
                algorithm.validate_server_args(types.SimpleNamespace(speculative_num_draft_tokens=66))
        with self.assertRaisesRegex(ValueError, "PILOTFISH_WAIT_MS is 'soon', expected 0 to 60000"):
            adapter.Options({"PILOTFISH_ADDRESS": "unix:/nowhere", "PILOTFISH_WAIT_MS": "soon"})

    def test_drafts_are_accepted_whether_results_are_written_at_once_or_a_round_later(self):
        for i, (overlap, grammar) in enumerate(((False, False), (True, False), (True, True))):
            with self.subTest(overlap=overlap, grammar=grammar), \
                    self.pilotfish.serve("worker", self.target, self.socket(f"worker{i}"), "--threads", "1") as server:
                worker = self.make_worker(server.address, overlap)    # the target itself: all is accepted
                self.assertTrue(worker.ngram_corpus._client.wait_ready(10.0))
                for r in self.run_engine(worker, overlap, grammar):
                    self.assertLessEqual(r.n_rounds, N_NEW // K + 1)
                figures = worker.ngram_corpus._client.figures
                self.assertEqual(figures["late"], 0, figures)

    def test_an_absent_worker_and_an_error_leave_the_text_as_it_is(self):
        worker = self.make_worker(self.socket("absent"), True, "20")
        self.run_engine(worker, True)
        worker.ngram_corpus._client.step = mock.Mock(side_effect=RuntimeError("broken"))
        with self.assertLogs("pilotfish", "ERROR") as logged:
            self.run_engine(worker, True)
        self.assertEqual(len(logged.output), 1)

    def test_requests_that_left_are_finished_at_the_worker(self):
        client = mock.MagicMock()
        client.step.side_effect = lambda rows: [Proposal([]) for _ in rows]
        drafts = adapter.Drafts(client, K)
        drafts.prepare([adapter.Row("a", [1, 2]), adapter.Row("b", [3])])
        drafts.erase_match_state(["a"])
        drafts.reset()
        with self.assertRaisesRegex(ValueError, "corpus news is not loaded: the drafts are those of a Pilotfish worker"):
            drafts.load_external_corpus_named("news", [])
        self.assertEqual([call.args[0] for call in client.finish.call_args_list], [["a"], ["b"]])


if __name__ == "__main__":
    main()
