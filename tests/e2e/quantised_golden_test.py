"""Compares the engine with the golden logits of models that other programs quantised: tests/golden/quantised/CASE.

    quantised_golden_test.py BINARY [CASE...]
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
from engine import TOLERANCE, Engine, Refused, distance  # noqa: E402

MODELS = ROOT / "tests" / "golden" / "quantised"
N_PROMPT = 24
BF16_TOLERANCE = 3e-2
INT8_TOLERANCE = 8e-2  # of activations in int8, on so small a model


def has_groups(says):
    """Whether a kernel format holds such weights exactly. Groups of 128 are whole rows of the model that has them."""
    if "groups of 128" in says:
        return True
    return not any(word in says for word in ("act-order", "FP8", "bitsandbytes"))


class QuantisedGoldenTest(unittest.TestCase):
    engine = None
    cases = []

    def for_each_case(self, check):
        for case in self.cases or sorted(d.name for d in MODELS.iterdir() if d.is_dir()):
            with self.subTest(case):
                check(MODELS / case, json.loads((MODELS / case / "expected.json").read_text()))

    def test_f32_has_the_logits_of_the_dequantised_weights(self):
        def check(model, expected):
            tokens = expected["tokens"]
            rows = self.engine.logits(model, tokens)
            off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
            self.assertLessEqual(off, TOLERANCE, f"the logits are off by {off:.2g} of the largest")
            made = self.engine.greedy(model, tokens[:N_PROMPT], len(expected["greedy"]))
            self.assertEqual(made, expected["greedy"])

        self.for_each_case(check)

    def test_groups_are_held_exactly_on_request(self):
        def check(model, expected):
            dtype = "exact" if has_groups(expected["says"]) else "auto"
            rows = self.engine.logits(model, expected["tokens"], dtype)
            off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
            self.assertLessEqual(off, INT8_TOLERANCE if has_groups(expected["says"]) else TOLERANCE)
            info = self.engine.json("info", "-m", model, "--dtype", dtype)["model"]
            self.assertEqual(info["dtype"], "exact" if has_groups(expected["says"]) else "f32")

        self.for_each_case(check)

    def test_a_small_model_has_the_logits_of_f32_by_default(self):
        def check(model, expected):
            self.assertEqual(self.engine.logits(model, expected["tokens"], "auto"),
                             self.engine.logits(model, expected["tokens"], "f32"))
            info = self.engine.json("info", "-m", model)["model"]
            self.assertEqual((info["dtype"], info["act"]), ("exact" if has_groups(expected["says"]) else "f32", "f32"))

        self.for_each_case(check)

    def test_bf16_rounds_the_weights_once_more(self):
        def check(model, expected):
            rows = self.engine.logits(model, expected["tokens"], "bf16")
            off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
            self.assertLessEqual(off, BF16_TOLERANCE)
            self.assertGreater(off, TOLERANCE)

        self.for_each_case(check)

    def test_info_names_the_scheme(self):
        def check(model, expected):
            dtype = "exact" if has_groups(expected["says"]) else "auto"
            info = self.engine.json("info", "-m", model, "--dtype", dtype)["model"]
            self.assertEqual(info["quantization"], expected["says"])
            why = "bit for bit" if has_groups(expected["says"]) else "f32"
            self.assertTrue(any(why in tensor["reason"] for tensor in info["tensors"]))
            text = subprocess.run([self.engine.binary, "info", "-m", str(model), "--dtype", "bf16"], check=True,
                                  capture_output=True, text=True).stdout
            self.assertIn(f"quantised  {expected['says']}", text)
            self.assertIn("rounded once more", text)

        self.for_each_case(check)

    def test_a_file_cut_short_is_refused(self):
        def check(model, _):
            weights = (model / "model.safetensors").read_bytes()
            with tempfile.TemporaryDirectory() as scratch:
                (Path(scratch) / "config.json").write_bytes((model / "config.json").read_bytes())
                (Path(scratch) / "model.safetensors").write_bytes(weights[:len(weights) // 2])
                with self.assertRaisesRegex(Refused, "model.safetensors"):
                    self.engine.logits(scratch, [1])

        self.for_each_case(check)

    def test_a_file_of_the_quantization_alone_is_read(self):
        def check(model, expected):
            config = json.loads((model / "config.json").read_text())
            quantization = config.pop("quantization_config")
            file = {"gptq": "quantize_config.json", "awq": "quant_config.json"}.get(quantization.pop("quant_method"))
            if file is None:
                return
            with tempfile.TemporaryDirectory() as scratch:
                (Path(scratch) / "config.json").write_text(json.dumps(config))
                (Path(scratch) / file).write_text(json.dumps(quantization))
                (Path(scratch) / "model.safetensors").symlink_to(model / "model.safetensors")
                self.assertEqual(self.engine.logits(scratch, expected["tokens"]),
                                 self.engine.logits(model, expected["tokens"]))
                for wrong in ("[]", "7", "{}", '{"bits": 5}', "{"):
                    (Path(scratch) / file).write_text(wrong)
                    with self.assertRaisesRegex(Refused, file):
                        self.engine.logits(scratch, [1])

        self.for_each_case(check)

    def test_quantising_again_is_refused_by_the_name_of_the_scheme(self):
        def check(model, expected):
            with tempfile.TemporaryDirectory() as scratch:
                done = subprocess.run([self.engine.binary, "quantize", "-m", str(model), "-o", f"{scratch}/out",
                                       "--dtype", "int8"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(expected["says"], done.stderr)

        self.for_each_case(check)



if __name__ == "__main__":
    QuantisedGoldenTest.engine = Engine(sys.argv[1])
    QuantisedGoldenTest.cases = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
