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

    def assert_warned(self, err, *whose):
        """One line for each model that has invalid logits, and no other."""
        lines = [line for line in err.splitlines() if "NaN or infinity" in line]
        self.assertEqual(len(lines), len(whose), err)
        for line, model in zip(lines, whose):
            self.assertRegex(line, f"warning: the {model}: NaN or infinity in [0-9]+ rows? of logits; the first is the row "
                                   f"after position [0-9]+, at id [0-9]+$")

    def test_each_request_warns_once_of_a_model_with_nan_logits(self):
        model, draft = self.with_nan("some-nan", "lm_head.weight"), self.with_nan("some-nan-draft", "lm_head.weight")
        request = ["-n", "6", "--tokens", "1,2", "--ignore-eos", "--draft-len", "2", "--json"]
        for drawn in ([], ["--temperature", "1", "--seed", "3"]):
            generate = lambda *options: self.run_ok("generate", *options, *request, *drawn)
            plain = generate("-m", model)
            self.assert_warned(plain.err, "target some-nan")
            self.assertIn(f"in 6 rows of logits; the first is the row after position 1, at id {tiny_llama.VOCAB_SIZE - 1}\n",
                          plain.err)
            self.assertEqual(plain.json["invalid_logit_rows"], 6)
            both = generate("-m", model, "-d", draft)
            self.assert_warned(both.err, "target some-nan", "draft some-nan-draft")
            self.assertGreater(both.json["invalid_logit_rows"], 6)
            self.assert_warned(generate("-m", self.target, "-d", draft).err, "draft some-nan-draft")
            self.assertEqual(generate("-m", self.target).json["invalid_logit_rows"], 0)
        twice = self.run_ok("generate", "-m", model, *request, "--num-samples", "2")
        self.assert_warned(twice.err, "target some-nan", "target some-nan")

    def test_logits_warns_of_invalid_rows(self):
        model = self.with_nan("nan-rows", "lm_head.weight")
        for options, rows in ([], "1 row "), (["--all"], "3 rows "):
            err = self.run_ok("logits", "-m", model, "--tokens", "1,2,3", *options).err
            self.assert_warned(err, "model nan-rows")
            self.assertIn(rows, err)
            self.assertIn(f"position {0 if options else 2},", err)
        self.assert_warned(self.run_ok("logits", "-m", self.target, "--tokens", "1,2,3").err)

    def test_servers_log_the_invalid_logits_of_their_models(self):
        model = self.with_nan("served-nan", "lm_head.weight")
        for role in "verifier", "worker":
            server = self.pilotfish.serve(role, model, self.socket(role))
            way = {"verifier": ["--verifier", server.address, "-d", self.draft],
                   "worker": ["-m", self.target, "--draft-worker", server.address, "--simulate-step-ms", "20"]}[role]
            result = self.run_ok("generate", *way, "-n", "30", "--tokens", "1,2", "--ignore-eos", "--draft-len", "2")
            self.assert_warned(result.err)
            server.process.terminate()
            _, err = server.process.communicate(timeout=60)
            lines = [line for line in err.decode().splitlines() if "NaN or infinity" in line]
            least = 2 if role == "verifier" else 1       # a worker on a busy machine may come too late to draft more
            self.assertTrue(least <= len(lines) <= 8, err)   # the first row, then at every doubling
            self.assertRegex(lines[0], f"^pilotfish: warning: the {'target' if role == 'verifier' else 'draft'} served-nan: "
                                       f"NaN or infinity in [0-9]+ rows? of logits; the first is the row after position ")

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

    def test_info_says_where_positions_are_and_names_the_token_of_parallel_drafts(self):
        model = tiny_llama.make(self.root / "pard")
        config = json.loads((model / "config.json").read_text())
        self.assertNotIn("pard_token", self.run_json("info", "-m", model)["model"])
        (model / "config.json").write_text(json.dumps({**config, "pard_token": 7}))
        document = self.run_json("info", "-m", model)["model"]
        self.assertEqual((document["pard_token"], document["positions"], document["rope"]), (7, "rotary", "default"))
        shown = self.run_ok("info", "-m", model).out.decode()
        self.assertIn("positions rotary, rope default\n", shown)
        self.assertIn("in parallel, by token 7 (PARD)", shown)
        (model / "config.json").write_text(json.dumps({**config, "pard_token": 100000}))
        self.assert_fails("info", "-m", model, saying=["pard_token is 100000"])

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
