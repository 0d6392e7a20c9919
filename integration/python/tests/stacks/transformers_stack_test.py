"""pilotfish.transformers with the real transformers, the bundled pair and the built worker.

Run as: transformers_stack_test.py BINARY [unittest's arguments], in a Python that has torch, transformers, grpcio and protobuf.
"""

import logging
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import package_path  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from command_line import Pilotfish  # noqa: E402
from pilotfish.transformers import attach  # noqa: E402
from worker_faults import WorkerFaults  # noqa: E402

MODELS = package_path.ROOT / "models"
N_NEW = 96
N_PROMPTS = 8
torch.set_num_threads(1)    # the worker has another core
logging.getLogger("pilotfish").addHandler(logging.NullHandler())


class TransformersTest(WorkerFaults, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        cls.root, cls.draft = Path(cls.folder.name), MODELS / "draft"
        cls.pilotfish = Pilotfish(os.environ["PILOTFISH_BINARY"], cls.root)
        cls.tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(MODELS / "target" / "tokenizer.json"))
        cls.model = transformers.AutoModelForCausalLM.from_pretrained(str(MODELS / "target"), dtype=torch.float32).eval()
        prompts = (MODELS / "prompts.txt").read_text().splitlines()[:N_PROMPTS]
        cls.prompts = [torch.tensor([cls.tokenizer(p)["input_ids"]]) for p in prompts]
        cls.plain_s = time.perf_counter()
        cls.plain = [cls.generate(p) for p in cls.prompts]
        cls.plain_s = time.perf_counter() - cls.plain_s

    @classmethod
    def generate(cls, prompt, **options):
        options = {"max_new_tokens": N_NEW, "do_sample": False, "pad_token_id": 0, **options}
        return cls.model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)[0].tolist()

    def attach(self, **options):
        attached = attach(self.model, draft=MODELS / "draft", **{"threads": 1, "wait_s": 2.0, **options})
        self.addCleanup(attached.detach)
        self.assertTrue(attached.client.wait_ready(60.0))
        return attached

    def drafted_by(self, address):
        attached = attach(self.model, address, wait_s=2.0)
        self.addCleanup(attached.detach)
        return attached.client, lambda: self.assertEqual([self.generate(p) for p in self.prompts[:3]], self.plain[:3])

    def socket(self, name):
        return f"unix:{self.root}/{name}.sock"

    def test_greedy_texts_are_those_of_plain_generate(self):
        attached = self.attach()
        began = time.perf_counter()
        texts = [self.generate(p) for p in self.prompts]
        seconds = time.perf_counter() - began
        figures = attached.client.figures
        same = sum(a == b for a, b in zip(texts, self.plain))
        print(f"transformers {transformers.__version__}: same text {same} of {len(texts)}, acceptance "
              f"{figures['accepted'] / figures['proposed']:.3f}, x {self.plain_s / seconds:.2f} plain; {figures}", file=sys.stderr)
        self.assertEqual(texts, self.plain)
        self.assertGreater(figures["accepted"], len(texts) * N_NEW // 5)
        self.assertEqual(figures["opens"], len(texts))

    def test_a_text_ends_where_the_plain_one_ends(self):
        ends = sorted({text[len(p[0]) + 20] for text, p in zip(self.plain, self.prompts)})
        plain = [self.generate(p, eos_token_id=ends) for p in self.prompts]
        self.assertTrue(any(len(text) < len(p[0]) + N_NEW for text, p in zip(plain, self.prompts)))
        self.attach(max_draft=8)
        self.assertEqual([self.generate(p, eos_token_id=ends) for p in self.prompts], plain)
        for n in (1, 2, 3, 5):
            self.assertEqual(self.generate(self.prompts[0], max_new_tokens=n), self.plain[0][:len(self.prompts[0][0]) + n])

    def test_sampled_tokens_have_the_distribution_of_the_target(self):
        prompt, top_k, n = self.prompts[0], 4, 500
        with torch.no_grad():
            logits, ids = self.model(prompt).logits[0, -1].topk(top_k)
        expected = dict(zip(ids.tolist(), (logits.softmax(-1) * n).tolist()))
        attached = self.attach(max_draft=2)
        torch.manual_seed(1)
        found = dict.fromkeys(expected, 0)
        for _ in range(n):
            found[self.generate(prompt, do_sample=True, top_k=top_k, max_new_tokens=2)[len(prompt[0])]] += 1
        distance = sum((found[i] - expected[i]) ** 2 / expected[i] for i in expected)
        print(f"sampled: {found}, expected {expected}, chi-square {distance:.1f}, accepted {attached.client.figures['accepted']}",
              file=sys.stderr)
        self.assertLess(distance, 21.1)     # 3 degrees of freedom, one in 10,000
        self.assertGreater(attached.client.figures["proposed"], n // 2)

    def test_what_candidates_cannot_serve_runs_plainly_with_one_warning(self):
        attached = self.attach()
        with self.assertLogs("pilotfish", logging.WARNING) as logged:
            pair = torch.cat((self.prompts[0][:, :4], self.prompts[1][:, :4]))
            self.model.generate(pair, attention_mask=torch.ones_like(pair), max_new_tokens=4, do_sample=False, pad_token_id=0)
            self.generate(self.prompts[0], max_new_tokens=4, num_beams=2)
        self.assertEqual(len(logged.output), 1, logged.output)
        self.assertEqual(attached.client.figures["steps"], 0)

    def test_a_worker_of_the_adapter_that_is_killed_changes_no_text(self):
        attached = self.attach(wait_s=0.05)
        os.kill(attached._worker.pid, 9)
        self.assertEqual([self.generate(p) for p in self.prompts[:3]], self.plain[:3])

    def test_detach_gives_the_model_back(self):
        original = self.model.generate
        attached = self.attach()
        with self.assertRaisesRegex(ValueError, "already"):
            attach(self.model, "unix:/tmp/another.sock")
        attached.detach()
        self.assertEqual(self.model.generate, original)
        self.assertNotIn("_get_candidate_generator", vars(self.model))


if __name__ == "__main__":
    os.environ["PILOTFISH_BINARY"] = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
