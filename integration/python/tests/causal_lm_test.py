"""AutoModelForCausalLM on libpilotfish with the bundled pair, without torch, numpy and transformers.

Run as: causal_lm_test.py BINARY LIBRARY [unittest's arguments]
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import tree_paths
from command_line import Pilotfish
from pilotfish import AutoModelForCausalLM, PilotfishError, Tokenizer
from pilotfish import generation_options
from pilotfish.text_codec import TextStream
from worker_faults import other_vocabulary, warnings

MODELS = tree_paths.ROOT / "models"
TARGET, DRAFT = MODELS / "target", MODELS / "draft"
N_NEW = 24
EOS, BOS = 1, 0


class Recorder:
    """A streamer that keeps what it gets."""

    def __init__(self, fail_at=None, at=lambda: None):
        self.got, self.ended, self._fail_at, self._at = [], 0, fail_at, at

    def put(self, ids):
        self.got.append(ids)
        if len(self.got) == self._fail_at:
            self._at()

    def end(self):
        self.ended += 1


def interrupt():
    signal.raise_signal(signal.SIGINT)


class CausalLMTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell lets its background processes ignore it
        cls.model = cls.load()
        cls.addClassCleanup(cls.model.close)
        cls.tokenizer = cls.model.tokenizer
        lines = (MODELS / "prompts.txt").read_text().splitlines()[:9:4]
        cls.prompts = [cls.tokenizer.encode(line) for line in lines]
        cls.texts = [cls.model.generate(p, max_new_tokens=N_NEW) for p in cls.prompts]

    @staticmethod
    def load(model=TARGET, **options):
        return AutoModelForCausalLM.from_pretrained(model, **{"dtype": "float32", "threads": 1, "library": LIBRARY, **options})

    def opened(self, *arguments, **options):
        model = self.load(*arguments, **options)
        self.addCleanup(model.close)
        return model

    def variant(self, name, **values):
        """The target's folder with another generation_config.json."""
        folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        self.addCleanup(folder.cleanup)
        for file in TARGET.iterdir():
            if file.name != name:
                (Path(folder.name) / file.name).symlink_to(file)
        (Path(folder.name) / name).write_text(json.dumps(values))
        return self.opened(folder.name)

    # ---- texts ----

    def test_a_greedy_text_is_that_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as home:
            for prompt, text in zip(self.prompts, self.texts):
                result = Pilotfish(BINARY, home).run("generate", "-m", TARGET, "--dtype", "f32", "--json", "-n", N_NEW, "--tokens",
                                                     ",".join(map(str, prompt)))
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual(prompt + result.json["tokens"], text)

    def test_a_draft_of_any_kind_changes_no_greedy_text(self):
        for draft in (DRAFT, "ngram"):
            model = self.opened(draft=draft, draft_len=4)
            self.assertEqual([model.generate(p, max_new_tokens=N_NEW) for p in self.prompts], self.texts)
            model.generate(self.prompts, max_new_tokens=N_NEW)
            self.assertGreater(model.figures.accepted, 0, draft)
            self.assertEqual(model.figures.n_texts, len(self.prompts))
            self.assertLess(model.figures.rounds + model.figures.fallback_rounds, model.figures.n_new - len(self.prompts))
            self.assertGreater(model.figures.tokens_per_second, 0)

    def test_a_worker_drafts_and_one_that_is_absent_changes_no_text(self):
        with tempfile.TemporaryDirectory() as home:
            address = f"unix:{home}/worker.sock"
            with Pilotfish(BINARY, home).serve("worker", DRAFT, address, "--threads", "1"):
                model = self.opened(draft_worker=address, draft_len=4)
                self.assertEqual([model.generate(p, max_new_tokens=N_NEW) for p in self.prompts], self.texts)
                model.generate(self.prompts[0], max_new_tokens=N_NEW)
                self.assertGreater(model.figures.drafted, 0)
            with warnings() as found:
                model = self.opened(draft_worker=f"unix:{home}/absent.sock")
                self.assertEqual(model.generate(self.prompts[0], max_new_tokens=N_NEW), self.texts[0])
                self.assertEqual(model.generate(self.prompts, max_new_tokens=N_NEW), self.texts)
            self.assertEqual(["absent.sock: no answer" in line for line in found], [True], found)

    def test_a_worker_of_another_vocabulary_costs_no_token_and_one_warning(self):
        with tempfile.TemporaryDirectory() as home:
            other, _ = other_vocabulary(DRAFT, f"{home}/other")
            address = f"unix:{home}/other.sock"
            with Pilotfish(BINARY, home).serve("worker", other, address, "--threads", "1"), warnings() as found:
                model = self.opened(draft_worker=address, draft_len=4)
                for prompts, texts in ((self.prompts[0], self.texts[0]), (self.prompts, self.texts)):
                    self.assertEqual(model.generate(prompts, max_new_tokens=N_NEW), texts)
                    self.assertEqual(model.figures.drafted, 0)
            self.assertEqual(["share 0.0 % of their vocabularies" in line for line in found], [True], found)

    def test_a_worker_that_goes_costs_no_token_and_one_warning(self):
        with tempfile.TemporaryDirectory() as home:
            worker = Pilotfish(BINARY, home).serve("worker", DRAFT, f"unix:{home}/goes.sock", "--threads", "1")
            self.addCleanup(worker.end, signal.SIGKILL)
            model = self.opened(draft_worker=worker.address, draft_len=4)
            self.assertEqual(model.generate(self.prompts[0], max_new_tokens=N_NEW), self.texts[0])
            with warnings() as found:
                worker.end(signal.SIGKILL)
                for prompts, texts in [(self.prompts[0], self.texts[0]), (self.prompts, self.texts)] * 2:
                    self.assertEqual(model.generate(prompts, max_new_tokens=N_NEW), texts)
                    self.assertEqual(model.figures.drafted, 0)
            self.assertEqual(len(set(found)), len(found), found)
            self.assertEqual(sum("the draft worker is gone" in line for line in found), 1, found)

    def test_a_batch_with_padding_gives_each_text_as_if_alone(self):
        width = max(map(len, self.prompts))
        padded = [[EOS] * (width - len(p)) + p for p in self.prompts]
        masks = [[0] * (width - len(p)) + [1] * len(p) for p in self.prompts]
        self.assertGreater(len(set(map(len, self.prompts))), 1)
        for texts in (self.model.generate(padded, attention_mask=masks, max_new_tokens=N_NEW),
                      self.model.generate(self.prompts, max_new_tokens=N_NEW)):
            self.assertEqual([text[-len(whole):] for text, whole in zip(texts, self.texts)], self.texts)
        pads = [4000] * 6
        inferred = self.model.generate([pads + self.prompts[0]], pad_token_id=4000, max_new_tokens=N_NEW)
        self.assertEqual(inferred, [pads + self.texts[0]])
        self.assertNotEqual(self.model.generate([pads + self.prompts[0]], max_new_tokens=N_NEW), inferred)

    def test_a_batch_of_more_texts_than_run_at_once_with_any_drafter_gives_each_as_if_alone(self):
        prompts = self.prompts * 3
        with Pilotfish(BINARY, "/tmp").serve("worker", DRAFT, f"unix:/tmp/pf-batch-{os.getpid()}.sock", "--threads", "1",
                                             "--max-sequences", "8") as worker:
            for options in ({}, {"draft": DRAFT}, {"draft": "ngram"}, {"draft_worker": worker.address}, {"max_batch": 1}):
                with self.subTest(options):
                    model = self.opened(draft_len=4, **{"max_batch": 3, **options})
                    self.assertEqual(model.generate(prompts, max_new_tokens=N_NEW), self.texts * 3)
                    self.assertEqual((model.figures.n_texts, model.figures.n_new), (9, 9 * N_NEW))
                    self.assertEqual(model.figures.accepted > 0, "draft" in options or "draft_worker" in options)
                    self.assertEqual(model.generate(self.prompts[0], max_new_tokens=N_NEW), self.texts[0])

    def test_an_exception_of_a_criterion_or_an_interrupt_ends_a_batch_and_the_model_goes_on(self):
        def fails(ids, scores):
            if len(ids[0]) == len(self.prompts[1]) + 5:
                raise KeyError("criterion")
            return False

        with self.assertRaisesRegex(KeyError, "criterion"):
            self.model.generate(self.prompts, stopping_criteria=fails, max_new_tokens=N_NEW)
        for wait_ms in (1, 2, 4, 8, 16, 32, 64, 100, 101, 102, 103, 104):
            with self.assertRaises(KeyboardInterrupt):
                threading.Timer(wait_ms * 1e-3, signal.raise_signal, (signal.SIGINT,)).start()
                self.model.generate(self.prompts * 200, max_new_tokens=200)
        self.assertEqual(self.model.generate(self.prompts, max_new_tokens=N_NEW), self.texts)

    def test_a_mask_that_is_not_of_the_left_is_refused(self):
        prompt = self.prompts[0]
        for mask, said in (([1] * (len(prompt) - 1) + [0], "pad on the left"), ([1], "1 values for text 0, expected"),
                           ([0] * len(prompt), "without a token")):
            with self.assertRaisesRegex(ValueError, said):
                self.model.generate([prompt], attention_mask=[mask])
        with self.assertRaisesRegex(ValueError, "id that does not exist"):
            self.model.generate([4096])

    def test_a_prompt_that_is_text_is_named(self):
        with self.assertRaisesRegex(ValueError, "input_ids is a str, expected a tensor or an array"):
            self.model.generate("a text")

    # ---- lengths and ends ----

    def test_lengths_are_counted_as_transformers_counts_them(self):
        prompt = self.prompts[0]
        n = len(prompt)
        self.assertEqual(len(self.model.generate(prompt)), n + generation_options.DEFAULT_NEW_TOKENS)
        self.assertEqual(len(self.model.generate(prompt, max_length=n + 3)), n + 3)
        self.assertEqual(len(self.model.generate(prompt, max_length=n + 3, max_new_tokens=5)), n + 5)
        for options, said in (({"max_length": n}, "no token"), ({"max_new_tokens": 0}, "max_new_tokens is 0"),
                              ({"max_new_tokens": 1025 - n}, "context of 1024")):
            with self.assertRaisesRegex(ValueError, said):
                self.model.generate(prompt, **options)
        self.assertEqual(self.opened(max_context=64).max_context, 64)

    def test_a_text_ends_with_each_of_the_ids_that_end_it(self):
        prompt, text = self.prompts[0], self.texts[0]
        new = text[len(prompt):]
        for end in (new[3], new[9]):
            cut = new[:new.index(end) + 1]
            self.assertEqual(self.model.generate(prompt, max_new_tokens=N_NEW, eos_token_id=[end, 4095]), prompt + cut)
        self.assertEqual(self.model.generate(prompt, max_new_tokens=N_NEW, eos_token_id=None), text)
        self.assertEqual(self.model.generate(prompt, max_new_tokens=N_NEW, eos_token_id=-1), text)
        model = self.variant("generation_config.json", eos_token_id=new[3])
        self.assertEqual(model.generate(prompt, max_new_tokens=N_NEW), prompt + new[:new.index(new[3]) + 1])
        model.generation_config.eos_token_id = None
        self.assertEqual(model.generate(prompt, max_new_tokens=N_NEW), text)

    def test_a_stop_string_ends_a_text_with_the_token_that_completes_it(self):
        prompt, new = self.prompts[0], self.texts[0][len(self.prompts[0]):]
        stream = TextStream(self.tokenizer, prompt)
        parts = [stream.push(i).decode() for i in new]
        stop = (parts[3] + parts[4] + parts[5])[1:-1]
        at = next(i for i in range(len(parts)) if stop in "".join(parts[:i + 1]))
        self.assertEqual(self.model.generate(prompt, max_new_tokens=N_NEW, stop_strings=["absent", stop]), prompt + new[:at + 1])
        with self.assertRaisesRegex(ValueError, "stop_strings"):
            self.model.generate(prompt, stop_strings=[""])

    def test_a_criterion_ends_a_text_with_the_token_that_it_saw(self):
        prompt, seen = self.prompts[0], []

        def criterion(ids, scores, **_):
            row, = (row if isinstance(row, list) else row.tolist() for row in ids)
            seen.append(row)
            return len(row) == len(prompt) + 5

        model = self.opened(draft=DRAFT, draft_len=8)
        for runs in (self.model, model):
            seen.clear()
            self.assertEqual(runs.generate(prompt, max_new_tokens=N_NEW, stopping_criteria=[criterion]), self.texts[0][:len(prompt) + 5])
            self.assertEqual(seen, [self.texts[0][:len(prompt) + i] for i in range(1, 6)])
        self.assertEqual(model.generate(prompt, max_new_tokens=N_NEW), self.texts[0])

    def test_time_ends_a_text(self):
        text = self.model.generate(self.prompts[0], max_new_tokens=N_NEW, max_time=0.0)
        self.assertEqual(text, self.texts[0][:len(self.prompts[0]) + 1])

    # ---- streamers and interruption ----

    def test_a_streamer_gets_the_prompt_each_token_and_the_end(self):
        streamer, prompt = Recorder(), self.prompts[0]
        self.model.generate(prompt, max_new_tokens=N_NEW, streamer=streamer)
        got = [part if isinstance(part, list) else part.tolist() for part in streamer.got]
        self.assertEqual(got, [[prompt], *([token] for token in self.texts[0][len(prompt):])])
        self.assertEqual(streamer.ended, 1)
        with self.assertRaisesRegex(ValueError, "streamer is for one text, not for 3"):
            self.model.generate(self.prompts, streamer=Recorder())

    def test_an_exception_of_a_streamer_ends_the_generation_and_is_raised(self):
        def fail():
            raise ZeroDivisionError

        streamer = Recorder(5, fail)
        with self.assertRaises(ZeroDivisionError):
            self.model.generate(self.prompts[0], max_new_tokens=N_NEW, streamer=streamer)
        self.assertEqual((len(streamer.got), streamer.ended), (5, 1))
        self.assertEqual(self.model.generate(self.prompts[0], max_new_tokens=N_NEW), self.texts[0])

    def test_an_interrupt_ends_a_generation_and_the_model_goes_on(self):
        streamer = Recorder(5, interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.model.generate(self.prompts[0], max_new_tokens=900, eos_token_id=None, streamer=streamer)
        self.assertEqual(len(streamer.got), 5)
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            for _ in range(100):
                self.model.generate(self.prompts[0], max_new_tokens=900, eos_token_id=None)
        self.assertEqual(self.model.generate(self.prompts[0], max_new_tokens=N_NEW), self.texts[0])

    def test_an_interrupt_ends_the_reading_of_a_prompt(self):
        prompt = [2 + i * 37 % 4000 for i in range(900)]
        streamer = Recorder(1, threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start)
        with self.assertRaises(KeyboardInterrupt):
            self.model.generate(prompt, max_new_tokens=50, eos_token_id=None, streamer=streamer)
        self.assertEqual((len(streamer.got), streamer.ended), (1, 1))

    def test_a_call_leaves_the_thread_on_the_cpus_that_it_had(self):
        before = os.sched_getaffinity(0)
        self.opened(threads=len(before)).generate(self.prompts[0], max_new_tokens=N_NEW)
        self.assertEqual(os.sched_getaffinity(0), before)

    # ---- sampling ----

    def test_a_seed_gives_the_same_texts_and_each_text_has_its_own(self):
        options = {"do_sample": True, "max_new_tokens": N_NEW, "num_return_sequences": 3}
        texts = self.model.generate([self.prompts[0]], seed=5, **options)
        self.assertEqual(len(set(map(tuple, texts))), 3)
        self.assertEqual(self.model.generate([self.prompts[0]], seed=5, **options), texts)
        self.assertEqual(self.model.generate([self.prompts[0]], seed=7, do_sample=True, max_new_tokens=N_NEW), texts[2:])
        self.assertNotEqual(self.model.generate([self.prompts[0]], **options), texts)

    def test_coupled_texts_are_the_same_with_any_draft(self):
        model = self.opened(draft=DRAFT, draft_len=4)
        options = {"do_sample": True, "max_new_tokens": N_NEW, "seed": 3, "method": "coupled", "temperature": 0.7}
        self.assertEqual(model.generate(self.prompts, **options), self.model.generate(self.prompts, **options))
        self.assertGreater(model.figures.accepted, 0)

    def test_the_narrowest_sampling_is_greedy(self):
        for options in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}, {"temperature": 1e-4}):
            self.assertEqual(self.model.generate(self.prompts, do_sample=True, max_new_tokens=N_NEW, **options), self.texts, options)
        sampled = self.model.generate(self.prompts, do_sample=True, max_new_tokens=N_NEW, seed=1)
        self.assertNotEqual(sampled, self.texts)
        self.assertEqual(self.model.generate(self.prompts, do_sample=False, top_p=0.1, temperature=9.0, max_new_tokens=N_NEW), self.texts)

    def test_defaults_of_sampling_are_those_of_the_file_and_then_of_transformers(self):
        found = generation_options.resolve({}, {}, {"do_sample": True, "temperature": 0.6, "top_p": 0.9})
        self.assertEqual((found.temperature, found.top_k, found.top_p, found.min_p), (0.6, 50, 0.9, 0.0))
        found = generation_options.resolve({"top_k": None, "top_p": 0.5}, {"temperature": 2.0, "top_p": 0.7}, {"do_sample": True})
        self.assertEqual((found.temperature, found.top_k, found.top_p), (2.0, 0, 0.5))
        model = self.variant("generation_config.json", do_sample=True, top_k=1, eos_token_id=EOS)
        self.assertEqual(model.generate(self.prompts[0], max_new_tokens=N_NEW), self.texts[0])
        model = self.variant("generation_config.json", do_sample=True, eos_token_id=EOS)
        self.assertNotEqual(model.generate(self.prompts[0], max_new_tokens=N_NEW, seed=1), self.texts[0])

    # ---- refusals ----

    def test_what_would_change_the_text_is_refused_by_its_name(self):
        for name, value in (("num_beams", 2), ("repetition_penalty", 1.1), ("no_repeat_ngram_size", 3), ("bad_words_ids", [[5]]),
                            ("min_new_tokens", 4), ("logits_processor", [print]), ("assistant_model", object()), ("output_scores", True),
                            ("inputs_embeds", [1.0]), ("max_new_token", 5)):
            with self.assertRaisesRegex(ValueError, name):
                self.model.generate(self.prompts[0], **{name: value})
        with self.assertRaisesRegex(ValueError, "epsilon_cutoff"):
            self.model.generate(self.prompts[0], epsilon_cutoff=0.5, do_sample=True)
        for name, value in (("temperature", 0.0), ("top_p", 0.0), ("top_p", 1.5), ("top_k", -1), ("min_p", 2), ("typical_p", 1.5),
                            ("seed", -1)):
            with self.assertRaisesRegex(ValueError, name):
                self.model.generate(self.prompts[0], do_sample=True, **{name: value})
        with self.assertRaisesRegex(ValueError, "num_return_sequences"):
            self.model.generate(self.prompts[0], num_return_sequences=2)
        neutral = {"num_beams": 1, "repetition_penalty": 1.0, "use_cache": True, "typical_p": 0.5, "logits_processor": []}
        self.assertEqual(self.model.generate(self.prompts[0], max_new_tokens=N_NEW, **neutral), self.texts[0])

    def test_what_the_models_file_asks_for_is_refused_too_until_the_call_says_otherwise(self):
        with self.assertLogs("pilotfish", "WARNING"):       # of the library
            model = self.variant("generation_config.json", repetition_penalty=1.05, eos_token_id=EOS)
        with self.assertRaisesRegex(ValueError, r"repetition_penalty=1.05 of the model's generation_config.*pass repetition_penalty=1"):
            model.generate(self.prompts[0])
        self.assertEqual(model.generate(self.prompts[0], repetition_penalty=1.0, max_new_tokens=N_NEW), self.texts[0])

    def test_arguments_of_from_pretrained_are_checked(self):
        for options, said in (({"load_in_4bit": True}, "load_in_4bit"), ({"torch_dtype": "float32"}, "torch_dtype"),
                              ({"draft": DRAFT, "draft_worker": "unix:/x"}, "draft_worker"), ({"device_map": "cuda:0"}, "device_map")):
            with self.assertRaisesRegex(ValueError, said):
                self.load(**options)
        with self.assertRaisesRegex(TypeError, "no option quantization_config"):
            self.load(quantization_config={})
        with self.assertRaisesRegex(PilotfishError, "expected .*int4"):
            self.load(dtype="int5")
        for name in ("/nowhere/model", "no-such-model"):
            with self.assertRaises(FileNotFoundError):
                self.load(name)

    # ---- the rest of a model ----

    def test_integer_weights_are_what_load_in_4bit_and_8bit_say(self):
        for option, word in (("load_in_4bit", "int4"), ("load_in_8bit", "int8")):
            model = self.opened(dtype=None, trust_remote_code=True, **{option: True})
            self.assertEqual(model.details["dtype"], word)
            self.assertLess(model.get_memory_footprint(), self.model.get_memory_footprint() / 3)
            self.assertEqual(len(model.generate(self.prompts[0], max_new_tokens=4)), len(self.prompts[0]) + 4)

    def test_a_model_tells_its_config(self):
        self.assertEqual((self.model.config.vocab_size, self.model.config.get_text_config().model_type), (4096, "llama"))
        self.assertEqual((self.model.device, self.model.dtype, self.model.eval().to("cpu").can_generate()), ("cpu", "float32", True))
        self.assertGreater(self.model.num_parameters(), 10_000_000)
        with self.assertRaisesRegex(ValueError, "cuda"):
            self.model.to("cuda")
        out = self.model.generate(self.prompts[0], max_new_tokens=N_NEW, return_dict_in_generate=True)
        self.assertEqual((out.sequences, out["figures"].n_new), (self.texts[0], N_NEW))
        self.assertEqual(self.model.generate(max_new_tokens=4), self.model.generate([[BOS]], max_new_tokens=4))

    def test_the_tokenizer_needs_no_transformers(self):
        tokenizer = Tokenizer(TARGET, library=LIBRARY)
        text = "caf\u00e9 \u4e2d\u6587 def f(x): return x"
        ids = tokenizer.encode(text, add_special_tokens=False)
        self.assertEqual((tokenizer.decode(ids), self.tokenizer.encode(text)), (text, [BOS] + ids))
        self.assertEqual(self.model.generate(**tokenizer(text), max_new_tokens=4)[0][:len(ids) + 1], [BOS] + ids)
        with self.assertRaisesRegex(PilotfishError, "models/draft"):
            Tokenizer(MODELS / "draft" / "config.json", library=LIBRARY)
        with self.assertRaises(PilotfishError):
            tokenizer.decode([5000])

    def test_a_closed_model_is_an_error_and_not_a_crash(self):
        with self.load() as model:
            tokenizer = model.tokenizer
            self.assertEqual(tokenizer.decode([]), "")
            stream = TextStream(tokenizer)
        model.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            model.generate(self.prompts[0])
        for use in (lambda: tokenizer.encode("x"), lambda: tokenizer.decode([5]), lambda: stream.push(5)):
            with self.assertRaisesRegex(ValueError, "closed"):
                use()

    def test_nothing_that_is_large_is_imported(self):
        code = (f"import sys; sys.path.insert(0, {str(tree_paths.PACKAGE)!r}); from pilotfish import AutoModelForCausalLM, Tokenizer; "
                "print(sorted({'torch', 'transformers', 'numpy', 'grpc', 'huggingface_hub'} & set(sys.modules)))")
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(out.strip(), b"[]")


if __name__ == "__main__":
    BINARY, LIBRARY = (str(Path(sys.argv.pop(1)).resolve()) for _ in range(2))
    unittest.main(verbosity=2)
