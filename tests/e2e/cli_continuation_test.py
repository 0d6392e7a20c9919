"""The text of a continuation is what its tokens add to the prompt's text, for decoders that change the start of a text."""

import base64
import itertools
import json
import string
import sys

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import Case, main  # noqa: E402

SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
WORDS = ["\u2581" + "".join(pair) for pair in itertools.product("aeioulmn", string.ascii_lowercase)]
TOKENS = [*SPECIAL, *BYTES, "\u2581", *("\u2581" * n for n in (2, 4)), *string.ascii_lowercase, *WORDS]
BEGIN, END = 1, 2
FIRST_BYTE = len(SPECIAL)
REPLACE = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
LLAMA2 = {
    "normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": None,
    "decoder": {"type": "Sequence", "decoders": [REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                 {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
}
METASPACES = {"normalizer": None, "pre_tokenizer": METASPACE, "decoder": METASPACE}
JOINED = {"normalizer": None, "pre_tokenizer": METASPACE, "decoder": None}


def write_tokenizer(directory, parts):
    document = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, text in enumerate(SPECIAL)],
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [BEGIN], "tokens": ["<s>"]}}},
        "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "ignore_merges": False,
                  "vocab": {text: i for i, text in enumerate(TOKENS)}, "merges": []},
        **parts,
    }
    (directory / "tokenizer.json").write_text(json.dumps(document))


def data_of(document):
    return base64.b64decode(document["text_base64"]) if "text_base64" in document else document["text"].encode()


class Decoders:
    """One set of tests for each decoder. A model draws a token that begins with a space more often than another."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sizes = {"vocab_size": len(TOKENS), "eos": END, "tokenizer": False}
        cls.target = tiny_llama.make(cls.root / "spaces", **sizes)
        cls.draft = tiny_llama.make(cls.root / "spaces-draft", noise=0.05, **sizes)
        for model in (cls.target, cls.draft):
            write_tokenizer(model, cls.PARTS)

    def sample(self, *arguments):
        lines = self.run_ok("generate", "-m", self.target, "-n", "12", "--temperature", "1", "--seed", "1", "--json",
                            "--num-samples", "16", *arguments).out.splitlines()
        return [json.loads(line) for line in lines]

    def whole(self, ids):
        visible = [str(i) for i in ids if i >= len(SPECIAL)]
        return self.run_ok("detokenize", "-m", self.target, "--tokens", ",".join(visible)).out if visible else b""

    def check(self, document):
        """Against the texts of the prompt, and of the prompt with the new tokens."""
        prompt = self.whole(document["prompt_tokens"])
        text = self.whole(document["prompt_tokens"] + document["tokens"])
        self.assertEqual(text[:len(prompt)], prompt)
        self.assertEqual(data_of(document), text[len(prompt):])

    def spaced(self):
        """A sample with a text that begins with a space, and the arguments that make it again."""
        document = next(d for d in self.sample("-p", "the") if d["text"].startswith(" ") and TOKENS[d["tokens"][0]] in WORDS)
        return document, ["-n", "12", "--temperature", "1", "--seed", document["seed"]]

    def test_each_sample_is_what_the_tokens_add_to_the_prompt(self):
        documents = self.sample("-p", "the")
        for document in documents:
            self.check(document)
        self.assertTrue(any(d["text"].startswith(" ") for d in documents))

    def test_a_prompt_of_special_tokens_begins_a_text(self):
        documents = [d for prompt in (f"{BEGIN}", f"{END}", f"{BEGIN},{END}") for d in self.sample("--tokens", prompt)]
        for document in documents:
            self.assertEqual(data_of(document), self.whole(document["tokens"]))
        self.assertTrue(any(TOKENS[d["tokens"][0]] in WORDS and d["text"][0] != " " for d in documents))

    def test_a_split_character_leaves_each_side_its_bytes(self):
        for last in (0xC3, 0xE2):
            prompt = ("--tokens", f"{BEGIN},{TOKENS.index('e')},{FIRST_BYTE + last}")
            for document in self.sample(*prompt):
                self.check(document)

    def test_text_ids_and_file_are_the_same_prompt(self):
        document, options = self.spaced()
        path = self.root / "prompt.txt"
        path.write_text("the")
        ids = ",".join(map(str, document["prompt_tokens"]))
        for prompt in (("-p", "the"), ("-f", path), ("--tokens", ids)):
            self.assertEqual(self.generate(*options, prompt=prompt)["text"], document["text"])
            shown = self.run_ok("generate", "-m", self.target, *options, *prompt).out
            self.assertEqual(shown.removesuffix(b"\n"), data_of(document).removesuffix(b"\n"))

    def test_drafters_and_verifiers_give_the_same_text(self):
        document, options = self.spaced()
        coupled = [*options, "--method", "coupled"]
        with self.pilotfish.serve("worker", self.draft, self.socket("worker")) as worker, \
                self.pilotfish.serve("verifier", self.target, self.socket("verifier")) as verifier:
            for peers in (["-m", self.target, "-d", self.draft], ["-m", self.target, "--draft-worker", worker.address],
                          ["--verifier", verifier.address, "-d", self.draft]):
                drafted = self.run_json("generate", *peers, "-p", "the", *coupled)
                self.assertEqual(drafted["tokens"], document["tokens"], peers)
                self.assertEqual(drafted["text"], document["text"], peers)
                self.assertGreater(drafted["speculation"]["accepted"], 0)
                shown = self.run_ok("generate", *peers, "-p", "the", *coupled).out
                self.assertEqual(shown.removesuffix(b"\n"), data_of(document).removesuffix(b"\n"), peers)

    def test_a_stop_text_may_begin_with_the_first_space(self):
        document, options = self.spaced()
        stopped = self.generate(*options, "--stop", document["text"][:3], prompt=("-p", "the"))
        self.assertEqual((stopped["text"], stopped["finish_reason"]), ("", "stop"))
        self.assertLessEqual(len(stopped["tokens"]), 3)


class Llama2(Decoders, Case):
    PARTS = LLAMA2


class Metaspace(Decoders, Case):
    PARTS = METASPACES


class Joined(Decoders, Case):
    PARTS = JOINED


if __name__ == "__main__":
    main()
