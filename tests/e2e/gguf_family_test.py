"""Compares GGUF files of every family that llama.cpp writes with the golden logits of the same model in safetensors.

tests/e2e/gguf_converter.py makes the files. Where the format has no place for a number of config.json, the expected logits are
those of the engine on a config.json that says what the file means; family_golden_test.py compares these with their oracle.

    gguf_family_test.py BINARY [CASE...]
"""

import json
import math
import random
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "oracle"), str(ROOT / "tests" / "e2e")]
from engine import TOLERANCE, Engine, Refused, distance  # noqa: E402
from gguf_converter import ARCHITECTURES, Blocks, Converter, Tensor, Unwritable, convert, join  # noqa: E402
from gguf_converter import split_experts, stack, write_gguf  # noqa: E402

FAMILIES = ROOT / "tests" / "golden" / "families"
N_PROMPT = 33
TOKENS = [1, 5, 9, 100, 3, 77, 42, 8, 12]


def write_meant_model(directory, taken, out):
    """The model directory with what the GGUF file means in its config.json."""
    config = json.loads((directory / "config.json").read_text())
    inner = config.get("text_config", config)
    for field, item in taken.items():
        inner[field] = item
    (out / "config.json").write_text(json.dumps(config))
    (out / "model.safetensors").symlink_to(directory / "model.safetensors")
    return out


