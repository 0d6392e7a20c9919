"""What the tests of the command line share: a folder with two models, and what is asserted again and again.

Each file is run as: FILE BINARY [unittest's arguments]
"""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import tiny_llama  # noqa: E402
from command_line import Pilotfish  # noqa: E402

GREEN = b"\x1b[32m"
YELLOW = b"\x1b[33m"
PLAIN = b"\x1b[0m"
PROMPT = "the thin other"
REPLACEMENT = "\ufffd"


def without_colours(text):
    for code in (GREEN, YELLOW, PLAIN):
        text = text.replace(code, b"")
    return text


class Case(unittest.TestCase):
    """Each class has a folder of its own, with a target and a draft that agree often."""

    binary = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        cls.root = Path(cls.folder.name)
        cls.pilotfish = Pilotfish(cls.binary, cls.root)
        cls.target = tiny_llama.make(cls.root / "target", context=2048)
        cls.draft = tiny_llama.make(cls.root / "draft", noise=0.05, context=2048)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_ok(self, *arguments, **options):
        result = self.pilotfish.run(*arguments, **options)
        self.assertEqual(result.code, 0, result.err)
        return result

    def run_json(self, *arguments, **options):
        return self.run_ok(*arguments, "--json", **options).json

    def run_bench(self, *arguments):
        """`bench ARGUMENTS --json`; None where it says that others keep the machine too busy for a figure."""
        result = self.pilotfish.run("bench", *arguments, "--json")
        if result.code == 1 and "measured badly" in result.err:
            return None
        self.assertEqual(result.code, 0, result.err)
        return result.json

    def assert_fails(self, *arguments, code=1, saying=(), **options):
        """Status, nothing on stdout, one sentence on stderr."""
        result = self.pilotfish.run(*arguments, **options)
        self.assertEqual(result.code, code, result.err)
        self.assertFalse(result.out)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        for word in saying:
            self.assertIn(word, result.err)
        return result.err

    def generate(self, *arguments, target=None, prompt=("-p", PROMPT), **options):
        return self.run_json("generate", "-m", target or self.target, *prompt, *arguments, **options)

    def socket(self, name):
        return f"unix:{self.root}/{name}.sock"


class SlowCase(Case):
    """A target slowed down, so that things can happen while it generates."""

    N = 400

    def start_generation(self, address, *arguments, step_ms=5):
        return self.pilotfish.start("generate", "-m", self.target, "--draft-worker", address, "-p", PROMPT, "-n", self.N,
                                    "--simulate-step-ms", step_ms, "--draft-len", "2", *arguments)

    def plain_text(self):
        return self.run_ok("generate", "-m", self.target, "-p", PROMPT, "-n", self.N).out


def main():
    Case.binary = Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
