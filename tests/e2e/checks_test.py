"""The checks of the tree, each in a tree made for one claim.

    checks_test.py [unittest's arguments]
"""

import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pilotfish-test-")
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        shutil.copytree(SCRIPTS, self.tree / "scripts", ignore=shutil.ignore_patterns("__pycache__"))

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self, name, *arguments):
        """-> exit status, stdout."""
        done = subprocess.run([self.tree / "scripts" / name, *arguments], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout

    @unittest.skipUnless(shutil.which("git"), "no git here")
    def test_a_build_in_the_tree_is_passed_over_whatever_its_name(self):
        subprocess.run(["git", "init", "-q", self.tree], check=True)
        self.write(self.tree / "base/status.c", "int x;\n")
        self.write(self.tree / "out/made/status.c", "int x; ")
        cache = self.write(self.tree / "out/CMakeCache.txt", "")
        for name in ("check-names.py", "check-text.py"):
            self.assertEqual(self.check(name)[0], 0)
        cache.unlink()
        for name, saying in (("check-names.py", "status.c: stands at base/status.c and out/made/status.c\n"),
                             ("check-text.py", "out/made/status.c: no line end at the end of the file\n")):
            self.assertIn(saying, self.check(name)[1])


if __name__ == "__main__":
    unittest.main()