class GgufFamilyTest(unittest.TestCase):
    engine = None
    cases = []

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def logits(self, path, tokens=TOKENS):
        return self.engine.logits(path, tokens)

    def convert(self, case, change=None):
        """The file of a case; change: of the converter's metadata and tensors."""
        path = self.folder / f"{case}.gguf"
        converter = Converter(FAMILIES / case)
        taken = converter.convert(path)
        if change is not None:
            change(converter)
            write_gguf(path, converter.metadata, converter.tensors)
        return path, taken

    def test_a_gguf_file_of_each_family_has_the_logits_of_its_directory(self):
        seen, n_ok = set(), 0
        for case in self.cases or sorted(d.name for d in FAMILIES.iterdir() if d.is_dir()):
            with self.subTest(case):
                path = self.folder / f"{case}.gguf"
                try:
                    taken = convert(FAMILIES / case, path)
                except Unwritable:
                    continue
                self.compare(FAMILIES / case, path, taken)
                path.unlink()
                name = json.loads((FAMILIES / case / "config.json").read_text())["architectures"][0]
                seen.add(ARCHITECTURES[name])
                n_ok += 1
        if not self.cases:
            self.assertEqual(seen, set(ARCHITECTURES.values()), "an architecture without a case")
        print(f"{n_ok} cases are right, of {len(seen)} architectures", file=sys.stderr)

    def compare(self, directory, path, taken):
        golden = json.loads((directory / "expected.json").read_text())
        tokens, rows, greedy = golden["tokens"], golden["rows"], golden["greedy"]
        expected = golden["logits"]
        if taken:
            with tempfile.TemporaryDirectory() as folder:
                meant = write_meant_model(directory, taken, Path(folder))
                all_rows = self.logits(meant, tokens)
                greedy = self.engine.greedy(meant, tokens[:N_PROMPT], len(greedy) or 8)
            expected = [all_rows[i] for i in rows]
        found = self.logits(path, tokens)
        off = distance(expected, [found[i] for i in rows])
        self.assertLessEqual(off, TOLERANCE, f"the logits are off by {off:.2g} of the largest")
        if greedy:
            self.assertEqual(self.engine.greedy(path, tokens[:N_PROMPT], len(greedy)), greedy)

    def test_fused_queries_keys_and_values_are_read_in_every_architecture(self):
        def fuse(c):
            for layer in range(c.layers):
                for end in ("weight", "bias"):
                    names = [f"blk.{layer}.attn_{x}.{end}" for x in "qkv"]
                    if names[0] in c.tensors:
                        c.tensors[f"blk.{layer}.attn_qkv.{end}"] = join([c.tensors.pop(n) for n in names])

        for case in ("llama2", "qwen2", "phi", "gemma"):
            with self.subTest(case):
                plain, _ = self.convert(case)
                expected = self.logits(plain)
                fused, _ = self.convert(case, fuse)
                self.assertEqual(self.logits(fused), expected)

    def test_experts_are_read_from_a_tensor_each_and_with_gate_and_up_in_one(self):
        def part(c):
            for name in [n for n in c.tensors if n.endswith("_exps.weight")]:
                for i, expert in enumerate(split_experts(c.tensors.pop(name))):
                    c.tensors[name.replace("_exps", f".{i}")] = expert

        def fuse(c):
            for layer in range(c.layers):
                halves = [split_experts(c.tensors.pop(f"blk.{layer}.ffn_{x}_exps.weight")) for x in ("gate", "up")]
                c.tensors[f"blk.{layer}.ffn_gate_up_exps.weight"] = stack([join(pair) for pair in zip(*halves)])

        for case in ("mixtral", "qwen3_moe"):
            for change in (part, fuse):
                with self.subTest(case, change=change.__name__):
                    plain, _ = self.convert(case)
                    expected = self.logits(plain)
                    changed, _ = self.convert(case, change)
                    self.assertEqual(self.logits(changed), expected)

    def test_a_head_that_is_the_embedding_may_be_there_twice(self):
        def add_head(c):
            c.tensors["output.weight"] = c.tensors["token_embd.weight"]

        for case in ("gpt2", "gemma", "qwen2"):
            with self.subTest(case):
                plain, _ = self.convert(case)
                expected = self.logits(plain)
                twice, _ = self.convert(case, add_head)
                self.assertEqual(self.logits(twice), expected)

    def test_stacked_experts_in_mxfp4_give_the_logits_of_their_elements(self):
        """The layout of the published gpt-oss: 32 elements a block, an exponent and 16 bytes of nibbles."""
        draw, size = random.Random(1), 32
        table = [0, 1, 2, 3, 4, 6, 8, 12]

        def resize(c):
            c.metadata.update({"gpt-oss.embedding_length": size, "gpt-oss.feed_forward_length": size,
                               "gpt-oss.expert_feed_forward_length": size})
            for name, t in c.tensors.items():
                t.shape = [size if n in (20, 24) and "attn_q" not in name and "attn_k" not in name and "attn_v" not in name
                           and not (name.endswith("attn_output.weight") and i == 1) else n for i, n in enumerate(t.shape)]
                if "attn" in name and len(t.shape) == 2 and not name.endswith("attn_output.weight"):
                    t.shape[1] = size
                t.values = [draw.uniform(-0.3, 0.3) for _ in range(math.prod(t.shape))]

        def to_blocks(c):
            for name in [n for n in c.tensors if n.endswith("_exps.weight")]:
                t, raw, values = c.tensors[name], b"", []
                for _ in range(math.prod(t.shape) // 32):
                    exponent, nibbles = draw.randrange(122, 126), bytes(draw.randrange(256) for _ in range(16))
                    raw += bytes([exponent]) + nibbles
                    for shift in (0, 4):
                        values += [table[b >> shift & 7] * (-1 if b >> shift & 8 else 1) * 2.0 ** (exponent - 128) for b in nibbles]
                c.tensors[name] = Blocks(t.shape, 39, raw)
                wide[name] = Tensor(t.shape, values)

        wide = {}
        path = self.folder / "blocks.gguf"
        converter = Converter(FAMILIES / "gpt_oss")
        converter.convert(path)
        resize(converter)
        to_blocks(converter)
        write_gguf(path, converter.metadata, converter.tensors)
        found = self.logits(path)
        converter.tensors.update(wide)
        write_gguf(path, converter.metadata, converter.tensors)
        self.assertEqual(found, self.logits(path))

    def assert_refused(self, case, change, *words):
        path, _ = self.convert(case, change)
        with self.assertRaises(Refused) as caught:
            self.logits(path)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_keys_that_change_logits_and_are_not_computed_are_refused_by_name(self):
        keys = [("llama", "llama.attention.sliding_window", 7), ("llama", "llama.logit_scale", 0.5),
                ("llama", "llama.attention.causal", False), ("llama", "llama.rope.scaling.yarn_ext_factor", 0.5),
                ("llama", "llama.rope.scaling.attn_factor", 2.0), ("mixtral", "llama.expert_gating_func", 2),
                ("mixtral", "llama.expert_weights_scale", 2.5), ("qwen3", "qwen3.attention.scale", 0.3),
                ("olmo2", "olmo2.attention.sliding_window", 7), ("llama", "llama.rope.dimension_count", 4),
                ("qwen2", "qwen2.some_new_factor", 2), ("mpt", "mpt.attention.max_alibi_bias", 4.0),
                ("glm4", "glm4.nextn_predict_layers", 1), ("llama", "llama.attention.value_length", 4)]
        for case, key, value in keys:
            with self.subTest(key):
                shown = {"mpt.attention.max_alibi_bias": "alibi_bias_max"}.get(key, key)
                self.assert_refused(case, lambda c, k=key, v=value: c.metadata.update({k: v}), shown)

    def test_keys_that_are_off_are_ignored(self):
        keys = {"expert_count": 0, "expert_weights_scale": 1.0, "logit_scale": 1.0, "attention.causal": True,
                "attention.sliding_window": 0, "vocab_size": 113, "pooling_type": 0, "expert_gating_func": 1}
        expected = self.logits(self.convert("qwen3")[0])
        path, _ = self.convert("qwen3", lambda c: c.metadata.update({f"qwen3.{k}": v for k, v in keys.items()}))
        self.assertEqual(self.logits(path), expected)

    def test_tensors_that_no_role_has_are_refused_by_name(self):
        vector = Tensor([24], [1.0] * 24)
        for case, name in (("llama", "blk.0.attn_q_norm.weight"), ("llama", "token_embd_norm.weight"),
                           ("mpt", "blk.0.attn_norm.bias"), ("mpt", "position_embd.weight"), ("gpt2", "cls.weight")):
            with self.subTest(name):
                self.assert_refused(case, lambda c, n=name: c.tensors.update({n: vector}), name)

    def test_the_layers_behind_the_last_are_not_used(self):
        def add_layer(c):
            c.tensors["blk.2.attn_norm.weight"] = c.tensors["blk.1.attn_norm.weight"]

        expected = self.logits(self.convert("llama")[0])
        self.assertEqual(self.logits(self.convert("llama", add_layer)[0]), expected)

    def test_windows_follow_the_pattern_of_the_file(self):
        """A number and a list with the same meaning give the same, another list something else."""
        tokens = json.loads((FAMILIES / "gemma2" / "expected.json").read_text())["tokens"]

        def with_pattern(pattern):
            path, _ = self.convert("gemma2", lambda c: c.metadata.update({"gemma2.attention.sliding_window_pattern": pattern}))
            return self.logits(path, tokens)

        expected = self.logits(self.convert("gemma2")[0], tokens)
        self.assertEqual(with_pattern(2), expected)
        self.assertEqual(with_pattern([True, False, True]), expected)
        self.assertNotEqual(with_pattern([False, False, True]), expected)
        self.assertNotEqual(with_pattern(1), expected)

    def test_a_list_of_windows_that_is_too_short_is_refused(self):
        key = "gemma2.attention.sliding_window_pattern"
        self.assert_refused("gemma2", lambda c: c.metadata.update({key: [True, False]}), key)
        self.assert_refused("gemma2", lambda c: c.metadata.update({key: "often"}), key)

    def test_longrope_needs_both_sets_of_factors(self):
        for name in ("rope_factors_short.weight", "rope_factors_long.weight"):
            with self.subTest(name):
                self.assert_refused("phi3_longrope", lambda c, n=name: c.tensors.pop(n), name)


if __name__ == "__main__":
    GgufFamilyTest.engine = Engine(sys.argv[1])
    GgufFamilyTest.cases = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
