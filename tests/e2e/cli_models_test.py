"""Tests which models load, with which warnings, and that a refusal names the file, the value and what was expected."""

import array
import json
import os
import pwd
import shutil
import signal
import struct
import sys
from pathlib import Path

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import PROMPT, Case, main  # noqa: E402
from command_line import QUICKLY, Pilotfish  # noqa: E402


class BadModels(Case):
    def broken(self, name):
        model = self.root / name
        shutil.copytree(self.target, model)
        return model

    def test_a_long_path_leaves_room_for_the_reason(self):
        model = self.root / "d" / ("deep" * 40) / ("deeper" * 40) / ("deepest" * 30)
        model.mkdir(parents=True)
        self.assert_fails("info", "-m", model, saying=[str(self.root), "there is no config.json; the directory is empty"])

    def test_a_missing_repository_is_refused_with_the_download_command(self):
        self.assert_fails("generate", "-m", self.root / "nowhere", "-p", "a", saying=["nowhere"])
        self.assert_fails("tokenize", "-m", "acme/small", "-p", "a", saying=["hf download acme/small"])
        self.assert_fails("info", "-m", "acme/small", environment={"HF_HOME": "/" + 5000 * "h"},
                          saying=["a path that is too long", "hf download acme/small"])
        self.assert_fails("info", "-m", "acme/small", environment={"HF_HOME": "$LONG/hub", "LONG": "/" + 5000 * "h"},
                          saying=["a path that is too long"])
        for unknown in ["~no such user/$PF_NONE", "~" + 199 * "u", "${PF_NONE}", "${HOME", "$", "$/x"]:
            self.assert_fails("info", "-m", "acme/small", environment={"HF_HUB_CACHE": unknown}, saying=[f"({unknown}) has no"])
        for user in pwd.getpwall()[:3]:
            for rest in ["", "/hf"]:
                self.assert_fails("info", "-m", "acme/small", environment={"HF_HUB_CACHE": f"~{user.pw_name}{rest}"},
                                  saying=[f"({user.pw_dir}{rest}) has no"])
        homeless = Pilotfish(self.pilotfish.path, self.root)
        del homeless.environment["HOME"]
        try:
            home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:   # a container's user without an account
            home = "~"
        self.assertIn(f"({home}/.cache/huggingface/hub) has no", homeless.run("info", "-m", "acme/small").err)
        for no_repository in ["acme/small/more", "acme/", ".acme/small", "acme/sm all"]:
            self.assertNotIn("download", self.assert_fails("info", "-m", no_repository, saying=["there is no such directory"]))
        self.assert_fails("logits", "-m", self.target / "config.json", "--tokens", "1", saying=["config.json is not a directory"])
        self.assert_fails("info", "-m", self.target / "config.json" / "more", saying=["there is no such directory"])
        self.assert_fails("info", "-m", "", saying=["the model's name is empty"])
        self.assert_fails("info", "-m", "x" * 5000, saying=["has more than 4095 bytes"])

    def test_a_repository_in_the_local_cache_is_found(self):
        home = self.root / "hf"
        repository = home / "hub" / "models--acme--small"
        snapshot = repository / "snapshots" / "0123abcd"
        snapshot.parent.mkdir(parents=True)
        shutil.copytree(self.target, snapshot)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0123abcd")
        expected = self.run_json("tokenize", "-m", self.target, "-p", PROMPT)
        (self.root / ".cache").mkdir()
        for other in (self.root / "xdg", self.root / ".cache"):
            other.mkdir(exist_ok=True)
            (other / "huggingface").symlink_to(home)
        nowhere = str(self.root / "nowhere")
        for environment in [{"HF_HOME": str(home), "XDG_CACHE_HOME": nowhere},
                            {"HF_HUB_CACHE": str(home / "hub"), "HF_HOME": nowhere},
                            {"HF_HUB_CACHE": "", "HF_HOME": str(home)}, {"HF_HOME": "", "XDG_CACHE_HOME": ""},
                            {"XDG_CACHE_HOME": str(self.root / "xdg"), "HOME": nowhere}, {},
                            {"HUGGINGFACE_HUB_CACHE": str(home / "hub"), "HF_HOME": nowhere},
                            {"HF_HOME": "~/hf"}, {"HOME": str(home), "HF_HOME": "~"}, {"HF_HUB_CACHE": "$HOME/${PF_IN}b", "PF_IN": "hf/hu"},
                            {"XDG_CACHE_HOME": "~/$PF_IN", "PF_IN": "xdg"}]:
            found = self.run_json("tokenize", "-m", "acme/small", "-p", PROMPT, environment=environment)
            self.assertEqual(found, expected)

    def test_the_main_branch_or_the_only_commit_of_a_cached_repository_is_used(self):
        home = {"HF_HOME": str(self.root / "hub-home")}
        repository = self.root / "hub-home" / "hub" / "models--acme--two"
        (repository / "snapshots").mkdir(parents=True)
        (repository / "refs").mkdir()
        arguments = ["logits", "-m", "acme/two", "--tokens", "1"]
        for commit, model in [("v1-of_main.2", self.target), ("beef", self.draft)]:
            shutil.copytree(model, repository / "snapshots" / commit)
            (repository / "refs" / "main").write_text(commit)
            self.assertEqual(self.run_json(*arguments, environment=home), self.run_json("logits", "-m", model, "--tokens", "1"))
        for lost in ["cafe", "", "..", "../refs", "x" * 100]:
            (repository / "refs" / "main").write_text(lost)
            self.assert_fails(*arguments, environment=home, saying=["main branch", "hf download acme/two"])
        (repository / "refs" / "main").unlink()
        self.assert_fails(*arguments, environment=home, saying=["main branch", "hf download acme/two"])
        shutil.rmtree(repository / "snapshots" / "beef")
        (repository / "snapshots" / "not a commit").mkdir()
        self.assertEqual(self.run_json(*arguments, environment=home), self.run_json("logits", "-m", self.target, "--tokens", "1"))

    def test_an_unreadable_cache_is_not_called_empty(self):
        home = self.root / "closed-home"
        repository = home / "hub" / "models--acme--closed"

        def refuse(saying):
            sentence = self.assert_fails("info", "-m", "acme/closed", environment={"HF_HOME": str(home)}, saying=saying)
            self.assertNotIn("download", sentence)   # a download would fail in the same way

        home.mkdir()
        (home / "hub").write_text("")
        refuse([f"{repository}/snapshots: cannot be opened: Not a directory"])
        (home / "hub").unlink()
        (home / "hub").symlink_to("hub")
        refuse([f"{repository}/refs/main: cannot be opened: Too many levels of symbolic links"])
        (home / "hub").unlink()
        (repository / "refs" / "main").mkdir(parents=True)
        refuse([f"{repository}/refs/main: is a directory"])
        (repository / "refs" / "main").rmdir()
        (repository / "snapshots").write_text("")
        refuse([f"{repository}/snapshots: cannot be opened: Not a directory"])
        (repository / "refs" / "main").write_text("beef")
        refuse([f"{repository}/snapshots/beef: cannot be examined: Not a directory"])
        (repository / "snapshots").unlink()
        (repository / "snapshots").mkdir()
        (repository / "snapshots" / "beef").write_text("")
        refuse([f"{repository}/snapshots/beef: is not a directory"])
        if os.getuid() != 0:   # root may read everything
            (home / "hub").chmod(0)
            refuse([f"{repository}/refs/main: cannot be opened: Permission denied"])
            (home / "hub").chmod(0o700)

    def test_an_incomplete_repository_is_refused_with_the_download_command(self):
        home = {"HF_HOME": str(self.root / "part-home")}
        snapshot = self.root / "part-home" / "hub" / "models--acme--part" / "snapshots" / "beef"
        snapshot.mkdir(parents=True)
        info, tokenize = ["info", "-m", "acme/part"], ["tokenize", "-m", "acme/part", "-p", "a"]
        detokenize = ["detokenize", "-m", "acme/part", "--tokens", "1"]

        def refuse(arguments, lack):
            self.assert_fails(*arguments, environment=home, saying=[lack, "to download it: hf download acme/part"])

        refuse(info, "config.json")
        for arguments in (tokenize, detokenize):
            refuse(arguments, "its tokenizer;")
        shutil.copy(self.target / "tokenizer.json", snapshot)
        refuse(info, "config.json")
        for arguments in (tokenize, detokenize):   # the weights are not needed
            self.run_ok(*arguments, environment=home)
        shutil.copy(self.target / "config.json", snapshot)
        refuse(info, "weights")
        refuse(["quantize", "-m", "acme/part", "-o", self.root / "never", "--dtype", "int8"], "weights")
        refuse(["generate", "-m", self.target, "-d", "acme/part", "-p", "a"], "weights")
        index = {"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}}
        (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
        refuse(info, "weights")

    def test_unused_keys_and_tensors_are_warnings_and_refused_by_strict(self):
        model = self.broken("besides")
        config = json.loads((model / "config.json").read_text())
        changed = {**config, "custom_pipelines": {}, "seq_length": 2048, "language": "en", "num_hidden_layers": 1}
        (model / "config.json").write_text(json.dumps(changed))
        keys = f"{model}/config.json: 3 keys are not known and not read: custom_pipelines, seq_length, language"
        tensors = f"{model}: 9 tensors of the files are not used: model.layers.1."
        commands = [["generate", "-m", model, "-p", "a", "-n", "1"], ["logits", "-m", model, "--tokens", "1"], ["info", "-m", model],
                    ["generate", "-m", self.target, "-d", model, "-p", "a", "-n", "1"],
                    ["quantize", "-m", model, "-o", self.root / "besides-int8", "--dtype", "int8"],
                    ["bench", "kernels", "-m", model, "--quick"]]
        for command in commands:
            with self.subTest(command=command):
                self.assert_fails(*command, "--strict", saying=[f"pilotfish: {keys}; a strict load refuses this"])
                lines = self.run_ok(*command).err.splitlines()
                warnings = [line for line in lines if "warning" in line]
                self.assertEqual(warnings[0], f"pilotfish: warning: {keys}")
                self.assertTrue(warnings[1].startswith(f"pilotfish: warning: {tensors}"), warnings[1])
                self.assertEqual(len(warnings), 2)
        self.assertEqual(self.run_ok("logits", "-m", self.root / "besides-int8", "--tokens", "1").err.count("tensors"), 0)

    def test_the_first_layers_of_a_model_give_the_logits_of_the_shallower_model(self):
        short = tiny_llama.make(self.root / "short-of-one", layers=1, tie_word_embeddings=True)
        long = tiny_llama.make(self.root / "first-of-three", layers=3, tie_word_embeddings=True)
        config = json.loads((long / "config.json").read_text())
        (long / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
        arguments = ["--tokens", "5,9,3", "--all"]
        self.assertEqual(self.run_json("logits", "-m", long, *arguments), self.run_json("logits", "-m", short, *arguments))

    def test_a_key_that_could_change_the_logits_is_refused_by_name(self):
        model = self.broken("scaled")
        config = json.loads((model / "config.json").read_text())
        for key, value in {"attention_multiplier": 0.5, "sliding_window": 128, "rope_scaling_factor": 2, "num_experts": 8,
                           "final_logit_softcapping": 30.0}.items():
            (model / "config.json").write_text(json.dumps({**config, key: value}))
            self.assert_fails("generate", "-m", model, "-p", "a", saying=["config.json", key, "could change its results"])

    def test_weights_in_another_form_are_refused_with_the_remedy(self):
        config = (self.target / "config.json").read_text()
        for name, words in {"pytorch_model.bin": ["save_pretrained"], "model-q4.gguf": ["GGUF"], "adapter_config.json": ["LoRA", "merge"],
                            "consolidated.00.pth": ["convert_llama_weights_to_hf"], "model.onnx": ["ONNX"], "x.pt": ["PyTorch"]}.items():
            for has_config in (True, False):
                model = self.root / f"only-{name}-{has_config}"
                model.mkdir()
                (model / name).write_text("x")
                if has_config:
                    (model / "config.json").write_text(config)
                self.assert_fails("info", "-m", model, saying=[name, *words])
        self.assert_fails("info", "-m", self.root / "only-model-q4.gguf-True" / "model-q4.gguf", saying=["model-q4.gguf", "GGUF"])
        self.assert_fails("info", "-m", self.target / "model.safetensors", saying=["give the directory that holds it"])
        home = {"HF_HOME": str(self.root / "bin-home")}
        snapshot = self.root / "bin-home" / "hub" / "models--acme--bin" / "snapshots" / "beef"
        snapshot.mkdir(parents=True)
        (snapshot / "pytorch_model.bin").write_text("x")
        for _ in range(2):   # without a config.json, and with one: another download would not help
            self.assertNotIn("hf download", self.assert_fails("info", "-m", "acme/bin", environment=home, saying=["PyTorch's format"]))
            (snapshot / "config.json").write_text(config)

    def test_a_tokenizer_in_another_form_is_named(self):
        model = self.broken("sentencepiece")
        (model / "tokenizer.json").rename(model / "spiece.model")
        saying = ["there is no tokenizer.json, and spiece.model is not read", "AutoTokenizer"]
        self.assert_fails("tokenize", "-m", model, "-p", "a", saying=saying)
        self.assert_fails("generate", "-m", model, "-p", "a", saying=saying)
        self.assertIn("spiece.model is not read", self.run_ok("generate", "-m", model, "--tokens", "5", "-n", "1").err)
        (model / "spiece.model").unlink()
        self.assert_fails("tokenize", "-m", model, "-p", "a", saying=["there is no tokenizer.json"])
        self.assertNotIn("warning", self.run_ok("generate", "-m", model, "--tokens", "5", "-n", "1").err)

    def shard(self, name, index):
        """The target in two shards of its tensors in order."""
        model = self.broken(name)
        header, data, _ = tiny_llama.open_weights(model)
        (model / "model.safetensors").unlink()
        names = list(header)
        for number, part in enumerate([names[:5], names[5:]], 1):
            tiny_llama.write_safetensors(model / f"model-0000{number}-of-00002.safetensors", [
                (key, header[key]["shape"], array.array("f", bytes(data[slice(*header[key]["data_offsets"])]))) for key in part])
        if index:
            (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {
                key: f"model-0000{1 if key in names[:5] else 2}-of-00002.safetensors" for key in names}}))
        return model

    def test_shards_are_read_as_the_index_says_and_without_one(self):
        arguments = ["--tokens", "5,9", "--json"]
        expected = self.run_ok("logits", "-m", self.target, *arguments)
        with_index, without = self.shard("indexed", True), self.shard("unindexed", False)
        self.assertEqual((expected.out, b""), (self.run_ok("logits", "-m", with_index, *arguments).out, b""))
        result = self.run_ok("logits", "-m", without, *arguments)
        self.assertEqual(result.out, expected.out)
        self.assertIn("warning: ", result.err)
        self.assertIn("all 2 shards are read without it", result.err)
        # An overlay with a head of zeros, which the index names: the logits are zeros.
        tiny_llama.write_safetensors(with_index / "overlay.safetensors", [
            ("lm_head.weight", [tiny_llama.VOCAB_SIZE, 64], array.array("f", bytes(4 * 64 * tiny_llama.VOCAB_SIZE)))])
        path = with_index / "model.safetensors.index.json"
        index = json.loads(path.read_text())
        index["weight_map"]["lm_head.weight"] = "overlay.safetensors"
        path.write_text(json.dumps(index))
        result = self.run_ok("logits", "-m", with_index, "--strict", *arguments)
        self.assertEqual(set(result.json["logits"]), {0.0})

    def test_truncated_weights_are_refused_at_any_length(self):
        whole = (self.target / "model.safetensors").read_bytes()
        model = self.broken("short")
        for length in [0, 7, 8, 100, len(whole) // 2, len(whole) - 1]:
            with self.subTest(length):
                (model / "model.safetensors").write_bytes(whole[:length])
                self.assert_fails("generate", "-m", model, "-p", "a", saying=["model.safetensors"])

    def shrinking(self, tied):
        """A model with an embedding so large that reading it takes a while, and the length of its file without the embedding."""
        model, large = self.broken(f"shrinking-{tied}\x1b\x7f"), ["model.embed_tokens.weight", "lm_head.weight"]
        path, n_vocab, hidden = model / "model.safetensors", 1 << 19, 64
        header, data, _ = tiny_llama.open_weights(model)
        kept = {key: data[slice(*entry["data_offsets"])] for key, entry in header.items() if key not in large}
        at = 0
        for key, values in kept.items():
            header[key]["data_offsets"] = [at, at := at + len(values)]
        entries = {key: header[key] for key in kept}
        for name in large[:1 if tied else 2]:
            entries[name] = {"dtype": "F32", "shape": [n_vocab, hidden], "data_offsets": [at, at := at + 4 * n_vocab * hidden]}
        text = json.dumps(entries).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(kept.values()))
        n_small = path.stat().st_size
        os.truncate(path, 8 + len(text) + at)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "vocab_size": n_vocab, "tie_word_embeddings": tied}))
        return model, n_small

    def assert_is_cut_short(self, model, n_small, *arguments, saying="was cut short"):
        path = model / "model.safetensors"
        n_whole = path.stat().st_size
        process = self.pilotfish.start(*arguments)
        while process.poll() is None and str(path) not in Path(f"/proc/{process.pid}/maps").read_text():
            pass
        process.send_signal(signal.SIGSTOP)
        os.truncate(path, n_small)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=QUICKLY)
        os.truncate(path, n_whole)
        self.assertEqual((process.returncode, out), (1, b""), err)
        said = str(path).replace("\x1b", " ").replace("\x7f", " ")   # control characters are not printed
        self.assertIn(f"{said}: {saying}", err.decode())
        self.assertEqual(err.count(b"\n"), 1)

    def test_weights_truncated_during_a_load_are_reported(self):
        model, n_small = self.shrinking(tied=True)
        logits = ["logits", "-m", model, "--tokens", "1", "--json"]
        self.assert_is_cut_short(model, n_small, *logits)
        # The rest of the last page reads as zeros: no signal is raised.
        n_most = (model / "model.safetensors").stat().st_size - 4
        self.assert_is_cut_short(model, n_most, *logits, saying="was written to while it was read")
        shutil.rmtree(model)

    def test_weights_truncated_during_quantisation_leave_no_files(self):
        # A tied embedding is quantised by all threads; otherwise it is copied.
        for tied, dtype in [(True, "int8"), (False, "int8"), (False, "bf16")]:
            with self.subTest(tied=tied, dtype=dtype):
                model, n_small = self.shrinking(tied)
                self.assert_is_cut_short(model, n_small, "quantize", "-m", model, "-o", self.root / "never", "--dtype", dtype)
                self.assertEqual([p.name for p in self.root.iterdir() if p.name.startswith("never")], [])
                shutil.rmtree(model)

    def test_a_hostile_header_is_refused(self):
        whole = (self.target / "model.safetensors").read_bytes()
        model = self.broken("hostile")
        for head in [struct.pack("<Q", 1 << 63), struct.pack("<Q", len(whole)), struct.pack("<Q", 2) + b"[]"]:
            (model / "model.safetensors").write_bytes(head + whole[len(head):])
            self.assert_fails("generate", "-m", model, "-p", "a", saying=["model.safetensors"])

    def test_a_file_that_exists_and_cannot_be_opened_is_an_error(self):
        for name in ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                     "model.safetensors"]:
            for to in ["/nonexistent/file", name]:   # a dangling link, a link to itself
                with self.subTest(name, to=to):
                    model = self.broken("linked")
                    (model / name).unlink(missing_ok=True)
                    (model / name).symlink_to(to)
                    self.assert_fails("generate", "-m", model, "-p", "a", "-n", "1", saying=[f"linked/{name}", "opened"])
                    shutil.rmtree(model)

    def test_an_unknown_architecture_is_named_with_those_known(self):
        model = self.broken("unknown")
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "architectures": ["FooForCausalLM"], "model_type": "foo"}))
        self.assert_fails("generate", "-m", model, "-p", "a", saying=["FooForCausalLM", "(known: llama, mistral, "])
        (model / "config.json").write_text("{")
        self.assert_fails("generate", "-m", model, "-p", "a", saying=["config.json"])
        (model / "config.json").unlink()
        self.assert_fails("generate", "-m", model, "-p", "a", saying=["config.json"])

    def test_a_token_beyond_the_embedding_refuses_only_texts_that_contain_it(self):
        model = self.broken("padded")
        (model / "tokenizer_config.json").write_text(json.dumps({
            "pad_token": "[PAD]", "model_max_length": int(1e30)}))   # transformers writes this for "no limit"
        ids = self.run_json("tokenize", "-m", model, "-p", "a[PAD]", "--no-special")["tokens"]
        self.assertEqual(ids[-1], tiny_llama.VOCAB_SIZE)
        self.assertEqual(self.run_ok("detokenize", "-m", model, "--tokens", f"{ids[-1]}").out, b"[PAD]")
        self.assertEqual(self.run_json("generate", "-m", model, "-p", PROMPT, "-n", 4)["tokens"],
                         self.run_json("generate", "-m", self.target, "-p", PROMPT, "-n", 4)["tokens"])
        self.assert_fails("generate", "-m", model, "-p", "a[PAD]", saying=[str(tiny_llama.VOCAB_SIZE)])
        tiny_llama.write_tokenizer(model, extra=["\u0120other"])
        self.assert_fails("generate", "-m", model, "-p", "a", saying=["the tokenizer has ids up to", "vocab_size"])

    def test_an_invalid_tokenizer_is_refused(self):
        model = self.broken("babble")
        (model / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}')
        self.assert_fails("tokenize", "-m", model, "-p", "a", saying=["tokenizer.json"])
        self.assert_fails("generate", "-m", model, "-p", "a", saying=["tokenizer.json"])
        (model / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
        self.assert_fails("generate", "-m", model, "--tokens", "5", saying=["tokenizer.json"])

    def test_an_unsupported_tokenizer_is_refused_for_text_and_warned_of_for_ids(self):
        model = tiny_llama.make(self.root / "word-piece")
        (model / "tokenizer.json").write_text('{"model": {"type": "WordPiece"}}')
        refusal = self.pilotfish.run("tokenize", "-m", model, "-p", "a").err
        generate, ids = ["generate", "-m", model, "-n", "3"], ["--tokens", "5,6"]
        self.assertIn("WordPiece", refusal)
        for text in (["detokenize", "-m", model, *ids], [*generate, "-p", "a"], [*generate, *ids, "--stop", "a"],
                     ["generate", "-m", model, "-d", self.target, "-p", "a"],
                     ["bench", "acceptance", "-m", model, "-d", self.draft, "--limit", "1"]):
            with self.subTest(text=text):
                self.assert_fails(*text, saying=[refusal])
        warning = refusal.replace("pilotfish: ", "pilotfish: warning: ")
        for command in (["info", "-m", model], ["logits", "-m", model, *ids], [*generate, *ids]):
            with self.subTest(command=command):
                result = self.run_ok(*command, "--json")
                self.assertEqual(result.err, warning)
                self.assertIsNone(result.json.get("text"))
        result = self.run_ok("generate", "-m", self.target, "-d", model, "-p", "a", "-n", "3", "--json")
        self.assertEqual(result.err, warning)
        self.assertIsNotNone(result.json["text"])


if __name__ == "__main__":
    main()
