"""Tests weight formats, quantised directories, and oneDNN through the command line."""

import argparse
import importlib.util
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from cli_case import PROMPT, Case, main  # noqa: E402
from command_line import QUICKLY  # noqa: E402


FORMATS = ["f32", "f16", "bf16", "int8", "int4", "int4-g128", "int4-channel", "int4-asym", "int4-asym-g128", "int4-asym-channel"]
INTEGERS = FORMATS[3:]


class Formats(Case):
    IDS = "0,5,77,200,9,41,230,12"

    def logits(self, model, *arguments):
        return self.run_json("logits", "-m", model, "--tokens", self.IDS, "--all", *arguments)["logits"]

    def quantize(self, name, dtype, *arguments):
        directory = self.root / name
        return directory, self.run_json("quantize", "-m", self.target, "-o", directory, "--dtype", dtype, *arguments)

    def test_a_quantised_directory_gives_the_logits_of_its_original(self):
        for dtype in FORMATS:
            with self.subTest(dtype):
                directory, document = self.quantize(f"as-{dtype}", dtype)
                self.assertEqual(set(document), {"bytes_before", "bytes_after", "tensors"})
                self.assertEqual(document["bytes_before"], sum(
                    4 * entry["shape"][0] * (entry["shape"][1:] or [1])[0] for name, entry in self.header(self.target).items()))
                self.assertEqual(document["tensors"], len(self.header(self.target)))
                self.assertEqual(self.logits(directory), self.logits(self.target, "--dtype", dtype))
                self.assertEqual(self.run_json("tokenize", "-m", directory, "-p", PROMPT),
                                 self.run_json("tokenize", "-m", self.target, "-p", PROMPT))
        self.assertEqual([p.name for p in self.root.iterdir() if "partial" in p.name], [])

    def test_twelve_bits_give_the_bits_of_bf16_and_are_not_written(self):
        isas = self.run_json("info")["cpu"]["isas"]
        for arguments in [["--isa", isa] for isa in isas if isa != "amx"]:  # AMX sums in another order and has no twelve-bit product
            self.assertEqual(self.logits(self.target, "--dtype", "bf16-12", *arguments),
                             self.logits(self.target, "--dtype", "bf16", *arguments))
        written = "one of f16, f32, bf16, int8, int4, int4-g128, int4-channel, int4-asym, int4-asym-g128, int4-asym-channel;"
        for dtype, said in [(["--dtype", "bf16-12"], f"--dtype is bf16-12, expected {written}"),
                            ([], f"a format is needed: --dtype T, {written}")]:
            self.assert_fails("quantize", "-m", self.target, "-o", self.root / "never", *dtype, code=2, saying=[said])

    def test_format_quality_is_measured_on_any_text(self):
        path = Path(__file__).resolve().parents[2] / "scripts/format-quality.py"
        spec = importlib.util.spec_from_file_location("format_quality", path)
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        text = self.root / "text"
        text.write_text(20000 * PROMPT)   # longer than an argument may be
        options = argparse.Namespace(pilotfish=self.binary, model=self.target, text=text)
        begin, tokens = script.read_tokens(options)
        every = self.run_json("tokenize", "-m", self.target, stdin=text.read_bytes())["tokens"]
        self.assertEqual((begin, begin + tokens), ([0], every))   # one BOS before each window
        self.assertEqual(script.cut_windows(begin, tokens, 2, 5), [[0, *tokens[:4]], [0, *tokens[-5:-1]]])

    def header(self, directory):
        data = (directory / "model.safetensors").read_bytes()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        header.pop("__metadata__", None)
        return header

    def test_activations_are_rounded_as_asked_and_refused_where_they_do_not_fit(self):
        default = self.logits(self.target, "--dtype", "int8")
        self.assertEqual(self.logits(self.target, "--dtype", "int8", "--act", "int8"), default)
        finer = self.logits(self.target, "--dtype", "int8", "--act", "bf16")
        exact = self.logits(self.target, "--dtype", "f32")
        distance = lambda rows: sum(abs(a - b) for row, other in zip(rows, exact) for a, b in zip(row, other))
        self.assertLess(distance(finer), distance(default))
        for dtype, act, taken in [("f32", "int8", "f32"), ("bf16", "int8", "bf16"), ("int4", "f32", "bf16 or int8")]:
            self.assert_fails("logits", "-m", self.target, "--tokens", "1", "--dtype", dtype, "--act", act,
                              saying=[f"weights in {dtype}", f"activations in {taken}"])

    def test_a_quantised_directory_is_refused_in_another_format(self):
        directory, _ = self.quantize("only-int4", "int4")
        self.assertEqual(self.logits(directory, "--dtype", "int4"), self.logits(directory))
        for dtype in ["f32", "bf16", "int8", "int4-g128"]:
            self.assert_fails("logits", "-m", directory, "--tokens", "1", "--dtype", dtype, saying=["quantised to int4"])
        self.assert_fails("quantize", "-m", directory, "-o", self.root / "twice", "--dtype", "int8", saying=["already"])

    def test_a_failed_conversion_is_one_sentence_and_leaves_no_files(self):
        busy = self.root / "busy"
        busy.mkdir()
        (busy / "file").write_text("x")
        before = sorted(p.name for p in self.root.iterdir())
        quantize = ["quantize", "-m", self.target, "--dtype", "int8", "-o"]
        self.assert_fails(*quantize, busy, saying=["busy", "not empty"])
        self.assert_fails(*quantize, self.root / "no" / "such", saying=["no/such"])
        self.assert_fails("quantize", "-m", self.root / "none", "--dtype", "int8", "-o", self.root / "new", saying=["none"])
        for limit, name in [(0, "config.json"), (2000, "tokenizer.json"), (20000, "model.safetensors")]:   # like a full disk
            process = self.pilotfish.start(*quantize, self.root / "new",
                                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, [limit] * 2))
            out, err = process.communicate(timeout=QUICKLY)
            self.assertEqual(process.returncode, 1, err)
            self.assertIn(f"{self.root}/new/{name}: cannot be written", err.decode())
        self.assertEqual(sorted(p.name for p in self.root.iterdir()), before)

    def test_an_oversized_file_beside_the_weights_is_refused(self):
        model = self.root / "endless"
        shutil.copytree(self.target, model)
        (model / "merges.txt").touch()
        os.truncate(model / "merges.txt", (1 << 28) + 1)
        self.assert_fails("quantize", "-m", model, "--dtype", "int8", "-o", self.root / "never", saying=["merges.txt", "at most"])

    def test_an_empty_directory_is_filled_by_any_spelling_of_its_path(self):
        (self.root / "here").mkdir()
        (self.root / "there").mkdir()
        (self.root / "link").symlink_to("there")
        self.run_ok("quantize", "-m", self.target, "--dtype", "int8", "-o", self.root / "link")
        here = (self.root / "here").stat()
        self.run_ok("quantize", "-m", self.target, "--dtype", "int8", "-o", ".", cwd=self.root / "here")
        self.assertEqual((self.root / "here").stat().st_ino, here.st_ino)
        self.assertTrue((self.root / "link").is_symlink())
        for name in ["here", "there"]:
            self.assertTrue((self.root / name / "model.safetensors").exists())

    def test_an_empty_mount_point_is_filled(self):
        mounted = self.root / "mounted"
        mounted.mkdir()
        script = 'mount -t tmpfs none "$1" || exit 77; "$2" quantize -m "$3" --dtype int8 -o "$1" && "$2" logits -m "$1" --tokens 1'
        result = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", mounted, self.pilotfish.path,
                                 self.target], capture_output=True, check=False, timeout=QUICKLY)
        if result.returncode == 77 or b"unshare" in result.stderr:
            self.skipTest("nothing can be mounted here")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_weight_that_is_not_finite_is_refused_with_its_tensor(self):
        name = "model.layers.1.mlp.up_proj.weight"
        for value in [float("nan"), float("inf")]:
            model = self.root / f"holds-{value}"
            shutil.copytree(self.target, model)
            tiny_llama.set_value(model, name, 77, value)
            for dtype in INTEGERS:
                with self.subTest(value=value, dtype=dtype):
                    self.assert_fails("logits", "-m", model, "--tokens", "1", "--dtype", dtype, saying=[name, dtype])
                    self.assert_fails("quantize", "-m", model, "-o", self.root / "never", "--dtype", dtype,
                                      saying=[name, dtype])
                    self.assertFalse((self.root / "never").exists())
            self.run_ok("logits", "-m", model, "--tokens", "1", "--dtype", "bf16")

    def test_the_largest_finite_weights_can_be_quantised(self):
        model = self.root / "holds-large"
        shutil.copytree(self.target, model)
        tiny_llama.set_value(model, "model.layers.1.mlp.up_proj.weight", 77, 1e38)
        for dtype in INTEGERS:
            with self.subTest(dtype=dtype):
                self.run_ok("quantize", "-m", model, "-o", self.root / f"large-{dtype}", "--dtype", dtype)
                self.run_ok("info", "-m", self.root / f"large-{dtype}")

    def test_ctrl_c_leaves_the_whole_directory_or_none(self):
        large = tiny_llama.make(self.root / "large", layers=2, hidden=256)
        seen = set()
        for i, delay in enumerate([0.0, 0.002, 0.005, 0.01, 0.02, 0.04]):
            directory = self.root / f"cut-{i}"
            process = self.pilotfish.start("quantize", "-m", large, "-o", directory, "--dtype", "int4")
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=QUICKLY)
            self.assertIn(process.returncode, (0, 130, -signal.SIGINT), err)
            seen.add(process.returncode)
            if process.returncode == 0:
                self.run_ok("logits", "-m", directory, "--tokens", "1")
            else:
                self.assertFalse(directory.exists())
            self.assertEqual([p.name for p in self.root.iterdir() if "partial" in p.name], [])

    def test_a_killed_conversion_leaves_no_partial_directory(self):
        large = tiny_llama.make(self.root / "large-again", layers=2, hidden=256)
        cut = 0
        for i in range(12):
            directory = self.root / f"cut-at-once-{i}"
            process = self.pilotfish.start("quantize", "-m", large, "-o", directory, "--dtype", "int4")
            time.sleep(0.004 * i)
            for number in (signal.SIGINT, signal.SIGINT) if i % 2 else (signal.SIGQUIT,):
                process.send_signal(number)
            _, err = process.communicate(timeout=QUICKLY)
            cut += process.returncode < 0
            self.assertEqual([p.name for p in self.root.iterdir() if "partial" in p.name], [], err)
        self.assertGreater(cut, 0)

    def test_greedy_text_with_speculation_equals_plain_text_in_all_formats(self):
        n, accepted = 40, 0
        for dtype, draft_dtype in [("bf16", "int4"), ("int8", "int4"), ("int4", "int8"), ("int4-g128", "int4-asym"),
                                   ("int4-channel", "bf16")]:
            plain = self.generate("-n", n, "--dtype", dtype)["tokens"]
            for length in [1, 2, 5, 8, "auto"]:
                for threads in [1, 2]:
                    with self.subTest(dtype=dtype, draft_dtype=draft_dtype, length=length, threads=threads):
                        document = self.generate("-n", n, "-d", self.draft, "--dtype", dtype, "--draft-dtype", draft_dtype,
                                                 "--draft-len", length, "--threads", threads)
                        self.assertEqual(document["tokens"], plain)
                        accepted += document["speculation"]["accepted"]
        self.assertGreater(accepted, 0, "nothing was ever accepted: the texts are equal for want of a proposal")

    def test_a_screened_head_of_a_draft_changes_no_text(self):
        plain = self.generate("-n", 40)["tokens"]
        for dtype in ["bf16", "int8", "int4"]:
            with self.subTest(dtype):
                here = self.generate("-n", 40, "-d", self.draft, "--draft-dtype", dtype, "--draft-head", "screened")
                self.assertEqual(here["tokens"], plain)
                with self.pilotfish.serve("worker", self.draft, self.socket("screened"), "--dtype", dtype, "--head",
                                          "screened") as worker:
                    there = self.generate("-n", 40, "--draft-worker", worker.address)
                self.assertEqual(there["tokens"], plain)
                self.assertGreater(here["speculation"]["accepted"] + there["speculation"]["accepted"], 0)

    def test_a_bounded_head_of_a_target_changes_no_text(self):
        ids = ["--tokens", "1,2,3", "-n", 40, "--ignore-eos"]
        for dtype in ["f32", "bf16", "bf16-12"]:
            with self.subTest(dtype):
                plain = self.generate("-n", 40, "--dtype", dtype, "--head", "full")["tokens"]
                of_ids = self.run_json("generate", "-m", self.target, "--dtype", dtype, "--head", "full", *ids)["tokens"]
                self.assertEqual(self.generate("-n", 40, "--dtype", dtype, "--head", "bounded")["tokens"], plain)
                self.assertEqual(self.generate("-n", 40, "--dtype", dtype, "--head", "bounded", "-d", self.draft)["tokens"], plain)
                with self.pilotfish.serve("verifier", self.target, self.socket("bounded"), "--dtype", dtype, "--head",
                                          "bounded") as verifier:
                    there = self.run_json("generate", "--verifier", verifier.address, "-d", self.draft, *ids)
                self.assertEqual(there["tokens"], of_ids)
        for seed in range(6):   # flat logits, and the first pass each time: later passes of so small a head are not bounded
            sampled = [self.generate("-n", 3, "--dtype", "bf16", "--head", head, "--temperature", "4", "--seed", seed)["tokens"]
                       for head in ("full", "bounded")]
            self.assertEqual(*sampled)

    def test_a_bounded_head_is_shown_by_info_and_refused_where_unsupported(self):
        tensors = self.run_json("info", "-m", self.target, "--dtype", "bf16", "--head", "bounded")["model"]["tensors"]
        heads = [t for t in tensors if "lm_head" in t["name"] and "gemm" in t["kernel"]]
        self.assertEqual([t["format"].split()[0] for t in heads], ["bf16", "int8"])
        self.assertIn("bounded", heads[1]["reason"])
        for dtype in ["f16", "int8", "int4"]:
            self.assert_fails("info", "-m", self.target, "--dtype", dtype, "--head", "bounded", saying=["bounded head", "bf16"])

    def test_a_screened_head_is_shown_by_info_and_refused_where_unsupported(self):
        for tensor in self.run_json("info", "-m", self.target, "--dtype", "int8", "--head", "screened")["model"]["tensors"]:
            if "gemm" in tensor["kernel"]:
                is_head = "lm_head" in tensor["name"]
                self.assertTrue(tensor["format"].startswith("int4-channel " if is_head else "int8 "), tensor)
                self.assertEqual("screened" in tensor["reason"], is_head)
        self.assert_fails("info", "-m", self.target, "--dtype", "f32", "--head", "screened", saying=["f32", "bf16"])
        self.assert_fails("generate", "-m", self.target, "-p", "a", "-d", self.draft, "--draft-dtype", "f32", "--draft-head",
                          "screened", saying=["f32", "bf16"])
        directory, _ = self.quantize("no-numbers", "int8")
        self.assert_fails("worker", "-m", directory, "--listen", self.socket("never"), "--head", "screened",
                          saying=["int8", "full head"])

    def test_info_names_each_format_with_the_reason(self):
        directory, _ = self.quantize("told", "int4-asym-g128")
        half, _ = self.quantize("half", "f16")
        cases = [(self.target, [], "f32", "the file's matrices are in f32"), (directory, [], "int4-asym-g128", "was quantised to it"),
                 (half, [], "f16", "the file's matrices are in f16")]
        cases += [(self.target, ["--dtype", dtype], dtype, "asked for") for dtype in [*FORMATS, "bf16-12"]]
        for model, arguments, dtype, why in cases:
            with self.subTest(model=model.name, dtype=dtype):
                document = self.run_json("info", "-m", model, *arguments)["model"]
                self.assertEqual(document["dtype"], dtype)
                products = [t for t in document["tensors"] if "proj" in t["name"] or "lm_head" in t["name"]]
                self.assertEqual(len(products), 2 * 5 + 1)
                for tensor in products:
                    panels = "f32" if dtype == "f16" else dtype   # F16 values are held as F32
                    self.assertTrue(tensor["format"].startswith(panels + " "), tensor)
                    self.assertIn(why, tensor["reason"])
                    self.assertIn("gemm", tensor["kernel"])


class Backends(Case):
    def test_onednn_generates_or_is_refused_with_the_reason(self):
        arguments = ["generate", "-m", self.target, "--tokens", "1,2,3", "-n", "8", "--json", "--gemm", "onednn"]
        self.assert_fails(*arguments, "--gemm", "mkl", code=2, saying=["own", "onednn"])
        self.assert_fails(*arguments, "--dtype", "bf16-12", saying=["oneDNN"])
        for dtype in FORMATS:
            with self.subTest(dtype=dtype):
                result = self.pilotfish.run(*arguments, "--dtype", dtype)
                if result.code == 1 and "without oneDNN" in result.err:
                    self.skipTest(result.err.strip())
                if dtype != "f32" and result.code == 1:
                    self.assertIn("on this processor: bf16 needs AVX-512, int8 VNNI", result.err)
                    continue
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual(len(result.json["tokens"]), 8)
                document = self.run_json("info", "-m", self.target, "--gemm", "onednn", "--dtype", dtype)["model"]
                head = next(t for t in document["tensors"] if "lm_head" in t["name"])
                self.assertIn("oneDNN's product was asked for", head["reason"])


if __name__ == "__main__":
    main()
