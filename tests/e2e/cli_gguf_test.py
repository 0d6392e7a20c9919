"""GGUF files at the command line: their chat templates, files of a cached repository by name, and what info says of them."""

import json
import shutil
import sys

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import PROMPT, Case, main  # noqa: E402
from gguf_converter import Converter, write_gguf  # noqa: E402

TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}{{ eos_token }}"
MESSAGES = [{"role": "user", "content": "an other"}]


def write_model(directory, path, **more):
    """The GGUF file of a tiny Llama, with its tokenizer."""
    converter = Converter(directory)
    converter.convert(path)
    document = json.loads((directory / "tokenizer.json").read_text())
    vocab = document["model"]["vocab"]
    tokens = sorted(vocab, key=vocab.get)
    tokenizer = {"model": "gpt2", "pre": "gpt-2", "tokens": tokens, "merges": document["model"]["merges"],
                 "token_type": [3 if t in tiny_llama.SPECIAL else 1 for t in tokens], "bos_token_id": 0, "eos_token_id": 1}
    metadata = {**converter.metadata, **{f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()}, **more}
    write_gguf(path, metadata, converter.tensors)
    return path


class Gguf(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = write_model(cls.target, cls.root / "target.gguf", **{"tokenizer.chat_template": TEMPLATE})
        cls.other = write_model(cls.draft, cls.root / "draft.gguf")

    def chat_file(self):
        path = self.root / "chat.json"
        path.write_text(json.dumps(MESSAGES))
        return path

    def test_the_chat_template_of_the_metadata_is_used(self):
        document = self.run_json("tokenize", "-m", self.file, "--chat", self.chat_file())
        self.assertEqual(document["text"], "<|begin|>user an other<|end|>")
        self.assertEqual([document["tokens"][0], document["tokens"][-1]], [0, 1])
        made = self.run_json("generate", "-m", self.file, "--chat", self.chat_file(), "-n", 4)
        self.assertEqual(made["prompt_tokens"], document["tokens"])
        self.assert_fails("tokenize", "-m", self.other, "--chat", self.chat_file(), saying=["draft.gguf", "no chat template"])

    def test_a_gguf_file_generates_what_its_directory_does(self):
        expected = self.run_json("generate", "-m", self.target, "--tokens", "5,9,3", "-n", 8, "--dtype", "f32")
        found = self.run_json("generate", "-m", self.file, "--tokens", "5,9,3", "-n", 8, "--dtype", "f32")
        self.assertEqual(found["tokens"], expected["tokens"])

    def test_the_mask_of_parallel_drafts_is_a_key(self):
        parallel = write_model(self.draft, self.root / "parallel.gguf", **{"llama.pard_token": 7})
        self.assertEqual(self.run_json("info", "-m", parallel)["model"]["pard_token"], 7)
        self.assertNotIn("pard_token", self.run_json("info", "-m", self.other)["model"])
        run = ["generate", "-m", self.target, "-p", PROMPT, "-n", 24, "--ignore-eos", "--draft-len", 4, "--draft-passes", 1]
        made = self.run_json(*run, "-d", parallel)
        self.assertEqual(made["tokens"], self.generate("-n", 24, "--ignore-eos")["tokens"])
        self.assertLessEqual(made["speculation"]["draft_passes"], made["speculation"]["rounds"])
        self.assert_fails(*run, "-d", self.other, saying=["no pard_token"])
        outside = write_model(self.draft, self.root / "outside.gguf", **{"llama.pard_token": 100000})
        self.assert_fails("info", "-m", outside, saying=["pard_token is 100000"])

    # -- names

    def cache(self, name, files):
        """The environment of a cache with a repository of these files: {name: a file of ours}."""
        home = self.root / f"hf-{name}"
        snapshot = home / "hub" / f"models--acme--{name}" / "snapshots" / "beef"
        for path, source in files.items():
            (snapshot / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, snapshot / path)
        (snapshot.parent.parent / "refs").mkdir()
        (snapshot.parent.parent / "refs" / "main").write_text("beef")
        return {"HF_HOME": str(home)}

    def logits(self, model, home=None):
        return self.run_json("logits", "-m", model, "--tokens", "1,2", "--dtype", "f32", environment=home)["logits"]

    def test_a_file_of_a_cached_repository_is_found_by_its_quantisation(self):
        home = self.cache("many", {"many.Q8_0.gguf": self.file, "many-q4_k_m.gguf": self.other, "mmproj-many-Q8_0.gguf": self.other,
                                   "many-Q8_0.imatrix.gguf": self.other, "UD-Q2_K_XL/many-UD-Q2_K_XL.gguf": self.file})
        expected = {"Q8_0": self.file, "q8_0": self.file, "Q4_K_M": self.other, "Q2_K_XL": self.file, "UD-Q2_K_XL": self.file}
        for tag, file in expected.items():
            with self.subTest(tag):
                self.assertEqual(self.logits(f"acme/many:{tag}", home), self.logits(file))
        self.run_ok("tokenize", "-m", "acme/many:q8_0", "-p", PROMPT, environment=home)
        for tag in ("Q4_K", "Q4", "8_0", "Q6_K"):   # parts of words
            self.assert_fails("info", "-m", f"acme/many:{tag}", environment=home,
                              saying=["acme/many", f"has {tag} in its name", "many-q4_k_m.gguf, many.Q8_0.gguf",
                                      f'hf download acme/many --include "*{tag}*.gguf"'])
        self.assert_fails("info", "-m", "acme/many", environment=home, saying=["3 GGUF files", "many.Q8_0.gguf", "acme/many:TAG"])
        self.assert_fails("info", "-m", "acme/many:many", environment=home, saying=["3 GGUF files", "with many"])
        self.assert_fails("info", "-m", "acme/none:Q8_0", environment=home, saying=['hf download acme/none --include "*Q8_0*.gguf"'])

    def test_the_only_file_of_a_repository_needs_no_tag(self):
        home = self.cache("one", {"one-Q8_0.gguf": self.file, "config.json": self.target / "config.json"})
        for name in ("acme/one", "acme/one:Q8_0"):
            self.assertEqual(self.logits(name, home), self.logits(self.file))

    def test_safetensors_of_a_repository_precede_its_gguf_files(self):
        files = {name: self.target / name for name in ("config.json", "model.safetensors", "tokenizer.json")}
        home = self.cache("both", {**files, "both-Q8_0.gguf": self.other})
        self.assertEqual(self.logits("acme/both", home), self.logits(self.target))
        self.assertEqual(self.logits("acme/both:Q8_0", home), self.logits(self.other))

    def test_a_split_file_is_found_by_its_first_part(self):
        home = self.cache("parts", {"parts-Q8_0-00001-of-00002.gguf": self.file, "parts-Q8_0-00002-of-00002.gguf": self.other})
        self.assertEqual(self.logits("acme/parts:Q8_0", home), self.logits(self.file))
        self.assertEqual(self.logits("acme/parts", home), self.logits(self.file))

    def test_what_is_no_tag_is_no_name(self):
        for name in ("acme/many:", "acme/many:a/b", "acme/many:a:b", "acme:Q8_0"):
            self.assertNotIn("download", self.assert_fails("info", "-m", name, saying=["there is no such directory"]))

    # -- info

    def test_info_counts_the_types_of_the_tensors(self):
        model = self.run_json("info", "-m", self.file)["model"]
        n_layers = model["layers"]
        self.assertEqual(model["files"], {"format": "gguf", "tensors": 3 + 9 * n_layers, "types": {"F32": 3 + 9 * n_layers}})
        self.assertIs(model["chat_template"], True)
        model = self.run_json("info", "-m", self.draft)["model"]
        self.assertEqual(model["files"]["format"], "safetensors")
        self.assertEqual(sum(model["files"]["types"].values()), model["files"]["tensors"])
        self.assertIs(model["chat_template"], False)
        text = self.run_ok("info", "-m", self.file).out.decode()
        self.assertIn(f"files      gguf, {3 + 9 * n_layers} tensors: {3 + 9 * n_layers} F32; chat template: yes", text)

    def test_info_counts_the_memory_of_a_context_and_sequences(self):
        def memory(*options):
            return self.run_json("info", "-m", self.file, *options)["model"]["memory"]

        one, more, longer = memory("--context", 256), memory("--context", 256, "--max-sequences", 3), memory("--context", 1024)
        self.assertEqual((one["context"], one["sequences"], more["sequences"]), (256, 1, 3))
        self.assertEqual(more["kv_bytes"], 3 * one["kv_bytes"])
        self.assertGreater(longer["kv_bytes"], 3 * one["kv_bytes"])
        for m in (one, more, longer):
            self.assertEqual(m["total_bytes"], m["weight_bytes"] + m["kv_bytes"] + m["buffer_bytes"])
        text = self.run_ok("info", "-m", self.file, "--context", 256, "--max-sequences", 3).out.decode()
        self.assertIn("for 3 sequences of 256 tokens", text)

    def test_info_compares_the_vocabularies_of_two_models(self):
        def compare(draft):
            return self.run_json("info", "-m", self.target, "-d", draft)["model"]["vocabulary"]

        n = tiny_llama.VOCAB_SIZE
        self.assertEqual(compare(self.draft),
                         {"with": str(self.draft), "relation": "equal", "tokens": n, "shared": n, "share": 1.0})
        padded = tiny_llama.make(self.root / "padded", vocab_size=n + 5)
        self.assertEqual(compare(padded)["relation"], "padding")
        changed = self.root / "changed"
        shutil.copytree(self.draft, changed)
        document = json.loads((changed / "tokenizer.json").read_text())
        vocab = document["model"]["vocab"]
        vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
        (changed / "tokenizer.json").write_text(json.dumps(document))
        found = compare(changed)
        self.assertEqual((found["relation"], found["shared"], found["tokens"]), ("partial", n - 2, n))
        self.assertAlmostEqual(found["share"], (n - 2) / n)
        for draft, words in ((self.draft, f"the same as that of {self.draft}: {n} tokens"), (padded, "up to padding"),
                             (changed, f"{n - 2} of {n} ids have one text in both")):
            self.assertIn(words, self.run_ok("info", "-m", self.target, "-d", draft).out.decode())
        self.assert_fails("info", "-d", self.draft, code=2, saying=["-d needs a model"])
        (changed / "tokenizer.json").unlink()
        self.assert_fails("info", "-m", self.target, "-d", changed, saying=["tokenizer.json"])
        self.assert_fails("info", "-m", changed, "-d", self.target, saying=["-m MODEL has no tokenizer"])


if __name__ == "__main__":
    main()
