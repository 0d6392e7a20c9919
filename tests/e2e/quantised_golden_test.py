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
INT8_TOLERANCE = 8e-2  # of activations


class QuantisedGoldenTest(unittest.TestCase):
    engine = None
    cases = []

    def each_case(self):
        for case in self.cases or sorted(d.name for d in MODELS.iterdir() if d.is_dir()):
            with self.subTest(case):
                yield MODELS / case, json.loads((MODELS / case / "expected.json").read_text())

    def test_f32_has_the_logits_of_the_dequantised_weights(self):
        for model, expected in self.each_case():
            tokens = expected["tokens"]
            rows = self.engine.logits(model, tokens)
            off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
            self.assertLessEqual(off, TOLERANCE, f"the logits are off by {off:.2g} of the largest")
            made = self.engine.greedy(model, tokens[:N_PROMPT], len(expected["greedy"]))
            self.assertEqual(made, expected["greedy"])

    def test_the_default_type_rounds_no_weight(self):
        for model, expected in self.each_case():
            is_exact = self.engine.json("info", "-m", model)["model"]["dtype"] == "exact"
            rows = self.engine.logits(model, expected["tokens"], "auto")
            off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
            self.assertLessEqual(off, INT8_TOLERANCE if is_exact else TOLERANCE, f"the logits are off by {off:.2g} of the largest")

    def test_bf16_rounds_the_weights_once_more(self):
        for model, expected in self.each_case():
            rows = self.engine.logits(model, expected["tokens"], "bf16")
            off = distance(expected["logits"], [rows[i] for i in expected["rows"]])
            self.assertLessEqual(off, BF16_TOLERANCE)
            self.assertGreater(off, TOLERANCE)

    def test_info_names_the_scheme(self):
        for model, expected in self.each_case():
            info = self.engine.json("info", "-m", model)["model"]
            self.assertEqual(info["quantization"], expected["says"])
            says = "bit for bit" if info["dtype"] == "exact" else "widened to f32"
            self.assertTrue(any(says in tensor["reason"] for tensor in info["tensors"]))
            text = subprocess.run([self.engine.binary, "info", "-m", str(model), "--dtype", "bf16"], check=True,
                                  capture_output=True, text=True).stdout
            self.assertIn(f"quantised  {expected['says']}", text)
            self.assertIn("rounded once more", text)

    def test_a_file_cut_short_is_refused(self):
        for model, _ in self.each_case():
            weights = (model / "model.safetensors").read_bytes()
            with tempfile.TemporaryDirectory() as scratch:
                (Path(scratch) / "config.json").write_bytes((model / "config.json").read_bytes())
                (Path(scratch) / "model.safetensors").write_bytes(weights[:len(weights) // 2])
                with self.assertRaisesRegex(Refused, "model.safetensors"):
                    self.engine.logits(scratch, [1])

    def test_quantising_again_is_refused_by_the_name_of_the_scheme(self):
        for model, expected in self.each_case():
            with tempfile.TemporaryDirectory() as scratch:
                done = subprocess.run([self.engine.binary, "quantize", "-m", str(model), "-o", f"{scratch}/out",
                                       "--dtype", "int8"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(expected["says"], done.stderr)


if __name__ == "__main__":
    QuantisedGoldenTest.engine = Engine(sys.argv[1])
    QuantisedGoldenTest.cases = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
