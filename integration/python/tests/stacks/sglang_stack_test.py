"""pilotfish.sglang against the released wheel and the built worker. Without a GPU the wheel's registry, plug-ins and n-gram worker import
once the modules are replaced that need its kernels; a target that answers as its verification does stands for the engine.

Run as: sglang_stack_test.py BINARY [unittest's arguments]
"""

import array
import multiprocessing
import pathlib
import sys
import types
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import package_path  # noqa: E402, F401
import tiny_llama  # noqa: E402
import torch  # noqa: E402
from cli_case import PROMPT, Case, main  # noqa: E402
from scripted_worker import N_IDS, ScriptedWorker, chain, tree  # noqa: E402
from worker_faults import WorkerFaults  # noqa: E402
from sglang.srt.arg_groups.speculative_hook import handle_speculative_decoding, resolving_view  # noqa: E402
from sglang.srt.plugins import load_plugins  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
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


def group_of(rank, n_ranks):
    """A tensor-parallel group as SGLang's GroupCoordinator shows it."""
    return types.SimpleNamespace(world_size=n_ranks, rank_in_group=rank, ranks=list(range(n_ranks)),
                                 cpu_group=torch.distributed.group.WORLD if n_ranks > 1 else None)


def make_worker(address, model, overlap, wait_ms=GENEROUS_MS, trees=False, group=group_of(0, 1), n_tokens=K, n_ids=tiny_llama.VOCAB_SIZE):
    options = adapter.Options({"PILOTFISH_ADDRESS": address, "PILOTFISH_WAIT_MS": wait_ms, "PILOTFISH_TREES": str(int(trees))})
    spec = mock.MagicMock(speculative_num_draft_tokens=n_tokens, speculative_ngram_external_corpus_path=None)
    bags = {"get_spec": lambda: spec, "get_device": lambda: types.SimpleNamespace(device="cpu"),
            "get_schedule": lambda: types.SimpleNamespace(disable_overlap_schedule=not overlap, page_size=1)}
    target = types.SimpleNamespace(model_runner=types.SimpleNamespace(model_config=types.SimpleNamespace(vocab_size=n_ids)))
    arguments = types.SimpleNamespace(tokenizer_path=model, model_path=model)
    with mock.patch.multiple(ngram_worker, **bags), mock.patch.object(adapter, "tensor_parallel_group", lambda: group):
        return adapter.make_worker(ngram_worker, options)(arguments, 0, 0, target)


def run_engine(worker, prompts, texts, overlap, grammar=False):
    """The requests when all are over, and the tokens of each step."""
    n = worker.draft_token_num
    requests = [Request(f"request {i}", *pair) for i, pair in enumerate(zip(prompts, texts))]
    before, seen = set(), []
    while any(not r.is_over for r in requests):
        rows = [r for r in requests if not r.is_over]
        if not overlap or grammar:
            for r in rows:
                r.write()
        accepted = torch.zeros((len(rows), n), dtype=torch.int32)
        for out, r in zip(accepted, rows):
            out[:len(r.new)] = torch.tensor(r.new, dtype=torch.int32)
        batch = types.SimpleNamespace(reqs=rows, grammar_needs_sync=lambda: grammar, spec_info=types.SimpleNamespace(
            accept_tokens=accepted.flatten(), accept_lens=torch.tensor([len(r.new) for r in rows])))
        tokens, mask = worker._prepare_draft_tokens(batch)
        seen.append(tokens.tolist())
        assert (tokens.dtype, tokens.shape, mask.dtype, mask.shape) == ("int64", (len(rows) * n,), "bool", (len(rows) * n * n,))
        links = ngram_worker._derive_tree_links(mask, len(rows), n)    # SGLang's own reading of a mask
        for r, row, *ways in zip(rows, tokens.reshape(-1, n).tolist(), *(way.tolist() for way in links)):
            assert row[0] == r.text[r.n_done - 1]
            if overlap and not grammar:
                r.write()
            r.verify(row, *ways)
        worker._update_ngram_corpus(batch)
        now = {r.rid for r in rows}
        worker.ngram_corpus.erase_match_state(list(before - now))
        before = now
    for r in requests:
        r.write()
    return requests, seen


