"""`logits` and `info`."""

import json
import os
import shutil
import struct
import sys

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import REPLACEMENT, Case, main  # noqa: E402


class Numbers(Case):
    IDS = "0,5,77,200,9,41"

    def test_logits_after_the_last_token_are_the_last_row_of_all(self):
        last = self.run_json("logits", "-m", self.target, "--tokens", self.IDS)["logits"]
        rows = self.run_json("logits", "-m", self.target, "--tokens", self.IDS, "--all")["logits"]
        self.assertEqual(len(last), tiny_llama.VOCAB_SIZE)
        self.assertEqual(len(rows), 6)
        self.assertEqual(rows[-1], last)
        first = self.run_json("logits", "-m", self.target, "--tokens", "0,5", "--all")["logits"]
        self.assertEqual(rows[:2], first)

    def test_the_text_form_has_the_same_numbers(self):
        rows = self.run_json("logits", "-m", self.target, "--tokens", "0,5", "--all")["logits"]
        lines = self.run_ok("logits", "-m", self.target, "--tokens", "0,5", "--all").out.decode().splitlines()
        self.assertEqual([[float(x) for x in line.split()] for line in lines], rows)

    def test_greedy_decoding_takes_the_largest_logit(self):
        row = self.run_json("logits", "-m", self.target, "--tokens", self.IDS)["logits"]
        token = self.generate("-n", "1", prompt=("--tokens", self.IDS))["tokens"][0]
        usable = row[:tiny_llama.VOCAB_SIZE]
        self.assertEqual(token, usable.index(max(usable)))

    def with_nan(self, name, tensor):
        """A copy of the target with one NaN at the end of a tensor."""
        model = self.root / name
        shutil.copytree(self.target, model)
        data = bytearray((model / "model.safetensors").read_bytes())
        n_header = struct.unpack("<Q", data[:8])[0]
        end = 8 + n_header + json.loads(data[8:8 + n_header])[tensor]["data_offsets"][1]
        data[end - 4:end] = struct.pack("<f", float("nan"))
        (model / "model.safetensors").write_bytes(data)
        return model

    def test_a_nan_logit_is_null_and_never_chosen(self):
        model = self.with_nan("one-nan", "lm_head.weight")
        row = self.run_json("logits", "-m", model, "--tokens", "1,2")["logits"]
        self.assertEqual([i for i, x in enumerate(row) if x is None], [tiny_llama.VOCAB_SIZE - 1])
        document = self.generate("-n", "40", "--temperature", "1", target=model)
        self.assertNotIn(tiny_llama.VOCAB_SIZE - 1, document["tokens"])

    def test_generation_fails_if_every_logit_is_nan(self):
        model = self.with_nan("all-nan", "model.norm.weight")
        self.assertEqual(set(self.run_json("logits", "-m", model, "--tokens", "1,2")["logits"]), {None})
        drawn = ["--temperature", "1"]
        for options in [[], drawn, ["-d", self.draft], [*drawn, "-d", self.draft]]:
            self.assert_fails("generate", "-m", model, "-p", "a", "-n", "4", *options, saying=["logits"])

    def test_a_draft_with_only_nan_logits_changes_no_token_and_causes_no_delay(self):
        draft = self.with_nan("nan-draft", "model.norm.weight")
        self.assertEqual(self.generate("-n", "8", "-d", draft)["tokens"], self.generate("-n", "8")["tokens"])

    def test_ids_are_checked(self):
        self.assert_fails("logits", "-m", self.target, "--tokens", "1,320", saying=["320", str(tiny_llama.VOCAB_SIZE - 1)])
        self.assert_fails("logits", "-m", self.target, "--tokens", "", saying=["empty"])
        self.assert_fails("logits", "-m", self.target, "--context", "2", "--tokens", "1,2,3", saying=["3", "2"])

    def test_an_lm_head_different_from_the_embedding_is_used_even_if_config_json_ties_them(self):
        config = json.loads((self.target / "config.json").read_text())
        model = self.root / "half-tied"
        shutil.copytree(self.target, model)
        (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
        expected = self.run_json("logits", "-m", self.target, "--tokens", self.IDS)
        self.assertEqual(self.run_json("logits", "-m", model, "--tokens", self.IDS), expected)
        document = self.run_json("info", "-m", model)["model"]
        self.assertFalse(document["tied_embeddings"])
        quantised = self.root / "half-tied-int8"
        self.run_ok("quantize", "-m", model, "-o", quantised, "--dtype", "int8")
        self.assertEqual(self.run_json("logits", "-m", quantised, "--tokens", self.IDS),
                         self.run_json("logits", "-m", self.target, "--tokens", self.IDS, "--dtype", "int8"))

        tied = tiny_llama.make(self.root / "tied", tie_word_embeddings=True)
        same = tiny_llama.make(self.root / "tied-twice")
        tiny_llama.copy_tensor(same, "model.embed_tokens.weight", "lm_head.weight")
        config = json.loads((same / "config.json").read_text())
        (same / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
        self.assertTrue(self.run_json("info", "-m", same)["model"]["tied_embeddings"])
        self.assertEqual(self.run_json("logits", "-m", same, "--tokens", self.IDS),
                         self.run_json("logits", "-m", tied, "--tokens", self.IDS))

    def test_logits_of_a_short_text_do_not_depend_on_the_scaled_context(self):
        factors = {"short_factor": [1.0] * 8, "long_factor": [1.0 + i for i in range(8)], "factor": 8.0}
        scalings = [({"rope_type": "longrope", "original_max_position_embeddings": 64, **factors}, 512, 64),
                    ({"rope_type": "dynamic", "factor": 8.0}, 64, 64)]
        for scaling, positions, trained in scalings:
            model = tiny_llama.make(self.root / scaling["rope_type"], context=positions, rope_scaling=scaling)
            logits = lambda ids, *options: self.run_json("logits", "-m", model, "--tokens", ids, *options)
            short, long = self.IDS, ",".join(["5", "77"] * 50)
            self.assertEqual(logits(short), logits(short, "--context", trained))
            self.assertNotEqual(logits(short), logits(short, "--context", trained + 1))
            self.assertEqual(logits(long), logits(long, "--context", "100"))
            self.assertEqual(self.run_json("info", "-m", model)["model"]["context"], trained)

    def test_info_names_a_model_whose_path_is_not_utf8(self):
        model = os.fsencode(self.root) + b"/m\xffdel"
        shutil.copytree(os.fsencode(self.target), model)
        document = json.loads(self.run_ok("info", "-m", os.fsdecode(model), "--json").out)
        self.assertTrue(document["model"]["name"].endswith("m" + REPLACEMENT + "del"))

    def test_info_shows_each_tensor_and_why(self):
        document = self.run_json("info", "-m", self.target)
        self.assertGreaterEqual(document["cpu"]["cores"], 1)
        self.assertTrue(any(kernel["chosen"] for kernel in document["kernels"]))
        self.assertTrue(document["model"]["tensors"])
        for tensor in document["model"]["tensors"]:
            for field in ("name", "format", "kernel", "reason"):
                self.assertTrue(tensor[field], tensor)
        self.assertIsNone(self.run_json("info")["model"])
        text = self.run_ok("info", "-m", self.target).out.decode()
        for tensor in document["model"]["tensors"]:
            self.assertIn(tensor["name"], text)

    def test_the_scalar_definitions_give_the_same_greedy_text(self):
        fast = self.generate("-n", "16", "--dtype", "f32")
        self.assertEqual(self.generate("-n", "16", "--dtype", "f32", "--isa", "scalar")["tokens"], fast["tokens"])


if __name__ == "__main__":
    main()
