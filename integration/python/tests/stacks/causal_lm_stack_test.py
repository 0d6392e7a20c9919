"""AutoModelForCausalLM beside the real transformers, with the bundled pair.

Run as: causal_lm_stack_test.py BINARY [unittest's arguments], in a Python that has torch, transformers and cffi. The library is the one
beside BINARY.
"""

import io
import os
import subprocess
import sys
import threading
import unittest
from contextlib import redirect_stdout
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import tree_paths  # noqa: E402
import real_gguf  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from pilotfish import AutoModelForCausalLM  # noqa: E402
from transformers import StoppingCriteria, StoppingCriteriaList, TextIteratorStreamer, TextStreamer  # noqa: E402

MODELS = tree_paths.ROOT / "models"
N_NEW = 96
N_PROMPTS = 8
NEAR_TIE = 1e-3      # between the two best logits, in float32
torch.set_num_threads(1)
NINE_LINES = """
from pilotfish.transformers import AutoModelForCausalLM
from transformers import AutoTokenizer, TextStreamer
model = AutoModelForCausalLM.from_pretrained(path, load_in_4bit=True, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(path)
inputs = tokenizer(prompt, return_tensors="pt").input_ids
streamer = TextStreamer(tokenizer)
outputs = model.generate(inputs, streamer=streamer, max_new_tokens=30)
"""


class EndsBehind(StoppingCriteria):
    def __init__(self, length):
        self._length = length

    def __call__(self, input_ids, scores, **_):
        return torch.full((input_ids.shape[0],), input_ids.shape[1] >= self._length, dtype=torch.bool)


class PublishedModelTest(unittest.TestCase):
    """SmolLM2-135M-Instruct, a file of others: GGUF, quantised, dequantised by both sides."""

    def test_greedy_texts_are_those_of_transformers(self):
        path = real_gguf.fetch()
        where = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
        real_gguf.split_digits(tokenizer)
        theirs = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
        prompts = [tokenizer(text, return_tensors="pt").input_ids for text in real_gguf.PROMPTS[:6]]
        options = {"max_new_tokens": 40, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        with AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, draft="ngram", threads=1) as ours:
            together = ours.generate([p[0].tolist() for p in prompts], **options)
            for prompt, text in zip(prompts, together):
                expected = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **options)
                self.assertEqual(text[-expected.shape[1]:], expected[0].tolist())


class CausalLMStackTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(str(MODELS / "target"), padding_side="left")
        cls.tokenizer.pad_token_id = 1
        cls.theirs = transformers.AutoModelForCausalLM.from_pretrained(str(MODELS / "target"), dtype=torch.float32).eval()
        cls.ours = AutoModelForCausalLM.from_pretrained(MODELS / "target", dtype=torch.float32, draft=MODELS / "draft", draft_len=4,
                                                        threads=1)
        cls.lines = (MODELS / "prompts.txt").read_text().splitlines()[:N_PROMPTS]
        cls.prompts = [torch.tensor([cls.tokenizer(line)["input_ids"]]) for line in cls.lines]

    def generate(self, model, prompt, **options):
        return model.generate(prompt, **{"attention_mask": torch.ones_like(prompt), "max_new_tokens": N_NEW, "do_sample": False,
                                         "pad_token_id": 1, **options})

    def assert_same_up_to_near_ties(self, ours, theirs):
        """Equal, or the two best logits of transformers lie closer together than NEAR_TIE where they part. True where equal."""
        for i, (a, b) in enumerate(zip(ours[0].tolist(), theirs[0].tolist())):
            if a != b:
                with torch.no_grad():
                    best = self.theirs(theirs[:, :i]).logits[0, -1].topk(2)
                self.assertLess(float(best.values[0] - best.values[1]), NEAR_TIE, f"at {i}: {a} and {b}")
                self.assertEqual({a, b}, set(best.indices.tolist()))
                return False
        self.assertEqual(ours.shape, theirs.shape)
        return True

    def test_greedy_texts_are_those_of_transformers(self):
        n_same = 0
        for prompt in self.prompts:
            ours = self.generate(self.ours, prompt)
            self.assertEqual((ours.dtype, ours.device), (torch.long, prompt.device))
            n_same += self.assert_same_up_to_near_ties(ours, self.generate(self.theirs, prompt))
        print(f"transformers {transformers.__version__}: same text {n_same} of {len(self.prompts)}, acceptance of the last "
              f"{self.ours.figures.acceptance:.3f}", file=sys.stderr)
        self.assertGreaterEqual(n_same, len(self.prompts) - 1)
        self.assertGreater(self.ours.figures.accepted, 0)

    def test_a_padded_batch_is_that_of_transformers(self):
        batch = self.tokenizer(self.lines[:6:2] + ["The"], return_tensors="pt", padding=True)
        options = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "max_new_tokens": 24, "do_sample": False,
                   "pad_token_id": 1, "eos_token_id": [15, 1]}
        self.assertTrue(bool((batch.attention_mask == 0).any()))
        ours, theirs = self.ours.generate(**options), self.theirs.generate(**options)
        self.assertTrue(torch.equal(ours, theirs), (ours, theirs))
        self.assertLess(min(row.index(15, batch.input_ids.shape[1]) if 15 in row[batch.input_ids.shape[1]:] else 999
                            for row in ours.tolist()), ours.shape[1] - 1)      # one ends early and is padded

    def test_the_nine_lines_run_as_they_are(self):
        found = io.StringIO()
        names = {"path": str(MODELS / "target"), "prompt": self.lines[0]}
        with redirect_stdout(found):
            exec(NINE_LINES, names)
        self.assertEqual(names["model"].details["dtype"], "int4")
        self.assertEqual(found.getvalue().strip(), self.tokenizer.decode(names["outputs"][0]).strip())
        self.assertEqual(names["outputs"].shape, (1, names["inputs"].shape[1] + 30))

    def test_streamers_print_what_they_print_for_transformers(self):
        printed = []
        for model in (self.ours, self.theirs):
            with redirect_stdout(io.StringIO()) as out:
                self.generate(model, self.prompts[1], streamer=TextStreamer(self.tokenizer, skip_prompt=True))
            printed.append(out.getvalue())
        self.assertEqual(printed[0], printed[1])
        streamer = TextIteratorStreamer(self.tokenizer, skip_prompt=True, timeout=60.0)
        thread = threading.Thread(target=self.generate, args=(self.ours, self.prompts[1]), kwargs={"streamer": streamer})
        thread.start()
        text = "".join(streamer)
        thread.join()
        self.assertEqual(text.strip(), printed[0].strip())

    def test_stopping_criteria_end_both_alike(self):
        prompt = self.prompts[2]
        criteria = StoppingCriteriaList([EndsBehind(prompt.shape[1] + 7)])
        ours, theirs = (self.generate(model, prompt, stopping_criteria=criteria) for model in (self.ours, self.theirs))
        self.assertEqual(ours.shape[1], prompt.shape[1] + 7)
        self.assertTrue(torch.equal(ours, theirs))
        text = self.tokenizer.decode(self.generate(self.theirs, prompt)[0, prompt.shape[1] + 4:prompt.shape[1] + 9])
        options = {"stop_strings": [text[1:-1]], "tokenizer": self.tokenizer}
        ours, theirs = (self.generate(model, prompt, **options) for model in (self.ours, self.theirs))
        self.assertTrue(torch.equal(ours, theirs))
        self.assertLess(ours.shape[1], prompt.shape[1] + 10)

    def test_lengths_and_their_defaults_are_those_of_transformers(self):
        prompt = self.prompts[3]
        for options in ({}, {"max_length": prompt.shape[1] + 5}, {"max_new_tokens": 3},
                        {"generation_config": transformers.GenerationConfig(max_new_tokens=9, eos_token_id=1, pad_token_id=1)}):
            ours, theirs = (model.generate(prompt, attention_mask=torch.ones_like(prompt), **options) for model in (self.ours, self.theirs))
            self.assertTrue(torch.equal(ours, theirs), options)

    def test_sampled_tokens_have_the_distribution_of_the_target(self):
        prompt, top_k, n = self.prompts[0], 4, 1000
        with torch.no_grad():
            logits, ids = (self.theirs(prompt).logits[0, -1] / 1.3).topk(top_k)
        expected = dict(zip(ids.tolist(), (logits.softmax(-1) * n).tolist()))
        texts = self.generate(self.ours, prompt, do_sample=True, top_k=top_k, temperature=1.3, max_new_tokens=1, num_return_sequences=n,
                              seed=1)
        found = dict.fromkeys(expected, 0)
        for token in texts[:, -1].tolist():
            found[token] += 1
        distance = sum((found[i] - expected[i]) ** 2 / expected[i] for i in expected)
        print(f"sampled: {found}, expected {expected}, chi-square {distance:.1f}", file=sys.stderr)
        self.assertLess(distance, 21.1)     # 3 degrees of freedom, one in 10,000

    def test_torch_seeds_the_texts(self):
        def sample(seed):
            torch.manual_seed(seed)
            return self.generate(self.ours, self.prompts[0], do_sample=True, max_new_tokens=16, method="coupled").tolist()

        self.assertEqual(sample(3), sample(3))
        self.assertNotEqual(sample(3), sample(4))

    def test_arrays_of_numpy_give_arrays_of_numpy(self):
        array = self.prompts[0].numpy().astype(numpy.int32)
        text = self.ours.generate(array, max_new_tokens=12)
        self.assertEqual((type(text), text.dtype), (numpy.ndarray, numpy.int32))
        self.assertEqual(text.tolist(), self.ours.generate(array.tolist(), max_new_tokens=12))
        self.assertEqual(text.tolist(), self.generate(self.ours, self.prompts[0], max_new_tokens=12).tolist())
        for wrong in (array[0], array.astype(numpy.float32)):
            with self.assertRaisesRegex(ValueError, "input_ids has the"):
                self.ours.generate(wrong)

    def test_a_pipeline_writes_the_text_of_transformers(self):
        options = {"max_new_tokens": 24, "do_sample": False, "return_full_text": False}
        texts = [transformers.pipeline("text-generation", model=model, tokenizer=self.tokenizer,
                                       **({"framework": "pt"} if transformers.__version__ < "5" else {}))(self.lines[:3], **options)
                 for model in (self.ours, self.theirs)]
        self.assertEqual(texts[0], texts[1])

    def test_a_model_has_torchs_types_and_threads(self):
        self.assertEqual((self.ours.device, self.ours.dtype), (torch.device("cpu"), torch.float32))
        self.assertIsInstance(self.ours.config, transformers.LlamaConfig)
        self.assertIsInstance(self.ours.generation_config, transformers.GenerationConfig)
        code = ("import torch, sys; from pilotfish import library, local_engine; "
                "print(local_engine.default_threading(library.load()))")
        environment = {**os.environ, "PYTHONPATH": f"{tree_paths.PACKAGE}:{os.environ.get('PYTHONPATH', '')}"}
        for lines, expected in ((code, b"openmp"), (code.replace("torch, ", ""), b"own")):
            out = subprocess.run([sys.executable, "-c", lines], env=environment, stdout=subprocess.PIPE, check=True).stdout
            self.assertEqual(out.strip(), expected)


if __name__ == "__main__":
    os.environ["PILOTFISH_LIBRARY"] = str(Path(sys.argv.pop(1)).resolve().parent / "libpilotfish.so.0")
    unittest.main(verbosity=2)