def run_rank(rank, n_ranks, store, address, model, prompts, texts, found):
    """A process of a tensor-parallel group, with its own engine and requests."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=n_ranks)
    worker = make_worker(address, model, True, group=group_of(rank, n_ranks))
    client = worker.ngram_corpus._client
    if client is not None:
        client.wait_ready(10.0)
    requests, seen = run_engine(worker, prompts, texts, True)
    found.put((rank, client is not None, seen, [(list(r.output_ids), r.n_rounds, r.n_accepted) for r in requests]))
    if client is not None:
        client.close()
    torch.distributed.destroy_process_group()


class Sglang(WorkerFaults, Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        load_plugins()    # by the entry point of the installed package
        cls.prompts = [cls.pilotfish.run("tokenize", "-m", cls.target, "-p", PROMPT + " " * i, "--json").json["tokens"] for i in range(3)]
        cls.texts = [cls.pilotfish.run("generate", "-m", cls.target, "--tokens", ",".join(map(str, ids)), "-n", N_NEW, "--ignore-eos",
                                       "--json").json["tokens"] for ids in cls.prompts]

    def make_worker(self, address, overlap, **options):
        worker = make_worker(address, str(self.target), overlap, **options)
        self.addCleanup(worker.ngram_corpus._client.close)
        return worker

    def run_engine(self, worker, overlap, grammar=False):
        requests, _ = run_engine(worker, self.prompts, self.texts, overlap, grammar)
        self.assertEqual([list(r.output_ids) for r in requests], self.texts)
        return requests

    def drafted_by(self, address):
        worker = self.make_worker(address, True)
        return worker.ngram_corpus._client, lambda: self.run_engine(worker, True)

    def test_sglang_finds_the_algorithm_and_asks_it_as_its_ngram(self):
        ours, ngram = SpeculativeAlgorithm.from_string("PILOTFISH"), SpeculativeAlgorithm.NGRAM
        asked = [name for name in vars(SpeculativeAlgorithm) if name.startswith(("is_", "supports_", "has_", "need_", "carries_"))]
        self.assertGreater(len(asked), 15)
        self.assertEqual({name: getattr(ours, name)() for name in asked}, {name: getattr(ngram, name)() for name in asked})
        self.assertTrue(ours.supports_overlap)
        self.assertTrue(callable(ours.create_future_map))
        with mock.patch.dict("os.environ", {"PILOTFISH_ADDRESS": "unix:/nowhere"}):
            self.assertTrue(issubclass(ours.factory(None), ngram_worker.NGRAMWorker))

    def resolved(self, **options):
        """SGLang's own arguments after its own resolution of speculative decoding."""
        arguments = ServerArgs(model_path=str(self.target), speculative_algorithm="PILOTFISH", **{"device": "cpu", **options})
        handle_speculative_decoding(arguments)
        return resolving_view(arguments)

    def test_options_are_filled_in_and_what_does_not_go_together_is_named(self):
        with self.assertRaisesRegex(ValueError, "PILOTFISH_ADDRESS is not set"):
            self.resolved()
        with mock.patch.dict("os.environ", {"PILOTFISH_ADDRESS": "unix:/nowhere"}):
            found = self.resolved(tp_size=2)
            self.assertEqual((found.speculative_num_draft_tokens, found.speculative_num_steps, found.speculative_eagle_topk), (5, 4, 1))
            self.assertEqual((found.max_running_requests, found.enable_mixed_chunk, found.disable_overlap_schedule), (48, False, True))
            found = self.resolved(device="cuda", max_running_requests=3, speculative_num_draft_tokens=9)
            self.assertEqual((found.max_running_requests, found.disable_overlap_schedule, found.speculative_num_steps), (3, False, 8))
            for options, says in (({"pp_size": 2}, "pp_size is 2: Pilotfish drafts without pipeline parallelism"),
                                  ({"attn_dp_size": 2, "tp_size": 2}, "attn_dp_size is 2: Pilotfish drafts without DP attention"),
                                  ({"speculative_num_draft_tokens": 66}, "speculative_num_draft_tokens is 66, expected 2 to 65")):
                with self.subTest(options), self.assertRaisesRegex(ValueError, says):
                    self.resolved(**options)
        with self.assertRaisesRegex(ValueError, "PILOTFISH_WAIT_MS is 'soon', expected 0 to 60000"):
            adapter.Options({"PILOTFISH_ADDRESS": "unix:/nowhere", "PILOTFISH_WAIT_MS": "soon"})

    def test_trees_are_an_option_that_sizes_the_memory_of_a_step(self):
        with mock.patch.dict("os.environ", {"PILOTFISH_ADDRESS": "unix:/nowhere", "PILOTFISH_TREES": "1"}):
            for options in ({}, {"page_size": 16, "attention_backend": "flashinfer"}):
                found = self.resolved(speculative_num_draft_tokens=8, **options)
                self.assertEqual((found.speculative_num_steps, found.speculative_eagle_topk), (1, 7))
            with self.assertRaisesRegex(ValueError, "page_size is 16: .* attention_backend is fa3"):
                self.resolved(page_size=16, attention_backend="fa3")
        with self.assertRaisesRegex(ValueError, "PILOTFISH_TREES is 'yes', expected 0 or 1"):
            adapter.Options({"PILOTFISH_ADDRESS": "unix:/nowhere", "PILOTFISH_TREES": "yes"})

    def test_a_tree_of_the_worker_is_verified_along_the_path_that_the_target_takes(self):
        prompts = [[1, 2, 3], [9, 8]]
        texts = [chain(prompt, N_NEW) for prompt in prompts]
        n_nodes = 6      # three levels: the chain, with another token before each of its tokens
        with ScriptedWorker(self.socket("trees"), length=n_nodes) as scripted:
            for overlap in (False, True):
                with self.subTest(overlap=overlap):
                    worker = make_worker(self.socket("trees"), None, overlap, trees=True, n_tokens=n_nodes + 2, n_ids=N_IDS)
                    self.addCleanup(worker.ngram_corpus._client.close)
                    self.assertTrue(worker.ngram_corpus._client.wait_ready(10.0))
                    requests, seen = run_engine(worker, prompts, texts, overlap)
                    self.assertEqual([list(r.output_ids) for r in requests], texts)
                    first = prompts[0] + texts[0][:1]
                    self.assertEqual(seen[0][:n_nodes + 2], [first[-1], *tree(first, n_nodes)[0], first[-1]])
                    for r in requests:      # a level more than the tree has is committed a round
                        self.assertLessEqual(r.n_rounds, (N_NEW - 1) // 4 + 1)
                        self.assertGreaterEqual(r.n_accepted, (N_NEW - 1) * 3 // 4 - 3)
            self.assertEqual(sum(len(script.trees) for script in scripted.scripts), 4)

    def test_a_worker_with_a_model_that_may_send_trees_leaves_the_text_as_it_is(self):
        """Whether it sends some depends on what it measures."""
        with self.pilotfish.serve("worker", self.draft, self.socket("may"), "--threads", "1") as server:
            worker = self.make_worker(server.address, True, trees=True, n_tokens=13)
            self.assertTrue(worker.ngram_corpus._client.wait_ready(10.0))
            self.run_engine(worker, True)
            self.assertGreater(worker.ngram_corpus._client.figures["asked"], 0)

    def test_a_mask_has_each_place_see_its_own_way_alone(self):
        mask = adapter.visible_places(adapter.np.array([[0, 0, 0, 2, 2], [0, 0, 1, 2, 3]]))
        self.assertEqual(mask[0].astype(int).tolist(), [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 1, 0], [1, 0, 1, 0, 1]])
        self.assertTrue((mask[1] == adapter.np.tri(5)).all())

    def test_the_first_rank_asks_and_all_ranks_verify_the_same_tokens(self):
        context = multiprocessing.get_context("spawn")
        with self.pilotfish.serve("worker", self.target, self.socket("ranks"), "--threads", "1") as server:
            found = context.Queue()
            processes = [context.Process(target=run_rank, daemon=True, args=(
                rank, 2, f"{self.root}/store", server.address, str(self.target), self.prompts, self.texts, found)) for rank in range(2)]
            for process in processes:
                process.start()
            answers = dict((rank, rest) for rank, *rest in (found.get(timeout=120) for _ in processes))
            for process in processes:
                process.join(60)
        self.assertEqual([answers[rank][0] for rank in (0, 1)], [True, False])
        self.assertEqual(answers[0][1:], answers[1][1:])
        for text, (output, n_rounds, n_accepted) in zip(self.texts, answers[1][2]):
            self.assertEqual(output, text)
            self.assertGreater(n_accepted, 0)

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

    def test_an_error_leaves_the_text_as_it_is(self):
        worker = self.make_worker(self.socket("none"), True)
        worker.ngram_corpus._client.step = mock.Mock(side_effect=RuntimeError("broken"))
        with self.assertLogs("pilotfish", "ERROR") as logged:
            self.run_engine(worker, True)
        self.assertEqual(len(logged.output), 1)

    def test_requests_that_left_are_finished_at_the_worker(self):
        client = mock.MagicMock()
        client.step.side_effect = lambda rows: [Proposal([]) for _ in rows]
        drafts = adapter.Drafts(client, K)
        drafts.prepare(2, lambda: [adapter.Row("a", [1, 2]), adapter.Row("b", [3])])
        drafts.erase_match_state(["a"])
        drafts.reset()
        with self.assertRaisesRegex(ValueError, "corpus news is not loaded: the drafts are those of a Pilotfish worker"):
            drafts.load_external_corpus_named("news", [])
        self.assertEqual([call.args[0] for call in client.finish.call_args_list], [["a"], ["b"]])


if __name__ == "__main__":
    main()
